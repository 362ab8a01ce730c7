//! Router logits that make tokens choose experts as the case specifies. They are bf16 values, as routers produce them.

use crate::moe::case::{Arguments, Case, Regime, Routing};
use crate::moe::dims::Dims;
use crate::moe::random::{Purpose, Stream};

/// The logit of a token's first choice and the decrement to the next, if the case fixes the choice.
const FIRST: f64 = 6.0;
const STEP: f64 = 0.25;
/// Logits of experts not chosen lie around this.
const OTHERS: f64 = -4.0;

/// The next f32 above one, and the least above zero.
const ABOVE_ONE: f32 = 1.0 + f32::EPSILON;
const LEAST: f32 = f32::from_bits(1);

/// Values among which `ties` draws, by token: many are equal; zeros of either sign are the largest, or all there is; all are the
/// same; neighbours differ in one unit, or in whether they are zero; all are negative.
const TIED: [&[f32]; 7] = [
    &[-1.0, -0.0, 0.0, 0.5, 1.0],
    &[-1.0, -0.0, 0.0],
    &[-0.0, 0.0],
    &[0.5],
    &[1.0, ABOVE_ONE, -1.0, -ABOVE_ONE],
    &[-1.0, -LEAST, -0.0, 0.0, LEAST],
    &[-1.0, -ABOVE_ONE],
];

/// Logits of [`Arguments::Wide`] reach this far below zero: e^x of the least underflows in f32.
const WIDE: f64 = 110.0;
/// Every other token has one logit of this: without the greatest subtracted, its e^x is infinite.
const HIGH: f32 = 100.0;
/// Every fourth token has one logit of 0 and all others this far below it, where e^x is still normal: their weights are e^x itself, and
/// show its errors at large |x|.
const BELOW: (f64, f64) = (60.0, 87.0);

/// Logits [T, E].
pub(super) fn logits(case: &Case, dims: &Dims, seed: u64) -> Vec<f32> {
    let stream = Stream::new(seed, Purpose::Logits, 0);
    let (tokens, experts, k) = (dims.tokens, dims.routed(), dims.chosen());
    let mut out: Vec<f32> = (0..tokens * experts)
        .map(|i| match case.routing {
            Routing::Random if case.arguments == Arguments::Wide => {
                to_bf16(-WIDE * stream.below(i, 1 << 16) as f64 / f64::from(1 << 16))
            }
            Routing::Random => to_bf16(2.0 * stream.normal(i)),
            Routing::Ties => {
                let tied = TIED[i / experts % TIED.len()];
                tied[stream.below(i, tied.len() as u64) as usize]
            }
            Routing::Balanced | Routing::Same | Routing::Rows => to_bf16(OTHERS + 0.5 * stream.normal(i)),
        })
        .collect();
    if case.arguments == Arguments::Wide {
        for token in (2..tokens).step_by(4) {
            let highest = (token / 4) % experts;
            for (expert, logit) in out[token * experts..(token + 1) * experts].iter_mut().enumerate() {
                // The drawn logit is within WIDE below zero.
                let below = BELOW.0 - f64::from(*logit) / WIDE * (BELOW.1 - BELOW.0);
                *logit = if expert == highest { 0.0 } else { to_bf16(-below) };
            }
        }
        for token in (1..tokens).step_by(2) {
            // The middle first: a warp that reads only its first 32 experts misses it.
            out[token * experts + (experts / 2 + 7 * (token / 2)) % experts] = HIGH;
        }
    }
    let mut left = case.expert_rows.clone();
    for token in 0..tokens {
        let chosen: Vec<usize> = match case.routing {
            Routing::Random | Routing::Ties => Vec::new(),
            Routing::Balanced => (0..k).map(|j| (token * k + j) % experts).collect(),
            Routing::Same => (0..k).map(|j| j * (experts / k)).collect(),
            Routing::Rows => take(&mut left, k),
        };
        for (slot, expert) in chosen.into_iter().enumerate() {
            out[token * experts + expert] = (FIRST - STEP * slot as f64) as f32;
        }
    }
    if case.regime == Regime::Special {
        specials(dims, &mut out);
    }
    out
}

/// Correction biases are multiples of this, so that equal logits may have equal keys.
const BIAS_STEP: f64 = 1.0 / 64.0;

/// Correction biases [E], within a quarter: experts that a case names are still chosen. None where the router has no bias.
pub(super) fn correction_bias(case: &Case, dims: &Dims, seed: u64) -> Option<Vec<f32>> {
    const MOST: u64 = 16;
    let stream = Stream::new(seed, Purpose::CorrectionBias, 0);
    let one = |e: usize| ((stream.below(e, 2 * MOST + 1) as f64 - MOST as f64) * BIAS_STEP) as f32;
    case.router.correction_bias.then(|| (0..dims.routed()).map(one).collect())
}

/// The `k` experts with most rows left, each one less: this serves every list whose entries are at most the tokens.
fn take(left: &mut [usize], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..left.len()).collect();
    order.sort_by_key(|e| (std::cmp::Reverse(left[*e]), *e));
    order.truncate(k);
    for expert in &order {
        left[*expert] = left[*expert].saturating_sub(1);
    }
    order
}

/// A NaN with the sign bit set, and one with a larger payload than the canonical one: who compares bits finds them least and
/// greatest, and all NaN are equal.
const NEGATIVE_NAN: f32 = f32::from_bits(0xFFC0_0000);
const LARGE_NAN: f32 = f32::from_bits(0x7FE0_0000);

/// The last token's logits hold a NaN, the one before has an infinity, the one before that a NaN for the first expert; the next two
/// hold two NaN each.
fn specials(dims: &Dims, out: &mut [f32]) {
    let experts = dims.routed();
    let (half, last) = (experts / 2, experts - 1);
    for (back, expert, value) in [
        (1, half, f32::NAN),
        (2, half, f32::INFINITY),
        (3, 0, f32::NAN),
        (4, half, NEGATIVE_NAN),
        (4, last, f32::NAN),
        (5, half, f32::NAN),
        (5, last, LARGE_NAN),
    ] {
        if let Some(token) = dims.tokens.checked_sub(back) {
            out[token * experts + expert] = value;
        }
    }
}

/// Truncates to bf16: a data generator does not need rounding to nearest.
fn to_bf16(x: f64) -> f32 {
    f32::from_bits((x as f32).to_bits() & 0xFFFF_0000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_dealt_out_to_the_last() {
        let mut left = vec![5, 0, 1, 4, 5, 3];
        let all: usize = left.iter().sum();
        for token in 0..all / 3 {
            let chosen = take(&mut left, 3);
            assert_eq!(chosen.len(), 3, "token {token}");
        }
        assert_eq!(left, [0; 6]);
    }
}
