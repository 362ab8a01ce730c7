//! What the gate says, for the terminal, as Markdown, as annotations of GitHub and as SARIF.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::judge::Judgement;
use crate::record::{Finding, Ground};
use crate::report::sarif;

/// Annotations that GitHub shows of one step; the others are in the summary.
const ANNOTATIONS: usize = 10;

/// For the terminal: every finding on a line, then what is new, then the counts.
#[must_use]
pub fn verdict_text(judgement: &Judgement) -> String {
    let mut out = String::new();
    for finding in &judgement.findings {
        _ = writeln!(out, "{}", one_line(&finding.line()));
    }
    for note in &judgement.notes {
        _ = writeln!(out, "note: {}", one_line(note));
    }
    _ = writeln!(out, "{}", judgement.summary());
    out
}

/// As Markdown, for the summary of a step or a comment.
#[must_use]
pub fn verdict_markdown(judgement: &Judgement) -> String {
    let mut out = format!("### sm121probe: {}\n\n", plain(&judgement.summary()));
    if !judgement.findings.is_empty() {
        out.push_str("| what | about | where |\n|---|---|---|\n");
        for f in &judgement.findings {
            let place =
                f.place.as_ref().map_or_else(String::new, |(file, line)| format!("{}:{line}", plain(file)));
            _ = writeln!(out, "| {} | {} | {place} |", plain(&f.message), plain(&f.about));
        }
        out.push('\n');
    }
    for note in &judgement.notes {
        _ = writeln!(out, "- {}", plain(note));
    }
    out
}

/// Workflow commands that GitHub turns into annotations: one error per finding, with file and line where there are.
#[must_use]
pub fn annotations(judgement: &Judgement) -> String {
    let mut out = String::new();
    // Those with a place first: they appear beside the code.
    let mut findings: Vec<&Finding> = judgement.findings.iter().collect();
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
/// Only when serialisation itself fails.
pub fn sarif(judgement: &Judgement) -> serde_json::Result<String> {
    let rules = Ground::ALL.iter().map(|g| sarif::rule(g.word(), g.sentence())).collect();
    sarif::document(rules, judgement.findings.iter().map(result).collect())
}

fn result(finding: &Finding) -> Value {
    let rule = Ground::ALL.iter().position(|g| *g == finding.ground);
    let mut out = json!({
        "ruleId": finding.ground.word(),
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": one_line(&format!("{}: {}", finding.about, finding.message))},
        "partialFingerprints": {"sm121probe/v1": fingerprint(finding)},
    });
    if let Some((file, line)) = &finding.place {
        out["locations"] = json!([{
            "physicalLocation": {"artifactLocation": {"uri": sarif::uri(file)}, "region": {"startLine": line}},
        }]);
    }
    out
}

fn fingerprint(finding: &Finding) -> String {
    let file = finding.place.as_ref().map_or("", |(file, _)| file.as_str());
    sarif::fingerprint(&[finding.ground.word(), &finding.about, file])
}

pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

pub(super) fn plain(text: &str) -> String {
    one_line(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('|', "\\|")
        .replace('*', "\\*")
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
    fn words_of_findings_end_no_command_and_no_table() {
        let mut finding =
            Finding::new(Ground::Wrong, "a:b,c".to_owned(), "50% of\n::error::x | y <b>".to_owned());
        finding.place = Some(("k e/r.cu".to_owned(), 7));
        let judgement = Judgement { findings: vec![finding], ..Judgement::default() };
        let text = annotations(&judgement);
        assert_eq!(
            text,
            "::error file=k e/r.cu,line=7,title=sm121probe%3A a%3Ab%2Cc::50%25 of%0A::error::x | y <b>\n"
        );
        assert!(
            verdict_markdown(&judgement)
                .contains("| 50% of ::error::x \\| y &lt;b&gt; | a:b,c | k e/r.cu:7 |")
        );
        assert!(sarif(&judgement).unwrap().contains("\"k%20e/r.cu\""));
        let many = Judgement {
            findings: vec![Finding::new(Ground::Claim, "x".into(), "y".into()); 12],
            ..Judgement::default()
        };
        assert_eq!(annotations(&many).lines().count(), 11);
    }
}
