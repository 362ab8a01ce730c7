//! `MUFU.RCP64H` and `MUFU.RSQ64H`: starting values for double precision, from upper word to upper word.
//!
//! The unit takes the 20 fraction bits of the word as the upper ones of a single-precision operand, and cuts the result to as
//! many.

use super::{INFINITY, NAN, SIGN, exponent, fraction, rcp, rsq};

/// The exponent of a double's upper word, without its bias; `None` for zeros, subnormals, infinities and NaNs.
const fn exponent_of(upper: u32) -> Option<i32> {
    match (upper >> 20 & 0x7FF).cast_signed() {
        0 | 0x7FF => None,
        e => Some(e - 1023),
    }
}

/// The upper word of a double with the sign, fraction and, moved by `by`, exponent of a single; zero below the normal numbers.
const fn widened(single: u32, by: i32) -> u32 {
    let e = exponent(single) - 127 + by + 1023;
    let sign = single & SIGN;
    if e <= 0 { sign } else { sign | e.cast_unsigned() << 20 | fraction(single) >> 3 }
}

/// The single that stands for a special operand.
const fn special(upper: u32) -> u32 {
    let sign = upper & SIGN;
    match upper & !SIGN {
        0x7FF0_0000 => sign | INFINITY,
        0x7FF0_0001.. => NAN,
        _ => sign,
    }
}

/// What a special operand gives: the single's zero, infinity or NaN as an upper word.
const fn upper_of(single: u32) -> u32 {
    match single & !SIGN {
        0 => single,
        INFINITY => single & SIGN | 0x7FF0_0000,
        _ => NAN,
    }
}

/// `MUFU.RCP64H`: the upper word of `1/a`, for the upper word of `a`.
#[must_use]
pub fn rcp64h(a: u32) -> u32 {
    let Some(e) = exponent_of(a) else { return upper_of(rcp(special(a))) };
    widened(rcp(a & SIGN | 127 << 23 | (a << 3 & 0x7F_FFF8)), -e)
}

/// `MUFU.RSQ64H`: the upper word of `1/√a`, for the upper word of `a`.
#[must_use]
pub fn rsq64h(a: u32) -> u32 {
    let Some(e) = exponent_of(a) else { return upper_of(rsq(special(a))) };
    if a & SIGN != 0 {
        return NAN;
    }
    // From 1 to 4, and the rest of the exponent is even.
    let odd = e & 1;
    let single = (127 + odd).cast_unsigned() << 23 | (a << 3 & 0x7F_FFF8);
    widened(rsq(single), -(e - odd) / 2)
}
