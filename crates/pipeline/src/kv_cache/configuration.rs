//! The configurations of the writer: the layout of a page, the width of a head, the type of the cache and the layout of the values' scales.

use record::ConfigurationName;

record::words! {
    /// The order of a page's dimensions.
    #[derive(PartialOrd, Ord)]
    Layout {
        /// [pages, slots, heads, elements]
        Nhd "nhd",
        /// [pages, heads, slots, elements]
        Hnd "hnd",
    }
}

record::words! {
    /// The type of the cache and, with NVFP4, the order of the values' block scales.
    #[derive(PartialOrd, Ord)]
    Scales {
        /// NVFP4, slot after slot.
        Linear "linear",
        /// NVFP4, in tiles of 4 slots by 4 blocks within the plane of a page and a head, as the kernels of SM100 read them.
        Swizzled "swizzled",
        /// e4m3 with the scale of the tensor alone.
        E4m3 "e4m3",
        /// e5m2 with the scale of the tensor alone.
        E5m2 "e5m2",
    }
}

impl Scales {
    /// Whether elements have eight bits and no block scales.
    pub(super) const fn is_fp8(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2)
    }

    /// Bytes of this many elements.
    pub(super) const fn bytes(self, elements: usize) -> usize {
        if self.is_fp8() { elements } else { elements / 2 }
    }
}

/// The widths of a head in elements.
pub(super) const HEADS: [usize; 3] = [64, 128, 256];

/// A configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Configuration {
    /// The layout of pages.
    pub(super) layout: Layout,
    /// Elements of a head.
    pub(super) head: usize,
    /// The layout of the values' scales.
    pub(super) scales: Scales,
}

impl Configuration {
    /// Every configuration.
    pub(super) fn all() -> Vec<Self> {
        let of_layout = |layout: &Layout| {
            let layout = *layout;
            let of_head =
                move |head| Scales::ALL.iter().map(move |scales| Self { layout, head, scales: *scales });
            HEADS.into_iter().flat_map(of_head).collect::<Vec<_>>()
        };
        Layout::ALL.iter().flat_map(of_layout).collect()
    }

    /// Returns its name in the record: `hnd d128 swizzled`.
    pub(super) fn name(&self) -> ConfigurationName {
        format!("{} d{} {}", self.layout.word(), self.head, self.scales.word()).into()
    }

    /// Returns why no kernel writes it; `None` if one does.
    pub(super) fn blocked(&self) -> Option<&'static str> {
        (self.layout == Layout::Nhd && self.scales == Scales::Swizzled).then_some(
            "the swizzle exchanges slots within the plane of a page and a head, which nhd does not store as one",
        )
    }

    /// Returns the macros that its kernel is compiled with.
    pub(super) fn defines(&self) -> Vec<(String, String)> {
        let flag = |name: &str, on: bool| (name.to_owned(), u32::from(on).to_string());
        vec![
            ("HEAD".to_owned(), self.head.to_string()),
            flag("HND", self.layout == Layout::Hnd),
            flag("SWIZZLED", self.scales == Scales::Swizzled),
            flag("E4M3", self.scales == Scales::E4m3),
            flag("E5M2", self.scales == Scales::E5m2),
        ]
    }
}
