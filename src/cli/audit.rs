//! `audit`: the device code in files, and how it runs on a device.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueEnum};
use miette::Diagnostic;
use ptx::arch::Target;

use super::args::OutputArgs;
use super::error::{CliError, CommandError};
use super::exit;
use super::format::{self, Formats};
use super::output;
use crate::attention::{Model, models};
use crate::audit::Which;
use crate::event::Event;
use crate::gate::Glob;
use crate::job::{self, AuditOptions, Audited, Context};
use crate::record::{AuditKernel, AuditTable, AuditVerdict, Incomplete, Record, first_line};
use crate::report::{self, Format};
use crate::toolkit::Environment;

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// Libraries, executables, objects, archives, cubins, fatbins, PTX, wheels, folders, Python environments
    #[arg(value_name = "PATH", required_unless_present_any = ["python", "env", "jit_caches", "layers_of"])]
    paths: Vec<PathBuf>,
    /// Device, such as sm_121 (repeatable) [default: sm_120, sm_121 and the GPUs of this machine]
    #[arg(long = "for", value_name = "SM")]
    devices: Vec<Asked>,
    /// Exit with 100 unless every kernel meets this on every device
    #[arg(long, value_name = "WHAT")]
    require: Option<Require>,
    /// With --require: kernels whose linked name matches this glob need not meet it (repeatable)
    #[arg(long = "except", value_name = "GLOB", requires = "require", value_parser = Glob::new)]
    exceptions: Vec<Glob>,
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
    /// Say which attention backends of vLLM, SGLang and FlashInfer serve the layers of a model, such as gpt-oss-20b
    #[arg(long, value_name = "MODEL", value_parser = PossibleValuesParser::new(models().iter().map(|model| model.name.as_str())).map(|name| name.to_owned()), hide_possible_values = true)]
    layers_of: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl AuditArgs {
    /// Returns the model whose layers are asked for.
    fn model(&self) -> Option<&'static Model> {
        let name = self.layers_of.as_ref()?;
        models().iter().find(|model| model.name == *name)
    }
}

/// Parses a device name.
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

const FORMATS: &Formats = &[
    (Format::Text, "For the terminal: the essentials, on a few screens"),
    (Format::Md, "Markdown, complete"),
    (Format::Json, "The record as JSON"),
    (Format::Csv, "One row per device and kernel of each piece of code"),
    (Format::Sarif, "SARIF 2.1.0: everything that does not run natively"),
];

/// The kernels whose opcodes are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Opcodes {
    /// Kernels whose name promises FP4 or block scales
    Fp4,
    /// All kernels that run as machine code
    All,
    /// No kernels
    None,
}

/// Runs `audit`.
pub(super) fn audit(args: &AuditArgs, context: &Context<'_>) -> Result<(), CliError> {
    let default =
        || Environment::of_process().path("SM121PROBE_PYTHON").unwrap_or_else(|| PathBuf::from("python3"));
    let Audited { record, missing } = job::audit(
        &AuditOptions {
            paths: args.paths.clone(),
            python: args.python.clone().or_else(|| args.env.then(default)),
            jit_caches: args.jit_caches,
            devices: args.devices.iter().map(|a| a.0).collect(),
            kernels: args.kernels.clone(),
            opcodes: match args.opcodes {
                Opcodes::Fp4 => Which::Promising,
                Opcodes::All => Which::All,
                Opcodes::None => Which::None,
            },
            model: args.model(),
        },
        context,
    )?;
    let table = &record.audit;
    // Packages that compile at run time need no device code in their files, nor do those of an engine.
    let described = table.packages.iter().any(|p| !p.compiles.is_empty())
        || !table.backends.is_empty()
        || !table.known_bad.is_empty();
    if table.entries.is_empty() && !described || (!args.kernels.is_empty() && table.kernels.is_empty()) {
        for problem in &table.problems {
            let text = format!("{}: {}; {}", problem.place, problem.problem, problem.remedy);
            context.sink.emit(Event::Warning { text });
        }
        return Err(if missing.is_empty() {
            AuditError::NothingAudited.into()
        } else {
            AuditError::AuditPaths(missing.join(", ")).into()
        });
    }
    output::write(&rendered(args, &record)?, &args.output)?;
    if !missing.is_empty() {
        return Err(AuditError::AuditPaths(missing.join(", ")).into());
    }
    match args.require {
        Some(require) => required(table, require, &args.exceptions),
        None => incomplete(args, &record).map_or(Ok(()), |incomplete| Err(incomplete.into())),
    }
}

/// Returns what was not audited: code that cannot be read, and globs that match no kernel.
fn incomplete(args: &AuditArgs, record: &Record) -> Option<Incomplete> {
    let mut all = record.completeness();
    for glob in &args.kernels {
        if !record.audit.kernels.iter().any(|kernel| glob.matches(&kernel.name)) {
            all.add_gap(format!("no kernel matches `{}`", glob.as_str()));
        }
    }
    all.incomplete("no GPU code found in the given paths")
}

fn rendered(args: &AuditArgs, record: &Record) -> Result<String, CliError> {
    Ok(match args.format {
        Format::Text => {
            let styles = output::styles(args.output.output.is_some());
            first_line(incomplete(args, record).as_ref()) + &report::audit_text(&record.audit, &styles)
        }
        Format::Md => report::audit_markdown(&record.audit, 1),
        Format::Json => record.to_json().map_err(|e| CliError::Output(e.into()))?,
        Format::Csv => report::audit_csv(&record.audit),
        Format::Sarif => report::audit_sarif(&record.audit).map_err(|e| CliError::Output(e.into()))?,
        other => return Err(format::lacks(other, FORMATS)),
    })
}

/// Checks that every kernel but the exceptions meets the requirement. Code that was not read does not meet it, nor do files without a
/// kernel. An exception that no kernel needs is an error: it would hide the next one of that name.
fn required(table: &AuditTable, require: Require, exceptions: &[Glob]) -> Result<(), CliError> {
    let meets = |verdict: &AuditVerdict| match require {
        Require::Native => verdict.is_native(),
        Require::Runs => verdict.runs(),
    };
    let (excepted, wanted): (Vec<_>, Vec<_>) =
        table.kernels.iter().partition(|kernel| exceptions.iter().any(|glob| glob.matches(&kernel.name)));
    let is_unmet = |kernel: &&AuditKernel| !kernel.verdicts.iter().all(meets);
    let needed = |glob: &&Glob| !excepted.iter().any(|kernel| glob.matches(&kernel.name) && is_unmet(kernel));
    if let Some(glob) = exceptions.iter().find(needed) {
        return Err(AuditError::AuditException(glob.as_str().to_owned()).into());
    }
    let unmet: Vec<_> = wanted.iter().copied().filter(is_unmet).collect();
    let Some(first) = unmet.first() else {
        return match table.problems.as_slice() {
            [] if wanted.is_empty() => {
                let why =
                    if excepted.is_empty() { "no kernel was found" } else { "every kernel is excepted" };
                Err(AuditError::AuditUnread(why.to_owned()).into())
            }
            [] => Ok(()),
            [first, ..] => Err(AuditError::AuditUnread(format!(
                "{} pieces of code were not read, such as {}: {}",
                table.problems.len(),
                first.place,
                first.problem
            ))
            .into()),
        };
    };
    let device = first.verdicts.iter().position(|v| !meets(v)).unwrap_or(0);
    let example =
        format!("{} on {}: {}", first.name, table.devices[device].name, table.reasons[first.reasons[device]]);
    Err(AuditError::AuditRequire(unmet.len(), failing_of(wanted.len()), example).into())
}

/// A number of kernels that do not meet a requirement.
fn failing_of(kernels: usize) -> String {
    match kernels {
        1 => "1 kernel does not meet the requirement".to_owned(),
        _ => format!("{kernels} kernels do not meet the requirement"),
    }
}

/// Why `audit` does not exit with 0.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum AuditError {
    #[error("no GPU code found in the given paths")]
    #[diagnostic(help(
        "a package without GPU code uses that of other packages, or compiles it at run time: audit the environment"
    ))]
    NothingAudited,
    #[error("no such file or folder: {0}")]
    AuditPaths(String),
    #[error("{0} of {1}, such as {2}")]
    #[diagnostic(help(
        "use --kernel GLOB to check only the kernels that this device needs, or --except GLOB for those that are stubs on purpose"
    ))]
    AuditRequire(usize, String, String),
    #[error("the exception `{0}` is not needed: no kernel of that name fails the requirement")]
    #[diagnostic(help("leave it out, or correct the name; it matches the linked name, with `*` and `?`"))]
    AuditException(String),
    #[error("the requirement cannot be verified: {0}")]
    #[diagnostic(help("name only the files that matter, or leave out those that cannot be read"))]
    AuditUnread(String),
}

impl CommandError for AuditError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NothingAudited => exit::INCOMPLETE,
            Self::AuditPaths(..) => exit::USAGE,
            Self::AuditRequire(..) | Self::AuditUnread(..) | Self::AuditException(..) => {
                exit::DOES_NOT_CONFORM
            }
        }
    }
}
