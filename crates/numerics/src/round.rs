//! Rounding of an exact value to a binary format.

use super::format::{Layout, Specials};

/// A rounding mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Rounding {
    /// To nearest, ties to even: `.rn`.
    NearestEven,
    /// Toward zero: `.rz`.
    Zero,
    /// Toward plus infinity: `.rp`.
    Up,
    /// Toward minus infinity: `.rm`.
    Down,
    /// To nearest, ties away from zero: `.rna`.
    NearestAway,
    /// Stochastic: `.rs`. The magnitude is rounded up with a probability equal to the discarded fraction: the number, as a
    /// fraction of 2^32, is added to the discarded fraction, and a carry increments the magnitude.
    Stochastic(u32),
}

/// An exact value: `±significand · 2^unit`; `sticky` means that the magnitude is larger by less than one unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Exact {
    pub(crate) negative: bool,
    pub(crate) significand: u128,
    pub(crate) unit: i32,
    pub(crate) sticky: bool,
}

impl Exact {
    pub(crate) const fn zero(negative: bool) -> Self {
        Self { negative, significand: 0, unit: 0, sticky: false }
    }

    pub(crate) const fn new(negative: bool, significand: u128, unit: i32) -> Self {
        Self { negative, significand, unit, sticky: false }
    }

    pub(crate) const fn is_zero(self) -> bool {
        self.significand == 0 && !self.sticky
    }

    /// Returns the exponent of the leading bit.
    pub(crate) const fn exponent(self) -> i32 {
        self.unit + 127 - self.significand.leading_zeros() as i32
    }

    /// Rounds the magnitude to a code of `layout` without sign; on overflow, the code exceeds the largest finite one.
    ///
    /// Codes enumerate the format's numbers in order, so a single sum yields exponent field and mantissa.
    pub(crate) fn magnitude(self, layout: Layout, rounding: Rounding) -> u64 {
        if self.is_zero() {
            return 0;
        }
        let fraction = layout.mantissa_bits.cast_signed();
        let smallest_unit = layout.e_min() - fraction;
        let unit = (self.exponent() - fraction).max(smallest_unit);
        let kept = self.rounded_to(unit, rounding);
        let steps = (unit - smallest_unit).cast_unsigned();
        kept + (u64::from(steps) << layout.mantissa_bits)
    }

    /// Whether the value, rounded to the precision of `layout` with an unbounded exponent, is below the smallest normal number.
    ///
    /// A value just below that number rounds to it on the grid of subnormal numbers, which is coarser, and may still be tiny.
    pub(crate) fn is_tiny(self, layout: Layout, rounding: Rounding) -> bool {
        if self.is_zero() || self.exponent() >= layout.e_min() {
            return false;
        }
        let unit = self.exponent() - layout.mantissa_bits.cast_signed();
        let next_binade = self.rounded_to(unit, rounding) >> (layout.mantissa_bits + 1) != 0;
        !(next_binade && self.exponent() == layout.e_min() - 1)
    }

    /// Rounds the magnitude to an integer multiple of `2^unit` and returns the multiple.
    pub(crate) fn rounded_to(self, unit: i32, rounding: Rounding) -> u64 {
        let shift = unit - self.unit;
        if shift <= 0 {
            return (self.significand << shift.unsigned_abs()) as u64;
        }
        let shift = shift.unsigned_abs();
        let (kept, low) = match shift {
            0..128 => (self.significand >> shift, self.significand & ((1 << shift) - 1)),
            _ => (0, self.significand),
        };
        let half = if shift <= 128 { 1u128 << (shift - 1) } else { u128::MAX };
        let inexact = low != 0 || self.sticky;
        let grow = match rounding {
            Rounding::Zero => false,
            Rounding::Up => inexact && !self.negative,
            Rounding::Down => inexact && self.negative,
            Rounding::NearestAway => low >= half,
            Rounding::NearestEven => low > half || (low == half && (self.sticky || kept & 1 == 1)),
            Rounding::Stochastic(random) => {
                let discarded = match shift {
                    0..=32 => low << (32 - shift),
                    33..160 => low >> (shift - 32),
                    _ => 0,
                };
                discarded + u128::from(random) >= 1 << 32
            }
        };
        kept as u64 + u64::from(grow)
    }

    /// Rounds to a code of `layout`, including the sign.
    ///
    /// `satfinite` turns overflow into the largest finite number; formats without infinity always do.
    pub(crate) fn encode(self, layout: Layout, rounding: Rounding, satfinite: bool) -> u64 {
        let code = self.magnitude(layout, rounding);
        let largest = layout.max_finite();
        let magnitude = if code <= largest {
            code
        } else if satfinite || layout.specials != Specials::Ieee || !self.overflows_to_infinity(rounding) {
            largest
        } else {
            largest + 1
        };
        magnitude | (u64::from(self.negative) << layout.magnitude_bits())
    }

    /// Whether a finite value beyond the largest finite number becomes infinity.
    const fn overflows_to_infinity(self, rounding: Rounding) -> bool {
        match rounding {
            Rounding::Zero | Rounding::Stochastic(_) => false,
            Rounding::Up => !self.negative,
            Rounding::Down => self.negative,
            Rounding::NearestEven | Rounding::NearestAway => true,
        }
    }
}
