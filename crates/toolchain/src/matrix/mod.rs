//! The capability matrix: which cells to ask, asking them in batches, and what the answers mean.
//!
//! ptxas reports every offending line of a file in one run. So one file per (toolkit, target, arch) holds many variants
//! as entries; offenders are sorted out by line, and the rest is assembled again until ptxas accepts it: an acceptance is
//! always seen, never inferred. Answers are cached per cell, so one new variant assembles one variant.

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
