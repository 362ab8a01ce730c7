//! A case with every default filled in.

use std::path::PathBuf;

use serde::Deserialize;

use super::pair::{Format, FormatPair};
use super::router::Router;
use crate::moe::configuration::Tile;
use crate::moe::stage::Stage;
use record::words;

words! {
    /// The kind of values in the tensors.
    #[derive(Default)]
    Regime {
        /// Small integers times powers of two: every sum is exact, in any order, and is compared bit for bit.
        #[default]
        Exact "exact",
        /// One non-zero block per row, so that a single scale byte or code is visible in the output.
        Impulse "impulse",
        /// Values as in a model.
        Real "real",
        /// As `real`, with NaN, infinities, extreme scales, zero blocks, negative zeros, rounding ties and thresholds of scale
        /// rules in known places.
        Special "special",
    }
}

words! {
    /// How tokens choose experts.
    #[derive(Default)]
    Routing {
        /// By random logits.
        #[default]
        Random "random",
        /// In turn: slot j of token t is expert (t·k + j) mod E.
        Balanced "balanced",
        /// Every token the same k experts.
        Same "same",
        /// As many rows per expert as `expert_rows` lists.
        Rows "rows",
        /// By logits of which many are equal, including zeros of both signs.
        Ties "ties",
    }
}

words! {
    /// How the scale of a block is derived from its largest magnitude.
    #[derive(Default)]
    ScaleRule {
        /// The smallest that does not saturate: ⌈log2(amax/448)⌉ (FlashInfer, TensorRT-LLM, Triton's default).
        #[default]
        Ceil "ceil",
        /// ⌊log2 amax⌋ − 8 (OCP MX 1.0).
        Floor "floor",
        /// ⌊log2 of amax rounded to 3 mantissa bits⌋ − 8 (Quark's `even`, for e4m3).
        Even "even",
        /// The power of two nearest to amax/448, with ties away from zero (CUDA's `e8m0` to nearest).
        Nearest "nearest",
        /// ⌊log2(amax/448)⌋ (PTX `cvt.rz`).
        Rz "rz",
        /// Always one: e4m3 without scales.
        Identity "identity",
        /// NVFP4 only: the largest magnitude of a block maps to 4 or 6, depending on which has the smaller sum of absolute errors
        /// (FlashInfer's default for 4over6).
        FourOverSixMae "four_over_six_mae",
        /// As `four_over_six_mae`, with the sum of squared errors.
        FourOverSixMse "four_over_six_mse",
    }
}

impl ScaleRule {
    /// Whether the rule applies to activations of this format. The four-over-six rules need NVFP4; any other rule maps the largest
    /// magnitude of an NVFP4 block to 6.
    #[must_use]
    pub fn suits(self, format: Format) -> bool {
        !matches!(self, Self::FourOverSixMae | Self::FourOverSixMse) || format == Format::Nvfp4
    }
}

words! {
    /// The order of gate and up among the 2·I columns of the first GEMM.
    #[derive(Default)]
    GateUp {
        /// Even columns are gate, odd columns are up (gpt-oss checkpoints).
        #[default]
        Interleaved "interleaved",
        /// The first half is gate.
        GateFirst "gate_first",
        /// The first half is up (FlashInfer's CUTLASS backend).
        UpFirst "up_first",
    }
}

words! {
    /// Where a bias is added.
    #[derive(Default)]
    BiasPlace {
        /// By the GEMM, before it stores.
        #[default]
        Epilogue "epilogue",
        /// By the kernel that reads the GEMM's output.
        NextStage "next_stage",
    }
}

words! {
    /// How a GEMM treats a K that is not a multiple of 128.
    #[derive(Default)]
    KTail {
        /// It stops after the last block; the padding may hold anything.
        #[default]
        Stop "stop",
        /// It multiplies the padding, which the producers fill with zeros and finite scales.
        Padded "padded",
    }
}

words! {
    /// The layout of the scales.
    #[derive(Default)]
    ScaleTiles {
        /// Tiles of 128 rows and 4 columns (CUTLASS, FlashInfer).
        #[default]
        Tile128x4 "128x4",
        /// Tiles of 8 rows and 4 columns (TensorRT-LLM, for few tokens).
        Tile8x4 "8x4",
    }
}

words! {
    /// The placement of the experts' weights in device memory.
    #[derive(Default)]
    Slots {
        /// Contiguous.
        #[default]
        Packed "packed",
        /// Three experts at offsets beyond 2^31, 2^32 and 2^33 elements, with nothing in between.
        Spread "spread",
    }
}

words! {
    /// How the kernels compute e^x.
    #[derive(Default)]
    Exp {
        /// Multiplications and FMAs: the same bits on every device.
        #[default]
        Fma "fma",
        /// `ex2.approx`, within PTX's bound.
        Ex2Approx "ex2_approx",
    }
}

words! {
    /// How the rows of a token are added.
    #[derive(Default)]
    Finalize {
        /// In slot order.
        #[default]
        Slots "slots",
        /// By f32 atomics, in any order.
        AtomicF32 "atomic_f32",
    }
}

words! {
    /// Which kernel configurations (load and MMA path) of a case's tiles the default set runs.
    #[derive(Default)]
    Configurations {
        /// Every load and every path, in pairs that vary between cases.
        #[default]
        Paired "paired",
        /// Every load with every path.
        All "all",
        /// One only: the case tests stages other than the GEMM.
        One "one",
    }
}

words! {
    /// The source of the global scales of NVFP4 activations.
    #[derive(Default)]
    GlobalScale {
        /// From calibration: an input, one per expert.
        #[default]
        Calibrated "calibrated",
        /// From the largest magnitude of each row, computed by the kernel that quantizes it.
        Token "token",
    }
}

words! {
    /// The range of the arguments of e^x: router logits relative to the largest of their token, and gates.
    #[derive(Default)]
    Arguments {
        /// As in a model.
        #[default]
        Usual "usual",
        /// To the limits of f32: results range from subnormals to the largest finite number, and overflow.
        Wide "wide",
    }
}

/// The tile counts that a case must reach in each kernel configuration. The planner enlarges the dimensions of the case for a
/// configuration until it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Minimum {
    /// How many times the ring of pipeline stages is filled: K has `rounds` times as many full tiles as there are stages, at least
    /// two more than the stages, and a partial tile. With 0, K has one full tile and a partial one.
    pub rounds: usize,
    /// Full tiles along N before a partial one.
    pub n_tiles: usize,
    /// Full tiles along M of one expert before a partial one.
    pub m_tiles: usize,
}

/// A known, reported failure. If the stage passes after all, that is an error too.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFailure {
    /// The URL of the report.
    pub url: String,
    /// The stage that fails.
    pub stage: Stage,
    /// The device on which it fails; every device if `None`.
    pub device: Option<String>,
    /// The tile, as `MxNxK`, with which it fails; every tile if `None`.
    pub tile: Option<Tile>,
}

/// One problem for the pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The name: the file stem.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// One sentence on what the case tests.
    pub about: String,
    /// The model that supplies the dimensions.
    pub model: Option<String>,
    /// Number of tokens T.
    pub tokens: usize,
    /// The formats of activations and weights.
    pub pair: FormatPair,
    /// Width H of hidden states, a multiple of 32.
    pub hidden: usize,
    /// Width I between the GEMMs, a multiple of 32.
    pub inter: usize,
    /// Experts that the router chooses from.
    pub experts: usize,
    /// Experts that the router chooses for one token.
    pub top_k: usize,
    /// Further experts that every token visits with weight 1.
    pub shared_experts: usize,
    /// How logits become choices and weights.
    pub router: Router,
    /// The seed, unless a run sets another.
    pub seed: u64,
    /// The kind of values in the tensors.
    pub regime: Regime,
    /// How tokens choose experts.
    pub routing: Routing,
    /// Rows of each expert if `routing` is `rows`; empty otherwise.
    pub expert_rows: Vec<usize>,
    /// How scales are derived.
    pub scale_rule: ScaleRule,
    /// The source of the activations' global scales, in formats that have them.
    pub global_scale: GlobalScale,
    /// The order of gate and up.
    pub gate_up: GateUp,
    /// The factor inside the sigmoid.
    pub alpha: f32,
    /// The constant added to up.
    pub beta: f32,
    /// The bound that gate and up are clamped to; infinite for none.
    pub limit: f32,
    /// Whether the experts have biases; without them, zeros are added.
    pub bias: bool,
    /// Where the first GEMM's bias is added.
    pub fc1_bias: BiasPlace,
    /// Where the second GEMM's bias is added.
    pub fc2_bias: BiasPlace,
    /// How the GEMMs treat the padding of K.
    pub k_tail: KTail,
    /// The layout of the scales.
    pub scale_tiles: ScaleTiles,
    /// The placement of the experts' weights in device memory.
    pub slots: Slots,
    /// Whether a kernel may start before the one ahead of it has ended (programmatic dependent launch).
    pub pdl: bool,
    /// How the kernels compute e^x.
    pub exp: Exp,
    /// How the rows of a token are added.
    pub finalize: Finalize,
    /// The number of warp and CTA schedules that must produce the same result; a run may use more.
    pub schedules: u64,
    /// The tiles to run, as `MxNxK`; empty for those that the tile policy chooses.
    pub tiles: Vec<Tile>,
    /// The tile counts that every kernel configuration must reach; the dimensions are then lower bounds.
    pub minimum: Option<Minimum>,
    /// The configurations that the default set runs.
    pub configurations: Configurations,
    /// The range of the arguments of e^x.
    pub arguments: Arguments,
    /// Known failures.
    pub known_failures: Vec<KnownFailure>,
}
