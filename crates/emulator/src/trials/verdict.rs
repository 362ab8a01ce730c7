//! What trials show, as facts, and which of them are failures.

use std::fmt;

use super::plan::{Plan, Rules, Trial};
use crate::api::observe::{Remark, Violation};
use crate::api::trap::{Rule, Stop, Trap};

/// Why results of two trials differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Their schedules, and a race is listed.
    Race,
    /// Their schedules, although nothing races: the results are nondeterministic.
    Schedule,
    /// The base of dynamic shared memory: a kernel relies on more than the alignment that it declares.
    SharedBase,
    /// What unwritten memory and registers hold.
    Filling,
}

impl Cause {
    /// The causes that are faults of the kernel, the gravest first.
    const FAULTS: [Self; 3] = [Self::Race, Self::SharedBase, Self::Filling];

    /// The word for reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::Schedule => "nondeterministic",
            Self::SharedBase => "misaligned",
            Self::Filling => "uninitialised",
        }
    }
}

/// The first result that differs between two trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Why it differs.
    pub cause: Cause,
    /// The buffer.
    pub buffer: String,
    /// The first byte that differs.
    pub byte: usize,
    /// The index of its element, the outermost dimension first.
    pub index: Vec<usize>,
    /// The two trials.
    pub trials: [Trial; 2],
    /// The element in each.
    pub values: [String; 2],
    /// If it is a sum of float atomics: its terms, and the bound that the difference exceeds.
    pub sum: Option<(u64, f64)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { buffer, byte, values: [one, other], trials: [a, b], .. } = self;
        let index: Vec<String> = self.index.iter().map(ToString::to_string).collect();
        let index = index.join(",");
        if self.cause == Cause::Filling {
            let (first, second) = (a.filling, b.filling);
            return write!(
                f,
                "buffer `{buffer}` depends on uninitialized memory or registers: byte {byte} differs where they hold {first:#04x} and \
                 where they hold {second:#04x}: {buffer}[{index}] is {one} and {other}"
            );
        }
        let (first, second) = (a.seed, b.seed);
        if let Some(turns) = self.turns() {
            return write!(
                f,
                "buffer `{buffer}` differs {turns}: byte {byte} is the first, {buffer}[{index}] is {one} and then {other}"
            );
        }
        match self.sum {
            Some((terms, bound)) => write!(
                f,
                "element {index} of buffer `{buffer}`, a sum of {terms} numbers by float atomics, is {one} under seed {first} and \
                 {other} under seed {second}; the order of the adds explains a difference of {bound:e} at most"
            ),
            None => write!(
                f,
                "buffer `{buffer}` differs between seed {first} and seed {second}, first at byte {byte}: {buffer}[{index}] is {one} \
                 and {other}"
            ),
        }?;
        f.write_str(match self.cause {
            Cause::Race => "; a race is listed",
            Cause::SharedBase => {
                "; it depends on the base of dynamic shared memory, of which only the declared alignment is certain"
            }
            Cause::Schedule | Cause::Filling => {
                "; no race is found: the result depends on the order of warps, on a GPU too"
            }
        })
    }
}

/// Something that PTX leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// Whether an unqualified product and the sum that uses it round once.
    Contraction,
    /// Which lane's value remains where lanes of one store write different values to one address.
    StoreLane,
}

impl Open {
    /// The word for reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Contraction => "contraction",
            Self::StoreLane => "store_lane",
        }
    }
}

/// The elements of a buffer that PTX leaves open.
#[derive(Debug, Clone, PartialEq)]
pub struct Undetermined {
    /// What they depend on.
    pub open: Open,
    /// The buffer.
    pub buffer: String,
    /// The number of elements that differ.
    pub differing: usize,
    /// The number of all its elements.
    pub elements: usize,
    /// The index of the first element that differs, the outermost dimension first.
    pub index: Vec<usize>,
    /// Its value in the chosen reading: rounded separately, or that of the highest lane.
    pub chosen: String,
    /// Its value in the other reading: contracted, or that of the lowest lane.
    pub other: String,
    /// The largest difference of finite elements.
    pub largest: f64,
}

impl fmt::Display for Undetermined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { buffer, differing, elements, chosen, other, largest, .. } = self;
        let index: Vec<String> = self.index.iter().map(ToString::to_string).collect();
        let index = index.join(",");
        let (on, between) = match self.open {
            Open::Contraction => {
                ("whether mul and add round once (--contract)", format!("{chosen}, contracted {other}"))
            }
            Open::StoreLane => (
                "which lane's value remains where one store writes several to one address",
                format!("{chosen} of the highest lane, {other} of the lowest"),
            ),
        };
        write!(
            f,
            "undetermined by PTX: {differing} of {elements} elements of {buffer} depend on {on}\n  the first is {buffer}[{index}]: \
             {between}; the largest difference is {largest:e}"
        )
    }
}

/// Differences of float-atomic sums, within their bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    /// Elements of results that are sums of float atomics.
    pub elements: usize,
    /// The number of differences from the first schedule.
    pub differences: usize,
    /// The largest difference, as a fraction of its bound.
    pub worst: f64,
}

/// A launch that ended its trial, and with it all trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The trial.
    pub trial: Trial,
    /// The index of the launch.
    pub step: usize,
    /// Why it stopped.
    pub stop: Stop,
}

/// The kind of a verdict, the worst that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No rule is violated, and all trials agree.
    Equal,
    /// Results depend on what PTX leaves open.
    Undetermined,
    /// Results differ between schedules although nothing races.
    Nondeterministic,
    /// A rule is violated, or results depend on a race or on unwritten memory.
    Violation,
    /// The emulator lacks something.
    Incomplete,
    /// The launch is invalid.
    Refused,
    /// The emulator failed.
    Bug,
}

impl Outcome {
    /// The word for reports and tests.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Undetermined => "undetermined",
            Self::Nondeterministic => "nondeterministic",
            Self::Violation => "violation",
            Self::Incomplete => "incomplete",
            Self::Refused => "refused",
            Self::Bug => "bug",
        }
    }
}

/// Why a verdict is a failure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Failure<'a> {
    /// A launch stopped.
    Stopped(&'a Stopped),
    /// A rule was violated, and the launch went on.
    Violated(&'a Trap),
    /// Results differ.
    Differs(&'a Difference),
    /// Results depend on what PTX leaves open.
    Undetermined(&'a Undetermined),
}

impl Failure<'_> {
    /// Whether the results of the first trial mean something all the same: no rule is violated, and no fault of the kernel decides them.
    #[must_use]
    pub fn has_results(&self) -> bool {
        match self {
            Self::Stopped(_) | Self::Violated(_) => false,
            Self::Differs(difference) => difference.cause == Cause::Schedule,
            Self::Undetermined(_) => true,
        }
    }
}

/// What all trials show.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Which rules were checked.
    pub rules: Rules,
    /// The first trial.
    pub first: Trial,
    /// The number of schedules and of fillings in the plan.
    pub schedules: u64,
    /// The number of fillings in the plan.
    pub fillings: u8,
    /// Whether there are several of either.
    pub several: bool,
    /// Warp instructions of each launch of the first trial, as far as it ran.
    pub instructions: Vec<u64>,
    /// Whether the first trial ran to its end, so that memory holds its results.
    pub finished: bool,
    /// What stopped a trial.
    pub stopped: Option<Stopped>,
    /// Violations after which launches went on, in all trials, merged by place.
    pub violations: Vec<Violation>,
    /// The first difference by each cause.
    pub differences: Vec<Difference>,
    /// Results that PTX leaves open; `None` if nothing is open, or if it was not tried.
    pub undetermined: Option<Vec<Undetermined>>,
    /// Stores whose lanes write different values to one address, of all trials, merged by place.
    pub undetermined_stores: Vec<Remark>,
    /// Whether the reading of the lowest lane was run.
    pub lanes_tried: bool,
    /// Whether lanes of one warp conflict without an order: a race if a result depends on it, a remark otherwise.
    pub lanes_conflict: bool,
    /// Remarks of the first trial.
    pub remarks: Vec<Remark>,
    /// Sums of float atomics.
    pub sums: Sums,
}

impl Verdict {
    /// The verdict before any trial.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            rules: plan.rules,
            first: plan.first(),
            schedules: plan.schedules(),
            fillings: plan.fillings(),
            several: plan.are_several(),
            instructions: Vec::new(),
            finished: false,
            stopped: None,
            violations: Vec::new(),
            differences: Vec::new(),
            undetermined: None,
            undetermined_stores: Vec::new(),
            lanes_tried: false,
            lanes_conflict: false,
            remarks: Vec::new(),
            sums: Sums::default(),
        }
    }

    /// Adds violations of a trial; merges those of one rule at one instruction.
    pub(super) fn add_violations(&mut self, more: Vec<Violation>) {
        for found in more {
            let same = |known: &&mut Violation| {
                let (a, b) = (&known.trap, &found.trap);
                (a.rule, a.place.line, &a.place.kernel) == (b.rule, b.place.line, &b.place.kernel)
            };
            match self.violations.iter_mut().find(same) {
                Some(known) => known.times += found.times,
                None => self.violations.push(found),
            }
        }
    }

    pub(super) fn add_undetermined_stores(&mut self, more: Vec<Remark>) {
        for found in more {
            let same = |known: &&mut Remark| {
                (known.place.line, &known.place.kernel) == (found.place.line, &found.place.kernel)
            };
            match self.undetermined_stores.iter_mut().find(same) {
                Some(known) => known.times += found.times,
                None => self.undetermined_stores.push(found),
            }
        }
    }

    /// The races that are listed. No number need depend on them.
    pub fn races(&self) -> impl Iterator<Item = &Violation> {
        self.violations.iter().filter(|violation| violation.trap.rule == Rule::Race)
    }

    /// The difference by this cause.
    #[must_use]
    pub fn difference(&self, cause: Cause) -> Option<&Difference> {
        self.differences.iter().find(|difference| difference.cause == cause)
    }

    /// Results that differ between schedules although nothing races.
    #[must_use]
    pub fn nondeterministic(&self) -> Option<&Difference> {
        self.difference(Cause::Schedule)
    }

    /// What the trials show, in one word. It depends on the facts and the rules alone, not on what the caller calls a failure.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let decides = |cause| self.difference(cause).is_some();
        match self.stopped.as_ref().map(|stopped| &stopped.stop) {
            Some(Stop::Trap(_)) => Outcome::Violation,
            Some(Stop::Unsupported(_)) => Outcome::Incomplete,
            Some(Stop::Launch(_)) => Outcome::Refused,
            Some(Stop::Bug(_)) => Outcome::Bug,
            None if self.rules == Rules::All && !self.violations.is_empty() => Outcome::Violation,
            None if Cause::FAULTS.into_iter().any(decides) => Outcome::Violation,
            None if decides(Cause::Schedule) => Outcome::Nondeterministic,
            None if self.undetermined.as_ref().is_some_and(|all| !all.is_empty()) => Outcome::Undetermined,
            None => Outcome::Equal,
        }
    }

    /// The failure that the facts are under a plan, the gravest first; `None` if they are none.
    #[must_use]
    pub fn failure(&self, plan: &Plan) -> Option<Failure<'_>> {
        if let Some(stopped) = &self.stopped {
            return Some(Failure::Stopped(stopped));
        }
        if self.rules == Rules::All
            && let Some(violation) = self.violations.first()
        {
            return Some(Failure::Violated(&violation.trap));
        }
        let mut causes = Cause::FAULTS.into_iter().chain(plan.require_equal.then_some(Cause::Schedule));
        if let Some(difference) = causes.find_map(|cause| self.difference(cause)) {
            return Some(Failure::Differs(difference));
        }
        let open = self.undetermined.iter().flatten().next().filter(|_| plan.strict);
        open.map(Failure::Undetermined)
    }
}
