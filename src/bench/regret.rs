//! Computes what the choice of each tile policy costs compared with the best measured tile.

use std::collections::BTreeMap;

use crate::kernel::MmaPath;
use crate::moe::Stage;
use crate::moe::configuration::Configuration;
use crate::moe::policy::{ExpertCounts, HostKnown, POLICIES};
use crate::record::{BenchRow, RegretRow};

/// The total time of both GEMMs, and the row with their tokens and configuration.
struct Both<'a> {
    row: &'a BenchRow,
    configuration: Configuration,
    microseconds: f64,
}

/// Sums FC1 and FC2 for every configuration and number of tokens.
fn both(rows: &[BenchRow]) -> Vec<Both<'_>> {
    let of = |row: &BenchRow, stage| {
        let same = |r: &&BenchRow| {
            r.stage == stage && r.tokens == row.tokens && r.configuration == row.configuration
        };
        rows.iter().find(same).map(|r| r.microseconds)
    };
    rows.iter()
        .filter(|row| row.stage == Stage::Fc1)
        .filter_map(|row| {
            let configuration = Configuration::from_name(&row.configuration)?;
            Some(Both { row, configuration, microseconds: row.microseconds + of(row, Stage::Fc2)? })
        })
        .collect()
}

/// Returns the regret of every policy for every MMA path and number of tokens. GEMV is omitted, since policies do not choose
/// it. `counts` holds the rows of every expert by number of tokens; `top_k` is the number of experts per token.
#[must_use]
pub fn regrets(rows: &[BenchRow], counts: &BTreeMap<usize, Vec<usize>>, top_k: usize) -> Vec<RegretRow> {
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let both = both(rows);
    let mut paths: Vec<MmaPath> = both.iter().map(|b| b.configuration.path).collect();
    paths.sort_unstable();
    paths.dedup();
    let mut out = Vec::new();
    for path in paths.into_iter().filter(|path| *path != MmaPath::Gemv) {
        for (tokens, counts) in counts {
            let of = || both.iter().filter(|b| b.row.tokens == *tokens && b.configuration.path == path);
            let least = |a: &&Both<'_>, b: &&Both<'_>| a.microseconds.total_cmp(&b.microseconds);
            let Some(best) = of().min_by(least) else { continue };
            let host =
                HostKnown { tokens: small(*tokens), top_k: small(top_k), experts: small(counts.len()) };
            let experts = ExpertCounts(counts.iter().map(|rows| small(*rows)).collect());
            for policy in &POLICIES {
                let m = policy.m(host, &experts);
                let has_m = |b: &&Both<'_>| b.configuration.tile.m == m;
                let own = of().filter(has_m).min_by(least);
                out.push(RegretRow {
                    policy: policy.name.to_owned(),
                    path: path.word().to_owned(),
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
