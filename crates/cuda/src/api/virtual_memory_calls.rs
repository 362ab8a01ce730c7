//! Entry points of virtual memory: reserved addresses, physical memory, mappings and access.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use crate::api::parameters::{AccessDescriptor, DEVICE_LOCATION, Location};
use crate::api::table::entry_points;
use crate::device::contexts::gpu;
use crate::device::mappings::GRANULARITY;
use crate::device::state::device;
use crate::device::virtual_memory::READ_WRITE;
use crate::program::pointers::{In, Out};
use crate::status::{Answer, Status};

/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
const PINNED: c_int = 1;

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Properties {
    kind: c_int,
    handle_types: c_int,
    location: Location,
    security: u64,
    compression: u8,
    rdma: u8,
    usage: u16,
    reserved: [u8; 4],
}

impl Properties {
    /// The GPU that has the memory; what is not served is refused by name.
    fn gpu(&self, call: &str) -> Result<u8, Status> {
        let Location { kind, id } = self.location;
        let refused = if self.handle_types != 0 {
            Some("memory cannot be exported to other processes; ask for CU_MEM_HANDLE_TYPE_NONE")
        } else if kind > DEVICE_LOCATION {
            Some(
                "memory of the host is not served; ask for CU_MEM_LOCATION_TYPE_DEVICE, or use cuMemHostAlloc",
            )
        } else if self.compression != 0 || self.rdma != 0 {
            Some("compressible memory and GPUDirect RDMA do not exist here; clear allocFlags")
        } else {
            None
        };
        if let Some(refused) = refused {
            device()?.miss(&format!("{call}: {refused}"));
            return Err(Status::NOT_SUPPORTED);
        }
        if self.kind != PINNED || kind != DEVICE_LOCATION {
            return Err(Status::INVALID_VALUE);
        }
        gpu(id)
    }
}

/// Refuses what the header reserves.
fn none(flags: u64) -> Answer {
    if flags == 0 { Ok(()) } else { Err(Status::INVALID_VALUE) }
}

entry_points! {
    VIRTUAL_MEMORY, VIRTUAL_MEMORY_CALLS;

    // The wish for an address is one that CUDA need not fulfil either.
    [cuMemAddressReserve: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (to: Out<u64>, size: usize, alignment: usize, _wish: u64, flags: u64) {
        none(flags)?;
        if to.is_null() { return Err(Status::INVALID_VALUE); }
        let at = device()?.reserve_addresses(size as u64, alignment as u64)?;
        to.set(at)
    }
    [cuMemAddressFree: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (at: u64, size: usize) { device()?.free_addresses(at, size as u64) }
    [cuMemCreate: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (to: Out<u64>, size: usize, properties: In<Properties>, flags: u64) {
        none(flags)?;
        if to.is_null() { return Err(Status::INVALID_VALUE); }
        let of = properties.get()?.gpu("cuMemCreate")?;
        let handle = device()?.create_physical(size as u64, of)?;
        to.set(handle)
    }
    [cuMemRelease: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (memory: u64) { device()?.release_physical(memory) }
    [cuMemMap: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (at: u64, size: usize, offset: usize, memory: u64, flags: u64) {
        none(flags)?;
        device()?.map_physical(at, size as u64, offset as u64, memory)
    }
    [cuMemUnmap: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (at: u64, size: usize) { device()?.unmap_range(at, size as u64) }
    [cuMemSetAccess: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (at: u64, size: usize, list: In<AccessDescriptor>, count: usize) {
        let mut device = device()?;
        if count == 0 { return Err(Status::INVALID_VALUE); }
        for n in 0..count {
            let AccessDescriptor { location: Location { kind, id }, flags } = list.nth(n)?;
            if kind > DEVICE_LOCATION {
                device.miss("cuMemSetAccess: access of the host is not served; use cuMemAllocManaged");
                return Err(Status::NOT_SUPPORTED);
            }
            if kind != DEVICE_LOCATION { return Err(Status::INVALID_VALUE); }
            device.set_access(at, size as u64, gpu(id)?, u64::from(flags))?;
        }
        Ok(())
    }
    [cuMemGetAccess: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (flags: Out<u64>, location: In<Location>, at: u64) {
        let Location { kind, id } = location.get()?;
        let (_, mapping) = device()?.mappings.around(at).ok_or(Status::INVALID_VALUE)?;
        let is_for = kind == DEVICE_LOCATION && mapping.is_for(gpu(id)?);
        flags.set(if is_for { READ_WRITE } else { 0 })
    }
    [cuMemGetAllocationGranularity: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (to: Out<usize>, properties: In<Properties>, option: c_int) {
        if to.is_null() || !matches!(option, 0 | 1) { return Err(Status::INVALID_VALUE); }
        properties.get()?.gpu("cuMemGetAllocationGranularity")?;
        to.set(GRANULARITY as usize)
    }
    [cuMemRetainAllocationHandle: (Init, zeros INVALID_VALUE, since 11_000)]
    fn (to: Out<u64>, at: u64) {
        if to.is_null() { return Err(Status::INVALID_VALUE); }
        let handle = device()?.mappings.retain(at)?;
        to.set(handle)
    }
    [cuMemGetAllocationPropertiesFromHandle: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (to: Out<Properties>, memory: u64) {
        let id = c_int::from(device()?.mappings.physical(memory)?.gpu);
        to.set(Properties {
            kind: PINNED,
            handle_types: 0,
            location: Location { kind: DEVICE_LOCATION, id },
            security: 0,
            compression: 0,
            rdma: 0,
            usage: 0,
            reserved: [0; 4],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!((size_of::<Properties>(), size_of::<AccessDescriptor>()), (32, 12));
    }
}
