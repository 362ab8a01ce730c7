//! What explains a wrong stage: changes of its inputs, its rules or its stores, one of which may make every wrong element right.
//!
//! [`crate::frame::search`] tries the changes; here is what it tries them on. A GEMM that is judged on its stored inputs is sampled by rows and
//! columns, every other stage by tokens. A change is made to a part of the problem that holds what a sample needs, neighbouring experts
//! included, and the sample is taken from what the change leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use record::{StageResult, Verdict};

use super::changes::{self, Apply};
use super::tally::StageJudgement;
use super::{Inputs, index};
use crate::frame::diagnosis::Diagnosis;
use crate::frame::fitted::Fitted;
use crate::frame::region::{Place, Region};
use crate::frame::search::{Candidate, Outcome, Scope, Search, Suspect};
use crate::moe::contract::{Accumulation, Contract};
use crate::moe::stage::Stage;
use crate::moe::tensors::{Array, Axis, Tensors};

/// Rows and columns of a GEMM on which a change is tried first, and on which it is verified: as many wrong ones as others.
const SAMPLE: [(usize, usize); 2] = [(6, 48), (64, 512)];

/// Tokens of other stages on which a change is tried first, and on which it is verified.
const TOKENS: [usize; 2] = [8, 64];

/// Products that a change may take where a stage is judged from afar: beyond them the search would take minutes.
const MOST_PRODUCTS: [usize; 2] = [1 << 24, 1 << 27];

/// Products up to which a stage is judged once more to find all its wrong elements.
const MOST_REPEATED: usize = 1 << 28;

/// A part of a problem: its rules and tensors.
type Part = (Contract, Tensors);

/// Explains the first stage whose stored values are wrong; `None` if there is none.
#[must_use]
pub fn explain(contract: &Contract, tensors: &Tensors, results: &[StageResult]) -> Option<Diagnosis> {
    let wrong = results.iter().find(|result| is_wrong(result))?;
    let stage = Stage::from_name(&wrong.stage)?;
    let dims = &contract.dims;
    let cheap = dims.rows() * dims.hidden * dims.inter * 3 <= MOST_REPEATED;
    let again = cheap.then(|| Inputs::new(contract, tensors).ok().and_then(|inputs| inputs.of_stage(stage)));
    let places = again.flatten().map(|judgement| judgement.wrong).unwrap_or_default();
    Some(explain_stage(contract, tensors, wrong, &places))
}

/// Explains the first stage whose stored values are wrong, of which these elements are known.
pub(super) fn explain_judged(
    contract: &Contract,
    tensors: &Tensors,
    results: &[StageResult],
    places: &BTreeMap<Stage, Vec<(usize, usize)>>,
) -> Option<Diagnosis> {
    let wrong = results.iter().find(|result| is_wrong(result))?;
    let places = Stage::from_name(&wrong.stage).and_then(|stage| places.get(&stage));
    Some(explain_stage(contract, tensors, wrong, places.map_or(&[], Vec::as_slice)))
}

fn is_wrong(result: &StageResult) -> bool {
    result.verdict == Verdict::Fail && result.mismatches > 0
}

fn explain_stage(
    contract: &Contract,
    tensors: &Tensors,
    wrong: &StageResult,
    places: &[(usize, usize)],
) -> Diagnosis {
    let place = wrong.place.as_ref().map(|place| format!(", first at {place}")).unwrap_or_default();
    let mut diagnosis = Diagnosis {
        wrong: wrong.mismatches,
        verified: 0,
        explanations: Vec::new(),
        next: None,
        undecided: Vec::new(),
        roundings: Vec::new(),
        unsearched: None,
        extent: format!("stage {}{place}", wrong.stage),
    };
    let suspect = match WrongStage::new(contract, tensors, wrong, places) {
        Ok(suspect) => suspect,
        Err(why) => {
            diagnosis.unsearched = Some(why);
            return diagnosis;
        }
    };
    if places.len() as u64 == wrong.mismatches {
        let words = suspect.region_of(places).words(suspect.axes());
        diagnosis.extent = format!("stage {}, {words}{place}", wrong.stage);
    }
    let Some(search) = Search::new(&suspect) else {
        diagnosis.unsearched = Some("no element of the sample is wrong".to_owned());
        return diagnosis;
    };
    let answer = search.answer();
    // Wider bounds accept more, whatever is wrong: they are no explanation, but may be what the kernel does.
    let any_order = suspect.declared.then(Box::new(|contract: &mut Contract, _: &mut Tensors| {
        (contract.fc1, contract.fc2) = (Accumulation::UNKNOWN, Accumulation::UNKNOWN);
    }));
    let fits = |scope| suspect.judge(&any_order, scope).is_some_and(|outcome| outcome.wrong.is_empty());
    if fits(Scope::Sample) && fits(Scope::Full) {
        diagnosis.roundings.push("sums in any order (`fc1_order` and `fc2_order` any, `fc1_chunk` and `fc2_chunk` 8, `fc1_fraction` and `fc2_fraction` 24)".to_owned());
    }
    Diagnosis {
        verified: answer.verified.min(wrong.mismatches),
        explanations: answer.explanations,
        next: answer.next,
        undecided: answer.undecided,
        ..diagnosis
    }
}

impl Inputs<'_> {
    /// Judges a stage alone; `None` if its inputs do not fit one another.
    fn of_stage(&self, stage: Stage) -> Option<StageJudgement> {
        match stage {
            // Both are judged together.
            Stage::Activation => self.activation().ok().map(|[activation, _]| activation),
            Stage::Requantize => self.activation().ok().map(|[_, requantize]| requantize),
            _ => Some(self.one(stage)),
        }
    }
}

/// What a sample holds of a problem.
#[derive(Debug, Clone)]
enum Taken {
    /// Rows and columns of a GEMM.
    Gemm(Vec<usize>, Vec<usize>),
    /// Rows that are quantized.
    Quantized(Vec<usize>),
    /// Tokens, and their rows.
    Tokens(Vec<usize>, Vec<usize>),
}

/// A part of a problem, and the sample that is taken from it once it is changed.
struct SampledPart {
    part: Part,
    taken: Taken,
}

/// Changes of a problem, in their order.
#[derive(Clone, Default)]
struct Changes(Vec<Rc<Apply>>);

impl PartialEq for Changes {
    /// Whether they are the same changes; others that have the same effect are found by that.
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| Rc::ptr_eq(a, b))
    }
}

impl Changes {
    fn then(&self, apply: Apply) -> Self {
        Self(self.0.iter().cloned().chain([Rc::new(apply)]).collect())
    }

    /// Makes them; `None` if they change nothing.
    fn made(&self, part: &Part) -> Option<Part> {
        let mut changed = part.clone();
        self.0.iter().for_each(|apply| apply(&mut changed.0, &mut changed.1));
        (self.0.is_empty() || changed != *part).then_some(changed)
    }
}

/// A stage whose stored values are wrong.
struct WrongStage {
    stage: Stage,
    declared: Changes,
    /// What is tried first, and what is verified.
    parts: [SampledPart; 2],
    /// The expert of each row of the whole problem; empty for stages of tokens.
    experts: Vec<usize>,
}

impl WrongStage {
    /// # Errors
    /// Why no explanation can be sought.
    fn new(
        contract: &Contract,
        tensors: &Tensors,
        wrong: &StageResult,
        places: &[(usize, usize)],
    ) -> Result<Self, String> {
        let stage = Stage::from_name(&wrong.stage).ok_or("its stage is none of this pipeline")?;
        let inputs = Inputs::new(contract, tensors).map_err(|error| error.to_string())?;
        let at = |axis: &str| wrong.place.as_ref().and_then(|place| place.index(axis)).unwrap_or(0);
        let first = [(at("row"), at("col"))];
        let places = if places.is_empty() { &first } else { places };
        let is_of_tokens = matches!(stage, Stage::Route | Stage::Finalize);
        let experts = if is_of_tokens { Vec::new() } else { inputs.row_experts()? };
        let absent = inputs.absent_before(stage);
        let is_gemm = matches!(stage, Stage::Fc1 | Stage::Fc2) && absent.is_empty();
        let taken = |n: usize| match is_gemm {
            true => Ok(inputs.gemm_sample(stage, places, &experts, n)),
            false => inputs.token_sample(stage, places, &absent, n),
        };
        let whole = (*contract, tensors.clone());
        let part = |n: usize| -> Result<SampledPart, String> {
            let taken = taken(n)?;
            let part = match &taken {
                Taken::Gemm(rows, _) => of_experts(whole.clone(), rows, &experts),
                _ => whole.clone(),
            };
            Ok(SampledPart { part, taken })
        };
        Ok(Self { stage, declared: Changes::default(), parts: [part(0)?, part(1)?], experts })
    }

    const fn of(&self, scope: Scope) -> &SampledPart {
        match scope {
            Scope::Few | Scope::Sample => &self.parts[0],
            Scope::Full => &self.parts[1],
        }
    }

    /// The place of a wrong element: expert, row and column, or token and column.
    fn place(&self, row: usize, column: usize) -> Place {
        let [row_index, column] = [row, column].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        match self.experts.get(row) {
            Some(expert) => [u32::try_from(*expert).unwrap_or(u32::MAX), row_index, column, 0],
            None => [row_index, column, 0, 0],
        }
    }

    /// The region of wrong elements, among all of the stage.
    fn region_of(&self, places: &[(usize, usize)]) -> Region {
        let places: Vec<Place> = places.iter().map(|(row, column)| self.place(*row, *column)).collect();
        let all = self.indices_of(None);
        let along = |axis: usize| places.iter().map(|place| place[axis]).collect::<BTreeSet<u32>>();
        Region::from_indices(all.into_iter().enumerate().map(|(axis, all)| [along(axis), all]))
    }

    /// Every index along each axis: of a sample, or of the whole stage.
    fn indices_of(&self, sample: Option<&Taken>) -> Vec<BTreeSet<u32>> {
        let (contract, _) = &self.parts[0].part;
        let dims = &contract.dims;
        let width = match self.stage {
            Stage::Route => dims.top_k,
            Stage::Permute => 1,
            Stage::Quantize | Stage::Fc2 | Stage::Finalize => dims.hidden,
            Stage::Fc1 => dims.fc1_cols(),
            Stage::Activation | Stage::Requantize => dims.inter,
        };
        let all = |count: usize| (0..count).collect::<Vec<_>>();
        let is_of_tokens = self.experts.is_empty();
        let (rows, columns) = match sample {
            Some(Taken::Gemm(rows, columns)) => (rows.clone(), columns.clone()),
            Some(Taken::Quantized(rows)) => (rows.clone(), all(width)),
            Some(Taken::Tokens(tokens, _)) if is_of_tokens => (tokens.clone(), all(width)),
            Some(Taken::Tokens(_, rows)) => (rows.clone(), all(width)),
            None if is_of_tokens => (all(dims.tokens), all(width)),
            None => (all(self.experts.len()), all(width)),
        };
        let indices = |of: &[usize]| of.iter().map(|n| u32::try_from(*n).unwrap_or(u32::MAX)).collect();
        let mut axes = vec![indices(&rows), indices(&columns)];
        if !is_of_tokens {
            let experts: Vec<usize> = rows.iter().filter_map(|row| self.experts.get(*row).copied()).collect();
            axes.insert(0, indices(&experts));
        }
        axes
    }

    /// The sample of a changed part as a problem of its own.
    fn problem(&self, part: &Part, taken: &Taken) -> Option<Part> {
        let (mut contract, tensors) = part.clone();
        let signed = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let list = |data: Vec<i32>| Some(Array { shape: vec![data.len()], data: data.into() });
        let of_rows = |tensors: &Tensors, rows: &[usize]| -> Option<Tensors> {
            let experts = rows.iter().map(|row| self.experts.get(*row).copied().map(signed));
            let mut taken = tensors.taking(Axis::Rows, rows);
            taken.row_expert = list(experts.collect::<Option<_>>()?);
            taken.row_token = list((0..rows.len()).map(signed).collect());
            Some(taken)
        };
        let tensors = match taken {
            Taken::Gemm(rows, columns) => {
                let (names, axis) = match self.stage {
                    Stage::Fc1 => (FC1, Axis::Fc1Cols),
                    _ => (FC2, Axis::Hidden),
                };
                (contract.dims.tokens, contract.dims.top_k, contract.dims.shared) = (rows.len(), 1, 0);
                match self.stage {
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
                };
                let tokens = inputs.row_tokens().ok()?;
                let tokens: Vec<usize> = rows.iter().filter_map(|row| tokens.get(*row).copied()).collect();
                (contract.dims.tokens, contract.dims.top_k, contract.dims.shared) = (rows.len(), 1, 0);
                of_rows(&tensors.only(QUANTIZE).taking(Axis::Tokens, &tokens), rows)?
            }
            Taken::Tokens(tokens, _) if self.stage == Stage::Route => {
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

    /// Judges a scope by changes: what is wrong, in places of the whole problem.
    fn judged(&self, changes: &Changes, scope: Scope) -> Option<(StageJudgement, Vec<Place>)> {
        let SampledPart { part, taken } = self.of(scope);
        let (contract, tensors) = self.problem(&changes.made(part)?, taken)?;
        let judgement = Inputs::new(&contract, &tensors).ok()?.of_stage(self.stage)?;
        let rows = match taken {
            Taken::Gemm(rows, _) | Taken::Quantized(rows) => rows,
            Taken::Tokens(tokens, _) if self.experts.is_empty() => tokens,
            Taken::Tokens(_, rows) => rows,
        };
        let column = |column: usize| match taken {
            Taken::Gemm(_, columns) => columns.get(column).copied(),
            _ => Some(column),
        };
        let place = |(row, col): &(usize, usize)| Some(self.place(*rows.get(*row)?, column(*col)?));
        let places = judgement.wrong.iter().filter_map(place).collect();
        Some((judgement, places))
    }

    fn candidates<'a>(to: &'a Changes, all: Vec<changes::Change>) -> Vec<Candidate<'a, Changes>> {
        let candidate = |changes::Change { what, look, seen, apply }| Candidate {
            what,
            look,
            seen,
            variant: Box::new(move || to.then(apply)),
        };
        all.into_iter().map(candidate).collect()
    }
}

impl Suspect for WrongStage {
    type Variant = Changes;
    type Effect = Part;

    fn axes(&self) -> &'static [&'static str] {
        if self.experts.is_empty() { &["token", "column"] } else { &["expert", "row", "column"] }
    }

    fn declared(&self) -> &Changes {
        &self.declared
    }

    fn table<'a>(&'a self, to: &'a Changes) -> Vec<Candidate<'a, Changes>> {
        let (contract, tensors) = &self.parts[0].part;
        Self::candidates(to, changes::of_stage(contract, tensors, self.stage))
    }

    fn fitted<'a>(&'a self, to: &'a Changes) -> Vec<Candidate<'a, Changes>> {
        self.factor(to)
    }

    fn factor<'a>(&'a self, to: &'a Changes) -> Vec<Candidate<'a, Changes>> {
        let of_sample = self.judged(to, Scope::Sample).and_then(|(judgement, _)| judgement.factor);
        let Some([least, most]) = of_sample.filter(|[least, most]| least <= most) else { return Vec::new() };
        let Fitted { value, words } = Fitted::between(least, most);
        let what = format!("the result has a constant factor: {words}");
        let look = "alpha, the global scales, and a reduction over too many or too few lanes";
        let apply: Apply = Box::new(move |contract, _| contract.suspicion.factor = value);
        vec![Candidate { what, look, seen: "", variant: Box::new(move || to.then(apply)) }]
    }

    fn indices(&self) -> Vec<BTreeSet<u32>> {
        self.indices_of(Some(&self.parts[1].taken))
    }

    fn judge(&self, changes: &Changes, scope: Scope) -> Option<Outcome> {
        let (judgement, wrong) = self.judged(changes, scope)?;
        Some(Outcome { wrong, decides: judgement.decides, excess: judgement.excess })
    }

    fn effect(&self, changes: &Changes) -> Option<Part> {
        let SampledPart { part, taken } = self.of(Scope::Full);
        self.problem(&changes.made(part)?, taken)
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
    /// The rows and columns of a sample of a GEMM: wrong ones and others, of few experts.
    fn gemm_sample(&self, stage: Stage, places: &[(usize, usize)], experts: &[usize], n: usize) -> Taken {
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
    fn token_sample(
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
        let products = match absent.is_empty() || matches!(stage, Stage::Route | Stage::Permute) {
            true => 1,
            false => dims.hidden * dims.inter * dims.top_k * 3,
        };
        let most = TOKENS[n].min(MOST_PRODUCTS[n] / products.max(1));
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
fn of_experts((contract, tensors): Part, rows: &[usize], of_rows: &[usize]) -> Part {
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
