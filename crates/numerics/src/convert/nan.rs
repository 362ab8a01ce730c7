//! Conversions that preserve NaNs: the result keeps the sign and the upper payload bits and is quiet (measured on an H100).

use super::{f16_to_f32, f32_to_f64};
use crate::Format;

/// `cvt.f64.f16`: exact; a NaN keeps its payload.
#[must_use]
pub fn f16_to_f64(x: u16) -> u64 {
    if x & 0x7FFF <= 0x7C00 {
        return f32_to_f64(f16_to_f32(x));
    }
    let sign = u64::from(x >> 15) << 63;
    sign | 0x7FF8_0000_0000_0000 | u64::from(x & 0x3FF) << 42
}

/// Converts the NaN `x` to a 16-bit format: binary16 for [`Format::F16`], bfloat16 otherwise.
#[must_use]
pub const fn f64_to_16(format: Format, x: u64) -> u16 {
    let sign = (x >> 48) as u16 & 0x8000;
    match format {
        Format::F16 => sign | 0x7E00 | (x >> 42) as u16 & 0x3FF,
        _ => sign | 0x7FC0 | (x >> 45) as u16 & 0x7F,
    }
}
