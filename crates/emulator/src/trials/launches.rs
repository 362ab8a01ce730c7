//! Trials of launches on one global memory.

use std::sync::Arc;

use super::compare::ResultBuffer;
use super::conflicts::Recorded;
use super::cycle::{Ended, Subject, Unequal, compare_trials};
use super::plan::{Plan, Reading, Rules, Trial};
use super::readings::ContractedPrograms;
use super::verdict::{Open, Stopped, Sums, Verdict};
use crate::api::observe::{Conflicts, Executed, Observer, Remark, Violation};
use crate::api::trap::{Stop, Trap};
use crate::front::program::Program;
use crate::memory::global::GlobalMemory;
use crate::run::launch::{Counts, Launch, Options, launch_with};
use crate::run::stream::InStream;
use crate::run::watchpoint::Watchpoints;

/// One launch of every trial.
pub struct Step<'a> {
    /// The module.
    pub program: &'a Program,
    /// The name of the kernel.
    pub kernel: &'a str,
    /// Grid, block and parameters.
    pub launch: Launch,
    /// CTAs per cluster in x, y, z, if the launch sets them.
    pub cluster: Option<[u32; 3]>,
    /// Whether all its CTAs must be resident together.
    pub cooperative: bool,
    /// Whether a schedule may shift dynamic shared memory within the alignment that the kernel declares.
    pub shift_shared: bool,
}

impl Step<'_> {
    /// The launch, in the reading of its module.
    pub(super) fn in_stream(&self) -> Result<InStream<'_>, Stop> {
        let missing = || Stop::Launch(format!("the module has no entry `{}`", self.kernel));
        let kernel = self.program.kernel(self.kernel).ok_or_else(missing)?;
        Ok(InStream {
            cluster: self.cluster,
            cooperative: self.cooperative,
            ..InStream::new(self.program, kernel, &self.launch)
        })
    }
}

/// One launch of one trial.
pub struct Launching<'a> {
    /// The trial.
    pub trial: &'a Trial,
    /// Whether it is the first trial, whose output is shown.
    pub is_first: bool,
    /// The launch.
    pub step: &'a InStream<'a>,
    /// The options that the trial requires.
    pub options: &'a Options,
}

/// What the observer of a launch collects.
#[derive(Debug, Clone, Default)]
pub struct Notices {
    /// Remarks.
    pub remarks: Vec<Remark>,
    /// Violations after which the launch continued.
    pub violations: Vec<Violation>,
    /// Stores whose lanes wrote different values to one address.
    pub undetermined_stores: Vec<Remark>,
    /// Accesses that conflict without an order.
    pub conflicts: Conflicts,
}

impl Notices {
    /// Adds what an observer receives, for observers that do more than collect.
    pub fn violation(&mut self, violation: &Violation) {
        self.violations.push(violation.clone());
    }

    /// As [`Notices::violation`].
    pub fn remark(&mut self, remark: &Remark) {
        self.remarks.push(remark.clone());
    }

    /// As [`Notices::violation`].
    pub fn undetermined_store(&mut self, store: &Remark) {
        self.undetermined_stores.push(store.clone());
    }

    /// As [`Notices::violation`].
    pub fn conflicts(&mut self, conflicts: &Conflicts) {
        self.conflicts = conflicts.clone();
    }
}

/// How a launch ended, and what its observer collected.
pub struct Launched {
    /// How it ended.
    pub counts: Result<Counts, Stop>,
    /// What was collected until then.
    pub notices: Notices,
}

/// The observer that only collects.
#[derive(Default)]
struct Collector {
    printed: Vec<String>,
    notices: Notices,
}

impl Observer for Collector {
    const WATCHES: bool = false;

    fn row(&mut self, _: &Executed<'_>) {}

    fn printed(&mut self, text: &str) {
        self.printed.push(text.to_owned());
    }

    fn violation(&mut self, violation: &Violation) {
        self.notices.violation(violation);
    }

    fn remark(&mut self, remark: &Remark) {
        self.notices.remark(remark);
    }

    fn undetermined_store(&mut self, store: &Remark) {
        self.notices.undetermined_store(store);
    }

    fn conflicts(&mut self, conflicts: &Conflicts) {
        self.notices.conflicts(conflicts);
    }
}

impl Launching<'_> {
    /// Runs the launch and returns what it printed, too.
    pub fn collect(&self, memory: &mut GlobalMemory) -> (Launched, Vec<String>) {
        let mut collector = Collector::default();
        let counts = launch_with(self.step, memory, self.options, &mut collector);
        let Collector { printed, notices } = collector;
        (Launched { counts, notices }, printed)
    }
}

/// A door: what runs the launches of a trial, and knows which buffers are results.
pub trait Door {
    /// Why a trial cannot run.
    type Error;

    /// The buffers whose contents are results, before the launches.
    fn results(&self) -> Vec<ResultBuffer>;

    /// Performs a launch.
    ///
    /// # Errors
    /// Only if the trial cannot run.
    fn launch(
        &mut self,
        launching: &Launching<'_>,
        memory: &mut GlobalMemory,
    ) -> Result<Launched, Self::Error>;

    /// Called with the memory that a trial leaves, if it ran to its end in the chosen reading.
    fn ended(&mut self, _trial: &Trial, _memory: &GlobalMemory) {}
}

/// Runs the launches under all trials of a plan. At the end, `memory` is what the first trial left.
///
/// # Errors
/// Those of [`Door::launch`]. A kernel that violates a rule is no error.
pub fn judge<D: Door>(
    door: &mut D,
    steps: &[Step<'_>],
    memory: &mut GlobalMemory,
    plan: &Plan,
    contracted: &mut ContractedPrograms,
) -> Result<Verdict, D::Error> {
    let shifts = |step: &Step<'_>| step.shift_shared && step.launch.shared_bytes > 0;
    let plan = &Plan { shift_shared: plan.shift_shared && steps.iter().any(shifts), ..plan.clone() };
    let mut verdict = Verdict::new(plan);
    let several = plan.are_several();
    memory.forget_float_sums();
    if several {
        memory.track_float_sums();
    }
    let keeps = several || plan.tries_contraction() || plan.keep_before && plan.rules != Rules::None;
    let before = keeps.then(|| {
        memory.share();
        memory.clone()
    });
    let results = if keeps || plan.results_are_read { door.results() } else { Vec::new() };
    let mut launches = Launches {
        door,
        steps,
        plan,
        own: Some(std::mem::take(memory)),
        before,
        results,
        contracted,
        overlapping: None,
        recorded: Recorded::default(),
        watchpoints: None,
    };
    let left = compare_trials(&mut launches, plan, &mut verdict)?;
    if several {
        let elements = launches.results.iter().map(|result| left.float_sums(result.address, result.len));
        verdict.sums.elements = elements.sum();
    }
    if verdict.stopped.is_none() && launches.before.is_some() {
        launches.other_readings(&left, &mut verdict)?;
        launches.try_conflicts(&left, &mut verdict)?;
    }
    launches.recorded.remark(&mut verdict);
    drop(launches);
    *memory = left;
    memory.own_all();
    memory.forget_float_sums();
    verdict.complete_messages(memory);
    Ok(verdict)
}

/// The launches as the subject of trials.
pub(super) struct Launches<'a, D> {
    door: &'a mut D,
    steps: &'a [Step<'a>],
    pub(super) plan: &'a Plan,
    /// The caller's memory, for the first trial.
    own: Option<GlobalMemory>,
    /// The memory before the launches, for the other trials.
    pub(super) before: Option<GlobalMemory>,
    pub(super) results: Vec<ResultBuffer>,
    contracted: &'a mut ContractedPrograms,
    /// The first trial in which lanes of a store wrote different values to one address.
    overlapping: Option<Trial>,
    /// The conflicts of the trials so far.
    pub(super) recorded: Recorded,
    /// The bytes that the launches of a replay watch.
    pub(super) watchpoints: Option<Arc<Watchpoints>>,
}

impl<D: Door> Subject for Launches<'_, D> {
    type Left = GlobalMemory;
    type Error = D::Error;

    fn run(&mut self, trial: &Trial, verdict: &mut Verdict) -> Result<Ended<GlobalMemory>, D::Error> {
        let own = self.own.take();
        let is_first = own.is_some();
        let mut memory = own.or_else(|| self.before.clone()).unwrap_or_default();
        let stopped = self.launch_all((trial, is_first), &mut memory, verdict)?;
        let finished = stopped.is_none();
        if let Some((step, stop)) = stopped {
            verdict.stopped = Some(Stopped { trial: *trial, step, stop });
        } else if trial.reading == Reading::Chosen && trial.turns.is_none() {
            self.door.ended(trial, &memory);
        }
        self.locate_other_accesses(trial, verdict)?;
        if is_first && finished && self.before.is_some() {
            self.add_variables(&memory);
        }
        Ok(Ended { left: memory, finished })
    }

    fn first_difference(&self, left: [&GlobalMemory; 2], sums: &mut Sums) -> Option<Unequal> {
        self.results.iter().find_map(|result| result.first_difference(left, sums))
    }
}

impl<D: Door> Launches<'_, D> {
    /// Runs all launches of a trial in order; returns the one that stopped, and why.
    pub(super) fn launch_all(
        &mut self,
        (trial, is_first): (&Trial, bool),
        memory: &mut GlobalMemory,
        verdict: &mut Verdict,
    ) -> Result<Option<(usize, Stop)>, D::Error> {
        let all = self.plan.options(trial);
        // For each result, the launch that left undefined bytes in it.
        let mut undefined: Vec<Option<(Trap, usize)>> = vec![None; self.results.len()];
        for (n, step) in self.steps.iter().enumerate() {
            let program = match trial.reading {
                Reading::Contracted => self.contracted.get(step.program),
                _ => step.program,
            };
            let Some(kernel) = program.kernel(step.kernel) else {
                let what = format!("the module has no entry `{}`", step.kernel);
                return Ok(Some((n, Stop::Launch(what))));
            };
            let in_stream = InStream {
                cluster: step.cluster,
                cooperative: step.cooperative,
                ..InStream::new(program, kernel, &step.launch)
            };
            let directed = trial.turns.map(|turns| self.recorded.directed(turns));
            let instructions = verdict.instructions.get(n).copied().unwrap_or(all.fuel / 4);
            let options = Options {
                shift_shared: all.shift_shared && step.shift_shared,
                directed,
                watchpoints: self.watchpoints.clone(),
                fuel: all.fuel.min(self.recorded.fuel(trial.turns, instructions)),
                ..all.clone()
            };
            let launching = Launching { trial, is_first, step: &in_stream, options: &options };
            let Launched { counts, notices } = self.door.launch(&launching, memory)?;
            verdict.add_violations(notices.violations);
            verdict.lanes_conflict |= !notices.conflicts.lane_rows.is_empty();
            if self.watchpoints.is_none() {
                self.recorded.add(trial, notices.conflicts);
            }
            if !notices.undetermined_stores.is_empty() && trial.reading == Reading::Chosen {
                self.overlapping.get_or_insert(*trial);
                verdict.add_undetermined_stores(notices.undetermined_stores);
            }
            if is_first {
                verdict.remarks.extend(notices.remarks);
            }
            match counts {
                Ok(counts) if is_first => verdict.instructions.push(counts.warp_instructions),
                Ok(_) => {}
                Err(stop) => return Ok(Some((n, stop))),
            }
            if self.plan.results_are_read && (memory.any_undefined().is_some() || n > 0) {
                let read = undefined.iter_mut().zip(&self.results).filter(|(_, result)| result.is_read);
                for (known, result) in read {
                    let trap = memory.undefined(result.address);
                    if known.as_ref().map(|(trap, _)| trap) != trap {
                        *known = trap.map(|trap| (trap.clone(), n));
                    }
                }
            }
        }
        for (trap, n) in undefined.into_iter().flatten() {
            if all.judge == crate::api::trap::Judge::Strict {
                return Ok(Some((n, Stop::Trap(Box::new(trap)))));
            }
            verdict.add_violations(vec![Violation { trap, times: 1 }]);
        }
        Ok(None)
    }

    /// Makes the variables of the modules results: kernels may leave what they compute there.
    fn add_variables(&mut self, memory: &GlobalMemory) {
        for step in self.steps {
            for (name, address, len) in step.program.global_variables_on(memory) {
                if self.results.iter().all(|result| result.address != address) {
                    self.results.push(ResultBuffer::untyped(name.to_owned(), address, len));
                }
            }
        }
    }

    /// Runs the readings that differ from the chosen one, and lists what depends on them.
    fn other_readings(&mut self, left: &GlobalMemory, verdict: &mut Verdict) -> Result<(), D::Error> {
        let first = self.plan.first();
        if self.plan.tries_contraction() {
            let mut open = false;
            for (n, step) in self.steps.iter().enumerate() {
                match self.contracted.load(step.program) {
                    Ok(is_open) => open |= is_open,
                    Err(stop) => {
                        verdict.stopped = Some(Stopped { trial: first, step: n, stop });
                        return Ok(());
                    }
                }
            }
            // A caller that chose contraction for one module has chosen for all.
            if open && !self.steps.iter().any(|step| step.program.is_contracted()) {
                let trial = Trial { reading: Reading::Contracted, ..first };
                let other = self.run(&trial, verdict)?;
                self.list_open(Open::Contraction, left, &other, verdict);
            }
        }
        let Some(trial) = self.overlapping else { return Ok(()) };
        if verdict.stopped.is_some() {
            return Ok(());
        }
        verdict.lanes_tried = true;
        let other = self.run(&Trial { reading: Reading::LowestLane, ..trial }, verdict)?;
        if trial == first {
            self.list_open(Open::StoreLane, left, &other, verdict);
        } else {
            // The first trial has no such store.
            let again = self.run(&trial, verdict)?;
            self.list_open(Open::StoreLane, &again.left, &other, verdict);
        }
        Ok(())
    }

    fn list_open(&self, open: Open, left: &GlobalMemory, other: &Ended<GlobalMemory>, verdict: &mut Verdict) {
        if other.finished {
            let found = self.results.iter().filter_map(|r| r.undetermined(open, [left, &other.left]));
            verdict.undetermined.get_or_insert_default().extend(found);
        }
    }
}

impl Verdict {
    /// Names the buffers of addresses in messages, and quotes the lines of the source that violations name.
    fn complete_messages(&mut self, memory: &GlobalMemory) {
        let traps = self.violations.iter_mut().map(|violation| &mut violation.trap);
        let stopped = self.stopped.iter_mut().filter_map(|stopped| match &mut stopped.stop {
            Stop::Trap(trap) => Some(&mut **trap),
            _ => None,
        });
        for trap in traps.chain(stopped) {
            trap.what = memory.name_addresses(&trap.what);
            trap.read_sources();
        }
        for remark in self.remarks.iter_mut().chain(&mut self.undetermined_stores) {
            remark.what = memory.name_addresses(&remark.what);
        }
    }
}
