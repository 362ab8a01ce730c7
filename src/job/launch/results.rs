//! The results of launches as JSON.

use emulator::{Stop, Violation};
use serde::Serialize;

use super::contract::Undetermined;
use super::error::LaunchError;
use super::judged::Judged;
use super::run::{Outcome, Stopped};
use super::session::{Initial, Session, Step};
use super::trials::{Findings, Trials};
use crate::store;

/// The machine-readable results of launches. They are those of the first trial; the other trials agree with it.
#[derive(Debug, Serialize)]
pub struct LaunchResults {
    launches: Vec<LaunchResult>,
    /// The reason why the launches failed; there are no results then.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// The number of schedules; `poisons` is the number of fill bytes of uninitialized memory.
    schedules: u64,
    poisons: u8,
    buffers: Vec<BufferResult>,
    violations: Vec<Found>,
    remarks: Vec<Found>,
    expectations: Vec<ExpectationResult>,
    /// Changed buffers for which the file of expected tensors has no tensor.
    not_compared: Vec<String>,
    float_atomics: SumsResult,
    /// Elements that contraction changes; absent unless both readings were run.
    #[serde(skip_serializing_if = "Option::is_none")]
    undetermined: Option<Vec<UndeterminedResult>>,
}

#[derive(Debug, Serialize)]
struct UndeterminedResult {
    buffer: String,
    elements: usize,
    /// The number of elements that differ.
    differing: usize,
    /// The index of the first of them.
    index: Vec<usize>,
    separate: String,
    contracted: String,
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
    /// Line of the PTX, from 1.
    line: usize,
    times: u64,
}

#[derive(Debug, Serialize)]
struct ExpectationResult {
    buffer: String,
    elements: usize,
    wrong: usize,
    largest_difference: f64,
    rtol: f64,
    atol: f64,
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
    Found {
        rule: Some(found.trap.rule.word()),
        what: found.trap.what.clone(),
        kernel: found.trap.place.kernel.clone(),
        line: found.trap.place.line,
        times: found.times,
    }
}

/// Returns the results if a trial failed: the violations, with the one that ended the trial last.
#[must_use]
pub fn failure(
    session: &Session,
    trials: &Trials,
    findings: &Findings,
    error: &LaunchError,
) -> LaunchResults {
    let last = match error {
        LaunchError::Stopped(Stopped { stop: Stop::Trap(trap), .. }) => {
            Some(Violation { trap: (**trap).clone(), times: 1 })
        }
        _ => None,
    };
    LaunchResults {
        launches: session.steps.iter().map(|step| launch(step, None)).collect(),
        failure: Some(error.to_string()),
        schedules: trials.schedules(),
        poisons: trials.poisons(),
        buffers: Vec::new(),
        violations: findings.0.iter().chain(&last).map(violation).collect(),
        remarks: Vec::new(),
        expectations: Vec::new(),
        not_compared: Vec::new(),
        float_atomics: SumsResult::default(),
        undetermined: None,
    }
}

/// Returns the results of all trials; `not_compared` names changed buffers for which the file of expected tensors has no tensor.
#[must_use]
pub fn results(
    session: &Session,
    trials: &Trials,
    judged: &Judged,
    not_compared: &[String],
) -> LaunchResults {
    let Judged { outcome, findings, checked, sums, undetermined } = judged;
    let launches = session.steps.iter().zip(&outcome.instructions);
    let launches = launches.map(|(step, instructions)| launch(step, Some(*instructions)));
    let buffers = session.buffers.iter().enumerate().filter(|(_, b)| !b.scratch).map(|(n, buffer)| {
        let bytes = outcome.bytes(n);
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
    });
    let remarks = outcome.remarks.iter().map(|r| Found {
        rule: None,
        what: r.what.clone(),
        kernel: r.place.kernel.clone(),
        line: r.place.line,
        times: r.times,
    });
    let expectations = checked.iter().map(|c| ExpectationResult {
        buffer: c.buffer.clone(),
        elements: c.elements,
        wrong: c.wrong,
        largest_difference: c.largest,
        rtol: c.tolerance.relative,
        atol: c.tolerance.absolute,
        first: c.first.as_ref().map(|m| First {
            index: m.index.clone(),
            got: m.got.clone(),
            wanted: m.wanted.clone(),
        }),
    });
    LaunchResults {
        launches: launches.collect(),
        failure: None,
        schedules: trials.schedules(),
        poisons: trials.poisons(),
        buffers: buffers.collect(),
        violations: findings.0.iter().map(violation).collect(),
        remarks: remarks.collect(),
        expectations: expectations.collect(),
        not_compared: not_compared.to_vec(),
        float_atomics: SumsResult {
            elements: sums.elements,
            differences: sums.differences,
            worst: sums.worst,
        },
        undetermined: undetermined.as_ref().map(|all| {
            let result = |u: &Undetermined| UndeterminedResult {
                buffer: u.buffer.clone(),
                elements: u.elements,
                differing: u.differing,
                index: u.index.clone(),
                separate: u.separate.clone(),
                contracted: u.contracted.clone(),
            };
            all.iter().map(result).collect()
        }),
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
