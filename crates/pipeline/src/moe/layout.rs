//! Converts logical tensors to the layouts that kernels read: rows padded along K, scales in the 128x4 or 8x4 layout.
//!
//! K is padded to a multiple of 128. Where a kernel multiplies the padding, the producer's contract is zero codes and finite
//! scales; memory that must not be read is filled with [`POISON`].

use numerics::scale_layout::ScaleLayout;

use super::format::BlockScale;
use crate::moe::case::Format;

/// The fill byte for memory that must not be read: NaN as a scale, as an e4m3 code, and as a bf16 or f32.
pub const POISON: u8 = 0xFF;

/// Returns the elements along K, rounded up to a multiple of 128: four scales are one word.
#[must_use]
pub const fn padded(k: usize) -> usize {
    k.next_multiple_of(128)
}

/// Returns the row of the scale matrix at which an expert begins whose first permuted row is `first`: always a multiple of 128
/// (FlashInfer `compute_sm120_cutlass_group_gemm_args`; docs/numerics.md, 10.2).
#[must_use]
pub const fn scale_row_of_expert(first: usize, expert: usize) -> usize {
    (first + expert * 127) / 128 * 128
}

/// Returns the number of rows of the scale matrix for `rows` permuted rows of `experts`.
#[must_use]
pub const fn token_scale_rows(rows: usize, experts: usize) -> usize {
    (rows + experts * 127) / 128 * 128 + 128
}

/// The contents of the padding along K.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KPad {
    /// Zero codes and scales of one: kernels multiply it.
    Zeros,
    /// [`POISON`]: kernels stop before it.
    Poison,
}

/// Pads rows of codes from `k` to `padded(k)` elements.
#[must_use]
pub fn pad_codes(format: Format, codes: &[u8], k: usize, pad: KPad) -> Vec<u8> {
    let (from, to) = (format.bytes(k), format.bytes(padded(k)));
    let fill = if pad == KPad::Zeros { 0 } else { POISON };
    let mut out = vec![fill; codes.len() / from.max(1) * to];
    for (row, source) in out.chunks_exact_mut(to).zip(codes.chunks_exact(from)) {
        row[..from].copy_from_slice(source);
    }
    out
}

/// Converts the experts' block scales, row-major `[experts, rows, blocks of k]`, to one matrix in `layout` for each expert.
#[must_use]
pub fn weight_scales(
    format: Format,
    scales: &[u8],
    rows: usize,
    k: usize,
    layout: ScaleLayout,
    pad: KPad,
) -> Vec<u8> {
    let (blocks, columns) = (format.scales(k), format.scales(padded(k)));
    let one = format.scale().map_or(POISON, BlockScale::one);
    let matrix = layout.size(rows, columns);
    let experts = scales.len() / (rows * blocks).max(1);
    let mut out = vec![POISON; experts * matrix];
    for (expert, to) in out.chunks_exact_mut(matrix).enumerate() {
        for row in 0..rows {
            for column in 0..columns {
                let at = (expert * rows + row) * blocks + column;
                let value = match scales.get(at).filter(|_| column < blocks) {
                    Some(scale) => *scale,
                    None if pad == KPad::Zeros => one,
                    None => POISON,
                };
                to[layout.offset(row, column, columns)] = value;
            }
        }
    }
    out
}
