//! A checkpoint layer instead of generated weights: safetensors files, read expert by expert.
//!
//! A file is one `.safetensors`, or the `model.safetensors.index.json` of a sharded checkpoint. Headers are read completely, data
//! only for the experts that a problem needs. Names and layouts are those of published checkpoints: gpt-oss in MXFP4, and NVFP4
//! as written by ModelOpt and compressed-tensors (docs/numerics.md, 10.1).

mod gpt_oss;
mod header;
mod nvfp4;

pub use gpt_oss::GptOssLayer;
pub use nvfp4::{GlobalScale, Matrix, Nvfp4Layer, Projection, Writer};

use std::io;
use std::path::{Path, PathBuf};

use self::header::Files;
use super::error::MoeError;
use super::reference::formats::bf16;
use super::tensors::Tensors;
use crate::moe::case::{Case, GateUp, Regime};

/// Why a layer cannot be read from a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not a safetensors file or index, or is truncated.
    #[error("{}: {message}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The fault and its remedy.
        message: String,
    },
    /// The checkpoint has no such layer.
    #[error("{}: there is no layer {layer}; {there}", path.display())]
    Layer {
        /// The file.
        path: PathBuf,
        /// The layer.
        layer: usize,
        /// The layers that exist.
        there: String,
    },
    /// A tensor of the layer is missing.
    #[error("{}: tensor `{name}` is missing; the nearest is {nearest}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The name most like it, between backticks.
        nearest: String,
    },
    /// A tensor holds elements of another type.
    #[error("{}: `{name}` is {found}, but {layout} has {wanted}", path.display())]
    Type {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type.
        found: String,
        /// The layout that requires another type.
        layout: &'static str,
        /// The allowed types.
        wanted: &'static str,
    },
    /// A tensor's shape does not match the layer's other tensors.
    #[error("{}: `{name}` {said}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The shape, the expected shape, and the reason for it.
        said: String,
    },
    /// The case does not fit the layer.
    #[error("case `{case}` does not fit {}: {message}", path.display())]
    Case {
        /// The case.
        case: String,
        /// The file.
        path: PathBuf,
        /// The mismatch, and a case that would fit.
        message: String,
    },
}

/// A layer whose tensors exist, with checked types and consistent shapes.
#[derive(Debug, Clone)]
pub struct Layer {
    path: PathBuf,
    number: usize,
    form: Form,
}

/// The form of a checkpoint: its tensor names and their contents.
#[derive(Debug, Clone)]
enum Form {
    GptOss(Box<GptOssLayer>),
    Nvfp4(Box<Nvfp4Layer>),
}

/// A router: weights [E, H], and the bias added to its logits.
struct Router {
    weights: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl Layer {
    /// Opens layer `number` of the checkpoint at `path` and checks the names, types, shapes and file ranges of its tensors.
    ///
    /// # Errors
    /// [`CheckpointError`], with the file and the tensor.
    pub fn open(path: &Path, number: usize) -> Result<Self, CheckpointError> {
        let files = Files::open(path)?;
        let form = match nvfp4::writer(&files) {
            Some(writer) => Form::Nvfp4(Box::new(Nvfp4Layer::of_files(path, number, &files, writer)?)),
            None => Form::GptOss(Box::new(GptOssLayer::of_files(path, number, &files)?)),
        };
        Ok(Self { path: path.to_owned(), number, form })
    }

    /// Width of hidden states H, width between the GEMMs I, and routed experts E.
    #[must_use]
    pub const fn sizes(&self) -> (usize, usize, usize) {
        match &self.form {
            Form::GptOss(layer) => layer.sizes(),
            Form::Nvfp4(layer) => layer.sizes(),
        }
    }

    /// Checks that a case can run with the layer's weights: it needs the layer's dimensions and formats, and realistic values.
    ///
    /// # Errors
    /// [`CheckpointError::Case`].
    pub fn fits(&self, case: &Case) -> Result<(), CheckpointError> {
        let fault = |message: String| {
            Err(CheckpointError::Case { case: case.name.clone(), path: self.path.clone(), message })
        };
        let (hidden, inter, experts) = self.sizes();
        for (name, of_case, of_layer) in [
            ("hidden", case.hidden, hidden),
            ("inter", case.inter, inter),
            ("experts", case.experts, experts),
        ] {
            if of_case != of_layer {
                return fault(format!("its `{name}` is {of_case}, but layer {} has {of_layer}", self.number));
            }
        }
        if case.regime != Regime::Real {
            return fault(format!(
                "its regime is `{}`, which generates its own weights; use a case of the regime `real`",
                case.regime.word()
            ));
        }
        let unfit = match &self.form {
            Form::GptOss(_) => GptOssLayer::unfit(case),
            Form::Nvfp4(layer) => layer.unfit(case),
        };
        unfit.map_or(Ok(()), fault)
    }

    /// Returns router logits [T, E] for hidden states [T, H] (bf16), summed in doubles and rounded to f32 once.
    ///
    /// # Errors
    /// [`CheckpointError`] if the file cannot be read.
    pub(super) fn logits(&self, hidden: &[u16]) -> Result<Vec<f32>, CheckpointError> {
        let Router { weights, bias } = match &self.form {
            Form::GptOss(layer) => layer.router()?,
            Form::Nvfp4(layer) => Router { weights: layer.router()?, bias: None },
        };
        let (width, _, experts) = self.sizes();
        let bias = bias.unwrap_or_else(|| vec![0.0; experts]);
        let mut out = Vec::with_capacity(hidden.len() / width * experts);
        for token in hidden.chunks(width) {
            let token: Vec<f64> = token.iter().map(|x| bf16(*x)).collect();
            for (row, bias) in weights.chunks(width).zip(&bias) {
                let sum: f64 = row.iter().zip(&token).map(|(w, x)| f64::from(*w) * x).sum();
                out.push((sum + f64::from(*bias)) as f32);
            }
        }
        Ok(out)
    }

    /// Returns the router's correction bias `[E]`, if it has one.
    ///
    /// # Errors
    /// [`CheckpointError`] when the file cannot be read.
    pub(super) fn correction_bias(&self) -> Result<Option<Vec<f32>>, CheckpointError> {
        match &self.form {
            Form::GptOss(_) => Ok(None),
            Form::Nvfp4(layer) => layer.correction_bias(),
        }
    }

    /// Fills the weight fields of `inputs` for these experts, ascending, with gates placed as in the case.
    ///
    /// # Errors
    /// [`CheckpointError`] when the file cannot be read or its global scales do not fit the kernels.
    pub(super) fn weights(
        &self,
        case: &Case,
        experts: &[usize],
        inputs: &mut Tensors,
    ) -> Result<(), MoeError> {
        match &self.form {
            Form::GptOss(layer) => layer.weights(case.gate_up, experts, inputs),
            Form::Nvfp4(layer) => layer.weights(case, experts, inputs),
        }
    }
}

/// Joins rows of gates and ups, each of `width`, in the order of `gate_up`.
fn joined<T: Copy>(gate_up: GateUp, gate: &[T], up: &[T], width: usize) -> Vec<T> {
    match gate_up {
        GateUp::GateFirst => [gate, up].concat(),
        GateUp::UpFirst => [up, gate].concat(),
        GateUp::Interleaved => {
            gate.chunks(width).zip(up.chunks(width)).flat_map(|(gate, up)| [gate, up].concat()).collect()
        }
    }
}

/// Describes the layers of a checkpoint whose tensor names begin with one of `prefixes`.
fn layers_of(files: &Files, prefixes: &[&str]) -> String {
    let number = |name: &str| {
        prefixes.iter().find_map(|prefix| {
            let rest = name.strip_prefix(prefix)?;
            let (number, rest) = rest.split_once('.')?;
            rest.starts_with("mlp.").then(|| number.parse::<usize>().ok()).flatten()
        })
    };
    let mut found: Vec<usize> = files.names().filter_map(number).collect();
    found.sort_unstable();
    found.dedup();
    match (found.first(), found.last()) {
        (Some(first), Some(last)) if last - first + 1 == found.len() => {
            format!("it has layers {first} to {last}")
        }
        (Some(_), _) => format!("it has layers {found:?}"),
        _ => "it has no expert tensors; a checkpoint is gpt-oss's in MXFP4, or one in NVFP4 of ModelOpt or compressed-tensors".to_owned(),
    }
}
