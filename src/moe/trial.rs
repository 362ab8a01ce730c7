//! One trial: a case, a tile and how it is compiled; run on a device, judged stage by stage.

use std::sync::Arc;

use super::contract::{Accumulation, Contract, ExpBound, FinalizeOrder, KOrder};
use super::pipeline::{self, Compiled, PipelineError, Ran, Setup};
use super::sources;
use super::{Dims, MoeError, Problem, Settings, Tensors, judge};
use crate::device::{Device, Failure};
use crate::emulator::{EmulatorDevice, Options, Programs};
use crate::kernel::{self, Atomics, ExpKind, Kernel, Library, MmaPath};
use crate::record::{Stage, StageResult, Verdict};

/// Why a trial has no verdicts.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// It cannot begin.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// What it left cannot be judged.
    #[error(transparent)]
    Moe(#[from] MoeError),
}

/// What a trial found.
#[derive(Debug)]
pub struct Outcome {
    /// Every stage, in order.
    pub stages: Vec<StageResult>,
    /// All tensors.
    pub tensors: Tensors,
    /// What they were judged by.
    pub contract: Contract,
    /// Rows that warps executed, on the emulator.
    pub warp_instructions: u64,
}

impl Outcome {
    /// The first stage that does not conform.
    #[must_use]
    pub fn first_wrong(&self) -> Option<&StageResult> {
        self.stages.iter().find(|s| !s.verdict.conforms())
    }
}

/// What the kernels of a setup promise of a problem.
///
/// # Errors
/// [`PipelineError::Kernel`] when a stage has no kernel.
pub fn contract(
    library: &Library,
    dims: Dims,
    settings: Settings,
    setup: &Setup,
) -> Result<Contract, PipelineError> {
    let gemm = library.gemm(setup.config.path, setup.config.load)?;
    let any = |of| Accumulation { order: KOrder::Any, ..of };
    let sum = match (setup.config.path, gemm.contract.k_order) {
        (MmaPath::Native, kernel::KOrder::Ascending) => Accumulation::NATIVE,
        (MmaPath::Native, _) => any(Accumulation::NATIVE),
        (MmaPath::Portable, kernel::KOrder::Ascending) => Accumulation::BF16,
        (MmaPath::Portable, _) => any(Accumulation::BF16),
        (MmaPath::Gemv, kernel::KOrder::Partials) => {
            Accumulation::partials(u8::try_from(setup.config.tile.k / 32).unwrap_or(u8::MAX))
        }
        // How often it rounds between two blocks is not known.
        (MmaPath::Gemv, _) => Accumulation::UNKNOWN,
    };
    let approximate = |k: &Kernel| k.contract.exp == ExpKind::Ex2Approx;
    let others = sources::beside_the_gemm(library, setup.variant)?;
    let [route, _, _, activation, finalize] = others;
    Ok(Contract {
        dims,
        settings,
        fc1: sum,
        fc2: sum,
        exp: if approximate(route) || approximate(activation) { ExpBound::EX2_APPROX } else { ExpBound::FMA },
        finalize: match finalize.contract.atomics {
            _ if finalize.contract.deterministic => FinalizeOrder::Slots,
            Atomics::F32 => FinalizeOrder::AtomicF32,
            // Atomics that a header does not name are taken for the looser ones.
            Atomics::None | Atomics::Bf16 => FinalizeOrder::AtomicBf16,
        },
        deterministic: [route, others[1], others[2], gemm, activation]
            .iter()
            .all(|k| k.contract.deterministic),
    })
}

/// Runs a problem on the emulator under the schedules `0..schedules` and judges it. Where the kernels promise the same bits
/// every time, the schedules must agree.
///
/// # Errors
/// [`TrialError`]; a kernel that traps or is wrong is no error but a verdict.
pub fn on_emulator(
    programs: &Arc<Programs>,
    compiled: &Compiled<'_>,
    contract: &Contract,
    problem: &Problem,
    setup: &Setup,
    schedules: std::ops::Range<u64>,
) -> Result<Outcome, TrialError> {
    on_emulator_with(programs, compiled, contract, problem, setup, schedules, Options::default())
}

/// As [`on_emulator`] with other options, but for the seed: each schedule has its own.
///
/// # Errors
/// As [`on_emulator`].
pub fn on_emulator_with(
    programs: &Arc<Programs>,
    compiled: &Compiled<'_>,
    contract: &Contract,
    problem: &Problem,
    setup: &Setup,
    schedules: std::ops::Range<u64>,
    options: Options,
) -> Result<Outcome, TrialError> {
    let mut first: Option<Outcome> = None;
    for seed in schedules {
        let options = Options { seed, ..options };
        let mut device = EmulatorDevice::new(Arc::clone(programs), options);
        let ran = pipeline::run(&mut device, compiled, problem, setup)?;
        let finished = ran.stopped.is_none();
        let mut outcome = judged(ran, contract, &device.name(), device.warp_instructions)?;
        uncompared(contract, &mut outcome.stages);
        let Some(before) = &first else {
            first = Some(outcome);
            continue;
        };
        outcome.warp_instructions += before.warp_instructions;
        if contract.deterministic
            && finished
            && let Some(stage) = first_difference(&before.tensors, &outcome.tensors)
            && (stage != Stage::Finalize || contract.finalize == FinalizeOrder::Slots)
            && let Some(result) = outcome.stages.iter_mut().find(|s| s.stage == stage)
        {
            result.verdict = Verdict::Fail;
            result.worst_over_bound = f64::INFINITY;
            result.mismatches += 1;
            result.note = format!(
                "schedule {seed} stores other bits than the one before, and the kernels promise the same"
            );
        }
        first = Some(outcome);
        if first.as_ref().is_some_and(|o| o.first_wrong().is_some()) {
            break;
        }
    }
    first.ok_or_else(|| MoeError::Invalid("a trial of no schedule runs nothing".to_owned()).into())
}

/// Says of stages whose kernels promise no equal bits that schedules are not compared.
fn uncompared(contract: &Contract, stages: &mut [StageResult]) {
    for result in stages.iter_mut().filter(|s| s.verdict == Verdict::Pass && s.note.is_empty()) {
        let last = result.stage == Stage::Finalize && contract.finalize != FinalizeOrder::Slots;
        if last || !contract.deterministic {
            "not compared between schedules: the kernel declares deterministic: false"
                .clone_into(&mut result.note);
        }
    }
}

/// The first stage whose stored bits differ.
pub(super) fn first_difference(a: &Tensors, b: &Tensors) -> Option<Stage> {
    let bits = |w: &Option<super::Array<f32>>| {
        w.as_ref().map(|w| w.data.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
    };
    [
        (Stage::Route, a.topk_ids == b.topk_ids && bits(&a.topk_weights) == bits(&b.topk_weights)),
        (Stage::Permute, a.row_token == b.row_token && a.row_expert == b.row_expert),
        (Stage::Quantize, a.a1_codes == b.a1_codes && a.a1_scales == b.a1_scales),
        (Stage::Fc1, a.fc1_out == b.fc1_out),
        (Stage::Requantize, a.a2_codes == b.a2_codes && a.a2_scales == b.a2_scales),
        (Stage::Fc2, a.fc2_out == b.fc2_out),
        (Stage::Finalize, a.output == b.output),
    ]
    .into_iter()
    .find_map(|(stage, same)| (!same).then_some(stage))
}

/// What a launch that did not finish is called.
pub(super) fn verdict_of(failure: Failure, device: &str) -> (Verdict, String) {
    match failure {
        Failure::Trap { what, .. } => (Verdict::Fail, what),
        Failure::Unsupported(text) => (Verdict::Unsupported, format!("{device}: {text}")),
        Failure::Launch(text) => (Verdict::Fail, text),
        Failure::Broken(text) => (Verdict::Broken, text),
        Failure::TimedOut(text) => (Verdict::TimedOut, text),
        Failure::Crashed(text) => (Verdict::Crashed, text),
        Failure::DeviceLost(text) => (Verdict::DeviceLost, text),
    }
}

/// The verdicts of a run: of what was stored, of the padding, and of the launch that failed.
pub(super) fn judged(
    ran: Ran,
    contract: &Contract,
    device: &str,
    warp_instructions: u64,
) -> Result<Outcome, MoeError> {
    let mut stages = judge(contract, &ran.tensors)?;
    for (stage, text) in ran.pads {
        if let Some(result) = stages.iter_mut().find(|s| s.stage == stage)
            && result.verdict == Verdict::Pass
        {
            result.verdict = Verdict::Fail;
            result.worst_over_bound = f64::INFINITY;
            result.mismatches += 1;
            result.note = text;
        }
    }
    if let Some((stage, failure)) = ran.stopped {
        let (verdict, note) = verdict_of(failure, device);
        for result in stages.iter_mut().filter(|s| s.stage >= stage) {
            *result = StageResult::skipped(result.stage, format!("{} did not finish", stage.word()));
        }
        if let Some(result) = stages.iter_mut().find(|s| s.stage == stage) {
            result.verdict = verdict;
            result.worst_over_bound = f64::INFINITY;
            result.note = note;
        }
    }
    // A run to the end leaves every tensor: a stage that was not judged although nothing is wrong proves nothing.
    if stages.iter().all(|s| s.verdict.conforms()) {
        for result in stages.iter_mut().filter(|s| s.verdict == Verdict::Skipped) {
            result.verdict = Verdict::Broken;
        }
    }
    Ok(Outcome { stages, tensors: ran.tensors, contract: *contract, warp_instructions })
}
