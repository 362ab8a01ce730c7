//! Lint: any PTX over toolkits and targets, with the line that each refuses and what would be accepted in its place.
//!
//! A file is put to every ptxas as written and with `.version` and `.target` rewritten; where it is refused as written, the
//! smaller changes are tried, one by one. Nothing is inferred: an acceptance was seen. A toolkit that does not know a
//! target says nothing about the file.

mod ask;
mod gates;
mod instead;
mod module;
mod phrase;
mod result;
mod source;
mod statement;

pub use ask::Assemblers;
pub use gates::{GateFile, GateLint, GateRow, GateRule, GateTest, Need, lint_gates, lint_text, need};
pub use instead::{Instead, InsteadError, table as instead_table};
pub use module::{Asked, lint};
pub(crate) use phrase::ranges;
pub use result::{
    CellRow, CureRow, FileRow, Form, InsteadRow, Lint, ModuleRow, ProblemRow, RefusalRow, Require, WarningRow,
};
pub use source::{Module, SIZE_LIMIT, STDIN, Source, SourceError};
