//! The minimum traffic and arithmetic of a stage: inputs read once, outputs written once, padding as stored.

use numerics::scale_layout::ScaleLayout;

use crate::moe::Dims;
use crate::moe::Stage;
use crate::moe::case::{Format, FormatPair};
use crate::moe::layout::padded;

/// Bytes and operations of a stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes read or written.
    pub bytes: u64,
    /// The part of `bytes` that is weights and their scales.
    pub weights: u64,
    /// Multiplications and additions of real rows.
    pub operations: u64,
    /// Multiplications and additions including the rows that pad tiles.
    pub multiplied: u64,
}

/// Returns the work of a stage. `counts` is the number of rows of each expert; GEMMs use tiles of `tile_m` rows.
#[must_use]
pub fn work(stage: Stage, pair: FormatPair, dims: Dims, counts: &[usize], tile_m: usize) -> Work {
    let (t, rows) = (dims.tokens, counts.iter().sum::<usize>());
    let (h, i, n) = (dims.hidden, dims.inter, dims.fc1_cols());
    // Codes and block scales.
    let format = pair.activation();
    let quantized = |k: usize| rows * (format.bytes(padded(k)) + format.scales(padded(k)));
    let plain = |bytes: usize| Work { bytes: bytes as u64, ..Work::default() };
    match stage {
        // Logits; then an expert id and a weight per choice.
        Stage::Route => plain(4 * t * dims.routed() + 8 * rows),
        // Expert ids; then token, expert and position of each row, and the offsets of experts.
        Stage::Permute => plain(4 * rows + 12 * rows + 4 * (dims.experts + 1)),
        Stage::Quantize => plain(2 * t * h + 4 * rows + quantized(h)),
        Stage::Activation | Stage::Requantize => plain(2 * rows * n + quantized(i)),
        Stage::Finalize => plain(2 * rows * h + 8 * rows + 2 * t * h),
        Stage::Fc1 => gemm(pair.weight(), counts, tile_m, (n, h), quantized(h)),
        Stage::Fc2 => gemm(pair.weight(), counts, tile_m, (h, i), quantized(i)),
    }
}

fn gemm(format: Format, counts: &[usize], tile_m: usize, (n, k): (usize, usize), tokens: usize) -> Work {
    let active = counts.iter().filter(|rows| **rows > 0).count();
    let rows: usize = counts.iter().sum();
    let full: usize = counts.iter().map(|rows| rows.next_multiple_of(tile_m.max(1))).sum();
    let expert = n * format.bytes(padded(k)) + ScaleLayout::Tile128x4.size(n, format.scales(padded(k)));
    let weights = active * expert;
    let operations = |rows: usize| 2 * rows as u64 * n as u64 * k as u64;
    Work {
        // Weights and scales, f32 biases, activations and the bf16 output.
        bytes: (weights + 4 * active * n + tokens + 2 * rows * n) as u64,
        weights: weights as u64,
        operations: operations(rows),
        multiplied: operations(full),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: FormatPair = FormatPair::Mxfp8Mxfp4;
    const OSS: Dims = Dims { tokens: 16, hidden: 2880, inter: 2880, experts: 128, top_k: 4, shared: 0 };

    #[test]
    fn a_decode_step_of_gpt_oss_is_its_weights() {
        // 64 rows, each for a different expert.
        let counts: Vec<usize> = (0..128).map(|e| usize::from(e < 64)).collect();
        let fc1 = work(Stage::Fc1, PAIR, OSS, &counts, 8);
        // 5760 rows of 2944 four-bit codes, and 5760 rows (45 tiles of 128) of 92 scales.
        assert_eq!(fc1.weights, 64 * (5760 * 1472 + 5760 * 92));
        assert_eq!(fc1.bytes, fc1.weights + 64 * 5760 * 4 + 64 * (2944 + 92) + 64 * 5760 * 2);
        assert_eq!(fc1.operations, 2 * 64 * 5760 * 2880);
        assert_eq!(fc1.multiplied, 8 * fc1.operations);
        // 2880 rows of scales fill 23 tiles of 128.
        assert_eq!(work(Stage::Fc2, PAIR, OSS, &counts, 8).weights, 64 * (2880 * 1472 + 2944 * 92));
        let route = work(Stage::Route, PAIR, OSS, &counts, 8);
        assert_eq!((route.bytes, route.operations), (16 * 128 * 4 + 64 * 8, 0));
        assert_eq!(work(Stage::Fc1, PAIR, OSS, &[0; 128], 8), Work::default());
    }
}
