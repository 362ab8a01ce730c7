//! The numerical contract of a kernel, and its form in a dump's metadata.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use numerics::tensor_core::Model;

use super::dims::Dims;
use super::error::MoeError;
use super::suspicion::Suspicion;
use super::tensors::Tensors;
use crate::kernel::MmaPath;
use crate::moe::case::{
    BiasPlace, Case, Format, FormatPair, GateUp, GlobalScale, GroupScore, Groups, Router, ScaleRule, Scores,
};

/// The rules of the pipeline that a kernel does not choose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The router: logits to choices and weights.
    pub router: Router,
    /// The formats of activations and weights.
    pub pair: FormatPair,
    /// The positions of the gate columns in the first GEMM.
    pub gate_up: GateUp,
    /// Factor inside the sigmoid.
    pub alpha: f32,
    /// The term added to up.
    pub beta: f32,
    /// The clamp of gate (from above) and up (both ways); infinite for none.
    pub limit: f32,
    /// The rule for activation scales.
    pub scale_rule: ScaleRule,
    /// The source of the global scales of activations, in formats that have them.
    pub global_scale: GlobalScale,
    /// Where the first bias is added.
    pub fc1_bias: BiasPlace,
    /// Where the second bias is added.
    pub fc2_bias: BiasPlace,
}

impl Settings {
    /// The settings of the gpt-oss checkpoint, with biases in the epilogue (docs/numerics.md, 10.1).
    pub const GPT_OSS: Self = Self {
        router: Router::GPT_OSS,
        pair: FormatPair::Mxfp8Mxfp4,
        gate_up: GateUp::Interleaved,
        alpha: 1.702,
        beta: 1.0,
        limit: 7.0,
        scale_rule: ScaleRule::Ceil,
        global_scale: GlobalScale::Calibrated,
        fc1_bias: BiasPlace::Epilogue,
        fc2_bias: BiasPlace::Epilogue,
    };

    /// Returns the settings of a case.
    #[must_use]
    pub const fn from_case(case: &Case) -> Self {
        Self {
            router: case.router,
            pair: case.pair,
            gate_up: case.gate_up,
            alpha: case.alpha,
            beta: case.beta,
            limit: case.limit,
            scale_rule: case.scale_rule,
            global_scale: case.global_scale,
            fc1_bias: case.fc1_bias,
            fc2_bias: case.fc2_bias,
        }
    }

    /// Whether global scales of activations are inputs.
    #[must_use]
    pub const fn has_calibrated_scales(&self) -> bool {
        self.pair.activation().has_global() && matches!(self.global_scale, GlobalScale::Calibrated)
    }

    /// Whether each row of activations has its own global scale.
    #[must_use]
    pub const fn has_token_scales(&self) -> bool {
        self.pair.activation().has_global() && matches!(self.global_scale, GlobalScale::Token)
    }
}

/// The order in which a GEMM adds along K.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KOrder {
    /// Chunk after chunk with rising k, onto one accumulator.
    Ascending,
    /// Chunks in any order, onto any number of accumulators.
    Any,
    /// Blocks of 32, summed exactly and rounded to nearest onto this many accumulators in turn; then the second half of the
    /// accumulators is added to the first, until one is left. A power of two up to [`MOST_PARTIALS`].
    Partials(u8),
}

/// The most accumulators of [`KOrder::Partials`]: the lanes of a warp.
pub const MOST_PARTIALS: usize = 32;

impl KOrder {
    const ALL: [Self; 8] = [
        Self::Ascending,
        Self::Any,
        Self::Partials(1),
        Self::Partials(2),
        Self::Partials(4),
        Self::Partials(8),
        Self::Partials(16),
        Self::Partials(32),
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Ascending => "ascending",
            Self::Any => "any",
            Self::Partials(1) => "partials_1",
            Self::Partials(2) => "partials_2",
            Self::Partials(4) => "partials_4",
            Self::Partials(8) => "partials_8",
            Self::Partials(16) => "partials_16",
            Self::Partials(_) => "partials_32",
        }
    }
}

/// How a GEMM sums (docs/numerics.md, 4.1: one step adds `chunk` products to the accumulator, every term cut `fraction` bits
/// below the largest exponent).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Accumulation {
    /// Products L of one step: a divisor of a block, or several groups.
    pub chunk: usize,
    /// Products whose exact sum is one term (4.9); 1 if each product is a term.
    pub group: usize,
    /// Bits F kept below the largest exponent, at least 23.
    pub fraction: u32,
    /// The order along K.
    pub order: KOrder,
}

impl Accumulation {
    /// One block-scaled `mma` per 32 elements, rising (sm_120).
    pub const NATIVE: Self = Self { chunk: 32, group: 1, fraction: 25, order: KOrder::Ascending };
    /// `mma` of bf16 with scales folded in, K = 16 at once, rising (sm_90, sm_100, sm_120).
    pub const BF16: Self = Self { chunk: 16, group: 1, fraction: 25, order: KOrder::Ascending };
    /// `mma` of bf16 with scales folded in, K = 8 at once, rising (sm_80, sm_86, sm_89).
    pub const BF16_AMPERE: Self = Self { chunk: 8, group: 1, fraction: 24, order: KOrder::Ascending };
    /// bf16 on the tensor cores of this hardware; `None` means SM12x.
    #[must_use]
    pub const fn bf16_of(model: Option<Model>) -> Self {
        match model {
            Some(Model::Sm80 | Model::Sm89) => Self::BF16_AMPERE,
            Some(Model::Sm90 | Model::Sm100 | Model::Sm120) | None => Self::BF16,
        }
    }

    /// Integer dot products of blocks of 32 onto `count` accumulators; no tensor core truncates.
    #[must_use]
    pub const fn partials(count: u8) -> Self {
        Self { chunk: 32, group: 1, fraction: 25, order: KOrder::Partials(count) }
    }

    /// An unknown accumulation: the loosest of the above, in any order.
    pub const UNKNOWN: Self = Self { chunk: 8, group: 1, fraction: 24, order: KOrder::Any };

    /// One `mma` of packed e2m1 per 64 elements, rising: four groups of 16 (sm_120).
    pub const NATIVE_FP4: Self = Self { chunk: 64, group: 16, fraction: 35, order: KOrder::Ascending };

    /// The accumulation of a path's kernels for operands of these formats, on the tensor cores of `model`; `None` means SM12x.
    #[must_use]
    pub const fn on_path(pair: FormatPair, path: MmaPath, model: Option<Model>) -> Self {
        match path {
            MmaPath::Native if pair.is_fp4() => Self::NATIVE_FP4,
            MmaPath::Native if !matches!(pair.activation(), Format::Bf16) => Self::NATIVE,
            _ => Self::bf16_of(model),
        }
    }

    /// Terms of one step.
    #[must_use]
    pub const fn terms(&self) -> usize {
        self.chunk / if self.group == 0 { 1 } else { self.group }
    }

    /// Products of a term or, if each product is a term, of a step.
    #[must_use]
    pub const fn width(&self) -> usize {
        if self.group > 1 { self.group } else { self.chunk }
    }

    /// Whether the tensor core takes the scales as separate operands; otherwise they are folded into the operands (4.6).
    #[must_use]
    pub const fn scales_apart(&self) -> bool {
        self.chunk >= 32
    }
}

/// The order and type in which finalize adds a token's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinalizeOrder {
    /// In the order of the slots, in f32, rounded to bf16 once.
    Slots,
    /// By atomic additions of f32, in any order, rounded to bf16 once.
    AtomicF32,
    /// By atomic additions of bf16, in any order, rounded at each.
    AtomicBf16,
}

/// The error bound of a kernel's exp: |found − e^x| ≤ (`relative` + `per_argument`·|x|)·e^x, and e^0 is 1
/// (docs/numerics.md, 5.1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpBound {
    /// The part that does not depend on x.
    pub relative: f64,
    /// The part that grows with |x|; 0 if x is one rounded f32 and its reduction loses nothing.
    pub per_argument: f64,
}

impl ExpBound {
    /// Whether the argument is exactly the f32 that the formula names: a kernel that folds a factor into it, or approximates
    /// e^x by other functions, errs by more as it grows.
    #[must_use]
    pub fn is_of_exact_argument(&self) -> bool {
        self.per_argument == 0.0
    }

    /// A polynomial by FMA after an exact reduction: two units in the last place.
    pub const FMA: Self = Self { relative: 2.0 / (1 << 23) as f64, per_argument: 0.0 };
    /// `ex2.approx(x·log2 e)`: 2^-22 by PTX, and two roundings of the argument (docs/numerics.md, 5.1).
    pub const EX2_APPROX: Self =
        Self { relative: 1.0 / (1 << 22) as f64, per_argument: 1.0 / (1 << 23) as f64 };
}

/// The numerical guarantees of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contract {
    /// Dimensions.
    pub dims: Dims,
    /// The rules of the pipeline.
    pub settings: Settings,
    /// The accumulation of the first GEMM.
    pub fc1: Accumulation,
    /// The accumulation of the second GEMM.
    pub fc2: Accumulation,
    /// The error bound of exp in routing and activation.
    pub exp: ExpBound,
    /// The order of the additions in the last stage.
    pub finalize: FinalizeOrder,
    /// Whether every run stores the same bits in all stages but the last; for that one, `finalize` decides.
    pub deterministic: bool,
    /// What a search for an explanation suspects; nothing for every other judgement.
    pub suspicion: Suspicion,
}

impl Contract {
    /// Returns the contract of our native kernels.
    #[must_use]
    pub const fn native(dims: Dims, settings: Settings) -> Self {
        Self {
            dims,
            settings,
            fc1: Accumulation::NATIVE,
            fc2: Accumulation::NATIVE,
            exp: ExpBound::FMA,
            finalize: FinalizeOrder::Slots,
            deterministic: true,
            suspicion: Suspicion::NONE,
        }
    }

    /// Whether every run stores the same bits, in every stage.
    #[must_use]
    pub fn repeats(&self) -> bool {
        self.deterministic && self.finalize == FinalizeOrder::Slots
    }

    /// Returns a dump's metadata, except for `case`, `seed`, `tile` and `target`, which only its writer knows.
    #[must_use]
    pub fn metadata(&self) -> BTreeMap<String, String> {
        let s = &self.settings;
        let mut out: BTreeMap<String, String> = [
            ("format", s.pair.word().to_owned()),
            ("gate_up", s.gate_up.word().to_owned()),
            ("alpha", s.alpha.to_string()),
            ("beta", s.beta.to_string()),
            ("limit", s.limit.to_string()),
            ("fc1_bias", s.fc1_bias.word().to_owned()),
            ("fc2_bias", s.fc2_bias.word().to_owned()),
            ("scale_rule", s.scale_rule.word().to_owned()),
            ("global_scale", s.global_scale.word().to_owned()),
            ("exp_relative", self.exp.relative.to_string()),
            ("exp_per_argument", self.exp.per_argument.to_string()),
            ("finalize", finalize_word(self.finalize).to_owned()),
            ("deterministic", self.deterministic.to_string()),
            ("top_k", self.dims.top_k.to_string()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
        let r = &s.router;
        out.extend([
            ("router_scores".to_owned(), r.scores.word().to_owned()),
            ("renormalise".to_owned(), r.renormalise.to_string()),
            ("routed_scaling".to_owned(), r.scaling.to_string()),
            ("shared_experts".to_owned(), self.dims.shared.to_string()),
        ]);
        if let Some(Groups { count, kept, score }) = r.groups {
            out.extend([
                ("groups".to_owned(), count.to_string()),
                ("groups_kept".to_owned(), kept.to_string()),
                ("group_score".to_owned(), score.word().to_owned()),
            ]);
        }
        for (name, a) in [("fc1", &self.fc1), ("fc2", &self.fc2)] {
            out.insert(format!("{name}_chunk"), a.chunk.to_string());
            out.insert(format!("{name}_group"), a.group.to_string());
            out.insert(format!("{name}_fraction"), a.fraction.to_string());
            out.insert(format!("{name}_order"), a.order.word().to_owned());
        }
        out
    }

    /// Reads the contract of a dump: dimensions from its shapes, rules from its metadata. Omitted metadata default to gpt-oss
    /// (interleaved, alpha 1.702, beta 1, limit 7, biases in the epilogue, scales by `ceil`), sums in any order, and exp by
    /// `ex2.approx`.
    ///
    /// # Errors
    /// [`MoeError::Shape`] if shapes contradict each other, [`MoeError::Metadata`] for an unknown word.
    pub fn of_dump(tensors: &Tensors, metadata: &BTreeMap<String, String>) -> Result<Self, MoeError> {
        let from = Metadata(metadata);
        let has_token_scales = tensors.a1_token_scale.is_some() || tensors.a2_token_scale.is_some();
        let settings = Settings {
            router: from.router(tensors)?,
            pair: pair_of(metadata)?,
            gate_up: from.word("gate_up", GateUp::Interleaved, GateUp::ALL, GateUp::word)?,
            alpha: from.number("alpha", 1.702)?,
            beta: from.number("beta", 1.0)?,
            limit: from.number("limit", 7.0)?,
            scale_rule: from.word("scale_rule", ScaleRule::Ceil, ScaleRule::ALL, ScaleRule::word)?,
            global_scale: from.word(
                "global_scale",
                if has_token_scales { GlobalScale::Token } else { GlobalScale::Calibrated },
                GlobalScale::ALL,
                GlobalScale::word,
            )?,
            fc1_bias: from.word("fc1_bias", BiasPlace::Epilogue, BiasPlace::ALL, BiasPlace::word)?,
            fc2_bias: from.word("fc2_bias", BiasPlace::Epilogue, BiasPlace::ALL, BiasPlace::word)?,
        };
        let unknown = Accumulation::UNKNOWN;
        let accumulation = |chunk, group, fraction, order| -> Result<Accumulation, MoeError> {
            Ok(Accumulation {
                chunk: from.number(chunk, unknown.chunk)?,
                group: from.number(group, unknown.group)?,
                fraction: from.number(fraction, unknown.fraction)?,
                order: from.word(order, unknown.order, &KOrder::ALL, KOrder::word)?,
            })
        };
        let finalize = [FinalizeOrder::Slots, FinalizeOrder::AtomicF32, FinalizeOrder::AtomicBf16];
        let contract = Self {
            dims: from.dims(tensors, settings.pair)?,
            settings,
            fc1: accumulation("fc1_chunk", "fc1_group", "fc1_fraction", "fc1_order")?,
            fc2: accumulation("fc2_chunk", "fc2_group", "fc2_fraction", "fc2_order")?,
            exp: ExpBound {
                relative: from.number("exp_relative", ExpBound::EX2_APPROX.relative)?,
                per_argument: from.number("exp_per_argument", ExpBound::EX2_APPROX.per_argument)?,
            },
            finalize: from.word("finalize", FinalizeOrder::Slots, &finalize, finalize_word)?,
            deterministic: from.number("deterministic", true)?,
            suspicion: Suspicion::NONE,
        };
        contract.check()?;
        Ok(contract)
    }

    /// Checks that the contract is consistent.
    ///
    /// # Errors
    /// [`MoeError::Invalid`] if no bound can be derived from it.
    pub fn check(&self) -> Result<(), MoeError> {
        let (rule, pair) = (self.settings.scale_rule, self.settings.pair);
        if !rule.suits(pair.activation()) {
            let (rule, pair) = (rule.word(), pair.word());
            return Err(MoeError::Invalid(format!(
                "scale_rule: `{rule}` needs NVFP4 activations, not {pair}"
            )));
        }
        for (name, a) in [("fc1", &self.fc1), ("fc2", &self.fc2)] {
            let (chunk, block) = (a.chunk, self.settings.pair.block());
            if a.group != 1
                && (*a != Accumulation { order: a.order, ..Accumulation::NATIVE_FP4 }
                    || !self.settings.pair.is_fp4())
            {
                let group = a.group;
                return Err(MoeError::Invalid(format!(
                    "{name}: groups of {group} in steps of {chunk} are not supported for {}; e2m1 pairs have groups of 16 in steps of 64 with 35 bits",
                    self.settings.pair.word()
                )));
            }
            if a.group == 1 && ![1, 2, 4, 8, 16, 32].iter().any(|c| *c == chunk && block % c == 0) {
                return Err(MoeError::Invalid(format!(
                    "{name}: chunks of {chunk} products do not divide a block of {block}"
                )));
            }
            let partials = match a.order {
                KOrder::Partials(n) => usize::from(n),
                _ => 1,
            };
            if !partials.is_power_of_two() || partials > MOST_PARTIALS || (partials > 1 && a.chunk != 32) {
                return Err(MoeError::Invalid(format!(
                    "{name}: {partials} accumulators for sums of {chunk}; only powers of two up to {MOST_PARTIALS} \
                    are supported, for sums of 32"
                )));
            }
            // Below 23 bits the accumulator itself would be truncated, which no derivation here covers.
            if !(23..=64).contains(&a.fraction) {
                let f = a.fraction;
                return Err(MoeError::Invalid(format!(
                    "{name}: {f} bits below the largest exponent; 23 to 64 are supported"
                )));
            }
        }
        let s = &self.settings;
        let dims = &self.dims;
        if dims.shared > dims.experts || dims.shared > dims.top_k {
            return Err(MoeError::Invalid(format!(
                "{} shared experts among {} experts, of which a token has {}",
                dims.shared, dims.experts, dims.top_k
            )));
        }
        // A dump may omit the number of experts.
        if dims.routed() > 0 {
            if dims.chosen() > dims.routed() {
                let (chosen, routed) = (dims.chosen(), dims.routed());
                return Err(MoeError::Invalid(format!("a token chooses {chosen} of {routed} experts")));
            }
            s.router.check(dims.routed(), dims.chosen()).map_err(MoeError::Invalid)?;
        }
        let exp = [self.exp.relative, self.exp.per_argument];
        // An exp that may be a tenth off is no exp.
        if !s.alpha.is_finite() || !s.beta.is_finite() || s.limit.is_nan() || s.limit <= 0.0 {
            return Err(MoeError::Invalid(format!(
                "alpha {}, beta {} or limit {} is impossible",
                s.alpha, s.beta, s.limit
            )));
        }
        if exp.iter().any(|e| !(0.0..0.1).contains(e)) {
            return Err(MoeError::Invalid(format!(
                "an exp with relative errors {} and {} cannot be judged; both must be below 0.1",
                self.exp.relative, self.exp.per_argument
            )));
        }
        Ok(())
    }
}

const fn finalize_word(order: FinalizeOrder) -> &'static str {
    match order {
        FinalizeOrder::Slots => "slots",
        FinalizeOrder::AtomicF32 => "atomic_f32",
        FinalizeOrder::AtomicBf16 => "atomic_bf16",
    }
}

/// Returns the operand formats that a dump's metadata names; the default is MXFP8 by MXFP4.
///
/// # Errors
/// [`MoeError::Metadata`] for an unknown word.
pub fn pair_of(metadata: &BTreeMap<String, String>) -> Result<FormatPair, MoeError> {
    Metadata(metadata).word("format", FormatPair::default(), FormatPair::ALL, FormatPair::word)
}

/// Every key of a dump's metadata.
pub const KEYS: [&str; 34] = [
    "alpha",
    "beta",
    "case",
    "deterministic",
    "exp_per_argument",
    "exp_relative",
    "fc1_bias",
    "fc1_chunk",
    "fc1_fraction",
    "fc1_group",
    "fc1_order",
    "fc2_bias",
    "fc2_chunk",
    "fc2_fraction",
    "fc2_group",
    "fc2_order",
    "finalize",
    "format",
    "gate_up",
    "given",
    "global_scale",
    "group_score",
    "groups",
    "groups_kept",
    "limit",
    "renormalise",
    "routed_scaling",
    "router_scores",
    "scale_rule",
    "seed",
    "shared_experts",
    "target",
    "tile",
    "top_k",
];

/// The results that a dump's metadata declares to be inputs, such as the choices that a caller makes.
///
/// # Errors
/// [`MoeError::Metadata`] for a name that is not the result of a stage before the last one.
pub fn given_of(metadata: &BTreeMap<String, String>) -> Result<Vec<&'static str>, MoeError> {
    let Some(found) = metadata.get("given") else { return Ok(Vec::new()) };
    let known = |name: &str| GIVEN.into_iter().find(|known| *known == name.trim());
    found.split(',').map(known).collect::<Option<_>>().ok_or_else(|| MoeError::Metadata {
        key: "given",
        found: found.clone(),
        wanted: format!("it is a list of names among {}", GIVEN.join(", ")),
    })
}

/// The results that a caller may supply itself.
const GIVEN: [&str; 10] = [
    "topk_ids",
    "topk_weights",
    "row_token",
    "row_expert",
    "a1_codes",
    "a1_scales",
    "a1_token_scale",
    "a2_codes",
    "a2_scales",
    "a2_token_scale",
];

/// Metadata, read with defaults and with errors that list the legal values.
struct Metadata<'a>(&'a BTreeMap<String, String>);

impl Metadata<'_> {
    fn word<T: Copy>(
        &self,
        key: &'static str,
        default: T,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Result<T, MoeError> {
        let Some(found) = self.0.get(key) else { return Ok(default) };
        all.iter().copied().find(|v| word(*v) == found).ok_or_else(|| {
            let words: Vec<&str> = all.iter().map(|v| word(*v)).collect();
            MoeError::Metadata {
                key,
                found: found.clone(),
                wanted: format!("it is one of {}", words.join(", ")),
            }
        })
    }

    fn router(&self, tensors: &Tensors) -> Result<Router, MoeError> {
        let gpt_oss = Router::GPT_OSS;
        let count = self.number("groups", 0)?;
        let score = self.word("group_score", GroupScore::TopTwo, GroupScore::ALL, GroupScore::word)?;
        let kept = self.number("groups_kept", count)?;
        Ok(Router {
            scores: self.word("router_scores", gpt_oss.scores, Scores::ALL, Scores::word)?,
            correction_bias: tensors.correction_bias.is_some(),
            groups: (count > 0).then_some(Groups { count, kept, score }),
            renormalise: self.number("renormalise", gpt_oss.renormalise)?,
            scaling: self.number("routed_scaling", gpt_oss.scaling)?,
        })
    }

    /// Returns the dimensions from the shapes; logits do not count shared experts, all other tensors do.
    fn dims(&self, tensors: &Tensors, pair: FormatPair) -> Result<Dims, MoeError> {
        let mut dims = tensors.dims(pair)?;
        dims.shared = self.number("shared_experts", 0)?;
        let top_k: usize = self.number("top_k", dims.top_k)?;
        if dims.top_k != 0 && top_k != dims.top_k {
            return Err(MoeError::Metadata {
                key: "top_k",
                found: top_k.to_string(),
                wanted: format!("the tensors have {} experts per token", dims.top_k),
            });
        }
        dims.top_k = top_k;
        if tensors.router_logits.is_some() || tensors.correction_bias.is_some() {
            dims.experts = dims.experts.saturating_add(dims.shared);
        }
        Ok(dims)
    }

    fn number<T: FromStr + Display>(&self, key: &'static str, default: T) -> Result<T, MoeError> {
        let Some(found) = self.0.get(key) else { return Ok(default) };
        found.parse().map_err(|_| MoeError::Metadata {
            key,
            found: found.clone(),
            wanted: format!("it is written like `{default}`"),
        })
    }
}
