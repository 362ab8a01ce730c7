//! One trial on a device, rung by rung: its code loads, runs, is correct, does as the emulator, repeats itself, overlaps, and
//! is right as a graph replayed with other routings than it was captured with.

use emulator::device::{Device, Failure};

use super::contract::{Contract, ExpBound};
use super::pipeline::{self, Compiled, PipelineError, Ran, Session, Setup};
use super::trial::{self, Outcome, TrialError};
use super::{MoeError, Problem, Tensors};
use crate::record::{Rung, RungResult, Stage, Verdict};

/// Replays that have to store the same bits on a GPU.
pub const REPLAYS: usize = 100;
/// What a graph is replayed with after its capture, in the order of [`super::problem::variants`].
const ROUTINGS: [&str; 4] =
    ["the routing of its capture", "another routing", "all tokens on the same experts", "half of the tokens"];

/// What a trial needs.
pub struct Climb<'a> {
    /// Kernels with their PTX.
    pub compiled: &'a Compiled<'a>,
    /// What they promise.
    pub contract: &'a Contract,
    /// The problem.
    pub problem: &'a Problem,
    /// Problems of the same weights, from [`super::problem::variants`].
    pub variants: &'a [Problem],
    /// How it is run.
    pub setup: &'a Setup,
    /// Replays that have to store the same bits; a tenth of them, at least one, with overlapping kernels.
    pub replays: usize,
    /// What the emulator stored for the same problem.
    pub emulated: Option<&'a Tensors>,
    /// Whether PTX leaves open in which order and width the tensor cores add, so that two devices may differ.
    pub sums_open: bool,
}

/// What was found.
pub struct Climbed {
    /// The stages of the first run; none where the code does not load.
    pub outcome: Option<Outcome>,
    /// Every rung.
    pub rungs: Vec<RungResult>,
}

/// Why a rung does not stand.
enum Fell {
    To(Verdict, String),
    Error(TrialError),
}

impl From<MoeError> for Fell {
    fn from(error: MoeError) -> Self {
        Self::Error(error.into())
    }
}

impl Climb<'_> {
    /// Climbs until a rung does not stand; those above are skipped, and say why.
    ///
    /// # Errors
    /// [`TrialError`] when the trial cannot begin; whatever the device does is a verdict.
    pub fn on(&self, device: &mut dyn Device) -> Result<Climbed, TrialError> {
        let mut climbed = Climbed { outcome: None, rungs: Vec::new() };
        let mut fallen: Option<Rung> = None;
        for rung in Rung::ALL {
            let (verdict, note) = match fallen {
                Some(lower) => (Verdict::Skipped, format!("`{}` did not pass", lower.word())),
                None => match self.rung(*rung, device, &mut climbed.outcome) {
                    Ok(note) => (Verdict::Pass, note),
                    Err(Fell::To(verdict, note)) => {
                        // What PTX leaves open or nobody asks for is no reason to stop.
                        if !verdict.conforms() {
                            fallen = Some(*rung);
                        }
                        (verdict, note)
                    }
                    Err(Fell::Error(error)) => return Err(error),
                },
            };
            device.rest();
            climbed.rungs.push(RungResult { rung: *rung, verdict, note });
        }
        Ok(climbed)
    }

    /// One rung; what was done.
    fn rung(
        &self,
        rung: Rung,
        device: &mut dyn Device,
        outcome: &mut Option<Outcome>,
    ) -> Result<String, Fell> {
        let name = device.name();
        let fell = |failure: Failure| {
            let (verdict, note) = trial::verdict_of(failure, &name);
            Fell::To(verdict, note)
        };
        let judges = matches!(rung, Rung::Correct | Rung::AsEmulator);
        if !judges {
            device.reset().map_err(fell)?;
        }
        match rung {
            Rung::Loads => {
                for (kernel, ptx) in &self.compiled.kernels {
                    device.load(ptx).map_err(|failure| match fell(failure) {
                        Fell::To(verdict, note) => Fell::To(verdict, format!("{}: {note}", kernel.file)),
                        error @ Fell::Error(_) => error,
                    })?;
                }
                Ok(format!("{} kernels", self.compiled.kernels.len()))
            }
            Rung::Runs => {
                let ran = pipeline::run_and_compare(device, self.compiled, self.problem, self.setup);
                let (ran, overwritten) = ran.map_err(|error| fallen(error, &name))?;
                device.rest();
                let stopped = ran.stopped.clone();
                let mut judged = trial::judged(ran, self.contract, &name, 0)?;
                overwritten.iter().for_each(|overwritten| trial::blame(overwritten, &mut judged.stages));
                *outcome = Some(judged);
                match stopped {
                    Some((stage, failure)) => match fell(failure) {
                        Fell::To(verdict, note) => {
                            Err(Fell::To(verdict, format!("{}: {note}", stage.word())))
                        }
                        error @ Fell::Error(_) => Err(error),
                    },
                    None => Ok(String::new()),
                }
            }
            Rung::Correct => match outcome.as_ref().and_then(Outcome::first_wrong) {
                Some(wrong) => {
                    Err(Fell::To(wrong.verdict, format!("{}: {}", wrong.stage.word(), wrong.note)))
                }
                None => Ok(String::new()),
            },
            Rung::AsEmulator => self.as_emulator(outcome.as_ref()),
            Rung::Deterministic => self.deterministic(device),
            Rung::Pdl => self.overlapping(device, outcome.as_ref()),
            Rung::Graph => self.graph(device),
        }
    }

    fn eager(&self, device: &mut dyn Device, problem: &Problem, setup: &Setup) -> Result<Ran, Fell> {
        let name = device.name();
        pipeline::run(device, self.compiled, problem, setup).map_err(|error| fallen(error, &name))
    }

    fn as_emulator(&self, outcome: Option<&Outcome>) -> Result<String, Fell> {
        let (Some(outcome), Some(emulated)) = (outcome, self.emulated) else {
            return Err(Fell::To(Verdict::Skipped, "the emulator did not complete it".to_owned()));
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
                Err(Fell::To(verdict, format!("{} stores different bits{why}", stage.word())))
            }
        }
    }

    /// The problem that graphs are captured with.
    fn captured(&self) -> Result<&Problem, Fell> {
        self.variants
            .first()
            .ok_or_else(|| MoeError::Invalid("there is no problem to capture".to_owned()).into())
    }

    /// Captures, replays often, and compares every replay with an eager run.
    fn replayed(&self, device: &mut dyn Device, programmatic: bool, times: usize) -> Result<(), Fell> {
        let name = device.name();
        let problem = self.captured()?;
        let eager = finished(self.eager(device, problem, &self.plain())?, &name)?;
        device.reset().map_err(|failure| {
            let (verdict, note) = trial::verdict_of(failure, &name);
            Fell::To(verdict, note)
        })?;
        let mut session =
            Session::new(device, self.compiled, problem, self.setup).map_err(|e| fallen(e, &name))?;
        let graph = session.capture(programmatic).map_err(|e| fallen(e, &name))?;
        session.set(problem).map_err(|e| fallen(e, &name))?;
        // Every replay stores what the first does, and the last what the eager run did: all are as it.
        let ran = session.replay_often(graph, times).map_err(|n| {
            Fell::To(Verdict::Fail, format!("replay {n} stores different bytes from the first"))
        })?;
        same(&eager, &finished(ran, &name)?, || "the replays".to_owned())
    }

    /// One kernel after the other.
    fn plain(&self) -> Setup {
        Setup { pdl: false, ..*self.setup }
    }

    fn deterministic(&self, device: &mut dyn Device) -> Result<String, Fell> {
        if !self.contract.repeats() {
            return Err(Fell::To(Verdict::Skipped, "the kernels do not fix the order of sums".to_owned()));
        }
        self.replayed(device, false, self.replays)?;
        Ok(format!("{} replays equal the eager run bit for bit", self.replays))
    }

    fn overlapping(&self, device: &mut dyn Device, outcome: Option<&Outcome>) -> Result<String, Fell> {
        if !self.contract.repeats() {
            return Err(Fell::To(Verdict::Skipped, "the kernels do not fix the order of sums".to_owned()));
        }
        let name = device.name();
        let other = Setup { pdl: !self.setup.pdl, ..*self.setup };
        let tensors = finished(self.eager(device, self.problem, &other)?, &name)?;
        if let Some(first) = outcome {
            same(&first.tensors, &tensors, || "the eager run with and without it".to_owned())?;
        }
        device.reset().map_err(|failure| {
            let (verdict, note) = trial::verdict_of(failure, &name);
            Fell::To(verdict, note)
        })?;
        let overlapping = self.replays.div_ceil(10);
        self.replayed(device, true, overlapping)?;
        Ok(format!("eager, and {overlapping} replays of a graph"))
    }

    /// Captures with the first problem, replays with every other, and compares with eager runs of the same data. What kernels keep
    /// from launch to launch is not cleared in between. Where they promise no order, every replay is judged by its bounds instead.
    fn graph(&self, device: &mut dyn Device) -> Result<String, Fell> {
        let name = device.name();
        let reset = |device: &mut dyn Device| {
            device.reset().map_err(|failure| {
                let (verdict, note) = trial::verdict_of(failure, &name);
                Fell::To(verdict, note)
            })
        };
        let mut eager = Vec::new();
        for (n, problem) in self.variants.iter().enumerate() {
            reset(device)?;
            let ran = self.eager(device, problem, &self.plain())?;
            device.rest();
            if n < ROUTINGS.len() && problem.dims == self.contract.dims {
                let judged = trial::judged(ran, self.contract, &name, 0)?;
                if let Some(wrong) = judged.first_wrong() {
                    let note = format!("{}, eager: {}: {}", ROUTINGS[n], wrong.stage.word(), wrong.note);
                    return Err(Fell::To(wrong.verdict, note));
                }
                eager.push(judged.tensors);
            } else {
                eager.push(finished(ran, &name)?);
            }
        }
        reset(device)?;
        let problem = self.captured()?;
        let mut session =
            Session::new(device, self.compiled, problem, self.setup).map_err(|e| fallen(e, &name))?;
        let graph = session.capture(self.setup.pdl).map_err(|e| fallen(e, &name))?;
        let mut done = Vec::new();
        // Back to the first at the end: nothing of the others may be left.
        let alike = self.variants.iter().take(ROUTINGS.len()).enumerate();
        for (n, problem) in alike.clone().chain(alike.take(1)) {
            session.set(problem).map_err(|e| fallen(e, &name))?;
            let ran = session.replay(graph);
            done.push(ROUTINGS[n]);
            if !self.contract.repeats() {
                let judged = trial::judged(ran, self.contract, &name, 0)?;
                if let Some(wrong) = judged.first_wrong() {
                    let note =
                        format!("the graph with {}: {}: {}", ROUTINGS[n], wrong.stage.word(), wrong.note);
                    return Err(Fell::To(wrong.verdict, note));
                }
                continue;
            }
            let tensors = finished(ran, &name)?;
            same(&eager[n], &tensors, || format!("the graph with {}", ROUTINGS[n]))?;
            if let (3, Some(alone)) = (n, eager.get(ROUTINGS.len())) {
                prefix(alone, &tensors)?;
            }
        }
        Ok(format!("replayed with {}", done.join(", ")))
    }
}

/// The tensors of a run that came to its end.
fn finished(ran: Ran, device: &str) -> Result<Tensors, Fell> {
    match ran.stopped {
        Some((stage, failure)) => {
            let (verdict, note) = trial::verdict_of(failure, device);
            Err(Fell::To(verdict, format!("{}: {note}", stage.word())))
        }
        None => Ok(ran.tensors),
    }
}

/// What a device refuses is a verdict, everything else an error.
fn fallen(error: PipelineError, device: &str) -> Fell {
    match error {
        PipelineError::Device { file, failure } => {
            let (verdict, note) = trial::verdict_of(failure, device);
            Fell::To(verdict, format!("{file}: {note}"))
        }
        PipelineError::Memory(failure) => {
            let (verdict, note) = trial::verdict_of(failure, device);
            Fell::To(verdict, note)
        }
        other => Fell::Error(other.into()),
    }
}

fn same(one: &Tensors, other: &Tensors, what: impl Fn() -> String) -> Result<(), Fell> {
    match trial::first_difference(one, other) {
        None => Ok(()),
        Some(stage) => {
            Err(Fell::To(Verdict::Fail, format!("{}: {} stores different bits", what(), stage.word())))
        }
    }
}

/// The tokens that a padded batch and the batch without its padding share have the same output.
fn prefix(alone: &Tensors, padded: &Tensors) -> Result<(), Fell> {
    let (Some(alone), Some(padded)) = (&alone.output, &padded.output) else {
        return Err(Fell::To(Verdict::Broken, "a run left no output".to_owned()));
    };
    if padded.data.get(..alone.data.len()) == Some(alone.data.as_slice()) {
        return Ok(());
    }
    Err(Fell::To(Verdict::Fail, "padding changes the output of the tokens before it".to_owned()))
}
