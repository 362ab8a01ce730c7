//! The grouped GEMM: what every element of its result should be.

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;

use super::expected::Expected;
use super::formats::{e4m3, exp2, exponent};
use super::interval::Interval;
use super::sum::{Extent, Sum, Unordered};
use crate::moe::contract::Accumulation;
use crate::moe::dims::BLOCK;
use crate::moe::error::MoeError;
use crate::moe::tensors::Array;

/// Rows and columns of one task.
const TASK_ROWS: usize = 64;
const TASK_COLS: usize = 128;

/// Operands of a grouped GEMM, as they are stored.
#[derive(Debug, Clone, Copy)]
pub struct Operands<'a> {
    /// e4m3 [R, K].
    pub codes: &'a Array<u8>,
    /// Their scales [R, K/32].
    pub scales: &'a Array<u8>,
    /// e2m1 [E', N, K/2].
    pub weights: &'a Array<u8>,
    /// Their scales [E', N, K/32].
    pub weight_scales: &'a Array<u8>,
    /// A bias of the epilogue [E', N].
    pub bias: Option<&'a Array<f32>>,
}

/// A grouped GEMM.
#[derive(Debug)]
pub struct Gemm<'a> {
    operands: Operands<'a>,
    accumulation: Accumulation,
    /// Rows of one expert: the expert's index among the weights, and which rows.
    groups: Vec<(usize, Vec<usize>)>,
    /// K and N.
    depth: usize,
    cols: usize,
}

/// A row of activations or a column of weights, decoded.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// Values without their scales.
    pub values: Vec<f64>,
    /// Exponents of the scales, by block; none where the scale is NaN.
    pub scales: Vec<i32>,
    /// Extents without scales, by steps.
    extents: Vec<Extent>,
    /// Whether a scale or an element is NaN.
    pub nan: bool,
}

/// What a magnitude code of e2m1 adds to an extent: nominal exponent and lowest bit. Its one subnormal, 0.5, counts as 2^0.
const E2M1_EXTENTS: [(i32, i32); 8] = [(0, 0), (0, -1), (0, 0), (0, -1), (1, 1), (1, 0), (2, 2), (2, 1)];

impl Line {
    /// A row of e4m3 and its scales, for steps of `chunk` products.
    pub fn read_e4m3(&mut self, codes: &[u8], scales: &[u8], chunk: usize) {
        self.read_scales(scales);
        self.values.clear();
        self.values.extend(codes.iter().map(|c| e4m3(*c)));
        self.nan |= self.values.iter().any(|x| x.is_nan());
        self.extents.clear();
        self.extents.extend(codes.chunks(chunk).map(|codes| {
            let mut of = Extent { high: i32::MIN / 4, low: i32::MAX / 4, count: 0 };
            for code in codes.iter().filter(|c| *c & 0x7F != 0) {
                // Subnormals keep the exponent of the smallest normal number (docs/numerics.md, 4.1).
                of.high = of.high.max(exponent(e4m3(*code).abs()).max(-6));
                let (field, mantissa) = (i32::from(code >> 3 & 0xF), i32::from(code & 7));
                let significand = if field == 0 { mantissa } else { 8 + mantissa };
                of.low = of.low.min(field.max(1) - 10 + significand.trailing_zeros() as i32);
                of.count += 1;
            }
            of
        }));
    }

    /// A column of e2m1, two in a byte, and its scales.
    pub fn read_e2m1(&mut self, bytes: &[u8], scales: &[u8], chunk: usize) {
        self.read_scales(scales);
        self.values.clear();
        self.values.extend(bytes.iter().flat_map(|b| PAIRS[usize::from(*b)]));
        self.extents.clear();
        if chunk == 1 {
            let codes = bytes.iter().flat_map(|b| [b & 7, b >> 4 & 7]);
            self.extents.extend(codes.map(|c| extent(1 << c, u32::from(c != 0))));
            return;
        }
        self.extents.extend(bytes.chunks(chunk / 2).map(|bytes| {
            let (seen, zeros) = bytes.iter().fold((0, 0), |(seen, zeros), b| {
                let (low, high) = (b & 7, b >> 4 & 7);
                (seen | 1_u32 << low | 1 << high, zeros + u32::from(low == 0) + u32::from(high == 0))
            });
            extent(seen, 2 * bytes.len() as u32 - zeros)
        }));
    }

    fn read_scales(&mut self, scales: &[u8]) {
        self.scales.clear();
        self.scales.extend(scales.iter().map(|s| i32::from(*s) - 127));
        self.nan = scales.contains(&0xFF);
    }

    /// The sum of the products of block `at`, scales included; exact.
    #[must_use]
    pub fn block_dot(&self, other: &Self, at: usize) -> f64 {
        let of = at * BLOCK..(at + 1) * BLOCK;
        dot(&self.values[of.clone()], &other.values[of]) * exp2(self.scales[at] + other.scales[at])
    }
}

/// Every byte of two e2m1, decoded.
const PAIRS: [[f64; 2]; 256] = {
    const MAGNITUDES: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    const fn value(code: usize) -> f64 {
        if code & 8 == 0 { MAGNITUDES[code & 7] } else { -MAGNITUDES[code & 7] }
    }
    let mut table = [[0.0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = [value(byte & 15), value(byte >> 4)];
        byte += 1;
    }
    table
};

/// Of magnitude codes, one bit each.
fn extent(seen: u32, count: u32) -> Extent {
    let mut of = Extent { high: i32::MIN / 4, low: i32::MAX / 4, count };
    for (code, (high, low)) in E2M1_EXTENTS.iter().enumerate().skip(1) {
        if seen >> code & 1 == 1 {
            of.high = of.high.max(*high);
            of.low = of.low.min(*low);
        }
    }
    of
}

/// The exact sum of products: 32 multiples of 2^-10 below 2^12 each.
#[inline]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Side by side, so that compilers make vectors of them; exact, so that the order is free.
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

/// What a row and a column should give.
#[must_use]
pub fn element(accumulation: &Accumulation, row: &Line, col: &Line, bias: Option<f32>) -> Expected {
    if row.nan || col.nan || bias.is_some_and(f32::is_nan) {
        return Expected::Nan;
    }
    let chunk = accumulation.chunk;
    let steps = BLOCK / chunk;
    let mut sum = Sum::new(accumulation);
    for (block, (sa, sb)) in row.scales.iter().zip(&col.scales).enumerate() {
        let shift = sa + sb;
        let power = exp2(shift);
        for at in block * steps..(block + 1) * steps {
            let of = match (row.extents[at].scaled(*sa), col.extents[at].scaled(*sb)) {
                (a, b) if chunk == BLOCK || a.count.min(b.count) == 0 => a.times(b),
                (a, b) => folded(a, b, &mut sum),
            };
            let (a, b) =
                (&row.values[at * chunk..(at + 1) * chunk], &col.values[at * chunk..(at + 1) * chunk]);
            match &mut sum {
                Sum::Running(sum) => sum.step(dot(a, b) * power, of),
                Sum::Partials(sum) => sum.step(dot(a, b) * power, of),
                Sum::Unordered(sum) => {
                    let magnitude: f64 = a.iter().zip(b).map(|(x, y)| (x * y).abs()).sum();
                    sum.step(dot(a, b) * power, magnitude * power, of);
                }
            }
        }
    }
    if let Some(bias) = bias {
        sum.add(f64::from(bias));
    }
    sum.expected()
}

/// What a column gives with a row whose elements, scales included, are anywhere in these intervals, in any order (8). `col` was
/// read for steps of 32.
#[must_use]
pub fn within(accumulation: &Accumulation, row: &[Interval], col: &Line, bias: Option<f32>) -> Expected {
    /// Below this bit, or at this exponent, an operand that holds its scale may be lost or infinite (4.6).
    const LOWEST: i32 = -133;
    const ABOVE_LARGEST: i32 = 128;
    /// Far below every bit of a product: nothing is taken as exact.
    const NO_UNIT: i32 = -1000;
    if col.nan || bias.is_some_and(f32::is_nan) {
        return Expected::Nan;
    }
    let mut sum = Unordered::new(accumulation);
    let mut radius = 0.0;
    for (block, scale) in col.scales.iter().enumerate() {
        let of = block * BLOCK..(block + 1) * BLOCK;
        let power = exp2(*scale);
        let (mut middle, mut magnitude, mut largest) = (0.0, 0.0, 0.0_f64);
        for (x, w) in row[of.clone()].iter().zip(&col.values[of]) {
            middle += f64::midpoint(x.lo, x.hi) * w;
            radius += (x.hi - x.lo) / 2.0 * w.abs() * power;
            let most = x.magnitudes().1;
            magnitude += most * w.abs();
            largest = largest.max(most);
        }
        // e2m1 counts with 2^2 at most, e4m3 with the exponent of its magnitude or, where it is subnormal, up to three more.
        let high = if largest == 0.0 { NO_UNIT } else { exponent(largest) + 3 };
        let folded = accumulation.chunk != BLOCK;
        if folded
            && (high.max(scale + 2) >= ABOVE_LARGEST
                || (magnitude > 0.0 && (high - 24).min(scale - 1) < LOWEST))
        {
            return Expected::Open;
        }
        let count = if magnitude > 0.0 { BLOCK as u32 } else { 0 };
        sum.step(middle * power, magnitude * power, Extent { high: high + scale + 2, low: NO_UNIT, count });
        for _ in 1..BLOCK / accumulation.chunk {
            sum.step(0.0, 0.0, Extent::default());
        }
    }
    if let Some(bias) = bias {
        sum.add(f64::from(bias));
    }
    match sum.expected() {
        // The radius was added up in doubles.
        Expected::Number { value, error } => Expected::number(value, error + radius * (1.0 + exp2(-40))),
        other => other,
    }
}

/// Products of bf16 operands that hold their scales (4.6): subnormal ones keep bf16's smallest exponent, and what lies below
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
            // The other factor is below twice its nominal exponent's power.
            sum.lose(count * exp2(SMALLEST) * exp2(other.high.max(SMALLEST) + 1));
        }
    }
    let normal = |of: Extent| Extent { high: of.high.max(SMALLEST), ..of };
    normal(a).times(normal(b))
}

impl<'a> Gemm<'a> {
    /// The GEMM of `operands`; `experts[r]` is the expert of row r, `index` where each expert's weights are.
    ///
    /// # Errors
    /// [`MoeError::Invalid`] when the weights of an expert are not there.
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
        let (depth, cols) = (shape(operands.codes, 1), shape(operands.weights, 1));
        Ok(Self { operands, accumulation, groups, depth, cols })
    }

    /// Columns N.
    #[must_use]
    pub const fn cols(&self) -> usize {
        self.cols
    }

    /// Blocks of K.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        self.depth / BLOCK
    }

    /// The groups of rows: where their expert's weights are, and which rows.
    #[must_use]
    pub fn groups(&self) -> &[(usize, Vec<usize>)] {
        &self.groups
    }

    /// Row `at` of the activations.
    #[must_use]
    pub fn row(&self, at: usize) -> Line {
        let mut line = Line::default();
        line.read_e4m3(self.operands.codes.row(at), self.operands.scales.row(at), self.accumulation.chunk);
        line
    }

    /// Column `col` of the expert whose weights are at `expert`, and its bias.
    pub fn col(&self, expert: usize, col: usize, line: &mut Line) -> Option<f32> {
        let at = expert * self.cols + col;
        line.read_e2m1(
            self.operands.weights.row(at),
            self.operands.weight_scales.row(at),
            self.accumulation.chunk,
        );
        self.operands.bias.and_then(|b| b.data.get(at).copied())
    }

    /// Runs `each` over every element, as (state, row, column, expected), in parallel by tasks; states are joined by
    /// `join`, in an order that does not depend on the machine.
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
                let lines: Vec<Line> = rows.iter().map(|row| self.row(*row)).collect();
                let mut column = Line::default();
                for col in cols {
                    let bias = self.col(weights, col, &mut column);
                    for (row, line) in rows.iter().zip(&lines) {
                        each(&mut state, *row, col, &element(&self.accumulation, line, &column, bias));
                    }
                }
                state
            })
            .collect();
        states.into_iter().fold(T::default(), join)
    }
}
