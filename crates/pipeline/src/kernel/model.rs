//! The data model of a kernel's header.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::case::FormatPair;

pub use record::{Load, MmaPath};

/// A stage of the pipeline that one kernel implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelStage {
    /// Top-k and expert weights.
    Route,
    /// Sorts rows by expert.
    Permute,
    /// Quantizes the hidden states to the activation format.
    Quantize,
    /// The GEMMs FC1 and FC2.
    Gemm,
    /// Applies SwiGLU and quantizes the result to the activation format.
    Activation,
    /// Adds the rows of each token.
    Finalize,
}

impl KernelStage {
    /// Its word in headers.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Permute => "permute",
            Self::Quantize => "quantize",
            Self::Gemm => "gemm",
            Self::Activation => "activation",
            Self::Finalize => "finalize",
        }
    }
}

/// The order in which a GEMM accumulates along K.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KOrder {
    /// Ascending K, one MMA after another.
    Ascending,
    /// Exact sums of 32 products are added, with rounding, to `tile_k / 32` accumulators in turn; then the second half of the
    /// accumulators is added to the first, until one is left.
    Partials,
    /// Not declared.
    #[default]
    Any,
}

/// How a kernel computes `e^x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpKind {
    /// It computes none.
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
    /// Without atomics, in slot order.
    #[default]
    None,
    /// With f32 atomics in any order, and one rounding to bf16.
    F32,
    /// With bf16 atomics in any order.
    Bf16,
}

impl Atomics {
    /// Returns its word in cases and headers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }
}

/// The numerical contract that a kernel declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The accumulation order along K.
    #[serde(default)]
    pub k_order: KOrder,
    /// Whether it also multiplies the padding of K; the producers then store zeros with finite scales there.
    #[serde(default)]
    pub reads_k_pad: bool,
    /// Whether every run produces the same bits.
    pub deterministic: bool,
    /// How it computes `e^x`.
    #[serde(default)]
    pub exp: ExpKind,
    /// The atomic additions that it sums with.
    #[serde(default)]
    pub atomics: Atomics,
}

/// The capabilities that a kernel needs for operand formats other than MXFP8 by MXFP4.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormatNeeds {
    /// Needed on every path.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Also needed on the native path.
    #[serde(default)]
    pub native: Vec<String>,
    /// Also needed on the portable path.
    #[serde(default)]
    pub portable: Vec<String>,
}

/// The header as written in the file.
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

/// A kernel: its source and all that the pipeline needs to compile and launch it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// File name, such as `quantize.cu`.
    pub file: String,
    /// CUDA C++ source. It includes the header, so that line numbers match the file.
    pub text: String,
    /// One sentence on the kernel.
    pub about: String,
    /// The stage that it implements.
    pub stage: KernelStage,
    /// The name of the entry function.
    pub entry: String,
    /// The MMA paths that it supports; empty for stages without a matrix product.
    pub paths: Vec<MmaPath>,
    /// How a GEMM loads its tiles; `None` for other stages.
    pub load: Option<Load>,
    /// Capabilities needed on every path.
    pub needs: Vec<String>,
    /// Capabilities also needed on one path.
    pub needs_of: BTreeMap<MmaPath, Vec<String>>,
    /// Operand formats other than MXFP8 by MXFP4 that it can be compiled for, and the capabilities they need.
    pub formats: BTreeMap<FormatPair, FormatNeeds>,
    /// Paths on which weights occupy four bits per element in shared memory.
    pub packed: Vec<MmaPath>,
    /// Macros to define, and their values, passed to the compiler unchanged.
    pub defines: BTreeMap<String, String>,
    /// CTAs in x, y and z, as expressions.
    pub grid: [String; 3],
    /// Threads in x, as an expression.
    pub block: String,
    /// Bytes of dynamic shared memory, as an expression.
    pub smem: String,
    /// Names of the arguments, in order.
    pub args: Vec<String>,
    /// The numerical contract that it declares.
    pub contract: Contract,
    /// Whether it comes from a user's folder. It is then preferred for its stage, even if the case requests another variant.
    pub own: bool,
}

impl Kernel {
    /// Returns the capabilities that it needs on `path` with operands of these formats.
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
            // The stage has no operand in these formats.
            (None, _) => (&self.needs, &[]),
        };
        common.iter().chain(special).map(String::as_str).collect()
    }

    /// Whether it can be compiled for operands of these formats. Stages without such operands support all formats.
    #[must_use]
    pub fn takes(&self, pair: FormatPair) -> bool {
        let touches =
            matches!(self.stage, KernelStage::Quantize | KernelStage::Gemm | KernelStage::Activation);
        !touches || pair == FormatPair::default() || self.formats.contains_key(&pair)
    }
}
