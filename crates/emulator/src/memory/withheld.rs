//! Addresses at which nothing may be accessed, each range with its reason, and buffers that are taken out of memory for a time: what
//! virtual memory and the memory of other GPUs are to a launch.

use std::ops::Range;
use std::sync::Arc;

use crate::api::trap::{Fault, Rule};
use crate::memory::global::{Allocation, GlobalMemory, POISON};
use crate::memory::region::Region;

/// Address ranges that no buffer is placed in by itself, in the order in which they were withheld.
#[derive(Debug, Clone, Default)]
pub(crate) struct Withheld(Vec<(Range<u64>, Arc<str>)>);

impl Withheld {
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(range, _)| (range.start, range.end))
    }

    /// Why nothing may be accessed at an address: the reason of the range that was withheld last.
    fn reason(&self, address: u64) -> Option<&str> {
        self.0.iter().rev().find(|(range, _)| range.contains(&address)).map(|(_, why)| &**why)
    }
}

/// A buffer that was taken out of memory, with its bytes and what is known of them.
#[derive(Debug, Clone)]
pub struct TakenBuffer(Allocation);

impl TakenBuffer {
    /// The address at which it was.
    #[must_use]
    pub const fn base(&self) -> u64 {
        self.0.base
    }
}

impl GlobalMemory {
    /// Finds addresses for buffers that the caller places there, at a multiple of `alignment`, and withholds them; `None` if there are
    /// none.
    pub fn reserve_withheld(&mut self, len: u64, alignment: u64, why: &str) -> Option<u64> {
        let base = self.take_addresses(len.checked_add(alignment)?)?;
        let base = base.checked_next_multiple_of(alignment.max(1))?;
        self.withhold(base..base + len, why);
        Some(base)
    }

    /// Withholds a range: an access there is a fault with this reason, unless a buffer is placed there.
    pub fn withhold(&mut self, range: Range<u64>, why: &str) {
        self.withheld.0.push((range, why.into()));
    }

    /// Ends the withholding of the range that begins at `start` and was withheld last; accesses there are uses after free if
    /// `is_freed`.
    pub fn end_withholding(&mut self, start: u64, is_freed: bool) {
        let Some(at) = self.withheld.0.iter().rposition(|(range, _)| range.start == start) else { return };
        let (range, _) = self.withheld.0.remove(at);
        if is_freed {
            self.add_freed(range);
        }
    }

    /// Places an unwritten buffer at an address of the caller's choice. Returns false if a buffer is there already.
    pub fn place_unwritten(&mut self, address: u64, len: usize) -> bool {
        let poison = self.poison.unwrap_or(POISON);
        self.place(address, Region::unwritten(len, poison))
    }

    /// Takes the buffer that begins at `base` out of memory.
    pub fn take(&mut self, base: u64) -> Option<TakenBuffer> {
        let at = self.allocations.binary_search_by_key(&base, |a| a.base).ok()?;
        self.last = 0;
        Some(TakenBuffer(self.allocations.remove(at)))
    }

    /// Puts a buffer that was taken out at an address, where no other buffer may be.
    pub fn put_back(&mut self, buffer: TakenBuffer, base: u64) -> bool {
        let end = base + buffer.0.region.len() as u64;
        let n = self.allocations.partition_point(|a| a.base < base);
        let is_taken = n.checked_sub(1).is_some_and(|n| self.allocations[n].end() > base)
            || self.allocations.get(n).is_some_and(|a| a.base < end);
        if is_taken {
            return false;
        }
        self.allocations.insert(n, Allocation { base, ..buffer.0 });
        self.last = 0;
        true
    }

    /// The fault of an access of which some bytes are withheld.
    pub(crate) fn withheld_fault(&self, address: u64, len: usize) -> Option<Fault> {
        let is_held = |at: u64| self.buffer_around(at).is_some();
        let last = address.saturating_add(len.saturating_sub(1) as u64);
        let at = [address, last].into_iter().find(|at| !is_held(*at))?;
        let why = self.withheld.reason(at)?;
        let beyond = if at == address { "" } else { ", whose last ones" };
        let what = format!("{len} bytes at global address {address:#x}{beyond} lie in {why}");
        Some(Fault::new(Rule::OutOfBounds, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withheld_addresses_are_faults_with_their_reason_until_a_buffer_is_there() {
        const LEN: u64 = 1 << 21;
        let mut memory = GlobalMemory::default();
        let base = memory.reserve_withheld(2 * LEN, LEN, "reserved addresses").unwrap();
        assert!(base.is_multiple_of(LEN) && memory.allocate(8) >= base + 2 * LEN);
        let fault = |memory: &GlobalMemory, at: u64, len: usize| memory.fault_at(at, len);
        let why =
            |memory: &GlobalMemory, at, len| fault(memory, at, len).map(|(_, what)| what).unwrap_or_default();
        assert!(why(&memory, base, 4).contains("lie in reserved addresses"));
        assert!(memory.place_unwritten(base, LEN as usize) && !memory.place_unwritten(base + 8, 8));
        assert!(memory.write_at(base + 4, &[7; 4]) && fault(&memory, base, 4).is_none());
        assert!(why(&memory, base + LEN - 4, 8).contains("whose last ones lie in reserved addresses"));
        // Its bytes move to another address.
        let taken = memory.take(base).unwrap();
        assert!(taken.base() == base && memory.take(base).is_none() && fault(&memory, base, 4).is_some());
        assert!(memory.put_back(taken, base + LEN) && memory.range(base + LEN + 4, 4) == Some(&[7; 4][..]));
        let taken = memory.take(base + LEN).unwrap();
        assert!(memory.place_unwritten(base, 8) && !memory.put_back(taken, base + 4));
        memory.free(base);
        memory.end_withholding(base, true);
        assert!(fault(&memory, base + LEN, 4).is_some_and(|(rule, _)| rule == Rule::UseAfterFree));
    }

    #[test]
    fn the_inner_of_two_reasons_is_told() {
        let mut memory = GlobalMemory::default();
        let base = memory.reserve_withheld(4096, 4096, "the outer range").unwrap();
        memory.withhold(base..base + 16, "the inner range");
        assert!(memory.fault_at(base, 1).unwrap().1.contains("inner"));
        assert!(memory.fault_at(base + 16, 1).unwrap().1.contains("outer"));
        memory.end_withholding(base, false);
        assert!(memory.fault_at(base, 1).unwrap().1.contains("outer"));
    }
}
