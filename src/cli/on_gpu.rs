//! What the whole job asks of a GPU: snippets and the pipeline's default set, check by check, within a bound of time.

use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use emulator::device::Device as _;
use numerics::random;

use super::device::{self, DeviceArgs, DeviceName};
use super::error::CliError;
use super::run::{self, Question};
use super::toolchain::Toolchain;
use super::trials;
use crate::case::{self, Case};
use crate::gpu::GpuDevice;
use crate::kernel::Library;
use crate::moe::plan::{self, Trial};
use crate::moe::runner::Runner;
use crate::record::{PIPELINE, Record, SkippedRow, TrialRow};
use crate::snippet;
use crate::store::Store;
use crate::toolkit::{self, Nvrtc};

/// Decides the inputs of snippets.
const SEED: u64 = 1;

/// Which GPU the whole job uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The first, where there is one.
    Any,
    /// None.
    No,
    /// This one.
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
    /// GPU that runs snippets and pipeline, too: auto (the first, if any), none, or gpu:0
    #[arg(long, value_name = "GPU", default_value = "auto")]
    device: Wanted,
    /// Time limit for starting trials on the GPU, in seconds
    #[arg(long, value_name = "S", default_value = "180")]
    gpu_time: u64,
}

impl GpuArgs {
    /// Whether a GPU is named: then it must be there.
    pub(super) fn is_named(&self) -> bool {
        matches!(self.device, Wanted::Gpu(_))
    }

    /// The GPU, or the reason why there is none; a GPU that is named must be there.
    pub(super) fn open(&self) -> Result<Result<GpuDevice, String>, CliError> {
        let number = match self.device {
            Wanted::No => return Ok(Err("no GPU: --device none".to_owned())),
            Wanted::Any => 0,
            Wanted::Gpu(number) => number,
        };
        let program = std::env::current_exe().map_err(toolkit::NvrtcError::Worker)?;
        match DeviceArgs::of_gpu(number).gpu(&program) {
            Ok(Some(gpu)) => Ok(Ok(gpu)),
            Ok(None) => Err(CliError::NoGpuNamed),
            Err(CliError::Device(_, failure)) if !self.is_named() => Ok(Err(format!("no GPU: {failure}"))),
            Err(error) => Err(error),
        }
    }

    /// Runs the variants that say how, into `record`.
    pub(super) fn snippets(
        &self,
        gpu: GpuDevice,
        variants: &[&snippet::Variant],
        record: &mut Record,
    ) -> Result<GpuDevice, CliError> {
        let question = Question { target: None, toolkit: None, seed: SEED };
        record.devices.push(device::row(&gpu.name(), gpu.about()));
        let (runs, gpu) = run::on_gpu(variants, gpu, &question)?;
        record.runs.extend(runs);
        Ok(gpu)
    }

    /// Runs the pipeline's default set, as far as the toolchain and the GPU admit it, into `record`. Cases with tiles of their own
    /// come first, the sweep over all tiles after them in an order that leaves an even sample where time ends it.
    pub(super) fn pipeline(
        &self,
        gpu: GpuDevice,
        nvrtc: &Nvrtc,
        store: Option<&Store>,
        record: &mut Record,
    ) -> Result<(), CliError> {
        let began = Instant::now();
        let target = gpu.about().target();
        let limits = device::limits(gpu.about());
        let name = gpu.name();
        let kernels = Library::embedded()?;
        let toolchain = Toolchain::find(None, &[target], store)?;
        let library = case::library();
        let cases: Vec<&Case> = library.cases.iter().collect();
        let program = std::env::current_exe().map_err(toolkit::NvrtcError::Worker)?;
        let code = device::chain(toolchain.as_ref().map(|t| &t.toolkit), store);
        let gpu = Arc::new(Mutex::new(gpu.with_chain(code)));
        let runner = Runner::new(&kernels, nvrtc, store, program).on(gpu);
        let ask = |asked: Vec<Trial<'_>>, deadline| -> Result<Vec<TrialRow>, CliError> {
            let (asked, chain) = ([(target, asked)], toolchain.as_ref());
            Ok(trials::run(&runner, &asked, chain, limits, |_| true, deadline)?.rows)
        };
        let all = trials::admitted(&plan::default_set(&cases), &kernels, toolchain.as_ref(), target, limits)?;
        let (free, blocked): (Vec<_>, Vec<_>) = all.into_iter().partition(|t| t.config.is_ok());
        let mut order: Vec<((bool, u64), Trial<'_>)> = Vec::new();
        for (n, trial) in free.into_iter().enumerate() {
            let (n, swept) = (n as u64, plan::is_swept(&trial.case));
            order.push(((swept, if swept { random::mix(n) } else { n }), trial));
        }
        order.sort_by_key(|(place, _)| *place);
        let free: Vec<Trial<'_>> = order.into_iter().map(|(_, trial)| trial).collect();
        let wanted = free.len();
        let rows = ask(free, Some(began + Duration::from_secs(self.gpu_time)))?;
        let begun = rows.len();
        record.pipeline.extend(rows);
        record.pipeline.extend(ask(blocked, None)?);
        if begun < wanted {
            let reason = format!(
                "{} of {wanted} trials did not start within {} s; raise --gpu-time, or run `sm121probe moe --device \
                {name}` for all",
                wanted - begun,
                self.gpu_time
            );
            record.skipped.push(SkippedRow { part: format!("the rest of the {PIPELINE} on {name}"), reason });
        }
        Ok(())
    }
}
