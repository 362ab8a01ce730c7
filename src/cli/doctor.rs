//! `doctor`: what this machine can run, each answer obtained by running it; what is known about a GPU that is not here; what the log of
//! a model server shows.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use emulator::gpus::Gpu;
use miette::Diagnostic;

use super::args::simulated;
use super::doctor_log::log_text;
use super::error::{CliError, CommandError};
use super::exit;
use super::format::{self, Formats};
use super::output;
use crate::doctor::{self, AbsentGpu, Answer, Asked, Findings, Form, GpuFindings, LogError, LogReport};
use crate::event::Event;
use crate::job::Context;
use crate::report::Format;
use crate::store::Store;
use crate::toolkit::{self, Environment, Places};

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Say what is known about a GPU that is not in this machine, too
    #[arg(long, value_name = "GPU", value_parser = sm12x)]
    gpu: Option<&'static Gpu>,
    /// Read the log of a server (vLLM, SGLang, llama.cpp) instead: which paths it chose, and whether they suit model and GPU
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

const FORMATS: &Formats = &[(Format::Text, "For the terminal"), (Format::Json, "Everything as JSON")];

/// Parses the name of an SM12x GPU.
fn sm12x(text: &str) -> Result<&'static Gpu, String> {
    simulated(text)
        .ok()
        .filter(|gpu| gpu.capability.0 == 12)
        .ok_or_else(|| "not one of gb10, rtx5090 and rtxpro6000".to_owned())
}

/// Runs `doctor`.
pub(super) fn doctor(args: &DoctorArgs, context: &Context<'_>) -> Result<(), CliError> {
    let gpu = args.gpu;
    if let Some(file) = &args.log {
        return log(file, gpu, args);
    }
    let store = Store::open(None).ok();
    let places = Places::from_environment(store.as_ref().map(Store::root));
    let discovery = toolkit::discover(store.as_ref(), &places);
    for bad in &discovery.unusable {
        context.sink.emit(Event::Warning { text: format!("{}: {}", bad.path.display(), bad.reason) });
    }
    let environment = Environment::of_process();
    let nvrtcs = toolkit::nvrtcs(store.as_ref(), &environment);
    let findings = doctor::examine(
        &discovery.toolkits,
        &nvrtcs,
        store.as_ref(),
        &context.program,
        &environment,
        gpu.map(absent),
    );
    let text = match if args.json { Format::Json } else { args.format } {
        Format::Text => text(&findings),
        Format::Json => {
            serde_json::to_string_pretty(&findings).map_err(|e| CliError::Output(e.into()))? + "\n"
        }
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::print(&text)?;
    let odd = findings.gpus.iter().flat_map(GpuFindings::against_the_rules).count();
    if odd > 0 { Err(DoctorError::Doctor(odd).into()) } else { Ok(()) }
}

fn absent(gpu: &emulator::gpus::Gpu) -> AbsentGpu {
    let number = u16::try_from(gpu.arch()).unwrap_or_default();
    AbsentGpu::new(gpu.name, number, gpu.memory, gpu.shared_optin, gpu.integrated)
}

/// Runs `doctor --log`.
fn log(file: &std::path::Path, gpu: Option<&emulator::gpus::Gpu>, args: &DoctorArgs) -> Result<(), CliError> {
    let number = gpu.and_then(|gpu| u16::try_from(gpu.arch()).ok());
    let found = doctor::read_log(file, number).map_err(DoctorError::from)?;
    let text = match if args.json { Format::Json } else { args.format } {
        Format::Text => log_text(&found),
        Format::Json => serde_json::to_string_pretty(&found).map_err(|e| CliError::Output(e.into()))? + "\n",
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::print(&text)?;
    outcome(&found)
}

/// Red flags count more than what the log does not say; a log in which nothing was recognised is never in order. An error that is not known is
/// nothing recognised, unless a server wrote it.
fn outcome(found: &LogReport) -> Result<(), CliError> {
    let missing = found.missing.join("; ");
    let flagged = found.flags.iter().any(|flag| found.facts.engine.is_some() || !flag.is_unknown());
    if !flagged && (found.facts.engine.is_none() || found.choices.is_empty()) {
        return Err(DoctorError::Unrecognised(found.file.display().to_string(), missing).into());
    }
    match (found.flags.len(), missing.is_empty()) {
        (0, true) => Ok(()),
        (0, false) => Err(DoctorError::LogLacks(missing).into()),
        (flags, _) => Err(DoctorError::Flags(flags).into()),
    }
}

fn text(findings: &Findings) -> String {
    let mut out = String::new();
    if let Some(gpu) = &findings.asked {
        let _ = writeln!(
            out,
            "{} ({}), not in this machine: {} GiB of memory, {} bytes of shared memory for a CTA",
            gpu.name,
            gpu.architecture,
            gpu.memory >> 30,
            gpu.shared_optin
        );
        let _ = writeln!(out, "  machine code that it loads: {}", gpu.loads.join(" "));
        for line in &gpu.unified_memory {
            let _ = writeln!(out, "  unified memory: {line}");
        }
    }
    for gpu in &findings.gpus {
        about(gpu, &mut out);
        answers(gpu, &mut out);
    }
    if let Some(reason) = &findings.no_gpu {
        let _ = writeln!(out, "no GPU: {reason}");
    }
    for t in &findings.toolkits {
        let sm12x = if t.knows_sm12x { "all SM12x targets" } else { "not all SM12x targets" };
        let _ = writeln!(out, "ptxas {}: PTX {}, knows {sm12x}; {}", t.version, t.isa, t.path);
    }
    if findings.toolkits.is_empty() {
        out.push_str("no ptxas: `sm121probe toolkit install latest 12.9` fetches two\n");
    }
    let nvrtcs = if findings.nvrtcs.is_empty() { "none".to_owned() } else { findings.nvrtcs.join(" ") };
    let _ = writeln!(out, "NVRTC: {nvrtcs}");
    imports(findings, &mut out);
    for line in findings.miscompiles.iter().filter(|line| !line.names.is_empty()) {
        let (count, names) = (line.names.len(), line.names.join(" "));
        let _ = writeln!(
            out,
            "{}: {count} known miscompiles, which `explain NAME` describes: {names}",
            line.compiler
        );
    }
    for bad in &findings.known_bad {
        let of = bad
            .package
            .iter()
            .zip(&bad.installed)
            .map(|(name, version)| format!("{name} {version}: "))
            .next();
        let of = of.unwrap_or_default();
        let _ = writeln!(out, "known problem: {of}{}\n  {} ({})", bad.effect, bad.remedy, bad.source);
        if let Some(repro) = &bad.repro {
            let _ = writeln!(out, "  shown here by: {repro}");
        }
    }
    out
}

/// The kernel packages that a Python would import, and the caches of compiled kernels.
fn imports(findings: &Findings, out: &mut String) {
    if let Some(python) = &findings.python {
        let _ = writeln!(out, "Python {} ({}) would import", python.python, python.executable.display());
        for package in &python.packages {
            let version = package.version.as_deref().unwrap_or("of unknown version");
            let place = match &package.location {
                Some(place) => place.display().to_string(),
                None => "its metadata exists but its module does not: reinstall it".to_owned(),
            };
            let _ = writeln!(out, "  {} {version}: {place}", package.module);
        }
        if python.packages.is_empty() {
            out.push_str(
                "  none of the packages that ship or compile kernels; set SM121PROBE_PYTHON to examine \
                another Python\n",
            );
        }
    }
    if let Some(reason) = &findings.no_python {
        let _ = writeln!(out, "Python: {reason}");
    }
    for folder in findings.caches.iter() {
        let holds = match folder.files {
            None => "not there".to_owned(),
            Some(files) => {
                let least = if folder.more { "at least " } else { "" };
                format!("{least}{files} files, {} MiB", folder.bytes >> 20)
            }
        };
        let by = folder.variable.as_ref().map_or_else(String::new, |name| format!(" by {name}"));
        let _ = writeln!(out, "kernels of {}: {}{by}: {holds}", folder.owner, folder.path.display());
    }
}

fn about(gpu: &GpuFindings, out: &mut String) {
    let a = &gpu.about;
    let _ = writeln!(out, "gpu:{} {}, {}", a.ordinal, a.name, a.architecture());
    let _ = writeln!(out, "  driver {} (CUDA {})", a.driver, a.cuda);
    let _ = writeln!(
        out,
        "  {} multiprocessors, {} MiB of memory ({} free), {} MiB of L2",
        a.multiprocessors,
        a.memory >> 20,
        a.free >> 20,
        a.l2 >> 20
    );
    let _ = writeln!(
        out,
        "  shared memory: {} bytes of a CTA with opt-in, {} of a multiprocessor, {} of a CTA kept by the system",
        a.shared_optin, a.shared_multiprocessor, a.shared_reserved
    );
    let attributes: Vec<String> =
        a.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let _ = writeln!(out, "  {}", attributes.join(" "));
}

fn answers(gpu: &GpuFindings, out: &mut String) {
    let highest = if gpu.highest_ptx.is_empty() { "none" } else { &gpu.highest_ptx };
    let refused = gpu.versions.iter().find_map(|a| match &a.answer {
        Answer::Runs => None,
        Answer::Refused(words) | Answer::Wrong(words) | Answer::Died(words) | Answer::NoCode(words) => {
            Some(format!("; {} does not: {words}", a.isa))
        }
    });
    let _ = writeln!(out, "  PTX up to {highest} was compiled and run{}", refused.unwrap_or_default());
    list("PTX", &gpu.ptx, out);
    let mut versions: Vec<&Form> = gpu.cubins.iter().map(|a| &a.form).collect();
    versions.dedup();
    for form in versions {
        let Form::Cubin(version) = form else { continue };
        let asked: Vec<Asked> = gpu.cubins.iter().filter(|a| a.form == *form).cloned().collect();
        list(&format!("cubins of ptxas {version}"), &asked, out);
    }
    for odd in gpu.against_the_rules() {
        let rule = if odd.rule == Some(true) { "should run" } else { "should not run" };
        let _ = writeln!(
            out,
            "  CONTRADICTS THE RULE: {} for {} {rule}, but {}",
            odd.form, odd.target, odd.answer
        );
    }
}

fn list(what: &str, asked: &[Asked], out: &mut String) {
    let of = |runs: bool| -> Vec<&str> {
        let wanted =
            |a: &&Asked| (a.answer == Answer::Runs) == runs && !matches!(a.answer, Answer::NoCode(_));
        asked.iter().filter(wanted).map(|a| a.target.as_str()).collect()
    };
    let _ = writeln!(out, "  {what} that run: {}", of(true).join(" "));
    let _ = writeln!(out, "  {what} that do not run: {}", of(false).join(" "));
}

/// What `doctor` found.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum DoctorError {
    #[error("{0} results contradict the architecture rules")]
    #[diagnostic(help("please report them: finding such results is the purpose of this tool"))]
    Doctor(usize),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("nothing was recognised in {0}: {1}")]
    #[diagnostic(help("logs of vLLM, SGLang and llama.cpp are read, from the start of the server on"))]
    Unrecognised(String, String),
    #[error("the log does not say everything: {0}")]
    LogLacks(String),
    #[error("red flags in the log: {0}")]
    #[diagnostic(help("the lines above explain each one"))]
    Flags(usize),
}

impl CommandError for DoctorError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Doctor(_) | Self::Flags(_) => exit::DOES_NOT_CONFORM,
            Self::Log(_) => exit::USAGE,
            Self::Unrecognised(..) | Self::LogLacks(_) => exit::INCOMPLETE,
        }
    }
}
