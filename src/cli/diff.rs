//! `diff`: prints the changes between two records.

use std::path::PathBuf;

use clap::Args;
use miette::Diagnostic;

use super::args::OutputArgs;
use super::error::{CliError, CommandError};
use super::exit;
use super::format::{self, Formats};
use super::output;
use crate::gate;
use crate::report::{self, Format};

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// Old record, as written by `--format json`
    old: PathBuf,
    /// New record
    new: PathBuf,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

const FORMATS: &Formats = &[
    (Format::Text, "For the terminal; long lists are truncated"),
    (Format::Md, "Markdown"),
    (Format::Json, "Groups of cells and every other changed answer as JSON"),
];

/// Runs `diff`.
pub(super) fn diff(args: &DiffArgs) -> Result<(), CliError> {
    let (old, new) = rayon::join(|| gate::read(&args.old), || gate::read(&args.new));
    let (old, new) = (old?, new?);
    let diff = gate::diff(&old, &new);
    let text = match args.format {
        Format::Text => report::diff_text(&diff),
        Format::Md => report::diff_markdown(&diff),
        Format::Json => report::diff_json(&diff).map_err(|e| CliError::Output(e.into()))?,
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    match diff.worse() + diff.regressions.len() {
        0 => diff.incomplete().map_or(Ok(()), |incomplete| Err(incomplete.into())),
        _ => Err(DiffError::Worse(report::diff_summary(&diff)).into()),
    }
}

/// What `diff` found.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum DiffError {
    #[error("worse than before: {0}")]
    #[diagnostic(help("the lines above name what is worse or missing"))]
    Worse(String),
}

impl CommandError for DiffError {
    fn exit_code(&self) -> u8 {
        exit::BASELINE_CONTRADICTED
    }
}
