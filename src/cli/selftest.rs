//! `selftest`: recorded answers against the emulator.

use std::path::PathBuf;

use clap::Args;
use vectors::Recording;

use super::args::OutputArgs;
use super::error::CliError;
use super::format::{self, Formats};
use super::output;
use super::vectors::FreshArgs;
use crate::job::Context;
use crate::report::{self, Format};
use crate::selftest;

/// Arguments of `selftest`.
#[derive(Debug, Args)]
pub(super) struct SelftestArgs {
    /// Use the recording in this folder or zip archive instead of the built-in ones (repeatable)
    #[arg(long, value_name = "DIR")]
    vectors: Vec<PathBuf>,
    #[command(flatten)]
    fresh: FreshArgs,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

/// The formats.
const FORMATS: &Formats =
    &[(Format::Text, "What is not bit-exact, and a summary"), (Format::Csv, "One row per instruction")];

pub(super) fn selftest(args: &SelftestArgs, context: &Context<'_>) -> Result<(), CliError> {
    let mut recordings = if args.vectors.is_empty() {
        vectors::builtin()?
    } else {
        args.vectors.iter().map(|path| Recording::load(path)).collect::<Result<_, _>>()?
    };
    if args.fresh.asks_a_gpu() {
        let (fresh, _) = args.fresh.record(&selftest::forms(&recordings), context)?;
        super::vectors::tell(&fresh, context.sink);
        if let Some((op, failure)) = fresh.failed.first() {
            return Err(CliError::Answer(op.clone(), failure.clone()));
        }
        recordings = vec![fresh.recording];
    }
    let results = selftest::run(&recordings);
    let text = match args.format {
        Format::Text => report::selftest_text(&results),
        Format::Csv => report::selftest_csv(&results),
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    match results.iter().filter(|r| !r.verdict.passes()).count() {
        0 => Ok(()),
        failed => Err(CliError::Selftest(failed)),
    }
}
