//! Runs all trials of a session: the results of the first, and the verdict on all.

use emulator::GlobalMemory;
use emulator::trials::{
    self, ContractedPrograms, Door, Failure, Launched, Launching, Plan, ResultBuffer, Trial, Verdict,
};

use super::error::LaunchError;
use super::expect::Checked;
use super::omissions::Omission;
use super::run::Outcome;
use super::session::Session;

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
}

impl Judged {
    /// Returns the number of buffers that differ from their expected values.
    #[must_use]
    pub fn wrong(&self) -> usize {
        wrong(&self.checked)
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

    fn ended(&mut self, _: &Trial, memory: &GlobalMemory) {
        let now = self.session.check(memory, &self.addresses);
        if self.checked.is_empty() || wrong(&now) > wrong(&self.checked) {
            self.checked = now;
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
        let steps: Result<Vec<_>, LaunchError> = self
            .steps
            .iter()
            .map(|step| {
                Ok(trials::Step {
                    program: &self.modules[step.module].program,
                    kernel: &step.entry,
                    launch: self.launch(step, &addresses)?,
                    cluster: step.cluster,
                    cooperative: step.cooperative,
                    shift_shared: step.shift_shared,
                })
            })
            .collect();
        let steps = steps?;
        let mut launcher = Launcher { session: self, addresses, launch, checked: Vec::new() };
        let mut contracted = ContractedPrograms::default();
        let verdict = trials::judge(&mut launcher, &steps, &mut memory, plan, &mut contracted)?;
        let Launcher { addresses, checked, .. } = launcher;
        let outcome = verdict.finished.then_some(Outcome { memory, addresses });
        let omissions = self.omissions(outcome.as_ref(), &verdict);
        Ok(Judged { outcome, verdict, checked, omissions })
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
