//! Judges every stage on the values that the device stored before it, never on the reference's own chain.

mod arithmetic;
mod changes;
mod elementwise;
mod explain;
mod gaps;
mod gemms;
mod routing;
mod sample;
mod tally;
mod whole;

use std::collections::HashMap;

pub use explain::explain;
pub use gaps::{Gap, Judgement, judge_dump};

use super::contract::Contract;
use super::error::MoeError;
use super::tensors::{Array, Tensors};
use crate::frame::effort::Effort;
use crate::moe::stage::Stage;
use record::StageResult;
use tally::StageJudgement;

/// Returns the verdict of every stage, in pipeline order. A stage whose inputs are missing is judged from the nearest earlier
/// tensors. It is skipped, with the reason, if its result is missing, if nothing determines it, or if its inputs are invalid as the
/// earlier stages stored them.
///
/// # Errors
/// [`MoeError`] if the tensors do not fit `contract`, or `expert_ids` is invalid.
pub fn judge(contract: &Contract, tensors: &Tensors) -> Result<Vec<StageResult>, MoeError> {
    Ok(Inputs::new(contract, tensors)?.judgements().into_iter().map(|of| of.result).collect())
}

/// Maps each expert to the position of its weights.
fn index(contract: &Contract, tensors: &Tensors) -> Result<HashMap<usize, usize>, MoeError> {
    let experts = contract.dims.experts;
    let Some(ids) = &tensors.expert_ids else {
        return Ok((0..experts).map(|e| (e, e)).collect());
    };
    let mut out = HashMap::new();
    for (at, id) in ids.data.iter().enumerate() {
        let expert = usize::try_from(*id).ok().filter(|e| *e < experts);
        let expert = expert.ok_or_else(|| {
            MoeError::Invalid(format!("expert_ids[{at}] is {id}, but there are {experts} experts"))
        })?;
        if out.insert(expert, at).is_some() {
            return Err(MoeError::Invalid(format!("expert_ids names expert {expert} twice")));
        }
    }
    Ok(out)
}

/// Why a stage cannot be judged.
type Skip = String;

/// The inputs to every stage's judgement.
struct Inputs<'a> {
    contract: &'a Contract,
    tensors: &'a Tensors,
    index: HashMap<usize, usize>,
    effort: Effort,
}

/// Returns the tensor, or says that it is missing.
fn needed<'a, T>(tensor: &'a Option<Array<T>>, name: &str) -> Result<&'a Array<T>, Skip> {
    tensor.as_ref().ok_or_else(|| format!("`{name}` is missing"))
}

/// Names a field of the tensors once.
macro_rules! need {
    ($self:ident, $name:ident) => {
        $crate::moe::judge::needed(&$self.tensors.$name, stringify!($name))
    };
}
use need;

impl<'a> Inputs<'a> {
    fn new(contract: &'a Contract, tensors: &'a Tensors) -> Result<Self, MoeError> {
        contract.check()?;
        tensors.check(&contract.dims, contract.settings.pair)?;
        Ok(Self { contract, tensors, index: index(contract, tensors)?, effort: Effort::Every })
    }

    fn judgements(&self) -> Vec<StageJudgement> {
        let mut out = Vec::new();
        for stage in [Stage::Route, Stage::Permute, Stage::Quantize, Stage::Fc1] {
            out.push(self.one(stage));
        }
        match self.activation() {
            Ok(both) => out.extend(both),
            Err(why) => {
                out.push(StageResult::skipped(Stage::Activation, why.clone()).into());
                out.push(StageResult::skipped(Stage::Requantize, why).into());
            }
        }
        for stage in [Stage::Fc2, Stage::Finalize] {
            out.push(self.one(stage));
        }
        out
    }

    fn one(&self, stage: Stage) -> StageJudgement {
        let result = match stage {
            Stage::Route => self.route(),
            Stage::Permute => self.permute(),
            Stage::Quantize => self.quantize(),
            Stage::Fc1 => self.fc1(),
            Stage::Fc2 => self.fc2(),
            Stage::Finalize => self.finalize(),
            Stage::Activation | Stage::Requantize => Err("judged together".to_owned()),
        };
        result.unwrap_or_else(|why| StageResult::skipped(stage, why).into())
    }

    /// The expert of each row as the device stored it, or, without it, as the reference permutes the stored choices.
    fn row_experts(&self) -> Result<Vec<usize>, Skip> {
        match &self.tensors.row_expert {
            Some(stored) => indices(&stored.data, self.contract.dims.experts, "row_expert"),
            None => Ok(self.expected_rows()?.iter().map(|r| r.expert).collect()),
        }
    }

    /// The token of each row, from the same sources.
    fn row_tokens(&self) -> Result<Vec<usize>, Skip> {
        match &self.tensors.row_token {
            Some(stored) => indices(&stored.data, self.contract.dims.tokens, "row_token"),
            None => Ok(self.expected_rows()?.iter().map(|r| r.token).collect()),
        }
    }
}

/// Converts stored indices; all must be below `end`.
fn indices(stored: &[i32], end: usize, name: &str) -> Result<Vec<usize>, Skip> {
    let one = |(at, i): (usize, &i32)| {
        let index = usize::try_from(*i).ok().filter(|i| *i < end);
        index.ok_or_else(|| format!("{name}[{at}] is {i}, which is not below {end}"))
    };
    stored.iter().enumerate().map(one).collect()
}
