//! A bitmap with one bit per byte of a region, whose copies cost what was set in it and not what the region is large.
//!
//! Most of a large buffer is untouched: the bitmap of 1 GiB has 128 MiB, which the system commits only where bits are set. A copy made
//! word by word would read and commit all of it, so a second, much smaller bitmap holds which blocks may contain set bits.

/// Words of a block: 4 KiB, the unit in which systems commit memory.
const BLOCK: usize = 512;

/// A bitmap.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    words: Vec<u64>,
    /// One bit per block. A block without it holds zeros only; the reverse need not hold.
    used: Vec<u64>,
}

impl Marks {
    /// A bitmap for `len` bytes without set bits.
    pub(crate) fn clear(len: usize) -> Self {
        let words = len.div_ceil(64);
        Self { words: vec![0; words], used: vec![0; words.div_ceil(BLOCK).div_ceil(64)] }
    }

    /// A bitmap for `len` bytes whose bits are all set.
    pub(crate) fn full(len: usize) -> Self {
        let words = len.div_ceil(64);
        Self { words: vec![!0; words], used: vec![!0; words.div_ceil(BLOCK).div_ceil(64)] }
    }

    /// Whether there is no bitmap.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The bits of bytes `64 * n` to `64 * n + 63`.
    #[inline]
    pub(crate) fn word(&self, n: usize) -> Option<u64> {
        self.words.get(n).copied()
    }

    /// All words.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().copied()
    }

    /// Sets bits of word `n`.
    #[inline]
    pub(crate) fn set(&mut self, n: usize, mask: u64) {
        let Some(word) = self.words.get_mut(n) else { return };
        // Bits are rarely the first of their word, and a word with bits lies in a block that is marked.
        if *word == 0
            && let Some(used) = self.used.get_mut(n / BLOCK / 64)
        {
            *used |= 1 << (n / BLOCK % 64);
        }
        *word |= mask;
    }

    /// Clears bits of word `n`.
    #[inline]
    pub(crate) fn unset(&mut self, n: usize, mask: u64) {
        if let Some(word) = self.words.get_mut(n) {
            *word &= !mask;
        }
    }

    /// Replaces the bits of word `n`.
    pub(crate) fn put(&mut self, n: usize, bits: u64) {
        self.unset(n, !bits);
        self.set(n, bits);
    }

    /// Clears all bits.
    pub(crate) fn clear_all(&mut self) {
        self.words.fill(0);
        self.used.fill(0);
    }

    /// Whether any bit is set.
    pub(crate) fn any(&self) -> bool {
        self.blocks().any(|block| self.words[block].iter().any(|word| *word != 0))
    }

    /// The blocks that may have set bits, as ranges of words.
    fn blocks(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let used = self.used.iter().enumerate().filter(|(_, bits)| **bits != 0);
        let blocks =
            used.flat_map(|(n, bits)| (0..64).filter(move |b| bits >> b & 1 == 1).map(move |b| n * 64 + b));
        let end = self.words.len();
        blocks.map(move |block| (block * BLOCK).min(end)..((block + 1) * BLOCK).min(end))
    }
}

impl Clone for Marks {
    fn clone(&self) -> Self {
        let mut words = vec![0; self.words.len()];
        self.blocks().for_each(|block| words[block.clone()].copy_from_slice(&self.words[block]));
        Self { words, used: self.used.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_same_bits_and_copies_only_blocks_that_have_some() {
        let len = 1 << 30;
        let mut marks = Marks::clear(len);
        assert!(!marks.any() && !marks.is_empty());
        let last = len / 64 - 1;
        for n in [0, 3 * BLOCK + 7, last] {
            marks.set(n, 1 << (n % 64));
        }
        marks.set(last + 1, 1);
        let copy = marks.clone();
        assert_eq!(copy.blocks().map(|block| block.len()).sum::<usize>(), 3 * BLOCK);
        for n in [0, 1, 3 * BLOCK + 7, last, last + 1] {
            assert_eq!(copy.word(n), marks.word(n));
        }
        marks.unset(last, !0);
        assert_eq!((copy.word(last), marks.word(last)), (Some(1 << (last % 64)), Some(0)));
        marks.clear_all();
        assert!(!marks.any() && copy.any());
        let full = Marks::full(100);
        assert_eq!((full.clone().word(1), full.word(2)), (Some(!0), None));
    }
}
