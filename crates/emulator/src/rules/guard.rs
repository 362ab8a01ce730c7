//! Bytes of shared memory that asynchronous copies and barrier objects protect from other accesses (PTX ISA 9.7.9.27, 8.8).

use crate::memory::global::bits;

/// Bytes of shared memory that must not be accessed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guarded {
    /// One bit per byte: targets of pending copies, and barrier objects. Empty until first needed.
    watched: Vec<u64>,
    /// Per byte, the pending copies that have not read it yet. Empty until first needed.
    sources: Vec<u32>,
    reading: usize,
}

impl Guarded {
    /// Whether an access touches a guarded byte.
    #[inline(always)]
    pub(crate) fn hit(&self, at: usize, len: usize, write: bool) -> bool {
        (self.reading > 0 || !self.watched.is_empty()) && self.touches(at, len, write)
    }

    fn touches(&self, at: usize, len: usize, write: bool) -> bool {
        if write && self.reading > 0 && self.sources[at..at + len].iter().any(|n| *n > 0) {
            return true;
        }
        !self.watched.is_empty() && bits(at, len).any(|(n, mask)| self.watched[n] & mask != 0)
    }

    pub(crate) fn watch(&mut self, at: usize, len: usize, size: usize) {
        if self.watched.is_empty() {
            self.watched = vec![0; size.div_ceil(64)];
        }
        for (n, mask) in bits(at, len) {
            self.watched[n] |= mask;
        }
    }

    pub(crate) fn leave(&mut self, at: usize, len: usize) {
        for (n, mask) in bits(at, len) {
            self.watched[n] &= !mask;
        }
    }

    pub(crate) fn read(&mut self, at: usize, len: usize, size: usize) {
        if self.sources.is_empty() {
            self.sources = vec![0; size];
        }
        self.reading += 1;
        self.sources[at..at + len].iter_mut().for_each(|n| *n += 1);
    }

    pub(crate) fn was_read(&mut self, at: usize, len: usize) {
        self.reading -= 1;
        self.sources[at..at + len].iter_mut().for_each(|n| *n = n.saturating_sub(1));
    }
}

/// Writes to shared memory through the generic proxy, for copies that read it through the async proxy.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    /// Per byte, the last writer in the upper 16 bits and its stamp (number of fences plus one); 0 for none.
    written: Vec<u64>,
    fences: u64,
    /// Per thread, the number of fences when it last fenced.
    fenced: Vec<u64>,
}

/// No launch executes as many fences.
const STAMP_BITS: u32 = 48;

impl Proxy {
    pub(crate) fn new(bytes: usize, threads: u32) -> Self {
        Self { written: vec![0; bytes], fences: 0, fenced: vec![0; threads.next_multiple_of(32) as usize] }
    }

    /// Treats everything written so far as fenced by all threads.
    pub(crate) fn clear(&mut self) {
        self.fences += 1;
        self.fenced.fill(self.fences);
    }

    pub(crate) fn wrote(&mut self, at: usize, len: usize, thread: u32) {
        self.written[at..at + len].fill(u64::from(thread) << STAMP_BITS | (self.fences + 1));
    }

    pub(crate) fn forget(&mut self, at: usize, len: usize) {
        self.written[at..at + len].fill(0);
    }

    /// Records a fence by lanes of a warp.
    pub(crate) fn fence(&mut self, warp: u32, lanes: u32) {
        self.fences += 1;
        for lane in crate::run::machine::lanes(lanes) {
            self.fenced[warp as usize * 32 + lane] = self.fences;
        }
    }

    /// The first byte, with its writer, that neither the writer nor the reader has fenced since the write.
    pub(crate) fn unfenced(&self, at: usize, len: usize, reader: u32) -> Option<(usize, u32)> {
        let reader = self.fenced[reader as usize];
        (at..at + len).find_map(|i| {
            let word = self.written[i];
            let (thread, stamp) = ((word >> STAMP_BITS) as u32, word & ((1 << STAMP_BITS) - 1));
            (self.fenced[thread as usize] < stamp && reader < stamp).then_some((i, thread))
        })
    }
}
