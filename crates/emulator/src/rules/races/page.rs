//! The shadow of a page of memory.
//!
//! Most lines of global memory are only read, and often in parts: every other word, or one word of many. A line that a single warp
//! has read in parts, and nobody else has touched, is therefore kept as that read and a mask of its bytes ([`PartlyRead`]): that
//! costs neither cells for the parts nor the time to split the line. Any other access first turns it into cells
//! ([`Page::update`]), so that this loses nothing.

use super::accesses::{Accesses, Mark};
use super::global::Who;
use crate::rules::shadow::{LINE, Shadows};

/// Bytes of a page.
pub(super) const PAGE: usize = 1024;

/// The bytes of a line that one warp has read; none if `bytes` is 0.
#[derive(Debug, Clone, Copy, Default)]
struct PartlyRead {
    by: Who,
    bytes: u128,
}

/// What a page of memory remembers.
pub(super) struct Page {
    cells: Shadows<Accesses<Who>>,
    partly: [PartlyRead; PAGE / LINE],
    /// One bit for each line that is partly read.
    lines: u32,
}

impl Page {
    pub(super) fn new() -> Self {
        Self { cells: Shadows::new(PAGE), partly: Default::default(), lines: 0 }
    }

    /// Records a weak read by a warp, if that needs no other knowledge: of bytes of one line that only this warp has touched since
    /// the launch began, or that it has read just before.
    #[inline]
    pub(super) fn read(&mut self, at: usize, len: usize, who: Who) -> bool {
        let (line, start) = (at / LINE, at % LINE);
        if start + len >= LINE {
            return false;
        }
        let bytes = ((1u128 << len) - 1) << start;
        let Some(partly) = self.partly.get_mut(line) else { return false };
        if partly.bytes != 0 {
            // One time for all bytes: with a later one, what was read earlier would have to be ordered after it, too.
            if who != partly.by {
                return false;
            }
            *partly = PartlyRead { by: who, bytes: partly.bytes | bytes };
            return true;
        }
        let whole = self.cells.line(line);
        if whole == Some(Accesses::default()) {
            *partly = PartlyRead { by: who, bytes };
            self.lines |= 1 << line;
            return true;
        }
        whole.is_some_and(|whole| !whole.write.exists() && whole.reads[0] == who)
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

    /// Replaces what bytes remember.
    pub(super) fn set(&mut self, at: usize, len: usize, accesses: Accesses<Who>) {
        if self.lines != 0 && len > 0 {
            self.split(at / LINE, (at + len - 1) / LINE);
        }
        self.cells.set(at, len, accesses);
    }

    /// Turns partly read lines, from `first` to `last`, into cells.
    #[cold]
    fn split(&mut self, first: usize, last: usize) {
        for line in first..=last {
            let Some(partly) = self.partly.get_mut(line).map(std::mem::take) else { continue };
            self.lines &= !(1 << line);
            let read = Accesses { write: Who::default(), reads: [partly.by, Who::default()] };
            let (mut at, mut left) = (line * LINE, partly.bytes);
            while left != 0 {
                let skipped = left.trailing_zeros();
                left >>= skipped;
                at += skipped as usize;
                let len = left.trailing_ones();
                self.cells.set(at, len as usize, read);
                // A partly read line is never read as a whole: the shift is less than its width.
                left >>= len;
                at += len as usize;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_partly_read_line_remembers_what_its_bytes_would() {
        let mut page = Page::new();
        let (one, later, other) = (Who([1, 1, 0]), Who([1, 2, 0]), Who([2, 1, 0]));
        let found = |page: &mut Page, at: usize| {
            let seen = RefCell::new(Vec::new());
            let _ = page.update(at, 1, |accesses| {
                seen.borrow_mut().push(*accesses);
                Ok::<(), ()>(())
            });
            seen.into_inner()[0].reads
        };
        assert!(page.read(256, 4, one) && page.read(264, 4, one) && page.read(260, 2, one));
        // The line is whole, is passed, belongs to another warp, or was read at another time.
        assert!(!page.read(256, 128, one) && !page.read(380, 8, one));
        assert!(!page.read(272, 4, other) && !page.read(272, 4, later));
        let none = [Who::default(); 2];
        let read = |who| [who, Who::default()];
        assert_eq!([256, 262, 264, 268].map(|at| found(&mut page, at)), [read(one), none, read(one), none]);
        // It is split now.
        assert!(!page.read(272, 4, one));
        assert!(page.read(512, 1, other) && page.lines == 1 << 4);
        page.set(512, 128, Accesses::written(one));
        assert!(page.lines == 0 && !page.read(516, 4, one));
    }
}
