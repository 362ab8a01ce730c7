//! The grouped GEMM: the expected value of every element of its result.

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;

use super::epilogue::{Epilogue, Factor};
use super::expected::Expected;
use super::formats::{exp2, exponent};
use super::interval::Interval;
use super::line::Line;
use super::sum::{Extent, Sum, Unordered};
use crate::moe::case::FormatPair;
use crate::moe::contract::Accumulation;
use crate::moe::error::MoeError;
use crate::moe::suspicion::OtherScales;
use crate::moe::tensors::Array;

/// Rows and columns of one task.
const TASK_ROWS: usize = 64;
const TASK_COLS: usize = 128;

/// Operands of a grouped GEMM, as stored.
#[derive(Debug, Clone, Copy)]
pub struct Operands<'a> {
    /// Their formats.
    pub pair: FormatPair,
    /// Activations [R, bytes of K].
    pub codes: &'a Array<u8>,
    /// Their scales [R, blocks of K], if they have some.
    pub scales: Option<&'a Array<u8>>,
    /// Weights [E', N, bytes of K].
    pub weights: &'a Array<u8>,
    /// Their scales [E', N, blocks of K].
    pub weight_scales: &'a Array<u8>,
    /// The global scales of activations and of weights [E'], if the formats have some.
    pub globals: [Option<&'a Array<f32>>; 2],
    /// The global scales of rows of activations `[R]`, if tokens have some.
    pub token_scales: Option<&'a Array<f32>>,
    /// The bias of the epilogue [E', N].
    pub bias: Option<&'a Array<f32>>,
}

/// A grouped GEMM.
#[derive(Debug)]
pub struct Gemm<'a> {
    operands: Operands<'a>,
    accumulation: Accumulation,
    other_scales: OtherScales,
    /// The rows of one expert: the expert's index among the weights, and the row indices.
    groups: Vec<(usize, Vec<usize>)>,
    /// K and N.
    depth: usize,
    cols: usize,
}

/// The exact sum of a block's products.
#[inline]
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    // In parallel lanes, so that compilers vectorize them; exact, so that the order is free.
    let mut lanes = [0.0; 8];
    let (a8, a_rest) = a.as_chunks::<8>();
    let (b8, b_rest) = b.as_chunks::<8>();
    for (x, y) in a8.iter().zip(b8) {
        for lane in 0..8 {
            lanes[lane] += x[lane] * y[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    lanes.iter().sum::<f64>() + rest
}

/// The expected result of a row and a column.
#[must_use]
pub fn element(
    accumulation: &Accumulation,
    row: &Line,
    col: &Line,
    epilogue: impl Into<Epilogue>,
) -> Expected {
    let epilogue = epilogue.into();
    if row.nan || col.nan || epilogue.is_nan() {
        return Expected::Nan;
    }
    if row.infinite || epilogue.is_infinite() {
        return Expected::NotFinite;
    }
    let mut sum = Sum::new(accumulation);
    if accumulation.group > 1 {
        grouped(accumulation, row, col, &mut sum);
    } else {
        single(accumulation, row, col, &mut sum);
    }
    epilogue.apply(&mut sum);
    sum.expected()
}

/// Steps whose terms are products.
fn single(accumulation: &Accumulation, row: &Line, col: &Line, sum: &mut Sum) {
    let (chunk, block) = (accumulation.chunk, col.block);
    let steps = block / chunk;
    for (at_block, (sa, sb)) in row.scales.iter().zip(&col.scales).enumerate() {
        let power = sa.value * sb.value;
        for at in at_block * steps..(at_block + 1) * steps {
            let of = match (row.extents[at].scaled(sa), col.extents[at].scaled(sb)) {
                (a, b) if accumulation.scales_apart() || a.count.min(b.count) == 0 => a.times(b),
                (a, b) => folded(a, b, sum),
            };
            let (a, b) =
                (&row.values[at * chunk..(at + 1) * chunk], &col.values[at * chunk..(at + 1) * chunk]);
            match sum {
                Sum::Running(sum) => sum.step(dot(a, b) * power, of),
                Sum::Partials(sum) => sum.step(dot(a, b) * power, of),
                Sum::Unordered(sum) => {
                    let magnitude: f64 = a.iter().zip(b).map(|(x, y)| (x * y).abs()).sum();
                    sum.step(dot(a, b) * power, magnitude * power, of);
                }
            }
        }
    }
}

/// Steps whose terms are exact sums of groups, which only the scales' exponents align (4.9).
fn grouped(accumulation: &Accumulation, row: &Line, col: &Line, sum: &mut Sum) {
    let group = accumulation.group;
    let per_step = accumulation.chunk / group;
    let groups = row.extents.len();
    for first in (0..groups).step_by(per_step) {
        let (mut total, mut magnitude) = (0.0, 0.0);
        let mut of = Extent::NOTHING;
        for at in first..(first + per_step).min(groups) {
            let (a, b) = (row.extents[at], col.extents[at]);
            let block = at * group / col.block;
            let (sa, sb) = (row.scales[block], col.scales[block]);
            let power = sa.value * sb.value;
            if a.count.min(b.count) == 0 || power == 0.0 {
                continue;
            }
            let elements = at * group..(at + 1) * group;
            let term = dot(&row.values[elements.clone()], &col.values[elements]) * power;
            total += term;
            magnitude += term.abs();
            of.high = of.high.max(sa.high + sb.high);
            of.low = of.low.min(a.low + b.low + sa.low + sb.low);
            of.count += 1;
        }
        // Terms far apart do not add up exactly in doubles.
        if of.count > 0 && magnitude >= exp2(of.low + 53) {
            sum.lose(magnitude * exp2(-52));
        }
        match sum {
            Sum::Running(sum) => sum.step(total, of),
            Sum::Partials(sum) => sum.step(total, of),
            Sum::Unordered(sum) => sum.step(total, magnitude, of),
        }
    }
}

/// The result of a column with a row whose elements, block scales included, are anywhere in these intervals, in any order (8).
/// `col` must have been read for steps of its block.
#[must_use]
pub fn within(
    accumulation: &Accumulation,
    row: &[Interval],
    col: &Line,
    epilogue: impl Into<Epilogue>,
) -> Expected {
    /// Below this bit, or at this exponent, an operand that includes its scale may be lost or infinite (4.6).
    const LOWEST: i32 = -133;
    const ABOVE_LARGEST: i32 = 128;
    /// Far below every bit of a product: nothing counts as exact.
    const NO_UNIT: i32 = -1000;
    let epilogue = epilogue.into();
    if col.nan || epilogue.is_nan() {
        return Expected::Nan;
    }
    if epilogue.is_infinite() {
        return Expected::Open;
    }
    let block_len = col.block;
    let mut sum = Unordered::new(accumulation);
    let mut radius = 0.0;
    for (block, scale) in col.scales.iter().enumerate() {
        let of = block * block_len..(block + 1) * block_len;
        let (mut middle, mut magnitude, mut largest) = (0.0, 0.0, 0.0_f64);
        for (x, w) in row[of.clone()].iter().zip(&col.values[of]) {
            middle += f64::midpoint(x.lo, x.hi) * w;
            radius += (x.hi - x.lo) / 2.0 * w.abs() * scale.value;
            let most = x.magnitudes().1;
            magnitude += most * w.abs();
            largest = largest.max(most);
        }
        // An element counts with its own exponent or, if it or its scale is subnormal, with up to four more.
        let high = if largest == 0.0 { NO_UNIT } else { exponent(largest) + 4 };
        let of_col = col.element.largest_exponent() + scale.high + i32::from(!scale.is_power);
        if !accumulation.scales_apart()
            && (high.max(of_col) >= ABOVE_LARGEST
                || (magnitude > 0.0 && (high - 25).min(scale.low - 1) < LOWEST))
        {
            return Expected::Open;
        }
        let count = if magnitude > 0.0 && scale.value > 0.0 { block_len as u32 } else { 0 };
        let of = Extent { high: high + of_col, low: NO_UNIT, count };
        sum.step(middle * scale.value, magnitude * scale.value, of);
        for _ in 1..block_len / accumulation.chunk.min(block_len) {
            sum.step(0.0, 0.0, Extent::default());
        }
    }
    let mut sum = Sum::Unordered(sum);
    epilogue.apply(&mut sum);
    match sum.expected() {
        // The radius was added up in doubles.
        Expected::Number { value, error } => {
            Expected::number(value, error + epilogue.factor_magnitude() * radius * (1.0 + exp2(-20)))
        }
        other => other,
    }
}

/// Products of bf16 operands that include their scales (4.6): subnormal ones keep bf16's smallest exponent, and the bits below
/// its lowest bit, or all of a subnormal, may be lost. An operand above its largest number may be infinite: nothing is promised.
fn folded(a: Extent, b: Extent, sum: &mut Sum) -> Extent {
    const SMALLEST: i32 = -126;
    const LOWEST: i32 = -133;
    const ABOVE_LARGEST: i32 = 128;
    if a.high.max(b.high) >= ABOVE_LARGEST {
        sum.lose(f64::INFINITY);
    }
    let count = f64::from(a.count.min(b.count));
    for (lossy, other) in [(a, b), (b, a)] {
        if lossy.low < LOWEST {
            // The other factor is below twice the power of two of its nominal exponent.
            sum.lose(count * exp2(SMALLEST) * exp2(other.high.max(SMALLEST) + 1));
        }
    }
    let normal = |of: Extent| Extent { high: of.high.max(SMALLEST), ..of };
    normal(a).times(normal(b))
}

impl<'a> Gemm<'a> {
    /// Returns the GEMM of `operands`; `experts[r]` is the expert of row r, `index` the position of each expert's weights.
    ///
    /// # Errors
    /// [`MoeError::Invalid`] if the weights of an expert are missing.
    pub fn new(
        operands: Operands<'a>,
        accumulation: Accumulation,
        experts: &[usize],
        index: &HashMap<usize, usize>,
    ) -> Result<Self, MoeError> {
        let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut place: HashMap<usize, usize> = HashMap::new();
        for (row, expert) in experts.iter().enumerate() {
            let Some(weights) = index.get(expert) else {
                let message = format!("row {row} belongs to expert {expert}, whose weights are missing");
                return Err(MoeError::Invalid(message));
            };
            let at = *place.entry(*expert).or_insert_with(|| {
                groups.push((*weights, Vec::new()));
                groups.len() - 1
            });
            groups[at].1.push(row);
        }
        let shape = |array: &Array<u8>, axis: usize| array.shape.get(axis).copied().unwrap_or(0);
        let bits = operands.pair.activation().element().bits();
        let (depth, cols) = (shape(operands.codes, 1) * 8 / bits, shape(operands.weights, 1));
        Ok(Self { operands, accumulation, other_scales: OtherScales::Neither, groups, depth, cols })
    }

    /// Returns the GEMM of a kernel that reads the scales of these operands as the other type.
    #[must_use]
    pub fn reading(self, other_scales: OtherScales) -> Self {
        Self { other_scales, ..self }
    }

    /// Columns N.
    #[must_use]
    pub const fn cols(&self) -> usize {
        self.cols
    }

    /// Blocks of K.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        self.depth / self.operands.pair.block()
    }

    /// K.
    #[must_use]
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// The groups of rows: the position of their expert's weights, and the row indices.
    #[must_use]
    pub fn groups(&self) -> &[(usize, Vec<usize>)] {
        &self.groups
    }

    /// Row `at` of the activations.
    #[must_use]
    pub fn row(&self, at: usize) -> Line {
        let Operands { pair, codes, scales, .. } = self.operands;
        let mut line = Line::default();
        let scales = scales.map_or(&[][..], |scales| scales.row(at));
        line.read(pair.activation(), pair.block(), codes.row(at), scales, self.accumulation.width());
        let [of_activations, _] = self.other_scales.operands();
        if let Some(scale) = pair.activation().scale().filter(|_| of_activations) {
            line.reread_scales(scale, scales);
        }
        line
    }

    /// The global scale of row `at` of the activations, if tokens have one.
    #[must_use]
    pub fn token_scale(&self, at: usize) -> Option<f32> {
        self.operands.token_scales.and_then(|scales| scales.data.get(at).copied())
    }

    /// Reads column `col` of the expert whose weights are at `expert`; returns the operations on its sums in every row.
    pub fn col(&self, expert: usize, col: usize, line: &mut Line) -> Epilogue {
        let at = expert * self.cols + col;
        let Operands { pair, weights, weight_scales, bias, globals, .. } = self.operands;
        line.read(
            pair.weight(),
            pair.block(),
            weights.row(at),
            weight_scales.row(at),
            self.accumulation.width(),
        );
        let [_, of_weights] = self.other_scales.operands();
        if let Some(scale) = pair.weight().scale().filter(|_| of_weights) {
            line.reread_scales(scale, weight_scales.row(at));
        }
        let of = |array: Option<&Array<f32>>, at: usize| array.and_then(|a| a.data.get(at).copied());
        Epilogue {
            factor: Factor::from_globals(globals.map(|global| of(global, expert))),
            bias: of(bias, at),
        }
    }

    /// Runs `each` over every element, as (state, row, column, expected), in parallel tasks; states are joined by
    /// `join` in an order that does not depend on the machine.
    pub fn fold<T: Default + Send>(
        &self,
        each: impl Fn(&mut T, usize, usize, &Expected) + Sync,
        join: impl Fn(T, T) -> T,
    ) -> T {
        let mut tasks: Vec<(usize, &[usize], Range<usize>)> = Vec::new();
        for (weights, rows) in &self.groups {
            for rows in rows.chunks(TASK_ROWS) {
                for first in (0..self.cols).step_by(TASK_COLS) {
                    tasks.push((*weights, rows, first..(first + TASK_COLS).min(self.cols)));
                }
            }
        }
        let states: Vec<T> = tasks
            .into_par_iter()
            .map(|(weights, rows, cols)| {
                let mut state = T::default();
                let lines: Vec<(Line, Option<f32>)> =
                    rows.iter().map(|row| (self.row(*row), self.token_scale(*row))).collect();
                let mut column = Line::default();
                for col in cols {
                    let epilogue = self.col(weights, col, &mut column);
                    for (row, (line, scale)) in rows.iter().zip(&lines) {
                        let expected = element(&self.accumulation, line, &column, epilogue.of_row(*scale));
                        each(&mut state, *row, col, &expected);
                    }
                }
                state
            })
            .collect();
        states.into_iter().fold(T::default(), join)
    }
}
