//! Operands as floats, with their nominal exponents for alignment in a sum.

use crate::format::{Format, power_of_two};

/// The exponent of a zero, below every sum of two other exponents.
pub(super) const ZERO: i32 = -1 << 16;
/// The exponent of infinities and NaNs, above every other, even when added to that of a zero.
pub(super) const SPECIAL: i32 = 1 << 20;

/// A row of A, a column of B or some elements of C.
#[derive(Clone, Copy)]
pub(super) struct Line<const LENGTH: usize> {
    /// Unspecified for infinities and NaNs.
    pub(super) values: [f32; LENGTH],
    /// Not normalised for subnormals.
    pub(super) exponents: [i32; LENGTH],
}

impl<const LENGTH: usize> Line<LENGTH> {
    #[inline(always)]
    pub(super) fn from_codes(format: Format, codes: &[u32; LENGTH]) -> Self {
        // Initialised with ZERO, the loop would compile to masked stores of the other exponents, which stall the next load.
        let mut out = Self { values: [0.0; LENGTH], exponents: [0; LENGTH] };
        decode(format, codes, &mut out.values, &mut out.exponents);
        out
    }
}

/// Decodes codes to values and exponents, as in [`Line`].
#[inline(always)]
pub(super) fn decode(format: Format, codes: &[u32], values: &mut [f32], exponents: &mut [i32]) {
    let slots = codes.iter().zip(values).zip(exponents);
    // One loop per format, so that field widths are constants.
    macro_rules! each {
        ($one:expr) => {
            for ((code, value), exponent) in slots {
                (*value, *exponent) = $one(*code);
            }
        };
    }
    match format {
        Format::E4m3 => each!(small::<4, 3, 0x7F>),
        Format::E5m2 => each!(small::<5, 2, 0x7C>),
        Format::E3m2 => each!(small::<3, 2, 0x20>),
        Format::E2m3 => each!(small::<2, 3, 0x20>),
        Format::E2m1 => each!(small::<2, 1, 0x08>),
        Format::F16 => each!(small::<5, 10, 0x7C00>),
        Format::Bf16 => each!(|code| wide(code << 16)),
        Format::Tf32 => each!(|code| wide(code & 0xFFFF_E000)),
        _ => each!(wide),
    }
}

/// Decodes a format of `E` exponent and `M` mantissa bits, E at most 5; magnitudes from `LIMIT` on are infinite or NaN.
#[inline(always)]
fn small<const E: u32, const M: u32, const LIMIT: u32>(code: u32) -> (f32, i32) {
    let bias: i32 = (1 << (E - 1)) - 1;
    let magnitude = code & ((1 << (E + M)) - 1);
    // A subnormal is read one exponent higher, with a hidden bit that is then subtracted.
    let subnormal = magnitude < 1 << M;
    let exponent = (127 - bias).cast_unsigned() + u32::from(subnormal);
    let bits = (magnitude << (23 - M)) + (exponent << 23);
    let hidden = if subnormal { power_of_two(1 - bias) as f32 } else { 0.0 };
    let size = f32::from_bits(bits) - hidden;
    let sign = (code >> (E + M) & 1) << 31;
    (f32::from_bits(size.to_bits() | sign), place(magnitude, magnitude >> M, bias, LIMIT))
}

/// Decodes the bits of a binary32.
#[inline(always)]
fn wide(bits: u32) -> (f32, i32) {
    let magnitude = bits & 0x7FFF_FFFF;
    (f32::from_bits(bits), place(magnitude, magnitude >> 23, 127, 0x7F80_0000))
}

#[inline(always)]
fn place(magnitude: u32, field: u32, bias: i32, limit: u32) -> i32 {
    let exponent = field.cast_signed().max(1) - bias;
    let exponent = if magnitude >= limit { SPECIAL } else { exponent };
    if magnitude == 0 { ZERO } else { exponent }
}
