//! `judge`: applies the reference to tensors that another stack produced.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::args::OutputArgs;
use super::error::CliError;
use super::findings::Findings;
use super::format::{self, Formats};
use super::output;
use crate::frame::family::Family as _;
use crate::moe::family::MOE;
use crate::moe::{Contract, Judgement, judge_dump, tensors};
use crate::record::{CodeBy, Completeness, Incomplete, TrialRow, first_line};
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
    (Format::Csv, "The rows of `moe --format csv`; a result that is not decided is `undetermined`"),
    (Format::Json, "The trial as JSON, with `incomplete`"),
];

/// Runs `judge`.
pub(super) fn judge_file(args: &JudgeArgs) -> Result<(), CliError> {
    let dump = tensors::read(&args.file)?;
    let contract = Contract::of_dump(&dump.tensors, &dump.metadata)?;
    let judgement = judge_dump(&contract, &dump)?;
    let said = |key: &str| dump.metadata.get(key).cloned().unwrap_or_default();
    let stem = || args.file.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let trial = TrialRow {
        case: Some(said("case")).filter(|c| !c.is_empty()).unwrap_or_else(stem),
        family: MOE.name().to_owned(),
        configuration: said("tile").into(),
        depth: 0,
        target: said("target").as_str().into(),
        device: "dump".to_owned(),
        remark: String::new(),
        results: judgement.results.clone(),
        code: CodeBy::Nobody,
        checks: Vec::new(),
    };
    let incomplete = incomplete(&judgement);
    let text = match args.format {
        Format::Text => first_line(incomplete.as_ref()) + &report::stages_text(&trial.results),
        Format::Csv => report::trials_csv(std::slice::from_ref(&trial)),
        Format::Json => {
            let judged = Judged { trial: &trial, incomplete: incomplete.as_ref() };
            serde_json::to_string_pretty(&judged).map_err(|e| CliError::Output(e.into()))? + "\n"
        }
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    if trial.first_wrong().is_some() {
        return Err(Findings::Trials(1).into());
    }
    incomplete.map_or(Ok(()), |incomplete| Err(incomplete.into()))
}

/// The trial, and what was not decided.
#[derive(Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    trial: &'a TrialRow,
    incomplete: Option<&'a Incomplete>,
}

/// Returns what was not decided, with the tensors that would decide.
fn incomplete(judgement: &Judgement) -> Option<Incomplete> {
    let mut all = Completeness::of_checks(usize::from(judgement.is_of_something()));
    judgement.gaps.iter().for_each(|gap| all.add_gap(gap.to_string()));
    all.incomplete("no stage has both its inputs and its output in the file")
}
