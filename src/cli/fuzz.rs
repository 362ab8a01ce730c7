//! `fuzz ptx`: random kernels, judged by the emulator against itself, and by compilers and a GPU against the emulator.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use clap::{Args, Subcommand};
use compiler::fuzz::{Generator, GeneratorError, RandomKernel};
use miette::Diagnostic;
use ptx::arch::{PtxIsa, Target};

use super::args::{OutputArgs, seconds};
use super::device::DeviceName;
use super::error::{CliError, CommandError};
use super::exit;
use super::format::{Formats, parser};
use super::ops::ISA;
use super::output;
use crate::gpu::{Description, GpuDevice};
use crate::job::build::{self, Build, DRIVER};
use crate::job::campaign::{Ask, Campaign, CampaignError, Finding, Kernels, keep};
use crate::job::ptxas::Assembler;
use crate::job::{self, Context, JobError};
use crate::record::FuzzTable;
use crate::report::{self, Format, TOOL};
use crate::store::Store;
use crate::toolkit::{self, Discovery, Places};

/// Verbs of `fuzz`.
#[derive(Debug, Subcommand)]
pub(super) enum FuzzVerb {
    /// Run random PTX kernels on the emulator in several ways that must agree, let ptxas assemble them, and run the machine code on a GPU
    Ptx(FuzzArgs),
}

/// Arguments of `fuzz ptx`.
#[derive(Debug, Args)]
pub(super) struct FuzzArgs {
    /// Number of kernels
    #[arg(long, value_name = "N", default_value_t = 1000)]
    kernels: u64,
    /// Begin no kernels after this time, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<Duration>,
    /// Seed of the first kernel
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Instead of random kernels, run those again that the findings of a record show: what --record wrote, with the same target
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["kernels", "seed"])]
    again: Option<PathBuf>,
    /// Target of the kernels [default: the GPU's, or sm_121a]
    #[arg(long, short = 't', value_name = "T")]
    target: Option<Target>,
    /// Version of PTX [default: the newest that every --toolkit has]
    #[arg(long, value_name = "V")]
    isa: Option<PtxIsa>,
    /// Run the machine code on this GPU and compare the results with the emulator's: gpu:0
    #[arg(long, value_name = "D", default_value = "emulator")]
    device: DeviceName,
    /// With --device: time limit of a launch, in seconds; then its process is killed
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    launch_limit: Duration,
    /// Let this compiler assemble every kernel, too: 13.5, 13.5.37, `all`, a path, or with --device `driver` (repeatable) [default: none;
    /// with --device all, and on a simulated GPU driver]
    #[arg(long = "toolkit", short = 'k', value_name = "V")]
    toolkits: Vec<String>,
    /// A level of optimization of ptxas, 0 to 3 (repeatable)
    #[arg(long = "level", short = 'O', value_name = "N", default_value = "3", value_parser = clap::value_parser!(u8).range(0..=3))]
    levels: Vec<u8>,
    /// Make at most N kernels that nothing explains smaller
    #[arg(long, value_name = "N", default_value_t = 100)]
    shrink: usize,
    /// Time for making kernels smaller once all have run, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    shrink_limit: Duration,
    /// Write each finding to a folder of DIR: kernel, inputs, expected results and those of the GPU, for `emulate` and `bisect`
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Write the counts and the findings as JSON to FILE, too
    #[arg(long, value_name = "FILE.json")]
    record: Option<PathBuf>,
    /// Time limit of one run of ptxas, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    time_limit: Duration,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

const FORMATS: &Formats = &[
    (Format::Text, "Findings with their kernels, and counts"),
    (Format::Md, "Counts by compiler and level, as Markdown"),
    (Format::Json, "Counts and findings"),
];

/// Runs `fuzz`.
pub(super) fn fuzz(verb: &FuzzVerb, context: &Context<'_>) -> Result<(), CliError> {
    let FuzzVerb::Ptx(args) = verb;
    let gpu = match args.device {
        DeviceName::Gpu(number) => Some(job::open(&context.program, number, args.launch_limit)?),
        DeviceName::Emulator => None,
    };
    let again = args.again.as_deref().map(recorded).transpose()?;
    let named = args.target.or(again.as_ref().and_then(|table| table.target.known().copied()));
    let target = target(named, gpu.as_ref().map(GpuDevice::about))?;
    let builds = builds(&args.toolkits, &args.levels, gpu.as_ref().map(GpuDevice::about))?;
    let isa = isa(args.isa, &builds)?;
    let assembler = Assembler::new(args.time_limit).map_err(FuzzError::Scratch)?;
    let mut generator = Generator::new(isa, target).map_err(FuzzError::Generator)?;
    let row = gpu.as_ref().map(|gpu| job::row(&emulator::device::Device::name(gpu), gpu.about()));
    let (seed, kernels) = match again {
        None => (args.seed, Kernels::Random { seed: args.seed, count: args.kernels }),
        Some(table) => (table.seed, Kernels::Given(kernels_of(table))),
    };
    let mut table = FuzzTable::new(TOOL.to_owned(), row, target, isa, seed);
    let device = gpu.map(Mutex::new);
    let mut campaign = Campaign {
        assembler: &assembler,
        target,
        builds,
        device: device.as_ref(),
        shrink_limit: args.shrink_limit,
        disassembler: super::sass::disassembler().ok(),
    };
    let ask = Ask { kernels, time: args.time, shrinks: args.shrink };
    let findings = campaign.fuzz(&mut generator, &ask, &mut table, context.sink);
    let findings = findings.map_err(|error| failed(error, args.device))?;
    deliver(args, &table, &findings, &campaign.builds)
}

/// The table of an earlier run.
fn recorded(file: &Path) -> Result<FuzzTable, FuzzError> {
    let text = std::fs::read_to_string(file).map_err(|source| FuzzError::Again(file.to_owned(), source))?;
    let table: FuzzTable =
        serde_json::from_str(&text).map_err(|error| FuzzError::Record(file.to_owned(), error))?;
    if table.findings.is_empty() {
        return Err(FuzzError::NoFindings(file.to_owned()));
    }
    Ok(table)
}

/// The kernels of a record's findings, each once.
fn kernels_of(table: FuzzTable) -> Vec<RandomKernel> {
    let mut kernels: Vec<RandomKernel> = Vec::new();
    for finding in table.findings {
        let kernel = RandomKernel { seed: finding.seed, text: finding.kernel };
        if !kernels.iter().any(|other| other.seed == kernel.seed && other.text == kernel.text) {
            kernels.push(kernel);
        }
    }
    kernels
}

/// The error of a campaign; a lost GPU is that of every command.
pub(super) fn failed(error: CampaignError, device: DeviceName) -> CliError {
    match (error, device) {
        (CampaignError::Device(failure), DeviceName::Gpu(number)) => {
            JobError::Device(format!("gpu:{number}"), failure).into()
        }
        (error, _) => FuzzError::Campaign(error).into(),
    }
}

/// The target of machine code: the named one if the GPU runs it, the GPU's own, or that of a GB10.
fn target(named: Option<Target>, gpu: Option<&Description>) -> Result<Target, CliError> {
    match (named, gpu) {
        (Some(target), Some(gpu)) if !target.cubin_runs_on(gpu.target()) => {
            Err(JobError::DeviceTarget(target.to_string(), gpu.architecture()).into())
        }
        (Some(target), _) => Ok(target),
        (None, Some(gpu)) => Ok(gpu.target()),
        (None, None) => Ok("sm_121a".parse().map_err(JobError::from)?),
    }
}

/// The compilers of toolkits by name at levels. Without names: none, or with a GPU those of the machine; a simulated GPU runs PTX only.
pub(super) fn builds(
    names: &[String],
    levels: &[u8],
    gpu: Option<&Description>,
) -> Result<Vec<Build>, CliError> {
    let names = match gpu {
        Some(gpu) if names.is_empty() && gpu.is_simulated() => vec![DRIVER.to_owned()],
        Some(_) if names.is_empty() => vec!["all".to_owned()],
        _ => names.to_vec(),
    };
    if gpu.is_none() && names.iter().any(|name| name == DRIVER) {
        return Err(FuzzError::DriverAlone.into());
    }
    let discovery = discovery(&names);
    Ok(build::select(&names, levels, gpu.map(|gpu| gpu.cuda.as_str()), &discovery)?)
}

/// The toolkits of the machine, and those that are named by their path.
pub(super) fn discovery(names: &[String]) -> Discovery {
    let store = Store::open(None).ok();
    let mut places = Places::from_environment(store.as_ref().map(Store::root));
    places.add_named(names);
    toolkit::discover(store.as_ref(), &places)
}

/// The version of PTX: the named one, or the newest that every compiler reads.
fn isa(named: Option<PtxIsa>, builds: &[Build]) -> Result<PtxIsa, FuzzError> {
    let newest = ISA.parse().map_err(|_| FuzzError::Isa)?;
    let of = |build: &Build| match build {
        Build::Ptxas(toolkit, _) => Some(toolkit.isa),
        Build::Driver(cuda) => PtxIsa::of_cuda(cuda),
    };
    Ok(named
        .or_else(|| builds.iter().filter_map(of).min())
        .map_or(newest, |isa| if named.is_some() { isa } else { isa.min(newest) }))
}

/// Writes the findings, and what was reached.
fn deliver(
    args: &FuzzArgs,
    table: &FuzzTable,
    findings: &[Finding],
    builds: &[Build],
) -> Result<(), CliError> {
    let mut out = String::new();
    for finding in findings {
        let by = build::in_words(finding.builds.iter().map(|n| &builds[*n]));
        let by = if by.is_empty() { by } else { format!("{by}: ") };
        _ = writeln!(out, "seed {}: {by}{}", finding.seed, finding.what);
        if !finding.builds.is_empty() && finding.builds.len() < builds.len() {
            let others = (0..builds.len()).filter(|n| !finding.builds.contains(n));
            _ = writeln!(out, "  not with {}", build::in_words(others.map(|n| &builds[n])));
        }
        match &args.keep {
            Some(folder) => {
                let path = keep(folder, finding, builds).map_err(CliError::Output)?;
                _ = writeln!(out, "  {}", path.display());
            }
            None => finding.kernel.lines().for_each(|line| _ = writeln!(out, "    {line}")),
        }
    }
    let json = || serde_json::to_string_pretty(table).map(|text| text + "\n");
    if let Some(file) = &args.record {
        let text = json().map_err(|e| CliError::Output(e.into()))?;
        crate::record::write_atomic(file, text.as_bytes()).map_err(CliError::Output)?;
    }
    let text = match args.format {
        Format::Json => json().map_err(|e| CliError::Output(e.into()))?,
        Format::Md => report::fuzz_md(table),
        _ => out + &report::fuzz_text(table),
    };
    output::write(&text, &args.output)?;
    let compares = args.device != DeviceName::Emulator;
    match (table.kernels, findings.len()) {
        (_, n) if n > 0 => Err(FuzzError::Found(n).into()),
        (0, _) => Err(FuzzError::Nothing.into()),
        _ if compares && table.compared() == 0 => Err(FuzzError::NotCompared.into()),
        _ => Ok(()),
    }
}

/// Why `fuzz` does not exit with 0.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum FuzzError {
    #[error(transparent)]
    #[diagnostic(help("name a newer version with --isa, or another --target"))]
    Generator(GeneratorError),
    #[error("the newest version of PTX cannot be read; please report it")]
    Isa,
    #[error("no files for ptxas can be written: {0}")]
    Scratch(std::io::Error),
    #[error(transparent)]
    Campaign(CampaignError),
    #[error("--toolkit driver needs a GPU")]
    #[diagnostic(help("name it with --device gpu:0"))]
    DriverAlone,
    #[error("{}: the record cannot be read: {}", .0.display(), .1)]
    Again(PathBuf, #[source] std::io::Error),
    #[error("{}: {}", .0.display(), .1)]
    #[diagnostic(help("--again takes what `fuzz ptx --record FILE.json` wrote"))]
    Record(PathBuf, #[source] serde_json::Error),
    #[error("{}: the record has no findings, and so no kernels to run again", .0.display())]
    NoFindings(PathBuf),
    #[error("no kernel ran: --kernels and --time must allow at least one")]
    Nothing,
    #[error("nothing was compared: no compiler's machine code ran on the GPU")]
    #[diagnostic(help(
        "the lines above say why each was left out; name others with --toolkit, or an older PTX with --isa"
    ))]
    NotCompared,
    #[error("findings: {0}")]
    #[diagnostic(help(
        "a difference of the emulator from itself is a defect of sm121probe: please report it; a difference of machine code that nothing known explains is one of the compiler or of the emulator"
    ))]
    Found(usize),
}

impl CommandError for FuzzError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Generator(_) | Self::Scratch(_) | Self::Campaign(_) | Self::DriverAlone => exit::USAGE,
            Self::Isa => exit::INTERNAL,
            Self::Again(..) | Self::Record(..) => exit::USAGE,
            Self::Nothing | Self::NotCompared | Self::NoFindings(_) => exit::INCOMPLETE,
            Self::Found(_) => exit::DOES_NOT_CONFORM,
        }
    }
}
