//! MXFP8 quantization: the scale of a block by rule, its elements, and what becomes of NaN and infinity.

use super::formats::{exp2, exponent, to_e4m3};
use crate::case::ScaleRule;

/// The scale code of a NaN block.
pub const NAN_SCALE: u8 = 0xFF;
/// The code of every element of a NaN block.
pub const NAN_CODE: u8 = 0x7F;
/// The largest scale code, and that of a block with an infinity.
pub const LARGEST_SCALE: u8 = 0xFE;
/// The scale code that is one.
const ONE: u8 = 0x7F;

/// The scale code for a block whose largest magnitude is `amax`: a number, infinity or NaN.
///
/// With amax = 1.m·2^e the exponent X is that of docs/numerics.md, 9.2; the code is X + 127, clamped to 0..=254.
#[must_use]
pub fn scale_code(rule: ScaleRule, amax: f64) -> u8 {
    if amax.is_nan() {
        return NAN_SCALE;
    }
    if rule == ScaleRule::Identity {
        return ONE;
    }
    if amax == 0.0 {
        return 0;
    }
    if amax.is_infinite() {
        return LARGEST_SCALE;
    }
    let e = exponent(amax);
    // In two steps, since 2^-e may be beyond a double where amax is not.
    let m = amax * exp2(-e / 2) * exp2(-e - -e / 2);
    let x = match rule {
        ScaleRule::Ceil if m > 1.75 => e - 7,
        ScaleRule::Even if m >= 1.9375 => e - 7,
        ScaleRule::Nearest if m < 1.3125 => e - 9,
        ScaleRule::Rz if m < 1.75 => e - 9,
        _ => e - 8,
    };
    (x.clamp(-127, 127) + 127) as u8
}

/// The code of `x` under a scale code that is no NaN.
#[must_use]
pub fn element(x: f64, scale: u8) -> u8 {
    to_e4m3(x * exp2(127 - i32::from(scale)))
}

/// Scale and codes of one block.
#[must_use]
pub fn block(rule: ScaleRule, values: &[f64]) -> (u8, Vec<u8>) {
    let nan = values.iter().any(|x| x.is_nan());
    let amax = if nan { f64::NAN } else { values.iter().fold(0.0, |m: f64, x| m.max(x.abs())) };
    let scale = scale_code(rule, amax);
    if scale == NAN_SCALE {
        return (scale, vec![NAN_CODE; values.len()]);
    }
    (scale, values.iter().map(|x| element(*x, scale)).collect())
}
