//! Half precision: binary16 and bfloat16, one value of a packed register at a time.
//!
//! Each operation is computed in a float or double, exactly, rounded to odd, or with so many bits that the second rounding does no
//! harm.

use super::single::fma_to_odd;
use crate::convert::fast;
use crate::format::{Format, NAN_16};

/// The parameters of one of the two 16-bit formats.
#[derive(Clone, Copy)]
struct Half {
    format: Format,
    exponent: u16,
}

const F16: Half = Half { format: Format::F16, exponent: 0x7C00 };
const BF16: Half = Half { format: Format::Bf16, exponent: 0x7F80 };
const ONE: f32 = 1.0;
/// 2^-14 − 2^-26: with eleven bits and an unbounded exponent, this and larger numbers round to the smallest normal binary16.
const TINY_F16: f32 = (1.0 - 1.0 / 4096.0) / 16384.0;

impl Half {
    #[inline(always)]
    const fn is_nan(self, a: u16) -> bool {
        a & 0x7FFF > self.exponent
    }

    #[inline(always)]
    const fn flush(self, a: u16, ftz: bool) -> u16 {
        if ftz && a & self.exponent == 0 { a & 0x8000 } else { a }
    }

    #[inline(always)]
    fn take(self, a: u16, ftz: bool) -> f32 {
        let a = self.flush(a, ftz);
        f32::from_bits(match self.format {
            Format::F16 => fast::f16_to_f32(a),
            _ => u32::from(a) << 16,
        })
    }

    /// Rounds a float to nearest even.
    #[inline(always)]
    fn round(self, bits: u32) -> u16 {
        if self.format == Format::F16 { fast::f32_to_f16(bits) } else { fast::f32_to_bf16(bits) }
    }

    /// Rounds `value`, the exact result or one that rounds as it does: every flag is a selection, so that a loop over lanes has no
    /// branches.
    #[inline(always)]
    fn finish(self, value: f32, ftz: bool, sat: bool, relu: bool) -> u16 {
        let code = self.round(value.to_bits());
        let code = if relu && code >= 0x8000 { 0 } else { code };
        // Only binary16 has `.ftz`: see `single.rs` for its condition. Here it holds below the midpoint that rounds to 2^-14. Rounding
        // to odd keeps a value on its side of that midpoint, which is even.
        let tiny = ftz && code & 0x7FFF == 0x0400 && value.abs() < TINY_F16;
        let code = if tiny { code & 0x8000 } else { self.flush(code, ftz) };
        let saturated = if value > 0.0 { code.min(self.round(ONE.to_bits())) } else { 0 };
        if sat { saturated } else { code }
    }

    #[inline(always)]
    fn fma(self, [a, b, c]: [u16; 3], ftz: bool, sat: bool, relu: bool) -> u16 {
        let (a, b, c) = (self.take(a, ftz).into(), self.take(b, ftz).into(), self.take(c, ftz).into());
        let sum = match self.format {
            // The sum is exact in a double unless the product overflows binary16 or is far below half an ulp of `c`.
            Format::F16 => a * b + c,
            _ => fma_to_odd(a, b, c),
        };
        self.finish(f32::from_bits(fast::f64_to_odd(sum)), ftz, sat, relu)
    }

    /// A float has at least 2p + 2 bits for the p bits of either format, so that the second rounding of a sum never differs from a
    /// single one (Figueroa, "When is double rounding innocuous?"); a subnormal sum is exact.
    #[inline(always)]
    fn add(self, a: u16, b: u16, ftz: bool, sat: bool) -> u16 {
        self.finish(self.take(a, ftz) + self.take(b, ftz), ftz, sat, false)
    }

    #[inline(always)]
    fn mul(self, a: u16, b: u16, ftz: bool, sat: bool) -> u16 {
        let (a, b) = (self.take(a, ftz), self.take(b, ftz));
        let product = match self.format {
            // Exact: 22 bits, and at least 2^-48.
            Format::F16 => a * b,
            // Exact in a double; as a float, it may be subnormal.
            _ => f32::from_bits(fast::f64_to_odd(f64::from(a) * f64::from(b))),
        };
        self.finish(product, ftz, sat, false)
    }

    #[inline(always)]
    const fn abs(self, a: u16, ftz: bool) -> u16 {
        self.canonical(self.flush(a, ftz) & 0x7FFF)
    }

    #[inline(always)]
    const fn neg(self, a: u16, ftz: bool) -> u16 {
        self.canonical(self.flush(a, ftz) ^ 0x8000)
    }

    #[inline(always)]
    const fn canonical(self, a: u16) -> u16 {
        if self.is_nan(a) { NAN_16 } else { a }
    }
}

macro_rules! operations {
    ($half:ident: $add:ident $sub:ident $mul:ident $fma:ident $abs:ident $neg:ident $canonical:ident, $type:literal) => {
        #[doc = concat!("`add.", $type, "`.")]
        #[must_use]
        #[inline(always)]
        pub fn $add(a: u16, b: u16, ftz: bool, sat: bool) -> u16 {
            $half.add(a, b, ftz, sat)
        }

        #[doc = concat!("`sub.", $type, "`.")]
        #[must_use]
        #[inline(always)]
        pub fn $sub(a: u16, b: u16, ftz: bool, sat: bool) -> u16 {
            $half.add(a, b ^ 0x8000, ftz, sat)
        }

        #[doc = concat!("`mul.", $type, "`.")]
        #[must_use]
        #[inline(always)]
        pub fn $mul(a: u16, b: u16, ftz: bool, sat: bool) -> u16 {
            $half.mul(a, b, ftz, sat)
        }

        #[doc = concat!("`fma.rn.", $type, "`; `relu` turns results below zero into `+0`.")]
        #[must_use]
        #[inline(always)]
        pub fn $fma(a: u16, b: u16, c: u16, ftz: bool, sat: bool, relu: bool) -> u16 {
            $half.fma([a, b, c], ftz, sat, relu)
        }

        #[doc = concat!("`abs.", $type, "`.")]
        #[must_use]
        #[inline(always)]
        pub const fn $abs(a: u16, ftz: bool) -> u16 {
            $half.abs(a, ftz)
        }

        #[doc = concat!("`neg.", $type, "`.")]
        #[must_use]
        #[inline(always)]
        pub const fn $neg(a: u16, ftz: bool) -> u16 {
            $half.neg(a, ftz)
        }

        #[doc = concat!("A ", $type, " with any NaN replaced by the canonical one.")]
        #[must_use]
        #[inline(always)]
        pub const fn $canonical(a: u16) -> u16 {
            $half.canonical(a)
        }
    };
}

operations!(F16: add_f16 sub_f16 mul_f16 fma_f16 abs_f16 neg_f16 canonical_f16, "f16");
operations!(BF16: add_bf16 sub_bf16 mul_bf16 fma_bf16 abs_bf16 neg_bf16 canonical_bf16, "bf16");
