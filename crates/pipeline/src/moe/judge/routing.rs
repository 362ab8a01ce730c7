//! Judges the choice of experts, their weights, and the permutation.

use super::tally::Tally;
use super::{Inputs, Skip, indices, need};
use crate::moe::reference::activation::Value;
use crate::moe::reference::interval::Interval;
use crate::moe::reference::route::{self, Choice, Row, WrongChoice};
use crate::moe::reference::scores;
use record::{Stage, StageResult};

/// Checks a stored weight against its allowed values.
fn weight(tally: &mut Tally, (token, slot): (usize, usize), wanted: &Value, found: f32) {
    let x = f64::from(found);
    match wanted {
        Value::Open => tally.right(0.0),
        Value::Nan if found.is_nan() => tally.right(0.0),
        Value::Nan => {
            tally.wrong(token, slot, f64::INFINITY, || format!("weight {found} instead of NaN"));
        }
        Value::Within(Interval { lo, hi }) => {
            let over = (x - f64::midpoint(*lo, *hi)).abs() / ((hi - lo) / 2.0);
            if *lo <= x && x <= *hi {
                tally.right(if over.is_nan() { 0.0 } else { over });
            } else {
                let over = if over.is_nan() { f64::INFINITY } else { over.max(1.0) };
                tally.wrong(token, slot, over, || format!("weight {found} instead of {lo:e} to {hi:e}"));
            }
        }
    }
}

impl Inputs<'_> {
    /// Judges the choices by the reference, and the weights from the stored choices.
    pub(super) fn route(&self) -> Result<StageResult, Skip> {
        let (logits, ids) = (need!(self, router_logits)?, need!(self, topk_ids)?);
        let (contract, router) = (self.contract, &self.contract.settings.router);
        let (chosen, routed) = (contract.dims.chosen(), contract.dims.routed());
        let bias = self.tensors.correction_bias.as_ref().map_or(&[][..], |b| &b.data);
        let mut tally = Tally::default();
        for token in 0..contract.dims.tokens {
            let (logits, ids) = (logits.row(token), ids.row(token));
            let (ids, shared) = ids.split_at(chosen.min(ids.len()));
            let verdicts = Choice::new(router, logits, bias, &contract.exp).judge(ids);
            for (slot, (wrong, found)) in verdicts.into_iter().zip(ids).enumerate() {
                let Some(WrongChoice { wanted }) = wrong else {
                    tally.right(0.0);
                    continue;
                };
                tally.wrong(token, slot, f64::INFINITY, || match wanted {
                    Some(wanted) => format!("expert {found} instead of {wanted}"),
                    None => format!("expert {found}, which is impossible together with the other choices"),
                });
            }
            for (at, found) in shared.iter().enumerate() {
                let wanted = routed + at;
                tally.equal(token, chosen + at, (i64::from(*found), wanted as i64), || {
                    format!("expert {found} instead of the shared expert {wanted}")
                });
            }
            let Some(weights) = self.tensors.topk_weights.as_ref() else { continue };
            let known: Option<Vec<usize>> =
                ids.iter().map(|id| usize::try_from(*id).ok().filter(|e| *e < routed)).collect();
            // Choices out of range are already wrong, and have no weights.
            let Some(known) = known else { continue };
            let mut wanted = scores::weights(router, logits, &known, &contract.exp);
            wanted.resize(contract.dims.top_k, Value::Within(Interval::point(1.0)));
            for (slot, (wanted, found)) in wanted.iter().zip(weights.row(token)).enumerate() {
                weight(&mut tally, (token, slot), wanted, *found);
            }
        }
        Ok(tally.result(Stage::Route, |_| None))
    }

    /// Returns the rows that the stored choices require.
    pub(super) fn expected_rows(&self) -> Result<Vec<Row>, Skip> {
        let ids = indices(&need!(self, topk_ids)?.data, self.contract.dims.experts, "topk_ids")?;
        let choices: Vec<Vec<usize>> =
            ids.chunks(self.contract.dims.top_k.max(1)).map(<[usize]>::to_vec).collect();
        Ok(route::permute(&choices))
    }

    /// Judges that the rows are ordered by (expert, token, slot), exactly.
    pub(super) fn permute(&self) -> Result<StageResult, Skip> {
        let (tokens, experts) = (need!(self, row_token)?, need!(self, row_expert)?);
        let rows = self.expected_rows()?;
        let mut tally = Tally::default();
        for (at, row) in rows.iter().enumerate() {
            let found = (i64::from(tokens.data[at]), i64::from(experts.data[at]));
            let wanted = (row.token as i64, row.expert as i64);
            tally.equal(at, 0, (found, wanted), || {
                format!(
                    "token {} of expert {} instead of token {} of expert {}",
                    found.0, found.1, wanted.0, wanted.1
                )
            });
        }
        Ok(tally.result(Stage::Permute, |row| rows.get(row).map(|r| r.expert)))
    }
}
