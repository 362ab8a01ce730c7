//! What a dump lacks: the tensors without which a result cannot be judged, or is judged from afar, and the results that remain
//! undecided.

use super::explain::{Known, explain_judged};
use super::gemms::Fc;
use super::tally::StageJudgement;
use super::{Inputs, Skip};
use crate::frame::diagnosis::Diagnosis;
use crate::frame::effort::Effort;
use crate::moe::contract::{self, Contract};
use crate::moe::error::MoeError;
use crate::moe::stage::Stage;
use crate::moe::tensors::Dump;
use record::{StageResult, Verdict};

/// Results in a dump that the judgement leaves open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The stored results of a stage.
    pub results: Vec<&'static str>,
    /// Why they are not decided.
    pub why: String,
    /// The tensors that would decide; empty if the reason is in the stored values.
    pub add: Vec<&'static str>,
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} not decided: {}", are(&self.results), self.why)?;
        if self.add.is_empty() { Ok(()) } else { write!(f, "; add {}", listed(&self.add)) }
    }
}

/// The judgement on a dump.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Every stage, in pipeline order. A stage is `skipped` only if the dump has no result of it.
    pub results: Vec<StageResult>,
    /// Results in the dump that are not decided; if there is one, the judgement is incomplete.
    pub gaps: Vec<Gap>,
    /// What explains the first stage that is wrong.
    pub diagnosis: Option<Diagnosis>,
}

impl Judgement {
    /// Whether a stage passed or failed.
    #[must_use]
    pub fn is_of_something(&self) -> bool {
        self.results.iter().any(|r| matches!(r.verdict, Verdict::Pass | Verdict::Fail))
    }
}

/// Judges a dump: every stored result by the nearest earlier tensors, unless the metadata `given` declares it an input. A stored result that cannot be judged is `undetermined`, and
/// so is one whose bounds decide too little.
///
/// # Errors
/// As [`super::judge`].
pub fn judge_dump(contract: &Contract, dump: &Dump, effort: Effort) -> Result<Judgement, MoeError> {
    let tensors = &dump.tensors;
    let given = contract::given_of(&dump.metadata)?;
    let case = Inputs { effort, ..Inputs::new(contract, tensors)? };
    let judgements = case.judgements();
    let known = |of: &StageJudgement| {
        let known = Known { places: of.wrong.clone(), is_sample: of.is_sample };
        Some((Stage::from_name(&of.result.stage)?, known))
    };
    let known = judgements.iter().filter_map(known).collect();
    let mut results: Vec<StageResult> = judgements.into_iter().map(|of| of.result).collect();
    let mut gaps: Vec<Gap> = Vec::new();
    for result in &mut results {
        let Some(stage) = Stage::from_name(&result.stage) else { continue };
        let stored: Vec<&'static str> =
            results_of(stage).iter().copied().filter(|name| tensors.has(name)).collect();
        if !stored.is_empty() && stored.iter().all(|name| given.contains(name)) {
            *result = StageResult::skipped(stage, "an input, as the metadata `given` says");
            continue;
        }
        let was_skipped = result.verdict == Verdict::Skipped && !stored.is_empty();
        if was_skipped {
            result.verdict = Verdict::Undetermined;
        }
        if result.verdict != Verdict::Undetermined {
            continue;
        }
        let add = if was_skipped { case.lacking(stage) } else { case.absent_before(stage) };
        let gap = Gap { results: stored, why: result.note.clone(), add };
        // Activation and requantization share their results.
        match gaps.last_mut() {
            Some(last) if last.results == gap.results => {}
            _ => gaps.push(gap),
        }
    }
    let diagnosis = explain_judged(contract, tensors, &results, &known);
    Ok(Judgement { results, gaps, diagnosis })
}

/// The tensors that a stage stores.
const fn results_of(stage: Stage) -> &'static [&'static str] {
    match stage {
        Stage::Route => &["topk_ids", "topk_weights"],
        Stage::Permute => &["row_token", "row_expert"],
        Stage::Quantize => &["a1_codes", "a1_scales", "a1_token_scale"],
        Stage::Fc1 => &["fc1_out"],
        Stage::Activation | Stage::Requantize => &["a2_codes", "a2_scales", "a2_token_scale"],
        Stage::Fc2 => &["fc2_out"],
        Stage::Finalize => &["output"],
    }
}

/// `a`, `b` and `c`.
fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match &quoted[..] {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `a` and `b` are; `a` is.
pub(super) fn are(names: &[&str]) -> String {
    format!("{} {}", listed(names), if names.len() == 1 { "is" } else { "are" })
}

impl Inputs<'_> {
    fn absent(&self, names: &[&'static str]) -> Vec<&'static str> {
        names.iter().copied().filter(|name| !self.tensors.has(name)).collect()
    }

    /// The missing parts of the activations that a GEMM reads; empty if they are stored.
    pub(super) fn absent_operand(&self, fc: Fc) -> Vec<&'static str> {
        let settings = &self.contract.settings;
        let [codes, scales, token_scale] = match fc {
            Fc::One => ["a1_codes", "a1_scales", "a1_token_scale"],
            Fc::Two if self.tensors.injected_a2_codes.is_some() => {
                ["injected_a2_codes", "injected_a2_scales", "injected_a2_token_scale"]
            }
            Fc::Two => ["a2_codes", "a2_scales", "a2_token_scale"],
        };
        let mut parts = vec![codes];
        if settings.pair.activation().scale().is_some() {
            parts.push(scales);
        }
        if settings.has_token_scales() {
            parts.push(token_scale);
        }
        self.absent(&parts)
    }

    /// The missing tensors between a stage's result and the nearest stored ones before it.
    pub(super) fn absent_before(&self, stage: Stage) -> Vec<&'static str> {
        let has = |name| self.tensors.has(name);
        let mut out = Vec::new();
        if stage == Stage::Finalize {
            out.extend(self.absent(&["topk_ids", "topk_weights", "fc2_out"]));
            if has("fc2_out") {
                return out;
            }
        }
        if stage >= Stage::Fc2 {
            let parts = self.absent_operand(Fc::Two);
            if parts.is_empty() {
                return out;
            }
            out.extend(parts);
        }
        if stage >= Stage::Activation {
            if has("fc1_out") {
                return out;
            }
            out.push("fc1_out");
        }
        if stage >= Stage::Fc1 {
            out.extend(self.absent_operand(Fc::One));
        }
        out
    }

    /// The missing inputs without which a stage's result cannot be computed from the nearest stored tensors.
    fn lacking(&self, stage: Stage) -> Vec<&'static str> {
        let settings = &self.contract.settings;
        let mut needed = Vec::new();
        let t = self.tensors;
        let choices: &[&'static str] = if t.topk_ids.is_some() { &[] } else { &["router_logits"] };
        let rows: &[&'static str] = match (t.row_token.is_some(), t.row_expert.is_some()) {
            (true, true) => &[],
            _ => choices,
        };
        match stage {
            Stage::Route => needed.push("router_logits"),
            Stage::Permute => needed.extend(choices),
            Stage::Quantize => needed.extend(rows.iter().chain(&["hidden_states"])),
            _ => needed.extend(rows),
        }
        if stage == Stage::Finalize {
            needed.extend(choices);
            if t.topk_weights.is_none() {
                needed.push("router_logits");
            }
        }
        let of_weights = settings.pair.weight().has_global();
        // Back from stage to stage, to the first stored tensor.
        let computes_fc2 = stage == Stage::Fc2 || (stage == Stage::Finalize && t.fc2_out.is_none());
        if computes_fc2 {
            needed.extend(["w2_blocks", "w2_scales"]);
            needed.extend(of_weights.then_some("w2_global"));
        }
        let computes_a2 =
            stage == Stage::Activation || (computes_fc2 && !self.absent_operand(Fc::Two).is_empty());
        if (computes_a2 || computes_fc2) && settings.has_calibrated_scales() {
            needed.push("a2_global");
        }
        let computes_fc1 = stage == Stage::Fc1 || (computes_a2 && t.fc1_out.is_none());
        if computes_fc1 {
            needed.extend(["w13_blocks", "w13_scales"]);
            needed.extend(of_weights.then_some("w13_global"));
        }
        let computes_a1 =
            stage == Stage::Quantize || (computes_fc1 && !self.absent_operand(Fc::One).is_empty());
        if (computes_a1 || computes_fc1) && settings.has_calibrated_scales() {
            needed.push("a1_global");
        }
        if computes_a1 {
            needed.push("hidden_states");
        }
        let mut out = self.absent(&needed);
        let mut seen = std::collections::BTreeSet::new();
        out.retain(|name| seen.insert(*name));
        out
    }

    /// Checks that a stage's result can be computed from the tensors that are present.
    pub(super) fn sufficient(&self, stage: Stage) -> Result<(), Skip> {
        match &self.lacking(stage)[..] {
            [] => Ok(()),
            names => Err(format!("{} missing", are(names))),
        }
    }
}
