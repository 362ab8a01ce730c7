//! Whether a device and a toolchain admit a kernel: the limits of a CTA, capabilities, and what ptxas reports.

use ptx::arch::{Target, ToolkitVersion};
use toolchain::matrix::Capabilities;
use toolchain::toolkit::Resources;

/// Maximum dynamic shared memory of a CTA of an SM12x, bytes (`sharedMemPerBlockOptin`; CUTLASS `sm120_smem_capacity_bytes`).
pub const SHARED_LIMIT: u32 = 101_376;

/// Why a kernel cannot run, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Blocked(pub String);

/// The resources that a device has for one CTA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of shared memory, with opt-in.
    pub shared: u32,
    /// Registers.
    pub registers: u32,
    /// Threads.
    pub threads: u32,
}

impl Limits {
    /// SM12x: `sharedMemPerBlockOptin` of RTX PRO 6000, RTX 5070 Ti and GB10; registers and threads as on every architecture
    /// since sm_80 (CUDA C++ Programming Guide, table of compute capabilities).
    pub const SM12X: Self = Self { shared: SHARED_LIMIT, registers: 65_536, threads: 1024 };
}

/// The ptxas and target that a kernel is compiled with, and their capabilities.
#[derive(Debug, Clone, Copy)]
pub struct Toolchain<'a> {
    /// The capabilities recorded in the matrix.
    pub capabilities: &'a Capabilities,
    /// The ptxas.
    pub toolkit: ToolkitVersion,
    /// The target.
    pub target: Target,
}

impl Toolchain<'_> {
    /// Returns, as a sentence, the first of the `needs` that the toolchain lacks.
    #[must_use]
    pub fn lacking<'n>(&self, needs: impl IntoIterator<Item = &'n str>) -> Option<String> {
        needs.into_iter().find_map(|need| self.capabilities.missing(need, self.toolkit, self.target))
    }
}

/// What a CTA takes before ptxas assembles its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchSize {
    /// Threads.
    pub threads: u32,
    /// Dynamic shared memory, bytes.
    pub dynamic_shared: u32,
}

impl LaunchSize {
    /// Checks that a device has as many threads and as much shared memory.
    ///
    /// # Errors
    /// [`Blocked`], with the numbers.
    pub fn within(&self, limits: Limits) -> Result<(), Blocked> {
        if self.threads > limits.threads {
            return Err(Blocked(format!(
                "a CTA has {} threads, but the device allows {}",
                self.threads, limits.threads
            )));
        }
        if self.dynamic_shared > limits.shared {
            return Err(too_much_shared(self.dynamic_shared, limits));
        }
        Ok(())
    }
}

/// Decides whether the code that ptxas generated for a kernel of an admitted size can be launched. Spills are only a remark: they cost time
/// and do not change results.
///
/// # Errors
/// [`Blocked`], with ptxas's numbers.
pub fn admit_code(size: LaunchSize, code: &Resources, limits: Limits) -> Result<Option<String>, Blocked> {
    let shared = size.dynamic_shared + code.static_shared;
    if shared > limits.shared {
        return Err(too_much_shared(shared, limits));
    }
    // Registers are allocated to warps in units of 256: 8 per thread.
    let (threads, each) = (size.threads, code.registers.next_multiple_of(8));
    if threads * each > limits.registers {
        let (all, limit) = (threads * each, limits.registers);
        return Err(Blocked(format!(
            "{threads} threads of {each} registers need {all}, but the device has {limit}"
        )));
    }
    let (stores, loads, registers) = (code.spill_stores, code.spill_loads, code.registers);
    let spills = || {
        format!(
            "ptxas spills {stores} bytes of stores and {loads} of loads per thread at {registers} registers"
        )
    };
    Ok((stores + loads > 0).then(spills))
}

fn too_much_shared(needed: u32, limits: Limits) -> Blocked {
    Blocked(format!("a CTA needs {needed} bytes of shared memory, but the device has {}", limits.shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_needs_more_than_a_cta_has_is_blocked_and_spills_are_a_remark() {
        let size = LaunchSize { threads: 32 * 9, dynamic_shared: 3 * 32768 + 1024 };
        assert_eq!(size.within(Limits::SM12X), Ok(()));
        let code = Resources { registers: 128, static_shared: 48, ..Resources::default() };
        assert_eq!(admit_code(size, &code, Limits::SM12X), Ok(None));
        let spilled = admit_code(size, &Resources { spill_loads: 4, ..code }, Limits::SM12X);
        assert!(spilled.unwrap().unwrap().contains("spills 0 bytes of stores and 4 of loads"));
        for (code, words) in [
            (Resources { registers: 233, ..code }, "288 threads of 240 registers need 69120"),
            (Resources { static_shared: 2049, ..code }, "needs 101377 bytes of shared memory"),
        ] {
            let error = admit_code(size, &code, Limits::SM12X).unwrap_err();
            assert!(error.0.contains(words), "{error}");
        }
        assert!(LaunchSize { threads: 1025, ..size }.within(Limits::SM12X).is_err());
    }
}
