//! The operations of a GEMM on a sum before it stores it: global scales, then a bias (docs/numerics.md, 4.4 and 4.10).

use super::sum::Sum;

/// The product of global scales.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factor {
    /// The exact product.
    pub value: f64,
    /// Whether multiplying by it never rounds: a power of two, the product of powers of two.
    pub exact: bool,
}

/// The operations on a sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Epilogue {
    /// The factor on the sum.
    pub factor: Option<Factor>,
    /// The addend after that.
    pub bias: Option<f32>,
}

impl From<Option<f32>> for Epilogue {
    fn from(bias: Option<f32>) -> Self {
        Self { factor: None, bias }
    }
}

impl Factor {
    /// The product of the scales present.
    #[must_use]
    pub fn from_globals(globals: [Option<f32>; 2]) -> Option<Self> {
        let there = || globals.iter().flatten();
        there().next()?;
        let is_power = |x: &f32| x.is_normal() && *x > 0.0 && x.to_bits() & 0x7F_FFFF == 0;
        Some(Self { value: there().map(|x| f64::from(*x)).product(), exact: there().all(is_power) })
    }
}

impl Epilogue {
    /// Whether it makes every sum NaN.
    #[must_use]
    pub fn is_nan(&self) -> bool {
        self.bias.is_some_and(f32::is_nan) || self.factor.is_some_and(|f| f.value.is_nan())
    }

    /// Whether no sum stays finite: 0·∞ is NaN.
    #[must_use]
    pub fn is_infinite(&self) -> bool {
        self.factor.is_some_and(|f| f.value.is_infinite())
    }

    /// Returns the epilogue of a row whose activations have their own global scale.
    #[must_use]
    pub fn of_row(self, token_scale: Option<f32>) -> Self {
        let of_row = Factor::from_globals([token_scale, None]);
        let factor = match (self.factor, of_row) {
            (Some(a), Some(b)) => Some(Factor { value: a.value * b.value, exact: a.exact && b.exact }),
            (a, b) => a.or(b),
        };
        Self { factor, ..self }
    }

    /// |factor|, or one if there is none.
    #[must_use]
    pub fn factor_magnitude(&self) -> f64 {
        self.factor.map_or(1.0, |f| f.value.abs())
    }

    /// Applies it to a sum.
    pub fn apply(&self, sum: &mut Sum) {
        if let Some(factor) = self.factor {
            sum.scale(factor.value, factor.exact);
        }
        if let Some(bias) = self.bias {
            sum.add(f64::from(bias));
        }
    }
}
