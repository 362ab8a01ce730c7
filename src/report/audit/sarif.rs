//! SARIF 2.1.0: a rule for each verdict other than a plain "runs", a result for each file, reason and device.

use serde_json::{Value, json};

use super::super::phrase::{clean, counted, kernel};
use super::super::sarif;
use super::rollup::{Exception, exceptions};
use crate::record::{AuditTable, AuditVerdict, Shown};

/// The reported verdicts, the worst first.
const RULES: [AuditVerdict; 5] = [
    AuditVerdict::NoCode,
    AuditVerdict::Stub,
    AuditVerdict::Undetermined,
    AuditVerdict::Fallback,
    AuditVerdict::Jit,
];

/// What to do about a result.
const HELP: &str = "`sm121probe audit FILE` says for each device what to build instead; docs/audit.md has the verdicts and their causes.";

/// The number of characters of a kernel's name in a message.
const NAME: usize = 80;

/// The audit as SARIF.
///
/// # Errors
/// Only if serialisation itself fails.
pub fn audit_sarif(audit: &AuditTable) -> serde_json::Result<String> {
    let rules =
        RULES.iter().map(|v| sarif::rule(v.word(), &format!("A kernel {}.", v.phrase()), HELP)).collect();
    let results = exceptions(audit).iter().map(|e| result(audit, e)).collect();
    sarif::document(rules, results)
}

fn result(audit: &AuditTable, e: &Exception) -> Value {
    let path = &audit.files[e.file].path;
    let (file, member) = path.split_once('!').unwrap_or((path, ""));
    let devices: Vec<&str> = e.devices.iter().map(|d| audit.devices[*d].name.as_str()).collect();
    // A kernel whose name promises no result may be meant only to print.
    let meant = |k: &usize| {
        let kernel = &audit.kernels[*k];
        e.devices.iter().all(|d| kernel.images[kernel.by[*d]].shown == Some(Shown::Unknown))
    };
    let level = match e.verdict {
        AuditVerdict::Stub if e.kernels.iter().all(meant) => "note",
        AuditVerdict::NoCode | AuditVerdict::Stub => "error",
        AuditVerdict::Undetermined | AuditVerdict::Fallback => "warning",
        _ => "note",
    };
    let example = e.kernels.first().map_or("", |k| audit.kernels[*k].name.as_str());
    let text = format!(
        "{}: {} {} ({}): {}; such as {}",
        devices.join(" and "),
        counted(e.kernels.len(), "kernel"),
        e.verdict.word(),
        e.verdict.phrase(),
        audit.reasons[e.reason],
        kernel(example, NAME)
    );
    let mut location = json!({"physicalLocation": {"artifactLocation": sarif::artifact(file)}});
    if !member.is_empty() {
        location["logicalLocations"] = json!([{"fullyQualifiedName": member}]);
    }
    json!({
        "ruleId": e.verdict.word(),
        "ruleIndex": RULES.iter().position(|v| *v == e.verdict),
        "level": level,
        "message": {"text": clean(&text)},
        "locations": [location],
        "partialFingerprints": {"sm121probe/v1": sarif::fingerprint(
            &[path.as_str(), e.verdict.word(), &audit.reasons[e.reason], &devices.join(" ")]
        )},
    })
}
