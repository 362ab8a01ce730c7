//! The sum of a row and a column, block by block, with the bound of the accumulation that a kernel declares
//! (docs/numerics.md, 4).

use super::expected::Expected;
use super::formats::{exp2, exponent};
use super::interval::UNIT;
use super::line::Scale;
use crate::moe::contract::{Accumulation, KOrder, MOST_PARTIALS};

/// The exponent of a zero term: −133, or −132 before Hopper (docs/numerics.md, 4.1).
const ZERO_EXPONENT: i32 = -132;
/// The exponent of subnormal accumulators.
const SUBNORMAL_EXPONENT: i32 = -126;
/// Above this value, binary32 is infinite.
const OVERFLOW: f64 = f32::MAX as f64;

/// The known extent of the products of one step: a row's and a column's share, added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// An upper bound on the nominal exponents of non-zero elements.
    pub high: i32,
    /// Every element is a multiple of 2^`low`.
    pub low: i32,
    /// The maximum number of non-zero elements.
    pub count: u32,
}

impl Extent {
    /// The extent of zeros.
    pub const NOTHING: Self = Self { high: i32::MIN / 4, low: i32::MAX / 4, count: 0 };

    /// The extent of the elements times a scale. A product with a scale that is not a power of two may have an
    /// exponent one above the sum of both.
    #[must_use]
    pub fn scaled(self, scale: &Scale) -> Self {
        if scale.value == 0.0 {
            return Self::NOTHING;
        }
        let high = self.high + scale.high + i32::from(!scale.is_power);
        Self { high, low: self.low + scale.low, count: self.count }
    }

    /// The extent of the products of two extents.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self { high: self.high + other.high, low: self.low + other.low, count: self.count.min(other.count) }
    }
}

/// A running sum.
#[derive(Debug, Clone, Copy)]
pub struct Running {
    fraction: i32,
    value: f64,
    error: f64,
    /// Everything so far is a multiple of 2^`unit`.
    unit: i32,
    overflow: bool,
    certain_overflow: bool,
}

impl Running {
    /// An empty sum.
    #[must_use]
    pub const fn new(accumulation: &Accumulation) -> Self {
        Self {
            fraction: accumulation.fraction as i32,
            value: 0.0,
            error: 0.0,
            unit: i32::MAX,
            overflow: false,
            certain_overflow: false,
        }
    }

    /// Adds one step to the accumulator: products whose exact sum is `sum` and whose extent is `of`.
    #[inline]
    pub fn step(&mut self, sum: f64, of: Extent) {
        if of.count == 0 {
            // Only zeros: the accumulator keeps all its bits, since their exponent is far below its last one (4.3).
            return;
        }
        let before = self.value.abs() + self.error;
        let products = of.high.max(ZERO_EXPONENT);
        let accumulator =
            if before == 0.0 { ZERO_EXPONENT } else { exponent(before).max(SUBNORMAL_EXPONENT) };
        let cut = products.max(accumulator) - self.fraction;
        // Products lose bits only if the cut is above their lowest one.
        let mut lost = if cut > of.low { f64::from(of.count) * exp2(cut) } else { 0.0 };
        // The accumulator loses bits only if the products put the cut above its last bit.
        let place = products - self.fraction;
        let exact = self.error == 0.0;
        let least = self.value.abs() - self.error;
        let kept = if exact && self.unit != i32::MAX && self.unit >= place {
            true
        } else {
            least > 0.0 && exponent(least).max(SUBNORMAL_EXPONENT) - 23 >= place
        };
        if !kept && before > 0.0 {
            lost += exp2(place).min(before);
        }
        self.unit = self.unit.min(of.low);
        self.value += sum;
        self.error += lost;
        // Doubles hold the exact sum while it is below 2^53 units.
        let after = self.value.abs() + self.error;
        if after >= exp2(self.unit + 53) {
            self.error += after * exp2(-52);
        }
        // The result is truncated to 24 bits.
        if self.error != 0.0 || f64::from(self.value as f32) != self.value {
            self.error += exp2((exponent(after) - 23).max(-149));
        }
        self.note_overflow();
    }

    #[inline]
    fn note_overflow(&mut self) {
        if self.value.abs() + self.error > OVERFLOW {
            self.overflow = true;
            self.certain_overflow |= self.value.abs() - self.error >= exp2(128);
        }
    }

    /// Adds the possible loss of operands that their format cannot hold (4.6).
    pub fn lose(&mut self, amount: f64) {
        self.error += amount;
        self.overflow |= amount.is_infinite();
    }

    /// Multiplies the sum by `by`: exactly, or by a factor and a product that are each rounded to nearest (4.10).
    fn scale(&mut self, by: f64, exact: bool) {
        let most = (self.value.abs() + self.error) * by.abs();
        self.value *= by;
        self.error *= by.abs();
        if !exact {
            self.error += most * (2.0 * UNIT + exp2(-40));
        }
        // A subnormal result is rounded to its last bit or flushed.
        if most != 0.0 && (self.value.abs() - self.error) < exp2(SUBNORMAL_EXPONENT) {
            self.error += exp2(SUBNORMAL_EXPONENT);
        }
        self.unit = i32::MAX;
        if !self.error.is_finite() || !self.value.is_finite() {
            self.overflow = true;
        }
        self.note_overflow();
    }

    /// Adds another sum in f32, rounded to nearest.
    fn join(&mut self, other: &Self) {
        self.error += other.error;
        self.overflow |= other.overflow;
        self.certain_overflow |= other.certain_overflow;
        if other.value != 0.0 {
            self.add(other.value);
        } else if other.error != 0.0 {
            let after = self.value.abs() + self.error;
            self.error += exp2((exponent(after) - 24).max(-150));
            self.note_overflow();
        }
    }

    /// One addition in f32, rounded to nearest.
    pub fn add(&mut self, x: f64) {
        if x == 0.0 {
            return;
        }
        let sum = self.value + x;
        let whole = sum - self.value == x && sum - x == self.value;
        self.value = sum;
        let after = sum.abs() + self.error;
        if !whole {
            self.error += after * exp2(-52);
        }
        if self.error != 0.0 || f64::from(sum as f32) != sum {
            self.error += exp2((exponent(after) - 24).max(-150));
        }
        self.note_overflow();
    }

    /// The stored result.
    #[must_use]
    pub fn expected(&self) -> Expected {
        match (self.certain_overflow, self.overflow) {
            (true, _) => Expected::NotFinite,
            (false, true) => Expected::Open,
            _ => Expected::number(self.value, self.error),
        }
    }
}

/// A sum in any order, on any number of accumulators.
#[derive(Debug, Clone, Copy)]
pub struct Unordered {
    accumulation: Accumulation,
    value: f64,
    /// Σ|product|, and |bias|.
    magnitude: f64,
    steps: f64,
    high: i32,
    unit: i32,
    lost: f64,
}

impl Unordered {
    /// An empty sum.
    #[must_use]
    pub const fn new(accumulation: &Accumulation) -> Self {
        Self {
            accumulation: *accumulation,
            value: 0.0,
            magnitude: 0.0,
            steps: 0.0,
            high: ZERO_EXPONENT,
            unit: i32::MAX,
            lost: 0.0,
        }
    }

    /// Adds the possible loss of operands that their format cannot hold (4.6).
    pub fn lose(&mut self, amount: f64) {
        self.lost += amount;
    }

    /// Adds products whose exact sum is `sum` and whose magnitudes add up to `magnitude`.
    #[inline]
    pub fn step(&mut self, sum: f64, magnitude: f64, of: Extent) {
        // A kernel may spread these products over other steps, so a step of zeros counts.
        self.steps += 1.0;
        if of.count == 0 {
            return;
        }
        self.value += sum;
        self.magnitude += magnitude;
        self.high = self.high.max(of.high);
        self.unit = self.unit.min(of.low);
    }

    /// Adds a bias, wherever the kernel adds it.
    pub fn add(&mut self, x: f64) {
        if x != 0.0 {
            self.value += x;
            self.magnitude += x.abs();
            self.steps += 1.0;
            // The lowest set bit of a double that was an f32.
            let bits = x.abs().to_bits();
            let fraction = bits & ((1 << 52) - 1) | 1 << 52;
            self.unit = self.unit.min(exponent(x.abs()) - 52 + fraction.trailing_zeros() as i32);
            self.high = self.high.max(exponent(x.abs()));
        }
    }

    /// The finished sum, as a value with its error.
    fn settled(&self) -> Running {
        let mut out = Running::new(&self.accumulation);
        match self.expected() {
            Expected::Number { value, error } => (out.value, out.error) = (value, error),
            _ => out.overflow = true,
        }
        out
    }

    /// The stored result (4.5).
    #[must_use]
    pub fn expected(&self) -> Expected {
        // A lost operand may be infinite, and its product with zero NaN.
        if self.magnitude == 0.0 && self.lost == 0.0 {
            return Expected::number(0.0, 0.0);
        }
        // Some order has a partial sum beyond binary32, of either sign.
        if self.magnitude > OVERFLOW {
            return Expected::Open;
        }
        let f = self.accumulation.fraction as i32;
        if self.lost == 0.0 && self.magnitude < exp2(self.unit + 24) && self.high - f <= self.unit {
            return Expected::number(self.value, 0.0);
        }
        let terms = self.accumulation.terms() as f64 + 1.0;
        // Every step truncates `chunk` + 1 terms and its result; every step's result may also be added in f32.
        let per_step = terms * exp2(-f) + 3.0 * UNIT;
        let grow = self.steps * per_step * (1.0 + exp2(-20));
        let largest = self.magnitude.max(exp2(self.high)).max(exp2(SUBNORMAL_EXPONENT));
        let error = grow * largest / (1.0 - grow) + self.steps * exp2(-51) * self.magnitude + self.lost;
        // So many steps that the bound is meaningless.
        if grow >= 0.5 || self.magnitude + error > OVERFLOW {
            return Expected::Open;
        }
        Expected::number(self.value, error)
    }
}

/// Exact sums of blocks, rounded to nearest and added to accumulators in turn (4.7).
#[derive(Debug, Clone, Copy)]
pub struct Partials {
    of: [Running; MOST_PARTIALS],
    count: usize,
    /// The accumulator of the next block.
    next: usize,
}

impl Partials {
    /// An empty sum.
    #[must_use]
    pub const fn new(accumulation: &Accumulation, count: usize) -> Self {
        let count = if count > MOST_PARTIALS { MOST_PARTIALS } else { count };
        Self { of: [Running::new(accumulation); MOST_PARTIALS], count, next: 0 }
    }

    /// Adds the products of a block, whose exact sum is `sum` and whose extent is `of`.
    #[inline]
    pub fn step(&mut self, sum: f64, of: Extent) {
        let to = &mut self.of[self.next];
        self.next = (self.next + 1) % self.count;
        if of.count == 0 || sum == 0.0 {
            // Adding zero.
            return;
        }
        // The sum is a multiple of its lowest bit; as an f32 it is rounded.
        let rounded = f64::from(sum as f32) != sum;
        if rounded {
            to.error += exp2((exponent(sum.abs()) - 24).max(-150));
        }
        to.add(sum);
    }

    /// Returns the sum of all accumulators, added as declared.
    fn total(mut self) -> Running {
        let mut half = self.count / 2;
        while half > 0 {
            for at in 0..half {
                let other = self.of[at + half];
                self.of[at].join(&other);
            }
            half /= 2;
        }
        self.of[0]
    }
}

/// A sum of any kind.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::large_enum_variant, reason = "one lives at a time, on the stack")]
pub enum Sum {
    /// In the declared order.
    Running(Running),
    /// In any order.
    Unordered(Unordered),
    /// On several accumulators.
    Partials(Partials),
}

impl Sum {
    /// An empty sum.
    #[must_use]
    pub const fn new(accumulation: &Accumulation) -> Self {
        match accumulation.order {
            KOrder::Ascending => Self::Running(Running::new(accumulation)),
            KOrder::Any => Self::Unordered(Unordered::new(accumulation)),
            KOrder::Partials(count) => Self::Partials(Partials::new(accumulation, count as usize)),
        }
    }

    /// Adds the possible loss of operands that their format cannot hold.
    pub fn lose(&mut self, amount: f64) {
        match self {
            Self::Running(sum) => sum.lose(amount),
            Self::Unordered(sum) => sum.lose(amount),
            Self::Partials(sum) => sum.of[0].lose(amount),
        }
    }

    /// Applies the global scales of the epilogue.
    pub fn scale(&mut self, by: f64, exact: bool) {
        let mut sum = match self {
            Self::Running(sum) => *sum,
            Self::Partials(sum) => sum.total(),
            Self::Unordered(sum) => sum.settled(),
        };
        sum.scale(by, exact);
        *self = Self::Running(sum);
    }

    /// Adds the bias of the epilogue.
    pub fn add(&mut self, bias: f64) {
        match self {
            Self::Running(sum) => sum.add(bias),
            Self::Unordered(sum) => sum.add(bias),
            Self::Partials(sum) => {
                let mut total = sum.total();
                total.add(bias);
                *self = Self::Running(total);
            }
        }
    }

    /// The stored result.
    #[must_use]
    pub fn expected(&self) -> Expected {
        match self {
            Self::Running(sum) => sum.expected(),
            Self::Unordered(sum) => sum.expected(),
            Self::Partials(sum) => sum.total().expected(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repeatable sequence of numbers below 2^32.
    fn numbers(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 32
        }
    }

    #[test]
    fn partial_sums_as_a_kernel_makes_them_stay_within_the_bound_and_come_near_it() {
        let mut worst: f64 = 0.0;
        for seed in 0..2000 {
            let mut next = numbers(seed);
            let count = 1 << (seed % 6);
            let (blocks, spread) = (1 + next() as usize % 100, 1 + next() % 40);
            let mut sums = Partials::new(&Accumulation::partials(count as u8), count);
            let mut lanes = vec![0.0_f32; count];
            for block in 0..blocks {
                // A 27-bit integer times a power of two, like a block's dot product.
                let dot = (next() % (1 << 27)) as i32 - (1 << 26);
                let power = exp2((next() % spread) as i32 - 10);
                let low = dot.trailing_zeros().min(26) as i32;
                let unit = exponent(power) + low;
                sums.step(f64::from(dot) * power, Extent { high: unit, low: unit, count: 32 });
                let lane = &mut lanes[block % count];
                *lane = (dot as f32).mul_add(power as f32, *lane);
            }
            let mut half = count / 2;
            while half > 0 {
                for at in 0..half {
                    lanes[at] += lanes[at + half];
                }
                half /= 2;
            }
            let total = sums.total();
            let off = (f64::from(lanes[0]) - total.value).abs();
            assert!(off <= total.error, "seed {seed}: {off:e} above {:e}", total.error);
            if total.error > 0.0 {
                worst = worst.max(off / total.error);
            }
        }
        assert!(worst > 0.5, "{worst}");
    }
}
