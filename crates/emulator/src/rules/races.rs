//! Race detector: happens-before by vector clocks, with a shadow of every byte (FastTrack, Flanagan and Freund, PLDI 2009).
//!
//! The threads of the analysis are warps: lanes of one warp are treated as ordered by program order, and told apart by
//! [`lanes`](crate::rules::lanes). Two conflicting accesses are
//! not a race if one happens before the other, or if both are strong and the scope of each includes the other's thread (PTX ISA
//! 8.7.1). Where each rule lives, and why it is right:
//!
//! | rule | file |
//! |---|---|
//! | what a byte remembers, and when two accesses race: the same for shared, cluster and global memory | `accesses` |
//! | who accessed shared memory of one CTA (a word each), and who accessed memory of several CTAs | this file, `global` |
//! | what orders warps: barriers, release and acquire at a location, fences (PTX ISA 8.7 to 8.10) | `sync`, on the clocks of `clock` |
//! | a strong read is ordered after the write that it observes (PTX ISA 8.9) | `chain` |
//! | read-modify-writes of a whole warp | `modify` |
//! | stores of the same value | `same` |
//! | relaxed reads that nothing orders | `relaxed` |
//! | asynchronous copies, proxies, tensor maps | `copies`, `proxy`, `publish` |
//! | the CTAs of a cluster | `cluster` |
//!
//! A relaxed access alone orders nothing, and a scope of `.cta` orders nothing between CTAs. A report holds for the present execution:
//! it follows the order in which strong accesses and `fence.sc` actually ran. The detector assumes more order than the manual
//! guarantees in three places: a barrier carries fences (see `sync`), a wait for an mbarrier also observes arrivals in later phases,
//! and weak stores do not end a release sequence. Shared memory of pending copies is guarded by `pending`, not here. A warp's clock
//! ends ([`LAST`]) with an error, not with a wrong answer.

mod accesses;
mod cells;
mod chain;
mod clock;
mod cluster;
mod copies;
mod global;
mod modify;
mod page;
mod pages;
mod proxy;
mod publish;
mod relaxed;
mod same;
mod sync;

use std::cell::Cell;
use std::ops::Range;

use numerics::Path;

use crate::api::trap::{Fault, Rule};
use crate::memory::window::SHARED_WINDOW;
use crate::rules::lanes::{LaneLog, Searches};
use crate::rules::order::{Strong, Touch};
use crate::rules::shadow::{BytesOfLine, LINE, WORD, WordsOfLine};
use crate::run::machine::lanes;
use crate::run::stream::Grid;
use accesses::{Accesses, Mark, Order};
use cells::{Bounds, Cells};
use chain::Chains;
use clock::{Clock, WARPS};
pub(crate) use cluster::ClusterRaces;
pub(crate) use global::{GlobalAccess, GlobalRaces};
use global::{MODIFIES, OBSERVES, STRONG, WIDE, Who};
use same::Same;
pub(crate) use same::Values;
pub(crate) use sync::At;
use sync::{Beside, Meeting, Places};

/// An access to shared memory of a CTA: its clock, whether it is an earlier write, whether it is strong, and its warp; zero for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Epoch(u32);

impl Epoch {
    fn new(warp: u32, clock: u32, strong: bool) -> Self {
        Self(clock << 7 | u32::from(strong) << 5 | warp & 31)
    }

    fn warp(self) -> usize {
        (self.0 & 31) as usize
    }

    fn strong(self) -> bool {
        self.0 >> 5 & 1 == 1
    }

    fn clock(self) -> u32 {
        self.0 >> 7
    }

    /// Whether this is not ordered before an access by a warp with this clock.
    #[inline]
    fn unknown(self, warp: u32, clock: &Clock) -> bool {
        self.0 != 0 && self.warp() != warp as usize && self.clock() > clock[self.warp()]
    }
}

impl Mark for Epoch {
    // Clocks end before this one ([`LAST`]).
    const MIXED: Self = Self(u32::MAX);

    #[inline]
    fn exists(self) -> bool {
        self.0 != 0
    }

    #[inline]
    fn same_warp(self, other: Self) -> bool {
        self.warp() == other.warp()
    }

    fn thread(self) -> (u32, u32) {
        (0, self.0 & 31)
    }

    fn clock(self) -> u32 {
        self.0 >> 7
    }

    #[inline]
    fn morally_strong(self, other: Self) -> bool {
        self.strong() && other.strong()
    }

    fn same_cta(self, _: Self) -> bool {
        true
    }

    #[inline]
    fn strength(self) -> u32 {
        u32::from(self.strong())
    }

    #[inline]
    fn wrote(self) -> bool {
        self.0 >> 6 & 1 == 1
    }

    fn as_earlier(self) -> Self {
        Self(self.0 | 1 << 6)
    }
}

/// The last clock of a warp that an [`Epoch`] can hold.
const LAST: u32 = (1 << 25) - 2;

/// The order of earlier accesses to shared memory before an access `by` a warp with this clock; `observed` tells whether a read that
/// observed a write orders it.
struct SharedOrder<'a, F> {
    by: Epoch,
    clock: &'a Clock,
    modifies: bool,
    observed: F,
    own_warp: &'a Cell<bool>,
}

impl<F: Fn(Epoch) -> bool> Order<Epoch> for SharedOrder<'_, F> {
    #[inline]
    fn by(&self) -> Epoch {
        self.by
    }

    #[inline]
    fn modifies(&self) -> bool {
        self.modifies
    }

    #[inline]
    fn meets_own_warp(&self) {
        self.own_warp.set(true);
    }

    #[inline]
    fn knows(&self, other: Epoch) -> bool {
        other.clock() <= self.clock[other.warp()]
    }

    fn follows(&self, other: Epoch, wrote: bool) -> bool {
        wrote && (self.observed)(other)
    }
}

/// The race detector of one CTA.
pub(crate) struct Races {
    clocks: Vec<Clock>,
    /// Per warp, what it knows of all others: follows from `clocks`.
    bounds: Vec<Bounds>,
    /// Per warp, what it knows about other CTAs, and its fences.
    beside: Vec<Beside>,
    shared: Cells,
    chains: Chains<Epoch>,
    /// Releases by this CTA's warps, by word of generic addresses.
    places: Places,
    barriers: [Meeting; 16],
    /// The barriers at which a warp has arrived, one bit each.
    used_barriers: u32,
    /// Warps waiting at each barrier.
    waiting: [u32; 16],
    /// Clocks brought to the cluster barrier in this phase and in the last one, with the phase.
    meetings: [(u64, Meeting); 2],
    /// Per warp of this CTA, its clock at the last arrival at the cluster barrier that a warp has waited for, `.relaxed` or not.
    met: Clock,
    /// The detector of its cluster, if that has several CTAs.
    cluster: Option<Box<cluster::Within>>,
    /// Copies that access global memory.
    awaited: copies::Awaited,
    /// Unordered stores of the same value.
    same: Same<Epoch>,
    /// Properties of the current access: whether it is strong, whether its scope extends beyond the CTA, whether it is a
    /// read-modify-write, and whether it is ordered after the writes that it observes.
    flags: u32,
    /// How often all warps have waited for each other.
    epoch: u32,
    /// Number of this CTA in the stream, from 1.
    pub(crate) id: u32,
    /// The CTAs of its grid, and those of earlier grids known to have ended: at the start, and after the wait.
    grid: Range<u32>,
    known_at_start: Range<u32>,
    known: Range<u32>,
    /// Per warp, its clock at `griddepcontrol.wait`; 0 before.
    waited: [u32; WARPS],
    /// A warp whose clock has reached [`LAST`].
    exhausted: Option<u32>,
    /// Per warp, what it has observed without an order.
    observations: Vec<relaxed::Observations>,
    /// Whether an access has met an earlier one of its own warp, of which one is a write, since [`Races::met_own_warp`].
    own_warp: Cell<bool>,
    /// Whether a store that has met one changes memory.
    own_warp_changes: Cell<bool>,
    /// Per warp, what its lanes have accessed since they last synchronised.
    lane_logs: Vec<LaneLog>,
    lane_searches: Searches,
}

impl Races {
    /// The detector of a CTA with so many warps and bytes of shared memory, which nobody has accessed.
    pub(crate) fn new(warps: usize, bytes: usize) -> Self {
        let mut races = Self {
            clocks: vec![[0; WARPS]; warps],
            bounds: vec![Bounds::of_warp(0, &[0; WARPS], warps); warps],
            beside: vec![Beside::default(); warps],
            shared: Cells::new(bytes),
            chains: Chains::default(),
            places: Places::default(),
            barriers: std::array::from_fn(|_| Meeting::default()),
            used_barriers: 0,
            waiting: [0; 16],
            met: [0; WARPS],
            meetings: Default::default(),
            awaited: copies::Awaited::default(),
            same: Same::default(),
            cluster: None,
            flags: 0,
            epoch: 0,
            id: 0,
            grid: 0..u32::MAX,
            known_at_start: 0..0,
            known: 0..0,
            waited: [0; WARPS],
            exhausted: None,
            observations: vec![relaxed::Observations::default(); warps],
            own_warp: Cell::new(false),
            own_warp_changes: Cell::new(false),
            lane_searches: Searches::default(),
            lane_logs: std::iter::repeat_with(LaneLog::default).take(warps).collect(),
        };
        races.start_clocks();
        races
    }

    /// Makes the detector of a CTA that has ended that of another one of the same size: as a new one, but in the memory that it has.
    pub(crate) fn clear(&mut self) {
        self.clocks.fill([0; WARPS]);
        self.start_clocks();
        self.beside.fill(Beside::default());
        self.shared.clear();
        self.chains.clear();
        self.places.clear();
        for barrier in lanes(std::mem::take(&mut self.used_barriers)) {
            self.barriers[barrier] = Meeting::default();
        }
        if self.cluster.take().is_some() {
            self.meetings = Default::default();
        }
        (self.waiting, self.met, self.waited) = ([0; 16], [0; WARPS], [0; WARPS]);
        (self.awaited, self.same) = (copies::Awaited::default(), Same::default());
        (self.flags, self.epoch, self.known, self.exhausted) = (0, 0, 0..0, None);
        self.observations.fill(relaxed::Observations::default());
        (self.own_warp, self.own_warp_changes) = (Cell::new(false), Cell::new(false));
        self.lane_searches.clear();
        self.lane_logs.iter_mut().for_each(LaneLog::clear);
    }

    /// At the start each warp knows of itself alone.
    fn start_clocks(&mut self) {
        let warps = self.clocks.len();
        for (w, clock) in self.clocks.iter_mut().enumerate() {
            clock[w] = 1;
            self.bounds[w] = Bounds::of_warp(w, clock, warps);
        }
    }

    /// What the lanes of a warp have accessed since they last synchronised.
    #[inline]
    pub(crate) fn lane_log(&mut self, warp: u32) -> &mut LaneLog {
        &mut self.lane_logs[warp as usize]
    }

    /// What the lanes of a warp have accessed since they last synchronised, and the searches of the CTA.
    pub(crate) fn lane_log_and_searches(&mut self, warp: u32) -> (&mut LaneLog, &mut Searches) {
        (&mut self.lane_logs[warp as usize], &mut self.lane_searches)
    }

    /// The number of this CTA in its grid.
    pub(crate) fn number_in_grid(&self) -> u32 {
        self.id - self.grid.start
    }

    /// How often all warps of the CTA have waited for each other.
    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Records that an access may have conflicted with an earlier one of its own warp.
    #[inline]
    pub(crate) fn meet_own_warp(&self) {
        self.own_warp.set(true);
    }

    /// Whether an access has conflicted with an earlier one of its own warp since the last call.
    #[inline]
    pub(crate) fn met_own_warp(&self) -> bool {
        self.own_warp.replace(false) | self.own_warp_changes.replace(false)
    }

    /// Whether the access has met an earlier one of its warp, and is not settled.
    #[inline]
    pub(crate) fn is_unsettled(&self) -> bool {
        self.own_warp.get()
    }

    /// Settles a store that is about to run: if it has met an earlier access of its warp, but changes no byte, no order of the two
    /// can be told from memory, and it has not conflicted.
    #[inline]
    pub(crate) fn settle_store(&self, changes: impl FnOnce() -> bool) {
        if self.own_warp.replace(false) && changes() {
            self.own_warp_changes.set(true);
        }
    }

    /// Records whether an access that has met an earlier one of its warp changes memory.
    #[inline]
    pub(crate) fn note_own_change(&self, changes: bool) {
        if changes {
            self.own_warp_changes.set(true);
        }
    }

    /// The error if a warp has synchronised more often than its clock counts.
    pub(crate) fn exhausted(&self) -> Option<Fault> {
        let warp = self.exhausted?;
        let what = format!(
            "warp {warp} has synchronised {LAST} times, which is as far as the race detector counts; without race checks the \
             launch runs on"
        );
        Some(Fault::new(Rule::Fuel, what))
    }

    /// Sets whether the following accesses are strong.
    pub(crate) fn set_strong(&mut self, strong: Option<Strong>) {
        self.flags = strong.map_or(0, |strong| {
            let wide = if self.leaves_the_cta(strong.order.scope) { WIDE } else { 0 };
            let modifies = matches!(strong.touch, Touch::Modify | Touch::Reduce);
            let observes = strong.touch == Touch::Modify || strong.order.acquires;
            STRONG | wide | if modifies { MODIFIES } else { 0 } | if observes { OBSERVES } else { 0 }
        });
    }

    /// Whether the current access is strong with a scope that includes the thread of another strong access to shared memory, which
    /// is in another CTA of the cluster or in this one.
    pub(crate) fn meets(&self, elsewhere: bool) -> bool {
        self.flags & if elsewhere { WIDE } else { STRONG } != 0
    }

    /// Associates the detector with a CTA of this grid, by its number in the stream, from 1.
    pub(crate) fn enter_grid(&mut self, grid: &Grid, id: u32) {
        self.id = id;
        self.grid = grid.ctas.clone();
        self.known_at_start = grid.known_at_start.clone();
    }

    /// A warp has waited for the preceding grid: it is ordered after these CTAs, and so are threads that synchronise with it.
    pub(crate) fn waited(&mut self, warp: u32, known: Range<u32>, world: &mut GlobalRaces) {
        if self.waited[warp as usize] == 0 {
            self.tick(warp);
            let clock = self.clocks[warp as usize][warp as usize];
            self.waited[warp as usize] = clock;
            world.waited.entry(self.id).or_default().push((warp, clock, known.clone()));
            self.known = known;
        }
    }

    /// Whether a wait for the preceding grid is ordered before what this warp does now.
    pub(crate) fn has_waited(&self, warp: u32) -> bool {
        let clock = &self.clocks[warp as usize];
        self.waited.iter().zip(clock).any(|(at, seen)| *at != 0 && at <= seen)
    }

    /// Whether the end of a CTA of another grid is ordered before what this warp does now.
    fn knows_end(&self, cta: u32, warp: u32, world: &global::Waited) -> bool {
        let others = &self.beside[warp as usize].others;
        self.known_at_start.contains(&cta)
            || self.known.contains(&cta) && self.has_waited(warp)
            // A warp of another CTA has waited, and this warp has synchronised with it.
            || world.iter().any(|(other, waits)| {
                waits.iter().any(|(w, at, known)| known.contains(&cta) && *at <= others.clock(*other, *w))
            })
    }

    /// Records an access of a warp to shared memory.
    #[inline]
    pub(crate) fn shared(&mut self, at: usize, len: usize, write: bool, warp: u32) -> Result<(), Fault> {
        if self.cluster.is_some() {
            return self.cluster_access(None, at, len, write, warp);
        }
        let clock = &self.clocks[warp as usize];
        let epoch = Epoch::new(warp, clock[warp as usize], self.flags & STRONG != 0);
        let modifies = self.flags & MODIFIES != 0;
        let order = SharedOrder { by: epoch, clock, modifies, observed: |_| false, own_warp: &self.own_warp };
        let found = self.shared.update(at, len, |kept| kept.step(write, &order));
        if found.is_ok() && !epoch.strong() {
            return Ok(());
        }
        self.shared_observed(at, len, write, epoch, found)
    }

    /// Records a weak access of a warp to a run of whole words of shared memory. Returns false as [`Races::shared_lines`] does.
    #[inline]
    pub(crate) fn shared_run(
        &mut self,
        path: Path,
        (at, len): (usize, usize),
        write: bool,
        warp: u32,
    ) -> bool {
        if !(at | len).is_multiple_of(WORD) {
            return false;
        }
        let (mut from, end) = (at, at + len);
        while from < end {
            let line = from / LINE;
            let to = end.min((line + 1) * LINE);
            let count = (to - from) / WORD;
            let words = (!0 >> (LINE / WORD - count)) << (from % LINE / WORD);
            if !self.shared_words(path, (line, words), write, warp) {
                return false;
            }
            from = to;
        }
        true
    }

    /// Records a weak access of a warp to words of shared memory, by line. Returns false if it is unusual or a race: then
    /// [`Races::shared`], byte by byte, tells. What has been recorded by then is recorded again, which changes nothing.
    pub(crate) fn shared_lines(&mut self, path: Path, lines: &[WordsOfLine], write: bool, warp: u32) -> bool {
        lines.iter().all(|of| self.shared_words(path, (of.line as usize, of.words), write, warp))
    }

    /// Records a weak access of a warp to words of a line of shared memory, by a mask.
    #[inline]
    pub(crate) fn shared_words(
        &mut self,
        path: Path,
        (line, words): (usize, u32),
        write: bool,
        warp: u32,
    ) -> bool {
        if self.cluster.is_some() || self.flags & STRONG != 0 {
            return false;
        }
        let clock = &self.clocks[warp as usize];
        let by = Epoch::new(warp, clock[warp as usize], false);
        match self.shared.access(path, (line, words), write, (by, self.bounds[warp as usize])) {
            Some(own) => {
                if own {
                    self.own_warp.set(true);
                }
                true
            }
            None => self.shared_words_by_definition((line, words), write, by),
        }
    }

    /// [`Races::shared_words`] for a read of one word, or of two.
    #[inline(always)]
    pub(crate) fn shared_word(&mut self, path: Path, places: [usize; 2], warp: u32) -> bool {
        if self.cluster.is_some() || self.flags & STRONG != 0 {
            return false;
        }
        let clock = &self.clocks[warp as usize];
        let by = (Epoch::new(warp, clock[warp as usize], false), self.bounds[warp as usize]);
        let [one, two] = places;
        for at in if one == two { &places[..1] } else { &places } {
            match self.shared.read_word(at / LINE, at % LINE / WORD, by) {
                Some(own) => {
                    if own {
                        self.own_warp.set(true);
                    }
                }
                None => {
                    let word = (at / LINE, 1 << (at % LINE / WORD));
                    if !self.shared_words(path, word, false, warp) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// [`Races::shared_lines`] of parts of words.
    pub(crate) fn shared_parts(&mut self, lines: &[BytesOfLine], write: bool, warp: u32) -> bool {
        if self.cluster.is_some() || self.flags & STRONG != 0 {
            return false;
        }
        let clock = &self.clocks[warp as usize];
        let by = Epoch::new(warp, clock[warp as usize], false);
        let bounds = self.bounds[warp as usize];
        for BytesOfLine { line, bytes } in lines.iter().copied() {
            let line = line as usize;
            match self.shared.access_bytes((line, bytes), write, (by, bounds)) {
                Some(own) if own => self.own_warp.set(true),
                Some(_) => {}
                None => {
                    let order = SharedOrder {
                        by,
                        clock,
                        modifies: false,
                        observed: |_| false,
                        own_warp: &self.own_warp,
                    };
                    for n in (0..LINE).filter(|n| bytes >> n & 1 == 1) {
                        if self.shared.update(line * LINE + n, 1, |kept| kept.step(write, &order)).is_err() {
                            return false;
                        }
                    }
                }
            }
        }
        true
    }

    #[inline(never)]
    fn shared_words_by_definition(&mut self, (line, words): (usize, u32), write: bool, by: Epoch) -> bool {
        let clock = &self.clocks[by.warp()];
        let order = SharedOrder { by, clock, modifies: false, observed: |_| false, own_warp: &self.own_warp };
        self.shared.update_words(line, words, |kept| kept.step(write, &order)).is_ok()
    }

    /// As [`Races::shared`], taking into account the writes that strong reads have observed.
    #[cold]
    fn shared_observed(
        &mut self,
        at: usize,
        len: usize,
        write: bool,
        by: Epoch,
        found: Result<(), (usize, (Epoch, bool))>,
    ) -> Result<(), Fault> {
        let (warp, chains) = (by.warp() as u32, &mut self.chains);
        let clock = &self.clocks[warp as usize];
        if let Err((n, (other, wrote))) = found {
            let clash = |n, (other, wrote): (Epoch, bool)| {
                race(at + n, (self.id, warp), write, (other.warp(), wrote))
            };
            if chains.is_empty() {
                return Err(clash(n, (other, wrote)));
            }
            for n in n..len {
                let observed =
                    |write| chains.orders((at + n) as u64, write, |read| !read.unknown(warp, clock));
                let order = SharedOrder {
                    by,
                    clock,
                    modifies: self.flags & MODIFIES != 0,
                    observed,
                    own_warp: &self.own_warp,
                };
                self.shared
                    .update(at + n, 1, |kept| kept.step(write, &order))
                    .map_err(|(_, other)| clash(n, other))?;
            }
        }
        if by.strong() {
            for at in (at..at + len).step_by(4) {
                if write {
                    chains.write(at as u64, by, self.flags & MODIFIES != 0);
                } else if self.flags & OBSERVES != 0 {
                    chains.read(at as u64, by);
                }
            }
        }
        Ok(())
    }

    /// Clears the shadow of bytes that a copy has written: threads that wait for the copy may read them.
    pub(crate) fn forget(&mut self, at: usize, len: usize) {
        if self.cluster_set(at, len, None) {
            return;
        }
        self.shared.set(at, len, Accesses::default());
    }

    /// Records bytes that a `cp.async` of this warp has written: other warps must synchronise with this one after its wait.
    pub(crate) fn written_for(&mut self, at: usize, len: usize, warp: u32) {
        let by = Epoch::new(warp, self.clocks[warp as usize][warp as usize], false);
        if !self.cluster_set(at, len, Some(by)) {
            self.shared.set(at, len, Accesses::written(by));
        }
    }

    /// Checks memory read by `.nc`, which must be read-only while the kernel runs.
    pub(crate) fn read_only(&self, address: u64, len: usize, world: &mut GlobalRaces) -> Result<(), Fault> {
        let Some((n, who)) = world.writer_among(&self.grid, address, len) else { return Ok(()) };
        let what = format!(
            "a non-coherent read of global address {:#x}, which warp {} of CTA number {} of the same grid wrote: it \
            may return the old value",
            address + n as u64,
            who.warp(),
            who.cta() - self.grid.start
        );
        let address = address + n as u64;
        Err(Fault::new(Rule::Race, what).against((0, address), true, (who.cta(), who.warp())))
    }

    /// The identity of this warp for global memory.
    #[inline]
    fn who(&self, warp: u32) -> Who {
        Who([self.id, self.clocks[warp as usize][warp as usize], warp & 31 | self.flags])
    }

    /// Whether an earlier access to global memory is ordered before what this warp does now. Never true for a copy, which
    /// [`Copies`](copies::Copies) tracks.
    fn knows(&self, other: Who, warp: u32) -> bool {
        if other.cta() == self.id {
            other.is_of(warp) || other.clock() <= self.clocks[warp as usize][other.warp() as usize]
        } else {
            other.clock() <= self.beside[warp as usize].others.clock(other.cta(), other.warp())
        }
    }

    /// Whether a warp knows of anything that another CTA did.
    fn knows_others(&self, warp: u32) -> bool {
        !self.beside[warp as usize].others.is_empty()
    }
}

#[cold]
fn race(at: usize, (cta, warp): (u32, u32), write: bool, (other, wrote): (usize, bool)) -> Fault {
    let address = at as u64 + u64::from(crate::memory::window::SHARED_START);
    let (mine, theirs) = (if write { "writes" } else { "reads" }, if wrote { "wrote" } else { "read" });
    Fault::new(
        Rule::Race,
        format!(
            "warp {warp} {mine} shared address {address:#x}, which warp {other} {theirs} with no ordering in between"
        ),
    )
    .against((cta, SHARED_WINDOW + address), wrote, (cta, other as u32))
}
