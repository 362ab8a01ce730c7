//! Runs all trials of a session: reports the results of the first, collects the violations of all, and compares their results.

use emulator::{Counts, GlobalMemory, InStream, Options, Stop};

use super::compare::Sums;
use super::contract::Undetermined;
use super::error::LaunchError;
use super::expect::Checked;
use super::run::{Heard, Outcome};
use super::session::Session;
use super::trials::{Findings, JudgeBy, Trial, Trials};

/// The results of all trials, which agree.
pub struct Judged {
    /// The outcome of the first trial.
    pub outcome: Outcome,
    /// Violations after which launches continued, of all trials.
    pub findings: Findings,
    /// Differences of float-atomic sums.
    pub sums: Sums,
    /// The comparisons with expected values, of the trial with the most wrong buffers.
    pub checked: Vec<Checked>,
    /// The elements that change if products and sums are contracted where PTX leaves it open; `None` if only one reading was run.
    pub undetermined: Option<Vec<Undetermined>>,
}

impl Judged {
    /// Returns the number of buffers that differ from their expected values.
    #[must_use]
    pub fn wrong(&self) -> usize {
        wrong(&self.checked)
    }
}

/// Trials that failed or do not agree.
#[derive(Debug)]
pub struct Ended<E> {
    /// The error.
    pub error: E,
    /// Violations after which launches continued until then; they may explain the error.
    pub findings: Findings,
}

fn wrong(checked: &[Checked]) -> usize {
    checked.iter().filter(|c| c.wrong > 0).count()
}

impl Session {
    /// Runs all trials and compares them. `launch` performs each launch, as in [`Session::run`]; its first argument tells whether the
    /// launch belongs to the first trial.
    ///
    /// # Errors
    /// The errors of `launch`, [`Session::run`] and [`Session::compare`].
    pub fn judge<E: From<LaunchError>>(
        &mut self,
        trials: &Trials,
        mut launch: impl FnMut(
            bool,
            &InStream<'_>,
            &mut GlobalMemory,
            &Options,
        ) -> Result<(Result<Counts, Stop>, Heard), E>,
    ) -> Result<Judged, Ended<E>> {
        let mut findings = Findings::default();
        let mut run = |session: &mut Self, trial: &Trial, is_first: bool, findings: &mut Findings| {
            let mut outcome = session
                .run(*trial, trials, |_, step, memory, options| launch(is_first, step, memory, options))?;
            findings.gather(std::mem::take(&mut outcome.violations));
            Ok(outcome)
        };
        let outcome = match run(self, &trials.first(), true, &mut findings) {
            Ok(outcome) => outcome,
            Err(error) => return Err(Ended { error, findings }),
        };
        let mut sums = Sums::default();
        let mut checked = self.check(&outcome);
        for trial in trials.all().skip(1) {
            let other = run(self, &trial, false, &mut findings);
            let compared =
                other.and_then(|other| Ok(self.compare(&outcome, &other, &mut sums).map(|()| other)?));
            let other = match compared {
                Ok(other) => other,
                Err(error) => return Err(Ended { error, findings }),
            };
            let now = self.check(&other);
            if wrong(&now) > wrong(&checked) {
                checked = now;
            }
        }
        let undetermined = match self
            .both_readings(trials, &outcome, |session, trial| run(session, trial, false, &mut findings))
        {
            Ok(undetermined) => undetermined,
            Err(error) => return Err(Ended { error, findings }),
        };
        Ok(Judged { outcome, findings, sums, checked, undetermined })
    }

    /// Runs the first trial again with all pairs contracted, if results are judged by value and PTX leaves contraction open.
    fn both_readings<E: From<LaunchError>>(
        &mut self,
        trials: &Trials,
        separate: &Outcome,
        run: impl FnOnce(&mut Self, &Trial) -> Result<Outcome, E>,
    ) -> Result<Option<Vec<Undetermined>>, E> {
        if trials.judge != JudgeBy::Values {
            return Ok(None);
        }
        let Some(mut modules) = self.contracted_modules()? else { return Ok(None) };
        std::mem::swap(&mut self.modules, &mut modules);
        let contracted = run(self, &separate.trial);
        std::mem::swap(&mut self.modules, &mut modules);
        Ok(Some(self.undetermined(separate, &contracted?)))
    }
}
