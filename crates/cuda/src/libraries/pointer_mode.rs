//! Numbers that a program passes to a library by address: with the pointer mode of the host they are the program's own, with that of the device they
//! are in device memory.

use emulator::Rule;
use emulator::events::ViolationRecord;

use crate::device::state::device;
use crate::program::host_memory;

/// Whether the host has no memory at an address.
pub(super) fn is_of_device_alone(address: u64) -> bool {
    let Ok(device) = device() else { return false };
    match device.around(address) {
        Some((_, allocation)) => !allocation.kind.on_host(),
        None => host_memory::is_in_window(address),
    }
}

/// Reports a number that is in device memory alone although the mode is that of the host. `what` a call does with it, and the function or attribute that
/// sets the mode.
pub(super) fn misplaced(call: &str, address: u64, what: &str, setting: &str) {
    if let Ok(mut device) = device() {
        let text = format!(
            "{what} at {address:#x}, a device address, but the pointer mode is that of the host ({setting})"
        );
        device.results.violated(vec![ViolationRecord::of_call(call, Rule::OutOfBounds, text)]);
    }
}
