//! The configurations of attention: the kernel, the width of a head and the types of its elements.

use record::ConfigurationName;

use super::element::Element;
use super::mla;
use crate::kernel::{Kernel as Source, MmaPath};

record::words! {
    /// The kernel of the partial results.
    #[derive(PartialOrd, Ord)]
    Kernel {
        /// Tiles of rows through mma.
        Prefill "prefill",
        /// Tiles of rows through block-scaled mma of NVFP4: queries and weights are quantized.
        PrefillFp4 "prefill_fp4",
        /// Single rows, the heads of a group as a tile of mma.
        Decode "decode",
        /// Single rows over records of latent attention, each with its own table of slots.
        Mla "mla",
    }
}

record::words! {
    /// The types of queries and of the cache.
    #[derive(PartialOrd, Ord)]
    Types {
        /// Both bf16.
        Bf16 "bf16",
        /// Both fp16.
        Fp16 "fp16",
        /// bf16 queries, an e4m3 cache.
        E4m3 "e4m3",
        /// bf16 queries, an e5m2 cache; heads of 128 alone.
        E5m2 "e5m2",
        /// bf16 queries, an NVFP4 cache.
        Nvfp4 "nvfp4",
        /// bf16 queries, records of 656 bytes.
        Fp8DsMla "fp8_ds_mla",
    }
}

impl Types {
    /// The type of queries, weights and outputs.
    pub(super) const fn queries(self) -> Element {
        match self {
            Self::Fp16 => Element::F16,
            _ => Element::Bf16,
        }
    }

    /// The type of the cache.
    pub(super) const fn cache(self) -> Element {
        match self {
            Self::Bf16 => Element::Bf16,
            Self::Fp16 => Element::F16,
            Self::E4m3 | Self::Fp8DsMla => Element::E4m3,
            Self::E5m2 => Element::E5m2,
            Self::Nvfp4 => Element::Nvfp4,
        }
    }
}

/// The types of caches of keys and values apart that every width has.
pub(super) const PAGED_TYPES: [Types; 4] = [Types::Bf16, Types::Fp16, Types::E4m3, Types::Nvfp4];

/// The stages of the record, in order.
pub(super) const QUERIES: &str = "queries";
pub(super) const PARTIALS: &str = "partials";
pub(super) const OUTPUT: &str = "output";

/// Stages of headers: of the partial results with quantized queries, and of the kernels besides.
pub(super) const PREFILL_FP4: &str = Kernel::PrefillFp4.word();
pub(super) const QUANTIZE_QUERIES: &str = "quantize_queries";
pub(super) const MERGE: &str = "merge";

/// The records of the kernel for latent attention.
const RECORD: mla::Layout = mla::Layout::Fp8;

/// The widths of a head in elements.
pub(super) const WIDTHS: [usize; 3] = [64, 128, 256];

/// The widths of a head that the kernel of block-scaled mma has.
const FP4_WIDTHS: [usize; 2] = [64, 128];

/// A configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Configuration {
    /// The kernel of the partial results.
    pub(super) kernel: Kernel,
    /// Elements of a head.
    pub(super) width: usize,
    /// The types of queries and of the cache.
    pub(super) types: Types,
    /// How block-scaled products are summed, by the instruction or without it; `None` for kernels that have none.
    pub(super) path: Option<MmaPath>,
}

/// A launch of a configuration: its stage in the record, that of its kernel's header, and the macros.
#[derive(Debug, Clone)]
pub(super) struct Launched {
    pub(super) stage: &'static str,
    pub(super) header: &'static str,
    pub(super) defines: Vec<(String, String)>,
}

impl Configuration {
    /// Every configuration.
    pub(super) fn all() -> Vec<Self> {
        let of_kernel = |kernel: Kernel| {
            let of_width =
                move |width| PAGED_TYPES.into_iter().map(move |types| Self::plain(kernel, width, types));
            let e5m2 = Self::plain(kernel, 128, Types::E5m2);
            WIDTHS.into_iter().flat_map(of_width).chain([e5m2]).collect::<Vec<_>>()
        };
        let fp4 = FP4_WIDTHS.into_iter().flat_map(|width| {
            [MmaPath::Native, MmaPath::Portable]
                .map(|path| Self { path: Some(path), ..Self::plain(Kernel::PrefillFp4, width, Types::Nvfp4) })
        });
        let mla = Self::plain(Kernel::Mla, RECORD.width(), Types::Fp8DsMla);
        let plain = [Kernel::Prefill, Kernel::Decode].into_iter().flat_map(of_kernel);
        plain.chain(fp4).chain([mla]).collect()
    }

    /// A configuration of a kernel without block-scaled products.
    pub(super) const fn plain(kernel: Kernel, width: usize, types: Types) -> Self {
        Self { kernel, width, types, path: None }
    }

    /// Whether queries and weights are quantized to NVFP4, and values are stored with their slots beside one another.
    pub(super) const fn is_fp4(&self) -> bool {
        matches!(self.kernel, Kernel::PrefillFp4)
    }

    /// Its launches, in order.
    pub(super) fn launches(&self) -> Vec<Launched> {
        let quantizes = Launched {
            stage: QUERIES,
            header: QUANTIZE_QUERIES,
            defines: self.defines_of(&["HEAD", "FP16"]),
        };
        let partials = Launched { stage: PARTIALS, header: self.kernel.word(), defines: self.defines() };
        let merge = Launched { stage: OUTPUT, header: MERGE, defines: self.defines_of(&["HEAD", "FP16"]) };
        let first = self.is_fp4().then_some(quantizes);
        first.into_iter().chain([partials, merge]).collect()
    }

    /// The capabilities that a kernel needs in it.
    pub(super) fn needs<'k>(&self, kernel: &'k Source) -> impl Iterator<Item = &'k str> {
        let of_path = self.path.and_then(|path| kernel.needs_of.get(&path));
        kernel.needs.iter().chain(of_path.into_iter().flatten()).map(String::as_str)
    }

    /// The layout of its records, if its cache holds such.
    pub(super) const fn record(&self) -> Option<mla::Layout> {
        match self.types {
            Types::Fp8DsMla => Some(RECORD),
            _ => None,
        }
    }

    /// The elements of a value.
    pub(super) const fn value_width(&self) -> usize {
        match self.record() {
            Some(layout) => layout.value_width(),
            None => self.width,
        }
    }

    /// Returns its name in the record: `prefill d128 bf16`.
    pub(super) fn name(&self) -> ConfigurationName {
        let path = self.path.map(|path| format!(" {}", path.word())).unwrap_or_default();
        format!("{} d{} {}{path}", self.kernel.word(), self.width, self.types.word()).into()
    }

    /// The fewest keys of a tile.
    pub(super) const fn tile(&self) -> usize {
        match self.kernel {
            Kernel::Mla => 128,
            // Keys of 16 or 32 for each of four warps: elements of 8 and 4 bits take half the bytes.
            Kernel::Decode if self.types.cache().bits() <= 8 && self.width <= 128 => 128,
            Kernel::Decode => 64,
            Kernel::Prefill if self.width > 128 => 32,
            Kernel::Prefill | Kernel::PrefillFp4 => 64,
        }
    }

    /// Returns the macros of a kernel that reads no cache: fewer, so that configurations share its code.
    fn defines_of(&self, names: &[&str]) -> Vec<(String, String)> {
        self.defines()
            .into_iter()
            .filter(|(name, _)| names.contains(&name.as_str()))
            .chain([("KV".to_owned(), "0".to_owned())])
            .collect()
    }

    /// Returns the macros that its kernel of partial results is compiled with.
    pub(super) fn defines(&self) -> Vec<(String, String)> {
        let number = |name: &str, value: usize| (name.to_owned(), value.to_string());
        let kv = match self.types.cache() {
            Element::E4m3 => 1,
            Element::Nvfp4 => 2,
            Element::E5m2 => 3,
            _ => 0,
        };
        let path = self.path.map(|path| number("NATIVE", usize::from(path == MmaPath::Native)));
        let mut all = vec![
            number("HEAD", self.value_width()),
            number("FP16", usize::from(self.types == Types::Fp16)),
            number("KV", kv),
            number("TILE_N", self.tile()),
            number("MOST_GROUP", super::case::MOST_GROUP),
        ];
        all.extend(path);
        all
    }
}
