//! Runs the pipeline on a device: buffers in the kernels' layouts, one launch after the other, and what each stored.

use std::collections::BTreeMap;

use super::admission;
use super::compile::Compiler;
use super::layout::{self, KPad, padded};
use super::sources::{self, KernelSource};
use super::tensors::{Array, Tensors};
use super::tile::Config;
use super::{Dims, Problem, Settings};
use crate::case::BiasPlace;
use crate::device::{Argument, Buffer, Device, Failure, Launch, MapElement, Module, TensorMapSpec};
use crate::kernel::{self, ExpressionError, Kernel, KernelError, Library, Names};
use crate::num::scale_layout::ScaleLayout;
use crate::record::Stage;
use crate::toolkit::NvrtcError;

/// How a problem is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// The GEMMs' tile and what it is compiled for.
    pub config: Config,
    /// Whether the GEMMs multiply the padding of K, or stop before it.
    pub k_pad: KPad,
    /// Where scales lie.
    pub scales: ScaleLayout,
    /// Whether every kernel may begin before the one in front of it has ended.
    pub pdl: bool,
}

impl Setup {
    /// K stops before its padding, scales in tiles of 128 by 4, one kernel after the other.
    #[must_use]
    pub const fn plain(config: Config) -> Self {
        Self { config, k_pad: KPad::Poison, scales: ScaleLayout::Tile128x4, pdl: false }
    }
}

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
    let mut kernels = Vec::new();
    for (kernel, ptx) in &compiled.kernels {
        let refused = |failure| PipelineError::Device { file: kernel.file.clone(), failure };
        kernels.push(Ready { kernel, module: device.load(ptx).map_err(refused)? });
    }
    let mut run = Run::new(device, problem, setup)?;
    let stopped = run.all(&kernels)?;
    Ok(Ran { tensors: run.tensors, stopped, pads: run.pads })
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
    /// Puts the inputs into the device's memory and reserves the rest.
    fn new(
        device: &'a mut dyn Device,
        problem: &'a Problem,
        setup: &'a Setup,
    ) -> Result<Self, PipelineError> {
        let dims = problem.dims;
        let tensors = problem.inputs.clone();
        let mut run =
            Self { device, problem, setup, dims, buffers: BTreeMap::new(), tensors, pads: Vec::new() };
        run.inputs()?;
        let (rows, experts) = (dims.rows(), dims.experts);
        let (h, i) = (padded(dims.hidden), padded(dims.inter));
        let scale_rows = layout::token_scale_rows(rows, experts);
        let most_tiles = run.most_tiles();
        for (name, len) in [
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
        ] {
            let buffer = run.device.allocate_unwritten(len);
            run.buffers.insert(name, buffer);
        }
        Ok(run)
    }

    fn inputs(&mut self) -> Result<(), PipelineError> {
        let (dims, setup) = (self.dims, self.setup);
        let inputs = &self.problem.inputs;
        fn need<'t, T>(tensor: &'t Option<Array<T>>, name: &'static str) -> Result<&'t [T], PipelineError> {
            tensor.as_ref().map(|t| t.data.as_slice()).ok_or(PipelineError::Input(name))
        }
        let slots = need(&inputs.expert_ids, "expert_ids")?;
        let mut slot_of = vec![-1i32; dims.experts];
        for (slot, expert) in slots.iter().enumerate() {
            let place = usize::try_from(*expert).ok().and_then(|e| slot_of.get_mut(e));
            *place.ok_or(PipelineError::Input("expert_ids"))? = i32::try_from(slot).unwrap_or(-1);
        }
        let (h, i, n) = (dims.hidden, dims.inter, dims.fc1_cols());
        let codes = |packed: &[u8], k| layout::pad_codes(packed, k, setup.k_pad);
        let scales = |s: &[u8], rows, k| layout::weight_scales(s, rows, k, setup.scales, setup.k_pad);
        // A bias that the next stage adds is none for the GEMM.
        let w13_bias = need(&inputs.w13_bias, "w13_bias")?;
        let w2_bias = need(&inputs.w2_bias, "w2_bias")?;
        let of_gemm = |bias: &[f32], place| match place {
            BiasPlace::Epilogue => bytes_of(bias, f32::to_le_bytes),
            BiasPlace::NextStage => vec![0; 4 * bias.len()],
        };
        let s = &self.problem.settings;
        let contents = [
            ("hidden_states", bytes_of(need(&inputs.hidden_states, "hidden_states")?, u16::to_le_bytes)),
            ("router_logits", bytes_of(need(&inputs.router_logits, "router_logits")?, f32::to_le_bytes)),
            ("expert_slot", bytes_of(&slot_of, i32::to_le_bytes)),
            ("w13_codes", codes(need(&inputs.w13_blocks, "w13_blocks")?, h)),
            ("w13_scales", scales(need(&inputs.w13_scales, "w13_scales")?, n, h)),
            ("w13_bias", bytes_of(w13_bias, f32::to_le_bytes)),
            ("w13_gemm_bias", of_gemm(w13_bias, s.fc1_bias)),
            ("w2_codes", codes(need(&inputs.w2_blocks, "w2_blocks")?, i)),
            ("w2_scales", scales(need(&inputs.w2_scales, "w2_scales")?, h, i)),
            ("w2_bias", bytes_of(w2_bias, f32::to_le_bytes)),
            ("w2_gemm_bias", of_gemm(w2_bias, s.fc2_bias)),
        ];
        for (name, bytes) in contents {
            let buffer = self.device.allocate(bytes);
            self.buffers.insert(name, buffer);
        }
        Ok(())
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
            if steps[0].0 == Stage::Fc2 {
                self.inject();
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
                self.collect(*stage);
            }
        }
        Ok(None)
    }

    fn prepare(&self, ready: &Ready<'_>, fc: Option<Fc>) -> Result<Launch, PipelineError> {
        let kernel = ready.kernel;
        let names = self.names(fc);
        let value = |text: &str| {
            kernel::evaluate(text, &names)
                .map_err(|source| PipelineError::Expression { file: kernel.file.clone(), source })
        };
        let header = |message: String| PipelineError::Header { file: kernel.file.clone(), message };
        let small = |text: &str| {
            let v = value(text)?;
            u32::try_from(v).map_err(|_| header(format!("`{text}` is {v}, more than 32 bits hold")))
        };
        let parameters = self
            .device
            .parameters(ready.module, &kernel.entry)
            .ok_or_else(|| header(format!("the source has no entry `{}`", kernel.entry)))?;
        if parameters.len() != kernel.args.len() {
            return Err(header(format!(
                "`{}` has {} parameters and the header's `args` has {}",
                kernel.entry,
                parameters.len(),
                kernel.args.len()
            )));
        }
        let mut arguments = Vec::new();
        for (name, (parameter, size)) in kernel.args.iter().zip(parameters) {
            let argument = self.argument(name, fc, &names).ok_or_else(|| {
                header(format!("there is no argument `{name}` for this stage (parameter `{parameter}`)"))
            })?;
            let given = match &argument {
                Argument::Value(bytes) => bytes.len(),
                Argument::Address(_) => 8,
                Argument::Map(_) => 128,
            };
            if given != size {
                return Err(header(format!(
                    "argument `{name}` has {given} bytes and parameter `{parameter}` {size}"
                )));
            }
            arguments.push(argument);
        }
        Ok(Launch {
            module: ready.module,
            entry: kernel.entry.clone(),
            grid: [small(&kernel.grid[0])?, small(&kernel.grid[1])?, small(&kernel.grid[2])?],
            block: small(&kernel.block)?,
            shared_bytes: small(&kernel.smem)?,
            arguments,
            programmatic: false,
        })
    }

    /// Rows, columns and K of the GEMM that a launch does or feeds.
    fn extents(&self, fc: Fc) -> (usize, usize) {
        match fc {
            Fc::One => (self.dims.fc1_cols(), self.dims.hidden),
            Fc::Two => (self.dims.hidden, self.dims.inter),
        }
    }

    fn names(&self, fc: Option<Fc>) -> Names {
        let (d, c) = (self.dims, &self.setup.config);
        let mut names: Vec<(&'static str, usize)> = vec![
            ("tokens", d.tokens),
            ("experts", d.experts),
            ("top_k", d.top_k),
            ("rows", d.rows()),
            ("choices", d.rows()),
            ("hidden", d.hidden),
            ("inter", d.inter),
            ("tile_m", c.tile.m as usize),
            ("tile_n", c.tile.n as usize),
            ("tile_k", c.tile.k as usize),
            ("stages", c.stages as usize),
            ("stage_bytes", c.stage_bytes() as usize),
            ("warps", c.warps() as usize),
            ("most_tiles", self.most_tiles()),
        ];
        if let Some(fc) = fc {
            let (n, k) = self.extents(fc);
            let used = if self.setup.k_pad == KPad::Zeros { padded(k) } else { k };
            names.extend([("n", n), ("k", k), ("k_padded", padded(k)), ("k_used", used)]);
        }
        names.into_iter().map(|(name, value)| (name, value as u64)).collect()
    }

    /// What stands for an argument's name in this launch.
    fn argument(&self, name: &str, fc: Option<Fc>, names: &Names) -> Option<Argument> {
        let of = |one: &'static str, two: &'static str| match fc {
            Some(Fc::One) => Some(one),
            Some(Fc::Two) => Some(two),
            None => None,
        };
        let buffer = match name {
            "a_codes" => of("a1_codes", "a2_codes")?,
            "a_scales" => of("a1_scales", "a2_scales")?,
            "w_codes" => of("w13_codes", "w2_codes")?,
            "w_scales" => of("w13_scales", "w2_scales")?,
            "bias" => of("w13_gemm_bias", "w2_gemm_bias")?,
            "out" => of("fc1_out", "fc2_out")?,
            other => other,
        };
        if let Some(buffer) = self.buffers.get(buffer) {
            return Some(Argument::Address(*buffer));
        }
        if let Some(value) = names.get(name) {
            return Some(Argument::Value(u32::try_from(*value).ok()?.to_le_bytes().to_vec()));
        }
        let s = &self.problem.settings;
        match name {
            "alpha" => Some(Argument::Value(s.alpha.to_le_bytes().to_vec())),
            "beta" => Some(Argument::Value(s.beta.to_le_bytes().to_vec())),
            "limit" => Some(Argument::Value(s.limit.to_le_bytes().to_vec())),
            "a_map" => self.token_map(fc?),
            "w_map" => self.weight_map(fc?),
            _ => None,
        }
    }

    fn token_map(&self, fc: Fc) -> Option<Argument> {
        let k = padded(self.extents(fc).1) as u64;
        let tokens = admission::token_box(&self.setup.config);
        let buffer = *self.buffers.get(if fc == Fc::One { "a1_codes" } else { "a2_codes" })?;
        Some(Argument::Map(TensorMapSpec {
            buffer,
            element: tokens.element,
            dims: vec![k, self.dims.rows() as u64],
            strides: vec![k],
            box_dims: tokens.dims,
            swizzle: tokens.swizzle,
        }))
    }

    /// Experts, channels and K. Packed weights are bytes of two elements.
    fn weight_map(&self, fc: Fc) -> Option<Argument> {
        let (n, k) = self.extents(fc);
        let (n, bytes) = (n as u64, padded(k) as u64 / 2);
        let weights = admission::weight_box(&self.setup.config);
        let experts = self.problem.inputs.expert_ids.as_ref()?.data.len() as u64;
        let buffer = *self.buffers.get(if fc == Fc::One { "w13_codes" } else { "w2_codes" })?;
        // Elements of a packed row are bytes of two.
        let width = if weights.element == MapElement::U8 { bytes } else { 2 * bytes };
        Some(Argument::Map(TensorMapSpec {
            buffer,
            element: weights.element,
            dims: vec![width, n, experts],
            strides: vec![bytes, bytes * n],
            box_dims: weights.dims,
            swizzle: weights.swizzle,
        }))
    }

    fn read(&self, name: &str) -> Vec<u8> {
        self.buffers.get(name).map(|b| self.device.read(*b)).unwrap_or_default()
    }

    fn read_i32(&self, name: &str) -> Vec<i32> {
        let bytes = self.read(name);
        bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect()
    }

    fn read_u16(&self, name: &str) -> Vec<u16> {
        let bytes = self.read(name);
        bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b)).collect()
    }

    /// Takes what a stage stored.
    fn collect(&mut self, stage: Stage) {
        let d = self.dims;
        let (t, k, r) = (d.tokens, d.top_k, d.rows());
        let array_u16 = |run: &Self, name, shape: &[usize]| {
            Some(Array { shape: shape.to_vec(), data: run.read_u16(name) })
        };
        let array_i32 = |run: &Self, name, shape: &[usize]| {
            Some(Array { shape: shape.to_vec(), data: run.read_i32(name) })
        };
        match stage {
            Stage::Route => {
                self.tensors.topk_ids = array_i32(self, "topk_ids", &[t, k]);
                let weights = self.read("topk_weights");
                let data = weights.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
                self.tensors.topk_weights = Some(Array { shape: vec![t, k], data });
            }
            Stage::Permute => {
                self.tensors.row_token = array_i32(self, "row_token", &[r]);
                self.tensors.row_expert = array_i32(self, "row_expert", &[r]);
            }
            Stage::Quantize => {
                let (codes, scales) = self.quantized(Stage::Quantize, "a1_codes", "a1_scales", d.hidden);
                (self.tensors.a1_codes, self.tensors.a1_scales) = (Some(codes), Some(scales));
            }
            Stage::Fc1 => self.tensors.fc1_out = array_u16(self, "fc1_out", &[r, d.fc1_cols()]),
            Stage::Activation | Stage::Requantize => {
                let (codes, scales) = self.quantized(Stage::Requantize, "a2_codes", "a2_scales", d.inter);
                (self.tensors.a2_codes, self.tensors.a2_scales) = (Some(codes), Some(scales));
            }
            Stage::Fc2 => self.tensors.fc2_out = array_u16(self, "fc2_out", &[r, d.hidden]),
            Stage::Finalize => self.tensors.output = array_u16(self, "output", &[t, d.hidden]),
        }
    }

    /// Byte of the scale of a block of a permuted row, by what the device says of its rows.
    fn scale_place(
        &self,
        row: usize,
        block: usize,
        columns: usize,
        offsets: &[i32],
        experts: &[i32],
    ) -> usize {
        let expert = experts.get(row).and_then(|e| usize::try_from(*e).ok()).unwrap_or(0);
        let first = offsets.get(expert).and_then(|o| usize::try_from(*o).ok()).unwrap_or(0).min(row);
        let at = layout::scale_row_of_expert(first, expert) + row - first;
        self.setup.scales.offset(at, block, columns)
    }

    /// Codes and scales as logical matrices; what the padding holds is checked on the way.
    fn quantized(&mut self, stage: Stage, codes: &str, scales: &str, k: usize) -> (Array<u8>, Array<u8>) {
        let rows = self.dims.rows();
        let (width, columns, blocks) = (padded(k), padded(k) / 32, k / 32);
        let (stored, stored_scales) = (self.read(codes), self.read(scales));
        let (offsets, experts) = (self.read_i32("expert_offset"), self.read_i32("row_expert"));
        let mut out = Vec::with_capacity(rows * k);
        let mut out_scales = Vec::with_capacity(rows * blocks);
        let mut broken = None;
        for (row, from) in stored.chunks_exact(width).enumerate() {
            out.extend_from_slice(&from[..k]);
            // -0 is zero too.
            if let Some(at) = from[k..].iter().position(|c| c & 0x7F != 0) {
                let text = || {
                    format!(
                        "row={row} col={}: the code in the padding is 0x{:02X}, not zero",
                        k + at,
                        from[k + at]
                    )
                };
                broken.get_or_insert_with(text);
            }
            for block in 0..columns {
                let place = self.scale_place(row, block, columns, &offsets, &experts);
                let scale = stored_scales.get(place).copied().unwrap_or(layout::POISON);
                if block < blocks {
                    out_scales.push(scale);
                } else if scale == 0xFF {
                    broken.get_or_insert_with(|| {
                        format!("row={row} block={block}: the scale in the padding is NaN")
                    });
                }
            }
        }
        self.pads.extend(broken.map(|text| (stage, text)));
        (Array { shape: vec![rows, k], data: out }, Array { shape: vec![rows, blocks], data: out_scales })
    }

    /// Puts the problem's own a2 in place of what the activation stored.
    fn inject(&mut self) {
        let Some(a2) = &self.problem.injected_a2 else { return };
        let k = self.dims.inter;
        let (width, columns, blocks) = (padded(k), padded(k) / 32, k / 32);
        let (offsets, experts) = (self.read_i32("expert_offset"), self.read_i32("row_expert"));
        let (mut codes, mut scales) = (self.read("a2_codes"), self.read("a2_scales"));
        for row in 0..self.dims.rows() {
            if let (Some(to), from) = (codes.get_mut(row * width..row * width + k), a2.codes.row(row)) {
                to.copy_from_slice(from);
            }
            for (block, scale) in a2.scales.row(row).iter().enumerate().take(blocks) {
                let place = self.scale_place(row, block, columns, &offsets, &experts);
                if let Some(to) = scales.get_mut(place) {
                    *to = *scale;
                }
            }
        }
        for (name, bytes) in [("a2_codes", codes), ("a2_scales", scales)] {
            if let Some(buffer) = self.buffers.get(name) {
                self.device.write(*buffer, &bytes);
            }
        }
        self.tensors.injected_a2_codes = Some(a2.codes.clone());
        self.tensors.injected_a2_scales = Some(a2.scales.clone());
    }
}
