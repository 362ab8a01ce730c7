//! `selftest`: compares recorded results with the emulator.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use clap::Args;
use compiler::fuzz::{Generator, GeneratorError};
use emulator::device::Device as _;
use miette::Diagnostic;
use vectors::Recording;
use vectors::digests::Digests;

use super::args::OutputArgs;
use super::error::{CliError, CommandError};
use super::exit;
use super::format::{self, Formats};
use super::model::ModelArgs;
use super::on_gpu::OnGpuError;
use super::output;
use super::vectors::{Asked, FreshArgs};
use crate::job::build::Build;
use crate::job::campaign::{Ask, Campaign, Kernels};
use crate::job::ptxas::Assembler;
use crate::job::{self, Context};
use crate::record::{Completeness, FuzzTable, Matrix, Record, SelftestRow, first_line};
use crate::report::{self, Format, TOOL};
use crate::selftest;

/// Arguments of `selftest`.
#[derive(Debug, Args)]
pub(super) struct SelftestArgs {
    /// Use the recording in this folder or zip archive instead of the built-in ones (repeatable)
    #[arg(long, value_name = "DIR")]
    vectors: Vec<PathBuf>,
    /// Compare the emulator's digests of the special functions for all inputs with those in this file, those of --device gpu:N, or the built-in ones of an H200
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, conflicts_with_all = ["vectors", "model"])]
    exhaustive: Option<Option<PathBuf>>,
    #[command(flatten)]
    hardware: ModelArgs,
    #[command(flatten)]
    fresh: FreshArgs,
    /// With --device gpu:N: time for random kernels with block-scaled `mma`, in seconds [default: 60 if the GPU is an SM12x, else 0; with
    /// --cases N, a second for every 128 cases and at most 60]
    #[arg(long, value_name = "SECONDS")]
    fuzz_seconds: Option<u64>,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

const FORMATS: &Formats = &[
    (Format::Text, "What is not bit-exact, and a summary"),
    (Format::Csv, "One row per instruction"),
    (Format::Json, "A record with every instruction, and the random kernels"),
];

/// Runs `selftest --exhaustive`.
fn exhaustive(args: &SelftestArgs, file: Option<&Path>, context: &Context<'_>) -> Result<(), CliError> {
    let recorded = match file {
        _ if args.fresh.asks_a_gpu() => args.fresh.digests(context)?.0,
        Some(file) => Digests::load(file)?,
        None => Digests::builtin()?,
    };
    let results = selftest::compare(&recorded, context.sink);
    let compared = Completeness::of_checks(results.len());
    let incomplete = compared.incomplete("the file has no digest of a function that is compared");
    let text = match args.format {
        Format::Text => first_line(incomplete.as_ref()) + &report::exhaustive_text(&results),
        Format::Csv => report::exhaustive_csv(&results),
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    match results.iter().filter(|r| !r.differ.is_empty()).count() {
        0 => incomplete.map_or(Ok(()), |incomplete| Err(incomplete.into())),
        failed => Err(SelftestError::Selftest(failed).into()),
    }
}

pub(super) fn selftest(args: &SelftestArgs, context: &Context<'_>) -> Result<(), CliError> {
    if let Some(file) = &args.exhaustive {
        return exhaustive(args, file.as_deref(), context);
    }
    let mut recordings = if args.vectors.is_empty() {
        vectors::builtin()?
    } else {
        args.vectors.iter().map(|path| Recording::load(path)).collect::<Result<_, _>>()?
    };
    let mut fuzzed = None;
    if args.fresh.asks_a_gpu() {
        let (fresh, asked) = args.fresh.record(&selftest::forms(&recordings), context)?;
        super::vectors::tell(&fresh, context.sink);
        if let Some((op, failure)) = fresh.failed.first() {
            return Err(OnGpuError::Answer(op.clone(), failure.clone()).into());
        }
        recordings = vec![fresh.recording];
        fuzzed = fuzz(args, asked, context)?;
    }
    let results = selftest::run(&recordings, args.hardware.model);
    let compared = Completeness::of_checks(results.iter().map(|r| r.outputs).sum());
    let incomplete = compared.incomplete("the recordings have no answer of an instruction");
    let text = match args.format {
        Format::Text => {
            let kernels = fuzzed.as_ref().map(random_kernels).unwrap_or_default();
            first_line(incomplete.as_ref()) + &report::selftest_text(&results) + &kernels
        }
        Format::Csv => report::selftest_csv(&results),
        Format::Json => {
            record(&results, fuzzed.as_ref()).to_json().map_err(|e| CliError::Output(e.into()))?
        }
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    let found = fuzzed.as_ref().map_or(0, |table| table.findings.len());
    match (results.iter().filter(|r| !r.verdict.passes()).count(), found) {
        (0, 0) => incomplete.map_or(Ok(()), |incomplete| Err(incomplete.into())),
        (0, found) => Err(SelftestError::Fuzz(found).into()),
        (failed, _) => Err(SelftestError::Selftest(failed).into()),
    }
}

/// The most seconds that random kernels take unless more are asked for.
const FUZZ: u64 = 60;
/// Cases for which random kernels take a second.
const CASES_A_SECOND: u64 = 128;
/// The levels of ptxas for random kernels.
const LEVELS: [u8; 2] = [1, 3];
/// The time after which one kernel is not made smaller any more.
const SHRINK_LIMIT: Duration = Duration::from_secs(20);
/// How many kernels are made smaller.
const SHRINKS: usize = 3;

/// Runs random kernels with block-scaled `mma`; `None` if they get no time.
fn fuzz(args: &SelftestArgs, asked: Asked, context: &Context<'_>) -> Result<Option<FuzzTable>, CliError> {
    let about = asked.gpu.about().clone();
    let target = about.target();
    let by_cases =
        args.fresh.cases().map_or(FUZZ, |cases| FUZZ.min(u64::from(cases).div_ceil(CASES_A_SECOND)));
    let is_sm12x = target.number / 10 == 12;
    let seconds = args.fuzz_seconds.unwrap_or(if is_sm12x { by_cases } else { 0 });
    if seconds == 0 {
        return Ok(None);
    }
    let mut builds = vec![Build::Driver(about.cuda.clone())];
    if let Some(toolkit) = &asked.gpu.chain().toolkit {
        builds.splice(0..0, LEVELS.map(|level| Build::Ptxas(toolkit.clone(), level)));
    }
    let assembler = Assembler::new(FUZZ_ASSEMBLY).map_err(CliError::Output)?;
    let isa = asked.ask.isa;
    let generator = Generator::new(isa, target).map_err(SelftestError::Generator)?;
    let mut generator = generator.of_block_scaled();
    let row = job::row(&asked.gpu.name(), &about);
    let mut table = FuzzTable::new(TOOL.to_owned(), Some(row), target, isa, asked.ask.seed);
    let device = Mutex::new(asked.gpu);
    let mut campaign = Campaign {
        assembler: &assembler,
        target,
        builds,
        device: Some(&device),
        shrink_limit: SHRINK_LIMIT,
        disassembler: super::sass::disassembler().ok(),
    };
    let time = Some(Duration::from_secs(seconds));
    let kernels = Kernels::Random { seed: table.seed, count: u64::MAX };
    let ask = Ask { kernels, time, shrinks: SHRINKS };
    let done = campaign.fuzz(&mut generator, &ask, &mut table, context.sink);
    done.map_err(|error| super::fuzz::failed(error, args.fresh.device()))?;
    Ok(Some(table))
}

/// The time limit of ptxas for a module of random kernels.
const FUZZ_ASSEMBLY: Duration = Duration::from_secs(120);

/// Random kernels in words, with the kernels of findings.
fn random_kernels(table: &FuzzTable) -> String {
    let mut out = "random kernels with block-scaled mma:\n".to_owned();
    for finding in &table.findings {
        _ = writeln!(out, "seed {}: {}: {}", finding.seed, finding.builds.join(", "), finding.what);
        finding.kernel.lines().for_each(|line| _ = writeln!(out, "    {line}"));
    }
    out + &report::fuzz_text(table)
}

/// The record of a run.
fn record(results: &[selftest::OpResult], fuzzed: Option<&FuzzTable>) -> Record {
    let mut record = Record::of_matrix(TOOL.to_owned(), Matrix::default());
    record.devices = fuzzed.and_then(|table| table.device.clone()).into_iter().collect();
    let row = |r: &selftest::OpResult| SelftestRow {
        device: r.device.clone(),
        op: r.op.clone(),
        cases: r.cases,
        outputs: r.outputs,
        mismatches: r.mismatches,
        verdict: r.verdict.word().to_owned(),
    };
    record.selftest = results.iter().map(row).collect();
    record.fuzzed = fuzzed.cloned().into_iter().collect();
    record
}

/// What `selftest` found.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum SelftestError {
    #[error("{0} recorded instructions fail")]
    Selftest(usize),
    #[error("{0} random kernels differ, and nothing known explains it")]
    Fuzz(usize),
    #[error(transparent)]
    Generator(GeneratorError),
}

impl CommandError for SelftestError {
    fn exit_code(&self) -> u8 {
        exit::DOES_NOT_CONFORM
    }
}
