//! The results of launches as JSON.

use emulator::events::OtherRecord;
use emulator::trials::{Difference, Open, Plan, Undetermined};
use emulator::{OtherAccess, Place, Remark, Rule, Stop, Turns, Violation};
use serde::Serialize;

use super::error::LaunchError;
use super::expect::{Checked, Limit};
use super::judged::Judged;
use super::omissions::Omission;
use super::origin::Origin;
use super::run::{Outcome, Stopped};
use super::session::{Initial, Session, Step};
use crate::frame::diagnosis::Diagnosis;
use crate::record::Incomplete;
use crate::store;

/// The machine-readable results of launches: those of the first trial, and the verdict on all.
#[derive(Debug, Serialize)]
pub struct LaunchResults {
    /// What the trials show: `equal`, `nondeterministic`, `undetermined` or `violation`.
    verdict: &'static str,
    /// Which rules were checked.
    rules: &'static str,
    launches: Vec<LaunchResult>,
    /// The reason why the launches failed. There are no buffers if the first trial did not run to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// The number of schedules; `poisons` is the number of fill bytes of uninitialized memory.
    schedules: u64,
    poisons: u8,
    buffers: Vec<BufferResult>,
    violations: Vec<Found>,
    /// The first difference between trials by each cause.
    differences: Vec<DifferenceResult>,
    remarks: Vec<Found>,
    /// Inputs that no launch used, elements that none wrote, launches that did not run.
    omissions: Vec<OmissionResult>,
    expectations: Vec<ExpectationResult>,
    /// What was to be compared and was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<Incomplete>,
    /// Where the first wrong element comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    /// Changed buffers for which the file of expected tensors has no tensor.
    not_compared: Vec<String>,
    float_atomics: SumsResult,
    /// Elements that PTX leaves open; absent unless several readings were run.
    #[serde(skip_serializing_if = "Option::is_none")]
    undetermined: Option<Vec<UndeterminedResult>>,
    /// Stores whose lanes write different values to one address.
    undetermined_stores: Vec<Found>,
}

#[derive(Debug, Serialize)]
struct DifferenceResult {
    /// `race`, `nondeterministic`, `misaligned` or `uninitialised`.
    cause: &'static str,
    what: String,
    buffer: String,
    index: Vec<usize>,
    byte: usize,
    seeds: [u64; 2],
    fillings: [u8; 2],
    /// Who goes first at a conflict in the second trial, if that is directed.
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<&'static str>,
    values: [String; 2],
}

#[derive(Debug, Serialize)]
struct UndeterminedResult {
    /// `contraction` or `store_lane`.
    by: &'static str,
    buffer: String,
    elements: usize,
    /// The number of elements that differ.
    differing: usize,
    /// The index of the first of them.
    index: Vec<usize>,
    /// Its value in the chosen reading and in the other.
    first: String,
    other: String,
    /// The largest difference of finite elements.
    largest: f64,
    /// The value if products and sums round apart, and if they round once, where that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    separate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contracted: Option<String>,
}

#[derive(Debug, Serialize)]
struct LaunchResult {
    kernel: String,
    grid: [u32; 3],
    block: [u32; 3],
    /// Warp instructions executed; absent if the launches failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<u64>,
}

#[derive(Debug, Serialize)]
struct BufferResult {
    name: String,
    r#type: &'static str,
    shape: Vec<usize>,
    address: u64,
    bytes: usize,
    unwritten_bytes: usize,
    /// Whether it differs from its initial content.
    changed: bool,
    sha256: String,
}

#[derive(Debug, Serialize)]
struct Found {
    /// The rule, for a violation.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'static str>,
    what: String,
    kernel: String,
    /// Line of the PTX, from 1, and the instruction there.
    line: usize,
    instruction: String,
    /// File and line of the source, and the text of that line, as far as they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<(String, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_text: Option<String>,
    cta: [u32; 3],
    warp: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<u32>,
    /// Of a race: the other access.
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<OtherRecord>,
    times: u64,
}

impl Found {
    fn new(
        rule: Option<Rule>,
        (what, place): (&str, &Place),
        other: Option<&OtherAccess>,
        times: u64,
    ) -> Self {
        Self {
            rule: rule.map(Rule::word),
            what: what.to_owned(),
            kernel: place.kernel.clone(),
            line: place.line,
            instruction: place.instruction.clone(),
            source: place.source.clone(),
            source_text: place.source_text.clone(),
            cta: place.cta,
            warp: place.warp,
            lane: place.lane,
            other: other.and_then(OtherRecord::from_access),
            times,
        }
    }
}

#[derive(Debug, Serialize)]
struct OmissionResult {
    #[serde(flatten)]
    omission: Omission,
    what: String,
}

#[derive(Debug, Serialize)]
struct ExpectationResult {
    buffer: String,
    elements: usize,
    wrong: usize,
    /// The number of elements that were compared.
    compared: usize,
    /// The largest difference; of a product, as a multiple of its bound.
    largest_difference: f64,
    /// `tolerance`, or `derived_bound` for a product.
    judged_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtol: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    atol: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ulps: Option<u64>,
    /// What explains the wrong elements of a product.
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<Diagnosis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<First>,
}

#[derive(Debug, Serialize)]
struct First {
    index: Vec<usize>,
    got: String,
    wanted: String,
}

#[derive(Debug, Default, Serialize)]
struct SumsResult {
    elements: usize,
    differences: usize,
    /// The largest difference between two schedules, as a fraction of its bound.
    worst: f64,
}

fn launch(step: &Step, instructions: Option<u64>) -> LaunchResult {
    LaunchResult { kernel: step.entry.clone(), grid: step.grid, block: step.block, instructions }
}

fn violation(found: &Violation) -> Found {
    let trap = &found.trap;
    Found::new(Some(trap.rule), (&trap.what, &trap.place), trap.other.as_deref(), found.times)
}

fn remark(found: &Remark) -> Found {
    Found::new(None, (&found.what, &found.place), found.other.as_deref(), found.times)
}

fn expectation(of: &Checked) -> ExpectationResult {
    let (tolerance, diagnosis) = match &of.limit {
        Limit::Tolerance(tolerance) => (Some(tolerance), None),
        Limit::Bound(diagnosis) => (None, diagnosis.as_deref().cloned()),
    };
    let first = of.first.as_ref().map(|m| First {
        index: m.index.clone(),
        got: m.got.clone(),
        wanted: m.wanted.clone(),
    });
    ExpectationResult {
        buffer: of.buffer.clone(),
        elements: of.elements,
        wrong: of.wrong,
        compared: of.compared,
        largest_difference: of.largest,
        judged_by: if tolerance.is_some() { "tolerance" } else { "derived_bound" },
        rtol: tolerance.map(|t| t.relative),
        atol: tolerance.map(|t| t.absolute),
        ulps: tolerance.map(|t| t.ulps),
        diagnosis,
        first,
    }
}

fn omission(found: &Omission) -> OmissionResult {
    OmissionResult { omission: found.clone(), what: found.to_string() }
}

fn difference(found: &Difference) -> DifferenceResult {
    DifferenceResult {
        cause: found.cause.word(),
        what: found.to_string(),
        buffer: found.buffer.clone(),
        index: found.index.clone(),
        byte: found.byte,
        seeds: found.trials.map(|trial| trial.seed),
        turns: found.trials[1].turns.map(Turns::word),
        fillings: found.trials.map(|trial| trial.filling),
        values: found.values.clone(),
    }
}

fn undetermined(found: &Undetermined) -> UndeterminedResult {
    let contraction = found.open == Open::Contraction;
    UndeterminedResult {
        by: found.open.word(),
        buffer: found.buffer.clone(),
        elements: found.elements,
        differing: found.differing,
        index: found.index.clone(),
        first: found.chosen.clone(),
        other: found.other.clone(),
        largest: found.largest,
        separate: contraction.then(|| found.chosen.clone()),
        contracted: contraction.then(|| found.other.clone()),
    }
}

/// Returns the results of all trials. `failure` is the error that the verdict is; its violation comes last. `not_compared` names changed
/// buffers for which the file of expected tensors has no tensor.
#[must_use]
pub fn results(
    session: &Session,
    plan: &Plan,
    judged: &Judged,
    failure: Option<&LaunchError>,
    not_compared: &[String],
) -> LaunchResults {
    let Judged { outcome, verdict, checked, omissions, origin } = judged;
    let launches = session
        .steps
        .iter()
        .enumerate()
        .map(|(n, step)| launch(step, verdict.instructions.get(n).copied().filter(|_| verdict.finished)));
    let buffer = |n: usize, outcome: &Outcome| {
        let (buffer, bytes) = (&session.buffers[n], outcome.bytes(n));
        BufferResult {
            name: buffer.name.clone(),
            r#type: buffer.shape.element.name(),
            shape: buffer.shape.dims.clone(),
            address: outcome.addresses[n],
            bytes: bytes.len(),
            unwritten_bytes: outcome.unwritten(n),
            changed: session.changed(n, outcome),
            sha256: store::sha256(&bytes),
        }
    };
    let shown = (0..session.buffers.len()).filter(|n| !session.buffers[*n].scratch);
    let buffers = outcome.as_ref().map(|outcome| shown.map(|n| buffer(n, outcome)).collect());
    let last = match failure {
        Some(LaunchError::Stopped(Stopped { stop: Stop::Trap(trap), .. })) => {
            Some(Violation { trap: (**trap).clone(), times: 1 })
        }
        _ => None,
    };
    LaunchResults {
        verdict: verdict.outcome().word(),
        rules: verdict.rules.word(),
        launches: launches.collect(),
        failure: failure.map(ToString::to_string),
        schedules: plan.schedules(),
        poisons: plan.fillings(),
        buffers: buffers.unwrap_or_default(),
        violations: verdict.violations.iter().chain(&last).map(violation).collect(),
        differences: verdict.differences.iter().map(difference).collect(),
        remarks: verdict.remarks.iter().filter(|_| verdict.finished).map(remark).collect(),
        omissions: omissions.iter().map(omission).collect(),
        expectations: checked.iter().map(expectation).collect(),
        incomplete: judged.incomplete(),
        origin: origin.clone(),
        not_compared: not_compared.to_vec(),
        float_atomics: SumsResult {
            elements: verdict.sums.elements,
            differences: verdict.sums.differences,
            worst: verdict.sums.worst,
        },
        undetermined: verdict.undetermined.as_ref().map(|all| all.iter().map(undetermined).collect()),
        undetermined_stores: verdict.undetermined_stores.iter().map(remark).collect(),
    }
}

impl Session {
    /// Whether a buffer differs from its initial content.
    #[must_use]
    pub fn changed(&self, buffer: usize, outcome: &Outcome) -> bool {
        match &self.buffers[buffer].initial {
            Initial::Unwritten => true,
            Initial::Bytes(bytes) => *bytes != *outcome.bytes(buffer),
            Initial::Lent(host) => {
                let mut runs = outcome.memory.written_runs(outcome.addresses[buffer]);
                runs.any(|(at, now)| host.bytes().get(at..at + now.len()) != Some(now))
            }
            Initial::There(address) => self.base.first_difference_of(*address, &outcome.memory).is_some(),
            Initial::Value(value) => {
                value.bytes(&outcome.addresses).is_ok_and(|bytes| *bytes != *outcome.bytes(buffer))
            }
        }
    }
}
