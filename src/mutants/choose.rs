//! Chooses a few cheap trials that together cover the features of many.

use std::collections::BTreeSet;

use crate::frame::family::{Features, SharedTrial};

/// Returns the features of a trial that some kernels see.
pub type Seen = fn(Features) -> Features;

/// All features of a trial, as kernels see them that are compiled for each configuration.
#[must_use]
pub fn all_features(features: Features) -> Features {
    features
}

/// The features that kernels see that are compiled once for all configurations.
#[must_use]
pub fn features_beside(features: Features) -> Features {
    let beside = |set: BTreeSet<String>| set.intersection(&features.beside).cloned().collect();
    Features {
        configured: BTreeSet::new(),
        required: beside(features.required),
        required_further: beside(features.required_further),
        beside: features.beside,
    }
}

fn every(features: &Features) -> BTreeSet<String> {
    features.beside.union(&features.configured).cloned().collect()
}

/// Chooses at most `most` trials, each with the most new features per cost. The first two thirds of the list prefer trials of
/// different cases, since tiles outnumber cases and would crowd out the data. Required features come first in the last third, or from
/// the start if `before` is not empty. The features of the trials `before` count as covered. The list ends early if no trial has a
/// new feature.
#[must_use]
pub fn choose(trials: &[SharedTrial], before: &[SharedTrial], most: usize, seen: Seen) -> Vec<SharedTrial> {
    struct Left<'t> {
        all: BTreeSet<String>,
        required: BTreeSet<String>,
        cost: u64,
        trial: &'t SharedTrial,
    }
    let left = |trial| -> Left<'_> {
        let trial: &SharedTrial = trial;
        let features = seen(trial.features());
        let mut required = features.required.clone();
        if !before.is_empty() {
            required.extend(features.required_further.iter().cloned());
        }
        Left { all: every(&features), required, cost: trial.cost(), trial }
    };
    let mut left: Vec<Left<'_>> = trials.iter().map(left).collect();
    let mut had: BTreeSet<String> = before.iter().flat_map(|t| every(&seen(t.features()))).collect();
    let mut cases: BTreeSet<&str> = BTreeSet::new();
    let mut out = Vec::new();
    while out.len() < most {
        let worth = |f: &BTreeSet<String>, cost: u64| {
            (f.difference(&had).count() as u64) * 1_000_000_000_000 / cost.max(1)
        };
        let best = |new_case: bool, required: bool| {
            let of = left.iter().enumerate().filter(|(_, l)| {
                !(l.all.is_subset(&had)
                    || new_case && cases.contains(l.trial.case())
                    || required && l.required.is_subset(&had))
            });
            of.max_by_key(|(n, l)| (worth(&l.all, l.cost), usize::MAX - n)).map(|(n, _)| n)
        };
        let of_cases = out.len() * 3 < most * 2;
        let required = !of_cases || !before.is_empty();
        let found = best(of_cases && !required, required).or_else(|| best(of_cases, false));
        let Some(n) = found.or_else(|| best(false, false)) else { break };
        let Left { all, trial, .. } = left.swap_remove(n);
        had.extend(all);
        cases.insert(trial.case());
        out.push(SharedTrial::clone(trial));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::family::Family as _;
    use crate::kernel::{Load, MmaPath};
    use crate::moe::family::MOE;
    use crate::moe::plan::{self, Trial as MoeTrial};

    fn moe(trials: &[SharedTrial]) -> Vec<&MoeTrial> {
        trials.iter().filter_map(|trial| trial.as_family()).collect()
    }

    #[test]
    fn a_few_trials_have_every_path_load_side_and_k() {
        let names: Vec<String> = MOE.cases().into_iter().map(|case| case.name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut every = MOE.default_set(&names);
        every.retain(|t| t.blocked().is_none());
        let chosen = choose(&every, &[], 24, all_features);
        let (all, few) = (moe(&every), moe(&chosen));
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
        let further = choose(&every, &chosen, 24, all_features);
        let later = moe(&further);
        let rule = |t: &&MoeTrial| (t.case.pair, t.case.scale_rule, t.case.global_scale);
        for wanted in all.iter().map(rule) {
            assert!(few.iter().chain(&later).any(|t| rule(t) == wanted), "{wanted:?}");
        }
        let power = |t: &&MoeTrial| t.case.hidden.ilog2();
        for wanted in all.iter().map(power) {
            assert!(few.iter().chain(&later).any(|t| power(t) == wanted), "K of 2^{wanted}");
        }
        let met: BTreeSet<&str> = few.iter().map(|t| t.case.name.as_str()).collect();
        assert!(met.len() >= 16, "{met:?}");
        // The first trials cost less than a tenth of the most expensive one.
        let dearest = every.iter().map(|t| t.cost()).max().unwrap();
        assert!(chosen[..8].iter().all(|t| t.cost() * 10 < dearest));
        assert_eq!(choose(&every, &[], 3, all_features).len(), 3);
        // Identical trials are chosen once.
        let same = vec![SharedTrial::clone(&every[0]), SharedTrial::clone(&every[0])];
        assert_eq!(choose(&same, &[], 9, all_features).len(), 1);
    }
}
