//! Trials: the same launches under several schedules, fillings and readings, and one verdict on all of them.
//!
//! # Duty
//!
//! One run of a kernel shows one of the behaviours that PTX allows. [`judge`] runs the launches several times from the same memory,
//! compares what they leave, and says in one [`Verdict`] what that shows. Every door (`emulate`, `exec`, the C interface, Python)
//! implements [`Door`] and calls it, so the same launches have the same verdict everywhere. A caller whose trials are not launches
//! on one memory, such as the pipeline with its stages, implements [`Subject`] and calls [`compare_trials`], the loop below it.
//!
//! A [`Trial`] is a seed × a filling × a [`Reading`]:
//! * the seed chooses the schedule of warps and CTAs, and may shift the base of dynamic shared memory;
//! * the filling is the byte that unwritten memory and registers hold;
//! * the reading settles what PTX leaves open: whether a product and a sum round once, and which lane's value remains where lanes
//!   of one store write different values to one address.
//!
//! A trial may also be directed: its schedule lets the two sides of a conflict that an earlier trial recorded take turns
//! ([`Turns`](crate::Turns)). [`judge`] derives these trials from what the others report.
//!
//! # Words
//!
//! * A **violation** breaks a rule of PTX. A *race* is one: two conflicting accesses that are unordered and not morally strong.
//! * **Nondeterministic** results differ between schedules although nothing races: tickets, work lists, old values of atomics. That
//!   is a property of the kernel, not a fault; [`Plan::require_equal`] makes it one. Sums of float atomics that differ within
//!   their derived bound ([`crate::FloatSum`]) do not count as different.
//! * **Undetermined by PTX** are results that differ between readings. [`Plan::strict`] makes them a fault.
//! * **Incomplete** is what the emulator does not support.
//!
//! # Invariants
//!
//! * Every trial starts from the same memory, and the memory that the caller has at the end is that of the first trial.
//! * Two trials are compared only if they differ in one coordinate, so that the difference has one cause. A result that differs
//!   in two is compared with a third trial first.
//! * Only results are compared: the buffers that the door names, and the variables of the modules.
//! * A verdict holds facts. What is a failure follows from the facts and the plan alone ([`Verdict::failure`]).
//!
//! # Where to begin
//!
//! `plan.rs` has the trials, `verdict.rs` what comes out, `cycle.rs` the loop with the attribution of differences, `launches.rs` what
//! a trial of launches is, `conflicts.rs` the directed ones, `replay.rs` what a trial
//! is run again for, `provenance.rs`
//! where a wrong result comes from, `compare.rs` the comparison of memory, `readings.rs` the programs of another reading.

mod compare;
mod conflicts;
mod cycle;
mod launches;
mod plan;
mod provenance;
mod readings;
mod replay;
mod verdict;

pub use compare::{ResultBuffer, index_of};
pub use cycle::{Ended, Subject, Unequal, compare_trials};
pub use launches::{Door, Launched, Launching, Notices, Step, judge};
pub use plan::{Plan, Reading, Rules, Trial};
pub use provenance::{Computed, Provenance, provenance};
pub use readings::ContractedPrograms;
pub use verdict::{Cause, Difference, Failure, Open, Outcome, Stopped, Sums, Undetermined, Verdict};
