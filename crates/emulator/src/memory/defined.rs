//! Which bytes of global memory are defined when the host reads or copies them, and what kernels have used.
//!
//! Bytes are undefined in two ways: nothing ever wrote them, or a kernel stored bits that depend on such bytes. The second is the
//! result of a computation that went wrong; the first may be what nobody needs, such as the padding of a struct or the rest of a
//! buffer. [`GlobalMemory::each_undefined`] keeps them apart, and a copy between buffers ([`GlobalMemory::copy`]) moves both.

use std::ops::Range;

use crate::api::trap::{Place, Trap};
use crate::memory::global::GlobalMemory;

/// What kernels have done with a buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Uses {
    /// Whether a kernel has read from it.
    pub read: bool,
    /// Whether a kernel has written to it.
    pub written: bool,
}

/// Undefined bytes that an instruction stored.
#[derive(Debug, Clone)]
pub(crate) struct LeftUndefined {
    /// From the lowest address to the end of the highest.
    pub(crate) range: Range<u64>,
    /// The violation to report if they are used as a result.
    pub(crate) trap: Trap,
    /// Whether the instruction stores a register as it was loaded.
    pub(crate) moved: bool,
}

impl LeftUndefined {
    /// Whether the instruction is the one at a place.
    fn is_at(&self, place: &Place) -> bool {
        let own = &self.trap.place;
        (own.line, &own.kernel, &own.instruction) == (place.line, &place.kernel, &place.instruction)
    }
}

/// A contiguous run of undefined bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndefinedRun<'a> {
    /// Its addresses.
    pub range: Range<u64>,
    /// The store that left them undefined, as a violation; `None` if nothing wrote them.
    pub left: Option<&'a Trap>,
    /// Whether that store moved what a load read, unchanged.
    pub moved: bool,
}

impl GlobalMemory {
    /// Whether an instruction that has left undefined bytes before moves what a load read.
    pub(crate) fn is_known_move(&self, place: &Place) -> Option<bool> {
        self.undefined.iter().find(|left| left.is_at(place)).map(|left| left.moved)
    }

    /// Records that a store left undefined bytes in this range. The same instruction is recorded once, however often it runs.
    pub(crate) fn keep_undefined(&mut self, range: Range<u64>, trap: Trap, moved: bool) {
        let mut range = range;
        if let Some(known) = self.undefined.iter().position(|left| left.is_at(&trap.place)) {
            let known = self.undefined.remove(known).range;
            range = range.start.min(known.start)..range.end.max(known.end);
        }
        // The last one is the latest, which is asked first.
        self.undefined.push(LeftUndefined { range, trap, moved });
    }

    /// Forgets what was stored in a buffer that ends here.
    pub(crate) fn forget_undefined(&mut self, base: u64, end: u64) {
        self.undefined.retain(|left| left.range.start < base || left.range.end > end);
    }

    /// The store that left the byte at this address undefined.
    pub(crate) fn left_undefined(&self, address: u64) -> Option<&LeftUndefined> {
        self.undefined.iter().rev().find(|left| left.range.contains(&address))
    }

    /// Calls `each` with the undefined bytes of a range within one buffer, as runs in ascending order.
    pub fn each_undefined<'a>(&'a self, address: u64, len: usize, mut each: impl FnMut(UndefinedRun<'a>)) {
        let around = self.buffer_around(address).and_then(|(base, _)| Some((base, self.held(base)?)));
        let Some((base, held)) = around else { return };
        let at = (address - base) as usize;
        held.each_undefined(at, len.min(held.len() - at), |run, stored| {
            let range = base + run.start as u64..base + run.end as u64;
            let left = self.left_undefined(range.start).filter(|_| stored);
            let moved = left.is_some_and(|left| left.moved);
            each(UndefinedRun { range, left: left.map(|left| &left.trap), moved });
        });
    }

    /// Whether the host or a kernel ever wrote to the buffer that begins at `base`, be it undefined bits.
    #[must_use]
    pub fn is_touched(&self, base: u64) -> bool {
        self.held(base).is_some_and(|region| region.is_touched())
    }

    /// Copies bytes from one buffer to another, or within one, with their state: what is undefined stays so. Returns false if either
    /// range does not lie in one buffer.
    pub fn copy(&mut self, to: u64, from: u64, len: usize) -> bool {
        let (Ok((source, at)), Ok((target, place))) = (self.locate(from, len), self.locate(to, len)) else {
            return false;
        };
        let region = self.region(source);
        let Some(bytes) = region.gather(at, len).map(std::borrow::Cow::into_owned) else { return false };
        let mut undefined = Vec::new();
        region.each_undefined(at, len, |run, stored| undefined.push((run, stored)));
        let region = self.region_mut(target);
        if !region.put(place, &bytes) {
            return false;
        }
        for (run, stored) in undefined {
            let to_run = place + (run.start - at);
            match stored {
                true => region.undefine(to_run, run.len()),
                false => region.unmark(to_run, run.len()),
            }
        }
        let shift = |left: &LeftUndefined| {
            let (low, high) = (left.range.start.max(from), left.range.end.min(from + len as u64));
            (low < high).then(|| LeftUndefined { range: low - from + to..high - from + to, ..left.clone() })
        };
        let moved: Vec<LeftUndefined> = self.undefined.iter().filter_map(shift).collect();
        moved.into_iter().for_each(|left| self.keep_undefined(left.range, left.trap, left.moved));
        true
    }

    /// What kernels have done with the buffer that begins at `base`.
    #[must_use]
    pub fn uses(&self, base: u64) -> Uses {
        let at = self.allocations.binary_search_by_key(&base, |a| a.base);
        at.ok().and_then(|at| self.allocations.get(at)).map_or_else(Uses::default, |a| a.uses)
    }

    /// Records that a kernel reads or writes an allocation.
    #[inline]
    pub(crate) fn note_use_of(&mut self, allocation: usize, write: bool) {
        if let Some(allocation) = self.allocations.get_mut(allocation) {
            if write { allocation.uses.written = true } else { allocation.uses.read = true }
        }
    }

    /// Adds what a clone has used.
    pub(crate) fn adopt_uses(&mut self, clone: &Self) {
        // Both are in ascending order, and a clone has no buffer that the original lacks.
        let mut all = self.allocations.iter_mut();
        for theirs in &clone.allocations {
            if let Some(own) = all.find(|own| own.base == theirs.base) {
                own.uses.read |= theirs.uses.read;
                own.uses.written |= theirs.uses.written;
            }
        }
    }

    /// Replaces the bytes of the buffer that begins at `base` by host bytes of the same length, which count as written: kernels read
    /// them in place, and their writes stay apart until the host takes them ([`GlobalMemory::written_runs`]).
    pub fn lend(&mut self, base: u64, bytes: crate::memory::lent::HostBytes) -> bool {
        let Ok(at) = self.allocations.binary_search_by_key(&base, |a| a.base) else { return false };
        let allocation = &mut self.allocations[at];
        if allocation.region.len() != bytes.bytes().len() {
            return false;
        }
        let end = allocation.end();
        allocation.region = crate::memory::held::Held::Own(crate::memory::region::Region::lent(bytes));
        self.forget_undefined(base, end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::trap::Rule;
    use crate::memory::lent::HostBytes;

    fn trap(line: usize) -> Trap {
        Trap::new(Rule::Uninitialised, String::new(), Place { line, ..Place::default() })
    }

    /// Runs by offset from `base`, with the line of the store that left them.
    fn runs(memory: &GlobalMemory, base: u64, at: u64, len: usize) -> Vec<(u64, u64, usize)> {
        let mut all = Vec::new();
        memory.each_undefined(base + at, len, |r| {
            all.push((r.range.start - base, r.range.end - base, r.left.map_or(0, |left| left.place.line)));
        });
        all
    }

    #[test]
    fn undefined_bytes_keep_their_store_when_they_are_copied() {
        let mut memory = GlobalMemory::default();
        let (one, two) = (memory.allocate(300), memory.allocate(300));
        assert_eq!(
            (runs(&memory, two, 299, 9), runs(&memory, two, 300, 1)),
            (vec![(299, 300, 0)], Vec::new())
        );
        assert!(!memory.is_touched(one) && memory.write_at(one, &[1; 100]) && memory.is_touched(one));
        let (index, at) = memory.locate(one + 90, 4).unwrap();
        memory.region_mut(index).undefine(at, 4);
        memory.region_mut(index).undefine(at + 104, 8);
        // The same instruction twice, and another one in between.
        memory.keep_undefined(one + 90..one + 94, trap(7), false);
        memory.keep_undefined(one + 250..one + 251, trap(9), false);
        memory.keep_undefined(one + 194..one + 202, trap(7), false);
        assert_eq!(memory.undefined.len(), 2);
        let all = [(90, 94, 7), (100, 194, 0), (194, 202, 7), (202, 300, 0)];
        assert_eq!(runs(&memory, one, 0, 300), all);
        assert_eq!(runs(&memory, one, 92, 10), [(92, 94, 7), (100, 102, 0)]);
        assert!(runs(&memory, one, 0, 90).is_empty());
        assert!(memory.copy(two, one, 300) && !memory.copy(two, one + 1, 300));
        assert_eq!(runs(&memory, two, 0, 300), all);
        // Within one buffer, overlapping.
        assert!(memory.copy(two + 2, two, 92) && memory.write_at(one + 80, &[3; 220]));
        assert_eq!(runs(&memory, two, 0, 100), [(92, 94, 7)]);
        assert!(runs(&memory, one, 0, 300).is_empty());
        memory.free(two);
        assert!(runs(&memory, two, 0, 4).is_empty());
    }

    #[test]
    fn uses_are_those_of_all_clones_and_lent_bytes_count_as_written() {
        let mut memory = GlobalMemory::default();
        let (one, two) = (memory.allocate(64), memory.allocate(64));
        let mut clone = memory.clone();
        clone.note_use_of(1, false);
        memory.note_use_of(0, true);
        memory.adopt_uses(&clone);
        assert_eq!(memory.uses(one), Uses { read: false, written: true });
        assert_eq!(memory.uses(two), Uses { read: true, written: false });
        assert!(
            !memory.lend(two, HostBytes::new(vec![0; 63])) && memory.lend(two, HostBytes::new(vec![5; 64]))
        );
        assert!(memory.write_at(two + 3, &[6]) && runs(&memory, two, 0, 64).is_empty());
        assert_eq!(memory.contents(two).unwrap()[2..5], [5, 6, 5]);
    }
}
