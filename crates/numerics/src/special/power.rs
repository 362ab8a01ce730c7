//! `MUFU.EX2` and `MUFU.LG2`: the power of two and the logarithm to base two.

use super::square::square;
use super::tables::{EX2, LG2};
use super::{IMPLICIT, INFINITY, NAN, ONE, Places, SIGN, cut, exponent, float, fraction, is_nan, sum};

/// `MUFU.EX2`: `2^a`. The operand becomes a fixed-point number of 23 fraction bits, cut toward zero.
#[inline]
#[must_use]
pub fn ex2(a: u32) -> u32 {
    const PLACES: Places = Places { constant: 13, linear: 0, quadratic: 0 };
    const ROUNDING: i64 = 0x17E2;
    let negative = a & SIGN != 0;
    let e = exponent(a) - 127;
    if e >= 7 {
        return match (is_nan(a), negative) {
            (true, _) => NAN,
            (false, true) => 0,
            (false, false) => INFINITY,
        };
    }
    let significand = fraction(a) | IMPLICIT;
    let fixed = if e >= 0 { significand << e } else { significand >> (-e).min(24) }.cast_signed();
    // The unit inverts the fraction of a negative number and omits the carry, except that a whole number stays whole.
    let fixed = match negative {
        false => fixed,
        true if fraction(fixed.cast_unsigned()) == 0 => -fixed,
        true => !fixed,
    };
    let (segment, x) = (fraction(fixed.cast_unsigned()) >> 17, fixed.cast_unsigned() & 0x1_FFFF);
    let r = sum(EX2[segment as usize], x, square(x), PLACES) + ROUNDING;
    float(127 + (fixed >> 23), r >> 15)
}

/// `MUFU.LG2`: the logarithm to base two, with 36 fraction bits before the result is cut.
#[inline]
#[must_use]
pub fn lg2(a: u32) -> u32 {
    const PLACES: Places = Places { constant: 12, linear: 0, quadratic: 1 };
    const ROUNDING: i64 = 0x345;
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
    let r = (sum(LG2[segment as usize], x, square(x), PLACES) + ROUNDING) >> 2;
    let r = r + (i64::from(exponent(a) - 127) << POINT);
    // The magnitude of a negative sum is its complement.
    if r < 0 { SIGN | cut(!r, POINT) } else { cut(r, POINT) }
}
