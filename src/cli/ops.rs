//! `ops`: lists the emulated instructions.

use std::collections::BTreeMap;

use clap::Args;
use emulator::{self, Coverage};

use super::args::OutputArgs;
use super::error::CliError;
use super::format::{self, Formats};
use super::output;
use crate::report::{self, Format, InstructionForm, InstructionState, Instructions};
use crate::snippet::Library;

/// The target and PTX version for which snippets are decoded and shown.
pub(super) const TARGET: &str = "sm_121a";
pub(super) const ISA: &str = "9.5";

/// Arguments of `ops`.
#[derive(Debug, Args)]
pub(super) struct OpsArgs {
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    /// List every snippet variant that does not decode, with the reason
    #[arg(long)]
    missing: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const FORMATS: &Formats = &[
    (Format::Text, "For the terminal"),
    (Format::Csv, "One row per row of the table"),
    (Format::Md, "Markdown"),
];

/// Runs `ops`.
pub(super) fn ops(args: &OpsArgs) -> Result<(), CliError> {
    let text = match args.format {
        Format::Csv => report::instructions_csv(&forms()),
        Format::Text => report::instructions_text(&decoded()?, args.missing),
        Format::Md => report::instructions_markdown(&decoded()?, args.missing),
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)
}

/// The rows of the emulator's instruction table, in the manual's order.
fn forms() -> Vec<InstructionForm> {
    let of = |row: &emulator::FormRow| InstructionForm {
        chapter: row.chapter,
        opcode: row.opcode,
        forms: row.forms,
        state: match row.coverage() {
            Coverage::Implemented => InstructionState::Implemented,
            Coverage::Planned => InstructionState::Planned,
            Coverage::OutOfScope => InstructionState::OutOfScope,
        },
    };
    emulator::coverage().map(of).collect()
}

/// Decodes every variant of the built-in snippets.
fn decoded() -> Result<Instructions, CliError> {
    let library = Library::embedded();
    let (isa, target) = (ISA.parse().map_err(version)?, TARGET.parse()?);
    let mut families: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut missing = Vec::new();
    for variant in &library.variants {
        let family = &library.snippets[variant.snippet].family;
        let count = families.entry(family.clone()).or_default();
        count.0 += 1;
        match emulator::load(&variant.code.standalone(isa, target)) {
            Ok(_) => count.1 += 1,
            Err(stop) => missing.push((variant.id.clone(), stop.to_string())),
        }
    }
    Ok(Instructions { forms: forms(), target: TARGET.to_owned(), families, missing })
}

pub(super) fn version(error: ptx::arch::BadVersion) -> CliError {
    CliError::Output(std::io::Error::other(error))
}
