//! Bit-exact models of tensor-core accumulation, one per architecture.
//!
//! A floating-point `mma` is a fused sum: products are exact, every term is truncated toward zero at a fixed position below
//! the largest exponent, and the truncated terms are added exactly and converted once. Positions and lengths depend on the
//! architecture.
//! Sources: Xie et al., "MMA-Sim" (arXiv 2511.10909) and its package `mmasim` 2.1.1; Khattak and Mikaitis (arXiv
//! 2512.07004). The recorded vectors of an H100 confirm [`Model::Sm90`], those of MMA-Sim [`Model::Sm120`].

mod double;
mod exact;
mod groups;
mod integer;
mod model;
mod operand;
mod products;
mod proof;
mod quad;
mod sparse;
mod step_bound;

pub use double::mma_f64;
pub use exact::mma_exact;
pub use integer::{BitOp, Integer, mma_b1, mma_integer};
pub use model::{Kind, Model, Output, Rule};
pub use proof::{Part, Proof};
pub use quad::mma_quad;
pub use sparse::{Sparsity, mma_sparse, sparse_expand};
pub use step_bound::{Accumulation, Rows, pair_bound};

use super::format::Format;

/// Rows, columns and depth of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct MmaShape {
    /// Rows of A and D.
    pub m: usize,
    /// Columns of B and D.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
}

/// The shape and formats of a floating-point `mma`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct MmaForm {
    /// The shape.
    pub shape: MmaShape,
    /// Element format of A.
    pub a: Format,
    /// Element format of B.
    pub b: Format,
    /// Element format of C and D: `F32` or `F16`.
    pub accumulator: Format,
    /// Block scales: their format and the number of scales along K.
    pub scale: Option<(Format, u32)>,
}

/// Computes `D = A·B + C` of `form` as the hardware of `model` does.
///
/// * `a`: codes `[M][K]`; `b`: codes `[N][K]`, one row per column of B.
/// * `c`, `d`: bits `[M][N]`; binary16 in the low half.
/// * `sfa`, `sfb`: scale codes `[M][chunks]` and `[N][chunks]`; empty without scales.
///
/// A slice that is too short is treated as zero-padded; elements of `d` beyond `[M][N]` are left unchanged.
#[expect(clippy::too_many_arguments, reason = "the operands of one instruction, each a matrix")]
pub fn mma(
    model: Model,
    form: &MmaForm,
    a: &[u32],
    b: &[u32],
    c: &[u32],
    sfa: &[u32],
    sfb: &[u32],
    d: &mut [u32],
) {
    let operands = Operands { a, b, c, sfa, sfb };
    let rule = model.rule(form);
    match rule.kind {
        Kind::Products if products::fits(form, &operands, d) => {
            products::mma_products(model, &rule, form, &operands, d);
        }
        Kind::Groups(_) if groups::fits(form, &operands, d) => {
            groups::mma_groups(model, &rule, form, &operands, d);
        }
        _ => mma_exact(model, form, a, b, c, sfa, sfb, d),
    }
}

/// The operands of one instruction.
#[derive(Clone, Copy)]
struct Operands<'a> {
    a: &'a [u32],
    b: &'a [u32],
    c: &'a [u32],
    sfa: &'a [u32],
    sfb: &'a [u32],
}
