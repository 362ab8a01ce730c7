//! A layer of an NVFP4 checkpoint: a tensor for each matrix of each expert, as ModelOpt or compressed-tensors names it.
//!
//! Both store e2m1 codes, low nibble first, and an e4m3 scale for every 16 of them along K. ModelOpt's `weight_scale_2` multiplies
//! the scales; `weight_global_scale` of compressed-tensors divides them (docs/numerics.md, 10.1).

use std::path::{Path, PathBuf};

use safetensors::Dtype;

use super::header::{Entry, Files};
use super::{CheckpointError, joined, layers_of};
use crate::moe::case::{Case, Format, Routing};
use crate::moe::contract::Settings;
use crate::moe::error::MoeError;
use crate::moe::tensors::{Array, Tensors};

/// Elements that share one scale.
const BLOCK: usize = 16;

const LAYER: (&str, &str) = ("model.layers.", ".mlp.");

/// The tool that wrote a checkpoint; it determines the names and the meaning of the global scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// NVIDIA's ModelOpt.
    ModelOpt,
    /// llm-compressor, in the format `nvfp4-pack-quantized`.
    CompressedTensors,
}

/// The names of a matrix's tensors.
struct Naming {
    codes: &'static str,
    scales: &'static str,
    global: &'static str,
    input: &'static str,
}

impl Writer {
    const ALL: [Self; 2] = [Self::ModelOpt, Self::CompressedTensors];

    const fn naming(self) -> Naming {
        match self {
            Self::ModelOpt => Naming {
                codes: "weight",
                scales: "weight_scale",
                global: "weight_scale_2",
                input: "input_scale",
            },
            Self::CompressedTensors => Naming {
                codes: "weight_packed",
                scales: "weight_scale",
                global: "weight_global_scale",
                input: "input_global_scale",
            },
        }
    }

    pub(super) const fn layout(self) -> &'static str {
        match self {
            Self::ModelOpt => "an NVFP4 checkpoint of ModelOpt",
            Self::CompressedTensors => "an NVFP4 checkpoint of compressed-tensors",
        }
    }

    const fn global(self, stored: f32) -> GlobalScale {
        match self {
            Self::ModelOpt => GlobalScale::Factor(stored),
            Self::CompressedTensors => GlobalScale::Divisor(stored),
        }
    }
}

/// A global scale as stored: a reciprocal in f32 would round once more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GlobalScale {
    /// An element is code · scale · this.
    Factor(f32),
    /// An element is code · scale / this.
    Divisor(f32),
}

impl GlobalScale {
    /// The number in the file.
    const fn stored(self) -> f32 {
        match self {
            Self::Factor(x) | Self::Divisor(x) => x,
        }
    }

    /// Returns the factor of code · scale; for a divisor, its reciprocal within 2^-53.
    #[must_use]
    pub fn factor(self) -> f64 {
        match self {
            Self::Factor(x) => f64::from(x),
            Self::Divisor(x) => 1.0 / f64::from(x),
        }
    }
}

/// A matrix of an expert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Projection {
    /// [I, H].
    Gate,
    /// [I, H].
    Up,
    /// [H, I].
    Down,
}

impl Projection {
    const ALL: [Self; 3] = [Self::Gate, Self::Up, Self::Down];

    const fn word(self) -> &'static str {
        match self {
            Self::Gate => "gate_proj",
            Self::Up => "up_proj",
            Self::Down => "down_proj",
        }
    }
}

/// A matrix of one expert.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Rows N and columns K.
    pub shape: (usize, usize),
    /// e2m1 codes [N, K/2], low nibble first.
    pub codes: Vec<u8>,
    /// e4m3 scales [N, K/16].
    pub scales: Vec<u8>,
    /// The global scale of the weights.
    pub global: GlobalScale,
    /// The global scale of the activations that the matrix multiplies, if the checkpoint has one.
    pub input: Option<GlobalScale>,
}

/// The tensors of a matrix.
#[derive(Debug, Clone)]
struct Place {
    codes: Entry,
    scales: Entry,
    global: Entry,
    input: Option<Entry>,
}

/// A layer whose tensors exist, with checked types and consistent shapes.
#[derive(Debug, Clone)]
pub struct Nvfp4Layer {
    path: PathBuf,
    writer: Writer,
    /// By expert and [`Projection`]; the shared expert comes last.
    places: Vec<[Place; 3]>,
    /// Experts that the router chooses from.
    routed: usize,
    router: Entry,
    correction_bias: Option<Entry>,
    hidden: usize,
    inter: usize,
}

/// Returns the writer of a checkpoint's expert tensors, if they are NVFP4.
pub(super) fn writer(files: &Files) -> Option<Writer> {
    Writer::ALL.into_iter().find(|w| {
        let end = format!(".gate_proj.{}", w.naming().global);
        files.names().any(|name| name.contains(".mlp.experts.") && name.ends_with(&end))
    })
}

impl Nvfp4Layer {
    /// Opens layer `number` of the checkpoint at `path` and checks the names, types, shapes and file ranges of its tensors.
    ///
    /// # Errors
    /// [`CheckpointError`], with the file and the tensor.
    pub fn open(path: &Path, number: usize) -> Result<Self, CheckpointError> {
        let files = Files::open(path)?;
        let writer = writer(&files).ok_or_else(|| no_layer(path, number, &files))?;
        Self::of_files(path, number, &files, writer)
    }

    /// The layer of opened files.
    pub(super) fn of_files(
        path: &Path,
        number: usize,
        files: &Files,
        writer: Writer,
    ) -> Result<Self, CheckpointError> {
        let no_layer = || no_layer(path, number, files);
        let prefix = format!("{}{number}{}", LAYER.0, LAYER.1);
        let experts = experts(files, &prefix);
        if experts == 0 {
            return Err(no_layer());
        }
        let naming = writer.naming();
        let mut of_experts: Vec<String> = (0..experts).map(|e| format!("{prefix}experts.{e}")).collect();
        // A shared expert may be stored in 16 bits although the others are quantized: this kernel does not run it then.
        let shared = format!("{prefix}shared_experts");
        of_experts.extend(files.has(&format!("{shared}.gate_proj.{}", naming.global)).then_some(shared));
        let mut names = Vec::new();
        for expert in &of_experts {
            for projection in Projection::ALL {
                let of = |part| format!("{expert}.{}.{part}", projection.word());
                names.extend([naming.codes, naming.scales, naming.global].map(of));
                // A checkpoint for 16-bit activations has none.
                names.extend(Some(of(naming.input)).filter(|name| files.has(name)));
            }
        }
        let bias = format!("{prefix}gate.e_score_correction_bias");
        let bias = files.has(&bias).then_some(bias);
        let router = format!("{prefix}gate.weight");
        names.push(router.clone());
        names.extend(bias.clone());
        let mut found = files.entries(&names)?;
        let mut take = |name: &str| found.remove(name).ok_or_else(no_layer);
        let mut places = Vec::with_capacity(of_experts.len());
        for expert in &of_experts {
            let mut place = |projection: Projection| -> Result<Place, CheckpointError> {
                let of = |part| format!("{expert}.{}.{part}", projection.word());
                Ok(Place {
                    codes: take(&of(naming.codes))?,
                    scales: take(&of(naming.scales))?,
                    global: take(&of(naming.global))?,
                    input: take(&of(naming.input)).ok(),
                })
            };
            places.push([place(Projection::Gate)?, place(Projection::Up)?, place(Projection::Down)?]);
        }
        let (router, correction_bias) = (take(&router)?, bias.and_then(|name| take(&name).ok()));
        let path = path.to_owned();
        let mut layer =
            Self { path, writer, places, routed: experts, router, correction_bias, hidden: 0, inter: 0 };
        layer.check()?;
        Ok(layer)
    }

    /// Checks types, then shapes: the first expert's gate defines the dimensions.
    fn check(&mut self) -> Result<(), CheckpointError> {
        let layout = self.writer.layout();
        let Some([first, ..]) = self.places.first() else { return Ok(()) };
        let first = first.codes.clone();
        let [inter, bytes] = first.shape[..] else {
            return Err(first.shaped("[inter, hidden / 2]", "two codes a byte"));
        };
        if inter == 0 || bytes == 0 || !inter.is_multiple_of(BLOCK) || !bytes.is_multiple_of(BLOCK / 2) {
            return Err(first.shaped("[inter, hidden / 2]", "inter and hidden are multiples of 16"));
        }
        (self.inter, self.hidden) = (inter, 2 * bytes);
        for places in &self.places {
            for (place, projection) in places.iter().zip(Projection::ALL) {
                let (rows, depth) = self.shape(projection);
                place.codes.typed(&[Dtype::U8], layout, "U8")?;
                place.scales.typed(&[Dtype::F8_E4M3], layout, "F8_E4M3")?;
                let why = format!("`{}` is {:?}", first.name, first.shape);
                for (entry, wanted) in
                    [(&place.codes, vec![rows, depth / 2]), (&place.scales, vec![rows, depth / BLOCK])]
                {
                    if entry.shape != wanted {
                        return Err(entry.shaped(&format!("{wanted:?}"), &why));
                    }
                }
                for entry in std::iter::once(&place.global).chain(&place.input) {
                    entry.typed(&[Dtype::F32], layout, "F32")?;
                    if entry.shape.iter().product::<usize>() != 1 {
                        return Err(entry.shaped("[1]", "one global scale for a matrix"));
                    }
                }
            }
        }
        self.router.typed(&[Dtype::BF16, Dtype::F32], layout, "BF16 or F32")?;
        let experts = self.routed;
        if self.router.shape != [experts, self.hidden] {
            let why = format!("{experts} experts have tensors");
            return Err(self.router.shaped(&format!("{:?}", [experts, self.hidden]), &why));
        }
        if let Some(bias) = &self.correction_bias {
            bias.typed(&[Dtype::BF16, Dtype::F32], layout, "BF16 or F32")?;
            if bias.shape != [experts] {
                return Err(bias.shaped(&format!("{:?}", [experts]), "a bias for each expert"));
            }
        }
        Ok(())
    }

    const fn shape(&self, projection: Projection) -> (usize, usize) {
        match projection {
            Projection::Gate | Projection::Up => (self.inter, self.hidden),
            Projection::Down => (self.hidden, self.inter),
        }
    }

    /// The tool that wrote the checkpoint.
    #[must_use]
    pub const fn writer(&self) -> Writer {
        self.writer
    }

    /// Width of hidden states H, width between the GEMMs I, and routed experts E.
    #[must_use]
    pub const fn sizes(&self) -> (usize, usize, usize) {
        (self.hidden, self.inter, self.routed)
    }

    /// Experts that every token passes.
    #[must_use]
    pub const fn shared(&self) -> usize {
        self.places.len() - self.routed
    }

    /// Reads a matrix of one expert; the shared expert follows the routed ones.
    ///
    /// # Errors
    /// [`CheckpointError`] when the file cannot be read, there is no such expert, or a global scale is not a finite number above zero.
    pub fn matrix(&self, expert: usize, projection: Projection) -> Result<Matrix, CheckpointError> {
        let places = self.places.get(expert).ok_or_else(|| CheckpointError::Format {
            path: self.path.clone(),
            message: format!("there is no expert {expert}; it has {}", self.places.len()),
        })?;
        let place = &places[projection as usize];
        Ok(Matrix {
            shape: self.shape(projection),
            codes: place.codes.read(None)?,
            scales: place.scales.read(None)?,
            global: self.writer.global(scalar(&place.global)?),
            input: place.input.as_ref().map(|e| Ok(self.writer.global(scalar(e)?))).transpose()?,
        })
    }

    /// Returns the reason why a case cannot use such weights, if there is one.
    pub(super) fn unfit(&self, case: &Case) -> Option<String> {
        let format = case.pair.weight();
        if format != Format::Nvfp4 {
            let word = format.word();
            return Some(format!(
                "its weights are {word}, but the layer's are NVFP4; use --format nvfp4 or bf16xnvfp4"
            ));
        }
        if case.shared_experts > self.shared() {
            let (wanted, there) = (case.shared_experts, self.shared());
            return Some(format!("it has {wanted} shared experts, but the layer has {there} in NVFP4"));
        }
        if case.bias {
            return Some("it has biases, but the layer has none".to_owned());
        }
        if case.routing == Routing::Random && case.router.correction_bias != self.correction_bias.is_some() {
            return Some(match self.correction_bias {
                Some(_) => "its router has no correction bias, but the layer's has one".to_owned(),
                None => "its router has a correction bias, but the layer's has none".to_owned(),
            });
        }
        let lacks = |place: &Place| place.input.is_none();
        if Settings::from_case(case).has_calibrated_scales() && self.places.iter().flatten().any(lacks) {
            return Some(
                "the layer has no input scales for NVFP4 activations; use --format bf16xnvfp4, or a case with \
                `global_scale: token`"
                    .to_owned(),
            );
        }
        None
    }

    /// Fills the weight fields of `inputs` for these experts, ascending, with gates placed as in the case. Gates and ups are one
    /// GEMM with one global scale, and read the same activations.
    ///
    /// # Errors
    /// [`CheckpointError`] when the file cannot be read, or the global scales of an expert's gate and up differ.
    pub(super) fn weights(
        &self,
        case: &Case,
        experts: &[usize],
        inputs: &mut Tensors,
    ) -> Result<(), MoeError> {
        let (hidden, inter, n) = (self.hidden, self.inter, experts.len());
        let (mut w13, mut w13_scales, mut w2, mut w2_scales) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut w13_global, mut w2_global) = (Vec::new(), Vec::new());
        let (mut a1_global, mut a2_global) = (Vec::new(), Vec::new());
        for &expert in experts {
            let [gate, up, down] = [
                self.matrix(expert, Projection::Gate)?,
                self.matrix(expert, Projection::Up)?,
                self.matrix(expert, Projection::Down)?,
            ];
            let names = self.writer.naming();
            self.same(expert, names.global, gate.global, up.global)?;
            w13.extend(joined(case.gate_up, &gate.codes, &up.codes, hidden / 2));
            w13_scales.extend(joined(case.gate_up, &gate.scales, &up.scales, hidden / BLOCK));
            w13_global.push(gate.global.factor() as f32);
            w2.extend(down.codes);
            w2_scales.extend(down.scales);
            w2_global.push(down.global.factor() as f32);
            if let (Some(gate), Some(up), Some(down)) = (gate.input, up.input, down.input) {
                self.same(expert, names.input, gate, up)?;
                a1_global.push(gate.factor() as f32);
                a2_global.push(down.factor() as f32);
            }
        }
        inputs.w13_blocks = Some(Array::new("w13_blocks", &[n, 2 * inter, hidden / 2], w13)?);
        inputs.w13_scales = Some(Array::new("w13_scales", &[n, 2 * inter, hidden / BLOCK], w13_scales)?);
        inputs.w13_bias = Some(Array::new("w13_bias", &[n, 2 * inter], vec![0.0; n * 2 * inter])?);
        inputs.w13_global = Some(Array::new("w13_global", &[n], w13_global)?);
        inputs.w2_blocks = Some(Array::new("w2_blocks", &[n, hidden, inter / 2], w2)?);
        inputs.w2_scales = Some(Array::new("w2_scales", &[n, hidden, inter / BLOCK], w2_scales)?);
        inputs.w2_bias = Some(Array::new("w2_bias", &[n, hidden], vec![0.0; n * hidden])?);
        inputs.w2_global = Some(Array::new("w2_global", &[n], w2_global)?);
        if Settings::from_case(case).has_calibrated_scales() {
            inputs.a1_global = Some(Array::new("a1_global", &[n], a1_global)?);
            inputs.a2_global = Some(Array::new("a2_global", &[n], a2_global)?);
        }
        Ok(())
    }

    /// Checks that an expert's gate and up have the same global scale.
    fn same(
        &self,
        expert: usize,
        name: &str,
        gate: GlobalScale,
        up: GlobalScale,
    ) -> Result<(), CheckpointError> {
        if gate == up {
            return Ok(());
        }
        let message = format!(
            "`{name}` of expert {expert} is {} for gate_proj, but {} for up_proj; the kernels take one for both: \
             quantise them with a shared global scale",
            gate.stored(),
            up.stored()
        );
        Err(CheckpointError::Format { path: self.path.clone(), message })
    }

    /// The router's weights `[E, H]`.
    ///
    /// # Errors
    /// [`CheckpointError`] when the file cannot be read.
    pub fn router(&self) -> Result<Vec<f32>, CheckpointError> {
        self.router.floats(None)
    }

    /// The router's correction bias `[E]`, where it has one.
    ///
    /// # Errors
    /// [`CheckpointError`] when the file cannot be read.
    pub fn correction_bias(&self) -> Result<Option<Vec<f32>>, CheckpointError> {
        self.correction_bias.as_ref().map(|entry| entry.floats(None)).transpose()
    }
}

fn no_layer(path: &Path, number: usize, files: &Files) -> CheckpointError {
    CheckpointError::Layer { path: path.to_owned(), layer: number, there: layers_of(files, &[LAYER.0]) }
}

/// Reads a global scale; zero, infinity and NaN are invalid.
fn scalar(entry: &Entry) -> Result<f32, CheckpointError> {
    let value = entry.floats(None)?.first().copied().unwrap_or(f32::NAN);
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    let message = format!("`{}` is {value}; a global scale is finite and above 0", entry.name);
    Err(CheckpointError::Format { path: entry.path.clone(), message })
}

/// One more than the largest expert of a layer that has a tensor.
fn experts(files: &Files, prefix: &str) -> usize {
    let number = |name: &str| {
        name.strip_prefix(prefix)?.strip_prefix("experts.")?.split_once('.')?.0.parse::<usize>().ok()
    };
    // A number beyond all tensors cannot be an expert; the hole below it is found by name.
    let most = files.names().count();
    files.names().filter_map(number).max().map_or(0, |last| last.saturating_add(1).min(most))
}
