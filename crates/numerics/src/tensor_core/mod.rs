//! What a tensor core computes: named accumulation models, bit for bit.
//!
//! A floating-point `mma` is one fused sum: products are exact, every term is cut toward zero at a fixed place below
//! the largest exponent, the rest is added exactly and converted once. Places and lengths differ per architecture.
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

pub use double::mma_f64;
pub use exact::mma_exact;
pub use integer::{BitOp, Integer, mma_b1, mma_integer};
pub use model::{Kind, Model, Output, Rule};
pub use proof::{Part, Proof};
pub use quad::mma_quad;
pub use sparse::{Sparsity, mma_sparse, sparse_expand};

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

/// A floating-point `mma` as far as its numbers go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct MmaForm {
    /// Its shape.
    pub shape: MmaShape,
    /// Elements of A.
    pub a: Format,
    /// Elements of B.
    pub b: Format,
    /// Elements of C and D: `F32` or `F16`.
    pub accumulator: Format,
    /// Block scales: their format and how many of them cover K.
    pub scale: Option<(Format, u32)>,
}

/// `D = A·B + C` of `form` as `model` computes it.
///
/// * `a`: codes `[M][K]`; `b`: codes `[N][K]`, one row per column of B.
/// * `c`, `d`: bits `[M][N]`; binary16 in the low half.
/// * `sfa`, `sfb`: scale codes `[M][chunks]` and `[N][chunks]`; empty without scales.
///
/// A slice that is too short counts as filled up with zeros; `d` keeps what lies beyond `[M][N]`.
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

/// The operands of one instruction, as its caller gave them.
#[derive(Clone, Copy)]
struct Operands<'a> {
    a: &'a [u32],
    b: &'a [u32],
    c: &'a [u32],
    sfa: &'a [u32],
    sfb: &'a [u32],
}
