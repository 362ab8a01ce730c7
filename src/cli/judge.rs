//! `judge`: applies the reference to tensors that another stack produced.

use std::path::PathBuf;

use clap::Args;

use super::args::OutputArgs;
use super::error::CliError;
use super::format::{self, Formats};
use super::output;
use crate::moe::{Contract, judge, tensors};
use crate::record::{CodeBy, ConfigurationKey, TrialRow, Verdict};
use crate::report::{self, Format};

/// Arguments of `judge`.
#[derive(Debug, Args)]
pub(super) struct JudgeArgs {
    /// Tensors of a run, with any subset of the names of the dump format (docs/dump.md)
    file: PathBuf,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

const FORMATS: &Formats = &[
    (Format::Text, "Every stage, in words"),
    (Format::Csv, "The rows of `moe --format csv`"),
    (Format::Json, "The trial as JSON"),
];

/// Runs `judge`.
pub(super) fn judge_file(args: &JudgeArgs) -> Result<(), CliError> {
    let dump = tensors::read(&args.file)?;
    let contract = Contract::of_dump(&dump.tensors, &dump.metadata)?;
    let said = |key: &str| dump.metadata.get(key).cloned().unwrap_or_default();
    let stem = || args.file.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let trial = TrialRow {
        case: Some(said("case")).filter(|c| !c.is_empty()).unwrap_or_else(stem),
        configuration: ConfigurationKey {
            tile: said("tile").as_str().into(),
            swap_ab: false,
            path: "".into(),
            load: "".into(),
        },
        stages: 0,
        target: said("target").as_str().into(),
        device: "dump".to_owned(),
        remark: String::new(),
        results: judge(&contract, &dump.tensors)?,
        code: CodeBy::Nobody,
        checks: Vec::new(),
    };
    let text = match args.format {
        Format::Text => report::stages_text(&trial.results),
        Format::Csv => report::trials_csv(std::slice::from_ref(&trial)),
        Format::Json => serde_json::to_string_pretty(&trial).map_err(|e| CliError::Output(e.into()))? + "\n",
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    match trial.verdict() {
        Verdict::Pass => Ok(()),
        _ if trial.first_wrong().is_some() => Err(CliError::Trials(1)),
        _ => Err(CliError::NothingJudged),
    }
}
