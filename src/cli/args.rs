//! The command line's arguments: commands and options.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use emulator::gpus::{GPUS, Gpu};

use super::assumptions::AssumptionsArgs;
use super::doctor::DoctorArgs;
use super::emulate::EmulateArgs;
use super::ops::OpsArgs;
use super::{format, locale};
use crate::gate::Shard;
use crate::job::Options;
use crate::report::Format;

/// Show, with evidence, what SM12x GPUs and their toolchains do, and whether kernels are correct.
#[derive(Debug, Parser)]
#[command(name = "sm121probe", version, args_conflicts_with_subcommands = true, after_help = EXIT_CODES)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) verb: Option<Verb>,
    #[command(flatten)]
    pub(super) job: JobArgs,
    #[command(flatten)]
    pub(super) gpu: super::on_gpu::GpuArgs,
    /// Format of the report: text, md, json, csv, junit or html [default: text]
    #[arg(long, visible_alias = "report", value_name = "FORM", hide_possible_values = true, value_parser = format::parser(format::OF_RECORD))]
    pub(super) format: Option<Format>,
    /// Write a part of the record for other tools: tactics
    #[arg(long, value_name = "PART", conflicts_with = "format", hide_possible_values = true)]
    pub(super) export: Option<Export>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

const BARE: &str = "\
Without a command, sm121probe assembles all snippets with the newest toolkit and 12.9 for the six SM12x
targets, runs the kernels of every family on the emulator, both on the GPU if there is one, and reports.";

const EXIT_CODES: &str = "\
Exit codes: 0 checked and conforms, 1 internal error, 2 usage or unusable input file, 4 incomplete:
nothing was checked, or less than was asked; 100 does not conform, 110 a claim differs from its
recorded status, 111 differs from the baseline, 120 a toolkit is missing, 121 a device is missing.
The cache is SM121PROBE_CACHE, or sm121probe in the XDG cache folder.";

/// The commands by purpose, as `--help` lists them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Machine and toolkits", &["doctor", "toolkit"]),
    ("Kernels and binaries", &["lint", "bisect", "fuzz", "audit", "emulate", "exec", "ops", "assumptions"]),
    ("Capability matrix", &["matrix", "explain", "run", "new"]),
    ("Families of kernels", &["trials", "moe", "attention", "judge", "tiles", "bench", "kernels"]),
    ("Records and CI", &["report", "predicates", "gate", "diff", "merge", "selftest", "vectors"]),
];

/// The verbs.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Show what this machine can run: every GPU, driver and toolkit, tested
    Doctor(DoctorArgs),
    /// List, install and remove toolkits
    #[command(subcommand)]
    Toolkit(ToolkitVerb),
    /// Check PTX against toolkits and targets: what is rejected, where, why, and what to write instead
    Lint(super::lint::LintArgs),
    /// Compare the machine code of a PTX file between toolkits and levels, and say what is wrong in it
    Bisect(super::bisect::BisectArgs),
    /// Run random kernels in all ways that must agree, and report where they differ
    #[command(subcommand)]
    Fuzz(super::fuzz::FuzzVerb),
    /// List GPU code in files, wheels and Python environments, and whether it runs on SM12x
    Audit(super::audit::AuditArgs),
    /// Run a PTX or CUDA C++ kernel on the CPU, according to the PTX ISA
    Emulate(EmulateArgs),
    /// Run a CUDA program on a simulated GPU, and check every launch against the rules of PTX
    Exec(super::exec::ExecArgs),
    /// List the emulated instructions
    Ops(OpsArgs),
    /// List the facts that the emulator takes on trust, and run a snippet for each
    Assumptions(AssumptionsArgs),
    /// Assemble snippets with every toolkit for every target, and write the cells
    Matrix(MatrixArgs),
    /// Show everything known about one variant
    Explain(ExplainArgs),
    /// Run snippets or kernels on a device with every check: loads, runs, correct, deterministic, in a graph
    Run(super::run::RunArgs),
    /// Create a snippet or case from a template
    #[command(subcommand)]
    New(NewVerb),
    /// Run the kernels of a family, on each of its configurations, against its reference
    Trials(super::trials::TrialsArgs),
    /// Run the fused-MoE pipeline, tile by tile, against its reference
    Moe(super::moe::MoeArgs),
    /// Run attention over paged caches against its reference
    Attention(super::attention::AttentionArgs),
    /// Judge tensors from any stack, of an MoE layer or of attention, against the reference
    Judge(super::judge::JudgeArgs),
    /// Show what each tile of the grouped GEMM needs, whether it may run, and what peers support
    Tiles(super::tiles::TilesArgs),
    /// Show where the time of a decode step goes (--profile), or time the pipeline on a GPU (--device)
    Bench(super::bench::BenchArgs),
    /// Compile the pipeline's kernels ahead of time
    #[command(subcommand)]
    Kernels(super::kernels::KernelsVerb),
    /// Render a record as a report
    Report(ReportArgs),
    /// Generate feature tests from the matrix: a C header, a Python or a Rust module
    Predicates(super::predicates::PredicatesArgs),
    /// Compare a run with its baseline, or check changed kernels
    Gate(super::gate::GateArgs),
    /// Compare two records; exits with 111 if something is worse
    Diff(super::diff::DiffArgs),
    /// Merge records of machines or shards; exits with 100 if they disagree
    Merge(super::merge::MergeArgs),
    /// Compare the emulator or a GPU with recorded answers of hardware
    Selftest(super::selftest::SelftestArgs),
    /// Record GPU results as test vectors
    #[command(subcommand)]
    Vectors(super::vectors::VectorsVerb),
}

/// Options that select toolkits, targets and variants.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct JobArgs {
    /// Use the .ptx files below DIR instead of the built-in snippets
    #[arg(long, value_name = "DIR")]
    pub(super) snippets: Option<PathBuf>,
    /// Toolkit: 13.5, 13.5.37, `all`, or the path of a ptxas (repeatable)
    #[arg(long = "toolkit", short = 'k', value_name = "V")]
    pub(super) toolkits: Vec<String>,
    /// Target: sm_121a, 121a, or `all` (repeatable)
    #[arg(long = "target", short = 't', value_name = "T")]
    pub(super) targets: Vec<String>,
    /// Variants whose id or <family>/<id> matches a glob (repeatable)
    #[arg(long = "filter", short = 'f', value_name = "GLOB")]
    pub(super) filters: Vec<String>,
    /// Never fetch anything.
    #[arg(long)]
    pub(super) offline: bool,
    /// Time limit of ptxas for one variant, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub(super) time_limit: Duration,
    /// Parallel jobs [default: number of cores]
    #[arg(long, short = 'j', value_name = "N")]
    pub(super) jobs: Option<usize>,
    /// Print the cost of the run on standard error
    #[arg(long)]
    pub(super) figures: bool,
    /// Run only shard I of N, such as 2/8; `merge` combines the records
    #[arg(long, value_name = "I/N")]
    pub(super) shard: Option<Shard>,
    /// Skip the disassembly: verdicts only
    #[arg(long)]
    pub(super) no_sass: bool,
}

impl JobArgs {
    /// The options of the job.
    pub(super) fn options(&self) -> Options {
        Options {
            snippets: self.snippets.clone(),
            toolkits: self.toolkits.clone(),
            targets: self.targets.clone(),
            filters: self.filters.clone(),
            only_assembles: false,
            offline: self.offline,
            time_limit: self.time_limit,
            jobs: self.jobs,
            shard: self.shard,
            no_sass: self.no_sass,
        }
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|d| !d.is_zero())
        .ok_or_else(|| "must be above 0".to_owned())
}

/// Parses the name of a GPU that is simulated.
pub(super) fn simulated(text: &str) -> Result<&'static Gpu, String> {
    Gpu::with_key(text).ok_or_else(|| {
        let keys: Vec<&str> = GPUS.iter().map(|gpu| gpu.key).collect();
        format!("not one of {}", keys.join(", "))
    })
}

/// Where the result goes.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct OutputArgs {
    /// Write to FILE instead of standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

/// Parts of a record for other tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Export {
    /// JSON list of the tiles that pass or fail on each device, for an autotuner
    Tactics,
}

/// Arguments of `matrix`.
#[derive(Debug, Args)]
pub(super) struct MatrixArgs {
    #[command(flatten)]
    pub(super) job: JobArgs,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(format::OF_RECORD))]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Run one ptxas process per cell, without cache (slow; a check of the default)
    #[arg(long)]
    pub(super) isolated: bool,
    /// Judge every cell in batches and in isolation, compare, and print both costs
    #[arg(long, conflicts_with = "isolated")]
    pub(super) verify: bool,
    /// With --verify: check only every Nth variant
    #[arg(long, value_name = "N", requires = "verify", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) sample: u32,
    /// Print the ids of the selected variants and stop
    #[arg(long)]
    pub(super) list: bool,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// Id of the variant, as `matrix --list` prints it; or an instruction, a message of ptxas, an opcode
    /// of machine code, a CUDA intrinsic or a CUTLASS atom, which are looked up
    #[arg(value_name = "VARIANT|QUERY", allow_hyphen_values = true)]
    pub(super) variant: String,
    /// Read RECORD instead of querying the toolkits
    #[arg(long, value_name = "RECORD")]
    pub(super) from: Option<PathBuf>,
    #[command(flatten)]
    pub(super) job: JobArgs,
}

/// Verbs of `toolkit`.
#[derive(Debug, Subcommand)]
pub(super) enum ToolkitVerb {
    /// List every ptxas of this machine and what uses it
    List,
    /// Fetch pinned releases with pip: 13.5, 12.9.41, nvrtc:13.0, cuobjdump, `latest`, `all`
    Install {
        /// What to install
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Remove installed releases
    Remove {
        /// What to remove
        #[arg(required = true)]
        names: Vec<String>,
    },
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Record, as written by `--format json`
    #[arg(long, value_name = "RECORD")]
    pub(super) from: PathBuf,
    /// Format of the report [default: text, with --private: json]
    #[arg(long, visible_alias = "report", value_name = "FORM", value_parser = format::parser(format::OF_RECORD))]
    pub(super) format: Option<Format>,
    /// Remove what identifies a machine or a person: folders, host, home and user, serial numbers and UUIDs of GPUs
    #[arg(long)]
    pub(super) private: bool,
    /// Write a part of the record for other tools instead
    #[arg(long, value_name = "PART", conflicts_with = "format")]
    pub(super) export: Option<Export>,
    /// With --format html: show these times, too, as `bench --format json` writes them (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with = "export")]
    pub(super) bench: Vec<PathBuf>,
    /// With --format csv: which table [default: cells]
    #[arg(long, value_name = "TABLE", conflicts_with = "export")]
    pub(super) table: Option<Table>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Tables of a record that are written as CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Table {
    /// One row per cell of the matrix
    Cells,
    /// One row per check of each variant that ran on a GPU
    Runs,
    /// One row per stage of each trial
    Trials,
    /// One row per device and kernel of each audited piece of GPU code
    Audit,
}

/// Verbs of `new`.
#[derive(Debug, Subcommand)]
pub(super) enum NewVerb {
    /// Create a snippet stub; the loader rejects it until it is filled in
    Snippet {
        /// <family>/<stem>, such as mma/mma.mxf4
        name: String,
        /// Folder of the snippets
        #[arg(long, value_name = "DIR", default_value = "ptx_snippets")]
        snippets: PathBuf,
    },
    /// Create a case stub; the loader rejects it until `about` is filled in
    Case {
        /// Name of the case
        name: String,
        /// Folder of the cases
        #[arg(long, value_name = "DIR", default_value = "cases")]
        cases: PathBuf,
    },
}

/// Returns the whole command, with its subcommands in groups.
#[must_use]
pub fn command() -> clap::Command {
    let command = Cli::command();
    let mut verbs = String::new();
    for (title, names) in GROUPS {
        _ = writeln!(verbs, "{title}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            _ = writeln!(verbs, "  {name:<12} {}", about.map(ToString::to_string).unwrap_or_default());
        }
        verbs.push('\n');
    }
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{BARE}\n\n{verbs}Options:\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

/// The word of `--format` or `--export`, of the command or of its verb; `None` for text by default.
fn format_of(matches: &clap::ArgMatches) -> Option<String> {
    let asked = |of: &clap::ArgMatches| {
        let typed = ["format", "export"].into_iter().find_map(|id| of.try_get_raw(id).ok().flatten());
        typed.and_then(|mut words| words.next()).map(|word| word.to_string_lossy().into_owned())
    };
    let verb = matches.subcommand().and_then(|(_, of)| asked(of));
    verb.or_else(|| asked(matches))
}

/// Parses the command line. The error is the help or the mistake to print.
pub(super) fn parse(typed: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = command();
    let mut matches = command.try_get_matches_from_mut(typed)?;
    locale::results_are(format_of(&matches).as_deref());
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_verb_once_and_fits_a_screen() {
        let mut command = command();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut sorted = listed.clone();
        sorted.sort_unstable();
        let mut verbs: Vec<&str> =
            command.get_subcommands().map(clap::Command::get_name).filter(|name| *name != "help").collect();
        assert_eq!(listed, verbs, "groups and verbs have the same order");
        verbs.sort_unstable();
        assert_eq!(sorted, verbs);
        let help = command.render_help().to_string();
        assert!(!help.contains("see more"), "{help}");
        assert!(help.lines().count() <= 70, "{help}");
    }
}
