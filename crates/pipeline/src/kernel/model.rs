//! The data model of a kernel's header.

use std::collections::BTreeMap;

use serde::Deserialize;

record::words! {
    /// How a GEMM multiplies.
    #[derive(PartialOrd, Ord)]
    MmaPath {
        /// Block-scaled mma
        Native "native",
        /// bf16 mma, scales folded into the operands
        Portable "portable",
        /// Integer dot products without mma, for at most eight rows of an expert at once
        Gemv "gemv",
    }
}

record::words! {
    /// How tiles reach shared memory.
    #[derive(PartialOrd, Ord)]
    Load {
        /// Every thread copies
        CpAsync "cp_async",
        /// A producer warp with tensor maps
        Tma "tma",
        /// A producer warp with tensor maps that the kernel creates for each expert
        TmaReplace "tma_replace",
        /// Weights are loaded into registers
        Direct "direct",
    }
}

impl Load {
    /// Whether it uses tensor maps.
    #[must_use]
    pub const fn by_tma(self) -> bool {
        matches!(self, Self::Tma | Self::TmaReplace)
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

record::words! {
    /// How a kernel rounds quotients when it quantizes.
    QuotientRounding {
        /// To the nearest number of the type, ties to even, at most the largest.
        NearestEven "nearest_even",
    }
}

record::words! {
    /// The block scale of a quantizer of NVFP4.
    BlockScaleRule {
        /// A sixth of the largest magnitude of the block, so that this becomes 6.
        SixthOfLargest "sixth_of_largest",
    }
}

record::words! {
    /// The factor above the block scales of a quantizer of NVFP4.
    FactorRule {
        /// An argument of the kernel, one for the tensor.
        Argument "argument",
        /// Of weights of attention: relative to the largest score of a row in a tile of keys, which becomes 448·6.
        TileMaximum "tile_maximum",
        /// Of weights of attention: relative to the largest score of a row so far, which becomes 448·6.
        RunningMaximum "running_maximum",
    }
}

/// How a kernel quantizes to NVFP4: e2m1 codes, a ue4m3 scale for 16 of them, and a factor above both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantization {
    /// How quotients become codes and scales.
    pub rounding: QuotientRounding,
    /// The scale of a block.
    pub scale: BlockScaleRule,
    /// The factor above the block scales.
    pub factor: FactorRule,
}

/// The numerical contract that a kernel declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelContract {
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
    /// How it quantizes to NVFP4 what it stores or multiplies, in families in which that is a kernel's choice.
    #[serde(default)]
    pub quantizes: Option<Quantization>,
}

/// The capabilities that a kernel needs for operand formats beside its family's first.
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
    #[serde(default = "first_family")]
    pub(super) family: String,
    pub(super) about: String,
    pub(super) stage: String,
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
    pub(super) formats: BTreeMap<String, FormatNeeds>,
    #[serde(default)]
    pub(super) packed: Vec<MmaPath>,
    #[serde(default)]
    pub(super) defines: BTreeMap<String, String>,
    pub(super) grid: Vec<String>,
    pub(super) block: String,
    #[serde(default)]
    pub(super) smem: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) contract: KernelContract,
}

/// The family of headers that name none.
fn first_family() -> String {
    "moe".to_owned()
}

/// A kernel: its source and all that the pipeline needs to compile and launch it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// File name, such as `quantize.cu`.
    pub file: String,
    /// CUDA C++ source. It includes the header, so that line numbers match the file.
    pub text: String,
    /// The family that it belongs to.
    pub family: String,
    /// One sentence on the kernel.
    pub about: String,
    /// The stage that it implements, in its family's words.
    pub stage: String,
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
    /// Operand formats beside its family's first that it can be compiled for, and the capabilities they need.
    pub formats: BTreeMap<String, FormatNeeds>,
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
    pub contract: KernelContract,
    /// Whether it comes from a user's folder. It is then preferred for its stage, even if the case requests another variant.
    pub own: bool,
}

impl Kernel {
    /// Checks that it declares no quantization, for stages in which that is no choice of a kernel.
    ///
    /// # Errors
    /// The key of the header, and what is wrong with it.
    pub fn declares_no_quantization(&self) -> Result<(), (&'static str, String)> {
        match self.contract.quantizes {
            None => Ok(()),
            Some(_) => {
                let message =
                    format!("`{}` does not choose how it quantizes: remove `quantizes`", self.stage);
                Err(("contract", message))
            }
        }
    }
}
