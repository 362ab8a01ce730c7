//! The capability matrix: selects cells, judges them in batches, and interprets the answers.
//!
//! ptxas reports every offending line of a file in one run. One file per (toolkit, target, arch) therefore holds many
//! variants as entries; offenders are identified by line, and the rest is assembled again until ptxas accepts it. An
//! acceptance is always observed, never inferred. Answers are cached per cell, so one new variant costs one assembly.

mod assembler;
mod batch;
mod capability;
mod claims;
mod diagnostics;
mod entries;
mod job;
mod kinds;
mod pack;
mod plan;
mod sass;
mod verify;

pub use assembler::{FileAnswer, ask_file};
pub use capability::{Capabilities, Granting, Lack, granting};
pub use diagnostics::{Diagnostic, Severity};
pub use job::scratch;
pub use job::{Figures, MatrixError, Options, run};
pub use kinds::{Meaning, classify, meaning};
pub use plan::{Plan, PlanError, Selection};
pub use sass::Dictionary;
pub use verify::{Difference, Verification, verify};
