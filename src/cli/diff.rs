//! `diff`: what changed between two records.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::args::OutputArgs;
use super::error::CliError;
use super::output;
use crate::gate;
use crate::report;

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// Old record, as written by `--report json`
    old: PathBuf,
    /// New record
    new: PathBuf,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: DiffForm,
    #[command(flatten)]
    output: OutputArgs,
}

/// Forms of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DiffForm {
    /// For the terminal; long lists are truncated
    Text,
    /// Markdown.
    Md,
    /// Groups of cells and every other changed answer as JSON
    Json,
}

/// `diff`.
pub(super) fn diff(args: &DiffArgs) -> Result<(), CliError> {
    let (old, new) = rayon::join(|| gate::read(&args.old), || gate::read(&args.new));
    let (old, new) = (old?, new?);
    let diff = gate::diff(&old, &new);
    let text = match args.format {
        DiffForm::Text => report::diff_text(&diff),
        DiffForm::Md => report::diff_markdown(&diff),
        DiffForm::Json => report::diff_json(&diff).map_err(|e| CliError::Output(e.into()))?,
    };
    output::write(&text, &args.output)?;
    match diff.worse() + diff.regressions.len() {
        0 => Ok(()),
        _ => Err(CliError::Worse(report::diff_summary(&diff))),
    }
}
