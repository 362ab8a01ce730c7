//! The accesses that kernels execute most: a word of shared memory for each lane, and the rows of a tile.
//!
//! They do what [`spans`](super::spans) and [`lines`](super::lines) do for all spaces and sizes, in one function each, which is compiled
//! for the vector instructions of the machine as a whole: a row that reads a register waits if it was written in smaller parts than it reads.
//! Each declines before memory changes if anything is unusual, and the access is made by those. What the race detector has recorded by then
//! is recorded again, which changes nothing.

use pulp::NullaryFnOnce;

use crate::memory::spans::{HALF, Reach};
use crate::memory::window::{SHARED_START, SHARED_WINDOW};
use crate::rules::shadow::{LINE, OfLine, WORD, WordsOfLine};
use crate::run::machine::{LANES, Machine, lanes};

/// Bytes of a word in the bitmap of written bytes.
const BYTES: u64 = (1 << WORD) - 1;

/// The bytes that half a warp reads if its lanes read neighbours.
const HALF_RUN: usize = HALF * WORD;

/// Loads the word at each lane's address plus an offset into a 32-bit register, and logs it; `None`, and nothing done, if anything is
/// unusual, or if the halves of the warp do not read a run, or one word, of a line each.
pub(crate) struct LoadByPattern<'a, 'm> {
    pub(crate) m: &'a mut Machine<'m>,
    pub(crate) reach: Reach,
    pub(crate) offset: u64,
    pub(crate) to: u32,
}

impl NullaryFnOnce for LoadByPattern<'_, '_> {
    type Output = Option<()>;

    #[inline(always)]
    fn call(self) -> Option<()> {
        let Self { m, reach, offset, to } = self;
        m.load_by_pattern(reach, offset, to)
    }
}

/// Loads the word at each masked lane's address, in a slot, plus an offset into a 32-bit register; `None`, and nothing done, if anything is
/// unusual.
pub(crate) struct LoadWords<'a, 'm> {
    pub(crate) m: &'a mut Machine<'m>,
    pub(crate) slot: u32,
    pub(crate) offset: u64,
    pub(crate) to: u32,
}

impl NullaryFnOnce for LoadWords<'_, '_> {
    type Output = Option<()>;

    #[inline(always)]
    fn call(self) -> Option<()> {
        let Self { m, slot, offset, to } = self;
        let words: Words<FEW> = m.find_words::<WORD, FEW>((m.mask, slot), offset, false)?;
        m.note_load(&words)?;
        let data = m.cta.shared.data.get(words.low as usize..words.end)?;
        let register: &mut [u32; LANES] = &mut m.r.w[to as usize];
        let mut read = [0; LANES];
        for (word, place) in read.iter_mut().zip(words.places) {
            *word = u32::from_le_bytes(*data.get((place - words.low) as usize..)?.first_chunk()?);
        }
        for (lane, (to, word)) in register.iter_mut().zip(read).enumerate() {
            *to = if m.mask >> lane & 1 == 1 { word } else { *to };
        }
        Some(())
    }
}

/// Stores a 32-bit register to the word at each masked lane's address, in a slot, plus an offset; `None`, and nothing stored, if anything
/// is unusual, or if lanes store to one word.
pub(crate) struct StoreWords<'a, 'm> {
    pub(crate) m: &'a mut Machine<'m>,
    pub(crate) slot: u32,
    pub(crate) offset: u64,
    pub(crate) from: u32,
}

impl NullaryFnOnce for StoreWords<'_, '_> {
    type Output = Option<()>;

    #[inline(always)]
    fn call(self) -> Option<()> {
        let Self { m, slot, offset, from } = self;
        // Those trackers distinguish threads.
        if m.cta.drafts.is_some() || m.cta.proxy.is_some() {
            return None;
        }
        let words: Words<FEW> = m.find_words::<WORD, FEW>((m.mask, slot), offset, true)?;
        let distinct: u32 = words.lines().iter().map(|of| of.words.count_ones()).sum();
        if distinct != m.mask.count_ones() || m.cta.shared.data.len() < words.end {
            return None;
        }
        m.note_shared_words(words.lines(), true)?;
        let register = m.r.w[from as usize];
        let places = || lanes(m.mask).map(|lane| (words.places[lane] as usize, register[lane].to_le_bytes()));
        if let Some(races) = &m.cta.races {
            races.settle_store(|| places().any(|(at, bytes)| m.cta.shared.changes(at, &bytes)));
        }
        for (at, bytes) in places() {
            if let Some(word) = m.cta.shared.data.get_mut(at..at + WORD) {
                word.copy_from_slice(&bytes);
            }
        }
        m.cta.shared.mark_lines(words.lines());
        Some(())
    }
}

/// Bytes of a row of a tile.
pub(crate) const ROW: usize = 16;

/// Loads the rows at the addresses of the first `count` lanes, in a slot, plus an offset; `None`, and nothing loaded, if anything is unusual.
pub(crate) struct LoadTile<'a, 'm> {
    pub(crate) m: &'a mut Machine<'m>,
    pub(crate) slot: u32,
    pub(crate) offset: u64,
    pub(crate) count: usize,
    pub(crate) rows: &'a mut [[u8; ROW]; LANES],
}

impl NullaryFnOnce for LoadTile<'_, '_> {
    type Output = Option<()>;

    #[inline(always)]
    fn call(self) -> Option<()> {
        let Self { m, slot, offset, count, rows } = self;
        let mask = u32::MAX >> (LANES - count.clamp(1, LANES));
        let words: Words<LANES> = m.find_words::<ROW, LANES>((mask, slot), offset, false)?;
        m.note_load(&words)?;
        let data = m.cta.shared.data.get(words.low as usize..words.end)?;
        for (row, place) in rows.iter_mut().zip(words.places).take(count) {
            *row = *data.get((place - words.low) as usize..)?.first_chunk()?;
        }
        Some(())
    }
}

/// The most adjacent lines of which each is compared with all lanes.
const FEW: usize = 8;

/// The words of shared memory that some lanes access, in at most `N` lines.
struct Words<const N: usize> {
    /// By lane, its place; one of the others for lanes that take no part.
    places: [u32; LANES],
    /// The lowest place, and the end of the highest access.
    low: u32,
    end: usize,
    all: [WordsOfLine; N],
    count: usize,
}

impl<const N: usize> Words<N> {
    fn lines(&self) -> &[WordsOfLine] {
        &self.all[..self.count]
    }

    /// Adds words of a line, if there is room.
    #[inline(always)]
    fn add(&mut self, of: WordsOfLine) -> Option<()> {
        match self.all[..self.count].iter_mut().rev().find(|known| known.line == of.line) {
            Some(known) => known.words |= of.words,
            None => {
                *self.all.get_mut(self.count)? = of;
                self.count += 1;
            }
        }
        Some(())
    }
}

impl Machine<'_> {
    /// Whether an access is to be made step by step: a strong one, one whose lanes are recorded, one to the memory of a cluster.
    #[inline(always)]
    fn is_unusual(&self) -> bool {
        self.strong.is_some()
            || self.unmarks.is_some()
            || self.world.watchpoints.is_some()
            || self.cta.member.size() > 1
    }

    /// The words of accesses of `T` bytes at some lanes' addresses, in a slot, plus an offset; `None` if anything is unusual.
    #[inline(always)]
    fn find_words<const T: usize, const N: usize>(
        &self,
        (mask, slot): (u32, u32),
        offset: u64,
        write: bool,
    ) -> Option<Words<N>> {
        let addresses = &self.r.d[slot as usize];
        if mask == 0 || self.is_unusual() {
            return None;
        }
        let offset = offset.wrapping_sub(u64::from(SHARED_START));
        let first = addresses[mask.trailing_zeros() as usize % LANES];
        let (mut places, mut bits, mut high, mut low) = ([0; LANES], 0, 0, u32::MAX);
        for lane in 0..LANES {
            let active = 0_u64.wrapping_sub(u64::from(mask >> lane & 1));
            let place = (addresses[lane] & active | first & !active).wrapping_add(offset);
            bits |= place;
            places[lane] = place as u32;
        }
        for place in places {
            low = if place < low { place } else { low };
            high = if place > high { place } else { high };
        }
        let end = u64::from(high) + T as u64;
        if bits >> 32 != 0 || bits % T as u64 != 0 || end > self.cta.shared_end as u64 {
            return None;
        }
        let (at, end, gap) = (low as usize, end as usize, &self.cta.gap);
        let span = high as usize / LINE - at / LINE + 1;
        let in_gap = !gap.is_empty() && at < gap.end && gap.start < end;
        if N == FEW && span > FEW || in_gap || self.cta.guarded.hit(at, end - at, write) {
            return None;
        }
        // An aligned access lies in one line.
        let words_at = |place: u32| (u32::MAX >> (32 - T / WORD)) << (place / WORD as u32 % 32);
        let mut words = Words { places, low, end, all: [WordsOfLine::default(); N], count: 0 };
        if span > FEW {
            for lane in lanes(mask) {
                let place = places[lane];
                words.add(WordsOfLine { line: place / LINE as u32, words: words_at(place) })?;
            }
            return Some(words);
        }
        for n in 0..span as u32 {
            let line = low / LINE as u32 + n;
            let mut bits = 0;
            for (lane, place) in places.iter().enumerate() {
                let there = (place / LINE as u32 == line) & (mask >> lane & 1 == 1);
                bits |= if there { words_at(*place) } else { 0 };
            }
            words.all[words.count % N] = WordsOfLine { line, words: bits };
            words.count += usize::from(bits != 0);
        }
        Some(words)
    }

    /// Reports an access to the race detector; `None` if that finds a fault, or may.
    #[inline(always)]
    fn note_shared_words(&mut self, lines: &[WordsOfLine], write: bool) -> Option<()> {
        let Some(races) = &mut self.cta.races else { return Some(()) };
        races.shared_lines(self.world.path, lines, write, self.warp).then_some(())
    }

    /// [`Machine::note_shared_words`] of a load of words that have been written; `None` if some have not.
    #[inline(always)]
    fn note_load<const N: usize>(&mut self, words: &Words<N>) -> Option<()> {
        let shared = &self.cta.shared;
        let written = |of: &WordsOfLine| {
            let (bytes, n) = (of.bytes(), 2 * of.line as usize);
            shared.has_written(n, bytes as u64) && shared.has_written(n + 1, (bytes >> 64) as u64)
        };
        if self.world.check_init && !words.lines().iter().all(written) {
            return None;
        }
        self.note_shared_words(words.lines(), false)
    }

    #[inline(always)]
    fn load_by_pattern(&mut self, reach: Reach, offset: u64, to: u32) -> Option<()> {
        if self.mask != !0 || self.is_unusual() {
            return None;
        }
        let (first, step) = match reach {
            Reach::Run(first) => ([first, first.wrapping_add(HALF_RUN as u64)], WORD as u64),
            Reach::Same(first) => ([first; 2], 0),
            Reach::Halves(first, step) if step == 0 || step == WORD as u64 => (first, step),
            _ => return None,
        };
        let (len, words, bytes) = if step == 0 { (WORD, 1, BYTES) } else { (HALF_RUN, 0xFFFF, !0) };
        let places = first.map(|at| at.wrapping_add(offset).wrapping_sub(u64::from(SHARED_START)));
        let both = (places[0] | places[1]) as usize;
        let end = self.cta.shared_end.checked_sub(len)?;
        // A word, or half a line, lies in one line if its address is a multiple of its size.
        if !both.is_multiple_of(len) || places[0] > end as u64 || places[1] > end as u64 {
            return None;
        }
        let places = places.map(|at| at as usize);
        let gap = &self.cta.gap;
        for at in places {
            if !gap.is_empty() && at < gap.end && gap.start < at + len || self.cta.guarded.hit(at, len, false)
            {
                return None;
            }
        }
        let shared = &self.cta.shared;
        let [one, two] = places;
        if self.world.check_init
            && !(shared.has_written(one / 64, bytes << (one % 64))
                && shared.has_written(two / 64, bytes << (two % 64)))
        {
            return None;
        }
        if let Some(races) = &mut self.cta.races {
            let path = self.world.path;
            let [first_words, second_words] = places.map(|at| words << (at % LINE / WORD));
            let ordered = if step == 0 {
                races.shared_word(path, places, self.warp)
            } else if one / LINE == two / LINE {
                races.shared_words(path, (one / LINE, first_words | second_words), false, self.warp)
            } else {
                races.shared_words(path, (one / LINE, first_words), false, self.warp)
                    && races.shared_words(path, (two / LINE, second_words), false, self.warp)
            };
            if !ordered {
                return None;
            }
            let logged = first.map(|at| at.wrapping_add(offset).wrapping_add(SHARED_WINDOW));
            races.lane_log(self.warp).push_even_load(logged, step, (WORD as u32, self.pc));
        }
        let halves = places.map(|at| self.cta.shared.data.get(at..at + len));
        let register: &mut [u32; LANES] = &mut self.r.w[to as usize];
        let (to, _) = register.as_chunks_mut::<HALF>();
        for (to, from) in to.iter_mut().zip(halves) {
            let (from, _) = from?.as_chunks::<WORD>();
            match from.first_chunk::<HALF>() {
                Some(run) => *to = run.map(u32::from_le_bytes),
                None => *to = [u32::from_le_bytes(*from.first()?); HALF],
            }
        }
        Some(())
    }
}
