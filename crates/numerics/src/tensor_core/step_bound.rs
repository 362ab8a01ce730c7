//! A bound on the error of a tensor core's sums, step by step: docs/numerics.md, 4.2, which derives it.
//!
//! A step adds products to the accumulator; each term is truncated a fixed number of bits below the largest exponent, and the sum to the 24
//! bits of binary32.

/// The nominal exponent of zeros.
const ZERO: i64 = -132;
/// The lowest bit of zeros.
const NONE: i64 = 10_000;
/// The exponent of the smallest normal number of binary32.
const SMALLEST: i64 = -126;

/// Rows of an operand [rows, K], decoded, as steps of a tensor core read them.
#[derive(Debug, Clone)]
pub struct Rows {
    depth: usize,
    length: usize,
    values: Vec<f64>,
    steps: Vec<Step>,
}

/// What a step reads of a row.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// The largest nominal exponent.
    high: i64,
    /// The lowest bit.
    low: i64,
    /// Elements that are not zero.
    count: u32,
}

impl Rows {
    /// Values with the nominal exponent and the exponent of the lowest set bit of each, [rows, `depth`], for steps of `length` products. The
    /// exponent of zero is −132 and its lowest bit is beyond every other. Rows that are not whole are left out.
    #[must_use]
    pub fn new(values: Vec<f64>, exponents: &[i64], units: &[i64], depth: usize, length: usize) -> Self {
        let length = length.max(1);
        let mut steps = Vec::new();
        for row in 0..values.len() / depth.max(1) {
            for first in (0..depth).step_by(length) {
                let of = row * depth + first..row * depth + (first + length).min(depth);
                steps.push(Step {
                    high: exponents.get(of.clone()).and_then(|all| all.iter().copied().max()).unwrap_or(ZERO),
                    low: units.get(of.clone()).and_then(|all| all.iter().copied().min()).unwrap_or(NONE),
                    count: values[of].iter().map(|x| u32::from(*x != 0.0)).sum(),
                });
            }
        }
        Self { depth, length, values, steps }
    }

    /// The number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.values.len() / self.depth.max(1)
    }

    /// The values of a row.
    #[must_use]
    pub fn values(&self, row: usize) -> &[f64] {
        self.row(row).0
    }

    fn row(&self, row: usize) -> (&[f64], &[Step]) {
        let steps = self.depth.div_ceil(self.length);
        (&self.values[row * self.depth..(row + 1) * self.depth], &self.steps[row * steps..(row + 1) * steps])
    }
}

/// How a tensor core accumulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accumulation {
    /// Bits kept below the largest exponent.
    pub fraction: i64,
    /// Whether the steps are those of rising k to one accumulator; otherwise they are in any order.
    pub rising: bool,
}

/// The exact sum, in doubles, of a row of the left operand with a row of the right one, and the bound on the error of a tensor core. Both
/// operands have the same depth and the same steps.
#[must_use]
pub fn pair_bound(left: &Rows, row: usize, right: &Rows, column: usize, how: Accumulation) -> [f64; 2] {
    let (a, b) = (left.row(row), right.row(column));
    let size = || a.0.iter().zip(b.0).map(|(a, b)| (a * b).abs()).sum();
    element(a, b, if how.rising { 0.0 } else { size() }, left.length, how)
}

/// 2^n.
fn power(n: i64) -> f64 {
    match n {
        -1022..=1023 => f64::from_bits(((n + 1023) as u64) << 52),
        1024.. => f64::INFINITY,
        -1074..-1022 => f64::from_bits(1 << (n + 1074)),
        _ => 0.0,
    }
}

/// The exponent of a number that is not zero, as of 1.m·2^e.
fn exponent(x: f64) -> i64 {
    let field = |x: f64| (x.to_bits() >> 52 & 0x7FF) as i64;
    // Subnormal doubles are far below every bound.
    if field(x) == 0 { field(x * power(64)) - 64 - 1023 } else { field(x) - 1023 }
}

/// The sum of products, in lanes that compilers vectorize.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (whole_a, rest_a) = a.as_chunks::<8>();
    let (whole_b, rest_b) = b.as_chunks::<8>();
    for (a, b) in whole_a.iter().zip(whole_b) {
        for lane in 0..8 {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.iter().sum::<f64>() + rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum::<f64>()
}

/// The exact sum of an element in doubles, and the bound on the error of a tensor core.
fn element(
    (a, of_a): (&[f64], &[Step]),
    (b, of_b): (&[f64], &[Step]),
    magnitude: f64,
    length: usize,
    Accumulation { fraction, rising }: Accumulation,
) -> [f64; 2] {
    let (mut total, mut error, mut unit) = (0.0_f64, 0.0_f64, NONE);
    let parts = a.chunks(length).zip(b.chunks(length));
    for ((a, b), (of_a, of_b)) in parts.zip(of_a.iter().zip(of_b)) {
        let part = dot(a, b);
        let high = (of_a.high + of_b.high).max(ZERO);
        let low = of_a.low + of_b.low;
        let count = of_a.count.min(of_b.count);
        let after = total + part;
        if count > 0 {
            // In rising order the accumulator is what the sum is; otherwise any partial sum.
            let reach = if rising { total.abs() + error } else { magnitude + error };
            let held = if reach > 0.0 { exponent(reach).max(SMALLEST) } else { ZERO };
            let top = high.max(held);
            let cut = if top - fraction <= low { 0.0 } else { f64::from(count) * power(top - fraction) };
            let is_whole = error == 0.0 && unit >= high - fraction;
            let lost = cut + if is_whole { 0.0 } else { power(high - fraction).min(reach) };
            let most = if rising { after.abs() } else { magnitude } + error + lost;
            unit = unit.min(low);
            // A multiple of a unit, below 2^24 units, is exact in f32.
            let is_exact =
                error == 0.0 && lost == 0.0 && unit >= -149 && most < power(unit.clamp(-1000, 900) + 24);
            if !is_exact {
                error += lost + power((exponent(most) - 23).max(-149)) + most * f64::EPSILON;
            }
        } else {
            unit = unit.min(low);
        }
        total = after;
    }
    [total, error]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of natural numbers.
    fn rows(values: &[f64], depth: usize, length: usize) -> Rows {
        let exponents: Vec<i64> =
            values.iter().map(|x| if *x == 0.0 { ZERO } else { exponent(x.abs()) }).collect();
        let units: Vec<i64> = values
            .iter()
            .map(|x| if *x == 0.0 { NONE } else { i64::from((*x as u64).trailing_zeros()) })
            .collect();
        Rows::new(values.to_vec(), &exponents, &units, depth, length)
    }

    #[test]
    fn powers_and_exponents_of_two_are_inverse() {
        for n in -1074..=1023 {
            assert_eq!(exponent(power(n)), n);
            assert_eq!(
                power(n),
                2f64.powi(n.div_euclid(2) as i32) * 2f64.powi((n - n.div_euclid(2)) as i32),
                "{n}"
            );
        }
        assert_eq!((power(1024), power(-1075)), (f64::INFINITY, 0.0));
        assert_eq!([1.5, 3.9, 4.0].map(exponent), [0, 1, 2]);
    }

    #[test]
    fn small_sums_are_exact_and_large_ones_lose_what_the_model_says() {
        let how = Accumulation { fraction: 25, rising: true };
        let ones = rows(&[1.0; 64], 64, 32);
        assert_eq!(pair_bound(&ones, 0, &ones, 0, how), [64.0, 0.0]);
        // 2^26 + 1: the second step is cut 25 bits below the accumulator's exponent, 26, and the sum to 24 bits.
        let left = rows(&[[8192.0; 1].as_slice(), &[0.0; 31], &[1.0; 1], &[0.0; 31]].concat(), 64, 32);
        let [sum, error] = pair_bound(&left, 0, &left, 0, how);
        assert_eq!(sum, f64::from(1 << 26) + 1.0);
        assert!((3.0..16.0).contains(&error), "{error}");
        // In any order every partial sum may be the largest.
        let any = Accumulation { rising: false, ..how };
        let [_, wider] = pair_bound(&left, 0, &left, 0, any);
        assert!(wider >= error);
    }

    #[test]
    fn a_step_of_zeros_keeps_the_accumulator() {
        let left = rows(&[[3.0; 32], [0.0; 32]].concat(), 64, 32);
        let how = Accumulation { fraction: 25, rising: true };
        assert_eq!(pair_bound(&left, 0, &left, 0, how), [288.0, 0.0]);
    }
}
