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

#[inline(always)]
fn interpolate_on_circle(segment: u32, x: u32) -> u32 {
    static ROWS: [Row; 64] = rows(&SIN, 11, 0);
    let r = ROWS[segment as usize % 64].at(x, 0);
    if r == 0 { 0 } else { cut(r as f64, 37) }
}

/// The sine of `a`'s magnitude plus `ahead` quarter turns; `sign` is applied to it.
#[inline(always)]
fn circle(a: u32, (ahead, sign): (u32, u32), interpolated: u32) -> u32 {
    let quarter = (quarters(a) >> 23) + ahead;
    if exponent(a) == 255 { NAN } else { interpolated | sign ^ (quarter & 2) << 30 }
}

impl Function for Sin {
    #[inline(always)]
    fn place(a: u32) -> (u32, u32) {
        place_on_circle(a, 0)
    }

    #[inline(always)]
    fn interpolate(_: u32, segment: u32, x: u32) -> u32 {
        interpolate_on_circle(segment, x)
    }

    #[inline(always)]
    fn result(a: u32, interpolated: u32) -> u32 {
        circle(a, (0, a & SIGN), interpolated)
    }
}

impl Function for Cos {
    #[inline(always)]
    fn place(a: u32) -> (u32, u32) {
        place_on_circle(a, 1)
    }

    #[inline(always)]
    fn interpolate(_: u32, segment: u32, x: u32) -> u32 {
        interpolate_on_circle(segment, x)
    }

    #[inline(always)]
    fn result(a: u32, interpolated: u32) -> u32 {
        circle(a, (1, 0), interpolated)
    }
}

/// The first row of each binade from 2^-8 to 2^2, and the base-2 logarithm of its number of rows.
const BINADES: [(u8, u8); 11] =
    [(0, 0), (1, 0), (2, 0), (3, 1), (5, 1), (7, 2), (11, 2), (15, 2), (19, 3), (27, 4), (43, 3)];

/// `MUFU.TANH`: returns the operand itself below 2^-8 and ±1 from 8 on.
pub(crate) struct Tanh;

impl Function for Tanh {
    /// The rows of a binade lie side by side, and their number depends on it: the table finds the place.
    #[inline(always)]
    fn place(_: u32) -> (u32, u32) {
        (0, 0)
    }

    #[inline(always)]
    fn interpolate(a: u32, _: u32, _: u32) -> u32 {
        static ROWS: [Row; 51] = rows(&TANH, 13, 0);
        let Ok(binade) = usize::try_from(exponent(a) - 119) else { return a & !SIGN };
        let Some(&(first, bits)) = BINADES.get(binade) else { return ONE };
        let row = usize::from(first) + (fraction(a) >> (23 - bits)) as usize;
        let x = a >> (6 - bits) & 0x1_FFFF;
        cut(ROWS[row].at(x, 0) as f64, 39)
    }

    #[inline(always)]
    fn result(a: u32, interpolated: u32) -> u32 {
        if is_nan(a) { NAN } else { a & SIGN | interpolated }
    }
}
