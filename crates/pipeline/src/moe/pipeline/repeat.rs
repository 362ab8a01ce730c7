//! Repeats the stream on the same memory, and finds the stage that wrote to an input.

use emulator::Turns;
use emulator::device::Failure;
use record::Place;

use super::{Before, Ran, STEPS, Session};
use crate::frame::RunError;
use crate::moe::case::BiasPlace;
use crate::moe::stage::Stage;

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
    /// Runs every stage on the memory in its present state, under the schedule of `seed` if the device has a choice. The first run
    /// begins on fresh memory; [`Session::again`] prepares every other one.
    ///
    /// # Errors
    /// [`RunError`] if it cannot begin. A launch that fails ends the run; [`Ran::stopped`] names the stage.
    pub fn run(&mut self, seed: u64) -> Result<Ran, RunError> {
        self.run.device.reschedule(seed);
        let stopped = self.run.all(&self.kernels)?;
        Ok(self.ran(stopped))
    }

    /// Lets the lanes of warps take turns in the next runs where they conflicted; returns what conflicts, if anything does.
    pub(in crate::moe) fn direct_lanes(&mut self, turns: Option<Turns>) -> Option<String> {
        self.run.device.direct_lanes(turns)
    }

    /// Runs the last kernel of a run together with the first of the next, which may begin before the last one ends: a kernel that does not
    /// wait overwrites data still in use. Returns the stage that did not finish and the failure; `None` if launches do not overlap.
    ///
    /// # Errors
    /// [`RunError`] if it cannot begin.
    pub fn meet_the_next(&mut self, seed: u64) -> Result<Option<(Stage, Failure)>, RunError> {
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

    /// Whether right kernels read an input: some are there for other formats, routers and places of biases.
    fn is_needed(&self, name: &str) -> bool {
        let settings = &self.run.problem.settings;
        let (activation, weight) = (settings.pair.activation(), settings.pair.weight());
        match name {
            "correction_bias" => self.run.problem.inputs.correction_bias.is_some(),
            "w13_bias" => settings.fc1_bias == BiasPlace::NextStage,
            "w13_gemm_bias" => settings.fc1_bias == BiasPlace::Epilogue,
            "w2_bias" => settings.fc2_bias == BiasPlace::NextStage,
            "w2_gemm_bias" => settings.fc2_bias == BiasPlace::Epilogue,
            "a1_global" | "a2_global" => settings.has_calibrated_scales(),
            "w13_factor" | "w2_factor" => activation.has_global() || weight.has_global(),
            _ => true,
        }
    }

    /// The inputs that no launch has read, where the device can tell: beside a wrong result, the first clue.
    pub(in crate::moe) fn unread(&self) -> Vec<&'static str> {
        let workspaces = self.run.workspaces();
        let inputs = self.run.buffers.iter().filter(|(name, buffer)| {
            workspaces.iter().all(|(workspace, ..)| workspace != *name)
                && self.is_needed(name)
                && self.run.device.is_read(**buffer) == Some(false)
                && self.run.device.read(**buffer).is_ok_and(|bytes| !bytes.is_empty())
        });
        inputs.map(|(name, _)| *name).collect()
    }

    /// Runs the stages again to find the instruction that wrote an element of a stage's result last, in words; `None` if the device cannot
    /// tell, or the stage stores no bf16 of its own.
    pub(in crate::moe) fn last_write(&mut self, seed: u64, stage: Stage, place: &Place) -> Option<String> {
        let dims = &self.run.dims;
        let (name, columns) = match stage {
            Stage::Fc1 => ("fc1_out", dims.fc1_cols()),
            Stage::Fc2 => ("fc2_out", dims.hidden),
            Stage::Finalize => ("output", dims.hidden),
            _ => return None,
        };
        let first = 2 * (place.index("row")? * columns + place.index("col")?);
        let buffer = *self.run.buffers.get(name)?;
        self.again().ok()?;
        self.run.device.watch(Some((buffer, first..first + 2)));
        let ran = self.run(seed);
        let last = self.run.device.last_write();
        self.run.device.watch(None);
        last.filter(|_| ran.is_ok_and(|ran| ran.stopped.is_none()))
    }

    /// Marks everything that stages write completely as unwritten; the state that kernels keep from launch to launch stays.
    ///
    /// # Errors
    /// [`RunError::Memory`].
    pub fn again(&mut self) -> Result<(), RunError> {
        self.run.begin()
    }

    /// Returns the first stage that changed an input, if the inputs have changed. They are compared after the run; only if one
    /// differs, the stages run once more one at a time to find the writer. The memory must not be used afterwards.
    ///
    /// # Errors
    /// [`RunError::Memory`] if the device can no longer be read.
    pub fn overwritten(&mut self) -> Result<Option<Overwritten>, RunError> {
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
        // It does not happen again: the fault is assigned to the first stage if none can be shown to cause it.
        Ok(Some(Overwritten { stage: Stage::Route, input, byte }))
    }
}
