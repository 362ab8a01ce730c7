//! The conversions that kernels are full of, by integer arithmetic. They agree with the definition everywhere, which
//! `tests/emulator_arithmetic.rs` proves.

use crate::num::format::{NAN_16, NAN_F32};

/// `cvt.f32.f16`.
#[must_use]
#[inline]
pub fn f16_to_f32(x: u16) -> u32 {
    const SCALE: f32 = f32::from_bits((127 + 112) << 23);
    let sign = u32::from(x & 0x8000) << 16;
    let magnitude = u32::from(x & 0x7FFF);
    // Exponent and fraction moved into place are the number over 2^112, subnormal or not.
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
        // Below 2^-14: the unit of a sum with one half is that of f16's subnormals.
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

/// A double as a float rounded to odd: a later rounding to a shorter format gives what one rounding would.
#[must_use]
#[inline]
pub fn f64_to_odd(x: f64) -> u32 {
    let near = x as f32;
    let bits = near.to_bits();
    if f64::from(near) == x || x.is_nan() {
        return bits;
    }
    // The neighbour toward zero, made odd; of an infinity that is the largest number.
    (if f64::from(near).abs() > x.abs() { bits - 1 } else { bits }) | 1
}
