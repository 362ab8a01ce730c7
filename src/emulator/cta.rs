//! What the warps of one CTA share: shared memory, barriers, barrier objects, asynchronous copies.

use std::collections::BTreeMap;

use super::memory::Region;
use super::trap::{Fault, Law};

/// One of the sixteen barriers.
#[derive(Debug, Clone, Default)]
pub(super) struct Barrier {
    /// Threads that arrived.
    pub(super) arrived: u32,
    /// Threads it waits for; 0 when nobody has arrived, `u32::MAX` for all that have not ended.
    pub(super) expected: u32,
    /// Counts completions.
    pub(super) generation: u32,
    /// Votes of `barrier.red`: true votes of this generation, and those of the last.
    pub(super) votes: u32,
    pub(super) result: u32,
    /// Threads that the last generation counted.
    pub(super) voters: u32,
}

/// An mbarrier object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mbarrier {
    /// Arrivals of a phase.
    pub(super) expected: u32,
    /// Arrivals still missing in this phase.
    pub(super) pending: u32,
    /// Change of the expected arrivals from the next phase on (`arrive_drop`).
    pub(super) dropped: u32,
    /// Bytes still missing in this phase; may be negative while copies outrun their `expect_tx`.
    pub(super) tx: i64,
    /// Completed phases.
    pub(super) phase: u64,
}

impl Mbarrier {
    pub(super) fn new(count: u32) -> Self {
        Self { expected: count, pending: count, dropped: 0, tx: 0, phase: 0 }
    }

    /// Completes the phase when nothing is missing.
    pub(super) fn settle(&mut self) -> bool {
        if self.pending != 0 || self.tx != 0 {
            return false;
        }
        self.phase += 1;
        self.expected -= self.dropped;
        self.dropped = 0;
        self.pending = self.expected;
        true
    }
}

/// A copy that has been issued and not yet done.
pub(super) struct Pending {
    /// The warp and the lanes that issued it.
    pub(super) warp: u32,
    pub(super) lane: u32,
    pub(super) kind: PendingKind,
    /// The group of the issuing thread it belongs to, once committed.
    pub(super) group: Option<u64>,
    /// Does the copy, and tells the barrier.
    pub(super) work: Box<dyn FnOnce(&mut Cta, &mut super::machine::World) -> Result<(), Fault> + Send>,
}

/// Which waits a copy answers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingKind {
    /// `cp.async`: `cp.async.wait_group`, `cp.async.mbarrier.arrive`.
    CpAsync,
    /// Bulk copies with `.bulk_group`.
    Bulk,
    /// Bulk copies that complete on an mbarrier.
    Barrier,
}

/// A CTA.
pub(super) struct Cta {
    pub(super) id: [u32; 3],
    pub(super) shared: Region,
    pub(super) barriers: [Barrier; 16],
    /// Barrier objects by place in shared memory.
    pub(super) mbarriers: BTreeMap<usize, Mbarrier>,
    pub(super) pending: Vec<Pending>,
    /// Counts what may let a waiting warp go on.
    pub(super) events: u64,
    /// Threads that have not ended.
    pub(super) threads: u32,
    /// Where dynamic shared memory begins, as a shared address.
    pub(super) dynamic_at: u32,
    /// The group numbers of each thread's `cp.async` and bulk groups: next to be committed.
    pub(super) groups: BTreeMap<(u32, u32, bool), u64>,
    /// The generation that the last arrival at a barrier belonged to.
    pub(super) arrived_in: u32,
    /// The cluster barrier: threads that arrived, completed phases, and the phase each thread arrived in.
    pub(super) cluster: (u32, u64),
    pub(super) cluster_phase: BTreeMap<u32, u64>,
}

impl Cta {
    /// `count` threads have ended: barriers wait for them no longer.
    pub(super) fn leave(&mut self, count: u32) {
        self.threads -= count;
        self.events += 1;
        for id in 0..self.barriers.len() {
            self.settle(id);
        }
        self.settle_cluster();
    }

    /// Threads of a warp arrive at the cluster barrier.
    pub(super) fn cluster_arrive(&mut self, warp: u32, mask: u32) {
        for lane in super::machine::lanes(mask) {
            self.cluster_phase.insert(warp * 32 + lane as u32, self.cluster.1);
        }
        self.cluster.0 += mask.count_ones();
        self.settle_cluster();
    }

    /// Whether the phase in which these threads arrived is complete.
    pub(super) fn cluster_passed(&self, warp: u32, mask: u32) -> Result<bool, Fault> {
        for lane in super::machine::lanes(mask) {
            match self.cluster_phase.get(&(warp * 32 + lane as u32)) {
                Some(phase) if *phase < self.cluster.1 => {}
                Some(_) => return Ok(false),
                None => return Err(Fault::new(Law::Barrier, "a cluster wait without an arrive").at(lane)),
            }
        }
        Ok(true)
    }

    fn settle_cluster(&mut self) {
        if self.cluster.0 > 0 && self.cluster.0 >= self.threads {
            self.cluster = (0, self.cluster.1 + 1);
            self.events += 1;
        }
    }

    /// Completes a barrier that everybody has reached.
    pub(super) fn settle(&mut self, id: usize) {
        let threads = self.threads;
        let barrier = &mut self.barriers[id];
        let wanted = if barrier.expected == u32::MAX { threads } else { barrier.expected };
        if barrier.arrived > 0 && barrier.arrived >= wanted {
            barrier.generation += 1;
            barrier.voters = barrier.arrived;
            barrier.arrived = 0;
            barrier.expected = 0;
            barrier.result = std::mem::take(&mut barrier.votes);
            self.events += 1;
        }
    }

    /// Notes an access to shared memory. Barrier objects are opaque: only their instructions touch them.
    #[inline]
    pub(super) fn note(&mut self, at: usize, len: usize, write: bool, _warp: u32) -> Result<(), Fault> {
        if !self.mbarriers.is_empty() {
            self.check_object(at, len, write)?;
        }
        Ok(())
    }

    fn check_object(&self, at: usize, len: usize, write: bool) -> Result<(), Fault> {
        let near = self.mbarriers.range(..at + len).next_back();
        match near {
            Some((place, _)) if place + 8 > at => Err(Fault::new(
                Law::Barrier,
                format!(
                    "{} of {len} bytes that belong to the mbarrier object at {:#x}",
                    if write { "a write" } else { "a read" },
                    *place as u64 + u64::from(super::memory::SHARED_START)
                ),
            )),
            _ => Ok(()),
        }
    }

    /// The object at a place in shared memory.
    pub(super) fn mbarrier(&mut self, at: usize) -> Result<&mut Mbarrier, Fault> {
        self.mbarriers.get_mut(&at).ok_or_else(|| {
            let address = at as u64 + u64::from(super::memory::SHARED_START);
            Fault::new(Law::Barrier, format!("no mbarrier was initialised at shared address {address:#x}"))
        })
    }

    /// Tells a barrier object that `bytes` have been written.
    pub(super) fn complete_tx(&mut self, at: usize, bytes: u32) -> Result<(), Fault> {
        let barrier = self.mbarrier(at)?;
        barrier.tx -= i64::from(bytes);
        barrier.settle();
        self.events += 1;
        Ok(())
    }

    /// Does the pending copies that `which` chooses, oldest first.
    pub(super) fn complete(
        &mut self,
        world: &mut super::machine::World,
        mut which: impl FnMut(&Pending) -> bool,
    ) -> Result<(), Fault> {
        let mut i = 0;
        while i < self.pending.len() {
            if which(&self.pending[i]) {
                let pending = self.pending.remove(i);
                (pending.work)(self, world)?;
                self.events += 1;
            } else {
                i += 1;
            }
        }
        Ok(())
    }
}
