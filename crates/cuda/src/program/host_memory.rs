//! Memory that the CPU and kernels access at the same address: managed, pinned and registered memory.
//!
//! Part of the process's address space is reserved for device addresses, so that no host pointer equals a device pointer, and an address
//! tells by itself whether it is one. Pages of managed and pinned memory are mapped into it.
//!
//! The emulator reads these bytes where the host has them, and copies the pages that kernels write ([`emulator::HostBytes`]). So
//! nothing is done before a launch, and after it, the pages that kernels have written are copied to the host: the cost does not depend
//! on how much memory is shared.
#![expect(unsafe_code, reason = "pages of the process")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use emulator::{GLOBAL_BASE, GlobalMemory, HostBytes};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// The number of addresses reserved.
const RESERVED_BYTES: usize = 1 << 42;

/// The end of the device addresses.
pub(crate) const WINDOW_END: u64 = GLOBAL_BASE + RESERVED_BYTES as u64;

/// Whether the window was reserved.
static RESERVED: AtomicBool = AtomicBool::new(false);

/// Bytes of the host's address space.
struct Shared {
    address: usize,
    len: usize,
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `lent` promises that the bytes are there as long as this value lives.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.len) }
    }
}

/// The bytes at an address of the host, for kernels to read in place.
///
/// # Safety
/// The bytes stay mapped and readable as long as the value lives. If another thread of the program writes them during a launch, it races
/// with the launch, as it would on a GPU.
pub(crate) unsafe fn lent(address: u64, len: usize) -> HostBytes {
    HostBytes::shared(Shared { address: address as usize, len })
}

/// Reserves the device addresses. If the system refuses, managed and pinned memory are unavailable.
pub(crate) fn reserve_window() {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::from_bits_retain(0x10_0000);
    // SAFETY: MAP_FIXED_NOREPLACE (0x100000) never maps over an existing mapping.
    let mapped =
        unsafe { mmap_anonymous(GLOBAL_BASE as *mut c_void, RESERVED_BYTES, ProtFlags::empty(), flags) };
    // A kernel that does not support the flag treats the address as a hint.
    RESERVED.store(mapped.is_ok_and(|at| at as u64 == GLOBAL_BASE), Ordering::Release);
}

/// Whether the window was reserved. The heap of some languages begins at an address in it; the host and the device then share it.
pub(crate) fn has_window() -> bool {
    RESERVED.load(Ordering::Acquire)
}

/// Whether an address is in the window of device addresses, where the host has only what [`map`] mapped.
pub(crate) fn is_in_window(address: u64) -> bool {
    has_window() && (GLOBAL_BASE..WINDOW_END).contains(&address)
}

/// Maps pages at a device address, for the allocation there. Returns false if the system refuses.
///
/// # Safety
/// The addresses belong to an allocation that is not mapped yet.
pub(crate) unsafe fn map(address: u64, len: usize) -> bool {
    let Some(last) = address.checked_add(len.saturating_sub(1) as u64) else { return false };
    if !is_in_window(address) || !is_in_window(last) {
        return false;
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: these pages are in the window that `reserve_window` reserved, and belong to this allocation alone.
    unsafe { mmap_anonymous(address as *mut c_void, len, ProtFlags::READ | ProtFlags::WRITE, flags) }.is_ok()
}

/// Unmaps the pages; a pointer to them then faults, like one to device memory.
///
/// # Safety
/// [`map`] mapped them, and nothing refers to them any more.
pub(crate) unsafe fn unmap(address: u64, len: usize) {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: as promised by the caller; the addresses stay reserved.
    let _ = unsafe { mmap_anonymous(address as *mut c_void, len, ProtFlags::empty(), flags) };
}

/// Copies the pages that kernels have written in the allocation at `address` to the host; returns the number of bytes copied.
///
/// # Safety
/// The host has `len` bytes there, which the emulator was lent.
pub(crate) unsafe fn give(memory: &mut GlobalMemory, address: u64, len: usize) -> usize {
    let mut copied = 0;
    for (at, bytes) in memory.written_runs(address) {
        // SAFETY: the run lies within the allocation, as promised by the caller; the copy of the emulator is elsewhere.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (address + at as u64) as *mut u8, bytes.len())
        };
        copied += bytes.len();
    }
    if copied > 0 {
        // SAFETY: as promised by the caller, for as long as the allocation exists.
        memory.lend(address, unsafe { lent(address, len) });
    }
    copied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_pages_are_copied_to_the_host() {
        let host = vec![1u8; 1 << 20].into_boxed_slice();
        let (address, len) = (host.as_ptr() as u64, host.len());
        let mut memory = GlobalMemory::default();
        // SAFETY: the block lives until the end of the test.
        assert!(memory.place_lent(address, unsafe { lent(address, len) }));
        // SAFETY: as above.
        assert_eq!(unsafe { give(&mut memory, address, len) }, 0);
        memory.write_at(address + 5000, &[7; 2]);
        assert_eq!(host[5000], 1);
        // Two pages at most, wherever the pages of the block begin.
        // SAFETY: as above.
        assert_eq!(unsafe { give(&mut memory, address, len) }, 4096);
        // SAFETY: `give` wrote it; the compiler does not know.
        assert_eq!(unsafe { std::ptr::read_volatile(host.as_ptr().add(5001)) }, 7);
        // SAFETY: as above.
        assert_eq!(unsafe { give(&mut memory, address, len) }, 0);
        assert_eq!(memory.range(address + 4999, 3), Some([1, 7, 7].as_slice()));
    }
}
