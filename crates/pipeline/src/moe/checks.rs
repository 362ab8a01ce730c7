//! The checks of a trial on a device: its code loads, runs, is correct, matches the emulator, is repeatable, overlaps, and is
//! correct as a graph replayed with other routings than it was captured with.

use emulator::device::Device;

use super::contract::{Contract, ExpBound};
use super::pipeline::{self, Ran, Session, Setup};
use super::trial::{self, Outcome};
use super::{MoeError, Problem, Tensors};
use crate::frame::checks::{self, NotPassed, not_passed};
use crate::frame::compile::Compiled;
use crate::frame::family::Checked;
use crate::frame::{RunError, TrialError};
use crate::moe::stage::Stage;
use record::{Check, Verdict};

/// The routings that a graph is replayed with after its capture, in the order of [`super::problem::variants`].
const ROUTINGS: [&str; 4] =
    ["the routing of its capture", "another routing", "all tokens on the same experts", "half of the tokens"];

/// The inputs to the checks of a trial.
pub struct TrialChecks<'a> {
    /// Kernels with their PTX.
    pub compiled: &'a Compiled<'a>,
    /// The numerical contract of the kernels.
    pub contract: &'a Contract,
    /// The problem.
    pub problem: &'a Problem,
    /// Problems of the same weights, from [`super::problem::variants`].
    pub variants: &'a [Problem],
    /// The setup of the run.
    pub setup: &'a Setup,
    /// Replays that must store the same bits; a tenth of them, at least one, with overlapping kernels.
    pub replays: usize,
    /// The tensors that the emulator stored for the same problem.
    pub emulated: Option<&'a Tensors>,
    /// Whether PTX does not specify the order and width in which tensor cores add, so that two devices may differ.
    pub sums_open: bool,
}

/// Why a check ends early.
enum Stop {
    NotPassed(NotPassed),
    Error(TrialError),
}

impl From<NotPassed> for Stop {
    fn from(not_passed: NotPassed) -> Self {
        Self::NotPassed(not_passed)
    }
}

impl From<MoeError> for Stop {
    fn from(error: MoeError) -> Self {
        Self::Error(error.into())
    }
}

fn stop(verdict: Verdict, note: impl Into<String>) -> Stop {
    Stop::NotPassed(NotPassed::new(verdict, note))
}

/// A device under check, with its name in reports.
struct On<'d> {
    device: &'d mut dyn Device,
    name: String,
}

impl On<'_> {
    fn reset(&mut self) -> Result<(), Stop> {
        self.device.reset().map_err(|failure| not_passed(failure, &self.name).into())
    }
}

/// Converts an error: a refusal by the device is a verdict, everything else an error.
fn refused(error: RunError, device: &str) -> Stop {
    match error {
        RunError::Device { file, failure } => not_passed(failure, device).at(file).into(),
        RunError::Memory(failure) => not_passed(failure, device).into(),
        other => Stop::Error(other.into()),
    }
}

/// Returns the tensors of a completed run.
fn finished(ran: Ran, device: &str) -> Result<Tensors, Stop> {
    match ran.stopped {
        Some((stage, failure)) => Err(not_passed(failure, device).at(stage.word()).into()),
        None => Ok(ran.tensors),
    }
}

impl TrialChecks<'_> {
    /// Runs the checks in order ([`checks::in_order`]).
    ///
    /// # Errors
    /// [`TrialError`] if the trial cannot begin; failures on the device are verdicts.
    pub fn on(&self, device: &mut dyn Device) -> Result<Checked, TrialError> {
        let mut outcome = None;
        let mut on = On { name: device.name(), device };
        let checks = checks::in_order(Check::ALL, |check| {
            let result = self.check(check, &mut on, &mut outcome);
            on.device.rest();
            match result {
                Ok(note) => Ok(Ok(note)),
                Err(Stop::NotPassed(not_passed)) => Ok(Err(not_passed)),
                Err(Stop::Error(error)) => Err(error),
            }
        })?;
        Ok(Checked { stages: outcome.map(|outcome| outcome.stages).unwrap_or_default(), checks })
    }

    /// Runs one check and returns a description of it.
    fn check(&self, check: Check, on: &mut On<'_>, outcome: &mut Option<Outcome>) -> Result<String, Stop> {
        let judges = matches!(check, Check::Correct | Check::AsEmulator);
        if !judges {
            on.reset()?;
        }
        match check {
            Check::Loads => {
                for (kernel, ptx) in &self.compiled.kernels {
                    on.device.load(ptx).map_err(|failure| not_passed(failure, &on.name).at(&kernel.file))?;
                }
                Ok(format!("{} kernels", self.compiled.kernels.len()))
            }
            Check::Runs => {
                let ran = pipeline::run_and_compare(on.device, self.compiled, self.problem, self.setup);
                let (ran, overwritten) = ran.map_err(|error| refused(error, &on.name))?;
                on.device.rest();
                let stopped = ran.stopped.clone();
                let mut judged = trial::judged(ran, self.contract, &on.name, 0)?;
                overwritten.iter().for_each(|overwritten| trial::blame(overwritten, &mut judged.stages));
                *outcome = Some(judged);
                match stopped {
                    Some((stage, failure)) => Err(not_passed(failure, &on.name).at(stage.word()).into()),
                    None => Ok(String::new()),
                }
            }
            Check::Correct => match outcome.as_ref().and_then(Outcome::first_wrong) {
                Some(wrong) => Err(stop(wrong.verdict, format!("{}: {}", wrong.stage, wrong.note))),
                None => Ok(String::new()),
            },
            Check::AsEmulator => self.as_emulator(outcome.as_ref()),
            Check::Deterministic => self.deterministic(on),
            Check::Pdl => self.overlapping(on, outcome.as_ref()),
            Check::Graph => self.graph(on),
        }
    }

    fn eager(&self, on: &mut On<'_>, problem: &Problem, setup: &Setup) -> Result<Ran, Stop> {
        pipeline::run(on.device, self.compiled, problem, setup).map_err(|error| refused(error, &on.name))
    }

    fn as_emulator(&self, outcome: Option<&Outcome>) -> Result<String, Stop> {
        let (Some(outcome), Some(emulated)) = (outcome, self.emulated) else {
            return Err(stop(Verdict::Skipped, "the emulator did not complete it"));
        };
        match trial::first_difference(emulated, &outcome.tensors) {
            None => Ok("every stored bit".to_owned()),
            Some(stage) => {
                let sums = self.sums_open && matches!(stage, Stage::Fc1 | Stage::Fc2);
                let (verdict, why) = if self.contract.exp != ExpBound::FMA {
                    (Verdict::Undetermined, ": PTX bounds ex2.approx but does not specify its bits")
                } else if !self.contract.repeats() {
                    (Verdict::Undetermined, ": the kernel declares `deterministic: false`")
                } else if sums {
                    (Verdict::Undetermined, ": PTX does not specify how tensor cores add")
                } else {
                    (Verdict::Fail, "")
                };
                Err(stop(verdict, format!("{} stores different bits{why}", stage.word())))
            }
        }
    }

    /// Returns the problem that graphs are captured with.
    fn captured(&self) -> Result<&Problem, Stop> {
        self.variants
            .first()
            .ok_or_else(|| MoeError::Invalid("there is no problem to capture".to_owned()).into())
    }

    /// Captures, replays often, and compares every replay with an eager run.
    fn replayed(&self, on: &mut On<'_>, programmatic: bool, times: usize) -> Result<(), Stop> {
        let problem = self.captured()?;
        let ran = self.eager(on, problem, &self.plain())?;
        let eager = finished(ran, &on.name)?;
        on.reset()?;
        let On { device, name } = on;
        let refused = |error| refused(error, name);
        let mut session = Session::new(*device, self.compiled, problem, self.setup).map_err(refused)?;
        let graph = session.capture(programmatic).map_err(refused)?;
        session.set(problem).map_err(refused)?;
        // Every replay matches the first, and the last matches the eager run, so all match it.
        let ran = session
            .replay_often(graph, times)
            .map_err(|n| stop(Verdict::Fail, format!("replay {n} stores different bytes from the first")))?;
        same(&eager, &finished(ran, name)?, || "the replays".to_owned())
    }

    /// The setup with sequential launches.
    fn plain(&self) -> Setup {
        Setup { pdl: false, ..*self.setup }
    }

    fn deterministic(&self, on: &mut On<'_>) -> Result<String, Stop> {
        if !self.contract.repeats() {
            return Err(stop(Verdict::Skipped, "the kernels do not fix the order of sums"));
        }
        self.replayed(on, false, self.replays)?;
        Ok(format!("{} replays equal the eager run bit for bit", self.replays))
    }

    fn overlapping(&self, on: &mut On<'_>, outcome: Option<&Outcome>) -> Result<String, Stop> {
        if !self.contract.repeats() {
            return Err(stop(Verdict::Skipped, "the kernels do not fix the order of sums"));
        }
        let other = Setup { pdl: !self.setup.pdl, ..*self.setup };
        let ran = self.eager(on, self.problem, &other)?;
        let tensors = finished(ran, &on.name)?;
        if let Some(first) = outcome {
            same(&first.tensors, &tensors, || "the eager run with and without it".to_owned())?;
        }
        on.reset()?;
        let overlapping = self.replays.div_ceil(10);
        self.replayed(on, true, overlapping)?;
        Ok(format!("eager, and {overlapping} replays of a graph"))
    }

    /// Captures with the first problem, replays with every other, and compares with eager runs of the same data. State that kernels
    /// keep between launches is not cleared. If the contract guarantees no order, every replay is judged by its bounds instead.
    fn graph(&self, on: &mut On<'_>) -> Result<String, Stop> {
        let mut eager = Vec::new();
        for (n, problem) in self.variants.iter().enumerate() {
            on.reset()?;
            let ran = self.eager(on, problem, &self.plain())?;
            on.device.rest();
            if n < ROUTINGS.len() && problem.dims == self.contract.dims {
                let place = || format!("{}, eager", ROUTINGS[n]);
                eager.push(self.correct(ran, &on.name, place)?);
            } else {
                eager.push(finished(ran, &on.name)?);
            }
        }
        on.reset()?;
        let problem = self.captured()?;
        let On { device, name } = on;
        let refused = |error| refused(error, name);
        let mut session = Session::new(*device, self.compiled, problem, self.setup).map_err(refused)?;
        let graph = session.capture(self.setup.pdl).map_err(refused)?;
        let mut done = Vec::new();
        // The first problem again at the end: no data of the others may remain.
        let alike = self.variants.iter().take(ROUTINGS.len()).enumerate();
        for (n, problem) in alike.clone().chain(alike.take(1)) {
            session.set(problem).map_err(refused)?;
            let ran = session.replay(graph);
            done.push(ROUTINGS[n]);
            let place = || format!("the graph with {}", ROUTINGS[n]);
            if !self.contract.repeats() {
                self.correct(ran, name, place)?;
                continue;
            }
            let tensors = finished(ran, name)?;
            same(&eager[n], &tensors, place)?;
            if let (3, Some(alone)) = (n, eager.get(ROUTINGS.len())) {
                prefix(alone, &tensors)?;
            }
        }
        Ok(format!("replayed with {}", done.join(", ")))
    }

    /// Returns the tensors of a run if every stage conforms.
    fn correct(&self, ran: Ran, device: &str, place: impl Fn() -> String) -> Result<Tensors, Stop> {
        let judged = trial::judged(ran, self.contract, device, 0)?;
        match judged.first_wrong() {
            None => Ok(judged.tensors),
            Some(wrong) => {
                let note = format!("{}: {}: {}", place(), wrong.stage, wrong.note);
                Err(stop(wrong.verdict, note))
            }
        }
    }
}

fn same(one: &Tensors, other: &Tensors, what: impl Fn() -> String) -> Result<(), Stop> {
    match trial::first_difference(one, other) {
        None => Ok(()),
        Some(stage) => {
            Err(stop(Verdict::Fail, format!("{}: {} stores different bits", what(), stage.word())))
        }
    }
}

/// Checks that the tokens shared by a padded batch and the batch without padding have the same output.
fn prefix(alone: &Tensors, padded: &Tensors) -> Result<(), Stop> {
    let (Some(alone), Some(padded)) = (&alone.output, &padded.output) else {
        return Err(stop(Verdict::Broken, "a run left no output"));
    };
    if padded.data.get(..alone.data.len()) == Some(alone.data.as_slice()) {
        return Ok(());
    }
    Err(stop(Verdict::Fail, "padding changes the output of the tokens before it"))
}
