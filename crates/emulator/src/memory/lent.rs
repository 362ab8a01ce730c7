//! Host bytes lent to kernels: read in place, and copied page by page on the first write.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Host bytes, such as an array of another library. They are neither moved nor, unless they are [shared](HostBytes::shared), changed, and stay valid as long as this value lives.
#[derive(Clone)]
pub struct HostBytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    may_change: bool,
}

impl HostBytes {
    /// Wraps bytes that `owner` keeps alive.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self { owner: Arc::new(owner), may_change: false }
    }

    /// Wraps bytes that `owner` keeps alive and that the host may change while kernels run. A kernel that waits for such a change is
    /// no deadlock.
    pub fn shared(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self { owner: Arc::new(owner), may_change: true }
    }

    /// Whether the host may change the bytes while kernels run.
    pub(crate) fn may_change(&self) -> bool {
        self.may_change
    }

    /// The lent bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        (*self.owner).as_ref()
    }
}

impl std::fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostBytes({})", self.bytes().len())
    }
}

/// Compares owners by identity, not bytes.
impl PartialEq for HostBytes {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.owner, &other.owner)
    }
}

/// Size in bytes of the unit of copying.
const PAGE: usize = 4096;

/// Host bytes with copies of the pages that kernels have written.
#[derive(Debug, Clone)]
pub(crate) struct Lent {
    host: HostBytes,
    pages: Pages,
}

/// Copies of the pages that kernels have written.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// As long as the host's bytes, allocated on the first write. Only copied pages are meaningful; the operating system commits no
    /// memory for the others.
    own: Vec<u8>,
    /// One bit per page; empty until the first write.
    taken: Vec<u64>,
    /// Number of copied pages.
    count: usize,
}

impl Pages {
    fn has(&self, page: usize) -> bool {
        self.taken.get(page / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Splits a range into pieces, each of them either copied or not.
    fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = (bool, Range<usize>)> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let (begin, mut page) = (at, at / PAGE);
            if begin >= range.end {
                return None;
            }
            let taken = self.has(page);
            at = match self.count {
                0 => range.end,
                _ => {
                    // 64 pages at a time, where all of them are alike: of a large range most are not copied.
                    let alike = if taken { u64::MAX } else { 0 };
                    while page * PAGE < range.end && self.has(page) == taken {
                        let whole = page.is_multiple_of(64) && self.taken.get(page / 64) == Some(&alike);
                        page += if whole { 64 } else { 1 };
                    }
                    (page * PAGE).min(range.end)
                }
            };
            Some((taken, begin..at))
        })
    }

    /// The copied pages as runs of bytes.
    fn runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let all = if self.count == 0 { 0 } else { self.own.len() };
        self.pieces(0..all).filter(|(taken, _)| *taken).map(|(_, piece)| piece)
    }

    /// Writes the copied pages to their positions in `to`.
    pub(crate) fn copy_to(&self, to: &mut [u8]) {
        for run in self.runs() {
            if let (Some(to), Some(own)) = (to.get_mut(run.clone()), self.own.get(run)) {
                to.copy_from_slice(own);
            }
        }
    }
}

/// Only the copied pages are duplicated.
impl Clone for Pages {
    fn clone(&self) -> Self {
        if self.count == 0 {
            return Self::default();
        }
        let mut own = vec![0; self.own.len()];
        self.copy_to(&mut own);
        Self { own, taken: self.taken.clone(), count: self.count }
    }
}

impl Lent {
    pub(crate) fn new(host: HostBytes) -> Self {
        Self { host, pages: Pages::default() }
    }

    /// Drops the host bytes and keeps the copied pages.
    pub(crate) fn keep(self) -> Pages {
        self.pages
    }

    /// A range, if it is contiguous: entirely copied or entirely the host's.
    pub(crate) fn view(&self, at: usize, len: usize) -> Option<&[u8]> {
        let range = at..at.checked_add(len)?;
        // Most accesses lie in one page.
        if len > 0 && (self.pages.count == 0 || at / PAGE == (range.end - 1) / PAGE) {
            let own = self.pages.count > 0 && self.pages.has(at / PAGE);
            return if own { self.pages.own.get(range) } else { self.host.bytes().get(range) };
        }
        let mut pieces = self.pages.pieces(range.clone());
        match (pieces.next(), pieces.next()) {
            (Some(_), Some(_)) => None,
            (Some((true, _)), None) => self.pages.own.get(range),
            _ => self.host.bytes().get(range),
        }
    }

    /// A range, assembled if it is not contiguous.
    pub(crate) fn gather(&self, at: usize, len: usize) -> Option<Cow<'_, [u8]>> {
        if let Some(bytes) = self.view(at, len) {
            return Some(Cow::Borrowed(bytes));
        }
        let end = at.checked_add(len).filter(|end| *end <= self.host.bytes().len())?;
        let mut all = Vec::with_capacity(len);
        for (taken, piece) in self.pages.pieces(at..end) {
            all.extend_from_slice(if taken { &self.pages.own } else { self.host.bytes() }.get(piece)?);
        }
        Some(Cow::Owned(all))
    }

    /// Copies the pages of a range and returns the range for writing.
    pub(crate) fn take(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
        let (host, pages) = (self.host.bytes(), &mut self.pages);
        let end = at.checked_add(len).filter(|end| *end <= host.len())?;
        if len == 0 {
            return Some(&mut []);
        }
        if pages.own.is_empty() {
            pages.own = vec![0; host.len()];
            pages.taken = vec![0; host.len().div_ceil(PAGE).div_ceil(64)];
        }
        for page in at / PAGE..end.div_ceil(PAGE) {
            let (word, bit) = (pages.taken.get_mut(page / 64)?, 1 << (page % 64));
            if *word & bit == 0 {
                let range = page * PAGE..((page + 1) * PAGE).min(host.len());
                pages.own.get_mut(range.clone())?.copy_from_slice(host.get(range)?);
                *word |= bit;
                pages.count += 1;
            }
        }
        pages.own.get_mut(at..end)
    }

    /// All bytes, if every page has been copied.
    pub(crate) fn all_taken(&mut self) -> Option<Vec<u8>> {
        let all = self.pages.own.len().div_ceil(PAGE);
        (all > 0 && self.pages.count == all).then(|| std::mem::take(&mut self.pages.own))
    }

    /// Bytes of memory in use.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pages.count * PAGE
    }

    /// Runs of bytes that may differ from the host's.
    pub(crate) fn taken_runs(&self) -> Vec<Range<usize>> {
        self.pages.runs().collect()
    }

    /// Runs of bytes that may differ between the two; everything, if the hosts differ.
    pub(crate) fn apart_from(&self, other: &Self) -> Vec<Range<usize>> {
        if self.host != other.host {
            return std::iter::once(0..self.host.bytes().len()).collect();
        }
        let mut all = [self.taken_runs(), other.taken_runs()].concat();
        all.sort_by_key(|run| run.start);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lent(len: usize) -> Lent {
        Lent::new(HostBytes::new((0..len).map(|n| n as u8).collect::<Vec<u8>>()))
    }

    fn runs(lent: &Lent) -> Vec<(usize, usize)> {
        lent.taken_runs().iter().map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn only_written_pages_are_copied() {
        let mut lent = lent(3 * PAGE + 100);
        assert_eq!((lent.held_bytes(), lent.taken_runs()), (0, Vec::new()));
        assert_eq!(lent.view(PAGE - 2, 4), Some([254, 255, 0, 1].as_slice()));
        lent.take(PAGE + 8, 2).unwrap().copy_from_slice(&[7, 7]);
        assert_eq!(runs(&lent), [(PAGE, 2 * PAGE)]);
        assert_eq!(lent.view(PAGE + 6, 5), Some([6, 7, 7, 7, 10].as_slice()));
        // Two pages that are not contiguous.
        assert_eq!(lent.view(PAGE - 2, 4), None);
        assert_eq!(lent.gather(PAGE - 2, 4).unwrap(), [254, 255, 0, 1].as_slice());
        assert_eq!(lent.gather(0, 3 * PAGE + 100).unwrap()[PAGE + 8..PAGE + 11], [7, 7, 10]);
        let copy = lent.clone();
        assert_eq!(copy.view(PAGE, 16), lent.view(PAGE, 16));
        assert!(copy.apart_from(&lent).iter().all(|run| *run == (PAGE..2 * PAGE)));
        assert_eq!(copy.apart_from(&self::lent(PAGE)).len(), 1);
        // A write across two pages, and the last one, which is short.
        lent.take(PAGE - 1, 2).unwrap().fill(1);
        lent.take(3 * PAGE + 99, 1).unwrap().fill(2);
        assert_eq!(runs(&lent), [(0, 2 * PAGE), (3 * PAGE, 3 * PAGE + 100)]);
        assert_eq!((lent.all_taken(), copy.view(PAGE, 1)), (None, Some([0].as_slice())));
        lent.take(2 * PAGE, PAGE).unwrap();
        let all = lent.all_taken().unwrap();
        assert_eq!(
            (all.len(), &all[PAGE - 1..PAGE + 1], all[3 * PAGE + 99]),
            (3 * PAGE + 100, [1; 2].as_slice(), 2)
        );
    }

    #[test]
    fn what_lies_outside_is_neither_read_nor_written() {
        let mut lent = lent(PAGE);
        for (at, len) in [(PAGE, 1), (PAGE - 1, 2), (usize::MAX, 2)] {
            assert_eq!((lent.view(at, len), lent.gather(at, len)), (None, None));
            assert!(lent.take(at, len).is_none());
        }
        assert_eq!((lent.view(PAGE, 0), lent.held_bytes()), (Some([].as_slice()), 0));
    }
}
