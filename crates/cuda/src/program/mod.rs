//! The process of the program: the pointers that it passes, the memory that it shares with kernels, and the call that it is in. Nothing
//! here knows the simulated device.

pub(crate) mod caller;
pub(crate) mod host_memory;
pub(crate) mod image;
pub(crate) mod linker;
mod pages;
pub(crate) mod pointers;
