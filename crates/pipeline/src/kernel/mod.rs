//! Loads `kernels/`: CUDA C++ files whose `//@` header tells the pipeline how to compile and launch them.

mod expression;
mod library;
mod model;

pub use expression::{ExpressionError, NAMES, Names, evaluate};
pub use library::{KernelError, Library, Variant};
pub use model::{Atomics, Contract, ExpKind, FormatNeeds, KOrder, Kernel, KernelStage, Load, MmaPath};
