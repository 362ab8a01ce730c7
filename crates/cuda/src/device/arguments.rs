//! Where the arguments of a launch come from.
#![expect(unsafe_code, reason = "arguments of a C program")]

use crate::program::pointers::{In, host_bytes};

/// The source of a launch's arguments.
pub(crate) trait Arguments {
    /// The bytes of parameter `n`, which is at `offset` and has `size` bytes.
    fn bytes(&self, n: usize, offset: usize, size: usize) -> Option<Vec<u8>>;
}

/// The array of argument pointers of a launch.
pub(crate) struct Pointers(In<u64>);

impl Pointers {
    /// # Safety
    /// The array has a pointer for each parameter of the kernel, to that many bytes.
    pub(crate) unsafe fn from_array(array: In<u64>) -> Self {
        Self(array)
    }
}

impl Arguments for Pointers {
    fn bytes(&self, n: usize, _: usize, size: usize) -> Option<Vec<u8>> {
        // SAFETY: as promised to `Pointers::from_array`.
        let at = unsafe { self.0.nth(n) }.ok()?;
        // SAFETY: as above.
        Some(unsafe { host_bytes(at, size) }.ok()?.to_vec())
    }
}

/// All arguments in one buffer (`CU_LAUNCH_PARAM_BUFFER_POINTER`).
pub(crate) struct Packed(pub(crate) Vec<u8>);

impl Arguments for Packed {
    fn bytes(&self, _: usize, offset: usize, size: usize) -> Option<Vec<u8>> {
        Some(self.0.get(offset..offset + size)?.to_vec())
    }
}
