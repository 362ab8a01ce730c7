//! The race observer: happens-before by vector clocks, a shadow of every byte (FastTrack, Flanagan and Freund, PLDI 2009).
//!
//! Within a CTA the threads are its warps; between CTAs each CTA is one thread. Edges: barriers, mbarrier arrivals and waits,
//! and strong accesses (atomics, `.volatile`, `.relaxed`, `.acquire`, `.release`), each of which acquires from and releases to
//! its location. That is more order than PTX promises for relaxed accesses, so a report is never false; and a byte remembers
//! its last write and two reads, so that a race may need another schedule to be seen. Copies in flight are guarded by
//! `pending`, not here.

mod global;
mod pages;

use std::collections::HashMap;
use std::ops::Range;

use super::shadow::{Memory, Shadows};
use super::stream::Grid;
use super::trap::{Fault, Law};
pub(super) use global::{GlobalAccess, GlobalRaces};
use global::{STRONG, Who};

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

/// What bytes of shared memory remember: the last write and two reads; the fourth is one in a mixed word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Shadow([Epoch; 4]);

impl Memory for Shadow {
    const MIXED: Self = Self([Epoch(0), Epoch(0), Epoch(0), Epoch(1)]);

    #[inline]
    fn alike(self, cells: &[Self]) -> bool {
        let mut differ = [0; 4];
        for cell in cells {
            for i in 0..4 {
                differ[i] |= cell.0[i].0 ^ self.0[i].0;
            }
        }
        differ == [0; 4]
    }
}

impl Shadow {
    fn written(by: Epoch) -> Self {
        Self([by, Epoch(0), Epoch(0), Epoch(0)])
    }

    /// What is remembered after an access; or the access without order, and whether that wrote.
    #[inline]
    fn step(mut self, write: bool, by: Epoch, clock: &Clock) -> Result<Self, (Epoch, bool)> {
        let (warp, strong) = (by.warp() as u32, by.strong());
        let [wrote, read, other, _] = self.0;
        if wrote.unordered(warp, clock, strong) {
            return Err((wrote, true));
        }
        if write {
            for read in [read, other] {
                if read.unordered(warp, clock, strong) {
                    return Err((read, false));
                }
            }
            return Ok(Self::written(by));
        }
        let place = if read.0 == 0 || read.warp() == warp as usize { 1 } else { 2 };
        self.0[place] = by;
        Ok(self)
    }
}

/// The observer of one CTA.
pub(super) struct Races {
    clocks: Vec<Clock>,
    shared: Shadows<Shadow>,
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
    /// The CTAs of its grid, and those of earlier grids that it knows to have ended: from the start, and behind the wait.
    grid: Range<u32>,
    known_at_start: Range<u32>,
    known: Range<u32>,
    /// By warp, its clock at `griddepcontrol.wait`; 0 before.
    waited: [u32; WARPS],
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
            shared: Shadows::new(shared),
            locations: HashMap::new(),
            barriers: [[0; WARPS]; 16],
            waiting: [0; 16],
            cluster: [0; WARPS],
            strong: false,
            id,
            clock: 1,
            others: HashMap::new(),
            grid: 0..u32::MAX,
            known_at_start: 0..0,
            known: 0..0,
            waited: [0; WARPS],
        }
    }

    /// The observer of a CTA of this grid.
    pub(super) fn in_grid(mut self, grid: &Grid) -> Self {
        self.grid = grid.ctas.clone();
        self.known_at_start = grid.known_at_start.clone();
        self
    }

    /// A warp has waited for the grid in front: it knows what these CTAs did, and so does who learns of it from the warp.
    pub(super) fn waited(&mut self, warp: u32, known: Range<u32>, world: &mut GlobalRaces) {
        if self.waited[warp as usize] == 0 {
            self.tick(warp);
            self.waited[warp as usize] = self.clocks[warp as usize][warp as usize];
            self.clock += 1;
            world.waited.entry(self.id).or_insert((self.clock, known.clone()));
            self.known = known;
        }
    }

    /// Whether a warp knows of a wait for the grid in front.
    pub(super) fn has_waited(&self, warp: u32) -> bool {
        let clock = &self.clocks[warp as usize];
        self.waited.iter().zip(clock).any(|(at, seen)| *at != 0 && at <= seen)
    }

    /// Whether a warp knows that a CTA of another grid has ended.
    fn knows_end(&self, cta: u32, warp: u32, world: &HashMap<u32, (u32, Range<u32>)>) -> bool {
        self.known_at_start.contains(&cta)
            || self.known.contains(&cta) && self.has_waited(warp)
            // Another CTA has waited, and this one has heard of it.
            || world.iter().any(|(other, (at, known))| {
                known.contains(&cta) && self.others.get(other).is_some_and(|clock| at <= clock)
            })
    }

    /// An access of a warp to shared memory.
    #[inline]
    pub(super) fn shared(&mut self, at: usize, len: usize, write: bool, warp: u32) -> Result<(), Fault> {
        let clock = &self.clocks[warp as usize];
        let epoch = Epoch::new(warp, clock[warp as usize], self.strong);
        self.shared
            .update(at, len, |shadow| shadow.step(write, epoch, clock))
            .map_err(|(n, (other, wrote))| race(at + n, warp, write, other.warp(), wrote))
    }

    /// Bytes that a copy has written: whoever waits for it may read them.
    pub(super) fn forget(&mut self, at: usize, len: usize) {
        self.shared.set(at, len, Shadow::default());
    }

    /// Bytes that a `cp.async` of this warp has written: others need an edge from the warp, which must have waited.
    pub(super) fn written_for(&mut self, at: usize, len: usize, warp: u32) {
        let clock = self.clocks[warp as usize][warp as usize];
        self.shared.set(at, len, Shadow::written(Epoch::new(warp, clock, false)));
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
    #[inline]
    fn who(&self, warp: u32) -> Who {
        let clock = self.clocks[warp as usize][warp as usize];
        Who([self.id, self.clock, clock, warp & 31 | if self.strong { STRONG } else { 0 }])
    }

    /// Whether an earlier access to global memory is ordered before what this warp does now.
    fn knows(&self, other: Who, warp: u32) -> bool {
        if other.cta() == self.id {
            other.warp() == warp || other.clock() <= self.clocks[warp as usize][other.warp() as usize]
        } else {
            self.others.get(&other.cta()).is_some_and(|clock| other.cta_clock() <= *clock)
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
