//! Fast paths for the conversions that kernels use most. They agree with the definition for all inputs, which
//! `tests/numerics/conversions.rs` checks.

use crate::format::{NAN_16, NAN_F32};

/// `cvt.f32.f16`.
#[must_use]
#[inline]
pub fn f16_to_f32(x: u16) -> u32 {
    const SCALE: f32 = f32::from_bits((127 + 112) << 23);
    let sign = u32::from(x & 0x8000) << 16;
    let magnitude = u32::from(x & 0x7FFF);
    // Exponent and fraction, shifted into place, are the number divided by 2^112, even if it is subnormal.
    let scaled = (f32::from_bits(magnitude << 13) * SCALE).to_bits();
    match magnitude {
        ..0x7C00 => sign | scaled,
        0x7C00 => sign | 0x7F80_0000,
        _ => NAN_F32,
    }
}

/// `cvt.rn.f16.f32`.
#[must_use]
#[inline]
pub fn f32_to_f16(x: u32) -> u16 {
    let sign = (x >> 16) as u16 & 0x8000;
    let magnitude = x & 0x7FFF_FFFF;
    match magnitude {
        // Below 2^-14: adding one half aligns the sum's unit with that of f16's subnormals.
        ..0x3880_0000 => sign | ((f32::from_bits(magnitude) + 0.5).to_bits() - 0x3F00_0000) as u16,
        0x3880_0000..0x477F_F000 => {
            let rounded = magnitude + 0xFFF + (magnitude >> 13 & 1) - (112 << 23);
            sign | (rounded >> 13) as u16
        }
        0x477F_F000..=0x7F80_0000 => sign | 0x7C00,
        _ => NAN_16,
    }
}

/// `cvt.rn.bf16.f32`.
#[must_use]
#[inline]
pub fn f32_to_bf16(x: u32) -> u16 {
    if x & 0x7FFF_FFFF > 0x7F80_0000 {
        return NAN_16;
    }
    ((x + 0x7FFF + (x >> 16 & 1)) >> 16) as u16
}

/// `cvt.rn.satfinite.e4m3x2.f32` for one value.
#[must_use]
#[inline]
pub fn f32_to_e4m3(x: u32) -> u8 {
    const LARGEST: u8 = 0x7E;
    const NAN: u8 = 0x7F;
    let sign = (x >> 24) as u8 & 0x80;
    let magnitude = x & 0x7FFF_FFFF;
    match magnitude {
        // Below 2^-6: adding 2^14 aligns the sum's unit with that of e4m3's subnormals.
        ..0x3C80_0000 => sign | ((f32::from_bits(magnitude) + 16384.0).to_bits() - 0x4680_0000) as u8,
        0x3C80_0000..0x43E0_0000 => {
            let rounded = magnitude + 0x7_FFFF + (magnitude >> 20 & 1) - (120 << 23);
            sign | (rounded >> 20) as u8
        }
        0x43E0_0000..=0x7F80_0000 => sign | LARGEST,
        _ => NAN,
    }
}

/// `cvt.rn.bf16.f64`, except that a NaN becomes the canonical NaN.
#[must_use]
#[inline]
pub fn f64_to_bf16(x: f64) -> u16 {
    // 2^-126 up to 2^128.
    if let Some(code) = normal(x, 45, 0x3810_0000_0000_0000..0x47F0_0000_0000_0000) {
        return code;
    }
    f32_to_bf16(f64_to_odd(x))
}

/// `cvt.rn.f16.f64`, except that a NaN becomes the canonical NaN.
#[must_use]
#[inline]
pub fn f64_to_f16(x: f64) -> u16 {
    // 2^-14 up to 2^16.
    if let Some(code) = normal(x, 42, 0x3F10_0000_0000_0000..0x40F0_0000_0000_0000) {
        return code;
    }
    f32_to_f16(f64_to_odd(x))
}

/// Rounds a double to a 16-bit format that has `cut` fewer fraction bits; `None` unless the magnitude is in `range`, that of
/// the format's normal numbers. Values that round up beyond the largest number become infinity.
#[inline(always)]
fn normal(x: f64, cut: u32, range: std::ops::Range<u64>) -> Option<u16> {
    let magnitude = x.to_bits() & !(1 << 63);
    // The smallest normal number has the biased exponent 1.
    let bias = (range.start >> cut) - (1 << (52 - cut));
    let rounded = magnitude + (1 << (cut - 1)) - 1 + (magnitude >> cut & 1);
    let sign = (x.to_bits() >> 48) as u16 & 0x8000;
    if range.contains(&magnitude) { Some(sign | ((rounded >> cut) - bias) as u16) } else { None }
}

/// Rounds a double to odd as a float, so that a later rounding to a shorter format equals a single rounding.
#[must_use]
#[inline]
pub fn f64_to_odd(x: f64) -> u32 {
    let near = x as f32;
    let bits = near.to_bits();
    if f64::from(near) == x || x.is_nan() {
        return bits;
    }
    // The neighbour toward zero, made odd; for an infinity, that is the largest finite number.
    (if f64::from(near).abs() > x.abs() { bits - 1 } else { bits }) | 1
}
