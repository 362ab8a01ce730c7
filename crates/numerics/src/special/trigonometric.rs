//! `MUFU.SIN`, `MUFU.COS` and `MUFU.TANH`.

use super::tables::{SIN, TANH};
use super::{Function, IMPLICIT, NAN, ONE, Row, SIGN, cut, exponent, fraction, is_nan, rows, shifted};

/// `MUFU.SIN`: the sine of `a` turns (not radians).
pub(crate) struct Sin;

/// `MUFU.COS`: the cosine of `a` turns.
pub(crate) struct Cos;

/// In quarter turns, with 23 fraction bits; full turns are shifted out.
#[inline(always)]
const fn quarters(a: u32) -> u32 {
    shifted(fraction(a) | IMPLICIT, exponent(a) - 125)
}

/// The place on the curve of `a`'s magnitude plus `ahead` quarter turns.
#[inline(always)]
const fn place_on_circle(a: u32, ahead: u32) -> (u32, u32) {
    let quarters = quarters(a);
    let quarter = (quarters >> 23) + ahead;
    // The curve is mirrored in every other quarter.
    let angle = fraction(quarters ^ 0_u32.wrapping_sub(quarter & 1));
    (angle >> 17, angle & 0x1_FFFF)
}

static CIRCLE: [Row; 64] = rows(&SIN, 11, 0);

#[inline(always)]
fn interpolate_on_circle(row: Row, x: u32, square: u32) -> u32 {
    cut(row.sum(x, square, 0).cast_unsigned(), 37)
}

/// The sine of `a`'s magnitude plus `ahead` quarter turns; `sign` is applied to it.
#[inline(always)]
fn circle(a: u32, (ahead, sign): (u32, u32), interpolated: u32) -> u32 {
    let quarter = (quarters(a) >> 23) + ahead;
    if exponent(a) == 255 { NAN } else { interpolated | sign ^ (quarter & 2) << 30 }
}

impl Function for Sin {
    const ROWS: &'static [Row] = &CIRCLE;

    #[inline(always)]
    fn place(a: u32) -> (u32, u32) {
        place_on_circle(a, 0)
    }

    #[inline(always)]
    fn interpolate(_: u32, row: Row, (_, x): (u32, u32), square: u32) -> u32 {
        interpolate_on_circle(row, x, square)
    }

    #[inline(always)]
    fn result(a: u32, interpolated: u32) -> u32 {
        circle(a, (0, a & SIGN), interpolated)
    }
}

impl Function for Cos {
    const ROWS: &'static [Row] = &CIRCLE;

    #[inline(always)]
    fn place(a: u32) -> (u32, u32) {
        place_on_circle(a, 1)
    }

    #[inline(always)]
    fn interpolate(_: u32, row: Row, (_, x): (u32, u32), square: u32) -> u32 {
        interpolate_on_circle(row, x, square)
    }

    #[inline(always)]
    fn result(a: u32, interpolated: u32) -> u32 {
        circle(a, (1, 0), interpolated)
    }
}

/// The first row of each binade from 2^-8 to 2^2.
const FIRST: [u8; 11] = [0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43];

/// The base-2 logarithm of the number of rows of each binade, four bits each.
const BITS: u64 = 0x343_2221_1000;

/// The number of the binade of an operand, from 2^-8 on.
#[inline(always)]
const fn binade(a: u32) -> i32 {
    exponent(a) - 119
}

/// The base-2 logarithm of the number of rows of an operand's binade.
#[inline(always)]
const fn bits(a: u32) -> u32 {
    (BITS >> (binade(a).cast_unsigned().wrapping_mul(4) & 63)) as u32 & 7
}

/// `MUFU.TANH`: returns the operand itself below 2^-8 and ±1 from 8 on.
pub(crate) struct Tanh;

impl Function for Tanh {
    const ROWS: &'static [Row] = &const { rows(&TANH, 13, 0) };

    /// The place in its binade: the rows of a binade lie side by side, and their number depends on it.
    #[inline(always)]
    fn place(a: u32) -> (u32, u32) {
        let bits = bits(a);
        (fraction(a) >> (23 - bits), a >> (6 - bits) & 0x1_FFFF)
    }

    #[inline(always)]
    fn row(a: u32, segment: u32) -> usize {
        let first = usize::try_from(binade(a)).ok().and_then(|binade| FIRST.get(binade));
        first.map_or(0, |first| usize::from(*first) + segment as usize)
    }

    #[inline(always)]
    fn interpolate(a: u32, row: Row, (_, x): (u32, u32), square: u32) -> u32 {
        let inside = cut(row.sum(x, square, 0).cast_unsigned(), 39);
        let from_small = if binade(a) < 0 { a & !SIGN } else { inside };
        if binade(a) >= FIRST.len() as i32 { ONE } else { from_small }
    }

    #[inline(always)]
    fn result(a: u32, interpolated: u32) -> u32 {
        if is_nan(a) { NAN } else { a & SIGN | interpolated }
    }
}
