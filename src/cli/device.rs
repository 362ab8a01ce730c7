//! `--device`: what runs kernels, and the GPU behind its name.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use ptx::arch::{PtxIsa, Target};

use super::error::CliError;
use crate::gpu::{Chain, Description, GpuDevice, Launcher};
use crate::moe::admission::Limits;
use crate::record::DeviceRow;
use crate::store::Store;
use crate::toolkit::Toolkit;

/// What runs kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum DeviceName {
    /// This crate, on the CPU.
    #[default]
    Emulator,
    /// A CUDA GPU, by its number.
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

/// Seconds that one launch may take where nothing is said.
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
    /// This GPU, with the limits of one that is named without any.
    pub(super) const fn of_gpu(number: usize) -> Self {
        Self { device: DeviceName::Gpu(number), launch_limit: LAUNCH_LIMIT }
    }

    /// The GPU, if one is asked for.
    pub(super) fn gpu(&self, program: &Path) -> Result<Option<GpuDevice>, CliError> {
        let DeviceName::Gpu(number) = self.device else { return Ok(None) };
        let launcher = Launcher {
            program: program.to_owned(),
            ordinal: number.to_string(),
            limit: Duration::from_secs(self.launch_limit),
        };
        let gpu = GpuDevice::open(launcher, Chain::default());
        Ok(Some(gpu.map_err(|failure| CliError::Device(format!("gpu:{number}"), failure))?))
    }
}

/// Code for this GPU by the toolkit, or by the driver where there is none.
pub(super) fn chain(toolkit: Option<&Toolkit>, store: Option<&Store>) -> Chain {
    Chain { toolkit: toolkit.cloned(), store: store.cloned() }
}

/// What code for a GPU is made for, and the PTX version that its assembler knows: the driver's where there is no ptxas.
pub(super) fn code_of(
    about: &Description,
    ptxas: Option<&Toolkit>,
    named: Option<&str>,
) -> Result<(Target, PtxIsa), CliError> {
    let target = match named {
        Some(name) => name.parse()?,
        None => about.target(),
    };
    if !target.cubin_runs_on(about.target()) {
        return Err(CliError::DeviceTarget(target.to_string(), about.architecture()));
    }
    let isa = match ptxas {
        Some(ptxas) => ptxas.isa,
        None => PtxIsa::of_cuda(&about.cuda).ok_or_else(|| CliError::NoPtxIsa(about.cuda.clone()))?,
    };
    Ok((target, isa))
}

/// What records say of a GPU.
pub(super) fn row(name: &str, about: &Description) -> DeviceRow {
    DeviceRow {
        device: name.to_owned(),
        name: about.name.clone(),
        architecture: about.architecture(),
        driver: about.driver.clone(),
        cuda: about.cuda.clone(),
        multiprocessors: about.multiprocessors,
        memory: about.memory,
        l2: about.l2,
        id: identity(about.ordinal),
    }
}

/// What tells this GPU from those of other machines: a digest from which the machine's identity cannot be had.
fn identity(ordinal: usize) -> String {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    match machine.trim() {
        "" => String::new(),
        machine => crate::store::sha256(format!("sm121probe device\0{machine}\0{ordinal}").as_bytes())[..16]
            .to_owned(),
    }
}

/// SM12x's limits, or this GPU's where it has less: a tile that SM12x cannot hold proves nothing elsewhere.
pub(super) fn limits(about: &Description) -> Limits {
    let least = |own: i32, other: u32| u32::try_from(own).map_or(other, |own| own.min(other));
    let of = Limits::SM12X;
    Limits {
        shared: least(about.shared_optin, of.shared),
        registers: least(about.registers, of.registers),
        threads: least(about.threads, of.threads),
    }
}
