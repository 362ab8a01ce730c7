//! Fast paths for loads and stores of a whole warp, whose lanes mostly access one contiguous run or all the same bytes, and of
//! groups of adjacent lanes that access runs, as for matrix fragments.
//!
//! These paths raise no faults. If anything is unusual they decline before any visible change, and the access is made lane by lane,
//! which finds the fault and its lane.

use numerics::Path;
use pulp::NullaryFnOnce;

use crate::memory::global::Region;
use crate::memory::lines::Access;
use crate::memory::window::{SHARED_START, Window, window_of};
use crate::rules::races::{GlobalAccess, Races};
use crate::rules::shadow::{LINE, WORD, WordsOfLine};
use crate::run::machine::{LANES, Machine, Space, World};

/// The pattern of the addresses of 32 lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Contiguous, in lane order.
    Run(u64),
    /// All equal.
    Same(u64),
    /// Evenly spaced in each half, as rows of a tile of 16 columns: the addresses of the first lanes of both halves, and the distance of the
    /// others from the one before.
    Halves([u64; 2], u64),
    Apart,
}

/// The row takes the pattern that an earlier one has kept.
pub(crate) const TAKES: u32 = 1;

/// The row keeps the pattern that it finds.
pub(crate) const KEEPS: u32 = 2;

/// Patterns that a turn keeps, by the last bits of the slot.
pub(crate) const KEPT: usize = 4;

/// The pattern of the addresses in a slot of the 64-bit bank, for accesses of so many bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptReach {
    slot: u32,
    bytes: usize,
    reach: Reach,
}

impl KeptReach {
    /// Of no slot.
    pub(crate) const NONE: Self = Self { slot: u32::MAX, bytes: 0, reach: Reach::Apart };
}

/// The pattern of accesses of `T` bytes at `addresses`.
#[inline(always)]
fn reach<const T: usize>(path: Path, addresses: &[u64; LANES]) -> Reach {
    let first = [addresses[0], addresses[HALF]];
    let step = addresses[1].wrapping_sub(addresses[0]);
    // What an access is shows at its ends, mostly.
    let end = step.wrapping_mul(HALF as u64 - 1);
    let ends = [addresses[HALF - 1], addresses[LANES - 1]];
    if step > FARTHEST || ends != first.map(|first| first.wrapping_add(end)) {
        return Reach::Apart;
    }
    if path.run(Uneven { addresses, step }) != 0 {
        return Reach::Apart;
    }
    match (step, first[1].wrapping_sub(first[0])) {
        (0, 0) => Reach::Same(first[0]),
        (step, between) if step == T as u64 && between == (HALF * T) as u64 => Reach::Run(first[0]),
        _ => Reach::Halves(first, step),
    }
}

/// The largest distance between neighbours; lanes in descending order have a larger one.
const FARTHEST: u64 = 1 << 40;

/// The bits in which the distance of a lane from the one before differs from the step, in either half: 0 if in none.
struct Uneven<'a> {
    addresses: &'a [u64; LANES],
    step: u64,
}

impl NullaryFnOnce for Uneven<'_> {
    type Output = u64;

    #[inline(always)]
    fn call(self) -> u64 {
        let Self { addresses, step } = self;
        let mut bits = 0;
        for half in addresses.as_chunks::<HALF>().0 {
            for i in 1..HALF {
                bits |= half[i].wrapping_sub(half[i - 1]) ^ step;
            }
        }
        bits
    }
}

/// The location of a run of bytes: in an allocation, or in shared memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Global { index: usize, at: usize },
    Shared { at: usize },
}

impl Place {
    #[inline(always)]
    pub(super) const fn at(self) -> usize {
        let (Self::Global { at, .. } | Self::Shared { at }) = self;
        at
    }
}

/// Which lanes access the bytes behind those of the lane before, and which the same: one bit for each pair of neighbours, by the first.
struct Neighbours<'a, const T: usize>(&'a [u64; LANES]);

impl<const T: usize> NullaryFnOnce for Neighbours<'_, T> {
    type Output = (u32, u32);

    #[inline(always)]
    fn call(self) -> (u32, u32) {
        let (mut next, mut same) = (0, 0);
        for i in 0..LANES - 1 {
            let distance = self.0[i + 1].wrapping_sub(self.0[i]);
            next |= u32::from(distance == T as u64) << i;
            same |= u32::from(distance == 0) << i;
        }
        (next, same)
    }
}

/// Adjacent lanes that access one run of bytes, or all the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Piece {
    first: usize,
    count: usize,
    is_run: bool,
}

/// Half a warp: a row of a tile of 16 columns. Copies of a known length need no call.
pub(super) const HALF: usize = 16;

/// Copies what lanes have read to as many others behind them.
#[inline(always)]
fn copy<const T: usize>(all: &mut [[u8; T]; LANES], from: usize, to: usize, count: usize) {
    match (from, to, count) {
        (0, HALF, HALF) => {
            let (low, high) = all.split_at_mut(HALF);
            if let (Some(low), Some(high)) = (low.first_chunk::<HALF>(), high.first_chunk_mut::<HALF>()) {
                *high = *low;
            }
        }
        _ => all.copy_within(from..from + count, to),
    }
}

/// The number of pieces up to which an access is made piece by piece.
const PIECES: usize = 4;

/// The pieces of the masked lanes' accesses; `None` if there are more than [`PIECES`].
#[inline(always)]
fn pieces<const T: usize>(
    path: Path,
    addresses: &[u64; LANES],
    mask: u32,
) -> Option<([Piece; PIECES], usize)> {
    let (next, same) = path.run(Neighbours::<T>(addresses));
    // Both lanes of a pair take part.
    let pairs = mask & mask >> 1;
    if (mask & !((next | same) & pairs) << 1).count_ones() as usize > PIECES {
        return None;
    }
    let (next, same) = (next & pairs, same & pairs);
    let (mut all, mut count, mut left) = ([Piece::default(); PIECES], 0, mask);
    while left != 0 {
        let first = left.trailing_zeros();
        let [run, equal] = [next, same].map(|pairs| (pairs >> first).trailing_ones());
        let lanes = run.max(equal) as usize + 1;
        *all.get_mut(count)? = Piece { first: first as usize, count: lanes, is_run: run >= equal };
        count += 1;
        left &= !lanes_of(first as usize + lanes);
    }
    Some((all, count))
}

impl Machine<'_> {
    /// The pattern of the addresses of accesses of `T` bytes in a register: of all lanes, as those that take no part mostly have addresses, too,
    /// behind a comparison or as the last lanes of a row. Other values there make another pattern, and nothing else follows from them.
    #[inline(always)]
    pub(crate) fn reach<const T: usize>(&self, slot: u32) -> Reach {
        reach::<T>(self.world.path, &self.r.d[slot as usize])
    }

    /// [`Machine::reach`], as the `finding` of the row says: [`TAKES`] if the register holds what it held at an earlier row of the same
    /// straight-line code, which has no guard and [`KEEPS`] what it finds.
    ///
    /// A turn begins without kept patterns, since lanes of other fragments may have written the register between two turns. In a turn the
    /// earlier access has replaced what was kept of this slot, unless one by another slot took its place: both sides of a branch may run in
    /// one turn, but each enters straight-line code at its start.
    #[inline(always)]
    pub(crate) fn reach_again<const T: usize>(&mut self, slot: u32, finding: u32) -> Reach {
        if finding == 0 {
            return self.reach::<T>(slot);
        }
        let kept = &self.reaches[slot as usize % KEPT];
        if finding & TAKES != 0 && (kept.slot, kept.bytes) == (slot, T) {
            return kept.reach;
        }
        let reach = self.reach::<T>(slot);
        self.reaches[slot as usize % KEPT] = KeptReach { slot, bytes: T, reach };
        reach
    }

    /// The location of `lanes` times `T` bytes, if all of them are in global or in shared memory.
    #[inline(always)]
    pub(super) fn run_place<const T: usize>(
        &mut self,
        space: Space,
        address: u64,
        lanes: usize,
    ) -> Option<Place> {
        // A replay records each lane's access.
        if !address.is_multiple_of(T as u64) || self.world.watchpoints.is_some() {
            return None;
        }
        let len = lanes * T;
        let window = match space {
            Space::Global => window_of(address),
            Space::Shared | Space::Cluster if address < 1 << 32 => (Window::Shared, address),
            Space::Generic => window_of(address),
            _ => return None,
        };
        match window {
            (Window::Global, at) => {
                let (index, at) = self.world.global.find(at, len)?;
                Some(Place::Global { index, at })
            }
            (Window::Shared, at) if space != Space::Global => {
                let offset = (at ^ self.cta.member.base()).wrapping_sub(u64::from(SHARED_START));
                let (end, gap) = (offset.saturating_add(len as u64), &self.cta.gap);
                let inside = offset < end && end <= self.cta.shared_end as u64;
                let clear = offset >= gap.end as u64 || end <= gap.start as u64 || gap.is_empty();
                (inside && clear).then_some(Place::Shared { at: offset as usize })
            }
            _ => None,
        }
    }

    /// Reports an access to a run to the race detector; `None` if that finds a fault, or may.
    #[inline(always)]
    fn note_run(&mut self, place: Place, address: u64, len: usize, write: bool) -> Option<()> {
        match place {
            Place::Global { index, at } => {
                if let Some(own) = self.world.touch_at((index, at), len, write, self.in_epoch()) {
                    self.met_apart(own);
                    return Some(());
                }
                let Some(races) = &self.cta.races else { return Some(()) };
                let World { races: world, stream, .. } = &mut *self.world;
                world.access(races, GlobalAccess { address, len, write }, self.warp, stream).ok()
            }
            Place::Shared { at } => {
                let whole_words = (at | len).is_multiple_of(WORD);
                if !whole_words || self.cta.member.size() > 1 || self.cta.guarded.hit(at, len, write) {
                    return self.cta.note(at, len, write, self.warp).ok();
                }
                let Some(races) = &mut self.cta.races else { return Some(()) };
                races.shared_run(self.world.path, (at, len), write, self.warp).then_some(())
            }
        }
    }

    /// Reads `T` bytes for each of 32 lanes if they access a run or all the same bytes. `take` receives them with the 32-bit and
    /// 64-bit registers.
    #[inline(always)]
    pub(crate) fn read_together<const T: usize>(
        &mut self,
        space: Space,
        reach: Reach,
        offset: u64,
        take: impl FnOnce(&[[u8; T]; LANES], &mut [[u32; LANES]], &mut [[u64; LANES]]),
    ) -> Option<()> {
        if self.strong.is_some() || self.mask != !0 {
            return None;
        }
        match reach {
            Reach::Run(base) => {
                let address = base.wrapping_add(offset);
                let place = self.run_place::<T>(space, address, LANES)?;
                let len = LANES * T;
                let at = place.at();
                if self.world.check_init && !self.region(place).is_written(at, len) {
                    return None;
                }
                self.note_run(place, address, len, false)?;
                let region = match place {
                    Place::Global { index, .. } => self.world.global.region(index),
                    Place::Shared { .. } => &self.cta.shared,
                };
                let (chunks, _) = region.view(at, len)?.as_chunks::<T>();
                take(chunks.first_chunk()?, &mut self.r.w, &mut self.r.d);
                Some(())
            }
            // Each lane has its own local memory.
            Reach::Same(base) if space != Space::Local => {
                let address = base.wrapping_add(offset);
                if let Some(bytes) = self.read_same::<T>(space, address) {
                    take(&[bytes; LANES], &mut self.r.w, &mut self.r.d);
                    return Some(());
                }
                if space == Space::Generic && self.split(space, address).ok()?.0 == Window::Local {
                    return None;
                }
                let bytes = self.load::<T>(space, address, 0).ok()?;
                // Undefined bytes are handled lane by lane.
                if self.loaded.take().is_some() {
                    return None;
                }
                take(&[bytes; LANES], &mut self.r.w, &mut self.r.d);
                Some(())
            }
            Reach::Halves(first, step) if space != Space::Local && (step == 0 || step == T as u64) => {
                let all = self.read_halves::<T>(space, first, step, offset)?;
                take(&all, &mut self.r.w, &mut self.r.d);
                Some(())
            }
            _ => None,
        }
    }

    /// Reads `T` bytes for each lane, of which each half reads a run or all the same bytes; `None` if anything is unusual.
    #[inline(always)]
    fn read_halves<const T: usize>(
        &mut self,
        space: Space,
        first: [u64; 2],
        step: u64,
        offset: u64,
    ) -> Option<[[u8; T]; LANES]> {
        if !T.is_multiple_of(WORD) || !LINE.is_multiple_of(T) {
            return None;
        }
        let len = if step == 0 { T } else { HALF * T };
        let low = first[0].min(first[1]);
        let [one, two] = first.map(|first| (first - low) as usize);
        let apart = one + two;
        let span = apart.checked_add(len).filter(|_| apart.is_multiple_of(T))?;
        let address = low.wrapping_add(offset);
        let place = self.run_place::<T>(space, address, span / T)?;
        // The memory of a cluster has one detector of races, which takes no lines.
        if matches!(place, Place::Shared { .. }) && self.cta.member.size() > 1 {
            return None;
        }
        let at = place.at();
        if at % LINE != address as usize % LINE {
            return None;
        }
        // Sixteen accesses of 16 bytes touch three lines; the halves may share some.
        let mut lines = [WordsOfLine { line: 0, words: 0 }; 6];
        let mut count = 0;
        for start in [0, apart].into_iter().take(if apart == 0 { 1 } else { 2 }) {
            let (mut from, end) = (at + start, at + start + len);
            while from < end {
                let line = from / LINE;
                let to = end.min((line + 1) * LINE);
                let words = (u32::MAX >> (32 - (to - from) / WORD)) << (from % LINE / WORD);
                let line = u32::try_from(line).ok()?;
                match usize::checked_sub(count, 1).and_then(|last| lines.get_mut(last)) {
                    Some(last) if last.line == line => last.words |= words,
                    _ => {
                        *lines.get_mut(count)? = WordsOfLine { line, words };
                        count += 1;
                    }
                }
                from = to;
            }
        }
        let lines = lines.get(..count)?;
        if self.world.check_init && !self.region(place).lines_are_written(lines) {
            return None;
        }
        self.note_words((place, address, span), lines, Access::Load)?;
        let bytes = self.region(place).view(at, span)?;
        let half = |start: usize| {
            let (all, _) = bytes.get(start..)?.as_chunks::<T>();
            if step == 0 { Some([*all.first()?; HALF]) } else { all.first_chunk::<HALF>().copied() }
        };
        let mut out = [[0; T]; LANES];
        let (to, _) = out.as_chunks_mut::<HALF>();
        (to[0], to[1]) = (half(one)?, half(two)?);
        Some(out)
    }

    /// Reads `T` bytes for each masked lane if these are few pieces; `None` if anything is unusual.
    #[inline(always)]
    pub(crate) fn read_pieces<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
    ) -> Option<[[u8; T]; LANES]> {
        if self.strong.is_some() || space == Space::Local {
            return None;
        }
        let (pieces, count) = pieces::<T>(self.world.path, &self.r.d[slot as usize], self.mask)?;
        let mut out = [[0; T]; LANES];
        let mut last: Option<(u64, Piece)> = None;
        for piece in pieces.into_iter().take(count) {
            let Piece { first, count, is_run } = piece;
            let address = self.r.d[slot as usize][first].wrapping_add(offset);
            // The rows of a tile often read the same column.
            if let Some((at, earlier)) = last
                && (at, earlier.count, earlier.is_run) == (address, count, is_run)
            {
                copy(&mut out, earlier.first, first, count);
                continue;
            }
            last = Some((address, piece));
            let out = out.get_mut(first..first + count)?;
            if !is_run {
                let bytes = self.read_same::<T>(space, address)?;
                match <&mut [[u8; T]; HALF]>::try_from(&mut *out) {
                    Ok(half) => *half = [bytes; HALF],
                    Err(_) => out.fill(bytes),
                }
                continue;
            }
            let place = self.run_place::<T>(space, address, count)?;
            let (at, len) = (place.at(), count * T);
            if self.world.check_init && !self.region(place).is_written(at, len) {
                return None;
            }
            self.note_run(place, address, len, false)?;
            let (bytes, _) = self.region(place).view(at, len)?.as_chunks::<T>();
            match (<&mut [[u8; T]; HALF]>::try_from(&mut *out), bytes.first_chunk::<HALF>()) {
                (Ok(half), Some(bytes)) => *half = *bytes,
                _ => out.copy_from_slice(bytes),
            }
        }
        Some(out)
    }

    /// Writes `T` bytes for each of 32 lanes, which `give` produces from the registers, if the lanes access a run.
    #[inline(always)]
    pub(crate) fn write_together<const T: usize>(
        &mut self,
        space: Space,
        reach: Reach,
        offset: u64,
        give: impl FnOnce(&mut [[u8; T]; LANES], &[[u32; LANES]], &[[u64; LANES]]),
    ) -> Option<()> {
        if self.strong.is_some() || self.unmarks.is_some() || self.mask != !0 {
            return None;
        }
        let Reach::Run(base) = reach else { return None };
        let address = base.wrapping_add(offset);
        let place = self.run_place::<T>(space, address, LANES)?;
        let len = LANES * T;
        if matches!(place, Place::Global { .. }) && !self.world.maps.is_empty() {
            return None;
        }
        self.note_run(place, address, len, true)?;
        self.tell_lanes::<T>(place, address, 0, LANES);
        let (region, at) = match place {
            Place::Global { index, at } => (self.world.global.region_mut(index), at),
            Place::Shared { at } => (&mut self.cta.shared, at),
        };
        let was_written =
            self.cta.races.as_deref().is_some_and(Races::is_unsettled) && region.is_written(at, len);
        let (chunks, _) = region.view_mut(at, len)?.as_chunks_mut::<T>();
        let chunk = chunks.first_chunk_mut()?;
        let before = was_written.then_some(*chunk);
        give(chunk, &self.r.w, &self.r.d);
        if let Some(races) = &self.cta.races {
            races.settle_store(|| before.as_ref() != Some(chunk));
        }
        region.mark(at, len);
        if matches!(place, Place::Global { .. }) {
            self.world.global.sums.written(address, len);
        }
        Some(())
    }

    /// Writes `T` bytes for each masked lane if these are few runs that do not overlap; `None`, and nothing written, if anything is
    /// unusual.
    #[inline(always)]
    pub(crate) fn write_pieces<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
        bytes: &[[u8; T]; LANES],
    ) -> Option<()> {
        if self.strong.is_some() || self.unmarks.is_some() || space == Space::Local {
            return None;
        }
        let (pieces, count) = pieces::<T>(self.world.path, &self.r.d[slot as usize], self.mask)?;
        let pieces = pieces.get(..count)?;
        let mut found = [(0, Place::Shared { at: 0 }); PIECES];
        for (n, piece) in pieces.iter().enumerate() {
            let address = self.r.d[slot as usize][piece.first].wrapping_add(offset);
            let place = self.run_place::<T>(space, address, piece.count)?;
            let global = matches!(place, Place::Global { .. });
            if !piece.is_run || global && !self.world.maps.is_empty() || self.region(place).is_lent() {
                return None;
            }
            for (earlier, (other, _)) in pieces.iter().zip(found).take(n) {
                let clear = address.wrapping_sub(other) >= (earlier.count * T) as u64
                    && other.wrapping_sub(address) >= (piece.count * T) as u64;
                if !clear {
                    return None;
                }
            }
            found[n] = (address, place);
        }
        for (piece, (address, place)) in pieces.iter().zip(found) {
            self.note_run(place, address, piece.count * T, true)?;
        }
        if let Some(races) = &self.cta.races {
            let changes = |(piece, (_, place)): (&Piece, (u64, Place))| {
                let new = bytes[piece.first..piece.first + piece.count].as_flattened();
                self.region(place).changes(place.at(), new)
            };
            races.settle_store(|| pieces.iter().zip(found).any(changes));
        }
        for (piece, (address, place)) in pieces.iter().zip(found) {
            self.tell_lanes::<T>(place, address, piece.first, piece.count);
            let region = match place {
                Place::Global { index, .. } => self.world.global.region_mut(index),
                Place::Shared { .. } => &mut self.cta.shared,
            };
            region.put(place.at(), bytes[piece.first..piece.first + piece.count].as_flattened());
            if matches!(place, Place::Global { .. }) {
                self.world.global.sums.written(address, piece.count * T);
            }
        }
        Some(())
    }

    /// Reads `T` bytes for each masked lane, run by run; `None` if anything is unusual.
    #[inline(always)]
    pub(crate) fn read_runs<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
    ) -> Option<[[u8; T]; LANES]> {
        if self.strong.is_some() || T > MOST {
            return None;
        }
        let addresses = self.r.d[slot as usize];
        let mut out = [[0; T]; LANES];
        let mut left = self.mask;
        while left != 0 {
            let Run { first, end, last } = run::<T>(&addresses, left, true);
            let (address, len) = (addresses[first].wrapping_add(offset), last + T);
            let place = self.run_place::<T>(space, address, len / T)?;
            if self.world.check_init && !self.region(place).is_written(place.at(), len) {
                return None;
            }
            self.note_run(place, address, len, false)?;
            let bytes = self.region(place).view(place.at(), len)?;
            for lane in first..end {
                out[lane] =
                    *bytes.get(addresses[lane].wrapping_sub(addresses[first]) as usize..)?.first_chunk()?;
            }
            left &= !lanes_of(end);
        }
        Some(out)
    }

    /// Writes `T` bytes for each masked lane, run by run; `None` if anything is unusual, in which case some lanes have been
    /// written.
    #[inline(always)]
    pub(crate) fn write_runs<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
        bytes: &[[u8; T]; LANES],
    ) -> Option<()> {
        if self.strong.is_some() || self.unmarks.is_some() || T > MOST {
            return None;
        }
        let addresses = self.r.d[slot as usize];
        let mut left = self.mask;
        while left != 0 {
            let Run { first, end, .. } = run::<T>(&addresses, left, false);
            let count = end - first;
            let address = addresses[first].wrapping_add(offset);
            let place = self.run_place::<T>(space, address, count)?;
            if matches!(place, Place::Global { .. }) && !self.world.maps.is_empty() {
                return None;
            }
            self.note_run(place, address, count * T, true)?;
            self.tell_lanes::<T>(place, address, first, count);
            let region = match place {
                Place::Global { index, .. } => self.world.global.region_mut(index),
                Place::Shared { .. } => &mut self.cta.shared,
            };
            let bytes = bytes[first..end].as_flattened();
            if let Some(races) = &self.cta.races {
                races.settle_store(|| region.changes(place.at(), bytes));
            }
            if !region.put(place.at(), bytes) {
                return None;
            }
            if matches!(place, Place::Global { .. }) {
                self.world.global.sums.written(address, count * T);
            }
            left &= !lanes_of(end);
        }
        Some(())
    }

    #[inline(always)]
    pub(super) fn region(&self, place: Place) -> &Region {
        match place {
            Place::Global { index, .. } => self.world.global.region(index),
            Place::Shared { .. } => &self.cta.shared,
        }
    }

    /// Reports a store by `count` lanes to a run to the trackers that distinguish threads.
    #[inline(always)]
    pub(super) fn tell_lanes<const T: usize>(
        &mut self,
        place: Place,
        address: u64,
        first: usize,
        count: usize,
    ) {
        if let Some(drafts) = &mut self.cta.drafts {
            let start = match place {
                Place::Global { .. } => drafts.watches_global().then_some(address),
                Place::Shared { at } => Some(crate::copies::pending::shared_address(at)),
            };
            if let Some(start) = start {
                (0..count).for_each(|n| drafts.stored(start + (n * T) as u64, T, self.warp, first + n));
            }
        }
        if let Place::Shared { at } = place
            && self.cta.proxy.is_some()
        {
            for n in 0..count {
                self.cta.wrote(at + n * T, T, self.warp * 32 + (first + n) as u32);
            }
        }
    }
}

/// Maximum bytes per lane for which runs are searched: wider accesses are one run, or far apart.
const MOST: usize = 16;

/// Lanes `first` to `end` that access one run of bytes, and the distance from the first to the last access.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    first: usize,
    end: usize,
    last: usize,
}

/// The run that starts at the lowest lane of a non-empty mask. With `shared`, adjacent lanes may access the same bytes.
#[inline(always)]
fn run<const T: usize>(addresses: &[u64; LANES], mask: u32, shared: bool) -> Run {
    let first = mask.trailing_zeros() as usize % LANES;
    let (mut end, mut last) = (first + 1, 0);
    while end < LANES && mask >> end & 1 == 1 {
        let distance = addresses[end].wrapping_sub(addresses[first]);
        if distance == (last + T) as u64 {
            last += T;
        } else if !(shared && distance == last as u64) {
            break;
        }
        end += 1;
    }
    Run { first, end, last }
}

/// A mask of the lowest `count` lanes.
const fn lanes_of(count: usize) -> u32 {
    if count >= LANES { !0 } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_broadcasts_are_told_from_the_rest() {
        let path = Path::current();
        let run = std::array::from_fn(|i| 1 << 36 | (i * 4) as u64);
        assert_eq!(reach::<4>(path, &run), Reach::Run(1 << 36));
        assert_eq!(reach::<8>(path, &run), Reach::Halves([1 << 36, 1 << 36 | 64], 4));
        assert_eq!(super::run::<4>(&run, !0, false), Run { first: 0, end: LANES, last: 124 });
        assert_eq!(super::run::<4>(&run, 0b1011_1100, false), Run { first: 2, end: 6, last: 12 });
        assert_eq!(super::run::<8>(&run, 0b1100, false), Run { first: 2, end: 3, last: 0 });
        let pairs = std::array::from_fn(|i| 1 << 36 | (i / 2 * 4) as u64);
        assert_eq!(super::run::<4>(&pairs, !0, true), Run { first: 0, end: LANES, last: 60 });
        assert_eq!(super::run::<4>(&pairs, !0, false), Run { first: 0, end: 1, last: 0 });
        assert_eq!((lanes_of(1), lanes_of(31), lanes_of(32)), (1, !0 >> 1, !0));
        assert_eq!(reach::<4>(path, &[40; LANES]), Reach::Same(40));
        let mut last = run;
        last[31] += 4;
        assert_eq!(reach::<4>(path, &last), Reach::Apart);
        // Rows of a tile of 16 columns.
        let rows = |step| std::array::from_fn(|i| 1 << 36 | (i / 16 * 1024 + i % 16 * step) as u64);
        let halves = [1 << 36, 1 << 36 | 1024];
        assert_eq!(reach::<4>(path, &rows(0)), Reach::Halves(halves, 0));
        assert_eq!(reach::<4>(path, &rows(4)), Reach::Halves(halves, 4));
        assert_eq!(reach::<8>(path, &rows(4)), Reach::Halves(halves, 4));
        let mut descending = run;
        descending.reverse();
        assert_eq!(reach::<4>(path, &descending), Reach::Apart);
        for lane in 1..LANES {
            let mut other = rows(4);
            other[lane] ^= 4;
            assert_eq!(reach::<4>(path, &other), Reach::Apart, "{lane}");
        }
    }

    #[test]
    fn pieces_are_adjacent_lanes_that_access_a_run_or_the_same() {
        let found = |addresses: &[u64; LANES], mask| {
            let all = Path::available().into_iter().map(|path| super::pieces::<4>(path, addresses, mask));
            let mut all = all.map(|found| found.map(|(pieces, count)| pieces[..count].to_vec()));
            let first = all.next().unwrap();
            assert!(all.all(|other| other == first));
            first
        };
        let piece = |first, count, is_run| Piece { first, count, is_run };
        let run: [u64; LANES] = std::array::from_fn(|i| 1 << 36 | (i * 4) as u64);
        assert_eq!(found(&run, !0), Some(vec![piece(0, 32, true)]));
        assert_eq!(found(&run, 0xFF00), Some(vec![piece(8, 8, true)]));
        assert_eq!(found(&run, 0x8000_0101), Some([0, 8, 31].map(|first| piece(first, 1, true)).to_vec()));
        assert_eq!(found(&run, 0x5555), None);
        // The rows of a tile: half a warp reads one word, or a run.
        let halves = std::array::from_fn(|i| 1 << 36 | (i / 16 * 1024) as u64);
        assert_eq!(found(&halves, !0), Some(vec![piece(0, 16, false), piece(16, 16, false)]));
        let rows = std::array::from_fn(|i| 1 << 36 | (i % 16 * 4) as u64);
        assert_eq!(found(&rows, !0), Some(vec![piece(0, 16, true), piece(16, 16, true)]));
        let pairs = std::array::from_fn(|i| 1 << 36 | (i / 2 * 4) as u64);
        assert_eq!(found(&pairs, !0), None);
        assert_eq!(found(&pairs, 0xF), Some(vec![piece(0, 2, false), piece(2, 2, false)]));
    }
}
