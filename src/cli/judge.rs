//! `judge`: applies the reference of a family to tensors that another stack produced.

use std::path::PathBuf;

use clap::Args;
use miette::Diagnostic;
use serde::Serialize;

use super::args::OutputArgs;
use super::error::{CliError, CommandError};
use super::exit;
use super::findings::Findings;
use super::format::{self, Formats};
use super::output;
use crate::attention::dump::Contents;
use crate::attention::{self, AttentionError};
use crate::frame::diagnosis::Diagnosis;
use crate::frame::effort::Effort;
use crate::frame::family::Family as _;
use crate::moe::family::MOE;
use crate::moe::{Contract, Judgement, judge_dump, tensors};
use crate::record::{CodeBy, Completeness, Elapsed, Incomplete, StageResult, TrialRow, Verdict, first_line};
use crate::report::{self, Format};

/// Arguments of `judge`.
#[derive(Debug, Args)]
pub(super) struct JudgeArgs {
    /// Tensors of a run, with any subset of the names of the dump format (docs/dump.md)
    file: PathBuf,
    /// Judge every element of a large result, even if a sample of it is wrong already
    #[arg(long)]
    all: bool,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

impl JudgeArgs {
    const fn effort(&self) -> Effort {
        if self.all { Effort::Every } else { Effort::UntilWrong }
    }
}

const FORMATS: &Formats = &[
    (Format::Text, "Every stage, in words"),
    (Format::Csv, "The rows of `moe --format csv`; a result that is not decided is `undetermined`"),
    (Format::Json, "The trial as JSON, with `incomplete`"),
];

/// Runs `judge`.
pub(super) fn judge_file(args: &JudgeArgs) -> Result<(), CliError> {
    match attention::dump::is_attention(&args.file).map_err(|error| unusable(args, error))? {
        true => judge_attention(args),
        false => judge_moe(args),
    }
}

/// A dump of attention that cannot be judged.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{}: {error}", path.display())]
struct UnusableDump {
    path: PathBuf,
    error: AttentionError,
}

impl CommandError for UnusableDump {
    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}

fn unusable(args: &JudgeArgs, error: AttentionError) -> UnusableDump {
    UnusableDump { path: args.file.clone(), error }
}

/// The name of a dump without a case.
fn stem(args: &JudgeArgs) -> String {
    args.file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The row of a dump's verdicts.
fn row(family: &str, case: String, configuration: &str, target: &str, results: &[StageResult]) -> TrialRow {
    TrialRow {
        case,
        family: family.to_owned(),
        configuration: configuration.to_owned().into(),
        depth: 0,
        target: target.into(),
        device: "dump".to_owned(),
        remark: String::new(),
        results: results.to_vec(),
        code: CodeBy::Nobody,
        checks: Vec::new(),
        seconds: Elapsed::default(),
    }
}

/// Judges tensors of attention, and explains what is wrong.
fn judge_attention(args: &JudgeArgs) -> Result<(), CliError> {
    let contents = attention::dump::read(&args.file).map_err(|error| unusable(args, error))?;
    let judgement =
        attention::judge_contents(&contents, args.effort()).map_err(|error| unusable(args, error))?;
    let said = |key: &str| match &contents {
        Contents::Attention(dumps) => {
            dumps.first().and_then(|dump| dump.metadata.get(key)).cloned().unwrap_or_default()
        }
        Contents::Written(_) => String::new(),
    };
    let case = judgement.case.clone().unwrap_or_else(|| stem(args));
    let trial = row(attention::FAMILY, case, &said("configuration"), &said("target"), &judgement.results);
    let judged = trial.results.iter().filter(|result| result.verdict != Verdict::Skipped).count();
    let mut all = Completeness::of_checks(judged);
    judgement.gaps.iter().for_each(|gap| all.add_gap(gap.clone()));
    let incomplete = all.incomplete("neither `out` nor `lse` is in the file");
    let diagnosis = judgement.diagnosis.as_ref();
    conclude(args, &trial, incomplete, diagnosis)
}

/// Judges tensors of the fused MoE.
fn judge_moe(args: &JudgeArgs) -> Result<(), CliError> {
    let dump = tensors::read(&args.file)?;
    let contract = Contract::of_dump(&dump.tensors, &dump.metadata)?;
    let judgement = judge_dump(&contract, &dump, args.effort())?;
    let said = |key: &str| dump.metadata.get(key).cloned().unwrap_or_default();
    let case = Some(said("case")).filter(|case| !case.is_empty()).unwrap_or_else(|| stem(args));
    let trial = row(MOE.name(), case, &said("tile"), &said("target"), &judgement.results);
    conclude(args, &trial, incomplete(&judgement), judgement.diagnosis.as_ref())
}

/// Writes the verdicts and returns the first thing that is wrong.
fn conclude(
    args: &JudgeArgs,
    trial: &TrialRow,
    incomplete: Option<Incomplete>,
    diagnosis: Option<&Diagnosis>,
) -> Result<(), CliError> {
    let text = match args.format {
        Format::Text => {
            let explained = diagnosis.map(Diagnosis::text).unwrap_or_default();
            first_line(incomplete.as_ref()) + &report::stages_text(&trial.results) + &explained
        }
        Format::Csv => report::trials_csv(std::slice::from_ref(trial)),
        Format::Json => {
            let judged = Judged { trial, incomplete: incomplete.as_ref(), diagnosis };
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

/// The trial, what was not decided, and what explains it.
#[derive(Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    trial: &'a TrialRow,
    incomplete: Option<&'a Incomplete>,
    /// What explains wrong elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<&'a Diagnosis>,
}

/// Returns what was not decided, with the tensors that would decide.
fn incomplete(judgement: &Judgement) -> Option<Incomplete> {
    let mut all = Completeness::of_checks(usize::from(judgement.is_of_something()));
    judgement.gaps.iter().for_each(|gap| all.add_gap(gap.to_string()));
    all.incomplete("no stage has both its inputs and its output in the file")
}
