//! Witness coverage: which bytes of a GEMM's inputs could not change by one unnoticed (docs/numerics.md, 7).
//!
//! From the reference's sums, without running anything: a change of a scale byte or a code by ±1 moves every sum it is in
//! by a known amount, and is noticed where that moves a stored bf16 out of what its bound allows.

mod flags;
pub mod single_byte;

use std::collections::HashMap;

use rayon::prelude::*;

use self::flags::{BOTH, DOWN, Moves, UP};
use super::contract::Accumulation;
use super::dims::{BLOCK, Dims};
use super::error::MoeError;
use super::problem::Problem;
use super::reference::expected::Expected;
use super::reference::formats::{bf16, e2m1, e4m3, exp2};
use super::reference::gemm::{Gemm, Line, Operands, element};
use super::reference::{quantize, route};
use super::tensors::Array;
use crate::case::BiasPlace;

/// Columns of one task.
const TASK_COLS: usize = 64;

/// Which inputs of one GEMM have a witness, for a change of +1 and of −1, by place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// The experts whose weights these are.
    experts: Vec<usize>,
    weight_scales: Vec<u8>,
    weight_codes: Vec<u8>,
    scales: Vec<u8>,
    codes: Vec<u8>,
}

/// A share of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Places both of whose changes are noticed.
    pub witnessed: usize,
    /// All places.
    pub total: usize,
}

impl Share {
    fn of(flags: &[u8]) -> Self {
        Self { witnessed: flags.iter().filter(|f| **f & BOTH == BOTH).count(), total: flags.len() }
    }

    /// Whether no place is without a witness. Of no places at all, that cannot be said.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.total > 0 && self.witnessed == self.total
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = if self.total == 0 { 0.0 } else { 100.0 * self.witnessed as f64 / self.total as f64 };
        write!(f, "{percent:.2} % of {}", self.total)
    }
}

impl Coverage {
    /// The shares, by what the bytes are.
    #[must_use]
    pub fn shares(&self) -> [(&'static str, Share); 4] {
        [
            ("weight scales", Share::of(&self.weight_scales)),
            ("weight codes", Share::of(&self.weight_codes)),
            ("activation scales", Share::of(&self.scales)),
            ("activation codes", Share::of(&self.codes)),
        ]
    }

    /// Whether every byte has a witness.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.shares().iter().all(|(_, share)| share.is_whole())
    }

    /// Takes the witnesses of another case of the same dimensions and routing.
    ///
    /// # Errors
    /// [`MoeError::Invalid`] when the cases cannot be compared place by place.
    pub fn join(&mut self, other: &Self) -> Result<(), MoeError> {
        let lengths = |c: &Self| [c.weight_scales.len(), c.weight_codes.len(), c.scales.len(), c.codes.len()];
        if self.experts != other.experts || lengths(self) != lengths(other) {
            let message =
                "coverage can be joined only over cases with equal dimensions and routing".to_owned();
            return Err(MoeError::Invalid(message));
        }
        for (mine, theirs) in [
            (&mut self.weight_scales, &other.weight_scales),
            (&mut self.weight_codes, &other.weight_codes),
            (&mut self.scales, &other.scales),
            (&mut self.codes, &other.codes),
        ] {
            mine.iter_mut().zip(theirs).for_each(|(a, b)| *a |= b);
        }
        Ok(())
    }
}

/// Coverage of both GEMMs of a problem, the second one's where its input is injected.
///
/// # Errors
/// [`MoeError::Missing`] when `problem` was not made by [`super::problem::generate`].
pub fn witness(
    problem: &Problem,
    fc1: Accumulation,
    fc2: Accumulation,
) -> Result<(Coverage, Option<Coverage>), MoeError> {
    let Dims { hidden, experts, top_k, .. } = problem.dims;
    let inputs = &problem.inputs;
    let states = there(&inputs.hidden_states, "hidden_states")?;
    let logits = there(&inputs.router_logits, "router_logits")?;
    let ids = there(&inputs.expert_ids, "expert_ids")?;
    let choices: Vec<Vec<usize>> = logits.data.chunks(experts).map(|row| route::top_k(row, top_k)).collect();
    let rows = route::permute(&choices);
    let row_experts: Vec<usize> = rows.iter().map(|r| r.expert).collect();
    let index: HashMap<usize, usize> = ids.data.iter().enumerate().map(|(at, e)| (*e as usize, at)).collect();

    let mut codes = Vec::with_capacity(rows.len() * hidden);
    let mut scales = Vec::with_capacity(rows.len() * hidden / BLOCK);
    for row in &rows {
        for block in states.row(row.token).chunks(BLOCK) {
            let values: Vec<f64> = block.iter().map(|x| bf16(*x)).collect();
            let (scale, elements) = quantize::block(problem.settings.scale_rule, &values);
            scales.push(scale);
            codes.extend(elements);
        }
    }
    let a1 = Array::new("a1_codes", &[rows.len(), hidden], codes)?;
    let a1_scales = Array::new("a1_scales", &[rows.len(), hidden / BLOCK], scales)?;
    let epilogue = |place, bias| if place == BiasPlace::Epilogue { bias } else { None };
    let operands = Operands {
        codes: &a1,
        scales: &a1_scales,
        weights: there(&inputs.w13_blocks, "w13_blocks")?,
        weight_scales: there(&inputs.w13_scales, "w13_scales")?,
        bias: epilogue(problem.settings.fc1_bias, inputs.w13_bias.as_ref()),
    };
    let first = of_gemm(operands, fc1, &row_experts, &index)?;
    let Some(a2) = &problem.injected_a2 else { return Ok((first, None)) };
    let operands = Operands {
        codes: &a2.codes,
        scales: &a2.scales,
        weights: there(&inputs.w2_blocks, "w2_blocks")?,
        weight_scales: there(&inputs.w2_scales, "w2_scales")?,
        bias: epilogue(problem.settings.fc2_bias, inputs.w2_bias.as_ref()),
    };
    Ok((first, Some(of_gemm(operands, fc2, &row_experts, &index)?)))
}

fn there<'a, T>(tensor: &'a Option<Array<T>>, name: &'static str) -> Result<&'a Array<T>, MoeError> {
    tensor
        .as_ref()
        .ok_or_else(|| MoeError::Missing { name, why: "coverage needs the whole problem".to_owned() })
}

/// Coverage of one GEMM.
///
/// # Errors
/// [`MoeError::Invalid`] when the weights of a row's expert are not there.
pub fn of_gemm(
    operands: Operands<'_>,
    accumulation: Accumulation,
    experts: &[usize],
    index: &HashMap<usize, usize>,
) -> Result<Coverage, MoeError> {
    let gemm = Gemm::new(operands, accumulation, experts, index)?;
    let (cols, blocks) = (gemm.cols(), gemm.blocks());
    let depth = blocks * BLOCK;
    let mut present: Vec<usize> = index.keys().copied().collect();
    present.sort_unstable();
    let mut out = Coverage {
        experts: present,
        weight_scales: vec![0; cols * blocks * index.len()],
        weight_codes: vec![0; cols * depth * index.len()],
        scales: vec![0; experts.len() * blocks],
        codes: vec![0; experts.len() * depth],
    };
    for (weights, rows) in gemm.groups() {
        let group = Group {
            gemm: &gemm,
            operands: &operands,
            accumulation,
            weights: *weights,
            rows,
            lines: rows.iter().map(|row| gemm.row(*row)).collect(),
        };
        let tasks: Vec<usize> = (0..cols).step_by(TASK_COLS).collect();
        let found: Vec<(Vec<Column>, Rows)> =
            tasks.par_iter().map(|first| group.columns(*first..(*first + TASK_COLS).min(cols))).collect();
        let mut col = weights * cols;
        for (columns, of_rows) in found {
            for column in columns {
                out.weight_scales[col * blocks..(col + 1) * blocks].copy_from_slice(&column.scales);
                out.weight_codes[col * depth..(col + 1) * depth].copy_from_slice(&column.codes);
                col += 1;
            }
            for (at, row) in rows.iter().enumerate() {
                let or = |to: &mut [u8], from: &[u8]| to.iter_mut().zip(from).for_each(|(a, b)| *a |= b);
                or(
                    &mut out.scales[row * blocks..(row + 1) * blocks],
                    &of_rows.scales[at * blocks..(at + 1) * blocks],
                );
                or(
                    &mut out.codes[row * depth..(row + 1) * depth],
                    &of_rows.codes[at * depth..(at + 1) * depth],
                );
            }
        }
    }
    Ok(out)
}

/// Flags of one column of weights.
struct Column {
    scales: Vec<u8>,
    codes: Vec<u8>,
}

/// Flags of the activations of a group's rows.
struct Rows {
    scales: Vec<u8>,
    codes: Vec<u8>,
}

/// The rows of one expert.
struct Group<'a> {
    gemm: &'a Gemm<'a>,
    operands: &'a Operands<'a>,
    accumulation: Accumulation,
    weights: usize,
    rows: &'a [usize],
    lines: Vec<Line>,
}

impl Group<'_> {
    fn columns(&self, range: std::ops::Range<usize>) -> (Vec<Column>, Rows) {
        let (blocks, n) = (self.gemm.blocks(), self.rows.len());
        let depth = blocks * BLOCK;
        let mut of_rows = Rows { scales: vec![0; n * blocks], codes: vec![0; n * depth] };
        let mut columns = Vec::new();
        let mut line = Line::default();
        for col in range {
            let bias = self.gemm.col(self.weights, col, &mut line);
            let place = self.weights * self.gemm.cols() + col;
            let weight_scales = self.operands.weight_scales.row(place);
            let weight_codes = self.operands.weights.row(place);
            let mut column = Column { scales: vec![0; blocks], codes: vec![0; depth] };
            for (at, (row, of)) in self.rows.iter().zip(&self.lines).enumerate() {
                let Expected::Number { value, error } = element(&self.accumulation, of, &line, bias) else {
                    continue;
                };
                let moves = Moves::new(value, error);
                let (scales, codes) = (self.operands.scales.row(*row), self.operands.codes.row(*row));
                let of_scales = &mut of_rows.scales[at * blocks..(at + 1) * blocks];
                let of_codes = &mut of_rows.codes[at * depth..(at + 1) * depth];
                for block in 0..blocks {
                    let dot = of.block_dot(&line, block);
                    // A scale that is one more doubles the block, one less halves it.
                    let seen = moves.seen(dot, UP) | moves.seen(-dot / 2.0, DOWN);
                    column.scales[block] |= seen | ends(weight_scales[block]);
                    of_scales[block] |= seen | ends(scales[block]);
                    let power = exp2(of.scales[block] + line.scales[block]);
                    for k in block * BLOCK..(block + 1) * BLOCK {
                        let (a, w) = (of.values[k], line.values[k]);
                        if column.codes[k] != BOTH {
                            let code = weight_codes[k / 2] >> (4 * (k % 2)) & 15;
                            let delta = |to: u8| a * (e2m1(to) - w) * power;
                            column.codes[k] |= moves.seen(delta(code.wrapping_add(1) & 15), UP)
                                | moves.seen(delta(code.wrapping_sub(1) & 15), DOWN);
                        }
                        if of_codes[k] != BOTH {
                            let code = codes[k];
                            let delta = |to: u8| (e4m3(to) - a) * w * power;
                            of_codes[k] |= moves.seen(delta(code.wrapping_add(1)), UP)
                                | moves.seen(delta(code.wrapping_sub(1)), DOWN);
                        }
                    }
                }
            }
            columns.push(column);
        }
        (columns, of_rows)
    }
}

/// What goes without saying at the ends of the range of scales: there is nothing below 0, and above 0xFE is NaN.
const fn ends(scale: u8) -> u8 {
    match scale {
        0 => DOWN,
        0xFE => UP,
        _ => 0,
    }
}
