//! Fault coverage of a run: for every kernel of the grouped GEMM that ran, the bytes whose change would be exposed by the data that it
//! got right (docs/numerics.md, 7).

use std::collections::{BTreeMap, BTreeSet};

use ptx::arch::Target;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::contract::{Accumulation, Settings};
use super::error::MoeError;
use super::family::FAMILY;
use super::plan::{self, Trial};
use super::trial;
use super::witness::{Coverage, witness};
use super::{Dims, problem};
use crate::frame::TrialError;
use crate::frame::kept::Kept;
use crate::kernel::Library;
use crate::moe::case::{Case, FormatPair, Regime};
use record::{ConfigurationName, FaultCoverageRow, Named, TrialRow, Verdict};

/// The kind of cache entry.
const KIND: &str = "coverage-1";

/// Cases whose coverage can be joined place by place: dimensions and routing.
type Group = String;

/// A kernel of the grouped GEMM: configuration, target, device, operand formats.
type Kernel = (ConfigurationName, Named<Target>, String, FormatPair);

/// The cases of each group that a kernel passed.
type Passed<'a> = BTreeMap<Group, Vec<(&'a Case, Key)>>;

/// A case, enlarged as a configuration requires. The accumulation makes no difference to exact and impulse data, whose sums
/// are exact in any order and width (docs/numerics.md, 7).
type Key = (String, Group);

/// A case and how its two GEMMs accumulate.
type Source<'a> = (&'a Case, [Accumulation; 2]);

/// Returns one row for each kernel that was judged, from the exact and impulse cases that it passed. If cases of several dimensions
/// passed, those of both regimes count, and of them the smallest. `seed` is that of the run.
///
/// # Errors
/// [`TrialError`] if a case cannot be generated.
pub fn of_run(
    library: &Library,
    trials: &[(&Trial, &TrialRow)],
    seed: Option<u64>,
    kept: &Kept<'_>,
) -> Result<Vec<FaultCoverageRow>, TrialError> {
    let mut kernels: BTreeMap<Kernel, Passed<'_>> = BTreeMap::new();
    let mut cases: BTreeMap<Key, Source<'_>> = BTreeMap::new();
    for (trial, row) in trials {
        let Ok(config) = trial.config else { continue };
        let case: &Case = &trial.case;
        let groups = kernels.entry(kernel(row, case.pair)).or_default();
        if row.verdict() != Verdict::Pass || !matches!(case.regime, Regime::Exact | Regime::Impulse) {
            continue;
        }
        let (settings, setup) = (Settings::from_case(case), plan::setup(case, config));
        let contract = trial::contract(library, Dims::from_case(case), settings, &setup, None)?;
        let key = (case.name.clone(), group(case));
        cases.entry(key.clone()).or_insert((case, [contract.fc1, contract.fc2]));
        let of_group = groups.entry(group(case)).or_default();
        if of_group.iter().all(|(_, known)| *known != key) {
            of_group.push((case, key));
        }
    }
    let chosen: BTreeMap<Kernel, Vec<Key>> = kernels
        .into_iter()
        .map(|(kernel, groups)| {
            let chosen = choose(groups.into_values().collect());
            (kernel, chosen.into_iter().map(|(_, key)| key).collect())
        })
        .collect();
    let sets: BTreeSet<&Vec<Key>> = chosen.values().collect();
    let shares = shares(&sets, &cases, seed, kept)?;
    let row = |((configuration, target, device, _), keys): (Kernel, Vec<Key>)| {
        let Bytes { exposed, total } = shares.get(&keys).copied().unwrap_or_default();
        let cases = keys.into_iter().map(|(name, _)| name).collect();
        let family = FAMILY.to_owned();
        FaultCoverageRow { family, configuration, target, device, cases, exposed, total }
    };
    Ok(chosen.iter().map(|(kernel, keys)| row((kernel.clone(), keys.clone()))).collect())
}

/// The number of bytes whose change is exposed, and of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Bytes {
    exposed: u64,
    total: u64,
}

/// Returns what the cases of each set expose together.
fn shares(
    sets: &BTreeSet<&Vec<Key>>,
    cases: &BTreeMap<Key, Source<'_>>,
    seed: Option<u64>,
    kept: &Kept<'_>,
) -> Result<BTreeMap<Vec<Key>, Bytes>, MoeError> {
    let cache_key = |set: &[Key]| {
        let parts: Vec<String> = set
            .iter()
            .filter_map(|key| cases.get(key))
            .map(|source| format!("{source:?} {seed:?}"))
            .collect();
        kept.key(&parts)
    };
    let mut out: BTreeMap<Vec<Key>, Bytes> = BTreeMap::new();
    for set in sets {
        if let Some(known) = kept.get(KIND, cache_key(set).as_ref()) {
            out.insert((*set).clone(), known);
        }
    }
    let missing: Vec<&Vec<Key>> = sets.iter().copied().filter(|set| !out.contains_key(*set)).collect();
    // Only chosen cases are computed: large ones take seconds.
    let wanted: BTreeSet<&Key> = missing.iter().copied().flatten().collect();
    let made: BTreeMap<&Key, Vec<Coverage>> = wanted
        .into_par_iter()
        .filter_map(|key| cases.get(key).map(|source| (key, source)))
        .map(|(key, (case, [fc1, fc2]))| {
            let problem = problem::generate(case, seed.unwrap_or(case.seed))?;
            let (first, second) = witness(&problem, *fc1, *fc2)?;
            Ok((key, std::iter::once(first).chain(second).collect()))
        })
        .collect::<Result<_, MoeError>>()?;
    for set in missing {
        let bytes = together(set.iter().filter_map(|key| made.get(key)))?;
        kept.put(KIND, cache_key(set).as_ref(), &bytes);
        out.insert(set.clone(), bytes);
    }
    Ok(out)
}

/// Returns what several cases expose together.
fn together<'a>(cases: impl Iterator<Item = &'a Vec<Coverage>>) -> Result<Bytes, MoeError> {
    let mut union: Vec<Coverage> = Vec::new();
    for coverage in cases {
        if union.is_empty() {
            union.clone_from(coverage);
        } else {
            union.iter_mut().zip(coverage).try_for_each(|(mine, theirs)| mine.join(theirs))?;
        }
    }
    let shares = || union.iter().flat_map(Coverage::shares).map(|(_, share)| share);
    Ok(Bytes {
        exposed: shares().map(|s| s.witnessed as u64).sum(),
        total: shares().map(|s| s.total as u64).sum(),
    })
}

fn kernel(row: &TrialRow, pair: FormatPair) -> Kernel {
    (row.configuration.clone(), row.target.clone(), row.device.clone(), pair)
}

fn group(case: &Case) -> Group {
    let Case { pair, routing, expert_rows, router, .. } = case;
    format!("{} {:?} {routing:?} {expert_rows:?} {router:?}", pair.word(), Dims::from_case(case))
}

/// Prefers cases with exact data, then cases of both regimes, then those enlarged for the
/// kernel, then smaller ones.
fn choose(groups: Vec<Vec<(&Case, Key)>>) -> Vec<(&Case, Key)> {
    let rank = |cases: &Vec<(&Case, Key)>| {
        let has = |regime: Regime| cases.iter().any(|(case, _)| case.regime == regime);
        let size = cases.iter().map(|(c, _)| c.tokens * c.top_k * c.hidden * c.inter).max().unwrap_or(0);
        let fitted = cases.iter().any(|(case, _)| plan::is_swept(case));
        (!has(Regime::Exact), !has(Regime::Impulse), !fitted, size)
    };
    groups.into_iter().min_by_key(rank).unwrap_or_default()
}
