//! The result of a launch as JSON.

use emulator::events::OtherRecord;
use emulator::trials::{Difference, Undetermined, Verdict};
use emulator::{Remark, Stop, Trap, Violation};
use serde_json::{Value, json};

use crate::Status;

fn violation(trap: &Trap) -> Value {
    let mut value = json!(trap.place);
    value["rule"] = json!(trap.rule.word());
    value["what"] = json!(trap.what);
    value["other"] = json!(trap.other.as_deref().and_then(OtherRecord::from_access));
    value
}

fn listed(found: &Violation) -> Value {
    let mut value = violation(&found.trap);
    value["times"] = json!(found.times);
    value
}

fn remark(found: &Remark) -> Value {
    json!({"what": found.what, "kernel": found.place.kernel, "line": found.place.line, "times": found.times})
}

fn difference(found: &Difference) -> Value {
    json!({
        "cause": found.cause.word(),
        "what": found.to_string(),
        "buffer": found.buffer,
        "byte": found.byte,
        "element": found.index,
        "values": found.values,
        "seeds": found.trials.map(|trial| trial.seed),
    })
}

fn undetermined(found: &Undetermined) -> Value {
    json!({
        "by": found.open.word(),
        "buffer": found.buffer,
        "differing": found.differing,
        "elements": found.elements,
        "element": found.index,
        "values": [found.chosen, found.other],
        "largest": found.largest,
    })
}

/// Adds what the trials show.
pub(crate) fn with_verdict(report: &mut Value, verdict: &Verdict, printed: &str) {
    report["verdict"] = json!(verdict.outcome().word());
    report["instructions"] = json!(verdict.instructions.iter().sum::<u64>());
    report["schedules"] = json!(verdict.schedules);
    report["violations"] = verdict.violations.iter().map(listed).collect();
    report["differences"] = verdict.differences.iter().map(difference).collect();
    report["undetermined"] = verdict.undetermined.iter().flatten().map(undetermined).collect();
    report["undetermined_stores"] = verdict.undetermined_stores.iter().map(remark).collect();
    report["remarks"] = verdict.remarks.iter().map(remark).collect();
    report["printed"] = json!(printed);
}

/// The status and report of a launch that went on after a violation.
pub(crate) fn violated(trap: &Trap) -> (Status, Value) {
    let mut report = failed(Status::Violation, &trap.to_string());
    report["violation"] = violation(trap);
    (Status::Violation, report)
}

/// The report of a call that failed with this status.
pub(crate) fn failed(status: Status, message: &str) -> Value {
    let word = match status {
        Status::Ok => "ok",
        Status::Failed => "failed",
        Status::Usage => "usage",
        Status::Violation => "violation",
        Status::Disagreement => "disagreement",
        Status::Unsupported => "unsupported",
    };
    json!({"status": word, "message": message, "violation": null})
}

/// The status and report of a launch that stopped.
pub(crate) fn stopped(stop: &Stop) -> (Status, Value) {
    let status = match stop {
        Stop::Trap(_) => Status::Violation,
        Stop::Unsupported(_) => Status::Unsupported,
        Stop::Launch(_) => Status::Usage,
        Stop::Bug(_) => Status::Failed,
    };
    let mut report = failed(status, &stop.to_string());
    if let Stop::Trap(trap) = stop {
        report["violation"] = violation(trap);
    }
    (status, report)
}
