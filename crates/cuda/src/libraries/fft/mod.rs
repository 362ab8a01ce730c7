//! cuFFT, by its definition: a kernel gathers the elements of a transform in the order of their indices, as numbers of 64 bits, the host transforms
//! them, and a kernel scatters the results to where the plan says (`kernels.cu`). So each access is checked as those of the program are, and
//! results are rounded to their type once.
//!
//! `functions.rs` has the functions that are served, `plan.rs` the geometry of a plan, `handle.rs` what a program sets for it, `transform.rs`
//! the sums.

mod functions;
mod handle;
mod plan;
mod transform;

use std::ffi::c_int;

use super::answer::{self, unserved};
use crate::status::Status;

pub(super) use functions::SERVED;

/// A status of cuFFT (`cufftResult`) other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure(c_int);

impl Failure {
    const INVALID_PLAN: Self = Self(1);
    const ALLOC_FAILED: Self = Self(2);
    const INVALID_TYPE: Self = Self(3);
    const INVALID_VALUE: Self = Self(4);
    const EXEC_FAILED: Self = Self(6);
    const SETUP_FAILED: Self = Self(7);
    const INVALID_SIZE: Self = Self(8);
    const NOT_SUPPORTED: Self = Self(16);
}

impl answer::Failure for Failure {
    const INTERNAL_ERROR: Self = Self(5);
    const NOT_SUPPORTED: Self = Self::NOT_SUPPORTED;

    fn code(self) -> c_int {
        self.0
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        match status {
            Status::INVALID_VALUE => Self::INVALID_VALUE,
            Status::OUT_OF_MEMORY => Self::ALLOC_FAILED,
            Status::NOT_INITIALIZED | Status::NO_DEVICE => Self::SETUP_FAILED,
            Status::NOT_SUPPORTED => Self::NOT_SUPPORTED,
            _ => Self::EXEC_FAILED,
        }
    }
}

type Answer = Result<(), Failure>;

/// What works instead.
const REMEDY: &str = "of cuFFT, transforms by plans on one GPU are served; call a kernel of the program before and after the transform instead of \
    callbacks";

unserved! { UNSERVED Failure, REMEDY;
    cufftDescriptionCreate cufftDescriptionDestroy cufftDescriptionGetTraitInt64 cufftDescriptionSetTraitInt64 cufftDeviceCreate cufftDeviceDestroy
    cufftDeviceGetDatabaseStr cufftDeviceGetDatabaseStrSize cufftDeviceGetDeviceFunctionTraitInt64 cufftDeviceGetDeviceFunctions
    cufftDeviceGetLTOIRSizes cufftDeviceGetLTOIRs cufftDeviceGetNumDeviceFunctions cufftDeviceGetNumLTOIRs cufftDeviceGetSemanticVersion
    cufftDeviceGetVersion cufftDeviceIsSupported cufftDebug cufftXtClearCallback cufftXtExecDescriptor cufftXtExecDescriptorC2C
    cufftXtExecDescriptorC2R cufftXtExecDescriptorD2Z cufftXtExecDescriptorR2C cufftXtExecDescriptorZ2D cufftXtExecDescriptorZ2Z cufftXtFree
    cufftXtMakePlanGuru64 cufftXtMalloc cufftXtMemcpy cufftXtQueryPlan cufftXtSetCallback cufftXtSetCallbackSharedSize cufftXtSetGPUs
    cufftXtSetJITCallback cufftXtSetWorkArea
}
