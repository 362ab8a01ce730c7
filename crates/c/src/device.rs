//! Global memory behind a handle.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use emulator::GlobalMemory;

use crate::Status;

/// Global memory that persists between launches.
#[derive(Default)]
pub struct Device(Mutex<GlobalMemory>);

impl Device {
    pub(crate) fn lock(&self) -> MutexGuard<'_, GlobalMemory> {
        // A launch replaces the memory completely or not at all.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn sm121probe_device_new() -> *mut Device {
    Box::into_raw(Box::default())
}

/// See the header.
///
/// # Safety
/// `device` is null, or came from [`sm121probe_device_new`] and has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sm121probe_device_free(device: *mut Device) {
    if !device.is_null() {
        // SAFETY: it came from a box, and there is no other reference to it.
        drop(unsafe { Box::from_raw(device) });
    }
}

/// Returns the caller's bytes as a slice.
///
/// # Safety
/// `at` is null, or `len` bytes can be read there.
pub(crate) unsafe fn bytes<'a>(at: *const c_void, len: usize) -> Option<&'a [u8]> {
    match (at.is_null(), len) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: the caller promises `len` bytes.
        (false, _) => Some(unsafe { std::slice::from_raw_parts(at.cast(), len) }),
    }
}

/// See the header.
///
/// # Safety
/// `device` is null or a device; `from` is null or has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sm121probe_alloc(device: *const Device, from: *const c_void, len: usize) -> u64 {
    // SAFETY: as promised to this function.
    let (Some(device), from) = (unsafe { device.as_ref() }, unsafe { bytes(from, len) }) else { return 0 };
    let mut contents = Vec::new();
    if contents.try_reserve_exact(len).is_err() {
        return 0;
    }
    let mut memory = device.lock();
    match from.filter(|_| len > 0) {
        Some(from) => {
            contents.extend_from_slice(from);
            memory.allocate_with(contents)
        }
        None => {
            // The reservation has shown that there is room.
            drop(contents);
            memory.allocate(len)
        }
    }
}

/// See the header.
///
/// # Safety
/// `device` is null or a device; `to` has `len` bytes that may be written; `unwritten` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sm121probe_read(
    device: *const Device,
    address: u64,
    to: *mut c_void,
    len: usize,
    unwritten: *mut usize,
) -> Status {
    // SAFETY: as promised to this function.
    let Some(device) = (unsafe { device.as_ref() }) else { return Status::Usage };
    let memory = device.lock();
    let Some(held) = memory.bytes(address).and_then(|held| held.get(..len)) else { return Status::Usage };
    if len > 0 && to.is_null() {
        return Status::Usage;
    }
    if len > 0 {
        // SAFETY: `to` has `len` bytes, as promised, and does not overlap memory of this library.
        unsafe { std::ptr::copy_nonoverlapping(held.as_ptr(), to.cast(), len) };
    }
    if !unwritten.is_null() {
        // SAFETY: as promised to this function.
        unsafe { *unwritten = memory.unwritten(address) };
    }
    Status::Ok
}

/// See the header.
///
/// # Safety
/// `device` is null or a device; `from` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sm121probe_write(
    device: *const Device,
    address: u64,
    from: *const c_void,
    len: usize,
) -> Status {
    // SAFETY: as promised to this function.
    let (Some(device), Some(from)) = (unsafe { device.as_ref() }, unsafe { bytes(from, len) }) else {
        return Status::Usage;
    };
    if device.lock().write_at(address, from) { Status::Ok } else { Status::Usage }
}

/// See the header.
///
/// # Safety
/// `device` is null or a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sm121probe_free(device: *const Device, address: u64) -> Status {
    // SAFETY: as promised to this function.
    let Some(device) = (unsafe { device.as_ref() }) else { return Status::Usage };
    if device.lock().free(address) { Status::Ok } else { Status::Usage }
}
