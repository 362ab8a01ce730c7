//! `MUFU.SIN`, `MUFU.COS` and `MUFU.TANH`.

use super::square::square_by_rows;
use super::tables::{SIN, TANH};
use super::{
    Columns, IMPLICIT, NAN, ONE, Row, SIGN, columns, cut, exponent, fraction, is_nan, rows, shifted,
};

/// `MUFU.SIN`: the sine of `a` turns (not radians).
#[inline(always)]
#[must_use]
pub fn sin(a: u32) -> u32 {
    circle(a, 0, a & SIGN)
}

/// `MUFU.COS`: the cosine of `a` turns.
#[inline(always)]
#[must_use]
pub fn cos(a: u32) -> u32 {
    circle(a, 1, 0)
}

/// Returns the sine of `a`'s magnitude plus `ahead` quarter turns; `sign` is applied to the result.
#[inline(always)]
fn circle(a: u32, ahead: u32, sign: u32) -> u32 {
    static COLUMNS: Columns<64> = columns(&SIN, 11, 0, 0);
    // In quarter turns, with 23 fraction bits; full turns are shifted out.
    let quarters = shifted(fraction(a) | IMPLICIT, exponent(a) - 125);
    let quarter = (quarters >> 23) + ahead;
    // The curve is mirrored in every other quarter.
    let angle = fraction(quarters ^ 0_u32.wrapping_sub(quarter & 1));
    let sign = sign ^ (quarter & 2) << 30;
    let (segment, x) = (angle >> 17, angle & 0x1_FFFF);
    let r = COLUMNS.at(segment, x, square_by_rows(x));
    let result = sign | if r == 0.0 { 0 } else { cut(r, 37) };
    if exponent(a) == 255 { NAN } else { result }
}

/// The first row of each binade from 2^-8 to 2^2, and the base-2 logarithm of its number of rows.
const BINADES: [(u8, u8); 11] =
    [(0, 0), (1, 0), (2, 0), (3, 1), (5, 1), (7, 2), (11, 2), (15, 2), (19, 3), (27, 4), (43, 3)];

/// `MUFU.TANH`: returns the operand itself below 2^-8 and ±1 from 8 on.
#[inline(always)]
#[must_use]
pub fn tanh(a: u32) -> u32 {
    static ROWS: [Row; 51] = rows(&TANH, 13, 0);
    if is_nan(a) {
        return NAN;
    }
    let sign = a & SIGN;
    let Ok(binade) = usize::try_from(exponent(a) - 119) else { return a };
    let Some(&(first, bits)) = BINADES.get(binade) else { return sign | ONE };
    let row = usize::from(first) + (fraction(a) >> (23 - bits)) as usize;
    let x = a >> (6 - bits) & 0x1_FFFF;
    sign | cut(ROWS[row].at(x, 0) as f64, 39)
}
