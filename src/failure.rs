//! What a launch that did not finish is called in the record.

use emulator::device::Failure;

use crate::record::Verdict;

/// The verdict on a launch that failed so. A launch that the device refuses counts against the kernel, which asks for more than
/// the device has; `Broken` is a fault of the device's software or of this tool.
#[must_use]
pub const fn verdict(failure: &Failure) -> Verdict {
    match failure {
        Failure::Trap { .. } | Failure::Launch(_) => Verdict::Fail,
        Failure::Unsupported(_) => Verdict::Unsupported,
        Failure::Broken(_) => Verdict::Broken,
        Failure::TimedOut(_) => Verdict::TimedOut,
        Failure::Crashed(_) => Verdict::Crashed,
        Failure::DeviceLost(_) => Verdict::DeviceLost,
    }
}
