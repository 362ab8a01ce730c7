//! Tries conflicts both ways: trials whose schedules are directed by what earlier ones recorded.

use std::sync::Arc;

use super::compare::ResultBuffer;
use super::cycle::{Ended, Subject, Unequal};
use super::launches::{Door, Launches};
use super::plan::Trial;
use super::verdict::{Cause, Difference, Sums, Verdict};
use crate::api::observe::{Conflicts, Remark, Violation};
use crate::api::trap::{Rule, Stop, Trap};
use crate::memory::global::GlobalMemory;
use crate::run::directed::{Directed, MOST_APART};
use crate::run::turns::Turns;

/// The conflicts that trials have recorded.
#[derive(Default)]
pub(super) struct Recorded {
    conflicts: Conflicts,
    /// The first trial with conflicts of lanes, and the first one with races between warps.
    lanes: Option<Trial>,
    warps: Option<Trial>,
    /// Whether the lanes have taken turns.
    lanes_tried: bool,
    /// Whether they meet where their branches and calls do, because a schedule in which they did not was too long.
    lanes_meet: bool,
    /// Whether results differed then that also differ if the lanes of each warp stay together.
    differs_anyway: bool,
}

/// The number of schedules, with the lanes of each warp together, that show which results differ anyway.
const CONTROLS: usize = 3;

impl Recorded {
    /// Adds those of a launch.
    pub(super) fn add(&mut self, trial: &Trial, found: Conflicts) {
        // What a directed schedule adds is a consequence of what directs it.
        if trial.turns.is_some() {
            return;
        }
        if !found.lane_rows.is_empty() {
            self.lanes.get_or_insert(*trial);
        }
        if !found.warp_rows.is_empty() {
            self.warps.get_or_insert(*trial);
        }
        let all = &mut self.conflicts;
        merge(&mut all.lanes, found.lanes);
        merge(&mut all.strong_lanes, found.strong_lanes);
        all.lane_rows.extend(found.lane_rows);
        all.warp_rows.extend(found.warp_rows);
        all.bytes.extend(found.bytes);
    }

    /// The schedule that these turns make of them.
    pub(super) fn directed(&self, turns: Turns) -> Arc<Directed> {
        Arc::new(Directed { turns, conflicts: self.conflicts.clone(), lanes_meet: self.lanes_meet })
    }

    /// The limit of warp instructions of a launch under these turns, if it executed `instructions` in the first trial.
    pub(super) fn fuel(&self, turns: Option<Turns>, instructions: u64) -> u64 {
        match turns {
            Some(turns) if turns.are_of_lanes() && !self.lanes_meet => 2 * instructions + MOST_APART,
            _ => u64::MAX,
        }
    }

    /// Turns the conflicts of lanes on which no result depends into remarks.
    pub(super) fn remark(&mut self, verdict: &mut Verdict) {
        let end = match (self.lanes_tried, self.differs_anyway) {
            (true, false) => "; no result depends on their order in the trials",
            (true, true) => {
                "; the results that differ if lanes take turns also differ between schedules of whole warps"
            }
            (false, _) => "; other orders were not tried",
        };
        for remark in self.conflicts.lanes.drain(..).chain(self.conflicts.strong_lanes.drain(..)) {
            verdict.remarks.push(Remark { what: remark.what + end, ..remark });
        }
    }
}

/// Adds remarks; merges those at one instruction.
fn merge(all: &mut Vec<Remark>, more: Vec<Remark>) {
    for found in more {
        let place = |remark: &Remark| (remark.place.line, remark.place.kernel.clone());
        match all.iter_mut().find(|known| place(known) == place(&found)) {
            Some(known) => known.times += found.times,
            None => all.push(found),
        }
    }
}

impl<D: Door> Launches<'_, D> {
    /// Runs directed schedules for the conflicts of the trials, `left` being the memory that the first one left.
    ///
    /// A race between warps on which a result is known to depend needs no other trial.
    pub(super) fn try_conflicts(
        &mut self,
        left: &GlobalMemory,
        verdict: &mut Verdict,
    ) -> Result<(), D::Error> {
        if let Some(trial) = self.recorded.lanes
            && verdict.stopped.is_none()
        {
            self.recorded.lanes_tried = true;
            self.try_turns([Turns::LowestLaneFirst, Turns::HighestLaneFirst], trial, left, verdict)?;
        }
        if let Some(trial) = self.recorded.warps
            && verdict.stopped.is_none()
            && verdict.difference(Cause::Race).is_none()
        {
            self.try_turns([Turns::EarliestWarpFirst, Turns::LatestWarpFirst], trial, left, verdict)?;
        }
        Ok(())
    }

    /// Compares a trial with directed ones that differ from it in nothing else, until a result differs.
    fn try_turns(
        &mut self,
        both: [Turns; 2],
        trial: Trial,
        left: &GlobalMemory,
        verdict: &mut Verdict,
    ) -> Result<(), D::Error> {
        let again;
        let base = if trial == self.plan.first() {
            left
        } else {
            again = self.run(&trial, verdict)?;
            if !again.finished {
                return Ok(());
            }
            &again.left
        };
        for turns in both {
            let directed = Trial { turns: Some(turns), ..trial };
            let mut ended = self.run(&directed, verdict)?;
            if turns.are_of_lanes() && !self.recorded.lanes_meet && is_out_of_fuel(verdict) {
                verdict.stopped = None;
                self.recorded.lanes_meet = true;
                ended = self.run(&directed, verdict)?;
            }
            if self.lanes_decide(turns, &ended, verdict) {
                return Ok(());
            }
            if verdict.stopped.is_some() {
                return Ok(());
            }
            let mut unequal = self.first_difference([base, &ended.left], &mut Sums::default());
            if turns.are_of_lanes() && unequal.is_some() {
                unequal = self.beyond_schedules([base, &ended.left], trial, verdict)?;
                // What another schedule violates is the verdict.
                if verdict.stopped.is_some() {
                    return Ok(());
                }
                self.recorded.differs_anyway |= unequal.is_none();
            }
            let Some(unequal) = unequal else { continue };
            let lanes = &mut self.recorded.conflicts.lanes;
            let races = !turns.are_of_lanes() || !lanes.is_empty();
            if turns.are_of_lanes() {
                let index: Vec<String> = unequal.index.iter().map(ToString::to_string).collect();
                let ([one, two], buffer) = (&unequal.values, &unequal.buffer);
                let then = format!(
                    "; {buffer}[{}] is {one}, and {two} if the lanes take turns there",
                    index.join(",")
                );
                let found = std::mem::take(lanes);
                verdict.add_violations(found.into_iter().map(|remark| race(remark, &then)).collect());
            }
            let cause = if races { Cause::Race } else { Cause::Schedule };
            verdict.add_difference(cause, [trial, directed], unequal);
            break;
        }
        Ok(())
    }

    /// The first difference of two memories in a result that does not differ between schedules of whole warps.
    ///
    /// A warp whose lanes take turns falls behind others, so that a work list, for one, has its entries in another order. That says
    /// nothing of the lanes.
    fn beyond_schedules(
        &mut self,
        [base, turned]: [&GlobalMemory; 2],
        trial: Trial,
        verdict: &mut Verdict,
    ) -> Result<Option<Unequal>, D::Error> {
        let mut steady: Vec<ResultBuffer> = self
            .results
            .iter()
            .filter(|result| result.first_difference([base, turned], &mut Sums::default()).is_some())
            .cloned()
            .collect();
        for seed in (1..).filter(|seed| *seed != trial.seed).take(CONTROLS) {
            if steady.is_empty() {
                break;
            }
            let control = self.run(&Trial { seed, ..trial }, verdict)?;
            if !control.finished {
                return Ok(None);
            }
            steady.retain(|result| {
                result.first_difference([base, &control.left], &mut Sums::default()).is_none()
            });
        }
        Ok(steady.iter().find_map(|result| result.first_difference([base, turned], &mut Sums::default())))
    }

    /// Whether lanes that take turns break a rule, such as reading bytes that another lane has yet to write: that is what their race
    /// does, and no violation of its own.
    fn lanes_decide(&mut self, turns: Turns, ended: &Ended<GlobalMemory>, verdict: &mut Verdict) -> bool {
        let lanes = &mut self.recorded.conflicts.lanes;
        if ended.finished || !turns.are_of_lanes() || lanes.is_empty() {
            return false;
        }
        let Some(stopped) = verdict.stopped.take() else { return false };
        let Stop::Trap(trap) = &stopped.stop else {
            verdict.stopped = Some(stopped);
            return false;
        };
        let then = format!("; if the lanes take turns there, {}: {}", trap.rule.word(), trap.what);
        let found = std::mem::take(lanes);
        verdict.add_violations(found.into_iter().map(|remark| race(remark, &then)).collect());
        true
    }
}

/// Whether the last trial has executed all that it may.
fn is_out_of_fuel(verdict: &Verdict) -> bool {
    let stop = verdict.stopped.as_ref().map(|stopped| &stopped.stop);
    matches!(stop, Some(Stop::Trap(trap)) if trap.rule == Rule::Fuel)
}

/// A conflict of lanes on which a result depends.
fn race(remark: Remark, then: &str) -> Violation {
    let Remark { what, place, other, times } = remark;
    Violation { trap: Trap { rule: Rule::Race, what: what + then, place, other }, times }
}

impl Difference {
    /// Who went first in the second trial, in words, if it is directed.
    pub(super) fn turns(&self) -> Option<&'static str> {
        self.trials[1].turns.map(|turns| match turns {
            Turns::LowestLaneFirst => "if lanes take turns at the race, the lowest first",
            Turns::HighestLaneFirst => "if lanes take turns at the race, the highest first",
            Turns::EarliestWarpFirst => "if warps take turns at the race, the first to arrive first",
            Turns::LatestWarpFirst => "if warps take turns at the race, the last to arrive first",
        })
    }
}
