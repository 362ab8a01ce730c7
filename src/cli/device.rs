//! `--device`: the device that runs kernels.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::error::CliError;
use crate::gpu::GpuDevice;
use crate::job::{self, Context};

/// A device that runs kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum DeviceName {
    /// The emulator, on the CPU.
    #[default]
    Emulator,
    /// A CUDA GPU, by number.
    Gpu(usize),
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "emulator" {
            return Ok(Self::Emulator);
        }
        let number = text.strip_prefix("gpu:").and_then(|n| n.parse().ok());
        number.map(Self::Gpu).ok_or_else(|| format!("`{text}` is not a device; write emulator, or gpu:0"))
    }
}

/// The default time limit of one launch, in seconds.
const LAUNCH_LIMIT: u64 = 60;

/// Which device, and how long it may take.
#[derive(Debug, Clone, Args)]
pub(super) struct DeviceArgs {
    /// Device that runs the kernels: emulator, or gpu:0
    #[arg(long, value_name = "D", default_value = "emulator")]
    pub(super) device: DeviceName,
    /// Time limit of one launch on a GPU, in seconds; then its process is killed
    #[arg(long, value_name = "S", default_value_t = LAUNCH_LIMIT, value_parser = clap::value_parser!(u64).range(1..))]
    launch_limit: u64,
}

impl DeviceArgs {
    /// The GPU of this number, with default limits.
    pub(super) const fn of_gpu(number: usize) -> Self {
        Self { device: DeviceName::Gpu(number), launch_limit: LAUNCH_LIMIT }
    }

    /// Opens the GPU; `None` for the emulator.
    pub(super) fn gpu(&self, context: &Context<'_>) -> Result<Option<GpuDevice>, CliError> {
        let DeviceName::Gpu(number) = self.device else { return Ok(None) };
        Ok(Some(job::open(&context.program, number, Duration::from_secs(self.launch_limit))?))
    }
}
