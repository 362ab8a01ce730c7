//! All trials of a session: what the first gave, what any of them found, and whether their outputs agree.

use emulator::{Counts, GlobalMemory, InStream, Options, Stop};

use super::compare::Sums;
use super::contract::Undetermined;
use super::error::LaunchError;
use super::expect::Checked;
use super::run::{Heard, Outcome};
use super::session::Session;
use super::trials::{Findings, JudgeBy, Trial, Trials};

/// What all trials gave. Their outputs agree.
pub struct Judged {
    /// The first trial.
    pub outcome: Outcome,
    /// Violations that launches went on behind, of all trials.
    pub findings: Findings,
    /// Sums of float atomics.
    pub sums: Sums,
    /// The comparisons with what is expected, of the trial with most buffers wrong.
    pub checked: Vec<Checked>,
    /// Pairs of a product and a sum in the modules, of which PTX leaves open whether they round once, where both readings were run:
    /// what they change.
    pub undetermined: Option<Vec<Undetermined>>,
}

impl Judged {
    /// Compared buffers that differ from what is expected.
    #[must_use]
    pub fn wrong(&self) -> usize {
        wrong(&self.checked)
    }
}

/// Trials that did not all end, or do not agree.
#[derive(Debug)]
pub struct Ended<E> {
    /// Why.
    pub error: E,
    /// Violations that launches went on behind until then, which may say why.
    pub findings: Findings,
}

fn wrong(checked: &[Checked]) -> usize {
    checked.iter().filter(|c| c.wrong > 0).count()
}

impl Session {
    /// Runs all trials and compares them. `launch` makes each launch, as for [`Session::run`], and is told whether it is of the first
    /// trial.
    ///
    /// # Errors
    /// What `launch` and [`Session::run`] meet; what [`Session::compare`] finds.
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
        for trial in trials.all().get(1..).unwrap_or_default() {
            let other = run(self, trial, false, &mut findings);
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

    /// Runs the first trial with all pairs contracted, where results decide and PTX leaves a reading open.
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
