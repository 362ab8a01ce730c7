//! Options of commands that run trials: data, schedules, hardware, contraction and device; and what they resolve to.

use std::sync::{Arc, Mutex};

use clap::Args;
use ptx::arch::Target;

use super::contract::ContractArgs;
use super::device::DeviceArgs;
use super::error::CliError;
use super::model::ModelArgs;
use crate::frame::admission::Limits;
use crate::frame::readings::Asked;
use crate::frame::runner::Runner;
use crate::gpu::{Chain, GpuDevice};
use crate::job::{self, Context, JobError, Toolchain};
use crate::kernel::Library;
use crate::store::Store;
use crate::toolkit::{FpContract, Nvrtc};

/// How trials run.
#[derive(Debug, Args)]
pub(super) struct RunnerArgs {
    /// Seed of the data [default: the case's]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Number of schedules of warps and CTAs to run on the emulator; their results must be equal
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    schedules: u64,
    #[command(flatten)]
    hardware: ModelArgs,
    #[command(flatten)]
    contraction: ContractArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// What the options resolve to on this machine.
pub(super) struct Resolved {
    /// The targets of the kernels.
    pub(super) targets: Vec<Target>,
    /// The limits of the device.
    pub(super) limits: Limits,
    /// The ptxas; `None` if the machine has none.
    pub(super) toolchain: Option<Toolchain>,
    store: Option<Store>,
    nvrtc: Nvrtc,
    gpu: Option<GpuDevice>,
    chain: Chain,
}

impl RunnerArgs {
    /// Finds compilers and opens the device. If no target is named (`chosen`), a GPU's own is used instead.
    pub(super) fn resolved(
        &self,
        toolkit: Option<&str>,
        mut targets: Vec<Target>,
        chosen: bool,
        context: &Context<'_>,
    ) -> Result<Resolved, CliError> {
        let store = Store::open(None).ok();
        let gpu = self.device.gpu(context)?;
        if let Some(gpu) = &gpu {
            if chosen {
                targets = vec![gpu.about().target()];
            }
            if let Some(target) = targets.iter().find(|t| !t.cubin_runs_on(gpu.about().target())) {
                return Err(JobError::DeviceTarget(target.to_string(), gpu.about().architecture()).into());
            }
        }
        let limits = gpu.as_ref().map_or(Limits::SM12X, |gpu| job::limits(gpu.about()));
        let nvrtc = job::nvrtc(toolkit, store.as_ref(), context.sink)?;
        let toolchain = Toolchain::find(toolkit, &targets, store.as_ref(), context.sink)?;
        let chain = job::chain(toolchain.as_ref().map(|t| &t.toolkit), store.as_ref());
        Ok(Resolved { targets, limits, toolchain, store, nvrtc, gpu, chain })
    }

    /// Returns the runner of these options; it takes the GPU, if there is one.
    pub(super) fn runner<'a>(
        &self,
        resolved: &'a mut Resolved,
        kernels: &'a Library,
        context: &Context<'_>,
    ) -> Result<Runner<'a>, CliError> {
        let gpu = resolved.gpu.take().map(|gpu| gpu.with_chain(resolved.chain.clone()));
        let store = resolved.store.as_ref();
        let mut runner = Runner::new(kernels, &resolved.nvrtc, store, context.program.clone());
        if let Some(gpu) = gpu {
            runner = runner.on(Arc::new(Mutex::new(gpu)));
        }
        (runner.seed, runner.schedules) = (self.seed, self.schedules);
        runner.model = self.hardware.model;
        runner.contract = match self.contraction.given_contract() {
            Some(contract) => Some(Asked {
                contract,
                ptxas: match contract {
                    FpContract::AsPtxas => job::ptxas(None, store)?,
                    _ => None,
                },
            }),
            None => None,
        };
        Ok(runner)
    }
}
