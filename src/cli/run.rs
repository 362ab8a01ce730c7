//! `run`: executes snippets, or the kernels of files, on a device, check by check.

use std::path::PathBuf;

use clap::Args;
use miette::Diagnostic;

use super::args::OutputArgs;
use super::device::DeviceArgs;
use super::error::{CliError, CommandError};
use super::exit;
use super::findings::Findings;
use super::format::{self, Formats};
use super::launch_args::{LaunchArgs, LaunchArgsError, LaunchOf};
use super::output;
use crate::job::{self, Context, Question};
use crate::record::{Completeness, Incomplete, Matrix, Record, VariantRun, first_line};
use crate::report::{self, Format};
use crate::snippet::{self, Filter};

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Run the kernels of this file instead of snippets, launched as `emulate` does: .cu, .ptx, a fatbin, cubin or library with PTX, or a
    /// launch file (.yaml); several are translation units, which are linked
    #[arg(value_name = "FILE", conflicts_with_all = ["filters", "snippets"])]
    files: Vec<PathBuf>,
    #[command(flatten)]
    launch: LaunchArgs,
    /// Variants whose id or <family>/<id> matches a glob (repeatable)
    #[arg(long = "filter", short = 'f', value_name = "GLOB")]
    filters: Vec<String>,
    /// Run the .ptx files below DIR instead of the built-in snippets
    #[arg(long, value_name = "DIR")]
    snippets: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Target of the code [default: the device's own, sm_121a on the emulator]
    #[arg(long, short = 't', value_name = "T")]
    target: Option<String>,
    /// ptxas for the GPU's code: 13.5, 13.5.37 or a path [default: the newest]
    #[arg(long, short = 'k', value_name = "V")]
    toolkit: Option<String>,
    /// Seed of the inputs
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

const FORMATS: &Formats = &[
    (Format::Text, "What is wrong, and the counts of each check"),
    (Format::Csv, "One row per variant and check"),
    (Format::Json, "Everything as JSON"),
];

/// Runs `run`.
pub(super) fn run(args: &RunArgs, context: &Context<'_>) -> Result<(), CliError> {
    if !args.files.is_empty() {
        return run_files(args, context);
    }
    if let Some(option) = args.launch.given().chain(args.launch.compiler.compile(None, None).given()).next() {
        return Err(LaunchArgsError::NoFile(option).into());
    }
    let library = job::snippets(args.snippets.as_deref(), context.sink)?;
    job::check_filters(&library, &args.filters)?;
    let filters: Vec<Filter> = args.filters.iter().map(|f| Filter::new(f)).collect::<Result<_, _>>()?;
    let chosen: Vec<&snippet::Variant> = library
        .variants
        .iter()
        .filter(|v| v.execute.is_some())
        .filter(|v| {
            let family = &library.snippets[v.snippet].family;
            filters.is_empty() || filters.iter().any(|f| f.matches(family, &v.id))
        })
        .collect();
    if chosen.is_empty() {
        return Err(RunError::NothingToRun.into());
    }
    let asked =
        Question { target: args.target.as_deref(), toolkit: args.toolkit.as_deref(), seed: args.seed };
    let runs = match args.device.gpu(context)? {
        None => job::variants_on_emulator(&chosen, &asked)?,
        Some(gpu) => job::variants_on_gpu(&chosen, gpu, &asked)?.0,
    };
    let mut all = Completeness::of_checks(runs.iter().filter(|run| run.is_judged()).count());
    for (glob, filter) in args.filters.iter().zip(&filters) {
        let of_glob = |id: &str| {
            let of = |v: &&snippet::Variant| v.id == id;
            let family = chosen.iter().copied().find(of).map(|v| &library.snippets[v.snippet].family);
            family.is_some_and(|family| filter.matches(family, id))
        };
        if !runs.iter().any(|run| run.is_judged() && of_glob(&run.variant)) {
            all.add_gap(format!("no variant of `{glob}` could run on this device"));
        }
    }
    let incomplete = all.incomplete("no selected variant could run on this device");
    deliver(args, &runs, incomplete)
}

/// Runs the kernels of files.
fn run_files(args: &RunArgs, context: &Context<'_>) -> Result<(), CliError> {
    let gpu = args.device.gpu(context)?;
    // A launch file names the target itself, and so does PTX.
    let compiled = args.files.iter().any(|file| file.extension().is_some_and(|e| e == "cu"));
    let of_gpu = || gpu.as_ref().map(|gpu| gpu.about().target().to_string()).filter(|_| compiled);
    let target = args.target.clone().or_else(of_gpu);
    let compile = args.launch.compiler.compile(target, None);
    let mut session = args.launch.session(&LaunchOf::Files(&args.files), compile, context)?;
    let names: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    let run = session.checked(&names.join(" "), gpu, args.toolkit.as_deref())?;
    let all = Completeness::of_checks(usize::from(run.is_judged()));
    deliver(args, &[run], all.incomplete("the launches could not run on this device"))
}

/// Writes the runs; the exit code summarises them.
fn deliver(args: &RunArgs, runs: &[VariantRun], incomplete: Option<Incomplete>) -> Result<(), CliError> {
    let text = match args.format {
        Format::Text => first_line(incomplete.as_ref()) + &report::runs_text(runs),
        Format::Csv => report::runs_csv(runs),
        Format::Json => {
            let mut record = Record::of_matrix(report::TOOL.to_owned(), Matrix::default());
            record.runs.extend_from_slice(runs);
            record.to_json().map_err(|e| CliError::Output(e.into()))?
        }
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    match runs.iter().filter(|run| run.first_wrong().is_some()).count() {
        0 => incomplete.map_or(Ok(()), |incomplete| Err(incomplete.into())),
        wrong => Err(Findings::Runs(wrong).into()),
    }
}

/// Why `run` ran nothing.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum RunError {
    #[error("no selected variant specifies how it is run")]
    NothingToRun,
}

impl CommandError for RunError {
    fn exit_code(&self) -> u8 {
        exit::INCOMPLETE
    }
}
