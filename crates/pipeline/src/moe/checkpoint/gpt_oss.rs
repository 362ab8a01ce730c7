//! A layer of a gpt-oss checkpoint in MXFP4, with Hugging Face's tensor names or the original ones.
//!
//! Blocks of 32 e2m1 codes, low nibble first, along K; rows of the first GEMM interleaved, gates even.

use std::path::Path;

use safetensors::Dtype;

use super::header::{Entry, Files};
use super::{CheckpointError, Router, joined, layers_of};
use crate::moe::case::{Case, Format, GateUp};
use crate::moe::dims::BLOCK;
use crate::moe::error::MoeError;
use crate::moe::tensors::{Array, Tensors};

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
    /// The text before and after the layer's number.
    layer: (&'static str, &'static str),
    /// Names by [`Part`], in its order.
    parts: [&'static str; 8],
}

/// The name of the layout in errors.
const GPT_OSS: &str = "a gpt-oss checkpoint";

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

/// A layer whose tensors exist, with checked types and consistent shapes.
#[derive(Debug, Clone)]
pub struct GptOssLayer {
    /// By [`Part`].
    entries: [Entry; 8],
    /// Width of hidden states, width between the GEMMs, experts.
    hidden: usize,
    inter: usize,
    experts: usize,
}

impl GptOssLayer {
    /// The layer of opened files.
    pub(super) fn of_files(path: &Path, number: usize, files: &Files) -> Result<Self, CheckpointError> {
        let prefix = |naming: &Naming| format!("{}{number}{}", naming.layer.0, naming.layer.1);
        let has = |naming: &&Naming| files.names().any(|name| name.starts_with(&prefix(naming)));
        let Some(naming) = NAMINGS.iter().find(has) else {
            return Err(CheckpointError::Layer {
                path: path.to_owned(),
                layer: number,
                there: layers_of(files, &NAMINGS.map(|naming| naming.layer.0)),
            });
        };
        let names = naming.parts.map(|part| format!("{}{part}", prefix(naming)));
        let found = files.entries(&names)?;
        let entries = names.iter().filter_map(|name| found.get(name).cloned()).collect::<Vec<_>>();
        let entries: [Entry; 8] = entries.try_into().map_err(|_| CheckpointError::Format {
            path: path.to_owned(),
            message: "a layer has eight tensors".to_owned(),
        })?;
        let mut layer = Self { entries, hidden: 0, inter: 0, experts: 0 };
        layer.check()?;
        Ok(layer)
    }

    fn entry(&self, part: Part) -> &Entry {
        &self.entries[part as usize]
    }

    /// Checks types, then shapes: the blocks of both matrices define the dimensions.
    fn check(&mut self) -> Result<(), CheckpointError> {
        use Part::{Router, RouterBias, W2Bias, W2Blocks, W2Scales, W13Bias, W13Blocks, W13Scales};
        for part in [W13Blocks, W13Scales, W2Blocks, W2Scales] {
            self.entry(part).typed(&[Dtype::U8], GPT_OSS, "U8")?;
        }
        for part in [W13Bias, W2Bias, Router, RouterBias] {
            self.entry(part).typed(&[Dtype::BF16, Dtype::F32], GPT_OSS, "BF16 or F32")?;
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

    /// Width of hidden states H, width between the GEMMs I, and experts E.
    pub(super) const fn sizes(&self) -> (usize, usize, usize) {
        (self.hidden, self.inter, self.experts)
    }

    /// Returns the reason why a case cannot use such weights, if there is one.
    pub(super) fn unfit(case: &Case) -> Option<String> {
        let format = case.pair.weight();
        if format != Format::Mxfp4 {
            return Some(format!("its weights are {}, but the layer's are MXFP4", format.word()));
        }
        if case.shared_experts > 0 {
            return Some("it has shared experts, but the layer does not".to_owned());
        }
        (!case.bias).then(|| "it has no biases, but the layer does".to_owned())
    }

    /// Reads the router with the bias of its logits.
    ///
    /// # Errors
    /// [`CheckpointError`] when the file cannot be read.
    pub(super) fn router(&self) -> Result<Router, CheckpointError> {
        let bias = Some(self.floats(Part::RouterBias, None)?);
        Ok(Router { weights: self.floats(Part::Router, None)?, bias })
    }

    /// Fills the weight fields of `inputs` for these experts, ascending, with gates placed as in `gate_up`.
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

    /// Reads the bytes of one expert of a tensor, or of all experts.
    fn read(&self, part: Part, expert: Option<usize>) -> Result<Vec<u8>, CheckpointError> {
        self.entry(part).read(expert.map(|e| (e, self.experts)))
    }

    fn floats(&self, part: Part, expert: Option<usize>) -> Result<Vec<f32>, CheckpointError> {
        self.entry(part).floats(expert.map(|e| (e, self.experts)))
    }
}

/// Rows of `width`, interleaved in the file, joined as `gate_up` has them, expert by expert.
fn placed<T: Copy>(gate_up: GateUp, rows: usize, data: &[T], width: usize) -> Vec<T> {
    let every = |expert: &[T], from: usize| -> Vec<T> {
        expert.chunks(width).skip(from).step_by(2).flatten().copied().collect()
    };
    data.chunks(rows * width)
        .flat_map(|expert| joined(gate_up, &every(expert, 0), &every(expert, 1), width))
        .collect()
}
