//! Enlarges a case for a kernel configuration: K, N and M follow from the case's minimum and the tile.

use std::sync::Arc;

use super::dims::BLOCK;
use super::tile::Config;
use crate::moe::case::{Case, Minimum, Routing};

/// Rows of an expert from which on exact data leave no byte of its weights without a witness: up to so many blocks of K, and beyond
/// (`tests/reference/coverage.rs`).
const WITNESSES: usize = 24;
const SHALLOW_BLOCKS: usize = 24;
const DEEP_WITNESSES: usize = 44;
/// Width between the GEMMs beyond so many blocks of K: a code of a hidden state has a witness among twice as many columns.
const DEEP_INTER: usize = 160;

/// Elements of K up to which rounds are made: what deeper tiles do with a parity, others of the same kernel do.
const DEEPEST: usize = 768;

/// Rows after the last full tile of the largest expert: no tile size divides them, and every tile is larger or follows a full
/// one.
const RAGGED_ROWS: usize = 13;

/// Returns the case as this configuration runs it; a case without a minimum is unchanged.
#[must_use]
pub fn fit(case: &Arc<Case>, config: &Config) -> Arc<Case> {
    let Some(minimum) = case.minimum else { return Arc::clone(case) };
    let mut fitted = Case::clone(case);
    fitted.hidden = width(&fitted, config, minimum);
    // More than a tile of N for the deep first GEMM too. An odd number of blocks: K of the second is ragged for every tile.
    let deep = fitted.hidden / BLOCK > SHALLOW_BLOCKS;
    let inter = if deep { fitted.inter.max(DEEP_INTER) } else { fitted.inter };
    fitted.inter = odd_blocks(inter.max(config.tile.n as usize * 5 / 8));
    fitted.expert_rows = expert_rows(&fitted, config, minimum);
    // An additional row for each choice would cost as much again and test no more of a GEMM.
    fitted.top_k = 1;
    fitted.tokens = fitted.expert_rows.iter().sum();
    fitted.routing = Routing::Rows;
    Arc::new(fitted)
}

/// Rounds elements up to an odd number of blocks.
const fn odd_blocks(elements: usize) -> usize {
    let blocks = elements.div_ceil(BLOCK);
    (blocks + 1 - blocks % 2) * BLOCK
}

/// Returns the K tiles that a configuration must run. Without rounds: a full and a ragged tile. Otherwise: two more than its
/// stages or, with TMA, whose mbarrier parity repeats after two rounds, at least `rounds` rounds and one tile, if these are at
/// most `DEEPEST` elements deep.
#[must_use]
pub fn least_k_tiles(config: &Config, rounds: usize) -> usize {
    if rounds == 0 {
        return 2;
    }
    let stages = config.stages as usize;
    let past = stages + 2;
    let few = rounds * stages * config.tile.k as usize <= DEEPEST;
    if config.load.by_tma() && few { past.max(rounds * stages + 1) } else { past }
}

/// The width of the hidden states: K of the first GEMM, and N of the second.
fn width(case: &Case, config: &Config, minimum: Minimum) -> usize {
    let (n, k) = (config.tile.n as usize, config.tile.k as usize);
    // The last tile has a full slab and one block if a tile has several slabs.
    let ragged = odd_blocks(k / 2);
    let least = case.hidden.max(minimum.n_tiles * n + 1);
    let mut width = (least_k_tiles(config, minimum.rounds) - 1) * k + ragged;
    while width < least {
        width += k;
    }
    width
}

/// No row for the first expert, more than a tile for the second, fewer for the third, and none for the rest.
fn expert_rows(case: &Case, config: &Config, minimum: Minimum) -> Vec<usize> {
    let m = config.tile.m as usize;
    let full = minimum.m_tiles.max((DEEP_WITNESSES - RAGGED_ROWS).div_ceil(m));
    let few = if case.hidden / BLOCK > SHALLOW_BLOCKS { DEEP_WITNESSES } else { WITNESSES };
    let mut rows = vec![0; case.experts];
    for (expert, of) in rows.iter_mut().zip([0, full * m + RAGGED_ROWS, few]) {
        *expert = of;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moe::case;
    use crate::moe::exercise::Exercise;
    use crate::moe::plan;

    #[test]
    fn every_configuration_meets_the_minimum_and_stays_legal() {
        let library = case::library();
        let swept = library.cases.iter().filter(|c| c.minimum.is_some());
        let mut seen = 0;
        for case in swept {
            for candidate in plan::candidates() {
                let Ok(config) = candidate.config else { continue };
                let fitted = fit(&Arc::new(case.clone()), &config);
                let what = format!("{} {config:?}", case.name);
                assert!(fitted.hidden.is_multiple_of(BLOCK) && fitted.hidden >= case.hidden, "{what}");
                assert_eq!(fitted.expert_rows.iter().sum::<usize>(), fitted.tokens * fitted.top_k, "{what}");
                assert!(fitted.expert_rows.iter().all(|r| *r <= fitted.tokens), "{what}");
                assert!(fitted.expert_rows[1..3].iter().all(|r| *r >= WITNESSES), "{what}");
                let exercise = Exercise::from_case(&fitted, &config, fitted.seed);
                let deep = case.minimum.is_some_and(|minimum| minimum.rounds > 0);
                let missing = exercise.missing_shape(&config);
                assert!(missing.iter().all(|m| !deep && m.ends_with("K tiles")), "{what}: {missing:?}");
                // Fitting a fitted case changes nothing.
                assert_eq!(fit(&fitted, &config), fitted, "{what}");
                seen += 1;
            }
        }
        assert!(seen > 1000, "{seen}");
    }
}
