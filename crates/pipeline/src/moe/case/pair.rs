//! The operand formats of the GEMMs: how activations and weights are stored.

use record::words;

words! {
    /// The storage format of a GEMM operand.
    #[derive(PartialOrd, Ord)]
    Format {
        /// e4m3 with a ue8m0 scale per 32 elements.
        Mxfp8 "mxfp8",
        /// e2m1 with a ue8m0 scale per 32 elements.
        Mxfp4 "mxfp4",
        /// e2m1 with a ue4m3 scale per 16 elements and a global f32 scale per expert.
        Nvfp4 "nvfp4",
        /// bf16 without scales.
        Bf16 "bf16",
    }
}

words! {
    /// The formats of activations and weights in both GEMMs.
    #[derive(Default, PartialOrd, Ord)]
    FormatPair {
        /// MXFP8 activations, MXFP4 weights.
        #[default]
        Mxfp8Mxfp4 "mxfp8xmxfp4",
        /// Both NVFP4.
        Nvfp4 "nvfp4",
        /// Both MXFP4.
        Mxfp4 "mxfp4",
        /// Both MXFP8.
        Mxfp8 "mxfp8",
        /// bf16 activations, MXFP4 weights.
        Bf16Mxfp4 "bf16xmxfp4",
        /// bf16 activations, NVFP4 weights.
        Bf16Nvfp4 "bf16xnvfp4",
    }
}

impl FormatPair {
    /// Returns the format of the activations.
    #[must_use]
    pub const fn activation(self) -> Format {
        match self {
            Self::Mxfp8Mxfp4 | Self::Mxfp8 => Format::Mxfp8,
            Self::Nvfp4 => Format::Nvfp4,
            Self::Mxfp4 => Format::Mxfp4,
            Self::Bf16Mxfp4 | Self::Bf16Nvfp4 => Format::Bf16,
        }
    }

    /// Returns the format of the weights.
    #[must_use]
    pub const fn weight(self) -> Format {
        match self {
            Self::Mxfp8Mxfp4 | Self::Mxfp4 | Self::Bf16Mxfp4 => Format::Mxfp4,
            Self::Nvfp4 | Self::Bf16Nvfp4 => Format::Nvfp4,
            Self::Mxfp8 => Format::Mxfp8,
        }
    }

    /// Returns the words of all pairs, for messages.
    #[must_use]
    pub fn listed() -> String {
        Self::ALL.iter().map(|pair| pair.word()).collect::<Vec<_>>().join(", ")
    }
}
