//! The GPU that the command without a verb uses.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use emulator::device::Failure;
use miette::Diagnostic;

use super::device::{DeviceArgs, DeviceName};
use super::error::{CliError, CommandError};
use super::exit;
use crate::gpu::GpuDevice;
use crate::job::{Context, JobError};

/// The choice of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The first one, if any.
    Any,
    /// No GPU.
    No,
    /// The GPU of this number.
    Gpu(usize),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Any),
            "none" => Ok(Self::No),
            other => match other.parse() {
                Ok(DeviceName::Gpu(number)) => Ok(Self::Gpu(number)),
                _ => Err(format!("`{other}` is not a GPU; write auto, none, or gpu:0")),
            },
        }
    }
}

/// The GPU of the whole job.
#[derive(Debug, Clone, Args)]
pub(super) struct GpuArgs {
    /// GPU that runs it, too: auto (the first), none or gpu:0
    #[arg(long, value_name = "GPU", default_value = "auto")]
    device: Wanted,
    /// Time limit for starting trials on the GPU, in seconds
    #[arg(long, value_name = "S", default_value = "180")]
    gpu_time: u64,
}

impl GpuArgs {
    /// Whether a GPU was named, so that it must exist.
    pub(super) fn is_named(&self) -> bool {
        matches!(self.device, Wanted::Gpu(_))
    }

    /// The time within which trials may be started on it.
    pub(super) const fn time(&self) -> Duration {
        Duration::from_secs(self.gpu_time)
    }

    /// Opens the GPU, or returns the reason why there is none. It is an error if a named GPU is missing.
    pub(super) fn open(&self, context: &Context<'_>) -> Result<Result<GpuDevice, String>, CliError> {
        let number = match self.device {
            Wanted::No => return Ok(Err("no GPU: --device none".to_owned())),
            Wanted::Any => 0,
            Wanted::Gpu(number) => number,
        };
        match DeviceArgs::of_gpu(number).gpu(context) {
            Ok(Some(gpu)) => Ok(Ok(gpu)),
            Ok(None) => Err(OnGpuError::NoGpuNamed.into()),
            Err(CliError::Job(error)) if !self.is_named() => match error.0 {
                JobError::Device(_, failure) => Ok(Err(format!("no GPU: {failure}"))),
                error => Err(error.into()),
            },
            Err(error) => Err(error),
        }
    }
}

/// Why answers of a GPU are missing.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum OnGpuError {
    #[error("answers are recorded on a GPU: name it with --device gpu:0")]
    NoGpuNamed,
    #[error("{0}: {1}")]
    Answer(String, Failure),
}

impl CommandError for OnGpuError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoGpuNamed => exit::USAGE,
            Self::Answer(..) => exit::DOES_NOT_CONFORM,
        }
    }
}
