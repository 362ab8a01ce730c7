//! The pipeline as one graph: captured once, replayed with other tokens and routings in the same buffers.

use emulator::device::{Device, Failure, Graph, Launch};

use super::inputs::bytes_of;
use super::{Before, Ran, Ready, Run, STEPS, Setup, Step, load};
use crate::frame::RunError;
use crate::frame::compile::Compiled;
use crate::moe::Problem;
use crate::moe::stage::Stage;

/// A problem on a device with its kernels, for runs and for capturing and replaying graphs.
pub struct Session<'a> {
    pub(super) run: Run<'a>,
    pub(super) kernels: Vec<Ready<'a>>,
}

impl<'a> Session<'a> {
    /// Loads the kernels and the problem. Graphs omit the host's injection before the second GEMM.
    ///
    /// # Errors
    /// [`RunError`] if the device rejects them.
    pub fn new(
        device: &'a mut dyn Device,
        compiled: &Compiled<'a>,
        problem: &'a Problem,
        setup: &'a Setup,
    ) -> Result<Self, RunError> {
        let kernels = load(device, compiled)?;
        Ok(Self { run: Run::new(device, problem, setup)?.with_kernels(&kernels), kernels })
    }

    /// Like [`Session::new`] for a problem without hidden states and weights: both are generated in the device's memory, so that
    /// a model of any size is available at once. The results mean nothing; their duration does.
    ///
    /// # Errors
    /// [`RunError`] if the device rejects them.
    pub fn drawn(
        device: &'a mut dyn Device,
        compiled: &Compiled<'a>,
        problem: &'a Problem,
        setup: &'a Setup,
    ) -> Result<Self, RunError> {
        let kernels = load(device, compiled)?;
        Ok(Self { run: Run::drawn(device, problem, setup)?.with_kernels(&kernels), kernels })
    }

    /// Every launch, in order.
    ///
    /// # Errors
    /// [`RunError`]: an invalid launch.
    pub fn launches(&self) -> Result<Vec<(Stage, Launch)>, RunError> {
        let prepare = |(stage, kernel, fc): Step| Ok((stage, self.run.prepare(&self.kernels[kernel], fc)?));
        STEPS.into_iter().map(prepare).collect()
    }

    /// Captures the whole pipeline; with `programmatic`, every kernel may begin before its predecessor has ended.
    ///
    /// # Errors
    /// [`RunError`]: an invalid launch.
    pub fn capture(&mut self, programmatic: bool) -> Result<Graph, RunError> {
        let mut launches: Vec<Launch> = self.launches()?.into_iter().map(|(_, launch)| launch).collect();
        launches.iter_mut().skip(1).for_each(|launch| launch.programmatic = programmatic);
        let file = |n: usize| self.kernels[STEPS[n.min(STEPS.len() - 1)].1].kernel.file.clone();
        let captured = self.run.device.capture(&launches);
        captured.map_err(|failed| RunError::Device { file: file(failed.launch), failure: failed.failure })
    }

    /// Copies the tokens and the routing of another problem of the same dimensions and weights into the buffers. The results of stages
    /// become unwritten; the state that kernels keep from launch to launch stays.
    ///
    /// # Errors
    /// [`RunError::Input`] if it has none; [`RunError::Memory`].
    pub fn set(&mut self, problem: &'a Problem) -> Result<(), RunError> {
        let inputs = &problem.inputs;
        let hidden = inputs.hidden_states.as_ref().ok_or(RunError::Input("hidden_states"))?;
        let logits = inputs.router_logits.as_ref().ok_or(RunError::Input("router_logits"))?;
        for (name, bytes) in [
            ("hidden_states", bytes_of(&hidden.data, u16::to_le_bytes)),
            ("router_logits", bytes_of(&logits.data, f32::to_le_bytes)),
        ] {
            if let Some(buffer) = self.run.buffers.get(name) {
                self.run.device.write(*buffer, &bytes)?;
            }
        }
        self.run.problem = problem;
        self.run.begin()
    }

    /// Replays a graph `times` times with the current problem, with all results unwritten before each replay; returns the first
    /// replay, from 1, whose results differ from the first one's, otherwise the results.
    ///
    /// # Errors
    /// The number of the replay that differs.
    pub fn replay_often(&mut self, graph: Graph, times: usize) -> Result<Ran, usize> {
        let stored = self.run.workspaces().into_iter().filter(|(_, _, before)| *before == Before::Unwritten);
        let fresh: Vec<_> = stored.filter_map(|(name, ..)| self.run.buffers.get(name).copied()).collect();
        let stopped = match self.run.device.replay_often(graph, times, &fresh) {
            Err(failed) => Some((Stage::Route, failed.failure)),
            Ok(Some(differs)) => return Err(differs),
            Ok(None) => self.collect().err(),
        };
        Ok(self.ran(stopped))
    }

    /// Replays a graph; returns the results.
    #[must_use]
    pub fn replay(&mut self, graph: Graph) -> Ran {
        let replayed = self.run.device.replay(graph);
        let stopped = match replayed {
            // If a graph did not finish, its progress is unknown.
            Err(failed) => Some((Stage::Route, failed.failure)),
            Ok(()) => self.collect().err(),
        };
        self.ran(stopped)
    }

    /// The results of a run.
    pub(super) fn ran(&self, stopped: Option<(Stage, Failure)>) -> Ran {
        Ran { tensors: self.run.tensors.clone(), stopped, broken: self.run.broken.clone() }
    }

    fn collect(&mut self) -> Result<(), (Stage, Failure)> {
        STEPS.iter().try_for_each(|(stage, ..)| self.run.collect(*stage).map_err(|failure| (*stage, failure)))
    }
}
