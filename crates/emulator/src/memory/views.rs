//! Views of memory: a launch reads the original, copies the pages that it writes, and the result can be merged back.

use std::sync::Arc;

use crate::memory::global::{GlobalMemory, Region};
use crate::memory::held::Held;
use crate::memory::lent::HostBytes;

/// Size in bytes from which a view copies single pages of a buffer. Smaller buffers are copied as a whole on the first write and
/// avoid the page table lookup.
const LENT: usize = 1 << 20;

/// A region that views share.
struct Base(Arc<Region>);

impl AsRef<[u8]> for Base {
    fn as_ref(&self) -> &[u8] {
        &self.0.data
    }
}

impl GlobalMemory {
    /// Creates a view of this memory, which reads it in place until it writes.
    pub fn view(&mut self) -> Self {
        self.share();
        let mut view = self.clone();
        for held in view.allocations.iter_mut().map(|a| &mut a.region) {
            if let Held::Shared(base) = held
                && base.data.len() >= LENT
            {
                *held = Held::Own(base.lent_by(HostBytes::new(Base(Arc::clone(base)))));
            }
        }
        view
    }

    /// Replaces this memory with a view of it. Written pages are copied back into the original buffers if no other view exists; those
    /// of bytes that the host lent stay apart from them.
    pub fn settle(&mut self, mut view: Self) {
        // Both are in ascending order.
        let mut all = self.allocations.iter_mut().peekable();
        for after in &mut view.allocations {
            while all.next_if(|a| a.base < after.base).is_some() {}
            let before = all.next_if(|a| a.base == after.base);
            if let (Held::Own(region), Some(before)) = (&mut after.region, before)
                && !before.region.data.is_empty()
            {
                region.settle(|| std::mem::take(before.region.own()));
            }
        }
        *self = view;
    }

    /// The first byte that differs between two views of the same memory, or between clones of one view: the base of the buffer and
    /// the offset in it. Only what either of them has written is compared; a buffer that only one of them has is left out.
    #[must_use]
    pub fn first_difference_between(&self, other: &Self) -> Option<(u64, usize)> {
        let mut theirs = other.allocations.iter().peekable();
        self.allocations.iter().find_map(|own| {
            while theirs.next_if(|a| a.base < own.base).is_some() {}
            let other = theirs.next_if(|a| a.base == own.base)?;
            match (&own.region, &other.region) {
                (Held::Shared(one), Held::Shared(two)) if Arc::ptr_eq(one, two) => None,
                (one, two) => one.first_difference(two).map(|at| (own.base, at)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_copies_what_it_writes_and_gives_it_back() {
        let mut memory = GlobalMemory::default();
        let (large, small, empty) = (
            memory.allocate_with(vec![1; 3 * LENT]),
            memory.allocate_with(vec![2; 8]),
            memory.allocate(LENT),
        );
        let at = memory.bytes(large).unwrap().as_ptr();
        let mut view = memory.view();
        assert!(
            view.write_at(large + 5000, &[7; 2])
                && view.write_at(small, &[8])
                && view.write_at(empty + 9, &[9])
        );
        let runs: Vec<_> = view.written_runs(large).map(|(at, bytes)| (at, bytes.len())).collect();
        assert_eq!(runs, [(4096, 4096)]);
        assert_eq!((view.bytes(large), view.contents(large).unwrap()[5001]), (None, 7));
        assert_eq!((view.unwritten(empty), view.held_bytes()), (LENT - 1, 8 + 2 * 4096));
        // Changes become visible only when the view is settled.
        assert_eq!((memory.bytes(large).unwrap()[5000], memory.bytes(small).unwrap()[0]), (1, 2));
        assert_eq!((memory.first_difference_of(large, &view), memory.unwritten(empty)), (Some(5000), LENT));
        memory.settle(view);
        let bytes = memory.bytes(large).unwrap();
        assert_eq!((bytes.as_ptr(), &bytes[4999..5003]), (at, [1, 7, 7, 1].as_slice()));
        assert_eq!((memory.bytes(small).unwrap()[0], memory.unwritten(empty)), (8, LENT - 1));
        assert_eq!(memory.held_bytes(), 4 * LENT + 8);
    }

    #[test]
    fn clones_of_a_view_differ_in_what_they_wrote() {
        let mut memory = GlobalMemory::default();
        let (large, small) = (memory.allocate(64 * LENT), memory.allocate_with(vec![2; 8]));
        let host = memory.allocate_lent(HostBytes::new(vec![3; 2 * LENT]));
        let view = memory.view();
        let (mut one, mut two) = (view.clone(), view.clone());
        assert_eq!(one.first_difference_between(&two), None);
        for clone in [&mut one, &mut two] {
            assert!(clone.write_at(large + 5000, &[7]) && clone.write_at(host + 9000, &[9]));
        }
        // Two pages each, not 64 MiB.
        assert_eq!((one.held_bytes(), one.first_difference_between(&two)), (8 + 2 * 4096, None));
        two.write_at(small + 3, &[9]);
        assert_eq!(one.first_difference_between(&two), Some((small, 3)));
        one.write_at(large + 9000, &[1]);
        two.free(small);
        assert_eq!(one.first_difference_between(&two), Some((large, 9000)));
        drop((view, two));
        memory.settle(one);
        // The host's bytes stay in place; what kernels wrote there can be taken.
        assert_eq!(
            memory.written_runs(host).map(|(at, bytes)| (at, bytes[9000 - 8192])).collect::<Vec<_>>(),
            [(8192, 9)]
        );
        assert_eq!((memory.bytes(large).unwrap()[9000], memory.contents(host).unwrap()[9000]), (1, 9));
    }

    #[test]
    fn a_buffer_that_a_view_frees_is_gone() {
        let mut memory = GlobalMemory::default();
        let (one, two) = (memory.allocate_with(vec![1; LENT]), memory.allocate_with(vec![2; LENT]));
        let mut view = memory.view();
        assert!(view.free(one));
        let new = view.allocate(4);
        memory.settle(view);
        assert!(memory.bytes(one).is_none() && memory.bytes(new).is_some());
        assert_eq!(memory.bytes(two).map(|bytes| bytes[0]), Some(2));
    }
}
