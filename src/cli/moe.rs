//! `moe`: runs the pipeline, tile by tile, and compares it with its reference.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::Args;
use ptx::arch::Target;

use super::args::OutputArgs;
use super::contract::ContractArgs;
use super::device::DeviceArgs;
use super::error::CliError;
use super::format::{self, Formats};
use super::model::ModelArgs;
use super::moe_formats::{self, Word};
use super::output;
use super::ways::TrialArgs;
use crate::case::{self, Case, FormatPair, GlobalScale, ScaleRule};
use crate::job::{self, Context, JobError, Ran, Toolchain};
use crate::moe::admission::Limits;
use crate::moe::checkpoint::Layer;
use crate::moe::plan::Trial;
use crate::moe::readings::Asked;
use crate::moe::runner::Runner;
use crate::moe::witness::single_byte;
use crate::moe::{shrink, tensors};
use crate::record::{Completeness, first_line};
use crate::report::{self, Format};
use crate::store::Store;
use crate::toolkit::Contract;

/// Arguments of `moe`.
#[derive(Debug, Args)]
pub(super) struct MoeArgs {
    /// List the cases
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    trials: TrialArgs,
    /// Read cases from DIR instead of the built-in ones
    #[arg(long = "cases", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Seed of the data [default: the case's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Use weights and router of a checkpoint, gpt-oss in MXFP4 or any in NVFP4: a .safetensors file, or the index of a sharded
    /// checkpoint
    #[arg(long, value_name = "FILE", requires_all = ["layer", "cases"])]
    weights: Option<PathBuf>,
    /// Layer of --weights
    #[arg(long, value_name = "L", requires = "weights")]
    layer: Option<usize>,
    /// Number of schedules of warps and CTAs to run on the emulator; their results must be equal
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    schedules: u64,
    #[command(flatten)]
    hardware: ModelArgs,
    #[command(flatten)]
    contraction: ContractArgs,
    #[command(flatten)]
    device: DeviceArgs,
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
    /// Output format [default: text], or operand formats of the GEMMs (repeatable): only the cases with these or, with --case,
    /// that case with each of them
    #[arg(long, value_name = "FORM", value_parser = moe_formats::parser(FORMATS))]
    format: Vec<Word>,
    #[command(flatten)]
    output: OutputArgs,
}

const FORMATS: &Formats = &[
    (Format::Text, "What does not conform, and the counts"),
    (Format::Csv, "One row per trial and stage"),
    (Format::Json, "The trials as JSON"),
    (Format::Md, "One row per trial, as Markdown"),
];

/// Formats the cases for `--list`.
fn listed(cases: &[&Case], format: Format) -> Result<String, CliError> {
    const HEAD: [&str; 2] = ["case", "about"];
    let rows: Vec<report::Named<'_>> = cases.iter().map(|c| (c.name.as_str(), c.about.as_str())).collect();
    let object = |(case, about): &report::Named<'_>| serde_json::json!({ "case": case, "about": about });
    Ok(match format {
        Format::Text => report::listing_text(&rows),
        Format::Csv => report::listing_csv(HEAD, &rows),
        Format::Md => report::listing_markdown(HEAD, &rows),
        Format::Json => {
            let objects: Vec<_> = rows.iter().map(object).collect();
            serde_json::to_string_pretty(&objects).map_err(|e| CliError::Output(e.into()))? + "\n"
        }
        other => return Err(format::lacks(other, FORMATS)),
    })
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

/// Runs `moe`.
pub(super) fn moe(args: &MoeArgs, context: &Context<'_>) -> Result<(), CliError> {
    let library = match &args.folder {
        Some(folder) => case::Library::load(folder)?,
        None => case::library(),
    };
    for problem in &library.problems {
        eprintln!("error: {problem}");
    }
    let (format, pairs) = moe_formats::split(&args.format)?;
    let named = args.trials.cases(&library)?;
    let paired = of_pairs(&named, &pairs, !args.trials.cases.is_empty());
    let cases: Vec<&Case> = paired.iter().map(AsRef::as_ref).collect();
    if let Some(count) = args.faults {
        let pairs = if pairs.is_empty() { vec![FormatPair::default()] } else { pairs };
        let rows: Vec<_> =
            pairs.iter().map(|pair| single_byte::faults(*pair, count)).collect::<Result<_, _>>()?;
        return output::write(&report::evidence_text(&[], &[], &rows), &args.output);
    }
    if args.list {
        return output::write(&listed(&cases, format)?, &args.output);
    }
    let kernels = args.trials.kernels()?;
    let mut targets = args.trials.targets()?;
    let store = Store::open(None).ok();
    let gpu = args.device.gpu(context)?;
    if let Some(gpu) = &gpu {
        if args.trials.names_no_target() {
            targets = vec![gpu.about().target()];
        }
        if let Some(target) = targets.iter().find(|t| !t.cubin_runs_on(gpu.about().target())) {
            return Err(JobError::DeviceTarget(target.to_string(), gpu.about().architecture()).into());
        }
    }
    let limits = gpu.as_ref().map_or(Limits::SM12X, |gpu| job::limits(gpu.about()));
    let nvrtc = job::nvrtc(args.trials.toolkit.as_deref(), store.as_ref(), context.sink)?;
    let toolchain = Toolchain::find(args.trials.toolkit.as_deref(), &targets, store.as_ref(), context.sink)?;
    let mut runner = Runner::new(&kernels, &nvrtc, store.as_ref(), context.program.clone());
    let code = job::chain(toolchain.as_ref().map(|t| &t.toolkit), store.as_ref());
    if let Some(gpu) = gpu {
        runner = runner.on(Arc::new(Mutex::new(gpu.with_chain(code))));
    }
    (runner.seed, runner.schedules) = (args.seed, args.schedules);
    runner.model = args.hardware.model;
    runner.contract = match args.contraction.asked() {
        Some(contract) => Some(Asked {
            contract,
            ptxas: match contract {
                Contract::AsPtxas => job::ptxas(None, store.as_ref())?,
                _ => None,
            },
        }),
        None => None,
    };
    if let (Some(path), Some(layer)) = (&args.weights, args.layer) {
        let layer = Layer::open(path, layer)?;
        cases.iter().try_for_each(|case| layer.fits(case))?;
        runner.layer = Some(layer);
    }
    let mut asked = args.trials.trials(&cases, &targets, &kernels);
    if let Some(path) = &args.dump {
        let [_] = cases.as_slice() else { return Err(CliError::Dump) };
        asked.truncate(1);
        if let Some((target, trials)) = asked.first_mut() {
            *trials = job::admitted(trials, &kernels, toolchain.as_ref(), *target, limits)?;
            trials.retain(|t| t.config.is_ok());
            trials.truncate(1);
            if let Some(trial) = trials.first() {
                dump(&runner, trial, *target, path)?;
            }
        }
    }
    let ran = job::run(&runner, &asked, toolchain.as_ref(), limits, |_| true, (None, context.sink))?;
    let rows = &ran.rows;
    let mut all = args.trials.completeness(&cases, &targets, rows);
    if let Some(files) = ran.idle_folder(&kernels)? {
        // What ran is not what the user wants to know about.
        all = Completeness::default();
        all.add_gap(format!("no trial ran a kernel of the folder ({})", files.join(", ")));
    }
    let incomplete = all.incomplete("no trial is selected");
    if args.shrink && rows.iter().any(|row| !row.conforms()) {
        return shrink(&runner, &ran, &args.output);
    }
    let text = match format {
        Format::Text => {
            let evidence = report::evidence_text(&ran.exercised(&runner), &ran.fault_coverage(&runner)?, &[]);
            first_line(incomplete.as_ref()) + &report::trials_text(rows) + &evidence
        }
        Format::Csv => report::trials_csv(rows),
        Format::Md => report::trials_markdown(rows),
        Format::Json => serde_json::to_string_pretty(rows).map_err(|e| CliError::Output(e.into()))? + "\n",
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    if !library.problems.is_empty() {
        return Err(JobError::UnusableCases(library.problems.len()).into());
    }
    match rows.iter().filter(|r| !r.conforms()).count() {
        0 => incomplete.map_or(Ok(()), |incomplete| Err(incomplete.into())),
        wrong => Err(CliError::Trials(wrong)),
    }
}

/// Prints the smallest case that fails at the same stage as the first failing trial.
fn shrink(runner: &Runner<'_>, ran: &Ran<'_>, output: &OutputArgs) -> Result<(), CliError> {
    let failed = ran
        .rows
        .iter()
        .zip(&ran.trials)
        .find_map(|(row, t)| Some((row.first_wrong()?.stage, *row.target.known()?, t)));
    let Some((stage, target, trial)) = failed else {
        // A check of a device fails although every stage conforms: there is no stage that a smaller case could keep.
        return Err(CliError::Trials(ran.rows.iter().filter(|row| !row.conforms()).count()));
    };
    let mut fails = |case: &Case| {
        let smaller = Trial { case: Cow::Owned(Case { minimum: None, ..case.clone() }), ..trial.clone() };
        let row = runner.run(&smaller, target).ok()?;
        Some(row.first_wrong()?.stage)
    };
    let small = shrink::shrink(&trial.case, stage, &mut fails);
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

/// Runs a trial and writes all of its tensors.
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
