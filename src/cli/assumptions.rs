//! `assumptions`: facts that the emulator takes on trust, each with a snippet that tests it.

use std::fmt::Write as _;

use clap::Args;
use miette::Diagnostic;
use numerics::tensor_core::{Model, Part};

use super::error::{CliError, CommandError};
use super::exit;
use super::output;
use crate::assumptions::{self, Status};

/// Arguments of `assumptions`.
#[derive(Debug, Args)]
pub(super) struct AssumptionsArgs {
    /// Show only this assumption, with its PTX
    name: Option<String>,
}

/// The evidence for each part of each hardware model.
fn models() -> String {
    let mut text = String::from("hardware models (--model)\n");
    for model in Model::ALL {
        for part in Part::ALL {
            let _ = writeln!(text, "  {:<6} {:<17} {}", model.name(), part.name(), model.proof(part));
        }
    }
    text
}

/// Runs `assumptions`.
pub(super) fn assumptions(args: &AssumptionsArgs) -> Result<(), CliError> {
    let mut text = String::new();
    let (mut open, mut shown, mut wrong) = (0, 0, 0);
    for assumption in assumptions::assumptions() {
        if args.name.as_ref().is_some_and(|name| *name != assumption.name) {
            continue;
        }
        shown += 1;
        open += usize::from(assumption.status == Status::Open);
        let answer = match assumption.check() {
            Ok(()) => "the emulator agrees".to_owned(),
            Err(why) => {
                wrong += 1;
                format!("THE EMULATOR DISAGREES: {why}")
            }
        };
        let _ = writeln!(text, "{} ({})", assumption.name, assumption.status.word());
        for (what, line) in [
            ("assumed", &assumption.assume),
            ("why", &assumption.why),
            ("source", &assumption.source),
            ("answer", &answer),
        ] {
            let _ = writeln!(text, "  {what:<8} {line}");
        }
        if args.name.is_some() {
            text.push_str(assumption.text);
        }
    }
    if shown == 0 {
        let names: Vec<&str> = assumptions::assumptions().iter().map(|a| a.name).collect();
        let name = args.name.clone().unwrap_or_default();
        return Err(AssumptionsError::NoAssumption(name, names.join(", ")).into());
    }
    if args.name.is_none() {
        text.push_str(&models());
    }
    let _ = writeln!(text, "{shown} assumptions, {open} open: not yet settled on an SM12x GPU");
    output::print(&text)?;
    if wrong > 0 { Err(AssumptionsError::Assumptions(wrong).into()) } else { Ok(()) }
}

/// Why `assumptions` does not exit with 0.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum AssumptionsError {
    #[error("there is no assumption `{0}`; the assumptions are: {1}")]
    NoAssumption(String, String),
    #[error("{0} assumptions differ from what the emulator does")]
    #[diagnostic(help("this is a defect of sm121probe: please report it with the lines above"))]
    Assumptions(usize),
}

impl CommandError for AssumptionsError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoAssumption(..) => exit::USAGE,
            Self::Assumptions(..) => exit::INTERNAL,
        }
    }
}
