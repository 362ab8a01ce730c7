//! The shadow of a page of memory.
//!
//! Most lines of global memory are only read, and often in parts: every other word, half a line by half a warp, one word of many, and
//! by many warps. Such a line is kept as its [`Readers`], with a mask of bytes for each: that costs neither cells for the parts nor
//! the time to split the line. Any other access first turns it into cells ([`Page::update`]).
//!
//! This loses what [`Accesses`] loses, and no more: of reads without an order two are kept for each byte, by different threads, and if
//! possible of different CTAs. A reader gives its place to another one only if two others remain for each of its bytes.

use super::accesses::{Accesses, Mark};
use super::global::Who;
use crate::rules::shadow::{LINE, Shadows};

/// Bytes of a page.
pub(super) const PAGE: usize = 1024;

/// A warp at a time, and the bytes of a line that it has read; none if `bytes` is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Reader {
    by: Who,
    bytes: u128,
}

/// The number of readers of a line that are kept apart.
const READERS: usize = 4;

/// The readers of a line that nobody has written, the newest last. Vacant places have no bytes, and are the last ones.
type Readers = [Reader; READERS];

/// What a page of memory remembers.
pub(super) struct Page {
    cells: Shadows<Accesses<Who>>,
    /// By line; empty until first needed.
    readers: Vec<Readers>,
    /// One bit for each line that has readers. Its cells are untouched.
    lines: u32,
}

/// Adds a read to the readers of a line, if that loses nothing.
#[inline]
fn add(readers: &mut Readers, read: Reader) -> bool {
    if let Some(known) = readers.iter_mut().find(|known| known.bytes != 0 && known.by == read.by) {
        known.bytes |= read.bytes;
        return true;
    }
    // An earlier read of the same warp is ordered before this one.
    let mut emptied = false;
    for known in
        readers.iter_mut().filter(|known| known.bytes & read.bytes != 0 && known.by.same_warp(read.by))
    {
        known.bytes &= !read.bytes;
        emptied |= known.bytes == 0;
    }
    if emptied {
        readers.sort_by_key(|known| known.bytes == 0);
    }
    if let Some(vacant) = readers.iter_mut().find(|known| known.bytes == 0) {
        *vacant = read;
        return true;
    }
    // A reader of the same CTA goes first, so that those of others remain.
    let same = |n: &usize| readers[*n].by.same_cta(read.by);
    let replaced = (0..READERS).filter(same).chain((0..READERS).filter(|n| !same(n))).find(|n| {
        let (mut once, mut twice) = (read.bytes, 0);
        for (_, other) in readers.iter().enumerate().filter(|(other, _)| other != n) {
            twice |= once & other.bytes;
            once |= other.bytes;
        }
        readers[*n].bytes & !twice == 0
    });
    let Some(replaced) = replaced else { return false };
    readers[replaced..].rotate_left(1);
    readers[READERS - 1] = read;
    true
}

/// The two reads that a byte remembers, of its readers from the oldest: the newest, and one of another CTA if there is one.
fn two_of(readers: impl DoubleEndedIterator<Item = Who> + Clone) -> [Who; 2] {
    let mut newest = readers.rev();
    let Some(last) = newest.next() else { return [Who::default(); 2] };
    let other = newest.clone().find(|who| !who.same_cta(last)).or_else(|| newest.next());
    [last, other.unwrap_or_default()]
}

impl Page {
    pub(super) fn new() -> Self {
        Self { cells: Shadows::new(PAGE), readers: Vec::new(), lines: 0 }
    }

    /// Records a weak read by a warp, if that needs no knowledge of the order of accesses: of bytes of one line that nobody has
    /// written since the launch began.
    #[inline]
    pub(super) fn read(&mut self, at: usize, len: usize, who: Who) -> bool {
        let (line, start) = (at / LINE, at % LINE);
        start + len <= LINE && self.read_bytes(line, (!0 >> (LINE - len)) << start, who)
    }

    /// [`Page::read`] of some bytes of a line, by a mask.
    #[inline]
    pub(super) fn read_bytes(&mut self, line: usize, bytes: u128, who: Who) -> bool {
        if line >= PAGE / LINE {
            return false;
        }
        let whole = bytes == !0;
        let read = Reader { by: who, bytes };
        if self.lines >> line & 1 == 1 {
            return self.readers.get_mut(line).is_some_and(|readers| add(readers, read));
        }
        let Some(cell) = self.cells.line(line) else { return false };
        if whole || cell.write.exists() {
            return false;
        }
        let [one, two] = cell.reads;
        if one == who || two == who {
            return true;
        }
        if one.wrote() || two.wrote() || one.strong() || two.strong() || one.is_copy() || two.is_copy() {
            return false;
        }
        // The whole line was read before, by one or two warps: they become readers, and their cells untouched.
        if self.readers.is_empty() {
            self.readers = vec![Readers::default(); PAGE / LINE];
        }
        let Some(readers) = self.readers.get_mut(line) else { return false };
        *readers = Readers::default();
        let mut places = readers.iter_mut();
        for by in [two, one].into_iter().filter(|by| by.exists()) {
            if let Some(place) = places.next() {
                *place = Reader { by, bytes: !0 };
            }
        }
        if let Some(place) = places.next() {
            *place = read;
        }
        self.cells.set(line * LINE, LINE, Accesses::default());
        self.lines |= 1 << line;
        true
    }

    /// Applies `step` as [`Shadows::update`] does.
    #[inline]
    pub(super) fn update<E>(
        &mut self,
        at: usize,
        len: usize,
        step: impl Fn(&mut Accesses<Who>) -> Result<(), E>,
    ) -> Result<(), (usize, E)> {
        if self.lines != 0 && len > 0 {
            self.split(at / LINE, (at + len - 1) / LINE);
        }
        self.cells.update(at, len, step)
    }

    /// Applies `step` as [`Shadows::update_words`] does.
    pub(super) fn update_words<E>(
        &mut self,
        line: usize,
        words: u32,
        step: impl Fn(&mut Accesses<Who>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.lines != 0 {
            self.split(line, line);
        }
        self.cells.update_words(line, words, step)
    }

    /// Replaces what bytes remember.
    pub(super) fn set(&mut self, at: usize, len: usize, accesses: Accesses<Who>) {
        if self.lines != 0 && len > 0 {
            self.split(at / LINE, (at + len - 1) / LINE);
        }
        self.cells.set(at, len, accesses);
    }

    /// Turns lines that have readers, from `first` to `last`, into cells.
    #[cold]
    fn split(&mut self, first: usize, last: usize) {
        for line in first..=last {
            if self.lines >> line & 1 == 0 {
                continue;
            }
            let Some(readers) = self.readers.get(line).copied() else { continue };
            self.lines &= !(1 << line);
            let mut at = 0;
            while at < LINE {
                // The bytes from here that have the same readers.
                let mut same = !0u128;
                for Reader { bytes, .. } in readers {
                    same &= if bytes >> at & 1 == 1 { bytes } else { !bytes };
                }
                let len = ((same >> at).trailing_ones() as usize).min(LINE - at);
                let all = readers.iter().filter(|reader| reader.bytes >> at & 1 == 1).map(|reader| reader.by);
                let reads = two_of(all);
                if reads[0].exists() {
                    self.cells.set(line * LINE + at, len, Accesses { write: Who::default(), reads });
                }
                at += len;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn found(page: &mut Page, at: usize) -> [Who; 2] {
        let seen = RefCell::new(Vec::new());
        let _ = page.update(at, 1, |accesses| {
            seen.borrow_mut().push(*accesses);
            Ok::<(), ()>(())
        });
        seen.into_inner()[0].reads
    }

    #[test]
    fn a_line_that_is_read_in_parts_remembers_what_its_bytes_would() {
        let mut page = Page::new();
        let (one, later, other) = (Who([1, 1, 0]), Who([1, 2, 0]), Who([2, 1, 0]));
        assert!(page.read(256, 4, one) && page.read(264, 4, one) && page.read(260, 2, one));
        // The line is passed.
        assert!(!page.read(380, 8, one));
        assert!(page.read(272, 4, other) && page.read(272, 4, later) && page.read(256, 128, other));
        let none = Who::default();
        let reads = [[other, one], [other, one], [other, none], [other, one], [other, none], [later, other]];
        for (at, reads) in [256, 261, 262, 264, 268, 272].into_iter().zip(reads) {
            let mut found = found(&mut page, at);
            found.sort_by_key(|who| who.0);
            let mut reads = reads;
            reads.sort_by_key(|who| who.0);
            assert_eq!(found, reads, "{at}");
        }
        // It is cells now.
        assert!(!page.read(272, 4, one));
        assert!(page.read(512, 1, other) && page.lines == 1 << 4);
        page.set(512, 128, Accesses::written(one));
        assert!(page.lines == 0 && !page.read(516, 4, one));
        // A whole line that one warp has read has readers if others read parts.
        page.set(640, 128, Accesses { write: none, reads: [one, none] });
        assert!(page.read(644, 4, one) && page.lines == 0);
        assert!(page.read(644, 4, other) && page.lines == 1 << 5);
        assert_eq!((found(&mut page, 640), found(&mut page, 644)), ([one, none], [other, one]));
    }

    #[test]
    fn two_readers_of_each_byte_remain_of_many() {
        let mut page = Page::new();
        let warp = |cta, warp| Who([cta, 1, warp]);
        // Readers that share no byte have no place for a fifth.
        for n in 0..READERS as u32 {
            assert!(page.read(32 * n as usize, 32, warp(n + 1, 0)));
        }
        assert!(!page.read(0, 4, warp(9, 0)));
        // All read the same: the newest remain, and one of another CTA.
        for n in 0..20 {
            assert!(page.read(128, 16, warp(1, n)));
        }
        assert!(
            page.read(128, 16, warp(2, 0))
                && page.read(128, 16, warp(2, 1))
                && page.read(128, 16, warp(2, 2))
        );
        let [last, before] = found(&mut page, 130);
        assert_eq!((last, before.cta()), (warp(2, 2), 1));
    }
}
