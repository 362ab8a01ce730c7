//! What the bytes of a CTA's shared memory remember: per line one state, or else one per word, or else one per byte.
//!
//! The states of a line's words lie in arrays, one for each access that they remember ([`Accesses`]), so that a warp's access is checked
//! and recorded for all words of a line by vector instructions ([`Words::read`], [`Words::write`]). These know two bounds instead of a
//! clock ([`Bounds`]): whatever they cannot decide by them, and every race, is left to the definition ([`Accesses::step`]).

use numerics::Path;
use pulp::NullaryFnOnce;

use super::accesses::Accesses;
use super::clock::Clock;
use super::{Epoch, LAST};
use crate::rules::shadow::{LINE, Memory, WORD};
use crate::run::machine::lanes as bits;

/// Words of a line.
const WORDS: usize = LINE / WORD;

type Cell = Accesses<Epoch>;

/// The clocks of other warps that a warp knows, for accesses whose warp does not matter: those up to `low` it knows, those above `high` it
/// does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    low: u32,
    high: u32,
}

impl Bounds {
    /// Those of a warp with this clock, of a CTA with so many warps.
    pub(super) fn of_warp(warp: usize, clock: &Clock, warps: usize) -> Self {
        let (mut low, mut high) = (LAST, if warps > 1 { 0 } else { LAST });
        for (_, clock) in clock.iter().enumerate().take(warps).filter(|(other, _)| *other != warp) {
            low = low.min(*clock);
            high = high.max(*clock);
        }
        Self { low, high }
    }

    /// The greatest access of a clock, as a number.
    const fn most(clock: u32) -> u32 {
        clock << 7 | 0x7F
    }
}

/// The states of some words.
#[derive(Debug, Clone)]
struct Words {
    write: [u32; WORDS],
    reads: [[u32; WORDS]; 2],
}

/// What an access by a warp found that the bounds decide.
#[derive(Clone, Copy, Default)]
struct Found {
    /// Not 0 if they do not decide all.
    doubt: u32,
    /// Not 0 if the access conflicts with one of its own warp.
    own: u32,
}

/// All ones if a condition holds.
#[inline(always)]
fn when(condition: bool) -> u32 {
    0_u32.wrapping_sub(u32::from(condition))
}

/// All ones for an access of the same warp, where there is one.
#[inline(always)]
fn same_warp(one: u32, by: u32) -> u32 {
    when((one ^ by) & 31 == 0 && one != 0)
}

/// Bits of an access that is remembered as an earlier strong write in the place of a read.
const WROTE: u32 = 1 << 6;

/// A weak read of some words.
struct Read<'a> {
    words: &'a mut Words,
    mask: u32,
    by: u32,
    bounds: Bounds,
}

impl NullaryFnOnce for Read<'_> {
    type Output = Found;

    #[inline(always)]
    fn call(self) -> Found {
        let Self { words, mask, by, bounds } = self;
        let (low, high) = (Bounds::most(bounds.low), Bounds::most(bounds.high));
        let Words { write, reads: [one, two] } = words;
        let (mut doubt, mut own) = (0, 0);
        for n in 0..WORDS {
            let on = when(mask >> n & 1 == 1);
            let mine = same_warp(write[n], by) & when(write[n] != u32::MAX);
            doubt |= on & when(write[n] > low) & !mine;
            // An earlier write among the reads, and a read of which the bounds do not tell whether it is known.
            let between = |read: u32| when(read > low) & when(read <= high) & !same_warp(read, by);
            doubt |= on & (between(one[n]) | between(two[n]) | when((one[n] | two[n]) & WROTE != 0));
            own |= on & mine;
        }
        if doubt != 0 {
            return Found { doubt, own };
        }
        // As `Accesses::read` does for weak reads of one CTA: the place of the first read if that is known, or else of the second.
        for n in 0..WORDS {
            let on = when(mask >> n & 1 == 1);
            let vacant = when(one[n] <= low) | same_warp(one[n], by);
            let kept = two[n] & !same_warp(two[n], by);
            let (first, second) = (by & vacant | one[n] & !vacant, kept & vacant | by & !vacant);
            one[n] = first & on | one[n] & !on;
            two[n] = second & on | two[n] & !on;
        }
        Found { doubt, own }
    }
}

/// A weak write of some words.
struct Write<'a> {
    words: &'a mut Words,
    mask: u32,
    by: u32,
    bounds: Bounds,
}

impl NullaryFnOnce for Write<'_> {
    type Output = Found;

    #[inline(always)]
    fn call(self) -> Found {
        let Self { words, mask, by, bounds } = self;
        let low = Bounds::most(bounds.low);
        let Words { write, reads: [one, two] } = words;
        let (mut doubt, mut own) = (0, 0);
        for n in 0..WORDS {
            let on = when(mask >> n & 1 == 1);
            for access in [write[n], one[n], two[n]] {
                let mine = same_warp(access, by) & when(access != u32::MAX);
                doubt |= on & when(access > low) & !mine;
                own |= on & mine;
            }
        }
        if doubt != 0 {
            return Found { doubt, own };
        }
        for n in 0..WORDS {
            let on = when(mask >> n & 1 == 1);
            write[n] = by & on | write[n] & !on;
            one[n] &= !on;
            two[n] &= !on;
        }
        Found { doubt, own }
    }
}

impl Words {
    fn all(cell: Cell) -> Self {
        Self { write: [cell.write.0; WORDS], reads: cell.reads.map(|read| [read.0; WORDS]) }
    }

    #[inline]
    fn get(&self, n: usize) -> Cell {
        let n = n % WORDS;
        Cell { write: Epoch(self.write[n]), reads: [Epoch(self.reads[0][n]), Epoch(self.reads[1][n])] }
    }

    #[inline]
    fn put(&mut self, n: usize, cell: Cell) {
        let n = n % WORDS;
        self.write[n] = cell.write.0;
        (self.reads[0][n], self.reads[1][n]) = (cell.reads[0].0, cell.reads[1].0);
    }

    /// The state of all words, if they have one.
    fn one_state(&self) -> Option<Cell> {
        let mut differs = 0;
        for all in [&self.write, &self.reads[0], &self.reads[1]] {
            for n in 0..WORDS {
                differs |= all[n] ^ all[0];
            }
        }
        Some(self.get(0)).filter(|first| differs == 0 && *first != Cell::MIXED)
    }
}

/// The shadow of a CTA's shared memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Cells {
    lines: Vec<Cell>,
    /// The words of mixed lines, by line; empty until first needed.
    words: Vec<Words>,
    /// The bytes of mixed words, in blocks of a line: by line, the block, counted from 1. Empty until first needed.
    blocks: Vec<u32>,
    bytes: Vec<[Cell; LINE]>,
}

/// The number of words up to which each is decided by itself.
const FEW: u32 = 4;

/// A cell after a weak access of a warp with these bounds, and whether the access conflicts with one of its own warp; `None` if they do
/// not decide it.
#[inline(always)]
fn decided(cell: Cell, write: bool, (by, bounds): (Epoch, Bounds)) -> Option<(Cell, bool)> {
    let (low, high) = (Bounds::most(bounds.low), Bounds::most(bounds.high));
    let Cell { write: Epoch(last), reads: [Epoch(one), Epoch(two)] } = cell;
    let is_mine = |access: u32| same_warp(access, by.0) != 0;
    if last == u32::MAX {
        return None;
    }
    if write {
        if [last, one, two].iter().any(|access| *access > low && !is_mine(*access)) {
            return None;
        }
        return Some((Cell::written(by), is_mine(last) | is_mine(one) | is_mine(two)));
    }
    let is_between = |read: u32| read > low && read <= high && !is_mine(read);
    if last > low && !is_mine(last) || (one | two) & WROTE != 0 || is_between(one) || is_between(two) {
        return None;
    }
    let reads = if one <= low || is_mine(one) {
        [by, Epoch(if is_mine(two) { 0 } else { two })]
    } else {
        [Epoch(one), by]
    };
    Some((Cell { write: cell.write, reads }, is_mine(last)))
}

impl Cells {
    /// The shadow of `len` untouched bytes.
    pub(super) fn new(len: usize) -> Self {
        Self { lines: vec![Cell::default(); len.div_ceil(LINE)], ..Self::default() }
    }

    /// Resets all bytes to untouched. Parts matter only where the whole is mixed.
    pub(super) fn clear(&mut self) {
        self.lines.fill(Cell::default());
    }

    /// The words of a line, which becomes mixed.
    fn split(&mut self, line: usize) -> Option<&mut Words> {
        let lines = self.lines.len();
        let cell = self.lines.get_mut(line)?;
        if self.words.is_empty() {
            self.words = vec![Words::all(Cell::default()); lines];
        }
        let words = self.words.get_mut(line)?;
        if *cell != Cell::MIXED {
            *words = Words::all(*cell);
            *cell = Cell::MIXED;
        }
        Some(words)
    }

    /// The states of the bytes of a word.
    fn bytes_of(&mut self, line: usize, word: usize) -> Option<&mut [Cell]> {
        if self.blocks.is_empty() {
            self.blocks = vec![0; self.lines.len()];
        }
        let block = self.blocks.get_mut(line)?;
        if *block == 0 {
            self.bytes.push([Cell::default(); LINE]);
            *block = u32::try_from(self.bytes.len()).unwrap_or_default();
        }
        self.bytes.get_mut((*block as usize).wrapping_sub(1))?.get_mut(word * WORD..(word + 1) * WORD)
    }

    /// Records a weak access to words of a line, by a mask, of a warp with these bounds. `None`, and nothing recorded, if they do not
    /// decide it; else whether it conflicts with an access of its own warp.
    #[inline]
    pub(super) fn access(
        &mut self,
        path: Path,
        (line, mask): (usize, u32),
        write: bool,
        (by, bounds): (Epoch, Bounds),
    ) -> Option<bool> {
        let cell = self.lines.get_mut(line)?;
        if *cell != Cell::MIXED {
            let (next, own) = decided(*cell, write, (by, bounds))?;
            if mask == !0 || next == *cell {
                *cell = next;
                return Some(own);
            }
        } else if mask.count_ones() <= FEW {
            return self.access_few((line, mask), write, (by, bounds));
        }
        let words = self.split(line)?;
        let by = by.0;
        let found = if write {
            path.run(Write { words, mask, by, bounds })
        } else {
            path.run(Read { words, mask, by, bounds })
        };
        if found.doubt != 0 {
            return None;
        }
        if mask == !0
            && let Some(cell) = if write { Some(Cell::written(Epoch(by))) } else { words.one_state() }
        {
            self.lines[line] = cell;
        }
        Some(found.own != 0)
    }

    /// [`Cells::access`] for a read of one word.
    #[inline(always)]
    pub(super) fn read_word(&mut self, line: usize, word: usize, by: (Epoch, Bounds)) -> Option<bool> {
        let cell = *self.lines.get(line)?;
        if cell != Cell::MIXED {
            let (next, own) = decided(cell, false, by)?;
            if next == cell {
                return Some(own);
            }
            self.split(line)?;
        }
        let words = self.words.get_mut(line)?;
        let (next, own) = decided(words.get(word), false, by)?;
        words.put(word, next);
        Some(own)
    }

    /// [`Cells::access`] for few words of a mixed line.
    #[inline]
    fn access_few(&mut self, (line, mask): (usize, u32), write: bool, by: (Epoch, Bounds)) -> Option<bool> {
        let words = self.words.get_mut(line)?;
        let mut own = false;
        let mut next = [Cell::default(); FEW as usize];
        // Neighbours mostly remember the same.
        let mut last = (Cell::MIXED, Cell::MIXED);
        for (word, next) in bits(mask).zip(&mut next) {
            let cell = words.get(word);
            if cell != last.0 || cell == Cell::MIXED {
                let (decided, met) = decided(cell, write, by)?;
                last = (cell, decided);
                own |= met;
            }
            *next = last.1;
        }
        for (word, next) in bits(mask).zip(next) {
            words.put(word, next);
        }
        Some(own)
    }

    /// [`Cells::access`] for bytes of a line, by a mask, of which some are parts of words. Where it returns `None`, some bytes may be recorded:
    /// the same access may be recorded again, which changes nothing.
    pub(super) fn access_bytes(
        &mut self,
        (line, mask): (usize, u128),
        write: bool,
        by: (Epoch, Bounds),
    ) -> Option<bool> {
        /// All bytes of a word.
        const WHOLE: u32 = (1 << WORD) - 1;
        let cell = *self.lines.get(line)?;
        if cell != Cell::MIXED {
            let (next, own) = decided(cell, write, by)?;
            if next == cell {
                return Some(own);
            }
        }
        self.split(line)?;
        let (mut own, mut left) = (false, mask);
        while left != 0 {
            let word = left.trailing_zeros() as usize / WORD;
            let part = (left >> (word * WORD)) as u32 & WHOLE;
            left &= !(u128::from(WHOLE) << (word * WORD));
            let words = self.words.get_mut(line)?;
            let cell = words.get(word);
            if cell == Cell::MIXED {
                let bytes = self.bytes_of(line, word)?;
                let mut last = (Cell::MIXED, Cell::MIXED);
                for n in bits(part) {
                    if bytes[n] != last.0 {
                        let (next, met) = decided(bytes[n], write, by)?;
                        last = (bytes[n], next);
                        own |= met;
                    }
                    bytes[n] = last.1;
                }
                let first = bytes[0];
                if first.alike(bytes) {
                    self.words.get_mut(line)?.put(word, first);
                }
                continue;
            }
            let (next, met) = decided(cell, write, by)?;
            own |= met;
            if part == WHOLE || next == cell {
                words.put(word, next);
                continue;
            }
            words.put(word, Cell::MIXED);
            let bytes = self.bytes_of(line, word)?;
            bytes.fill(cell);
            bits(part).for_each(|n| bytes[n] = next);
        }
        Some(own)
    }

    /// Applies `step` to the state of some words of a line, by a mask. An error of `step` ends it; words before may have been updated.
    pub(super) fn update_words<E>(
        &mut self,
        line: usize,
        mask: u32,
        step: impl Fn(&mut Cell) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(cell) = self.lines.get_mut(line) else { return Ok(()) };
        if mask == !0 && *cell != Cell::MIXED {
            return step(cell);
        }
        let Some(words) = self.split(line) else { return Ok(()) };
        let mut mixed = 0;
        for word in bits(mask) {
            let mut cell = words.get(word);
            if cell == Cell::MIXED {
                mixed |= 1 << word;
                continue;
            }
            step(&mut cell)?;
            words.put(word, cell);
        }
        for word in bits(mixed) {
            self.update_part(line, word, 0..WORD, &step).map_err(|(_, e)| e)?;
        }
        if mask == !0
            && let Some(cell) = self.words.get(line).and_then(Words::one_state)
        {
            self.lines[line] = cell;
        }
        Ok(())
    }

    /// Applies `step` to the state of some bytes of a word.
    fn update_part<E>(
        &mut self,
        line: usize,
        word: usize,
        part: std::ops::Range<usize>,
        step: &impl Fn(&mut Cell) -> Result<(), E>,
    ) -> Result<(), (usize, E)> {
        let Some(words) = self.split(line) else { return Ok(()) };
        let mut cell = words.get(word);
        if cell != Cell::MIXED && part.len() == WORD {
            step(&mut cell).map_err(|e| (0, e))?;
            words.put(word, cell);
            return Ok(());
        }
        let whole = cell;
        if whole != Cell::MIXED {
            words.put(word, Cell::MIXED);
        }
        let Some(bytes) = self.bytes_of(line, word) else { return Ok(()) };
        if whole != Cell::MIXED {
            bytes.fill(whole);
        }
        let first = part.start;
        for n in part {
            step(&mut bytes[n]).map_err(|e| (n - first, e))?;
        }
        let cell = bytes[0];
        if cell.alike(bytes)
            && let Some(words) = self.words.get_mut(line)
        {
            words.put(word, cell);
        }
        Ok(())
    }

    /// Applies `step` to the state of bytes. An error of `step`, which must then leave the state unchanged, is returned with the
    /// byte's offset from `at`; bytes before it may have been updated.
    pub(super) fn update<E>(
        &mut self,
        at: usize,
        len: usize,
        step: impl Fn(&mut Cell) -> Result<(), E>,
    ) -> Result<(), (usize, E)> {
        let end = at + len;
        let mut from = at;
        while from < end {
            let line = from / LINE;
            let to = end.min((line + 1) * LINE);
            match self.lines.get_mut(line) {
                Some(cell) if *cell != Cell::MIXED && to - from == LINE => {
                    step(cell).map_err(|e| (from - at, e))?;
                }
                Some(_) => {
                    let (start, mut next) = (from, from);
                    while next < to {
                        let stop = to.min((next / WORD + 1) * WORD);
                        let part = next % WORD..next % WORD + (stop - next);
                        self.update_part(line, next % LINE / WORD, part, &step)
                            .map_err(|(n, e)| (next - at + n, e))?;
                        next = stop;
                    }
                    if to - start == LINE
                        && let Some(cell) = self.words.get(line).and_then(Words::one_state)
                    {
                        self.lines[line] = cell;
                    }
                }
                None => {}
            }
            from = to;
        }
        Ok(())
    }

    /// Replaces the state of bytes.
    pub(super) fn set(&mut self, at: usize, len: usize, cell: Cell) {
        // This step cannot fail.
        let _ = self.update(at, len, |kept| {
            *kept = cell;
            Ok::<(), std::convert::Infallible>(())
        });
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell as Flag;

    use super::super::SharedOrder;
    use super::super::clock::WARPS;
    use super::*;
    use crate::run::random::Random;

    /// Each byte by the definition.
    struct Plain(Vec<Cell>);

    impl Plain {
        fn access(
            &mut self,
            bytes: impl Iterator<Item = usize>,
            write: bool,
            order: &SharedOrder<'_, fn(Epoch) -> bool>,
        ) -> bool {
            let mut next = self.0.clone();
            for n in bytes {
                if next[n].step(write, order).is_err() {
                    return false;
                }
            }
            self.0 = next;
            true
        }
    }

    fn byte(cells: &mut Cells, at: usize) -> Cell {
        let seen = Flag::new(Cell::default());
        let _ = cells.update(at, 1, |cell| {
            seen.set(*cell);
            Ok::<(), ()>(())
        });
        seen.get()
    }

    #[test]
    fn lines_and_words_remember_what_bytes_alone_would_on_every_path() {
        const LEN: usize = 300;
        const ALL: usize = 4;
        for path in Path::available() {
            let mut random = Random(11);
            let (mut cells, mut plain) = (Cells::new(LEN), Plain(vec![Cell::default(); LEN]));
            let mut clocks = [[0; WARPS]; ALL];
            (0..ALL).for_each(|w| clocks[w][w] = 1);
            for round in 0..30_000 {
                let warp = random.below(ALL);
                match random.below(12) {
                    // All warps meet, or one learns what another did.
                    0 => {
                        let all: Clock =
                            std::array::from_fn(|n| (0..ALL).map(|w| clocks[w][n]).max().unwrap());
                        clocks = [all; ALL];
                        (0..ALL).for_each(|w| clocks[w][w] += 1);
                    }
                    1 => {
                        let other = clocks[random.below(ALL)];
                        super::super::clock::join(&mut clocks[warp], &other);
                    }
                    2 => clocks[warp][warp] += 1,
                    _ => {}
                }
                let clock = clocks[warp];
                let strong = random.below(9) == 0;
                let by = Epoch::new(warp as u32, clock[warp], strong);
                let write = random.below(2) == 0;
                let (own, wanted) = (Flag::new(false), Flag::new(false));
                let nobody: fn(Epoch) -> bool = |_| false;
                let order =
                    |own_warp| SharedOrder { by, clock: &clock, modifies: false, observed: nobody, own_warp };
                if random.below(3) == 0 {
                    let size = [1, 2, 4, 8, 16, 64, 128, 256][random.below(8)];
                    let at = random.below((LEN - size) / size + 1) * size;
                    let fits = plain.access(at..at + size, write, &order(&wanted));
                    let found = cells.update(at, size, |cell| cell.step(write, &order(&own)));
                    assert_eq!(found.is_ok(), fits, "{round}");
                    if !fits {
                        cells.set(at, size, Cell::default());
                        plain.0[at..at + size].fill(Cell::default());
                    }
                    continue;
                }
                if random.below(3) == 0 && !strong {
                    let line = random.below(LEN / LINE);
                    let few = 1 << random.below(LINE) | 1 << random.below(LINE);
                    let any = u128::from(random.next()) << 64 | u128::from(random.next());
                    let mask: u128 = [few, any, 0x00FF_FF00 << random.below(100), u128::MAX][random.below(4)];
                    let bytes = || (0..LINE).filter(|n| mask >> n & 1 == 1).map(|n| line * LINE + n);
                    let fits = plain.access(bytes(), write, &order(&wanted));
                    let bounds = Bounds::of_warp(warp, &clock, ALL);
                    match cells.access_bytes((line, mask), write, (by, bounds)) {
                        Some(met) => assert!(fits && met == wanted.get(), "{round}"),
                        None if fits => bytes()
                            .for_each(|n| cells.update(n, 1, |cell| cell.step(write, &order(&own))).unwrap()),
                        None => {
                            bytes().for_each(|n| cells.set(n, 1, Cell::default()));
                            bytes().for_each(|n| plain.0[n] = Cell::default());
                        }
                    }
                    continue;
                }
                let (line, all) = (random.below(LEN / LINE), u32::MAX);
                let mask = [all, 1 << random.below(32), random.next() as u32, all << random.below(32)]
                    [random.below(4)];
                let bytes = || (0..LINE).filter(|n| mask >> (n / WORD) & 1 == 1).map(|n| line * LINE + n);
                let fits = plain.access(bytes(), write, &order(&wanted));
                let bounds = Bounds::of_warp(warp, &clock, ALL);
                let quick = match (strong, write, mask.count_ones(), random.below(2)) {
                    (true, ..) => None,
                    (_, false, 1, 0) => cells.read_word(line, mask.trailing_zeros() as usize, (by, bounds)),
                    _ => cells.access(path, (line, mask), write, (by, bounds)),
                };
                match quick {
                    Some(met) => assert!(fits && met == wanted.get(), "{round}"),
                    None => {
                        let found = cells.update_words(line, mask, |cell| cell.step(write, &order(&own)));
                        assert_eq!(found.is_ok(), fits, "{round}");
                        if fits {
                            assert_eq!(own.get(), wanted.get(), "{round}");
                        } else {
                            bytes().for_each(|n| cells.set(n, 1, Cell::default()));
                            bytes().for_each(|n| plain.0[n] = Cell::default());
                        }
                    }
                }
                if round % 16 == 0 {
                    (0..LEN).for_each(|n| assert_eq!(byte(&mut cells, n), plain.0[n], "{round}, byte {n}"));
                }
            }
        }
    }
}
