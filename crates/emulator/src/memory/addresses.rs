//! The addresses of new buffers: behind the last one, and from the start again when the end of the window is reached.
//!
//! An address that was freed is reused as late as possible, so that a use after free is found. It is reused in the end: a program that
//! allocates and frees forever stays within the window, and never reaches that of another state space.

use crate::api::trap::Rule;
use crate::memory::global::{GUARD, GlobalMemory};
use crate::memory::window::{CONST_WINDOW, GLOBAL_BASE};

/// Where the next buffer is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The end of the last buffer; `None` before the first one.
    last: Option<u64>,
    /// The end of the window.
    end: u64,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { last: None, end: CONST_WINDOW }
    }
}

impl Cursor {
    /// Undoes the last allocation, if it was this one.
    pub(crate) fn take_back(&mut self, base: u64, end: u64) {
        if self.last == Some(end) {
            // A buffer follows the end of the one before it after a guard: the next one is at `base` again.
            self.last = (base > GLOBAL_BASE).then_some(base - GUARD);
        }
    }
}

/// The first address at which a buffer may begin if another one ends at `end`.
const fn behind(end: u64) -> u64 {
    (end + GUARD).next_multiple_of(GUARD)
}

impl GlobalMemory {
    /// Limits the addresses of buffers, except those placed by the caller, to below `end`.
    #[must_use]
    pub fn bounded(mut self, end: u64) -> Self {
        self.cursor.end = end.min(CONST_WINDOW);
        self
    }

    /// Finds addresses for a buffer that the caller places ([`GlobalMemory::place_lent`]); `None` if there are none.
    pub fn reserve_next(&mut self, len: u64) -> Option<u64> {
        self.take_addresses(len)
    }

    /// Finds addresses for a buffer of `len` bytes, a guard away from every other buffer; `None` if there are none.
    pub(crate) fn take_addresses(&mut self, len: u64) -> Option<u64> {
        let from = self.cursor.last.map_or(GLOBAL_BASE, behind);
        let base = self.gap(from, len).or_else(|| self.gap(GLOBAL_BASE, len))?;
        self.cursor.last = Some(base + len);
        Some(base)
    }

    /// The first gap at or above `base` for a buffer of `len` bytes.
    ///
    /// Every step moves past a buffer in between. Until the window has been used up there is none: the cursor is behind all buffers
    /// but those that the caller placed. Afterwards a search begins where the last one ended, so that all searches of a pass through
    /// the window meet a buffer once.
    fn gap(&self, mut base: u64, len: u64) -> Option<u64> {
        loop {
            let end = base.checked_add(len).filter(|end| *end <= self.cursor.end)?;
            let near = |from: u64, to: u64| from < end + GUARD && base < to + GUARD;
            let n = self.allocations.partition_point(|a| a.end() + GUARD <= base);
            let allocation = self.allocations.get(n).map(|a| (a.base, a.end()));
            let sparse = self.sparse.iter().map(|s| (s.start, s.end));
            let other = sparse.chain(self.withheld.ranges());
            match allocation.into_iter().chain(other).find(|(from, to)| near(*from, *to)) {
                None => return Some(base),
                Some((_, to)) => base = behind(to),
            }
        }
    }

    /// The rule that an access to these bytes violates, and how; `None` if they lie in one buffer.
    #[must_use]
    pub fn fault_at(&self, address: u64, len: usize) -> Option<(Rule, String)> {
        let end = address.checked_add(len as u64);
        let inside = |(base, held): (u64, usize)| end.is_some_and(|end| end <= base + held as u64);
        if self.buffer_around(address).is_some_and(inside) {
            return None;
        }
        let fault = self.outside(address, len);
        Some((fault.rule, fault.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_places_buffers_where_the_memory_will() {
        let mut memory = GlobalMemory::default();
        let (first, second) = (memory.allocate(1 << 20), memory.allocate(4));
        for freed in [first, second] {
            assert!(memory.remove(freed));
            let mut layout = memory.layout();
            let placed = [8, 1 << 21].map(|len| layout.allocate(len));
            assert_eq!(placed, [8, 1 << 21].map(|len| memory.allocate(len)));
        }
    }

    #[test]
    fn addresses_are_reused_when_the_window_is_used_up() {
        const BYTES: u64 = 1 << 20;
        let mut memory = GlobalMemory::default().bounded(GLOBAL_BASE + 4 * BYTES);
        let kept = memory.allocate(8);
        let placed = GLOBAL_BASE + BYTES;
        assert!(memory.place_at(placed, vec![0; 8]));
        let mut seen = std::collections::BTreeSet::new();
        // 100 times the window.
        for _ in 0..800 {
            let base = memory.allocate(BYTES as usize / 2);
            assert!(base > kept && base + BYTES / 2 <= GLOBAL_BASE + 4 * BYTES, "{base:#x}");
            assert!(base + BYTES / 2 + GUARD <= placed || base >= placed + 8 + GUARD, "{base:#x}");
            // What was freed last is reused last.
            assert!(
                memory.free(base)
                    && memory.fault_at(base, 1).is_some_and(|(rule, _)| rule == Rule::UseAfterFree)
            );
            seen.insert(base);
        }
        assert_eq!(seen.len(), 6);
        // What does not fit gets no address, and nothing can be accessed there.
        let full = memory.allocate(3 * BYTES as usize);
        assert_eq!((full, memory.reserve(5 * BYTES), memory.range(0, 1)), (0, None, None));
        assert!(memory.allocate(BYTES as usize) != 0);
    }

    #[test]
    fn a_buffer_removed_at_once_leaves_its_address() {
        let mut memory = GlobalMemory::default();
        for _ in 0..2 {
            let base = memory.allocate(100);
            assert_eq!(base, GLOBAL_BASE);
            assert!(memory.remove(base));
        }
        let first = memory.allocate(100);
        let second = memory.allocate(100);
        assert!(memory.remove(second) && memory.allocate(7) == second);
        assert!(memory.free(second) && memory.allocate(7) > second && memory.free(first));
    }

    #[test]
    fn an_access_is_classified_by_what_is_there() {
        let mut memory = GlobalMemory::default();
        let (live, gone) = (memory.allocate(16), memory.allocate(16));
        memory.free(gone);
        let rule = |at: u64, len: usize| memory.fault_at(at, len).map(|(rule, _)| rule);
        assert_eq!((rule(live, 16), rule(live + 8, 8)), (None, None));
        assert_eq!(
            (rule(live + 8, 9), rule(live, usize::MAX)),
            (Some(Rule::OutOfBounds), Some(Rule::OutOfBounds))
        );
        assert_eq!(
            (rule(gone, 4), rule(gone + 4096, 4)),
            (Some(Rule::UseAfterFree), Some(Rule::OutOfBounds))
        );
    }
}
