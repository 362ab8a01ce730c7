//! Judges the output from end to end if intermediate tensors are missing: intervals pass from stage to stage (docs/numerics.md, 8).
//!
//! A present tensor is used as stored; a missing one is replaced by all values that the earlier stages may have stored. That is
//! rigorous but loose: it detects garbage, rarely a single wrong byte, and it names no stage.

use std::collections::HashMap;

use rayon::prelude::*;

use super::gemms::Fc;
use super::tally::Tally;
use super::{Inputs, Skip, indices, need};
use crate::case::BiasPlace;
use crate::moe::contract::Accumulation;
use crate::moe::reference::activation::{Value, columns, swiglu_within};
use crate::moe::reference::epilogue::{Epilogue, Factor};
use crate::moe::reference::expected::Expected;
use crate::moe::reference::finalize::weighted;
use crate::moe::reference::formats::{bf16, bf16_order};
use crate::moe::reference::gemm::{element, within};
use crate::moe::reference::interval::Interval;
use crate::moe::reference::line::Line;
use crate::moe::reference::route::{self, Choice};
use crate::moe::reference::scores;
use crate::moe::reference::token_scale;
use crate::moe::tensors::Array;
use record::{Stage, StageResult, Verdict};

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

/// A row: its index, its token, and the position of its expert's weights.
#[derive(Clone, Copy)]
struct Row {
    at: usize,
    token: usize,
    weights: usize,
}

impl Inputs<'_> {
    /// Judges the output from the tensors that are present.
    pub(super) fn whole(&self) -> Result<StageResult, Skip> {
        let output = need!(self, output)?;
        let dims = &self.contract.dims;
        let ids = self.ids()?;
        let weights = self.weights(&ids)?;
        let (tokens, experts) = self.rows(&ids)?;
        let mut rows = Vec::with_capacity(tokens.len());
        let mut place = HashMap::new();
        for (at, (token, expert)) in tokens.into_iter().zip(experts).enumerate() {
            rows.push(Row { at, token, weights: *self.weights_of(at, expert)? });
            place.insert((token, expert), at);
        }
        let results: Vec<Vec<Value>> =
            rows.par_iter().map(|row| self.fc2_row(*row)).collect::<Result<_, Skip>>()?;
        let mut tally = Tally::default();
        let (mut allowed, mut judged) = (0.0, 0_u32);
        for token in 0..dims.tokens {
            for (col, found) in output.row(token).iter().enumerate() {
                let mut terms = Vec::with_capacity(dims.top_k);
                for slot in 0..dims.top_k {
                    let expert = ids[token * dims.top_k + slot];
                    let row = place
                        .get(&(token, expert))
                        .ok_or_else(|| format!("no row belongs to token {token} of expert {expert}"))?;
                    let bias = self.later_bias(rows[*row].weights, col);
                    terms.push((weights[token * dims.top_k + slot], results[*row][col], bias));
                }
                let expected = weighted(self.contract.finalize, &terms);
                if let Some((lo, hi)) = expected.range() {
                    allowed += f64::from(bf16_order(hi)) - f64::from(bf16_order(lo)) + 1.0;
                    judged += 1;
                }
                tally.number(token, col, &expected, *found);
            }
        }
        let mut result = tally.result(Stage::Finalize, |_| None);
        if matches!(result.verdict, Verdict::Pass | Verdict::Fail) {
            let loose = allowed / f64::from(judged.max(1));
            let said = std::mem::take(&mut result.note);
            let colon = if said.is_empty() { "" } else { ": " };
            result.note = format!(
                "judged from end to end, because {} are missing; {loose:.1} bf16 values are allowed on average{colon}{said}",
                self.missing().join(", ")
            );
        }
        Ok(result)
    }

    /// Returns the missing tensors between the inputs and the output.
    fn missing(&self) -> Vec<&'static str> {
        let t = self.tensors;
        let injected = t.injected_a2_codes.is_some();
        let scaled = self.contract.settings.pair.activation().scale().is_some();
        [
            ("topk_ids", t.topk_ids.is_some()),
            ("topk_weights", t.topk_weights.is_some()),
            ("a1_codes", t.a1_codes.is_some() && (!scaled || t.a1_scales.is_some())),
            ("fc1_out", t.fc1_out.is_some()),
            ("a2_codes", injected || (t.a2_codes.is_some() && (!scaled || t.a2_scales.is_some()))),
            ("fc2_out", t.fc2_out.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, there)| (!there).then_some(name))
        .collect()
    }

    /// Returns the choices, token by token: the stored ones or, if missing, the reference's.
    fn ids(&self) -> Result<Vec<usize>, Skip> {
        let dims = &self.contract.dims;
        if let Some(ids) = &self.tensors.topk_ids {
            return indices(&ids.data, dims.experts, "topk_ids");
        }
        if dims.top_k == 0 {
            return Err("the number of experts per token is unknown: `topk_ids` is missing".to_owned());
        }
        let logits = need!(self, router_logits)?;
        let router = &self.contract.settings.router;
        let bias = self.tensors.correction_bias.as_ref().map_or(&[][..], |b| &b.data);
        let mut out = Vec::with_capacity(dims.rows());
        for token in 0..dims.tokens {
            let choice = Choice::new(router, logits.row(token), bias, &self.contract.exp);
            let best = choice.best(dims.chosen());
            if choice.possible(dims.chosen()).len() > best.len() {
                return Err(format!(
                    "rounding decides which experts token {token} chooses: `topk_ids` is missing"
                ));
            }
            out.extend(best);
            out.extend(dims.routed()..dims.experts);
        }
        Ok(out)
    }

    /// Returns the weights of the choices: stored, or by the router's rule.
    fn weights(&self, ids: &[usize]) -> Result<Vec<Value>, Skip> {
        if let Some(weights) = &self.tensors.topk_weights {
            let of = |w: &f32| match f64::from(*w) {
                x if x.is_nan() => Value::Nan,
                x if x.is_infinite() => Value::Open,
                x => Value::Within(Interval::point(x)),
            };
            return Ok(weights.data.iter().map(of).collect());
        }
        let logits = need!(self, router_logits)?;
        let k = self.contract.dims.top_k;
        let of = |(token, ids): (usize, &[usize])| {
            let (router, chosen) = (&self.contract.settings.router, self.contract.dims.chosen());
            let ids = &ids[..chosen.min(ids.len())];
            let mut weights = scores::weights(router, logits.row(token), ids, &self.contract.exp);
            weights.resize(k, Value::Within(Interval::point(1.0)));
            weights
        };
        Ok(ids.chunks(k.max(1)).enumerate().flat_map(of).collect())
    }

    /// Returns the token and expert of each row: stored or, if missing, the reference's.
    fn rows(&self, ids: &[usize]) -> Result<(Vec<usize>, Vec<usize>), Skip> {
        let dims = &self.contract.dims;
        if let (Some(tokens), Some(experts)) = (&self.tensors.row_token, &self.tensors.row_expert) {
            let tokens = indices(&tokens.data, dims.tokens, "row_token")?;
            return Ok((tokens, indices(&experts.data, dims.experts, "row_expert")?));
        }
        let choices: Vec<Vec<usize>> = ids.chunks(dims.top_k.max(1)).map(<[usize]>::to_vec).collect();
        Ok(route::permute(&choices).into_iter().map(|row| (row.token, row.expert)).unzip())
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
                Some(a2) => stored(&within(&self.contract.fc2, a2, &line, epilogue)),
                // An element of the row is unknown or NaN.
                None => Value::Open,
            });
        }
        Ok(out)
    }

    /// The global scales of a row's expert.
    fn factor(&self, fc: Fc, row: Row) -> Result<Option<Factor>, Skip> {
        let of = |array: &Array<f32>| array.data.get(row.weights).copied();
        Ok(Factor::of(self.globals(fc)?.map(|global| global.and_then(of))))
    }

    /// Returns the activations and scales of a row, if present.
    fn operand<'t>(
        &self,
        codes: &'t Option<Array<u8>>,
        scales: &'t Option<Array<u8>>,
        row: usize,
    ) -> Option<(&'t [u8], &'t [u8])> {
        let scaled = self.contract.settings.pair.activation().scale().is_some();
        let codes = codes.as_ref()?.row(row);
        if scaled { Some((codes, scales.as_ref()?.row(row))) } else { Some((codes, &[])) }
    }

    /// Returns the stored global scale of a row that a GEMM reads, if tokens have global scales.
    fn token_scale(&self, fc: Fc, row: Row) -> Result<Option<f32>, Skip> {
        Ok(self.token_scales(fc)?.and_then(|scales| scales.data.get(row.at).copied()))
    }

    /// Returns the row that the second GEMM reads, block scales included; `None` if an element may have any value.
    fn a2_row(&self, row: Row) -> Result<Option<Operand>, Skip> {
        let t = self.tensors;
        let injected = self.operand(&t.injected_a2_codes, &t.injected_a2_scales, row.at);
        if let Some((codes, scales)) = injected.or(self.operand(&t.a2_codes, &t.a2_scales, row.at)) {
            let values = self.contract.settings.pair.activation().decoded(codes, scales);
            let token_scale = self.token_scale(Fc::Two, row)?;
            return Ok(values.iter().all(|x| x.is_finite()).then(|| Operand {
                values: values.into_iter().map(Interval::point).collect(),
                token_scale,
            }));
        }
        let (settings, inter) = (&self.contract.settings, self.contract.dims.inter);
        let sums = self.fc1_row(row)?;
        let bias = match settings.fc1_bias {
            BiasPlace::Epilogue => &[],
            BiasPlace::NextStage => t.w13_bias.as_ref().map_or(&[][..], |b| b.row(row.weights)),
        };
        let value = |col: usize| match (sums[col], bias.get(col)) {
            (Value::Within(x), Some(b)) => Value::Within(x.plus(Interval::point(f64::from(*b))).rounded()),
            (x, _) => x,
        };
        let mut out = Vec::with_capacity(inter);
        for col in 0..inter {
            let (gate, up) = columns(settings.gate_up, inter, col);
            let (Value::Within(gate), Value::Within(up)) = (value(gate), value(up)) else {
                return Ok(None);
            };
            match swiglu_within(settings, &self.contract.exp, gate, up) {
                Value::Within(x) => out.push(x),
                Value::Nan | Value::Open => return Ok(None),
            }
        }
        let values = self.requantized(Fc::Two, row, &out)?;
        Ok(values.map(|values| Operand { values, token_scale: None }))
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

    fn fc1_row(&self, row: Row) -> Result<Vec<Value>, Skip> {
        if let Some(stored) = &self.tensors.fc1_out {
            return Ok(stored.row(row.at).iter().map(|x| known(*x)).collect());
        }
        let accumulation: &Accumulation = &self.contract.fc1;
        let mut of = Line::default();
        let pair = self.contract.settings.pair;
        let (format, block, width) = (pair.activation(), pair.block(), accumulation.width());
        let t = self.tensors;
        let (mut intervals, mut token_scale) = (None, None);
        match self.operand(&t.a1_codes, &t.a1_scales, row.at) {
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
                    return Ok(vec![Value::Open; self.contract.dims.fc1_cols()]);
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
            out.push(stored(&match &intervals {
                Some(row) => within(accumulation, row, &line, epilogue),
                None => element(accumulation, &of, &line, epilogue),
            }));
        }
        Ok(out)
    }
}
