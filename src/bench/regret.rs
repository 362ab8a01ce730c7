//! What each tile policy's choice costs against the best tile that was measured.

use std::collections::BTreeMap;

use crate::moe::policy::{ExpertCounts, HostKnown, POLICIES};
use crate::record::{BenchRow, MmaPath, Named, RegretRow, Stage};

/// Microseconds of both GEMMs, and their tokens and kernel.
struct Both<'a> {
    row: &'a BenchRow,
    microseconds: f64,
}

/// Both GEMMs of every kernel and number of tokens.
fn both(rows: &[BenchRow]) -> Vec<Both<'_>> {
    let of = |row: &BenchRow, stage| {
        let same = |r: &&BenchRow| {
            r.stage == stage && r.tokens == row.tokens && r.configuration == row.configuration
        };
        rows.iter().find(same).map(|r| r.microseconds)
    };
    rows.iter()
        .filter(|row| row.stage == Stage::Fc1)
        .filter_map(|row| Some(Both { row, microseconds: row.microseconds + of(row, Stage::Fc2)? }))
        .collect()
}

/// Every policy for every number of tokens, path by path; a GEMV is no tile that policies know. `counts` are the rows of every
/// expert by tokens, `top_k` the experts of a token.
#[must_use]
pub fn regrets(rows: &[BenchRow], counts: &BTreeMap<usize, Vec<usize>>, top_k: usize) -> Vec<RegretRow> {
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let both = both(rows);
    let mut paths: Vec<&Named<MmaPath>> = both.iter().map(|b| &b.row.configuration.path).collect();
    paths.sort_unstable();
    paths.dedup();
    let mut out = Vec::new();
    for path in paths.into_iter().filter(|path| **path != MmaPath::Gemv) {
        for (tokens, counts) in counts {
            let of = || both.iter().filter(|b| b.row.tokens == *tokens && b.row.configuration.path == *path);
            let least = |a: &&Both<'_>, b: &&Both<'_>| a.microseconds.total_cmp(&b.microseconds);
            let Some(best) = of().min_by(least) else { continue };
            let host =
                HostKnown { tokens: small(*tokens), top_k: small(top_k), experts: small(counts.len()) };
            let experts = ExpertCounts(counts.iter().map(|rows| small(*rows)).collect());
            for policy in &POLICIES {
                let m = policy.m(host, &experts);
                let has_m = |b: &&Both<'_>| b.row.configuration.tile.known().is_some_and(|tile| tile.m == m);
                let own = of().filter(has_m).min_by(least);
                out.push(RegretRow {
                    policy: policy.name.to_owned(),
                    path: path.clone(),
                    tokens: *tokens,
                    m,
                    microseconds: own.map(|b| b.microseconds),
                    best: best.row.configuration.to_string(),
                    best_microseconds: best.microseconds,
                });
            }
        }
    }
    out
}
