//! Loads `kernels/`: CUDA C++ files whose `//@` header names their family and says how to compile and launch them.

mod expression;
mod library;
mod model;

pub use expression::{ExpressionError, Names, evaluate};
pub use library::{Check, KernelError, Library};
pub use model::{
    Atomics, BlockScaleRule, ExpKind, FactorRule, FormatNeeds, KOrder, Kernel, KernelContract, Load, MmaPath,
    Quantization, QuotientRounding,
};
