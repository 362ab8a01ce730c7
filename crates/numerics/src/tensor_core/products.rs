//! The fused sum of products, eight columns at a time: exact, and equal to the definition.
//!
//! Products of two significands of at most 11 bits are exact in a float. In units of the lowest bit that survives
//! truncation, each term is below 2^27; its conversion to an integer is the truncation, and the integers are added.

use super::exact::mma_exact_at;
use super::operand::{Line, SPECIAL, ZERO, decode};
use super::{MmaForm, Model, Operands, Output, Rule};
use crate::eight::Eight;
use crate::format::{Format, power_of_two};
use crate::path::{EightLoop, dispatch_eight};

/// Columns of the `mma` shapes computed here.
pub(super) const N: usize = 8;
/// The longest K computed here.
const K: usize = 32;
/// The number of terms below 2^27 whose sum, including C, stays below 2^31.
const TERMS: usize = 8;
/// Magnitude limit for exponents of normal floats, with a margin.
const FLOATS: i32 = 120;

/// One number per column.
pub(super) type Lanes<T> = [T; N];

/// Evaluates an expression for each column in a plain loop: a closure may be compiled separately, without the features that
/// `dispatch` enables.
macro_rules! each {
    ($n:ident => $value:expr) => {{
        let mut out = [Default::default(); N];
        for $n in 0..N {
            out[$n] = $value;
        }
        out
    }};
}
pub(super) use each;

/// Whether [`mma_products`] can compute `form`.
pub(super) fn fits(form: &MmaForm, operands: &Operands<'_>, d: &[u32]) -> bool {
    let shape = form.shape;
    let scaled = form.scale.is_some();
    shape.n == N
        && (1..=K).contains(&shape.k)
        && form.scale.is_none_or(|(format, chunks)| format == Format::Ue8m0 && chunks == 1)
        && operands.a.len() >= shape.m * shape.k
        && operands.b.len() >= N * shape.k
        && operands.c.len() >= shape.m * N
        && (!scaled || (operands.sfa.len() >= shape.m && operands.sfb.len() >= N))
        && d.len() >= shape.m * N
}

/// Computes `D = A·B + C` for forms whose terms are products; requires [`fits`].
pub(super) fn mma_products(
    model: Model,
    rule: &Rule,
    form: &MmaForm,
    operands: &Operands<'_>,
    d: &mut [u32],
) {
    // With a constant length, the loop over K is unrolled.
    let Rule { depth, .. } = *rule;
    match form.shape.k {
        k if depth < k => dispatch_eight(Products::<K, false> { model, rule, form, operands, d }),
        k if k <= K / 4 => dispatch_eight(Products::<{ K / 4 }, true> { model, rule, form, operands, d }),
        k if k <= K / 2 => dispatch_eight(Products::<{ K / 2 }, true> { model, rule, form, operands, d }),
        _ => dispatch_eight(Products::<K, true> { model, rule, form, operands, d }),
    }
}

/// [`mma_products`] for K up to `LENGTH`; `WHOLE` if K is a single fused sum.
struct Products<'a, const LENGTH: usize, const WHOLE: bool> {
    model: Model,
    rule: &'a Rule,
    form: &'a MmaForm,
    operands: &'a Operands<'a>,
    d: &'a mut [u32],
}

/// Returns `codes`, zero-padded.
#[inline(always)]
fn padded<const LENGTH: usize>(codes: &[u32]) -> [u32; LENGTH] {
    if let Ok(codes) = codes.try_into() {
        return codes;
    }
    let mut out = [0; LENGTH];
    for (slot, code) in out.iter_mut().zip(codes) {
        *slot = *code;
    }
    out
}

/// Returns the exponent of a `ue8m0` scale, 0 without scales.
#[inline(always)]
fn scale_of(form: &MmaForm, codes: &[u32], at: usize) -> i32 {
    match (form.scale, codes.get(at)) {
        (Some(_), Some(code)) if code & 0xFF == 0xFF => SPECIAL,
        (Some(_), Some(code)) => (code & 0xFF).cast_signed() - 127,
        _ => 0,
    }
}

impl<const LENGTH: usize, const WHOLE: bool> EightLoop for Products<'_, LENGTH, WHOLE> {
    type Output = ();

    #[inline(always)]
    fn run(self, eight: impl Eight) {
        let Self { model, rule, form, operands, d } = self;
        let k = form.shape.k;
        // Zero padding along K does not change a sum.
        let (end, depth) = if WHOLE { (LENGTH, LENGTH) } else { (k, rule.depth) };
        let mut rows = [[0; N]; LENGTH];
        for (column, codes) in operands.b.chunks_exact(k).take(N).enumerate() {
            let codes = padded::<LENGTH>(codes);
            for at in 0..LENGTH {
                rows[at][column] = codes[at];
            }
        }
        let mut values = [[0.0; N]; LENGTH];
        let mut exponents = [[0; N]; LENGTH];
        decode(form.b, rows.as_flattened(), values.as_flattened_mut(), exponents.as_flattened_mut());
        let column_scales = eight.integers(&each!(n => scale_of(form, operands.sfb, n)));
        let (c_rows, _) = operands.c.as_chunks::<N>();
        let (d_rows, _) = d.as_chunks_mut::<N>();
        let rows = operands.a.chunks_exact(k).zip(c_rows).zip(d_rows).take(form.shape.m);
        for (at, ((codes, c), out)) in rows.enumerate() {
            let line = Line::<LENGTH>::from_codes(form.a, &padded(codes));
            let scales = eight.sum(column_scales, eight.splat_integer(scale_of(form, operands.sfa, at)));
            let mut by_definition = 0;
            *out = *c;
            let mut from = 0;
            while from < end {
                let to = end.min(from + depth);
                let step = Step {
                    rule,
                    addends: Line::from_codes(form.accumulator, out),
                    elements: &line.values[from..to],
                    element_exponents: &line.exponents[from..to],
                    values: &values[from..to],
                    exponents: &exponents[from..to],
                };
                by_definition |= step.sums(eight, scales, out);
                from = to;
            }
            if by_definition == 0 {
                continue;
            }
            for (column, slot) in out.iter_mut().enumerate().filter(|(n, _)| by_definition >> n & 1 == 1) {
                *slot = mma_exact_at(model, form, at, column, operands, c[column]);
            }
        }
    }
}

/// One fused sum of one row.
struct Step<'a> {
    rule: &'a Rule,
    /// C.
    addends: Line<N>,
    /// A.
    elements: &'a [f32],
    element_exponents: &'a [i32],
    /// B, one row per K.
    values: &'a [Lanes<f32>],
    exponents: &'a [Lanes<i32>],
}

impl Step<'_> {
    /// Replaces C by D; `scales` are the summed exponents of both scales. Returns a bit mask of the columns that floats cannot
    /// represent, whose results are invalid.
    #[inline(always)]
    fn sums<E: Eight>(&self, eight: E, scales: E::Integers, out: &mut Lanes<u32>) -> u32 {
        let mut largest = eight.splat_integer(2 * ZERO);
        for (elements, exponents) in self.element_exponents.chunks(TERMS).zip(self.exponents.chunks(TERMS)) {
            let part = match (<&[_; TERMS]>::try_from(elements), <&[_; TERMS]>::try_from(exponents)) {
                (Ok(elements), Ok(exponents)) => largest_place(eight, elements, exponents),
                _ => largest_place(eight, elements, exponents),
            };
            largest = eight.larger(largest, part);
        }
        // Every nonzero C has a larger exponent than a zero term.
        let addends = eight.integers(&self.addends.exponents);
        let places = eight.larger(eight.sum(largest, scales), addends);
        let places = eight.larger(places, eight.splat_integer(self.rule.zero_exponent));
        let windows = eight.difference(places, eight.splat_integer(self.rule.fraction));
        // Where a factor is clamped at the low end, the value is truncated to zero anyway.
        let inverse = eight.difference(eight.splat_integer(0), windows);
        let (first, factors) = (eight.clamped(inverse, FLOATS), eight.sum(scales, inverse));
        let second = eight.clamped(eight.difference(inverse, first), FLOATS);
        let start = eight.product(eight.floats(&self.addends.values), eight.power_of_two(first));
        let mut start = eight.truncated(eight.product(start, eight.power_of_two(second)));
        // Negative where a scaled product may leave the range of floats without being truncated to zero, and for infinities and NaNs.
        let below = |integers, limit| eight.difference(eight.splat_integer(limit), integers);
        let small = eight.larger(below(factors, FLOATS), below(largest, ZERO / 2));
        let inside = eight.smaller(eight.smaller(small, below(largest, FLOATS)), below(places, SPECIAL / 2));
        let factors = eight.power_of_two(eight.clamped(factors, FLOATS));
        let mut sums = [0.0; N];
        for (elements, values) in self.elements.chunks(TERMS).zip(self.values.chunks(TERMS)) {
            let part = match (<&[_; TERMS]>::try_from(elements), <&[_; TERMS]>::try_from(values)) {
                (Ok(elements), Ok(values)) => cut_products(eight, start, elements, values, factors),
                _ => cut_products(eight, start, elements, values, factors),
            };
            let part = eight.array(part);
            sums = each!(n => sums[n] + f64::from(part[n]));
            start = eight.splat_integer(0);
        }
        // If the unit of the sum is a normal float, the sum is zero or at least one unit, so it is not subnormal.
        let normal =
            eight.smaller(below(windows, FLOATS), eight.difference(windows, eight.splat_integer(-FLOATS)));
        if self.rule.output == Output::Single && eight.signs(normal) == 0 {
            let kept = each!(n => f64::from_bits(sums[n].to_bits() & u64::MAX << 29) as f32);
            *out = eight.bits(eight.product(eight.floats(&kept), eight.power_of_two(windows)));
        } else {
            let windows = eight.array(windows);
            *out = self.rule.output.of_doubles(&each!(n => sums[n] * power_of_two(windows[n])));
        }
        eight.signs(inside)
    }
}

/// Returns the largest exponent of a product, per column.
#[inline(always)]
fn largest_place<E: Eight>(eight: E, elements: &[i32], exponents: &[Lanes<i32>]) -> E::Integers {
    // Two chains, since each maximum depends on the previous one.
    let mut largest = [eight.splat_integer(2 * ZERO); 2];
    for (n, (element, exponents)) in elements.iter().zip(exponents).enumerate() {
        let place = eight.sum(eight.splat_integer(*element), eight.integers(exponents));
        largest[n % 2] = eight.larger(largest[n % 2], place);
    }
    eight.larger(largest[0], largest[1])
}

/// Adds to `start` the products of `elements`, `values` and `factors`, each truncated toward zero.
#[inline(always)]
fn cut_products<E: Eight>(
    eight: E,
    start: E::Integers,
    elements: &[f32],
    values: &[Lanes<f32>],
    factors: E::Floats,
) -> E::Integers {
    let mut sum = start;
    for (element, values) in elements.iter().zip(values) {
        let product = eight.product(eight.splat(*element), eight.floats(values));
        sum = eight.sum(sum, eight.truncated(eight.product(product, factors)));
    }
    sum
}
