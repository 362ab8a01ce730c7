//! Operands as floats, with the exponents that place them in a sum.

use crate::format::{Format, power_of_two};

/// The exponent of a zero, below every sum of two others.
pub(super) const ZERO: i32 = -1 << 16;
/// The exponent of infinities and NaNs, above every other, even beside zeros.
pub(super) const SPECIAL: i32 = 1 << 20;

/// A row of A, a column of B or some elements of C.
#[derive(Clone, Copy)]
pub(super) struct Line<const LENGTH: usize> {
    /// Infinities and NaNs have any value.
    pub(super) values: [f32; LENGTH],
    /// Not normalised for subnormals.
    pub(super) exponents: [i32; LENGTH],
}

impl<const LENGTH: usize> Line<LENGTH> {
    #[inline(always)]
    pub(super) fn of(format: Format, codes: &[u32; LENGTH]) -> Self {
        let mut out = Self { values: [0.0; LENGTH], exponents: [ZERO; LENGTH] };
        // One loop for each format, so that its field widths are constants.
        match format {
            Format::E4m3 => out.read_small::<4, 3, 0x7F>(codes),
            Format::E5m2 => out.read_small::<5, 2, 0x7C>(codes),
            Format::E3m2 => out.read_small::<3, 2, 0x20>(codes),
            Format::E2m3 => out.read_small::<2, 3, 0x20>(codes),
            Format::E2m1 => out.read_small::<2, 1, 0x08>(codes),
            Format::F16 => out.read_small::<5, 10, 0x7C00>(codes),
            Format::Bf16 => out.read_wide(codes, 16, u32::MAX),
            Format::Tf32 => out.read_wide(codes, 0, 0xFFFF_E000),
            _ => out.read_wide(codes, 0, u32::MAX),
        }
        out
    }

    /// A format of `E` exponent and `M` mantissa bits, E at most 5, whose magnitudes from `LIMIT` on are infinite or NaN.
    #[inline(always)]
    fn read_small<const E: u32, const M: u32, const LIMIT: u32>(&mut self, codes: &[u32; LENGTH]) {
        let bias = (1 << (E - 1)) - 1;
        let smallest = power_of_two(1 - bias) as f32;
        for n in 0..LENGTH {
            let magnitude = codes[n] & ((1 << (E + M)) - 1);
            // A subnormal is read one exponent higher, where its hidden bit is, which is then taken away.
            let subnormal = magnitude < 1 << M;
            let exponent = (127 - bias).cast_unsigned() + u32::from(subnormal);
            let bits = (magnitude << (23 - M)) + (exponent << 23);
            let size = f32::from_bits(bits) - if subnormal { smallest } else { 0.0 };
            let sign = (codes[n] >> (E + M) & 1) << 31;
            self.values[n] = f32::from_bits(size.to_bits() | sign);
            self.exponents[n] = place(magnitude, magnitude >> M, bias, LIMIT);
        }
    }

    /// The bits of binary32 that codes have when shifted and masked.
    #[inline(always)]
    fn read_wide(&mut self, codes: &[u32; LENGTH], shift: u32, mask: u32) {
        for n in 0..LENGTH {
            let bits = codes[n] << shift & mask;
            let magnitude = bits & 0x7FFF_FFFF;
            self.values[n] = f32::from_bits(bits);
            self.exponents[n] = place(magnitude, magnitude >> 23, 127, 0x7F80_0000);
        }
    }
}

#[inline(always)]
fn place(magnitude: u32, field: u32, bias: i32, limit: u32) -> i32 {
    let exponent = field.cast_signed().max(1) - bias;
    let exponent = if magnitude >= limit { SPECIAL } else { exponent };
    if magnitude == 0 { ZERO } else { exponent }
}
