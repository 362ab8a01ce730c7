//! One trial: a case, a tile and its configuration; run on a device, judged stage by stage.

use std::sync::Arc;

use emulator::device::Device as _;
use emulator::trials::{self, Ended, Plan, Subject, Sums, Unequal, compare_trials};
use emulator::{EmulatorDevice, Options, Turns};
use numerics::tensor_core::Model;

use super::contract::{Accumulation, Contract, ExpBound, FinalizeOrder, KOrder};
use super::pipeline::{Overwritten, Ran, Session, Setup};
use super::stage::Stage;
use super::suspicion::Suspicion;
use super::{Dims, MoeError, Problem, Settings, Tensors, judge, sources, verdicts};
use crate::frame::checks::{NotPassed, not_passed};
use crate::frame::compile::Compiled;
use crate::frame::{Memo, RunError, TrialError};
use crate::kernel::{self, Atomics, ExpKind, Kernel, Library, MmaPath};
use record::{StageResult, Verdict};

/// The result of a trial.
#[derive(Debug)]
pub struct Outcome {
    /// Every stage, in order.
    pub stages: Vec<StageResult>,
    /// All tensors.
    pub tensors: Tensors,
    /// The contract that they were judged by.
    pub contract: Contract,
    /// Warp instructions executed by the emulator.
    pub warp_instructions: u64,
}

impl Outcome {
    /// The first stage that does not conform.
    #[must_use]
    pub fn first_wrong(&self) -> Option<&StageResult> {
        self.stages.iter().find(|s| !s.verdict.conforms())
    }
}

/// Returns the contract of the kernels of a setup for a problem, on the tensor cores of `model`; those of SM12x if `None`.
///
/// # Errors
/// [`RunError::Kernel`] if a stage has no kernel.
pub fn contract(
    library: &Library,
    dims: Dims,
    settings: Settings,
    setup: &Setup,
    model: Option<Model>,
) -> Result<Contract, RunError> {
    let gemm = library.gemm(settings.pair, setup.config.path, setup.config.load)?;
    let any = |of| Accumulation { order: KOrder::Any, ..of };
    let sum = match (setup.config.path, gemm.contract.k_order) {
        (path @ (MmaPath::Native | MmaPath::Portable), kernel::KOrder::Ascending) => {
            Accumulation::on_path(settings.pair, path, model)
        }
        (path @ (MmaPath::Native | MmaPath::Portable), _) => {
            any(Accumulation::on_path(settings.pair, path, model))
        }
        (MmaPath::Gemv, kernel::KOrder::Partials) => {
            Accumulation::partials(u8::try_from(setup.config.tile.k / 32).unwrap_or(u8::MAX))
        }
        // The number of roundings between two blocks is unknown.
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
            // Atomics that a header does not declare count as the less accurate ones.
            Atomics::None | Atomics::Bf16 => FinalizeOrder::AtomicBf16,
        },
        deterministic: [route, others[1], others[2], gemm, activation]
            .iter()
            .all(|k| k.contract.deterministic),
        suspicion: Suspicion::NONE,
    })
}

/// Runs a problem on the emulator once under each of these schedules, on the same memory, and judges every run; the seed of
/// `options` is that of each schedule.
/// If the kernels promise the same bits every time, the runs must agree. After the last run, the inputs must be unchanged.
///
/// # Errors
/// [`TrialError`]; a kernel that traps or is wrong yields a verdict, not an error.
pub fn on_emulator(
    memo: &Memo,
    compiled: &Compiled<'_>,
    contract: &Contract,
    problem: &Problem,
    setup: &Setup,
    schedules: std::ops::Range<u64>,
    options: Options,
) -> Result<Outcome, TrialError> {
    let mut device = EmulatorDevice::new(Arc::clone(&memo.programs), options);
    let name = device.name();
    let mut session = Session::new(&mut device, compiled, problem, setup)?;
    let next = schedules.end;
    // A kernel that promises equal bits is held to it.
    let plan = Plan {
        require_equal: contract.deterministic,
        schedules: Some(schedules.end.saturating_sub(schedules.start)),
        shift_shared: false,
        ..Plan::default()
    };
    let mut verdict = trials::Verdict::new(&plan);
    let mut repeats = Repeats {
        session: &mut session,
        memo,
        contract,
        device: &name,
        first: schedules.start,
        runs: 0,
        last: None,
    };
    if !schedules.is_empty() {
        compare_trials(&mut repeats, &plan, &mut verdict)?;
    }
    let Repeats { runs, mut last, .. } = repeats;
    if let (Some(outcome), Some(difference)) = (&mut last, verdict.nondeterministic())
        && let Some(result) = outcome.stages.iter_mut().find(|s| s.stage.text() == difference.buffer)
        && result.verdict.conforms()
    {
        let seed = schedules.start + difference.trials[1].seed;
        fail(
            result,
            format!(
                "launch {runs} on the same memory, schedule {seed}, stores different bits from launch 1, but the kernels promise \
                 equal ones"
            ),
        );
    }
    let mut outcome =
        last.ok_or_else(|| MoeError::Invalid("a trial without schedules runs nothing".to_owned()))?;
    if outcome.first_wrong().is_none() {
        try_lanes(&mut session, contract, &name, &mut outcome, schedules.start)?;
    }
    if outcome.first_wrong().is_none()
        && let Some((stage, failure)) = session.meet_the_next(next)?
        && let Some(result) = outcome.stages.iter_mut().find(|s| s.stage == stage)
    {
        let NotPassed { verdict, note } = not_passed(failure, &name);
        fail(result, format!("at the next launch of the stream, schedule {next}: {note}"));
        result.verdict = verdict;
    }
    // A stage whose data cannot be read after a fault reports that itself.
    if let Ok(Some(overwritten)) = session.overwritten() {
        blame(&overwritten, &mut outcome.stages);
    }
    outcome.warp_instructions = device.warp_instructions;
    Ok(outcome)
}

/// The trials of the pipeline's kernels: runs on the same memory, so that each finds the state that the one before it left.
struct Repeats<'a, 's> {
    session: &'a mut Session<'s>,
    memo: &'a Memo,
    contract: &'a Contract,
    device: &'a str,
    /// The seed of the first schedule.
    first: u64,
    /// Runs so far.
    runs: usize,
    /// The verdicts of the runs so far: those of the first, unless a later one does not conform or stores other bits.
    last: Option<Outcome>,
}

impl Subject for Repeats<'_, '_> {
    type Left = Tensors;
    type Error = TrialError;

    fn run(&mut self, trial: &trials::Trial, _: &mut trials::Verdict) -> Result<Ended<Tensors>, TrialError> {
        self.runs += 1;
        if self.runs > 1 {
            self.session.again()?;
        }
        let seed = self.first + trial.seed;
        let ran = self.session.run(seed)?;
        let left = ran.tensors.clone();
        let stopped = ran.stopped.is_some();
        let mut outcome = match self.last.take() {
            None => {
                let stages = verdicts::judge(self.memo, self.contract, &ran.tensors)?;
                let mut outcome = settled(stages, ran, self.contract, self.device, 0);
                uncompared(self.contract, &mut outcome.stages);
                outcome
            }
            Some(before) => repeated(before, ran, self.contract, self.device, (self.runs, seed))?,
        };
        let finished = outcome.first_wrong().is_none();
        // A wrong stage of a stream that has run to its end: an input that nobody read may explain it.
        if let Some(wrong) = outcome.stages.iter_mut().find(|stage| !stage.verdict.conforms())
            && !stopped
        {
            let unread = self.session.unread();
            unread.iter().for_each(|name| wrong.note += &format!("; `{name}` was never read by any launch"));
            let stage = Stage::from_name(&wrong.stage).zip(wrong.place.as_ref());
            if let Some(last) = stage.and_then(|(stage, place)| self.session.last_write(seed, stage, place)) {
                wrong.note += &format!("; last written by {last}");
            }
        }
        self.last = Some(outcome);
        Ok(Ended { left, finished })
    }

    fn first_difference(&self, [one, other]: [&Tensors; 2], _: &mut Sums) -> Option<Unequal> {
        let stage = differences(one, other).find(|stage| orders_sums(self.contract, *stage))?;
        let (buffer, values) = (stage.word().to_owned(), [String::new(), String::new()]);
        Some(Unequal { buffer, byte: 0, index: Vec::new(), values, sum: None })
    }
}

/// Returns the verdicts of a run on the memory of `before`, in which everything conforms.
fn repeated(
    before: Outcome,
    ran: Ran,
    contract: &Contract,
    device: &str,
    (launch, seed): (usize, u64),
) -> Result<Outcome, MoeError> {
    if ran.stopped.is_none()
        && ran.broken.is_empty()
        && first_difference(&before.tensors, &ran.tensors).is_none()
    {
        // Equal bits have equal verdicts.
        return Ok(before);
    }
    let mut outcome = judged(ran, contract, device, 0)?;
    uncompared(contract, &mut outcome.stages);
    for result in outcome.stages.iter_mut().filter(|s| s.verdict != Verdict::Skipped) {
        if !result.verdict.conforms() {
            result.note = format!("launch {launch} on the same memory, schedule {seed}: {}", result.note);
        }
    }
    Ok(outcome)
}

/// Repeats the first schedule with lanes that take turns where those of a warp conflict, and fails the first stage whose results
/// depend on that, or that breaks a rule then.
fn try_lanes(
    session: &mut Session<'_>,
    contract: &Contract,
    device: &str,
    outcome: &mut Outcome,
    seed: u64,
) -> Result<(), TrialError> {
    for turns in [Turns::LowestLaneFirst, Turns::HighestLaneFirst] {
        let Some(conflict) = session.direct_lanes(Some(turns)) else { return Ok(()) };
        session.again()?;
        let ran = session.run(seed)?;
        let stopped = ran.stopped.is_some();
        let differing = differences(&outcome.tensors, &ran.tensors)
            .find(|stage| contract.deterministic && orders_sums(contract, *stage));
        let wrong = judged(ran, contract, device, 0)?
            .first_wrong()
            .and_then(|result| Some((Stage::from_name(&result.stage)?, result.note.clone())));
        let found = match (wrong, differing) {
            (_, Some(stage)) if !stopped => Some((stage, "other bits are stored".to_owned())),
            (wrong, _) => wrong,
        };
        if let Some((stage, note)) = found
            && let Some(result) = outcome.stages.iter_mut().find(|s| s.stage == stage)
        {
            fail(result, format!("race: {conflict}; if the lanes take turns there: {note}"));
            break;
        }
    }
    session.direct_lanes(None);
    Ok(())
}

/// Fails a stage, whatever its numbers are.
fn fail(result: &mut StageResult, note: String) {
    result.verdict = Verdict::Fail;
    result.worst_over_bound = f64::INFINITY;
    result.mismatches += 1;
    result.note = note;
}

/// Fails the stage that wrote to an input, whatever its results are; its earlier note follows.
pub(super) fn blame(overwritten: &Overwritten, stages: &mut [StageResult]) {
    let Overwritten { stage, input, byte } = overwritten;
    let Some(result) = stages.iter_mut().find(|s| s.stage == *stage) else { return };
    let mut note = format!("{} wrote to its input {input} at byte {byte}", stage.word());
    if !result.verdict.conforms() && !result.note.is_empty() {
        note = format!("{note}; {}", result.note);
    }
    fail(result, note);
}

/// Notes for stages whose kernels do not promise equal bits that schedules are not compared.
fn uncompared(contract: &Contract, stages: &mut [StageResult]) {
    for result in stages.iter_mut().filter(|s| s.verdict == Verdict::Pass && s.note.is_empty()) {
        let last = result.stage == Stage::Finalize && contract.finalize != FinalizeOrder::Slots;
        if last || !contract.deterministic {
            "not compared between schedules: the kernel declares deterministic: false"
                .clone_into(&mut result.note);
        }
    }
}

/// Whether the order of a stage's sums is fixed: in the last one, atomics may add in any order.
fn orders_sums(contract: &Contract, stage: Stage) -> bool {
    stage != Stage::Finalize || contract.finalize == FinalizeOrder::Slots
}

/// The first stage whose results differ.
pub(super) fn first_difference(a: &Tensors, b: &Tensors) -> Option<Stage> {
    differences(a, b).next()
}

/// The stages whose results differ.
pub(super) fn differences(a: &Tensors, b: &Tensors) -> impl Iterator<Item = Stage> {
    let bits = |w: &Option<super::Array<f32>>| {
        w.as_ref().map(|w| w.data.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
    };
    [
        (Stage::Route, a.topk_ids == b.topk_ids && bits(&a.topk_weights) == bits(&b.topk_weights)),
        (Stage::Permute, a.row_token == b.row_token && a.row_expert == b.row_expert),
        (
            Stage::Quantize,
            a.a1_codes == b.a1_codes
                && a.a1_scales == b.a1_scales
                && bits(&a.a1_token_scale) == bits(&b.a1_token_scale),
        ),
        (Stage::Fc1, a.fc1_out == b.fc1_out),
        (
            Stage::Requantize,
            a.a2_codes == b.a2_codes
                && a.a2_scales == b.a2_scales
                && bits(&a.a2_token_scale) == bits(&b.a2_token_scale),
        ),
        (Stage::Fc2, a.fc2_out == b.fc2_out),
        (Stage::Finalize, a.output == b.output),
    ]
    .into_iter()
    .filter_map(|(stage, same)| (!same).then_some(stage))
}

/// The verdicts of a run: on its results, on padding and lists, and on the launch that failed.
pub(super) fn judged(
    ran: Ran,
    contract: &Contract,
    device: &str,
    warp_instructions: u64,
) -> Result<Outcome, MoeError> {
    Ok(settled(judge(contract, &ran.tensors)?, ran, contract, device, warp_instructions))
}

/// The verdicts of a run, given those on its results.
fn settled(
    mut stages: Vec<StageResult>,
    ran: Ran,
    contract: &Contract,
    device: &str,
    warp_instructions: u64,
) -> Outcome {
    for (stage, text) in ran.broken {
        if let Some(result) = stages.iter_mut().find(|s| s.stage == stage)
            && result.verdict == Verdict::Pass
        {
            fail(result, text);
        }
    }
    if let Some((stage, failure)) = ran.stopped {
        let NotPassed { verdict, note } = not_passed(failure, device);
        for result in stages.iter_mut().filter(|s| Stage::from_name(&s.stage) >= Some(stage)) {
            *result = StageResult::skipped(result.stage.clone(), format!("{} did not finish", stage.word()));
        }
        if let Some(result) = stages.iter_mut().find(|s| s.stage == stage) {
            result.verdict = verdict;
            result.worst_over_bound = f64::INFINITY;
            result.note = note;
        }
    }
    // A complete run leaves every tensor: a stage that was not judged although nothing is wrong proves nothing.
    if stages.iter().all(|s| s.verdict.conforms()) {
        for result in stages.iter_mut().filter(|s| s.verdict == Verdict::Skipped) {
            result.verdict = Verdict::Broken;
        }
    }
    Outcome { stages, tensors: ran.tensors, contract: *contract, warp_instructions }
}

#[cfg(test)]
mod tests {
    use super::super::Array;
    use super::*;

    #[test]
    fn a_token_scale_that_differs_is_a_difference_of_its_stage() {
        let scale = |value| Some(Array::filled(&[2], value));
        let one = Tensors { a1_token_scale: scale(1.0), a2_token_scale: scale(0.5), ..Tensors::default() };
        assert_eq!(first_difference(&one, &one.clone()), None);
        let quantized = Tensors { a1_token_scale: scale(2.0), ..one.clone() };
        let requantized = Tensors { a2_token_scale: scale(2.0), ..one.clone() };
        assert_eq!(first_difference(&one, &quantized), Some(Stage::Quantize));
        assert_eq!(first_difference(&one, &requantized), Some(Stage::Requantize));
    }
}
