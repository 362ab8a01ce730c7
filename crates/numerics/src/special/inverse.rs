//! `MUFU.RCP`, `MUFU.RSQ` and `MUFU.SQRT`: reciprocal, reciprocal square root and square root.

use super::square::square_by_rows;
use super::tables::{RCP, RSQ, SQRT};
use super::{Columns, INFINITY, NAN, SIGN, columns, exponent, float, fraction, is_nan};

/// `MUFU.RCP`: `1/a`, with 128 segments from 1 to 2.
#[inline(always)]
#[must_use]
pub fn rcp(a: u32) -> u32 {
    static COLUMNS: Columns<128> = columns(&RCP, 13, 0x7E7, 0);
    let (sign, e, x) = (a & SIGN, exponent(a), a & 0xFFFF);
    let r = COLUMNS.at(fraction(a) >> 16, x, square_by_rows(x << 1));
    let finite = sign | float(253 - e, (r * (1.0 / 32768.0)) as i32);
    let infinite = if is_nan(a) { NAN } else { sign };
    let nonzero = if e == 255 { infinite } else { finite };
    if e == 0 { sign | INFINITY } else { nonzero }
}

/// The operand of a root, reduced to the range from 1 to 4, which has 64 segments below 2 and 64 above.
struct Radicand {
    segment: u32,
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
        Self { segment, x: a & 0x1_FFFF, odd, half: e >> 1 }
    }
}

/// What a root of zeros, infinities, NaNs and negative numbers is, or else `finite`.
#[inline(always)]
fn root(a: u32, [zero, infinity]: [u32; 2], finite: u32) -> u32 {
    let positive = if a == INFINITY { infinity } else { finite };
    let nonzero = if is_nan(a) || a & SIGN != 0 { NAN } else { positive };
    if exponent(a) == 0 { a & SIGN | zero } else { nonzero }
}

/// `MUFU.RSQ`: `1/√a`; a zero yields an infinity of the same sign.
#[inline(always)]
#[must_use]
pub fn rsq(a: u32) -> u32 {
    static COLUMNS: Columns<128> = columns(&RSQ, 14, 0x3FFF, 2);
    let Radicand { segment, x, half, .. } = Radicand::from_bits(a);
    let r = COLUMNS.at(segment, x, square_by_rows(x));
    let between = float(126 - half, (r * (1.0 / 65536.0)) as i32);
    // A power of four has an exact result, which the segment's coefficients would miss.
    let exact = segment == 0 && x == 0;
    root(a, [INFINITY, 0], if exact { float(127 - half, 1 << 23) } else { between })
}

/// `MUFU.SQRT`: `√a`, from a separate table.
#[inline(always)]
#[must_use]
pub fn sqrt(a: u32) -> u32 {
    static COLUMNS: Columns<128> = columns(&SQRT, 15, 0x7FFF, 1);
    let Radicand { segment, x, odd, half } = Radicand::from_bits(a);
    // From 2 to 4, the operand's steps are twice as wide.
    let r = COLUMNS.at(segment, x << u32::from(odd), square_by_rows(x));
    root(a, [0, INFINITY], float(127 + half, (r * (1.0 / 131_072.0)) as i32))
}
