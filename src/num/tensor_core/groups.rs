//! The fused sum of groups of e2m1 products on integers: exact, and equal to the definition.

use super::decoded::SPECIAL;
use super::exact::mma_exact_at;
use super::fast::{N, decode_addend};
use super::{MmaForm, Model, Operands, Rule};
use crate::num::format::{Format, Parts, power_of_two};

/// Products of a group.
const SIZE: usize = 16;
/// Groups of a sum.
const GROUPS: usize = 4;
const K: usize = SIZE * GROUPS;

/// The place of the lowest bit of an e2m1 product.
const PRODUCT_UNIT: i32 = -2;

/// Twice the value of each e2m1 code.
const DOUBLED: [i16; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// A scale: `significand · 2^(exponent − fraction)`.
#[derive(Clone, Copy)]
struct Scale {
    significand: i64,
    exponent: i32,
    fraction: i32,
}

/// The elements of a row or column that are not zero, one bit each, by group.
type Mask = [u16; GROUPS];

/// A row of A or a column of B.
struct Line {
    values: [i16; K],
    mask: Mask,
    scales: [Scale; GROUPS],
    nan: bool,
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
        let mut line = Self {
            values: [0; K],
            mask: [0; GROUPS],
            scales: [Scale { significand: 0, exponent: 0, fraction: 0 }; GROUPS],
            nan: false,
        };
        for (value, code) in line.values.iter_mut().zip(&codes[at * K..]) {
            *value = DOUBLED[*code as usize & 0xF];
        }
        for (mask, values) in line.mask.iter_mut().zip(line.values.chunks(SIZE)) {
            for (bit, value) in values.iter().enumerate() {
                *mask |= u16::from(*value != 0) << bit;
            }
        }
        let Some((format, chunks)) = form.scale else { return line };
        let chunks = chunks as usize;
        for (group, slot) in line.scales.iter_mut().enumerate() {
            match format.parts(scales[at * chunks + group * chunks / GROUPS]) {
                Parts::Finite { significand, exponent, fraction, .. } => {
                    *slot = Scale {
                        significand: i64::from(significand),
                        exponent,
                        fraction: fraction.cast_signed(),
                    };
                }
                Parts::Nan | Parts::Infinite { .. } => line.nan = true,
            }
        }
        line
    }
}

/// `D = A·B + C` where [`fits`] holds and terms are groups.
pub(super) fn mma_groups(model: Model, rule: &Rule, form: &MmaForm, operands: &Operands<'_>, d: &mut [u32]) {
    let columns: [Line; N] = std::array::from_fn(|n| Line::of(form, operands.b, operands.sfb, n));
    let mut by_k = [[0; N]; K];
    for (n, column) in columns.iter().enumerate() {
        for (row, value) in by_k.iter_mut().zip(column.values) {
            row[n] = value;
        }
    }
    let (c_rows, _) = operands.c.as_chunks::<N>();
    let (d_rows, _) = d.as_chunks_mut::<N>();
    for (at, (c, out)) in c_rows.iter().zip(d_rows).take(form.shape.m).enumerate() {
        let row = Line::of(form, operands.a, operands.sfa, at);
        let dots = group_dots(&row.values, &by_k);
        for (n, slot) in out.iter_mut().enumerate() {
            let column = &columns[n];
            let addend = decode_addend(form.accumulator, c[n]);
            *slot = if row.nan || column.nan || addend.high == SPECIAL {
                mma_exact_at(model, form, at, n, operands, c[n])
            } else {
                let dots = std::array::from_fn(|group| dots[group][n]);
                let addend = (addend.value, i32::from(addend.high));
                rule.output.of_double(sum(rule, &row, column, dots, addend))
            };
        }
    }
}

/// The exact dot product of every group and column, in quarters: at most 16 · 144.
fn group_dots(row: &[i16; K], by_k: &[[i16; N]; K]) -> [[i16; N]; GROUPS] {
    let mut dots = [[0; N]; GROUPS];
    for ((dots, row), by_k) in dots.iter_mut().zip(row.chunks(SIZE)).zip(by_k.chunks(SIZE)) {
        for (value, others) in row.iter().zip(by_k) {
            for (dot, other) in dots.iter_mut().zip(others) {
                *dot += value * other;
            }
        }
    }
    dots
}

/// The fused sum of four groups and C.
fn sum(rule: &Rule, row: &Line, column: &Line, dots: [i16; GROUPS], (c, c_exponent): (f64, i32)) -> f64 {
    let mut largest = if c == 0.0 { rule.zero_exponent } else { c_exponent };
    let mut terms = [(0i64, 0i32); GROUPS];
    for (group, term) in terms.iter_mut().enumerate() {
        let (alpha, beta) = (row.scales[group], column.scales[group]);
        let scale = alpha.significand * beta.significand;
        let exponent = alpha.exponent + beta.exponent;
        let nothing = scale == 0 || row.mask[group] & column.mask[group] == 0;
        largest = largest.max(if nothing { rule.zero_exponent } else { exponent });
        let unit = exponent - alpha.fraction - beta.fraction + PRODUCT_UNIT;
        *term = (i64::from(dots[group]) * scale, unit);
    }
    let window = largest - rule.fraction;
    let mut total = 0;
    for (significand, unit) in terms {
        let shift = unit - window;
        total += match shift {
            0.. if significand != 0 => significand << shift,
            -62..0 => significand / (1 << -shift),
            _ => 0,
        };
    }
    // Conversion to an integer cuts toward zero; a term is far below 2^63 windows.
    total += (c * power_of_two(-window)) as i64;
    total as f64 * power_of_two(window)
}
