//! `MUFU.EX2` and `MUFU.LG2`: base-2 exponential and logarithm.

use super::tables::{EX2, LG2};
use super::{IMPLICIT, INFINITY, NAN, ONE, Row, SIGN, cut, exponent, float, fraction, is_nan, rows};

/// `MUFU.EX2`: `2^a`. The operand is truncated to a fixed-point number with 23 fraction bits.
#[inline]
#[must_use]
pub fn ex2(a: u32) -> u32 {
    static ROWS: [Row; 64] = rows(&EX2, 13, 0x17E2);
    /// 2^7.
    const OVERFLOW: u32 = 0x4300_0000;
    if a & !SIGN >= OVERFLOW {
        return match (is_nan(a), a & SIGN != 0) {
            (true, _) => NAN,
            (false, true) => 0,
            (false, false) => INFINITY,
        };
    }
    // Below 2^30; the product with a power of two is exact, and the conversion truncates.
    let magnitude = (f32::from_bits(a & !SIGN) * IMPLICIT as f32) as i32 as u32;
    // The unit negates by one's complement, without the carry, except for integers, which stay integers.
    let negative = 0_u32.wrapping_sub(a >> 31);
    let carry = negative & u32::from(fraction(magnitude) == 0);
    let fixed = (magnitude ^ negative).wrapping_add(carry);
    let (segment, x) = (fraction(fixed) >> 17, fixed & 0x1_FFFF);
    let r = ROWS[segment as usize].at(x, 0);
    float(127 + (fixed.cast_signed() >> 23), r >> 15)
}

/// `MUFU.LG2`: the base-2 logarithm, with 36 fraction bits before the result is truncated.
#[inline]
#[must_use]
pub fn lg2(a: u32) -> u32 {
    static ROWS: [Row; 64] = rows(&LG2, 12, 0x345);
    const POINT: i32 = 36;
    if exponent(a) == 0 {
        return SIGN | INFINITY;
    }
    if is_nan(a) || a & SIGN != 0 {
        return NAN;
    }
    if a == INFINITY {
        return a;
    }
    if a == ONE {
        return 0;
    }
    let (segment, x) = (fraction(a) >> 17, a & 0x1_FFFF);
    let r = ROWS[segment as usize].at(x, 1) >> 2;
    let r = r + (i64::from(exponent(a) - 127) << POINT);
    // The magnitude of a negative sum is its one's complement.
    let negative = r >> 63;
    negative as u32 & SIGN | cut(r ^ negative, POINT)
}
