//! Branches at which lanes part for a short while: both sides run in one turn, and fragments are made only if one of them does more than that.
//!
//! A branch around a few rows would otherwise cost two fragments, a group and two more turns. Under the schedule in turn nothing is lost:
//! the lanes that fall through run first, up to the meeting point, then the others, as fragments do. Whatever ends the turn or does more than
//! to go on to another row (a barrier, a call, an exit, a fifth branch within others) first [settles](Divergence::settle) what is open: it
//! makes the fragments and groups that [`Divergence::split`] and [`Divergence::arrive`] would have made, in the same states, but for lanes that
//! left one loop in several iterations: these become one fragment of one group. Rows only see the mask of the lanes that run. A branch's paths
//! meet at its post-dominator, so that lanes leave a deferred branch by its meeting point, or by something that settles it.
//!
//! Lanes that have made strong accesses in the turn part and meet as fragments: what other warps wait for must not be delayed by turns that
//! are longer.

use super::Wait;
use super::divergence::{Divergence, Group};
use crate::front::flow::NEVER;

/// Branches that are deferred within each other; another one settles them.
const MOST: usize = 4;

/// A branch whose lanes have parted.
#[derive(Debug, Clone, Copy, Default)]
struct Parted {
    /// Its lanes: those that run, and the others.
    all: u32,
    /// The row at which the others stand.
    row: u32,
    /// The row at which all of them meet.
    meeting: u32,
    /// Whether the others have reached it.
    wait: bool,
    /// The branches to this meeting point that were one after the other: a loop has one for each iteration in which lanes leave it.
    levels: u32,
}

/// The deferred branches of a turn.
#[derive(Debug)]
pub(super) struct Deferred {
    /// The innermost last; those up to `count`.
    parted: [Parted; MOST],
    count: usize,
    /// The meeting point of the innermost; [`NEVER`] if there is none.
    pub(super) meeting: u32,
    /// Rows at meeting points that fragments would have executed beside those that the turn has.
    arrivals: u64,
}

impl Deferred {
    pub(super) fn new() -> Self {
        Self { parted: [Parted::default(); MOST], count: 0, meeting: NEVER, arrivals: 0 }
    }

    /// Some of the running lanes take a branch at row `pc`. Returns the row at which the running lanes go on, after they have become those
    /// of one side; `None`, and nothing done, if the branch cannot be deferred.
    #[inline]
    pub(super) fn part(
        &mut self,
        running: &mut u32,
        (pc, meeting): (u32, u32),
        (taken, target): (u32, u32),
    ) -> Option<u32> {
        if meeting == NEVER {
            return None;
        }
        let next = pc + 1;
        // Those that stand at the meeting point already have nothing to run.
        let (leave, stay) = if next == meeting { (true, target) } else { (target == meeting, next) };
        let stays = if next == meeting { taken } else { *running & !taken };
        if let Some(last) = self.parted[..self.count].last_mut()
            && leave
            && last.wait
            && last.meeting == meeting
        {
            last.levels += 1;
        } else {
            let new = Parted { all: *running, row: target, meeting, wait: leave, levels: 1 };
            *self.parted.get_mut(self.count)? = new;
            self.count += 1;
            self.meeting = meeting;
        }
        self.arrivals += u64::from(leave);
        *running = stays;
        Some(stay)
    }

    /// The running lanes have executed the row at the meeting point of the innermost branch. Returns the row at which the running lanes go on: the
    /// others, or else all lanes of the branch.
    #[inline]
    pub(super) fn arrive(&mut self, running: &mut u32) -> u32 {
        let Some(last) = self.parted[..self.count].last_mut() else { return self.meeting };
        let meeting = last.meeting;
        if !last.wait {
            *running = last.all & !*running;
            last.wait = true;
            return std::mem::replace(&mut last.row, meeting);
        }
        self.arrivals += u64::from(last.levels) - 1;
        *running = last.all;
        self.count -= 1;
        self.meeting = self.parted[..self.count].last().map_or(NEVER, |outer| outer.meeting);
        meeting
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The rows at meeting points that were not counted since the last call.
    #[inline]
    pub(super) fn take_arrivals(&mut self) -> u64 {
        std::mem::take(&mut self.arrivals)
    }
}

impl Divergence {
    /// Makes the fragments of all deferred branches. The running lanes stay the fragment `at`.
    #[cold]
    pub(super) fn settle(&mut self, at: usize, running: u32) {
        let count = std::mem::take(&mut self.deferred.count);
        self.deferred.meeting = NEVER;
        for n in 0..count {
            let Parted { all, row, meeting, wait, levels } = self.deferred.parted[n];
            let inner = self.deferred.parted[n + 1..count].first().map_or(running, |inner| inner.all);
            let arrived = if wait { all & !inner } else { 0 };
            let group = self.open(Group { pc: meeting, expected: all, arrived, returns: false });
            self.fragments[at].groups.push(group);
            self.part(at, inner, if wait { meeting } else { row });
            if wait && let Some(other) = self.fragments.last_mut() {
                other.wait = Wait::Company(group);
            }
            // The other branches' lanes arrive with those of this group.
            self.deferred.arrivals += u64::from(levels) - 1;
        }
    }
}
