//! `MUFU.RCP`, `MUFU.RSQ` and `MUFU.SQRT`: the reciprocal, the root, and its reciprocal.

use super::square::square;
use super::tables::{RCP, RSQ, SQRT};
use super::{INFINITY, NAN, Places, SIGN, exponent, float, fraction, is_nan, sum};

/// `MUFU.RCP`: `1/a`, with 128 segments from 1 to 2.
#[inline]
#[must_use]
pub fn rcp(a: u32) -> u32 {
    const PLACES: Places = Places { constant: 13, linear: 0, quadratic: 0 };
    const ROUNDING: i64 = 0x7E7;
    let sign = a & SIGN;
    match exponent(a) {
        0 => sign | INFINITY,
        255 if is_nan(a) => NAN,
        255 => sign,
        e => {
            let (segment, x) = (fraction(a) >> 16, a & 0xFFFF);
            let r = sum(RCP[segment as usize], x, square(x << 1), PLACES) + ROUNDING;
            sign | float(253 - e, r >> 15)
        }
    }
}

/// The operand of a root, from 1 to 4: its 128 segments are 64 from 1 to 2 and 64 from 2 to 4.
struct Radicand {
    segment: usize,
    x: u32,
    /// The exponent is odd: the number lies between 2 and 4.
    odd: bool,
    /// Half of the exponent.
    half: i32,
}

impl Radicand {
    #[inline(always)]
    const fn of(a: u32) -> Self {
        let e = exponent(a) - 127;
        let odd = e & 1 == 1;
        let segment = (odd as u32) << 6 | fraction(a) >> 17;
        Self { segment: segment as usize, x: a & 0x1_FFFF, odd, half: e >> 1 }
    }
}

/// `MUFU.RSQ`: `1/√a`; an infinity of its sign for a zero.
#[inline]
#[must_use]
pub fn rsq(a: u32) -> u32 {
    const PLACES: Places = Places { constant: 14, linear: 0, quadratic: 2 };
    const ROUNDING: i64 = 0x3FFF;
    if exponent(a) == 0 {
        return a & SIGN | INFINITY;
    }
    if is_nan(a) || a & SIGN != 0 {
        return NAN;
    }
    if a == INFINITY {
        return 0;
    }
    let Radicand { segment, x, half, .. } = Radicand::of(a);
    // A power of four is exact, which the segment's row alone would miss.
    if segment == 0 && x == 0 {
        return float(127 - half, 1 << 23);
    }
    let r = sum(RSQ[segment], x, square(x), PLACES) + ROUNDING;
    float(126 - half, r >> 16)
}

/// `MUFU.SQRT`: `√a`, with a table of its own.
#[inline]
#[must_use]
pub fn sqrt(a: u32) -> u32 {
    const ROUNDING: i64 = 0x7FFF;
    if exponent(a) == 0 {
        return a & SIGN;
    }
    if is_nan(a) || a & SIGN != 0 {
        return NAN;
    }
    if a == INFINITY {
        return a;
    }
    let Radicand { segment, x, odd, half } = Radicand::of(a);
    // From 2 to 4 a step of the operand is twice as wide.
    let places = Places { constant: 15, linear: u32::from(odd), quadratic: 1 };
    let r = sum(SQRT[segment], x, square(x), places) + ROUNDING;
    float(127 + half, r >> 17)
}
