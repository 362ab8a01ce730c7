//! Findings as annotations of GitHub and as SARIF.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::phrase::clean;
use super::sarif;
use crate::record::{Finding, Ground};

/// The number of annotations that GitHub shows per step; the others are in the summary.
const ANNOTATIONS: usize = 10;

/// Workflow commands that GitHub turns into annotations: one error per finding, with file and line if known.
#[must_use]
pub fn annotations(findings: &[Finding]) -> String {
    let mut out = String::new();
    // Findings with a place come first: they appear beside the code.
    let mut findings: Vec<&Finding> = findings.iter().collect();
    findings.sort_by_key(|f| f.place.is_none());
    for f in findings.iter().take(ANNOTATIONS) {
        let mut properties = vec![format!("title={}", property(&format!("sm121probe: {}", f.about)))];
        if let Some((file, line)) = &f.place {
            properties.insert(0, format!("file={},line={line}", property(file)));
        }
        _ = writeln!(out, "::error {}::{}", properties.join(","), data(&f.message));
    }
    if findings.len() > ANNOTATIONS {
        let more = findings.len() - ANNOTATIONS;
        _ = writeln!(out, "::notice title=sm121probe::{more} more findings are in the summary of the step");
    }
    out
}

/// SARIF 2.1.0: a rule for each ground, a result for each finding.
///
/// # Errors
/// Only if serialisation itself fails.
pub fn findings_sarif(findings: &[Finding]) -> serde_json::Result<String> {
    let rules = Ground::ALL.iter().map(|g| sarif::rule(g.word(), g.sentence(), help(*g))).collect();
    sarif::document(rules, findings.iter().map(result).collect())
}

/// What to do about a finding.
const fn help(ground: Ground) -> &'static str {
    match ground {
        Ground::Wrong => {
            "The message names what is wrong and, where one is known, the remedy or the change that explains it. Known failures go into \
             the file of `gate --expectations`."
        }
        Ground::Survivor => {
            "Add a case that detects the fault, or an entry with the reason to mutants.yaml beside the kernels."
        }
        Ground::Claim => "Mark a claim that is known to be wrong with `stands: refuted` in its snippet.",
        Ground::Baseline => "Accept a correct answer into the baseline with `gate --bless`.",
        Ground::Incomplete => {
            "The message names what was not checked; docs/reference.md says what each command calls incomplete."
        }
    }
}

fn result(finding: &Finding) -> Value {
    let rule = Ground::ALL.iter().position(|g| *g == finding.ground);
    let mut out = json!({
        "ruleId": finding.ground.word(),
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": clean(&format!("{}: {}", finding.about, finding.message))},
        "partialFingerprints": {"sm121probe/v1": fingerprint(finding)},
    });
    if let Some((file, line)) = &finding.place {
        out["locations"] = json!([sarif::location(file, *line, None)]);
    }
    if let Some((file, line)) = &finding.other_place {
        out["relatedLocations"] = sarif::related(sarif::location(file, *line, None), "the other access");
    }
    out
}

fn fingerprint(finding: &Finding) -> String {
    let file = finding.place.as_ref().map_or("", |(file, _)| file.as_str());
    sarif::fingerprint(&[finding.ground.word(), &finding.about, file])
}

/// The text of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_findings_end_no_command() {
        let mut finding = Finding::new(Ground::Wrong, "a:b,c".to_owned(), "50% of\n::error::x".to_owned());
        finding.place = Some(("k e/r.cu".to_owned(), 7));
        let findings = [finding];
        assert_eq!(
            annotations(&findings),
            "::error file=k e/r.cu,line=7,title=sm121probe%3A a%3Ab%2Cc::50%25 of%0A::error::x\n"
        );
        let sarif = findings_sarif(&findings).unwrap();
        assert!(sarif.contains("\"k%20e/r.cu\"") && !sarif.contains("relatedLocations"));
        let [mut raced] = findings;
        raced.other_place = Some(("k/s.cu".to_owned(), 9));
        let sarif: Value = serde_json::from_str(&findings_sarif(&[raced]).unwrap()).unwrap();
        let other = &sarif["runs"][0]["results"][0]["relatedLocations"][0];
        assert_eq!(other["message"]["text"], "the other access");
        let place = &other["physicalLocation"];
        assert_eq!(
            (&place["artifactLocation"]["uri"], &place["region"]["startLine"]),
            (&json!("k/s.cu"), &json!(9))
        );
        let many = vec![Finding::new(Ground::Claim, "x".into(), "y".into()); 12];
        assert_eq!(annotations(&many).lines().count(), 11);
    }
}
