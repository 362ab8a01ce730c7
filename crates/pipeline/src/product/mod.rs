//! A product of two matrices: judged by the bound that is derived for it, and explained where it is wrong.
//!
//! Begin with [`Product`]: two operands ([`matrix`], stored in an [`OperandFormat`]), a bias, and how a kernel sums ([`bound`]). [`explain`] searches for what explains wrong
//! elements among the changes of a table (`changes.rs`); what kernels of any family do wrong with operands and results stands in `faults.rs`,
//! which the judge of the MoE reads, too. The search itself is [`crate::frame::search`].

pub(crate) mod arithmetic;
pub mod bound;
mod changes;
mod explain;
pub(crate) mod faults;
mod format;
pub mod matrix;

pub use bound::{Bound, Bounds, ResultType, Sum};
pub use explain::explain;
pub use format::OperandFormat;
pub use matrix::{Matrix, Scaled};

/// A product a·bᵀ plus a bias, as a kernel computes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    /// M rows of K elements.
    pub a: Matrix,
    /// N rows of K elements.
    pub b: Matrix,
    /// One number for each of N columns.
    pub bias: Option<Vec<f64>>,
    /// How products are summed.
    pub sum: Sum,
    /// The type to which the sum is rounded once.
    pub result: ResultType,
}
