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
    fn between(a: f64, b: f64) -> Self {
        Self { lo: a.min(b), hi: a.max(b) }
    }

    /// Whether it is exactly zero: products with it are then zero, whatever the other factor's rounding.
    fn is_zero(self) -> bool {
        self.lo == 0.0 && self.hi == 0.0
    }

    /// Whether it tells a value from what gross faults make of it: it is one number, or contains neither zero nor two numbers of
    /// which one is twice the other or its negative (docs/numerics.md, 2.1).
    #[must_use]
    pub fn decides(self) -> bool {
        let (least, most) = self.magnitudes();
        self.lo == self.hi || (least > 0.0 && most < 2.0 * least)
    }

    /// The result of one f32 operation whose exact result is in this interval: a relative rounding, an absolute one if the result may
    /// be subnormal or flushed, infinity if it may overflow.
    #[must_use]
    pub fn rounded(self) -> Self {
        self.widened(UNIT)
    }

    /// The result of one f32 operation that is correctly rounded, and whose exact result is in this interval, if the ends are the
    /// doubles of sums or products of two f32 that doubles hold. A subnormal result may be flushed.
    #[must_use]
    pub fn to_f32(self) -> Self {
        let of = |x: f64| f64::from(x as f32);
        let (lo, hi) = (of(self.lo), of(self.hi));
        let flushed = |x: f64| x != 0.0 && x.abs() < TINY;
        Self {
            lo: if flushed(lo) && lo > 0.0 { 0.0 } else { lo },
            hi: if flushed(hi) && hi < 0.0 { 0.0 } else { hi },
        }
    }

    /// The interval from its least to its greatest normal f32, for the result of an f32 operation; the interval itself if it has no
    /// such number or reaches below.
    #[must_use]
    pub fn inward(self) -> Self {
        let toward = |x: f64, up: bool| {
            let nearest = x as f32;
            let near = f64::from(nearest);
            f64::from(match (near < x, near > x) {
                (true, _) if up => nearest.next_up(),
                (_, true) if !up => nearest.next_down(),
                _ => nearest,
            })
        };
        let inner = Self { lo: toward(self.lo, true), hi: toward(self.hi, false) };
        let is_normal = inner.lo >= TINY && inner.hi <= LARGEST;
        if is_normal && inner.lo <= inner.hi { inner } else { self }
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
        Self::between(-self.lo, -self.hi)
    }

    /// The least and the greatest magnitude.
    #[must_use]
    pub fn magnitudes(self) -> (f64, f64) {
        let least = if self.lo <= 0.0 && self.hi >= 0.0 { 0.0 } else { self.lo.abs().min(self.hi.abs()) };
        (least, self.lo.abs().max(self.hi.abs()))
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.lo == self.hi {
            write!(f, "{:e}", self.lo)
        } else {
            write!(f, "{:e} to {:e}", self.lo, self.hi)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_decides_if_no_gross_fault_stays_in_it() {
        for (lo, hi, decides) in [
            (1.0, 1.9, true),
            (-1.9, -1.0, true),
            (0.0, 0.0, true),
            (-0.0, 0.0, true),
            (3.0, 3.0, true),
            (1.0, 2.0, false),
            (0.0, 1.0, false),
            (-1.0, 1.0, false),
            (-2.0, -1.0, false),
            (1.0, f64::INFINITY, false),
        ] {
            assert_eq!(Interval { lo, hi }.decides(), decides, "{lo} to {hi}");
        }
        assert_eq!(Interval { lo: -0.5, hi: 3.0 }.to_string(), "-5e-1 to 3e0");
        assert_eq!(Interval::point(0.25).to_string(), "2.5e-1");
    }

    #[test]
    fn only_floats_remain_of_an_inward_interval() {
        let step = f64::from(f32::EPSILON);
        let around_one = Interval { lo: 1.0 - step / 8.0, hi: 1.0 + step / 2.0 };
        assert_eq!(around_one.inward(), Interval::point(1.0));
        let two = Interval { lo: 1.0, hi: 1.0 + step };
        assert_eq!(two.inward(), two);
        // Between two floats there is none.
        let none = Interval { lo: 1.0 + step / 4.0, hi: 1.0 + step / 2.0 };
        assert_eq!(none.inward(), none);
        assert_eq!(Interval { lo: 0.0, hi: 1.0 }.inward().lo, 0.0);
    }

    #[test]
    fn a_rounded_f32_is_a_point() {
        let third = f64::from(1.0_f32 / 3.0) * f64::from(3.1_f32);
        let rounded = Interval::point(third).to_f32();
        assert_eq!(rounded, Interval::point(f64::from(1.0_f32 / 3.0 * 3.1)));
        assert_eq!(Interval::point(1e-40).to_f32().lo, 0.0);
    }
}
