//! Loads `kernels/`: CUDA C++ files whose `//@` header is the plug between a kernel and the pipeline.

mod expression;
mod library;
mod model;

pub use expression::{ExpressionError, NAMES, Names, evaluate};
pub use library::{KernelError, Library, Variant};
pub use model::{Atomics, Contract, ExpKind, FormatNeeds, KOrder, Kernel, KernelStage, Load, MmaPath};
