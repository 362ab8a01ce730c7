//! Results of launches as JSON for the classes of the package.

use emulator::events::OtherRecord;
use emulator::trials::{Difference, Plan, Undetermined, Verdict};
use emulator::{Profile, Remark, SpaceTraffic, Stop, Violation};
use serde_json::{Value, json};
use sm121probe::job::launch::{LaunchError, Omission, Outcome, Session};

fn violation(found: &Violation) -> Value {
    let trap = &found.trap;
    let other = trap.other.as_deref().and_then(OtherRecord::from_access);
    let rule = trap.rule.word();
    json!({"rule": rule, "what": trap.what, "place": trap.place, "times": found.times, "other": other})
}

fn remark(remark: &Remark) -> Value {
    let other = remark.other.as_deref().and_then(OtherRecord::from_access);
    json!({"rule": null, "what": remark.what, "place": remark.place, "times": remark.times, "other": other})
}

/// Formats the error of a module or a launch.
pub(crate) fn stop_json(module: &str, stop: &Stop) -> Value {
    match stop {
        Stop::Trap(trap) => json!({
            "kind": "violation",
            "what": format!("{module}: {stop}"),
            "violation": violation(&Violation { trap: (**trap).clone(), times: 1 }),
        }),
        Stop::Unsupported(_) => json!({"kind": "unsupported", "what": format!("{module}: {stop}")}),
        Stop::Launch(_) => json!({"kind": "launch", "what": format!("{module}: {stop}")}),
        Stop::Bug(_) => json!({"kind": "bug", "what": format!("{module}: {stop}")}),
    }
}

/// Formats the error of trials that failed or disagree, with the violations after which launches continued.
pub(crate) fn failed(error: &LaunchError, verdict: Option<&Verdict>) -> Value {
    let stop = match error {
        LaunchError::Stopped(stopped) => stop_json(&stopped.name, &stopped.stop),
        LaunchError::Job(_) | LaunchError::Nvrtc(_) | LaunchError::Contraction(_) => {
            json!({"kind": "toolkit", "what": error.to_string()})
        }
        _ if error.is_finding() => json!({"kind": "disagreement", "what": error.to_string()}),
        _ => json!({"kind": "launch", "what": error.to_string()}),
    };
    let violations: Vec<Value> = verdict.iter().flat_map(|v| &v.violations).map(violation).collect();
    json!({"error": stop, "violations": violations})
}

fn traffic(of: &SpaceTraffic) -> Value {
    json!({"accesses": of.accesses, "bytes": of.bytes, "transactions": of.transactions, "excess": of.excess})
}

fn profile(profile: &Profile) -> Value {
    let instructions: Vec<Value> = profile
        .histogram()
        .into_iter()
        .map(|(name, executions, lanes)| json!({"opcode": name, "executions": executions, "lanes": lanes}))
        .collect();
    let conflicts: Vec<Value> = profile
        .conflicts()
        .into_iter()
        .map(|(row, passes)| json!({"line": row.line, "instruction": row.text, "extra_passes": passes}))
        .collect();
    json!({
        "instructions": instructions,
        "global_loads": traffic(&profile.global_loads),
        "global_stores": traffic(&profile.global_stores),
        "shared_loads": traffic(&profile.shared_loads),
        "shared_stores": traffic(&profile.shared_stores),
        "bank_conflicts": conflicts,
    })
}

fn open(found: &Undetermined) -> Value {
    json!({
        "by": found.open.word(),
        "buffer": found.buffer,
        "differing": found.differing,
        "elements": found.elements,
        "index": found.index,
        "first": found.chosen,
        "other": found.other,
        "largest": found.largest,
    })
}

fn difference(found: &Difference) -> Value {
    json!({
        "cause": found.cause.word(),
        "what": found.to_string(),
        "buffer": found.buffer,
        "index": found.index,
        "byte": found.byte,
        "seeds": found.trials.map(|trial| trial.seed),
        "values": found.values,
    })
}

/// Formats the report of trials of which the first ran to its end.
pub(crate) fn report(
    (session, plan): (&Session, &Plan),
    (outcome, omissions): (&Outcome, &[Omission]),
    verdict: &Verdict,
    printed: &str,
    profiles: &[Profile],
) -> Value {
    let sums = &verdict.sums;
    let open = verdict.undetermined.as_ref().map(|all| all.iter().map(open).collect::<Vec<_>>());
    let unwritten = (0..session.buffers.len()).map(|n| outcome.unwritten(n)).collect::<Vec<_>>();
    json!({
        "verdict": verdict.outcome().word(),
        "instructions": verdict.instructions.iter().sum::<u64>(),
        "schedules": plan.schedules(),
        "poisons": plan.fillings(),
        "violations": verdict.violations.iter().map(violation).collect::<Vec<_>>(),
        "nondeterministic": verdict.nondeterministic().map(difference),
        "remarks": verdict.remarks.iter().map(remark).collect::<Vec<_>>(),
        "unwritten": unwritten,
        "omissions": omissions.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "float_atomics": {"elements": sums.elements, "differences": sums.differences, "worst": sums.worst},
        "undetermined": open,
        "undetermined_stores": verdict.undetermined_stores.iter().map(remark).collect::<Vec<_>>(),
        "printed": printed,
        "profile": profiles.first().map(profile),
    })
}
