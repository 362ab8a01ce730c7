//! What an attention computes, and which roundings its kernel may make.

use super::element::Element;
use super::problem::{LeftOut, WindowOf, WindowStart};

record::words! {
    /// Which keys a row of queries sees, before the window.
    Mask {
        /// Every key of its request.
        Full "none",
        /// Key j of row i of q rows and k keys if j ≤ i + k − q, as every library for SM12x has it.
        Causal "causal",
        /// Key j of row i if j ≤ i.
        TopLeft "causal_top_left",
        /// The keys whose bits are set in the mask of the request.
        Custom "custom",
    }
}

record::words! {
    /// The base of the logarithm of a sum of exponentials.
    Base {
        /// log2, as FlashInfer's FA2, XQA MLA and trtllm-gen store it.
        Two "2",
        /// The natural logarithm, as FlashAttention, Triton MLA and FlashInfer's NVFP4 attention store it.
        E "e",
    }
}

/// The head whose sink a head of a row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkOf {
    /// Its own.
    Head,
    /// That of the row of the queries, modulo the number of heads: a fault.
    Row,
    /// That of the row among those of its group of heads, modulo the number of heads: a fault.
    PackedRow,
}

impl Semantics {
    /// What is computed without any fault: causal attention without window, cap and scales.
    pub(super) const fn plain(scale: f64, value_scale: f64) -> Self {
        Self {
            scale,
            value_scale,
            mask: Mask::Causal,
            window: None,
            window_of: WindowOf::Row,
            window_start: WindowStart::Exact,
            score: ScoreOrder::Declared,
            stale: None,
            left_out: LeftOut::Nothing,
            cap: None,
            sink_count: 1.0,
            sink_of: SinkOf::Head,
            merge: None,
            sentinel: None,
            reads_hidden: false,
            empty: Empty::Any,
        }
    }
}

record::words! {
    /// What a row without a visible key gives.
    Empty {
        /// Zeros, and −∞ as the logarithm (with a sink, the sink).
        Zero "zero",
        /// NaN.
        Nan "nan",
        /// Not declared: such rows are not judged.
        Any "any",
    }
}

record::words! {
    /// Which weights the denominator sums.
    Denominator {
        /// Those that multiply the values, rounded.
        Rounded "rounded",
        /// Those before they are rounded.
        Unrounded "unrounded",
        /// Those before they are rounded, and it divides them first: after each tile the result is that of the keys so far.
        Normalised "normalised",
        /// Not declared: either.
        Either "either",
    }
}

record::words! {
    /// Kernels whose roundings are known.
    Kernel {
        /// FlashInfer's FA2, prefill and decode.
        Fa2 "fa2",
        /// FlashInfer's XQA.
        Xqa "xqa",
        /// vLLM's and SGLang's Triton kernels, the tutorial's, FlashAttention's.
        Triton "triton",
        /// llama.cpp's mma and tile kernels: queries scaled in fp16, sums of values in fp16.
        LlamaCpp "llama_cpp",
        /// FlashInfer's sparse attention of latent records for SM12x: queries and weights in e4m3, weights times the scales of the values.
        SparseMla "sparse_mla",
        /// The same for scales that are no powers of two: of each weight a second e4m3 number has what the first leaves.
        SparseMlaResidual "sparse_mla_residual",
        /// The first in the way of its prefill that has 64 heads in a block: the largest weight times the largest scale becomes 448.
        SparseMlaSwapab "sparse_mla_swapab",
        /// FlashInfer's NVFP4 attention for SM12x, SageAttention 3: weights in NVFP4, tiles of 128 keys from the last to the first.
        Nvfp4Attention "nvfp4_attention",
        /// This repository's `prefill_fp4.cu`: weights in NVFP4, relative to the largest score of their tile.
        PrefillFp4 "prefill_fp4",
        /// Any of the first three with binary32 sums.
        Any "any",
    }
}

/// The keys of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// So many splits of equally many keys.
    Parts(usize),
    /// Splits of so many keys.
    Keys(usize),
}

impl Split {
    /// The keys of each split but the last, of this many keys.
    pub(super) fn size(self, keys: usize) -> usize {
        match self {
            Self::Parts(parts) => keys.div_ceil(parts.max(1)),
            Self::Keys(size) => size,
        }
        .max(1)
    }
}

/// How the results of splits become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeFault {
    /// Their mean.
    Averaged,
    /// Their sum.
    Added,
    /// Sums of weights are added as they are, each relative to the maximum of its own split.
    OwnMaximum,
    /// Logarithms of base 2 are taken for those of base e.
    TwoAsE,
    /// Logarithms of base e are taken for those of base 2.
    EAsTwo,
    /// The first split has the weight of the last, and so on.
    Reversed,
    /// The last split counts twice.
    LastTwice,
    /// The divisor lacks the weights of the last split.
    DivisorWithoutLast,
    /// The sum is not divided.
    Undivided,
}

/// A wrong merge of splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongMerge {
    /// The splits.
    pub split: Split,
    /// What is wrong.
    pub fault: MergeFault,
}

/// The order in which a product of query and key becomes a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreOrder {
    /// Scale, slope, cap.
    Declared,
    /// Cap, scale, slope: a fault.
    CapFirst,
    /// Scale, cap, slope, as vLLM adds it.
    SlopeLast,
}

/// What is computed: o = Σ e^s·v / (Σ e^s + e^sink), s = scale·q·k, over the visible keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Semantics {
    /// The factor of the products of queries and keys, the scales of q and k included.
    pub scale: f64,
    /// The factor of the values.
    pub value_scale: f64,
    /// Which keys a row sees.
    pub mask: Mask,
    /// The most keys that a row sees, its own included: those of a window that ends at its position.
    pub window: Option<usize>,
    /// Where the window of a row ends.
    pub window_of: WindowOf,
    /// Which keys begin the window.
    pub window_start: WindowStart,
    /// The order of scale, slope and cap.
    pub score: ScoreOrder,
    /// How many rows before a row the one is whose result is added to its own: a fault.
    pub stale: Option<usize>,
    /// Keys that are left out.
    pub left_out: LeftOut,
    /// s becomes cap·tanh(s / cap) before the mask.
    pub cap: Option<f64>,
    /// How often the sink counts in the denominator: once.
    pub sink_count: f64,
    /// The head whose sink a head of a row has.
    pub sink_of: SinkOf,
    /// How results of splits are merged, if not by their weights: a fault.
    pub merge: Option<WrongMerge>,
    /// Scores below this are taken as masked: a fault.
    pub sentinel: Option<f64>,
    /// Whether values of keys that are not visible are multiplied by zero, which leaves NaN: a fault.
    pub reads_hidden: bool,
    /// What a row without visible keys gives.
    pub empty: Empty,
}

record::words! {
    /// How products of elements are summed.
    ProductSum {
        /// In binary32, in any order.
        Any "any",
        /// By one block-scaled mma after another, each of 64 products that it cuts once (docs/numerics.md, 4.9).
        BlockScaled "block_scaled",
    }
}

/// Weights in NVFP4, quantized at two levels: relative to a maximum, which becomes 448·6, and with a scale for 16 keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwoLevel {
    /// Whether that is the largest score of a row so far, instead of that of its tile.
    pub running: bool,
    /// Whether tiles are read from the last to the first.
    pub descending: bool,
    /// Whether codes are those of quotients by a sixth of the largest weight of the 16, instead of by the scale that is stored; weights are
    /// then exponentials with log2 2688 in the exponent.
    pub by_largest: bool,
    /// Keys of a tile, which begins at a multiple of them.
    pub tile: usize,
    /// Keys of a split.
    pub split: usize,
}

/// Weights in e4m3 that are multiplied by the scale of a block of values first. The largest product in a tile becomes 448.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Folded {
    /// Keys of a tile: so many entries of a row's list, those that it does not see included.
    pub tile: usize,
    /// Whether a second number has what the first one leaves.
    pub residual: bool,
    /// Whether the largest weight times the largest scale of the tile becomes 448, instead of the largest product.
    pub by_factors: bool,
}

/// What the arithmetic of a kernel may round; docs/numerics.md, 14, has the bound that follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arithmetic {
    /// The type of the weights that multiply the values.
    pub weights: Element,
    /// Which weights the denominator sums.
    pub denominator: Denominator,
    /// Further roundings of a weight to its type, which the denominator does not share.
    pub rescaled: u32,
    /// The type of the results of splits, before they are merged; `None` without splits.
    pub partials: Option<Element>,
    /// Further roundings of results of parts of the keys to the type of the weights, while they are added up.
    pub merges: u32,
    /// The fewest keys of a tile: the maximum rises at most once in each.
    pub tile: usize,
    /// The type in which queries are scaled: they, their factor and the product are rounded to it; `None` if they are not scaled by
    /// themselves.
    pub queries: Option<Element>,
    /// The type to which the product of each pair of elements of a query and a key is rounded before products are summed; `None` if they
    /// are exact or have the precision of the sum.
    pub products: Option<Element>,
    /// The type to which elements of a cache are rounded once they have their scale; `None` if scales are applied to scores and results.
    pub elements: Option<Element>,
    /// Whether a kernel is declared to round no element, of records neither.
    pub exact_elements: bool,
    /// The type of the sums of values.
    pub accumulator: Element,
    /// The number by which weights are divided, so that these sums do not overflow: it enlarges what is lost of small numbers.
    pub headroom: f64,
    /// How products are summed.
    pub sum: ProductSum,
    /// How weights are quantized; `None` if they are rounded to their type.
    pub two_level: Option<TwoLevel>,
    /// How weights are multiplied by the scales of values, and quantized; `None` if they are not.
    pub folded: Option<Folded>,
    /// Whether queries are rounded to e4m3, in the blocks of a record's elements that share a scale.
    pub short_queries: bool,
}

impl Arithmetic {
    /// The arithmetic of a kernel whose queries have this type.
    pub const fn of_kernel(kernel: Kernel, queries: Element) -> Self {
        let weights = match queries {
            Element::F32 | Element::F16 | Element::Bf16 => queries,
            _ => Element::Bf16,
        };
        let any = Self {
            weights,
            denominator: Denominator::Either,
            rescaled: 2,
            partials: Some(weights),
            merges: 0,
            tile: 8,
            queries: None,
            products: None,
            elements: Some(weights),
            exact_elements: false,
            accumulator: Element::F32,
            headroom: 1.0,
            sum: ProductSum::Any,
            two_level: None,
            folded: None,
            short_queries: false,
        };
        let folded = Folded { tile: 64, residual: false, by_factors: false };
        let sparse = Self {
            weights: Element::Bf16,
            denominator: Denominator::Unrounded,
            rescaled: 0,
            tile: 64,
            elements: None,
            exact_elements: true,
            folded: Some(folded),
            short_queries: true,
            ..any
        };
        match kernel {
            Kernel::Any => any,
            Kernel::SparseMla => sparse,
            Kernel::SparseMlaResidual => Self { folded: Some(Folded { residual: true, ..folded }), ..sparse },
            Kernel::SparseMlaSwapab => Self { folded: Some(Folded { by_factors: true, ..folded }), ..sparse },
            Kernel::Nvfp4Attention => Self {
                weights: Element::F32,
                denominator: Denominator::Unrounded,
                rescaled: 0,
                partials: None,
                tile: 64,
                elements: None,
                exact_elements: true,
                sum: ProductSum::BlockScaled,
                two_level: Some(TwoLevel {
                    running: true,
                    descending: true,
                    by_largest: true,
                    tile: 128,
                    split: usize::MAX,
                }),
                ..any
            },
            Kernel::PrefillFp4 => Self {
                weights: Element::F32,
                denominator: Denominator::Unrounded,
                rescaled: 0,
                partials: Some(Element::F32),
                tile: 32,
                elements: None,
                exact_elements: true,
                two_level: Some(TwoLevel {
                    running: false,
                    descending: false,
                    by_largest: false,
                    tile: 64,
                    split: usize::MAX,
                }),
                ..any
            },
            Kernel::Fa2 => Self { denominator: Denominator::Rounded, rescaled: 0, elements: None, ..any },
            Kernel::Xqa => Self { denominator: Denominator::Rounded, elements: None, ..any },
            Kernel::LlamaCpp => Self {
                weights: Element::F16,
                denominator: Denominator::Unrounded,
                rescaled: 0,
                partials: Some(Element::F32),
                queries: Some(Element::F16),
                elements: Some(Element::F16),
                accumulator: Element::F16,
                headroom: 8.0,
                ..any
            },
            Kernel::Triton => {
                Self { denominator: Denominator::Unrounded, rescaled: 0, partials: Some(Element::F32), ..any }
            }
        }
    }

    /// How often XQA rounds results of parts of the keys besides those of splits. Four warps share a tile: each has up to 64 elements of
    /// the output, and groups of warps that have the same ones add up their results, of different keys, in the type of the output. With
    /// splits they do so for each, and once more for those.
    pub(super) const fn merges_of_xqa(width: usize, split: bool) -> u32 {
        let groups = match width {
            0..=64 => 4,
            65..=128 => 2,
            _ => 1,
        };
        // The last addition is the rounding of the output, or of a split.
        if split { 2 * (groups - 1) } else { groups - 1 }
    }
}
