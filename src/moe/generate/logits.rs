//! Router logits by which tokens choose as the case says. They are bf16 values, as routers give them.

use crate::case::{Case, Regime, Routing};
use crate::moe::dims::Dims;
use crate::moe::random::{Purpose, Stream};

/// The logit of a token's first choice, and how much less the next is, where the case fixes the choice.
const FIRST: f64 = 6.0;
const STEP: f64 = 0.25;
/// Logits of experts not chosen lie around this.
const OTHERS: f64 = -4.0;

/// Values among which `ties` draws: many are equal, and two are zeros.
const TIED: [f32; 5] = [-1.0, -0.0, 0.0, 0.5, 1.0];

/// Logits [T, E].
pub(super) fn logits(case: &Case, dims: &Dims, seed: u64) -> Vec<f32> {
    let stream = Stream::new(seed, Purpose::Logits, 0);
    let (tokens, experts, k) = (dims.tokens, dims.experts, dims.top_k);
    let mut out: Vec<f32> = (0..tokens * experts)
        .map(|i| match case.routing {
            Routing::Random => to_bf16(2.0 * stream.normal(i)),
            Routing::Ties => TIED[stream.below(i, TIED.len() as u64) as usize],
            Routing::Balanced | Routing::Same | Routing::Rows => to_bf16(OTHERS + 0.5 * stream.normal(i)),
        })
        .collect();
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

/// The last token's logits hold a NaN, the one before has an infinity.
fn specials(dims: &Dims, out: &mut [f32]) {
    for (back, value) in [(1, f32::NAN), (2, f32::INFINITY)] {
        if let Some(token) = dims.tokens.checked_sub(back) {
            out[token * dims.experts + dims.experts / 2] = value;
        }
    }
}

/// Cut to bf16: a data generator needs no nearest.
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
