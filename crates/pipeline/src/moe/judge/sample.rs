//! Samples of a stage: the rows and columns of a GEMM, the tokens of any other stage, as a problem of their own.

use std::collections::BTreeSet;

use record::Verdict;

use super::tally::StageJudgement;
use super::{Inputs, index};
use crate::frame::effort::Effort;
use crate::moe::contract::Contract;
use crate::moe::stage::Stage;
use crate::moe::tensors::{Array, Axis, Tensors};

/// Rows and columns of a GEMM on which a change is tried first, and on which it is verified: as many wrong ones as others.
const SAMPLE: [(usize, usize); 2] = [(6, 48), (64, 512)];

/// Tokens of other stages on which a change is tried first, and on which it is verified.
const TOKENS: [usize; 2] = [8, 64];

/// The same where a stage is judged from afar: each token takes all products of a layer.
const TOKENS_FROM_AFAR: [usize; 2] = [2, 16];

/// Products that a change may take where a stage is judged from afar: beyond them the search would take minutes.
const MOST_PRODUCTS: [usize; 2] = [1 << 24, 1 << 27];

/// Products beyond which a sample of a GEMM is judged first: if it is wrong, the rest tells nothing more.
const MOST_BEFORE_SAMPLE: usize = 1 << 30;

/// A part of a problem: its rules and tensors.
pub(super) type Part = (Contract, Tensors);

/// What a sample holds of a problem.
#[derive(Debug, Clone)]
pub(super) enum Taken {
    /// Rows and columns of a GEMM.
    Gemm(Vec<usize>, Vec<usize>),
    /// Rows that are quantized.
    Quantized(Vec<usize>),
    /// Tokens, and their rows.
    Tokens(Vec<usize>, Vec<usize>),
}

/// A part of a problem, and the sample that is taken from it once it is changed.
pub(super) struct SampledPart {
    pub(super) part: Part,
    pub(super) taken: Taken,
}

impl SampledPart {
    /// The sample of a changed part as a problem of its own.
    pub(super) fn problem(&self, stage: Stage, experts: &[usize], part: &Part) -> Option<Part> {
        let (mut contract, tensors) = part.clone();
        let signed = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let list = |data: Vec<i32>| Some(Array { shape: vec![data.len()], data: data.into() });
        let of_rows = |tensors: &Tensors, rows: &[usize]| -> Option<Tensors> {
            // As the change leaves them.
            let changed = tensors.row_expert.as_ref().filter(|all| all.data.len() == experts.len());
            let expert = |row: &usize| match changed {
                Some(all) => all.data.get(*row).copied(),
                None => experts.get(*row).copied().map(signed),
            };
            let of_rows = rows.iter().map(expert);
            let mut taken = tensors.taking(Axis::Rows, rows);
            taken.row_expert = list(of_rows.collect::<Option<_>>()?);
            taken.row_token = list((0..rows.len()).map(signed).collect());
            Some(taken)
        };
        let tensors = match &self.taken {
            Taken::Gemm(rows, columns) => {
                let (names, axis) = match stage {
                    Stage::Fc1 => (FC1, Axis::Fc1Cols),
                    _ => (FC2, Axis::Hidden),
                };
                (contract.dims.tokens, contract.dims.top_k, contract.dims.shared) = (rows.len(), 1, 0);
                match stage {
                    Stage::Fc1 => contract.dims.inter = columns.len() / 2,
                    _ => contract.dims.hidden = columns.len(),
                }
                of_rows(&tensors.only(names).taking(axis, columns), rows)?
            }
            Taken::Quantized(rows) => {
                // The token of each row, as the change leaves it.
                let inputs = Inputs {
                    contract: &contract,
                    tensors: &tensors,
                    index: index(&contract, &tensors).ok()?,
                    effort: Effort::Every,
                };
                let tokens = inputs.row_tokens().ok()?;
                let tokens: Vec<usize> = rows.iter().filter_map(|row| tokens.get(*row).copied()).collect();
                (contract.dims.tokens, contract.dims.top_k, contract.dims.shared) = (rows.len(), 1, 0);
                of_rows(&tensors.only(QUANTIZE).taking(Axis::Tokens, &tokens), rows)?
            }
            Taken::Tokens(tokens, _) if stage == Stage::Route => {
                contract.dims.tokens = tokens.len();
                tensors.only(ROUTE).taking(Axis::Tokens, tokens)
            }
            Taken::Tokens(tokens, rows) => {
                contract.dims.tokens = tokens.len();
                let mut taken = tensors.taking(Axis::Tokens, tokens).taking(Axis::Rows, rows);
                let place = |token: &i32| {
                    let at = usize::try_from(*token).ok()?;
                    tokens.iter().position(|of| *of == at).map(signed)
                };
                if let Some(all) = &taken.row_token {
                    taken.row_token = list(all.data.iter().map(place).collect::<Option<_>>()?);
                }
                taken
            }
        };
        Some((contract, tensors))
    }

    /// The rows, or the tokens, of the whole problem that a row of the sample's results stands for; `is_of_tokens` for stages whose rows are tokens.
    pub(super) fn rows(&self, is_of_tokens: bool) -> &[usize] {
        match &self.taken {
            Taken::Gemm(rows, _) | Taken::Quantized(rows) => rows,
            Taken::Tokens(tokens, _) if is_of_tokens => tokens,
            Taken::Tokens(_, rows) => rows,
        }
    }

    /// The column of the whole problem that a column of the sample's results stands for.
    pub(super) fn column(&self, column: usize) -> Option<usize> {
        match &self.taken {
            Taken::Gemm(_, columns) => columns.get(column).copied(),
            _ => Some(column),
        }
    }
}

/// The tensors that the router reads and stores.
const ROUTE: &[&str] = &["router_logits", "correction_bias", "topk_ids", "topk_weights", "expert_ids"];

/// The tensors that the quantization stage reads and stores.
const QUANTIZE: &[&str] = &[
    "hidden_states",
    "expert_ids",
    "row_token",
    "row_expert",
    "a1_codes",
    "a1_scales",
    "a1_token_scale",
    "a1_global",
];

/// The tensors that each GEMM reads and stores.
const FC1: &[&str] = &[
    "expert_ids",
    "row_token",
    "row_expert",
    "a1_codes",
    "a1_scales",
    "a1_token_scale",
    "a1_global",
    "w13_blocks",
    "w13_scales",
    "w13_global",
    "w13_bias",
    "fc1_out",
];
const FC2: &[&str] = &[
    "expert_ids",
    "row_token",
    "row_expert",
    "a2_codes",
    "a2_scales",
    "a2_token_scale",
    "a2_global",
    "injected_a2_codes",
    "injected_a2_scales",
    "injected_a2_token_scale",
    "w2_blocks",
    "w2_scales",
    "w2_global",
    "w2_bias",
    "fc2_out",
];

impl Inputs<'_> {
    /// Judges a sample of a GEMM that is large, and names its wrong elements as those of the whole; `None` if it is not large, or nothing
    /// in the sample is wrong.
    pub(super) fn wrong_sample(
        &self,
        stage: Stage,
        experts: &[usize],
        depth: usize,
    ) -> Option<StageJudgement> {
        let columns = match stage {
            Stage::Fc1 => self.contract.dims.fc1_cols(),
            _ => self.contract.dims.hidden,
        };
        if experts.len().saturating_mul(columns).saturating_mul(depth) <= MOST_BEFORE_SAMPLE {
            return None;
        }
        let taken = self.gemm_sample(stage, &[], experts, 1);
        let whole = (*self.contract, self.tensors.clone());
        let part = match &taken {
            Taken::Gemm(rows, _) => of_experts(whole, rows, experts),
            _ => whole,
        };
        let sample = SampledPart { part, taken };
        let (contract, tensors) = sample.problem(stage, experts, &sample.part)?;
        let mut judgement = Inputs::new(&contract, &tensors).ok()?.one(stage);
        if judgement.result.verdict != Verdict::Fail {
            return None;
        }
        let rows = sample.rows(false);
        let of_whole = |(row, column): &(usize, usize)| Some((*rows.get(*row)?, sample.column(*column)?));
        judgement.wrong = judgement.wrong.iter().filter_map(of_whole).collect();
        judgement.is_sample = true;
        let result = &mut judgement.result;
        let at = |axis: &str| result.place.as_ref().and_then(|place| place.index(axis));
        let first = at("row").zip(at("col")).and_then(|place| of_whole(&place));
        result.place = first.map(|(row, column)| {
            let expert = experts.get(row).copied().unwrap_or_default();
            record::Place::at(&[("expert", expert), ("row", row), ("col", column)])
        });
        let columns = match stage {
            Stage::Fc1 => contract.dims.fc1_cols(),
            _ => contract.dims.hidden,
        };
        result.note = format!("of a sample of {} rows and {columns} columns; {}", rows.len(), result.note);
        Some(judgement)
    }

    /// The rows and columns of a sample of a GEMM: wrong ones and others, of few experts.
    pub(super) fn gemm_sample(
        &self,
        stage: Stage,
        places: &[(usize, usize)],
        experts: &[usize],
        n: usize,
    ) -> Taken {
        let (most_rows, most_columns) = SAMPLE[n];
        let columns = match stage {
            Stage::Fc1 => self.contract.dims.fc1_cols(),
            _ => self.contract.dims.hidden,
        };
        let wrong_rows: BTreeSet<usize> = places.iter().map(|(row, _)| *row).collect();
        let wrong_columns: BTreeSet<usize> = places.iter().map(|(_, column)| *column).collect();
        // A change of weights copies those of all experts of a sample: the first one has two of them.
        let ends: Vec<usize> = [wrong_rows.first(), wrong_rows.last()]
            .into_iter()
            .flatten()
            .filter_map(|row| experts.get(*row).copied())
            .collect();
        let is_kept = |row: &usize| n > 0 || experts.get(*row).is_some_and(|expert| ends.contains(expert));
        let rows: Vec<usize> = (0..experts.len()).filter(is_kept).collect();
        let mut columns = mixed(&wrong_columns, (0..columns).collect(), most_columns);
        // Gate and up are pairs of columns: an even number of them, one that is wrong included.
        if !columns.len().is_multiple_of(2) {
            let other = columns.iter().rposition(|column| !wrong_columns.contains(column));
            columns.remove(other.unwrap_or(columns.len() - 1));
        }
        Taken::Gemm(mixed(&wrong_rows, rows, most_rows), columns)
    }

    /// The tokens of a sample, with their rows, or rows that are quantized.
    ///
    /// # Errors
    /// If a single token takes too many products.
    pub(super) fn token_sample(
        &self,
        stage: Stage,
        places: &[(usize, usize)],
        absent: &[&str],
        n: usize,
    ) -> Result<Taken, String> {
        let dims = &self.contract.dims;
        let wrong: BTreeSet<usize> = places.iter().map(|(row, _)| *row).collect();
        if stage == Stage::Quantize {
            return Ok(Taken::Quantized(mixed(&wrong, (0..dims.rows()).collect(), TOKENS[n])));
        }
        let of_rows = if stage == Stage::Route { Vec::new() } else { self.row_tokens()? };
        let wrong = match stage {
            Stage::Route | Stage::Finalize => wrong,
            _ => wrong.iter().filter_map(|row| of_rows.get(*row).copied()).collect(),
        };
        let is_near = absent.is_empty() || matches!(stage, Stage::Route | Stage::Permute);
        let products = if is_near { 1 } else { dims.hidden * dims.inter * dims.top_k * 3 };
        let most = if is_near { TOKENS[n] } else { TOKENS_FROM_AFAR[n] };
        let most = most.min(MOST_PRODUCTS[n] / products.max(1));
        if most == 0 && products > MOST_PRODUCTS[1] {
            let add = absent.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "one token takes {products} products for each hypothesis: the dump needs the tensors before this stage: {add}"
            ));
        }
        // Rows are a list of all tokens' choices: which are which depends on every token.
        let tokens = match stage {
            Stage::Permute => (0..dims.tokens).collect(),
            _ => mixed(&wrong, (0..dims.tokens).collect(), most.max(1)),
        };
        let is_in = |row: &usize| of_rows.get(*row).is_some_and(|token| tokens.binary_search(token).is_ok());
        let rows = (0..of_rows.len()).filter(is_in).collect();
        Ok(Taken::Tokens(tokens, rows))
    }
}

/// At most `most` of all indices, rising: half of them wrong, evenly spread.
fn mixed(wrong: &BTreeSet<usize>, all: Vec<usize>, most: usize) -> Vec<usize> {
    if all.len() <= most {
        return all;
    }
    let (wrong, right): (Vec<usize>, Vec<usize>) = all.into_iter().partition(|index| wrong.contains(index));
    let of_wrong = wrong.len().min((most / 2).max(most.saturating_sub(right.len())).max(1));
    let mut taken = spread(&wrong, of_wrong);
    taken.extend(spread(&right, most.saturating_sub(of_wrong)));
    taken.sort_unstable();
    taken
}

/// So many of the indices, evenly spread.
fn spread(all: &[usize], count: usize) -> Vec<usize> {
    let count = all.len().min(count);
    (0..count).filter_map(|n| all.get(n * all.len() / count).copied()).collect()
}

/// Keeps the weights of the experts of these rows, and of those beside them, which a kernel may take instead.
pub(super) fn of_experts((contract, tensors): Part, rows: &[usize], of_rows: &[usize]) -> Part {
    let experts = contract.dims.experts.max(1);
    let Ok(places) = index(&contract, &tensors) else { return (contract, tensors) };
    // Some kernels take the first expert's for all.
    let mut kept: BTreeSet<usize> = BTreeSet::from([0]);
    for row in rows {
        let Some(expert) = of_rows.get(*row) else { continue };
        kept.extend([*expert, (expert + 1) % experts, (expert + experts - 1) % experts]);
    }
    let (experts, at): (Vec<usize>, Vec<usize>) =
        kept.into_iter().filter_map(|expert| Some((expert, *places.get(&expert)?))).unzip();
    let mut tensors = tensors.taking(Axis::Present, &at);
    let ids: Vec<i32> = experts.iter().map(|expert| i32::try_from(*expert).unwrap_or(i32::MAX)).collect();
    tensors.expert_ids = Some(Array { shape: vec![ids.len()], data: ids.into() });
    (contract, tensors)
}
