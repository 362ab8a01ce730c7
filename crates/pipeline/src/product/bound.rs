//! The exact value of an element of a product, and the bound on the error of a correct kernel: docs/numerics.md, 4.2.

use numerics::tensor_core::{Accumulation, Rows, pair_bound};
use rayon::prelude::*;

use super::Product;
use super::matrix::{Decoded, Matrix, NONE, codes, exponent};

/// How a kernel sums products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sum {
    /// Steps of a tensor core.
    Steps {
        /// Products of a step.
        length: usize,
        /// The bits kept, and the order of steps.
        accumulation: Accumulation,
    },
    /// Single products in f32, in any order.
    Fma,
}

impl Sum {
    /// The widest of the steps: what any kernel does.
    pub const UNKNOWN: Self =
        Self::Steps { length: 8, accumulation: Accumulation { fraction: 24, rising: false } };

    const fn length(self) -> usize {
        match self {
            Self::Steps { length, .. } => length,
            Self::Fma => 1,
        }
    }
}

/// The type of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultType {
    /// bfloat16.
    Bf16,
    /// binary16.
    F16,
    /// binary32: the accumulator as it is.
    F32,
    /// binary64, to which the accumulator is converted.
    F64,
}

impl ResultType {
    /// Reads its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "bf16" => Self::Bf16,
            "f16" => Self::F16,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => return None,
        })
    }

    /// Bits of the significand behind the first, and the exponent of the last bit of subnormals, where the accumulator is rounded.
    const fn rounding(self) -> Option<(i64, i64)> {
        match self {
            Self::Bf16 => Some((7, -133)),
            Self::F16 => Some((10, -24)),
            Self::F32 | Self::F64 => None,
        }
    }

    /// The number of this type that a value becomes; itself, if sums have the type. `None` beyond the largest.
    fn nearest(self, x: f64, way: Way) -> Option<f64> {
        let Some((bits, lowest)) = self.rounding() else { return x.is_finite().then_some(x) };
        if !x.is_finite() {
            return None;
        }
        let unit = power((exponent(x) - bits).max(lowest));
        let steps = x / unit;
        let whole = match way {
            Way::Nearest => steps.round_ties_even(),
            Way::Zero => steps.trunc(),
        };
        let rounded = whole * unit;
        (rounded.abs() <= self.largest()).then_some(rounded)
    }

    const fn largest(self) -> f64 {
        match self {
            Self::F16 => 65504.0,
            Self::Bf16 | Self::F32 | Self::F64 => f32::MAX as f64,
        }
    }

    /// The relative error of one more rounding, to binary32 or to this type.
    pub(super) fn roundoff(self) -> f64 {
        match self.rounding() {
            Some((bits, _)) => power(-bits),
            None => power(-22),
        }
    }
}

/// How a number is rounded to a shorter type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To the nearest, ties to even.
    Nearest,
    /// Toward zero: the low bits are cut off.
    Zero,
}

/// 2^n, for exponents of doubles.
fn power(n: i64) -> f64 {
    2f64.powi(n.clamp(-1074, 1023) as i32)
}

/// The exact value of an element and the bound on its error; where anything is allowed, the value is NaN and the error infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The exact value.
    pub value: f64,
    /// What a correct result may be off by.
    pub error: f64,
}

impl Bound {
    /// An element that may be anything.
    const OPEN: Self = Self { value: f64::NAN, error: f64::INFINITY };

    /// Whether a stored value is right.
    #[must_use]
    pub fn admits(&self, stored: f64) -> bool {
        (stored - self.value).abs() <= self.error
    }

    /// Whether the bound is narrower than the value: otherwise 0 would be right.
    #[must_use]
    pub fn decides(&self) -> bool {
        self.error.is_finite() && (self.error == 0.0 || self.error < self.value.abs())
    }

    /// Adds a bias in f32.
    pub(super) fn plus(self, bias: f64) -> Self {
        let value = self.value + bias;
        let reach = value.abs() + self.error;
        // A sum of nothing is exact.
        let rounding = if reach > 0.0 { power(exponent(reach) - 23) } else { 0.0 };
        Self { value, error: self.error + rounding }
    }

    /// What a rounding to a type leaves, where it is known which number each value becomes: exactly that, or the range of those near.
    pub(super) fn settled(self, to: ResultType, way: Way) -> Self {
        let (least, most) = (self.value - self.error, self.value + self.error);
        let (Some(least), Some(most)) = (to.nearest(least, way), to.nearest(most, way)) else {
            return Self::OPEN;
        };
        Self { value: f64::midpoint(least, most), error: (most - least) / 2.0 }
    }

    /// Rounds the accumulator to the type of the result.
    pub(super) fn rounded(self, to: ResultType) -> Self {
        let reach = self.value.abs() + self.error;
        if !reach.is_finite() || reach > to.largest() {
            return Self::OPEN;
        }
        let Some((bits, lowest)) = to.rounding() else { return self };
        // A value that the type has is stored as it is.
        let last = |x: f64| (exponent(x) - bits).max(lowest);
        let is_kept =
            self.error == 0.0 && (self.value == 0.0 || super::matrix::unit(self.value) >= last(self.value));
        let half = if reach == 0.0 || is_kept { 0.0 } else { power(last(reach) - 1) };
        Self { error: self.error + half, ..self }
    }
}

/// Both operands' rows, as steps read them, and what bounds the sums of single products.
pub(super) struct Lines {
    pub(super) rows: Rows,
    /// The lowest bit of each row.
    units: Vec<i64>,
}

impl Lines {
    pub(super) fn new(decoded: Decoded, depth: usize, sum: Sum) -> Self {
        let Decoded { values, exponents, units } = decoded;
        let lowest =
            units.chunks(depth.max(1)).map(|row| row.iter().copied().min().unwrap_or(NONE)).collect();
        Self { rows: Rows::new(values, &exponents, &units, depth, sum.length()), units: lowest }
    }

    /// Every row of an operand as it is.
    fn all(of: &Matrix, sum: Sum) -> Self {
        let mut decoded = Decoded::default();
        match of {
            Matrix::Plain { values, .. } => decoded.add_values(values),
            Matrix::Scaled(of) => {
                let scales = codes(of.scale);
                let blocks = of.depth / of.block.max(1);
                for (row, scale) in of.codes.chunks(of.depth.max(1)).zip(of.scales.chunks(blocks.max(1))) {
                    let factors: Vec<f64> =
                        scale.iter().map(|code| scales[usize::from(*code)].value * of.global).collect();
                    decoded.add_codes(row, of.element, &factors, of.block);
                }
            }
        }
        Self::new(decoded, of.depth(), sum)
    }
}

/// The sum of a row of one operand and a row of the other, before the bias.
pub(super) fn sum_of([left, right]: [&Lines; 2], row: usize, column: usize, sum: Sum) -> Bound {
    let [value, error] = match sum {
        Sum::Steps { accumulation, .. } => pair_bound(&left.rows, row, &right.rows, column, accumulation),
        Sum::Fma => {
            // At most K roundings of relative error 2^-24, each of a partial sum no larger than the sum of magnitudes (Jeannerod and Rump
            // 2013), and as many of subnormals.
            let (a, b) = (left.rows.values(row), right.rows.values(column));
            let products = a.iter().zip(b).map(|(a, b)| a * b);
            let (value, magnitude) = products.fold((0.0, 0.0), |(sum, most), x| (sum + x, most + x.abs()));
            let unit = (left.units[row] + right.units[column]).min(NONE);
            let is_exact = magnitude < power(unit.clamp(-1000, 900) + 24) && unit >= -149;
            let depth = a.len() as f64;
            let error = depth * (power(-24) * magnitude + power(-150)) + depth * power(-53) * magnitude;
            [value, if is_exact { 0.0 } else { error }]
        }
    };
    Bound { value, error }
}

/// The sum of a row of one operand and a row of the other, if a kernel rounds its accumulator to a type after each so many elements of K. `whole`
/// is the sum without that: its error bounds what binary32 loses in any part.
pub(super) fn short_sum(
    [left, right]: [&Lines; 2],
    (row, column): (usize, usize),
    whole: Bound,
    (to, step): (ResultType, usize),
) -> Bound {
    let (a, b) = (left.rows.values(row), right.rows.values(column));
    let mut sum = Bound { value: 0.0, error: 0.0 };
    for (a, b) in a.chunks(step.max(1)).zip(b.chunks(step.max(1))) {
        let value = sum.value + a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        // A part is added in binary32.
        let error = sum.error + whole.error + power(-23) * value.abs();
        sum = Bound { value, error }.settled(to, Way::Nearest);
    }
    sum
}

/// The bounds of every element, row-major.
pub struct Bounds {
    /// M and N.
    pub shape: [usize; 2],
    /// The rows and columns whose elements are bounded, if not all are; the others are open.
    pub sampled: Option<[Vec<usize>; 2]>,
    /// [M, N].
    pub elements: Vec<Bound>,
}

impl Product {
    /// M and N.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.a.rows(), self.b.rows()]
    }

    /// The bounds of every element.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let lines = [&self.a, &self.b].map(|of| Lines::all(of, self.sum));
        let shape @ [rows, columns] = self.shape();
        let element = |row: usize, column: usize| {
            let sum = sum_of([&lines[0], &lines[1]], row, column, self.sum);
            let bias = self.bias.as_ref().and_then(|bias| bias.get(column));
            bias.map_or(sum, |bias| sum.plus(*bias)).rounded(self.result)
        };
        let row = |row: usize| (0..columns).map(move |column| element(row, column));
        Bounds { shape, sampled: None, elements: (0..rows).into_par_iter().flat_map_iter(row).collect() }
    }

    /// The bounds of the elements in so many rows and columns, evenly spread.
    #[must_use]
    pub fn sampled_bounds(&self, most: usize) -> Bounds {
        let shape @ [rows, columns] = self.shape();
        let axes = shape.map(|count| spread(&(0..count).collect::<Vec<_>>(), most));
        let [some_rows, some_columns] = &axes;
        let of_columns =
            |bias: &Vec<f64>| some_columns.iter().filter_map(|at| bias.get(*at).copied()).collect();
        let part = Self {
            a: self.a.of_rows(some_rows),
            b: self.b.of_rows(some_columns),
            bias: self.bias.as_ref().map(of_columns),
            ..*self
        };
        let mut elements = vec![Bound::OPEN; rows * columns];
        let places =
            some_rows.iter().flat_map(|row| some_columns.iter().map(move |column| row * columns + column));
        for (at, bound) in places.zip(part.bounds().elements) {
            elements[at] = bound;
        }
        Bounds { shape, sampled: Some(axes), elements }
    }
}

/// So many of a list at most, evenly spread, the first and the last among them.
pub(super) fn spread<T: Copy>(all: &[T], most: usize) -> Vec<T> {
    if all.len() <= most || most < 2 {
        return all.iter().copied().take(most).collect();
    }
    (0..most).map(|n| all[n * (all.len() - 1) / (most - 1)]).collect()
}
