//! Where the lanes of a warp meet again: behind branches, at aligned instructions, at instructions that name lanes.
//!
//! Every lane makes progress. Fragments that wait to reconverge may hold what the others wait for, so that they go on alone if these
//! make no progress ([`PATIENCE`]), or if nothing else can run.

use super::divergence::Group;
use super::{Fragment, PATIENCE, Stopped, Wait, Warp};
use crate::run::frames;
use crate::run::parties::divergent;
use crate::work;

impl Warp {
    /// Releases fragments that wait only to reconverge; returns whether there were any.
    pub(crate) fn release_company(&mut self) -> bool {
        let mut any = false;
        for fragment in &mut self.lanes.fragments {
            if let Wait::Company(g) = fragment.wait {
                any = true;
                let group = &mut self.lanes.groups[g as usize];
                group.expected &= !fragment.mask;
                group.arrived &= !fragment.mask;
                if !group.returns {
                    fragment.groups.pop();
                }
                fragment.wait = Wait::Nothing;
            }
        }
        any
    }

    /// The lanes that wait at an aligned instruction for the rest of their warp.
    pub(super) fn lanes_at_aligned(&self) -> u32 {
        let waits = |f: &&Fragment| matches!(f.wait, Wait::Converge { aligned: true, .. });
        self.lanes.fragments.iter().filter(waits).fold(0, |mask, f| mask | f.mask)
    }

    /// Resolves fragments that block each other, after a turn with `strong_rows` strong accesses.
    pub(super) fn progress(&mut self, strong_rows: u32) -> Result<(), Box<Stopped>> {
        // Every thread must make progress: fragments that wait to reconverge may hold the lock that the others try to acquire.
        if self.lanes.fragments.iter().any(|f| matches!(f.wait, Wait::Company(_))) {
            self.alone = self.alone.saturating_add(strong_rows);
        } else {
            self.alone = 0;
        }
        let aligned =
            self.lanes.fragments.iter().find(|f| matches!(f.wait, Wait::Converge { aligned: true, .. }));
        if let Some(Fragment { pc, .. }) = aligned
            && self.lanes.fragments.iter().all(|f| matches!(f.wait, Wait::Company(_) | Wait::Converge { .. }))
        {
            let here = self.lanes.fragments.iter().filter(|f| f.pc == *pc).fold(0, |mask, f| mask | f.mask);
            return Err(Stopped::at(divergent(here, self.live), *pc));
        }
        if self.alone > PATIENCE {
            self.alone = 0;
            self.release_company();
        }
        Ok(())
    }

    /// Merges fragments that wait for each other at a row, once all have arrived.
    pub(super) fn converge(&mut self, pc: u32, wanted: u32) {
        let here =
            |f: &Fragment| f.pc == pc && f.mask & wanted != 0 && matches!(f.wait, Wait::Converge { .. });
        let present = self.lanes.fragments.iter().filter(|f| here(f)).fold(0, |mask, f| mask | f.mask);
        if present & wanted & self.live != wanted & self.live {
            return;
        }
        let (mut together, apart): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.lanes.fragments).into_iter().partition(here);
        self.lanes.fragments = apart;
        let Some(mut merged) = together.pop() else { return };
        for other in together {
            let together = (merged.mask, merged.stack.take());
            let same = frames::is_same(&together.1, &other.stack);
            merged.stack = frames::mixed(together, (other.mask, other.stack));
            // Groups common to both are kept; the others no longer expect these lanes.
            let common = merged.groups.iter().zip(&other.groups).take_while(|(a, b)| same && a == b).count();
            for (groups, mask) in [(&merged.groups, merged.mask), (&other.groups, other.mask)] {
                for g in &groups[common..] {
                    self.lanes.groups[*g as usize].expected &= !mask;
                }
            }
            merged.groups.truncate(common);
            merged.mask |= other.mask;
        }
        (merged.wait, merged.apart) = (Wait::Nothing, false);
        self.lanes.fragments.push(merged);
        self.meet();
    }

    /// Merges fragments that waited for lanes that have exited, once the others have arrived.
    pub(super) fn converge_without_exited(&mut self) {
        let waiting = |f: &Fragment| match f.wait {
            Wait::Converge { wanted, .. } => Some((f.pc, wanted)),
            _ => None,
        };
        let waiting: Vec<(u32, u32)> = self.lanes.fragments.iter().filter_map(waiting).collect();
        for (pc, wanted) in waiting {
            self.converge(pc, wanted);
        }
    }

    /// Merges the fragments of every group whose lanes have all arrived.
    pub(super) fn meet(&mut self) {
        // A deep recursion has a group for each call, but few fragments.
        let group = |f: &Fragment| match f.wait {
            Wait::Company(g) => Some(g),
            _ => None,
        };
        let mut waited_for: Vec<u32> = self.lanes.fragments.iter().filter_map(group).collect();
        waited_for.sort_unstable();
        waited_for.dedup();
        for g in waited_for {
            work::count(1);
            let Group { pc, expected, arrived, returns } = self.lanes.groups[g as usize];
            if expected == 0 || expected != arrived {
                continue;
            }
            let waits = Wait::Company(g);
            let Some(first) = self.lanes.fragments.iter().position(|f| f.wait == waits) else { continue };
            let mut i = self.lanes.fragments.len();
            while i > first + 1 {
                i -= 1;
                if self.lanes.fragments[i].wait == waits {
                    let other = self.lanes.fragments.remove(i);
                    self.lanes.fragments[first].mask |= other.mask;
                }
            }
            let merged = &mut self.lanes.fragments[first];
            if !returns {
                merged.groups.pop();
            }
            merged.pc = pc;
            (merged.wait, merged.apart) = (Wait::Nothing, false);
            self.lanes.groups[g as usize].expected = 0;
            self.lanes.free.push(g);
        }
    }
}
