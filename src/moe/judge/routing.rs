//! Judges the choice of experts, their weights, and the permutation.

use super::tally::Tally;
use super::{Inputs, Skip, indices, need};
use crate::moe::reference::finalize::softmax;
use crate::moe::reference::route::{self, Row};
use crate::record::{Stage, StageResult};

impl Inputs<'_> {
    /// Choices by the reference, weights by softmax over the choices that are stored.
    pub(super) fn route(&self) -> Result<StageResult, Skip> {
        let (logits, ids) = (need!(self, router_logits)?, need!(self, topk_ids)?);
        let weights = self.tensors.topk_weights.as_ref();
        let k = self.contract.dims.top_k;
        let mut tally = Tally::default();
        for token in 0..self.contract.dims.tokens {
            let (logits, ids) = (logits.row(token), ids.row(token));
            for (slot, (wanted, found)) in route::top_k(logits, k).into_iter().zip(ids).enumerate() {
                let same = (wanted as i64, i64::from(*found));
                tally.equal(token, slot, same, || format!("expert {found} instead of {wanted}"));
            }
            let Some(weights) = weights else { continue };
            let chosen: Option<Vec<f32>> =
                ids.iter().map(|id| logits.get(usize::try_from(*id).ok()?).copied()).collect();
            // Choices out of range are wrong already, and have no weights.
            let Some(chosen) = chosen else { continue };
            let bounds = softmax(&chosen, &self.contract.exp);
            for (slot, found) in weights.row(token).iter().enumerate() {
                let (right, over) = match &bounds {
                    None => (found.is_nan(), if found.is_nan() { 0.0 } else { f64::INFINITY }),
                    Some(bounds) => {
                        let (lo, hi, x) = (bounds[slot].lo, bounds[slot].hi, f64::from(*found));
                        let over = (x - f64::midpoint(lo, hi)).abs() / ((hi - lo) / 2.0);
                        let right = lo <= x && x <= hi;
                        (right, if right { if over.is_nan() { 0.0 } else { over } } else { over.max(1.0) })
                    }
                };
                if right {
                    tally.right(over);
                } else {
                    let over = if over.is_nan() { f64::INFINITY } else { over };
                    tally.wrong(token, slot, over, || match &bounds {
                        None => format!("weight {found} instead of NaN"),
                        Some(bounds) => {
                            format!(
                                "weight {found} instead of {:e} to {:e}",
                                bounds[slot].lo, bounds[slot].hi
                            )
                        }
                    });
                }
            }
        }
        Ok(tally.result(Stage::Route, |_| None))
    }

    /// The rows that the stored choices demand.
    pub(super) fn expected_rows(&self) -> Result<Vec<Row>, Skip> {
        let ids = indices(&need!(self, topk_ids)?.data, self.contract.dims.experts, "topk_ids")?;
        let choices: Vec<Vec<usize>> =
            ids.chunks(self.contract.dims.top_k.max(1)).map(<[usize]>::to_vec).collect();
        Ok(route::permute(&choices))
    }

    /// Rows by (expert, token, slot), exactly.
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
