//! Loads and stores of a whole warp, or of some of its lanes, at any addresses of one buffer or of shared memory: their words are
//! gathered by line, and a line's words are checked at once.
//!
//! Like [`spans`](super::spans), this raises no faults. Whatever is unusual is declined before memory changes, and the access is made
//! lane by lane, which finds the fault and its lane. What the race detector has recorded by then is recorded again, which changes nothing.

use pulp::NullaryFnOnce;

use crate::memory::spans::{HALF, Place, Reach};
use crate::memory::window::GLOBAL_BASE;
use crate::rules::order::{Scope, Strong};
use crate::rules::shadow::{BytesOfLine, LINE, WORD, WordsOfLine};
use crate::run::machine::{LANES, Machine, Space, World, lanes};
use crate::run::touched::Kind;

/// The distances of the addresses of some lanes from that of the first of them.
struct FromFirst<'a> {
    addresses: &'a [u64; LANES],
    mask: u32,
}

/// What [`FromFirst`] finds.
struct Found {
    /// 0 for inactive lanes.
    distances: [i32; LANES],
    low: i32,
    high: i32,
    /// The bits in which any distance differs from 0.
    bits: u64,
    /// Whether a distance is 2^29 bytes or more.
    far: bool,
}

impl NullaryFnOnce for FromFirst<'_> {
    type Output = Found;

    #[inline(always)]
    fn call(self) -> Found {
        /// All distances that remain are within this of 0.
        const FAR: u64 = 1 << 29;
        let Self { addresses, mask } = self;
        let first = addresses[mask.trailing_zeros() as usize % LANES];
        let mut distances = [0; LANES];
        let (mut bits, mut beyond) = (0, 0);
        for lane in 0..LANES {
            let active = 0_u64.wrapping_sub(u64::from(mask >> lane & 1));
            let distance = addresses[lane].wrapping_sub(first) & active;
            bits |= distance;
            beyond |= distance.wrapping_add(FAR) >> 30;
            distances[lane] = distance as u32 as i32;
        }
        let (mut low, mut high) = (0, 0);
        for distance in distances {
            low = if distance < low { distance } else { low };
            high = if distance > high { distance } else { high };
        }
        Found { distances, low, high, bits, far: beyond != 0 }
    }
}

/// The words of each of some adjacent lines that lanes access.
struct WordsByLine<'a, const T: usize> {
    /// By lane, the place of its access, counted from the start of the first line.
    places: &'a [u32; LANES],
    mask: u32,
    /// The first line.
    first: u32,
    all: &'a mut [WordsOfLine],
}

/// The words of an access of `T` bytes at a word of a line.
#[inline(always)]
const fn words_at<const T: usize>(place: u32) -> u32 {
    (u32::MAX >> (32 - T / WORD)) << (place / WORD as u32 % 32)
}

impl<const T: usize> NullaryFnOnce for WordsByLine<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (n, of) in (0..).zip(self.all) {
            let mut words = 0;
            for (lane, place) in self.places.iter().enumerate() {
                let there = (place / LINE as u32 == n) & (self.mask >> lane & 1 == 1);
                words |= if there { words_at::<T>(*place) } else { 0 };
            }
            *of = WordsOfLine { line: self.first + n, words };
        }
    }
}

/// The number of adjacent lines up to which each is compared with all lanes at once.
const FEW: usize = 8;

/// The words that a warp accesses.
struct Lines {
    place: Place,
    /// The lowest address, before the offset of the instruction, and the length up to the end of the highest access.
    low: u64,
    len: usize,
    /// By lane, the bytes from the lowest address.
    from_low: [u32; LANES],
    /// By line of the buffer or of shared memory. A line may occur more than once.
    all: [WordsOfLine; LANES],
    count: usize,
}

impl Lines {
    /// Lines to be found.
    #[inline(always)]
    const fn new() -> Self {
        Self {
            place: Place::Shared { at: 0 },
            low: 0,
            len: 0,
            from_low: [0; LANES],
            all: [WordsOfLine { line: 0, words: 0 }; LANES],
            count: 0,
        }
    }

    fn words(&self) -> &[WordsOfLine] {
        &self.all[..self.count]
    }
}

/// Accesses to parts of words.
struct Parts {
    /// The lowest one.
    place: Place,
    /// Up to the end of the highest one.
    len: usize,
    /// By lane, the offset in the allocation or in shared memory.
    places: [usize; LANES],
    /// Their bytes by line of the allocation or of shared memory. A line may occur more than once.
    all: [BytesOfLine; LANES],
    count: usize,
}

impl Parts {
    fn bytes(&self) -> &[BytesOfLine] {
        &self.all[..self.count]
    }
}

/// Which trackers an access concerns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Load,
    Store,
}

impl Machine<'_> {
    /// Finds the lines of the masked lanes' accesses of `T` bytes; `None` if they are not all aligned and in one place.
    #[inline(always)]
    fn find_lines<const T: usize>(
        &mut self,
        space: Space,
        (slot, reach): (u32, Reach),
        offset: u64,
        lines: &mut Lines,
    ) -> Option<()> {
        if !T.is_multiple_of(WORD) || !LINE.is_multiple_of(T) || space == Space::Local || self.mask == 0 {
            return None;
        }
        if T == WORD && self.find_run(space, reach, offset, lines).is_some() {
            return Some(());
        }
        let addresses = &self.r.d[slot as usize];
        let Found { distances, low, high, bits, far } =
            self.world.path.run(FromFirst { addresses, mask: self.mask });
        if far || !bits.is_multiple_of(T as u64) {
            return None;
        }
        let first = addresses[self.mask.trailing_zeros() as usize % LANES];
        let lowest = first.wrapping_add_signed(low.into());
        let len = (high - low) as usize + T;
        let place = self.run_place::<T>(space, lowest.wrapping_add(offset), len / T)?;
        let start = place.at() % LINE;
        // Lines of the buffer are lines of the memory, but not of memory that the host lends.
        if start != lowest.wrapping_add(offset) as usize % LINE {
            return None;
        }
        (lines.place, lines.low, lines.len, lines.count) = (place, lowest, len, 0);
        let mut places = [0; LANES];
        for lane in 0..LANES {
            lines.from_low[lane] = distances[lane].wrapping_sub(low).cast_unsigned();
            places[lane] = lines.from_low[lane].wrapping_add(start as u32);
        }
        let first = u32::try_from(place.at() / LINE).ok()?;
        let span = (start + len).div_ceil(LINE);
        if span <= FEW {
            let all = &mut lines.all[..span];
            self.world.path.run(WordsByLine::<T> { places: &places, mask: self.mask, first, all });
            for n in 0..span {
                let of = lines.all[n];
                lines.all[lines.count] = of;
                lines.count += usize::from(of.words != 0);
            }
            return Some(());
        }
        let mut last = WordsOfLine { line: u32::MAX, words: 0 };
        for lane in lanes(self.mask) {
            let (line, words) = (first + places[lane] / LINE as u32, words_at::<T>(places[lane]));
            if line == last.line {
                last.words |= words;
                continue;
            }
            if last.words != 0 {
                lines.all[lines.count] = last;
                lines.count += 1;
            }
            last = WordsOfLine { line, words };
        }
        lines.all[lines.count] = last;
        lines.count += 1;
        Some(())
    }

    /// [`Machine::find_lines`] of one word, of those that some lanes of a run access, or of a run in each half of the warp.
    #[inline(always)]
    fn find_run(&mut self, space: Space, reach: Reach, offset: u64, lines: &mut Lines) -> Option<()> {
        let mask = self.mask;
        let halves = match reach {
            Reach::Same(address) => {
                let place = self.run_place::<WORD>(space, address.wrapping_add(offset), 1)?;
                if place.at() % LINE != address.wrapping_add(offset) as usize % LINE {
                    return None;
                }
                let line = u32::try_from(place.at() / LINE).ok()?;
                (lines.place, lines.low, lines.len, lines.count) = (place, address, WORD, 1);
                lines.all[0] = WordsOfLine { line, words: words_at::<WORD>((place.at() % LINE) as u32) };
                lines.from_low = [0; LANES];
                return Some(());
            }
            Reach::Run(first) => [first, first.wrapping_add((HALF * WORD) as u64)],
            Reach::Halves(first, step) if step == WORD as u64 => first,
            _ => return None,
        };
        // By half, the lanes that take part, and the address of the first of them.
        let lanes = [mask & 0xFFFF, mask >> HALF];
        let firsts =
            [0, 1].map(|n| halves[n].wrapping_add(u64::from(lanes[n].trailing_zeros()) * WORD as u64));
        let ends = [0, 1].map(|n| {
            let end = u64::from(u32::BITS - lanes[n].leading_zeros()) * WORD as u64;
            halves[n].wrapping_add(end)
        });
        let (low, high) = match lanes {
            [_, 0] => (firsts[0], ends[0]),
            [0, _] => (firsts[1], ends[1]),
            _ => (firsts[0].min(firsts[1]), ends[0].max(ends[1])),
        };
        let len = high.wrapping_sub(low) as usize;
        let place = self.run_place::<WORD>(space, low.wrapping_add(offset), len / WORD)?;
        let start = place.at() % LINE;
        if start != low.wrapping_add(offset) as usize % LINE || !len.is_multiple_of(WORD) {
            return None;
        }
        (lines.place, lines.low, lines.len, lines.count) = (place, low, len, 0);
        let first = place.at() / LINE;
        // The lower half first, so that lines that both access come together.
        for n in if halves[0] <= halves[1] { [0, 1] } else { [1, 0] } {
            if lanes[n] == 0 {
                continue;
            }
            let at = start.wrapping_add(halves[n].wrapping_sub(low) as usize);
            // The first lane of the half may lie before the first line.
            let (line, word) =
                ((at as isize).div_euclid(LINE as isize), (at as isize).rem_euclid(LINE as isize));
            let words = u64::from(lanes[n]) << (word as usize / WORD);
            for (line, words) in [(line, words as u32), (line + 1, (words >> 32) as u32)] {
                if words == 0 {
                    continue;
                }
                let line = u32::try_from(first.checked_add_signed(line)?).ok()?;
                match usize::checked_sub(lines.count, 1).and_then(|last| lines.all.get_mut(last)) {
                    Some(last) if last.line == line => last.words |= words,
                    _ => {
                        lines.all[lines.count] = WordsOfLine { line, words };
                        lines.count += 1;
                    }
                }
            }
        }
        for (lane, to) in lines.from_low.iter_mut().enumerate() {
            let own = halves[lane / HALF].wrapping_sub(low) as u32;
            *to = own.wrapping_add((lane % HALF * WORD) as u32);
        }
        Some(())
    }

    /// Reports an access to words in `len` bytes at an address to the trackers of memory; `None` if that finds a fault, or may.
    #[inline(always)]
    pub(super) fn note_words(
        &mut self,
        (place, address, len): (Place, u64, usize),
        words: &[WordsOfLine],
        access: Access,
    ) -> Option<()> {
        let write = access == Access::Store;
        match place {
            Place::Global { index, at } => {
                if let Some(own) = self.world.touch_lines(index, words, Kind::weak(write), self.in_epoch()) {
                    self.met_apart(own);
                    return Some(());
                }
                let first = (address.checked_sub(GLOBAL_BASE)? as usize).checked_sub(at)? / LINE;
                let Some(races) = &self.cta.races else { return Some(()) };
                let World { races: world, .. } = &mut *self.world;
                world.access_lines(races, (first, words), write, self.warp).then_some(())
            }
            Place::Shared { at } => {
                if self.cta.guarded.hit(at, len, write) {
                    return None;
                }
                let Some(races) = &mut self.cta.races else { return Some(()) };
                races.shared_lines(self.world.path, words, write, self.warp).then_some(())
            }
        }
    }

    /// [`Machine::note_words`] of lines, which begin at an offset from their lowest address.
    #[inline(always)]
    fn note_lines(&mut self, lines: &Lines, offset: u64, access: Access) -> Option<()> {
        let at = (lines.place, lines.low.wrapping_add(offset), lines.len);
        self.note_words(at, lines.words(), access)
    }

    /// Reads the `T` bytes that every lane reads; `None` if anything is unusual.
    #[inline(always)]
    pub(super) fn read_same<const T: usize>(&mut self, space: Space, address: u64) -> Option<[u8; T]> {
        if !T.is_multiple_of(WORD) || !LINE.is_multiple_of(T) {
            return None;
        }
        let place = self.run_place::<T>(space, address, 1)?;
        // The memory of a cluster has one detector of races, which takes no lines.
        if matches!(place, Place::Shared { .. }) && self.cta.member.size() > 1 {
            return None;
        }
        let at = place.at();
        if at % LINE != address as usize % LINE {
            return None;
        }
        let words = [WordsOfLine { line: (at / LINE) as u32, words: words_at::<T>((at % LINE) as u32) }];
        if self.world.check_init && !self.region(place).is_written(at, T) {
            return None;
        }
        self.note_words((place, address, T), &words, Access::Load)?;
        self.region(place).view(at, T)?.first_chunk().copied()
    }

    /// The accesses of `T` bytes, less than a word, of the masked lanes; `None` if they are not all aligned and in one allocation or in shared
    /// memory, or if words matter to somebody: the race detector of global memory knows no part of one, nor does that of a cluster's memory.
    #[inline(always)]
    fn find_parts<const T: usize>(&mut self, space: Space, slot: u32, offset: u64) -> Option<Parts> {
        if T >= WORD || self.mask == 0 || self.strong.is_some() {
            return None;
        }
        let addresses = &self.r.d[slot as usize];
        let Found { distances, low, high, bits, far } =
            self.world.path.run(FromFirst { addresses, mask: self.mask });
        if far || !bits.is_multiple_of(T as u64) {
            return None;
        }
        let lowest = addresses[self.mask.trailing_zeros() as usize % LANES].wrapping_add_signed(low.into());
        let count = ((high - low) as usize + T) / T;
        let place = self.run_place::<T>(space, lowest.wrapping_add(offset), count)?;
        let known = match place {
            Place::Global { .. } => self.world.checks_apart(),
            Place::Shared { .. } => self.cta.member.size() == 1,
        };
        if !known {
            return None;
        }
        let places = distances.map(|distance| place.at() + distance.wrapping_sub(low) as usize);
        let all = [BytesOfLine { line: 0, bytes: 0 }; LANES];
        let mut parts = Parts { place, len: count * T, places, all, count: 0 };
        for lane in lanes(self.mask) {
            let place = places[lane];
            let line = u32::try_from(place / LINE).ok()?;
            let bytes = ((1u128 << T) - 1) << (place % LINE);
            match parts.count.checked_sub(1).and_then(|last| parts.all.get_mut(last)) {
                Some(last) if last.line == line => last.bytes |= bytes,
                _ => {
                    parts.all[parts.count] = BytesOfLine { line, bytes };
                    parts.count += 1;
                }
            }
        }
        Some(parts)
    }

    /// Reports an access to parts of words to the trackers of memory; `None` if that finds a fault, or may.
    #[inline(always)]
    fn note_parts(&mut self, parts: &Parts, access: Access) -> Option<()> {
        let write = access == Access::Store;
        match parts.place {
            Place::Global { index, .. } => {
                let kind = if write { Kind::Write } else { Kind::Read };
                let own = self.world.touch_lines(index, parts.bytes(), kind, self.in_epoch())?;
                self.met_apart(own);
                Some(())
            }
            Place::Shared { at } => {
                if self.cta.guarded.hit(at, parts.len, write) {
                    return None;
                }
                let Some(races) = &mut self.cta.races else { return Some(()) };
                races.shared_parts(parts.bytes(), write, self.warp).then_some(())
            }
        }
    }

    /// [`Machine::read_lines`] of parts of words.
    #[inline(always)]
    pub(crate) fn read_parts<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
    ) -> Option<[[u8; T]; LANES]> {
        let parts = self.find_parts::<T>(space, slot, offset)?;
        let mut out = [[0; T]; LANES];
        let region = self.region(parts.place);
        let unwritten = |lane: usize| !region.is_written(parts.places[lane], T);
        if self.world.check_init
            && !region.lines_are_written(parts.bytes())
            && lanes(self.mask).any(unwritten)
        {
            return None;
        }
        for lane in lanes(self.mask) {
            out[lane] = region.get::<T>(parts.places[lane])?;
        }
        self.note_parts(&parts, Access::Load)?;
        Some(out)
    }

    /// [`Machine::write_lines`] of parts of words.
    #[inline(always)]
    pub(crate) fn write_parts<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
        bytes: &[[u8; T]; LANES],
    ) -> Option<()> {
        if self.unmarks.is_some() || !self.world.maps.is_empty() || self.world.global.sums.tracked() {
            return None;
        }
        if self.cta.drafts.is_some() {
            return None;
        }
        let parts = self.find_parts::<T>(space, slot, offset)?;
        if matches!(parts.place, Place::Shared { .. }) && self.cta.proxy.is_some() {
            return None;
        }
        self.note_parts(&parts, Access::Store)?;
        let Parts { place, places, .. } = parts;
        let region = match place {
            Place::Global { index, .. } => self.world.global.region_mut(index),
            Place::Shared { .. } => &mut self.cta.shared,
        };
        if let Some(races) = &self.cta.races {
            races.settle_store(|| lanes(self.mask).any(|lane| region.changes(places[lane], &bytes[lane])));
        }
        for lane in lanes(self.mask) {
            region.put(places[lane], &bytes[lane]);
        }
        Some(())
    }

    /// Reads `T` bytes for each masked lane; `None` if anything is unusual.
    #[inline(always)]
    pub(crate) fn read_lines<const T: usize>(
        &mut self,
        space: Space,
        (slot, reach): (u32, Reach),
        offset: u64,
    ) -> Option<[[u8; T]; LANES]> {
        if self.strong.is_some() {
            return None;
        }
        let mut lines = Lines::new();
        self.find_lines::<T>(space, (slot, reach), offset, &mut lines)?;
        if self.world.check_init && !self.region(lines.place).lines_are_written(lines.words()) {
            return None;
        }
        self.note_lines(&lines, offset, Access::Load)?;
        let bytes = self.region(lines.place).view(lines.place.at(), lines.len)?;
        let mut out = [[0; T]; LANES];
        for lane in lanes(self.mask) {
            out[lane] = *bytes.get(lines.from_low[lane] as usize..)?.first_chunk()?;
        }
        Some(out)
    }

    /// Writes `T` bytes for each masked lane, in ascending order; `None`, and nothing written, if anything is unusual.
    #[inline(always)]
    pub(crate) fn write_lines<const T: usize>(
        &mut self,
        space: Space,
        (slot, reach): (u32, Reach),
        offset: u64,
        bytes: &[[u8; T]; LANES],
    ) -> Option<()> {
        if self.strong.is_some() || self.unmarks.is_some() {
            return None;
        }
        let mut lines = Lines::new();
        self.find_lines::<T>(space, (slot, reach), offset, &mut lines)?;
        let global = matches!(lines.place, Place::Global { .. });
        if global && !self.world.maps.is_empty() {
            return None;
        }
        // Bytes of the host may be taken only where they are written.
        let lent = self.region(lines.place).view(lines.place.at(), lines.len).is_none();
        if lent || self.region(lines.place).is_lent() {
            return None;
        }
        self.note_lines(&lines, offset, Access::Store)?;
        let addresses = self.r.d[slot as usize];
        if self.cta.drafts.is_some() || self.cta.proxy.is_some() {
            for lane in lanes(self.mask) {
                let distance = lines.from_low[lane] as usize;
                let own = match lines.place {
                    Place::Global { index, at } => Place::Global { index, at: at + distance },
                    Place::Shared { at } => Place::Shared { at: at + distance },
                };
                self.tell_lanes::<T>(own, addresses[lane].wrapping_add(offset), lane, 1);
            }
        }
        let at = lines.place.at();
        let region = match lines.place {
            Place::Global { index, .. } => self.world.global.region_mut(index),
            Place::Shared { .. } => &mut self.cta.shared,
        };
        if let Some(races) = &self.cta.races {
            let changes = |lane: usize| region.changes(at + lines.from_low[lane] as usize, &bytes[lane]);
            races.settle_store(|| lanes(self.mask).any(changes));
        }
        let all = region.view_mut(at, lines.len)?;
        for lane in lanes(self.mask) {
            let from = lines.from_low[lane] as usize;
            all.get_mut(from..from + T)?.copy_from_slice(&bytes[lane]);
        }
        region.mark_lines(lines.words());
        if global && self.world.global.sums.tracked() {
            for lane in lanes(self.mask) {
                self.world.global.sums.written(addresses[lane].wrapping_add(offset), T);
            }
        }
        Some(())
    }

    /// Replaces the `T` bytes at each masked lane's address, lane by lane in ascending order, by what `change` makes of a lane and of
    /// what is there; returns the latter. `None`, and nothing changed, if anything is unusual. The accesses are relaxed. Where they
    /// `commute`, their order changes nothing.
    #[inline(always)]
    pub(crate) fn modify_lines<const T: usize>(
        &mut self,
        space: Space,
        (slot, reach): (u32, Reach),
        offset: u64,
        (strong, commutes): (Strong, bool),
        change: impl Fn(usize, [u8; T]) -> [u8; T],
    ) -> Option<[[u8; T]; LANES]> {
        let mask = self.mask;
        if self.unmarks.is_some() || strong.order.acquires || strong.order.releases {
            return None;
        }
        if self.cta.member.size() > 1 || self.cta.drafts.is_some() || self.cta.proxy.is_some() {
            return None;
        }
        let mut lines = Lines::new();
        self.find_lines::<T>(space, (slot, reach), offset, &mut lines)?;
        let (global, at) = (matches!(lines.place, Place::Global { .. }), lines.place.at());
        if global && self.world.apart.is_some() && !self.world.checks_apart() {
            // Another cluster may observe it.
            self.world.communicate();
            return None;
        }
        let region = self.region(lines.place);
        if global && (!self.world.maps.is_empty() || self.world.global.sums.tracked() || region.is_lent())
            || !region.lines_are_written(lines.words())
            || !global
                && (self.cta.guarded.hit(at, lines.len, true) || self.cta.guarded.hit(at, lines.len, false))
        {
            return None;
        }
        let world = if global { Some(&self.world.races) } else { None };
        if self.cta.races.as_ref().is_some_and(|races| !races.releases_nothing(self.warp, world)) {
            return None;
        }
        // Nothing is changed before it can be restored.
        let apart = match lines.place {
            Place::Global { index, .. } => {
                self.world.touch_lines(index, lines.words(), Kind::Modify, self.in_epoch())
            }
            Place::Shared { .. } => None,
        };
        if apart.is_some() {
            let all = matches!(strong.order.scope, Scope::Gpu | Scope::Sys);
            if !all {
                self.world.communicate();
            } else if !commutes {
                self.world.order_matters();
            }
        }
        let mut held = [[0; T]; LANES];
        let mut changed = 0u32;
        let all = self.bytes_of(&lines)?;
        for lane in lanes(mask) {
            let place: &mut [u8; T] = all.get_mut(lines.from_low[lane] as usize..)?.first_chunk_mut()?;
            let new = change(lane, *place);
            held[lane] = *place;
            changed |= u32::from(*place != new) << lane;
            *place = new;
        }
        if self.note_modified::<T>(&lines, offset, strong, (changed, apart)).is_none() {
            let all = self.bytes_of(&lines)?;
            // The last one first, so that each word becomes what it was.
            for lane in lanes(mask.reverse_bits()).map(|lane| LANES - 1 - lane) {
                *all.get_mut(lines.from_low[lane] as usize..)?.first_chunk_mut()? = held[lane];
            }
            return None;
        }
        self.strong_rows += self.mask.count_ones();
        Some(held)
    }

    /// The bytes from the lowest to the highest access.
    #[inline(always)]
    fn bytes_of(&mut self, lines: &Lines) -> Option<&mut [u8]> {
        let region = match lines.place {
            Place::Global { index, .. } => self.world.global.region_mut(index),
            Place::Shared { .. } => &mut self.cta.shared,
        };
        region.view_mut(lines.place.at(), lines.len)
    }

    /// Reports read-modify-writes, of which some lanes' change memory, to the trackers. With `apart`, their conflicts have been looked for, and
    /// it says whether they may have met an access of their own warp.
    fn note_modified<const T: usize>(
        &mut self,
        lines: &Lines,
        offset: u64,
        strong: Strong,
        (changed, apart): (u32, Option<bool>),
    ) -> Option<()> {
        let address = lines.low.wrapping_add(offset);
        let first = match lines.place {
            Place::Global { at, .. } => (address.checked_sub(GLOBAL_BASE)? as usize).checked_sub(at)? / LINE,
            Place::Shared { .. } => 0,
        };
        if let Some(races) = &mut self.cta.races {
            // Which lane's change meets an earlier access of its warp matters only if such an access may conflict.
            let some = changed != 0 && changed != self.mask;
            if some && apart != Some(false) && races.lane_log(self.warp).last_may_conflict() {
                return None;
            }
            races.set_strong(Some(strong));
            let found = match lines.place {
                _ if apart.is_some() => apart,
                Place::Global { .. } => self.world.races.modify(races, (first, lines.words()), self.warp),
                Place::Shared { .. } => races.modify_shared(lines.words(), self.warp),
            };
            races.set_strong(None);
            // A lane may also change what an earlier one of this instruction has accessed.
            let words: u32 = lines.words().iter().map(|of| of.words.count_ones()).sum();
            let shares = (words as usize * WORD) < self.mask.count_ones() as usize * T;
            let changes = (found? || shares) && changed != 0;
            races.note_own_change(changes);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use crate::run::launch::{Launch, Options, launch};
    use crate::run::random::Random;
    use crate::{GlobalMemory, load};

    /// Stores its lane's number at a word, and loads what it finds there, in the lanes of a mask; each half of the warp begins at a place of its
    /// own. Loads go to a second buffer, and all of it runs in global and in shared memory.
    const KERNEL: &str = "\
        .version 8.8\n.target sm_120\n.address_size 64\n\
        .visible .entry k(.param .u64 to, .param .u64 out, .param .u32 mask, .param .u32 one, .param .u32 two) {\n\
        .reg .pred %p, %h;\n.reg .b32 %t, %m, %a, %b, %r, %s;\n.reg .b64 %to, %out, %g, %v, %w;\n\
        .shared .align 128 .b8 words[512];\n\
        ld.param.u64 %to, [to];\nld.param.u64 %out, [out];\nld.param.u32 %m, [mask];\n\
        ld.param.u32 %a, [one];\nld.param.u32 %b, [two];\nmov.u32 %t, %tid.x;\n\
        setp.lt.u32 %h, %t, 16;\nselp.b32 %a, %a, %b, %h;\nand.b32 %r, %t, 15;\nshl.b32 %r, %r, 2;\nadd.u32 %a, %a, %r;\n\
        cvt.u64.u32 %w, %a;\nadd.u64 %g, %to, %w;\nmov.u32 %s, words;\nadd.u32 %s, %s, %a;\ncvt.u64.u32 %v, %s;\n\
        shr.u32 %r, %m, %t;\nand.b32 %r, %r, 1;\nsetp.eq.u32 %p, %r, 1;\n\
        mov.u32 %r, 0;\nmov.u32 %b, 0;\n\
        @%p st.global.u32 [%g], %t;\n@%p st.shared.u32 [%v], %t;\n\
        @%p ld.global.u32 %r, [%g];\n@%p ld.shared.u32 %b, [%v];\n\
        mul.wide.u32 %w, %t, 8;\nadd.u64 %out, %out, %w;\nst.global.v2.u32 [%out], {%r, %b};\nret;\n}";

    fn words(bytes: &[u8]) -> Vec<u32> {
        bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }

    #[test]
    fn masked_runs_of_both_halves_reach_the_words_of_their_lanes_alone() {
        let program = load(KERNEL).unwrap();
        let mut random = Random(3);
        for round in 0..400 {
            let mask = match round % 4 {
                0 => !0 >> random.below(32),
                1 => !0 << random.below(32),
                _ => random.next() as u32,
            };
            // The halves do not overlap: which lane of a store remains would be open.
            let one = random.below(28);
            let two = one + 16 + random.below(128 - 32 - one + 1);
            let [one, two] = if random.below(2) == 0 { [one, two] } else { [two, one] };
            let mut memory = GlobalMemory::default();
            let (to, out) = (memory.allocate_with(vec![0xFF; 512]), memory.allocate_with(vec![0; 256]));
            let mut params = [to, out].map(u64::to_le_bytes).concat();
            params.extend([mask, 4 * one as u32, 4 * two as u32].map(u32::to_le_bytes).concat());
            let how = Launch { grid: [1; 3], block: [32, 1, 1], shared_bytes: 0, params };
            launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &Options::default()).unwrap();
            let (mut wanted, mut loaded) = (vec![u32::MAX; 128], vec![0; 64]);
            for lane in (0..32).filter(|lane| mask >> lane & 1 == 1) {
                wanted[[one, two][lane / 16] + lane % 16] = lane as u32;
                loaded[2 * lane..][..2].fill(lane as u32);
            }
            assert_eq!(words(memory.bytes(to).unwrap()), wanted, "{round}: {mask:#x} {one} {two}");
            assert_eq!(words(memory.bytes(out).unwrap()), loaded, "{round}: {mask:#x} {one} {two}");
        }
    }

    #[test]
    fn a_masked_run_is_checked_in_its_lanes_alone() {
        let program = load(KERNEL).unwrap();
        let ends = |mask: u32, one: u32, two: u32| {
            let mut memory = GlobalMemory::default();
            let (to, out) = (memory.allocate(512), memory.allocate(256));
            let mut params = [to, out].map(u64::to_le_bytes).concat();
            params.extend([mask, one, two].map(u32::to_le_bytes).concat());
            let how = Launch { grid: [1; 3], block: [32, 1, 1], shared_bytes: 0, params };
            launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &Options::default()).is_ok()
        };
        // The last lane of the second half lies behind the end, or the first of the first before an aligned word.
        assert!(
            ends(!0 >> 1, 0, 512 - 15 * 4) && !ends(!0, 0, 512 - 15 * 4) && !ends(1 << 31, 0, 512 - 15 * 4)
        );
        assert!(!ends(1 << 3, 2, 64) && ends(!0 << 16, 2, 64) && !ends(1 << 20, 0, 62));
    }
}
