//! `s2f6`: 8-bit two's complement with six fraction bits (PTX ISA 5.2.4). The range is -2 to 127/64, without infinity
//! or NaN.

/// Returns the value of a code; bits above the lower eight are ignored.
#[must_use]
pub fn s2f6_to_f32(code: u32) -> f32 {
    f32::from((code as u8).cast_signed()) / 64.0
}

/// `cvt.rn.satfinite` to a code: rounds to nearest, ties to even, and saturates.
///
/// `relu` turns negative values into zero. A NaN becomes the largest number, as in the other formats without NaN; the
/// manual does not specify this (assumption `cvt_s2f6_nan`).
#[must_use]
pub fn to_s2f6(x: f64, relu: bool) -> u32 {
    if x.is_nan() {
        return 0x7F;
    }
    // A product with a power of two is exact, or far outside the range.
    let whole = (x * 64.0).round_ties_even().clamp(if relu { 0.0 } else { -128.0 }, 127.0);
    u32::from((whole as i8).cast_unsigned())
}
