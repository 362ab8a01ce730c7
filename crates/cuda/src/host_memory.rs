//! Memory that the CPU and kernels access at the same address: managed and pinned memory.
//!
//! Part of the process's address space is reserved for device addresses, so that no host pointer equals a device pointer. Pages of
//! managed and pinned memory are mapped into it. Before a launch, changes by the host are copied to the emulator; afterwards, changes by
//! kernels are copied back.
#![expect(unsafe_code, reason = "pages of the process")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use emulator::GlobalMemory;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// The first device address, and the number of addresses reserved.
const WINDOW: (u64, usize) = (0x10_0000_0000, 1 << 42);

/// Number of bytes compared at a time.
const PIECE: usize = 1 << 16;

/// Whether the window was reserved.
static RESERVED: AtomicBool = AtomicBool::new(false);

/// Reserves the device addresses. If the system refuses, managed and pinned memory are unavailable.
pub(crate) fn reserve_window() {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::from_bits_retain(0x10_0000);
    // SAFETY: MAP_FIXED_NOREPLACE (0x100000) never maps over an existing mapping.
    let mapped = unsafe { mmap_anonymous(WINDOW.0 as *mut c_void, WINDOW.1, ProtFlags::empty(), flags) };
    // A kernel that does not support the flag treats the address as a hint.
    RESERVED.store(mapped.is_ok_and(|at| at as u64 == WINDOW.0), Ordering::Release);
}

/// Maps pages at a device address, for the allocation there. Returns false if the system refuses.
pub(crate) fn map(address: u64, len: usize) -> bool {
    if !RESERVED.load(Ordering::Acquire)
        || address < WINDOW.0
        || address - WINDOW.0 + len as u64 > WINDOW.1 as u64
    {
        return false;
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: these pages are in the window that `reserve_window` reserved, and belong to this allocation alone.
    unsafe { mmap_anonymous(address as *mut c_void, len, ProtFlags::READ | ProtFlags::WRITE, flags) }.is_ok()
}

/// Unmaps the pages; a pointer to them then faults, like one to device memory.
pub(crate) fn unmap(address: u64, len: usize) {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: the pages were mapped by `map`, and the program has freed them; the addresses stay reserved.
    let _ = unsafe { mmap_anonymous(address as *mut c_void, len, ProtFlags::empty(), flags) };
}

/// Copies changes by the host to the emulator.
pub(crate) fn take(memory: &mut GlobalMemory, address: u64, len: usize) {
    for at in (0..len).step_by(PIECE) {
        let size = PIECE.min(len - at);
        // SAFETY: the range is mapped and stays mapped while the device is locked. If another thread of the program writes it meanwhile, it
        // races with the launch, as it would on a GPU.
        let host = unsafe { std::slice::from_raw_parts((address + at as u64) as *const u8, size) };
        if memory.range(address + at as u64, size).is_some_and(|held| held != host) {
            memory.write_at(address + at as u64, host);
        }
    }
}

/// Copies changes by kernels to the host's pages.
pub(crate) fn give(memory: &GlobalMemory, address: u64, len: usize) {
    for at in (0..len).step_by(PIECE) {
        let size = PIECE.min(len - at);
        // SAFETY: as in `take`.
        let host = unsafe { std::slice::from_raw_parts_mut((address + at as u64) as *mut u8, size) };
        if let Some(held) = memory.range(address + at as u64, size)
            && held != host
        {
            host.copy_from_slice(held);
        }
    }
}
