//! The stream again and again on the same memory, and who wrote to an input.

use emulator::device::Failure;

use super::{Before, PipelineError, Ran, STEPS, Session};
use record::Stage;

/// A stage that changed an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overwritten {
    /// The stage.
    pub stage: Stage,
    /// The input's buffer.
    pub input: &'static str,
    /// The first byte that differs.
    pub byte: usize,
}

impl Session<'_> {
    /// Runs every stage on the memory as it is, under the schedule of `seed` where the device has a choice. The first run begins on
    /// fresh memory; [`Session::again`] prepares every other.
    ///
    /// # Errors
    /// [`PipelineError`] when it cannot begin. A launch that fails ends the run; [`Ran::stopped`] says where.
    pub fn run(&mut self, seed: u64) -> Result<Ran, PipelineError> {
        self.run.device.reschedule(seed);
        let stopped = self.run.all(&self.kernels)?;
        Ok(self.ran(stopped))
    }

    /// The last kernel of a run with the first of the next behind it, which may begin before the last one ends: who does not wait
    /// overwrites what is still read. The stage that did not finish, and why; nothing where launches do not overlap.
    ///
    /// # Errors
    /// [`PipelineError`] when it cannot begin.
    pub fn meet_the_next(&mut self, seed: u64) -> Result<Option<(Stage, Failure)>, PipelineError> {
        if !self.run.setup.pdl {
            return Ok(None);
        }
        self.run.device.reschedule(seed);
        let steps = [STEPS[STEPS.len() - 1], STEPS[0]];
        let mut launches = Vec::new();
        for (_, kernel, fc) in steps {
            launches.push(self.run.prepare(&self.kernels[kernel], fc)?);
        }
        launches[1].programmatic = true;
        let ended = self.run.device.run(&launches);
        Ok(ended.err().map(|failed| (steps[failed.launch.min(1)].0, failed.failure)))
    }

    /// Makes what stages write whole count as unwritten; the state that kernels keep from launch to launch stays.
    ///
    /// # Errors
    /// [`PipelineError::Memory`].
    pub fn again(&mut self) -> Result<(), PipelineError> {
        self.run.begin()
    }

    /// The first stage that changed an input, if the inputs are not what they were. They are compared after the run; only if one
    /// differs the stages run once more, one by one, to tell which of them wrote it. The memory is of no use afterwards.
    ///
    /// # Errors
    /// [`PipelineError::Memory`] where the device cannot be read any more.
    pub fn overwritten(&mut self) -> Result<Option<Overwritten>, PipelineError> {
        let Some((input, byte)) = self.run.changed()? else { return Ok(None) };
        self.run.restore()?;
        self.run.begin()?;
        for (name, len, before) in self.run.workspaces() {
            if let (Before::Zeros, Some(buffer)) = (before, self.run.buffers.get(name)) {
                self.run.device.write(*buffer, &vec![0; len])?;
            }
        }
        for (stage, kernel, fc) in STEPS {
            if stage == Stage::Fc2 {
                self.run.inject()?;
            }
            let launch = self.run.prepare(&self.kernels[kernel], fc)?;
            let ended = self.run.device.run(&[launch]);
            if let Some((input, byte)) = self.run.changed()? {
                return Ok(Some(Overwritten { stage, input, byte }));
            }
            if ended.is_err() {
                break;
            }
        }
        // It does not happen again: the first stage answers for what no stage can be shown to do.
        Ok(Some(Overwritten { stage: Stage::Route, input, byte }))
    }
}
