//! Runs one ptxas on one file and classifies the result.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use ptx::arch::Target;

use super::diagnostics::{self, Diagnostic, Severity};
use super::kinds;
use crate::toolkit::{self, Toolkit};
use crate::worker::Ended;
use record::Outcome;

/// How ptxas responded to one variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// The outcome.
    pub(super) outcome: Outcome,
    /// Its first error, or how it ended; empty if accepted.
    pub(super) message: String,
    /// The machine code of the entry; empty unless accepted and requested.
    pub(super) code: Vec<u8>,
}

impl Answer {
    /// The answer for a refusal with this diagnostic.
    pub(super) fn refusal(diagnostic: &Diagnostic) -> Self {
        Self::new(kinds::outcome_of(&diagnostic.text), diagnostic.text.clone())
    }

    pub(super) fn new(outcome: Outcome, message: String) -> Self {
        Self { outcome, message, code: Vec::new() }
    }
}

/// Time limits of ptxas.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// For a single variant.
    pub(super) single: Duration,
}

impl Limits {
    /// The limit for `n` variants in one file: each further variant adds 1/400 of the limit for one.
    pub(super) fn of_batch(self, n: usize) -> Duration {
        self.single + self.single.mul_f64(n.saturating_sub(1) as f64 / 400.0)
    }
}

/// The result of one run of ptxas on a file.
pub(super) enum Run {
    /// A cubin.
    Made(Vec<u8>),
    /// A refusal with at least one diagnostic.
    Refused(Vec<Diagnostic>),
    /// Neither a cubin nor a refusal: a crash, a timeout, or an inconsistent exit.
    Broke(Answer),
}

/// How ptxas responded to a user's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileAnswer {
    /// The outcome; for a refusal, the one of its first error.
    pub outcome: Outcome,
    /// Every error, in the order printed; for a crash or a timeout, one that describes it.
    pub errors: Vec<Diagnostic>,
    /// Warnings and advisories.
    pub warnings: Vec<Diagnostic>,
}

/// Runs one ptxas on a whole file, code generation included.
///
/// # Errors
/// When ptxas cannot be started or the scratch folder cannot be written.
pub fn ask_file(
    toolkit: &Toolkit,
    arch: Target,
    text: &str,
    scratch: &Path,
    limit: Duration,
) -> io::Result<FileAnswer> {
    let (run, said) = assemble_and_listen(toolkit, arch, text, None, scratch, limit)?;
    let (outcome, errors) = match run {
        Run::Made(_) => (Outcome::Accepted, Vec::new()),
        Run::Refused(errors) => {
            (errors.first().map_or(Outcome::Rejected, |e| kinds::outcome_of(&e.text)), errors)
        }
        Run::Broke(answer) => {
            let broke = Diagnostic { severity: Severity::Fatal, line: None, text: answer.message };
            (answer.outcome, vec![broke])
        }
    };
    Ok(FileAnswer { outcome, errors, warnings: diagnostics::warnings(&said) })
}

/// Assembles `text` for `arch`; with `entry`, code is generated for that entry alone.
///
/// # Errors
/// When ptxas cannot be started or the scratch folder cannot be written.
pub(super) fn assemble(
    toolkit: &Toolkit,
    arch: Target,
    text: &str,
    entry: Option<&str>,
    scratch: &Path,
    limit: Duration,
) -> io::Result<Run> {
    Ok(assemble_and_listen(toolkit, arch, text, entry, scratch, limit)?.0)
}

/// Like [`assemble`], and also returns everything that ptxas printed.
fn assemble_and_listen(
    toolkit: &Toolkit,
    arch: Target,
    text: &str,
    entry: Option<&str>,
    scratch: &Path,
    limit: Duration,
) -> io::Result<(Run, String)> {
    // Several threads share the folder.
    let folder = tempfile::tempdir_in(scratch)?;
    let ptx = folder.path().join("x.ptx");
    let cubin = folder.path().join("x.cubin");
    fs::write(&ptx, text)?;
    let assembly = toolkit::assemble(toolkit, &arch.to_string(), &ptx, &cubin, entry, limit)?;
    let first_line = || assembly.text.lines().find(|l| !l.trim().is_empty()).unwrap_or("").trim().to_owned();
    let broke = |outcome, what: String| {
        let said = first_line();
        let message = if said.is_empty() { what } else { format!("{what}: {said}") };
        Run::Broke(Answer::new(outcome, message))
    };
    let run = match assembly.ended {
        Ended::TimedOut => {
            broke(Outcome::TimedOut, format!("ptxas did not end within {} s", limit.as_secs_f64()))
        }
        Ended::Signalled(signal) => broke(Outcome::Crashed, format!("ptxas was killed by signal {signal}")),
        Ended::Exited(0) if assembly.produced => Run::Made(fs::read(&cubin)?),
        Ended::Exited(status) => {
            let diagnostics = diagnostics::parse(&assembly.text);
            if diagnostics.is_empty() || status == 0 {
                let what = if status == 0 { "no cubin" } else { "no diagnostic" };
                broke(Outcome::Crashed, format!("ptxas ended with status {status} and {what}"))
            } else {
                Run::Refused(diagnostics)
            }
        }
    };
    Ok((run, assembly.text))
}
