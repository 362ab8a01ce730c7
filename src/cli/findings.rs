//! What a run found, as counts that decide the exit code.

use miette::Diagnostic;

use super::error::CommandError;
use super::exit;
use crate::record::counted;

/// What a run found: how many of its parts do not conform.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum Findings {
    #[error("{}", judged(*.0, "trial"))]
    Trials(usize),
    #[error("{}", judged(*.0, "variant"))]
    Runs(usize),
    #[error("{} from the recorded status", differing(*.0, "claim"))]
    #[diagnostic(help(
        "the report names them; mark a claim that is known to be wrong with `stands: refuted` in its snippet"
    ))]
    Claims(usize),
    #[error("batch and isolated verdicts differ on {}", counted(*.0, "cell"))]
    #[diagnostic(help("this is a defect of sm121probe: please report it with the cells above"))]
    VerdictsDiffer(usize),
}

/// `1 trial does not conform`, `2 trials do not conform`.
fn judged(number: usize, noun: &str) -> String {
    let verb = if number == 1 { "does" } else { "do" };
    format!("{} {verb} not conform", counted(number, noun))
}

/// `1 claim differs`, `2 claims differ`.
fn differing(number: usize, noun: &str) -> String {
    format!("{} {}", counted(number, noun), if number == 1 { "differs" } else { "differ" })
}

impl CommandError for Findings {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Trials(..) | Self::Runs(..) | Self::VerdictsDiffer(..) => exit::DOES_NOT_CONFORM,
            Self::Claims(..) => exit::CLAIMS_CONTRADICTED,
        }
    }
}
