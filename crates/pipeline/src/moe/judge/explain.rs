//! What explains a wrong stage: changes of its inputs, its rules or its stores, one of which may make every wrong element right.
//!
//! [`crate::frame::search`] tries the changes; here is what it tries them on. A GEMM that is judged on its stored inputs is sampled by rows and
//! columns, every other stage by tokens. A change is made to a part of the problem that holds what a sample needs, neighbouring experts
//! included, and the sample is taken from what the change leaves.

mod apart;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use record::{StageResult, Verdict};

use super::Inputs;
use super::changes::{self, Apply};
use super::sample::{Part, SampledPart, Taken, of_experts};
use super::tally::StageJudgement;
use crate::frame::diagnosis::Diagnosis;
use crate::frame::fitted::Fitted;
use crate::frame::region::{Place, Region};
use crate::frame::search::{Candidate, Cause, Outcome, Scope, Search, Suspect};
use crate::moe::contract::{Accumulation, Contract};
use crate::moe::stage::Stage;
use crate::moe::tensors::{Array, Tensors};

/// Products up to which a stage is judged once more to find all its wrong elements.
const MOST_REPEATED: usize = 1 << 28;

/// Bytes of the weights of a sample up to which two changes at once are tried.
const MOST_PAIRED: usize = 1 << 21;

/// Explains the first stage whose stored values are wrong; `None` if there is none.
#[must_use]
pub fn explain(contract: &Contract, tensors: &Tensors, results: &[StageResult]) -> Option<Diagnosis> {
    let wrong = results.iter().find(|result| is_wrong(result))?;
    let stage = Stage::from_name(&wrong.stage)?;
    let dims = &contract.dims;
    let cheap = dims.rows() * dims.hidden * dims.inter * 3 <= MOST_REPEATED;
    let again = cheap.then(|| Inputs::new(contract, tensors).ok().and_then(|inputs| inputs.of_stage(stage)));
    let places = again.flatten().map(|judgement| judgement.wrong).unwrap_or_default();
    Some(explain_stage(contract, tensors, wrong, &Known { places, is_sample: false }))
}

/// Explains the first stage whose stored values are wrong, of which these elements are known.
pub(super) fn explain_judged(
    contract: &Contract,
    tensors: &Tensors,
    results: &[StageResult],
    known: &BTreeMap<Stage, Known>,
) -> Option<Diagnosis> {
    let wrong = results.iter().find(|result| is_wrong(result))?;
    let known = Stage::from_name(&wrong.stage).and_then(|stage| known.get(&stage)).cloned();
    Some(explain_stage(contract, tensors, wrong, &known.unwrap_or_default()))
}

/// Elements that are known to be wrong.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// Their rows and columns.
    pub(super) places: Vec<(usize, usize)>,
    /// Whether they are of a sample alone.
    pub(super) is_sample: bool,
}

fn is_wrong(result: &StageResult) -> bool {
    result.verdict == Verdict::Fail && result.mismatches > 0
}

fn explain_stage(
    contract: &Contract,
    tensors: &Tensors,
    wrong: &StageResult,
    Known { places, is_sample }: &Known,
) -> Diagnosis {
    let place = wrong.place.as_ref().map(|place| format!(", first at {place}")).unwrap_or_default();
    let mut diagnosis = Diagnosis {
        wrong: wrong.mismatches,
        arithmetic: arithmetic(contract, tensors, wrong),
        extent: format!("stage {}{place}", wrong.stage),
        wanted: wanted(contract, tensors, wrong),
        ..Diagnosis::default()
    };
    let suspect = match WrongStage::new(contract, tensors, wrong, places) {
        Ok(suspect) => suspect,
        Err(why) => {
            diagnosis.unsearched = Some(why);
            return diagnosis;
        }
    };
    if !is_sample && places.len() as u64 == wrong.mismatches {
        let words = suspect.region_of(places).words(suspect.axes());
        diagnosis.extent = format!("stage {}, {words}{place}", wrong.stage);
    }
    let value = Stage::from_name(&wrong.stage).and_then(|stage| stored_value(stage, tensors, places));
    diagnosis.is_zero = value == Some(0.0);
    let of_value = value.map(|value| format!(", each wrong value is {value}")).unwrap_or_default();
    diagnosis.extent += &of_value;
    let Some(search) = Search::new(&suspect) else {
        diagnosis.unsearched = Some("the sample of elements that are explained has none of them".to_owned());
        return diagnosis;
    };
    let answer = search.answer();
    if *is_sample {
        let words = answer.region.words(suspect.axes());
        diagnosis.extent = format!("stage {}, of the sample {words}{place}", wrong.stage);
        diagnosis.extent += &of_value;
    }
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
        question: answer.question,
        ..diagnosis
    }
}

/// The number that every one of these elements is, if they are the same and more than one.
fn stored_value(stage: Stage, tensors: &Tensors, places: &[(usize, usize)]) -> Option<f32> {
    let stored = match stage {
        Stage::Fc1 => &tensors.fc1_out,
        Stage::Fc2 => &tensors.fc2_out,
        Stage::Finalize => &tensors.output,
        _ => return None,
    };
    let stored = stored.as_ref()?;
    let code = |(row, column): &(usize, usize)| stored.row(*row).get(*column).copied();
    let first = places.first().and_then(code)?;
    let same = places.len() > 1 && places.iter().all(|place| code(place) == Some(first));
    same.then(|| f32::from_bits(u32::from(first) << 16))
}

/// The tensors before a stage that are not there, so that faults of several stages look alike.
fn wanted(contract: &Contract, tensors: &Tensors, wrong: &StageResult) -> Vec<String> {
    let stage = Stage::from_name(&wrong.stage);
    let inputs = Inputs::new(contract, tensors).ok();
    let absent = inputs.zip(stage).map(|(inputs, stage)| inputs.absent_before(stage));
    absent.unwrap_or_default().into_iter().map(str::to_owned).collect()
}

/// The arithmetic of the first wrong element, where it is short.
fn arithmetic(contract: &Contract, tensors: &Tensors, wrong: &StageResult) -> Option<String> {
    let place = wrong.place.as_ref()?;
    let (row, column) = place.index("row").zip(place.index("col"))?;
    Inputs::new(contract, tensors).ok()?.arithmetic(Stage::from_name(&wrong.stage)?, row, column)
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
    /// Whether every wrong element that is known is the same number.
    is_constant: bool,
    /// Whether its inputs are missing, so that it is judged from earlier tensors.
    is_from_afar: bool,
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
        let is_constant = stored_value(stage, tensors, places).is_some();
        let mut whole = (*contract, tensors.clone());
        // Changes of the rows' experts need them also where the dump leaves them to the other tensors.
        if whole.1.row_expert.is_none() && !experts.is_empty() {
            let all = experts.iter().map(|expert| i32::try_from(*expert).unwrap_or(i32::MAX));
            let data: Vec<i32> = all.collect();
            whole.1.row_expert = Some(Array { shape: vec![data.len()], data: data.into() });
        }
        let whole = whole;
        let part = |n: usize| -> Result<SampledPart, String> {
            let taken = taken(n)?;
            let part = match &taken {
                Taken::Gemm(rows, _) => of_experts(whole.clone(), rows, &experts),
                _ => whole.clone(),
            };
            Ok(SampledPart { part, taken })
        };
        Ok(Self {
            stage,
            declared: Changes::default(),
            parts: [part(0)?, part(1)?],
            experts,
            is_constant,
            is_from_afar: !absent.is_empty(),
        })
    }

    const fn sampled_part(&self, scope: Scope) -> &SampledPart {
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

    /// Judges a scope by changes: what is wrong, in places of the whole problem.
    fn judged(&self, changes: &Changes, scope: Scope) -> Option<(StageJudgement, Vec<Place>)> {
        let sampled = self.sampled_part(scope);
        let (contract, tensors) =
            sampled.problem(self.stage, &self.experts, &changes.made(&sampled.part)?)?;
        let judgement = Inputs::new(&contract, &tensors).ok()?.of_stage(self.stage)?;
        let rows = sampled.rows(self.experts.is_empty());
        let place = |(row, col): &(usize, usize)| Some(self.place(*rows.get(*row)?, sampled.column(*col)?));
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

    fn takes_pairs(&self) -> bool {
        let (_, tensors) = &self.parts[0].part;
        let bytes = |array: &Option<Array<u8>>| array.as_ref().map_or(0, |array| array.data.len());
        !self.is_constant
            && !self.is_from_afar
            && bytes(&tensors.w13_blocks) + bytes(&tensors.w2_blocks) <= MOST_PAIRED
    }

    fn indices(&self) -> Vec<BTreeSet<u32>> {
        self.indices_of(Some(&self.parts[1].taken))
    }

    fn judge(&self, changes: &Changes, scope: Scope) -> Option<Outcome> {
        let (judgement, wrong) = self.judged(changes, scope)?;
        Some(Outcome { wrong, decides: judgement.decides, excess: judgement.excess })
    }

    fn told_apart_by(&self, [(_, one), (_, other)]: [Cause<'_, Changes>; 2]) -> Option<String> {
        self.telling_input([one, other]).map(|name| format!("`{name}`"))
    }

    fn effect(&self, changes: &Changes) -> Option<Part> {
        let sampled = self.sampled_part(Scope::Full);
        sampled.problem(self.stage, &self.experts, &changes.made(&sampled.part)?)
    }
}
