//! Fault coverage of a run: for every kernel of the grouped GEMM that it ran, which bytes the data that the kernel got right
//! would have shown changed (docs/numerics.md, 7).

use std::collections::BTreeMap;

use ptx::arch::Target;
use rayon::prelude::*;

use super::contract::{Accumulation, Settings};
use super::error::MoeError;
use super::plan::{self, Trial};
use super::trial::{self, TrialError};
use super::witness::{Coverage, witness};
use super::{Dims, problem};
use crate::case::{Case, FormatPair, Regime};
use crate::kernel::Library;
use record::{ConfigurationKey, FaultCoverageRow, Named, TrialRow, Verdict};

/// Cases whose coverage can be joined place by place: dimensions and routing.
type Group = String;

/// A kernel of the grouped GEMM: configuration, target, device, operands.
type Kernel = (ConfigurationKey, Named<Target>, String, FormatPair);

/// The cases of each group that a kernel passed.
type Passed<'a> = BTreeMap<Group, Vec<(&'a Case, Key)>>;

/// A case as large as a configuration needs it. How sums are accumulated makes no difference to exact and impulse data, whose sums
/// are exact in any order and width (docs/numerics.md, 7).
type Key = (String, Group);

/// One row for each kernel that was judged, from the exact and impulse cases that it passed. Where cases of several
/// dimensions passed, those of both regimes count, and of them the smallest. `seed` is that of the run.
///
/// # Errors
/// [`TrialError`] when a case cannot be made again.
pub fn of_run(
    library: &Library,
    trials: &[(&Trial<'_>, &TrialRow)],
    seed: Option<u64>,
) -> Result<Vec<FaultCoverageRow>, TrialError> {
    let mut kernels: BTreeMap<Kernel, Passed<'_>> = BTreeMap::new();
    let mut wanted: BTreeMap<Key, (&Case, [Accumulation; 2])> = BTreeMap::new();
    for (trial, row) in trials {
        let Ok(config) = trial.config else { continue };
        let case: &Case = &trial.case;
        let groups = kernels.entry(kernel(row, case.pair)).or_default();
        if row.verdict() != Verdict::Pass || !matches!(case.regime, Regime::Exact | Regime::Impulse) {
            continue;
        }
        let (settings, setup) = (Settings::of(case), plan::setup(case, config));
        let contract = trial::contract(library, Dims::of(case), settings, &setup, None)?;
        let key = (case.name.clone(), group(case));
        wanted.entry(key.clone()).or_insert((case, [contract.fc1, contract.fc2]));
        let cases = groups.entry(group(case)).or_default();
        if cases.iter().all(|(_, known)| *known != key) {
            cases.push((case, key));
        }
    }
    // Only what is chosen is computed: large cases take seconds.
    let chosen: BTreeMap<Kernel, Vec<(&Case, Key)>> = kernels
        .into_iter()
        .map(|(kernel, groups)| (kernel, choose(groups.into_values().collect())))
        .collect();
    wanted.retain(|key, _| chosen.values().flatten().any(|(_, used)| used == key));
    let made: BTreeMap<Key, Vec<Coverage>> = wanted
        .into_par_iter()
        .map(|(key, (case, [fc1, fc2]))| {
            let problem = problem::generate(case, seed.unwrap_or(case.seed))?;
            let (first, second) = witness(&problem, fc1, fc2)?;
            Ok((key, std::iter::once(first).chain(second).collect()))
        })
        .collect::<Result<_, MoeError>>()?;
    Ok(chosen
        .into_iter()
        .map(|(kernel, cases)| row(kernel, &cases, &made))
        .collect::<Result<_, MoeError>>()?)
}

fn kernel(row: &TrialRow, pair: FormatPair) -> Kernel {
    (row.configuration.clone(), row.target.clone(), row.device.clone(), pair)
}

fn group(case: &Case) -> Group {
    let Case { pair, routing, expert_rows, router, .. } = case;
    format!("{} {:?} {routing:?} {expert_rows:?} {router:?}", pair.word(), Dims::of(case))
}

/// Those with exact data before those without, those of both regimes before those of one, those that were made as large as the
/// kernel needs before others, the smaller before the larger.
fn choose(groups: Vec<Vec<(&Case, Key)>>) -> Vec<(&Case, Key)> {
    let rank = |cases: &Vec<(&Case, Key)>| {
        let has = |regime: Regime| cases.iter().any(|(case, _)| case.regime == regime);
        let size = cases.iter().map(|(c, _)| c.tokens * c.top_k * c.hidden * c.inter).max().unwrap_or(0);
        let fitted = cases.iter().any(|(case, _)| plan::is_swept(case));
        (!has(Regime::Exact), !has(Regime::Impulse), !fitted, size)
    };
    groups.into_iter().min_by_key(rank).unwrap_or_default()
}

fn row(
    (configuration, target, device, _): Kernel,
    cases: &[(&Case, Key)],
    made: &BTreeMap<Key, Vec<Coverage>>,
) -> Result<FaultCoverageRow, MoeError> {
    let mut union: Vec<Coverage> = Vec::new();
    for coverage in cases.iter().filter_map(|(_, key)| made.get(key)) {
        if union.is_empty() {
            union.clone_from(coverage);
        } else {
            union.iter_mut().zip(coverage).try_for_each(|(mine, theirs)| mine.join(theirs))?;
        }
    }
    let shares = || union.iter().flat_map(Coverage::shares).map(|(_, share)| share);
    let names = cases.iter().map(|(case, _)| case.name.clone()).collect();
    Ok(FaultCoverageRow {
        configuration,
        target,
        device,
        cases: names,
        exposed: shares().map(|s| s.witnessed as u64).sum(),
        total: shares().map(|s| s.total as u64).sum(),
    })
}
