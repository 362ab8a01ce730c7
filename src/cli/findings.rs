//! What a run found, as counts that decide the exit code.

use miette::Diagnostic;

use super::error::CommandError;
use super::exit;

/// What a run found: how many of its parts do not conform.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum Findings {
    #[error("{0} trials do not conform")]
    Trials(usize),
    #[error("{0} variants do not conform")]
    Runs(usize),
    #[error("{0} claims differ from their recorded status")]
    #[diagnostic(help(
        "the report names them; mark a claim that is known to be wrong with `stands: refuted` in its snippet"
    ))]
    Claims(usize),
    #[error("batch and isolated verdicts differ on {0} cells")]
    #[diagnostic(help("this is a defect of sm121probe: please report it with the cells above"))]
    VerdictsDiffer(usize),
}

impl CommandError for Findings {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Trials(..) | Self::Runs(..) | Self::VerdictsDiffer(..) => exit::DOES_NOT_CONFORM,
            Self::Claims(..) => exit::CLAIMS_CONTRADICTED,
        }
    }
}
