//! Virtual memory: reserved addresses, physical memory, and which of it is mapped where, with the GPUs that have access.

use std::collections::{BTreeMap, HashMap};

use emulator::TakenBuffer;

use crate::device::handles::Handle;
use crate::status::{Answer, Status};

/// What addresses and sizes are multiples of (`cuMemGetAllocationGranularity`).
pub(crate) const GRANULARITY: u64 = 2 << 20;

/// Physical memory (`cuMemCreate`). It lives as long as the program has a handle, or a mapping.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) len: u64,
    pub(crate) gpu: u8,
    /// How many handles the program has not released.
    handles: u32,
    /// Where it is mapped.
    pub(crate) mapped_at: Option<u64>,
    /// Its bytes while it is not mapped, if it ever was.
    pub(crate) parked: Option<TakenBuffer>,
}

/// Physical memory at an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mapping {
    pub(crate) len: u64,
    /// The number of the physical memory.
    physical: usize,
    /// One bit for each GPU with access.
    access: u8,
}

impl Mapping {
    /// Whether a GPU may access it.
    pub(crate) const fn is_for(self, gpu: u8) -> bool {
        self.access >> gpu & 1 != 0
    }
}

/// The virtual memory of the program.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    /// Reserved ranges: their first addresses and sizes.
    reserved: BTreeMap<u64, u64>,
    physical: HashMap<usize, Physical>,
    /// Mappings by their first address.
    mapped: BTreeMap<u64, Mapping>,
    made: usize,
}

impl Mappings {
    /// Whether nothing is mapped.
    pub(crate) fn is_empty(&self) -> bool {
        self.mapped.is_empty()
    }

    /// The number and the bytes of the physical memory that the program has not released.
    pub(crate) fn unreleased(&self) -> (usize, u64) {
        (self.physical.len(), self.physical.values().map(|physical| physical.len).sum())
    }

    /// Adds a reserved range.
    pub(crate) fn reserve(&mut self, at: u64, len: u64) {
        self.reserved.insert(at, len);
    }

    /// Removes a reserved range, in which nothing may be mapped.
    pub(crate) fn unreserve(&mut self, at: u64, len: u64) -> Answer {
        let is_used = self.mapped.range(at..at.saturating_add(len)).next().is_some();
        if self.reserved.get(&at) != Some(&len) || is_used {
            return Err(Status::INVALID_VALUE);
        }
        self.reserved.remove(&at);
        Ok(())
    }

    /// Adds physical memory; returns its handle.
    pub(crate) fn create(&mut self, len: u64, gpu: u8) -> u64 {
        let number = self.made;
        self.made += 1;
        let made = Physical { len, gpu, handles: 1, mapped_at: None, parked: None };
        self.physical.insert(number, made);
        Handle::Physical.make(number)
    }

    fn number(&self, handle: u64) -> Result<usize, Status> {
        let number = Handle::Physical.index(handle).filter(|number| self.physical.contains_key(number));
        number.ok_or(Status::INVALID_VALUE)
    }

    /// The physical memory of a handle.
    pub(crate) fn physical(&mut self, handle: u64) -> Result<&mut Physical, Status> {
        let number = self.number(handle)?;
        let physical = self.physical.get_mut(&number).filter(|physical| physical.handles > 0);
        physical.ok_or(Status::INVALID_VALUE)
    }

    /// Releases a handle; returns the memory if this was the last use of it.
    pub(crate) fn release(&mut self, handle: u64) -> Result<Option<Physical>, Status> {
        self.physical(handle)?.handles -= 1;
        Ok(self.number(handle).ok().and_then(|number| self.drop_unused(number)))
    }

    fn drop_unused(&mut self, number: usize) -> Option<Physical> {
        let is_used = |physical: &Physical| physical.handles > 0 || physical.mapped_at.is_some();
        if self.physical.get(&number).is_none_or(is_used) { None } else { self.physical.remove(&number) }
    }

    /// One more handle of the memory that is mapped at an address.
    pub(crate) fn retain(&mut self, at: u64) -> Result<u64, Status> {
        let (_, mapping) = self.around(at).ok_or(Status::INVALID_VALUE)?;
        let physical = self.physical.get_mut(&mapping.physical).ok_or(Status::INVALID_VALUE)?;
        physical.handles += 1;
        Ok(Handle::Physical.make(mapping.physical))
    }

    /// The mapping that contains an address.
    pub(crate) fn around(&self, at: u64) -> Option<(u64, Mapping)> {
        let (base, mapping) = self.mapped.range(..=at).next_back()?;
        (at - base < mapping.len).then_some((*base, *mapping))
    }

    /// Checks that a range is reserved, and that nothing is mapped there.
    pub(crate) fn is_free(&self, at: u64, len: u64) -> Answer {
        let end = at.checked_add(len).ok_or(Status::INVALID_VALUE)?;
        let reserved = self.reserved.range(..=at).next_back();
        let fits = reserved.is_some_and(|(base, size)| end <= base + size);
        let is_used = self.around(at).is_some() || self.mapped.range(at..end).next().is_some();
        if fits && !is_used { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// Maps physical memory, for no GPU yet.
    pub(crate) fn map(&mut self, at: u64, len: u64, handle: u64) -> Answer {
        let number = self.number(handle)?;
        self.physical(handle)?.mapped_at = Some(at);
        self.mapped.insert(at, Mapping { len, physical: number, access: 0 });
        Ok(())
    }

    /// The mappings of which a range consists.
    pub(crate) fn of_range(&self, at: u64, len: u64) -> Result<Vec<u64>, Status> {
        let end = at.checked_add(len).ok_or(Status::INVALID_VALUE)?;
        let (mut next, mut all) = (at, Vec::new());
        while next < end {
            all.push(next);
            next += self.mapped.get(&next).ok_or(Status::INVALID_VALUE)?.len;
        }
        if next == end && len > 0 { Ok(all) } else { Err(Status::INVALID_VALUE) }
    }

    /// Gives a GPU access to a mapping, or ends it.
    pub(crate) fn set_access(&mut self, at: u64, gpu: u8, allowed: bool) {
        if let Some(mapping) = self.mapped.get_mut(&at) {
            let bit = 1 << gpu;
            mapping.access = if allowed { mapping.access | bit } else { mapping.access & !bit };
        }
    }

    /// Ends a mapping, of which `bytes` were taken; returns the physical memory if this was the last use of it.
    pub(crate) fn unmap(&mut self, at: u64, bytes: Option<TakenBuffer>) -> Option<Physical> {
        let number = self.mapped.remove(&at)?.physical;
        let physical = self.physical.get_mut(&number)?;
        (physical.mapped_at, physical.parked) = (None, bytes);
        self.drop_unused(number)
    }
}
