//! Fast paths for the conversions that kernels use most. They agree with the definition for all inputs, which
//! `tests/numerics/conversions.rs` checks.

use crate::format::{NAN_16, NAN_F32};

/// `cvt.f32.f16`.
#[must_use]
#[inline(always)]
pub fn f16_to_f32(x: u16) -> u32 {
    const SCALE: f32 = f32::from_bits((127 + 112) << 23);
    let sign = u32::from(x & 0x8000) << 16;
    let magnitude = u32::from(x & 0x7FFF);
    // Exponent and fraction, shifted into place, are the number divided by 2^112, even if it is subnormal.
    let scaled = (f32::from_bits(magnitude << 13) * SCALE).to_bits();
    let beyond = if magnitude == 0x7C00 { sign | 0x7F80_0000 } else { NAN_F32 };
    if magnitude < 0x7C00 { sign | scaled } else { beyond }
}

/// The magnitude of a narrow format with `cut` fewer fraction bits than `f32`, rounded to nearest even. `least` is its smallest normal
/// number, and `unit` the float whose last bit is the unit of its subnormal numbers: the sum with it is rounded there. Both results are
/// computed, so that a loop over lanes has no branches. Magnitudes beyond the format give a code beyond its largest.
#[inline(always)]
fn rounded(magnitude: u32, cut: u32, least: f32, unit: f32) -> u32 {
    let bias = (least.to_bits() >> cut).wrapping_sub(1 << (23 - cut));
    let half = (1 << (cut - 1)) - 1;
    let normal = (magnitude.wrapping_add(half).wrapping_add(magnitude >> cut & 1) >> cut).wrapping_sub(bias);
    let subnormal = (f32::from_bits(magnitude) + unit).to_bits().wrapping_sub(unit.to_bits());
    if magnitude < least.to_bits() { subnormal } else { normal }
}

/// `cvt.rn.f16.f32`.
#[must_use]
#[inline(always)]
pub fn f32_to_f16(x: u32) -> u16 {
    let sign = x >> 16 & 0x8000;
    let magnitude = x & 0x7FFF_FFFF;
    let code = sign | rounded(magnitude, 13, 1.0 / 16384.0, 0.5).min(0x7C00);
    (if magnitude > 0x7F80_0000 { u32::from(NAN_16) } else { code }) as u16
}

/// `cvt.rn.bf16.f32`.
#[must_use]
#[inline(always)]
pub fn f32_to_bf16(x: u32) -> u16 {
    let code = x.wrapping_add(0x7FFF).wrapping_add(x >> 16 & 1) >> 16;
    (if x & 0x7FFF_FFFF > 0x7F80_0000 { u32::from(NAN_16) } else { code }) as u16
}

/// The code of a format of eight bits or fewer, whose results never exceed the `largest` code; `sign` is the place of its sign.
#[inline(always)]
fn finite(x: u32, sign: u32, [largest, nan]: [u32; 2], rounded: impl FnOnce(u32) -> u32) -> u8 {
    let magnitude = x & 0x7FFF_FFFF;
    let code = (x >> 31) << sign | rounded(magnitude).min(largest);
    (if magnitude > 0x7F80_0000 { nan } else { code }) as u8
}

/// `cvt.rn.satfinite.e4m3x2.f32` for one value.
#[must_use]
#[inline(always)]
pub fn f32_to_e4m3(x: u32) -> u8 {
    finite(x, 7, [0x7E, 0x7F], |magnitude| rounded(magnitude, 20, 1.0 / 64.0, 16384.0))
}

/// `cvt.rn.satfinite.e5m2x2.f32` for one value.
#[must_use]
#[inline(always)]
pub fn f32_to_e5m2(x: u32) -> u8 {
    finite(x, 7, [0x7B, 0x7F], |magnitude| rounded(magnitude, 21, 1.0 / 16384.0, 128.0))
}

/// `cvt.rn.satfinite.e2m1x2.f32` for one value.
#[must_use]
#[inline(always)]
pub fn f32_to_e2m1(x: u32) -> u8 {
    finite(x, 3, [0x7, 0x7], |magnitude| rounded(magnitude, 22, 1.0, 4_194_304.0))
}

/// `cvt.rn.bf16.f64`, except that a NaN becomes the canonical NaN.
#[must_use]
#[inline(always)]
pub fn f64_to_bf16(x: f64) -> u16 {
    f32_to_bf16(f64_to_odd(x))
}

/// `cvt.rn.f16.f64`, except that a NaN becomes the canonical NaN.
#[must_use]
#[inline(always)]
pub fn f64_to_f16(x: f64) -> u16 {
    f32_to_f16(f64_to_odd(x))
}

/// Rounds a double to odd as a float, so that a later rounding to a shorter format equals a single rounding.
#[must_use]
#[inline(always)]
pub fn f64_to_odd(x: f64) -> u32 {
    let near = x as f32;
    let bits = near.to_bits();
    // The neighbour toward zero, made odd; for an infinity, that is the largest finite number.
    let odd = bits.wrapping_sub(u32::from(f64::from(near).abs() > x.abs())) | 1;
    if f64::from(near) == x || x.is_nan() { bits } else { odd }
}
