//! The fused sum of products, of sixteen rows or eight columns at a time: exact, and equal to the definition.
//!
//! Products of two significands of at most 11 bits are exact in a float. In units of the lowest bit that survives
//! truncation, each term is below 2^27; its conversion to an integer is the truncation, and the integers are added.

use super::exact::mma_exact_at;
use super::operand::{Line, SPECIAL, ZERO, decode};
use super::{MmaForm, Model, Operands, Output, Rule};
use crate::format::{Format, power_of_two};
use crate::path::{WideLoop, dispatch_wide};
pub(super) use crate::wide::each;
use crate::wide::{Transpose, Wide};

/// Columns of the `mma` shapes computed here.
pub(super) const N: usize = 8;
/// Rows of most of them.
const M: usize = 16;
/// The longest K computed here.
const K: usize = 32;
/// The number of terms below 2^27 whose sum, including C, stays below 2^31.
const TERMS: usize = 8;
/// Magnitude limit for exponents of normal floats, with a margin.
const FLOATS: i32 = 120;

/// One number per column.
pub(super) type Lanes<T> = [T; N];

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
    let task = Task { model, rule, form, operands, first: 0 };
    let Rule { depth, .. } = *rule;
    match form.shape.k {
        k if depth < k => dispatch_wide(Products::<K, false> { task, d }),
        k if k <= K / 4 => dispatch_wide(Products::<{ K / 4 }, true> { task, d }),
        k if k <= K / 2 => dispatch_wide(Products::<{ K / 2 }, true> { task, d }),
        _ => dispatch_wide(Products::<K, true> { task, d }),
    }
}

/// [`mma_products`] for K up to `LENGTH`; `WHOLE` if K is a single fused sum.
struct Products<'a, const LENGTH: usize, const WHOLE: bool> {
    task: Task<'a>,
    d: &'a mut [u32],
}

#[derive(Clone, Copy)]
struct Task<'a> {
    model: Model,
    rule: &'a Rule,
    form: &'a MmaForm,
    operands: &'a Operands<'a>,
    /// The first row of D that is computed, of at most [`M`].
    first: usize,
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

/// A or B.
#[derive(Clone, Copy)]
struct Side<'a> {
    format: Format,
    codes: &'a [u32],
    scales: &'a [u32],
}

impl Side<'_> {
    /// Its lines from one on.
    #[inline(always)]
    fn behind(self, first: usize, k: usize) -> Self {
        Self { codes: &self.codes[first * k..], scales: self.scales.get(first..).unwrap_or_default(), ..self }
    }
}

impl<const LENGTH: usize, const WHOLE: bool> WideLoop for Products<'_, LENGTH, WHOLE> {
    type Output = ();

    #[inline(always)]
    fn run(self, eight: impl Wide<N> + Transpose, sixteen: impl Wide<M>) {
        let Self { task, d } = self;
        let Operands { a, b, c, sfa, sfb } = *task.operands;
        let a = Side { format: task.form.a, codes: a, scales: sfa };
        let b = Side { format: task.form.b, codes: b, scales: sfb };
        let rows = task.form.shape.m;
        let ((c, _), (d, _)) = (c.as_chunks::<N>(), d.as_chunks_mut::<N>());
        for (n, (c, d)) in c[..rows].chunks(M).zip(d[..rows].chunks_mut(M)).enumerate() {
            let first = n * M;
            let a = a.behind(first, task.form.shape.k);
            let task = Task { first, ..task };
            match (<&[Lanes<u32>; M]>::try_from(c), <&mut [Lanes<u32>; M]>::try_from(&mut *d)) {
                (Ok(c), Ok(d)) => {
                    let mut columns = transposed::<M, N>(eight, c);
                    task.sums::<M, LENGTH, WHOLE, true>(eight, sixteen, (a, b), &mut columns);
                    *d = transposed(eight, &columns);
                }
                _ => {
                    d.copy_from_slice(c);
                    task.sums::<N, LENGTH, WHOLE, false>(eight, eight, (b, a), d);
                }
            }
        }
    }
}

/// The transposed matrix; both sizes are multiples of eight.
#[inline(always)]
fn transposed<const R: usize, const C: usize>(by: impl Transpose, from: &[[u32; C]; R]) -> [[u32; R]; C] {
    let mut to = [[0; R]; C];
    for row in (0..R).step_by(8) {
        for column in (0..C).step_by(8) {
            let mut block = [[0; 8]; 8];
            for n in 0..8 {
                block[n].copy_from_slice(&from[row + n][column..column + 8]);
            }
            let block = by.transposed(&block);
            for n in 0..8 {
                to[column + n][row..row + 8].copy_from_slice(&block[n]);
            }
        }
    }
    to
}

/// Returns up to `R` rows of `k` codes, zero-padded.
#[inline(always)]
fn padded_rows<const R: usize, const LENGTH: usize>(codes: &[u32], k: usize) -> [[u32; LENGTH]; R] {
    if k == LENGTH
        && let Some(rows) = codes.as_chunks().0.first_chunk()
    {
        return *rows;
    }
    let mut out = [[0; LENGTH]; R];
    for (slot, codes) in out.iter_mut().zip(codes.chunks_exact(k)) {
        slot[..k].copy_from_slice(codes);
    }
    out
}

impl Task<'_> {
    /// Replaces C by D in `d`: its columns (`ROWS`: the lanes are rows of A, so that one element of B meets all of them) or its rows
    /// (the lanes are columns of B).
    #[inline(always)]
    fn sums<const L: usize, const LENGTH: usize, const WHOLE: bool, const ROWS: bool>(
        self,
        by: impl Transpose,
        wide: impl Wide<L>,
        (lanes, lines): (Side<'_>, Side<'_>),
        d: &mut [[u32; L]],
    ) {
        let Self { model, rule, form, operands, first } = self;
        let k = form.shape.k;
        // Zero padding along K does not change a sum.
        let (end, depth) = if WHOLE { (LENGTH, LENGTH) } else { (k, rule.depth) };
        let codes = transposed(by, &padded_rows::<L, LENGTH>(lanes.codes, k));
        let mut values = [[0.0; L]; LENGTH];
        let mut exponents = [[0; L]; LENGTH];
        decode(lanes.format, codes.as_flattened(), values.as_flattened_mut(), exponents.as_flattened_mut());
        let mut lane_scales = [0; L];
        for lane in 0..L {
            lane_scales[lane] = scale_of(form, lanes.scales, lane);
        }
        let lane_scales = wide.integers(&lane_scales);
        // All are decoded before the first is used, so that their elements come from memory: a vector in registers would be taken apart.
        let mut decoded = [Line { values: [0.0; LENGTH], exponents: [0; LENGTH] }; M];
        for (line, codes) in decoded.iter_mut().zip(lines.codes.chunks_exact(k)).take(d.len()) {
            *line = Line::from_codes(lines.format, &padded(codes));
        }
        for (at, (line, out)) in decoded.iter().zip(d).enumerate() {
            let scales = wide.sum(lane_scales, wide.splat_integer(scale_of(form, lines.scales, at)));
            let (mut by_definition, addends) = (0, *out);
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
                by_definition |= step.sums(wide, scales, out);
                from = to;
            }
            if by_definition == 0 {
                continue;
            }
            for (lane, slot) in out.iter_mut().enumerate().filter(|(n, _)| by_definition >> n & 1 == 1) {
                let (row, column) = if ROWS { (lane, at) } else { (at, lane) };
                *slot = mma_exact_at(model, form, first + row, column, operands, addends[lane]);
            }
        }
    }
}

/// One fused sum in each lane.
struct Step<'a, const N: usize> {
    rule: &'a Rule,
    /// C.
    addends: Line<N>,
    /// The elements that all lanes share, by K.
    elements: &'a [f32],
    element_exponents: &'a [i32],
    /// Those of each lane, by K.
    values: &'a [[f32; N]],
    exponents: &'a [[i32; N]],
}

impl<const N: usize> Step<'_, N> {
    /// Replaces C by D; `scales` are the summed exponents of both scales. Returns a bit mask of the lanes that floats cannot
    /// represent, whose results are invalid.
    #[inline(always)]
    fn sums<W: Wide<N>>(&self, wide: W, scales: W::Integers, out: &mut [u32; N]) -> u32 {
        let mut largest = wide.splat_integer(2 * ZERO);
        for (elements, exponents) in self.element_exponents.chunks(TERMS).zip(self.exponents.chunks(TERMS)) {
            let part = match (<&[_; TERMS]>::try_from(elements), <&[_; TERMS]>::try_from(exponents)) {
                (Ok(elements), Ok(exponents)) => largest_place(wide, elements, exponents),
                _ => largest_place(wide, elements, exponents),
            };
            largest = wide.larger(largest, part);
        }
        // Every nonzero C has a larger exponent than a zero term.
        let addends = wide.integers(&self.addends.exponents);
        let places = wide.larger(wide.sum(largest, scales), addends);
        let places = wide.larger(places, wide.splat_integer(self.rule.zero_exponent));
        let windows = wide.difference(places, wide.splat_integer(self.rule.fraction));
        // Where a factor is clamped at the low end, the value is truncated to zero anyway.
        let inverse = wide.difference(wide.splat_integer(0), windows);
        let (first, factors) = (wide.clamped(inverse, FLOATS), wide.sum(scales, inverse));
        let second = wide.clamped(wide.difference(inverse, first), FLOATS);
        let start = wide.product(wide.floats(&self.addends.values), wide.power_of_two(first));
        let mut start = wide.truncated(wide.product(start, wide.power_of_two(second)));
        // Negative where a scaled product may leave the range of floats without being truncated to zero, and for infinities and NaNs.
        let below = |integers, limit| wide.difference(wide.splat_integer(limit), integers);
        let small = wide.larger(below(factors, FLOATS), below(largest, ZERO / 2));
        let inside = wide.smaller(wide.smaller(small, below(largest, FLOATS)), below(places, SPECIAL / 2));
        let factors = wide.power_of_two(wide.clamped(factors, FLOATS));
        let mut sums = [0.0; N];
        for (elements, values) in self.elements.chunks(TERMS).zip(self.values.chunks(TERMS)) {
            let part = match (<&[_; TERMS]>::try_from(elements), <&[_; TERMS]>::try_from(values)) {
                (Ok(elements), Ok(values)) => cut_products(wide, start, elements, values, factors),
                _ => cut_products(wide, start, elements, values, factors),
            };
            let part = wide.array(part);
            sums = each!(n => sums[n] + f64::from(part[n]));
            start = wide.splat_integer(0);
        }
        // If the unit of the sum is a normal float, the sum is zero or at least one unit, so it is not subnormal.
        let normal =
            wide.smaller(below(windows, FLOATS), wide.difference(windows, wide.splat_integer(-FLOATS)));
        if self.rule.output == Output::Single && wide.signs(normal) == 0 {
            let kept = each!(n => f64::from_bits(sums[n].to_bits() & u64::MAX << 29) as f32);
            *out = wide.bits(wide.product(wide.floats(&kept), wide.power_of_two(windows)));
        } else {
            let windows = wide.array(windows);
            *out = self.rule.output.of_doubles(&each!(n => sums[n] * power_of_two(windows[n])));
        }
        wide.signs(inside)
    }
}

/// Returns the largest exponent of a product in each lane.
#[inline(always)]
fn largest_place<const N: usize, W: Wide<N>>(
    wide: W,
    elements: &[i32],
    exponents: &[[i32; N]],
) -> W::Integers {
    // Two chains, since each maximum depends on the previous one.
    let mut largest = [wide.splat_integer(2 * ZERO); 2];
    for (n, (element, exponents)) in elements.iter().zip(exponents).enumerate() {
        let place = wide.sum(wide.splat_integer(*element), wide.integers(exponents));
        largest[n % 2] = wide.larger(largest[n % 2], place);
    }
    wide.larger(largest[0], largest[1])
}

/// Adds to `start` the products of `elements`, `values` and `factors`, each truncated toward zero.
#[inline(always)]
fn cut_products<const N: usize, W: Wide<N>>(
    wide: W,
    start: W::Integers,
    elements: &[f32],
    values: &[[f32; N]],
    factors: W::Floats,
) -> W::Integers {
    let mut sum = start;
    for (element, values) in elements.iter().zip(values) {
        let product = wide.product(wide.splat(*element), wide.floats(values));
        sum = wide.sum(sum, wide.truncated(wide.product(product, factors)));
    }
    sum
}
