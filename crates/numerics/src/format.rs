//! The number formats of PTX's tensor-core operands and what each of their codes means.
//!
//! Sources: PTX ISA "Alternate Floating-Point Data Formats"; OCP Microscaling Formats v1.0.

/// A floating-point format by its PTX name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Format {
    /// IEEE binary16.
    F16,
    /// The upper half of binary32.
    Bf16,
    /// A binary32 register of which a tensor core reads the upper 19 bits; a code is the whole 32-bit register.
    Tf32,
    /// IEEE binary32.
    F32,
    /// 1-4-3, no infinity, NaN is all ones (OCP e4m3fn).
    E4m3,
    /// 1-5-2, IEEE-like.
    E5m2,
    /// 1-2-3, finite only.
    E2m3,
    /// 1-3-2, finite only.
    E3m2,
    /// 1-2-1, finite only.
    E2m1,
    /// A power of two from 2^-127 to 2^127; 0xFF is NaN.
    Ue8m0,
    /// Unsigned e4m3; the hardware ignores the sign bit.
    Ue4m3,
}

/// Which codes of a format are not finite numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Specials {
    /// The largest exponent holds infinity and the NaNs.
    Ieee,
    /// All ones below the sign is NaN; there is no infinity.
    AllOnes,
    /// Every code is finite.
    None,
}

/// Field widths of a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) exponent_bits: u32,
    pub(crate) mantissa_bits: u32,
    pub(crate) specials: Specials,
}

impl Layout {
    const fn new(exponent_bits: u32, mantissa_bits: u32, specials: Specials) -> Self {
        Self { exponent_bits, mantissa_bits, specials }
    }

    /// The exponent of the smallest normal number and of every subnormal.
    pub(crate) const fn e_min(self) -> i32 {
        2 - (1 << (self.exponent_bits - 1))
    }

    /// Bits below the sign.
    #[inline(always)]
    pub(crate) const fn magnitude_bits(self) -> u32 {
        self.exponent_bits + self.mantissa_bits
    }

    /// The code of infinity in a format that has one.
    #[inline(always)]
    pub(crate) const fn infinity(self) -> u64 {
        self.max_finite() + 1
    }

    /// The code of the largest finite magnitude.
    #[inline(always)]
    pub(crate) const fn max_finite(self) -> u64 {
        let ones = (1 << self.magnitude_bits()) - 1;
        match self.specials {
            Specials::Ieee => ones - (1 << self.mantissa_bits),
            Specials::AllOnes => ones - 1,
            Specials::None => ones,
        }
    }
}

pub(crate) const F64: Layout = Layout::new(11, 52, Specials::Ieee);
pub(crate) const F32: Layout = Layout::new(8, 23, Specials::Ieee);
pub(crate) const TF32: Layout = Layout::new(8, 10, Specials::Ieee);
pub(crate) const BF16: Layout = Layout::new(8, 7, Specials::Ieee);
pub(crate) const F16: Layout = Layout::new(5, 10, Specials::Ieee);
const E5M2: Layout = Layout::new(5, 2, Specials::Ieee);
const E4M3: Layout = Layout::new(4, 3, Specials::AllOnes);
const E3M2: Layout = Layout::new(3, 2, Specials::None);
const E2M3: Layout = Layout::new(2, 3, Specials::None);
const E2M1: Layout = Layout::new(2, 1, Specials::None);

/// The canonical binary32 NaN of PTX arithmetic.
pub const NAN_F32: u32 = 0x7FFF_FFFF;
/// The canonical binary16 and bfloat16 NaN of PTX arithmetic.
pub const NAN_16: u16 = 0x7FFF;

/// The decoded parts of a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parts {
    /// Not a number.
    Nan,
    /// Infinity.
    Infinite {
        /// Whether the infinity is negative.
        negative: bool,
    },
    /// `±significand · 2^(exponent − fraction)`, not normalised: a subnormal keeps the smallest exponent.
    Finite {
        /// The sign bit; zeros have one too.
        negative: bool,
        /// The significand, including the hidden bit.
        significand: u32,
        /// The exponent of the hidden bit.
        exponent: i32,
        /// Number of fraction bits in the significand.
        fraction: u32,
    },
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 11] = [
        Self::F16,
        Self::Bf16,
        Self::Tf32,
        Self::F32,
        Self::E4m3,
        Self::E5m2,
        Self::E2m3,
        Self::E3m2,
        Self::E2m1,
        Self::Ue8m0,
        Self::Ue4m3,
    ];

    /// The PTX name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::E2m3 => "e2m3",
            Self::E3m2 => "e3m2",
            Self::E2m1 => "e2m1",
            Self::Ue8m0 => "ue8m0",
            Self::Ue4m3 => "ue4m3",
        }
    }

    /// Parses a PTX name without the leading dot.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }

    /// Width of a code in bits; a `tf32` code is a 32-bit register, a `ue4m3` code a byte.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Tf32 | Self::F32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::E4m3 | Self::E5m2 | Self::Ue8m0 | Self::Ue4m3 => 8,
            Self::E2m3 | Self::E3m2 => 6,
            Self::E2m1 => 4,
        }
    }

    /// Field widths; `ue8m0` has none, since it has no significand.
    pub(crate) const fn layout(self) -> Option<Layout> {
        Some(match self {
            Self::F16 => F16,
            Self::Bf16 => BF16,
            Self::Tf32 => TF32,
            Self::F32 => F32,
            Self::E4m3 | Self::Ue4m3 => E4M3,
            Self::E5m2 => E5M2,
            Self::E2m3 => E2M3,
            Self::E3m2 => E3M2,
            Self::E2m1 => E2M1,
            Self::Ue8m0 => return None,
        })
    }

    /// Decodes `code` into its parts; bits above the format's width are ignored.
    #[must_use]
    pub const fn parts(self, code: u32) -> Parts {
        let Some(layout) = self.layout() else {
            let code = code & 0xFF;
            if code == 0xFF {
                return Parts::Nan;
            }
            return Parts::Finite {
                negative: false,
                significand: 1,
                exponent: code as i32 - 127,
                fraction: 0,
            };
        };
        // A tensor core reads the upper 19 bits of a tf32 register; ue4m3 has no sign.
        let (code, negative) = match self {
            Self::Tf32 => ((code >> 13) & 0x3_FFFF, code >> 31 == 1),
            Self::Ue4m3 => (code & 0x7F, false),
            _ => (code, (code >> layout.magnitude_bits()) & 1 == 1),
        };
        let mantissa = code & ((1 << layout.mantissa_bits) - 1);
        let largest = (1 << layout.exponent_bits) - 1;
        let field = (code >> layout.mantissa_bits) & largest;
        match layout.specials {
            Specials::Ieee if field == largest && mantissa == 0 => return Parts::Infinite { negative },
            Specials::Ieee if field == largest => return Parts::Nan,
            Specials::AllOnes if field == largest && mantissa == (1 << layout.mantissa_bits) - 1 => {
                return Parts::Nan;
            }
            _ => {}
        }
        let hidden = if field == 0 { 0 } else { 1 << layout.mantissa_bits };
        let above = if field == 0 { 0 } else { field as i32 - 1 };
        Parts::Finite {
            negative,
            significand: hidden | mantissa,
            exponent: layout.e_min() + above,
            fraction: layout.mantissa_bits,
        }
    }

    /// Returns the exact value of a code; a NaN becomes the canonical NaN.
    #[must_use]
    pub fn decode(self, code: u32) -> f32 {
        match self {
            // Fast paths: most decoded codes have one of these two formats.
            Self::F32 if code & 0x7FFF_FFFF <= 0x7F80_0000 => f32::from_bits(code),
            Self::Bf16 if code & 0x7FFF <= 0x7F80 => f32::from_bits(code << 16),
            _ => match self.parts(code) {
                Parts::Nan => f32::from_bits(NAN_F32),
                Parts::Infinite { negative: false } => f32::INFINITY,
                Parts::Infinite { negative: true } => f32::NEG_INFINITY,
                Parts::Finite { negative, significand, exponent, fraction } => {
                    let magnitude = f64::from(significand) * power_of_two(exponent - fraction.cast_signed());
                    (if negative { -magnitude } else { magnitude }) as f32
                }
            },
        }
    }

    /// Whether `code` is a NaN.
    #[must_use]
    pub const fn is_nan(self, code: u32) -> bool {
        matches!(self.parts(code), Parts::Nan)
    }

    /// Whether `code` is an infinity.
    #[must_use]
    pub const fn is_infinite(self, code: u32) -> bool {
        matches!(self.parts(code), Parts::Infinite { .. })
    }
}

/// Returns `2^exponent`; `exponent` must be that of a normal double.
pub(crate) const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}
