//! Which bytes of global memory the clusters of one thread have accessed, and whether accesses conflict.
//!
//! This is the race detector of clusters that run apart: coarser than [`races`](crate::rules::races), and many times cheaper, because it may
//! suspect a conflict where there is none. Whoever suspects one gives up, and the scheduler runs the grid again with every rule
//! ([`cores`](crate::run::cores)). It must never miss one:
//!
//! * Between clusters nothing is ordered. An access conflicts with one of another cluster if they share a byte, and one of them writes it.
//!   All bytes of all clusters are kept, those of several threads are compared at the end ([`Touched::conflict`]).
//! * Within a CTA, accesses are ordered by a barrier that all its warps wait for; each begins an epoch. Accesses of one epoch conflict
//!   if they share a byte, one of them writes it, and two warps have accessed its word. Nothing else orders warps here.
//! * Relaxed atomics of any threads do not conflict with each other; with loads and stores they do.
//! * Accesses of one warp may be those of two lanes. Any byte that its cluster has accessed before is reported as met ([`Met::own`]), and the
//!   logs of the lanes decide.

use crate::rules::shadow::{LINE, OfLine, WORD, WordsOfLine};
use crate::run::spare::Spare;

/// Bytes of memory of a chunk: what is allocated, and what a journal keeps, at a time.
pub(crate) const CHUNK: usize = 4096;

const LINES: usize = CHUNK / LINE;

const WORDS: usize = LINE / WORD;

/// Bits of a stamp that hold the epoch; the rest is the cluster.
const EPOCH: u32 = 24;

/// Chunks that no grid uses, and what some of them had beside.
static SPARE: Spare<Chunk> = Spare::up_to(64 << 20);
static SPARE_REST: Spare<[Rest; LINES]> = Spare::up_to(64 << 20);

/// Who accesses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct By {
    /// The cluster, from 1, and its epoch.
    stamp: u64,
    /// The warp in its CTA, from 1.
    warp: u8,
}

impl By {
    /// A warp of a cluster in an epoch.
    #[inline]
    pub(crate) fn new(cluster: u64, epoch: u32, warp: u32) -> Self {
        Self { stamp: cluster << EPOCH | u64::from(epoch), warp: (warp % 32) as u8 + 1 }
    }

    /// Whether a stamp holds this epoch.
    pub(crate) const fn counts(epoch: u32) -> bool {
        epoch >> EPOCH == 0
    }
}

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// A relaxed atomic, whose scope includes all threads that it may meet.
    Modify,
}

impl Kind {
    /// A weak access.
    #[inline]
    pub(crate) const fn weak(write: bool) -> Self {
        if write { Self::Write } else { Self::Read }
    }

    /// Whether memory may change.
    #[inline]
    pub(crate) const fn changes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// What an access has met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// It may conflict with an access of another warp.
    pub(crate) others: bool,
    /// It may conflict with an access of its own warp.
    pub(crate) own: bool,
}

/// Bytes of a line, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Bytes {
    read: u128,
    /// Written or modified.
    changed: u128,
}

impl Bytes {
    #[inline]
    const fn and(self, other: Self) -> Self {
        Self { read: self.read | other.read, changed: self.changed | other.changed }
    }

    /// Those that conflict with an access, where some were written and not only modified; that matters for atomics alone.
    #[inline]
    const fn hit(self, bytes: u128, kind: Kind, written: u128) -> u128 {
        bytes
            & match kind {
                Kind::Read => self.changed,
                Kind::Write => self.changed | self.read,
                Kind::Modify => written | self.read,
            }
    }

    /// Whether accesses of two parties conflict, of which one does not modify.
    const fn conflicts(self, other: Self) -> bool {
        self.changed & (other.read | other.changed) | self.read & other.changed != 0
    }
}

/// A word that several warps have accessed.
const MANY: u8 = u8::MAX;

/// What a line remembers, of which most accesses need no more.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Line {
    /// The last access; 0 if there was none, and then the rest means nothing.
    stamp: u64,
    /// The only warp that has accessed the line in this epoch, or [`MANY`]; 0 for none.
    warp: u8,
    /// Whether there is something in its [`Rest`]; otherwise that means nothing.
    more: bool,
    /// Whether earlier epochs of this cluster have accessed it.
    again: bool,
    /// Accesses of this epoch.
    now: Bytes,
    /// What earlier clusters have written or modified.
    changed: u128,
    /// Whether atomics have modified some of it.
    modified: bool,
}

/// What else it remembers, if it is accessed by several clusters, in several epochs, or by several warps in one, or by atomics.
#[derive(Debug, Clone, Copy, Default)]
struct Rest {
    /// What earlier clusters have read.
    read: u128,
    /// Accesses of earlier epochs of this cluster.
    own: Bytes,
    /// By word, who has accessed it in this epoch; meaningful if the line's warp is [`MANY`].
    owners: [u8; WORDS],
    /// What was written and not only modified, by earlier clusters, in earlier epochs of this one, and in this epoch; meaningful if some of
    /// the line was modified.
    written: [u128; 3],
}

impl Rest {
    /// A warp accesses some words.
    #[inline(always)]
    fn own_also(&mut self, words: u32, warp: u8) {
        for (owner, on) in self.owners.iter_mut().zip(owned(words)) {
            let shared = if *owner == 0 || *owner == warp { warp } else { MANY };
            *owner = shared & on | *owner & !on;
        }
    }
}

/// The words of some bytes, one bit each.
#[inline]
const fn words_of(bytes: u128) -> u32 {
    /// Gathers every fourth bit.
    #[inline]
    const fn gather(bits: u64) -> u64 {
        let bits = bits & 0x1111_1111_1111_1111;
        let bits = (bits | bits >> 3) & 0x0303_0303_0303_0303;
        let bits = (bits | bits >> 6) & 0x000F_000F_000F_000F;
        let bits = (bits | bits >> 12) & 0x0000_00FF_0000_00FF;
        (bits | bits >> 24) & 0xFFFF
    }
    let any = bytes | bytes >> 1;
    let any = any | any >> 2;
    (gather(any as u64) | gather((any >> 64) as u64) << 16) as u32
}

/// By eight words, a mask of a byte for each.
const OWNED: [u64; 256] = {
    let mut all = [0; 256];
    let mut n = 0;
    while n < 2048 {
        if (n / 8) >> (n % 8) & 1 == 1 {
            all[n / 8] |= 0xFF << (n % 8 * 8);
        }
        n += 1;
    }
    all
};

/// A mask of a byte for each word.
#[inline]
fn owned(words: u32) -> [u8; WORDS] {
    let mut all = [0; WORDS];
    for (to, eight) in all.as_chunks_mut::<8>().0.iter_mut().zip(words.to_le_bytes()) {
        *to = OWNED[usize::from(eight)].to_le_bytes();
    }
    all
}

impl Line {
    /// The rest of what it remembers, which is there from now on.
    #[inline]
    fn rest<'a>(&mut self, rest: &'a mut Remainder, n: usize) -> &'a mut Rest {
        let rest = &mut rest.get_or_insert_with(|| SPARE_REST.take(Box::default))[n % LINES];
        if !self.more {
            (self.more, *rest) = (true, Rest::default());
        }
        rest
    }

    /// Begins another epoch or cluster.
    #[inline(never)]
    fn turn(&mut self, stamp: u64, rest: &mut Remainder, n: usize) {
        if self.stamp == 0 {
            *self = Self { stamp, ..Self::default() };
            return;
        }
        let rest = self.rest(rest, n);
        if self.stamp >> EPOCH == stamp >> EPOCH {
            rest.own = if self.again { rest.own.and(self.now) } else { self.now };
            self.again = true;
            let [_, own, now] = &mut rest.written;
            *own |= std::mem::take(now);
        } else {
            let all = self.all(Some(rest));
            (rest.read, self.changed, self.again) = (all.read, all.changed, false);
            let [before, own, now] = rest.written;
            rest.written = [before | own | now, 0, 0];
        }
        (self.now, self.warp, self.stamp) = (Bytes::default(), 0, stamp);
    }

    /// Records an access of one kind to some bytes of line `n` of its chunk.
    #[inline]
    fn touch(&mut self, rest: &mut Remainder, n: usize, bytes: u128, kind: Kind, by: By) -> Met {
        if self.stamp != by.stamp {
            self.turn(by.stamp, rest, n);
        }
        if self.more || kind == Kind::Modify {
            return self.touch_more(rest, n, bytes, kind, by);
        }
        // Nobody but this cluster has accessed it, in this epoch.
        let hit = self.now.hit(bytes, kind, self.now.changed);
        let mut met = Met { others: false, own: hit != 0 };
        if self.warp == 0 {
            self.warp = by.warp;
        } else if self.warp != by.warp {
            let rest = self.rest(rest, n);
            met.others = self.share(rest, bytes, hit, by.warp);
        }
        self.add(bytes, kind);
        met
    }

    /// [`Line::touch`] where earlier epochs or clusters, or other warps, have accessed the line, or with an atomic.
    #[inline(never)]
    fn touch_more(&mut self, rest: &mut Remainder, n: usize, bytes: u128, kind: Kind, by: By) -> Met {
        let rest = self.rest(rest, n);
        if kind == Kind::Modify && !self.modified {
            // So far, what was changed was written.
            let own = if self.again { rest.own.changed } else { 0 };
            (self.modified, rest.written) = (true, [self.changed, own, self.now.changed]);
        }
        let [w_before, w_own, w_now] = rest.written;
        let hit = self.now.hit(bytes, kind, w_now);
        let before = Bytes { read: if kind.changes() { rest.read } else { 0 }, changed: self.changed };
        let others = before.hit(bytes, kind, w_before);
        let own = hit | if self.again { rest.own.hit(bytes, kind, w_own) } else { 0 };
        let mut met = Met { others: others != 0, own: own != 0 };
        if self.warp == 0 {
            self.warp = by.warp;
        } else if self.warp != by.warp {
            met.others |= self.share(rest, bytes, hit, by.warp);
        }
        if kind == Kind::Write {
            rest.written[2] |= bytes;
        }
        self.add(bytes, kind);
        met
    }

    #[inline]
    fn add(&mut self, bytes: u128, kind: Kind) {
        match kind {
            Kind::Read => self.now.read |= bytes,
            Kind::Write | Kind::Modify => self.now.changed |= bytes,
        }
    }

    /// Records the warp of an access to a line that several have accessed; returns whether one of the bytes that it conflicts with is in
    /// a word of another warp.
    #[inline(never)]
    fn share(&mut self, rest: &mut Rest, bytes: u128, hit: u128, warp: u8) -> bool {
        self.own_by_many(rest);
        let mut others = false;
        if hit != 0 {
            let hit = owned(words_of(hit));
            others = rest.owners.iter().zip(hit).any(|(owner, hit)| hit != 0 && *owner != warp);
        }
        rest.own_also(words_of(bytes), warp);
        others
    }

    /// Begins to tell the words of a line by who accesses them in this epoch.
    #[inline(always)]
    fn own_by_many(&mut self, rest: &mut Rest) {
        if self.warp != MANY {
            rest.owners = owned(words_of(self.now.read | self.now.changed)).map(|known| known & self.warp);
            self.warp = MANY;
        }
    }

    /// All bytes that have been accessed.
    #[inline]
    fn all(&self, rest: Option<&Rest>) -> Bytes {
        if self.stamp == 0 {
            return Bytes::default();
        }
        let Some(rest) = rest.filter(|_| self.more) else { return self.now };
        let all = Bytes { read: rest.read, changed: self.changed }.and(self.now);
        if self.again { all.and(rest.own) } else { all }
    }
}

/// [`Rest`] of the lines of a chunk, once one of them needs it.
type Remainder = Option<Box<[Rest; LINES]>>;

/// What a chunk remembers.
#[derive(Default)]
struct Chunk {
    lines: [Line; LINES],
    rest: Remainder,
    /// Whether any of it has been written or modified.
    changed: bool,
    /// Whether a journal keeps what was in it.
    kept: bool,
}

impl Chunk {
    /// Records an access to bytes of a line.
    #[inline]
    fn touch(&mut self, line: usize, mask: u128, kind: Kind, by: By) -> Met {
        self.changed |= kind.changes();
        self.lines[line].touch(&mut self.rest, line, mask, kind, by)
    }

    /// [`Chunk::touch`] of a load of words, if nothing here has been changed: it meets nothing, and adds a few bits.
    #[inline(always)]
    fn load(&mut self, line: usize, of: WordsOfLine, by: By) {
        let state = &mut self.lines[line % LINES];
        if state.stamp != by.stamp {
            state.turn(by.stamp, &mut self.rest, line);
        }
        if state.warp != by.warp {
            if state.warp == 0 {
                state.warp = by.warp;
            } else {
                let rest = state.rest(&mut self.rest, line);
                state.own_by_many(rest);
                rest.own_also(of.words, by.warp);
            }
        }
        state.now.read |= of.bytes();
    }

    /// All bytes of a line that have been accessed.
    fn line(&self, n: usize) -> Bytes {
        self.lines[n].all(self.rest.as_ref().and_then(|rest| rest.get(n)))
    }
}

/// The chunks of an allocation.
#[derive(Default)]
struct Chunks {
    /// By chunk, its place in [`Touched::chunks`], counted from 1; 0 for none. Empty until first needed.
    places: Vec<u32>,
    /// Whether any of it has been written or modified.
    changed: bool,
}

/// The bytes of global memory that the clusters of a thread have accessed, by allocation. No memory is allocated or freed meanwhile.
#[derive(Default)]
pub(crate) struct Touched {
    allocations: Vec<Chunks>,
    #[expect(
        clippy::vec_box,
        reason = "a chunk comes from the spare ones and goes back to them, without a copy"
    )]
    chunks: Vec<Box<Chunk>>,
}

impl Drop for Touched {
    fn drop(&mut self) {
        SPARE_REST.give(self.chunks.iter_mut().filter_map(|chunk| chunk.rest.take()));
        SPARE.give(self.chunks.drain(..));
    }
}

impl Touched {
    /// A chunk of an allocation of so many bytes.
    #[inline]
    fn chunk(&mut self, allocation: usize, bytes: usize, chunk: usize) -> Option<&mut Chunk> {
        let place =
            self.allocations.get(allocation).and_then(|all| all.places.get(chunk)).copied().unwrap_or(0);
        let place = if place == 0 { self.add(allocation, bytes, chunk)? } else { place };
        self.chunks.get_mut(place as usize - 1).map(Box::as_mut)
    }

    #[cold]
    fn add(&mut self, allocation: usize, bytes: usize, chunk: usize) -> Option<u32> {
        if self.allocations.len() <= allocation {
            self.allocations.resize_with(allocation + 1, Chunks::default);
        }
        let places = &mut self.allocations[allocation].places;
        if places.is_empty() {
            *places = vec![0; bytes.div_ceil(CHUNK)];
        }
        let place = u32::try_from(self.chunks.len() + 1).ok()?;
        *places.get_mut(chunk)? = place;
        let mut chunk = SPARE.take(Box::default);
        chunk.lines.iter_mut().for_each(|line| line.stamp = 0);
        (chunk.changed, chunk.kept) = (false, false);
        self.chunks.push(chunk);
        Some(place)
    }

    /// Takes note of an access that may change an allocation, if that has chunks.
    #[inline]
    fn changes(&mut self, allocation: usize, kind: Kind) {
        if kind.changes()
            && let Some(all) = self.allocations.get_mut(allocation)
        {
            all.changed = true;
        }
    }

    /// Records an access to a run of bytes of an allocation of so many bytes.
    #[inline]
    pub(crate) fn run(
        &mut self,
        (allocation, bytes): (usize, usize),
        (at, len): (usize, usize),
        kind: Kind,
        by: By,
    ) -> Met {
        let (mut met, mut from, end) = (Met::default(), at, at + len);
        while from < end {
            let (line, first) = (from / LINE, from % LINE);
            let to = end.min((line + 1) * LINE);
            let mask = (!0 >> (LINE - (to - from))) << first;
            let here = self.line((allocation, bytes), line, mask, kind, by);
            (met.others, met.own) = (met.others | here.others, met.own | here.own);
            from = to;
        }
        met
    }

    /// Records an access to bytes of a line, counted from the start of its allocation, by a mask.
    #[inline]
    fn line(
        &mut self,
        (allocation, bytes): (usize, usize),
        line: usize,
        mask: u128,
        kind: Kind,
        by: By,
    ) -> Met {
        let Some(chunk) = self.chunk(allocation, bytes, line / LINES) else {
            return Met { others: true, own: true };
        };
        let met = chunk.touch(line % LINES, mask, kind, by);
        self.changes(allocation, kind);
        met
    }

    /// Records an access to bytes of lines, counted from the start of their allocation.
    #[inline]
    pub(crate) fn lines(
        &mut self,
        (allocation, bytes): (usize, usize),
        lines: &[impl OfLine],
        kind: Kind,
        by: By,
    ) -> Met {
        let mut met = Met::default();
        self.changes(allocation, kind);
        for of in lines {
            let line = of.line();
            // What is there is found once for all lines, as far as it is there.
            let places = self.allocations.get(allocation).map_or(&[][..], |all| &all.places);
            let place = places.get(line / LINES).copied().unwrap_or(0) as usize;
            let here = match place.checked_sub(1).and_then(|place| self.chunks.get_mut(place)) {
                Some(chunk) => chunk.touch(line % LINES, of.bytes(), kind, by),
                None => self.line((allocation, bytes), line, of.bytes(), kind, by),
            };
            (met.others, met.own) = (met.others | here.others, met.own | here.own);
        }
        met
    }

    /// [`Touched::lines`] of weak loads of words; `None` if they must be recorded there, though some may be by then.
    #[inline(always)]
    pub(crate) fn loads(&mut self, allocation: usize, lines: &[WordsOfLine], by: By) -> Option<Met> {
        let Chunks { places, changed } = self.allocations.get(allocation)?;
        let mut met = Met::default();
        for of in lines {
            let line = of.line();
            let place = places.get(line / LINES).copied()?;
            let chunk = self.chunks.get_mut((place as usize).checked_sub(1)?)?;
            if *changed {
                let here = chunk.touch(line % LINES, of.bytes(), Kind::Read, by);
                (met.others, met.own) = (met.others | here.others, met.own | here.own);
            } else {
                chunk.load(line % LINES, *of, by);
            }
        }
        Some(met)
    }

    /// Whether a byte of a run has been written by any of the clusters.
    pub(crate) fn is_written(&self, allocation: usize, at: usize, len: usize) -> bool {
        let Some(all) = self.allocations.get(allocation) else { return false };
        let (mut from, end) = (at, at + len);
        while from < end {
            let line = from / LINE;
            let to = end.min((line + 1) * LINE);
            let mask: u128 = (!0 >> (LINE - (to - from))) << (from % LINE);
            let place = all.places.get(line / LINES).copied().unwrap_or(0) as usize;
            let chunk = place.checked_sub(1).and_then(|place| self.chunks.get(place));
            if chunk.is_some_and(|chunk| chunk.changed && chunk.line(line % LINES).changed & mask != 0) {
                return true;
            }
            from = to;
        }
        false
    }

    /// Whether a chunk must be kept before it is written; true once for each.
    #[inline]
    pub(crate) fn must_keep(&mut self, (allocation, bytes): (usize, usize), chunk: usize) -> bool {
        self.chunk(allocation, bytes, chunk).is_some_and(|chunk| !std::mem::replace(&mut chunk.kept, true))
    }

    /// The places of the chunks that exist: allocation, number of the chunk, and place.
    fn places(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        self.allocations.iter().enumerate().flat_map(|(allocation, all)| {
            let there = all.places.iter().enumerate().filter(|(_, place)| **place != 0);
            there.map(move |(chunk, place)| (allocation, chunk, *place as usize - 1))
        })
    }

    /// A chunk that exists.
    fn get(&self, allocation: usize, chunk: usize) -> Option<&Chunk> {
        let place = self.allocations.get(allocation)?.places.get(chunk)?.checked_sub(1)?;
        self.chunks.get(place as usize).map(Box::as_ref)
    }

    /// Whether what one thread has accessed conflicts with what another has.
    pub(crate) fn conflict(threads: &[&Self]) -> bool {
        let allocations = threads.iter().map(|thread| thread.allocations.len()).max().unwrap_or(0);
        let chunks = |allocation: usize| {
            let of = threads.iter().filter_map(|thread| thread.allocations.get(allocation));
            of.map(|all| all.places.len()).max().unwrap_or(0)
        };
        let all = (0..allocations)
            .flat_map(|allocation| (0..chunks(allocation)).map(move |chunk| (allocation, chunk)));
        all.into_iter().any(|(allocation, chunk)| {
            let there = || threads.iter().filter_map(|thread| thread.get(allocation, chunk));
            there().any(|chunk| chunk.changed)
                && there().count() > 1
                && (0..LINES).any(|n| {
                    let mut so_far = Bytes::default();
                    there().map(|chunk| chunk.line(n)).any(|more| {
                        let conflicts = so_far.conflicts(more);
                        so_far = so_far.and(more);
                        conflicts
                    })
                })
        })
    }

    /// Calls `each` with the runs of bytes that have been written: allocation, offset and length.
    pub(crate) fn each_written(&self, mut each: impl FnMut(usize, usize, usize)) {
        let mut last: Option<(usize, usize, usize)> = None;
        for (allocation, chunk, place) in self.places() {
            for n in (0..LINES).take_while(|_| self.chunks[place].changed) {
                let (written, mut bit) = (self.chunks[place].line(n).changed, 0);
                while bit < LINE && written >> bit != 0 {
                    let first = bit + (written >> bit).trailing_zeros() as usize;
                    let len = (written >> first).trailing_ones() as usize;
                    bit = first + len;
                    let at = chunk * CHUNK + n * LINE + first;
                    match &mut last {
                        Some((of, from, so_far)) if *of == allocation && *from + *so_far == at => {
                            *so_far += len
                        }
                        _ => {
                            if let Some((of, from, so_far)) = last.replace((allocation, at, len)) {
                                each(of, from, so_far);
                            }
                        }
                    }
                }
            }
        }
        if let Some((of, from, len)) = last {
            each(of, from, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::random::Random;

    const BYTES: usize = 3 * CHUNK;

    fn met(others: bool, own: bool) -> Met {
        Met { others, own }
    }

    #[test]
    fn clusters_conflict_where_one_writes_what_another_accesses() {
        let mut touched = Touched::default();
        let mut run = |at, len, write, by| touched.run((1, BYTES), (at, len), Kind::weak(write), by);
        let (one, two) = (By::new(1, 0, 0), By::new(2, 0, 3));
        assert_eq!(run(4094, 4, true, one), met(false, false));
        assert_eq!(run(0, 4094, false, two), met(false, false));
        assert_eq!(run(4098, 10, true, two), met(false, false));
        assert_eq!(run(4097, 1, false, two), met(true, false));
        assert_eq!(run(100, 1, true, By::new(3, 0, 0)), met(true, false));
        // Another allocation.
        assert_eq!(touched.run((0, BYTES), (100, 1), Kind::Write, two), met(false, false));
        let mut written = Vec::new();
        touched.each_written(|allocation, at, len| written.push((allocation, at, len)));
        assert_eq!(written, [(0, 100, 1), (1, 100, 1), (1, 4094, 14)]);
        assert!(touched.is_written(1, 4000, 95) && !touched.is_written(1, 4000, 94));
        assert!(!touched.is_written(7, 0, 4));
    }

    #[test]
    fn warps_conflict_in_an_epoch() {
        let mut touched = Touched::default();
        let mut run = |at, write, epoch, warp| {
            touched.run((0, BYTES), (at, 4), Kind::weak(write), By::new(5, epoch, warp))
        };
        assert_eq!(run(0, true, 0, 0), met(false, false));
        // Other words of the line, and the own one.
        assert_eq!((run(4, true, 0, 1), run(4, false, 0, 1)), (met(false, false), met(false, true)));
        assert_eq!(run(0, false, 0, 1), met(true, true));
        // Both have accessed that word.
        assert_eq!(run(0, true, 0, 0), met(true, true));
        // After a barrier; what the cluster has accessed before may be the same warp's.
        assert_eq!((run(0, false, 1, 1), run(0, false, 1, 2)), (met(false, true), met(false, true)));
        assert_eq!(run(0, true, 1, 2), met(true, true));
        assert_eq!(run(0, true, 2, 3), met(false, true));
    }

    #[test]
    fn atomics_conflict_with_loads_and_stores_alone() {
        let mut touched = Touched::default();
        let mut run =
            |at, kind, cluster, warp| touched.run((0, BYTES), (at, 4), kind, By::new(cluster, 0, warp));
        let none = met(false, false);
        assert_eq!(
            (run(0, Kind::Modify, 1, 0), run(0, Kind::Modify, 1, 1), run(0, Kind::Modify, 2, 0)),
            (none, none, none)
        );
        assert_eq!((run(0, Kind::Read, 2, 0).others, run(0, Kind::Write, 3, 0).others), (true, true));
        // A store of the same warp before, and of another cluster.
        assert_eq!((run(64, Kind::Write, 3, 0), run(64, Kind::Modify, 3, 0)), (none, met(false, true)));
        assert!(run(64, Kind::Modify, 3, 1).others && run(64, Kind::Modify, 4, 0).others);
        assert_eq!((run(128, Kind::Modify, 4, 0), run(128, Kind::Write, 4, 0)), (none, met(false, true)));
        assert!(run(128, Kind::Modify, 5, 0).others);
    }

    #[test]
    fn threads_join_and_chunks_are_kept_once() {
        let (mut one, mut two, mut three) = (Touched::default(), Touched::default(), Touched::default());
        one.run((0, BYTES), (0, 256), Kind::Write, By::new(1, 0, 0));
        two.run((0, BYTES), (256, 256), Kind::Write, By::new(1, 0, 0));
        two.run((1, BYTES), (0, 256), Kind::Read, By::new(1, 0, 0));
        three.run((1, BYTES), (8192, 4), Kind::Write, By::new(1, 0, 0));
        three.run((0, BYTES), (511, 1), Kind::Read, By::new(1, 0, 0));
        assert!(!Touched::conflict(&[&one, &two]) && Touched::conflict(&[&one, &two, &three]));
        assert!(Touched::conflict(&[&three, &two]));
        assert!(
            one.must_keep((0, BYTES), 0) && !one.must_keep((0, BYTES), 0) && one.must_keep((0, BYTES), 2)
        );
        // A chunk behind the end of the allocation.
        assert_eq!(one.run((0, BYTES), (3 * CHUNK, 1), Kind::Write, By::new(1, 0, 0)), met(true, true));
    }

    /// Who has accessed a byte, in every detail.
    type Exact = Vec<(By, Kind)>;

    #[test]
    fn no_conflict_is_missed() {
        let mut random = Random(3);
        for _ in 0..200 {
            let mut touched = Touched::default();
            let mut exact: Vec<Exact> = vec![Exact::new(); 256];
            let (mut cluster, mut epoch) = (1, 0);
            for _ in 0..60 {
                match random.below(12) {
                    0 => (cluster, epoch) = (cluster + 1, 0),
                    1 => epoch += 1,
                    _ => {}
                }
                let by = By::new(cluster, epoch, random.below(3) as u32);
                let (at, len) = (random.below(200), 1 + random.below(40));
                let kind = [Kind::Read, Kind::Read, Kind::Write, Kind::Modify][random.below(4)];
                let met = touched.run((0, 256), (at, len), kind, by);
                for all in &mut exact[at..at + len] {
                    for (other, did) in &*all {
                        let conflict = [kind, *did].iter().any(|kind| kind.changes())
                            && (kind, *did) != (Kind::Modify, Kind::Modify);
                        let same_cluster = other.stamp >> EPOCH == by.stamp >> EPOCH;
                        let ordered = same_cluster && (other.stamp != by.stamp || other.warp == by.warp);
                        assert!(!conflict || ordered || met.others);
                        assert!(!conflict || !same_cluster || other.warp != by.warp || met.own);
                    }
                    all.push((by, kind));
                }
            }
        }
    }

    #[test]
    fn loads_of_words_are_recorded_as_other_accesses_are() {
        let mut random = Random(11);
        let mut at_once = 0;
        for round in 0..300 {
            let (mut quick, mut general) = (Touched::default(), Touched::default());
            let (mut cluster, mut epoch) = (1, 0);
            // In every other round little is written.
            let writes = if round % 2 == 0 { 4 } else { 40 };
            for _ in 0..80 {
                match random.below(12) {
                    0 => (cluster, epoch) = (cluster + 1, 0),
                    1 => epoch += 1,
                    _ => {}
                }
                let by = By::new(cluster, epoch, random.below(3) as u32);
                let line = WordsOfLine {
                    line: random.below(3 * LINES) as u32 % 40,
                    words: (random.next() & random.next()) as u32 | 1,
                };
                let (place, lines) = ((random.below(2), BYTES), [line]);
                let kind = if random.below(writes) == 0 { Kind::Write } else { Kind::Read };
                let wanted = general.lines(place, &lines, kind, by);
                let loads = if kind == Kind::Read { quick.loads(place.0, &lines, by) } else { None };
                at_once += usize::from(loads.is_some());
                let met = loads.unwrap_or_else(|| quick.lines(place, &lines, kind, by));
                assert_eq!(met, wanted, "{round}: {kind:?} of {line:?} by {by:?}");
            }
            let written = |touched: &Touched| {
                let mut all = Vec::new();
                touched.each_written(|allocation, at, len| all.push((allocation, at, len)));
                all
            };
            assert_eq!(written(&quick), written(&general));
        }
        assert!(at_once > 10_000, "{at_once}");
    }

    #[test]
    fn words_have_the_bits_of_their_bytes() {
        let mut random = Random(9);
        for _ in 0..1000 {
            let half = |random: &mut Random| u128::from(random.next() & random.next());
            let bytes = half(&mut random) | half(&mut random) << 64;
            let bytes = if random.below(2) == 0 { bytes } else { 1 << random.below(128) };
            let expected = (0..WORDS).fold(0, |words, n| words | u32::from(bytes >> (4 * n) & 0xF != 0) << n);
            assert_eq!(words_of(bytes), expected);
        }
        assert_eq!((words_of(0), words_of(!0)), (0, !0));
        assert!(By::counts(0xFF_FFFF) && !By::counts(0x100_0000));
    }
}
