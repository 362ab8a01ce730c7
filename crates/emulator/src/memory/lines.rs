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

/// Where lanes access memory.
struct Lines {
    /// The lowest address, and the length up to the end of the highest access.
    low: u64,
    len: usize,
    /// By lane, the distance from the lowest address; 0 for lanes that do not take part.
    by_lane: [u32; LANES],
    /// The words by line, each line once. Lines are counted from that of the lowest address, and then from the begin of the buffer or of
    /// shared memory.
    all: [WordsOfLine; LANES],
    count: usize,
}

impl Lines {
    fn words(&self) -> &[WordsOfLine] {
        &self.all[..self.count]
    }
}

/// The accesses of some lanes to `T` bytes each, at addresses plus an offset.
struct Accesses<'a, const T: usize> {
    addresses: &'a [u64; LANES],
    offset: u64,
    mask: u32,
    lines: &'a mut Lines,
}

/// The bit of each lane.
const BITS: [u32; LANES] = {
    let mut bits = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        bits[lane] = 1 << lane;
        lane += 1;
    }
    bits
};

/// All ones or all zeros.
#[inline(always)]
fn all_if(condition: bool) -> u32 {
    0u32.wrapping_sub(u32::from(condition))
}

impl<const T: usize> NullaryFnOnce for Accesses<'_, T> {
    type Output = bool;

    /// Finds the lines; false if the accesses are not aligned, or far apart.
    ///
    /// Sums over lanes are kept in as many parts as a vector has elements, because the compiler does not divide them itself.
    #[inline(always)]
    fn call(self) -> bool {
        const PARTS: usize = 8;
        let Self { addresses, offset, mask, lines } = self;
        let first = addresses[mask.trailing_zeros() as usize % LANES];
        let mut active = [first; LANES];
        for lane in 0..LANES {
            active[lane] = if mask & BITS[lane] != 0 { addresses[lane] } else { first };
        }
        let (mut low, mut high) = ([first; PARTS], [first; PARTS]);
        for chunk in active.as_chunks::<PARTS>().0 {
            for n in 0..PARTS {
                low[n] = if chunk[n] < low[n] { chunk[n] } else { low[n] };
                high[n] = if chunk[n] > high[n] { chunk[n] } else { high[n] };
            }
        }
        let (low, high) = (low.into_iter().fold(first, u64::min), high.into_iter().fold(first, u64::max));
        lines.low = low.wrapping_add(offset);
        if high - low >= 1 << 31 {
            return false;
        }
        lines.len = (high - low) as usize + T;
        let in_line = lines.low as u32 % LINE as u32;
        let (mut line, mut words, mut differences) = ([0; LANES], [0; LANES], [0; 2 * PARTS]);
        for lane in 0..LANES {
            let distance = active[lane].wrapping_sub(low) as u32;
            lines.by_lane[lane] = if mask & BITS[lane] != 0 { distance } else { 0 };
        }
        for lane in 0..LANES {
            let at = in_line.wrapping_add(lines.by_lane[lane]);
            line[lane] = at / LINE as u32;
            let own = (u32::MAX >> (32 - T / WORD)) << (at % LINE as u32 / WORD as u32);
            words[lane] = if mask & BITS[lane] != 0 { own } else { 0 };
        }
        for chunk in lines.by_lane.as_chunks::<{ 2 * PARTS }>().0 {
            for n in 0..2 * PARTS {
                differences[n] |= chunk[n];
            }
        }
        let differences = differences.into_iter().fold(in_line, |all, part| all | part);
        if differences % T as u32 != 0 {
            return false;
        }
        let mut left = mask;
        lines.count = 0;
        while left != 0 {
            let this = line[left.trailing_zeros() as usize % LANES];
            let (mut all, mut here) = ([0; 2 * PARTS], [0; 2 * PARTS]);
            for from in [0, 2 * PARTS] {
                for n in 0..2 * PARTS {
                    let same = all_if(line[from + n] == this);
                    all[n] |= words[from + n] & same;
                    here[n] |= BITS[from + n] & same;
                }
            }
            let (words, here) = (all.into_iter().fold(0, |a, b| a | b), here.into_iter().fold(0, |a, b| a | b));
            left &= !here;
            lines.all[lines.count % LANES] = WordsOfLine { line: this, words };
            lines.count += 1;
        }
        true
    }
}

/// Which trackers an access concerns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Load,
    Store,
}

impl Machine<'_> {
    /// The lines of the masked lanes' accesses of `T` bytes and their place; `None` if they are not all aligned and in one place.
    #[inline(always)]
    fn lines<const T: usize>(&mut self, space: Space, slot: u32, offset: u64) -> Option<(Lines, Place)> {
        if !T.is_multiple_of(WORD) || !LINE.is_multiple_of(T) || space == Space::Local || self.mask == 0 {
            return None;
        }
        let mut lines =
            Lines { low: 0, len: 0, by_lane: [0; LANES], all: [WordsOfLine::default(); LANES], count: 0 };
        let addresses = &self.r.d[slot as usize];
        let accesses = Accesses::<T> { addresses, offset, mask: self.mask, lines: &mut lines };
        if !self.world.path.run(accesses) {
            return None;
        }
        let place = self.run_place::<T>(space, lines.low, lines.len / T)?;
        // Lines of the buffer are lines of the memory, but not of memory that the host lends.
        if place.at() % LINE != lines.low as usize % LINE {
            return None;
        }
        lines.all[..lines.count].iter_mut().for_each(|of| of.line += (place.at() / LINE) as u32);
        Some((lines, place))
    }

    /// Reports the access to the trackers of memory; `None` if that finds a fault, or may.
    #[inline(always)]
    fn note_lines(&mut self, lines: &Lines, place: Place, access: Access) -> Option<()> {
        let write = access == Access::Store;
        match place {
            Place::Global { at, .. } => {
                let first = (lines.low.checked_sub(GLOBAL_BASE)? as usize).checked_sub(at)? / LINE;
                self.world.touch_lines(lines.low, (first, lines.words()), write);
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
        let (lines, place) = self.lines::<T>(space, slot, offset)?;
        if self.world.check_init && !self.region(place).lines_are_written(lines.words()) {
            return None;
        }
        self.note_lines(&lines, place, Access::Load)?;
        let bytes = self.region(place).view(place.at(), lines.len)?;
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
        let (lines, place) = self.lines::<T>(space, slot, offset)?;
        let global = matches!(place, Place::Global { .. });
        if global && !self.world.maps.is_empty() {
            return None;
        }
        // Bytes of the host may be taken only where they are written.
        let lent = self.region(place).view(place.at(), lines.len).is_none();
        if lent || self.region(place).is_lent() {
            return None;
        }
        self.note_lines(&lines, place, Access::Store)?;
        let addresses = self.r.d[slot as usize];
        if self.cta.drafts.is_some() || self.cta.proxy.is_some() {
            for lane in lanes(self.mask) {
                let from_low = lines.by_lane[lane] as usize;
                let own = match place {
                    Place::Global { index, at } => Place::Global { index, at: at + from_low },
                    Place::Shared { at } => Place::Shared { at: at + from_low },
                };
                self.tell_lanes::<T>(own, addresses[lane].wrapping_add(offset), lane, 1);
            }
        }
        let at = place.at();
        let region = match place {
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
