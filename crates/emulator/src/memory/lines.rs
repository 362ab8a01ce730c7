//! Loads and stores of a whole warp, or of some of its lanes, at any addresses of one buffer or of shared memory: their words are
//! gathered by line, and a line's words are checked at once.
//!
//! Like [`spans`](super::spans), this raises no faults. Whatever is unusual is declined before memory changes, and the access is made
//! lane by lane, which finds the fault and its lane. What the race detector has recorded by then is recorded again, which changes nothing.

use pulp::NullaryFnOnce;

use crate::memory::spans::Place;
use crate::memory::window::GLOBAL_BASE;
use crate::rules::shadow::{LINE, WORD, WordsOfLine};
use crate::run::machine::{LANES, Machine, Space, World, lanes};

/// The lowest and the highest address of some lanes, and the bits in which any of them differs from the first.
struct Ends<'a> {
    addresses: &'a [u64; LANES],
    mask: u32,
}

impl NullaryFnOnce for Ends<'_> {
    type Output = (u64, u64, u64);

    #[inline(always)]
    fn call(self) -> (u64, u64, u64) {
        let Self { addresses, mask } = self;
        let first = addresses[mask.trailing_zeros() as usize % LANES];
        let (mut low, mut high, mut differences) = (first, first, 0);
        for (lane, address) in addresses.iter().enumerate() {
            let address = if mask >> lane & 1 == 1 { *address } else { first };
            low = if address < low { address } else { low };
            high = if address > high { address } else { high };
            differences |= address.wrapping_sub(first);
        }
        (low, high, differences)
    }
}

/// The words that a warp accesses.
struct Lines {
    place: Place,
    /// The lowest address, before the offset of the instruction, and the length up to the end of the highest access.
    low: u64,
    len: usize,
    /// By line of the buffer or of shared memory. A line may occur more than once.
    all: [WordsOfLine; LANES],
    count: usize,
}

impl Lines {
    fn words(&self) -> &[WordsOfLine] {
        &self.all[..self.count]
    }

    /// The bytes of a lane, counted from those of the lowest address.
    #[inline(always)]
    fn distance(&self, address: u64) -> usize {
        address.wrapping_sub(self.low) as usize
    }
}

/// Which trackers an access concerns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Load,
    Store,
}

impl Machine<'_> {
    /// The lines of the masked lanes' accesses of `T` bytes; `None` if they are not all aligned and in one place.
    #[inline(always)]
    fn lines<const T: usize>(&mut self, space: Space, slot: u32, offset: u64) -> Option<Lines> {
        if !T.is_multiple_of(WORD) || !LINE.is_multiple_of(T) || space == Space::Local || self.mask == 0 {
            return None;
        }
        let ends = Ends { addresses: &self.r.d[slot as usize], mask: self.mask };
        let (low, high, differences) = self.world.path.run(ends);
        if !differences.is_multiple_of(T as u64) || high - low >= 1 << 31 {
            return None;
        }
        let len = (high - low) as usize + T;
        let place = self.run_place::<T>(space, low.wrapping_add(offset), len / T)?;
        // Lines of the buffer are lines of the memory, but not of memory that the host lends.
        if place.at() % LINE != low.wrapping_add(offset) as usize % LINE {
            return None;
        }
        let mut lines = Lines { place, low, len, all: [WordsOfLine::default(); LANES], count: 0 };
        let mut last = WordsOfLine { line: u32::MAX, words: 0 };
        let addresses = &self.r.d[slot as usize];
        for lane in lanes(self.mask) {
            let at = place.at() + lines.distance(addresses[lane]);
            let (line, words) = ((at / LINE) as u32, (u32::MAX >> (32 - T / WORD)) << (at % LINE / WORD));
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
        Some(lines)
    }

    /// Reports the access to the trackers of memory; `None` if that finds a fault, or may.
    #[inline(always)]
    fn note_lines(&mut self, lines: &Lines, offset: u64, access: Access) -> Option<()> {
        let write = access == Access::Store;
        match lines.place {
            Place::Global { at, .. } => {
                let low = lines.low.wrapping_add(offset);
                let first = (low.checked_sub(GLOBAL_BASE)? as usize).checked_sub(at)? / LINE;
                self.world.touch_lines(low, (first, lines.words()), write);
                let Some(races) = &self.cta.races else { return Some(()) };
                let World { races: world, .. } = &mut *self.world;
                world.access_lines(races, (first, lines.words()), write, self.warp).then_some(())
            }
            Place::Shared { at } => {
                if self.cta.guarded.hit(at, lines.len, write) {
                    return None;
                }
                let Some(races) = &mut self.cta.races else { return Some(()) };
                races.shared_lines(lines.words(), write, self.warp).then_some(())
            }
        }
    }

    /// Reads `T` bytes for each masked lane; `None` if anything is unusual.
    #[inline(always)]
    pub(crate) fn read_lines<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
    ) -> Option<[[u8; T]; LANES]> {
        if self.strong.is_some() {
            return None;
        }
        let lines = self.lines::<T>(space, slot, offset)?;
        if self.world.check_init && !self.region(lines.place).lines_are_written(lines.words()) {
            return None;
        }
        self.note_lines(&lines, offset, Access::Load)?;
        let bytes = self.region(lines.place).view(lines.place.at(), lines.len)?;
        let mut out = [[0; T]; LANES];
        let addresses = &self.r.d[slot as usize];
        for lane in lanes(self.mask) {
            out[lane] = *bytes.get(lines.distance(addresses[lane])..)?.first_chunk()?;
        }
        Some(out)
    }

    /// Writes `T` bytes for each masked lane, in ascending order; `None`, and nothing written, if anything is unusual.
    #[inline(always)]
    pub(crate) fn write_lines<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
        bytes: &[[u8; T]; LANES],
    ) -> Option<()> {
        if self.strong.is_some() || self.unmarks.is_some() {
            return None;
        }
        let lines = self.lines::<T>(space, slot, offset)?;
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
                let distance = lines.distance(addresses[lane]);
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
            let changes = |lane: usize| region.changes(at + lines.distance(addresses[lane]), &bytes[lane]);
            races.settle_store(|| lanes(self.mask).any(changes));
        }
        let all = region.view_mut(at, lines.len)?;
        for lane in lanes(self.mask) {
            let from = lines.distance(addresses[lane]);
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
}
