//! Runs all trials of a session: the results of the first, and the verdict on all.

use emulator::GlobalMemory;
use emulator::trials::{self, Door, Failure, Launched, Launching, Plan, ResultBuffer, Trial, Verdict};

use super::error::LaunchError;
use super::expect::Checked;
use super::omissions::Omission;
use super::origin::Origin;
use super::run::Outcome;
use super::session::Session;
use crate::record::{Completeness, Incomplete};

/// The results of the first trial, and the verdict on all trials.
pub struct Judged {
    /// What the first trial left; `None` if it did not run to its end.
    pub outcome: Option<Outcome>,
    /// The verdict.
    pub verdict: Verdict,
    /// The comparisons with expected values, of the trial with the most wrong buffers.
    pub checked: Vec<Checked>,
    /// What the launches of the first trial left out.
    pub omissions: Vec<Omission>,
    /// Where the first wrong element comes from, in the trial of the comparisons.
    pub origin: Option<Origin>,
}

impl Judged {
    /// Returns the number of buffers that differ from their expected values.
    #[must_use]
    pub fn wrong(&self) -> usize {
        wrong(&self.checked)
    }
}

impl Judged {
    /// Returns what was to be compared and was not, buffer by buffer; `None` if there is no such buffer.
    #[must_use]
    pub fn incomplete(&self) -> Option<Incomplete> {
        let (compared, not): (Vec<&Checked>, Vec<&Checked>) =
            self.checked.iter().partition(|checked| checked.compared > 0);
        if not.is_empty() {
            return None;
        }
        let mut completeness = Completeness::of_checks(compared.len());
        for checked in not {
            let why = checked.why.as_deref().unwrap_or_default();
            completeness.add_gap(format!("{}: nothing was compared: {why}", checked.buffer));
        }
        completeness.incomplete("nothing was compared")
    }
}

fn wrong(checked: &[Checked]) -> usize {
    checked.iter().filter(|c| c.wrong > 0).count()
}

/// A session and what performs its launches.
struct Launcher<'a, F> {
    session: &'a Session,
    addresses: Vec<u64>,
    launch: F,
    checked: Vec<Checked>,
    /// The trial of these comparisons.
    checked_in: Option<Trial>,
}

impl<E, F: FnMut(&Launching<'_>, &mut GlobalMemory) -> Result<Launched, E>> Door for Launcher<'_, F> {
    type Error = E;

    fn results(&self) -> Vec<ResultBuffer> {
        let buffers = self.session.buffers.iter().zip(&self.addresses).filter(|(buffer, _)| !buffer.scratch);
        let result = buffers.map(|(buffer, address)| ResultBuffer {
            name: buffer.name.clone(),
            address: *address,
            len: buffer.shape.bytes,
            element: buffer.shape.element,
            dims: buffer.shape.dims.clone(),
            is_read: true,
        });
        let mut results: Vec<_> = result.collect();
        // Memory that persists, such as that of a Python device.
        let base = &self.session.base;
        for (address, len) in base.buffers().filter(|(address, _)| !self.addresses.contains(address)) {
            let name = base.buffer_name(address).map_or_else(|| format!("{address:#x}"), str::to_owned);
            results.push(ResultBuffer::untyped(name, address, len));
        }
        results
    }

    fn launch(&mut self, launching: &Launching<'_>, memory: &mut GlobalMemory) -> Result<Launched, E> {
        (self.launch)(launching, memory)
    }

    fn ended(&mut self, trial: &Trial, memory: &GlobalMemory) {
        let now = self.session.check(memory, &self.addresses);
        if self.checked.is_empty() || wrong(&now) > wrong(&self.checked) {
            (self.checked, self.checked_in) = (now, Some(*trial));
        }
    }
}

impl Session {
    /// Runs all trials and judges them. `launch` performs each launch.
    ///
    /// # Errors
    /// The errors of `launch`, and [`LaunchError`] if the session is invalid. What kernels do wrong is in the verdict.
    pub fn judge<E: From<LaunchError>>(
        &mut self,
        plan: &Plan,
        launch: impl FnMut(&Launching<'_>, &mut GlobalMemory) -> Result<Launched, E>,
    ) -> Result<Judged, E> {
        let Outcome { mut memory, addresses } = self.memory_before()?;
        let mut contracted = std::mem::take(&mut self.contracted);
        let steps = self.steps_at(&addresses)?;
        // A wrong result is traced back from the memory before the launches.
        let before = (!self.expectations.is_empty()).then(|| {
            memory.share();
            memory.clone()
        });
        let mut launcher =
            Launcher { session: self, addresses, launch, checked: Vec::new(), checked_in: None };
        let judged = trials::judge(&mut launcher, &steps, &mut memory, plan, &mut contracted);
        let Launcher { addresses, checked, checked_in, .. } = launcher;
        let verdict = judged?;
        let traced = before.as_ref().zip(checked_in);
        let origin = traced
            .and_then(|(before, trial)| self.origin(&checked, (plan, &trial), &steps, (before, &addresses)));
        let outcome = verdict.finished.then_some(Outcome { memory, addresses });
        self.contracted = contracted;
        let omissions = self.omissions(outcome.as_ref(), &verdict);
        Ok(Judged { outcome, verdict, checked, omissions, origin })
    }

    /// Returns the launches with buffers at these addresses.
    pub(super) fn steps_at(&self, addresses: &[u64]) -> Result<Vec<trials::Step<'_>>, LaunchError> {
        let mut all = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            all.push(trials::Step {
                program: &self.modules[step.module].program,
                kernel: &step.entry,
                launch: self.launch(step, addresses)?,
                cluster: step.cluster,
                cooperative: step.cooperative,
                shift_shared: step.shift_shared,
            });
        }
        Ok(all)
    }

    /// Returns the error that a verdict is under a plan; `None` if it is none.
    #[must_use]
    pub fn failure(&self, verdict: &Verdict, plan: &Plan) -> Option<LaunchError> {
        Some(match verdict.failure(plan)? {
            Failure::Stopped(stopped) => {
                let (step, stop) = (&self.steps[stopped.step], stopped.stop.clone());
                self.stopped(step, stop)
            }
            Failure::Violated(trap) => LaunchError::Violated(Box::new(trap.clone())),
            Failure::Differs(difference) => LaunchError::Differs(Box::new(difference.clone())),
            Failure::Undetermined(open) => LaunchError::Undetermined(Box::new(open.clone())),
        })
    }
}
