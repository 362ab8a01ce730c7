//! Judges the output from end to end where tensors between are missing: an interval goes from stage to stage (docs/numerics.md, 8).
//!
//! What is there is taken as it is stored; what is missing is all that the stages before it may have stored. That is rigorous
//! and loose: garbage is found, a single byte mostly not, and no stage is named.

use std::collections::HashMap;

use rayon::prelude::*;

use super::tally::Tally;
use super::{Inputs, Skip, indices, need};
use crate::case::BiasPlace;
use crate::moe::contract::Accumulation;
use crate::moe::dims::BLOCK;
use crate::moe::reference::activation::{Value, columns, requantized, swiglu_within};
use crate::moe::reference::expected::Expected;
use crate::moe::reference::finalize::{softmax, weighted};
use crate::moe::reference::formats::{bf16, bf16_order, e4m3, exp2};
use crate::moe::reference::gemm::{Line, element, within};
use crate::moe::reference::interval::Interval;
use crate::moe::reference::{quantize, route};
use crate::moe::tensors::Array;
use crate::record::{Stage, StageResult, Verdict};

/// What may be stored as bf16.
fn stored(expected: &Expected) -> Value {
    match (expected.range(), *expected) {
        (Some((lo, hi)), _) if bf16(lo).is_finite() && bf16(hi).is_finite() => {
            Value::Within(Interval { lo: bf16(lo), hi: bf16(hi) })
        }
        (_, Expected::Nan) => Value::Nan,
        _ => Value::Open,
    }
}

/// What is stored as bf16.
fn known(code: u16) -> Value {
    match bf16(code) {
        x if x.is_nan() => Value::Nan,
        x if x.is_infinite() => Value::Open,
        x => Value::Within(Interval::point(x)),
    }
}

/// A row on its way: its token, its expert, where that one's weights are.
#[derive(Clone, Copy)]
struct Row {
    at: usize,
    token: usize,
    weights: usize,
}

impl Inputs<'_> {
    /// The output, from whatever is there.
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

    /// The tensors between the inputs and the output that are not there.
    fn missing(&self) -> Vec<&'static str> {
        let t = self.tensors;
        let injected = t.injected_a2_codes.is_some();
        [
            ("topk_ids", t.topk_ids.is_some()),
            ("topk_weights", t.topk_weights.is_some()),
            ("a1_codes", t.a1_codes.is_some() && t.a1_scales.is_some()),
            ("fc1_out", t.fc1_out.is_some()),
            ("a2_codes", injected || (t.a2_codes.is_some() && t.a2_scales.is_some())),
            ("fc2_out", t.fc2_out.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, there)| (!there).then_some(name))
        .collect()
    }

    /// The choices, as stored or else the reference's: token by token.
    fn ids(&self) -> Result<Vec<usize>, Skip> {
        let dims = &self.contract.dims;
        if let Some(ids) = &self.tensors.topk_ids {
            return indices(&ids.data, dims.experts, "topk_ids");
        }
        if dims.top_k == 0 {
            return Err("the number of experts per token is unknown: `topk_ids` is missing".to_owned());
        }
        let logits = need!(self, router_logits)?;
        Ok((0..dims.tokens).flat_map(|token| route::top_k(logits.row(token), dims.top_k)).collect())
    }

    /// Their weights, stored or by softmax.
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
            let chosen: Vec<f32> = ids.iter().filter_map(|id| logits.row(token).get(*id).copied()).collect();
            match softmax(&chosen, &self.contract.exp) {
                Some(weights) => weights.into_iter().map(Value::Within).collect(),
                None => vec![Value::Nan; k],
            }
        };
        Ok(ids.chunks(k.max(1)).enumerate().flat_map(of).collect())
    }

    /// Token and expert of each row, as stored or else the reference's.
    fn rows(&self, ids: &[usize]) -> Result<(Vec<usize>, Vec<usize>), Skip> {
        let dims = &self.contract.dims;
        if let (Some(tokens), Some(experts)) = (&self.tensors.row_token, &self.tensors.row_expert) {
            let tokens = indices(&tokens.data, dims.tokens, "row_token")?;
            return Ok((tokens, indices(&experts.data, dims.experts, "row_expert")?));
        }
        let choices: Vec<Vec<usize>> = ids.chunks(dims.top_k.max(1)).map(<[usize]>::to_vec).collect();
        Ok(route::permute(&choices).into_iter().map(|row| (row.token, row.expert)).unzip())
    }

    /// The second GEMM's bias, where finalize adds it.
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
        let a2 = self.a2_row(row)?;
        let (blocks, scales) = (need!(self, w2_blocks)?, need!(self, w2_scales)?);
        let bias = match self.contract.settings.fc2_bias {
            BiasPlace::Epilogue => self.tensors.w2_bias.as_ref(),
            BiasPlace::NextStage => None,
        };
        let cols = self.contract.dims.hidden;
        let mut line = Line::default();
        let mut out = Vec::with_capacity(cols);
        for col in 0..cols {
            let at = row.weights * cols + col;
            line.read_e2m1(blocks.row(at), scales.row(at), BLOCK);
            let bias = bias.and_then(|b| b.data.get(at).copied());
            out.push(match &a2 {
                Some(a2) => stored(&within(&self.contract.fc2, a2, &line, bias)),
                // Something of the row is not known at all, or NaN.
                None => Value::Open,
            });
        }
        Ok(out)
    }

    /// What the second GEMM reads, scales included; none where one of it may be anything.
    fn a2_row(&self, row: Row) -> Result<Option<Vec<Interval>>, Skip> {
        let t = self.tensors;
        let injected = t.injected_a2_codes.as_ref().zip(t.injected_a2_scales.as_ref());
        if let Some((codes, scales)) = injected.or(t.a2_codes.as_ref().zip(t.a2_scales.as_ref())) {
            let values = decoded(codes, scales, row.at);
            return Ok(values
                .iter()
                .all(|x| x.is_finite())
                .then(|| values.into_iter().map(Interval::point).collect()));
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
        for first in (0..inter).step_by(BLOCK) {
            let mut block = Vec::with_capacity(BLOCK);
            for col in first..first + BLOCK {
                let (gate, up) = columns(settings.gate_up, inter, col);
                let (Value::Within(gate), Value::Within(up)) = (value(gate), value(up)) else {
                    return Ok(None);
                };
                match swiglu_within(settings, &self.contract.exp, gate, up) {
                    Value::Within(x) => block.push(x),
                    Value::Nan | Value::Open => return Ok(None),
                }
            }
            let Some(block) = requantized(settings.scale_rule, &block) else { return Ok(None) };
            out.extend(block);
        }
        Ok(Some(out))
    }

    fn fc1_row(&self, row: Row) -> Result<Vec<Value>, Skip> {
        if let Some(stored) = &self.tensors.fc1_out {
            return Ok(stored.row(row.at).iter().map(|x| known(*x)).collect());
        }
        let accumulation: &Accumulation = &self.contract.fc1;
        let mut of = Line::default();
        match self.tensors.a1_codes.as_ref().zip(self.tensors.a1_scales.as_ref()) {
            Some((codes, scales)) => of.read_e4m3(codes.row(row.at), scales.row(row.at), accumulation.chunk),
            None => {
                // Quantization is bit-exact, so that nothing is lost.
                let (mut codes, mut scales) = (Vec::new(), Vec::new());
                for block in need!(self, hidden_states)?.row(row.token).chunks(BLOCK) {
                    let values: Vec<f64> = block.iter().map(|x| bf16(*x)).collect();
                    let (scale, elements) = quantize::block(self.contract.settings.scale_rule, &values);
                    scales.push(scale);
                    codes.extend(elements);
                }
                of.read_e4m3(&codes, &scales, accumulation.chunk);
            }
        }
        let (blocks, scales) = (need!(self, w13_blocks)?, need!(self, w13_scales)?);
        let bias = match self.contract.settings.fc1_bias {
            BiasPlace::Epilogue => self.tensors.w13_bias.as_ref(),
            BiasPlace::NextStage => None,
        };
        let cols = self.contract.dims.fc1_cols();
        let mut line = Line::default();
        let mut out = Vec::with_capacity(cols);
        for col in 0..cols {
            let at = row.weights * cols + col;
            line.read_e2m1(blocks.row(at), scales.row(at), accumulation.chunk);
            let bias = bias.and_then(|b| b.data.get(at).copied());
            out.push(stored(&element(accumulation, &of, &line, bias)));
        }
        Ok(out)
    }
}

/// A row of e4m3 with its scales.
fn decoded(codes: &Array<u8>, scales: &Array<u8>, row: usize) -> Vec<f64> {
    let scale = |s: &u8| if *s == 0xFF { f64::NAN } else { exp2(i32::from(*s) - 127) };
    let blocks = codes.row(row).chunks(BLOCK).zip(scales.row(row));
    blocks.flat_map(|(codes, s)| codes.iter().map(move |c| e4m3(*c) * scale(s))).collect()
}
