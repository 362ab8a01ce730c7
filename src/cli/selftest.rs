//! `selftest`: compares recorded results with the emulator.

use std::path::{Path, PathBuf};

use clap::Args;
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
use super::vectors::FreshArgs;
use crate::job::Context;
use crate::record::{Completeness, first_line};
use crate::report::{self, Format};
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
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

const FORMATS: &Formats =
    &[(Format::Text, "What is not bit-exact, and a summary"), (Format::Csv, "One row per instruction")];

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
    if args.fresh.asks_a_gpu() {
        let (fresh, _) = args.fresh.record(&selftest::forms(&recordings), context)?;
        super::vectors::tell(&fresh, context.sink);
        if let Some((op, failure)) = fresh.failed.first() {
            return Err(OnGpuError::Answer(op.clone(), failure.clone()).into());
        }
        recordings = vec![fresh.recording];
    }
    let results = selftest::run(&recordings, args.hardware.model);
    let compared = Completeness::of_checks(results.iter().map(|r| r.outputs).sum());
    let incomplete = compared.incomplete("the recordings have no answer of an instruction");
    let text = match args.format {
        Format::Text => first_line(incomplete.as_ref()) + &report::selftest_text(&results),
        Format::Csv => report::selftest_csv(&results),
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    match results.iter().filter(|r| !r.verdict.passes()).count() {
        0 => incomplete.map_or(Ok(()), |incomplete| Err(incomplete.into())),
        failed => Err(SelftestError::Selftest(failed).into()),
    }
}

/// What `selftest` found.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum SelftestError {
    #[error("{0} recorded instructions fail")]
    Selftest(usize),
}

impl CommandError for SelftestError {
    fn exit_code(&self) -> u8 {
        exit::DOES_NOT_CONFORM
    }
}
