//! The random bits that each value of `cvt.rs` uses.
//!
//! The manual shows the layouts in figures ("Random bits layout for .rs rounding"): `f16x2` uses the low 13 bits of a
//! halfword, `bf16x2` all 16. Of four values, each pair shares a halfword; the first value of a pair uses the bits in
//! reverse order, according to third-party measurements on a B200. `e2m1x4` takes a pair's 16 bits from one byte of each
//! halfword.

use super::format::Format;

/// Returns the random number of each value in operand order, as a fraction of 2^32 for [`super::Rounding::Stochastic`].
#[must_use]
pub fn shares(bits: u32, format: Format) -> [u32; 4] {
    let (high, low) = ((bits >> 16) as u16, bits as u16);
    let top = |half: u16| u32::from(half) << 16;
    match format {
        Format::F16 => [top(high << 3), top(low << 3), 0, 0],
        Format::Bf16 => [top(high), top(low), 0, 0],
        Format::E2m1 => {
            let first = high & 0xFF00 | low >> 8;
            let second = high << 8 | low & 0xFF;
            [first.reverse_bits(), first, second.reverse_bits(), second].map(top)
        }
        _ => [high.reverse_bits(), high, low.reverse_bits(), low].map(top),
    }
}
