//! Hidden states of each regime, and the a2 that replaces the device's where sums must be exact.

use super::{UE4M3_STEPS, scale_step, step};
use crate::moe::case::{Arguments, Case, Format, GlobalScale, Regime};
use crate::moe::dims::{BLOCK, Dims};
use crate::moe::error::MoeError;
use crate::moe::format::{BlockScale, Element};
use crate::moe::problem::InjectedA2;
use crate::moe::random::{Purpose, Stream};
use crate::moe::reference::formats;
use crate::moe::reference::route::Row;
use crate::moe::tensors::Array;

/// The largest integer of the regime `exact`: 1.75·2^2, for which every scale rule but `identity` gives one exponent and
/// no element saturates.
const LARGEST: u64 = 7;

/// The code of 6: under every scale rule but `identity` its block has one exponent and no element saturates.
const LARGEST_E2M1: u8 = 7;

/// The steps of exact data 2^7 times as large, the largest of them 448, and a global scale that makes up for them: as a quantizer has them
/// whose global scale follows from the row.
const TOKEN_STEPS: [u8; 4] = [0x70, 0x73, 0x79, 0x7E];
const LEAST_TOKEN_SCALE: f32 = 1.0 / 1024.0;

/// Exponents of hidden states in `exact` and `impulse` start here.
const BASE: i32 = -2;

/// One channel in `OUTLIER_EVERY` has values larger by a constant factor, as in real models.
const OUTLIER_EVERY: usize = 97;
const OUTLIER: f64 = 24.0;

/// With [`Arguments::Wide`] hidden states are larger by this factor, so that gates exceed ±90.
const WIDE: f64 = 16.0;

/// bf16 bits of hidden states [T, H].
pub(super) fn hidden(case: &Case, dims: &Dims, seed: u64, rows: &[Row]) -> Vec<u16> {
    let stream = Stream::new(seed, Purpose::Hidden, 0);
    let format = case.pair.activation();
    let block_len = format.block();
    let blocks = dims.hidden / block_len;
    let hot = hot_blocks(dims, rows, blocks);
    let factor = if case.arguments == Arguments::Wide { WIDE } else { 1.0 };
    let mut out = Vec::with_capacity(dims.tokens * dims.hidden);
    for token in 0..dims.tokens {
        for col in 0..dims.hidden {
            let (block, index) = (col / block_len, token * dims.hidden + col);
            // A row's own global scale differs from those of its neighbours among an expert's rows, whatever the routing.
            let shift = if case.global_scale == GlobalScale::Token { (token + token / 2) % 2 } else { 0 };
            let base = BASE - shift as i32;
            let scale = formats::exp2(base) * scale_step(format, step(case.pair, 0, token, block));
            let value = match case.regime {
                Regime::Exact => exact(format, stream, index, token * blocks + block) * scale,
                Regime::Impulse if block == hot[token] => sign(stream, index) * impulse(format) * scale,
                Regime::Impulse => 0.0,
                Regime::Real | Regime::Special => {
                    let outlier = if (col + 1) % OUTLIER_EVERY == 0 { OUTLIER } else { 1.0 };
                    stream.normal(index) * outlier * factor
                }
            };
            out.push(formats::to_bf16(value));
        }
    }
    if case.regime == Regime::Special {
        for (token, row) in out.chunks_mut(dims.hidden).enumerate() {
            specials(format, token, row);
        }
    }
    out
}

/// The block of each token that is not zero in `impulse`: by its place among the rows of its first expert, so that as many
/// rows of an expert as there are blocks reach all of them.
fn hot_blocks(dims: &Dims, rows: &[Row], blocks: usize) -> Vec<usize> {
    let mut out = vec![0; dims.tokens];
    let mut first = 0;
    for (at, row) in rows.iter().enumerate() {
        if rows[first].expert != row.expert {
            first = at;
        }
        if row.slot == 0 {
            out[row.token] = (at - first) % blocks;
        }
    }
    out
}

/// A value of a block in `exact`, without its scale: one of each block is the largest, so that all scales are known.
fn exact(format: Format, stream: Stream, index: usize, block: usize) -> f64 {
    if format.element() != Element::E2m1 {
        return integer(stream, index, block);
    }
    let largest = stream.bits(usize::MAX / 2 + block) as usize % format.block();
    let code =
        if index % format.block() == largest { LARGEST_E2M1 } else { 1 + stream.below(index, 7) as u8 };
    sign(stream, index) * formats::e2m1(code)
}

/// The magnitude of a hot block in `impulse`, without its scale.
const fn impulse(format: Format) -> f64 {
    // The largest e2m1, so that a scale follows from it exactly.
    if matches!(format.element(), Element::E2m1) { 6.0 } else { 1.0 }
}

/// A small integer other than 0; one of each block is the largest, so that all scales are known.
fn integer(stream: Stream, index: usize, block: usize) -> f64 {
    // Blocks draw from counters that no element uses.
    let largest = stream.bits(usize::MAX / 2 + block) as usize % BLOCK;
    let magnitude = if index % BLOCK == largest { LARGEST } else { 1 + stream.below(index, LARGEST) };
    sign(stream, index) * magnitude as f64
}

/// By the lowest bit, which `below` does not use.
const fn sign(stream: Stream, index: usize) -> f64 {
    if stream.bits(index) & 1 == 0 { 1.0 } else { -1.0 }
}

/// Fills the first tokens of the regime `special`; later ones are as in `real`.
fn specials(format: Format, token: usize, row: &mut [u16]) {
    const NAN: u16 = 0x7FC0;
    const INFINITY: u16 = 0x7F80;
    let second = BLOCK.min(row.len() - 1);
    match token {
        // A block of zeros of either sign.
        0 => row[..BLOCK].iter_mut().enumerate().for_each(|(i, x)| *x = if i % 2 == 0 { 0 } else { 0x8000 }),
        1 => row[second] = NAN,
        // Beside an infinity, whose scale is 2^127, two values that are ties of e4m3 under it.
        2 => {
            row[second] = INFINITY | 0x8000;
            for (x, value) in row[second + 1..].iter_mut().zip([254 << 7 | 0x08, 254 << 7 | 0x18]) {
                *x = value;
            }
        }
        // A row of negative zeros.
        3 => row.fill(0x8000),
        // Subnormals: scales reach their minimum.
        4 => {
            row[..BLOCK].iter_mut().for_each(|x| *x &= 0x803F);
            // A block whose scale is just below the least one.
            row.iter_mut().skip(BLOCK).take(BLOCK).for_each(|x| *x = (*x & 0x803F) | (7 << 7));
        }
        // Very large, yet every sum of products with weights below 1 stays finite.
        5 => row[..BLOCK].iter_mut().for_each(|x| *x = (*x & 0x807F) | (227 << 7)),
        // All positive: with weights of one sign and a NaN scale, who takes NaN for infinity sums to infinity.
        6 => row.iter_mut().for_each(|x| *x &= 0x7FFF),
        // Subnormals alone: sums as small as the least scale makes them.
        7 => row.iter_mut().for_each(|x| *x &= 0x803F),
        8 => halfway(format, &[format.element().value(largest(format.element()))], 0, row),
        9..12 => halfway(format, &thresholds(format), token - 9, row),
        _ => {}
    }
}

/// The code of the largest element.
const fn largest(element: Element) -> u16 {
    match element {
        Element::E2m1 => 0x7,
        Element::E4m3 => 0x7E,
        Element::Bf16 => 0x7F7F,
    }
}

/// A global scale of activations in `special`.
pub(super) const SPECIAL_GLOBAL: f32 = 1.0 / 32.0;

/// Greatest magnitudes of blocks at which a scale rule goes on to the next scale, and their neighbours (docs/numerics.md, 9.2 and
/// 9.3); above every element, for which scales are near one. For NVFP4 the one whose scale is the largest exactly, under a global scale
/// that is a power of two or the row's own.
fn thresholds(format: Format) -> Vec<f64> {
    let mantissas = match format.element() {
        _ if format.has_global() => return vec![6.0 * 448.0 * f64::from(SPECIAL_GLOBAL)],
        Element::E2m1 => [1.125, 1.5, 1.75],
        Element::E4m3 | Element::Bf16 => [1.3125, 1.75, 1.9375],
    };
    let binade = formats::exp2(format.element().largest_exponent() + 1);
    // A step of bf16, down and up.
    mantissas.iter().flat_map(|m| [-1.0, 0.0, 1.0].map(|step| (m + step / 128.0) * binade)).collect()
}

/// Fills a row, the one with this number, with numbers halfway between two neighbouring elements, of either sign. One of each block is as
/// large as `amax` says, in turn: under the largest element, whose scale is one by every rule, the others are ties.
fn halfway(format: Format, amax: &[f64], number: usize, row: &mut [u16]) {
    let (element, block_len) = (format.element(), format.block());
    // Nothing is rounded.
    if element == Element::Bf16 {
        return;
    }
    let ties: Vec<f64> = (0..largest(element))
        .map(|code| f64::midpoint(element.value(code), element.value(code + 1)))
        .collect();
    for (at, x) in row.iter_mut().enumerate() {
        let sign = if (at / ties.len()).is_multiple_of(2) { 1.0 } else { -1.0 };
        *x = formats::to_bf16(sign * ties[at % ties.len()]);
    }
    let blocks = row.len() / block_len;
    for (block, x) in row.chunks_mut(block_len).enumerate() {
        x[block % block_len] = formats::to_bf16(amax[(number * blocks + block) % amax.len()]);
    }
}

/// Codes and scales for the second GEMM, in the regimes `exact` and `impulse`.
pub(super) fn injected(case: &Case, dims: &Dims, seed: u64, rows: &[Row]) -> Result<InjectedA2, MoeError> {
    let stream = Stream::new(seed, Purpose::A2, 0);
    let format = case.pair.activation();
    let block_len = format.block();
    let blocks = dims.inter / block_len;
    let tokens = case.global_scale == GlobalScale::Token;
    let mut codes = Vec::with_capacity(rows.len() * dims.inter);
    let mut scales = Vec::with_capacity(rows.len() * blocks);
    let mut first = 0;
    for (at, row) in rows.iter().enumerate() {
        if rows[first].expert != row.expert {
            first = at;
        }
        for block in 0..blocks {
            let step = step(case.pair, 0, at, block);
            let hot = case.regime == Regime::Exact || block == (at - first) % blocks;
            // 7 becomes 448, 1 in `impulse` 256, as the default scale rule has it; a zero block's code is 0.
            let shift = match format {
                Format::Mxfp8 if case.regime == Regime::Exact => 6,
                Format::Mxfp8 => 8,
                _ => 0,
            };
            scales.push(match format.scale() {
                _ if !hot => 0,
                None => 0,
                Some(BlockScale::Ue8m0) => (127 + BASE + step as i32 - shift) as u8,
                Some(BlockScale::Ue4m3) if tokens => TOKEN_STEPS[step],
                Some(BlockScale::Ue4m3) => UE4M3_STEPS[step],
            });
            // A bf16 value includes the factor that other formats store as a scale.
            let factor =
                if format.scale().is_none() { scale_step(format, step) } else { formats::exp2(shift) };
            for lane in 0..block_len {
                let index = at * dims.inter + block * block_len + lane;
                let value = match case.regime {
                    Regime::Exact => exact(format, stream, index, at * blocks + block),
                    _ if hot => sign(stream, index) * impulse(format),
                    _ => 0.0,
                };
                codes.push(format.element().nearest(value * factor));
            }
        }
    }
    let width = format.bytes(dims.inter);
    Ok(InjectedA2 {
        codes: Array::new("injected_a2_codes", &[rows.len(), width], format.element().packed(&codes))?,
        scales: match format.scale() {
            Some(_) => Array::new("injected_a2_scales", &[rows.len(), blocks], scales)?,
            None => Array::new("injected_a2_scales", &[rows.len(), 0], Vec::new())?,
        },
        token_scales: tokens
            .then(|| (0..rows.len()).map(|row| LEAST_TOKEN_SCALE * (1 << (row % 2)) as f32).collect())
            .map(|scales| Array::new("injected_a2_token_scale", &[rows.len()], scales))
            .transpose()?,
    })
}
