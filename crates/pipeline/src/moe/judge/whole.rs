//! Judges results whose direct inputs are missing: intervals pass from the nearest earlier tensors, stage by stage
//! (docs/numerics.md, 8).
//!
//! A present tensor is used as stored; a missing one is replaced by all values that the earlier stages may have stored. That is
//! rigorous but loose: it detects garbage, rarely a single wrong byte.

use std::collections::HashMap;

use rayon::prelude::*;

use super::gemms::Fc;
use super::tally::{StageJudgement, Tally};
use super::{Inputs, Skip, need};
use crate::moe::case::BiasPlace;
use crate::moe::contract::Accumulation;
use crate::moe::reference::activation::{Value, columns, swiglu, swiglu_within};
use crate::moe::reference::epilogue::{Epilogue, Factor};
use crate::moe::reference::expected::Expected;
use crate::moe::reference::finalize::weighted;
use crate::moe::reference::formats::bf16;
use crate::moe::reference::gemm::{element, within};
use crate::moe::reference::interval::Interval;
use crate::moe::reference::line::Line;
use crate::moe::reference::token_scale;
use crate::moe::stage::Stage;
use crate::moe::tensors::Array;

/// The values that may be stored as bf16.
fn stored(expected: &Expected) -> Value {
    match (expected.range(), *expected) {
        (Some((lo, hi)), _) if bf16(lo).is_finite() && bf16(hi).is_finite() => {
            Value::Within(Interval { lo: bf16(lo), hi: bf16(hi) })
        }
        (_, Expected::Nan) => Value::Nan,
        _ => Value::Open,
    }
}

/// The value of a stored bf16.
fn known(code: u16) -> Value {
    match bf16(code) {
        x if x.is_nan() => Value::Nan,
        x if x.is_infinite() => Value::Open,
        x => Value::Within(Interval::point(x)),
    }
}

/// A row of activations, block scales included.
struct Operand {
    values: Vec<Interval>,
    /// The row's global scale, a further factor; `None` if unknown.
    token_scale: Option<f32>,
}

/// A row: its index, its token, its expert, and the position of the expert's weights.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) at: usize,
    pub(super) token: usize,
    pub(super) expert: usize,
    weights: usize,
}

impl Inputs<'_> {
    /// Returns the rows: as stored or, if missing, as the choices require.
    pub(super) fn rows(&self) -> Result<Vec<Row>, Skip> {
        let (tokens, experts) = (self.row_tokens()?, self.row_experts()?);
        let row = |(at, (token, expert)): (usize, (usize, usize))| {
            Ok(Row { at, token, expert, weights: *self.weights_of(at, expert)? })
        };
        tokens.into_iter().zip(experts).enumerate().map(row).collect()
    }

    /// Judges a GEMM's result, each row by what it may be.
    pub(super) fn sums_from_before(
        &self,
        stage: Stage,
        stored: &Array<u16>,
        expected: impl Fn(Row) -> Result<Vec<Expected>, Skip> + Sync,
    ) -> Result<StageJudgement, Skip> {
        let rows = self.rows()?;
        let one = |row: &Row| -> Result<Tally, Skip> {
            let mut tally = Tally::default();
            for (col, (expected, found)) in expected(*row)?.iter().zip(stored.row(row.at)).enumerate() {
                tally.number(row.at, col, &expected.times(self.contract.suspicion.factor), *found);
            }
            Ok(tally)
        };
        let tallies = rows.par_iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let tally = tallies.into_iter().fold(Tally::default(), Tally::join);
        Ok(tally.result(stage, &self.absent_before(stage), |row| rows.get(row).map(|r| r.expert)))
    }

    /// Judges the output from the tensors that are present.
    pub(super) fn output_from_before(&self) -> Result<StageJudgement, Skip> {
        let output = need!(self, output)?;
        let dims = &self.contract.dims;
        let ids = self.ids()?;
        let weights = self.weights(&ids)?;
        let rows = self.rows()?;
        let place: HashMap<(usize, usize), usize> =
            rows.iter().map(|row| ((row.token, row.expert), row.at)).collect();
        let results: Vec<Vec<Value>> =
            rows.par_iter().map(|row| self.fc2_row(*row)).collect::<Result<_, Skip>>()?;
        let token = |token: usize| -> Result<Tally, Skip> {
            let mut slots = Vec::with_capacity(dims.top_k);
            for slot in token * dims.top_k..(token + 1) * dims.top_k {
                let row = place.get(&(token, ids[slot]));
                slots.push((slot, *row.ok_or_else(|| no_row(token, ids[slot]))?));
            }
            let mut tally = Tally::default();
            for (col, found) in output.row(token).iter().enumerate() {
                let term = |(slot, row): &(usize, usize)| {
                    (weights[*slot], results[*row][col], self.later_bias(rows[*row].weights, col))
                };
                let terms: Vec<(Value, Value, f32)> = slots.iter().map(term).collect();
                let expected = weighted(self.contract.finalize, &terms).times(self.contract.suspicion.factor);
                tally.number(token, col, &expected, *found);
            }
            Ok(tally)
        };
        let tallies = (0..dims.tokens).into_par_iter().map(token).collect::<Result<Vec<_>, _>>()?;
        let tally = tallies.into_iter().fold(Tally::default(), Tally::join);
        Ok(tally.result(Stage::Finalize, &self.absent_before(Stage::Finalize), |_| None))
    }

    /// Returns the second GEMM's bias if finalize adds it.
    fn later_bias(&self, weights: usize, col: usize) -> f32 {
        match (self.contract.settings.fc2_bias, &self.tensors.w2_bias) {
            (BiasPlace::NextStage, Some(bias)) => bias.row(weights).get(col).copied().unwrap_or(0.0),
            _ => 0.0,
        }
    }

    fn fc2_row(&self, row: Row) -> Result<Vec<Value>, Skip> {
        if let Some(stored) = &self.tensors.fc2_out {
            return Ok(stored.row(row.at).iter().map(|x| known(*x)).collect());
        }
        Ok(self.fc2_expected(row)?.iter().map(stored).collect())
    }

    /// Returns what a row of the second GEMM's result may be.
    pub(super) fn fc2_expected(&self, row: Row) -> Result<Vec<Expected>, Skip> {
        let (a2, token_scale) = match self.a2_row(row)? {
            Some(Operand { values, token_scale }) => (Some(values), token_scale),
            None => (None, None),
        };
        let (blocks, scales) = (need!(self, w2_blocks)?, need!(self, w2_scales)?);
        let bias = match self.contract.settings.fc2_bias {
            BiasPlace::Epilogue => self.tensors.w2_bias.as_ref(),
            BiasPlace::NextStage => None,
        };
        let cols = self.contract.dims.hidden;
        let pair = self.contract.settings.pair;
        let factor = self.factor(Fc::Two, row)?;
        let mut line = Line::default();
        let mut out = Vec::with_capacity(cols);
        for col in 0..cols {
            let at = row.weights * cols + col;
            line.read(pair.weight(), pair.block(), blocks.row(at), scales.row(at), pair.block());
            let bias = bias.and_then(|b| b.data.get(at).copied());
            let epilogue = Epilogue { factor, bias }.of_row(token_scale);
            out.push(match &a2 {
                Some(a2) => within(&self.contract.fc2, a2, &line, epilogue),
                // An element of the row is unknown or NaN.
                None => Expected::Open,
            });
        }
        Ok(out)
    }

    /// The global scales of a row's expert.
    fn factor(&self, fc: Fc, row: Row) -> Result<Option<Factor>, Skip> {
        let of = |array: &Array<f32>| array.data.get(row.weights).copied();
        Ok(Factor::from_globals(self.globals(fc)?.map(|global| global.and_then(of))))
    }

    /// Returns the activations and scales of a row that a GEMM reads, if they are present.
    fn operand(&self, fc: Fc, row: usize) -> Option<(&[u8], &[u8])> {
        if !self.absent_operand(fc).is_empty() {
            return None;
        }
        let t = self.tensors;
        let (codes, scales) = match (fc, &t.injected_a2_codes) {
            (Fc::One, _) => (&t.a1_codes, &t.a1_scales),
            (Fc::Two, None) => (&t.a2_codes, &t.a2_scales),
            (Fc::Two, injected) => (injected, &t.injected_a2_scales),
        };
        Some((codes.as_ref()?.row(row), scales.as_ref().map_or(&[], |scales| scales.row(row))))
    }

    /// Returns the stored global scale of a row that a GEMM reads, if tokens have global scales.
    fn token_scale(&self, fc: Fc, row: Row) -> Result<Option<f32>, Skip> {
        Ok(self.token_scales(fc)?.and_then(|scales| scales.data.get(row.at).copied()))
    }

    /// Returns the row that the second GEMM reads, block scales included; `None` if an element may have any value.
    fn a2_row(&self, row: Row) -> Result<Option<Operand>, Skip> {
        if let Some((codes, scales)) = self.operand(Fc::Two, row.at) {
            let values = self.contract.settings.pair.activation().decoded(codes, scales);
            let token_scale = self.token_scale(Fc::Two, row)?;
            return Ok(values.iter().all(|x| x.is_finite()).then(|| Operand {
                values: values.into_iter().map(Interval::point).collect(),
                token_scale,
            }));
        }
        let mut values = Vec::with_capacity(self.contract.dims.inter);
        for value in self.activated(row)? {
            match value {
                Value::Within(x) => values.push(x),
                Value::Nan | Value::Open => return Ok(None),
            }
        }
        let values = self.requantized(Fc::Two, row, &values)?;
        Ok(values.map(|values| Operand { values, token_scale: None }))
    }

    /// Returns the result of the activation in a row, before it is quantized.
    pub(super) fn activated(&self, row: Row) -> Result<Vec<Value>, Skip> {
        let (t, settings, inter) = (self.tensors, &self.contract.settings, self.contract.dims.inter);
        let bias = match settings.fc1_bias {
            BiasPlace::Epilogue => &[],
            BiasPlace::NextStage => t.w13_bias.as_ref().map_or(&[][..], |b| b.row(row.weights)),
        };
        let columns = (0..inter).map(|col| columns(settings.gate_up, inter, col));
        let clamp = self.contract.suspicion.clamp;
        if let Some(stored) = &t.fc1_out {
            let sums = stored.row(row.at);
            // The bias is added in f32, rounded once.
            let value = |col: usize| {
                let x = bf16(sums[col]) as f32;
                f64::from(bias.get(col).map_or(x, |b| x + b))
            };
            let of = |(gate, up)| swiglu(settings, clamp, &self.contract.exp, value(gate), value(up));
            return Ok(columns.map(of).collect());
        }
        let sums: Vec<Value> = self.fc1_expected(row)?.iter().map(stored).collect();
        let value = |col: usize| match (sums[col], bias.get(col)) {
            (Value::Within(x), Some(b)) => Value::Within(x.plus(Interval::point(f64::from(*b))).rounded()),
            (x, _) => x,
        };
        let of = |(gate, up)| match (value(gate), value(up)) {
            (Value::Within(gate), Value::Within(up)) => {
                swiglu_within(settings, clamp, &self.contract.exp, gate, up)
            }
            (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
            _ => Value::Open,
        };
        Ok(columns.map(of).collect())
    }

    /// Returns the values that a quantizer may produce for a row, with block scales and a global scale unknown beforehand; `None` if
    /// an element may overflow.
    fn requantized(&self, fc: Fc, row: Row, values: &[Interval]) -> Result<Option<Vec<Interval>>, Skip> {
        if self.contract.settings.has_token_scales() {
            return Ok(token_scale::quantized(self.contract.settings.scale_rule, values));
        }
        let quantizer = self.quantizer_at(fc, row.weights)?;
        let blocks = values.chunks(quantizer.format.block());
        let blocks: Option<Vec<_>> = blocks.map(|block| quantizer.requantized(block)).collect();
        Ok(blocks.map(|blocks| blocks.concat()))
    }

    /// Returns what a row of the first GEMM's result may be.
    pub(super) fn fc1_expected(&self, row: Row) -> Result<Vec<Expected>, Skip> {
        let accumulation: &Accumulation = &self.contract.fc1;
        let mut of = Line::default();
        let pair = self.contract.settings.pair;
        let (format, block, width) = (pair.activation(), pair.block(), accumulation.width());
        let (mut intervals, mut token_scale) = (None, None);
        match self.operand(Fc::One, row.at) {
            Some((codes, scales)) => {
                of.read(format, block, codes, scales, width);
                token_scale = self.token_scale(Fc::One, row)?;
            }
            // A quantizer that may differ by a rounding produces intervals.
            None if format.description().slack > 0.0 => {
                let hidden = need!(self, hidden_states)?.row(row.token);
                let values: Vec<Interval> = hidden.iter().map(|x| Interval::point(bf16(*x))).collect();
                intervals = self.requantized(Fc::One, row, &values)?;
                // An element is unknown or NaN.
                if intervals.is_none() {
                    return Ok(vec![Expected::Open; self.contract.dims.fc1_cols()]);
                }
            }
            None => {
                // Quantization is exact, so the values are points.
                let hidden = need!(self, hidden_states)?.row(row.token);
                let values: Vec<f64> = hidden.iter().map(|x| bf16(*x)).collect();
                let (codes, scales) = format.quantize_row(self.contract.settings.scale_rule, 1.0, &values);
                of.read(format, block, &codes, &scales, width);
            }
        }
        let (blocks, scales) = (need!(self, w13_blocks)?, need!(self, w13_scales)?);
        let bias = match self.contract.settings.fc1_bias {
            BiasPlace::Epilogue => self.tensors.w13_bias.as_ref(),
            BiasPlace::NextStage => None,
        };
        let cols = self.contract.dims.fc1_cols();
        let factor = self.factor(Fc::One, row)?;
        let mut line = Line::default();
        let mut out = Vec::with_capacity(cols);
        for col in 0..cols {
            let at = row.weights * cols + col;
            let bias = bias.and_then(|b| b.data.get(at).copied());
            let epilogue = Epilogue { factor, bias }.of_row(token_scale);
            let width = if intervals.is_some() { block } else { width };
            line.read(pair.weight(), block, blocks.row(at), scales.row(at), width);
            out.push(match &intervals {
                Some(row) => within(accumulation, row, &line, epilogue),
                None => element(accumulation, &of, &line, epilogue),
            });
        }
        Ok(out)
    }
}

/// Why a token's output cannot be computed.
pub(super) fn no_row(token: usize, expert: usize) -> Skip {
    format!("no row belongs to token {token} of expert {expert}")
}
