//! What a cluster touches that runs beside others, each on a view of global memory of its own.
//!
//! Clusters none of which touches bytes that another writes do the same in any order. Those that touch such bytes communicate, or
//! race; so may those that read memory strongly, read a clock, print, or allocate. Then the scheduler has to run them, in its order.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::memory::{GLOBAL_BASE, bits};
use super::races::Pages;

/// Bytes of a page.
pub(super) const PAGE: usize = 1024;

/// A bit for each byte of a page.
type Bits = [u64; PAGE / 64];

/// Bytes of a page that were touched.
#[derive(Default)]
struct Touched {
    read: Bits,
    write: Bits,
    /// Whether the page is on the list of those that its cluster has touched.
    listed: bool,
}

impl Touched {
    /// Adds what a cluster touched; false where that meets a write.
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

/// Instructions that a cluster may execute though none has ended yet: more may be a loop that waits for another cluster.
const PATIENCE: u64 = 1 << 26;

/// What the threads of one attempt share.
#[derive(Default)]
pub(super) struct Together {
    /// The next cluster.
    next: AtomicU32,
    /// Whether the attempt has failed.
    over: AtomicBool,
    /// Instructions of the longest cluster so far.
    longest: AtomicU64,
    /// What the clusters that have ended touched.
    touched: Mutex<Pages<Touched>>,
}

impl Together {
    /// Takes a cluster of `count`.
    pub(super) fn take(&self, count: u32) -> Option<u32> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        (next < count && !self.over.load(Ordering::Relaxed)).then_some(next)
    }

    /// The attempt has failed.
    pub(super) fn give_up(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// What the clusters of one thread touch.
pub(super) struct Apart {
    together: Arc<Together>,
    /// By the cluster that runs, and the pages of that.
    own: Pages<Touched>,
    pages: Vec<usize>,
    /// Written by all clusters of this thread.
    written: Pages<Bits>,
    written_pages: Vec<usize>,
    communicates: bool,
}

impl Apart {
    pub(super) fn new(together: &Arc<Together>) -> Self {
        Self {
            together: Arc::clone(together),
            own: Pages::default(),
            pages: Vec::new(),
            written: Pages::default(),
            written_pages: Vec::new(),
            communicates: false,
        }
    }

    /// The cluster does what others may see, or see the time of.
    pub(super) fn communicate(&mut self) {
        self.communicates = true;
    }

    /// The cluster touches bytes of global memory.
    #[inline]
    pub(super) fn touch(&mut self, address: u64, len: usize, write: bool) {
        let Some(start) = address.checked_sub(GLOBAL_BASE) else { return };
        let (mut at, end) = (start as usize, start as usize + len);
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            let page = match self.own.get_mut(at / PAGE) {
                Some(page) => page,
                None => self.own.get_or_insert_with(at / PAGE, Touched::default),
            };
            if !page.listed {
                page.listed = true;
                self.pages.push(at / PAGE);
            }
            let touched = if write { &mut page.write } else { &mut page.read };
            for (n, mask) in bits(at % PAGE, next - at) {
                touched[n] |= mask;
            }
            at = next;
        }
    }

    /// Whether the cluster is to stop, after so many instructions.
    pub(super) fn stops(&self, instructions: u64) -> bool {
        let longest = self.together.longest.load(Ordering::Relaxed);
        self.communicates || self.together.failed() || instructions > PATIENCE.max(longest.saturating_mul(4))
    }

    /// The cluster has ended; whether what it did is its own affair.
    pub(super) fn end(&mut self, instructions: u64) -> bool {
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

    /// The addresses of the bytes that clusters of this thread wrote, as runs.
    pub(super) fn written(mut self) -> Vec<(u64, usize)> {
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
        // Neighbours, and reads of what others read.
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
