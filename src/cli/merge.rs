//! `merge`: combines records of many machines, or of the shards of one job, into one.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use clap::Args;
use miette::Diagnostic;
use rayon::prelude::*;

use super::args::OutputArgs;
use super::error::{CliError, CommandError};
use super::exit;
use super::format::{self, Formats};
use super::output;
use crate::gate::{self, Disagreement, Merger};
use crate::record::{Record, RecordError, counted};
use crate::report::{self, Format};

/// Number of records read at a time, so that those of a fleet are not in memory all at once.
const AT_ONCE: usize = 8;

/// Arguments of `merge`.
#[derive(Debug, Args)]
pub(super) struct MergeArgs {
    /// Records, and folders whose .json files are records
    #[arg(required = true, value_name = "RECORD|DIR")]
    records: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

const FORMATS: &Formats = &[
    (Format::Text, "For the terminal: devices by model, driver and toolkit, and conflicts"),
    (Format::Md, "The same as Markdown"),
    (Format::Json, "The merged record, with its conflicts"),
];

/// Runs `merge`.
pub(super) fn merge(args: &MergeArgs) -> Result<(), CliError> {
    let mut files: VecDeque<PathBuf> = files(&args.records)?.into();
    let mut merger = Merger::new(Disagreement::Shown);
    while !files.is_empty() {
        let some: Vec<PathBuf> = files.drain(..files.len().min(AT_ONCE)).collect();
        let read: Vec<Result<Record, RecordError>> = some.par_iter().map(|path| gate::read(path)).collect();
        for (path, record) in some.iter().zip(read) {
            merger.add(&path.display().to_string(), record?);
        }
    }
    let fleet = merger.fleet();
    let merged = merger.finish();
    let text = match args.format {
        Format::Text => report::fleet_text(&fleet, &merged),
        Format::Md => report::fleet_markdown(&fleet, &merged),
        Format::Json => merged.to_json().map_err(|e| CliError::Output(e.into()))?,
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    match merged.conflicts.len() {
        0 => merged.incomplete().map_or(Ok(()), |incomplete| Err(incomplete.into())),
        n => Err(MergeError::Conflicts(n).into()),
    }
}

/// The named files and the files in named folders, in order.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut out = Vec::new();
    for path in named {
        if !path.is_dir() {
            out.push(path.clone());
            continue;
        }
        let fail = |source| RecordError::Read { path: path.clone(), source };
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(fail)? {
            let file = entry.map_err(fail)?.path();
            if file.extension().is_some_and(|e| e == "json") && is_file(&file) {
                inside.push(file);
            }
        }
        if inside.is_empty() {
            return Err(MergeError::NoRecords(path.display().to_string()).into());
        }
        inside.sort();
        out.extend(inside);
    }
    Ok(out)
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file())
}

/// Why `merge` does not exit with 0.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum MergeError {
    #[error("the records disagree about {}", counted(*.0, "answer"))]
    #[diagnostic(help("they are listed, and the merged record omits them; find out which record is right"))]
    Conflicts(usize),
    #[error("{0}: no record found; in a folder, the .json files are read")]
    NoRecords(String),
}

impl CommandError for MergeError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Conflicts(..) => exit::DOES_NOT_CONFORM,
            Self::NoRecords(..) => exit::INCOMPLETE,
        }
    }
}
