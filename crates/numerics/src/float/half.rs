//! Half precision: binary16 and bfloat16, one value of a packed register at a time.
//!
//! Each operation is computed in a double, exactly or rounded to odd, and then rounded once: a double has more than twice
//! the precision of either format.

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
const ONE: f64 = 1.0;
/// 2^-14 − 2^-26: with eleven bits and an unbounded exponent, this and larger numbers round to the smallest normal binary16.
const TINY_F16: f64 = (1.0 - 1.0 / 4096.0) / 16384.0;

impl Half {
    const fn is_nan(self, a: u16) -> bool {
        a & 0x7FFF > self.exponent
    }

    const fn flush(self, a: u16, ftz: bool) -> u16 {
        if ftz && a & self.exponent == 0 { a & 0x8000 } else { a }
    }

    #[inline]
    fn take(self, a: u16, ftz: bool) -> f64 {
        let a = self.flush(a, ftz);
        let bits = match self.format {
            Format::F16 => fast::f16_to_f32(a),
            _ => u32::from(a) << 16,
        };
        f64::from(f32::from_bits(bits))
    }

    /// Rounds to nearest even; a value rounded to odd beforehand is in effect rounded once.
    #[inline]
    fn round(self, exact: f64) -> u16 {
        if self.format == Format::F16 { fast::f64_to_f16(exact) } else { fast::f64_to_bf16(exact) }
    }

    #[inline]
    fn finish(self, exact: f64, ftz: bool, sat: bool, relu: bool) -> u16 {
        let code = self.round(exact);
        let code = match code {
            0x8000.. if relu => 0,
            // Only binary16 has `.ftz`: see `single.rs` for its condition. Here it holds below the midpoint that rounds to 2^-14.
            0x0400 | 0x8400 if ftz && exact.abs() < TINY_F16 => code & 0x8000,
            code => self.flush(code, ftz),
        };
        if !sat {
            code
        } else if exact > 0.0 {
            code.min(self.round(ONE))
        } else {
            0
        }
    }

    #[inline]
    fn fma(self, [a, b, c]: [u16; 3], ftz: bool, sat: bool, relu: bool) -> u16 {
        let [a, b, c] = [a, b, c].map(|x| self.take(x, ftz));
        let sum = match self.format {
            // The sum is exact in a double unless the product overflows binary16 or is far below half an ulp of `c`.
            Format::F16 => a * b + c,
            _ => fma_to_odd(a, b, c),
        };
        self.finish(sum, ftz, sat, relu)
    }

    #[inline]
    fn add(self, a: u16, b: u16, ftz: bool, sat: bool) -> u16 {
        self.finish(fma_to_odd(self.take(a, ftz), ONE, self.take(b, ftz)), ftz, sat, false)
    }

    #[inline]
    fn mul(self, a: u16, b: u16, ftz: bool, sat: bool) -> u16 {
        self.finish(self.take(a, ftz) * self.take(b, ftz), ftz, sat, false)
    }

    const fn abs(self, a: u16, ftz: bool) -> u16 {
        self.canonical(self.flush(a, ftz) & 0x7FFF)
    }

    const fn neg(self, a: u16, ftz: bool) -> u16 {
        self.canonical(self.flush(a, ftz) ^ 0x8000)
    }

    const fn canonical(self, a: u16) -> u16 {
        if self.is_nan(a) { NAN_16 } else { a }
    }
}

macro_rules! operations {
    ($half:ident: $add:ident $sub:ident $mul:ident $fma:ident $abs:ident $neg:ident $canonical:ident, $type:literal) => {
        #[doc = concat!("`add.", $type, "`.")]
        #[must_use]
        #[inline]
        pub fn $add(a: u16, b: u16, ftz: bool, sat: bool) -> u16 {
            $half.add(a, b, ftz, sat)
        }

        #[doc = concat!("`sub.", $type, "`.")]
        #[must_use]
        #[inline]
        pub fn $sub(a: u16, b: u16, ftz: bool, sat: bool) -> u16 {
            $half.add(a, b ^ 0x8000, ftz, sat)
        }

        #[doc = concat!("`mul.", $type, "`.")]
        #[must_use]
        #[inline]
        pub fn $mul(a: u16, b: u16, ftz: bool, sat: bool) -> u16 {
            $half.mul(a, b, ftz, sat)
        }

        #[doc = concat!("`fma.rn.", $type, "`; `relu` turns results below zero into `+0`.")]
        #[must_use]
        #[inline]
        pub fn $fma(a: u16, b: u16, c: u16, ftz: bool, sat: bool, relu: bool) -> u16 {
            $half.fma([a, b, c], ftz, sat, relu)
        }

        #[doc = concat!("`abs.", $type, "`.")]
        #[must_use]
        pub const fn $abs(a: u16, ftz: bool) -> u16 {
            $half.abs(a, ftz)
        }

        #[doc = concat!("`neg.", $type, "`.")]
        #[must_use]
        pub const fn $neg(a: u16, ftz: bool) -> u16 {
            $half.neg(a, ftz)
        }

        #[doc = concat!("A ", $type, " with any NaN replaced by the canonical one.")]
        #[must_use]
        pub const fn $canonical(a: u16) -> u16 {
            $half.canonical(a)
        }
    };
}

/// A fast path of `fma.rn.bf16` for a zero addend, as in the folding of scales. `None` unless the addend is zero and the product
/// is either a normal float, which holds all of its 16 bits, or the zero product of a zero and a finite number.
#[must_use]
#[inline(always)]
pub fn product_bf16(a: u16, b: u16, c: u16) -> Option<u16> {
    let product = f32::from_bits(u32::from(a) << 16) * f32::from_bits(u32::from(b) << 16);
    if c & 0x7FFF != 0 {
        None
    } else if product.is_normal() {
        Some(fast::f32_to_bf16(product.to_bits()))
    } else if product == 0.0 && (a & 0x7FFF == 0 || b & 0x7FFF == 0) {
        Some((a ^ b) & c & 0x8000)
    } else {
        None
    }
}

operations!(F16: add_f16 sub_f16 mul_f16 fma_f16 abs_f16 neg_f16 canonical_f16, "f16");
operations!(BF16: add_bf16 sub_bf16 mul_bf16 fma_bf16 abs_bf16 neg_bf16 canonical_bf16, "bf16");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_alone_is_what_fma_gives() {
        // Every pair of high bytes with some low bytes: all exponents, both signs, the special values.
        let codes: Vec<u16> =
            (0..=255u16).flat_map(|high| [0x00, 0x01, 0x7F, 0x80, 0xFF].map(|low| high << 8 | low)).collect();
        let mut alone = 0u32;
        for a in &codes {
            for b in &codes {
                for c in [0, 0x8000] {
                    if let Some(product) = product_bf16(*a, *b, c) {
                        let fma = BF16.fma([*a, *b, c], false, false, false);
                        assert_eq!(product, fma, "{a:#x} {b:#x} {c:#x}");
                        alone += 1;
                    }
                }
            }
        }
        assert!(alone > 1_000_000, "{alone}");
    }
}
