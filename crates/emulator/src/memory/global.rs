//! Memory: regions of bytes with initialisation state, and the global address space that contains them.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::api::buffer_names::Names;
use crate::api::texture::Textures;
use crate::api::trap::{Fault, Rule, Trap};
use crate::memory::addresses::Cursor;
use crate::memory::defined::{LeftUndefined, Uses};
use crate::memory::held::Held;
use crate::memory::lent::HostBytes;
pub(crate) use crate::memory::region::{Region, bits};
use crate::memory::window::{Window, window_of};
use crate::memory::withheld::Withheld;
use crate::rules::float_sums::FloatSums;

/// Default fill byte of unwritten memory.
pub(crate) const POISON: u8 = 0xCD;

/// Number of freed allocations that are remembered, so that a use after free is told from an address that was never allocated.
const FREED: usize = 4096;

/// Minimum distance between two global allocations; nothing may be accessed there.
pub(crate) const GUARD: u64 = 4096;

/// How far behind a small allocation an address still says something about it.
const NEAR: u64 = 1 << 20;

/// Where Linux places the stacks, heaps and mapped files of a process; the device's allocations lie far below.
const HOST: Range<u64> = 0x5000_0000_0000..0x8000_0000_0000;

/// A global allocation.
#[derive(Debug, Clone)]
pub(crate) struct Allocation {
    pub(crate) base: u64,
    pub(crate) region: Held,
    /// What kernels have done with it.
    pub(crate) uses: Uses,
}

impl Allocation {
    pub(crate) fn new(base: u64, region: Region) -> Self {
        Self { base, region: Held::Own(region), uses: Uses::default() }
    }

    /// The address behind the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.region.len() as u64
    }
}

/// Global memory: allocations in ascending order, separated by guards.
#[derive(Debug, Clone, Default)]
pub struct GlobalMemory {
    pub(crate) allocations: Vec<Allocation>,
    /// Address ranges of sparse buffers. Their written parts are in `allocations`, one per contiguous piece; the rest uses no
    /// memory.
    pub(crate) sparse: Vec<Range<u64>>,
    /// Address ranges in which nothing may be accessed, with reasons.
    pub(crate) withheld: Withheld,
    /// Address ranges of the most recently freed allocations.
    freed: VecDeque<Range<u64>>,
    /// Where the next buffer is looked for.
    pub(crate) cursor: Cursor,
    /// The allocation of the last access, most likely also that of the next.
    pub(crate) last: usize,
    /// The one before: kernels read several buffers in turn.
    before: usize,
    /// Addresses of the variables of modules that have run; a module is identified by its text.
    variables: Vec<(Arc<str>, Vec<u64>)>,
    /// Ranges in which stores left undefined bytes, with the violation to report if they are used as a result.
    pub(crate) undefined: Vec<LeftUndefined>,
    /// Fill byte of unwritten memory; [`POISON`] by default.
    pub(crate) poison: Option<u8>,
    /// Names of buffers, for messages.
    pub(crate) names: Names,
    /// Sums made by float atomics.
    pub(crate) sums: FloatSums,
    /// Textures and surfaces by handle.
    pub textures: Textures,
    /// What kernels have allocated with `malloc`, which lives until a kernel frees it: address and size in bytes.
    pub(crate) heap: BTreeMap<u64, u64>,
    /// The most bytes of that heap, if the host has set it (`cudaLimitMallocHeapSize`).
    pub(crate) heap_limit: Option<u64>,
}

impl GlobalMemory {
    /// Creates memory whose unwritten bytes hold `fill`. With 0, untouched memory uses no host memory.
    #[must_use]
    pub fn filled_with(fill: u8) -> Self {
        Self { poison: Some(fill), ..Self::default() }
    }

    /// Inserts a region at an address that the allocator found; 0 if the address space is exhausted, where nothing can be accessed.
    fn add(&mut self, region: Region) -> u64 {
        let Some(base) = self.take_addresses(region.len() as u64) else { return 0 };
        let n = self.allocations.partition_point(|a| a.base < base);
        self.allocations.insert(n, Allocation::new(base, region));
        base
    }

    /// Places bytes at an address of the caller's choice, such as that of host memory that kernels may use. Returns false if a
    /// buffer is there already, or if the range is outside the global window.
    pub fn place_at(&mut self, address: u64, data: Vec<u8>) -> bool {
        self.place(address, Region::written(data))
    }

    /// [`GlobalMemory::place_at`] for bytes that stay in host memory ([`GlobalMemory::allocate_lent`]), such as those at this very
    /// address.
    pub fn place_lent(&mut self, address: u64, bytes: HostBytes) -> bool {
        self.place(address, Region::lent(bytes))
    }

    pub(crate) fn place(&mut self, address: u64, region: Region) -> bool {
        let Some(end) = address.checked_add(region.len() as u64) else { return false };
        let global = |at| matches!(window_of(at), (Window::Global, _));
        let n = self.allocations.partition_point(|a| a.base < end);
        let before = n.checked_sub(1).map(|n| &self.allocations[n]);
        let taken = before.is_some_and(|a| a.end() > address)
            || self.sparse.iter().any(|s| s.start < end && address < s.end);
        if region.len() == 0 || taken || !global(address) || !global(end - 1) {
            return false;
        }
        self.allocations.insert(n, Allocation::new(address, region));
        self.last = 0;
        true
    }

    /// Reserves addresses for `len` unwritten bytes without allocating memory; `None` if the address space is exhausted.
    pub fn reserve(&mut self, len: u64) -> Option<u64> {
        let base = self.take_addresses(len)?;
        self.sparse.push(base..base + len);
        Some(base)
    }

    /// The length of the sparse buffer that begins at `base`, if there is one.
    pub(crate) fn reserved(&self, base: u64) -> Option<u64> {
        self.sparse.iter().find(|s| s.start == base).map(|s| s.end - s.start)
    }

    /// Whether a range lies in an unwritten part of a sparse buffer.
    pub(crate) fn is_hole(&self, address: u64, len: usize) -> bool {
        if self.sparse.is_empty() {
            return false;
        }
        let end = address.saturating_add(len as u64);
        let n = self.allocations.partition_point(|a| a.base < end);
        let before = n.checked_sub(1).map(|n| &self.allocations[n]);
        self.sparse.iter().any(|s| s.start <= address && end <= s.end)
            && before.is_none_or(|a| a.base + a.region.len() as u64 <= address)
    }

    /// Writes bytes to an existing buffer; returns false if there is none, or if it is too short.
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
        // Merges the bytes with all pieces that they touch, so that no access spans two pieces.
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
        self.allocations.insert(first, Allocation::new(base, Region::written(data)));
        self.last = 0;
        true
    }

    /// The bytes of a range within one buffer, if they are stored. Also `None` if they are not contiguous because some of them
    /// belong to the host ([`GlobalMemory::allocate_lent`]).
    #[must_use]
    pub fn range(&self, address: u64, len: usize) -> Option<&[u8]> {
        let n = self.allocations.partition_point(|a| a.base <= address);
        let held = self.allocations.get(n.checked_sub(1)?)?;
        let at = (address - held.base) as usize;
        at.checked_add(len).and_then(|_| held.region.view(at, len))
    }

    /// Addresses of a module's variables, which live until [`free_variables`](Self::free_variables).
    pub(crate) fn variables(&self, module: &Arc<str>) -> Option<&[u64]> {
        self.variables.iter().find(|(text, _)| Arc::ptr_eq(text, module)).map(|(_, at)| at.as_slice())
    }

    /// Records the addresses of a module's variables.
    pub(crate) fn keep_variables(&mut self, module: &Arc<str>, addresses: &[u64]) {
        self.variables.push((Arc::clone(module), addresses.to_vec()));
    }

    /// Frees the variables of a module that is unloaded, by its text; returns their addresses.
    pub fn free_variables(&mut self, module: &Arc<str>) -> Vec<u64> {
        let place = self.variables.iter().position(|(text, _)| Arc::ptr_eq(text, module));
        let addresses = place.map(|at| self.variables.swap_remove(at).1).unwrap_or_default();
        for base in &addresses {
            self.free(*base);
        }
        addresses
    }

    /// Bytes of host memory in use.
    pub(crate) fn held_bytes(&self) -> usize {
        self.allocations.iter().map(|a| a.region.held_bytes()).sum()
    }

    /// A memory with the same address ranges reserved and nothing stored: it places the next buffers where this one will.
    #[must_use]
    pub fn layout(&self) -> Self {
        let ranges = self.allocations.iter().map(|a| a.base..a.end()).chain(self.sparse.iter().cloned());
        let (sparse, withheld) = (ranges.collect(), self.withheld.clone());
        Self { sparse, withheld, cursor: self.cursor, ..Self::default() }
    }

    /// The address of the first byte that differs from `other`, which has the same buffers.
    #[must_use]
    pub fn first_difference(&self, other: &Self) -> Option<u64> {
        self.allocations
            .iter()
            .zip(&other.allocations)
            .find_map(|(a, b)| a.region.first_difference(&b.region).map(|at| a.base + at as u64))
    }

    /// Removes the buffer that begins at `base` without a trace; returns false if there is none.
    pub fn remove(&mut self, base: u64) -> bool {
        let Some(at) = self.allocations.iter().position(|a| a.base == base) else { return false };
        let end = self.allocations.remove(at).end();
        self.cursor.take_back(base, end);
        self.forget_undefined(base, end);
        self.names.remove(base);
        self.last = 0;
        true
    }

    /// Makes later clones share the bytes; the first write of a clone to an allocation copies it.
    pub fn share(&mut self) {
        self.allocations.iter_mut().for_each(|a| a.region.share());
    }

    /// Reverts [`GlobalMemory::share`] for allocations that no clone shares any more.
    pub(crate) fn own_all(&mut self) {
        self.allocations.iter_mut().for_each(|a| a.region.unshare());
    }

    /// Drops shared allocations and keeps only those that this clone wrote.
    pub(crate) fn drop_shared(&mut self) {
        self.allocations.retain(|a| matches!(a.region, Held::Own(_)));
        self.last = 0;
    }

    /// Copies runs of bytes that a clone wrote.
    pub(crate) fn adopt(&mut self, clone: &Self, runs: &[(u64, usize)]) {
        for (address, len) in runs {
            self.sums.adopt(&clone.sums, *address, *len);
            let (mut address, end) = (*address, *address + *len as u64);
            // A run may continue in the next piece of a sparse buffer.
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

    /// Allocates `len` unwritten bytes and returns their address.
    pub fn allocate(&mut self, len: usize) -> u64 {
        self.add(Region::unwritten(len, self.poison.unwrap_or(POISON)))
    }

    /// Allocates a copy of `data` and returns its address.
    pub fn allocate_with(&mut self, data: Vec<u8>) -> u64 {
        self.add(Region::written(data))
    }

    /// Allocates bytes that stay in host memory and returns their address. Kernels read them in place; the first write to a page
    /// copies it, so the host's bytes never change.
    pub fn allocate_lent(&mut self, bytes: HostBytes) -> u64 {
        self.add(Region::lent(bytes))
    }

    /// Frees the allocation that begins at `base`; later accesses are faults. Returns false if there is none.
    pub fn free(&mut self, base: u64) -> bool {
        let Ok(at) = self.allocations.binary_search_by_key(&base, |a| a.base) else { return false };
        let end = self.allocations.remove(at).end();
        self.forget_undefined(base, end);
        self.add_freed(base..end);
        self.last = 0;
        true
    }

    /// Remembers that addresses were freed.
    pub(crate) fn add_freed(&mut self, range: Range<u64>) {
        if self.freed.len() == FREED {
            self.freed.pop_front();
        }
        self.freed.push_back(range);
    }

    pub(crate) fn held(&self, base: u64) -> Option<&Held> {
        let at = self.allocations.binary_search_by_key(&base, |a| a.base).ok()?;
        self.allocations.get(at).map(|a| &a.region)
    }

    /// Sets the most bytes of the heap of `malloc` in kernels (`cudaLimitMallocHeapSize`).
    pub fn limit_heap(&mut self, bytes: u64) {
        self.heap_limit = Some(bytes);
    }

    /// The bytes of the allocation that begins at `base`; also `None` if kernels have written part of the host's bytes
    /// ([`GlobalMemory::contents`] returns all of them).
    #[must_use]
    pub fn bytes(&self, base: u64) -> Option<&[u8]> {
        self.held(base).and_then(|region| region.view(0, region.len()))
    }

    /// The bytes of the allocation that begins at `base`, copied only if they are not contiguous.
    #[must_use]
    pub fn contents(&self, base: u64) -> Option<Cow<'_, [u8]>> {
        self.held(base).and_then(|region| region.gather(0, region.len()))
    }

    /// Runs of bytes, with their offsets, that kernels may have changed in the allocation that begins at `base`: all of it, unless
    /// the host lent it.
    pub fn written_runs(&self, base: u64) -> impl Iterator<Item = (usize, &[u8])> {
        let held = self.held(base);
        let runs = held.map(|region| region.written_runs()).unwrap_or_default();
        runs.into_iter().filter_map(move |run| Some((run.start, held?.view(run.start, run.len())?)))
    }

    /// The offset of the first byte of the allocation that begins at `base` that differs from `other`, where it has the same
    /// length.
    #[must_use]
    pub fn first_difference_of(&self, base: u64, other: &Self) -> Option<usize> {
        self.held(base)?.first_difference(other.held(base)?)
    }

    /// Sets the fill byte of all unwritten bytes, including those of later allocations.
    pub(crate) fn fill_unwritten(&mut self, poison: u8) {
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

    /// The violation to report if undefined bytes that a kernel stored to the allocation at `base` are used as a result. Bytes that
    /// were never stored do not count ([`GlobalMemory::unwritten`]).
    #[must_use]
    pub fn undefined(&self, base: u64) -> Option<&Trap> {
        let held = self.held(base)?;
        let end = base + held.len() as u64;
        let undefined = |range: &Range<u64>| {
            let (low, high) = (range.start.max(base), range.end.min(end));
            low < high && held.has_undefined((low - base) as usize, (high - low) as usize)
        };
        self.undefined.iter().find(|left| undefined(&left.range)).map(|left| &left.trap)
    }

    /// [`GlobalMemory::undefined`] for any allocation.
    #[must_use]
    pub fn any_undefined(&self) -> Option<&Trap> {
        if self.undefined.is_empty() {
            return None;
        }
        self.allocations.iter().find_map(|a| self.undefined(a.base))
    }

    /// Whether `len` bytes from byte `at` of the allocation that begins at `base` exist and have been written.
    #[must_use]
    pub fn is_written(&self, base: u64, at: usize, len: usize) -> bool {
        let end = at.checked_add(len);
        self.held(base).is_some_and(|r| end.is_some_and(|end| end <= r.len()) && r.is_written(at, len))
    }

    /// Marks the allocation that begins at `base` as unwritten.
    pub(crate) fn forget(&mut self, base: u64) {
        if let Some(len) = self.held(base).map(|region| region.len() as u64) {
            self.forget_undefined(base, base + len);
        }
        if let Some(sparse) = self.sparse.iter().find(|s| s.start == base) {
            self.allocations.retain(|a| !sparse.contains(&a.base));
            self.last = 0;
            return;
        }
        if let Some(a) = self.allocations.iter_mut().find(|a| a.base == base) {
            a.uses = Uses::default();
            a.region = Held::Own(Region::unwritten(a.region.len(), self.poison.unwrap_or(POISON)));
        }
    }

    /// The number of unwritten bytes in the allocation that begins at `base`.
    #[must_use]
    pub fn unwritten(&self, base: u64) -> usize {
        self.held(base).map_or(0, |region| region.unwritten_bytes())
    }

    /// Checks that the bytes lie in one buffer, written or not, so that a copy may move them.
    pub(crate) fn reach(&mut self, address: u64, len: usize) -> Result<(), Fault> {
        if self.is_hole(address, len) { Ok(()) } else { self.locate(address, len).map(|_| ()) }
    }

    /// The runs of bytes, each in one buffer, of which a range consists. Buffers are a guard apart, but for those that the caller has
    /// placed side by side, such as the mappings of one range of virtual memory.
    pub(crate) fn runs(&mut self, address: u64, len: usize) -> Result<Vec<(u64, usize)>, Fault> {
        let (mut runs, mut at, mut left) = (Vec::new(), address, len);
        while let Some((base, size)) = self.buffer_around(at) {
            let here = (base + size as u64 - at) as usize;
            if left <= here {
                break;
            }
            runs.push((at, here));
            (at, left) = (at + here as u64, left - here);
        }
        // Sparse buffers have bytes where no buffer is.
        if runs.is_empty() || self.buffer_around(at).is_none() {
            self.reach(address, len)?;
            return Ok(vec![(address, len)]);
        }
        runs.push((at, left));
        Ok(runs)
    }

    /// Base address and length of the buffer that contains an address.
    #[must_use]
    pub fn buffer_around(&self, address: u64) -> Option<(u64, usize)> {
        let n = self.allocations.partition_point(|a| a.base <= address);
        let held = self.allocations.get(n.checked_sub(1)?)?;
        (address - held.base < held.region.len() as u64).then(|| (held.base, held.region.len()))
    }

    /// Base address and length of every buffer, in ascending order; of sparse buffers, those of the written pieces.
    pub fn buffers(&self) -> impl Iterator<Item = (u64, usize)> {
        self.allocations.iter().map(|a| (a.base, a.region.len()))
    }

    /// The unwritten ranges of the buffer that begins at `base`.
    #[must_use]
    pub fn unwritten_runs(&self, base: u64) -> Vec<Range<usize>> {
        self.held(base).map(|region| region.unwritten_runs()).unwrap_or_default()
    }

    /// The ranges of the buffer that begins at `base` that no store has changed: [`GlobalMemory::unwritten_runs`] without bytes
    /// that a store left undefined.
    #[must_use]
    pub fn untouched_runs(&self, base: u64) -> Vec<Range<usize>> {
        self.held(base).map(|region| region.untouched_runs()).unwrap_or_default()
    }

    /// Marks bytes as unwritten.
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

    /// [`GlobalMemory::locate`] without a fault.
    #[inline(always)]
    pub(crate) fn find(&mut self, address: u64, len: usize) -> Option<(usize, usize)> {
        let last = self.allocations.get(self.last)?;
        let (at, size) = (address.wrapping_sub(last.base), last.region.len() as u64);
        if at < size && at + len as u64 <= size {
            return Some((self.last, at as usize));
        }
        self.search(address, len)
    }

    #[inline(never)]
    fn search(&mut self, address: u64, len: usize) -> Option<(usize, usize)> {
        if let Some(found) = self.allocations.get(self.before) {
            let (at, size) = (address.wrapping_sub(found.base), found.region.len() as u64);
            if at < size && at + len as u64 <= size {
                std::mem::swap(&mut self.before, &mut self.last);
                return Some((self.last, at as usize));
            }
        }
        let n = self.allocations.partition_point(|a| a.base <= address).checked_sub(1)?;
        let found = &self.allocations[n];
        let (at, size) = (address - found.base, found.region.len() as u64);
        if at >= size || at + len as u64 > size {
            return None;
        }
        (self.before, self.last) = (self.last, n);
        Some((n, at as usize))
    }

    /// Finds the allocation of an access and the offset in it.
    #[inline]
    pub(crate) fn locate(&mut self, address: u64, len: usize) -> Result<(usize, usize), Fault> {
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
    pub(crate) fn outside(&self, address: u64, len: usize) -> Fault {
        if let Some(fault) = self.withheld_fault(address, len) {
            return fault;
        }
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
        // The message gets the name, the byte and the size later.
        if self.names.near(address).is_some() {
            return Fault::new(Rule::OutOfBounds, format!("{len} bytes at global address {address:#x}"));
        }
        let before = self.allocations.iter().rev().find(|a| a.base <= address);
        let near = before.filter(|a| address.saturating_sub(a.end()) <= NEAR.max(a.region.len() as u64));
        let place = match near {
            Some(a) => format!(", byte {} of an allocation of {} bytes", address - a.base, a.region.len()),
            None if HOST.contains(&address) => ", a host address; no device allocation is there".to_owned(),
            None => ", where nothing is allocated".to_owned(),
        };
        Fault::new(Rule::OutOfBounds, format!("{len} bytes at global address {address:#x}{place}"))
    }

    /// Whether the host may change some bytes while a kernel runs.
    pub(crate) fn host_may_change_any(&self) -> bool {
        self.allocations.iter().any(|a| a.region.may_change())
    }

    #[inline]
    pub(crate) fn region(&self, index: usize) -> &Region {
        &self.allocations[index].region
    }

    #[inline]
    pub(crate) fn region_mut(&mut self, index: usize) -> &mut Region {
        &mut self.allocations[index].region
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::window::{CONST_WINDOW, GLOBAL_BASE, SHARED_WINDOW};

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
        // Holes may be copied but not used; a range that is half in one, or past the end, allows neither.
        assert!(memory.is_hole(base, 16) && memory.is_hole(base + 40, 1 << 20) && !memory.is_hole(base, 17));
        assert!(memory.reach(base, 16).is_ok() && memory.reach(base, 17).is_err());
        assert!(memory.locate(base, 16).is_err() && memory.reach(far, 9).is_err());
        assert!(!memory.write_at(far, &[0; 9]) && memory.range(base + 36, 8).is_none());
        memory.forget(base);
        assert!(memory.is_hole(base, 1 << 30) && memory.range(behind, 4).is_some());
        assert!(memory.reserve(u64::MAX).is_none() && memory.reserve(CONST_WINDOW).is_none());
    }
}
