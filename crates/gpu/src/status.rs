//! Classifies CUDA results for a worker: the fault of the kernel, the GPU or the caller.

use super::wire::Kind;

/// A driver call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {name}{}", if detail.is_empty() { String::new() } else { format!(" ({detail})") })]
pub(super) struct CudaError {
    /// The number of the result.
    pub(super) code: u32,
    /// The name of the result, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub(super) name: String,
    /// The driver call.
    pub(super) call: &'static str,
    /// Further details from the driver.
    pub(super) detail: String,
}

/// Results of driver calls (`CUresult` in cuda.h) by number, and what each means if a launch or a synchronization reports it.
const KNOWN: [(u32, Kind); 28] = [
    (1, Kind::Launch),     // INVALID_VALUE
    (2, Kind::Launch),     // OUT_OF_MEMORY
    (46, Kind::Absent),    // DEVICE_UNAVAILABLE: another process holds it in exclusive mode
    (100, Kind::Absent),   // NO_DEVICE
    (101, Kind::Absent),   // INVALID_DEVICE
    (200, Kind::Image),    // INVALID_IMAGE
    (209, Kind::Image),    // NO_BINARY_FOR_GPU
    (214, Kind::Lost),     // ECC_UNCORRECTABLE
    (218, Kind::Image),    // INVALID_PTX
    (220, Kind::Lost),     // NVLINK_UNCORRECTABLE
    (221, Kind::Image),    // JIT_COMPILER_NOT_FOUND
    (222, Kind::Image),    // UNSUPPORTED_PTX_VERSION
    (223, Kind::Image),    // JIT_COMPILATION_DISABLED
    (226, Kind::Lost),     // CONTAINED
    (500, Kind::Image),    // NOT_FOUND
    (700, Kind::Crashed),  // ILLEGAL_ADDRESS
    (701, Kind::Launch),   // LAUNCH_OUT_OF_RESOURCES
    (702, Kind::TimedOut), // LAUNCH_TIMEOUT
    (709, Kind::Crashed),  // CONTEXT_IS_DESTROYED
    (710, Kind::Crashed),  // ASSERT
    (714, Kind::Crashed),  // HARDWARE_STACK_ERROR
    (715, Kind::Crashed),  // ILLEGAL_INSTRUCTION
    (716, Kind::Crashed),  // MISALIGNED_ADDRESS
    (717, Kind::Crashed),  // INVALID_ADDRESS_SPACE
    (718, Kind::Crashed),  // INVALID_PC
    (719, Kind::Crashed),  // LAUNCH_FAILED
    (720, Kind::Launch),   // COOPERATIVE_LAUNCH_TOO_LARGE
    (801, Kind::Image),    // NOT_SUPPORTED
];

impl CudaError {
    /// Returns the kind of failure. An unknown result counts as a crash: the worker is replaced.
    pub(super) fn kind(&self) -> Kind {
        KNOWN.iter().find(|(code, _)| *code == self.code).map_or(Kind::Crashed, |(_, kind)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_mean_what_the_table_says() {
        let of = |code| CudaError { code, name: String::new(), call: "c", detail: String::new() }.kind();
        assert_eq!((of(700), of(214), of(222)), (Kind::Crashed, Kind::Lost, Kind::Image));
        assert_eq!(of(999), Kind::Crashed);
        assert!(KNOWN.is_sorted_by_key(|(code, _)| *code));
    }
}
