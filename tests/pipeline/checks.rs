//! The checks without a GPU: graphs of the kernels are correct for every routing on the emulator, and a fault that only another
//! routing exposes is caught.

use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use sm121probe::frame::runner::Runner;
use sm121probe::kernel::Library;
use sm121probe::moe::plan::{self, LOADS, PATHS};
use sm121probe::record::{Check, CheckResult, Verdict};

use super::{Shared, tool};

const CASE: &str = "tiny-exact";
/// The case whose last stage keeps counters between launches.
const ATOMIC: &str = "tiny-atomic";
/// So small that every expert has one tile in the case's own routing and some experts have two in other routings.
const TILE: &str = "8x64x128";

/// Few replays: they are slow on the emulator, which is deterministic.
const REPLAYS: usize = 2;

pub(super) fn trials(shared: &Arc<Shared>) -> Vec<Trial> {
    let mut out = Vec::new();
    for load in LOADS {
        for path in PATHS.into_iter().filter(|path| plan::goes_with(*path, load)) {
            let shared = Arc::clone(shared);
            let name =
                format!("checks.{CASE}/tile={TILE},load={},path={}/emulator", load.word(), path.word());
            out.push(Trial::test(name, move || {
                all_pass(&checked(&shared, &shared.library, CASE, load, path)?, &[])
            }));
        }
    }
    let few = |library: &mut Library| {
        for kernel in library.kernels.iter_mut().filter(|k| k.entry == "grouped_gemm") {
            "experts".clone_into(&mut kernel.grid[1]);
        }
    };
    out.push(fault(
        shared,
        "a_grid_of_the_captured_routing",
        "tiny-real",
        Check::Graph,
        "another routing",
        few,
    ));
    let stale = |library: &mut Library| {
        for kernel in library.kernels.iter_mut().filter(|k| k.file == "finalize_atomic.cu") {
            kernel.text = kernel.text.replace("        *arrived = 0;\n", "        *arrived = 1;\n");
        }
    };
    out.push(fault(shared, "arrivals_of_the_replay_before", ATOMIC, Check::Graph, "finalize", stale));
    let shared = Arc::clone(shared);
    out.push(Trial::test(format!("checks.{ATOMIC}/emulator"), move || {
        // Kernels without a fixed order are not compared with themselves; the graph is judged instead.
        let results = checked(&shared, &shared.library, ATOMIC, LOADS[0], PATHS[0])?;
        all_pass(&results, &[Check::Deterministic, Check::Pdl])
    }));
    out
}

/// Every check passes, except those in `skipped`.
fn all_pass(results: &[CheckResult], skipped: &[Check]) -> Result<(), Failed> {
    let wanted = |r: &CheckResult| if skipped.contains(&r.check) { Verdict::Skipped } else { Verdict::Pass };
    match results.iter().find(|r| r.verdict != wanted(r)) {
        Some(wrong) => {
            Err(format!("{}: {}: {}", wrong.check.word(), wrong.verdict.word(), wrong.note).into())
        }
        None => Ok(()),
    }
}

/// A fault that passes all earlier checks.
fn fault(
    shared: &Arc<Shared>,
    name: &str,
    case: &'static str,
    check: Check,
    says: &'static str,
    plant: impl Fn(&mut Library) + Send + 'static,
) -> Trial {
    let shared = Arc::clone(shared);
    Trial::test(format!("fault.check.{name}"), move || {
        let mut library = shared.library.clone();
        plant(&mut library);
        let results = checked(&shared, &library, case, LOADS[0], PATHS[0])?;
        let wrong = results.iter().find(|r| !r.verdict.conforms()).ok_or("nobody noticed")?;
        let above = results.iter().filter(|r| r.check > wrong.check).all(|r| r.verdict == Verdict::Skipped);
        if wrong.check == check && wrong.verdict == Verdict::Fail && wrong.note.contains(says) && above {
            return Ok(());
        }
        Err(format!("{results:?}").into())
    })
}

fn checked(
    shared: &Shared,
    library: &Library,
    case: &str,
    load: sm121probe::kernel::Load,
    path: sm121probe::kernel::MmaPath,
) -> Result<Vec<CheckResult>, Failed> {
    let case = shared.cases.iter().find(|c| c.name == case).ok_or("there is no such case")?;
    let tile = TILE.parse().map_err(|e| format!("{e}"))?;
    let trials = plan::trials(case, &[tile], &[load], &[path]);
    let trial = trials.first().ok_or("there is no trial")?;
    trial.config.clone().map_err(|blocked| blocked.0)?;
    let runner = Runner::new(library, &shared.nvrtc, shared.store.as_ref(), tool().to_owned());
    let checked = runner.checks_on_emulator(trial, shared.target, REPLAYS);
    Ok(checked.map_err(|e| e.to_string())?.checks)
}
