//! A layer of a gpt-oss checkpoint in place of made weights: safetensors files, read expert by expert.
//!
//! A file is one `.safetensors`, or the `model.safetensors.index.json` of a sharded checkpoint. Headers are read whole, data only
//! of the experts that a problem needs. Names and layouts are those of the published checkpoints (openai/gpt-oss, Hugging
//! Face and original form): blocks of 32 e2m1 codes, low nibble first, along K; rows of the first GEMM interleaved, gates even.

mod header;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::Dtype;

use self::header::{Entry, Files};
use super::dims::BLOCK;
use super::error::MoeError;
use super::reference::formats::bf16;
use super::tensors::{Array, Tensors};
use crate::case::{Case, GateUp, Regime};

/// Why a layer cannot be taken from a checkpoint.
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
    /// A file is no safetensors file or index, or is cut short.
    #[error("{}: {message}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what helps.
        message: String,
    },
    /// The checkpoint has no such layer.
    #[error("{}: there is no layer {layer}; {there}", path.display())]
    Layer {
        /// The file.
        path: PathBuf,
        /// The layer.
        layer: usize,
        /// Which there are.
        there: String,
    },
    /// A tensor of the layer is not there.
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
    #[error("{}: `{name}` is {found}, but a gpt-oss checkpoint has {wanted}", path.display())]
    Type {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type.
        found: String,
        /// What it may be.
        wanted: &'static str,
    },
    /// A tensor has another shape than the layer's others say.
    #[error("{}: `{name}` {said}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What it is, what it should be, and where that comes from.
        said: String,
    },
    /// The case does not fit the layer.
    #[error("case `{case}` does not fit {}: {message}", path.display())]
    Case {
        /// The case.
        case: String,
        /// The file.
        path: PathBuf,
        /// What does not fit, and what would.
        message: String,
    },
}

/// Which tensor of a layer.
#[derive(Debug, Clone, Copy)]
enum Part {
    W13Blocks,
    W13Scales,
    W13Bias,
    W2Blocks,
    W2Scales,
    W2Bias,
    Router,
    RouterBias,
}

/// How a published form of the checkpoint names a layer's tensors.
struct Naming {
    /// What stands before and behind the layer's number.
    layer: (&'static str, &'static str),
    /// Names by [`Part`], in its order.
    parts: [&'static str; 8],
}

/// Hugging Face's form, and the original one (docs/numerics.md, 10.1).
const NAMINGS: [Naming; 2] = [
    Naming {
        layer: ("model.layers.", ".mlp."),
        parts: [
            "experts.gate_up_proj_blocks",
            "experts.gate_up_proj_scales",
            "experts.gate_up_proj_bias",
            "experts.down_proj_blocks",
            "experts.down_proj_scales",
            "experts.down_proj_bias",
            "router.weight",
            "router.bias",
        ],
    },
    Naming {
        layer: ("block.", ".mlp."),
        parts: [
            "mlp1_weight.blocks",
            "mlp1_weight.scales",
            "mlp1_bias",
            "mlp2_weight.blocks",
            "mlp2_weight.scales",
            "mlp2_bias",
            "gate.weight",
            "gate.bias",
        ],
    },
];

/// A layer whose tensors are there, typed and of shapes that fit each other.
#[derive(Debug, Clone)]
pub struct Layer {
    path: PathBuf,
    number: usize,
    /// By [`Part`].
    entries: [Entry; 8],
    /// Width of hidden states, width between the GEMMs, experts.
    hidden: usize,
    inter: usize,
    experts: usize,
}

impl Layer {
    /// Opens layer `number` of the checkpoint at `path` and checks the names, types, shapes and places of its tensors.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn open(path: &Path, number: usize) -> Result<Self, CheckpointError> {
        let files = Files::open(path)?;
        let prefix = |naming: &Naming| format!("{}{number}{}", naming.layer.0, naming.layer.1);
        let has = |naming: &&Naming| files.names().any(|name| name.starts_with(&prefix(naming)));
        let Some(naming) = NAMINGS.iter().find(has) else {
            return Err(CheckpointError::Layer {
                path: path.to_owned(),
                layer: number,
                there: layers(&files),
            });
        };
        let find = |part: &&str| files.entry(&format!("{}{part}", prefix(naming)));
        let entries: Vec<Entry> = naming.parts.iter().map(find).collect::<Result<_, _>>()?;
        let entries: [Entry; 8] = entries.try_into().map_err(|_| CheckpointError::Format {
            path: path.to_owned(),
            message: "a layer has eight tensors".to_owned(),
        })?;
        let mut layer = Self { path: path.to_owned(), number, entries, hidden: 0, inter: 0, experts: 0 };
        layer.check()?;
        Ok(layer)
    }

    fn entry(&self, part: Part) -> &Entry {
        &self.entries[part as usize]
    }

    /// Types, then shapes: the blocks of both matrices tell the dimensions.
    fn check(&mut self) -> Result<(), CheckpointError> {
        use Part::{Router, RouterBias, W2Bias, W2Blocks, W2Scales, W13Bias, W13Blocks, W13Scales};
        for part in [W13Blocks, W13Scales, W2Blocks, W2Scales] {
            self.entry(part).typed(&[Dtype::U8], "U8")?;
        }
        for part in [W13Bias, W2Bias, Router, RouterBias] {
            self.entry(part).typed(&[Dtype::BF16, Dtype::F32], "BF16 or F32")?;
        }
        let blocks = self.entry(W13Blocks).clone();
        let [experts, cols, along, bytes] = blocks.shape[..] else {
            return Err(blocks.shaped("[experts, 2 x inter, hidden / 32, 16]", "blocks of 32 codes"));
        };
        if bytes != BLOCK / 2 || cols == 0 || !cols.is_multiple_of(2 * BLOCK) || along == 0 || experts == 0 {
            let wanted = "[experts, 2 x inter, hidden / 32, 16] with inter a multiple of 32";
            return Err(blocks.shaped(wanted, "blocks of 32 codes, a gate for every up"));
        }
        (self.experts, self.hidden, self.inter) = (experts, along * BLOCK, cols / 2);
        let (hidden, inter) = (self.hidden, self.inter);
        for (part, wanted) in [
            (W13Scales, vec![experts, cols, hidden / BLOCK]),
            (W13Bias, vec![experts, cols]),
            (W2Blocks, vec![experts, hidden, inter / BLOCK, BLOCK / 2]),
            (W2Scales, vec![experts, hidden, inter / BLOCK]),
            (W2Bias, vec![experts, hidden]),
            (Router, vec![experts, hidden]),
            (RouterBias, vec![experts]),
        ] {
            let entry = self.entry(part);
            if entry.shape != wanted {
                return Err(
                    entry.shaped(&format!("{wanted:?}"), &format!("`{}` is {:?}", blocks.name, blocks.shape))
                );
            }
        }
        Ok(())
    }

    /// Whether a case can be run with the layer's weights: dimensions as the layer has them, values as a model has them.
    ///
    /// # Errors
    /// [`CheckpointError::Case`].
    pub fn fits(&self, case: &Case) -> Result<(), CheckpointError> {
        let fault = |message: String| {
            Err(CheckpointError::Case { case: case.name.clone(), path: self.path.clone(), message })
        };
        for (name, of_case, of_layer) in [
            ("hidden", case.hidden, self.hidden),
            ("inter", case.inter, self.inter),
            ("experts", case.experts, self.experts),
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
        if !case.bias {
            return fault("it has no biases, but the layer does".to_owned());
        }
        Ok(())
    }

    /// Router logits [T, E] of hidden states [T, H] (bf16), summed in doubles and rounded to f32 once.
    ///
    /// # Errors
    /// [`CheckpointError`] when the file cannot be read.
    pub(super) fn logits(&self, hidden: &[u16]) -> Result<Vec<f32>, CheckpointError> {
        let (weights, bias) = (self.floats(Part::Router, None)?, self.floats(Part::RouterBias, None)?);
        let mut out = Vec::with_capacity(hidden.len() / self.hidden * self.experts);
        for token in hidden.chunks(self.hidden) {
            let token: Vec<f64> = token.iter().map(|x| bf16(*x)).collect();
            for (row, bias) in weights.chunks(self.hidden).zip(&bias) {
                let sum: f64 = row.iter().zip(&token).map(|(w, x)| f64::from(*w) * x).sum();
                out.push((sum + f64::from(*bias)) as f32);
            }
        }
        Ok(out)
    }

    /// Fills the weights' fields of `inputs` for these experts, ascending, with gates where `gate_up` has them.
    ///
    /// # Errors
    /// [`CheckpointError`] when the file cannot be read.
    pub(super) fn weights(
        &self,
        gate_up: GateUp,
        experts: &[usize],
        inputs: &mut Tensors,
    ) -> Result<(), MoeError> {
        let (hidden, inter, n) = (self.hidden, self.inter, experts.len());
        let bytes = |part| self.gathered(part, experts);
        let floats = |part| -> Result<Vec<f32>, CheckpointError> {
            Ok(experts.iter().map(|e| self.floats(part, Some(*e))).collect::<Result<Vec<_>, _>>()?.concat())
        };
        let w13 = placed(gate_up, 2 * inter, &bytes(Part::W13Blocks)?, hidden / 2);
        let w13_scales = placed(gate_up, 2 * inter, &bytes(Part::W13Scales)?, hidden / BLOCK);
        let w13_bias = placed(gate_up, 2 * inter, &floats(Part::W13Bias)?, 1);
        inputs.w13_blocks = Some(Array::new("w13_blocks", &[n, 2 * inter, hidden / 2], w13)?);
        inputs.w13_scales = Some(Array::new("w13_scales", &[n, 2 * inter, hidden / BLOCK], w13_scales)?);
        inputs.w13_bias = Some(Array::new("w13_bias", &[n, 2 * inter], w13_bias)?);
        let (w2, w2_scales) = (bytes(Part::W2Blocks)?, bytes(Part::W2Scales)?);
        inputs.w2_blocks = Some(Array::new("w2_blocks", &[n, hidden, inter / 2], w2)?);
        inputs.w2_scales = Some(Array::new("w2_scales", &[n, hidden, inter / BLOCK], w2_scales)?);
        inputs.w2_bias = Some(Array::new("w2_bias", &[n, hidden], floats(Part::W2Bias)?)?);
        Ok(())
    }

    fn gathered(&self, part: Part, experts: &[usize]) -> Result<Vec<u8>, CheckpointError> {
        Ok(experts.iter().map(|e| self.read(part, Some(*e))).collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The bytes of one expert of a tensor, or of all.
    fn read(&self, part: Part, expert: Option<usize>) -> Result<Vec<u8>, CheckpointError> {
        let entry = self.entry(part);
        let failed = |source| CheckpointError::File { path: entry.path.clone(), source };
        let each = entry.bytes / self.experts as u64;
        let (first, count) = expert.map_or((0, entry.bytes), |e| (e as u64 * each, each));
        let mut file = File::open(&entry.path).map_err(failed)?;
        file.seek(SeekFrom::Start(entry.start + first)).map_err(failed)?;
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(usize::MAX)];
        file.read_exact(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    fn floats(&self, part: Part, expert: Option<usize>) -> Result<Vec<f32>, CheckpointError> {
        let bytes = self.read(part, expert)?;
        Ok(if self.entry(part).dtype == Dtype::BF16 {
            // A bf16 is the upper half of an f32.
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16))
                .collect()
        } else {
            bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
        })
    }
}

/// Rows of `width`, interleaved in the file, with gates and ups where `gate_up` has them, expert by expert.
fn placed<T: Copy>(gate_up: GateUp, rows: usize, data: &[T], width: usize) -> Vec<T> {
    let half = rows / 2;
    // Which row of the file stands at `row`.
    let from = |row: usize| match gate_up {
        GateUp::Interleaved => row,
        GateUp::GateFirst => 2 * (row % half) + usize::from(row >= half),
        GateUp::UpFirst => 2 * (row % half) + usize::from(row < half),
    };
    let of_expert = |expert: &[T]| -> Vec<T> {
        (0..rows).flat_map(|row| expert[from(row) * width..(from(row) + 1) * width].to_vec()).collect()
    };
    data.chunks(rows * width).flat_map(of_expert).collect()
}

/// The layers of a checkpoint, in words.
fn layers(files: &Files) -> String {
    let number = |name: &str| {
        NAMINGS.iter().find_map(|naming| {
            let rest = name.strip_prefix(naming.layer.0)?;
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
        _ => "it has no expert tensors; is it a gpt-oss checkpoint in MXFP4?".to_owned(),
    }
}
