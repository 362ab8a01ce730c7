//! Runs the pipeline on a device: buffers in the kernels' layouts, one launch after the other, and what each stored.

mod arguments;
mod graph;
mod results;

use std::collections::BTreeMap;

pub use graph::Session;

use super::compile::Compiler;
use super::layout::{self, padded};
pub use super::setup::Setup;
use super::sources::{self, KernelSource};
use super::tensors::{Array, Tensors};
use super::{Dims, Problem, Settings};
use crate::case::BiasPlace;
use crate::device::{Buffer, Device, Failure, Module};
use crate::kernel::{ExpressionError, Kernel, KernelError, Library, Load};
use crate::record::Stage;
use crate::toolkit::NvrtcError;

/// Why nothing was run.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// No kernel, or one whose header is wrong.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A kernel does not compile.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// A header's expression has no value.
    #[error("{file}: {source}")]
    Expression {
        /// The kernel's file.
        file: String,
        /// What is wrong.
        source: ExpressionError,
    },
    /// A header does not fit its entry or names what there is not.
    #[error("{file}: {message}")]
    Header {
        /// The kernel's file.
        file: String,
        /// What is wrong.
        message: String,
    },
    /// The device cannot take the problem or a kernel.
    #[error("{file}: {failure}")]
    Device {
        /// The kernel's file.
        file: String,
        /// What happened.
        failure: Failure,
    },
    /// The device cannot hold the problem.
    #[error("the device cannot take the problem: {0}")]
    Memory(#[from] Failure),
    /// The problem lacks an input.
    #[error("the problem has no `{0}`")]
    Input(&'static str),
}

/// What a run left.
#[derive(Debug)]
pub struct Ran {
    /// The inputs, and what every stage stored.
    pub tensors: Tensors,
    /// The stage that did not finish, and why.
    pub stopped: Option<(Stage, Failure)>,
    /// Stages that broke the contract of their padding, with the place.
    pub pads: Vec<(Stage, String)>,
}

/// The kernels of a run, in the order they are first launched in, each with its PTX.
#[derive(Debug, Clone)]
pub struct Compiled<'k> {
    /// Kernel and PTX.
    pub kernels: [(&'k Kernel, String); 6],
}

/// One kernel, ready to be launched.
struct Ready<'k> {
    kernel: &'k Kernel,
    module: Module,
}

/// A stage, the place of its kernel in [`Compiled`], and the GEMM that it does or feeds.
type Step = (Stage, usize, Option<Fc>);

/// What is launched, in order.
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
/// [`PipelineError`] when it cannot begin. A launch that fails ends the run; [`Ran::stopped`] says where.
pub fn run(
    device: &mut dyn Device,
    compiled: &Compiled<'_>,
    problem: &Problem,
    setup: &Setup,
) -> Result<Ran, PipelineError> {
    let kernels = load(device, compiled)?;
    let mut run = Run::new(device, problem, setup)?;
    let stopped = run.all(&kernels)?;
    Ok(Ran { tensors: run.tensors, stopped, pads: run.pads })
}

/// Every kernel on the device.
fn load<'k>(device: &mut dyn Device, compiled: &Compiled<'k>) -> Result<Vec<Ready<'k>>, PipelineError> {
    let mut kernels = Vec::new();
    for (kernel, ptx) in &compiled.kernels {
        let refused = |failure| PipelineError::Device { file: kernel.file.clone(), failure };
        kernels.push(Ready { kernel, module: device.load(ptx).map_err(refused)? });
    }
    Ok(kernels)
}

/// Compiles the kernels for these settings and this setup.
///
/// # Errors
/// [`PipelineError`]: a stage has no kernel, or one does not compile.
pub fn compile<'k>(
    compiler: &Compiler<'_>,
    library: &'k Library,
    settings: &Settings,
    setup: &Setup,
) -> Result<Compiled<'k>, PipelineError> {
    let [route, permute, quantize, gemm, activation, finalize] = sources::of_run(library, settings, setup)?;
    let ready = |source: KernelSource<'k>| {
        let ptx = compiler.ptx(library, source.kernel, &source.defines)?;
        Ok::<_, PipelineError>((source.kernel, ptx))
    };
    Ok(Compiled {
        kernels: [
            ready(route)?,
            ready(permute)?,
            ready(quantize)?,
            ready(gemm)?,
            ready(activation)?,
            ready(finalize)?,
        ],
    })
}

/// The two GEMMs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fc {
    One,
    Two,
}

fn need<'t, T>(tensor: &'t Option<Array<T>>, name: &'static str) -> Result<&'t [T], PipelineError> {
    tensor.as_ref().map(|t| t.data.as_slice()).ok_or(PipelineError::Input(name))
}

/// A run under way.
struct Run<'a> {
    device: &'a mut dyn Device,
    problem: &'a Problem,
    setup: &'a Setup,
    dims: Dims,
    buffers: BTreeMap<&'static str, Buffer>,
    tensors: Tensors,
    pads: Vec<(Stage, String)>,
}

fn bytes_of<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|v| bytes(*v)).collect()
}

impl<'a> Run<'a> {
    /// What stages store and later ones read, with the bytes that the dimensions ask for.
    fn workspaces(&self) -> [(&'static str, usize); 17] {
        let dims = self.dims;
        let (rows, experts) = (dims.rows(), dims.experts);
        let (h, i) = (padded(dims.hidden), padded(dims.inter));
        let scale_rows = layout::token_scale_rows(rows, experts);
        let most_tiles = self.most_tiles();
        // Two tensor maps for every CTA of a GEMM that makes them itself.
        let config = &self.setup.config;
        let ctas = dims.fc1_cols().max(dims.hidden).div_ceil(config.tile.n as usize) * most_tiles;
        [
            ("maps", 2 * 128 * if config.load == Load::TmaReplace { ctas } else { 1 }),
            ("topk_ids", 4 * rows),
            ("topk_weights", 4 * rows),
            ("expert_offset", 4 * (experts + 1)),
            ("row_token", 4 * rows),
            ("row_expert", 4 * rows),
            ("row_of_choice", 4 * rows),
            ("tile_expert", 4 * most_tiles),
            ("tile_row", 4 * most_tiles),
            ("tile_count", 4),
            ("a1_codes", rows * h),
            ("a1_scales", scale_rows * h / 32),
            ("fc1_out", 2 * rows * dims.fc1_cols()),
            ("a2_codes", rows * i),
            ("a2_scales", scale_rows * i / 32),
            ("fc2_out", 2 * rows * dims.hidden),
            ("output", 2 * dims.tokens * dims.hidden),
        ]
    }

    /// Puts the inputs into the device's memory and reserves the rest.
    fn new(
        device: &'a mut dyn Device,
        problem: &'a Problem,
        setup: &'a Setup,
    ) -> Result<Self, PipelineError> {
        Self::with(device, problem, setup, Run::inputs)
    }

    /// As [`Run::new`]; hidden states and weights, which the problem lacks, are drawn where the memory is.
    fn drawn(
        device: &'a mut dyn Device,
        problem: &'a Problem,
        setup: &'a Setup,
    ) -> Result<Self, PipelineError> {
        Self::with(device, problem, setup, Run::draw)
    }

    fn with(
        device: &'a mut dyn Device,
        problem: &'a Problem,
        setup: &'a Setup,
        fill: impl FnOnce(&mut Self) -> Result<(), PipelineError>,
    ) -> Result<Self, PipelineError> {
        let dims = problem.dims;
        let tensors = problem.inputs.clone();
        let mut run =
            Self { device, problem, setup, dims, buffers: BTreeMap::new(), tensors, pads: Vec::new() };
        fill(&mut run)?;
        run.slots()?;
        for (name, len) in run.workspaces() {
            let buffer = run.device.allocate_unwritten(len)?;
            run.buffers.insert(name, buffer);
        }
        Ok(run)
    }

    /// Hidden states and weights that the problem has.
    fn inputs(&mut self) -> Result<(), PipelineError> {
        let (dims, setup) = (self.dims, self.setup);
        let inputs = &self.problem.inputs;
        let (h, i, n) = (dims.hidden, dims.inter, dims.fc1_cols());
        let codes = |packed: &[u8], k| layout::pad_codes(packed, k, setup.k_pad);
        let scales = |s: &[u8], rows, k| layout::weight_scales(s, rows, k, setup.scales, setup.k_pad);
        self.put([
            ("hidden_states", bytes_of(need(&inputs.hidden_states, "hidden_states")?, u16::to_le_bytes)),
            ("w13_codes", codes(need(&inputs.w13_blocks, "w13_blocks")?, h)),
            ("w13_scales", scales(need(&inputs.w13_scales, "w13_scales")?, n, h)),
            ("w2_codes", codes(need(&inputs.w2_blocks, "w2_blocks")?, i)),
            ("w2_scales", scales(need(&inputs.w2_scales, "w2_scales")?, h, i)),
        ])
    }

    /// Random hidden states and weights of the sizes that the kernels read, for timing: any code, and magnitudes as of a model, so that
    /// nothing overflows.
    fn draw(&mut self) -> Result<(), PipelineError> {
        /// Both bytes of a bf16: positive numbers below 2, none a NaN.
        const BF16: (u8, u8) = (0x38, 0x3F);
        /// Exponents of scales: 2^-9 to 2^-5.
        const SCALES: (u8, u8) = (118, 122);
        const CODES: (u8, u8) = (0, 255);
        let d = self.dims;
        let (h, i, n) = (padded(d.hidden), padded(d.inter), d.fc1_cols());
        let experts = need(&self.problem.inputs.expert_ids, "expert_ids")?.len();
        let layout = self.setup.scales;
        let sizes = [
            ("hidden_states", 2 * d.tokens * d.hidden, BF16),
            ("w13_codes", experts * n * h / 2, CODES),
            ("w13_scales", experts * layout.size(n, h / 32), SCALES),
            ("w2_codes", experts * d.hidden * i / 2, CODES),
            ("w2_scales", experts * layout.size(d.hidden, i / 32), SCALES),
        ];
        for (n, (name, len, (least, most))) in sizes.into_iter().enumerate() {
            let seed = self.problem.seed.wrapping_add(n as u64);
            let buffer = self.device.allocate_random(len, seed, least, most)?;
            self.buffers.insert(name, buffer);
        }
        Ok(())
    }

    fn put<const N: usize>(&mut self, contents: [(&'static str, Vec<u8>); N]) -> Result<(), PipelineError> {
        for (name, bytes) in contents {
            let buffer = self.device.allocate(bytes)?;
            self.buffers.insert(name, buffer);
        }
        Ok(())
    }

    /// Everything else that the host gives.
    fn slots(&mut self) -> Result<(), PipelineError> {
        let dims = self.dims;
        let inputs = &self.problem.inputs;
        let slots = need(&inputs.expert_ids, "expert_ids")?;
        let mut slot_of = vec![-1i32; dims.experts];
        for (slot, expert) in slots.iter().enumerate() {
            let place = usize::try_from(*expert).ok().and_then(|e| slot_of.get_mut(e));
            *place.ok_or(PipelineError::Input("expert_ids"))? = i32::try_from(slot).unwrap_or(-1);
        }
        let h = dims.hidden;
        // A bias that the next stage adds is none for the GEMM.
        let w13_bias = need(&inputs.w13_bias, "w13_bias")?;
        let w2_bias = need(&inputs.w2_bias, "w2_bias")?;
        let of_gemm = |bias: &[f32], place| match place {
            BiasPlace::Epilogue => bytes_of(bias, f32::to_le_bytes),
            BiasPlace::NextStage => vec![0; 4 * bias.len()],
        };
        let s = &self.problem.settings;
        self.put([
            ("router_logits", bytes_of(need(&inputs.router_logits, "router_logits")?, f32::to_le_bytes)),
            ("expert_slot", bytes_of(&slot_of, i32::to_le_bytes)),
            ("w13_bias", bytes_of(w13_bias, f32::to_le_bytes)),
            ("w13_gemm_bias", of_gemm(w13_bias, s.fc1_bias)),
            ("w2_bias", bytes_of(w2_bias, f32::to_le_bytes)),
            ("w2_gemm_bias", of_gemm(w2_bias, s.fc2_bias)),
            // Atomic sums of tokens, and how many of their rows arrived, for every 32 columns: zero before, and left so.
            ("sums", vec![0; 4 * dims.tokens * padded(h)]),
            ("arrivals", vec![0; 4 * dims.tokens * padded(h) / 32]),
        ])
    }

    /// Tiles of tokens that any routing of these rows can need.
    fn most_tiles(&self) -> usize {
        let rows = self.dims.rows();
        rows / self.setup.config.tile.m as usize + rows.min(self.dims.experts)
    }

    /// Launches everything; the stage that did not finish and why.
    fn all(&mut self, kernels: &[Ready<'_>]) -> Result<Option<(Stage, Failure)>, PipelineError> {
        let (before, after) = STEPS.split_at(STEPS.iter().position(|s| s.0 == Stage::Fc2).unwrap_or(0));
        let streams: Vec<&[Step]> = match (self.setup.pdl, &self.problem.injected_a2) {
            // What a stage stored is read before the next one begins, so that every one is judged.
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
            // The first of a stream has nothing in front of it to overlap.
            launches.iter_mut().skip(1).for_each(|l| l.programmatic = true);
            // Of a stream that did not end nobody knows what its first kernels have stored.
            if let Err((n, failure)) = self.device.run(&launches) {
                return Ok(Some((steps[n.min(steps.len() - 1)].0, failure)));
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
