//! `bench --device`: measures every stage on a GPU, tile by tile.

use std::path::Path;

use clap::{Args, ValueEnum};
use emulator::device::Device as _;
use miette::Diagnostic;

use super::device::{DeviceArgs, DeviceName};
use super::error::{CliError, CommandError};
use super::exit;
use super::ways::{KernelArgs, WayArgs};
use crate::attention::{self, timing::Step};
use crate::bench::{self, Bench, Decodes, Effort};
use crate::frame::compile::Compiler;
use crate::frame::family::Family as _;
use crate::job::{self, Context, JobError, Toolchain};
use crate::kernel::{Load, MmaPath};
use crate::moe::case::{self, Case, Routing};
use crate::moe::configuration::{TILE_M, Tile};
use crate::moe::family::MOE;
use crate::moe::plan;
use crate::record::{BenchTable, SCHEMA};
use crate::store::Store;
use crate::toolkit::{self, Environment};

/// Log2 of the largest default number of tokens of a batch: 1, 2, 4 … 2048.
const MOST_TOKENS: u32 = 11;
/// N and K of the tiles that are timed by default.
const TILE: ([u32; 2], u32) = ([64, 128], 128);
/// Bytes that are read to measure the bandwidth: many times the size of any cache.
const READ: usize = 1 << 30;
/// Rounds of the product that measures the tensor cores: a few milliseconds.
const ROUNDS: u32 = 20_000;
/// Requests of the batches of decode steps.
const BATCHES: [usize; 3] = [1, 8, 32];
/// CTAs of 256 threads per multiprocessor that are enough to hide the latency of memory.
const CTAS: u32 = 8;

/// How the tokens of a batch choose experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// Random logits
    Random,
    /// Round-robin, so that every expert gets as few tokens as possible
    Balanced,
}

/// What is timed.
#[derive(Debug, Args)]
pub(super) struct TimingArgs {
    /// GPU, as gpu:0
    #[arg(long, value_name = "GPU", required_unless_present_any = ["profile", "from"], conflicts_with = "profile")]
    device: Option<DeviceName>,
    /// Use the dimensions of this model
    #[arg(long, value_name = "M", default_value = "gpt-oss-120b", conflicts_with = "case")]
    model: String,
    /// Use the dimensions and settings of this case instead
    #[arg(long, value_name = "C")]
    case: Option<String>,
    #[command(flatten)]
    ways: WayArgs,
    #[command(flatten)]
    kernels: KernelArgs,
    /// Tokens of the batches, as 1,16,256 [default: powers of two up to 2048]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65536))]
    tokens: Vec<u32>,
    /// How tokens choose experts
    #[arg(long, value_name = "ROUTING", default_value = "random")]
    routing: Choice,
    /// Keys of each request of the decode steps of attention; 0 leaves these out
    #[arg(long, value_name = "N", default_value = "32768", value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    keys: u32,
    /// Number of timed rounds; the median is reported
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=10000))]
    samples: u32,
    /// Number of warm-up rounds
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(..=10000))]
    warm_up: u32,
    /// Toolkit of NVRTC and ptxas: 13.5 or 13.5.37 [default: the newest]
    #[arg(long, short = 'k', value_name = "V")]
    toolkit: Option<String>,
}

impl TimingArgs {
    fn case(&self) -> Result<Case, CliError> {
        Ok(match &self.case {
            Some(name) => case::find(name)?,
            None => case::of_model(&self.model)?,
        })
    }

    fn tokens(&self) -> Vec<usize> {
        if self.tokens.is_empty() {
            return (0..=MOST_TOKENS).map(|n| 1 << n).collect();
        }
        let mut tokens: Vec<usize> = self.tokens.iter().map(|n| *n as usize).collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    /// Plans the named tiles and loads; by default each M with two N and one K, copied and by TMA.
    fn plan(&self, case: &Case) -> Vec<plan::Trial> {
        let (channels, k) = TILE;
        let tiles: Vec<Tile> = if self.ways.tiles.is_empty() {
            let of = |n| TILE_M.into_iter().map(move |m| Tile { m, n, k });
            channels.into_iter().flat_map(of).collect()
        } else {
            self.ways.tiles.clone()
        };
        let mut loads = self.ways.loads();
        if !self.ways.names_load() {
            loads.retain(|load| *load != Load::TmaReplace);
        }
        let mut trials = plan::trials(case, &tiles, &loads, &self.ways.paths());
        trials.retain(|t| t.path != MmaPath::Gemv || t.config.is_ok());
        trials
    }

    /// The decode steps that fit into half of the memory of a GPU.
    fn decode_steps(&self, memory: u64, multiprocessors: usize) -> Vec<Step> {
        let of = |batch| attention::timing::steps(batch, self.keys as usize, multiprocessors);
        let batches = BATCHES.iter().filter(|_| self.keys > 0);
        batches.flat_map(|batch| of(*batch)).filter(|step| step.bytes() <= memory / 2).collect()
    }

    /// Opens the GPU and measures the times.
    pub(super) fn time(&self, context: &Context<'_>) -> Result<BenchTable, CliError> {
        let Some(DeviceName::Gpu(number)) = self.device else { return Err(TimesError::NoClock.into()) };
        let case = self.case()?;
        let tokens = self.tokens();
        let gpu = DeviceArgs::of_gpu(number).gpu(context)?.ok_or(TimesError::NoClock)?;
        let about = gpu.about().clone();
        let store = Store::open(None).ok();
        let target = about.target();
        let found = toolkit::nvrtcs(store.as_ref(), &Environment::of_process());
        let nvrtc = toolkit::select_nvrtc(&found, self.toolkit.as_deref())?;
        let toolchain = Toolchain::find(self.toolkit.as_deref(), &[target], store.as_ref(), context.sink)?;
        let ptxas = toolchain.as_ref().map(|t| &t.toolkit);
        let (_, isa) = job::code_of(&about, ptxas, None)?;
        let mut gpu = gpu.with_chain(job::chain(ptxas, store.as_ref()));
        let kernels = self.kernels.library()?;
        let limits = job::limits(&about);
        let chain = toolchain.as_ref().map(|t| t.for_target(target));
        let planned = self.plan(&case).into_iter();
        let trials: Vec<plan::Trial> =
            planned.map(|t| t.admitted_on(&kernels, chain, limits)).collect::<Result<_, _>>()?;
        if trials.iter().all(|t| t.config.is_err()) {
            return Err(JobError::NothingRan.into());
        }
        let compiler = Compiler { nvrtc, store: store.as_ref(), program: context.program.clone(), target };
        let asked = Bench {
            case: &case,
            tokens: &tokens,
            routing: match self.routing {
                Choice::Random => Routing::Random,
                Choice::Balanced => Routing::Balanced,
            },
            trials: &trials,
            library: &kernels,
            compiler: &compiler,
            code: (isa, target),
            flush: 2 * usize::try_from(about.l2).unwrap_or(0),
            effort: Effort {
                bytes: READ,
                rounds: ROUNDS,
                ctas: CTAS * u32::try_from(about.multiprocessors).unwrap_or(1).max(1),
                warm_up: self.warm_up as usize,
                samples: self.samples as usize,
            },
        };
        let measured = asked.on(&mut gpu)?;
        let steps = self.decode_steps(about.memory, usize::try_from(about.multiprocessors).unwrap_or(1));
        let decodes = Decodes {
            steps: &steps,
            library: &kernels,
            compiler: &compiler,
            code: asked.code,
            flush: asked.flush,
            effort: asked.effort,
        };
        let decodes = decodes.on(&mut gpu, measured.bandwidth)?;
        Ok(BenchTable {
            schema: SCHEMA,
            family: MOE.name().to_owned(),
            tool: format!("sm121probe {}", env!("CARGO_PKG_VERSION")),
            device: job::row(&gpu.name(), &about),
            target: target.into(),
            code: gpu.chain().code_by(),
            dimensions: self.case.clone().unwrap_or_else(|| self.model.clone()),
            sizes: [case.hidden, case.inter, case.experts, case.top_k],
            routing: asked.routing.word().to_owned(),
            warm_up: asked.effort.warm_up,
            samples: asked.effort.samples,
            flushed: measured.flushed as u64,
            bandwidth: measured.bandwidth,
            rates: measured.rates,
            regrets: bench::regrets(&measured.rows, &measured.counts, case.top_k + case.shared_experts),
            rows: measured.rows,
            decodes,
        })
    }
}

/// Reads a table that `bench --format json` wrote.
pub(super) fn read(path: &Path) -> Result<BenchTable, CliError> {
    let wrong = |why: String| TimesError::BenchTable(path.display().to_string(), why);
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Ok(BenchTable::parse(&text).map_err(|error| wrong(error.to_string()))?)
}

/// Why there are no times to show.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum TimesError {
    #[error("times are measured on a GPU: name it with --device gpu:0")]
    NoClock,
    #[error("a profile has no plot: --format svg is for times, with --device")]
    NoPlot,
    #[error("{0} was not written by `bench --format json`: {1}")]
    BenchTable(String, String),
}

impl CommandError for TimesError {
    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}
