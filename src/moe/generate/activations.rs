//! Hidden states of each regime, and what replaces the device's a2 where sums have to be exact.

use super::window;
use crate::case::{Arguments, Case, Regime};
use crate::moe::dims::{BLOCK, Dims};
use crate::moe::error::MoeError;
use crate::moe::problem::InjectedA2;
use crate::moe::random::{Purpose, Stream};
use crate::moe::reference::formats;
use crate::moe::reference::route::Row;
use crate::moe::tensors::Array;

/// The largest integer of the regime `exact`: 1.75·2^2, for which every scale rule but `identity` gives one exponent and
/// no element saturates.
const LARGEST: u64 = 7;

/// Exponents of hidden states in `exact` and `impulse` start here.
const BASE: i32 = -2;

/// One channel of so many has values larger by this factor, as models have them.
const OUTLIER_EVERY: usize = 97;
const OUTLIER: f64 = 24.0;

/// With [`Arguments::Wide`] hidden states are larger by this factor: gates then reach beyond ±90.
const WIDE: f64 = 16.0;

/// bf16 bits of hidden states [T, H].
pub(super) fn hidden(case: &Case, dims: &Dims, seed: u64, rows: &[Row]) -> Vec<u16> {
    let stream = Stream::new(seed, Purpose::Hidden, 0);
    let blocks = dims.hidden / BLOCK;
    let hot = hot_blocks(dims, rows);
    let factor = if case.arguments == Arguments::Wide { WIDE } else { 1.0 };
    let mut out = Vec::with_capacity(dims.tokens * dims.hidden);
    for token in 0..dims.tokens {
        for col in 0..dims.hidden {
            let (block, index) = (col / BLOCK, token * dims.hidden + col);
            let power = formats::exp2(BASE + window(0, token, block) as i32);
            let value = match case.regime {
                Regime::Exact => integer(stream, index, token * blocks + block) * power,
                Regime::Impulse if block == hot[token] => sign(stream, index) * power,
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
            specials(token, row);
        }
    }
    out
}

/// The block of each token that is not zero in `impulse`: by its place among the rows of its first expert, so that as many
/// rows of an expert as there are blocks reach all of them.
fn hot_blocks(dims: &Dims, rows: &[Row]) -> Vec<usize> {
    let mut out = vec![0; dims.tokens];
    let mut first = 0;
    for (at, row) in rows.iter().enumerate() {
        if rows[first].expert != row.expert {
            first = at;
        }
        if row.slot == 0 {
            out[row.token] = (at - first) % (dims.hidden / BLOCK);
        }
    }
    out
}

/// A small integer other than 0; one of each block is the largest, so that all scales are known.
fn integer(stream: Stream, index: usize, block: usize) -> f64 {
    // Blocks draw from counters that no element has.
    let largest = stream.bits(usize::MAX / 2 + block) as usize % BLOCK;
    let magnitude = if index % BLOCK == largest { LARGEST } else { 1 + stream.below(index, LARGEST) };
    sign(stream, index) * magnitude as f64
}

/// By the lowest bit, which `below` does not use.
const fn sign(stream: Stream, index: usize) -> f64 {
    if stream.bits(index) & 1 == 0 { 1.0 } else { -1.0 }
}

/// What the first tokens of the regime `special` hold; later ones are as in `real`.
fn specials(token: usize, row: &mut [u16]) {
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
        // Subnormals: scales reach their end.
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
        _ => {}
    }
}

/// e4m3 codes [R, I] and their scales [R, I/32] for the second GEMM, in the regimes `exact` and `impulse`.
pub(super) fn injected(case: &Case, dims: &Dims, seed: u64, rows: &[Row]) -> Result<InjectedA2, MoeError> {
    let stream = Stream::new(seed, Purpose::A2, 0);
    let blocks = dims.inter / BLOCK;
    let mut codes = Vec::with_capacity(rows.len() * dims.inter);
    let mut scales = Vec::with_capacity(rows.len() * blocks);
    let mut first = 0;
    for (at, row) in rows.iter().enumerate() {
        if rows[first].expert != row.expert {
            first = at;
        }
        for block in 0..blocks {
            let power = BASE + window(0, at, block) as i32;
            let hot = case.regime == Regime::Exact || block == (at - first) % blocks;
            // 7 becomes 448, 1 in `impulse` 256, as the default scale rule has it; a zero block's code is 0.
            let shift = if case.regime == Regime::Exact { 6 } else { 8 };
            scales.push(if hot { (127 + power - shift) as u8 } else { 0 });
            for lane in 0..BLOCK {
                let index = at * dims.inter + block * BLOCK + lane;
                let value = match case.regime {
                    Regime::Exact => integer(stream, index, at * blocks + block),
                    _ if hot => sign(stream, index),
                    _ => 0.0,
                };
                codes.push(formats::to_e4m3(value * formats::exp2(shift)));
            }
        }
    }
    Ok(InjectedA2 {
        codes: Array::new("injected_a2_codes", &[rows.len(), dims.inter], codes)?,
        scales: Array::new("injected_a2_scales", &[rows.len(), blocks], scales)?,
    })
}
