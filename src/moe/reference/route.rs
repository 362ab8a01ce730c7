//! Top-k and permutation, by their definitions.

use std::cmp::Ordering;

/// The order of logits: greatest first, NaN greatest of all (as `torch.topk` has it), −0 = +0, ties by lowest index.
fn order(logits: &[f32], a: usize, b: usize) -> Ordering {
    let (x, y) = (logits[a], logits[b]);
    // `partial_cmp` is none only where a NaN is.
    let values = y.partial_cmp(&x).unwrap_or_else(|| y.is_nan().cmp(&x.is_nan()));
    values.then(a.cmp(&b))
}

/// The `k` experts of one token, the best first.
#[must_use]
pub fn top_k(logits: &[f32], k: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..logits.len()).collect();
    all.sort_by(|a, b| order(logits, *a, *b));
    all.truncate(k);
    all
}

/// One permuted row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// The expert.
    pub expert: usize,
    /// The token.
    pub token: usize,
    /// Which of the token's choices.
    pub slot: usize,
}

/// The rows of all tokens, by (expert, token, slot).
#[must_use]
pub fn permute(choices: &[Vec<usize>]) -> Vec<Row> {
    let mut rows: Vec<Row> = choices
        .iter()
        .enumerate()
        .flat_map(|(token, experts)| {
            experts.iter().enumerate().map(move |(slot, expert)| Row { expert: *expert, token, slot })
        })
        .collect();
    rows.sort_unstable();
    rows
}
