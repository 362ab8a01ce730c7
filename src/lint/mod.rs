//! Lint: checks PTX against toolkits and targets; reports the lines that ptxas rejects and alternatives that it accepts.
//!
//! Every ptxas assembles a file as written, and with `.version` and `.target` rewritten. If it rejects the file as written, smaller
//! changes are tried one at a time. Nothing is inferred: each reported acceptance was observed. A toolkit that does not support a
//! target provides no information about the file.

mod ask;
mod cuda;
mod gates;
mod instead;
mod known;
mod module;
mod nearest;
mod phrase;
mod result;
mod source;
mod statement;
mod trial;

pub use self::cuda::{CudaFile, CudaLine};
pub use ask::Assemblers;
pub use gates::{GateFile, GateLint, GateRow, GateRule, GateTest, Need, lint_gates, lint_text, need};
pub(crate) use instead::text_of;
pub use instead::{Instead, InsteadError, table as instead_table};
pub use module::{Asked, lint};
pub(crate) use phrase::ranges;
pub use result::{
    CellRow, CureRow, FileRow, Form, InsteadRow, KnownRow, Lint, ModuleRow, ProblemRow, RefusalRow, Require,
    WarningRow,
};
pub use source::{Module, SIZE_LIMIT, STDIN, Source, SourceError};
