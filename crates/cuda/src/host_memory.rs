//! Memory that the CPU and kernels use at the same address: managed and pinned memory.
//!
//! A part of the process's address space is reserved for device addresses, so that no pointer of the host is one of the device. Pages of
//! managed and pinned memory are mapped into it; before a launch, what the host changed is copied to the emulator, and afterwards what
//! kernels changed is copied back.
#![expect(unsafe_code, reason = "pages of the process")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use emulator::GlobalMemory;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Where device addresses begin, and how many are reserved.
const WINDOW: (u64, usize) = (0x10_0000_0000, 1 << 42);

/// Bytes that are compared at a time.
const PIECE: usize = 1 << 16;

/// Whether the window belongs to the device.
static RESERVED: AtomicBool = AtomicBool::new(false);

/// Reserves the device's addresses. Where the system refuses, there is no managed and no pinned memory.
pub(crate) fn reserve_window() {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::from_bits_retain(0x10_0000);
    // SAFETY: MAP_FIXED_NOREPLACE (0x100000) maps over nothing that is there.
    let mapped = unsafe { mmap_anonymous(WINDOW.0 as *mut c_void, WINDOW.1, ProtFlags::empty(), flags) };
    // A kernel that does not know the flag takes the address for a wish.
    RESERVED.store(mapped.is_ok_and(|at| at as u64 == WINDOW.0), Ordering::Release);
}

/// Maps pages at a device address, which the allocation there keeps to itself. False where the system refuses.
pub(crate) fn map(address: u64, len: usize) -> bool {
    if !RESERVED.load(Ordering::Acquire)
        || address < WINDOW.0
        || address - WINDOW.0 + len as u64 > WINDOW.1 as u64
    {
        return false;
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: these pages lie in the window that `reserve_window` took, and belong to this allocation alone.
    unsafe { mmap_anonymous(address as *mut c_void, len, ProtFlags::READ | ProtFlags::WRITE, flags) }.is_ok()
}

/// Takes the pages back; a pointer to them faults, as one to device memory does.
pub(crate) fn unmap(address: u64, len: usize) {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: the pages were mapped by `map`, and the program has freed them; the addresses stay reserved.
    let _ = unsafe { mmap_anonymous(address as *mut c_void, len, ProtFlags::empty(), flags) };
}

/// Copies what the host changed to the emulator.
pub(crate) fn take(memory: &mut GlobalMemory, address: u64, len: usize) {
    for at in (0..len).step_by(PIECE) {
        let size = PIECE.min(len - at);
        // SAFETY: the range is mapped and stays so while the device is locked. Another thread of the program that writes it meanwhile races
        // with the launch, as it would on a GPU.
        let host = unsafe { std::slice::from_raw_parts((address + at as u64) as *const u8, size) };
        if memory.range(address + at as u64, size).is_some_and(|held| held != host) {
            memory.write_at(address + at as u64, host);
        }
    }
}

/// Copies what kernels changed to the host's pages.
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
