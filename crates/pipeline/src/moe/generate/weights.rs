//! Weights, scales and biases of the routed experts.

use rayon::prelude::*;

use super::{UE4M3_STEPS, globals, step};
use crate::moe::case::{Case, Format, Regime};
use crate::moe::contract::Settings;
use crate::moe::dims::{BLOCK, Dims};
use crate::moe::error::MoeError;
use crate::moe::format::{BlockScale, Element};
use crate::moe::random::{Purpose, Stream};
use crate::moe::reference::formats;
use crate::moe::tensors::{Array, Tensors};

/// e2m1 codes in one random word.
const CODES: usize = 16;

/// Where scale codes of `exact` and `impulse` start: FC1 then gives values of the size that the activation is made for.
const EXACT_SCALE: u8 = 127 - 10;

/// The unit of biases in `exact` and `impulse`: the lowest bit that a product of hidden state and weight has there, 2^-2
/// (hidden) · 2^-1 (e2m1) · 2^-10 (scale). A bias is so many of it at most.
const BIAS_UNIT: f32 = 1.0 / 8192.0;
const BIAS_LARGEST: u64 = 15;

/// Scale codes of a normal distribution of deviation 2^-4 quantised to MXFP4, by how often of 8 they come. FC1 then gives
/// values on both sides of the clamp at 7.
const REAL_SCALES: [u8; 8] = [121, 122, 122, 122, 122, 122, 123, 123];

/// Scale codes of such a distribution quantised to NVFP4 with a global scale near 2^-10: 8 to 30.
const REAL_UE4M3: u8 = 0x50;
const REAL_UE4M3_COUNT: u64 = 16;
/// Deviation of e4m3 codes in `real`.
const REAL_E4M3: f64 = 140.0;

/// With global scales, biases of `exact` and `impulse` are so many times a 2^-10 of the weights': products of the codes are
/// multiples of 2^-2, of their scales of 2^-6, and activations' global scales of 2^-2.
const GLOBAL_BIAS_UNIT: f32 = 1.0 / 1024.0;

/// Deviation of biases in `real`.
const REAL_BIAS: f64 = 0.25;

/// One of the two grouped GEMMs.
struct Matrix {
    rows: usize,
    cols: usize,
    blocks: Purpose,
    scales: Purpose,
    global: Purpose,
    bias: Purpose,
}

/// Weights, scales and bias of one matrix of all experts.
struct Made {
    format: Format,
    blocks: Array<u8>,
    scales: Array<u8>,
    global: Option<Array<f32>>,
    bias: Array<f32>,
}

/// Fills the weight fields of `inputs`; `experts` are the routed ones, ascending.
pub(super) fn weights(
    case: &Case,
    dims: &Dims,
    seed: u64,
    experts: &[usize],
    inputs: &mut Tensors,
) -> Result<(), MoeError> {
    let w13 = Matrix {
        rows: dims.fc1_cols(),
        cols: dims.hidden,
        blocks: Purpose::W13,
        scales: Purpose::W13Scale,
        global: Purpose::W13Global,
        bias: Purpose::W13Bias,
    };
    let w2 = Matrix {
        rows: dims.hidden,
        cols: dims.inter,
        blocks: Purpose::W2,
        scales: Purpose::W2Scale,
        global: Purpose::W2Global,
        bias: Purpose::W2Bias,
    };
    let mut w13 = w13.make(case, seed, experts)?;
    let mut w2 = w2.make(case, seed, experts)?;
    if case.regime == Regime::Special {
        specials(&mut w13, &mut w2);
    }
    (inputs.w13_blocks, inputs.w13_scales, inputs.w13_bias) =
        (Some(w13.blocks), Some(w13.scales), Some(w13.bias));
    (inputs.w2_blocks, inputs.w2_scales, inputs.w2_bias) = (Some(w2.blocks), Some(w2.scales), Some(w2.bias));
    (inputs.w13_global, inputs.w2_global) = (w13.global, w2.global);
    if Settings::from_case(case).has_calibrated_scales() {
        inputs.a1_global = Some(globals::activations(case, seed, Purpose::A1Global, experts)?);
        inputs.a2_global = Some(globals::activations(case, seed, Purpose::A2Global, experts)?);
    }
    Ok(())
}

impl Matrix {
    fn make(&self, case: &Case, seed: u64, experts: &[usize]) -> Result<Made, MoeError> {
        let (rows, cols, n) = (self.rows, self.cols, experts.len());
        let exact = matches!(case.regime, Regime::Exact | Regime::Impulse);
        let format = case.pair.weight();
        let (row_bytes, row_scales) = (format.bytes(cols), format.scales(cols));
        let mut blocks = vec![0; n * rows * row_bytes];
        let mut scales = vec![0; n * rows * row_scales];
        let mut bias = vec![0.0; n * rows];
        let globals = globals::weights(case, seed, self.global, experts);
        blocks
            .par_chunks_mut(row_bytes)
            .zip(scales.par_chunks_mut(row_scales))
            .zip(&mut bias)
            .enumerate()
            .for_each(|(at, ((bytes, scales), bias))| {
                let (expert, row) = (experts[at / rows], at % rows);
                let codes = Stream::new(seed, self.blocks, expert);
                let stream = Stream::new(seed, self.scales, expert);
                for (block, bytes) in bytes.chunks_mut(format.bytes(BLOCK)).enumerate() {
                    let index = row * (cols / BLOCK) + block;
                    match format.element() {
                        Element::E2m1 => {
                            let words = [codes.bits(2 * index), codes.bits(2 * index + 1)];
                            let words = match (exact, format) {
                                (true, Format::Nvfp4) => words.map(odd_word),
                                (true, _) => odd(words),
                                (false, _) => bell(codes, index),
                            };
                            for (to, word) in bytes.chunks_mut(8).zip(words) {
                                to.copy_from_slice(&word.to_le_bytes());
                            }
                        }
                        _ => bytes_of_e4m3(codes, index, exact, bytes),
                    }
                }
                for (block, scale) in scales.iter_mut().enumerate() {
                    let index = row * row_scales + block;
                    let step = step(case.pair, expert, row, block);
                    *scale = match (format.scale(), exact) {
                        (Some(BlockScale::Ue4m3), true) => UE4M3_STEPS[step],
                        (Some(BlockScale::Ue4m3), false) => {
                            REAL_UE4M3 + stream.below(index, REAL_UE4M3_COUNT) as u8
                        }
                        (_, true) => EXACT_SCALE + step as u8,
                        (_, false) => {
                            let scale = REAL_SCALES[stream.below(index, REAL_SCALES.len() as u64) as usize];
                            // e4m3 codes are larger by a factor of 2^6.
                            if format.element() == Element::E4m3 { scale - 6 } else { scale }
                        }
                    };
                }
                let stream = Stream::new(seed, self.bias, expert);
                let unit = globals.as_ref().map_or(BIAS_UNIT, |g| g[at / rows] * GLOBAL_BIAS_UNIT);
                *bias = match (case.bias, exact) {
                    (false, _) => 0.0,
                    (true, true) => {
                        (stream.below(row, 2 * BIAS_LARGEST + 1) as f32 - BIAS_LARGEST as f32) * unit
                    }
                    (true, false) => (stream.normal(row) * REAL_BIAS) as f32,
                };
            });
        Ok(Made {
            format,
            blocks: Array::new("blocks", &[n, rows, row_bytes], blocks)?,
            scales: Array::new("scales", &[n, rows, row_scales], scales)?,
            global: globals.map(|g| Array::new("global", &[n], g)).transpose()?,
            bias: Array::new("bias", &[n, rows], bias)?,
        })
    }
}

/// e4m3 codes of a block: in `exact` integers of magnitudes 4 to 7 whose sum is odd, so that it is never zero with factors of ±1; a
/// smaller code has neighbours so near that a sum of 32 hides them. Else of a normal distribution whose largest magnitudes are near 448.
fn bytes_of_e4m3(stream: Stream, index: usize, exact: bool, bytes: &mut [u8]) {
    let mut odd = false;
    for (lane, byte) in bytes.iter_mut().enumerate() {
        let at = index * BLOCK + lane;
        if !exact {
            *byte = formats::to_e4m3(stream.normal(at) * REAL_E4M3);
            continue;
        }
        let last = lane == BLOCK - 1;
        let mut magnitude = 4 + stream.below(at, 4);
        if last && (magnitude % 2 == 1) == odd {
            magnitude = if magnitude == 7 { 6 } else { magnitude + 1 };
        }
        odd ^= magnitude % 2 == 1;
        // By the lowest bit, which `below` does not use.
        let sign = if stream.bits(at) & 1 == 0 { 1.0 } else { -1.0 };
        *byte = formats::to_e4m3(sign * magnitude as f64);
    }
}

/// Codes of a block in which an odd number is ±0.5 or ±1.5: its sum with factors of ±1 is then never zero, so that its
/// scale has a witness.
fn odd([first, second]: [u64; 2]) -> [u64; 2] {
    const LOWEST: u64 = 0x1111_1111_1111_1111;
    // Below 2 (bit 2 clear) and with a half (bit 0 set).
    let halves = |word: u64| (word & !(word >> 2) & LOWEST).count_ones();
    if (halves(first) + halves(second)) % 2 == 1 {
        return [first, second];
    }
    // Exchanging 0 and 0.5, or 1 and 1.5, changes the number by one.
    let below_two = !(first >> 2) & LOWEST;
    [first ^ (below_two & below_two.wrapping_neg()), second]
}

/// One block of 16 codes with an odd number of halves.
const fn odd_word(word: u64) -> u64 {
    const LOWEST: u64 = 0x1111_1111_1111_1111;
    let below_two = !(word >> 2) & LOWEST;
    if (word & below_two).count_ones() % 2 == 1 {
        return word;
    }
    // Without a code below 2 there is none to exchange: the first becomes a half.
    if below_two == 0 { word & !0xF | 1 } else { word ^ (below_two & below_two.wrapping_neg()) }
}

/// Codes as from a normal distribution in which the largest magnitude of a block is 4 or 6.
fn bell(stream: Stream, index: usize) -> [u64; 2] {
    // Sixteenths: the frequency of each magnitude if 6 represents 2.5 deviations.
    const MAGNITUDES: [u64; 16] = [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7];
    let magnitudes = [stream.bits(2 * index), stream.bits(2 * index + 1)];
    // Signs come from counters that no block uses.
    let signs = stream.bits(usize::MAX / 2 + index);
    std::array::from_fn(|half| {
        (0..CODES).fold(0, |word, at| {
            let magnitude = MAGNITUDES[(magnitudes[half] >> (4 * at) & 0xF) as usize];
            let sign = signs >> (CODES * half + at) & 1;
            word | (magnitude | sign << 3) << (4 * at)
        })
    })
}

/// The first expert's scales hold two NaN in either matrix, in an odd channel and, a block of activations away, in an even one:
/// of an interleaved pair once the up and once the gate alone is NaN. Their blocks hold ones, so that a NaN taken for infinity does
/// not become NaN again. The other experts' scales hold the smallest code: in one block among others, which must not disturb
/// the sum, and in all blocks of two channels without bias, whose sums are as small, and lost where the scale is flushed. Two more
/// channels have no bias, for rows of the smallest scale. Of 16 neighbouring channels one has a large scale, in one block: in one
/// half of the 16 for 64 channels, in one place of the word of four for 128. Who asks only some of them for large scales misses it.
fn specials(w13: &mut Made, w2: &mut Made) {
    for made in [w13, w2] {
        // A byte of codes of 1, and scales: a large one, which with a code of 6 is beyond what the scales in front of it reach; a very
        // large one; NaN; the smallest.
        let ones = if made.format.element() == Element::E2m1 { 0x22 } else { 0x38 };
        let (large, very_large, nan, least) = match made.format.scale() {
            Some(BlockScale::Ue4m3) => (0x70, 0x7E, 0x7F, 0x01),
            Some(BlockScale::Ue8m0) | None => (129, 246, 0xFF, 0x00),
        };
        let bytes = made.format.bytes(made.format.block());
        let [n, rows, blocks] = made.scales.shape[..] else { continue };
        // A scale so large that the exponents of very large activations sum to 200, and no other sum comes near infinity.
        let at = (4 % rows) * blocks + 1 % blocks;
        made.scales.data[at] = very_large;
        made.blocks.data[at * bytes..(at + 1) * bytes].fill(ones);
        for expert in 0..n {
            let (channels, code): (&[usize], u8) = if expert == 0 { (&[0, 65], nan) } else { (&[0], least) };
            for channel in channels {
                let at = (expert * rows + (3 + expert + channel) % rows) * blocks + (expert + 1) % blocks;
                made.scales.data[at] = code;
                if code == nan {
                    made.blocks.data[at * bytes..(at + 1) * bytes].fill(ones);
                }
            }
            if expert > 0 {
                for group in 0..rows / 16 {
                    let channel = 16 * group + group / 4 % 2 * 8 + (3 * group + expert) % 8;
                    let block = (group / 8 + expert) % 4 % blocks;
                    made.scales.data[(expert * rows + channel) * blocks + block] = large;
                }
                for (channel, zero) in [(8, true), (9, true), (10, false), (11, false)] {
                    let row = expert * rows + (channel + 2 * expert) % rows;
                    if zero {
                        made.scales.data[row * blocks..(row + 1) * blocks].fill(0);
                    }
                    made.bias.data[row] = 0.0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{WINDOW, step, window};
    use super::*;
    use crate::moe::case::FormatPair;

    #[test]
    fn odd_blocks_are_odd() {
        let stream = Stream::new(3, Purpose::W2, 1);
        let half_steps = |word: u64| -> i64 {
            (0..CODES).map(|i| [0, 1, 2, 3, 4, 6, 8, 12][(word >> (4 * i) & 7) as usize]).sum()
        };
        for i in 0..1000 {
            let [a, b] = odd([stream.bits(2 * i), stream.bits(2 * i + 1)]);
            assert_eq!((half_steps(a) + half_steps(b)) % 2, 1);
        }
    }

    #[test]
    fn neighbours_have_other_scales() {
        for expert in 0..4 {
            for row in 0..300 {
                for block in 0..100 {
                    let here = window(expert, row, block);
                    assert!(here < WINDOW);
                    assert_ne!(here, window(expert + 1, row, block));
                    assert_ne!(here, window(expert, row + 1, block));
                    assert_ne!(here, window(expert, row + 32, block));
                    assert_ne!(here, window(expert, row + 128, block));
                    assert_ne!(here, window(expert, row, block + 1));
                    assert_ne!(here, window(expert, row, block + 4));
                    let of = |block| step(FormatPair::Nvfp4, expert, row, block);
                    assert!([1, 4, 16].iter().all(|apart| of(block) != of(block + apart)), "block {block}");
                }
            }
        }
    }
}
