//! Element types of queries, caches and results: their values, and rounding to them.

use numerics::Format;

record::words! {
    /// The type of the elements of a tensor.
    Element {
        /// binary32.
        F32 "f32",
        /// bfloat16.
        Bf16 "bf16",
        /// binary16.
        F16 "fp16",
        /// e4m3, without infinities.
        E4m3 "fp8_e4m3",
        /// e5m2.
        E5m2 "fp8_e5m2",
        /// e2m1 codes, two in a byte, the even element in the low nibble, with a ue4m3 scale for 16 of them.
        Nvfp4 "nvfp4",
    }
}

/// Elements of NVFP4 that share a scale.
pub(super) const BLOCK: usize = 16;

impl Element {
    /// The format of a code.
    pub const fn format(self) -> Format {
        match self {
            Self::F32 => Format::F32,
            Self::Bf16 => Format::Bf16,
            Self::F16 => Format::F16,
            Self::E4m3 => Format::E4m3,
            Self::E5m2 => Format::E5m2,
            Self::Nvfp4 => Format::E2m1,
        }
    }

    /// Bits of an element.
    pub const fn bits(self) -> usize {
        self.format().bits() as usize
    }

    /// Bytes of this many elements; an odd nibble takes a byte.
    pub const fn bytes(self, elements: usize) -> usize {
        (elements * self.bits()).div_ceil(8)
    }

    /// The value of the element `index` of `bytes`, without scales; `None` beyond the end.
    pub fn value(self, bytes: &[u8], index: usize) -> Option<f32> {
        let code = match self.bits() {
            4 => u32::from(bytes.get(index / 2)? >> (index % 2 * 4) & 0xF),
            8 => u32::from(*bytes.get(index)?),
            16 => u32::from(u16::from_le_bytes(*bytes.get(index * 2..)?.first_chunk()?)),
            _ => u32::from_le_bytes(*bytes.get(index * 4..)?.first_chunk()?),
        };
        Some(self.format().decode(code))
    }

    /// The largest relative error of rounding to nearest, and the largest absolute one where the result is subnormal.
    pub const fn roundoff(self) -> Roundoff {
        match self {
            Self::F32 => Roundoff { relative: U, absolute: 0.0 },
            Self::Bf16 => Roundoff { relative: 1.0 / 256.0, absolute: 0.0 },
            Self::F16 => Roundoff { relative: 1.0 / 2048.0, absolute: U / 2.0 },
            Self::E4m3 => Roundoff { relative: 1.0 / 16.0, absolute: 1.0 / 1024.0 },
            Self::E5m2 => Roundoff { relative: 1.0 / 8.0, absolute: 1.0 / 131_072.0 },
            Self::Nvfp4 => Roundoff { relative: 0.25, absolute: 0.25 },
        }
    }

    /// The precision in bits, the exponent of the smallest normal number and the largest finite number.
    const fn range(self) -> (i32, i32, f64) {
        match self {
            Self::F32 => (24, -126, f32::MAX as f64),
            Self::Bf16 => (8, -126, 3.389_531_389_251_535_5e38),
            Self::F16 => (11, -14, 65_504.0),
            Self::E4m3 => (4, -6, 448.0),
            Self::E5m2 => (3, -14, 57_344.0),
            Self::Nvfp4 => (2, 0, 6.0),
        }
    }

    /// The largest finite number.
    pub const fn largest(self) -> f64 {
        self.range().2
    }

    /// The nearest value of the type, ties to even; beyond the largest an infinity, NaN for NaN.
    pub fn nearest(self, x: f64) -> f64 {
        if !x.is_finite() || x == 0.0 {
            return x;
        }
        if self == Self::F32 {
            return f64::from(x as f32);
        }
        let (precision, least, most) = self.range();
        // Subnormal doubles count as the smallest normal ones: far below every type's least number.
        let exponent = (x.to_bits() >> 52 & 0x7FF) as i32 - 1023;
        let unit = exponent.max(least) - precision + 1;
        let unit = f64::from_bits(((unit + 1023) as u64) << 52);
        // Both operations are exact: `unit` is a power of two, and a double holds the quotient's integer part.
        let rounded = (x / unit).round_ties_even() * unit;
        if rounded.abs() > most { f64::INFINITY.copysign(x) } else { rounded }
    }
}

/// Half a unit in the last place of binary32, relative.
pub(super) const U: f64 = 1.0 / 16_777_216.0;

/// The error of a rounding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Roundoff {
    /// Relative to the result.
    pub relative: f64,
    /// In absolute terms, where the result is subnormal.
    pub absolute: f64,
}

#[cfg(test)]
mod tests {
    use numerics::Rounding;
    use numerics::convert::f64_to;

    use super::*;

    #[test]
    fn rounding_agrees_with_conversions() {
        for element in [Element::Bf16, Element::F16] {
            for n in 0..200_000_u64 {
                let bits = numerics::random::at(7, n);
                // Exponents about those of the format.
                let exponent = 1023 - 30 + (bits >> 52) % 48;
                let x = f64::from_bits(bits >> 63 << 63 | exponent << 52 | bits & ((1 << 52) - 1));
                let code = f64_to(element.format(), x, Rounding::NearestEven, false, false);
                let expected = f64::from(element.format().decode(code));
                assert_eq!(element.nearest(x).to_bits(), expected.to_bits(), "{element:?} {x:e}");
            }
        }
        assert_eq!(Element::Bf16.nearest(1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(Element::Bf16.nearest(3.4e38), f64::INFINITY);
        assert_eq!(Element::F16.nearest(-65_520.0), f64::NEG_INFINITY);
    }

    #[test]
    fn elements_of_every_width_are_read() {
        assert_eq!(Element::Nvfp4.value(&[0x71], 0), Some(0.5));
        assert_eq!(Element::Nvfp4.value(&[0x71], 1), Some(6.0));
        assert_eq!(Element::Nvfp4.value(&[0x71], 2), None);
        assert_eq!(Element::E4m3.value(&[0x38], 0), Some(1.0));
        assert_eq!(Element::Bf16.value(&[0x80, 0x3F], 0), Some(1.0));
        assert_eq!(Element::F16.value(&[0x00, 0x3C, 0x01], 1), None);
        assert_eq!(Element::F32.value(&1.5_f32.to_le_bytes(), 0), Some(1.5));
    }
}
