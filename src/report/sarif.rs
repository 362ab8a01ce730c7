//! The frame of SARIF 2.1.0: rules, results, references to files.

use std::fmt::Write as _;

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::record::Incomplete;

/// The base of relative references.
const ROOT: &str = "%SRCROOT%";

/// A rule, its meaning, and what to do about a result of it.
pub(super) fn rule(id: &str, text: &str, help: &str) -> Value {
    json!({
        "id": id,
        "shortDescription": {"text": text},
        "fullDescription": {"text": text},
        "help": {"text": help, "markdown": help},
        "defaultConfiguration": {"level": "error"},
    })
}

/// A result for what was not checked, of the rule at an index.
pub(super) fn incomplete(incomplete: &Incomplete, rule: usize) -> Value {
    json!({
        "ruleId": Incomplete::WORD,
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": incomplete.to_string()},
        "partialFingerprints": {"sm121probe/v1": fingerprint(&[Incomplete::WORD])},
    })
}

/// A run of this tool with these rules and results.
///
/// # Errors
/// Only if serialisation itself fails.
pub(super) fn document(rules: Vec<Value>, results: Vec<Value>) -> serde_json::Result<String> {
    let mut out = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "sm121probe",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {
                ROOT: {"description": {"text": "The folder in which sm121probe ran."}},
            },
            "results": results,
        }],
    });
    // A package of this tool that has a home says where.
    if let Some(home) = option_env!("CARGO_PKG_REPOSITORY").filter(|home| !home.is_empty()) {
        out["runs"][0]["tool"]["driver"]["informationUri"] = json!(home);
    }
    Ok(serde_json::to_string_pretty(&out)? + "\n")
}

/// The part of a result that stays the same if lines move: without it, a moved line would be a new alert.
pub(super) fn fingerprint(parts: &[&str]) -> String {
    Sha256::digest(parts.join("\0").as_bytes()).iter().fold(String::new(), |mut out, byte| {
        _ = write!(out, "{byte:02x}");
        out
    })
}

/// A line of a file, with its text if that is known.
pub(super) fn location(file: &str, line: usize, text: Option<&str>) -> Value {
    let mut region = json!({"startLine": line});
    if let Some(text) = text {
        region["snippet"] = json!({"text": text});
    }
    json!({"physicalLocation": {"artifactLocation": artifact(file), "region": region}})
}

/// A file: relative to the folder of the run, as the viewers of a repository need it, or absolute if it is elsewhere.
pub(super) fn artifact(file: &str) -> Value {
    let here = std::env::current_dir().ok();
    let inside = here.as_deref().and_then(|here| Path::new(file).strip_prefix(here).ok());
    match inside {
        Some(inside) => json!({"uri": uri(&inside.to_string_lossy()), "uriBaseId": ROOT}),
        None if file.starts_with('/') => json!({"uri": format!("file://{}", uri(file))}),
        None => json!({"uri": uri(file), "uriBaseId": ROOT}),
    }
}

/// A list of one related location, and what it is.
pub(super) fn related(mut location: Value, text: &str) -> Value {
    location["message"] = json!({"text": text});
    json!([location])
}

/// A path as a SARIF reference: forward slashes, other characters percent-encoded.
fn uri(file: &str) -> String {
    let mut out = String::new();
    for byte in file.trim_start_matches("./").bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"/._-~+@".contains(&byte);
        if plain { out.push(char::from(byte)) } else { _ = write!(out, "%{byte:02X}") }
    }
    out
}
