//! Unpacked IEEE values and exact arithmetic on them.

use crate::format::{Layout, Specials};
use crate::round::{Exact, Rounding};

/// An unpacked value of an IEEE-like format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Nan,
    /// `true` if negative.
    Infinite(bool),
    Finite(Exact),
}

impl Value {
    const fn negative(self) -> bool {
        match self {
            Self::Nan => false,
            Self::Infinite(negative) => negative,
            Self::Finite(exact) => exact.negative,
        }
    }

    const fn is_zero(self) -> bool {
        matches!(self, Self::Finite(exact) if exact.is_zero())
    }

    /// Rounds to an IEEE format; a NaN becomes `nan`.
    pub(crate) fn pack(self, layout: Layout, rounding: Rounding, nan: u64) -> u64 {
        match self {
            Self::Nan => nan,
            Self::Infinite(negative) => {
                (layout.infinity()) | (u64::from(negative) << layout.magnitude_bits())
            }
            Self::Finite(exact) => exact.encode(layout, rounding, false),
        }
    }

    /// Whether `.ftz` turns the rounded value into a zero, though it rounds to the smallest normal number: [`Exact::is_tiny`].
    pub(crate) fn is_tiny(self, layout: Layout, rounding: Rounding) -> bool {
        matches!(self, Self::Finite(exact) if exact.is_tiny(layout, rounding))
    }
}

/// Unpacks the bits of an IEEE-like format; a tf32 register is unpacked as binary32.
pub(crate) const fn unpack(layout: Layout, bits: u64) -> Value {
    debug_assert!(matches!(layout.specials, Specials::Ieee));
    let fraction = layout.mantissa_bits;
    let negative = (bits >> layout.magnitude_bits()) & 1 == 1;
    let mantissa = bits & ((1 << fraction) - 1);
    let largest = (1 << layout.exponent_bits) - 1;
    let field = (bits >> fraction) & largest;
    if field == largest {
        return if mantissa == 0 { Value::Infinite(negative) } else { Value::Nan };
    }
    let smallest_unit = layout.e_min() - fraction as i32;
    let (significand, unit) = match field {
        0 => (mantissa, smallest_unit),
        _ => (mantissa | (1 << fraction), smallest_unit + field as i32 - 1),
    };
    Value::Finite(Exact::new(negative, significand as u128, unit))
}

/// The sign of a sum that is exactly zero.
fn sign_of_zero_sum(a: bool, b: bool, rounding: Rounding) -> bool {
    if a == b { a } else { rounding == Rounding::Down }
}

/// `a + b`; `rounding` decides the sign of an exact zero.
pub(crate) fn add(a: Value, b: Value, rounding: Rounding) -> Value {
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinite(x), Value::Infinite(y)) if x != y => Value::Nan,
        (Value::Infinite(x), _) | (_, Value::Infinite(x)) => Value::Infinite(x),
        (Value::Finite(x), Value::Finite(y)) => Value::Finite(add_exact(x, y, rounding)),
    }
}

/// Both operands have at most 106 bits and no sticky part, so bits lost in the alignment to bit 125 affect only the
/// sticky flag.
fn add_exact(a: Exact, b: Exact, rounding: Rounding) -> Exact {
    if a.is_zero() && b.is_zero() {
        return Exact::zero(sign_of_zero_sum(a.negative, b.negative, rounding));
    }
    if a.is_zero() {
        return b;
    }
    if b.is_zero() {
        return a;
    }
    let (large, small) = if a.exponent() >= b.exponent() { (a, b) } else { (b, a) };
    let room = large.significand.leading_zeros() - 2;
    let unit = large.unit - room.cast_signed();
    let base = large.significand << room;
    let shift = unit - small.unit;
    let (addend, sticky) = match shift {
        ..=0 => (small.significand << shift.unsigned_abs(), false),
        1..=127 => (small.significand >> shift, small.significand.trailing_zeros() < shift.unsigned_abs()),
        _ => (0, true),
    };
    if large.negative == small.negative {
        return Exact { negative: large.negative, significand: base + addend, unit, sticky };
    }
    // The subtrahend is slightly larger than `addend`: borrow one unit, of which a part remains.
    let subtrahend = addend + u128::from(sticky);
    let (significand, negative) = match base.checked_sub(subtrahend) {
        Some(0) if !sticky => return Exact::zero(sign_of_zero_sum(true, false, rounding)),
        Some(rest) => (rest, large.negative),
        None => (subtrahend - base, !large.negative),
    };
    Exact { negative, significand, unit, sticky }
}

/// `a · b`.
pub(crate) fn mul(a: Value, b: Value) -> Value {
    let negative = a.negative() != b.negative();
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinite(_), other) | (other, Value::Infinite(_)) => {
            if other.is_zero() {
                Value::Nan
            } else {
                Value::Infinite(negative)
            }
        }
        (Value::Finite(x), Value::Finite(y)) => {
            Value::Finite(Exact::new(negative, x.significand * y.significand, x.unit + y.unit))
        }
    }
}

/// `a / b`.
pub(crate) fn div(a: Value, b: Value) -> Value {
    let negative = a.negative() != b.negative();
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) | (Value::Infinite(_), Value::Infinite(_)) => Value::Nan,
        (Value::Infinite(_), _) => Value::Infinite(negative),
        (_, Value::Infinite(_)) => Value::Finite(Exact::zero(negative)),
        (Value::Finite(x), Value::Finite(y)) => match (x.is_zero(), y.is_zero()) {
            (true, true) => Value::Nan,
            (true, false) => Value::Finite(Exact::zero(negative)),
            (false, true) => Value::Infinite(negative),
            (false, false) => {
                // At least 126 − 53 quotient bits for operands of any length.
                let room = x.significand.leading_zeros() - 1;
                let numerator = x.significand << room;
                Value::Finite(Exact {
                    negative,
                    significand: numerator / y.significand,
                    unit: x.unit - room.cast_signed() - y.unit,
                    sticky: numerator % y.significand != 0,
                })
            }
        },
    }
}

/// The square root of `a`.
pub(crate) fn sqrt(a: Value) -> Value {
    match a {
        Value::Finite(x) if x.is_zero() => a,
        Value::Infinite(false) => a,
        Value::Finite(x) if !x.negative => {
            let room = x.significand.leading_zeros() - 1;
            // The unit must be even, since the root halves it.
            let room = if (x.unit - room.cast_signed()) % 2 == 0 { room } else { room - 1 };
            let radicand = x.significand << room;
            let significand = radicand.isqrt();
            Value::Finite(Exact {
                negative: false,
                significand,
                unit: (x.unit - room.cast_signed()) / 2,
                sticky: significand * significand != radicand,
            })
        }
        _ => Value::Nan,
    }
}

/// `a · b + c` without rounding; `rounding` decides the sign of an exact zero.
pub(crate) fn fma(a: Value, b: Value, c: Value, rounding: Rounding) -> Value {
    add(mul(a, b), c, rounding)
}
