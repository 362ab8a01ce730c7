//! `MUFU.EX2` and `MUFU.LG2`: base-2 exponential and logarithm.

use super::square::square_by_rows;
use super::tables::{EX2, LG2};
use super::{Columns, IMPLICIT, INFINITY, NAN, ONE, SIGN, columns, cut, exponent, float, fraction, is_nan};

/// `MUFU.EX2`: `2^a`. The operand is truncated to a fixed-point number with 23 fraction bits.
#[inline(always)]
#[must_use]
pub fn ex2(a: u32) -> u32 {
    static COLUMNS: Columns<64> = columns(&EX2, 13, 0x17E2, 0);
    /// 2^7.
    const OVERFLOW: u32 = 0x4300_0000;
    let inside = a & !SIGN < OVERFLOW;
    // Below 2^30; the product with a power of two is exact, and the conversion truncates.
    let magnitude = f32::from_bits(if inside { a & !SIGN } else { 0 }) * IMPLICIT as f32;
    let magnitude = (magnitude as i32).cast_unsigned();
    // The unit negates by one's complement, without the carry, except for integers, which stay integers.
    let negative = 0_u32.wrapping_sub(a >> 31);
    let carry = negative & u32::from(fraction(magnitude) == 0);
    let fixed = (magnitude ^ negative).wrapping_add(carry);
    let (segment, x) = (fraction(fixed) >> 17, fixed & 0x1_FFFF);
    let r = COLUMNS.at(segment, x, square_by_rows(x));
    let result = float((fixed.cast_signed() >> 23).wrapping_add(127), (r * (1.0 / 32768.0)) as i32);
    let infinite = if a & SIGN != 0 { 0 } else { INFINITY };
    let beyond = if is_nan(a) { NAN } else { infinite };
    if inside { result } else { beyond }
}

/// `MUFU.LG2`: the base-2 logarithm, with 36 fraction bits before the result is truncated.
#[inline(always)]
#[must_use]
pub fn lg2(a: u32) -> u32 {
    static COLUMNS: Columns<64> = columns(&LG2, 12, 0x345, 1);
    const POINT: u32 = 36;
    let (segment, x) = (fraction(a) >> 17, a & 0x1_FFFF);
    let r = (COLUMNS.at(segment, x, square_by_rows(x)) as i64) >> 2;
    let r = r + (i64::from(exponent(a) - 127) << POINT);
    // The magnitude of a negative sum is its one's complement.
    let negative = r >> 63;
    let result = negative as u32 & SIGN | cut((r ^ negative) as f64, POINT);
    let above = if a == INFINITY { a } else { result };
    let above = if a == ONE { 0 } else { above };
    let nonzero = if is_nan(a) || a & SIGN != 0 { NAN } else { above };
    if exponent(a) == 0 { SIGN | INFINITY } else { nonzero }
}
