//! How operands of a product are stored.

use numerics::format::Format;
use record::words;

words! {
    /// The format of an operand.
    OperandFormat {
        /// e4m3 with a ue8m0 scale per 32 elements.
        Mxfp8 "mxfp8",
        /// e2m1 with a ue8m0 scale per 32 elements.
        Mxfp4 "mxfp4",
        /// e2m1 with a ue4m3 scale per 16 elements and a global scale.
        Nvfp4 "nvfp4",
        /// bf16 without scales.
        Bf16 "bf16",
        /// fp16 without scales.
        F16 "f16",
    }
}

impl OperandFormat {
    /// The format of the elements.
    #[must_use]
    pub const fn element(self) -> Format {
        match self {
            Self::Mxfp8 => Format::E4m3,
            Self::Mxfp4 | Self::Nvfp4 => Format::E2m1,
            Self::Bf16 => Format::Bf16,
            Self::F16 => Format::F16,
        }
    }

    /// The format of the scales, and the elements that share one.
    #[must_use]
    pub const fn scale(self) -> Option<(Format, usize)> {
        match self {
            Self::Mxfp8 | Self::Mxfp4 => Some((Format::Ue8m0, 32)),
            Self::Nvfp4 => Some((Format::Ue4m3, 16)),
            Self::Bf16 | Self::F16 => None,
        }
    }

    /// Reads the formats of both operands: `mxfp8xmxfp4`, or `nvfp4` for both.
    #[must_use]
    pub fn parse_pair(words: &str) -> Option<[Self; 2]> {
        let one = |word: &str| Self::ALL.iter().copied().find(|format| format.word() == word);
        // The names of the formats have an `x` of their own, behind an `m`.
        let splits = words.match_indices('x').map(|(at, _)| [&words[..at], &words[at + 1..]]);
        let pair = splits.filter_map(|[a, b]| Some([one(a)?, one(b)?])).next();
        pair.or_else(|| one(words).map(|format| [format; 2]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_from_one_word_or_two() {
        use OperandFormat::{Bf16, Mxfp4, Mxfp8, Nvfp4};
        assert_eq!(OperandFormat::parse_pair("mxfp8xmxfp4"), Some([Mxfp8, Mxfp4]));
        assert_eq!(OperandFormat::parse_pair("bf16xnvfp4"), Some([Bf16, Nvfp4]));
        assert_eq!(OperandFormat::parse_pair("bf16"), Some([Bf16; 2]));
        assert_eq!(OperandFormat::parse_pair("mxfp8x"), None);
        assert_eq!(OperandFormat::parse_pair("fp3"), None);
    }
}
