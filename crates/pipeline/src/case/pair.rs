//! The operand formats of the GEMMs: what activations and weights are stored as.

use record::words;

words! {
    /// How an operand of a GEMM is stored.
    #[derive(PartialOrd, Ord)]
    Format {
        /// e4m3, a ue8m0 scale per 32.
        Mxfp8 "mxfp8",
        /// e2m1, a ue8m0 scale per 32.
        Mxfp4 "mxfp4",
        /// e2m1, a ue4m3 scale per 16, an f32 scale per expert.
        Nvfp4 "nvfp4",
        /// bf16 without scales.
        Bf16 "bf16",
    }
}

words! {
    /// Activations and weights of both GEMMs.
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
    /// How activations are stored.
    #[must_use]
    pub const fn activation(self) -> Format {
        match self {
            Self::Mxfp8Mxfp4 | Self::Mxfp8 => Format::Mxfp8,
            Self::Nvfp4 => Format::Nvfp4,
            Self::Mxfp4 => Format::Mxfp4,
            Self::Bf16Mxfp4 | Self::Bf16Nvfp4 => Format::Bf16,
        }
    }

    /// How weights are stored.
    #[must_use]
    pub const fn weight(self) -> Format {
        match self {
            Self::Mxfp8Mxfp4 | Self::Mxfp4 | Self::Bf16Mxfp4 => Format::Mxfp4,
            Self::Nvfp4 | Self::Bf16Nvfp4 => Format::Nvfp4,
            Self::Mxfp8 => Format::Mxfp8,
        }
    }

    /// Every pair's word, for messages.
    #[must_use]
    pub fn listed() -> String {
        Self::ALL.iter().map(|pair| pair.word()).collect::<Vec<_>>().join(", ")
    }
}
