//! The diverged lanes of a warp: fragments that run apart, and the groups with which they reconverge.

use super::deferred::Deferred;
use super::{Fragment, Wait};
use crate::front::flow::NEVER;
use crate::work;

/// Lanes that diverged at one branch; unused if `expected` is 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    /// Row of the reconvergence point.
    pub(super) pc: u32,
    /// Lanes still expected or arrived; lanes that exit are removed.
    pub(super) expected: u32,
    pub(super) arrived: u32,
    /// Whether its lanes return from a call, rather than from a branch of their function.
    pub(super) returns: bool,
}

/// What a fragment does at a row that is a meeting point.
pub(super) enum Arrival {
    /// The lanes that it could wait for meet elsewhere.
    Elsewhere,
    /// It waits for this group.
    Waits(u32),
    /// It goes on without its group, which no longer expects it.
    Leaves,
}

/// The fragments of a warp and the groups of their branches and calls.
///
/// The masks of the fragments are disjoint, and together they are the live lanes of the warp. A fragment's `groups` name the groups
/// in which it is expected, innermost last; a group is over, and may be used again, once it expects no lane.
pub(crate) struct Divergence {
    pub(crate) fragments: Vec<Fragment>,
    pub(super) groups: Vec<Group>,
    /// Groups that may be unused.
    pub(super) free: Vec<u32>,
    /// Branches of the current turn whose fragments are not made yet; none between turns.
    pub(super) deferred: Deferred,
}

impl Divergence {
    /// One fragment, whose lanes have not diverged.
    pub(super) fn new(first: Fragment) -> Self {
        Self { fragments: vec![first], groups: Vec::new(), free: Vec::new(), deferred: Deferred::new() }
    }

    /// As [`Divergence::new`], in the memory that this one has.
    pub(super) fn again(&mut self, first: Fragment) {
        self.fragments.clear();
        self.fragments.push(first);
        self.groups.clear();
        self.free.clear();
    }

    /// The row at which some of these lanes stand.
    pub(super) fn row_of(&self, lanes: u32) -> u32 {
        self.fragments.iter().find(|f| f.mask & lanes != 0).map_or(u32::MAX, |f| f.pc)
    }

    /// Leaves some lanes in a fragment; the others become a fragment of their own at a row.
    pub(super) fn part(&mut self, at: usize, lanes: u32, pc: u32) {
        let this = &mut self.fragments[at];
        let mask = this.mask & !lanes;
        this.mask = lanes;
        if mask != 0 {
            let other = Fragment { pc, mask, wait: Wait::Nothing, ..this.clone() };
            self.fragments.push(other);
        }
    }

    /// Lanes of a fragment take a branch, the rest falls through; they reconverge at a row, unless that is [`NEVER`].
    pub(super) fn split(&mut self, at: usize, taken: u32, target: u32, meeting: u32) {
        let mask = self.fragments[at].mask;
        if meeting != NEVER {
            let group = self.open(Group { pc: meeting, expected: mask, arrived: 0, returns: false });
            self.fragments[at].groups.push(group);
        }
        self.part(at, mask & !taken, target);
    }

    /// Lanes of a fragment exit: nobody waits for them any longer.
    pub(super) fn exit(&mut self, at: usize, lanes: u32) {
        for group in &mut self.groups {
            group.expected &= !lanes;
            group.arrived &= !lanes;
        }
        self.fragments[at].mask &= !lanes;
    }

    /// Notes that a fragment has reached the meeting point of its innermost group, if that is this row.
    pub(super) fn arrive(&mut self, at: usize, pc: u32) -> Arrival {
        let this = &mut self.fragments[at];
        let Some(innermost) = this.groups.last().copied() else { return Arrival::Elsewhere };
        let group = &mut self.groups[innermost as usize];
        if group.pc != pc {
            return Arrival::Elsewhere;
        }
        if this.apart {
            this.groups.pop();
            group.expected &= !this.mask;
            return Arrival::Leaves;
        }
        group.arrived |= this.mask;
        Arrival::Waits(innermost)
    }

    /// Adds a group, and returns its number. A deep recursion has one in use for each call, so all are searched for unused ones only
    /// when their number has doubled.
    pub(super) fn open(&mut self, group: Group) -> u32 {
        let Self { groups, free, .. } = self;
        let is_free = |groups: &[Group], g: &u32| groups[*g as usize].expected == 0;
        work::count(1 + free.len() as u64);
        free.retain(|g| is_free(groups, g));
        if free.is_empty() && (groups.len() < 8 || groups.len().is_power_of_two()) {
            work::count(groups.len() as u64);
            free.extend((0..groups.len() as u32).filter(|g| is_free(groups, g)));
        }
        match free.pop() {
            Some(g) => {
                groups[g as usize] = group;
                g
            }
            None => {
                groups.push(group);
                u32::try_from(groups.len() - 1).unwrap_or(NEVER)
            }
        }
    }
}
