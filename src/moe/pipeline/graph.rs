//! The pipeline as one graph: captured once, replayed with other tokens and another routing in the same buffers.

use super::{Compiled, PipelineError, Ran, Ready, Run, STEPS, Setup, bytes_of, load};
use crate::device::{Device, Failure, Graph};
use crate::moe::Problem;
use crate::record::Stage;

/// A problem on a device, with its kernels: what a graph is captured from and replayed with.
pub struct Session<'a> {
    run: Run<'a>,
    kernels: Vec<Ready<'a>>,
}

impl<'a> Session<'a> {
    /// Loads the kernels and the problem. What the host would inject before the second GEMM is left out.
    ///
    /// # Errors
    /// [`PipelineError`] when the device cannot take them.
    pub fn new(
        device: &'a mut dyn Device,
        compiled: &Compiled<'a>,
        problem: &'a Problem,
        setup: &'a Setup,
    ) -> Result<Self, PipelineError> {
        let kernels = load(device, compiled)?;
        Ok(Self { run: Run::new(device, problem, setup)?, kernels })
    }

    /// Captures the whole pipeline; with `programmatic`, every kernel may begin before the one in front of it has ended.
    ///
    /// # Errors
    /// [`PipelineError`]: a launch that cannot be made.
    pub fn capture(&mut self, programmatic: bool) -> Result<Graph, PipelineError> {
        let mut launches = Vec::new();
        for (_, kernel, fc) in STEPS {
            launches.push(self.run.prepare(&self.kernels[kernel], fc)?);
        }
        launches.iter_mut().skip(1).for_each(|launch| launch.programmatic = programmatic);
        let file = |n: usize| self.kernels[STEPS[n.min(STEPS.len() - 1)].1].kernel.file.clone();
        let captured = self.run.device.capture(&launches);
        captured.map_err(|(n, failure)| PipelineError::Device { file: file(n), failure })
    }

    /// Puts the tokens and the routing of another problem of the same dimensions and weights into the buffers, and makes
    /// everything that stages store count as unwritten.
    ///
    /// # Errors
    /// [`PipelineError::Input`] when it has none; [`PipelineError::Memory`].
    pub fn set(&mut self, problem: &'a Problem) -> Result<(), PipelineError> {
        let inputs = &problem.inputs;
        let hidden = inputs.hidden_states.as_ref().ok_or(PipelineError::Input("hidden_states"))?;
        let logits = inputs.router_logits.as_ref().ok_or(PipelineError::Input("router_logits"))?;
        for (name, bytes) in [
            ("hidden_states", bytes_of(&hidden.data, u16::to_le_bytes)),
            ("router_logits", bytes_of(&logits.data, f32::to_le_bytes)),
        ] {
            if let Some(buffer) = self.run.buffers.get(name) {
                self.run.device.write(*buffer, &bytes)?;
            }
        }
        for (name, _) in self.run.workspaces() {
            if let Some(buffer) = self.run.buffers.get(name) {
                self.run.device.forget(*buffer)?;
            }
        }
        (self.run.problem, self.run.tensors) = (problem, inputs.clone());
        self.run.pads.clear();
        Ok(())
    }

    /// Replays a graph; what the stages stored.
    #[must_use]
    pub fn replay(&mut self, graph: Graph) -> Ran {
        let replayed = self.run.device.replay(graph);
        let stopped = match replayed {
            // Nobody knows how far a graph came that did not end.
            Err((_, failure)) => Some((Stage::Route, failure)),
            Ok(()) => self.collect().err(),
        };
        Ran { tensors: self.run.tensors.clone(), stopped, pads: self.run.pads.clone() }
    }

    fn collect(&mut self) -> Result<(), (Stage, Failure)> {
        STEPS.iter().try_for_each(|(stage, ..)| self.run.collect(*stage).map_err(|failure| (*stage, failure)))
    }
}
