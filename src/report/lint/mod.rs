//! The results of lint for the terminal, as Markdown, JSON, CSV, and as findings.

mod findings;
mod gates;
mod markdown;
mod rows;
mod terminal;
mod words;

pub use findings::lint_findings;
pub use gates::{gates_csv, gates_findings, gates_json, gates_markdown, gates_sarif, gates_text};
pub use markdown::lint_markdown;
pub use rows::{lint_csv, lint_json};
pub use terminal::lint_text;
