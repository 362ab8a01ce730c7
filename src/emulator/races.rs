//! The race observer: happens-before by vector clocks, a shadow of every byte (FastTrack, Flanagan and Freund, PLDI 2009).
//!
//! Within a CTA the threads are its warps; between CTAs each CTA is one thread. Edges: barriers, mbarrier arrivals and waits,
//! and strong accesses (atomics, `.volatile`, `.relaxed`, `.acquire`, `.release`), each of which acquires from and releases to
//! its location. That is more order than PTX promises for relaxed accesses, so a report is never false; and a byte remembers
//! its last write and two reads, so that a race may need another schedule to be seen. Copies in flight are guarded by
//! `pending`, not here.

use std::collections::HashMap;

use super::trap::{Fault, Law};

/// Warps of a CTA.
const WARPS: usize = 32;

/// A vector clock over the warps of a CTA.
type Clock = [u32; WARPS];

/// Who touched a byte, and when: clock, warp, and whether the access was strong; zero for nobody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Epoch(u32);

impl Epoch {
    fn new(warp: u32, clock: u32, strong: bool) -> Self {
        Self(clock << 6 | u32::from(strong) << 5 | warp & 31)
    }

    fn warp(self) -> usize {
        (self.0 & 31) as usize
    }

    fn strong(self) -> bool {
        self.0 >> 5 & 1 == 1
    }

    fn clock(self) -> u32 {
        self.0 >> 6
    }

    /// Whether an access that `clock` stands for may come without order.
    #[inline]
    fn unordered(self, warp: u32, clock: &Clock, strong: bool) -> bool {
        self.0 != 0
            && self.warp() != warp as usize
            && self.clock() > clock[self.warp()]
            && !(strong && self.strong())
    }
}

/// What a byte of shared memory remembers.
#[derive(Debug, Clone, Copy, Default)]
struct Shadow {
    write: Epoch,
    reads: [Epoch; 2],
}

/// The observer of one CTA.
pub(super) struct Races {
    clocks: Vec<Clock>,
    shared: Vec<Shadow>,
    /// What was released to a location: generic addresses, and barriers by number.
    locations: HashMap<u64, Clock>,
    barriers: [Clock; 16],
    /// Warps that wait at a barrier.
    waiting: [u32; 16],
    cluster: Clock,
    /// Whether the access being made is strong.
    pub(super) strong: bool,
    /// This CTA among all, from 1, its clock, and what it knows of the others.
    pub(super) id: u32,
    clock: u32,
    others: HashMap<u32, u32>,
}

fn join(to: &mut Clock, from: &Clock) {
    for (t, f) in to.iter_mut().zip(from) {
        *t = (*t).max(*f);
    }
}

impl Races {
    pub(super) fn new(id: u32, warps: usize, shared: usize) -> Self {
        let mut clocks = vec![[0; WARPS]; warps];
        for (w, clock) in clocks.iter_mut().enumerate() {
            clock[w] = 1;
        }
        Self {
            clocks,
            shared: vec![Shadow::default(); shared],
            locations: HashMap::new(),
            barriers: [[0; WARPS]; 16],
            waiting: [0; 16],
            cluster: [0; WARPS],
            strong: false,
            id,
            clock: 1,
            others: HashMap::new(),
        }
    }

    /// An access of a warp to shared memory.
    #[inline]
    pub(super) fn shared(&mut self, at: usize, len: usize, write: bool, warp: u32) -> Result<(), Fault> {
        let clock = &self.clocks[warp as usize];
        let epoch = Epoch::new(warp, clock[warp as usize], self.strong);
        let Some(bytes) = self.shared.get_mut(at..at + len) else { return Ok(()) };
        for (n, shadow) in bytes.iter_mut().enumerate() {
            if shadow.write.unordered(warp, clock, self.strong) {
                return Err(race(at + n, warp, write, shadow.write.warp(), true));
            }
            if write {
                for read in shadow.reads {
                    if read.unordered(warp, clock, self.strong) {
                        return Err(race(at + n, warp, write, read.warp(), false));
                    }
                }
                *shadow = Shadow { write: epoch, reads: Default::default() };
            } else if shadow.reads[0].0 == 0 || shadow.reads[0].warp() == warp as usize {
                shadow.reads[0] = epoch;
            } else {
                shadow.reads[1] = epoch;
            }
        }
        Ok(())
    }

    /// Bytes that a copy has written: whoever waits for it may read them.
    pub(super) fn forget(&mut self, at: usize, len: usize) {
        if let Some(bytes) = self.shared.get_mut(at..at + len) {
            bytes.fill(Shadow::default());
        }
    }

    /// Bytes that a `cp.async` of this warp has written: others need an edge from the warp, which must have waited.
    pub(super) fn written_for(&mut self, at: usize, len: usize, warp: u32) {
        let epoch = Epoch::new(warp, self.clocks[warp as usize][warp as usize], false);
        if let Some(bytes) = self.shared.get_mut(at..at + len) {
            bytes.fill(Shadow { write: epoch, reads: Default::default() });
        }
    }

    fn tick(&mut self, warp: u32) {
        self.clocks[warp as usize][warp as usize] += 1;
    }

    /// What a warp did so far is known to whoever acquires from this location.
    pub(super) fn release(&mut self, location: u64, warp: u32) {
        let clock = self.clocks[warp as usize];
        join(self.locations.entry(location).or_insert([0; WARPS]), &clock);
        self.tick(warp);
    }

    /// The warp learns what was released to this location.
    pub(super) fn acquire(&mut self, location: u64, warp: u32) {
        if let Some(clock) = self.locations.get(&location) {
            join(&mut self.clocks[warp as usize], clock);
        }
    }

    /// A warp arrives at a barrier, and waits for it or not.
    pub(super) fn arrive(&mut self, barrier: usize, warp: u32, waits: bool) {
        let clock = self.clocks[warp as usize];
        join(&mut self.barriers[barrier & 15], &clock);
        if waits {
            self.waiting[barrier & 15] |= 1 << warp;
        }
        self.tick(warp);
    }

    /// A barrier completes: whoever waits knows what all that arrived did.
    pub(super) fn complete(&mut self, barrier: usize) {
        let clock = std::mem::replace(&mut self.barriers[barrier & 15], [0; WARPS]);
        let waiting = std::mem::take(&mut self.waiting[barrier & 15]);
        for (w, own) in self.clocks.iter_mut().enumerate() {
            if waiting >> w & 1 == 1 {
                join(own, &clock);
            }
        }
    }

    pub(super) fn cluster_arrive(&mut self, warp: u32) {
        let clock = self.clocks[warp as usize];
        join(&mut self.cluster, &clock);
        self.tick(warp);
    }

    pub(super) fn cluster_wait(&mut self, warp: u32) {
        let clock = self.cluster;
        join(&mut self.clocks[warp as usize], &clock);
    }

    /// Who this warp is, for global memory.
    pub(super) fn who(&self, warp: u32) -> Who {
        Who {
            cta: self.id,
            cta_clock: self.clock,
            warp,
            clock: self.clocks[warp as usize][warp as usize],
            strong: self.strong,
        }
    }

    /// Whether an earlier access to global memory is ordered before what this warp does now.
    fn knows(&self, other: &Who, warp: u32) -> bool {
        if other.cta == self.id {
            other.warp == warp || other.clock <= self.clocks[warp as usize][other.warp as usize & 31]
        } else {
            self.others.get(&other.cta).is_some_and(|clock| other.cta_clock <= *clock)
        }
    }

    /// A strong access to global memory: an edge to and from all CTAs that made one at the same place.
    pub(super) fn strong_global(
        &mut self,
        address: u64,
        warp: u32,
        world: &mut HashMap<u64, HashMap<u32, u32>>,
    ) {
        self.acquire(address, warp);
        self.release(address, warp);
        let place = world.entry(address).or_default();
        for (cta, clock) in place.iter() {
            let known = self.others.entry(*cta).or_default();
            *known = (*known).max(*clock);
        }
        for (cta, clock) in &self.others {
            let known = place.entry(*cta).or_default();
            *known = (*known).max(*clock);
        }
        place.insert(self.id, self.clock);
        self.clock += 1;
    }
}

/// A warp of a CTA at a time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Who {
    /// From 1; 0 is nobody.
    cta: u32,
    cta_clock: u32,
    warp: u32,
    clock: u32,
    strong: bool,
}

/// What a byte of global memory remembers.
#[derive(Debug, Clone, Copy, Default)]
struct GlobalShadow {
    write: Who,
    read: Who,
}

const PAGE: usize = 1024;

/// The shadow of global memory: pages that the launch has written.
#[derive(Default)]
pub(super) struct GlobalRaces {
    pages: HashMap<u64, Box<[GlobalShadow; PAGE]>>,
    /// What CTAs released to places.
    pub(super) places: HashMap<u64, HashMap<u32, u32>>,
}

impl GlobalRaces {
    /// An access of a warp.
    pub(super) fn access(
        &mut self,
        cta: &mut Races,
        address: u64,
        len: usize,
        write: bool,
        warp: u32,
    ) -> Result<(), Fault> {
        let page = address / PAGE as u64;
        if !write && !self.pages.contains_key(&page) {
            return Ok(());
        }
        let who = cta.who(warp);
        // An access is aligned and at most 32 bytes, so it lies on one page.
        let at = (address % PAGE as u64) as usize;
        let shadows = self.pages.entry(page).or_insert_with(|| Box::new([GlobalShadow::default(); PAGE]));
        let Some(bytes) = shadows.get_mut(at..at + len) else { return Ok(()) };
        for (n, shadow) in bytes.iter_mut().enumerate() {
            for (other, wrote) in [(&shadow.write, true), (&shadow.read, false)] {
                if other.cta != 0
                    && (write || wrote)
                    && !(who.strong && other.strong)
                    && !cta.knows(other, warp)
                {
                    let what = format!(
                        "{} of global address {:#x}, which {} {} with nothing in between",
                        if write { "a write" } else { "a read" },
                        address + n as u64,
                        if other.cta == who.cta {
                            format!("warp {}", other.warp)
                        } else {
                            format!("warp {} of CTA number {}", other.warp, other.cta - 1)
                        },
                        if wrote { "wrote" } else { "read" },
                    );
                    return Err(Fault::new(Law::Race, what));
                }
            }
            if write {
                *shadow = GlobalShadow { write: who, read: Who::default() };
            } else {
                shadow.read = who;
            }
        }
        Ok(())
    }
}

#[cold]
fn race(at: usize, warp: u32, write: bool, other: usize, wrote: bool) -> Fault {
    let address = at as u64 + u64::from(super::memory::SHARED_START);
    let (mine, theirs) = (if write { "writes" } else { "reads" }, if wrote { "wrote" } else { "read" });
    Fault::new(
        Law::Race,
        format!(
            "warp {warp} {mine} shared address {address:#x}, which warp {other} {theirs} with nothing in between"
        ),
    )
}
