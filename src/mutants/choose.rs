//! Chooses a few cheap trials that together cover the features of many.

use std::collections::BTreeSet;

use crate::case::{Format, KTail};
use crate::kernel::MmaPath;
use crate::moe::plan::Trial;

/// Prefixes of the features that must be covered at any cost: each K of a tile, each power of two that K reaches, each pair of
/// formats, and an `mma` of which K fills only the first half.
const REQUIRED: [&str; 4] = ["tile of K ", "K of 2^", "formats ", "half an mma of "];

/// The same for further trials: the other options of quantizers, and each power of two of K whose last tile ends at least one word of
/// scales early.
const REQUIRED_FURTHER: [&str; 2] = ["scales by ", "words behind K of 2^"];

/// Returns the features of a trial: its rules and dimensions, and pairs of the options that its GEMM is compiled with.
#[must_use]
pub fn features(trial: &Trial<'_>) -> BTreeSet<String> {
    let mut out = features_beside(trial);
    out.extend(features_of_gemm(trial));
    out
}

/// Returns the features of a trial that affect kernels other than the GEMM.
#[must_use]
pub fn features_beside(trial: &Trial<'_>) -> BTreeSet<String> {
    let c = &trial.case;
    let rows = c.tokens * c.top_k;
    let scores = c.router.scores.word();
    let groups = c
        .router
        .groups
        .map_or("no groups".to_owned(), |g| format!("{} groups by {}", g.count, g.score.word()));
    BTreeSet::from([
        format!("{}{}", REQUIRED[2], c.pair.word()),
        format!("{} of {}", c.regime.word(), c.pair.word()),
        format!("tail {} of {}", c.k_tail.word(), c.pair.word()),
        groups.clone(),
        format!("{} of {scores}", c.routing.word()),
        format!("{} of {groups}", c.routing.word()),
        format!("arguments {} of {scores}", c.arguments.word()),
        format!("experts {} of {scores}", c.experts.next_power_of_two()),
        format!("renormalise {} of {scores}", c.router.renormalise),
        format!("correction bias {}", c.router.correction_bias),
        format!("scaling {}", c.router.scaling),
        c.regime.word().to_owned(),
        c.routing.word().to_owned(),
        format!(
            "{}{} of {}, {}",
            REQUIRED_FURTHER[0],
            c.scale_rule.word(),
            c.pair.word(),
            c.global_scale.word()
        ),
        c.gate_up.word().to_owned(),
        format!("fc1 bias {}", c.fc1_bias.word()),
        format!("fc2 bias {}", c.fc2_bias.word()),
        format!("bias {}", c.bias),
        format!("tail {}", c.k_tail.word()),
        format!("scales {}", c.scale_tiles.word()),
        format!("arguments {}", c.arguments.word()),
        format!("pdl {}", c.pdl),
        format!("exp {}", c.exp.word()),
        format!("finalize {}", c.finalize.word()),
        format!("top-k {}", c.top_k),
        format!("clamp {}", c.limit < 1.0),
        format!("unclamped {}", c.limit.is_infinite()),
        format!("schedules {}", c.schedules > 1),
        format!("experts {}", c.experts.next_power_of_two()),
        format!("{} among experts {}", c.routing.word(), c.experts > 32),
        format!("blocks of K {}", (c.hidden / 32).next_power_of_two()),
        format!("blocks between {}", (c.inter / 32).next_power_of_two()),
        format!("alpha {}", c.alpha),
        format!("M {}", trial.tile.m),
        format!("warps of rows: {}", (rows.div_ceil(32)).min(4)),
    ])
}

fn features_of_gemm(trial: &Trial<'_>) -> BTreeSet<String> {
    let c = &trial.case;
    let (tile, path, load) = (trial.tile, trial.path.word(), trial.load.word());
    let rows = c.tokens * c.top_k;
    let mut out = BTreeSet::from([
        format!("{}{}", REQUIRED[0], tile.k),
        format!("{}{}", REQUIRED[1], c.hidden.max(1).ilog2()),
        format!("{path} {load} {}", trial.swap_ab),
        format!("{path} {load} K {}", tile.k),
        format!("{} {path}", c.pair.word()),
        format!("{} {load}", c.pair.word()),
        format!("{path} K {} {}", tile.k, trial.swap_ab),
        format!("M {} {path}", tile.m),
        format!("N {} {path}", tile.n),
        format!("{} {path}", c.regime.word()),
        format!("{} {load}", c.regime.word()),
        format!("tail {} {path} {load}", c.k_tail.word()),
        format!("scales {} {path}", c.scale_tiles.word()),
        format!("pdl {} {load}", c.pdl),
        // Loops that end within a warp, a tile or a block.
        format!("ragged K {path}: {}", !c.hidden.is_multiple_of(128)),
        format!("ragged N {path}: {}", !c.hidden.is_multiple_of(tile.n as usize)),
        format!("blocks of K {path} K {}: {}", tile.k, (c.hidden / 32).next_power_of_two()),
        format!("slots {} {path} {load}", c.slots.word()),
        format!("{} {path} {}", c.regime.word(), trial.swap_ab),
        format!("several tiles of M: {}", rows > tile.m as usize),
        format!("several tiles of K {path}: {}", (c.hidden / tile.k as usize).min(6)),
    ]);
    out.extend(half_filled(trial));
    let (tile_k, last) = (tile.k as usize, c.hidden % tile.k as usize);
    if last > 0 && last + 128 <= tile_k {
        out.insert(format!("{}{} by {path}", REQUIRED_FURTHER[1], c.hidden.ilog2()));
    }
    if let Ok(config) = trial.config {
        out.insert(format!("stages {} {load}", config.stages));
        out.insert(format!("warps {}x{} {path}", config.warps_x, config.warps_y));
        let steps = c.hidden.div_ceil(tile.k as usize);
        out.insert(format!("wraps of stages {load}: {}", (steps / config.stages as usize).min(3)));
    }
    out
}

/// Returns the features of a K that ends in the middle of an `mma` of 64 elements, whose second half is then masked: the formats,
/// which decide whether a scale covers 16 or 32 elements, and which of the two `mma` that share a word of scales it is.
fn half_filled(trial: &Trial<'_>) -> BTreeSet<String> {
    let c = &trial.case;
    let masks = trial.path == MmaPath::Native
        && c.k_tail == KTail::Stop
        && matches!(c.pair.activation(), Format::Mxfp4 | Format::Nvfp4);
    let ends = [c.hidden, c.inter].into_iter().filter(|k| masks && k % 64 == 32);
    ends.map(|k| format!("{}{} {}: {} of 128", REQUIRED[3], c.pair.word(), trial.swap_ab, k % 128)).collect()
}

/// Estimates the cost of a trial: the multiplications of the padded problem, its weights and a constant.
#[must_use]
pub fn cost(trial: &Trial<'_>) -> u64 {
    let c = &trial.case;
    let up = |n: usize, to: u32| n.next_multiple_of(to.max(1) as usize) as u64;
    let rows =
        (c.tokens * c.top_k) as u64 + (c.experts.min(c.tokens * c.top_k) as u64) * u64::from(trial.tile.m);
    let products = up(2 * c.inter, trial.tile.n) * up(c.hidden, trial.tile.k)
        + up(c.hidden, trial.tile.n) * up(c.inter, trial.tile.k);
    let weights = (c.experts * c.hidden * c.inter) as u64;
    c.schedules.max(1) * (rows * products + 20 * weights + 20_000_000)
}

/// Chooses at most `most` trials, each with the most new features per cost. The first two thirds of the list prefer trials of
/// different cases, since tiles outnumber cases and would crowd out the data. Required features come first in the last third, or from
/// the start if `before` is not empty. The features of the trials `before` count as covered. The list ends early if no trial has a
/// new feature.
#[must_use]
pub fn choose<'a>(
    trials: &[Trial<'a>],
    before: &[Trial<'a>],
    most: usize,
    features: fn(&Trial<'_>) -> BTreeSet<String>,
) -> Vec<Trial<'a>> {
    let mut left: Vec<(BTreeSet<String>, u64, &Trial<'a>)> =
        trials.iter().map(|t| (features(t), cost(t), t)).collect();
    let mut had: BTreeSet<String> = before.iter().flat_map(features).collect();
    let mut cases: BTreeSet<&str> = BTreeSet::new();
    let mut out = Vec::new();
    while out.len() < most {
        let worth = |f: &BTreeSet<String>, cost: u64| {
            (f.difference(&had).count() as u64) * 1_000_000_000_000 / cost.max(1)
        };
        let requires = |f: &BTreeSet<String>| {
            let further: &[&str] = if before.is_empty() { &[] } else { &REQUIRED_FURTHER };
            let begins =
                |feature: &String| REQUIRED.iter().chain(further).any(|prefix| feature.starts_with(prefix));
            f.difference(&had).any(begins)
        };
        let best = |new_case: bool, required: bool| {
            let of = left.iter().enumerate().filter(|(_, (f, _, t))| {
                !(f.is_subset(&had)
                    || new_case && cases.contains(t.case.name.as_str())
                    || required && !requires(f))
            });
            of.max_by_key(|(n, (f, cost, _))| (worth(f, *cost), usize::MAX - n)).map(|(n, _)| n)
        };
        let of_cases = out.len() * 3 < most * 2;
        let required = !of_cases || !before.is_empty();
        let found = best(of_cases && !required, required).or_else(|| best(of_cases, false));
        let Some(n) = found.or_else(|| best(false, false)) else { break };
        let (found, _, trial) = left.swap_remove(n);
        had.extend(found);
        cases.insert(&trial.case.name);
        out.push(trial.clone());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case;
    use crate::kernel::{Load, MmaPath};
    use crate::moe::plan;

    #[test]
    fn a_few_trials_have_every_path_load_side_and_k() {
        let library = case::library();
        let cases: Vec<_> = library.cases.iter().collect();
        let all: Vec<_> = plan::default_set(&cases).into_iter().filter(|t| t.config.is_ok()).collect();
        let few = choose(&all, &[], 24, features);
        assert_eq!(few.len(), 24);
        for path in [MmaPath::Native, MmaPath::Portable, MmaPath::Gemv] {
            assert!(few.iter().any(|t| t.path == path), "{path:?}");
        }
        for load in [Load::CpAsync, Load::Tma, Load::TmaReplace, Load::Direct] {
            assert!(few.iter().any(|t| t.load == load), "{load:?}");
        }
        for k in plan::tiles().iter().map(|t| t.k) {
            assert!(few.iter().any(|t| t.tile.k == k), "K {k}");
        }
        for pair in all.iter().map(|t| t.case.pair) {
            assert!(few.iter().any(|t| t.case.pair == pair), "{pair:?}");
        }
        let later = choose(&all, &few, 24, features);
        let rule = |t: &Trial<'_>| (t.case.pair, t.case.scale_rule, t.case.global_scale);
        for wanted in all.iter().map(rule) {
            assert!(few.iter().chain(&later).any(|t| rule(t) == wanted), "{wanted:?}");
        }
        let power = |t: &Trial<'_>| t.case.hidden.ilog2();
        for wanted in all.iter().map(power) {
            assert!(few.iter().chain(&later).any(|t| power(t) == wanted), "K of 2^{wanted}");
        }
        let met: BTreeSet<&str> = few.iter().map(|t| t.case.name.as_str()).collect();
        assert!(met.len() >= 16, "{met:?}");
        // The first trials cost less than a tenth of the most expensive one.
        let dearest = all.iter().map(cost).max().unwrap();
        assert!(few[..8].iter().all(|t| cost(t) * 10 < dearest));
        assert_eq!(choose(&all, &[], 3, features).len(), 3);
        // Identical trials are chosen once.
        let same = vec![all[0].clone(), all[0].clone()];
        assert_eq!(choose(&same, &[], 9, features).len(), 1);
    }
}
