//! `s2f6`: eight bits in two's complement, of which six are a fraction (PTX ISA 5.2.4). From -2 to 127/64; neither
//! infinity nor NaN.

/// The value of a code; bits above the eight are ignored.
#[must_use]
pub fn s2f6_to_f32(code: u32) -> f32 {
    f32::from((code as u8).cast_signed()) / 64.0
}

/// `cvt.rn.satfinite` to a code: rounded to the nearest, ties to even, and cut to the range.
///
/// `relu` turns what is below zero into zero. A NaN becomes the largest number, as in the other formats without NaN; the
/// manual does not say so (assumption `cvt_s2f6_nan`).
#[must_use]
pub fn to_s2f6(x: f64, relu: bool) -> u32 {
    if x.is_nan() {
        return 0x7F;
    }
    // Times a power of two: exact, or far outside the range.
    let whole = (x * 64.0).round_ties_even().clamp(if relu { 0.0 } else { -128.0 }, 127.0);
    u32::from((whole as i8).cast_unsigned())
}
