//! Minimum and maximum of every floating-point type.
//!
//! Without `.NaN`, a NaN loses against a number. Two NaNs yield the canonical NaN, or for `f64` the second one, quiet. `-0`
//! is below `+0`.

use super::double::quiet_f64;
use super::single::flush_f32;
use crate::format::{BF16, F16, F32, F64, Layout, NAN_16, NAN_F32};

/// The format and the rules of one instruction on codes of up to 32 bits. Every choice is a selection, so that a loop over lanes has
/// no branches.
#[derive(Clone, Copy)]
struct Pick {
    /// The bit of the sign.
    sign: u32,
    infinity: u32,
    canonical: u32,
    greater: bool,
    nan: bool,
    xorsign_abs: bool,
}

impl Pick {
    #[inline(always)]
    const fn new(layout: Layout, canonical: u32, greater: bool, nan: bool, xorsign_abs: bool) -> Self {
        let (sign, infinity) = (1 << layout.magnitude_bits(), layout.infinity() as u32);
        Self { sign, infinity, canonical, greater, nan, xorsign_abs }
    }

    /// Maps numbers to integers in the same order.
    #[inline(always)]
    const fn rank(self, bits: u32) -> i32 {
        let aligned = (bits << self.sign.leading_zeros()).cast_signed();
        // All bits but the sign are inverted in negative numbers.
        aligned ^ (aligned >> 31) & i32::MAX
    }

    #[inline(always)]
    const fn is_nan(self, bits: u32) -> bool {
        (bits & (self.sign - 1)).cast_signed() > self.infinity.cast_signed()
    }

    #[inline(always)]
    fn choose(self, a: u32, b: u32) -> u32 {
        // `.xorsign.abs` compares magnitudes; the sign of the result is that of the product.
        let keep = if self.xorsign_abs { self.sign - 1 } else { !0 };
        let extra = if self.xorsign_abs { (a ^ b) & self.sign } else { 0 };
        let (x, y) = (a & keep, b & keep);
        let first = (self.rank(x) >= self.rank(y)) == self.greater;
        let (x_is_nan, y_is_nan) = (self.is_nan(x), self.is_nan(y));
        let number = if !x_is_nan & (first | y_is_nan) { x } else { y } | extra;
        if x_is_nan & y_is_nan | self.nan & (x_is_nan | y_is_nan) { self.canonical } else { number }
    }
}

#[inline(always)]
fn pick_f32(greater: bool, a: u32, b: u32, ftz: bool, nan: bool, xorsign_abs: bool) -> u32 {
    Pick::new(F32, NAN_F32, greater, nan, xorsign_abs).choose(flush_f32(a, ftz), flush_f32(b, ftz))
}

/// `min.f32`.
#[must_use]
#[inline(always)]
pub fn min_f32(a: u32, b: u32, ftz: bool, nan: bool, xorsign_abs: bool) -> u32 {
    pick_f32(false, a, b, ftz, nan, xorsign_abs)
}

/// `max.f32`.
#[must_use]
#[inline(always)]
pub fn max_f32(a: u32, b: u32, ftz: bool, nan: bool, xorsign_abs: bool) -> u32 {
    pick_f32(true, a, b, ftz, nan, xorsign_abs)
}

#[inline(always)]
fn pick_16(layout: Layout, greater: bool, a: u16, b: u16, ftz: bool, nan: bool, xorsign_abs: bool) -> u16 {
    let exponent = layout.infinity() as u32;
    let flush = |x: u32| if ftz && x & exponent == 0 { x & 0x8000 } else { x };
    let pick = Pick::new(layout, NAN_16.into(), greater, nan, xorsign_abs);
    pick.choose(flush(a.into()), flush(b.into())) as u16
}

/// `min.f16`.
#[must_use]
#[inline(always)]
pub fn min_f16(a: u16, b: u16, ftz: bool, nan: bool, xorsign_abs: bool) -> u16 {
    pick_16(F16, false, a, b, ftz, nan, xorsign_abs)
}

/// `max.f16`.
#[must_use]
#[inline(always)]
pub fn max_f16(a: u16, b: u16, ftz: bool, nan: bool, xorsign_abs: bool) -> u16 {
    pick_16(F16, true, a, b, ftz, nan, xorsign_abs)
}

/// `min.bf16`; PTX has no `.ftz` for it.
#[must_use]
#[inline(always)]
pub fn min_bf16(a: u16, b: u16, ftz: bool, nan: bool, xorsign_abs: bool) -> u16 {
    pick_16(BF16, false, a, b, ftz, nan, xorsign_abs)
}

/// `max.bf16`; PTX has no `.ftz` for it.
#[must_use]
#[inline(always)]
pub fn max_bf16(a: u16, b: u16, ftz: bool, nan: bool, xorsign_abs: bool) -> u16 {
    pick_16(BF16, true, a, b, ftz, nan, xorsign_abs)
}

/// Maps doubles to integers in the same order.
#[inline(always)]
const fn rank(bits: u64) -> i64 {
    let magnitude = (bits & (u64::MAX >> 1)).cast_signed();
    if bits >> 63 == 1 { -1 - magnitude } else { magnitude }
}

#[inline(always)]
const fn is_nan(bits: u64) -> bool {
    bits & (u64::MAX >> 1) > F64.infinity()
}

#[inline(always)]
fn pick_f64(greater: bool, a: u64, b: u64) -> u64 {
    let first = (rank(a) >= rank(b)) == greater;
    let number = if !is_nan(a) & (first | is_nan(b)) { a } else { b };
    if is_nan(a) & is_nan(b) { quiet_f64(b) } else { number }
}

/// `min.f64`.
#[must_use]
#[inline(always)]
pub fn min_f64(a: u64, b: u64) -> u64 {
    pick_f64(false, a, b)
}

/// `max.f64`.
#[must_use]
#[inline(always)]
pub fn max_f64(a: u64, b: u64) -> u64 {
    pick_f64(true, a, b)
}
