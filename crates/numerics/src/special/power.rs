//! `MUFU.EX2` and `MUFU.LG2`: base-2 exponential and logarithm.

use super::tables::{EX2, LG2};
use super::{
    Function, IMPLICIT, INFINITY, NAN, ONE, Row, SIGN, cut, exponent, float, fraction, is_nan, rows,
};

/// `MUFU.EX2`: `2^a`. The operand is truncated to a fixed-point number with 23 fraction bits.
pub(crate) struct Ex2;

impl Ex2 {
    /// Whether the result may be neither zero nor infinity: operands below 2^7.
    #[inline(always)]
    const fn is_inside(a: u32) -> bool {
        a & !SIGN < 0x4300_0000
    }

    #[inline(always)]
    fn fixed(a: u32) -> u32 {
        // Below 2^30; the product with a power of two is exact, and the conversion truncates.
        let magnitude = f32::from_bits(if Self::is_inside(a) { a & !SIGN } else { 0 }) * IMPLICIT as f32;
        let magnitude = (magnitude as i32).cast_unsigned();
        // The unit negates by one's complement, without the carry, except for integers, which stay integers.
        let negative = 0_u32.wrapping_sub(a >> 31);
        let carry = negative & u32::from(fraction(magnitude) == 0);
        (magnitude ^ negative).wrapping_add(carry)
    }
}

impl Function for Ex2 {
    const ROWS: &'static [Row] = &const { rows(&EX2, 13, 0x17E2) };

    #[inline(always)]
    fn place(a: u32) -> (u32, u32) {
        let fixed = Self::fixed(a);
        (fraction(fixed) >> 17, fixed & 0x1_FFFF)
    }

    #[inline(always)]
    fn interpolate(_: u32, row: Row, (_, x): (u32, u32), square: u32) -> u32 {
        (row.sum(x, square, 0) >> 15) as u32
    }

    #[inline(always)]
    fn result(a: u32, interpolated: u32) -> u32 {
        let whole = Self::fixed(a).cast_signed() >> 23;
        let result = float(whole.wrapping_add(127), interpolated.cast_signed());
        let infinite = if a & SIGN != 0 { 0 } else { INFINITY };
        let beyond = if is_nan(a) { NAN } else { infinite };
        if Self::is_inside(a) { result } else { beyond }
    }
}

/// `MUFU.LG2`: the base-2 logarithm, with 36 fraction bits before the result is truncated.
pub(crate) struct Lg2;

impl Function for Lg2 {
    const ROWS: &'static [Row] = &const { rows(&LG2, 12, 0x345) };

    #[inline(always)]
    fn place(a: u32) -> (u32, u32) {
        (fraction(a) >> 17, a & 0x1_FFFF)
    }

    #[inline(always)]
    fn interpolate(a: u32, row: Row, (_, x): (u32, u32), square: u32) -> u32 {
        const POINT: u32 = 36;
        let r = row.sum(x, square, 1) >> 2;
        let r = r + (i64::from(exponent(a) - 127) << POINT);
        // The magnitude of a negative sum is its one's complement.
        let negative = r >> 63;
        negative as u32 & SIGN | cut((r ^ negative).cast_unsigned(), POINT)
    }

    #[inline(always)]
    fn result(a: u32, interpolated: u32) -> u32 {
        let above = if a == INFINITY { a } else { interpolated };
        let above = if a == ONE { 0 } else { above };
        let nonzero = if is_nan(a) || a & SIGN != 0 { NAN } else { above };
        if exponent(a) == 0 { SIGN | INFINITY } else { nonzero }
    }
}
