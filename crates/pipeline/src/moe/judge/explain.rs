//! What explains a wrong stage: changes of its inputs, its rules or its stores, one of which may make every wrong element right.
//!
//! A change is tried on a sample of rows and columns of a GEMM, and on all of every other stage; one that leaves nothing wrong is verified on
//! a larger sample. It explains the stage only if it makes every element right and the bounds decide.

use std::collections::BTreeSet;

use record::{StageResult, Verdict};

use super::changes::{self, Change};
use super::gemms::Fc;
use super::{Inputs, index};
use crate::frame::diagnosis::{Diagnosis, Explanation};
use crate::moe::contract::Contract;
use crate::moe::stage::Stage;
use crate::moe::tensors::{Array, Tensors};

/// Rows and columns of a GEMM on which a change is tried first, and on which it is verified.
const SAMPLE: (usize, usize) = (6, 48);
const VERIFIED: (usize, usize) = (64, 512);

/// Products beyond which a stage that is judged from afar is not explained: each change would take as long as the judgement.
const MOST_PRODUCTS: usize = 1 << 28;

/// A part of a problem: its rules and tensors.
type Part = (Contract, Tensors);

/// Explains the first stage whose stored values are wrong; `None` if there is none.
#[must_use]
pub fn explain(contract: &Contract, tensors: &Tensors, results: &[StageResult]) -> Option<Diagnosis> {
    let wrong = results.iter().find(|result| result.verdict == Verdict::Fail && result.mismatches > 0)?;
    let stage = Stage::from_name(&wrong.stage)?;
    let search = Search::new(contract, tensors, stage, wrong)?;
    Some(search.diagnosis(wrong))
}

/// A search for what explains a stage.
struct Search {
    stage: Stage,
    /// What the stage reads and stores, experts beside those of the sample included.
    whole: Part,
    /// The rows and columns of both samples; `None` where the whole stage is judged.
    samples: Option<[(Vec<usize>, Vec<usize>); 2]>,
    /// Wrong elements of the first sample.
    wrong: u64,
}

impl Search {
    fn new(contract: &Contract, tensors: &Tensors, stage: Stage, wrong: &StageResult) -> Option<Self> {
        let inputs = Inputs::new(contract, tensors).ok()?;
        let direct = inputs.absent_before(stage).is_empty();
        let fc = match stage {
            Stage::Fc1 => Some(Fc::One),
            Stage::Fc2 => Some(Fc::Two),
            _ => None,
        };
        let mut whole = (*contract, tensors.clone());
        let mut samples = None;
        if let (Some(_), true) = (fc, direct) {
            let of_rows = inputs.row_experts().ok()?;
            let columns = match stage {
                Stage::Fc1 => contract.dims.fc1_cols(),
                _ => contract.dims.hidden,
            };
            let place = wrong.place.as_ref();
            let at = |axis: &str| place.and_then(|place| place.index(axis)).unwrap_or(0);
            let sample = |(rows, cols): (usize, usize)| {
                let mut of_columns = spread(columns, cols, at("col"));
                // An even number, as gate and up are pairs; the wrong one stays.
                if !of_columns.len().is_multiple_of(2)
                    && let Some(other) = of_columns.iter().position(|col| *col != at("col"))
                {
                    of_columns.remove(other);
                }
                (spread(of_rows.len(), rows, at("row")), of_columns)
            };
            let both = [sample(SAMPLE), sample(VERIFIED)];
            whole = of_experts((whole.0, needed(stage, whole.1)), &both[1].0, &of_rows);
            samples = Some(both);
        } else if !direct {
            let dims = &contract.dims;
            if dims.rows() * dims.hidden * dims.inter * 3 > MOST_PRODUCTS {
                return None;
            }
        }
        let mut search = Self { stage, whole, samples, wrong: 0 };
        search.wrong = search.judged(&search.whole, 0).map_or(0, |result| result.mismatches);
        (search.wrong > 0).then_some(search)
    }

    /// Judges the stage on the first or the second sample of a part.
    fn judged(&self, part: &Part, sample: usize) -> Option<StageResult> {
        let taken = self.samples.as_ref().map(|samples| {
            let (rows, columns) = &samples[sample];
            taken(part, self.stage, rows, columns)
        });
        let (contract, tensors) = match &taken {
            Some(taken) => taken.as_ref()?,
            None => part,
        };
        let stage = self.stage;
        let results = match stage {
            // Both are judged together.
            Stage::Activation | Stage::Requantize => {
                Inputs::new(contract, tensors).ok()?.activation().ok()?.into()
            }
            _ => vec![Inputs::new(contract, tensors).ok()?.one(stage)],
        };
        results.into_iter().find(|result| result.stage == *stage.word())
    }

    fn diagnosis(&self, wrong: &StageResult) -> Diagnosis {
        let mut found: Vec<(Part, Explanation)> = Vec::new();
        let mut next: Option<(String, u64)> = None;
        for Change { what, look, seen, apply } in changes::of_stage(&self.whole.0, &self.whole.1, self.stage)
        {
            let mut part = self.whole.clone();
            apply(&mut part.0, &mut part.1);
            if part == self.whole {
                continue;
            }
            let Some(result) = self.judged(&part, 0) else { continue };
            if result.mismatches > 0 {
                let percent = (self.wrong.saturating_sub(result.mismatches)) * 100 / self.wrong.max(1);
                if percent > next.as_ref().map_or(0, |(_, most)| *most) {
                    next = Some((what, percent));
                }
                continue;
            }
            // A stage that the bounds leave open is not explained.
            if self.judged(&part, 1).is_none_or(|result| result.verdict != Verdict::Pass) {
                continue;
            }
            match found.iter_mut().find(|(known, _)| *known == part) {
                Some((_, explanation)) => explanation.same.push(what),
                None => {
                    let [look, seen] = [look, seen].map(str::to_owned);
                    found.push((part, Explanation { what, look, seen, same: Vec::new() }));
                }
            }
        }
        let verified = match &self.samples {
            None => wrong.mismatches,
            Some(_) => self.judged(&self.whole, 1).map_or(0, |result| result.mismatches),
        };
        Diagnosis {
            wrong: wrong.mismatches,
            verified: verified.min(wrong.mismatches),
            explanations: found.into_iter().map(|(_, explanation)| explanation).collect(),
            next,
            undecided: Vec::new(),
            roundings: Vec::new(),
            extent: match &wrong.place {
                Some(place) => format!("stage {}, first at {place}", self.stage.word()),
                None => format!("stage {}", self.stage.word()),
            },
        }
    }
}

/// At most `most` of `count` indices, evenly spread, `at` among them.
fn spread(count: usize, most: usize, at: usize) -> Vec<usize> {
    let taken = count.min(most);
    let mut all: BTreeSet<usize> = (0..taken).map(|n| n * count / taken.max(1)).collect();
    all.extend((at < count).then_some(at));
    all.into_iter().collect()
}

/// The rows of a tensor, in this order.
fn rows_of<T: Copy>(array: &Array<T>, rows: impl Iterator<Item = usize>) -> Array<T> {
    let mut shape = array.shape.clone();
    let width: usize = shape.get(1..).unwrap_or_default().iter().product();
    let mut data = Vec::new();
    let mut count = 0;
    for row in rows {
        data.extend_from_slice(array.data.get(row * width..(row + 1) * width).unwrap_or_default());
        count += 1;
    }
    if let Some(first) = shape.first_mut() {
        *first = count;
    }
    Array { shape, data }
}

/// The tensors that a GEMM's stage reads and stores.
fn needed(stage: Stage, tensors: Tensors) -> Tensors {
    let (row_token, row_expert) = (tensors.row_token, tensors.row_expert);
    let common = Tensors {
        expert_ids: tensors.expert_ids,
        topk_ids: tensors.topk_ids,
        router_logits: tensors.router_logits,
        row_token,
        row_expert,
        ..Tensors::default()
    };
    match stage {
        Stage::Fc1 => Tensors {
            a1_codes: tensors.a1_codes,
            a1_scales: tensors.a1_scales,
            a1_token_scale: tensors.a1_token_scale,
            a1_global: tensors.a1_global,
            w13_blocks: tensors.w13_blocks,
            w13_scales: tensors.w13_scales,
            w13_global: tensors.w13_global,
            w13_bias: tensors.w13_bias,
            fc1_out: tensors.fc1_out,
            ..common
        },
        _ => Tensors {
            a2_codes: tensors.a2_codes,
            a2_scales: tensors.a2_scales,
            a2_token_scale: tensors.a2_token_scale,
            a2_global: tensors.a2_global,
            injected_a2_codes: tensors.injected_a2_codes,
            injected_a2_scales: tensors.injected_a2_scales,
            injected_a2_token_scale: tensors.injected_a2_token_scale,
            w2_blocks: tensors.w2_blocks,
            w2_scales: tensors.w2_scales,
            w2_global: tensors.w2_global,
            w2_bias: tensors.w2_bias,
            fc2_out: tensors.fc2_out,
            ..common
        },
    }
}

/// Keeps the weights of the experts of these rows, and of those beside them, which a kernel may take instead.
fn of_experts((contract, mut tensors): Part, rows: &[usize], of_rows: &[usize]) -> Part {
    let experts = contract.dims.experts.max(1);
    let Ok(places) = index(&contract, &tensors) else { return (contract, tensors) };
    let mut kept: BTreeSet<usize> = BTreeSet::new();
    for row in rows {
        let Some(expert) = of_rows.get(*row) else { continue };
        kept.extend([*expert, (expert + 1) % experts, (expert + experts - 1) % experts]);
    }
    let kept: Vec<(usize, usize)> =
        kept.into_iter().filter_map(|expert| Some((expert, *places.get(&expert)?))).collect();
    let bytes = |array: &Array<u8>| rows_of(array, kept.iter().map(|(_, place)| *place));
    let floats = |array: &Array<f32>| rows_of(array, kept.iter().map(|(_, place)| *place));
    for array in
        [&mut tensors.w13_blocks, &mut tensors.w13_scales, &mut tensors.w2_blocks, &mut tensors.w2_scales]
    {
        *array = array.as_ref().map(bytes);
    }
    for array in [
        &mut tensors.w13_global,
        &mut tensors.w13_bias,
        &mut tensors.w2_global,
        &mut tensors.w2_bias,
        &mut tensors.a1_global,
        &mut tensors.a2_global,
    ] {
        *array = array.as_ref().map(floats);
    }
    let ids: Vec<i32> = kept.iter().map(|(expert, _)| i32::try_from(*expert).unwrap_or(i32::MAX)).collect();
    tensors.expert_ids = Some(Array { shape: vec![ids.len()], data: ids });
    (contract, tensors)
}

/// The rows and columns of a GEMM's stage as a problem of its own; `None` if a tensor is missing.
fn taken((contract, tensors): &Part, stage: Stage, rows: &[usize], columns: &[usize]) -> Option<Part> {
    let experts = Inputs { contract, tensors, index: index(contract, tensors).ok()? }.row_experts().ok()?;
    let mut contract = *contract;
    let count = rows.len();
    (contract.dims.tokens, contract.dims.top_k, contract.dims.shared) = (count, 1, 0);
    let signed = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let bytes = |array: &Option<Array<u8>>| array.as_ref().map(|of| rows_of(of, rows.iter().copied()));
    let floats = |array: &Option<Array<f32>>| array.as_ref().map(|of| rows_of(of, rows.iter().copied()));
    let present = tensors.expert_ids.as_ref().map_or(contract.dims.experts, |ids| ids.data.len());
    let width = match stage {
        Stage::Fc1 => contract.dims.fc1_cols(),
        _ => contract.dims.hidden,
    };
    // Gate and up are pairs of columns: an even number of them.
    let columns = &columns[..columns.len() / 2 * 2];
    let of_columns = || (0..present).flat_map(|expert| columns.iter().map(move |col| expert * width + col));
    let matrix = |array: &Option<Array<u8>>| {
        let array = array.as_ref()?;
        let last = *array.shape.last()?;
        let flat = Array { shape: vec![present * width, last], data: array.data.clone() };
        let part = rows_of(&flat, of_columns());
        Some(Array { shape: vec![present, columns.len(), last], data: part.data })
    };
    let of_bias = |array: &Option<Array<f32>>| {
        let array = array.as_ref()?;
        let data = of_columns().map(|at| array.data.get(at).copied().unwrap_or_default()).collect();
        Some(Array { shape: vec![present, columns.len()], data })
    };
    let stored = |array: &Option<Array<u16>>| {
        let array = array.as_ref()?;
        let of = |row: &usize| {
            let row = array.row(*row);
            columns.iter().map(|col| row.get(*col).copied().unwrap_or_default()).collect::<Vec<u16>>()
        };
        Some(Array { shape: vec![count, columns.len()], data: rows.iter().flat_map(of).collect() })
    };
    let mut part = Tensors {
        expert_ids: tensors.expert_ids.clone(),
        row_token: Some(Array { shape: vec![count], data: (0..count).map(signed).collect() }),
        row_expert: Some(Array {
            shape: vec![count],
            data: rows.iter().map(|row| experts.get(*row).copied().map_or(0, signed)).collect(),
        }),
        ..Tensors::default()
    };
    match stage {
        Stage::Fc1 => {
            contract.dims.inter = columns.len() / 2;
            part.a1_codes = bytes(&tensors.a1_codes);
            part.a1_scales = bytes(&tensors.a1_scales);
            part.a1_token_scale = floats(&tensors.a1_token_scale);
            part.a1_global.clone_from(&tensors.a1_global);
            part.w13_blocks = matrix(&tensors.w13_blocks);
            part.w13_scales = matrix(&tensors.w13_scales);
            part.w13_global.clone_from(&tensors.w13_global);
            part.w13_bias = of_bias(&tensors.w13_bias);
            part.fc1_out = stored(&tensors.fc1_out);
        }
        _ => {
            contract.dims.hidden = columns.len();
            part.a2_codes = bytes(&tensors.a2_codes);
            part.a2_scales = bytes(&tensors.a2_scales);
            part.a2_token_scale = floats(&tensors.a2_token_scale);
            part.injected_a2_codes = bytes(&tensors.injected_a2_codes);
            part.injected_a2_scales = bytes(&tensors.injected_a2_scales);
            part.injected_a2_token_scale = floats(&tensors.injected_a2_token_scale);
            part.a2_global.clone_from(&tensors.a2_global);
            part.w2_blocks = matrix(&tensors.w2_blocks);
            part.w2_scales = matrix(&tensors.w2_scales);
            part.w2_global.clone_from(&tensors.w2_global);
            part.w2_bias = of_bias(&tensors.w2_bias);
            part.fc2_out = stored(&tensors.fc2_out);
        }
    }
    Some((contract, part))
}
