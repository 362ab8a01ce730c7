//! Jobs: the work behind each command, from typed options to typed results. Progress goes to a sink; nothing here prints.

mod audit;
pub mod build;
pub mod campaign;
mod compiler;
mod context;
mod error;
mod exec;
mod gpu;
mod kernels;
pub mod launch;
mod mutants;
pub mod ptxas;
mod tiles;
mod toolchain;
mod trials;
mod whole;

pub use audit::{AuditOptions, Audited, audit};
pub use compiler::nvrtc;
pub use context::Context;
pub use emulator::events::ViolationRecord as ExecViolation;
pub use error::JobError;
pub use exec::{
    AssembleError, Assembled, DifferingResults, ExecError, Executed, Execution, KernelLaunches, assemble,
    exec, is_assembler,
};
pub use gpu::{Question, chain, code_of, limits, open, row, variants_on_emulator, variants_on_gpu};
pub use kernels::{Folder, OfKernels, kernels};
pub use mutants::MutantOptions;
pub use tiles::{POLICY_MODEL, TILE_TARGET, TileOptions, policies, tile_table};
pub use toolchain::{Toolchain, ptxas};
pub use trials::{OfTarget, Ran, TARGETS, admitted, for_targets, run};
pub use whole::{Job, Options, check_filters, snippets};
