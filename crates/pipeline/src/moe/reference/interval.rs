//! Intervals that contain what a kernel may compute in f32 (docs/numerics.md, 1).

/// The relative error of one rounding to nearest in binary32.
pub const UNIT: f64 = 1.0 / (1_u64 << 24) as f64;

/// Below this, results may be subnormal, and kernels may flush them.
const TINY: f64 = f32::MIN_POSITIVE as f64;

const LARGEST: f64 = f32::MAX as f64;

/// All numbers from `lo` to `hi`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The least.
    pub lo: f64,
    /// The greatest.
    pub hi: f64,
}

impl Interval {
    /// One number.
    #[must_use]
    pub const fn point(x: f64) -> Self {
        Self { lo: x, hi: x }
    }

    /// Returns the interval of two numbers in any order.
    fn of(a: f64, b: f64) -> Self {
        Self { lo: a.min(b), hi: a.max(b) }
    }

    /// Whether it is exactly zero: products with it are then zero, whatever the other factor's rounding.
    fn is_zero(self) -> bool {
        self.lo == 0.0 && self.hi == 0.0
    }

    /// The result of one f32 operation whose exact result is in this interval: a relative rounding, an absolute one if the result may
    /// be subnormal or flushed, infinity if it may overflow.
    #[must_use]
    pub fn rounded(self) -> Self {
        self.widened(UNIT)
    }

    /// Like [`Interval::rounded`], with another relative error.
    #[must_use]
    pub fn widened(self, relative: f64) -> Self {
        if self.is_zero() {
            return self;
        }
        // The doubles are rounded too, by a relative error of less than 2^-50.
        let relative = relative + 1.0 / (1_u64 << 50) as f64;
        let least = if self.lo > 0.0 { self.lo } else { (-self.hi).max(0.0) };
        let floor = if least < TINY { TINY } else { 0.0 };
        let clip = |x: f64| match x {
            x if x > LARGEST => f64::INFINITY,
            x if x < -LARGEST => f64::NEG_INFINITY,
            x => x,
        };
        Self {
            lo: clip(self.lo - self.lo.abs() * relative - floor),
            hi: clip(self.hi + self.hi.abs() * relative + floor),
        }
    }

    /// The exact product.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        if self.is_zero() || other.is_zero() {
            return Self::point(0.0);
        }
        // An infinite end times zero: the other end of the interval is near zero, so zero is in the product.
        let mul = |a: f64, b: f64| if a == 0.0 || b == 0.0 { 0.0 } else { a * b };
        let (a, b) = (mul(self.lo, other.lo), mul(self.lo, other.hi));
        let (c, d) = (mul(self.hi, other.lo), mul(self.hi, other.hi));
        Self { lo: a.min(b).min(c).min(d), hi: a.max(b).max(c).max(d) }
    }

    /// The exact sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { lo: self.lo + other.lo, hi: self.hi + other.hi }
    }

    /// The exact quotient by an interval above zero.
    #[must_use]
    pub fn over(self, divisor: Self) -> Self {
        let ends = [self.lo / divisor.hi, self.lo / divisor.lo, self.hi / divisor.hi, self.hi / divisor.lo];
        // ∞/∞: the quotient of two overflows may be anything from 0 on.
        let known = ends.map(|x| if x.is_nan() { 0.0 } else { x });
        Self {
            lo: known.into_iter().fold(f64::INFINITY, f64::min),
            hi: known.into_iter().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// e to the power of it, exact except for the rounding of doubles.
    #[must_use]
    pub fn exp(self) -> Self {
        // libm's exp is within one unit in the last place of a double.
        let step = 1.0 / (1_u64 << 51) as f64;
        Self { lo: libm::exp(self.lo) * (1.0 - step), hi: libm::exp(self.hi) * (1.0 + step) }
    }

    /// The negatives.
    #[must_use]
    pub fn negated(self) -> Self {
        Self::of(-self.lo, -self.hi)
    }

    /// The least and the greatest magnitude.
    #[must_use]
    pub fn magnitudes(self) -> (f64, f64) {
        let least = if self.lo <= 0.0 && self.hi >= 0.0 { 0.0 } else { self.lo.abs().min(self.hi.abs()) };
        (least, self.lo.abs().max(self.hi.abs()))
    }
}
