//! MX quantization: the scale of a block by rule, its elements, and the handling of NaN and infinity.

use super::formats::{exp2, exponent};
use super::interval::Interval;
use crate::moe::case::ScaleRule;
use crate::moe::format::Element;

/// The scale code of a NaN block.
const NAN_SCALE: u8 = 0xFF;
/// The largest scale code, and that of a block with an infinity.
const LARGEST_SCALE: u8 = 0xFE;
/// The scale code of one.
const ONE: u8 = 0x7F;

/// An element type for the scale rules: its largest number is `mantissa`·2^`exponent`.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    element: Element,
    exponent: i32,
    mantissa: f64,
    /// From this mantissa on, rounding to the element's mantissa bits carries into the next binade.
    carries: f64,
    /// The code of every element of a NaN block.
    nan: u16,
}

impl Target {
    /// e4m3: 448, three mantissa bits.
    pub const E4M3: Self =
        Self { element: Element::E4m3, exponent: 8, mantissa: 1.75, carries: 1.9375, nan: 0x7F };
    /// e2m1: 6, one mantissa bit. It has no NaN; conversions return the largest number.
    pub const E2M1: Self =
        Self { element: Element::E2m1, exponent: 2, mantissa: 1.5, carries: 1.75, nan: 0x7 };
}

/// The scale code for a block whose largest magnitude is `amax`: a number, infinity or NaN.
///
/// With amax = 1.m·2^e the exponent X is that of docs/numerics.md, 9.2; the code is X + 127, clamped to 0..=254.
#[must_use]
pub fn scale_code(target: Target, rule: ScaleRule, amax: f64) -> u8 {
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
    // In two steps, since 2^-e may be beyond a double even if amax is not.
    let m = amax * exp2(-e / 2) * exp2(-e - -e / 2);
    let x = e - target.exponent
        + match rule {
            ScaleRule::Ceil if m > target.mantissa => 1,
            ScaleRule::Even if m >= target.carries => 1,
            // Halfway between two powers of two, the lower of which is half of that of the largest number.
            ScaleRule::Nearest if m < 0.75 * target.mantissa => -1,
            ScaleRule::Rz if m < target.mantissa => -1,
            _ => 0,
        };
    (x.clamp(-127, 127) + 127) as u8
}

/// Scale and codes of one block.
#[must_use]
pub fn mx_block(target: Target, rule: ScaleRule, values: &[f64]) -> (u8, Vec<u16>) {
    let nan = values.iter().any(|x| x.is_nan());
    let amax = if nan { f64::NAN } else { values.iter().fold(0.0, |m: f64, x| m.max(x.abs())) };
    let scale = scale_code(target, rule, amax);
    if scale == NAN_SCALE {
        return (scale, vec![target.nan; values.len()]);
    }
    let code = |x: &f64| target.element.nearest(x * exp2(127 - i32::from(scale)));
    (scale, values.iter().map(code).collect())
}

/// The least and the greatest scale code for a largest magnitude within `amax`.
#[must_use]
pub fn mx_scales(target: Target, rule: ScaleRule, amax: Interval) -> (u8, u8) {
    (scale_code(target, rule, amax.lo), scale_code(target, rule, amax.hi))
}
