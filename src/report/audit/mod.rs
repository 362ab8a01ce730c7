//! The audit of device code as text, Markdown, CSV and SARIF; its JSON is the record.

mod advice;
mod csv;
mod draw;
mod exceptions;
mod page;
mod rollup;
mod sarif;

pub use csv::audit_csv;
pub use draw::{audit_markdown, audit_text};
pub use sarif::audit_sarif;
