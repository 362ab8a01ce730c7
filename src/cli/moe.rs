//! `moe`: the pipeline, tile by tile, against its reference.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rayon::prelude::*;

use super::args::{JobArgs, OutputArgs};
use super::error::CliError;
use super::output;
use super::toolchain::Toolchain;
use super::ways::{TARGETS, TrialArgs};
use crate::arch::Target;
use crate::case::{self, Case};
use crate::kernel::Library;
use crate::moe::plan::{self, Trial};
use crate::moe::runner::Runner;
use crate::moe::{shrink, tensors};
use crate::record::TrialRow;
use crate::report;
use crate::store::Store;
use crate::toolkit::{self, Environment, Nvrtc};

/// Arguments of `moe`.
#[derive(Debug, Args)]
pub(super) struct MoeArgs {
    /// List the cases.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    trials: TrialArgs,
    /// Read cases from this folder instead of the built-in ones.
    #[arg(long = "cases", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The seed of the data; the case's own when left out.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Schedules of warps and CTAs to try; their results must be equal.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    schedules: u64,
    /// Write all tensors of the one trial that this asks for.
    #[arg(long, value_name = "FILE.safetensors")]
    dump: Option<PathBuf>,
    /// Reduce the first trial that fails to the smallest case that fails at the same stage, and print that case's file.
    #[arg(long)]
    shrink: bool,
    /// The form of the result.
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: Form,
    #[command(flatten)]
    output: OutputArgs,
}

/// Forms of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// What does not conform, and the counts.
    Text,
    /// One line per trial and stage.
    Csv,
    /// The trials as JSON.
    Json,
    /// One line per trial.
    Md,
}

/// `moe`.
pub(super) fn moe(args: &MoeArgs) -> Result<(), CliError> {
    let library = match &args.folder {
        Some(folder) => case::Library::load(folder)?,
        None => case::library(),
    };
    for problem in &library.problems {
        eprintln!("error: {problem}");
    }
    let cases = args.trials.cases(&library)?;
    if args.list {
        let width = cases.iter().map(|c| c.name.len()).max().unwrap_or(0);
        let lines: String = cases.iter().map(|c| format!("{:width$}  {}\n", c.name, c.about)).collect();
        return output::print(&lines);
    }
    let kernels = args.trials.kernels()?;
    let mut trials = args.trials.trials(&cases);
    let mut targets = args.trials.targets()?;
    let store = Store::open(None).ok();
    let found = toolkit::nvrtcs(store.as_ref(), &Environment::of_process());
    let nvrtc = toolkit::select_nvrtc(&found, args.trials.toolkit.as_deref())?;
    let toolchain = Toolchain::find(args.trials.toolkit.as_deref(), &targets, store.as_ref())?;
    let program = std::env::current_exe().map_err(toolkit::NvrtcError::Worker)?;
    let mut runner = Runner::new(&kernels, nvrtc, store.as_ref(), program);
    (runner.seed, runner.schedules) = (args.seed, args.schedules);
    if let Some(path) = &args.dump {
        let [_] = cases.as_slice() else { return Err(CliError::Dump) };
        if let Some(target) = targets.first() {
            trials = admitted(&trials, &kernels, toolchain.as_ref(), *target)?;
        }
        trials.retain(|t| t.config.is_ok());
        trials.truncate(1);
        targets.truncate(1);
        if let (Some(trial), Some(target)) = (trials.first(), targets.first()) {
            dump(&runner, trial, *target, path)?;
        }
    }
    let rows = run(&runner, &trials, &kernels, toolchain.as_ref(), &targets)?;
    if rows.is_empty() {
        return Err(CliError::NothingRan);
    }
    if args.shrink {
        return shrink(&runner, &trials, &rows, &args.output);
    }
    let text = match args.format {
        Form::Text => report::trials_text(&rows),
        Form::Csv => report::trials_csv(&rows),
        Form::Md => report::trials_markdown(&rows),
        Form::Json => serde_json::to_string_pretty(&rows).map_err(|e| CliError::Output(e.into()))? + "\n",
    };
    output::write(&text, &args.output)?;
    if !library.problems.is_empty() {
        return Err(CliError::UnusableCases(library.problems.len()));
    }
    // Nothing but blocked trials proves nothing.
    if !rows.iter().any(TrialRow::is_judged) {
        return Err(CliError::NothingRan);
    }
    match rows.iter().filter(|r| r.first_wrong().is_some()).count() {
        0 => Ok(()),
        wrong => Err(CliError::Trials(wrong)),
    }
}

/// The default set for the whole job: for those of its targets that are SM121's own, or both when it names none.
pub(super) fn default_set(
    nvrtc: &Nvrtc,
    store: Option<&Store>,
    args: &JobArgs,
) -> Result<Vec<TrialRow>, CliError> {
    let mut targets: Vec<Target> = TARGETS.iter().map(|t| t.parse()).collect::<Result<_, _>>()?;
    let asked = super::job::selection(args)?.targets;
    targets.retain(|t| asked.contains(t));
    let library = case::library();
    if !library.problems.is_empty() {
        library.problems.iter().for_each(|problem| eprintln!("error: {problem}"));
        return Err(CliError::UnusableCases(library.problems.len()));
    }
    let cases: Vec<&Case> = library.cases.iter().collect();
    let kernels = Library::embedded()?;
    let toolchain = Toolchain::find(None, &targets, store)?;
    let program = std::env::current_exe().map_err(toolkit::NvrtcError::Worker)?;
    let runner = Runner::new(&kernels, nvrtc, store, program);
    run(&runner, &plan::default_set(&cases), &kernels, toolchain.as_ref(), &targets)
}

/// Every trial for every target, in order.
fn run(
    runner: &Runner<'_>,
    trials: &[Trial<'_>],
    kernels: &Library,
    toolchain: Option<&Toolchain>,
    targets: &[Target],
) -> Result<Vec<TrialRow>, CliError> {
    let mut rows = Vec::new();
    for target in targets {
        let trials = admitted(trials, kernels, toolchain, *target)?;
        let done: Vec<_> = trials.par_iter().map(|t| runner.run(t, *target)).collect();
        for row in done {
            rows.push(row?);
        }
    }
    Ok(rows)
}

/// The trials as the toolchain admits them for a target.
fn admitted<'a>(
    trials: &[Trial<'a>],
    kernels: &Library,
    toolchain: Option<&Toolchain>,
    target: Target,
) -> Result<Vec<Trial<'a>>, CliError> {
    let chain = toolchain.map(|t| t.of(target));
    Ok(trials.iter().map(|t| t.admitted(kernels, chain)).collect::<Result<_, _>>()?)
}

/// Prints the smallest case that fails as the first failing trial does.
fn shrink(
    runner: &Runner<'_>,
    trials: &[Trial<'_>],
    rows: &[TrialRow],
    output: &OutputArgs,
) -> Result<(), CliError> {
    // The rows of one target after the other, each in the order of the trials.
    let failed = rows
        .iter()
        .zip(trials.iter().cycle())
        .find_map(|(row, t)| Some((row.first_wrong()?.stage, row.target.parse::<Target>().ok()?, t)));
    let Some((stage, target, trial)) = failed else {
        eprintln!("every trial conforms: there is nothing to reduce");
        return Ok(());
    };
    let mut fails = |case: &Case| {
        let row = runner.run(&Trial { case, ..trial.clone() }, target).ok()?;
        Some(row.first_wrong()?.stage)
    };
    let small = shrink::shrink(trial.case, stage, &mut fails);
    let mut text = format!(
        "# {} fails at {}: sm121probe moe --cases DIR --tile {} --kernel-path {} --load {} --target {target}\n",
        trial.case.name,
        stage.word(),
        trial.tile,
        trial.path.word(),
        trial.load.word()
    );
    text.push_str(&case::to_yaml(&small));
    output::write(&text, output)?;
    Err(CliError::Trials(1))
}

/// Runs a trial and writes all its tensors.
fn dump(runner: &Runner<'_>, trial: &Trial<'_>, target: Target, path: &Path) -> Result<(), CliError> {
    let Ok(config) = trial.config else { return Ok(()) };
    let outcome = runner.outcome(trial, config, target)?;
    let mut metadata = outcome.contract.metadata();
    for (key, value) in [
        ("case", trial.case.name.clone()),
        ("seed", runner.seed.unwrap_or(trial.case.seed).to_string()),
        ("tile", trial.tile.to_string()),
        ("target", target.to_string()),
    ] {
        metadata.insert(key.to_owned(), value);
    }
    Ok(tensors::write(path, &outcome.tensors, &metadata)?)
}
