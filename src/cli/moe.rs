//! `moe`: runs the pipeline, tile by tile, and compares it with its reference.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use miette::Diagnostic;
use ptx::arch::Target;

use super::args::OutputArgs;
use super::error::{CliError, CommandError};
use super::exit;
use super::moe_formats::{self, Word};
use super::output;
use super::runner::RunnerArgs;
use super::trials::{FORMATS, conclude, listed, print_smallest};
use super::ways::TrialArgs;
use crate::event::Event;
use crate::frame::family::Trial as FamilyTrial;
use crate::frame::runner::Runner;
use crate::job::{self, Context};
use crate::moe::case::{self, Case, Configurations, FormatPair, GlobalScale, ScaleRule};
use crate::moe::checkpoint::Layer;
use crate::moe::plan::Trial;
use crate::moe::witness::single_byte;
use crate::moe::{family, tensors};
use crate::report;

/// Arguments of `moe`.
#[derive(Debug, Args)]
pub(super) struct MoeArgs {
    /// List the cases
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    trials: TrialArgs,
    /// One token through a layer of a model, such as gpt-oss-20b: its cases or, without one, its dimensions
    #[arg(long, value_name = "MODEL", conflicts_with = "cases", value_parser = PossibleValuesParser::new(case::models().iter().map(|model| model.name.as_str())).map(|name| name.to_owned()), hide_possible_values = true)]
    layers_of: Option<String>,
    /// Read cases from DIR instead of the built-in ones
    #[arg(long = "cases", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Use weights and router of a checkpoint, gpt-oss in MXFP4 or any in NVFP4: a .safetensors file, or the index of a sharded
    /// checkpoint
    #[arg(long, value_name = "FILE", requires_all = ["layer", "cases"])]
    weights: Option<PathBuf>,
    /// Layer of --weights
    #[arg(long, value_name = "L", requires = "weights")]
    layer: Option<usize>,
    #[command(flatten)]
    runner: RunnerArgs,
    /// Write all tensors of the selected case to FILE
    #[arg(long, value_name = "FILE.safetensors")]
    dump: Option<PathBuf>,
    /// Reduce the first failing trial to the smallest case that fails at the same stage, and print its file
    #[arg(long)]
    shrink: bool,
    /// Run no trial; plant N random single-byte faults in a GEMM of gpt-oss dimensions and report how many each data set
    /// detects
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    faults: Option<u64>,
    /// Operand formats of the GEMMs (repeatable): only the cases with these or, with --case, that case with each of them
    #[arg(long = "pair", value_name = "PAIR", value_parser = moe_formats::pair_parser())]
    pairs: Vec<FormatPair>,
    /// Output format [default: text]
    #[arg(long, value_name = "FORM", value_parser = moe_formats::parser(FORMATS))]
    format: Vec<Word>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Selects cases by operand formats. Cases that were `named` run in each of the formats; otherwise only cases that have one of them
/// are selected.
fn of_pairs<'a>(cases: &[&'a Case], pairs: &[FormatPair], named: bool) -> Vec<Cow<'a, Case>> {
    if pairs.is_empty() {
        return cases.iter().map(|case| Cow::Borrowed(*case)).collect();
    }
    if !named {
        let asked = cases.iter().filter(|case| pairs.contains(&case.pair));
        return asked.map(|case| Cow::Borrowed(*case)).collect();
    }
    let of = |case: &&'a Case, pair: FormatPair| match case.pair == pair {
        true => Cow::Borrowed(*case),
        false => Cow::Owned(Case {
            pair,
            name: format!("{}-{}", case.name, pair.word()),
            // Only NVFP4 activations have some of the rules and a global scale.
            scale_rule: if case.scale_rule.suits(pair.activation()) {
                case.scale_rule
            } else {
                ScaleRule::default()
            },
            global_scale: if pair.activation().has_global() {
                case.global_scale
            } else {
                GlobalScale::default()
            },
            ..(*case).clone()
        }),
    };
    cases.iter().flat_map(|case| pairs.iter().map(move |pair| of(case, *pair))).collect()
}

/// Returns the cases with the dimensions of a model or, if there is none, a case made of them.
fn cases_of_model(library: &case::Library, name: &str) -> Result<Vec<Case>, CliError> {
    let of_it = library.cases.iter().filter(|case| case.model.as_deref() == Some(name));
    let cases: Vec<Case> = of_it.cloned().collect();
    if !cases.is_empty() {
        return Ok(cases);
    }
    let about = format!("One token through one layer of {name}.");
    Ok(vec![Case { about, configurations: Configurations::One, ..case::of_model(name)? }])
}

/// Runs `moe`.
pub(super) fn moe(args: &MoeArgs, context: &Context<'_>) -> Result<(), CliError> {
    let library = match &args.folder {
        Some(folder) => case::Library::load(folder)?,
        None => case::library(),
    };
    for problem in &library.problems {
        output::tell(&format!("error: {problem}"));
    }
    let (format, older) = moe_formats::split(&args.format)?;
    if let Some(pair) = older.first() {
        let text = format!("`--format {0}` names operand formats: write `--pair {0}`", pair.word());
        context.sink.emit(Event::Warning { text });
    }
    let pairs: Vec<FormatPair> = args.pairs.iter().copied().chain(older).collect();
    let of_model = match &args.layers_of {
        Some(name) => cases_of_model(&library, name)?,
        None => Vec::new(),
    };
    let named = match &args.layers_of {
        Some(_) => of_model.iter().collect(),
        None => args.trials.cases(&library)?,
    };
    let paired = of_pairs(&named, &pairs, args.layers_of.is_some() || !args.trials.cases.is_empty());
    let cases: Vec<&Case> = paired.iter().map(AsRef::as_ref).collect();
    if let Some(count) = args.faults {
        let pairs = if pairs.is_empty() { vec![FormatPair::default()] } else { pairs };
        let rows: Vec<_> =
            pairs.iter().map(|pair| single_byte::faults(*pair, count)).collect::<Result<_, _>>()?;
        return output::write(&report::evidence_text(&[], &[], &rows), &args.output);
    }
    if args.list {
        let rows: Vec<report::Named<'_>> =
            cases.iter().map(|c| (c.name.as_str(), c.about.as_str())).collect();
        return output::write(&listed(&rows, format)?, &args.output);
    }
    let kernels = args.trials.kernels()?;
    let mut resolved = args.runner.resolved(
        args.trials.toolkit.as_deref(),
        args.trials.targets()?,
        args.trials.names_no_target(),
        context,
    )?;
    let (targets, limits) = (resolved.targets.clone(), resolved.limits);
    let toolchain = resolved.toolchain.take();
    let runner = args.runner.runner(&mut resolved, &kernels, context)?;
    let mut asked = args.trials.trials(&cases, &targets, &kernels);
    if let (Some(path), Some(layer)) = (&args.weights, args.layer) {
        let layer = Layer::open(path, layer)?;
        cases.iter().try_for_each(|case| layer.fits(case))?;
        let layer = Arc::new(layer);
        for trial in asked.iter_mut().flat_map(|(_, trials)| trials) {
            if let Some(of) = trial.as_family::<Trial>() {
                *trial = Arc::new(Trial { layer: Some(Arc::clone(&layer)), ..of.clone() });
            }
        }
    }
    if let Some(path) = &args.dump {
        let [_] = cases.as_slice() else { return Err(MoeArgsError::Dump.into()) };
        asked.truncate(1);
        if let Some((target, trials)) = asked.first_mut() {
            *trials = job::admitted(trials, &kernels, toolchain.as_ref(), *target, limits)?;
            trials.retain(|t| t.blocked().is_none());
            trials.truncate(1);
            if let Some(trial) = trials.first().and_then(|trial| trial.as_family::<Trial>()) {
                dump(&runner, trial, *target, path)?;
            }
        }
    }
    let ran = job::run(&runner, &asked, toolchain.as_ref(), limits, |_| true, (None, context.sink))?;
    if args.shrink && ran.rows.iter().any(|row| !row.conforms()) {
        return print_smallest(&runner, &ran, again, &args.output);
    }
    let all = args.trials.completeness(&cases, &targets, &ran.rows);
    conclude(&ran, &runner, &kernels, all, library.problems.len(), (format, &args.output))
}

/// The command that runs the case of a trial from its file again.
fn again(trial: &dyn FamilyTrial, target: Target) -> String {
    let options = trial.as_family::<Trial>().map_or_else(String::new, |trial| {
        format!("--tile {} --kernel-path {} --load {} ", trial.tile, trial.path.word(), trial.load.word())
    });
    format!("sm121probe moe --cases DIR {options}--target {target}")
}

/// Runs a trial and writes all of its tensors.
fn dump(runner: &Runner<'_>, trial: &Trial, target: Target, path: &Path) -> Result<(), CliError> {
    let outcome = family::outcome(runner, trial, target)?;
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

/// What the arguments of `moe` cannot mean.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum MoeArgsError {
    #[error("--dump writes one case: name it with --case")]
    Dump,
}

impl CommandError for MoeArgsError {
    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}
