//! Problems whose kernels run as one stream over named buffers: what a family needs beyond its data and its judge.
//!
//! A family states its buffers, its steps and a judge ([`Problem`]). [`PreparedStream`] runs them on the emulator under several schedules
//! on the same memory, and through the checks of a device.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use emulator::device::{Argument, Buffer, Device, Failure, Launch, LaunchFailure, Module, first_difference};
use emulator::trials::{self, Ended, Plan, Subject, Sums, Trial, Unequal, compare_trials};
use emulator::{EmulatorDevice, Options, Turns};

use super::checks::{self, NotPassed, not_passed};
use super::compile::Compiled;
use super::{Memo, RunError, TrialError, launch};
use crate::frame::family::{Checked, Outcome, Prepared};
use crate::kernel::{Kernel, Names};
use record::{Check, Place, StageName, StageResult, Verdict};

/// What a buffer holds before a run, and what kernels do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Kernels read it and must not change it.
    Input(Vec<u8>),
    /// An input of so many bytes of which only some pieces are written: the byte at which each begins, and its bytes.
    Sparse(usize, Vec<(usize, Vec<u8>)>),
    /// Kernels write all that is read of it: it is unwritten before each run.
    Output(usize),
    /// Kernels change parts of it; it has these bytes before each run.
    Updated(Vec<u8>),
}

/// A launch of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its stage.
    pub stage: StageName,
    /// The index of its kernel among the compiled ones.
    pub kernel: usize,
    /// The values of its expressions and of its 32-bit arguments.
    pub names: Names,
    /// The buffers of arguments that are not named like them: argument and buffer.
    pub buffers: Vec<(&'static str, &'static str)>,
}

impl Content {
    /// The bytes of its buffer.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Input(bytes) | Self::Updated(bytes) => bytes.len(),
            Self::Sparse(len, _) | Self::Output(len) => *len,
        }
    }
}

/// What kernels stored: every buffer that is no input, by name.
pub type Stored = BTreeMap<&'static str, Vec<u8>>;

/// A problem of a family.
pub trait Problem: Send + Sync {
    /// Returns the buffers. Problems that replay one graph have buffers of equal sizes.
    fn buffers(&self) -> Vec<(&'static str, Content)>;

    /// Whether the results depend on an input: one that they do not depend on is not missed where nothing reads it.
    fn needs(&self, _input: &str) -> bool {
        true
    }

    /// Returns the launches, in order; at least one.
    fn steps(&self) -> Vec<Step>;

    /// The buffer and the bytes in it that hold a result at a place of a stage, where a place tells them.
    fn bytes_of(&self, _stage: &StageName, _place: &Place) -> Option<(&'static str, Range<usize>)> {
        None
    }

    /// Returns the stage that writes a buffer.
    fn stage_of(&self, buffer: &str) -> StageName;

    /// Returns the verdict of every stage, in order.
    fn judge(&self, stored: &Stored) -> Vec<StageResult>;
}

/// How many other problems a graph is replayed with.
const VARIANTS: u64 = 2;

/// Generates a problem by a number.
pub type Variant = dyn Fn(u64) -> Result<Arc<dyn Problem>, TrialError> + Send + Sync;

/// A problem, other data for the same graph, and what its kernels promise.
pub struct PreparedStream {
    /// The problem.
    pub problem: Arc<dyn Problem>,
    /// Returns other data, by a number, with buffers of the same sizes; only a graph needs them.
    pub variant: Box<Variant>,
    /// Whether the kernels promise the same bits in every run.
    pub deterministic: bool,
}

/// A stream in progress on a device.
struct Session<'a> {
    device: &'a mut dyn Device,
    problem: &'a dyn Problem,
    kernels: Vec<(&'a Kernel, Module)>,
    buffers: BTreeMap<&'static str, Buffer>,
}

/// The result of a run.
struct Ran {
    stored: Stored,
    /// The stage that did not finish, and the failure.
    stopped: Option<(StageName, Failure)>,
}

impl<'a> Session<'a> {
    /// Loads the kernels and the problem.
    fn new(
        device: &'a mut dyn Device,
        compiled: &'a Compiled<'_>,
        problem: &'a dyn Problem,
    ) -> Result<Self, RunError> {
        let mut kernels = Vec::new();
        for (kernel, ptx) in &compiled.kernels {
            let refused = |failure| RunError::Device { file: kernel.file.clone(), failure };
            kernels.push((*kernel, device.load(ptx).map_err(refused)?));
        }
        let mut buffers = BTreeMap::new();
        for (name, content) in problem.buffers() {
            let buffer = match content {
                Content::Input(bytes) | Content::Updated(bytes) => device.allocate(bytes)?,
                Content::Output(len) => device.allocate_unwritten(len)?,
                Content::Sparse(len, pieces) => {
                    let buffer = device.allocate_sparse(len)?;
                    write_pieces(device, buffer, &pieces)?;
                    buffer
                }
            };
            buffers.insert(name, buffer);
        }
        Ok(Self { device, problem, kernels, buffers })
    }

    /// Puts the data of the problem into the buffers, and what kernels write into its state before a run.
    fn begin(&mut self, inputs: bool) -> Result<(), RunError> {
        for (name, content) in self.problem.buffers() {
            let Some(buffer) = self.buffers.get(name).copied() else { continue };
            match content {
                Content::Input(bytes) if inputs => self.device.write(buffer, &bytes)?,
                Content::Sparse(_, pieces) if inputs => write_pieces(self.device, buffer, &pieces)?,
                Content::Input(_) | Content::Sparse(..) => {}
                Content::Updated(bytes) => self.device.write(buffer, &bytes)?,
                Content::Output(_) => self.device.forget(buffer)?,
            }
        }
        Ok(())
    }

    fn launches(&self) -> Result<Vec<Launch>, RunError> {
        let launch = |step: Step| {
            let (kernel, module) = self.kernels.get(step.kernel).ok_or(RunError::Input("kernel"))?;
            let argument = |name: &str| {
                let renamed = step.buffers.iter().find(|(argument, _)| *argument == name);
                if let Some(buffer) = self.buffers.get(renamed.map_or(name, |(_, buffer)| *buffer)) {
                    return Some(Argument::Address(*buffer));
                }
                let value = u32::try_from(*step.names.get(name)?).ok()?;
                Some(Argument::Value(value.to_le_bytes().to_vec()))
            };
            launch::prepared(&*self.device, kernel, *module, &step.names, argument)
        };
        self.problem.steps().into_iter().map(launch).collect()
    }

    /// Runs the steps one at a time, so that a failure names its stage.
    fn run(&mut self, seed: u64) -> Result<Ran, RunError> {
        self.device.reschedule(seed);
        let launches = self.launches()?;
        for (step, launch) in self.problem.steps().into_iter().zip(launches) {
            if let Err(LaunchFailure { failure, .. }) = self.device.run(&[launch]) {
                return Ok(Ran { stored: Stored::new(), stopped: Some((step.stage, failure)) });
            }
        }
        self.collect()
    }

    /// Runs all steps as one stream, each of which may begin before its predecessor has ended.
    fn overlapped(&mut self) -> Result<Ran, RunError> {
        let launches = programmatic(self.launches()?);
        match self.device.run(&launches) {
            Ok(()) => self.collect(),
            Err(failed) => Ok(self.stopped_at(failed)),
        }
    }

    fn stopped_at(&self, failed: LaunchFailure) -> Ran {
        let stage = self.problem.steps().into_iter().nth(failed.launch).map(|step| step.stage);
        Ran { stored: Stored::new(), stopped: Some((stage.unwrap_or_default(), failed.failure)) }
    }

    /// Reads what was stored.
    fn collect(&self) -> Result<Ran, RunError> {
        let mut stored = Stored::new();
        for (name, content) in self.problem.buffers() {
            let is_input = matches!(content, Content::Input(_) | Content::Sparse(..));
            let (Some(buffer), false) = (self.buffers.get(name), is_input) else { continue };
            match self.device.read(*buffer) {
                Ok(bytes) => _ = stored.insert(name, bytes),
                // On a device that tracks initialisation, a result that nobody wrote cannot be read.
                Err(failure) => {
                    let stage = self.problem.stage_of(name);
                    return Ok(Ran { stored: Stored::new(), stopped: Some((stage, failure)) });
                }
            }
        }
        Ok(Ran { stored, stopped: None })
    }

    /// Runs the steps again to find the instruction that wrote bytes of a buffer last, in words; `None` if the device cannot tell.
    fn last_write(&mut self, seed: u64, name: &str, bytes: Range<usize>) -> Option<String> {
        let buffer = *self.buffers.get(name)?;
        self.begin(false).ok()?;
        self.device.watch(Some((buffer, bytes)));
        let ran = self.run(seed);
        let last = self.device.last_write();
        self.device.watch(None);
        last.filter(|_| ran.is_ok_and(|ran| ran.stopped.is_none()))
    }

    /// The inputs with contents that no launch has read: beside a wrong result, the first clue.
    fn unread(&self) -> Vec<&'static str> {
        let inputs = self.problem.buffers().into_iter().filter(|(name, content)| {
            let has_bytes = matches!(content, Content::Input(bytes) if !bytes.is_empty());
            let is_needed = has_bytes && self.problem.needs(name);
            is_needed && self.buffers.get(name).and_then(|buffer| self.device.is_read(*buffer)) == Some(false)
        });
        inputs.map(|(name, _)| name).collect()
    }

    /// The first input that changed, and its first byte that differs.
    fn overwritten(&self) -> Result<Option<(&'static str, usize)>, RunError> {
        for (name, content) in self.problem.buffers() {
            let pieces = match content {
                Content::Input(bytes) => vec![(0, bytes)],
                Content::Sparse(_, pieces) => pieces,
                Content::Output(_) | Content::Updated(_) => continue,
            };
            let Some(buffer) = self.buffers.get(name) else { continue };
            for (at, bytes) in pieces {
                if let Some(byte) = self.device.differs(*buffer, at, &bytes)? {
                    return Ok(Some((name, byte)));
                }
            }
        }
        Ok(None)
    }
}

fn write_pieces(device: &mut dyn Device, buffer: Buffer, pieces: &[(usize, Vec<u8>)]) -> Result<(), Failure> {
    pieces.iter().try_for_each(|(at, bytes)| device.write_at(buffer, *at, bytes))
}

/// Lets every launch but the first begin before its predecessor has ended.
fn programmatic(mut launches: Vec<Launch>) -> Vec<Launch> {
    launches.iter_mut().skip(1).for_each(|launch| launch.programmatic = true);
    launches
}

/// The verdicts of a run.
fn judged(problem: &dyn Problem, ran: &Ran, device: &str) -> Vec<StageResult> {
    let Some((stopped, failure)) = &ran.stopped else { return problem.judge(&ran.stored) };
    let NotPassed { verdict, note } = not_passed(failure.clone(), device);
    let mut stages: Vec<StageName> = Vec::new();
    for step in problem.steps() {
        if !stages.contains(&step.stage) {
            stages.push(step.stage);
        }
    }
    let result = |stage: StageName| match stage == *stopped {
        true => StageResult {
            verdict,
            worst_over_bound: f64::INFINITY,
            ..StageResult::skipped(stage, note.clone())
        },
        false => StageResult::skipped(stage, format!("{stopped} did not finish")),
    };
    stages.into_iter().map(result).collect()
}

fn fail(stages: &mut [StageResult], stage: &StageName, note: String) {
    if let Some(result) = stages.iter_mut().find(|result| result.stage == *stage) {
        result.verdict = Verdict::Fail;
        result.worst_over_bound = f64::INFINITY;
        result.mismatches += 1;
        result.note = note;
    }
}

fn conforms(stages: &[StageResult]) -> bool {
    stages.iter().all(|stage| stage.verdict.conforms())
}

/// The first buffer in which two runs differ, and the byte.
fn differing(one: &Stored, other: &Stored) -> Option<(&'static str, usize)> {
    one.iter().find_map(|(name, bytes)| Some((*name, first_difference(bytes, other.get(name)?)?)))
}

/// The trials of a stream: runs on the same memory.
struct Runs<'s, 'd> {
    session: &'s mut Session<'d>,
    device: String,
    first_seed: u64,
    runs: u64,
    /// The verdicts so far: those of the first run, unless a later one does not conform.
    stages: Vec<StageResult>,
}

impl Subject for Runs<'_, '_> {
    type Left = Stored;
    type Error = TrialError;

    fn run(&mut self, trial: &Trial, _: &mut trials::Verdict) -> Result<Ended<Stored>, TrialError> {
        if self.runs > 0 {
            self.session.begin(false)?;
        }
        let seed = self.first_seed + trial.seed;
        let ran = self.session.run(seed)?;
        let mut stages = judged(self.session.problem, &ran, &self.device);
        let finished = conforms(&stages);
        if !finished && ran.stopped.is_none() {
            let unread = self.session.unread();
            for result in stages.iter_mut().filter(|result| !result.verdict.conforms()) {
                unread
                    .iter()
                    .for_each(|name| result.note += &format!("; `{name}` was never read by any launch"));
            }
            let wrong = stages.iter_mut().find(|result| !result.verdict.conforms());
            if let Some(wrong) = wrong
                && let Some(place) = &wrong.place
                && let Some((buffer, bytes)) = self.session.problem.bytes_of(&wrong.stage, place)
                && let Some(last) = self.session.last_write(seed, buffer, bytes)
            {
                wrong.note += &format!("; last written by {last}");
            }
        }
        if self.runs > 0 && !finished {
            for result in stages.iter_mut().filter(|result| !result.verdict.conforms()) {
                result.note =
                    format!("launch {} on the same memory, schedule {seed}: {}", self.runs + 1, result.note);
            }
        }
        if self.runs == 0 || !finished {
            self.stages = stages;
        }
        self.runs += 1;
        Ok(Ended { left: ran.stored, finished })
    }

    fn first_difference(&self, [one, other]: [&Stored; 2], _: &mut Sums) -> Option<Unequal> {
        let (buffer, byte) = differing(one, other)?;
        let values = [String::new(), String::new()];
        Some(Unequal { buffer: buffer.to_owned(), byte, index: Vec::new(), values, sum: None })
    }
}

/// Repeats the first schedule with lanes that take turns where those of a warp conflict; returns the stage whose results depend on that,
/// or that breaks a rule then.
fn lanes_that_matter(
    session: &mut Session<'_>,
    stored: &Stored,
    device: &str,
    seed: u64,
) -> Result<Option<(StageName, String)>, TrialError> {
    let mut found = None;
    for turns in [Turns::LowestLaneFirst, Turns::HighestLaneFirst] {
        let Some(conflict) = session.device.direct_lanes(Some(turns)) else { return Ok(None) };
        session.begin(false)?;
        let ran = session.run(seed)?;
        let stages = judged(session.problem, &ran, device);
        let wrong = stages.iter().find(|result| !result.verdict.conforms());
        let other = differing(stored, &ran.stored).map(|(buffer, _)| session.problem.stage_of(buffer));
        let what = match (wrong, other) {
            (Some(wrong), _) => Some((wrong.stage.clone(), wrong.note.clone())),
            (None, Some(stage)) => Some((stage, "other bits are stored".to_owned())),
            (None, None) => None,
        };
        if let Some((stage, note)) = what {
            found = Some((stage, format!("race: {conflict}; if the lanes take turns there: {note}")));
            break;
        }
    }
    session.device.direct_lanes(None);
    Ok(found)
}

impl PreparedStream {
    fn emulated(
        &self,
        memo: &Memo,
        compiled: &Compiled<'_>,
        schedules: Range<u64>,
        options: Options,
    ) -> Result<(Vec<StageResult>, Stored, u64), TrialError> {
        let mut device = EmulatorDevice::new(Arc::clone(&memo.programs), options);
        let name = device.name();
        let mut session = Session::new(&mut device, compiled, self.problem.as_ref())?;
        let plan = Plan {
            require_equal: self.deterministic,
            schedules: Some(schedules.end.saturating_sub(schedules.start)),
            shift_shared: false,
            ..Plan::default()
        };
        let mut verdict = trials::Verdict::new(&plan);
        let mut runs = Runs {
            session: &mut session,
            device: name.clone(),
            first_seed: schedules.start,
            runs: 0,
            stages: Vec::new(),
        };
        let stored = compare_trials(&mut runs, &plan, &mut verdict)?;
        let (mut stages, count) = (runs.stages, runs.runs);
        if let Some(difference) =
            verdict.nondeterministic().filter(|_| conforms(&stages) && self.deterministic)
        {
            let stage = self.problem.stage_of(&difference.buffer);
            let note = format!(
                "launch {count} on the same memory stores different bits from launch 1, but the kernels promise equal ones"
            );
            fail(&mut stages, &stage, note);
        }
        if conforms(&stages)
            && let Some((stage, note)) = lanes_that_matter(&mut session, &stored, &name, schedules.start)?
        {
            fail(&mut stages, &stage, note);
        }
        // An input that cannot be read after a fault is reported by its stage.
        if let Ok(Some((input, byte))) = session.overwritten()
            && let Some(step) = self.problem.steps().first()
        {
            fail(&mut stages, &step.stage, format!("a kernel wrote to its input {input} at byte {byte}"));
        }
        drop(session);
        Ok((stages, stored, device.warp_instructions))
    }

    /// Runs one check and returns a description of it.
    fn check(
        &self,
        check: Check,
        compiled: &Compiled<'_>,
        device: &mut dyn Device,
        replays: usize,
        state: &mut State,
    ) -> Result<Result<String, NotPassed>, TrialError> {
        let name = device.name();
        if !matches!(check, Check::Correct | Check::AsEmulator)
            && let Err(failure) = device.reset()
        {
            return Ok(Err(not_passed(failure, &name)));
        }
        let skipped = |note: &str| Ok(Err(NotPassed::new(Verdict::Skipped, note)));
        match check {
            Check::Loads => {
                for (kernel, ptx) in &compiled.kernels {
                    if let Err(failure) = device.load(ptx) {
                        return Ok(Err(not_passed(failure, &name).at(&kernel.file)));
                    }
                }
                Ok(Ok(format!("{} kernels", compiled.kernels.len())))
            }
            Check::Runs => {
                let mut session = Session::new(device, compiled, self.problem.as_ref())?;
                let ran = session.run(0)?;
                state.stages = judged(self.problem.as_ref(), &ran, &name);
                if ran.stopped.is_none()
                    && let Some((input, byte)) = session.overwritten()?
                    && let Some(step) = self.problem.steps().first()
                {
                    let note = format!("a kernel wrote to its input {input} at byte {byte}");
                    fail(&mut state.stages, &step.stage, note);
                }
                let stopped = ran.stopped.map(|(stage, failure)| not_passed(failure, &name).at(stage));
                state.stored = ran.stored;
                Ok(stopped.map_or_else(|| Ok(String::new()), Err))
            }
            Check::Correct => Ok(match state.stages.iter().find(|stage| !stage.verdict.conforms()) {
                Some(wrong) => Err(NotPassed::new(wrong.verdict, format!("{}: {}", wrong.stage, wrong.note))),
                None => Ok(String::new()),
            }),
            Check::AsEmulator => match &state.emulated {
                None => skipped("the emulator did not complete it"),
                Some(emulated) => Ok(self.same(emulated, &state.stored, "the emulator's run")),
            },
            Check::Deterministic if !self.deterministic => skipped("the kernels do not promise equal bits"),
            Check::Deterministic => {
                let mut session = Session::new(device, compiled, self.problem.as_ref())?;
                for replay in 1..=replays {
                    if replay > 1 {
                        session.begin(false)?;
                    }
                    let ran = session.run(0)?;
                    if let Err(differs) = self.same(&state.stored, &ran.stored, &format!("replay {replay}")) {
                        return Ok(Err(differs));
                    }
                }
                Ok(Ok(format!("{replays} replays equal the first run bit for bit")))
            }
            Check::Pdl if self.problem.steps().len() < 2 => skipped("the stream has one launch"),
            Check::Pdl => {
                let ran = Session::new(device, compiled, self.problem.as_ref())?.overlapped()?;
                Ok(self.same(&state.stored, &ran.stored, "the run with it"))
            }
            Check::Graph => self.graph(compiled, device, &name),
        }
    }

    /// Captures with the first problem, replays with every other and with the first again, and judges each replay.
    fn graph(
        &self,
        compiled: &Compiled<'_>,
        device: &mut dyn Device,
        name: &str,
    ) -> Result<Result<String, NotPassed>, TrialError> {
        let mut session = Session::new(device, compiled, self.problem.as_ref())?;
        let launches = session.launches()?;
        let graph = match session.device.capture(&launches) {
            Ok(graph) => graph,
            Err(failed) => return Ok(Err(not_passed(failed.failure, name))),
        };
        let variants = (1..=VARIANTS).map(&self.variant).collect::<Result<Vec<_>, _>>()?;
        let first = std::iter::once(&self.problem);
        for problem in first.clone().chain(&variants).chain(first) {
            session.problem = problem.as_ref();
            session.begin(true)?;
            let ran = match session.device.replay(graph) {
                Ok(()) => session.collect()?,
                Err(failed) => session.stopped_at(failed),
            };
            let stages = judged(problem.as_ref(), &ran, name);
            if let Some(wrong) = stages.iter().find(|stage| !stage.verdict.conforms()) {
                let note = format!("a replay with other data: {}: {}", wrong.stage, wrong.note);
                return Ok(Err(NotPassed::new(wrong.verdict, note)));
            }
        }
        Ok(Ok(format!("replayed with {VARIANTS} other problems")))
    }

    fn same(&self, one: &Stored, other: &Stored, what: &str) -> Result<String, NotPassed> {
        match differing(one, other) {
            None => Ok("every stored bit".to_owned()),
            Some((buffer, byte)) => {
                let stage = self.problem.stage_of(buffer);
                let note = format!("{what}: {stage} stores different bits in {buffer} at byte {byte}");
                Err(NotPassed::new(Verdict::Fail, note))
            }
        }
    }
}

/// What the checks of a device pass on.
#[derive(Default)]
struct State {
    stages: Vec<StageResult>,
    stored: Stored,
    /// What the emulator stored, if its run conforms.
    emulated: Option<Stored>,
}

impl Prepared for PreparedStream {
    fn emulate(
        &self,
        memo: &Memo,
        compiled: &Compiled<'_>,
        schedules: Range<u64>,
        options: Options,
    ) -> Result<Outcome, TrialError> {
        let (stages, stored, warp_instructions) = self.emulated(memo, compiled, schedules, options)?;
        Ok(Outcome { stages, warp_instructions, stored: Box::new(stored) })
    }

    fn checked(
        &self,
        memo: &Memo,
        compiled: &Compiled<'_>,
        device: &mut dyn Device,
        replays: usize,
        options: Options,
    ) -> Result<Checked, TrialError> {
        let (stages, stored, _) = self.emulated(memo, compiled, 0..1, options)?;
        let mut state = State { emulated: conforms(&stages).then_some(stored), ..State::default() };
        let checks = checks::in_order(Check::ALL, |check| {
            let result = self.check(check, compiled, device, replays, &mut state);
            device.rest();
            result
        })?;
        Ok(Checked { stages: state.stages, checks })
    }

    fn differing(&self, one: &Outcome, other: &Outcome) -> Vec<StageName> {
        let stored = |outcome: &'_ Outcome| outcome.stored.downcast_ref::<Stored>().cloned();
        let (Some(one), Some(other)) = (stored(one), stored(other)) else { return Vec::new() };
        let mut stages: Vec<StageName> = one
            .iter()
            .filter(|(name, bytes)| other.get(*name) != Some(*bytes))
            .map(|(name, _)| self.problem.stage_of(name))
            .collect();
        stages.dedup();
        stages
    }
}
