//! Memory accesses of a cluster that runs in parallel with others, each on its own view of global memory.
//!
//! If no cluster touches bytes that another one writes, they compute the same in any order. Clusters that touch such bytes
//! communicate or race; so may clusters that read memory strongly, read a clock, print or allocate. The scheduler must then run
//! them, in its order.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::memory::global::bits;
use crate::memory::window::GLOBAL_BASE;
use crate::rules::races::Pages;
use crate::rules::shadow::{LINE, WordsOfLine};

/// Bytes of a page.
pub(crate) const PAGE: usize = 1024;

/// One bit per byte of a page.
type Bits = [u64; PAGE / 64];

/// Bytes of a page that were accessed.
#[derive(Default)]
struct Touched {
    read: Bits,
    write: Bits,
    /// Whether the page is in its cluster's list of touched pages.
    listed: bool,
}

impl Touched {
    /// Merges the accesses of a cluster; returns false if they conflict with a write.
    fn join(&mut self, other: &Self) -> bool {
        let mut both = 0;
        for n in 0..self.read.len() {
            both |= other.write[n] & (self.read[n] | self.write[n]) | other.read[n] & self.write[n];
            self.read[n] |= other.read[n];
            self.write[n] |= other.write[n];
        }
        both == 0
    }
}

/// Instructions that a cluster may execute before any has ended: more may mean a loop that waits for another cluster.
const PATIENCE: u64 = 1 << 26;

/// State shared by the threads of one attempt.
#[derive(Default)]
pub(crate) struct Together {
    /// The next cluster.
    next: AtomicU32,
    /// Whether the attempt has failed.
    over: AtomicBool,
    /// Instructions of the longest cluster so far.
    longest: AtomicU64,
    /// Bytes touched by the clusters that have ended.
    touched: Mutex<Pages<Touched>>,
}

impl Together {
    /// Takes the next of `count` clusters.
    pub(crate) fn take(&self, count: u32) -> Option<u32> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        (next < count && !self.over.load(Ordering::Relaxed)).then_some(next)
    }

    /// Marks the attempt as failed.
    pub(crate) fn give_up(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Bytes touched by the clusters of one thread.
pub(crate) struct Apart {
    together: Arc<Together>,
    /// Accesses of the current cluster, and the list of its pages.
    own: Pages<Touched>,
    pages: Vec<usize>,
    /// Bytes written by all clusters of this thread.
    written: Pages<Bits>,
    written_pages: Vec<usize>,
    communicates: bool,
}

impl Apart {
    pub(crate) fn new(together: &Arc<Together>) -> Self {
        Self {
            together: Arc::clone(together),
            own: Pages::default(),
            pages: Vec::new(),
            written: Pages::default(),
            written_pages: Vec::new(),
            communicates: false,
        }
    }

    /// The cluster does something whose result or time other clusters can observe.
    pub(crate) fn communicate(&mut self) {
        self.communicates = true;
    }

    /// Records an access to global memory.
    #[inline]
    pub(crate) fn touch(&mut self, address: u64, len: usize, write: bool) {
        let Some(start) = address.checked_sub(GLOBAL_BASE) else { return };
        let (mut at, end) = (start as usize, start as usize + len);
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            let touched = self.touched(at / PAGE, write);
            for (n, mask) in bits(at % PAGE, next - at) {
                touched[n] |= mask;
            }
            at = next;
        }
    }

    /// Records an access to words of a line of the memory from [`GLOBAL_BASE`].
    pub(crate) fn touch_words(&mut self, line: usize, of: WordsOfLine, write: bool) {
        const LINES: usize = PAGE / LINE;
        let touched = self.touched(line / LINES, write);
        let (bytes, n) = (of.bytes(), line % LINES * 2);
        touched[n] |= bytes as u64;
        touched[n + 1] |= (bytes >> 64) as u64;
    }

    /// What the cluster has read or written of a page.
    #[inline]
    fn touched(&mut self, number: usize, write: bool) -> &mut Bits {
        let page = self.own.get_or_insert_with(number, Touched::default);
        if !page.listed {
            page.listed = true;
            self.pages.push(number);
        }
        if write { &mut page.write } else { &mut page.read }
    }

    /// Whether the cluster must stop after this many instructions.
    pub(crate) fn stops(&self, instructions: u64) -> bool {
        let longest = self.together.longest.load(Ordering::Relaxed);
        self.communicates || self.together.failed() || instructions > PATIENCE.max(longest.saturating_mul(4))
    }

    /// Ends a cluster; returns whether it neither communicated nor conflicted with others.
    pub(crate) fn end(&mut self, instructions: u64) -> bool {
        self.together.longest.fetch_max(instructions, Ordering::Relaxed);
        let Ok(mut all) = self.together.touched.lock() else { return false };
        if self.communicates {
            return false;
        }
        for page in self.pages.drain(..) {
            let Some(own) = self.own.get_mut(page) else { continue };
            if !all.get_or_insert_with(page, Touched::default).join(own) {
                return false;
            }
            if own.write != Bits::default() {
                if self.written.get_mut(page).is_none() {
                    self.written_pages.push(page);
                }
                let written = self.written.get_or_insert_with(page, Bits::default);
                written.iter_mut().zip(&own.write).for_each(|(all, own)| *all |= own);
            }
            *own = Touched::default();
        }
        true
    }

    /// The bytes that clusters of this thread wrote, as runs of address and length.
    pub(crate) fn written(mut self) -> Vec<(u64, usize)> {
        let mut runs: Vec<(u64, usize)> = Vec::new();
        self.written_pages.sort_unstable();
        for page in self.written_pages {
            let Some(written) = self.written.get_mut(page) else { continue };
            for (n, word) in written.iter().enumerate() {
                let mut at = 0;
                while at < 64 && word >> at != 0 {
                    let first = at + (word >> at).trailing_zeros();
                    let len = (word >> first).trailing_ones();
                    at = first + len;
                    let address = GLOBAL_BASE + (page * PAGE + n * 64) as u64 + u64::from(first);
                    match runs.last_mut() {
                        Some((start, bytes)) if *start + *bytes as u64 == address => *bytes += len as usize,
                        _ => runs.push((address, len as usize)),
                    }
                }
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writes_that_others_touch_are_seen_and_all_writes_are_found() {
        let together = Arc::new(Together::default());
        let (mut one, mut other) = (Apart::new(&together), Apart::new(&together));
        let at = |n: u64| GLOBAL_BASE + n;
        one.touch(at(1020), 8, true);
        one.touch(at(0), 1020, false);
        one.touch(at(1100), 1, true);
        assert!(one.end(1));
        // Adjacent writes, and reads of what others read.
        other.touch(at(1028), 4, true);
        other.touch(at(0), 1020, false);
        assert!(other.end(1));
        one.touch(at(64), 64, true);
        assert!(!one.end(1));
        assert_eq!(other.written(), [(at(1028), 4)]);
        let mut third = Apart::new(&together);
        third.touch(at(1023), 1, false);
        assert!(!third.end(1));
        let mut fourth = Apart::new(&together);
        fourth.communicate();
        assert!(fourth.stops(0) && !fourth.end(0) && !together.failed());
        let mut runs = Apart::new(&Arc::default());
        for (start, len) in [(1020, 8), (1100, 1), (128, 200)] {
            runs.touch(at(start), len, true);
        }
        assert!(runs.end(1) && !runs.stops(PATIENCE) && runs.stops(PATIENCE + 1));
        assert_eq!(runs.written(), [(at(128), 200), (at(1020), 8), (at(1100), 1)]);
    }
}
