//! The race observer: happens-before by vector clocks, a shadow of every byte (FastTrack, Flanagan and Freund, PLDI 2009).
//!
//! Within a CTA the threads are its warps; between CTAs each CTA is one thread. Edges: barriers, mbarrier arrivals and waits,
//! and strong accesses (atomics, `.volatile`, `.relaxed`, `.acquire`, `.release`), each of which acquires from and releases to
//! its location. That is more order than PTX promises for relaxed accesses, so a report is never false; and a byte remembers
//! its last write and two reads, so that a race may need another schedule to be seen. Copies in flight are guarded by
//! `pending`, not here.

use std::collections::HashMap;
use std::ops::Range;

use super::stream::{Grid, Stream};
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
            shared: vec![Shadow::default(); shared],
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
            copied: false,
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
    /// Whether an asynchronous copy did it: who waits for copies within a grid is not seen here.
    copied: bool,
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
    /// CTAs that have waited for the grid in front, when, and for whom.
    waited: HashMap<u32, (u32, Range<u32>)>,
    /// Whether grids overlap: then reads are remembered wherever they are.
    overlap: bool,
}

impl GlobalRaces {
    pub(super) fn of(stream: &Stream) -> Self {
        Self { overlap: stream.overlaps(), ..Self::default() }
    }

    /// All that was done is known to all from now on.
    pub(super) fn forget(&mut self) {
        self.pages.clear();
    }

    /// A copy reads or writes bytes that a warp asks for. Only other grids are held against it.
    pub(super) fn copy(
        &mut self,
        cta: &mut Races,
        address: u64,
        len: usize,
        write: bool,
        warp: u32,
        stream: &Stream,
    ) -> Result<(), Fault> {
        if !self.overlap {
            return Ok(());
        }
        let end = address + len as u64;
        let mut at = address;
        while at < end {
            let next = (at / PAGE as u64 + 1) * PAGE as u64;
            let who = Who { copied: true, ..cta.who(warp) };
            self.note(cta, who, at, (next.min(end) - at) as usize, write, stream)?;
            at = next;
        }
        Ok(())
    }

    /// An access of a warp.
    pub(super) fn access(
        &mut self,
        cta: &mut Races,
        address: u64,
        len: usize,
        write: bool,
        warp: u32,
        stream: &Stream,
    ) -> Result<(), Fault> {
        // An access is aligned and at most 32 bytes, so it lies on one page.
        if !write && !self.overlap && !self.pages.contains_key(&(address / PAGE as u64)) {
            return Ok(());
        }
        let who = cta.who(warp);
        self.note(cta, who, address, len, write, stream)
    }

    fn note(
        &mut self,
        cta: &Races,
        who: Who,
        address: u64,
        len: usize,
        write: bool,
        stream: &Stream,
    ) -> Result<(), Fault> {
        let page = address / PAGE as u64;
        let at = (address % PAGE as u64) as usize;
        let shadows = self.pages.entry(page).or_insert_with(|| Box::new([GlobalShadow::default(); PAGE]));
        let Some(bytes) = shadows.get_mut(at..at + len) else { return Ok(()) };
        for (n, shadow) in bytes.iter_mut().enumerate() {
            for (other, wrote) in [(&shadow.write, true), (&shadow.read, false)] {
                if other.cta != 0
                    && (write || wrote)
                    && !(who.strong && other.strong)
                    && !cta.knows(other, who.warp)
                {
                    let same = cta.grid.contains(&other.cta);
                    let ordered = if same {
                        who.copied || other.copied
                    } else {
                        cta.knows_end(other.cta, who.warp, &self.waited)
                    };
                    if !ordered {
                        return Err(clash(address + n as u64, &who, write, other, wrote, &cta.grid, stream));
                    }
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

/// Two accesses to global memory that nothing orders; between grids the wait is missing.
#[cold]
fn clash(
    address: u64,
    who: &Who,
    write: bool,
    other: &Who,
    wrote: bool,
    grid: &Range<u32>,
    stream: &Stream,
) -> Fault {
    let mine = if write { "a write" } else { "a read" };
    let did = if wrote { "wrote" } else { "read" };
    if grid.contains(&other.cta) {
        let them = if other.cta == who.cta {
            format!("warp {}", other.warp)
        } else {
            format!("warp {} of CTA number {}", other.warp, other.cta - grid.start)
        };
        let what =
            format!("{mine} of global address {address:#x}, which {them} {did} with nothing in between");
        return Fault::new(Law::Race, what);
    }
    let (name, first) = stream.grid_of(other.cta);
    let them = format!("warp {} of CTA number {} of kernel `{name}`", other.warp, other.cta - first);
    let what = if other.cta < grid.start {
        format!("{mine} of global address {address:#x} before `griddepcontrol.wait`, which {them} {did}")
    } else {
        format!("{mine} of global address {address:#x}, which {them} {did} before its `griddepcontrol.wait`")
    };
    Fault::new(Law::Dependency, what)
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
