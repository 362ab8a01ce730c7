//! The pipeline on a GPU: every admitted trial of the run, with every check. The GPU runs one trial at a time; meanwhile, others are
//! emulated and judged.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use emulator::device::Failure;
use libtest_mimic::{Failed, Trial};
use sm121probe::frame::runner::Runner;
use sm121probe::gpu::{Chain, GpuDevice, Launcher};
use sm121probe::kernel::{Load, MmaPath};
use sm121probe::moe::plan::{self, LOADS};
use sm121probe::record::{TrialRow, Verdict};
use sm121probe::toolkit::{self, Places};

use super::{Shared, green, required, selected, tool, without_device};

/// A launch that takes longer counts as hung.
const LIMIT: Duration = Duration::from_secs(60);

/// Case and tile of the trials that the driver's compiler assembles.
const JIT_CASE: &str = "tiny-exact";
const JIT_TILE: &str = "8x64x128";

fn open() -> Result<GpuDevice, Failure> {
    let launcher = Launcher { program: tool().to_owned(), ordinal: "0".to_owned(), limit: LIMIT };
    GpuDevice::open(launcher, Chain::default())
}

pub(super) fn trials(shared: &Arc<Shared>) -> Vec<Trial> {
    let gpu = match open() {
        Ok(gpu) => gpu,
        Err(failure) => return absent(shared, &failure.to_string()),
    };
    let discovery = toolkit::discover(
        shared.store.as_ref(),
        &Places::from_environment(shared.store.as_ref().map(sm121probe::store::Store::root)),
    );
    let chain = Chain { toolkit: discovery.toolkits.last().cloned(), store: shared.store.clone() };
    let (target, native) = (gpu.about().target(), gpu.about().target().is_sm12x());
    let gpu = Arc::new(Mutex::new(gpu.with_chain(chain)));
    let mut out = super::gpu_faults::trials();
    out.extend(super::sanitizer::trials(shared, &gpu));
    out.extend(LOADS.into_iter().filter(|load| *load != Load::Direct).map(|load| {
        let (shared, gpu) = (Arc::clone(shared), Arc::clone(&gpu));
        Trial::test(format!("jit.{JIT_CASE}/tile={JIT_TILE},load={}/gpu:0", load.word()), move || {
            through_the_driver(&shared, &gpu, target, load)
        })
    }));
    for (n, trial) in selected(&shared.cases).iter().enumerate() {
        let name = format!("{}/gpu:0", without_device(trial));
        if trial.path == MmaPath::Native && !native {
            out.push(ignored(name, "block-scaled mma needs SM12x"));
            continue;
        }
        let (shared, gpu) = (Arc::clone(shared), Arc::clone(&gpu));
        out.push(Trial::test(name, move || run(&shared, n, &gpu, target)));
    }
    out
}

/// Runs a trial whose PTX the driver's compiler assembles; [`trials`] uses ptxas.
fn through_the_driver(
    shared: &Shared,
    gpu: &Mutex<GpuDevice>,
    target: ptx::arch::Target,
    load: Load,
) -> Result<(), Failed> {
    let case = shared.cases.iter().find(|c| c.name == JIT_CASE).ok_or("there is no such case")?;
    let tile = JIT_TILE.parse().map_err(|e| format!("{e}"))?;
    let trials = plan::trials(case, &[tile], &[load], &[MmaPath::Portable]);
    let trial = trials.first().ok_or("there is no trial")?;
    // Its own worker process; one trial at a time uses the GPU.
    let _held = gpu.lock().unwrap_or_else(PoisonError::into_inner);
    let own = Arc::new(Mutex::new(open().map_err(|e| e.to_string())?));
    let runner =
        Runner::new(&shared.library, &shared.nvrtc, shared.store.as_ref(), tool().to_owned()).on(own);
    stands(&runner.run(trial, target).map_err(|e| e.to_string())?)
}

fn run(
    shared: &Shared,
    n: usize,
    gpu: &Arc<Mutex<GpuDevice>>,
    target: ptx::arch::Target,
) -> Result<(), Failed> {
    let trial = &selected(&shared.cases)[n];
    let runner = Runner::new(&shared.library, &shared.nvrtc, shared.store.as_ref(), tool().to_owned())
        .on(Arc::clone(gpu));
    stands(&runner.run(trial, target).map_err(|e| e.to_string())?)
}

/// Fails unless the trial conforms and passes every check.
fn stands(row: &TrialRow) -> Result<(), Failed> {
    green(row)?;
    match row.checks.iter().find(|r| !r.verdict.conforms()) {
        Some(wrong) => {
            Err(format!("{}: {}: {}", wrong.check.word(), wrong.verdict.word(), wrong.note).into())
        }
        None if row.checks.iter().any(|r| r.verdict == Verdict::Pass) => Ok(()),
        None => Err("no check passes".into()),
    }
}

fn absent(shared: &Shared, reason: &str) -> Vec<Trial> {
    if required("gpu") {
        let text = format!("SM121PROBE_REQUIRE asks for a GPU; {reason}");
        return vec![Trial::test("required.gpu", move || Err(Failed::from(text)))];
    }
    let reason = format!("no GPU: {reason}");
    selected(&shared.cases).iter().map(|t| ignored(format!("{}/gpu:0", without_device(t)), &reason)).collect()
}

fn ignored(name: String, reason: &str) -> Trial {
    Trial::test(name, || Ok(())).with_kind(reason).with_ignored_flag(true)
}
