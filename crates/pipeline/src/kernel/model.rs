//! What a kernel's header says.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::case::FormatPair;

pub use record::{Load, MmaPath};

/// The stage of the pipeline that a kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelStage {
    /// Top-k and softmax.
    Route,
    /// Rows by expert.
    Permute,
    /// Hidden states to MXFP8.
    Quantize,
    /// FC1 and FC2.
    Gemm,
    /// SwiGLU and MXFP8.
    Activation,
    /// Rows back to tokens.
    Finalize,
}

/// The order in which a GEMM adds along K.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KOrder {
    /// Ascending, one mma after the other.
    Ascending,
    /// Exact sums of 32, rounded onto `tile_k / 32` accumulators in turn; then the second half of these is added to the first,
    /// until one is left.
    Partials,
    /// Not declared.
    #[default]
    Any,
}

/// How a kernel computes `e^x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpKind {
    /// It does not.
    #[default]
    None,
    /// Multiplications and FMAs: the same bits on every device.
    Fma,
    /// `ex2.approx`, within PTX's bound.
    Ex2Approx,
}

/// How a kernel adds the rows of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Atomics {
    /// With no atomics: in the order of the slots.
    #[default]
    None,
    /// By additions of f32 in any order, rounded to bf16 once.
    F32,
    /// By additions of bf16 in any order.
    Bf16,
}

impl Atomics {
    /// The word in cases and headers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }
}

/// What a kernel promises about its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The order along K.
    #[serde(default)]
    pub k_order: KOrder,
    /// Whether it multiplies the padding of K too, which the producer then keeps at zero with finite scales.
    #[serde(default)]
    pub reads_k_pad: bool,
    /// Whether two runs give the same bits.
    pub deterministic: bool,
    /// How it computes `e^x`.
    #[serde(default)]
    pub exp: ExpKind,
    /// With which atomic additions it sums.
    #[serde(default)]
    pub atomics: Atomics,
}

/// What a kernel needs for operands of other formats than MXFP8 by MXFP4.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormatNeeds {
    /// On every path.
    #[serde(default)]
    pub needs: Vec<String>,
    /// On the native path besides.
    #[serde(default)]
    pub native: Vec<String>,
    /// On the portable path besides.
    #[serde(default)]
    pub portable: Vec<String>,
}

/// The header as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) about: String,
    pub(super) stage: KernelStage,
    pub(super) entry: String,
    #[serde(default)]
    pub(super) paths: Vec<MmaPath>,
    #[serde(default)]
    pub(super) load: Option<Load>,
    #[serde(default)]
    pub(super) needs: Vec<String>,
    #[serde(default)]
    pub(super) needs_native: Vec<String>,
    #[serde(default)]
    pub(super) needs_portable: Vec<String>,
    #[serde(default)]
    pub(super) needs_gemv: Vec<String>,
    #[serde(default)]
    pub(super) formats: BTreeMap<FormatPair, FormatNeeds>,
    #[serde(default)]
    pub(super) packed: Vec<MmaPath>,
    #[serde(default)]
    pub(super) defines: BTreeMap<String, String>,
    pub(super) grid: Vec<String>,
    pub(super) block: String,
    #[serde(default)]
    pub(super) smem: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) contract: Contract,
}

/// A kernel: a source and what the pipeline must know to launch it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// File name, `quantize.cu`.
    pub file: String,
    /// CUDA C++, header included, so that lines count as in the file.
    pub text: String,
    /// One sentence.
    pub about: String,
    /// What it does.
    pub stage: KernelStage,
    /// The entry's name.
    pub entry: String,
    /// The MMA paths it has; none for stages that multiply no matrices.
    pub paths: Vec<MmaPath>,
    /// How tiles reach shared memory, for GEMMs.
    pub load: Option<Load>,
    /// Capabilities it needs on every path.
    pub needs: Vec<String>,
    /// Capabilities it needs on one path besides.
    pub needs_of: BTreeMap<MmaPath, Vec<String>>,
    /// The formats of operands that it can be compiled for besides MXFP8 by MXFP4, and what it needs then.
    pub formats: BTreeMap<FormatPair, FormatNeeds>,
    /// Paths on which weights take four bits in shared memory.
    pub packed: Vec<MmaPath>,
    /// Macros it wants as they are.
    pub defines: BTreeMap<String, String>,
    /// CTAs in x, y and z, as expressions.
    pub grid: [String; 3],
    /// Threads in x.
    pub block: String,
    /// Dynamic shared memory in bytes.
    pub smem: String,
    /// Names of the arguments, in order.
    pub args: Vec<String>,
    /// What it promises.
    pub contract: Contract,
    /// Whether it came from a folder of the user's: then it is taken for its stage, whatever variant a case asks for.
    pub own: bool,
}

impl Kernel {
    /// The capabilities that it needs on `path` for operands of these formats.
    #[must_use]
    pub fn needs_on(&self, pair: FormatPair, path: MmaPath) -> Vec<&str> {
        let special = self.formats.get(&pair);
        let (common, special): (&[String], &[String]) = match (special, path) {
            _ if pair == FormatPair::default() => {
                (&self.needs, self.needs_of.get(&path).map_or(&[][..], Vec::as_slice))
            }
            (Some(of), MmaPath::Native) => (&of.needs, &of.native),
            (Some(of), MmaPath::Portable) => (&of.needs, &of.portable),
            (Some(of), MmaPath::Gemv) => (&of.needs, &[]),
            // A stage that touches no operand.
            (None, _) => (&self.needs, &[]),
        };
        common.iter().chain(special).map(String::as_str).collect()
    }

    /// Whether it can be compiled for operands of these formats; stages that touch no operand take any.
    #[must_use]
    pub fn takes(&self, pair: FormatPair) -> bool {
        let touches =
            matches!(self.stage, KernelStage::Quantize | KernelStage::Gemm | KernelStage::Activation);
        !touches || pair == FormatPair::default() || self.formats.contains_key(&pair)
    }
}
