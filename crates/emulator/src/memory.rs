//! Memory: regions of bytes with an initialisation bit each, and the address space that holds them.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::buffer_names::Names;
use super::float_sums::FloatSums;
use super::held::Held;
use super::lent::HostBytes;
pub(super) use super::region::{Region, bits};
use super::trap::{Fault, Rule, Trap};

/// Generic addresses of the windows; global allocations lie below all of them.
pub(super) const GLOBAL_BASE: u64 = 0x10_0000_0000;
pub(super) const CONST_WINDOW: u64 = 0x7a00_0000_0000;
pub(super) const PARAM_WINDOW: u64 = 0x7b00_0000_0000;
pub(super) const LOCAL_WINDOW: u64 = 0x7c00_0000_0000;
pub(super) const SHARED_WINDOW: u64 = 0x7d00_0000_0000;
const WINDOW: u64 = 0x100_0000_0000;

/// Shared memory begins here, so that a null pointer is out of bounds.
pub(super) const SHARED_START: u32 = 1024;

/// What memory holds that nobody has written.
pub(super) const POISON: u8 = 0xCD;

/// Freed allocations that a fault tells from addresses that were never given.
const FREED: usize = 4096;

/// Bytes nobody may touch between two global allocations.
const GUARD: u64 = 4096;

/// A global allocation.
#[derive(Debug, Clone)]
pub(super) struct Allocation {
    pub(super) base: u64,
    pub(super) region: Held,
}

/// Global memory: allocations in ascending order, guarded from each other.
#[derive(Debug, Clone, Default)]
pub struct GlobalMemory {
    pub(super) allocations: Vec<Allocation>,
    /// Addresses of sparse buffers. What was written of one lies in `allocations`, a piece for each stretch; the rest costs nothing.
    sparse: Vec<Range<u64>>,
    /// Where buffers begin that were placed at an address of the caller's choice: others do not follow them.
    placed: BTreeSet<u64>,
    /// Addresses of the allocations that were freed last.
    freed: VecDeque<Range<u64>>,
    /// Where the freed allocation with the highest address ends: no address is given twice.
    behind_freed: Option<u64>,
    /// The allocation of the last access, most likely that of the next.
    last: usize,
    /// The variables of modules that have run: the module's text, which names it, and their addresses.
    variables: Vec<(Arc<str>, Vec<u64>)>,
    /// Where stores left undefined bytes, each with the violation that it is to give them away.
    undefined: Vec<(Range<u64>, Trap)>,
    /// What bytes hold that nobody has written; [`POISON`] where nothing else was asked for.
    poison: Option<u8>,
    /// What buffers are called in messages.
    pub(super) names: Names,
    /// What float atomics have added up.
    pub(super) sums: FloatSums,
}

impl GlobalMemory {
    /// Memory in which bytes that nobody has written hold `fill`. With 0, memory that nobody touches costs nothing.
    #[must_use]
    pub fn filled_with(fill: u8) -> Self {
        Self { poison: Some(fill), ..Self::default() }
    }

    /// The address of the next buffer, behind a guard, and clear of those that were placed.
    fn next(&self, len: u64) -> u64 {
        let behind = |end: u64| (end + GUARD).next_multiple_of(GUARD);
        let mut base = self.end().map_or(GLOBAL_BASE, behind);
        for placed in &self.placed {
            let end = placed + self.buffer_around(*placed).map_or(0, |(_, len)| len as u64);
            if *placed < base.saturating_add(len).saturating_add(GUARD) && base < end + GUARD {
                base = behind(end);
            }
        }
        base
    }

    /// Where the last buffer ends.
    fn end(&self) -> Option<u64> {
        let mut own = self.allocations.iter().rev().filter(|a| !self.placed.contains(&a.base));
        let end = own.next().map(|a| a.base + a.region.len() as u64);
        end.max(self.sparse.last().map(|s| s.end)).max(self.behind_freed)
    }

    fn add(&mut self, region: Region) -> u64 {
        let base = self.next(region.len() as u64);
        // The last one, but for what was placed behind it.
        let n = self.allocations.partition_point(|a| a.base < base);
        self.allocations.insert(n, Allocation { base, region: Held::Own(region) });
        base
    }

    /// Puts bytes at an address of the caller's choice, such as one of host memory that kernels may use. False where a buffer is there, or
    /// where global addresses do not reach.
    pub fn place_at(&mut self, address: u64, data: Vec<u8>) -> bool {
        let Some(end) = address.checked_add(data.len() as u64) else { return false };
        let global = |at| matches!(window_of(at), (Window::Global, _));
        let n = self.allocations.partition_point(|a| a.base < end);
        let before = n.checked_sub(1).map(|n| &self.allocations[n]);
        let taken = before.is_some_and(|a| a.base + a.region.len() as u64 > address)
            || self.sparse.iter().any(|s| s.start < end && address < s.end);
        if data.is_empty() || taken || !global(address) || !global(end - 1) {
            return false;
        }
        self.allocations.insert(n, Allocation { base: address, region: Held::Own(Region::written(data)) });
        self.placed.insert(address);
        self.last = 0;
        true
    }

    /// Addresses for `len` bytes that nobody has written, and no memory for them; `None` where there are not so many.
    pub fn reserve(&mut self, len: u64) -> Option<u64> {
        let base = self.next(len);
        let end = base.checked_add(len).filter(|end| *end <= CONST_WINDOW)?;
        self.sparse.push(base..end);
        Some(base)
    }

    /// Whether the sparse buffer that begins at `base` is one, and its bytes.
    pub(super) fn reserved(&self, base: u64) -> Option<u64> {
        self.sparse.iter().find(|s| s.start == base).map(|s| s.end - s.start)
    }

    /// Whether a range lies in a sparse buffer where nobody has written any of it.
    pub(super) fn is_hole(&self, address: u64, len: usize) -> bool {
        if self.sparse.is_empty() {
            return false;
        }
        let end = address.saturating_add(len as u64);
        let n = self.allocations.partition_point(|a| a.base < end);
        let before = n.checked_sub(1).map(|n| &self.allocations[n]);
        self.sparse.iter().any(|s| s.start <= address && end <= s.end)
            && before.is_none_or(|a| a.base + a.region.len() as u64 <= address)
    }

    /// Replaces bytes of a buffer that is there; false where it is not, or not as long.
    pub fn write_at(&mut self, address: u64, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return true;
        }
        if let Ok((index, at)) = self.locate(address, bytes.len()) {
            return self.region_mut(index).put(at, bytes);
        }
        let end = address.saturating_add(bytes.len() as u64);
        if !self.sparse.iter().any(|s| s.start <= address && end <= s.end) {
            return false;
        }
        // One piece with all that it touches, so that no access lies across two.
        let behind = |a: &Allocation| a.base + a.region.len() as u64;
        let first = self.allocations.partition_point(|a| behind(a) < address);
        let last = self.allocations.partition_point(|a| a.base <= end);
        let (mut base, mut data) = (address, Vec::new());
        for old in self.allocations.drain(first..last.max(first)) {
            base = base.min(old.base);
            data.resize((old.base - base) as usize, 0);
            data.extend_from_slice(&old.region.gather(0, old.region.len()).unwrap_or_default());
        }
        let at = (address - base) as usize;
        data.resize(data.len().max(at + bytes.len()), 0);
        data[at..at + bytes.len()].copy_from_slice(bytes);
        let region = Held::Own(Region::written(data));
        self.allocations.insert(first, Allocation { base, region });
        self.last = 0;
        true
    }

    /// The bytes of a range that lies in one buffer, as far as they are kept; `None` too where they are not together, some of them being
    /// the host's ([`GlobalMemory::allocate_lent`]).
    #[must_use]
    pub fn range(&self, address: u64, len: usize) -> Option<&[u8]> {
        let n = self.allocations.partition_point(|a| a.base <= address);
        let held = self.allocations.get(n.checked_sub(1)?)?;
        let at = (address - held.base) as usize;
        at.checked_add(len).and_then(|_| held.region.view(at, len))
    }

    /// Addresses of a module's variables, which live as long as this memory.
    pub(super) fn variables(&self, module: &Arc<str>) -> Option<&[u64]> {
        self.variables.iter().find(|(text, _)| Arc::ptr_eq(text, module)).map(|(_, at)| at.as_slice())
    }

    /// Keeps them.
    pub(super) fn keep_variables(&mut self, module: &Arc<str>, addresses: &[u64]) {
        self.variables.push((Arc::clone(module), addresses.to_vec()));
    }

    /// Bytes that it keeps.
    pub(super) fn held_bytes(&self) -> usize {
        self.allocations.iter().map(|a| a.region.held_bytes()).sum()
    }

    /// The same addresses, and no memory behind them.
    #[must_use]
    pub fn layout(&self) -> Self {
        Self { sparse: self.end().map(|end| GLOBAL_BASE..end).into_iter().collect(), ..Self::default() }
    }

    /// The first byte of a buffer that holds another value in `other`, which has the same buffers.
    #[must_use]
    pub fn first_difference(&self, other: &Self) -> Option<u64> {
        self.allocations
            .iter()
            .zip(&other.allocations)
            .find_map(|(a, b)| a.region.first_difference(&b.region).map(|at| a.base + at as u64))
    }

    /// Takes out the buffer that begins at `base`, as if it had never been; false where there is none.
    pub fn remove(&mut self, base: u64) -> bool {
        let Some(at) = self.allocations.iter().position(|a| a.base == base) else { return false };
        let gone = self.allocations.remove(at);
        self.placed.remove(&base);
        let end = base + gone.region.len() as u64;
        self.undefined.retain(|(at, _)| at.end <= base || at.start >= end);
        self.names.remove(base);
        self.last = 0;
        true
    }

    /// Lets clones read the same bytes, until one of them writes an allocation: it then has one of its own.
    pub fn share(&mut self) {
        self.allocations.iter_mut().for_each(|a| a.region.share());
    }

    /// Ends [`GlobalMemory::share`] where no clone is left.
    pub(super) fn own_all(&mut self) {
        self.allocations.iter_mut().for_each(|a| a.region.unshare());
    }

    /// Lets go of what others may read, too: only what this clone wrote is left.
    pub(super) fn drop_shared(&mut self) {
        self.allocations.retain(|a| matches!(a.region, Held::Own(_)));
        self.last = 0;
    }

    /// Takes over runs of bytes that a clone wrote.
    pub(super) fn adopt(&mut self, clone: &Self, runs: &[(u64, usize)]) {
        for (address, len) in runs {
            self.sums.adopt(&clone.sums, *address, *len);
            let (mut address, end) = (*address, *address + *len as u64);
            // A run may go on in the next piece of a sparse buffer.
            while address < end {
                let n = self.allocations.partition_point(|a| a.base <= address);
                let m = clone.allocations.partition_point(|a| a.base <= address);
                let (Some(n), Some(m)) = (n.checked_sub(1), m.checked_sub(1)) else { break };
                let (to, from) = (&mut self.allocations[n], &clone.allocations[m]);
                let piece = end.min(to.base + to.region.len() as u64).saturating_sub(address) as usize;
                if to.base != from.base || piece == 0 {
                    break;
                }
                to.region.adopt(&from.region, (address - to.base) as usize, piece);
                address += piece as u64;
            }
        }
    }

    /// `len` bytes nobody has written; their address.
    pub fn allocate(&mut self, len: usize) -> u64 {
        self.add(Region::unwritten(len, self.poison.unwrap_or(POISON)))
    }

    /// A copy of `data`; its address.
    pub fn allocate_with(&mut self, data: Vec<u8>) -> u64 {
        self.add(Region::written(data))
    }

    /// Bytes of the host, read where they lie: those that kernels write are copied, a page at a time, and the host's stay as they are.
    /// Their address.
    pub fn allocate_lent(&mut self, bytes: HostBytes) -> u64 {
        self.add(Region::lent(bytes))
    }

    /// Frees the allocation that begins at `base`; later accesses are faults.
    pub fn free(&mut self, base: u64) -> bool {
        let Ok(at) = self.allocations.binary_search_by_key(&base, |a| a.base) else { return false };
        let end = base + self.allocations.remove(at).region.len() as u64;
        self.undefined.retain(|(at, _)| at.end <= base || at.start >= end);
        if !self.placed.remove(&base) {
            self.behind_freed = self.behind_freed.max(Some(end));
        }
        if self.freed.len() == FREED {
            self.freed.pop_front();
        }
        self.freed.push_back(base..end);
        self.last = 0;
        true
    }

    fn held(&self, base: u64) -> Option<&Held> {
        self.allocations.iter().find(|a| a.base == base).map(|a| &a.region)
    }

    /// The bytes of the allocation that begins at `base`; `None` too where kernels have written some of what the host lent
    /// ([`GlobalMemory::contents`] has all of them).
    #[must_use]
    pub fn bytes(&self, base: u64) -> Option<&[u8]> {
        self.held(base).and_then(|region| region.view(0, region.len()))
    }

    /// The bytes of the allocation that begins at `base`, a copy only where they do not lie together.
    #[must_use]
    pub fn contents(&self, base: u64) -> Option<Cow<'_, [u8]>> {
        self.held(base).and_then(|region| region.gather(0, region.len()))
    }

    /// Runs of bytes of the allocation that begins at `base` that kernels may have changed: first byte and bytes. Those are all of them
    /// where the host has not lent them.
    pub fn written_runs(&self, base: u64) -> impl Iterator<Item = (usize, &[u8])> {
        let held = self.held(base);
        let runs = held.map(|region| region.written_runs()).unwrap_or_default();
        runs.into_iter().filter_map(move |run| Some((run.start, held?.view(run.start, run.len())?)))
    }

    /// The first byte of the allocation that begins at `base` that holds another value in `other`, where it is as long.
    #[must_use]
    pub fn first_difference_of(&self, base: u64, other: &Self) -> Option<usize> {
        self.held(base)?.first_difference(other.held(base)?)
    }

    /// Fills all bytes that nobody has written, and those of allocations to come.
    pub(super) fn fill_unwritten(&mut self, poison: u8) {
        if self.poison.unwrap_or(POISON) == poison {
            return;
        }
        self.poison = Some(poison);
        for held in self.allocations.iter_mut().map(|a| &mut a.region).filter(|r| r.is_tracked()) {
            let region = held.own();
            for run in region.unwritten_runs() {
                if let Some(bytes) = region.view_mut(run.start, run.len()) {
                    bytes.fill(poison);
                }
            }
        }
    }

    /// A store has left undefined bytes in this range.
    pub(super) fn keep_undefined(&mut self, range: Range<u64>, trap: Trap) {
        self.undefined.push((range, trap));
    }

    /// Bytes of the allocation that begins at `base` that a kernel stored and that are undefined, as the violation that it is to
    /// use them as a result. Bytes that nobody stored are none ([`GlobalMemory::unwritten`]).
    #[must_use]
    pub fn undefined(&self, base: u64) -> Option<&Trap> {
        let held = self.held(base)?;
        let end = base + held.len() as u64;
        let undefined = |range: &Range<u64>| {
            let (low, high) = (range.start.max(base), range.end.min(end));
            low < high && held.has_undefined((low - base) as usize, (high - low) as usize)
        };
        self.undefined.iter().find(|(range, _)| undefined(range)).map(|(_, trap)| trap)
    }

    /// [`GlobalMemory::undefined`] of any allocation.
    #[must_use]
    pub fn any_undefined(&self) -> Option<&Trap> {
        if self.undefined.is_empty() {
            return None;
        }
        self.allocations.iter().find_map(|a| self.undefined(a.base))
    }

    /// Whether `len` bytes from byte `at` of the allocation that begins at `base` are there and have been written.
    #[must_use]
    pub fn is_written(&self, base: u64, at: usize, len: usize) -> bool {
        let end = at.checked_add(len);
        self.held(base).is_some_and(|r| end.is_some_and(|end| end <= r.len()) && r.is_written(at, len))
    }

    /// Makes the allocation that begins at `base` one that nobody has written.
    pub(super) fn forget(&mut self, base: u64) {
        if let Some(len) = self.held(base).map(|region| region.len() as u64) {
            self.undefined.retain(|(range, _)| range.end <= base || range.start >= base + len);
        }
        if let Some(sparse) = self.sparse.iter().find(|s| s.start == base) {
            self.allocations.retain(|a| !sparse.contains(&a.base));
            self.last = 0;
            return;
        }
        if let Some(a) = self.allocations.iter_mut().find(|a| a.base == base) {
            a.region = Held::Own(Region::unwritten(a.region.len(), self.poison.unwrap_or(POISON)));
        }
    }

    /// How many bytes of the allocation that begins at `base` nobody has written.
    #[must_use]
    pub fn unwritten(&self, base: u64) -> usize {
        self.held(base).map_or(0, |region| region.unwritten_bytes())
    }

    /// Whether a copy may take these bytes: they lie in one buffer, written or not.
    pub(super) fn reach(&mut self, address: u64, len: usize) -> Result<(), Fault> {
        if self.is_hole(address, len) { Ok(()) } else { self.locate(address, len).map(|_| ()) }
    }

    /// The buffer around an address: where it begins, and its bytes.
    #[must_use]
    pub fn buffer_around(&self, address: u64) -> Option<(u64, usize)> {
        let n = self.allocations.partition_point(|a| a.base <= address);
        let held = self.allocations.get(n.checked_sub(1)?)?;
        (address - held.base < held.region.len() as u64).then(|| (held.base, held.region.len()))
    }

    /// The bytes of the buffer that begins at `base` that nobody has written.
    #[must_use]
    pub fn unwritten_runs(&self, base: u64) -> Vec<Range<usize>> {
        self.held(base).map(|region| region.unwritten_runs()).unwrap_or_default()
    }

    /// The bytes of the buffer that begins at `base` that no store has changed: [`GlobalMemory::unwritten_runs`] without those that a store
    /// has left undefined.
    #[must_use]
    pub fn untouched_runs(&self, base: u64) -> Vec<Range<usize>> {
        self.held(base).map(|region| region.untouched_runs()).unwrap_or_default()
    }

    /// Makes bytes count as ones that nobody has written.
    pub fn unwrite(&mut self, address: u64, len: usize) {
        if let Ok((index, at)) = self.locate(address, len) {
            let poison = self.poison.unwrap_or(POISON);
            let region = self.region_mut(index);
            if let Some(bytes) = region.view_mut(at, len) {
                bytes.fill(poison);
            }
            region.unmark(at, len);
        }
    }

    /// Finds the place of an access.
    #[inline]
    pub(super) fn locate(&mut self, address: u64, len: usize) -> Result<(usize, usize), Fault> {
        let inside = |a: &Allocation| {
            let at = address.wrapping_sub(a.base);
            (at < a.region.len() as u64 && at + len as u64 <= a.region.len() as u64).then_some(at)
        };
        if let Some(at) = self.allocations.get(self.last).and_then(inside) {
            return Ok((self.last, at as usize));
        }
        let n = self.allocations.partition_point(|a| a.base <= address);
        if let Some(i) = n.checked_sub(1)
            && let Some(at) = inside(&self.allocations[i])
        {
            self.last = i;
            return Ok((i, at as usize));
        }
        Err(self.outside(address, len))
    }

    #[cold]
    fn outside(&self, address: u64, len: usize) -> Fault {
        if self.sparse.iter().any(|s| s.start <= address && address.saturating_add(len as u64) <= s.end) {
            let what = format!(
                "{len} bytes at global address {address:#x} of a sparse buffer, which were never written"
            );
            return Fault::new(Rule::Uninitialised, what);
        }
        if let Some(s) = self.sparse.iter().find(|s| s.contains(&address)) {
            let (at, size) = (address - s.start, s.end - s.start);
            return Fault::new(
                Rule::OutOfBounds,
                format!(
                    "{len} bytes at global address {address:#x}, byte {at} of an allocation of {size} bytes"
                ),
            );
        }
        if self.freed.iter().any(|freed| freed.contains(&address)) {
            let what = format!("{len} bytes at {address:#x} lie in a freed allocation");
            return Fault::new(Rule::UseAfterFree, what);
        }
        let near = self.allocations.iter().rev().find(|a| a.base <= address);
        match near {
            // The message gets the name, the byte and the size.
            Some(_) if self.names.near(address).is_some() => {
                Fault::new(Rule::OutOfBounds, format!("{len} bytes at global address {address:#x}"))
            }
            Some(a) => Fault::new(
                Rule::OutOfBounds,
                format!(
                    "{len} bytes at global address {address:#x}, byte {} of an allocation of {} bytes",
                    address - a.base,
                    a.region.len()
                ),
            ),
            None => Fault::new(
                Rule::OutOfBounds,
                format!("{len} bytes at global address {address:#x}, where nothing is allocated"),
            ),
        }
    }

    #[inline]
    pub(super) fn region(&self, index: usize) -> &Region {
        &self.allocations[index].region
    }

    #[inline]
    pub(super) fn region_mut(&mut self, index: usize) -> &mut Region {
        &mut self.allocations[index].region
    }
}

/// A state space that an address can lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    Global,
    Const,
    Param,
    Local,
    Shared,
}

/// The window of a generic address, and the address within it.
#[inline]
pub(super) fn window_of(address: u64) -> (Window, u64) {
    match address {
        a if a < CONST_WINDOW => (Window::Global, a),
        a if a < CONST_WINDOW + WINDOW => (Window::Const, a - CONST_WINDOW),
        a if a < PARAM_WINDOW + WINDOW => (Window::Param, a - PARAM_WINDOW),
        a if a < LOCAL_WINDOW + WINDOW => (Window::Local, a - LOCAL_WINDOW),
        a if a < SHARED_WINDOW + WINDOW => (Window::Shared, a - SHARED_WINDOW),
        a => (Window::Global, a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_may_be_placed_anywhere_and_others_do_not_follow_it() {
        let mut memory = GlobalMemory::default();
        let first = memory.allocate(8);
        let far = 0x7fff_0000_1230;
        assert!(memory.place_at(far, vec![1; 8]) && memory.place_at(far - 8, vec![2; 8]));
        let behind = memory.allocate(8);
        assert!(first < behind && behind < far && memory.locate(far, 8).is_ok());
        assert!(memory.range(behind, 8).is_some() && memory.range(far, 8).is_some());
        for taken in [first + 4, far - 4, far, far + 7, CONST_WINDOW, SHARED_WINDOW, u64::MAX] {
            assert!(!memory.place_at(taken, vec![0; 8]), "{taken:#x}");
        }
        memory.unwrite(far + 2, 3);
        let runs =
            |at| memory.unwritten_runs(at).into_iter().map(|run| (run.start, run.end)).collect::<Vec<_>>();
        assert_eq!((runs(far), runs(first)), (vec![(2, 5)], vec![(0, 8)]));
        assert_eq!(memory.buffer_around(far + 7), Some((far, 8)));
        assert!(memory.remove(far) && !memory.remove(far));
        assert!(memory.free(far - 8) && memory.allocate(8) < far);
        let mut memory = GlobalMemory::default();
        assert!(memory.place_at(GLOBAL_BASE, vec![1; 10_000]));
        let behind = memory.allocate(8);
        assert!(behind >= GLOBAL_BASE + 10_000 + GUARD);
    }

    #[test]
    fn of_a_sparse_buffer_only_what_was_written_is_kept() {
        let mut memory = GlobalMemory::default();
        let len = 1 << 40;
        let base = memory.reserve(len).unwrap();
        let behind = memory.allocate_with(vec![7; 4]);
        assert!(behind >= base + len + GUARD);
        let far = base + len - 8;
        // Two pieces, and a third that joins with the first on both sides.
        assert!(memory.write_at(base + 16, &[1; 8]) && memory.write_at(far, &[2; 8]));
        assert!(memory.write_at(base + 32, &[3; 8]) && memory.write_at(base + 24, &[4; 8]));
        assert!(memory.write_at(base + 20, &[5; 2]));
        assert_eq!(memory.allocations.iter().map(|a| a.region.len()).sum::<usize>(), 24 + 8 + 4);
        let held = memory.range(base + 16, 24).unwrap();
        assert_eq!(held, [[1, 1, 1, 1, 5, 5, 1, 1], [4; 8], [3; 8]].concat());
        assert_eq!(memory.range(far, 8), Some([2; 8].as_slice()));
        assert!(memory.locate(base + 20, 16).is_ok() && memory.locate(behind, 4).is_ok());
        // Holes may be copied along and not be used; what lies half in one, or behind the end, neither.
        assert!(memory.is_hole(base, 16) && memory.is_hole(base + 40, 1 << 20) && !memory.is_hole(base, 17));
        assert!(memory.reach(base, 16).is_ok() && memory.reach(base, 17).is_err());
        assert!(memory.locate(base, 16).is_err() && memory.reach(far, 9).is_err());
        assert!(!memory.write_at(far, &[0; 9]) && memory.range(base + 36, 8).is_none());
        memory.forget(base);
        assert!(memory.is_hole(base, 1 << 30) && memory.range(behind, 4).is_some());
        assert!(memory.reserve(u64::MAX).is_none() && memory.reserve(CONST_WINDOW).is_none());
    }
}
