//! The fused sum of groups of e2m1 products, eight columns at a time: exact, and equal to the definition.
//!
//! The dot product of a group is exact in a float. The window is 35 bits wide, far less than the 53 bits of a double, so a
//! sum in doubles is exact once the terms are truncated to the window.

use pulp::NullaryFnOnce;

use super::exact::mma_exact_at;
use super::operand::{Line, SPECIAL};
use super::products::{Lanes, N, each};
use super::{MmaForm, Model, Operands, Rule};
use crate::dispatch;
use crate::format::{Format, Parts, power_of_two};

/// Products per group.
const SIZE: usize = 16;
/// Groups per sum.
const GROUPS: usize = 4;
const K: usize = SIZE * GROUPS;

/// The exponent of the lowest bit of an e2m1 product.
const PRODUCT_UNIT: i32 = -2;

/// Decodes an e2m1 code. A subnormal is read one exponent higher, with a hidden bit that is then subtracted.
#[inline(always)]
fn e2m1(code: u32) -> f32 {
    let magnitude = code & 7;
    let subnormal = magnitude < 2;
    let size = f32::from_bits((magnitude << 22) + ((126 + u32::from(subnormal)) << 23));
    let size = size - if subnormal { 1.0 } else { 0.0 };
    f32::from_bits(size.to_bits() | (code & 8) << 28)
}

/// A row of A or a column of B.
struct Block {
    values: [f32; K],
    /// A bit mask of the nonzero elements of each group; empty if the scale is zero.
    masks: [u16; GROUPS],
    /// The scale of each group, and its exponent for alignment.
    scales: [(f64, i32); GROUPS],
    nan: bool,
}

/// All columns of B: the values by K, the rest by group.
struct Columns {
    values: [Lanes<f32>; K],
    masks: [Lanes<u16>; GROUPS],
    scales: [Lanes<f64>; GROUPS],
    exponents: [Lanes<i32>; GROUPS],
    nan: Lanes<bool>,
}

/// Whether [`mma_groups`] can compute `form`.
pub(super) fn fits(form: &MmaForm, operands: &Operands<'_>, d: &[u32]) -> bool {
    let shape = form.shape;
    let Some((_, chunks)) = form.scale else { return false };
    let chunks = chunks as usize;
    shape.n == N
        && shape.k == K
        && [form.a, form.b] == [Format::E2m1; 2]
        && [1, 2, 4].contains(&chunks)
        && operands.a.len() >= shape.m * K
        && operands.b.len() >= N * K
        && operands.c.len() >= shape.m * N
        && operands.sfa.len() >= shape.m * chunks
        && operands.sfb.len() >= N * chunks
        && d.len() >= shape.m * N
}

impl Block {
    #[inline(always)]
    fn from_codes(form: &MmaForm, codes: &[u32], scales: &[u32], at: usize) -> Self {
        let mut block = Self { values: [0.0; K], masks: [0; GROUPS], scales: [(0.0, 0); GROUPS], nan: false };
        let codes: &[u32; K] = codes[at * K..].first_chunk().unwrap_or(&[0; K]);
        let mut bits = [0; K];
        for at in 0..K {
            block.values[at] = e2m1(codes[at]);
            bits[at] = u32::from(codes[at] & 7 != 0) << (at % SIZE);
        }
        for (mask, bits) in block.masks.iter_mut().zip(bits.as_chunks::<SIZE>().0) {
            *mask = bits.iter().fold(0, |mask, bit| mask | bit) as u16;
        }
        let Some((format, chunks)) = form.scale else { return block };
        let chunks = chunks as usize;
        for (group, slot) in block.scales.iter_mut().enumerate() {
            match format.parts(scales[at * chunks + group * chunks / GROUPS]) {
                Parts::Finite { significand: 0, .. } => block.masks[group] = 0,
                Parts::Finite { significand, exponent, fraction, .. } => {
                    let unit = exponent - fraction.cast_signed();
                    *slot = (f64::from(significand) * power_of_two(unit), exponent);
                }
                Parts::Nan | Parts::Infinite { .. } => block.nan = true,
            }
        }
        block
    }

    /// Returns the exact dot product of every group with every column: multiples of a quarter below 2^10.
    #[inline(always)]
    fn dots(&self, columns: &Columns) -> [Lanes<f32>; GROUPS] {
        let mut dots = [[0.0; N]; GROUPS];
        let groups = self.values.chunks(SIZE).zip(columns.values.chunks(SIZE));
        for (dots, (row, values)) in dots.iter_mut().zip(groups) {
            for (value, others) in row.iter().zip(values) {
                for n in 0..N {
                    dots[n] += value * others[n];
                }
            }
        }
        dots
    }
}

impl Columns {
    #[inline(always)]
    fn from_operands(form: &MmaForm, operands: &Operands<'_>) -> Self {
        let mut out = Self {
            values: [[0.0; N]; K],
            masks: [[0; N]; GROUPS],
            scales: [[0.0; N]; GROUPS],
            exponents: [[0; N]; GROUPS],
            nan: [false; N],
        };
        for n in 0..N {
            let block = Block::from_codes(form, operands.b, operands.sfb, n);
            for (row, value) in out.values.iter_mut().zip(block.values) {
                row[n] = value;
            }
            for group in 0..GROUPS {
                out.masks[group][n] = block.masks[group];
                (out.scales[group][n], out.exponents[group][n]) = block.scales[group];
            }
            out.nan[n] = block.nan;
        }
        out
    }
}

/// Computes `D = A·B + C` for forms whose terms are groups; requires [`fits`].
pub(super) fn mma_groups(model: Model, rule: &Rule, form: &MmaForm, operands: &Operands<'_>, d: &mut [u32]) {
    dispatch(Groups { model, rule, form, operands, d });
}

/// [`mma_groups`], compiled once per vector instruction set.
struct Groups<'a> {
    model: Model,
    rule: &'a Rule,
    form: &'a MmaForm,
    operands: &'a Operands<'a>,
    d: &'a mut [u32],
}

impl NullaryFnOnce for Groups<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { model, rule, form, operands, d } = self;
        groups(model, rule, form, operands, d);
    }
}

#[inline(always)]
fn groups(model: Model, rule: &Rule, form: &MmaForm, operands: &Operands<'_>, d: &mut [u32]) {
    let columns = Columns::from_operands(form, operands);
    // Both scales have the same format and thus the same number of fraction bits.
    let fraction = form.scale.map_or(0, |(format, _)| if format == Format::Ue4m3 { 3 } else { 0 });
    let (c_rows, _) = operands.c.as_chunks::<N>();
    let (d_rows, _) = d.as_chunks_mut::<N>();
    for (at, (c, out)) in c_rows.iter().zip(d_rows).take(form.shape.m).enumerate() {
        let row = Block::from_codes(form, operands.a, operands.sfa, at);
        let addends = Line::from_codes(form.accumulator, c);
        let special = each!(n => row.nan | columns.nan[n] | (addends.exponents[n] == SPECIAL));
        *out = rule.output.of_doubles(&sums(rule, &row, &columns, &addends, 2 * fraction));
        if special.contains(&true) {
            for (column, slot) in out.iter_mut().enumerate().filter(|(column, _)| special[*column]) {
                *slot = mma_exact_at(model, form, at, column, operands, c[column]);
            }
        }
    }
}

/// Returns the fused sums of four groups and C; the result of a column with an infinity or NaN is meaningless.
#[inline(always)]
fn sums(rule: &Rule, row: &Block, columns: &Columns, addends: &Line<N>, fraction: i32) -> Lanes<f64> {
    let zero = rule.zero_exponent;
    // Every nonzero C has a larger exponent than a zero term.
    let mut largest = each!(n => addends.exponents[n].max(zero));
    let mut lowest = [i32::MAX; N];
    for group in 0..GROUPS {
        let alpha = row.scales[group].1;
        for n in 0..N {
            let exponent = alpha + columns.exponents[group][n];
            let there = row.masks[group] & columns.masks[group][n] != 0;
            largest[n] = largest[n].max(if there { exponent } else { zero });
            lowest[n] = lowest[n].min(exponent - fraction + PRODUCT_UNIT);
        }
    }
    let windows = each!(n => largest[n] - rule.fraction);
    let dropped = (0..N).fold(false, |dropped, n| dropped | (windows[n] > lowest[n]));
    let mut sums = each!(n => cut(f64::from(addends.values[n]), windows[n]));
    for (group, dots) in row.dots(columns).iter().enumerate() {
        let alpha = row.scales[group].0;
        let scales = &columns.scales[group];
        let mut terms = each!(n => f64::from(dots[n]) * (alpha * scales[n]));
        if dropped {
            terms = each!(n => cut(terms[n], windows[n]));
        }
        sums = each!(n => sums[n] + terms[n]);
    }
    sums
}

/// Truncates `value` toward zero to a multiple of `2^window`, without a branch.
#[inline(always)]
fn cut(value: f64, window: i32) -> f64 {
    let bits = value.to_bits();
    let leading = (bits >> 52 & 0x7FF).cast_signed() - 1023;
    let drop = 52 - leading + i64::from(window);
    // A shift of 53 or more drops the whole value.
    let kept = u64::MAX << drop.clamp(0, 63);
    f64::from_bits(if drop > 52 { 0 } else { bits & kept })
}
