//! Virtual memory calls: reserved addresses become accessible when physical memory is mapped there and a GPU has access.

use crate::device::allocations::{Allocation, Kind};
use crate::device::mappings::GRANULARITY;
use crate::device::state::Device;
use crate::status::{Answer, Status};

/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
pub(crate) const READ_WRITE: u64 = 3;

/// Why an access to reserved addresses is a fault.
const UNMAPPED: &str = "reserved addresses to which nothing is mapped (cuMemMap)";

fn is_whole(numbers: &[u64]) -> Answer {
    if numbers.iter().all(|n| n.is_multiple_of(GRANULARITY)) { Ok(()) } else { Err(Status::INVALID_VALUE) }
}

impl Device {
    /// Reserves addresses.
    pub(crate) fn reserve_addresses(&mut self, len: u64, alignment: u64) -> Result<u64, Status> {
        let alignment = alignment.max(GRANULARITY);
        is_whole(&[len])?;
        if len == 0 || !alignment.is_power_of_two() {
            return Err(Status::INVALID_VALUE);
        }
        let at = self.memory.reserve_withheld(len, alignment, UNMAPPED).ok_or(Status::OUT_OF_MEMORY)?;
        self.mappings.reserve(at, len);
        Ok(at)
    }

    /// Frees reserved addresses.
    pub(crate) fn free_addresses(&mut self, at: u64, len: u64) -> Answer {
        self.mappings.unreserve(at, len)?;
        self.memory.end_withholding(at, true);
        Ok(())
    }

    /// Makes physical memory of a GPU; returns its handle.
    pub(crate) fn create_physical(&mut self, len: u64, gpu: u8) -> Result<u64, Status> {
        self.healthy()?;
        is_whole(&[len])?;
        if len == 0 {
            return Err(Status::INVALID_VALUE);
        }
        self.use_bytes(gpu, len)?;
        Ok(self.mappings.create(len, gpu))
    }

    /// Releases a handle of physical memory.
    pub(crate) fn release_physical(&mut self, handle: u64) -> Answer {
        if let Some(gone) = self.mappings.release(handle)? {
            self.give_back_bytes(gone.gpu, gone.len);
        }
        Ok(())
    }

    /// Maps physical memory to reserved addresses.
    pub(crate) fn map_physical(&mut self, at: u64, len: u64, offset: u64, handle: u64) -> Answer {
        is_whole(&[at, len])?;
        if len == 0 || offset != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let physical = self.mappings.physical(handle)?;
        let (whole, gpu, mapped_at) = (physical.len, physical.gpu, physical.mapped_at);
        if len > whole {
            return Err(Status::INVALID_VALUE);
        }
        self.mappings.is_free(at, len)?;
        let refused = match mapped_at {
            Some(_) => Some("cuMemMap: the memory is mapped already; map each handle to one range at a time"),
            None if len < whole => {
                Some("cuMemMap: a part of the memory is mapped; map all of what cuMemCreate has made")
            }
            None => None,
        };
        if let Some(refused) = refused {
            self.miss(refused);
            return Err(Status::NOT_SUPPORTED);
        }
        let size = usize::try_from(len).map_err(|_| Status::OUT_OF_MEMORY)?;
        let is_placed = match self.mappings.physical(handle)?.parked.take() {
            Some(bytes) => self.memory.put_back(bytes, at),
            None => {
                self.host_can_hold(size)?;
                self.memory.place_unwritten(at, size)
            }
        };
        if !is_placed {
            return Err(Status::INVALID_VALUE);
        }
        self.allocations.insert(at, Allocation::new(size, Kind::Mapped, gpu));
        self.mappings.map(at, len, handle)
    }

    /// Ends all mappings of a range, which consists of whole ones.
    pub(crate) fn unmap_range(&mut self, at: u64, len: u64) -> Answer {
        for base in self.mappings.of_range(at, len)? {
            let bytes = self.memory.take(base);
            self.allocations.remove(&base);
            if let Some(gone) = self.mappings.unmap(base, bytes) {
                self.give_back_bytes(gone.gpu, gone.len);
            }
        }
        Ok(())
    }

    /// Sets the access of a GPU to a range, which consists of whole mappings.
    pub(crate) fn set_access(&mut self, at: u64, len: u64, gpu: u8, flags: u64) -> Answer {
        let all = self.mappings.of_range(at, len)?;
        let allowed = match flags {
            0 => false,
            READ_WRITE => true,
            1 => {
                self.miss("cuMemSetAccess: access for reading alone is not checked; ask for CU_MEM_ACCESS_FLAGS_PROT_READWRITE");
                return Err(Status::NOT_SUPPORTED);
            }
            _ => return Err(Status::INVALID_VALUE),
        };
        all.into_iter().for_each(|base| self.mappings.set_access(base, gpu, allowed));
        Ok(())
    }
}
