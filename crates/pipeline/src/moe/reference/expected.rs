//! A value, the bound on a stored one, and the bf16 results that it allows (docs/numerics.md, 2).

use super::formats::{bf16, bf16_order, exponent, to_bf16};
use super::interval::Interval;

/// What a kernel should store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expected {
    /// A number, and the bound on the difference of the value that is rounded to bf16; 0 if it is exact.
    Number {
        /// The exact result.
        value: f64,
        /// The bound.
        error: f64,
    },
    /// NaN.
    Nan,
    /// An infinity of one sign.
    Infinite {
        /// Below zero.
        negative: bool,
    },
    /// Infinite or NaN: a partial sum is beyond binary32.
    NotFinite,
    /// Anything: a partial sum may be beyond binary32, or an operand beyond the format that a kernel converts it to.
    Open,
}

impl Expected {
    /// Returns a number with its bound, including the rounding of doubles.
    #[must_use]
    pub fn number(value: f64, error: f64) -> Self {
        // The bound's own arithmetic: far fewer than 2^12 operations, each with a relative error of 2^-53.
        let error = if error == 0.0 { 0.0 } else { error * (1.0 + 1.0 / (1_u64 << 40) as f64) };
        Self::Number { value, error }
    }

    /// Returns what should be stored if it were multiplied by a factor before it is rounded.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        match self {
            Self::Number { value, error } if factor != 1.0 => {
                // The product of two doubles rounds once more.
                let rounding = (value * factor).abs() * f64::EPSILON;
                Self::number(value * factor, error.mul_add(factor.abs(), rounding))
            }
            other => other,
        }
    }

    /// The least and the greatest bf16 that may be stored, if it is a number.
    #[must_use]
    pub fn range(&self) -> Option<(u16, u16)> {
        match *self {
            Self::Number { value, error } => Some((to_bf16(value - error), to_bf16(value + error))),
            _ => None,
        }
    }

    /// A bf16 that may be stored.
    #[must_use]
    pub fn stored(&self) -> u16 {
        match *self {
            Self::Number { value, .. } => to_bf16(value),
            Self::Nan | Self::NotFinite => 0x7FC0,
            Self::Infinite { negative } => 0x7F80 | u16::from(negative) << 15,
            Self::Open => 0,
        }
    }

    /// Whether the bound decides: it accepts one value, or neither zero nor two values of which one is twice the other or its
    /// negative (docs/numerics.md, 2.1).
    #[must_use]
    pub fn decides(&self) -> bool {
        match self {
            Self::Number { .. } => {
                self.range().is_some_and(|(lo, hi)| Interval { lo: bf16(lo), hi: bf16(hi) }.decides())
            }
            Self::Nan | Self::Infinite { .. } | Self::NotFinite => true,
            Self::Open => false,
        }
    }

    /// Whether `code` may be stored. ±0 are equal.
    #[must_use]
    pub fn accepts(&self, code: u16) -> bool {
        let found = bf16(code);
        match *self {
            Self::Number { .. } if found.is_nan() => false,
            Self::Number { .. } => self
                .range()
                .is_some_and(|(lo, hi)| (bf16_order(lo)..=bf16_order(hi)).contains(&bf16_order(code))),
            Self::Nan => found.is_nan(),
            Self::Infinite { negative } => found.is_infinite() && (found < 0.0) == negative,
            Self::NotFinite => !found.is_finite(),
            Self::Open => true,
        }
    }

    /// |found − value| over the bound plus half a step of bf16: at most 1 if [`Expected::accepts`], 0 if the value is
    /// exact and the code its rounding, infinite if the code misses an exact value or a rule.
    #[must_use]
    pub fn over_bound(&self, code: u16) -> f64 {
        let accepted = self.accepts(code);
        let Self::Number { value, error } = *self else {
            return if accepted { 0.0 } else { f64::INFINITY };
        };
        let found = bf16(code);
        if error == 0.0 || !found.is_finite() {
            return if accepted { 0.0 } else { f64::INFINITY };
        }
        let step = super::formats::exp2(exponent(value.abs() + error).max(-126) - 8);
        let ratio = (found - value).abs() / (error + step);
        // Half a step is that of the larger end, so rounding may seem slightly better or worse.
        if accepted { ratio.min(1.0) } else { ratio.max(1.0_f64.next_up()) }
    }
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Number { value, error } => {
                let (lo, hi) = (to_bf16(value - error), to_bf16(value + error));
                write!(f, "{value:e} ± {error:e}, bf16 {lo:#06x}")?;
                if lo == hi { Ok(()) } else { write!(f, " to {hi:#06x}") }
            }
            Self::Nan => write!(f, "NaN"),
            Self::Infinite { negative } => write!(f, "{}infinity", if negative { "-" } else { "" }),
            Self::NotFinite => write!(f, "infinity or NaN"),
            Self::Open => write!(f, "any value: a partial sum or an operand may be out of range"),
        }
    }
}
