//! Element types of buffers and values: sizes, encodings and decimal notation.

use numerics::{Format, Rounding, convert};

/// An element type, named as in PTX; `bool` is a byte that is 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the PTX type of its name")]
pub enum Element {
    Bool,
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F16,
    Bf16,
    F32,
    F64,
    E4m3,
    E5m2,
    /// Powers of two: the scale type of the OCP microscaling (MX) formats.
    Ue8m0,
    /// Two elements per byte, the first in the low bits.
    E2m1,
}

/// The exponent bias of `ue8m0`: code 127 is 1.
const SCALE_BIAS: i32 = 127;

impl Element {
    /// All types.
    pub const ALL: [Self; 17] = [
        Self::U8,
        Self::S8,
        Self::U16,
        Self::S16,
        Self::U32,
        Self::S32,
        Self::U64,
        Self::S64,
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
        Self::E4m3,
        Self::E5m2,
        Self::Bool,
        Self::Ue8m0,
        Self::E2m1,
    ];

    /// The PTX name, such as `bf16`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::S8 => "s8",
            Self::U16 => "u16",
            Self::S16 => "s16",
            Self::U32 => "u32",
            Self::S32 => "s32",
            Self::U64 => "u64",
            Self::S64 => "s64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::Ue8m0 => "ue8m0",
            Self::E2m1 => "e2m1",
        }
    }

    /// The names of all types, for messages.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The type with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|element| element.name() == name)
    }

    /// Bits of one element.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            Self::E2m1 => 4,
            Self::Bool | Self::U8 | Self::S8 | Self::E4m3 | Self::E5m2 | Self::Ue8m0 => 8,
            Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 16,
            Self::U32 | Self::S32 | Self::F32 => 32,
            Self::U64 | Self::S64 | Self::F64 => 64,
        }
    }

    /// Size in bytes of `count` elements; `None` if the last byte would be half full, or if the size overflows.
    #[must_use]
    pub fn bytes_of(self, count: usize) -> Option<usize> {
        let bits = count.checked_mul(self.bits())?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// Number of elements in `bytes` bytes.
    #[must_use]
    pub const fn count_in(self, bytes: usize) -> usize {
        match self.bits() {
            4 => bytes * 2,
            bits => bytes / (bits / 8),
        }
    }

    /// Whether it is a floating-point type.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64) || self.format().is_some()
    }

    /// Whether it is a signed integer type.
    #[must_use]
    pub const fn is_signed_integer(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    const fn format(self) -> Option<Format> {
        match self {
            Self::F16 => Some(Format::F16),
            Self::Bf16 => Some(Format::Bf16),
            Self::E4m3 => Some(Format::E4m3),
            Self::E5m2 => Some(Format::E5m2),
            Self::Ue8m0 => Some(Format::Ue8m0),
            Self::E2m1 => Some(Format::E2m1),
            _ => None,
        }
    }

    /// The code of element `n` of a buffer, in the low bits; `None` past the end.
    #[must_use]
    pub fn code_at(self, bytes: &[u8], n: usize) -> Option<u64> {
        if self.bits() < 8 {
            let byte = bytes.get(n / 2)?;
            return Some(u64::from(byte >> (4 * (n % 2)) & 0xF));
        }
        let size = self.bits() / 8;
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes.get(n.checked_mul(size)?..)?.get(..size)?);
        Some(u64::from_le_bytes(word))
    }

    /// Packs codes into bytes, little endian.
    #[must_use]
    pub fn pack(self, codes: impl IntoIterator<Item = u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.bits() >= 8 {
            codes.into_iter().for_each(|c| bytes.extend_from_slice(&c.to_le_bytes()[..self.bits() / 8]));
            return bytes;
        }
        for (n, code) in codes.into_iter().enumerate() {
            match bytes.last_mut().filter(|_| n % 2 == 1) {
                Some(byte) => *byte |= (code as u8 & 0xF) << 4,
                None => bytes.push(code as u8 & 0xF),
            }
        }
        bytes
    }

    /// The integer value of a code; `None` for floats.
    #[must_use]
    pub fn integer(self, code: u64) -> Option<i128> {
        Some(match self {
            Self::Bool | Self::U8 | Self::U16 | Self::U32 | Self::U64 => i128::from(code),
            Self::S8 => i128::from(code as i8),
            Self::S16 => i128::from(code as i16),
            Self::S32 => i128::from(code as i32),
            Self::S64 => i128::from(code.cast_signed()),
            _ => return None,
        })
    }

    /// The value of a code; integers of more than 53 bits are rounded.
    #[must_use]
    pub fn value(self, code: u64) -> f64 {
        match (self, self.format()) {
            (Self::F32, _) => f64::from(f32::from_bits(code as u32)),
            (Self::F64, _) => f64::from_bits(code),
            (_, Some(format)) => f64::from(format.decode(code as u32)),
            _ => self.integer(code).map_or(0.0, |n| n as f64),
        }
    }

    /// Formats a code as a decimal number.
    #[must_use]
    pub fn show(self, code: u64) -> String {
        match (self, self.integer(code)) {
            (_, Some(n)) => n.to_string(),
            (Self::F64, _) => f64::from_bits(code).to_string(),
            (Self::F32, _) => f32::from_bits(code as u32).to_string(),
            _ => self.format().map_or(0.0, |format| format.decode(code as u32)).to_string(),
        }
    }

    /// The code nearest to a value. Floats round to nearest even and, with `saturate`, are limited to the largest finite value;
    /// `ue8m0` rounds down to a power of two; integers saturate.
    #[must_use]
    pub fn nearest(self, value: f64, saturate: bool) -> u64 {
        match (self, self.format()) {
            (Self::F64, _) => value.to_bits(),
            (Self::F32, _) => u64::from((value as f32).to_bits()),
            (Self::Ue8m0, _) => {
                let exponent = if value > 0.0 { value.log2().floor() } else { f64::from(-SCALE_BIAS) };
                (exponent as i32 + SCALE_BIAS).clamp(0, 2 * SCALE_BIAS) as u64
            }
            // Conversions to e5m2 saturate although the type has infinities.
            (Self::E5m2, _) if !saturate && value.is_infinite() => {
                if value > 0.0 {
                    0x7C
                } else {
                    0xFC
                }
            }
            (_, Some(format)) => {
                u64::from(convert::f64_to(format, value, Rounding::NearestEven, saturate, false))
            }
            (Self::Bool, _) => u64::from(value != 0.0),
            (Self::U64, _) => value as u64,
            (Self::S64, _) => (value as i64).cast_unsigned(),
            (_, None) => {
                let (least, most) = self.range();
                (value as i128).clamp(least, most) as u64 & (u64::MAX >> (64 - self.bits()))
            }
        }
    }

    /// The smallest and the largest value of an integer type.
    fn range(self) -> (i128, i128) {
        let bits = self.bits() as u32;
        match self {
            Self::Bool => (0, 1),
            _ if self.is_signed_integer() => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            _ => (0, (1 << bits) - 1),
        }
    }

    /// Parses a number into a code: decimal, hexadecimal with `0x` for integers; `true` and `false` for `bool`.
    ///
    /// # Errors
    /// A message about the number.
    pub fn parse(self, text: &str) -> Result<u64, String> {
        let bad = || format!("`{text}` is not of type {}", self.name());
        Ok(match (self, self.format()) {
            (Self::F64, _) => text.parse::<f64>().map_err(|_| bad())?.to_bits(),
            (Self::F32, _) => u64::from(text.parse::<f32>().map_err(|_| bad())?.to_bits()),
            (Self::Ue8m0, _) => {
                // As displayed: the shortest decimal that denotes this value in single precision.
                let value = f64::from(text.parse::<f32>().map_err(|_| bad())?);
                let code = self.nearest(value, false);
                if self.value(code) != value {
                    return Err(format!("`{text}` is not a power of two from 2^-127 to 2^127"));
                }
                code
            }
            // Formats without infinities and NaNs saturate at their largest value.
            (_, Some(_)) => self.nearest(text.parse::<f64>().map_err(|_| bad())?, matches!(self, Self::E2m1)),
            (Self::Bool, _) if matches!(text, "true" | "false") => u64::from(text == "true"),
            (_, None) => {
                let number = match text.strip_prefix("0x") {
                    Some(digits) => i128::from_str_radix(digits, 16).map_err(|_| bad())?,
                    None => text.parse::<i128>().map_err(|_| bad())?,
                };
                let (least, most) = self.range();
                if !(least..=most).contains(&number) {
                    return Err(format!("{text} does not fit {}", self.name()));
                }
                number as u64 & (u64::MAX >> (64 - self.bits()))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_as_it_is_shown() {
        for element in Element::ALL.into_iter().filter(|e| e.bits() <= 16) {
            for code in 0..1u64 << element.bits() {
                if element.value(code).is_nan() || element == Element::Bool && code > 1 {
                    continue;
                }
                assert_eq!(element.parse(&element.show(code)), Ok(code), "{} {code:#x}", element.name());
                let mut two = element.pack([code, 0, code, code]);
                assert_eq!(element.count_in(two.len()), 4, "{}", element.name());
                assert_eq!((0..5).map(|n| element.code_at(&two, n)).collect::<Vec<_>>(), {
                    [Some(code), Some(0), Some(code), Some(code), None]
                });
                two.pop();
                assert_eq!(element.code_at(&two, 3), None);
            }
        }
    }

    #[test]
    fn the_first_of_two_in_a_byte_has_the_low_bits() {
        assert_eq!(Element::E2m1.pack([2, 0xF, 1]), [0xF2, 0x01]);
        assert_eq!((Element::E2m1.bytes_of(6), Element::E2m1.bytes_of(5)), (Some(3), None));
        assert_eq!(Element::E2m1.show(0xF), "-6");
        assert_eq!(Element::Ue8m0.show(127), "1");
        assert!(Element::Ue8m0.parse("3").is_err() && Element::Bool.parse("2").is_err());
        assert_eq!(Element::Bool.parse("true"), Ok(1));
        assert_eq!(Element::F64.bytes_of(usize::MAX), None);
    }

    #[test]
    fn values_go_to_the_nearest_code() {
        for (element, value, code) in [
            (Element::S8, -200.0, 0x80),
            (Element::U8, 300.0, 255),
            (Element::S32, -1.0, 0xFFFF_FFFF),
            (Element::Ue8m0, 5.0, 129),
            (Element::Ue8m0, 0.0, 0),
            (Element::E2m1, 100.0, 7),
            (Element::Bf16, 1.0, 0x3F80),
        ] {
            assert_eq!(element.nearest(value, true), code, "{} {value}", element.name());
        }
    }
}
