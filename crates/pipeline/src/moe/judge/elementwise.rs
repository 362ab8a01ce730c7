//! Judges quantization bit by bit, activation and requantization together, and the weighted sum.

use std::collections::HashMap;

use rayon::prelude::*;

use super::gemms::Fc;
use super::tally::{StageJudgement, Tally};
use super::whole::{Row, no_row};
use super::{Inputs, Skip, need, needed};
use crate::moe::case::BiasPlace;
use crate::moe::format::Element;
use crate::moe::reference::activation::{Quantizer, Value, judge_block};
use crate::moe::reference::finalize::finalize;
use crate::moe::reference::formats::bf16;
use crate::moe::reference::interval::Interval;
use crate::moe::reference::token_scale::{self, Allowed};
use crate::moe::stage::Stage;
use crate::moe::suspicion::{Amax, Rounding};
use crate::moe::tensors::Array;

/// Judges a quantized block whose inputs are exact, bit for bit.
fn exact_block(
    tally: &mut Tally,
    by: &Quantizer,
    (row, first): (usize, usize),
    values: &[f64],
    scale: u8,
    codes: &[u16],
) {
    let (wanted, elements) = by.format.quantize(by.rule, by.global, values);
    tally.equal(row, first, (wanted, scale), || format!("scale {scale:#04x} instead of {wanted:#04x}"));
    for (lane, (wanted, found)) in elements.iter().zip(codes).enumerate() {
        tally.equal(row, first + lane, (wanted, found), || {
            format!("code {found:#04x} instead of {wanted:#04x}, for {:e}", values[lane])
        });
    }
}

fn known(x: &f64) -> Value {
    if x.is_nan() { Value::Nan } else { Value::Within(Interval::point(*x)) }
}

/// Judges a quantized block by value, within the errors of a quantizer's division.
fn valued_block(
    tally: &mut Tally,
    by: &Quantizer,
    (row, block): (usize, usize),
    values: &[Value],
    scale: u8,
    codes: &[u16],
) {
    let first = block * by.format.block();
    let verdict = judge_block(by, values, block, scale, codes);
    if by.format.scale().is_some() {
        if verdict.scale {
            tally.within(row, 0.0, verdict.scale_decides);
        } else {
            tally.wrong(row, first, f64::INFINITY, || {
                format!("scale {scale:#04x} instead of {}", verdict.wanted())
            });
        }
    }
    for (lane, code) in codes.iter().enumerate() {
        if verdict.wrong >> lane & 1 == 0 {
            tally.within(row, 0.0, verdict.open >> lane & 1 == 0);
        } else {
            tally.wrong(row, first + lane, f64::INFINITY, || {
                let value = values.get(first + lane).copied().unwrap_or(Value::Open);
                format!("code {code:#04x} with scale {scale:#04x}, for {value}")
            });
        }
    }
}

impl Inputs<'_> {
    /// Judges the codes and scales of every row: those of MXFP8 bit for bit, others by value.
    pub(super) fn quantize(&self) -> Result<StageJudgement, Skip> {
        let format = self.contract.settings.pair.activation();
        let codes = need!(self, a1_codes)?;
        let scales = match format.scale() {
            Some(_) => Some(need!(self, a1_scales)?),
            None => None,
        };
        self.sufficient(Stage::Quantize)?;
        let hidden = need!(self, hidden_states)?;
        let token_scales = self.row_scales(&self.tensors.a1_token_scale, "a1_token_scale")?;
        let (tokens, experts) = (self.row_tokens()?, self.row_experts());
        // Without a global scale, a row's expert has no effect.
        let experts = if format.has_global() { experts? } else { experts.unwrap_or_default() };
        let (block_len, element) = (format.block(), format.element());
        let row = |(row, token): (usize, &usize)| -> Result<Tally, Skip> {
            let mut tally = Tally::default();
            let values: Vec<f64> = hidden.row(*token).iter().map(|x| bf16(*x)).collect();
            let row_values: Vec<Value> = values.iter().map(known).collect();
            let by = match token_scales {
                Some(scales) => {
                    let Some(by) = self.by_row(&mut tally, scales, row, &row_values)? else {
                        return Ok(tally);
                    };
                    by
                }
                None => self.quantizer(Fc::One, row, experts.get(row).copied())?,
            };
            let stored = element.codes(codes.row(row));
            let scales = scales.map_or(&[][..], |scales| scales.row(row));
            let blocks = values.chunks(block_len).zip(stored.chunks(block_len));
            for (block, (values, codes)) in blocks.enumerate() {
                let (first, scale) = (block * block_len, scales.get(block).copied().unwrap_or(0));
                let is_declared = by.rounding == Rounding::NearestEven && by.amax == Amax::Block;
                if element == Element::E4m3 && is_declared {
                    exact_block(&mut tally, &by, (row, first), values, scale, codes);
                } else {
                    valued_block(&mut tally, &by, (row, block), &row_values, scale, codes);
                }
            }
            Ok(tally)
        };
        let tally = tokens.par_iter().enumerate().map(row).collect::<Result<Vec<_>, _>>()?;
        let tally = tally.into_iter().fold(Tally::default(), Tally::join);
        Ok(tally.result(Stage::Quantize, &[], |row| experts.get(row).copied()))
    }

    /// Returns the global scales that a quantizer stored for its rows, if tokens have global scales.
    fn row_scales<'t>(
        &self,
        stored: &'t Option<Array<f32>>,
        name: &str,
    ) -> Result<Option<&'t Array<f32>>, Skip> {
        match self.contract.settings.has_token_scales() {
            true => needed(stored, name).map(Some),
            false => Ok(None),
        }
    }

    /// Judges a row's own global scale by its values, and returns the quantizer with the stored one; `None` if the stored one does
    /// not determine codes and block scales.
    fn by_row(
        &self,
        tally: &mut Tally,
        stored: &Array<f32>,
        row: usize,
        values: &[Value],
    ) -> Result<Option<Quantizer>, Skip> {
        let global = stored.data.get(row).copied().ok_or("the global scale of a row is missing")?;
        let allowed = Allowed::from_values(values);
        if allowed.accepts(global) {
            tally.within(row, 0.0, allowed.decides());
        } else {
            tally.wrong(row, 0, f64::INFINITY, || {
                format!("the row's global scale is {global:e} instead of {allowed}")
            });
        }
        let settings = &self.contract.settings;
        let by = Quantizer {
            format: settings.pair.activation(),
            rule: settings.scale_rule,
            global,
            rounding: self.contract.suspicion.rounding,
            amax: self.contract.suspicion.amax,
        };
        Ok(token_scale::decides(global).then_some(by))
    }

    /// Returns the quantizer of a GEMM's activations in a row of an expert.
    pub(super) fn quantizer(&self, fc: Fc, row: usize, expert: Option<usize>) -> Result<Quantizer, Skip> {
        match expert.filter(|_| self.contract.settings.pair.activation().has_global()) {
            Some(expert) => self.quantizer_at(fc, *self.weights_of(row, expert)?),
            None => self.quantizer_at(fc, 0),
        }
    }

    /// Returns the quantizer for the expert whose weights are at `weights`.
    pub(super) fn quantizer_at(&self, fc: Fc, weights: usize) -> Result<Quantizer, Skip> {
        let settings = &self.contract.settings;
        let global = match self.globals(fc)?[0] {
            Some(global) => global.data.get(weights).copied().ok_or("a global scale is missing")?,
            None => 1.0,
        };
        Ok(Quantizer {
            format: settings.pair.activation(),
            rule: settings.scale_rule,
            global,
            rounding: self.contract.suspicion.rounding,
            amax: self.contract.suspicion.amax,
        })
    }

    /// Judges activation and requantization together: the first GEMM's result, stored or by what it may be, against codes and scales.
    pub(super) fn activation(&self) -> Result<[StageJudgement; 2], Skip> {
        let format = self.contract.settings.pair.activation();
        let codes = need!(self, a2_codes)?;
        let scales = match format.scale() {
            Some(_) => Some(need!(self, a2_scales)?),
            None => None,
        };
        let token_scales = self.row_scales(&self.tensors.a2_token_scale, "a2_token_scale")?;
        self.sufficient(Stage::Activation)?;
        let rows = self.rows()?;
        let block_len = format.block();
        let one = |row: &Row| -> Result<[Tally; 2], Skip> {
            let mut activation = Tally::default();
            let mut requantize = Tally::default();
            let values = self.activated(*row)?;
            let at = row.at;
            let by = match token_scales {
                Some(scales) => {
                    let Some(by) = self.by_row(&mut requantize, scales, at, &values)? else {
                        return Ok([activation, requantize]);
                    };
                    by
                }
                None => self.quantizer(Fc::Two, at, Some(row.expert))?,
            };
            let stored = format.element().codes(codes.row(at));
            let scales = scales.map_or(&[][..], |scales| scales.row(at));
            for (block, codes) in stored.chunks(block_len).enumerate() {
                let (first, scale) = (block * block_len, scales.get(block).copied().unwrap_or(0));
                let verdict = judge_block(&by, &values, block, scale, codes);
                if verdict.scale {
                    requantize.within(at, 0.0, verdict.scale_decides);
                } else {
                    requantize.wrong(at, first, f64::INFINITY, || {
                        format!("scale {scale:#04x} instead of {}", verdict.wanted())
                    });
                }
                for (lane, code) in codes.iter().enumerate() {
                    if verdict.wrong >> lane & 1 == 0 {
                        // A wrong scale is a fault of requantization.
                        let over = if verdict.scale { verdict.worst.min(1.0) } else { 0.0 };
                        activation.within(at, over, verdict.open >> lane & 1 == 0);
                    } else {
                        activation.wrong(at, first + lane, verdict.worst, || {
                            let value = values.get(first + lane).copied().unwrap_or(Value::Open);
                            format!("code {code:#04x} with scale {scale:#04x} instead of {value}")
                        });
                    }
                }
            }
            Ok([activation, requantize])
        };
        let tallies = rows.par_iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let [activation, requantize] = tallies
            .into_iter()
            .fold([Tally::default(), Tally::default()], |[a, b], [c, d]| [a.join(c), b.join(d)]);
        let absent = self.absent_before(Stage::Activation);
        let expert = |row: usize| rows.get(row).map(|r| r.expert);
        Ok([
            activation.result(Stage::Activation, &absent, expert),
            requantize.result(Stage::Requantize, &absent, expert),
        ])
    }

    /// Returns the position of the weights of a row's expert.
    pub(super) fn weights_of(&self, row: usize, expert: usize) -> Result<&usize, Skip> {
        self.index
            .get(&expert)
            .ok_or_else(|| format!("row {row} belongs to expert {expert}, whose weights are missing"))
    }

    /// Judges the weighted sum of each token's rows.
    pub(super) fn finalize(&self) -> Result<StageJudgement, Skip> {
        let output = need!(self, output)?;
        self.sufficient(Stage::Finalize)?;
        let (Some(rows), Some(weights), Some(_)) =
            (&self.tensors.fc2_out, &self.tensors.topk_weights, &self.tensors.topk_ids)
        else {
            return self.output_from_before();
        };
        let dims = &self.contract.dims;
        let ids = self.ids()?;
        let (tokens, experts) = (self.row_tokens()?, self.row_experts()?);
        let place: HashMap<(usize, usize), usize> =
            tokens.into_iter().zip(experts).enumerate().map(|(row, key)| (key, row)).collect();
        let bias = match self.contract.settings.fc2_bias {
            BiasPlace::Epilogue => None,
            BiasPlace::NextStage => self.tensors.w2_bias.as_ref(),
        };
        let token = |token: usize| -> Result<Tally, Skip> {
            let mut slots = Vec::new();
            for (slot, weight) in weights.row(token).iter().enumerate() {
                let expert = ids[token * dims.top_k + slot];
                let row = place.get(&(token, expert)).ok_or_else(|| no_row(token, expert))?;
                let biases = match bias {
                    Some(bias) => bias.row(*self.weights_of(*row, expert)?),
                    None => &[],
                };
                slots.push((*weight, rows.row(*row), biases));
            }
            let mut tally = Tally::default();
            for (col, found) in output.row(token).iter().enumerate() {
                let terms: Vec<(f32, f64, f32)> = slots
                    .iter()
                    .map(|(weight, row, bias)| {
                        (*weight, bf16(row[col]), bias.get(col).copied().unwrap_or(0.0))
                    })
                    .collect();
                let expected = finalize(self.contract.finalize, &terms);
                tally.number(token, col, &expected.times(self.contract.suspicion.factor), *found);
            }
            Ok(tally)
        };
        let tallies = (0..dims.tokens).into_par_iter().map(token).collect::<Result<Vec<_>, _>>()?;
        Ok(tallies.into_iter().fold(Tally::default(), Tally::join).result(Stage::Finalize, &[], |_| None))
    }
}
