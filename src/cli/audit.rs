//! `audit`: what device code files hold, and what becomes of it on a device.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use devcode::{Found, Limits};
use ptx::arch::{PtxIsa, Target};

use super::args::OutputArgs;
use super::error::CliError;
use super::format::{self, Formats};
use super::output;
use super::progress::Progress;
use crate::audit::{self, Collector, Device, Installed, Naming, Which};
use crate::doctor;
use crate::event::{Event, Sink};
use crate::gate::Glob;
use crate::gpu::{Chain, Description, GpuDevice, Launcher};
use crate::record::{AuditTable, AuditVerdict, Matrix, Record};
use crate::report::{self, Format};
use crate::store::Store;
use crate::toolkit::{self, Environment, NvrtcError, Places};

/// Asked about where nothing is said.
const DEFAULT: [u16; 2] = [120, 121];

/// How long a GPU may take to say what it is.
const LIMIT: Duration = Duration::from_secs(20);

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// Libraries, executables, objects, archives, cubins, fatbins, PTX, wheels, folders, Python environments
    #[arg(value_name = "PATH", required_unless_present_any = ["python", "env", "jit_caches"])]
    paths: Vec<PathBuf>,
    /// Device, such as sm_121 (repeatable) [default: sm_120, sm_121 and the GPUs of this machine]
    #[arg(long = "for", value_name = "SM")]
    devices: Vec<Asked>,
    /// Exit with 100 unless every kernel meets this on every device
    #[arg(long, value_name = "WHAT")]
    require: Option<Require>,
    /// Only kernels whose linked name matches this glob with `*` and `?` (repeatable)
    #[arg(long = "kernel", value_name = "GLOB", value_parser = Glob::new)]
    kernels: Vec<Glob>,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    /// Kernels whose opcodes nvdisasm names
    #[arg(long, value_name = "WHOSE", default_value = "fp4")]
    opcodes: Opcodes,
    /// Audit the packages that this Python imports
    #[arg(long, value_name = "EXE")]
    python: Option<PathBuf>,
    /// Audit the packages that SM121PROBE_PYTHON or python3 imports
    #[arg(long, conflicts_with = "python")]
    env: bool,
    /// Audit the JIT caches of FlashInfer, Triton, PyTorch, vLLM and the driver
    #[arg(long)]
    jit_caches: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// A device as it is typed.
#[derive(Debug, Clone, Copy)]
struct Asked(u16);

impl FromStr for Asked {
    type Err = ptx::arch::UnknownTarget;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.parse::<Target>()?.number))
    }
}

/// What `--require` may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Require {
    /// Machine code for the device or its family that does what its name says
    Native,
    /// Machine code or PTX, fall-backs included
    Runs,
}

/// The formats.
const FORMATS: &Formats = &[
    (Format::Text, "For the terminal: the essentials, on a few screens"),
    (Format::Md, "Markdown, complete"),
    (Format::Json, "The record as JSON"),
    (Format::Csv, "One row per device and kernel of each piece of code"),
    (Format::Sarif, "SARIF 2.1.0: everything that does not run natively"),
];

/// Whose opcodes are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Opcodes {
    /// Kernels whose name promises FP4 or block scales
    Fp4,
    /// All kernels that run as machine code
    All,
    /// No kernels
    None,
}

/// `audit`.
pub(super) fn audit(args: &AuditArgs) -> Result<(), CliError> {
    let sink = Progress::new();
    let environment = Environment::of_process();
    let mut paths = args.paths.clone();
    if let Some(python) = interpreter(args, &environment) {
        paths.extend(audit::sites_of(&python)?);
    }
    let caches = if args.jit_caches { doctor::caches(&environment) } else { Vec::new() };
    let caches: Vec<(String, PathBuf)> =
        caches.into_iter().filter(|c| c.files.is_some()).map(|c| (c.owner, c.path)).collect();
    paths.extend(caches.iter().map(|(_, path)| path.clone()));
    let missing: Vec<String> =
        paths.iter().filter(|p| p.symlink_metadata().is_err()).map(|p| p.display().to_string()).collect();

    let here = Here::look()?;
    let (devices, gpus) = devices(args, &here.gpus);
    let mut table = collect(args, &paths, devices, &gpus, &sink)?;
    table.no_gpu = here.others.join("; ");
    audit::describe(&mut table, &Installed::below(&paths));
    audit::describe_caches(&mut table, &caches);
    let mut record =
        Record::of_matrix(concat!("sm121probe ", env!("CARGO_PKG_VERSION")).to_owned(), Matrix::default());
    record.audit = table;
    let table = &record.audit;
    if table.entries.is_empty() || (!args.kernels.is_empty() && table.kernels.is_empty()) {
        for problem in &table.problems {
            let text = format!("{}: {}; {}", problem.place, problem.problem, problem.remedy);
            sink.emit(Event::Warning { text });
        }
        return Err(if missing.is_empty() {
            CliError::NothingAudited
        } else {
            CliError::AuditPaths(missing.join(", "))
        });
    }
    output::write(&rendered(args, &record)?, &args.output)?;
    if !missing.is_empty() {
        return Err(CliError::AuditPaths(missing.join(", ")));
    }
    match args.require {
        Some(require) => required(table, require),
        None => Ok(()),
    }
}

/// The Python whose packages are audited.
fn interpreter(args: &AuditArgs, environment: &Environment) -> Option<PathBuf> {
    let default = || environment.path("SM121PROBE_PYTHON").unwrap_or_else(|| PathBuf::from("python3"));
    args.python.clone().or_else(|| args.env.then(default))
}

/// What is asked about, and for each the GPU of this machine that is one; empty where none is.
fn devices(args: &AuditArgs, here: &[Description]) -> (Vec<Device>, Vec<String>) {
    let mut numbers: Vec<u16> = args.devices.iter().map(|a| a.0).collect();
    if numbers.is_empty() {
        numbers.extend(DEFAULT);
        numbers.extend(here.iter().map(|gpu| gpu.target().number));
    }
    numbers.sort_unstable();
    numbers.dedup();
    let of = |number: u16| match here.iter().find(|gpu| gpu.target().number == number) {
        None => (Device::of(number), String::new()),
        Some(gpu) => {
            let isa = PtxIsa::of_cuda(&gpu.cuda);
            let device = Device { number, cuda: Some(gpu.cuda.clone()), isa };
            (device, format!("gpu:{} {}", gpu.ordinal, gpu.name))
        }
    };
    numbers.into_iter().map(of).unzip()
}

/// This machine's GPUs.
#[derive(Debug, Default)]
struct Here {
    /// What they are.
    gpus: Vec<Description>,
    /// Why others could not be asked: there is no driver, or one may not be used. The rules answer without them.
    others: Vec<String>,
}

impl Here {
    fn look() -> Result<Self, CliError> {
        let program = std::env::current_exe().map_err(NvrtcError::Worker)?;
        let mut out = Self::default();
        let (mut count, mut ordinal) = (1, 0);
        while ordinal < count {
            let launcher = Launcher { program: program.clone(), ordinal: ordinal.to_string(), limit: LIMIT };
            match GpuDevice::open(launcher, Chain::default()) {
                Ok(gpu) => {
                    count = gpu.about().gpus;
                    out.gpus.push(gpu.about().clone());
                }
                Err(failure) => out.others.push(format!("gpu:{ordinal}: {failure}")),
            }
            ordinal += 1;
        }
        Ok(out)
    }
}

/// Scans, and answers for what is found.
fn collect(
    args: &AuditArgs,
    paths: &[PathBuf],
    devices: Vec<Device>,
    gpus: &[String],
    sink: &Progress,
) -> Result<AuditTable, CliError> {
    let which = match args.opcodes {
        Opcodes::Fp4 => Which::Promising,
        Opcodes::All => Which::All,
        Opcodes::None => Which::None,
    };
    let store = Store::open(None).ok();
    let (scratch, discovery);
    let mut naming = None;
    let mut no_opcodes = String::new();
    if which != Which::None {
        let places = Places::from_environment(store.as_ref().map(Store::root));
        discovery = toolkit::discover(store.as_ref(), &places);
        scratch = tempfile::tempdir().map_err(CliError::Output)?;
        match &discovery.disassembler {
            Some(disassembler) => {
                let (store, scratch) = (store.as_ref(), scratch.path());
                naming = Some(Naming { disassembler, store, scratch, which, sink });
            }
            None => {
                "This machine has no nvdisasm: fall-backs cannot be recognised. `sm121probe toolkit install latest` fetches one."
                    .clone_into(&mut no_opcodes);
            }
        }
    }
    let mut collector = Collector::new(devices, gpus, naming);
    devcode::scan(paths, &Limits::default(), &mut |found| match found {
        Found::Entry { mut entry, code } => {
            if !args.kernels.is_empty() {
                entry.kernels.retain(|k| args.kernels.iter().any(|glob| glob.matches(&k.name)));
                if entry.kernels.is_empty() {
                    return;
                }
            }
            collector.take(Found::Entry { entry, code });
        }
        other => collector.take(other),
    });
    let mut table = collector.finish();
    table.no_opcodes = no_opcodes;
    Ok(table)
}

fn rendered(args: &AuditArgs, record: &Record) -> Result<String, CliError> {
    Ok(match args.format {
        Format::Text => report::audit_text(&record.audit, &output::styles(args.output.output.is_some())),
        Format::Md => report::audit_markdown(&record.audit, 1),
        Format::Json => record.to_json().map_err(|e| CliError::Output(e.into()))?,
        Format::Csv => report::audit_csv(&record.audit),
        Format::Sarif => report::audit_sarif(&record.audit).map_err(|e| CliError::Output(e.into()))?,
        other => return Err(format::lacks(other, FORMATS)),
    })
}

/// Whether every kernel meets what is required. What was not read meets nothing, and neither does code without a kernel.
fn required(table: &AuditTable, require: Require) -> Result<(), CliError> {
    let meets = |verdict: &AuditVerdict| match require {
        Require::Native => verdict.is_native(),
        Require::Runs => verdict.runs(),
    };
    let unmet: Vec<_> = table.kernels.iter().filter(|k| !k.verdicts.iter().all(meets)).collect();
    let Some(first) = unmet.first() else {
        return match table.problems.as_slice() {
            [] if table.kernels.is_empty() => Err(CliError::AuditUnread("no kernel was found".to_owned())),
            [] => Ok(()),
            [first, ..] => Err(CliError::AuditUnread(format!(
                "{} pieces of code were not read, such as {}: {}",
                table.problems.len(),
                first.place,
                first.problem
            ))),
        };
    };
    let device = first.verdicts.iter().position(|v| !meets(v)).unwrap_or(0);
    let example =
        format!("{} on {}: {}", first.name, table.devices[device].name, table.reasons[first.reasons[device]]);
    Err(CliError::AuditRequire(unmet.len(), table.kernels.len(), example))
}
