//! What each tile policy's choice costs against the best tile that was measured.

use std::collections::BTreeMap;

use crate::moe::policy::{ExpertCounts, HostKnown, POLICIES};
use crate::record::{BenchRow, RegretRow, Stage};

/// Microseconds of both GEMMs, and their tokens and kernel.
struct Both<'a> {
    row: &'a BenchRow,
    microseconds: f64,
}

/// Both GEMMs of every kernel and number of tokens.
fn both(rows: &[BenchRow]) -> Vec<Both<'_>> {
    let of = |row: &BenchRow, stage| {
        let same = |r: &&BenchRow| r.stage == stage && r.tokens == row.tokens && r.way() == row.way();
        rows.iter().find(same).map(|r| r.microseconds)
    };
    rows.iter()
        .filter(|row| row.stage == Stage::Fc1)
        .filter_map(|row| Some(Both { row, microseconds: row.microseconds + of(row, Stage::Fc2)? }))
        .collect()
}

/// Rows of a tile's name.
fn rows_of(tile: &str) -> Option<u32> {
    tile.split('x').next()?.parse().ok()
}

/// Every policy for every number of tokens, path by path; a GEMV is no tile that policies know. `counts` are the rows of every
/// expert by tokens, `top_k` the experts of a token.
#[must_use]
pub fn regrets(rows: &[BenchRow], counts: &BTreeMap<usize, Vec<usize>>, top_k: usize) -> Vec<RegretRow> {
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let both = both(rows);
    let mut paths: Vec<&str> = both.iter().map(|b| b.row.kernel_path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    let mut out = Vec::new();
    for path in paths.into_iter().filter(|path| *path != "gemv") {
        for (tokens, counts) in counts {
            let of = || both.iter().filter(|b| b.row.tokens == *tokens && b.row.kernel_path == path);
            let least = |a: &&Both<'_>, b: &&Both<'_>| a.microseconds.total_cmp(&b.microseconds);
            let Some(best) = of().min_by(least) else { continue };
            let host =
                HostKnown { tokens: small(*tokens), top_k: small(top_k), experts: small(counts.len()) };
            let experts = ExpertCounts(counts.iter().map(|rows| small(*rows)).collect());
            for policy in &POLICIES {
                let m = policy.m(host, &experts);
                let own = of().filter(|b| rows_of(&b.row.tile) == Some(m)).min_by(least);
                out.push(RegretRow {
                    policy: policy.name.to_owned(),
                    kernel_path: path.to_owned(),
                    tokens: *tokens,
                    m,
                    microseconds: own.map(|b| b.microseconds),
                    best: best.row.way(),
                    best_microseconds: best.microseconds,
                });
            }
        }
    }
    out
}
