//! `.sat` for formats other than binary32: clamps to the range from `+0` to 1; NaN becomes `+0`.

/// `.sat` for binary64.
#[must_use]
pub fn saturate_f64(bits: u64) -> u64 {
    let x = f64::from_bits(bits);
    // The comparison is false for NaN and for -0.
    if x > 0.0 { x.min(1.0).to_bits() } else { 0 }
}

/// `.sat` for binary16.
#[must_use]
pub const fn saturate_f16(bits: u16) -> u16 {
    match bits {
        0x0000..=0x3C00 => bits,
        0x3C01..=0x7C00 => 0x3C00,
        _ => 0,
    }
}

/// `.sat` for bfloat16.
#[must_use]
pub const fn saturate_bf16(bits: u16) -> u16 {
    match bits {
        0x0000..=0x3F80 => bits,
        0x3F81..=0x7F80 => 0x3F80,
        _ => 0,
    }
}
