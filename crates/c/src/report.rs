//! The result of a launch as JSON.

use emulator::{Remark, Stop, Trap};
use serde_json::{Value, json};

use crate::Status;

/// The remarks and the output of a launch.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) remarks: Vec<Remark>,
    pub(crate) printed: String,
}

impl emulator::Observer for Heard {
    const WATCHES: bool = false;

    fn row(&mut self, _: &emulator::Executed<'_>) {}

    fn printed(&mut self, text: &str) {
        self.printed.push_str(text);
    }

    fn remark(&mut self, remark: &Remark) {
        self.remarks.push(remark.clone());
    }
}

fn violation(trap: &Trap) -> Value {
    let mut value = json!(trap.place);
    value["rule"] = json!(trap.rule.word());
    value["what"] = json!(trap.what);
    value
}

/// The report of a successful launch.
pub(crate) fn ended(heard: &Heard, instructions: u64, schedules: u64) -> Value {
    let remarks: Vec<Value> = heard
        .remarks
        .iter()
        .map(|r| json!({"what": r.what, "kernel": r.place.kernel, "line": r.place.line, "times": r.times}))
        .collect();
    json!({
        "status": "ok",
        "instructions": instructions,
        "schedules": schedules,
        "message": "",
        "violation": null,
        "remarks": remarks,
        "printed": heard.printed,
    })
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
