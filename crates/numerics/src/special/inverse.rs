//! `MUFU.RCP`, `MUFU.RSQ` and `MUFU.SQRT`: reciprocal, reciprocal square root and square root.

use super::tables::{RCP, RSQ, SQRT};
use super::{Function, INFINITY, NAN, Row, SIGN, exponent, float, fraction, is_nan, rows};

/// `MUFU.RCP`: `1/a`, with 128 segments from 1 to 2.
pub(crate) struct Rcp;

impl Function for Rcp {
    const ROWS: &'static [Row] = &const { rows(&RCP, 13, 0x7E7) };

    #[inline(always)]
    fn place(a: u32) -> (u32, u32) {
        (fraction(a) >> 16, a & 0xFFFF)
    }

    #[inline(always)]
    fn squared(x: u32) -> u32 {
        x << 1
    }

    #[inline(always)]
    fn interpolate(_: u32, row: Row, (_, x): (u32, u32), square: u32) -> u32 {
        (row.sum(x, square, 0) >> 15) as u32
    }

    #[inline(always)]
    fn result(a: u32, interpolated: u32) -> u32 {
        let (sign, e) = (a & SIGN, exponent(a));
        let finite = sign | float(253 - e, interpolated.cast_signed());
        let infinite = if is_nan(a) { NAN } else { sign };
        let nonzero = if e == 255 { infinite } else { finite };
        if e == 0 { sign | INFINITY } else { nonzero }
    }
}

/// The place of the operand of a root, reduced to the range from 1 to 4, which has 64 segments below 2 and 64 above.
#[inline(always)]
const fn place_of_radicand(a: u32) -> (u32, u32) {
    ((power(a) as u32 & 1) << 6 | fraction(a) >> 17, a & 0x1_FFFF)
}

/// The exponent of the operand of a root. The number is reduced by a power of four: half of this, rounded down.
#[inline(always)]
const fn power(a: u32) -> i32 {
    exponent(a) - 127
}

/// What a root of zeros, infinities, NaNs and negative numbers is, or else `finite`.
#[inline(always)]
fn root(a: u32, [zero, infinity]: [u32; 2], finite: u32) -> u32 {
    let positive = if a == INFINITY { infinity } else { finite };
    let nonzero = if is_nan(a) || a & SIGN != 0 { NAN } else { positive };
    if exponent(a) == 0 { a & SIGN | zero } else { nonzero }
}

/// `MUFU.RSQ`: `1/√a`; a zero yields an infinity of the same sign.
pub(crate) struct Rsq;

impl Function for Rsq {
    const ROWS: &'static [Row] = &const { rows(&RSQ, 14, 0x3FFF) };

    #[inline(always)]
    fn place(a: u32) -> (u32, u32) {
        place_of_radicand(a)
    }

    #[inline(always)]
    fn interpolate(_: u32, row: Row, (_, x): (u32, u32), square: u32) -> u32 {
        (row.sum(x, square, 2) >> 16) as u32
    }

    #[inline(always)]
    fn result(a: u32, interpolated: u32) -> u32 {
        let half = power(a) >> 1;
        let between = float(126 - half, interpolated.cast_signed());
        // A power of four has an exact result, which the segment's coefficients would miss.
        let exact = fraction(a) == 0 && power(a) & 1 == 0;
        root(a, [INFINITY, 0], if exact { float(127 - half, 1 << 23) } else { between })
    }
}

/// `MUFU.SQRT`: `√a`, from a separate table.
pub(crate) struct Sqrt;

impl Function for Sqrt {
    const ROWS: &'static [Row] = &const { rows(&SQRT, 15, 0x7FFF) };

    #[inline(always)]
    fn place(a: u32) -> (u32, u32) {
        place_of_radicand(a)
    }

    #[inline(always)]
    fn interpolate(_: u32, row: Row, (segment, x): (u32, u32), square: u32) -> u32 {
        // From 2 to 4, the operand's steps are twice as wide.
        let wide = x << (segment >> 6 & 1);
        (row.sum(wide, square, 1) >> 17) as u32
    }

    #[inline(always)]
    fn result(a: u32, interpolated: u32) -> u32 {
        root(a, [0, INFINITY], float(127 + (power(a) >> 1), interpolated.cast_signed()))
    }
}
