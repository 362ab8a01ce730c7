//! The rungs without a GPU: graphs of the kernels are right for every routing on the emulator, and a fault that only
//! another routing shows is caught there.

use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use sm121probe::kernel::Library;
use sm121probe::moe::plan::{self, LOADS, PATHS};
use sm121probe::moe::runner::Runner;
use sm121probe::record::{Rung, RungResult, Verdict};

use super::{Shared, tool};

const CASE: &str = "tiny-exact";
/// The case whose last stage keeps counters from launch to launch.
const ATOMIC: &str = "tiny-atomic";
/// So small that every expert has one tile in the case's own routing and some have two in others.
const TILE: &str = "8x64x128";

/// Replays are slow here, and the emulator is deterministic anyway.
const REPLAYS: usize = 2;

pub(super) fn trials(shared: &Arc<Shared>) -> Vec<Trial> {
    let mut out = Vec::new();
    for load in LOADS {
        for path in PATHS.into_iter().filter(|path| plan::goes_with(*path, load)) {
            let shared = Arc::clone(shared);
            let name = format!("rungs.{CASE}/tile={TILE},load={},path={}/emulator", load.word(), path.word());
            out.push(Trial::test(name, move || {
                stands(&climb(&shared, &shared.library, CASE, load, path)?, &[])
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
        Rung::Graph,
        "another routing",
        few,
    ));
    let stale = |library: &mut Library| {
        for kernel in library.kernels.iter_mut().filter(|k| k.file == "finalize_atomic.cu") {
            kernel.text = kernel.text.replace("        *arrived = 0;\n", "        *arrived = 1;\n");
        }
    };
    out.push(fault(shared, "arrivals_of_the_replay_before", ATOMIC, Rung::Graph, "finalize", stale));
    let shared = Arc::clone(shared);
    out.push(Trial::test(format!("rungs.{ATOMIC}/emulator"), move || {
        // Kernels that promise no order are not compared with themselves, and the graph is judged.
        let rungs = climb(&shared, &shared.library, ATOMIC, LOADS[0], PATHS[0])?;
        stands(&rungs, &[Rung::Deterministic, Rung::Pdl])
    }));
    out
}

/// Every rung passes, those of `skipped` apart.
fn stands(rungs: &[RungResult], skipped: &[Rung]) -> Result<(), Failed> {
    let wanted = |r: &RungResult| if skipped.contains(&r.rung) { Verdict::Skipped } else { Verdict::Pass };
    match rungs.iter().find(|r| r.verdict != wanted(r)) {
        Some(wrong) => Err(format!("{}: {}: {}", wrong.rung.word(), wrong.verdict.word(), wrong.note).into()),
        None => Ok(()),
    }
}

/// A fault that every lower rung passes.
fn fault(
    shared: &Arc<Shared>,
    name: &str,
    case: &'static str,
    rung: Rung,
    says: &'static str,
    plant: impl Fn(&mut Library) + Send + 'static,
) -> Trial {
    let shared = Arc::clone(shared);
    Trial::test(format!("fault.rung.{name}"), move || {
        let mut library = shared.library.clone();
        plant(&mut library);
        let rungs = climb(&shared, &library, case, LOADS[0], PATHS[0])?;
        let wrong = rungs.iter().find(|r| !r.verdict.conforms()).ok_or("nobody noticed")?;
        let above = rungs.iter().filter(|r| r.rung > wrong.rung).all(|r| r.verdict == Verdict::Skipped);
        if wrong.rung == rung && wrong.verdict == Verdict::Fail && wrong.note.contains(says) && above {
            return Ok(());
        }
        Err(format!("{rungs:?}").into())
    })
}

fn climb(
    shared: &Shared,
    library: &Library,
    case: &str,
    load: sm121probe::kernel::Load,
    path: sm121probe::kernel::MmaPath,
) -> Result<Vec<RungResult>, Failed> {
    let case = shared.cases.iter().find(|c| c.name == case).ok_or("there is no such case")?;
    let tile = TILE.parse().map_err(|e| format!("{e}"))?;
    let trials = plan::trials(case, &[tile], &[load], &[path]);
    let trial = trials.first().ok_or("there is no trial")?;
    let config = trial.config.clone().map_err(|blocked| blocked.0)?;
    let runner = Runner::new(library, &shared.nvrtc, shared.store.as_ref(), tool().to_owned());
    let climbed = runner.rungs_on_emulator(trial, config, shared.target, REPLAYS);
    Ok(climbed.map_err(|e| e.to_string())?.rungs)
}
