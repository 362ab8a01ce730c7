//! State shared by the warps of a CTA: shared memory, barriers, barrier objects, asynchronous copies.

use std::collections::BTreeMap;

use crate::api::trap::{Fault, Rule};
use crate::copies::pending::{Pending, shared_address};
use crate::copies::tensor_map::TensorMap;
use crate::memory::global::Region;
use crate::rules::drafts::Drafts;
use crate::rules::guard::{Guarded, Proxy};
use crate::rules::races::Races;
use crate::run::cluster::Member;

/// One of the sixteen barriers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Barrier {
    /// Threads that have arrived.
    pub(crate) arrived: u32,
    /// Threads that it waits for; 0 if none has arrived, `u32::MAX` for all threads that have not exited.
    pub(crate) expected: u32,
    /// Number of completions.
    pub(crate) generation: u32,
    /// Votes of `barrier.red`: true votes in this generation, and in the last one.
    pub(crate) votes: u32,
    pub(crate) result: u32,
    /// Threads counted in the last generation.
    pub(crate) voters: u32,
}

/// Bytes of an mbarrier object.
pub(crate) const OBJECT_BYTES: usize = 8;

/// An mbarrier object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mbarrier {
    /// Arrivals per phase.
    pub(crate) expected: u32,
    /// Arrivals still missing in this phase.
    pub(crate) pending: u32,
    /// Reduction of the expected arrivals that takes effect in the next phase (`arrive_drop`).
    pub(crate) dropped: u32,
    /// Bytes missing in this phase; negative while copies complete ahead of their `expect_tx`.
    pub(crate) tx: i64,
    /// Completed phases.
    pub(crate) phase: u64,
    /// The warp that initialised it, and its clock at that time; 0 if races are not checked.
    maker: (u32, u32),
}

impl Mbarrier {
    /// Maximum of the count and of the tx-count.
    pub(crate) const MOST: u32 = (1 << 20) - 1;

    pub(crate) fn new(count: u32, maker: (u32, u32)) -> Self {
        Self { expected: count, pending: count, dropped: 0, tx: 0, phase: 0, maker }
    }

    /// Adds one expected arrival to this phase.
    pub(crate) fn add_pending(&mut self) -> Result<(), Fault> {
        if self.pending >= Self::MOST {
            return Err(Fault::new(Rule::Barrier, "the pending count of an mbarrier exceeds its range"));
        }
        self.pending += 1;
        Ok(())
    }

    /// Completes the phase if nothing is missing.
    pub(crate) fn settle(&mut self) -> bool {
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

/// A tensor map in global memory, as acquired by a warp for the tensormap proxy.
#[derive(Debug, Clone)]
pub(crate) struct Acquired {
    pub(crate) map: TensorMap,
    /// The warp's clock at the acquire.
    pub(crate) clock: u32,
    /// The reason why the acquire does not make the map visible, if so.
    pub(crate) lacks: Option<String>,
}

/// The state of a CTA.
pub(crate) struct Cta {
    pub(crate) id: [u32; 3],
    /// Index of its grid in the stream, and whether it has released dependents.
    pub(crate) grid: usize,
    pub(crate) released: bool,
    /// Whether it has observed that no CTA is left to cancel.
    pub(crate) refused: bool,
    pub(crate) shared: Region,
    /// End of static and dynamic shared memory in `shared`. Reserved memory may follow; in the shared window it precedes them.
    pub(crate) shared_end: usize,
    pub(crate) barriers: [Barrier; 16],
    /// Barrier objects by offset in shared memory.
    pub(crate) mbarriers: BTreeMap<usize, Mbarrier>,
    /// Barrier objects not yet visible to the async proxy: the thread that initialised them has not fenced since.
    pub(crate) unseen: BTreeMap<usize, u32>,
    /// Pending asynchronous copies, oldest first.
    pub(crate) pending: Vec<Pending>,
    /// Bytes that belong to pending copies or to barrier objects.
    pub(crate) guarded: Guarded,
    /// Writes that no proxy fence has followed; tracked if the kernel's copies use the async proxy.
    pub(crate) proxy: Option<Proxy>,
    /// Stores of lanes since they last synchronised; tracked if the kernel modifies tensor maps.
    pub(crate) drafts: Option<Box<Drafts>>,
    /// Tensor maps in global memory, as last acquired for the tensormap proxy, by address and warp.
    pub(crate) acquired: BTreeMap<(u64, u32), Acquired>,
    /// The barrier object and phase that each thread was last seen waiting for.
    pub(crate) awaited: BTreeMap<u32, (usize, u64)>,
    /// The race detector, if enabled.
    pub(crate) races: Option<Box<Races>>,
    /// Counts events that a waiting warp may depend on.
    pub(crate) events: u64,
    /// All its threads.
    pub(crate) size: u32,
    /// Threads that have not exited.
    pub(crate) threads: u32,
    /// Start of dynamic shared memory, as a shared address.
    pub(crate) dynamic_at: u32,
    /// The gap between the static variables and dynamic shared memory.
    pub(crate) gap: std::ops::Range<usize>,
    /// Groups committed per lane, by warp, of `cp.async` and (`true`) of bulk copies.
    pub(crate) commits: BTreeMap<(u32, bool), [u64; 32]>,
    /// The barrier generation of the last arrival.
    pub(crate) arrived_in: u32,
    /// Its position in its cluster.
    pub(crate) member: Member,
}

impl Cta {
    /// Removes `count` exited threads from all barriers; returns whether the cluster's barrier completes.
    pub(crate) fn leave(&mut self, count: u32) -> bool {
        self.threads -= count;
        self.events += 1;
        for id in 0..self.barriers.len() {
            if self.barriers[id].arrived > 0 {
                self.settle(id);
            }
        }
        self.member.leave(count)
    }

    /// Completes a barrier that all expected threads have reached.
    pub(crate) fn settle(&mut self, id: usize) {
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
            if let Some(races) = &mut self.races {
                races.complete(id);
            }
        }
    }

    /// Records an access to shared memory. Barrier objects are opaque, and bytes of a pending copy must not be accessed.
    #[inline]
    pub(crate) fn note(&mut self, at: usize, len: usize, write: bool, warp: u32) -> Result<(), Fault> {
        if self.guarded.hit(at, len, write) {
            let races = self.races.as_ref();
            self.touched_unless(at, len, write, |p| races.is_none_or(|r| r.meets(p.foreign)))?;
        }
        match &mut self.races {
            Some(races) => races.shared(at, len, write, warp),
            None => Ok(()),
        }
    }

    /// The missing step, if any, before a copy of this warp may use a tensor map that was written in this launch.
    pub(crate) fn map_lacks(&self, address: u64, warp: u32, map: &TensorMap) -> Option<&str> {
        let races = self.races.as_ref()?;
        let known = |(key, acquired): &(&(u64, u32), &Acquired)| {
            acquired.map == *map && races.knows_warp(key.1, acquired.clock, warp)
        };
        let acquired = self.acquired.range((address, 0)..=(address, u32::MAX)).filter(known);
        let mut lacks = acquired.map(|(_, acquired)| acquired.lacks.as_deref());
        let first = lacks.next();
        match first {
            Some(None) => None,
            None => Some(
                "no thread has acquired it since (`fence.proxy.tensormap::generic.acquire`) before this copy",
            ),
            Some(why) => {
                if lacks.any(|l| l.is_none()) {
                    None
                } else {
                    why
                }
            }
        }
    }

    /// Lanes of a warp synchronise or acquire: each sees what the others stored.
    #[inline]
    pub(crate) fn meet(&mut self, warp: u32, lanes: u32) {
        if let Some(races) = &mut self.races {
            races.lane_log(warp).meet(lanes);
        }
        self.meet_in_drafts(warp, lanes);
    }

    /// Lanes of a warp fence. If the fence acquires, they may have observed a release before.
    pub(crate) fn meet_by_fence(&mut self, warp: u32, acquires: bool) {
        if let Some(races) = &mut self.races {
            races.lane_log(warp).fence();
        }
        if acquires {
            self.meet_in_drafts(warp, !0);
        }
    }

    #[inline]
    fn meet_in_drafts(&mut self, warp: u32, lanes: u32) {
        if let Some(drafts) = &mut self.drafts {
            drafts.meet(warp, lanes);
        }
    }

    /// Records a write by a thread through the generic proxy.
    #[inline]
    pub(crate) fn wrote(&mut self, at: usize, len: usize, thread: u32) {
        if let Some(proxy) = &mut self.proxy {
            proxy.wrote(at, len, thread);
        }
    }

    /// Initialises a barrier object.
    pub(crate) fn init_barrier(&mut self, at: usize, count: u32, thread: u32) -> Result<(), Fault> {
        let address = shared_address(at);
        if self.mbarriers.contains_key(&at) {
            let what = format!("the mbarrier at {address:#x} is initialised again without `mbarrier.inval`");
            return Err(Fault::new(Rule::Barrier, what));
        }
        if count == 0 || count > Mbarrier::MOST {
            let what = format!("an mbarrier count of {count}; the count must be 1 to {}", Mbarrier::MOST);
            return Err(Fault::new(Rule::Barrier, what));
        }
        self.note(at, OBJECT_BYTES, true, thread / 32)?;
        self.guarded.watch(at, OBJECT_BYTES, self.shared.len());
        self.unseen.insert(at, thread);
        let warp = thread / 32;
        let clock = self.races.as_ref().map_or(0, |races| races.clock(warp));
        self.mbarriers.insert(at, Mbarrier::new(count, (warp, clock)));
        self.events += 1;
        Ok(())
    }

    /// Invalidates a barrier object; its bytes become unwritten.
    pub(crate) fn inval_barrier(&mut self, at: usize, warp: u32) -> Result<(), Fault> {
        self.mbarrier(at)?;
        self.mbarriers.remove(&at);
        self.unseen.remove(&at);
        self.guarded.leave(at, OBJECT_BYTES);
        self.shared.unmark(at, OBJECT_BYTES);
        self.events += 1;
        self.note(at, OBJECT_BYTES, true, warp)
    }

    /// The warp that initialised the barrier object, and its clock at that time.
    pub(crate) fn maker(&self, at: usize) -> Option<(u32, u32)> {
        self.mbarriers.get(&at).map(|barrier| barrier.maker)
    }

    /// The warp that initialised the barrier object, if that is not ordered before this warp's next access.
    fn made_elsewhere(&self, at: usize, warp: u32) -> Option<u32> {
        let (maker, clock) = self.maker(at)?;
        let ordered = self.races.as_ref().is_none_or(|races| {
            races.knows_warp(maker, clock, warp)
                // `fence.mbarrier_init` before a cluster barrier, even a `.relaxed` one.
                || !self.unseen.contains_key(&at) && races.has_met_here(maker, clock)
        });
        (!ordered).then_some(maker)
    }

    /// The fault of a warp's use of a barrier object whose `mbarrier.init` is not ordered before it, and whether the whole CTA has
    /// met at a cluster barrier in between (which orders nothing if `.relaxed`).
    pub(crate) fn unordered(&self, at: usize, warp: u32) -> Option<(Fault, bool)> {
        let maker = self.made_elsewhere(at, warp)?;
        let what = format!(
            "warp {warp} uses the mbarrier at {:#x}, which warp {maker} initialised with no ordering in between",
            shared_address(at)
        );
        let races = self.races.as_ref()?;
        let (maker, clock) = self.maker(at)?;
        Some((Fault::new(Rule::Race, what), races.has_met_here(maker, clock)))
    }

    /// Checks that the initialisation of a barrier object is visible to the async proxy.
    pub(crate) fn seen_by_proxy(&self, at: usize) -> Result<(), Fault> {
        match self.unseen.get(&at).filter(|_| self.races.is_some()) {
            None => Ok(()),
            Some(thread) => {
                let what = format!(
                    "no proxy fence: the async proxy uses the mbarrier at {:#x}, which thread {thread} initialised \
                     without `fence.mbarrier_init.release.cluster` or `fence.proxy.async` since",
                    shared_address(at)
                );
                Err(Fault::new(Rule::Race, what))
            }
        }
    }

    /// `fence.mbarrier_init` by lanes of a warp: barrier objects that they initialised become visible to the async proxy.
    pub(crate) fn fence_init(&mut self, warp: u32, lanes: u32) {
        self.unseen.retain(|_, thread| *thread / 32 != warp || lanes >> (*thread % 32) & 1 == 0);
    }

    /// `fence.proxy.async` by lanes of a warp: their writes become visible to the async proxy, and so do barrier objects whose
    /// initialisation is ordered before the fence.
    pub(crate) fn fence_proxy(&mut self, warp: u32, lanes: u32) {
        if let Some(proxy) = &mut self.proxy {
            proxy.fence(warp, lanes);
        }
        let mut unseen = std::mem::take(&mut self.unseen);
        unseen.retain(|at, thread| {
            if *thread / 32 == warp {
                return lanes >> (*thread % 32) & 1 == 0;
            }
            self.made_elsewhere(*at, warp).is_some()
        });
        self.unseen = unseen;
    }

    /// Returns the barrier object at an offset in shared memory.
    pub(crate) fn mbarrier(&mut self, at: usize) -> Result<&mut Mbarrier, Fault> {
        self.mbarriers.get_mut(&at).ok_or_else(|| {
            let address = shared_address(at);
            Fault::new(Rule::Barrier, format!("no mbarrier was initialised at shared address {address:#x}"))
        })
    }

    /// Arrives `count` times; returns the phase before, and the arrivals that were missing then.
    pub(crate) fn arrive(&mut self, at: usize, count: u32) -> Result<(u64, u32), Fault> {
        let barrier = self.mbarrier(at)?;
        let before = (barrier.phase, barrier.pending);
        if count == 0 || count > barrier.pending {
            let what = format!(
                "{count} arrivals at the mbarrier at {:#x}, which expects only {} more in phase {}",
                shared_address(at),
                barrier.pending,
                barrier.phase
            );
            return Err(Fault::new(Rule::Barrier, what));
        }
        barrier.pending -= count;
        if barrier.settle() {
            self.events += 1;
        }
        Ok(before)
    }

    /// Subtracts `bytes` from the tx-count of a barrier object.
    pub(crate) fn complete_tx(&mut self, at: usize, bytes: i64) -> Result<(), Fault> {
        self.expect_tx(at, -bytes)?;
        if self.mbarrier(at)?.settle() {
            self.events += 1;
        }
        Ok(())
    }

    /// Adds `bytes` to the tx-count of a barrier object.
    pub(crate) fn expect_tx(&mut self, at: usize, bytes: i64) -> Result<(), Fault> {
        let barrier = self.mbarrier(at)?;
        let sum = barrier.tx + bytes;
        if sum.unsigned_abs() > u64::from(Mbarrier::MOST) {
            let what = format!(
                "the tx-count of the mbarrier at {:#x} becomes {sum}; the maximum is {}",
                shared_address(at),
                Mbarrier::MOST
            );
            return Err(Fault::new(Rule::Barrier, what));
        }
        barrier.tx = sum;
        Ok(())
    }

    /// Describes what a thread waits for, for the report of a deadlock.
    pub(crate) fn waits_for(&self, thread: u32) -> Option<String> {
        let (at, phase) = self.awaited.get(&thread)?;
        let barrier = self.mbarriers.get(at).filter(|b| b.phase == *phase)?;
        Some(format!(
            "phase {phase} of the mbarrier at {:#x} ({} of {} arrivals and {} bytes missing)",
            shared_address(*at),
            barrier.pending,
            barrier.expected,
            barrier.tx
        ))
    }
}
