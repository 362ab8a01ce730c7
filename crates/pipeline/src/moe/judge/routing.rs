//! Judges the choice of experts, their weights, and the permutation.

use super::tally::{StageJudgement, Tally};
use super::{Inputs, Skip, indices, need};
use crate::moe::reference::activation::Value;
use crate::moe::reference::interval::Interval;
use crate::moe::reference::route::{self, Choice, Row, WrongChoice};
use crate::moe::reference::scores;
use crate::moe::stage::Stage;
use crate::moe::tensors::Array;

/// Checks a stored weight against its allowed values.
fn weight(tally: &mut Tally, (token, slot): (usize, usize), wanted: &Value, found: f32) {
    let x = f64::from(found);
    match wanted {
        Value::Open => tally.within(token, 0.0, false),
        Value::Nan if found.is_nan() => tally.right(token, 0.0),
        Value::Nan => {
            tally.wrong(token, slot, f64::INFINITY, || format!("weight {found} instead of NaN"));
        }
        Value::Within(allowed @ Interval { lo, hi }) => {
            let over = (x - f64::midpoint(*lo, *hi)).abs() / ((hi - lo) / 2.0);
            if *lo <= x && x <= *hi {
                tally.within(token, if over.is_nan() { 0.0 } else { over }, wanted.decides());
            } else {
                let over = if over.is_nan() { f64::INFINITY } else { over.max(1.0) };
                tally.wrong(token, slot, over, || format!("weight {found} instead of {allowed}"));
            }
        }
    }
}

impl Inputs<'_> {
    /// Judges the choices by the reference, and the weights from the stored choices.
    pub(super) fn route(&self) -> Result<StageJudgement, Skip> {
        let weights = self.tensors.topk_weights.as_ref();
        if weights.is_none() {
            need!(self, topk_ids)?;
        }
        let logits = need!(self, router_logits)?;
        let ids: Vec<i32> = match &self.tensors.topk_ids {
            Some(ids) => ids.data.to_vec(),
            // Expert indices are below the number of logits, which fit memory.
            None => self.ids()?.into_iter().map(|id| i32::try_from(id).unwrap_or(i32::MAX)).collect(),
        };
        let (contract, router) = (self.contract, &self.contract.settings.router);
        let (chosen, routed) = (contract.dims.chosen(), contract.dims.routed());
        let bias = self.tensors.correction_bias.as_ref().map_or(&[][..], |b| &b.data);
        let mut tally = Tally::default();
        for token in 0..contract.dims.tokens {
            let logits = logits.row(token);
            let top_k = contract.dims.top_k;
            let ids = ids.get(token * top_k..(token + 1) * top_k).unwrap_or_default();
            let (ids, shared) = ids.split_at(chosen.min(ids.len()));
            let verdicts = Choice::new(router, logits, bias, &contract.exp).judge(ids);
            for (slot, (wrong, found)) in verdicts.into_iter().zip(ids).enumerate() {
                let Some(WrongChoice { wanted }) = wrong else {
                    tally.right(token, 0.0);
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
            let Some(weights) = weights else { continue };
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
        let absent: &[&str] = if self.tensors.topk_ids.is_some() { &[] } else { &["topk_ids"] };
        Ok(tally.result(Stage::Route, absent, |_| None))
    }

    /// Returns the choices, token by token: the stored ones or, if missing, the reference's.
    pub(super) fn ids(&self) -> Result<Vec<usize>, Skip> {
        let dims = &self.contract.dims;
        if let Some(ids) = &self.tensors.topk_ids {
            return indices(&ids.data, dims.experts, "topk_ids");
        }
        let logits = need!(self, router_logits)?;
        if dims.top_k == 0 {
            return Err(
                "the number of experts per token is unknown: `topk_ids` or the metadata `top_k` is missing"
                    .to_owned(),
            );
        }
        let router = &self.contract.settings.router;
        let bias = self.tensors.correction_bias.as_ref().map_or(&[][..], |b| &b.data);
        let mut out = Vec::with_capacity(dims.rows());
        for token in 0..dims.tokens {
            let choice = Choice::new(router, logits.row(token), bias, &self.contract.exp);
            let best = choice.best(dims.chosen());
            if best.len() < dims.chosen() {
                return Err(format!(
                    "token {token} chooses {} experts, but `router_logits` has {}",
                    dims.chosen(),
                    best.len()
                ));
            }
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
    pub(super) fn weights(&self, ids: &[usize]) -> Result<Vec<Value>, Skip> {
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

    /// Returns the rows that the choices require.
    pub(super) fn expected_rows(&self) -> Result<Vec<Row>, Skip> {
        let ids = self.ids()?;
        let choices: Vec<Vec<usize>> =
            ids.chunks(self.contract.dims.top_k.max(1)).map(<[usize]>::to_vec).collect();
        Ok(route::permute(&choices))
    }

    /// Judges that the rows are ordered by (expert, token, slot), exactly.
    pub(super) fn permute(&self) -> Result<StageJudgement, Skip> {
        let (tokens, experts) = (&self.tensors.row_token, &self.tensors.row_expert);
        if experts.is_none() {
            need!(self, row_token)?;
        }
        self.sufficient(Stage::Permute)?;
        let rows = self.expected_rows()?;
        let mut tally = Tally::default();
        for (at, row) in rows.iter().enumerate() {
            let (token, expert) = (row.token as i64, row.expert as i64);
            // A dump may have only one of the two.
            let or = |stored: &Option<Array<i32>>, wanted| {
                stored.as_ref().map_or(wanted, |of| of.data.get(at).map_or(-1, |found| i64::from(*found)))
            };
            let found = (or(tokens, token), or(experts, expert));
            tally.equal(at, 0, (found, (token, expert)), || {
                format!("token {} of expert {} instead of token {token} of expert {expert}", found.0, found.1)
            });
        }
        Ok(tally.result(Stage::Permute, &[], |row| rows.get(row).map(|r| r.expert)))
    }
}
