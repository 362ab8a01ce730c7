//! Snippets: PTX template files, their axes expanded into variants, and the claims people make about them.
//!
//! A snippet is one file `ptx_snippets/<family>/<stem>.ptx`. A `//@` header names its axes; a variant's id is the stem
//! followed by one value per axis, joined by dots. A file without a header is also a snippet, with one variant that is
//! judged as written and with `.version` and `.target` rewritten. CONTRIBUTING.md documents the format.

mod axes;
mod claim;
mod filter;
mod library;
mod model;
mod scaffold;
mod template;

pub use axes::{Assignment, Condition, Value, Values};
pub use claim::Claim;
pub use filter::{Filter, FilterError};
pub use library::{Library, SnippetError};
pub use model::preamble;
pub use model::{AsWritten, Code, Execute, Grant, Header, LANE_BYTES, Snippet, Variant};
pub use scaffold::{NewSnippetError, create as create_snippet};
