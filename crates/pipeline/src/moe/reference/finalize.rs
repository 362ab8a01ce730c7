//! The weighted sum of a token's rows, and softmax over its logits (docs/numerics.md, 3 and 6).

use super::activation::Value;
use super::expected::Expected;
use super::formats::exp2;
use super::interval::{Interval, UNIT};
use crate::moe::contract::{ExpBound, FinalizeOrder};

/// The relative error of one rounding to nearest in bf16.
const UNIT_BF16: f64 = 1.0 / (1 << 8) as f64;

/// Below this an f32 may be flushed, and a bf16 is subnormal.
const TINY: f64 = f32::MIN_POSITIVE as f64;

/// The sum of weight · (row + bias) over a token's slots.
///
/// `terms` are (weight, FC2's result, bias to add), in slot order.
#[must_use]
pub fn finalize(order: FinalizeOrder, terms: &[(f32, f64, f32)]) -> Expected {
    let mut sum = 0.0;
    let mut error = 0.0;
    let mut magnitude = 0.0;
    let mut exact = true;
    for (weight, stored, bias) in terms {
        let value = stored + f64::from(*bias);
        let product = f64::from(*weight) * value;
        // The addition of the bias in f32, which cannot round if the sum is an f32.
        let rounded = f64::from(value as f32) != value && value.is_finite();
        let bias_error = if rounded { value.abs() * UNIT } else { 0.0 };
        let step = product.abs();
        magnitude += step;
        let next = sum + product;
        exact &= !rounded && f64::from(next as f32) == next && next - sum == product && next - product == sum;
        exact &= f64::from(product as f32) == product;
        if !exact {
            // One rounding of the product if a kernel does not fuse, one of the sum.
            let before = error + f64::from(*weight).abs() * bias_error + step * UNIT;
            error = before + (next.abs() + before) * (UNIT + exp2(-50)) + 2.0 * TINY;
        }
        sum = next;
    }
    if sum.is_nan() {
        return Expected::Nan;
    }
    if sum.is_infinite() {
        return Expected::Infinite { negative: sum < 0.0 };
    }
    if order != FinalizeOrder::Slots {
        error = atomics(order, magnitude, terms.len());
        // One product, added to zero, is only rounded to f32.
        exact &= order == FinalizeOrder::AtomicF32 && terms.len() == 1;
    }
    if magnitude + error > f64::from(f32::MAX) {
        return Expected::Open;
    }
    if exact { Expected::number(sum, 0.0) } else { Expected::number(sum, error) }
}

/// The error of atomic additions of this many terms in any order, whose magnitudes add up to `magnitude`. Each term is rounded to
/// the type that is added (an f32 with a bias twice), and so is each addition after the first, which is onto zero; a partial sum
/// is no larger than all magnitudes and errors together.
fn atomics(order: FinalizeOrder, magnitude: f64, terms: usize) -> f64 {
    let (per_step, roundings) = match order {
        FinalizeOrder::Slots => return 0.0,
        FinalizeOrder::AtomicF32 => (UNIT * 1.01, 2.0),
        FinalizeOrder::AtomicBf16 => (UNIT_BF16 * 1.01, 1.0),
    };
    let n = terms as f64;
    let grown = magnitude * (1.0 + roundings * per_step) * (1.0 + per_step).powi(terms as i32);
    magnitude * roundings * per_step + grown * per_step * (n - 1.0) + (n + 1.0) * 2.0 * TINY
}

/// Like [`finalize`], for weights and rows anywhere in their intervals; a NaN in either makes the sum NaN.
#[must_use]
pub fn weighted(order: FinalizeOrder, terms: &[(Value, Value, f32)]) -> Expected {
    let mut sum = Interval::point(0.0);
    let mut magnitude = 0.0;
    let mut open = false;
    for (weight, row, bias) in terms {
        let (Value::Within(weight), Value::Within(row)) = (weight, row) else {
            if [weight, row].contains(&&Value::Nan) {
                return Expected::Nan;
            }
            open = true;
            continue;
        };
        let value = if *bias == 0.0 { *row } else { row.plus(Interval::point(f64::from(*bias))).rounded() };
        let product = weight.times(value).rounded();
        magnitude += product.magnitudes().1;
        sum = sum.plus(product).rounded();
    }
    let error = atomics(order, magnitude, terms.len());
    if open || !(magnitude + error).is_finite() || magnitude + error > f64::from(f32::MAX) {
        return Expected::Open;
    }
    let half = (sum.hi - sum.lo) / 2.0 + error;
    // The rounding of the middle is less than 2^-52 of the larger end.
    let slack = if half == 0.0 { 0.0 } else { sum.magnitudes().1 * exp2(-51) };
    Expected::number(f64::midpoint(sum.lo, sum.hi), half + slack)
}

/// The f32 sum of positive terms in any order (docs/numerics.md, 3.1). Each of the k − 1 additions errs by at most a unit of all terms
/// together, and by at most its smaller operand.
fn sum_of(terms: &[Interval]) -> Interval {
    let exact = terms.iter().fold(Interval::point(0.0), |sum, term| sum.plus(*term));
    let steps = terms.len().saturating_sub(1) as f64;
    let wide = exact.widened(UNIT * 1.01 * steps);
    let largest = terms.iter().map(|term| term.hi).fold(0.0, f64::max);
    // The terms beside the largest one: their own sums are rounded, and each joins the largest one once.
    let others = (exact.hi - largest) * (1.0 + 2.02 * steps * UNIT) + exact.hi * exp2(-50) + steps * TINY;
    Interval { lo: wide.lo.max(exact.lo - others), hi: wide.hi.min(exact.hi + others) }.inward()
}

/// Softmax over the chosen logits: an interval for each, or `None` if all weights are NaN.
#[must_use]
pub fn softmax(chosen: &[f32], bound: &ExpBound) -> Option<Vec<Interval>> {
    let max = chosen
        .iter()
        .fold(f32::NEG_INFINITY, |m, x| if x.is_nan() || m.is_nan() { f32::NAN } else { m.max(*x) });
    if !max.is_finite() {
        // NaN, ∞ − ∞, or −∞ − −∞.
        return None;
    }
    let exps: Vec<Interval> = chosen
        .iter()
        .map(|x| {
            if *x == f32::NEG_INFINITY {
                return Interval::point(0.0);
            }
            let difference = if bound.is_of_exact_argument() {
                Interval::point(f64::from(x - max)).to_f32()
            } else {
                Interval::point(f64::from(*x) - f64::from(max)).rounded()
            };
            super::activation::exp(difference, bound)
        })
        .collect();
    let sum = sum_of(&exps);
    // A division by one is exact.
    let quotient = |e: &Interval| if sum == Interval::point(1.0) { *e } else { e.over(sum).rounded() };
    Some(exps.iter().map(quotient).collect())
}
