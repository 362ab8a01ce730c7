//! Runs the pipeline on a device: buffers in the kernels' layouts, one launch after another, and the results of each.

mod arguments;
mod graph;
mod inputs;
mod lists;
mod repeat;
mod results;

use std::collections::BTreeMap;

pub use graph::Session;
pub use repeat::Overwritten;

use super::kernels::KernelStage;
use super::layout::{self, padded};
pub use super::setup::Setup;
use super::tensors::{Array, Tensors};
use super::{Dims, Problem};
use crate::frame::RunError;
use crate::frame::compile::Compiled;
use crate::kernel::{Kernel, Load};
use crate::moe::stage::Stage;
use emulator::device::{Buffer, Device, Failure, LaunchFailure, Module};

/// The results of a run.
#[derive(Debug)]
pub struct Ran {
    /// The inputs and the results of every stage.
    pub tensors: Tensors,
    /// The stage that did not finish, and the failure.
    pub stopped: Option<(Stage, Failure)>,
    /// Stages whose results break their contract beside the judged tensors, in padding or in lists, with the place.
    pub broken: Vec<(Stage, String)>,
}

/// One kernel, ready for launch.
struct Ready<'k> {
    kernel: &'k Kernel,
    module: Module,
}

/// A stage, the index of its kernel in [`Compiled`], and the GEMM that it computes or feeds.
type Step = (Stage, usize, Option<Fc>);

/// The launches, in order.
const STEPS: [Step; 7] = [
    (Stage::Route, 0, None),
    (Stage::Permute, 1, None),
    (Stage::Quantize, 2, Some(Fc::One)),
    (Stage::Fc1, 3, Some(Fc::One)),
    (Stage::Activation, 4, Some(Fc::Two)),
    (Stage::Fc2, 3, Some(Fc::Two)),
    (Stage::Finalize, 5, None),
];

/// Runs `problem` from the router's logits to the output.
///
/// # Errors
/// [`RunError`] if it cannot begin. A launch that fails ends the run; [`Ran::stopped`] names the stage.
pub fn run(
    device: &mut dyn Device,
    compiled: &Compiled<'_>,
    problem: &Problem,
    setup: &Setup,
) -> Result<Ran, RunError> {
    Session::new(device, compiled, problem, setup)?.run(0)
}

/// Like [`run`]; also returns the first stage that changed an input if the run finished.
///
/// # Errors
/// As [`run`].
pub fn run_and_compare(
    device: &mut dyn Device,
    compiled: &Compiled<'_>,
    problem: &Problem,
    setup: &Setup,
) -> Result<(Ran, Option<Overwritten>), RunError> {
    let mut session = Session::new(device, compiled, problem, setup)?;
    let ran = session.run(0)?;
    let overwritten = if ran.stopped.is_none() { session.overwritten()? } else { None };
    Ok((ran, overwritten))
}

/// Loads every kernel on the device.
fn load<'k>(device: &mut dyn Device, compiled: &Compiled<'k>) -> Result<Vec<Ready<'k>>, RunError> {
    let mut kernels = Vec::new();
    for (kernel, ptx) in &compiled.kernels {
        let refused = |failure| RunError::Device { file: kernel.file.clone(), failure };
        kernels.push(Ready { kernel, module: device.load(ptx).map_err(refused)? });
    }
    Ok(kernels)
}

/// The two GEMMs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fc {
    One,
    Two,
}

fn need<'t, T>(tensor: &'t Option<Array<T>>, name: &'static str) -> Result<&'t [T], RunError> {
    tensor.as_ref().map(|t| t.data.as_slice()).ok_or(RunError::Input(name))
}

/// A run in progress.
struct Run<'a> {
    device: &'a mut dyn Device,
    problem: &'a Problem,
    setup: &'a Setup,
    dims: Dims,
    buffers: BTreeMap<&'static str, Buffer>,
    tensors: Tensors,
    broken: Vec<(Stage, String)>,
    /// The names of the arguments of each kernel, by stage.
    arguments: Vec<(Option<KernelStage>, Vec<String>)>,
}

/// The content of a workspace when the stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing: a stage writes everything that later stages read. The buffer is unwritten at the start of each run; otherwise the
    /// results of the previous run would hide a kernel that stores nothing.
    Unwritten,
    /// The results of the previous run, and nothing before the first one: a kernel may write the buffer again or find it unchanged.
    Left,
    /// Zeros before the first run, then the state that the previous run left. The kernels promise to leave zeros: nothing clears them.
    Zeros,
}

impl<'a> Run<'a> {
    /// The buffers that stages write: bytes, and the content of each before a run. All others are inputs, which no stage may change.
    fn workspaces(&self) -> [(&'static str, usize, Before); 21] {
        use Before::{Left, Unwritten, Zeros};
        let dims = self.dims;
        let (rows, experts) = (dims.rows(), dims.experts);
        let (h, i) = (padded(dims.hidden), padded(dims.inter));
        let format = self.problem.settings.pair.activation();
        let scale_rows = layout::token_scale_rows(rows, experts);
        let most_tiles = self.most_tiles();
        // Two tensor maps for every CTA of a GEMM that builds them itself.
        let config = &self.setup.config;
        let ctas = dims.fc1_cols().max(dims.hidden).div_ceil(config.tile.n as usize) * most_tiles;
        [
            ("maps", 2 * 128 * if config.load == Load::TmaReplace { ctas } else { 1 }, Left),
            ("topk_ids", 4 * rows, Unwritten),
            ("topk_weights", 4 * rows, Unwritten),
            ("expert_offset", 4 * (experts + 1), Unwritten),
            ("row_token", 4 * rows, Unwritten),
            ("row_expert", 4 * rows, Unwritten),
            ("row_of_choice", 4 * rows, Unwritten),
            ("tile_expert", 4 * most_tiles, Unwritten),
            ("tile_row", 4 * most_tiles, Unwritten),
            ("tile_count", 4, Unwritten),
            ("a1_codes", rows * format.bytes(h), Unwritten),
            ("a1_scales", scale_rows * format.scales(h), Unwritten),
            ("a1_token_scale", 4 * rows, Unwritten),
            ("fc1_out", 2 * rows * dims.fc1_cols(), Unwritten),
            ("a2_codes", rows * format.bytes(i), Unwritten),
            ("a2_scales", scale_rows * format.scales(i), Unwritten),
            ("a2_token_scale", 4 * rows, Unwritten),
            ("fc2_out", 2 * rows * dims.hidden, Unwritten),
            // Atomic sums of tokens, and the number of their rows that have arrived, per 32 columns.
            ("sums", 4 * dims.tokens * h, Zeros),
            ("arrivals", 4 * dims.tokens * h / 32, Zeros),
            ("output", 2 * dims.tokens * dims.hidden, Unwritten),
        ]
    }

    /// Copies the inputs to the device's memory and reserves the rest.
    fn new(device: &'a mut dyn Device, problem: &'a Problem, setup: &'a Setup) -> Result<Self, RunError> {
        Self::with(device, problem, setup, Run::fill)
    }

    /// Like [`Run::new`]; hidden states and weights, which the problem lacks, are generated in the device's memory.
    fn drawn(device: &'a mut dyn Device, problem: &'a Problem, setup: &'a Setup) -> Result<Self, RunError> {
        Self::with(device, problem, setup, Run::draw)
    }

    fn with(
        device: &'a mut dyn Device,
        problem: &'a Problem,
        setup: &'a Setup,
        fill: impl FnOnce(&mut Self) -> Result<(), RunError>,
    ) -> Result<Self, RunError> {
        let dims = problem.dims;
        let tensors = problem.inputs.clone();
        let mut run = Self {
            device,
            problem,
            setup,
            dims,
            buffers: BTreeMap::new(),
            tensors,
            broken: Vec::new(),
            arguments: Vec::new(),
        };
        fill(&mut run)?;
        for (name, len, before) in run.workspaces() {
            let buffer = match before {
                Before::Unwritten | Before::Left => run.device.allocate_unwritten(len)?,
                Before::Zeros => run.device.allocate(vec![0; len])?,
            };
            run.buffers.insert(name, buffer);
        }
        Ok(run)
    }

    /// Runs these kernels with the arguments that their headers name.
    fn with_kernels(mut self, kernels: &[Ready<'_>]) -> Self {
        self.arguments = kernels
            .iter()
            .map(|r| (KernelStage::from_word(&r.kernel.stage), r.kernel.args.clone()))
            .collect();
        self
    }

    /// The largest number of token tiles that any routing of these rows needs.
    fn most_tiles(&self) -> usize {
        let rows = self.dims.rows();
        rows / self.setup.config.tile.m as usize + rows.min(self.dims.experts)
    }

    /// Puts every workspace into its state at the start of a run.
    fn begin(&mut self) -> Result<(), RunError> {
        for (name, _, before) in self.workspaces() {
            if let (Before::Unwritten, Some(buffer)) = (before, self.buffers.get(name)) {
                self.device.forget(*buffer)?;
            }
        }
        self.tensors = self.problem.inputs.clone();
        self.broken.clear();
        Ok(())
    }

    /// Launches everything; returns the stage that did not finish and the failure.
    fn all(&mut self, kernels: &[Ready<'_>]) -> Result<Option<(Stage, Failure)>, RunError> {
        let (before, after) = STEPS.split_at(STEPS.iter().position(|s| s.0 == Stage::Fc2).unwrap_or(0));
        let streams: Vec<&[Step]> = match (self.setup.pdl, &self.problem.injected_a2) {
            // The results of a stage are read before the next one begins, so that each one is judged.
            (false, _) => STEPS.chunks(1).collect(),
            (true, Some(_)) => vec![before, after],
            (true, None) => vec![&STEPS],
        };
        for steps in streams {
            if steps[0].0 == Stage::Fc2
                && let Err(failure) = self.inject()
            {
                return Ok(Some((Stage::Fc2, failure)));
            }
            let mut launches = Vec::new();
            for (_, kernel, fc) in steps {
                launches.push(self.prepare(&kernels[*kernel], *fc)?);
            }
            // The first launch of a stream has no predecessor to overlap.
            launches.iter_mut().skip(1).for_each(|l| l.programmatic = true);
            // If a stream did not finish, the results of its first kernels are unknown.
            if let Err(LaunchFailure { launch, failure }) = self.device.run(&launches) {
                return Ok(Some((steps[launch.min(steps.len() - 1)].0, failure)));
            }
            for (stage, ..) in steps {
                if let Err(failure) = self.collect(*stage) {
                    return Ok(Some((*stage, failure)));
                }
            }
        }
        Ok(None)
    }
}
