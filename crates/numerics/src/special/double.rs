//! `MUFU.RCP64H` and `MUFU.RSQ64H`: starting values for double precision, from upper word to upper word.
//!
//! The unit uses the 20 fraction bits of the word as the upper fraction bits of a single-precision operand, and truncates the
//! result to 20 bits.

use super::{INFINITY, NAN, Rcp, Rsq, SIGN, exponent, fraction, of_one};

/// Returns the unbiased exponent of a double's upper word; `None` for zeros, subnormals, infinities and NaNs.
const fn exponent_of(upper: u32) -> Option<i32> {
    match (upper >> 20 & 0x7FF).cast_signed() {
        0 | 0x7FF => None,
        e => Some(e - 1023),
    }
}

/// Converts a single times 2^`by` to the upper word of a double; results below the normal numbers become zero.
const fn widened(single: u32, by: i32) -> u32 {
    let e = exponent(single) - 127 + by + 1023;
    let sign = single & SIGN;
    if e <= 0 { sign } else { sign | e.cast_unsigned() << 20 | fraction(single) >> 3 }
}

/// Returns the single-precision equivalent of a special operand.
const fn special(upper: u32) -> u32 {
    let sign = upper & SIGN;
    match upper & !SIGN {
        0x7FF0_0000 => sign | INFINITY,
        0x7FF0_0001.. => NAN,
        _ => sign,
    }
}

/// Converts the unit's result for a special operand, a zero, infinity or NaN, to an upper word.
const fn upper_of(single: u32) -> u32 {
    match single & !SIGN {
        0 => single,
        INFINITY => single & SIGN | 0x7FF0_0000,
        _ => NAN,
    }
}

/// `MUFU.RCP64H`: returns the upper word of `1/a` for the upper word of `a`.
#[must_use]
pub fn rcp64h(a: u32) -> u32 {
    let Some(e) = exponent_of(a) else { return upper_of(of_one::<Rcp>(special(a))) };
    widened(of_one::<Rcp>(a & SIGN | 127 << 23 | (a << 3 & 0x7F_FFF8)), -e)
}

/// `MUFU.RSQ64H`: returns the upper word of `1/√a` for the upper word of `a`.
#[must_use]
pub fn rsq64h(a: u32) -> u32 {
    let Some(e) = exponent_of(a) else { return upper_of(of_one::<Rsq>(special(a))) };
    if a & SIGN != 0 {
        return NAN;
    }
    // A significand from 1 to 4 leaves an even exponent.
    let odd = e & 1;
    let single = (127 + odd).cast_unsigned() << 23 | (a << 3 & 0x7F_FFF8);
    widened(of_one::<Rsq>(single), -(e - odd) / 2)
}
