//! The fused sum of groups of e2m1 products, eight columns at a time: exact, and equal to the definition.
//!
//! The dot product of a group is exact in a float, and the window is 35 places wide: as in [`super::fast`], a sum in
//! doubles is exact unless scales or C lie far apart, and then each term is cut.

use super::decoded::SPECIAL;
use super::exact::mma_exact_at;
use super::fast::{Addends, Lanes, N, cut, lanes};
use super::{MmaForm, Model, Operands, Rule};
use crate::format::{Format, Parts, power_of_two};

/// Products of a group.
const SIZE: usize = 16;
/// Groups of a sum.
const GROUPS: usize = 4;
const K: usize = SIZE * GROUPS;

/// The place of the lowest bit of an e2m1 product.
const PRODUCT_UNIT: i16 = -2;

const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// A row of A or a column of B.
struct Line {
    values: [f32; K],
    /// The elements of each group that are not zero, one bit each; none where the scale is zero.
    masks: [u16; GROUPS],
    /// The scale of each group, and the exponent that places it.
    scales: [(f64, i16); GROUPS],
    nan: bool,
}

/// All columns of B, by rows of K and by groups.
struct Columns {
    values: [Lanes<f32>; K],
    masks: [Lanes<u16>; GROUPS],
    scales: [Lanes<f64>; GROUPS],
    exponents: [Lanes<i16>; GROUPS],
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

impl Line {
    fn of(form: &MmaForm, codes: &[u32], scales: &[u32], at: usize) -> Self {
        let mut line = Self { values: [0.0; K], masks: [0; GROUPS], scales: [(0.0, 0); GROUPS], nan: false };
        let codes = &codes[at * K..][..K];
        for (value, code) in line.values.iter_mut().zip(codes) {
            *value = E2M1[*code as usize & 0xF];
        }
        let (groups, _) = codes.as_chunks::<SIZE>();
        for (mask, codes) in line.masks.iter_mut().zip(groups) {
            let bits: [u32; SIZE] = std::array::from_fn(|at| if codes[at] & 7 == 0 { 0 } else { 1 << at });
            *mask = bits.iter().fold(0, |mask, bit| mask | bit) as u16;
        }
        let Some((format, chunks)) = form.scale else { return line };
        let chunks = chunks as usize;
        for (group, slot) in line.scales.iter_mut().enumerate() {
            match format.parts(scales[at * chunks + group * chunks / GROUPS]) {
                Parts::Finite { significand: 0, .. } => line.masks[group] = 0,
                Parts::Finite { significand, exponent, fraction, .. } => {
                    let unit = exponent - fraction.cast_signed();
                    *slot = (f64::from(significand) * power_of_two(unit), exponent as i16);
                }
                Parts::Nan | Parts::Infinite { .. } => line.nan = true,
            }
        }
        line
    }

    /// The exact dot product of every group with every column: multiples of a quarter below 2^10.
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
    fn of(form: &MmaForm, operands: &Operands<'_>) -> Self {
        let mut out = Self {
            values: [[0.0; N]; K],
            masks: [[0; N]; GROUPS],
            scales: [[0.0; N]; GROUPS],
            exponents: [[0; N]; GROUPS],
            nan: [false; N],
        };
        for n in 0..N {
            let line = Line::of(form, operands.b, operands.sfb, n);
            for (row, value) in out.values.iter_mut().zip(line.values) {
                row[n] = value;
            }
            for group in 0..GROUPS {
                out.masks[group][n] = line.masks[group];
                (out.scales[group][n], out.exponents[group][n]) = line.scales[group];
            }
            out.nan[n] = line.nan;
        }
        out
    }
}

/// `D = A·B + C` where [`fits`] holds and terms are groups.
pub(super) fn mma_groups(model: Model, rule: &Rule, form: &MmaForm, operands: &Operands<'_>, d: &mut [u32]) {
    let columns = Columns::of(form, operands);
    // Both scales of a form have one format, and with it a number of fraction bits.
    let fraction = form.scale.map_or(0, |(format, _)| if format == Format::Ue4m3 { 3 } else { 0 });
    let (c_rows, _) = operands.c.as_chunks::<N>();
    let (d_rows, _) = d.as_chunks_mut::<N>();
    for (at, (c, out)) in c_rows.iter().zip(d_rows).take(form.shape.m).enumerate() {
        let row = Line::of(form, operands.a, operands.sfa, at);
        let addends = Addends::of(form.accumulator, c);
        let special = lanes(|n| row.nan | columns.nan[n] | (addends.high[n] == SPECIAL));
        *out = rule.output.of_doubles(&sums(rule, &row, &columns, &addends, 2 * fraction));
        if special.contains(&true) {
            for (column, slot) in out.iter_mut().enumerate().filter(|(column, _)| special[*column]) {
                *slot = mma_exact_at(model, form, at, column, operands, c[column]);
            }
        }
    }
}

/// The fused sums of four groups and C; a column with specials gives anything.
fn sums(rule: &Rule, row: &Line, columns: &Columns, addends: &Addends, fraction: i16) -> Lanes<f64> {
    let zero = rule.zero_exponent as i16;
    // Every other C stands above the place of a zero.
    let mut largest = lanes(|n| addends.high[n].max(zero));
    let mut lowest = addends.low;
    for group in 0..GROUPS {
        let alpha = row.scales[group].1;
        for n in 0..N {
            let exponent = alpha + columns.exponents[group][n];
            let there = row.masks[group] & columns.masks[group][n] != 0;
            largest[n] = largest[n].max(if there { exponent } else { zero });
            lowest[n] = lowest[n].min(exponent - fraction + PRODUCT_UNIT);
        }
    }
    let windows = lanes(|n| largest[n] - rule.fraction as i16);
    let dropped = (0..N).fold(false, |dropped, n| dropped | (windows[n] > lowest[n]));
    let mut sums = addends.values;
    if dropped {
        sums = lanes(|n| cut(sums[n], windows[n]));
    }
    for (group, dots) in row.dots(columns).iter().enumerate() {
        let alpha = row.scales[group].0;
        for n in 0..N {
            let term = f64::from(dots[n]) * (alpha * columns.scales[group][n]);
            sums[n] += if dropped { cut(term, windows[n]) } else { term };
        }
    }
    sums
}
