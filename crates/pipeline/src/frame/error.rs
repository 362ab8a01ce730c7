//! Why a trial does not run, and why it has no verdicts.

use emulator::device::Failure;

use crate::kernel::{ExpressionError, KernelError};
use toolchain::toolkit::{ContractionError, NvrtcError};

/// Why nothing ran.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A kernel is missing, or its header is wrong.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A kernel does not compile.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// A header's expression has no value.
    #[error("{file}: {source}")]
    Expression {
        /// The kernel's file.
        file: String,
        /// The problem.
        source: ExpressionError,
    },
    /// A header does not match its entry, or names something unknown.
    #[error("{file}: {message}")]
    Header {
        /// The kernel's file.
        file: String,
        /// The problem.
        message: String,
    },
    /// The device rejects the problem or a kernel.
    #[error("{file}: {failure}")]
    Device {
        /// The kernel's file.
        file: String,
        /// The failure.
        failure: Failure,
    },
    /// The device cannot hold the problem.
    #[error("the problem does not fit on the device: {0}")]
    Memory(#[from] Failure),
    /// The problem lacks an input.
    #[error("the problem has no `{0}`")]
    Input(&'static str),
}

/// Why a trial has no verdicts.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// It cannot begin.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Its data cannot be generated, or its results cannot be judged.
    #[error(transparent)]
    Data(Box<dyn std::error::Error + Send + Sync>),
    /// The contraction by ptxas is unknown.
    #[error(transparent)]
    Contraction(#[from] ContractionError),
    /// A kernel that decodes as written does not decode in another reading.
    #[error("kernel `{0}` cannot be decoded with another choice of contraction: {1}")]
    Reading(String, emulator::Stop),
}

impl From<KernelError> for TrialError {
    fn from(error: KernelError) -> Self {
        Self::Run(error.into())
    }
}
