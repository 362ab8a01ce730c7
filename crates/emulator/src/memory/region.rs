//! A piece of memory: its bytes, and which of them have been written.

use std::borrow::Cow;
use std::ops::Range;

use crate::memory::lent::{HostBytes, Lent};
use crate::memory::marks::Marks;
use crate::rules::shadow::{OfLine, WordsOfLine};

/// The words of a bitmap with one bit per byte that a range touches, with the range's bits in each.
#[inline(always)]
pub(crate) fn bits(at: usize, len: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = at + len;
    let words = if len == 0 { 0..0 } else { at / 64..end.div_ceil(64) };
    words.map(move |n| {
        let (low, high) = (at.saturating_sub(n * 64), (end - n * 64).min(64));
        (n, (!0 >> (64 - (high - low))) << low)
    })
}

/// Size in bytes from which a region that is written as a whole loses its bitmap.
const LARGE: usize = 1 << 12;

/// Number of bytes compared at a time.
const PIECE: usize = 1 << 20;

/// What up to `N` bytes of a region were, from a multiple of 64 on, which have `W` words in bitmaps.
pub(crate) struct Before<const N: usize, const W: usize> {
    at: usize,
    len: usize,
    bytes: [u8; N],
    init: [u64; W],
    /// Whether a store had left some undefined, and which.
    undefined: Option<[u64; W]>,
}

impl<const N: usize, const W: usize> Default for Before<N, W> {
    fn default() -> Self {
        Self { at: 0, len: 0, bytes: [0; N], init: [0; W], undefined: None }
    }
}

/// A piece of memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Region {
    /// The bytes; empty if some of them are lent by the host.
    pub(crate) data: Vec<u8>,
    len: usize,
    /// One bit per byte; empty if the whole region counts as written.
    init: Marks,
    /// One bit per byte that a store left undefined, allocated by the first such store; valid only where `init` is 0.
    undefined: Option<Marks>,
    lent: Option<Box<Lent>>,
    /// Whether the host may change the bytes while a kernel runs, those that kernels have written included.
    changes: bool,
}

impl Region {
    /// `len` unwritten bytes that hold `poison`.
    pub(crate) fn unwritten(len: usize, poison: u8) -> Self {
        Self { data: vec![poison; len], len, init: Marks::clear(len), ..Self::default() }
    }

    pub(crate) fn written(data: Vec<u8>) -> Self {
        Self { len: data.len(), data, ..Self::default() }
    }

    /// Host bytes, read in place and copied when written.
    pub(crate) fn lent(host: HostBytes) -> Self {
        let len = host.bytes().len();
        let changes = host.may_change();
        Self { len, lent: Some(Box::new(Lent::new(host))), changes, ..Self::default() }
    }

    /// A region with this region's state, backed by the given host bytes.
    pub(crate) fn lent_by(&self, host: HostBytes) -> Self {
        let (init, undefined) = (self.init.clone(), self.undefined.clone());
        Self { init, undefined, changes: self.changes, ..Self::lent(host) }
    }

    /// Whether the host may change the bytes while a kernel runs.
    pub(crate) fn may_change(&self) -> bool {
        self.changes
    }

    /// Whether some of its bytes are the host's.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent.is_some()
    }

    /// Merges the written pages into the lent bytes and takes ownership of them. `base` supplies those bytes once they are no
    /// longer lent.
    pub(crate) fn settle(&mut self, base: impl FnOnce() -> Self) {
        if let Some(lent) = self.lent.take() {
            let pages = lent.keep();
            self.data = base().data;
            pages.copy_to(&mut self.data);
        }
    }

    /// Whether it tracks which bytes have been written.
    pub(crate) fn is_tracked(&self) -> bool {
        !self.init.is_empty()
    }

    /// Marks all bytes as unwritten and fills them with `poison`.
    pub(crate) fn clear(&mut self, poison: u8) {
        self.undefined = None;
        // Most CTAs have no shared memory. Filling nothing is not free: an AVX-512 `memset` then stores under an empty mask at an
        // address that is not mapped, which takes the CPU as long as many instructions of a warp.
        if self.len == 0 {
            return;
        }
        self.data.fill(poison);
        if self.init.is_empty() {
            self.init = Marks::clear(self.len);
        }
        self.init.clear_all();
    }

    /// Writes zeros.
    pub(crate) fn put_zeros(&mut self, at: usize, len: usize) {
        if let Some(bytes) = self.view_mut(at, len) {
            bytes.fill(0);
            self.mark(at, len);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The `N` bytes at `at`, if in range.
    #[inline]
    pub(crate) fn get<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        match self.data.get(at..).and_then(<[u8]>::first_chunk::<N>) {
            Some(bytes) => Some(*bytes),
            None => self.gather_lent(at, N)?.first_chunk::<N>().copied(),
        }
    }

    /// A range in place; `None` if it is out of range or not contiguous.
    #[inline(always)]
    pub(crate) fn view(&self, at: usize, len: usize) -> Option<&[u8]> {
        match self.data.get(at..at + len) {
            Some(bytes) => Some(bytes),
            None => self.view_lent(at, len),
        }
    }

    /// A range for writing, if in range.
    #[inline(always)]
    pub(crate) fn view_mut(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
        if at + len > self.data.len() {
            return self.take_lent(at, len);
        }
        self.data.get_mut(at..at + len)
    }

    /// A range, if in range; copied only if it is not contiguous.
    pub(crate) fn gather(&self, at: usize, len: usize) -> Option<Cow<'_, [u8]>> {
        match self.data.get(at..at.checked_add(len)?) {
            Some(bytes) => Some(Cow::Borrowed(bytes)),
            None => self.gather_lent(at, len),
        }
    }

    #[cold]
    fn view_lent(&self, at: usize, len: usize) -> Option<&[u8]> {
        self.lent.as_ref()?.view(at, len)
    }

    #[cold]
    fn gather_lent(&self, at: usize, len: usize) -> Option<Cow<'_, [u8]>> {
        self.lent.as_ref()?.gather(at, len)
    }

    #[cold]
    fn take_lent(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
        let lent = self.lent.as_mut()?;
        lent.take(at, len)?;
        if let Some(all) = lent.all_taken() {
            (self.data, self.lent) = (all, None);
            return self.data.get_mut(at..at + len);
        }
        self.lent.as_mut()?.take(at, len)
    }

    /// Bytes of memory in use.
    pub(crate) fn held_bytes(&self) -> usize {
        self.data.len() + self.lent.as_ref().map_or(0, |lent| lent.held_bytes())
    }

    /// Runs of bytes that may differ from those that the host lent.
    pub(crate) fn written_runs(&self) -> Vec<Range<usize>> {
        match &self.lent {
            Some(lent) => lent.taken_runs(),
            None => std::iter::once(0..self.len).collect(),
        }
    }

    /// The index of the first byte that differs from a region of the same length.
    pub(crate) fn first_difference(&self, other: &Self) -> Option<usize> {
        let runs = match (&self.lent, &other.lent) {
            (Some(one), Some(two)) => one.apart_from(two),
            _ => std::iter::once(0..self.len).collect(),
        };
        runs.into_iter().find_map(|run| {
            // In pieces, which bounds the size of assembled copies.
            run.clone().step_by(PIECE).find_map(|at| {
                let len = PIECE.min(run.end - at);
                let (one, two) = (self.gather(at, len)?, other.gather(at, len)?);
                crate::api::device::first_difference(&one, &two).map(|found| at + found)
            })
        })
    }

    /// Whether every byte of the range has been written.
    #[inline]
    pub(crate) fn is_written(&self, at: usize, len: usize) -> bool {
        self.init.is_empty()
            || bits(at, len).all(|(n, mask)| self.init.word(n).is_some_and(|w| w & mask == mask))
    }

    /// Whether the bytes of a mask have been written, of those from `64 * n` on.
    #[inline(always)]
    pub(crate) fn has_written(&self, n: usize, mask: u64) -> bool {
        self.init.is_empty() || self.init.word(n).is_some_and(|word| word & mask == mask)
    }

    #[inline]
    pub(crate) fn mark(&mut self, at: usize, len: usize) {
        if self.init.is_empty() {
            return;
        }
        if len == self.len && len >= LARGE {
            // Without a bitmap, nothing is looked up.
            (self.init, self.undefined) = (Marks::default(), None);
            return;
        }
        for (n, mask) in bits(at, len) {
            self.init.set(n, mask);
        }
    }

    /// Whether every one of these bytes has been written; lines are counted from the region's begin.
    pub(crate) fn lines_are_written(&self, lines: &[impl OfLine]) -> bool {
        self.init.is_empty()
            || lines.iter().all(|of| {
                let bytes = of.bytes();
                let has = |n: usize, mask: u64| {
                    mask == 0 || self.init.word(n).is_some_and(|word| word & mask == mask)
                };
                has(2 * of.line(), bytes as u64) && has(2 * of.line() + 1, (bytes >> 64) as u64)
            })
    }

    /// Marks these words as written.
    pub(crate) fn mark_lines(&mut self, lines: &[WordsOfLine]) {
        if self.init.is_empty() {
            return;
        }
        for of in lines {
            let bytes = of.bytes();
            for (n, mask) in
                [(2 * of.line as usize, bytes as u64), (2 * of.line as usize + 1, (bytes >> 64) as u64)]
            {
                if mask != 0 {
                    self.init.set(n, mask);
                }
            }
        }
    }

    /// Marks bytes as unwritten.
    pub(crate) fn unmark(&mut self, at: usize, len: usize) {
        if self.init.is_empty() && len > 0 {
            self.init = Marks::full(self.len);
        }
        for (n, mask) in bits(at, len) {
            self.init.unset(n, mask);
            if let Some(undefined) = &mut self.undefined {
                undefined.unset(n, mask);
            }
        }
    }

    /// Marks bytes as unwritten because a store of undefined bits changed them.
    pub(crate) fn undefine(&mut self, at: usize, len: usize) {
        self.unmark(at, len);
        let all = self.len;
        let undefined = self.undefined.get_or_insert_with(|| Marks::clear(all));
        for (n, mask) in bits(at, len) {
            undefined.set(n, mask);
        }
    }

    /// The bits of a word of `init` whose bytes a store left undefined.
    fn undefined_bits(&self, n: usize) -> u64 {
        let word = self.undefined.as_ref().and_then(|words| words.word(n));
        word.map_or(0, |word| word & !self.init.word(n).unwrap_or(!0))
    }

    /// Whether a store has left a byte of the range undefined.
    pub(crate) fn has_undefined(&self, at: usize, len: usize) -> bool {
        self.undefined.is_some() && bits(at, len).any(|(n, mask)| self.undefined_bits(n) & mask != 0)
    }

    /// Ranges that were never written, or were left undefined.
    pub(crate) fn unwritten_runs(&self) -> Vec<Range<usize>> {
        self.runs_without(self.init.words())
    }

    /// Ranges that no store has changed since they were last marked as unwritten.
    pub(crate) fn untouched_runs(&self) -> Vec<Range<usize>> {
        self.runs_without(self.init.words().enumerate().map(|(n, word)| word | self.undefined_bits(n)))
    }

    /// Ranges whose bits in a bitmap with one bit per byte are all 0.
    fn runs_without(&self, table: impl Iterator<Item = u64>) -> Vec<Range<usize>> {
        let (mut runs, mut begun): (Vec<Range<usize>>, _) = (Vec::new(), None);
        for (n, word) in table.enumerate() {
            // Most words are all zeros or all ones.
            match (word, begun) {
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
        // The last word may cover more bytes than the region has.
        if let Some(last) = runs.last_mut() {
            last.end = last.end.min(self.len());
        }
        runs.retain(|run| run.start < run.end);
        runs
    }

    /// Calls `each` with the undefined bytes of a range, as runs in ascending order, and with whether a store left them undefined; the
    /// others were never written.
    pub(crate) fn each_undefined(&self, at: usize, len: usize, mut each: impl FnMut(Range<usize>, bool)) {
        if self.init.is_empty() {
            return;
        }
        let mut last: Option<(Range<usize>, bool)> = None;
        for (n, mask) in bits(at, len) {
            let missing = mask & !self.init.word(n).unwrap_or(!0);
            let left = self.undefined_bits(n);
            let mut from = 0;
            while from < 64 && missing >> from != 0 {
                let bit = from + (missing >> from).trailing_zeros();
                let stored = left >> bit & 1 == 1;
                let alike = missing & if stored { left } else { !left };
                from = bit + (alike >> bit).trailing_ones();
                let run = n * 64 + bit as usize..n * 64 + from as usize;
                match &mut last {
                    Some((held, kind)) if held.end == run.start && *kind == stored => held.end = run.end,
                    _ => {
                        if let Some((held, kind)) = last.replace((run, stored)) {
                            each(held, kind);
                        }
                    }
                }
            }
        }
        if let Some((held, kind)) = last {
            each(held, kind);
        }
    }

    /// Whether any byte of the region was ever written, or left undefined by a store.
    pub(crate) fn is_touched(&self) -> bool {
        self.init.is_empty() || self.init.any() || self.undefined.as_ref().is_some_and(Marks::any)
    }

    /// Number of unwritten bytes.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.unwritten_runs().iter().map(Range::len).sum()
    }

    /// Copies bytes, with their initialisation state, from a region of the same length.
    pub(crate) fn adopt(&mut self, from: &Self, at: usize, len: usize) {
        let (Some(to), Some(bytes)) = (self.view_mut(at, len), from.gather(at, len)) else { return };
        to.copy_from_slice(&bytes);
        if from.is_written(at, len) {
            return self.mark(at, len);
        }
        for at in at..at + len {
            match from.is_written(at, 1) {
                true => self.mark(at, 1),
                false if from.has_undefined(at, 1) => self.undefine(at, 1),
                false => self.unmark(at, 1),
            }
        }
    }

    /// Keeps what the bytes from `at` on are.
    pub(crate) fn keep<const N: usize, const W: usize>(&self, at: usize, before: &mut Before<N, W>) {
        let len = N.min(self.len.saturating_sub(at));
        (before.at, before.len) = (at, len);
        if let (Some(bytes), Some(to)) = (self.gather(at, len), before.bytes.get_mut(..len)) {
            to.copy_from_slice(&bytes);
        }
        // Without a bitmap all bytes count as written.
        before.init = std::array::from_fn(|n| self.init.word(at / 64 + n).unwrap_or(!0));
        let words = |marks: &Marks| std::array::from_fn(|n| marks.word(at / 64 + n).unwrap_or(0));
        before.undefined = self.undefined.as_ref().map(words);
    }

    /// Makes bytes what they were.
    pub(crate) fn restore<const N: usize, const W: usize>(&mut self, before: &Before<N, W>) {
        let Before { at, len, bytes, init, undefined } = before;
        if let (Some(place), Some(bytes)) = (self.view_mut(*at, *len), bytes.get(..*len)) {
            place.copy_from_slice(bytes);
        }
        for n in 0..len.div_ceil(64) {
            self.init.put(at / 64 + n, init[n]);
            if let Some(marks) = &mut self.undefined {
                marks.put(at / 64 + n, undefined.map_or(0, |words| words[n]));
            }
        }
    }

    /// Gives each of `lanes` equal parts another size, a multiple of 64 as before; what is new is unwritten.
    pub(crate) fn resized(&self, lanes: usize, to: usize, poison: u8) -> Self {
        let from = self.len / lanes;
        let mut made = Self::unwritten(lanes * to, poison);
        let (kept, words) = (from.min(to), from.min(to) / 64);
        for lane in 0..lanes {
            made.data[lane * to..][..kept].copy_from_slice(&self.data[lane * from..][..kept]);
            for n in 0..words {
                let (old, new) = (lane * from / 64 + n, lane * to / 64 + n);
                made.init.set(new, if self.init.is_empty() { !0 } else { self.init.word(old).unwrap_or(0) });
                if let Some(undefined) = &self.undefined {
                    let all = made.undefined.get_or_insert_with(|| Marks::clear(lanes * to));
                    all.set(new, undefined.word(old).unwrap_or(0));
                }
            }
        }
        made
    }

    /// Copies bytes within the region, with their initialisation state.
    pub(crate) fn copy_within(&mut self, from: usize, to: usize, len: usize) {
        if from + len > self.data.len() || to + len > self.data.len() {
            return;
        }
        self.data.copy_within(from..from + len, to);
        if self.is_written(from, len) {
            return self.mark(to, len);
        }
        let state: Vec<(bool, bool)> =
            (from..from + len).map(|at| (self.is_written(at, 1), self.has_undefined(at, 1))).collect();
        for (at, (written, undefined)) in (to..).zip(state) {
            match (written, undefined) {
                (true, _) => self.mark(at, 1),
                (false, true) => self.undefine(at, 1),
                (false, false) => self.unmark(at, 1),
            }
        }
    }

    /// Makes bytes unwritten again.
    pub(crate) fn forget(&mut self, at: usize, len: usize, poison: u8) {
        if let Some(bytes) = self.data.get_mut(at..at + len) {
            bytes.fill(poison);
            self.unmark(at, len);
        }
    }

    /// Whether writing these bytes would change what the range holds; unwritten bytes hold nothing.
    pub(crate) fn changes(&self, at: usize, bytes: &[u8]) -> bool {
        !self.is_written(at, bytes.len()) || self.view(at, bytes.len()) != Some(bytes)
    }

    #[inline]
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) -> bool {
        let Some(place) = self.view_mut(at, bytes.len()) else { return false };
        place.copy_from_slice(bytes);
        self.mark(at, bytes.len());
        true
    }
}
