//! Minimum and maximum of every floating-point type.
//!
//! Without `.NaN`, a NaN loses against a number. Two NaNs yield the canonical NaN, or for `f64` the second one, quiet. `-0`
//! is below `+0`.

use super::NAN_F64;
use super::double::quiet_f64;
use super::single::flush_f32;
use crate::format::{BF16, F16, F32, F64, Layout, NAN_16, NAN_F32};

/// Maps the numbers of an IEEE-like format to integers in the same order.
const fn rank(bits: u64, layout: Layout) -> i64 {
    let magnitude = (bits & ((1 << layout.magnitude_bits()) - 1)).cast_signed();
    if (bits >> layout.magnitude_bits()) & 1 == 1 { -1 - magnitude } else { magnitude }
}

const fn is_nan(bits: u64, layout: Layout) -> bool {
    bits & ((1 << layout.magnitude_bits()) - 1) > layout.infinity()
}

/// The rules of one instruction.
#[derive(Clone, Copy)]
struct Pick {
    layout: Layout,
    greater: bool,
    nan: bool,
    xorsign_abs: bool,
    canonical: u64,
}

impl Pick {
    fn choose(self, a: u64, b: u64) -> u64 {
        let sign = 1 << self.layout.magnitude_bits();
        // `.xorsign.abs` compares magnitudes; the sign of the result is that of the product.
        let (x, y, extra) = if self.xorsign_abs { (a & !sign, b & !sign, (a ^ b) & sign) } else { (a, b, 0) };
        let picked = match (is_nan(x, self.layout), is_nan(y, self.layout)) {
            (true, true) => return self.canonical,
            (true, false) | (false, true) if self.nan => return self.canonical,
            (true, false) => y,
            (false, true) => x,
            (false, false) => {
                let first_is_greater = rank(x, self.layout) >= rank(y, self.layout);
                if first_is_greater == self.greater { x } else { y }
            }
        };
        picked | extra
    }
}

#[inline]
fn pick_f32(greater: bool, a: u32, b: u32, ftz: bool, nan: bool, xorsign_abs: bool) -> u32 {
    let pick = Pick { layout: F32, greater, nan, xorsign_abs, canonical: u64::from(NAN_F32) };
    pick.choose(u64::from(flush_f32(a, ftz)), u64::from(flush_f32(b, ftz))) as u32
}

/// `min.f32`.
#[must_use]
#[inline]
pub fn min_f32(a: u32, b: u32, ftz: bool, nan: bool, xorsign_abs: bool) -> u32 {
    pick_f32(false, a, b, ftz, nan, xorsign_abs)
}

/// `max.f32`.
#[must_use]
#[inline]
pub fn max_f32(a: u32, b: u32, ftz: bool, nan: bool, xorsign_abs: bool) -> u32 {
    pick_f32(true, a, b, ftz, nan, xorsign_abs)
}

fn pick_16(layout: Layout, greater: bool, a: u16, b: u16, ftz: bool, nan: bool, xorsign_abs: bool) -> u16 {
    let flush = |x: u16| {
        let exponent = 0x7FFF - ((1 << layout.mantissa_bits) - 1);
        if ftz && x & exponent == 0 { x & 0x8000 } else { x }
    };
    let pick = Pick { layout, greater, nan, xorsign_abs, canonical: u64::from(NAN_16) };
    pick.choose(u64::from(flush(a)), u64::from(flush(b))) as u16
}

/// `min.f16`.
#[must_use]
pub fn min_f16(a: u16, b: u16, ftz: bool, nan: bool, xorsign_abs: bool) -> u16 {
    pick_16(F16, false, a, b, ftz, nan, xorsign_abs)
}

/// `max.f16`.
#[must_use]
pub fn max_f16(a: u16, b: u16, ftz: bool, nan: bool, xorsign_abs: bool) -> u16 {
    pick_16(F16, true, a, b, ftz, nan, xorsign_abs)
}

/// `min.bf16`; PTX has no `.ftz` for it.
#[must_use]
pub fn min_bf16(a: u16, b: u16, ftz: bool, nan: bool, xorsign_abs: bool) -> u16 {
    pick_16(BF16, false, a, b, ftz, nan, xorsign_abs)
}

/// `max.bf16`; PTX has no `.ftz` for it.
#[must_use]
pub fn max_bf16(a: u16, b: u16, ftz: bool, nan: bool, xorsign_abs: bool) -> u16 {
    pick_16(BF16, true, a, b, ftz, nan, xorsign_abs)
}

fn pick_f64(greater: bool, a: u64, b: u64) -> u64 {
    let pick = Pick { layout: F64, greater, nan: false, xorsign_abs: false, canonical: NAN_F64 };
    if is_nan(a, F64) && is_nan(b, F64) { quiet_f64(b) } else { pick.choose(a, b) }
}

/// `min.f64`.
#[must_use]
pub fn min_f64(a: u64, b: u64) -> u64 {
    pick_f64(false, a, b)
}

/// `max.f64`.
#[must_use]
pub fn max_f64(a: u64, b: u64) -> u64 {
    pick_f64(true, a, b)
}
