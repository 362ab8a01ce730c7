//! What may be typed.

use std::path::PathBuf;
use std::time::Duration;

use super::assumptions::AssumptionsArgs;
use super::doctor::DoctorArgs;
use super::emulate::EmulateArgs;
use super::ops::OpsArgs;
use crate::gate::Shard;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

/// What SM12x GPUs and their toolchains really do, with evidence.
///
/// Without a verb: judge all snippets with the newest toolkit and 12.9 for the six SM12x targets, run the pipeline on the
/// emulator and, where there is a GPU, snippets and pipeline on it, and print the report.
#[derive(Debug, Parser)]
#[command(name = "sm121probe", version, args_conflicts_with_subcommands = true, after_help = EXIT_CODES)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) verb: Option<Verb>,
    #[command(flatten)]
    pub(super) job: JobArgs,
    #[command(flatten)]
    pub(super) gpu: super::on_gpu::GpuArgs,
    /// The report's form; for the terminal when left out.
    #[arg(long, value_name = "FORM")]
    pub(super) report: Option<ReportForm>,
    /// Write a part of the record for other tools, instead of a report.
    #[arg(long, value_name = "PART", conflicts_with = "report")]
    pub(super) export: Option<Export>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

const EXIT_CODES: &str = "Exit codes: 0 conforms, 1 internal error, 2 usage or unusable input file, 4 nothing selected, \
    100 does not conform (a trial, a batch verdict, an emulated kernel), 110 a claim stands otherwise than recorded, 111 not as in the baseline, 120 a toolkit is missing, 121 a device is missing.\n\
    The cache is SM121PROBE_CACHE, or sm121probe in the XDG cache folder.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Judge snippets and write the cells.
    Matrix(MatrixArgs),
    /// Show all that is known of one variant.
    Explain(ExplainArgs),
    /// List, install and remove toolkits.
    #[command(subcommand)]
    Toolkit(ToolkitVerb),
    /// Render a recorded run again.
    Report(ReportArgs),
    /// Put any PTX to toolkits and targets: what is refused, where, why, and what is accepted instead.
    Lint(super::lint::LintArgs),
    /// What changed between two records; ends with 111 where something is worse.
    Diff(super::diff::DiffArgs),
    /// Hold a run to its baseline and to what is expected of it.
    Gate(super::gate::GateArgs),
    /// Merge the records of many machines, or of the shards of one job; ends with 100 where they disagree.
    Merge(super::merge::MergeArgs),
    /// Run every recorded instruction in the emulator and compare the answers.
    Selftest(super::selftest::SelftestArgs),
    /// Start a file.
    #[command(subcommand)]
    New(NewVerb),
    /// Run a kernel of a PTX or CUDA C++ file on the CPU, by the documented meaning of PTX.
    Emulate(EmulateArgs),
    /// Run the MXFP4 fused-MoE pipeline, tile by tile, against its reference.
    Moe(super::moe::MoeArgs),
    /// Apply the pipeline's reference to tensors that any stack produced.
    Judge(super::judge::JudgeArgs),
    /// Show what every tile of the grouped GEMM needs, whether it may run, and what other projects offer for it.
    Tiles(super::tiles::TilesArgs),
    /// Compile kernels ahead.
    #[command(subcommand)]
    Kernels(super::kernels::KernelsVerb),
    /// Say where the time of a decode step goes (--profile), or time the pipeline on a GPU, tile by tile (--device).
    Bench(super::bench::BenchArgs),
    /// Run snippets on a device, rung by rung: loads, runs, correct, deterministic, in a graph.
    Run(super::run::RunArgs),
    /// What a GPU answers.
    #[command(subcommand)]
    Vectors(super::vectors::VectorsVerb),
    /// Show which instructions are emulated.
    Ops(OpsArgs),
    /// What this machine can run: every GPU, driver and toolkit, tried.
    Doctor(DoctorArgs),
    /// Which device code files, wheels and Python environments hold, and whether it runs on SM12x.
    Audit(super::audit::AuditArgs),
    /// Show what the emulator takes on trust, and run a snippet for each.
    Assumptions(AssumptionsArgs),
}

/// What is asked of whom.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct JobArgs {
    /// Judge the .ptx files below this folder instead of the built-in snippets.
    #[arg(long, value_name = "DIR")]
    pub(super) snippets: Option<PathBuf>,
    /// Toolkit: 13.5, 13.5.37, `all`, or the path of a ptxas. May be repeated.
    #[arg(long = "toolkit", short = 'k', value_name = "V")]
    pub(super) toolkits: Vec<String>,
    /// Target: sm_121a, 121a, or `all`. May be repeated.
    #[arg(long = "target", short = 't', value_name = "T")]
    pub(super) targets: Vec<String>,
    /// Variants, by glob over ids and <family>/<id> (`*`, `?`). May be repeated.
    #[arg(long = "filter", short = 'f', value_name = "GLOB")]
    pub(super) filters: Vec<String>,
    /// Never fetch anything.
    #[arg(long)]
    pub(super) offline: bool,
    /// Seconds that ptxas gets for one variant.
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub(super) time_limit: Duration,
    /// Parallel jobs; the number of cores when left out.
    #[arg(long, short = 'j', value_name = "N")]
    pub(super) jobs: Option<usize>,
    /// Print what the run cost, on standard error.
    #[arg(long)]
    pub(super) figures: bool,
    /// Do the Ith of N parts of the work, such as 2/8; `merge` makes one record of all parts.
    #[arg(long, value_name = "I/N")]
    pub(super) shard: Option<Shard>,
    /// Do not name opcodes: verdicts only.
    #[arg(long)]
    pub(super) no_sass: bool,
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|d| !d.is_zero())
        .ok_or_else(|| "must be above 0".to_owned())
}

/// Where the result goes.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct OutputArgs {
    /// Write to this file instead of standard output.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ReportForm {
    /// For the terminal.
    Text,
    /// Markdown, every variant.
    Md,
    /// The record itself.
    Json,
    /// One line per cell.
    Csv,
    /// JUnit XML: a suite for each family and each case.
    Junit,
}

/// Parts of a record for other tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Export {
    /// A JSON list of tiles that pass or fail on each device, for an autotuner.
    Tactics,
}

/// Arguments of `matrix`.
#[derive(Debug, Args)]
pub(super) struct MatrixArgs {
    #[command(flatten)]
    pub(super) job: JobArgs,
    /// The form of the cells.
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(super) format: ReportForm,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// One process per cell and no cache: the slow way that checks the fast one.
    #[arg(long)]
    pub(super) isolated: bool,
    /// Ask every cell both ways, compare, and print both costs.
    #[arg(long, conflicts_with = "isolated")]
    pub(super) verify: bool,
    /// With --verify: only every Nth variant.
    #[arg(long, value_name = "N", requires = "verify", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) sample: u32,
    /// Print the ids of the selected variants and ask nothing.
    #[arg(long)]
    pub(super) list: bool,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The variant's id, as `matrix --list` prints it.
    pub(super) variant: String,
    /// Read this record instead of asking the toolkits.
    #[arg(long, value_name = "RECORD")]
    pub(super) from: Option<PathBuf>,
    #[command(flatten)]
    pub(super) job: JobArgs,
}

/// Verbs of `toolkit`.
#[derive(Debug, Subcommand)]
pub(super) enum ToolkitVerb {
    /// Every ptxas this machine has, and who would use it.
    List,
    /// Fetch pinned releases through pip: 13.5, 12.9.41, nvrtc-13.0, cuobjdump, `latest`, `all`.
    Install {
        /// What to install.
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Remove what `install` fetched.
    Remove {
        /// What to remove.
        #[arg(required = true)]
        names: Vec<String>,
    },
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The record: what `--report json` wrote.
    #[arg(long, value_name = "RECORD")]
    pub(super) from: PathBuf,
    /// The report's form; for the terminal when left out, the record with --private.
    #[arg(long, value_name = "FORM")]
    pub(super) report: Option<ReportForm>,
    /// Leave out what names a machine or a person: folders, host, home and user, serials and UUIDs of GPUs.
    #[arg(long)]
    pub(super) private: bool,
    /// Write a part of the record for other tools, instead.
    #[arg(long, value_name = "PART", conflicts_with = "report")]
    pub(super) export: Option<Export>,
    /// With --report csv: which table; the cells when left out.
    #[arg(long, value_name = "TABLE", conflicts_with = "export")]
    pub(super) table: Option<Table>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Tables of a record that are written as CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Table {
    /// One line per cell of the matrix.
    Cells,
    /// One line per variant that a GPU ran, and rung.
    Runs,
    /// One line per trial of the pipeline, and stage.
    Trials,
    /// One line per kernel of each audited piece of device code, and device.
    Audit,
}

/// Verbs of `new`.
#[derive(Debug, Subcommand)]
pub(super) enum NewVerb {
    /// A snippet stub, which the loader refuses until it is filled in.
    Snippet {
        /// <family>/<stem>, such as mma/mma.mxf4.
        name: String,
        /// The folder of snippets.
        #[arg(long, value_name = "DIR", default_value = "ptx_snippets")]
        snippets: PathBuf,
    },
    /// A case, which the loader refuses until it says what it asks.
    Case {
        /// Its name.
        name: String,
        /// The folder of cases.
        #[arg(long, value_name = "DIR", default_value = "cases")]
        cases: PathBuf,
    },
}

/// The whole command, for documentation and tests.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}
