//! Fault coverage: which bytes of a GEMM's inputs could not change by one without being detected (docs/numerics.md, 7).
//!
//! Computed from the reference's sums, without running anything: a change of a scale byte or a code by ±1 moves every sum that it
//! contributes to by a known amount, and is detected if that moves a stored bf16 out of its bound.

mod flags;
pub mod single_byte;

use std::collections::HashMap;

use rayon::prelude::*;

use self::flags::{BOTH, DOWN, Moves, UP};
use super::contract::Accumulation;
use super::dims::Dims;
use super::error::MoeError;
use super::format::Element;
use super::problem::Problem;
use super::reference::expected::Expected;
use super::reference::formats::bf16;
use super::reference::gemm::{Gemm, Operands, element};
use super::reference::line::Line;
use super::reference::route;
use super::reference::token_scale;
use super::tensors::Array;
use crate::moe::case::{BiasPlace, Format};

/// Columns of one task.
const TASK_COLS: usize = 64;

/// Which inputs of one GEMM have a witness (a sum that exposes the change), for changes of +1 and −1, by place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// The experts that the weights belong to.
    experts: Vec<usize>,
    weight_scales: Vec<u8>,
    weight_codes: Vec<u8>,
    scales: Vec<u8>,
    codes: Vec<u8>,
}

/// A share of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Places where both changes are detected.
    pub witnessed: usize,
    /// All places.
    pub total: usize,
}

impl Share {
    fn from_flags(flags: &[u8]) -> Self {
        Self { witnessed: flags.iter().filter(|f| **f & BOTH == BOTH).count(), total: flags.len() }
    }

    /// Whether every place has a witness; false if there are no places.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.total > 0 && self.witnessed == self.total
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rounded down: only all places are 100 %.
        let hundredths = (10_000 * self.witnessed).checked_div(self.total).unwrap_or(0);
        write!(f, "{}.{:02} % of {}", hundredths / 100, hundredths % 100, self.total)
    }
}

impl Coverage {
    /// The shares, by kind of byte.
    #[must_use]
    pub fn shares(&self) -> [(&'static str, Share); 4] {
        [
            ("weight scales", Share::from_flags(&self.weight_scales)),
            ("weight codes", Share::from_flags(&self.weight_codes)),
            ("activation scales", Share::from_flags(&self.scales)),
            ("activation codes", Share::from_flags(&self.codes)),
        ]
    }

    /// Whether every byte has a witness.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        // bf16 activations have no scales.
        self.shares().iter().all(|(_, share)| share.is_whole() || share.total == 0) && !self.codes.is_empty()
    }

    /// Adds the witnesses of another case of the same dimensions and routing.
    ///
    /// # Errors
    /// [`MoeError::Invalid`] if the cases cannot be compared place by place.
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

/// Returns the coverage of both GEMMs of a problem; that of the second one if its input is injected.
///
/// # Errors
/// [`MoeError::Missing`] if `problem` was not made by [`super::problem::generate`].
pub fn witness(
    problem: &Problem,
    fc1: Accumulation,
    fc2: Accumulation,
) -> Result<(Coverage, Option<Coverage>), MoeError> {
    let Dims { hidden, .. } = problem.dims;
    let inputs = &problem.inputs;
    let states = there(&inputs.hidden_states, "hidden_states")?;
    let logits = there(&inputs.router_logits, "router_logits")?;
    let ids = there(&inputs.expert_ids, "expert_ids")?;
    let bias = inputs.correction_bias.as_ref().map_or(&[][..], |b| &b.data);
    let choices = route::choices(&problem.settings.router, &problem.dims, &logits.data, bias);
    let rows = route::permute(&choices);
    let row_experts: Vec<usize> = rows.iter().map(|r| r.expert).collect();
    let index: HashMap<usize, usize> = ids.data.iter().enumerate().map(|(at, e)| (*e as usize, at)).collect();

    let pair = problem.settings.pair;
    let format = pair.activation();
    let (mut codes, mut scales, mut token_scales) = (Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        let values: Vec<f64> = states.row(row.token).iter().map(|x| bf16(*x)).collect();
        let at = index.get(&row.expert).copied().unwrap_or(0);
        let global = match problem.settings.has_token_scales() {
            true => token_scale::shared_scale(&values),
            false => inputs.a1_global.as_ref().and_then(|g| g.data.get(at).copied()).unwrap_or(1.0),
        };
        token_scales.push(global);
        let (packed, of_blocks) = format.quantize_row(problem.settings.scale_rule, global, &values);
        codes.extend(packed);
        scales.extend(of_blocks);
    }
    let a1 = Array::new("a1_codes", &[rows.len(), format.bytes(hidden)], codes)?;
    let a1_scales = Array::new("a1_scales", &[rows.len(), format.scales(hidden)], scales)?;
    let a1_token_scale = Array::new("a1_token_scale", &[rows.len()], token_scales)?;
    let scaled = |array| if format.scale().is_some() { Some(array) } else { None };
    let epilogue = |place, bias| if place == BiasPlace::Epilogue { bias } else { None };
    let operands = Operands {
        pair,
        codes: &a1,
        scales: scaled(&a1_scales),
        weights: there(&inputs.w13_blocks, "w13_blocks")?,
        weight_scales: there(&inputs.w13_scales, "w13_scales")?,
        globals: [inputs.a1_global.as_ref(), inputs.w13_global.as_ref()],
        token_scales: problem.settings.has_token_scales().then_some(&a1_token_scale),
        bias: epilogue(problem.settings.fc1_bias, inputs.w13_bias.as_ref()),
    };
    let first = of_gemm(operands, fc1, &row_experts, &index)?;
    let Some(a2) = &problem.injected_a2 else { return Ok((first, None)) };
    let operands = Operands {
        pair,
        codes: &a2.codes,
        scales: scaled(&a2.scales),
        weights: there(&inputs.w2_blocks, "w2_blocks")?,
        weight_scales: there(&inputs.w2_scales, "w2_scales")?,
        globals: [inputs.a2_global.as_ref(), inputs.w2_global.as_ref()],
        token_scales: a2.token_scales.as_ref(),
        bias: epilogue(problem.settings.fc2_bias, inputs.w2_bias.as_ref()),
    };
    Ok((first, Some(of_gemm(operands, fc2, &row_experts, &index)?)))
}

fn there<'a, T>(tensor: &'a Option<Array<T>>, name: &'static str) -> Result<&'a Array<T>, MoeError> {
    tensor
        .as_ref()
        .ok_or_else(|| MoeError::Missing { name, why: "coverage needs the whole problem".to_owned() })
}

/// Returns the coverage of one GEMM.
///
/// # Errors
/// [`MoeError::Invalid`] if the weights of a row's expert are missing.
pub fn of_gemm(
    operands: Operands<'_>,
    accumulation: Accumulation,
    experts: &[usize],
    index: &HashMap<usize, usize>,
) -> Result<Coverage, MoeError> {
    let gemm = Gemm::new(operands, accumulation, experts, index)?;
    let (cols, blocks, depth) = (gemm.cols(), gemm.blocks(), gemm.depth());
    let pair = operands.pair;
    let mut present: Vec<usize> = index.keys().copied().collect();
    present.sort_unstable();
    let mut out = Coverage {
        experts: present,
        weight_scales: vec![0; cols * blocks * index.len()],
        weight_codes: vec![0; cols * depth * index.len()],
        scales: vec![0; if operands.scales.is_some() { experts.len() * blocks } else { 0 }],
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
            steps: rows
                .iter()
                .map(|row| Steps::from_codes(pair.activation().element(), operands.codes.row(*row), depth))
                .collect(),
            token_scales: rows.iter().map(|row| gemm.token_scale(*row)).collect(),
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
                if operands.scales.is_some() {
                    or(
                        &mut out.scales[row * blocks..(row + 1) * blocks],
                        &of_rows.scales[at * blocks..(at + 1) * blocks],
                    );
                }
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

/// How far a change of ±1 moves the value of each code of a row or column.
struct Steps {
    up: Vec<f64>,
    down: Vec<f64>,
}

impl Steps {
    fn from_codes(format: Element, codes: &[u8], depth: usize) -> Self {
        let step = |k, up| {
            let code = format.code(codes, k);
            format.value(format.neighbour(code, up)) - format.value(code)
        };
        Self {
            up: (0..depth).map(|k| step(k, true)).collect(),
            down: (0..depth).map(|k| step(k, false)).collect(),
        }
    }
}

/// The rows of one expert.
struct Group<'a> {
    gemm: &'a Gemm<'a>,
    operands: &'a Operands<'a>,
    accumulation: Accumulation,
    weights: usize,
    rows: &'a [usize],
    lines: Vec<Line>,
    /// Those of each row's activations.
    steps: Vec<Steps>,
    token_scales: Vec<Option<f32>>,
}

impl Group<'_> {
    fn columns(&self, range: std::ops::Range<usize>) -> (Vec<Column>, Rows) {
        let (blocks, depth, n) = (self.gemm.blocks(), self.gemm.depth(), self.rows.len());
        let pair = self.operands.pair;
        let block_len = pair.block();
        let mut of_rows = Rows { scales: vec![0; n * blocks], codes: vec![0; n * depth] };
        let mut columns = Vec::new();
        let mut line = Line::default();
        for col in range {
            let of_column = self.gemm.col(self.weights, col, &mut line);
            let place = self.weights * self.gemm.cols() + col;
            let weight_scales = self.operands.weight_scales.row(place);
            let weight_codes = self.operands.weights.row(place);
            let steps = Steps::from_codes(pair.weight().element(), weight_codes, depth);
            let mut column = Column { scales: vec![0; blocks], codes: vec![0; depth] };
            for (at, (row, of)) in self.rows.iter().zip(&self.lines).enumerate() {
                let epilogue = of_column.of_row(self.token_scales[at]);
                let factor = epilogue.factor.map_or(1.0, |f| f.value);
                let Expected::Number { value, error } = element(&self.accumulation, of, &line, epilogue)
                else {
                    continue;
                };
                let moves = Moves::new(value, error);
                let scales = self.operands.scales.map(|scales| scales.row(*row));
                let of_row = &self.steps[at];
                let of_scales = &mut of_rows.scales[at * blocks..(at + 1) * blocks];
                let of_codes = &mut of_rows.codes[at * depth..(at + 1) * depth];
                for block in 0..blocks {
                    let (sa, sb) = (of.scales[block].value, line.scales[block].value);
                    let dot = of.raw_dot(&line, block) * factor;
                    column.scales[block] |=
                        scale_flags(pair.weight(), weight_scales[block], dot * sa, &moves);
                    if let Some(scales) = scales {
                        of_scales[block] |= scale_flags(pair.activation(), scales[block], dot * sb, &moves);
                    }
                    let power = sa * sb * factor;
                    for k in block * block_len..(block + 1) * block_len {
                        let (a, w) = (of.values[k], line.values[k]);
                        if column.codes[k] != BOTH {
                            column.codes[k] |= moves.seen(a * steps.up[k] * power, UP)
                                | moves.seen(a * steps.down[k] * power, DOWN);
                        }
                        if of_codes[k] != BOTH {
                            of_codes[k] |= moves.seen(of_row.up[k] * w * power, UP)
                                | moves.seen(of_row.down[k] * w * power, DOWN);
                        }
                    }
                }
            }
            columns.push(column);
        }
        (columns, of_rows)
    }
}

/// Which changes of a scale by one are detected if the sum of its block's products without the scale is `dot`. Nothing lies below
/// 0; a NaN is always detected.
fn scale_flags(format: Format, code: u8, dot: f64, moves: &Moves) -> u8 {
    let Some(scale) = format.scale() else { return 0 };
    let value = scale.value(code);
    let up = moves.seen(dot * (scale.value(code.wrapping_add(1)) - value), UP);
    let down = if code == 0 { DOWN } else { moves.seen(dot * (scale.value(code - 1) - value), DOWN) };
    up | down
}
