//! Asynchronous copies of global memory (PTX ISA 9.7.9.27): a copy is ordered after what its warp did before it, and before
//! nothing except what follows a wait for its completion.
//!
//! In the shadow, a copy is a [`Who`] with its number instead of a clock. A wait is an event of a warp: every warp that knows of a wait that
//! completes the copy knows what the copy did. `cp.async.bulk.wait_group.read` is no such wait.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::global::{COPIED, GlobalAccess, GlobalRaces, Who};
use super::{Races, clock::WARPS};
use crate::api::trap::Fault;
use crate::copies::pending::PendingKind;
use crate::run::stream::Stream;

/// Instead of a clock: the number of a copy. No warp's clock is as high.
const NUMBER: u32 = 1 << 31;

/// Waits for the same copies, the first one of each warp.
#[derive(Debug, Default)]
struct Wait {
    by: Vec<Who>,
    /// The wait for the next phase of the same barrier object, which comes later.
    next: Option<u32>,
}

/// Bytes that a store in flight will write, by address.
type Stored = Vec<(u64, Vec<u8>)>;

/// The copies of a launch.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    issued: u32,
    /// Pairs of a copy and a wait that completes it.
    done: BTreeSet<(u32, u32)>,
    waits: Vec<Wait>,
    stores: HashMap<u32, Stored>,
}

impl Copies {
    /// Returns the number of a copy that is being issued.
    pub(crate) fn begin(&mut self) -> u32 {
        self.issued = (self.issued + 1).max(1) & !NUMBER;
        self.issued
    }

    /// Records what a store will write when it completes.
    pub(crate) fn carries(&mut self, number: u32, stored: Stored) {
        self.stores.insert(number, stored);
    }

    /// A store has written its bytes.
    pub(crate) fn landed(&mut self, number: u32) {
        self.stores.remove(&number);
    }

    /// The byte that a copy in flight will write.
    pub(super) fn carried(&self, copy: Who, address: u64) -> Option<u8> {
        if !copy.is_copy() {
            return None;
        }
        let stored = self.stores.get(&(copy.clock() & !NUMBER))?;
        stored.iter().find_map(|(first, bytes)| bytes.get(address.checked_sub(*first)? as usize).copied())
    }

    fn wait(&mut self) -> u32 {
        self.waits.push(Wait::default());
        self.waits.len() as u32 - 1
    }

    fn completes(&mut self, copies: impl IntoIterator<Item = u32>, wait: u32) {
        self.done.extend(copies.into_iter().map(|copy| (copy, wait)));
    }

    fn waited(&mut self, wait: u32, who: Who) {
        if let Some(wait) = self.waits.get_mut(wait as usize)
            && !wait.by.iter().any(|by| (by.cta(), by.warp()) == (who.cta(), who.warp()))
        {
            wait.by.push(who);
        }
    }

    /// Whether a warp knows that a copy has completed.
    pub(super) fn known(&self, copy: Who, cta: &Races, warp: u32) -> bool {
        let number = copy.clock() & !NUMBER;
        let waits = self.done.range((number, 0)..=(number, u32::MAX));
        waits.into_iter().any(|(_, first)| {
            let mut wait = self.waits.get(*first as usize);
            while let Some(now) = wait {
                if now.by.iter().any(|who| cta.knows(*who, warp)) {
                    return true;
                }
                wait = now.next.and_then(|next| self.waits.get(next as usize));
            }
            false
        })
    }
}

/// A copy that belongs to a group, or will.
#[derive(Debug, Clone, Copy)]
struct Issue {
    number: u32,
    lanes: u32,
    group: u64,
}

/// `cp.async` of a warp, or its bulk copies.
#[derive(Debug, Default)]
struct Queue {
    /// Not yet in a group.
    open: Vec<Issue>,
    groups: Vec<Issue>,
}

/// A phase of a barrier object in which copies completed.
#[derive(Debug, Clone, Copy)]
struct Phase {
    at: usize,
    phase: u64,
    wait: u32,
}

/// The copies that a CTA has to wait for.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    queues: BTreeMap<(u32, bool), Queue>,
    /// The last two of each barrier object.
    phases: Vec<Phase>,
}

/// `cp.async` of a warp that are remembered after their arrival at a barrier object.
const KEPT: usize = 256;

impl Races {
    /// A copy that a warp issues.
    pub(crate) fn copier(&self, warp: u32, number: u32) -> Who {
        let [cta, _, warp] = self.who(warp).0;
        Who([cta, NUMBER | number, warp | COPIED])
    }

    /// A copy that completes with groups.
    pub(crate) fn issued(&mut self, number: u32, warp: u32, lanes: u32, kind: PendingKind) {
        if number != 0 && kind != PendingKind::Barrier {
            let queue = self.awaited.queues.entry((warp, kind == PendingKind::Bulk)).or_default();
            queue.open.push(Issue { number, lanes, group: 0 });
        }
    }

    /// Lanes commit their copies to the groups of these numbers.
    pub(crate) fn committed(&mut self, warp: u32, lanes: u32, kind: PendingKind, groups: &[u64; WARPS]) {
        let Some(queue) = self.awaited.queues.get_mut(&(warp, kind == PendingKind::Bulk)) else { return };
        for issue in &mut queue.open {
            let mut left = issue.lanes & lanes;
            issue.lanes &= !lanes;
            while left != 0 {
                let group = groups[left.trailing_zeros() as usize % WARPS];
                let same = chosen(left, |lane| groups[lane] == group);
                left &= !same;
                queue.groups.push(Issue { lanes: same, group, ..*issue });
            }
        }
        queue.open.retain(|issue| issue.lanes != 0);
    }

    /// Lanes that committed this many groups have waited until at most `n` of them are in flight.
    pub(crate) fn waited_for_groups(
        &mut self,
        (warp, lanes): (u32, u32),
        kind: PendingKind,
        n: u64,
        groups: &[u64; WARPS],
        world: &mut GlobalRaces,
    ) {
        let who = self.who(warp);
        let Some(queue) = self.awaited.queues.get_mut(&(warp, kind == PendingKind::Bulk)) else { return };
        let mut wait = None;
        queue.groups.retain_mut(|issue| {
            let due = chosen(issue.lanes & lanes, |lane| issue.group + n < groups[lane]);
            if due != 0 {
                let wait = *wait.get_or_insert_with(|| world.copies.wait());
                world.copies.completes([issue.number], wait);
            }
            issue.lanes &= !due;
            issue.lanes != 0
        });
        if let Some(wait) = wait {
            world.copies.waited(wait, who);
        }
    }

    /// The `cp.async` that an arrival of lanes waits for.
    pub(crate) fn arrives_behind(&mut self, warp: u32, lanes: u32, world: &mut GlobalRaces) -> Vec<u32> {
        let who = self.who(warp);
        let Some(queue) = self.awaited.queues.get_mut(&(warp, false)) else { return Vec::new() };
        let all = queue.open.iter().chain(&queue.groups).filter(|issue| issue.lanes & lanes != 0);
        let numbers = all.map(|issue| issue.number).collect();
        // The oldest count as done: warps that wait only for the arrivals never drain the queue.
        for list in [&mut queue.open, &mut queue.groups] {
            if list.len() > KEPT {
                let wait = world.copies.wait();
                world.copies.completes(list.drain(..KEPT / 2).map(|issue| issue.number), wait);
                world.copies.waited(wait, who);
            }
        }
        numbers
    }

    /// Copies complete in a phase of a barrier object.
    pub(crate) fn completed_at(&mut self, at: usize, phase: u64, copies: &[u32], world: &mut GlobalRaces) {
        let phases = &mut self.awaited.phases;
        // A barrier object that was initialised again starts over.
        phases.retain(|known| known.at != at || known.phase <= phase);
        let last = phases.iter().filter(|known| known.at == at).max_by_key(|known| known.phase).copied();
        let wait = match last {
            Some(last) if last.phase == phase => last.wait,
            _ => {
                let wait = world.copies.wait();
                if let Some(last) = last.and_then(|last| world.copies.waits.get_mut(last.wait as usize)) {
                    last.next = Some(wait);
                }
                phases.retain(|known| known.at != at || last.is_some_and(|last| last.phase == known.phase));
                phases.push(Phase { at, phase, wait });
                wait
            }
        };
        world.copies.completes(copies.iter().copied(), wait);
    }

    /// A warp has seen a barrier object in this phase: the earlier ones are complete.
    pub(crate) fn passed(&self, at: usize, phase: u64, warp: u32, world: &mut GlobalRaces) {
        let phases = self.awaited.phases.iter().filter(|known| known.at == at && known.phase < phase);
        if let Some(last) = phases.max_by_key(|known| known.phase) {
            world.copies.waited(last.wait, self.who(warp));
        }
    }
}

/// The lanes of a mask for which `which` is true.
fn chosen(lanes: u32, which: impl Fn(usize) -> bool) -> u32 {
    crate::run::machine::lanes(lanes).filter(|lane| which(*lane)).fold(0, |mask, lane| mask | 1 << lane)
}

impl GlobalRaces {
    /// A copy reads or writes bytes.
    pub(crate) fn copy(
        &mut self,
        cta: &Races,
        copy: Who,
        access: GlobalAccess,
        stream: &Stream,
    ) -> Result<(), Fault> {
        self.note(cta, copy, access, stream)
    }
}
