//! The configurations of attention: the kernel, the width of a head and the types of its elements.

use record::ConfigurationName;

use super::element::Element;
use super::mla;

record::words! {
    /// The kernel of the partial results.
    #[derive(PartialOrd, Ord)]
    Kernel {
        /// Tiles of rows through mma.
        Prefill "prefill",
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
            Self::Nvfp4 => Element::Nvfp4,
        }
    }
}

/// The types of caches of keys and values apart.
pub(super) const PAGED_TYPES: [Types; 4] = [Types::Bf16, Types::Fp16, Types::E4m3, Types::Nvfp4];

/// The records of the kernel for latent attention.
const RECORD: mla::Layout = mla::Layout::Fp8;

/// The widths of a head in elements.
pub(super) const WIDTHS: [usize; 3] = [64, 128, 256];

/// A configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Configuration {
    /// The kernel of the partial results.
    pub(super) kernel: Kernel,
    /// Elements of a head.
    pub(super) width: usize,
    /// The types of queries and of the cache.
    pub(super) types: Types,
}

impl Configuration {
    /// Every configuration.
    pub(super) fn all() -> Vec<Self> {
        let of_kernel = |kernel: Kernel| {
            let of_width =
                move |width| PAGED_TYPES.into_iter().map(move |types| Self { kernel, width, types });
            WIDTHS.into_iter().flat_map(of_width).collect::<Vec<_>>()
        };
        let mla = Self { kernel: Kernel::Mla, width: RECORD.width(), types: Types::Fp8DsMla };
        [Kernel::Prefill, Kernel::Decode].into_iter().flat_map(of_kernel).chain([mla]).collect()
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
        format!("{} d{} {}", self.kernel.word(), self.width, self.types.word()).into()
    }

    /// The fewest keys of a tile.
    pub(super) const fn tile(&self) -> usize {
        match self.kernel {
            Kernel::Mla => 128,
            // Keys of 16 or 32 for each of four warps: elements of 8 and 4 bits take half the bytes.
            Kernel::Decode if matches!(self.types, Types::E4m3 | Types::Nvfp4) && self.width <= 128 => 128,
            Kernel::Decode => 64,
            Kernel::Prefill if self.width > 128 => 32,
            Kernel::Prefill => 64,
        }
    }

    /// Returns the macros that the kernel which merges splits is compiled with: fewer, so that configurations share its code.
    pub(super) fn defines_of_merge(&self) -> Vec<(String, String)> {
        self.defines()
            .into_iter()
            .filter(|(name, _)| name == "HEAD" || name == "FP16")
            .chain([("KV".to_owned(), "0".to_owned())])
            .collect()
    }

    /// Returns the macros that its kernel of partial results is compiled with.
    pub(super) fn defines(&self) -> Vec<(String, String)> {
        let number = |name: &str, value: usize| (name.to_owned(), value.to_string());
        let kv = match self.types.cache() {
            Element::E4m3 => 1,
            Element::Nvfp4 => 2,
            _ => 0,
        };
        vec![
            number("HEAD", self.value_width()),
            number("FP16", usize::from(self.types == Types::Fp16)),
            number("KV", kv),
            number("TILE_N", self.tile()),
            number("MOST_GROUP", super::case::MOST_GROUP),
        ]
    }
}
