//! Replays of a trial: what only a second run of the same launches can tell, at no cost to the first.

use std::sync::Arc;

use super::launches::{Door, Launches};
use super::plan::Trial;
use super::verdict::{Stopped, Verdict};
use crate::api::observe::Violation;
use crate::api::trap::{OtherAccess, Stop, Trap};
use crate::run::watchpoint::Watchpoints;

/// The number of races of which a replay locates the other accesses.
const MOST_RACES: usize = 64;

/// The violation that stopped a trial.
fn trap_of(stopped: &mut Option<Stopped>) -> Option<&mut Trap> {
    match &mut stopped.as_mut()?.stop {
        Stop::Trap(trap) => Some(trap),
        _ => None,
    }
}

/// Whether the replay must find the instruction of the other access.
fn lacks_other(trap: &Trap) -> Option<&OtherAccess> {
    trap.other.as_deref().filter(|other| other.place.is_none())
}

/// Takes the other access of a violation from the replay, where it is the same violation.
fn complete(trap: &mut Trap, replayed: &[Violation]) {
    let same = |found: &&Violation| {
        let found = &found.trap;
        (found.rule, &found.place) == (trap.rule, &trap.place) && found.what == trap.what
    };
    if lacks_other(trap).is_some()
        && let Some(found) = replayed.iter().find(same)
    {
        trap.other.clone_from(&found.trap.other);
    }
}

impl<D: Door> Launches<'_, D> {
    /// Runs a trial again to find the other accesses of the races that it has shown, if the memory before it is kept.
    pub(super) fn locate_other_accesses(
        &mut self,
        trial: &Trial,
        verdict: &mut Verdict,
    ) -> Result<(), D::Error> {
        let Some(before) = &self.before else { return Ok(()) };
        let listed = verdict.violations.iter().map(|violation| &violation.trap);
        let stopped = verdict.stopped.as_ref().and_then(|stopped| match &stopped.stop {
            Stop::Trap(trap) => Some(&**trap),
            _ => None,
        });
        let raced: Vec<OtherAccess> =
            stopped.into_iter().chain(listed).filter_map(lacks_other).take(MOST_RACES).cloned().collect();
        if raced.is_empty() {
            return Ok(());
        }
        let mut memory = before.clone();
        let mut again = Verdict::new(self.plan);
        let watchpoints = Arc::new(Watchpoints::of_races(raced));
        let ended = self.run_steps(trial, &watchpoints, &mut memory, &mut again)?;
        let mut replayed = again.violations;
        if let Some(Stop::Trap(trap)) = ended {
            replayed.push(Violation { trap: *trap, times: 1 });
        }
        let listed = verdict.violations.iter_mut().map(|violation| &mut violation.trap);
        trap_of(&mut verdict.stopped).into_iter().chain(listed).for_each(|trap| complete(trap, &replayed));
        Ok(())
    }

    /// Runs all launches of a trial, which watch memory, and returns what stopped them.
    fn run_steps(
        &mut self,
        trial: &Trial,
        watchpoints: &Arc<Watchpoints>,
        memory: &mut crate::memory::global::GlobalMemory,
        again: &mut Verdict,
    ) -> Result<Option<Stop>, D::Error> {
        self.watchpoints = Some(Arc::clone(watchpoints));
        let ended = self.launch_all((trial, false), memory, again);
        self.watchpoints = None;
        Ok(ended?.map(|(_, stop)| stop))
    }
}
