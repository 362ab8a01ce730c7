//! The C interface of the emulator: `include/sm121probe.h` documents every function.
//!
#![doc = include_str!("../README.md")]
#![expect(unsafe_code, reason = "a C interface: each block says what the header promises")]

mod device;
mod launch;
mod report;
mod run;
mod text;

pub use device::{
    Device, sm121probe_alloc, sm121probe_device_free, sm121probe_device_new, sm121probe_free,
    sm121probe_read, sm121probe_write,
};
pub use launch::{Launch, sm121probe_run};
pub use run::ptx_run;
pub use text::{Module, sm121probe_load, sm121probe_module_free, sm121probe_text_free};

/// The result of a call, with the numbers of the header.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// A defect of this library.
    Failed = 1,
    /// A null pointer, an unknown name or address, or sizes that do not match.
    Usage = 2,
    /// The kernel violates a rule.
    Violation = 100,
    /// Results depend on the schedule.
    Disagreement = 101,
    /// The kernel uses something that the emulator does not support.
    Unsupported = 102,
}

/// The version of this interface.
#[unsafe(no_mangle)]
pub extern "C" fn sm121probe_version() -> u32 {
    1
}
