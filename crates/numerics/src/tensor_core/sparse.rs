//! Structured sparsity: the positions of the kept elements of A in its full rows.
//!
//! The terms of a sparse sum are the kept products only. Dropped elements are not zero terms, which would take part in the
//! choice of the largest exponent. On an H100, `mma.sp.m16n8k32` is one fused sum of its 16 kept products and C (measured).
//!
//! Source: PTX ISA "Matrix multiply-accumulate operation using mma.sp instruction with sparse matrix A".

use super::{MmaForm, MmaShape, Model, mma};

/// A sparsity pattern: how many elements of a group are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Sparsity {
    /// 1 of 2: `tf32`.
    OneOfTwo,
    /// 2 of 4: 16-bit and 8-bit elements.
    TwoOfFour,
    /// 4 of 8, as two pairs of adjacent elements: 4-bit elements.
    PairsOfEight,
}

impl Sparsity {
    /// Metadata bits per kept element, or per kept pair.
    #[must_use]
    pub const fn index_bits(self) -> u32 {
        match self {
            // 0b1110 keeps the second element, 0b0100 the first: two indices into halves of 16 bits.
            Self::OneOfTwo => 4,
            Self::TwoOfFour | Self::PairsOfEight => 2,
        }
    }

    /// Number of kept elements whose position one metadata field encodes.
    #[must_use]
    pub const fn elements_per_index(self) -> usize {
        match self {
            Self::OneOfTwo | Self::TwoOfFour => 1,
            Self::PairsOfEight => 2,
        }
    }

    /// Returns the position in the full row of kept element `kept` with metadata field `index`.
    #[must_use]
    pub const fn position(self, kept: usize, index: u32) -> usize {
        match self {
            Self::OneOfTwo => kept * 2 + ((index >> 1) & 1) as usize,
            Self::TwoOfFour => kept / 2 * 4 + (index & 3) as usize,
            Self::PairsOfEight => kept / 4 * 8 + (index & 3) as usize * 2 + kept % 2,
        }
    }
}

/// Expands A to full rows: `kept` holds `[m][k/2]` elements, `index` their metadata fields, `[m][k/2]` divided by
/// [`Sparsity::elements_per_index`]. Dropped elements become code 0.
#[must_use]
pub fn sparse_expand(sparsity: Sparsity, m: usize, k: usize, kept: &[u32], index: &[u32]) -> Vec<u32> {
    let mut out = vec![0; m * k];
    let half = k / 2;
    let per_index = sparsity.elements_per_index();
    for row in 0..m {
        for element in 0..half {
            let field = index.get((row * half + element) / per_index).copied().unwrap_or(0);
            let position = row * k + sparsity.position(element, field);
            let code = kept.get(row * half + element).copied().unwrap_or(0);
            if let Some(slot) = out.get_mut(position) {
                *slot = code;
            }
        }
    }
    out
}

/// Computes a sparse `mma`: `form` has the full K, `a` the kept elements `[m][k/2]`, and `index` their metadata fields as in
/// [`sparse_expand`]; the other parameters are those of [`mma`].
#[expect(clippy::too_many_arguments, reason = "the operands of one instruction, each a matrix")]
pub fn mma_sparse(
    model: Model,
    form: &MmaForm,
    sparsity: Sparsity,
    a: &[u32],
    index: &[u32],
    b: &[u32],
    c: &[u32],
    sfa: &[u32],
    sfb: &[u32],
    d: &mut [u32],
) {
    let MmaShape { m, n, k } = form.shape;
    let half = k / 2;
    let one_row = MmaForm { shape: MmaShape { m: 1, n, k: half }, ..*form };
    let chunks = form.scale.map_or(0, |(_, chunks)| chunks as usize);
    let mut met = vec![0; n * half];
    for row in 0..m {
        for element in 0..half {
            let field = (row * half + element) / sparsity.elements_per_index();
            let place = sparsity.position(element, index.get(field).copied().unwrap_or(0));
            for column in 0..n {
                met[column * half + element] = b.get(column * k + place).copied().unwrap_or(0);
            }
        }
        let (Some(kept), Some(addend), Some(out)) =
            (a.get(row * half..), c.get(row * n..), d.get_mut(row * n..))
        else {
            return;
        };
        let scales = sfa.get(row * chunks..).unwrap_or_default();
        mma(model, &one_row, kept, &met, addend, scales, sfb, out);
    }
}
