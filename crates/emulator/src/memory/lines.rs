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

/// The addresses of some lanes.
struct Addresses<'a> {
    of: &'a [u64; LANES],
    mask: u32,
}

/// Where lanes access memory.
struct Offsets {
    /// The lowest address, and the distance to the highest one.
    low: u64,
    span: u64,
    /// The bits in which an address differs from the lowest one.
    differences: u64,
    /// By lane, the distance from the lowest address; 0 for lanes that do not take part. Wrong if the span has more than 32 bits.
    by_lane: [u32; LANES],
}

impl NullaryFnOnce for Addresses<'_> {
    type Output = Offsets;

    #[inline(always)]
    fn call(self) -> Offsets {
        let Self { of, mask } = self;
        let first = of[mask.trailing_zeros() as usize % LANES];
        let (mut low, mut high) = (first, first);
        let mut active = [first; LANES];
        for lane in 0..LANES {
            active[lane] = if mask >> lane & 1 == 1 { of[lane] } else { first };
        }
        for address in active {
            low = if address < low { address } else { low };
            high = if address > high { address } else { high };
        }
        let (mut differences, mut by_lane) = (0, [0; LANES]);
        for lane in 0..LANES {
            let offset = active[lane].wrapping_sub(low);
            differences |= offset;
            by_lane[lane] = if mask >> lane & 1 == 1 { offset as u32 } else { 0 };
        }
        Offsets { low, span: high - low, differences, by_lane }
    }
}

/// The words that a warp accesses.
struct Lines {
    place: Place,
    /// The lowest address, before the offset of the instruction, and the length up to the end of the highest access.
    low: u64,
    len: usize,
    /// By lane, the distance from the lowest address; 0 for lanes that do not take part.
    by_lane: [u32; LANES],
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
        if self.mask == 0 {
            return None;
        }
        let Offsets { low, span, differences, by_lane } =
            self.world.path.run(Addresses { of: &self.r.d[slot as usize], mask: self.mask });
        if !differences.is_multiple_of(T as u64) || span >> 31 != 0 {
            return None;
        }
        let len = span as usize + T;
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
        let mut lines =
            Lines { place, low, len, by_lane, first, all: [WordsOfLine::default(); LANES], count: 0 };
        let mut last = WordsOfLine { line: place.at() / LINE, words: 0 };
        for (lane, offset) in by_lane.iter().enumerate() {
            let at = place.at() + *offset as usize;
            let words = (!0 >> (32 - T / WORD)) << (at % LINE / WORD);
            let words = if self.mask >> lane & 1 == 1 { words } else { 0 };
            if at / LINE == last.line || words == 0 {
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
        let mut out = [[0; T]; LANES];
        for (out, offset) in out.iter_mut().zip(lines.by_lane) {
            *out = *bytes.get(offset as usize..)?.first_chunk()?;
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
                let from_low = lines.by_lane[lane] as usize;
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
            let changes = |lane: usize| region.changes(at + lines.by_lane[lane] as usize, &bytes[lane]);
            races.settle_store(|| lanes(self.mask).any(changes));
        }
        let all = region.view_mut(at, lines.len)?;
        for lane in lanes(self.mask) {
            let from = lines.by_lane[lane] as usize;
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
