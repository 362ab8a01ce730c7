//! A case: what it asks, with every default filled in.

use std::path::PathBuf;

use serde::Deserialize;

use super::pair::{Format, FormatPair};
use super::router::Router;
use record::{Stage, Tile, words};

words! {
    /// Which values the tensors hold.
    #[derive(Default)]
    Regime {
        /// Small integers times powers of two: every sum is exact, in any order, and is compared bit for bit.
        #[default]
        Exact "exact",
        /// One non-zero block per row, so that a single scale byte or code shows in what is stored.
        Impulse "impulse",
        /// Values as a model has them.
        Real "real",
        /// As `real`, with NaN, infinities, extreme scales, zero blocks, negative zeros, ties of rounding and thresholds of scale rules in known
        /// places.
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
        /// As many rows per expert as `expert_rows` says.
        Rows "rows",
        /// By logits of which many are equal, some of them zeros of either sign.
        Ties "ties",
    }
}

words! {
    /// How the scale of a block follows from its largest magnitude.
    #[derive(Default)]
    ScaleRule {
        /// The smallest that loses nothing: ⌈log2(amax/448)⌉ (FlashInfer, TensorRT-LLM, Triton's default).
        #[default]
        Ceil "ceil",
        /// ⌊log2 amax⌋ − 8 (OCP MX 1.0).
        Floor "floor",
        /// ⌊log2 of amax rounded to 3 mantissa bits⌋ − 8 (Quark's `even`, for e4m3).
        Even "even",
        /// The power of two nearest to amax/448, the midpoint up (CUDA's `e8m0` to nearest).
        Nearest "nearest",
        /// ⌊log2(amax/448)⌋ (PTX `cvt.rz`).
        Rz "rz",
        /// Always one: e4m3 without scales.
        Identity "identity",
        /// NVFP4 alone: the largest magnitude of a block becomes 4 or 6, whichever errs less in the sum of magnitudes
        /// (FlashInfer's default for 4over6).
        FourOverSixMae "four_over_six_mae",
        /// The same by the sum of squares.
        FourOverSixMse "four_over_six_mse",
    }
}

impl ScaleRule {
    /// Whether activations of this format may have it. Rules of shared exponents say nothing about NVFP4, whose only other rule is 6.
    #[must_use]
    pub fn suits(self, format: Format) -> bool {
        !matches!(self, Self::FourOverSixMae | Self::FourOverSixMse) || format == Format::Nvfp4
    }
}

words! {
    /// Where gate and up stand among the 2·I columns of the first GEMM.
    #[derive(Default)]
    GateUp {
        /// Even columns are gates, odd ones ups (gpt-oss checkpoints).
        #[default]
        Interleaved "interleaved",
        /// The first half is gates.
        GateFirst "gate_first",
        /// The first half is ups (FlashInfer's CUTLASS backend).
        UpFirst "up_first",
    }
}

words! {
    /// Where a bias is added.
    #[derive(Default)]
    BiasPlace {
        /// Before the GEMM stores.
        #[default]
        Epilogue "epilogue",
        /// By the kernel that reads what the GEMM stored.
        NextStage "next_stage",
    }
}

words! {
    /// What a GEMM does where K is no multiple of 128.
    #[derive(Default)]
    KTail {
        /// It stops behind the last block; what lies behind may be anything.
        #[default]
        Stop "stop",
        /// It multiplies the padding, which its producers keep at zero with finite scales.
        Padded "padded",
    }
}

words! {
    /// Where the scales lie.
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
    /// Where the device keeps the weights of its experts.
    #[derive(Default)]
    Slots {
        /// One after the other.
        #[default]
        Packed "packed",
        /// Three of them at offsets beyond 2^31, 2^32 and 2^33 elements, with nothing in between.
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
        /// In the order of the slots.
        #[default]
        Slots "slots",
        /// By atomic additions of f32, in any order.
        AtomicF32 "atomic_f32",
    }
}

words! {
    /// Which kernel configurations (load and MMA path) of a case's tiles the default set runs.
    #[derive(Default)]
    Configurations {
        /// Each load and each path, in pairs that change from case to case.
        #[default]
        Paired "paired",
        /// Every load with every path.
        All "all",
        /// A single one: the case is about the stages beside the GEMM.
        One "one",
    }
}

words! {
    /// Where the global scales of NVFP4 activations come from.
    #[derive(Default)]
    GlobalScale {
        /// From calibration: one for each expert, an input.
        #[default]
        Calibrated "calibrated",
        /// From the largest magnitude of each row, by the kernel that quantizes it.
        Token "token",
    }
}

words! {
    /// How far the arguments of e^x reach: router logits against the largest of their token, and gates.
    #[derive(Default)]
    Arguments {
        /// As a model has them.
        #[default]
        Usual "usual",
        /// To the ends of f32: results from subnormals to the largest finite number, and beyond.
        Wide "wide",
    }
}

/// What each kernel configuration has to meet in a case. The planner makes the case's dimensions larger for a configuration until
/// it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Minimum {
    /// How often the ring of stages is filled. K has that many times the stages in tiles, at least two more than the stages,
    /// and a ragged one. With 0 it has one full tile and a ragged one.
    pub rounds: usize,
    /// Full tiles of N in front of a ragged one.
    pub n_tiles: usize,
    /// Full tiles of M in front of a ragged one, of one expert.
    pub m_tiles: usize,
}

/// A failure that is known and reported; it is asserted both ways.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFailure {
    /// Where it is reported.
    pub url: String,
    /// The stage that is wrong.
    pub stage: Stage,
    /// The device on which it is; every one when left out.
    pub device: Option<String>,
    /// The tile with which it is, as `MxNxK`; every one when left out.
    pub tile: Option<Tile>,
}

/// One problem of the pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its name: the file's stem.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// What it asks, in one sentence.
    pub about: String,
    /// The model whose dimensions it takes.
    pub model: Option<String>,
    /// Tokens T.
    pub tokens: usize,
    /// How activations and weights are stored.
    pub pair: FormatPair,
    /// Width H of hidden states, a multiple of 32.
    pub hidden: usize,
    /// Width I between the GEMMs, a multiple of 32.
    pub inter: usize,
    /// Experts that the router chooses from.
    pub experts: usize,
    /// Experts that it chooses for one token.
    pub top_k: usize,
    /// Experts beside these that every token visits with weight 1.
    pub shared_experts: usize,
    /// From logits to choices and weights.
    pub router: Router,
    /// The seed that is used unless a run names one.
    pub seed: u64,
    /// Which values.
    pub regime: Regime,
    /// How tokens choose.
    pub routing: Routing,
    /// Rows of each expert, where `routing` is `rows`; empty otherwise.
    pub expert_rows: Vec<usize>,
    /// How scales are chosen.
    pub scale_rule: ScaleRule,
    /// Where global scales of activations come from, in formats that have some.
    pub global_scale: GlobalScale,
    /// Where gates stand.
    pub gate_up: GateUp,
    /// Factor inside the sigmoid.
    pub alpha: f32,
    /// What is added to up.
    pub beta: f32,
    /// Where gate and up are clamped; infinite for nowhere.
    pub limit: f32,
    /// Whether the experts have biases; zeros stand for them when not.
    pub bias: bool,
    /// Where the first GEMM's bias is added.
    pub fc1_bias: BiasPlace,
    /// Where the second GEMM's bias is added.
    pub fc2_bias: BiasPlace,
    /// What the GEMMs do behind the last block of K.
    pub k_tail: KTail,
    /// Where the scales lie.
    pub scale_tiles: ScaleTiles,
    /// Where the device keeps the weights of its experts.
    pub slots: Slots,
    /// Whether every kernel may begin before the one in front of it has ended (programmatic dependent launch).
    pub pdl: bool,
    /// How the kernels compute e^x.
    pub exp: Exp,
    /// How the rows of a token are added.
    pub finalize: Finalize,
    /// Schedules of warps and CTAs that must all give the same; a run may ask for more.
    pub schedules: u64,
    /// The tiles it is run with, as `MxNxK`; empty for those that the tile policy chooses.
    pub tiles: Vec<Tile>,
    /// What every kernel configuration has to meet; the dimensions are then the least.
    pub minimum: Option<Minimum>,
    /// Which configurations the default set runs.
    pub configurations: Configurations,
    /// How far the arguments of e^x reach.
    pub arguments: Arguments,
    /// What is known to fail.
    pub known_failures: Vec<KnownFailure>,
}
