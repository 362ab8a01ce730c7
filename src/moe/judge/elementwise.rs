//! Judges quantization bit by bit, activation and requantization together, and the weighted sum.

use std::collections::HashMap;

use rayon::prelude::*;

use super::tally::Tally;
use super::{Inputs, Skip, indices, need};
use crate::case::BiasPlace;
use crate::moe::dims::BLOCK;
use crate::moe::reference::activation::{Value, columns, judge_block, swiglu};
use crate::moe::reference::finalize::finalize;
use crate::moe::reference::formats::bf16;
use crate::moe::reference::quantize;
use crate::record::{Stage, StageResult};

impl Inputs<'_> {
    /// Codes and scales of every row, bit for bit.
    pub(super) fn quantize(&self) -> Result<StageResult, Skip> {
        let hidden = need!(self, hidden_states)?;
        let (codes, scales) = (need!(self, a1_codes)?, need!(self, a1_scales)?);
        let (tokens, experts) = (self.row_tokens()?, self.row_experts().unwrap_or_default());
        let rule = self.contract.settings.scale_rule;
        let row = |(row, token): (usize, &usize)| {
            let mut tally = Tally::default();
            let values: Vec<f64> = hidden.row(*token).iter().map(|x| bf16(*x)).collect();
            let stored = codes.row(row).chunks(BLOCK).zip(scales.row(row));
            for (block, (values, (codes, scale))) in values.chunks(BLOCK).zip(stored).enumerate() {
                let (wanted, elements) = quantize::block(rule, values);
                let first = block * BLOCK;
                tally.equal(row, first, (wanted, *scale), || {
                    format!("scale {scale:#04x} instead of {wanted:#04x}")
                });
                for (lane, (wanted, found)) in elements.iter().zip(codes).enumerate() {
                    let col = first + lane;
                    tally.equal(row, col, (wanted, found), || {
                        format!("code {found:#04x} instead of {wanted:#04x}, for {:e}", values[lane])
                    });
                }
            }
            tally
        };
        let tally = tokens.par_iter().enumerate().map(row).collect::<Vec<_>>();
        let tally = tally.into_iter().fold(Tally::default(), Tally::join);
        Ok(tally.result(Stage::Quantize, |row| experts.get(row).copied()))
    }

    /// Activation and requantization: what FC1 stored against codes and scales.
    pub(super) fn activation(&self) -> Result<[StageResult; 2], Skip> {
        let stored = need!(self, fc1_out)?;
        let (codes, scales) = (need!(self, a2_codes)?, need!(self, a2_scales)?);
        let experts = self.row_experts()?;
        let settings = &self.contract.settings;
        let bias = match settings.fc1_bias {
            BiasPlace::Epilogue => None,
            BiasPlace::NextStage => self.tensors.w13_bias.as_ref(),
        };
        let inter = self.contract.dims.inter;
        let row = |(row, expert): (usize, &usize)| -> Result<[Tally; 2], Skip> {
            let biases = match bias {
                Some(bias) => bias.row(*self.weights_of(row, *expert)?),
                None => &[],
            };
            let sums = stored.row(row);
            // The bias is added in f32, rounded once.
            let value = |col: usize| {
                let x = bf16(sums[col]) as f32;
                f64::from(biases.get(col).map_or(x, |b| x + b))
            };
            let mut activation = Tally::default();
            let mut requantize = Tally::default();
            let blocks = codes.row(row).chunks(BLOCK).zip(scales.row(row));
            for (block, (codes, scale)) in blocks.enumerate() {
                let first = block * BLOCK;
                let values: Vec<Value> = (first..first + BLOCK)
                    .map(|col| {
                        let (gate, up) = columns(settings.gate_up, inter, col);
                        swiglu(settings, &self.contract.exp, value(gate), value(up))
                    })
                    .collect();
                let verdict = judge_block(settings.scale_rule, &values, *scale, codes);
                if verdict.scale {
                    requantize.right(0.0);
                } else {
                    requantize.wrong(row, first, f64::INFINITY, || {
                        let (lo, hi) = verdict.scales;
                        format!("scale {scale:#04x} instead of {lo:#04x} to {hi:#04x}")
                    });
                }
                for (lane, code) in codes.iter().enumerate() {
                    if verdict.wrong >> lane & 1 == 0 {
                        // Where the scale is wrong, that is requantization's fault.
                        activation.right(if verdict.scale { verdict.worst.min(1.0) } else { 0.0 });
                    } else {
                        activation.wrong(row, first + lane, verdict.worst, || {
                            format!("code {code:#04x} with scale {scale:#04x} instead of {:?}", values[lane])
                        });
                    }
                }
            }
            Ok([activation, requantize])
        };
        let tallies = experts.par_iter().enumerate().map(row).collect::<Result<Vec<_>, _>>()?;
        let [activation, requantize] = tallies
            .into_iter()
            .fold([Tally::default(), Tally::default()], |[a, b], [c, d]| [a.join(c), b.join(d)]);
        let expert = |row: usize| experts.get(row).copied();
        Ok([activation.result(Stage::Activation, expert), requantize.result(Stage::Requantize, expert)])
    }

    /// Where the weights of a row's expert are.
    pub(super) fn weights_of(&self, row: usize, expert: usize) -> Result<&usize, Skip> {
        self.index
            .get(&expert)
            .ok_or_else(|| format!("row {row} belongs to expert {expert}, whose weights are missing"))
    }

    /// The sum of each token's rows.
    pub(super) fn finalize(&self) -> Result<StageResult, Skip> {
        let (rows, output) = (need!(self, fc2_out)?, need!(self, output)?);
        let weights = need!(self, topk_weights)?;
        let dims = &self.contract.dims;
        let ids = indices(&need!(self, topk_ids)?.data, dims.experts, "topk_ids")?;
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
                let row = place
                    .get(&(token, expert))
                    .ok_or_else(|| format!("no row belongs to token {token} of expert {expert}"))?;
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
                tally.number(token, col, &expected, *found);
            }
            Ok(tally)
        };
        let tallies = (0..dims.tokens).into_par_iter().map(token).collect::<Result<Vec<_>, _>>()?;
        Ok(tallies.into_iter().fold(Tally::default(), Tally::join).result(Stage::Finalize, |_| None))
    }
}
