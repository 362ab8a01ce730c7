//! Status codes; the driver and the runtime API share all but their names.

/// The result of an entry point; 0 is success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub i32);

/// The result of an entry point's body.
pub(crate) type Answer = Result<(), Status>;

macro_rules! codes {
    ($($constant:ident = $code:literal, $runtime:literal, $driver:literal, $text:literal;)*) => {
        impl Status {
            /// No error.
            pub const SUCCESS: Self = Self(0);
            $(#[doc = $text] pub const $constant: Self = Self($code);)*
        }

        /// Code, runtime name, driver name, description; each text ends in NUL.
        const CODES: &[(i32, &str, &str, &str)] = &[
            (0, "cudaSuccess\0", "CUDA_SUCCESS\0", "no error\0"),
            $(($code, concat!($runtime, "\0"), concat!($driver, "\0"), concat!($text, "\0")),)*
        ];
    };
}

codes! {
    INVALID_VALUE = 1, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument";
    OUT_OF_MEMORY = 2, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory";
    NOT_INITIALIZED = 3, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED", "initialization error";
    INVALID_CONFIGURATION = 9, "cudaErrorInvalidConfiguration", "cudaErrorInvalidConfiguration", "invalid configuration argument";
    INVALID_PITCH = 12, "cudaErrorInvalidPitchValue", "cudaErrorInvalidPitchValue", "invalid pitch argument";
    INVALID_SYMBOL = 13, "cudaErrorInvalidSymbol", "cudaErrorInvalidSymbol", "invalid device symbol";
    MISSING_CONFIGURATION = 52, "cudaErrorMissingConfiguration", "cudaErrorMissingConfiguration", "the launch has no configuration";
    INVALID_COPY_KIND = 21, "cudaErrorInvalidMemcpyDirection", "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy";
    INVALID_DEVICE_FUNCTION = 98, "cudaErrorInvalidDeviceFunction", "cudaErrorInvalidDeviceFunction", "invalid device function";
    NO_DEVICE = 100, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal";
    INVALID_IMAGE = 200, "cudaErrorInvalidKernelImage", "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid";
    INVALID_CONTEXT = 201, "cudaErrorDeviceUninitialized", "CUDA_ERROR_INVALID_CONTEXT", "invalid device context";
    NO_BINARY = 209, "cudaErrorNoKernelImageForDevice", "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device";
    UNSUPPORTED_LIMIT = 215, "cudaErrorUnsupportedLimit", "CUDA_ERROR_UNSUPPORTED_LIMIT", "limit is not supported on this architecture";
    PEER_ACCESS = 217, "cudaErrorPeerAccessUnsupported", "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices";
    INVALID_PTX = 218, "cudaErrorInvalidPtx", "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed";
    FILE_NOT_FOUND = 301, "cudaErrorFileNotFound", "CUDA_ERROR_FILE_NOT_FOUND", "file not found";
    INVALID_HANDLE = 400, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle";
    ILLEGAL_STATE = 401, "cudaErrorIllegalState", "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state";
    NOT_FOUND = 500, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found";
    NOT_READY = 600, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready";
    ILLEGAL_ADDRESS = 700, "cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered";
    OUT_OF_RESOURCES = 701, "cudaErrorLaunchOutOfResources", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch";
    TIMEOUT = 702, "cudaErrorLaunchTimeout", "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated";
    PEER_ALREADY_ENABLED = 704, "cudaErrorPeerAccessAlreadyEnabled", "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled";
    PEER_NOT_ENABLED = 705, "cudaErrorPeerAccessNotEnabled", "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled";
    CONTEXT_IS_DESTROYED = 709, "cudaErrorContextIsDestroyed", "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed";
    ASSERT = 710, "cudaErrorAssert", "CUDA_ERROR_ASSERT", "device-side assert triggered";
    ALREADY_REGISTERED = 712, "cudaErrorHostMemoryAlreadyRegistered", "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped";
    NOT_REGISTERED = 713, "cudaErrorHostMemoryNotRegistered", "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region";
    MISALIGNED = 716, "cudaErrorMisalignedAddress", "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address";
    ADDRESS_SPACE = 717, "cudaErrorInvalidAddressSpace", "CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space";
    LAUNCH_FAILED = 719, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "cudaErrorCooperativeLaunchTooLarge", "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch";
    NOT_SUPPORTED = 801, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported";
    CAPTURE_UNSUPPORTED = 900, "cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing";
    CAPTURE_INVALIDATED = 901, "cudaErrorStreamCaptureInvalidated", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture";
    CAPTURE_MERGE = 902, "cudaErrorStreamCaptureMerge", "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences";
    CAPTURE_UNMATCHED = 903, "cudaErrorStreamCaptureUnmatched", "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began";
    CAPTURE_UNJOINED = 904, "cudaErrorStreamCaptureUnjoined", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work";
    CAPTURE_ISOLATION = 905, "cudaErrorStreamCaptureIsolation", "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream";
    CAPTURE_IMPLICIT = 906, "cudaErrorStreamCaptureImplicit", "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907, "cudaErrorCapturedEvent", "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream";
    CAPTURE_WRONG_THREAD = 908, "cudaErrorStreamCaptureWrongThread", "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread";
    GRAPH_UPDATE = 910, "cudaErrorGraphExecUpdateFailure", "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    UNKNOWN = 999, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error";
}

impl Status {
    fn row(self) -> Option<&'static (i32, &'static str, &'static str, &'static str)> {
        CODES.iter().find(|(code, ..)| *code == self.0)
    }

    /// The status with which the driver says what the runtime has a code of its own for.
    pub(crate) const fn of_driver(self) -> Self {
        match self {
            Self::INVALID_CONFIGURATION | Self::INVALID_PITCH | Self::INVALID_COPY_KIND => {
                Self::INVALID_VALUE
            }
            Self::INVALID_SYMBOL => Self::NOT_FOUND,
            Self::INVALID_DEVICE_FUNCTION => Self::INVALID_HANDLE,
            other => other,
        }
    }

    /// Returns the runtime's name, terminated by NUL.
    #[must_use]
    pub fn runtime_name(self) -> &'static str {
        self.row().map_or("unrecognized error code\0", |row| row.1)
    }

    /// Returns the driver's name, terminated by NUL; `None` for a code the driver does not have.
    #[must_use]
    pub fn driver_name(self) -> Option<&'static str> {
        self.row().map(|row| row.2).filter(|name| name.starts_with("CUDA_"))
    }

    /// Returns the description, terminated by NUL.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        self.row().map_or("unrecognized error code\0", |row| row.3)
    }
}
