//! A piece of memory: its bytes, and which of them were written.

use std::ops::Range;

/// The words of a table with a bit per byte that a range touches, with the range's bits in each.
#[inline(always)]
pub(super) fn bits(at: usize, len: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = at + len;
    let words = if len == 0 { 0..0 } else { at / 64..end.div_ceil(64) };
    words.map(move |n| {
        let (low, high) = (at.saturating_sub(n * 64), (end - n * 64).min(64));
        (n, (!0 >> (64 - (high - low))) << low)
    })
}

/// A piece of memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Region {
    pub(super) data: Vec<u8>,
    /// One bit per byte; empty when the whole region counts as written.
    init: Vec<u64>,
}

impl Region {
    /// `len` bytes that nobody has written; they hold `poison`.
    pub(super) fn unwritten(len: usize, poison: u8) -> Self {
        Self { data: vec![poison; len], init: vec![0; len.div_ceil(64)] }
    }

    pub(super) fn written(data: Vec<u8>) -> Self {
        Self { data, init: Vec::new() }
    }

    /// Whether it tells of each byte whether it was written.
    pub(super) fn is_tracked(&self) -> bool {
        !self.init.is_empty()
    }

    /// Makes all bytes `poison` that nobody has written.
    pub(super) fn clear(&mut self, poison: u8) {
        self.data.fill(poison);
        self.init.fill(0);
    }

    pub(super) fn len(&self) -> usize {
        self.data.len()
    }

    /// The bytes at `at`, if they are there.
    #[inline]
    pub(super) fn get<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.data.get(at..)?.first_chunk::<N>().copied()
    }

    /// Whether every byte of the range was written.
    #[inline]
    pub(super) fn is_written(&self, at: usize, len: usize) -> bool {
        self.init.is_empty()
            || bits(at, len).all(|(n, mask)| self.init.get(n).is_some_and(|w| w & mask == mask))
    }

    #[inline]
    pub(super) fn mark(&mut self, at: usize, len: usize) {
        if self.init.is_empty() {
            return;
        }
        for (n, mask) in bits(at, len) {
            if let Some(w) = self.init.get_mut(n) {
                *w |= mask;
            }
        }
    }

    /// Makes bytes count as not written.
    pub(super) fn unmark(&mut self, at: usize, len: usize) {
        if self.init.is_empty() && len > 0 {
            self.init = vec![!0; self.data.len().div_ceil(64)];
        }
        for (n, mask) in bits(at, len) {
            if let Some(w) = self.init.get_mut(n) {
                *w &= !mask;
            }
        }
    }

    /// Stretches that nobody has written.
    pub(super) fn unwritten_runs(&self) -> Vec<Range<usize>> {
        let (mut runs, mut begun): (Vec<Range<usize>>, _) = (Vec::new(), None);
        for (n, word) in self.init.iter().enumerate() {
            // Words that say the same of all their bytes are the rule.
            match (*word, begun) {
                (0, None) => begun = Some(n * 64),
                (0, Some(_)) | (u64::MAX, None) => {}
                (bits, _) => {
                    for bit in 0..64 {
                        match (bits >> bit & 1, begun) {
                            (0, None) => begun = Some(n * 64 + bit),
                            (1, Some(from)) => {
                                runs.push(from..n * 64 + bit);
                                begun = None;
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
        runs.extend(begun.map(|from| from..self.len()));
        // The last word may tell of more bytes than there are.
        if let Some(last) = runs.last_mut() {
            last.end = last.end.min(self.len());
        }
        runs.retain(|run| run.start < run.end);
        runs
    }

    /// Takes bytes over from a region of the same length, with whether they were written.
    pub(super) fn adopt(&mut self, from: &Self, at: usize, len: usize) {
        let (Some(to), Some(bytes)) = (self.data.get_mut(at..at + len), from.data.get(at..at + len)) else {
            return;
        };
        to.copy_from_slice(bytes);
        if from.is_written(at, len) {
            return self.mark(at, len);
        }
        for at in at..at + len {
            if from.is_written(at, 1) { self.mark(at, 1) } else { self.unmark(at, 1) }
        }
    }

    #[inline]
    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) -> bool {
        let Some(place) = self.data.get_mut(at..at + bytes.len()) else { return false };
        place.copy_from_slice(bytes);
        self.mark(at, bytes.len());
        true
    }
}
