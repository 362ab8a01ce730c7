//! Lanes of one warp that access the same bytes without an order.
//!
//! Since Volta every lane is a thread of its own: nothing orders the accesses of two lanes but `bar.warp.sync`, a barrier of the CTA,
//! or release and acquire (PTX ISA 8.7; CUDA C++ Programming Guide, "Independent Thread Scheduling"). Lanes that happen to run
//! together are in step all the same, so most such kernels work, and the race detector treats a warp as one thread. Here its lanes
//! are told apart, cheaply: a conflict of two lanes is recorded, and trials in which the lanes take turns there show whether a
//! result depends on it ([`crate::run::directed`]).
//!
//! A warp keeps the memory instructions that it has executed since its lanes last synchronised ([`LaneLog`]), with the address of
//! each lane. They are searched only after an access to bytes that the warp itself has accessed before, which the race detector
//! sees anyway. Why a report is right:
//!
//! * Lanes that synchronise leave the log. Those that name each other in `bar.warp.sync` are ordered with one another, not with
//!   the others; dropping what they did altogether misses conflicts and adds none. The same holds for an acquire, which drops
//!   everything.
//! * A relaxed access that observes another lane's orders what comes before that lane's fence and after this lane's fence. What a
//!   fence follows is therefore dropped at the next access that observes something.
//! * `shfl.sync`, `vote.sync` and the like order no memory accesses (CUDA C++ Programming Guide, "Warp Shuffle Functions"), and drop
//!   nothing. Lanes meet there in every schedule, so that no trial shows a difference.
//!
//! * `ldmatrix` and `stmatrix` access a row for the lane that gives its address. PTX leaves open which lane does; a conflict with a
//!   third lane is one for either.
//! * `cp.async` writes for its lane when it is issued. It ends later, but nothing between can order another lane's access after it.
//!
//! What is lost: conflicts more than [`ROWS`] memory instructions apart, those of `wmma.load` and `wmma.store`, whose lanes' elements
//! PTX leaves open, and some that a row has for the first time after it was searched often ([`Searches`]).

use std::collections::BTreeSet;

use numerics::Path;
use pulp::NullaryFnOnce;

use crate::front::program::Row;
use crate::memory::spans::Reach;
use crate::memory::window::{SHARED_WINDOW, Window, window_of};
use crate::rules::order::Touch;
use crate::rules::remarks::{EarlierLane, Remarks, RowRemark};
use crate::run::machine::{LANES, Machine, Registers, Space, lanes};

/// The number of memory instructions that a warp remembers.
const ROWS: usize = 32;

/// Searches after a row that may find nothing before most are left out: a loop whose lanes read and write bytes of their own. The
/// first CTAs of a grid search longer; the others mostly repeat what they do. All of that depends on the CTA alone, so that the
/// result is the same for any number of threads.
const SEARCHES: u32 = 256;
const FEW_SEARCHES: u32 = 8;
const FIRST_CTAS: u32 = 8;

/// One search in so many remains.
const SAMPLE: u32 = 64;

/// What an instruction does to its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kind {
    writes: bool,
    strong: bool,
    /// It is a read-modify-write.
    modifies: bool,
}

impl Kind {
    /// Whether accesses of two lanes conflict. The order of read-modify-writes is their business.
    fn conflicts(self, other: Self) -> bool {
        (self.writes || other.writes) && !(self.modifies && other.modifies)
    }
}

/// Addresses of lanes that are evenly spaced in each half of the warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Even {
    /// Those of the first lanes of both halves.
    first: [u64; 2],
    /// The distance from one lane to the next.
    step: u64,
}

/// Lanes of half a warp.
const HALF: usize = LANES / 2;

impl Even {
    /// Those of a whole warp.
    const fn run(first: u64, step: u64) -> Self {
        Self { first: [first, first.wrapping_add(step.wrapping_mul(HALF as u64))], step }
    }

    /// Whether the second half goes on where the first one ends.
    fn is_run(self) -> bool {
        self == Self::run(self.first[0], self.step)
    }

    fn addresses(self) -> [u64; LANES] {
        std::array::from_fn(|lane| {
            self.first[lane / HALF].wrapping_add(self.step.wrapping_mul((lane % HALF) as u64))
        })
    }

    /// The lowest address, and the end of the highest access of so many bytes.
    fn ends(self, len: u32) -> (u64, u64) {
        let [one, two] = self.first;
        let last = self.step.saturating_mul(HALF as u64 - 1).saturating_add(u64::from(len));
        (one.min(two), one.max(two).saturating_add(last))
    }

    /// Whether no two lanes access a byte in common, with so many bytes each.
    fn is_distinct(self, len: u32) -> bool {
        let [one, two] = self.first;
        self.step >= u64::from(len) && one.abs_diff(two) >= self.step.saturating_mul(HALF as u64)
    }
}

/// A memory instruction of a warp. It is small, so that the logs of all warps of a CTA stay in the nearest cache.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// What determines the generic addresses of its lanes, those of lanes that take no part included; otherwise they are kept beside it.
    even: Option<Even>,
    mask: u32,
    row: u32,
    len: u32,
    kind: Kind,
    /// Whether a fence has followed.
    fenced: bool,
}

/// A memory instruction of a warp with the generic addresses of its lanes.
#[derive(Debug, Clone, Copy)]
struct Logged {
    entry: Entry,
    addresses: [u64; LANES],
}

/// Which lanes access a byte that another lane accesses, given distances from one address that are all less than [`NEAR`].
struct Meetings<'a> {
    own: &'a [u32; LANES],
    /// The distances of the other accesses, twice; of those that do not take part, [`FAR`].
    others: &'a [u32; 2 * LANES],
    /// The bytes of an access of both.
    lens: [u32; 2],
}

/// Distances of accesses that are compared are less than this, so that none is near [`FAR`].
const NEAR: u64 = 1 << 30;
const FAR: u32 = 3 << 30;

impl NullaryFnOnce for Meetings<'_> {
    type Output = u32;

    #[inline(always)]
    fn call(self) -> u32 {
        let Self { own, others, lens: [own_len, other_len] } = self;
        // An access meets another one if it ends behind its begin, and begins before its end.
        let (before, reach) = (other_len - 1, own_len + other_len - 1);
        let mut met = [0u32; LANES];
        // Each lane and the one that is so many behind it: all lanes at once.
        for behind in 1..LANES {
            for lane in 0..LANES {
                let distance = others[lane + behind].wrapping_sub(own[lane]).wrapping_add(before);
                met[lane] |= u32::from(distance < reach);
            }
        }
        (0..LANES).fold(0, |mask, lane| mask | met[lane] << lane)
    }
}

impl Entry {
    /// Whether its lanes access other bytes than those of another instruction for sure, which is given by its pattern and length.
    fn is_clear_of(&self, (even, len): (Option<Even>, u32)) -> bool {
        let (Some(own), Some(other)) = (self.even, even) else { return false };
        // Each lane uses its own bytes again, or others that are nearer to them than those of its neighbours.
        let most = self.len.max(len);
        let near = own.is_run()
            && other.is_run()
            && own.step == other.step
            && own.first[0].abs_diff(other.first[0]).saturating_add(u64::from(most)) <= own.step;
        let alike = (own, self.len) == (other, len) && own.is_distinct(len);
        let ((low, end), (other_low, other_end)) = (own.ends(self.len), other.ends(len));
        near || alike || end <= other_low || other_end <= low
    }
}

impl Logged {
    /// The lowest address of its lanes, and the end of their highest access.
    fn ends(&self) -> (u64, u64) {
        let (mut low, mut high) = (u64::MAX, 0);
        for (lane, at) in self.addresses.iter().enumerate() {
            let active = self.entry.mask >> lane & 1 == 1;
            low = if active && *at < low { *at } else { low };
            high = if active && *at > high { *at } else { high };
        }
        (low, high.saturating_add(u64::from(self.entry.len)))
    }

    /// Those of its lanes that access a byte which another lane accesses in an earlier instruction; lanes that may do so, if the addresses
    /// are far apart. All accesses of both lie between `low` and `end`.
    fn lanes_that_meet(&self, path: Path, earlier: &Self, (low, end): (u64, u64)) -> u32 {
        if end.wrapping_sub(low) >= NEAR {
            return self.entry.mask;
        }
        let own = self.addresses.map(|at| at.wrapping_sub(low) as u32);
        let mut others = [FAR; 2 * LANES];
        for (lane, at) in earlier.addresses.iter().enumerate() {
            let at = if earlier.entry.mask >> lane & 1 == 1 { at.wrapping_sub(low) as u32 } else { FAR };
            (others[lane], others[lane + LANES]) = (at, at);
        }
        path.run(Meetings { own: &own, others: &others, lens: [self.entry.len, earlier.entry.len] })
            & self.entry.mask
    }

    /// Two lanes, of which the first belongs to this instruction and the second to an earlier one, that access a byte in common. Only
    /// lanes of `candidates` are compared.
    fn shares_with(&self, earlier: &Self, candidates: u32) -> Option<(usize, usize)> {
        let (own, other) = (u64::from(self.entry.len), u64::from(earlier.entry.len));
        lanes(candidates).find_map(|lane| {
            let at = self.addresses[lane];
            // All lanes are compared at once; then those that took part remain.
            let mut hits = 0u32;
            for (n, start) in earlier.addresses.iter().enumerate() {
                hits |= u32::from(at < start.wrapping_add(other) && *start < at.wrapping_add(own)) << n;
            }
            let hits = hits & earlier.entry.mask & !(1 << lane);
            (hits != 0).then(|| (lane, hits.trailing_zeros() as usize))
        })
    }
}

/// Lanes of two instructions that access a byte in common.
struct Conflict {
    earlier: Entry,
    /// The lane of the last instruction, and that of the earlier one.
    lane: usize,
    other: usize,
    /// The address of the former.
    address: u64,
}

/// The mask, the bytes of a lane, the kind and the row of an instruction.
type Noted = (u32, u32, Kind, u32);

/// The memory instructions of a warp since its lanes last synchronised, the last [`ROWS`] of them.
#[derive(Debug, Default)]
pub(crate) struct LaneLog {
    /// A ring: the instruction of number n, from 0, is at n modulo [`ROWS`]. Places beyond the number of those logged are left over.
    rows: Vec<Entry>,
    /// By place in the ring, the addresses of an instruction whose lanes are not evenly spaced; as long as the last such place requires.
    addresses: Vec<[u64; LANES]>,
    /// The number of instructions logged.
    count: usize,
    /// The instructions that are ordered before everything that follows: those before this number.
    start: usize,
    /// The numbers, from 1, of the last two that wrote, and of the last two that were no read-modify-writes.
    writes: [usize; 2],
    plain: [usize; 2],
}

impl LaneLog {
    /// Adds an instruction, with the addresses of a register plus an offset.
    #[inline]
    fn push(&mut self, slot: &[u64; LANES], offset: u64, what: Noted) {
        let place = self.next(what);
        self.rows[place].even = None;
        if self.addresses.len() <= place {
            self.addresses.resize(place + 1, [0; LANES]);
        }
        for (to, at) in self.addresses[place].iter_mut().zip(slot) {
            *to = at.wrapping_add(offset);
        }
    }

    /// Adds an instruction whose lanes are evenly spaced.
    #[inline(always)]
    fn push_even(&mut self, even: Even, what: Noted) {
        let place = self.next(what);
        self.rows[place].even = Some(even);
    }

    /// Adds a weak load of so many bytes by every lane of a warp, evenly spaced in each half.
    #[inline(always)]
    pub(crate) fn push_even_load(&mut self, first: [u64; 2], step: u64, (len, row): (u32, u32)) {
        self.push_even(Even { first, step }, (!0, len, Kind::default(), row));
    }

    /// The place in the ring of an instruction, without addresses.
    #[inline(always)]
    fn next(&mut self, (mask, len, kind, row): Noted) -> usize {
        let next = self.count % ROWS;
        self.count += 1;
        if kind.writes {
            self.writes = [self.count, self.writes[0]];
        }
        if !kind.modifies {
            self.plain = [self.count, self.plain[0]];
        }
        if self.rows.len() <= next {
            self.rows.push(Entry { even: None, mask, row, len, kind, fenced: false });
        }
        let place = &mut self.rows[next];
        (place.mask, place.row, place.len, place.kind, place.fenced) = (mask, row, len, kind, false);
        next
    }

    /// Forgets all instructions, but keeps the places for others.
    pub(crate) fn clear(&mut self) {
        let (rows, addresses) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.addresses));
        *self = Self { rows, addresses, ..Self::default() };
    }

    /// The instructions that are not ordered before what follows, the newest first.
    fn recent(&mut self) -> impl Iterator<Item = &mut Entry> {
        let first = self.count.saturating_sub(ROWS).max(self.start);
        let count = self.count - first;
        let (new, old) = self.rows.split_at_mut(self.count % ROWS);
        new.iter_mut().rev().chain(old.iter_mut().rev()).take(count)
    }

    /// The instruction at a place of the ring, with its addresses.
    fn logged(&self, place: usize) -> Logged {
        let entry = self.rows[place];
        let kept = || self.addresses.get(place).copied().unwrap_or([0; LANES]);
        Logged { entry, addresses: entry.even.map_or_else(kept, Even::addresses) }
    }

    /// These lanes synchronise.
    #[inline]
    pub(crate) fn meet(&mut self, lanes: u32) {
        if lanes == !0 {
            self.start = self.count;
        } else {
            self.recent().for_each(|row| row.mask &= !lanes);
        }
    }

    /// A fence of some lanes.
    pub(crate) fn fence(&mut self) {
        self.recent().for_each(|row| row.fenced = true);
    }

    /// An access observes what another thread wrote: what a fence has followed may be ordered before it.
    fn observe(&mut self) {
        self.recent().filter(|row| row.fenced).for_each(|row| row.mask = 0);
    }

    /// Whether the last instruction, of this kind, may conflict with an earlier one.
    #[inline]
    fn may_conflict(&self, kind: Kind) -> bool {
        let earlier = |last: [usize; 2]| if last[0] == self.count { last[1] } else { last[0] };
        if kind.modifies {
            earlier(self.plain) > self.start
        } else {
            kind.writes && self.count - 1 > self.start || earlier(self.writes) > self.start
        }
    }

    /// Whether the last instruction may conflict with an earlier one.
    pub(crate) fn last_may_conflict(&self) -> bool {
        self.last().is_some_and(|last| self.may_conflict(last.kind))
    }

    /// The last instruction and the earlier one, if any, with which it conflicts, and the lanes, that of the last one first.
    fn search(&self, path: Path) -> Option<Conflict> {
        let first = self.count.saturating_sub(ROWS).max(self.start);
        let mut recent = (first..self.count).rev().map(|number| number % ROWS);
        let last = recent.next()?;
        let own = self.rows[last];
        let pattern = (own.even, own.len);
        let may_meet = |place: &usize| {
            let earlier = &self.rows[*place];
            own.kind.conflicts(earlier.kind) && !earlier.is_clear_of(pattern)
        };
        // Mostly nothing is near, or each lane uses its own bytes again.
        let mut rest = recent.filter(may_meet).peekable();
        rest.peek()?;
        let last = self.logged(last);
        let (low, high) = last.ends();
        rest.find_map(|place| {
            let earlier = self.logged(place);
            let (first, end) = earlier.ends();
            if end <= low || high <= first {
                return None;
            }
            let candidates = last.lanes_that_meet(path, &earlier, (low.min(first), high.max(end)));
            let (lane, other) = last.shares_with(&earlier, candidates)?;
            Some(Conflict { earlier: earlier.entry, lane, other, address: last.addresses[lane] })
        })
    }

    fn last(&self) -> Option<&Entry> {
        self.rows.get(self.count.checked_sub(1)? % ROWS)
    }
}

/// The searches of a CTA, by row.
#[derive(Debug, Default)]
pub(crate) struct Searches(Vec<u32>);

impl Searches {
    /// Forgets all searches, but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether to search after a row, in this CTA of its grid.
    fn may(&mut self, row: u32, cta: u32) -> bool {
        let row = row as usize;
        if self.0.len() <= row {
            self.0.resize(row + 1, 0);
        }
        let count = &mut self.0[row];
        *count += 1;
        *count <= if cta < FIRST_CTAS { SEARCHES } else { FEW_SEARCHES } || count.is_multiple_of(SAMPLE)
    }
}

/// Conflicts of lanes, by grid and row, and the rows at which lanes take turns to show what depends on them.
#[derive(Debug, Default)]
pub(crate) struct LaneRaces {
    pub(crate) weak: Remarks,
    /// Those of strong accesses: not races, but nothing orders them either.
    pub(crate) strong: Remarks,
    /// Grids with their rows, the earlier ones of the pairs included.
    pub(crate) rows: BTreeSet<(usize, u32)>,
}

impl LaneRaces {
    /// Adds those of another thread of the emulator.
    pub(crate) fn join(&mut self, other: Self) {
        other.weak.into_iter().for_each(|(place, remark)| self.weak.add(place, remark));
        other.strong.into_iter().for_each(|(place, remark)| self.strong.add(place, remark));
        self.rows.extend(other.rows);
    }
}

impl Machine<'_> {
    /// Logs a load, a store or an atomic of `len` bytes for each lane, before it runs. [`Machine::compare_lanes`] follows it.
    #[inline]
    pub(crate) fn log_lanes(&mut self, row: &Row, space: Space, len: usize, touch: Touch) {
        self.log_lanes_at(row, space, (self.mask, row.imm, len), touch);
    }

    /// [`Machine::log_lanes`] of an access with a known pattern.
    #[inline]
    pub(crate) fn log_reach(&mut self, row: &Row, space: Space, (reach, len): (Reach, usize), touch: Touch) {
        let Even { first, step } = match reach {
            Reach::Run(first) => Even::run(first, len as u64),
            Reach::Same(first) => Even::run(first, 0),
            Reach::Halves(first, step) => Even { first, step },
            Reach::Apart => return self.log_lanes(row, space, len, touch),
        };
        let (mask, pc) = (self.mask, self.pc);
        if let Some((offset, kind)) = self.log_kind(row, space, (mask, row.imm), touch)
            && let Some((log, _)) = self.observing_log(kind, touch)
        {
            let first = first.map(|first| first.wrapping_add(offset));
            log.push_even(Even { first, step }, (mask, len as u32, kind, pc));
        }
    }

    /// Logs an access by some lanes, of `len` bytes at the addresses in the register `row.a` plus an offset.
    #[inline]
    pub(crate) fn log_lanes_at(
        &mut self,
        row: &Row,
        space: Space,
        (mask, offset, len): (u32, u64, usize),
        touch: Touch,
    ) {
        if let Some((offset, kind)) = self.log_kind(row, space, (mask, offset), touch)
            && let pc = self.pc
            && let Some(log) = self.observing_log(kind, touch)
        {
            log.0.push(&log.1.d[row.a as usize], offset, (mask, len as u32, kind, pc));
        }
    }

    /// The offset of generic addresses and the kind of an access by some lanes with an offset, if it is logged.
    #[inline]
    fn log_kind(
        &self,
        row: &Row,
        space: Space,
        (mask, offset): (u32, u64),
        touch: Touch,
    ) -> Option<(u64, Kind)> {
        if matches!(space, Space::Local | Space::Param | Space::Const) || self.unmarks.is_some() {
            return None;
        }
        let slot = &self.r.d[row.a as usize];
        let base = if matches!(space, Space::Shared | Space::Cluster) { SHARED_WINDOW } else { 0 };
        let offset = offset.wrapping_add(base);
        let first = slot[mask.trailing_zeros() as usize % LANES].wrapping_add(offset);
        if space == Space::Generic
            && matches!(window_of(first).0, Window::Local | Window::Param | Window::Const)
        {
            return None;
        }
        let modifies = matches!(touch, Touch::Modify | Touch::Reduce);
        let strong = modifies || self.strong.is_some();
        Some((offset, Kind { writes: touch != Touch::Load, strong, modifies }))
    }

    /// The log of the warp, for an access of this kind, and its registers.
    #[inline]
    fn observing_log(&mut self, kind: Kind, touch: Touch) -> Option<(&mut LaneLog, &Registers)> {
        let log = self.cta.races.as_mut()?.lane_log(self.warp);
        if kind.strong && matches!(touch, Touch::Load | Touch::Modify) {
            log.observe();
        }
        Some((log, self.r))
    }

    /// Records a conflict of the instruction that [`Machine::log_lanes`] logged with an earlier one of other lanes.
    #[inline]
    pub(crate) fn compare_lanes(&mut self) {
        if self.cta.races.as_ref().is_some_and(|races| races.met_own_warp()) {
            self.search_lanes();
        }
    }

    #[cold]
    fn search_lanes(&mut self) {
        let Some(races) = &mut self.cta.races else { return };
        let number = races.number_in_grid();
        let (log, searches) = races.lane_log_and_searches(self.warp);
        let Some((kind, row)) = log.last().map(|last| (last.kind, last.row)) else { return };
        if !log.may_conflict(kind) || !searches.may(row, number) {
            return;
        }
        let Some(conflict) = log.search(self.world.path) else { return };
        let Conflict { earlier, lane, other, address: at } = conflict;
        let place = match window_of(at) {
            (Window::Shared, at) => format!("shared address {at:#x}"),
            _ => format!("global address {at:#x}"),
        };
        let (mine, theirs) = (
            if kind.writes { "writes" } else { "reads" },
            if earlier.kind.writes { "wrote" } else { "read" },
        );
        let what = format!(
            "lane {lane} {mine} {place}, which lane {other} of its warp {theirs}; nothing orders lanes without `bar.warp.sync`"
        );
        let (cta, warp, grid) = (self.cta.id, self.warp, self.cta.grid);
        let races = &mut self.world.lane_races;
        races.rows.extend([(grid, earlier.row), (grid, row)]);
        let list = if kind.strong && earlier.kind.strong { &mut races.strong } else { &mut races.weak };
        let other = EarlierLane { row: earlier.row, lane: other, wrote: earlier.kind.writes, byte: at };
        let other = Some(other);
        list.add((grid, row), RowRemark { cta, warp, lane, what, other, times: 1 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::random::Random;

    const STORE: Kind = Kind { writes: true, strong: false, modifies: false };
    const LOAD: Kind = Kind { writes: false, strong: false, modifies: false };

    fn along(step: u64) -> [u64; LANES] {
        std::array::from_fn(|lane| 0x1_0000_0000 + step * lane as u64)
    }

    fn backwards() -> [u64; LANES] {
        let mut all = along(4);
        all.reverse();
        all
    }

    #[test]
    fn other_lanes_conflict_and_own_bytes_do_not() {
        let mut log = LaneLog::default();
        log.push(&along(4), 0, (!0, 4, STORE, 1));
        log.push(&along(4), 0, (!0, 4, LOAD, 2));
        assert!(log.search(Path::current()).is_none());
        log.push(&backwards(), 0, (!0, 4, LOAD, 3));
        assert!(log.may_conflict(LOAD));
        let found = log.search(Path::current()).map(|found| (found.earlier.row, found.lane, found.other));
        assert_eq!(found, Some((1, 0, 31)));
        // Two loads do not conflict, and the store's lanes have met.
        log.meet(!0);
        log.push(&backwards(), 0, (!0, 4, LOAD, 4));
        assert!(!log.may_conflict(LOAD) && log.search(Path::current()).is_none());
        // A store over what other lanes have read; wider accesses overlap their neighbours.
        log.push(&along(4), 0, (!0, 4, STORE, 5));
        assert_eq!(log.search(Path::current()).map(|found| found.earlier.row), Some(4));
        log.meet(!0);
        log.push(&along(4), 0, (1, 4, STORE, 6));
        log.push(&along(8), 0, (!1, 8, LOAD, 7));
        assert!(log.search(Path::current()).is_none());
        log.push(&along(0), 0, (2, 8, LOAD, 8));
        assert_eq!(log.search(Path::current()).map(|found| (found.lane, found.other)), Some((1, 0)));
    }

    #[test]
    fn patterns_and_vectors_find_the_lanes_that_a_comparison_of_all_pairs_finds() {
        let mut random = Random(7);
        let mut clear = 0;
        for round in 0..20_000 {
            let lens = [4, 8, 16, 1].map(|len| len << (random.below(2)));
            let mut logged = || {
                let step = [0, 4, 8, 64, 100][random.below(5)];
                let first = 0x1_0000_0000 + 4 * random.below(64) as u64;
                let apart = [16 * step, 0, 4 * random.below(64) as u64][random.below(3)];
                let mask = if random.below(2) == 0 { !0 } else { random.next() as u32 };
                let even = Even { first: [first, first + apart], step };
                let len = lens[random.below(4)];
                let entry = Entry { even: Some(even), mask, row: 0, len, kind: STORE, fenced: false };
                Logged { entry, addresses: even.addresses() }
            };
            let (own, earlier) = (logged(), logged());
            let mut wanted = 0u32;
            for lane in lanes(own.entry.mask) {
                for other in lanes(earlier.entry.mask).filter(|other| *other != lane) {
                    let (a, b) = (own.addresses[lane], earlier.addresses[other]);
                    let meet = a < b + u64::from(earlier.entry.len) && b < a + u64::from(own.entry.len);
                    wanted |= u32::from(meet) << lane;
                }
            }
            let ends = (own.ends().0.min(earlier.ends().0), own.ends().1.max(earlier.ends().1));
            for path in Path::available() {
                assert_eq!(own.lanes_that_meet(path, &earlier, ends), wanted, "{round}: {own:?} {earlier:?}");
            }
            assert_eq!(own.shares_with(&earlier, own.entry.mask).is_some(), wanted != 0);
            if own.entry.is_clear_of((earlier.entry.even, earlier.entry.len)) {
                assert_eq!(wanted, 0, "{round}: {own:?} {earlier:?}");
                clear += 1;
            }
        }
        assert!(clear > 2_000, "{clear}");
    }

    #[test]
    fn lanes_that_meet_fence_or_pass_out_of_the_log_are_ordered() {
        let atomic = Kind { writes: true, strong: true, modifies: true };
        let mut log = LaneLog::default();
        log.push(&along(0), 0, (1, 4, STORE, 1));
        log.meet(2);
        log.push(&along(0), 0, (2, 4, LOAD, 2));
        assert!(log.search(Path::current()).is_some());
        log.meet(3);
        log.push(&along(0), 0, (2, 4, LOAD, 3));
        assert!(log.search(Path::current()).is_none());
        // A lock: what precedes the fence is ordered before the lane that takes it next.
        log.push(&along(0), 0, (1, 4, STORE, 4));
        log.fence();
        log.push(&along(0), 0, (2, 4, LOAD, 5));
        assert!(log.search(Path::current()).is_some());
        log.observe();
        log.push(&along(0), 0, (2, 4, LOAD, 6));
        assert!(log.search(Path::current()).is_none());
        log.push(&along(0), 0, (1, 4, atomic, 7));
        log.push(&along(0), 0, (2, 4, atomic, 8));
        assert!(log.may_conflict(atomic) && log.search(Path::current()).is_none());
        log.meet(!0);
        log.push(&along(0), 0, (2, 4, atomic, 8));
        log.push(&along(0), 0, (1, 4, atomic, 8));
        assert!(!log.may_conflict(atomic));
        for row in 0..ROWS as u32 {
            log.push(&along(128), 0, (4, 4, LOAD, row));
        }
        log.push(&along(0), 0, (2, 4, STORE, 9));
        assert!(log.search(Path::current()).is_none());
        assert_eq!(log.rows.len(), ROWS);
    }

    #[test]
    fn a_log_that_is_used_again_remembers_nothing() {
        for left_over in [1, 3, ROWS, ROWS + 5] {
            let mut log = LaneLog::default();
            for row in 0..left_over as u32 {
                log.push(&along(0), 0, (!0, 4, STORE, row));
            }
            log.clear();
            log.push(&along(4), 0, (!0, 4, STORE, 40));
            assert!(!log.may_conflict(LOAD) && log.search(Path::current()).is_none());
            log.push(&backwards(), 0, (!0, 4, LOAD, 41));
            assert_eq!(log.search(Path::current()).map(|found| found.earlier.row), Some(40));
            let rows: Vec<u32> = log.recent().map(|logged| logged.row).collect();
            assert_eq!(rows, [41, 40]);
        }
    }

    #[test]
    fn a_loop_over_bytes_of_its_own_is_searched_rarely_in_the_end() {
        let searched = |cta| {
            let mut searches = Searches::default();
            (0..4096).filter(|_| searches.may(7, cta)).count() as u32
        };
        assert_eq!(searched(0), SEARCHES + (4096 - SEARCHES) / SAMPLE);
        assert_eq!(searched(FIRST_CTAS), FEW_SEARCHES + 4096 / SAMPLE);
    }
}
