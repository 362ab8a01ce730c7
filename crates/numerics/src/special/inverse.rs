//! `MUFU.RCP`, `MUFU.RSQ` and `MUFU.SQRT`: reciprocal, reciprocal square root and square root.

use super::square::square;
use super::tables::{RCP, RSQ, SQRT};
use super::{INFINITY, NAN, Row, SIGN, exponent, float, fraction, is_nan, rows};

/// `MUFU.RCP`: `1/a`, with 128 segments from 1 to 2.
#[inline]
#[must_use]
pub fn rcp(a: u32) -> u32 {
    static ROWS: [Row; 128] = rows(&RCP, 13, 0x7E7);
    let sign = a & SIGN;
    match exponent(a) {
        0 => sign | INFINITY,
        255 if is_nan(a) => NAN,
        255 => sign,
        e => {
            let (segment, x) = (fraction(a) >> 16, a & 0xFFFF);
            let r = ROWS[segment as usize].sum(x.into(), square(x << 1), 0);
            sign | float(253 - e, r >> 15)
        }
    }
}

/// The operand of a root, reduced to the range from 1 to 4, which has 64 segments below 2 and 64 above.
struct Radicand {
    segment: usize,
    x: u32,
    /// Whether the exponent is odd, so that the number lies between 2 and 4.
    odd: bool,
    /// Half of the exponent, rounded down.
    half: i32,
}

impl Radicand {
    #[inline(always)]
    const fn from_bits(a: u32) -> Self {
        let e = exponent(a) - 127;
        let odd = e & 1 == 1;
        let segment = (odd as u32) << 6 | fraction(a) >> 17;
        Self { segment: segment as usize, x: a & 0x1_FFFF, odd, half: e >> 1 }
    }
}

/// `MUFU.RSQ`: `1/√a`; a zero yields an infinity of the same sign.
#[inline]
#[must_use]
pub fn rsq(a: u32) -> u32 {
    static ROWS: [Row; 128] = rows(&RSQ, 14, 0x3FFF);
    if exponent(a) == 0 {
        return a & SIGN | INFINITY;
    }
    if is_nan(a) || a & SIGN != 0 {
        return NAN;
    }
    if a == INFINITY {
        return 0;
    }
    let Radicand { segment, x, half, .. } = Radicand::from_bits(a);
    // A power of four has an exact result, which the segment's coefficients would miss.
    if segment == 0 && x == 0 {
        return float(127 - half, 1 << 23);
    }
    let r = ROWS[segment].at(x, 2);
    float(126 - half, r >> 16)
}

/// `MUFU.SQRT`: `√a`, from a separate table.
#[inline]
#[must_use]
pub fn sqrt(a: u32) -> u32 {
    static ROWS: [Row; 128] = rows(&SQRT, 15, 0x7FFF);
    if exponent(a) == 0 {
        return a & SIGN;
    }
    if is_nan(a) || a & SIGN != 0 {
        return NAN;
    }
    if a == INFINITY {
        return a;
    }
    let Radicand { segment, x, odd, half } = Radicand::from_bits(a);
    // From 2 to 4, the operand's steps are twice as wide.
    let r = ROWS[segment].sum(i64::from(x) << u32::from(odd), square(x), 1);
    float(127 + half, r >> 17)
}
