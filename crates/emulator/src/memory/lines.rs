//! Loads and stores of a whole warp, or of some of its lanes, at any addresses of one buffer or of shared memory: their words are
//! gathered by line, and a line's words are checked at once.
//!
//! Like [`spans`](super::spans), this raises no faults. Whatever is unusual is declined before any visible change, and the access is
//! made lane by lane, which finds the fault and its lane.

use pulp::NullaryFnOnce;

use crate::memory::spans::Place;
use crate::memory::window::GLOBAL_BASE;
use crate::rules::shadow::{LINE, WORD, WordsOfLine};
use crate::run::machine::{LANES, Machine, Space, World, lanes};

/// The lowest and the highest address of some lanes, and the bits in which any of them differ from a multiple of a power of two apart.
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
    /// Number of the buffer's first line in memory, from [`GLOBAL_BASE`]; 0 in shared memory.
    first: usize,
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
    fn from_low(&self, address: u64) -> usize {
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
        if !T.is_multiple_of(WORD) || !LINE.is_multiple_of(T) || space == Space::Local {
            return None;
        }
        let addresses = self.r.d[slot as usize];
        let (low, high, differences) = self.world.path.run(Ends { addresses: &addresses, mask: self.mask });
        let len = usize::try_from(high - low).ok()?.checked_add(T)?;
        if !differences.is_multiple_of(T as u64) || self.mask == 0 || len > 1 << 40 {
            return None;
        }
        let place = self.run_place::<T>(space, low.wrapping_add(offset), len / T)?;
        let first = match place {
            Place::Global { at, .. } => {
                let begin = low.wrapping_add(offset).checked_sub(GLOBAL_BASE)? as usize - at;
                // Lines of the buffer are lines of the memory, but not of memory that the host lends.
                (begin.is_multiple_of(LINE)).then_some(begin / LINE)?
            }
            Place::Shared { .. } => 0,
        };
        if !place.at().is_multiple_of(T) {
            return None;
        }
        let mut lines = Lines { place, low, len, first, all: [WordsOfLine::default(); LANES], count: 0 };
        let mut last = WordsOfLine { line: usize::MAX, words: 0 };
        for lane in lanes(self.mask) {
            let at = place.at() + lines.from_low(addresses[lane]);
            let words = (!0 >> (32 - T / WORD)) << (at % LINE / WORD);
            if at / LINE == last.line {
                last.words |= words;
                continue;
            }
            if last.words != 0 {
                lines.all[lines.count] = last;
                lines.count += 1;
            }
            last = WordsOfLine { line: at / LINE, words };
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
            Place::Global { .. } => {
                let mut all = lines.all;
                all.iter_mut().for_each(|of| of.line += lines.first);
                let all = &all[..lines.count];
                self.world.touch_lines(lines.low.wrapping_add(offset), all, write);
                let Some(races) = &self.cta.races else { return Some(()) };
                let World { races: world, .. } = &mut *self.world;
                world.access_lines(races, all, write, self.warp).then_some(())
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
        let addresses = &self.r.d[slot as usize];
        let mut out = [[0; T]; LANES];
        for lane in lanes(self.mask) {
            out[lane] = *bytes.get(lines.from_low(addresses[lane])..)?.first_chunk()?;
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
                let from_low = lines.from_low(addresses[lane]);
                let place = match lines.place {
                    Place::Global { index, at } => Place::Global { index, at: at + from_low },
                    Place::Shared { at } => Place::Shared { at: at + from_low },
                };
                self.tell_lanes::<T>(place, addresses[lane].wrapping_add(offset), lane, 1);
            }
        }
        let at = lines.place.at();
        let region = match lines.place {
            Place::Global { index, .. } => self.world.global.region_mut(index),
            Place::Shared { .. } => &mut self.cta.shared,
        };
        if let Some(races) = &self.cta.races {
            let changes = |lane: usize| region.changes(at + lines.from_low(addresses[lane]), &bytes[lane]);
            races.settle_store(|| lanes(self.mask).any(changes));
        }
        let all = region.view_mut(at, lines.len)?;
        for lane in lanes(self.mask) {
            let from = lines.from_low(addresses[lane]);
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
