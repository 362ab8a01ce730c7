//! Watchpoints: which instructions accessed certain bytes of memory, for a replay of a launch.
//!
//! A shadow of memory that remembered an instruction for each byte would cost every launch memory and time. A seed determines a run
//! ([`run`](crate::run)), so the launch that needs an explanation is run again, and only then do its accesses pay. The replay makes
//! its accesses lane by lane: the fast paths of whole warps decline while bytes are watched.

use std::collections::HashMap;
use std::ops::Range;

use crate::api::trap::{Fault, OtherAccess, Place};
use crate::copies::pending::{Pending, Work, shared_address};
use crate::memory::window::SHARED_WINDOW;
use crate::run::deadlock::place;
use crate::run::machine::{LANES, Machine};
use crate::run::stream::InStream;

/// The bytes whose accesses a launch records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watchpoints {
    /// The other accesses of races, which the launch is to locate.
    pub(crate) raced: Vec<OtherAccess>,
    /// Ranges of global addresses whose last write is wanted.
    pub(crate) results: Vec<Range<u64>>,
}

impl Watchpoints {
    /// Watches ranges of global addresses for their last write ([`crate::Observer::written`]).
    #[must_use]
    pub fn of_results(results: Vec<Range<u64>>) -> Self {
        Self { results, ..Self::default() }
    }

    /// Watches the bytes of races, to locate their other accesses.
    pub(crate) fn of_races(raced: Vec<OtherAccess>) -> Self {
        Self { raced, ..Self::default() }
    }
}

/// An access by a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accessed {
    /// The grid in the stream, and the row of its kernel.
    pub(crate) grid: usize,
    pub(crate) row: u32,
    pub(crate) cta: [u32; 3],
    pub(crate) warp: u32,
    pub(crate) lane: Option<u32>,
    /// Counts the accesses that the launch has recorded.
    number: u64,
}

impl Accessed {
    /// Its place in the text.
    pub(crate) fn place(self, launches: &[InStream<'_>]) -> Place {
        place(launches, self.grid, self.row, self.cta, self.warp, self.lane)
    }
}

/// The last write to a watched range of global memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWrite {
    /// The range.
    pub bytes: Range<u64>,
    /// The instruction and its thread; `None` if the launch did not write there.
    pub place: Option<Place>,
}

/// A thread of the race detector at a byte: the watchpoint, the CTA and the warp, whether it wrote, and whether that was strong.
type Key = (usize, (u32, u32), bool, bool);

/// What a launch has recorded so far.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    points: Watchpoints,
    raced: HashMap<Key, Accessed>,
    results: Vec<Option<Accessed>>,
    number: u64,
}

impl Recorded {
    pub(crate) fn new(points: &Watchpoints) -> Self {
        Self { points: points.clone(), results: vec![None; points.results.len()], ..Self::default() }
    }

    /// The last write to each watched range.
    pub(crate) fn last_writes(self, launches: &[InStream<'_>]) -> Vec<LastWrite> {
        let Self { points, results, .. } = self;
        let write = |(bytes, last): (Range<u64>, Option<Accessed>)| LastWrite {
            bytes,
            place: last.map(|last| last.place(launches)),
        };
        points.results.into_iter().zip(results).map(write).collect()
    }
}

/// Bytes of an access: the CTA whose shared memory they are in, by its number in the stream (0 for global memory), and their generic
/// addresses.
type Bytes = (u32, Range<u64>);

impl Machine<'_> {
    /// Records an access by a lane to global memory.
    #[inline]
    pub(crate) fn watch_global(&mut self, address: u64, len: usize, write: bool, lane: Option<usize>) {
        if self.world.watchpoints.is_some() {
            self.record_access((0, address..address + len as u64), write, lane);
        }
    }

    /// Records an access by a lane to the shared memory of this CTA, or of the peer of a rank.
    #[inline]
    pub(crate) fn watch_shared(
        &mut self,
        rank: Option<u32>,
        at: usize,
        len: usize,
        write: bool,
        lane: Option<usize>,
    ) {
        if self.world.watchpoints.is_some() {
            let Some(races) = &self.cta.races else { return };
            let owner = rank.map_or(races.id, |rank| races.peer_id(rank));
            let start = SHARED_WINDOW + shared_address(at);
            self.record_access((owner, start..start + len as u64), write, lane);
        }
    }

    /// Records the accesses of a copy that this warp issues.
    pub(crate) fn watch_copy(&mut self, pending: &Pending) {
        if self.world.watchpoints.is_none() {
            return;
        }
        let stores = match pending.work {
            Work::Load { .. } => Some(false),
            Work::Store(_) => Some(true),
            Work::Within { .. } | Work::Put { .. } | Work::Arrive { .. } => None,
        };
        for piece in &pending.pieces {
            let lane = Some(piece.lane as usize);
            if let Some(stores) = stores.filter(|_| piece.taken > 0) {
                self.watch_global(piece.address, piece.taken, stores, lane);
                self.watch_shared(None, piece.at, piece.len, !stores, lane);
            }
        }
    }

    #[cold]
    fn record_access(&mut self, (owner, bytes): Bytes, write: bool, lane: Option<usize>) {
        let thread = self.cta.races.as_ref().map(|races| (races.id, self.warp));
        let strong = self.strong.is_some();
        let (grid, row, cta, warp) = (self.cta.grid, self.pc, self.cta.id, self.warp);
        let Some(all) = &mut self.world.watchpoints else { return };
        all.number += 1;
        let lane = lane.and_then(|lane| u32::try_from(lane % LANES).ok());
        let access = Accessed { grid, row, cta, warp, lane, number: all.number };
        for (n, other) in all.points.raced.iter().enumerate() {
            if let Some(thread) = thread.filter(|_| other.owner == owner && bytes.contains(&other.byte)) {
                all.raced.insert((n, thread, write, strong), access);
            }
        }
        if write && owner == 0 {
            let ranges = all.points.results.iter().zip(&mut all.results);
            for (_, last) in ranges.filter(|(range, _)| range.start < bytes.end && bytes.start < range.end) {
                *last = Some(access);
            }
        }
    }

    /// Locates the other access of a race, if the launch is a replay that watches its byte.
    #[inline]
    pub(crate) fn locate_other(&self, fault: Fault) -> Fault {
        match &self.world.watchpoints {
            Some(all) => self.located(all, fault),
            None => fault,
        }
    }

    #[cold]
    fn located(&self, all: &Recorded, mut fault: Fault) -> Fault {
        let Some(other) = &mut fault.other else { return fault };
        let point = all.points.raced.iter().position(|p| (p.owner, p.byte) == (other.owner, other.byte));
        let Some(point) = point else { return fault };
        // Two strong accesses of sufficient scope do not race: beside a strong one, the weak one is meant.
        let found = [false, true].map(|strong| all.raced.get(&(point, other.thread, other.wrote, strong)));
        let weak_first = found[0].filter(|_| self.strong.is_some());
        let last = || found.into_iter().flatten().max_by_key(|access| access.number);
        other.at = weak_first.or_else(last).copied();
        fault
    }
}
