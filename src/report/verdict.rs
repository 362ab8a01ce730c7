//! The verdict on a whole run, with the counts beside the word.

use super::claims;
use super::phrase::counted;
use super::trials::trial_counts;
use crate::record::{Record, TrialRow};

/// The run in one word and the counts behind it.
pub(super) struct Verdict {
    /// `conforms`, `does not conform`, or `claims contradicted`.
    pub(super) word: &'static str,
    /// Whether it is good news.
    pub(super) good: bool,
    /// What was counted, each a clause.
    pub(super) counts: Vec<String>,
}

/// What is said of a run: its trials first, then its claims.
pub(super) fn verdict(record: &Record) -> Verdict {
    let wrong = record.pipeline.iter().any(|t| t.first_wrong().is_some());
    let judged = record.pipeline.iter().any(TrialRow::is_judged);
    let claims = claims::counts(&record.matrix);
    let asked = !record.matrix.variants.is_empty();
    let (word, good) = match (wrong, claims.findings > 0) {
        (true, _) => ("does not conform", false),
        (false, true) => ("claims contradicted", false),
        (false, false) if judged || asked => ("conforms", true),
        (false, false) => ("nothing was run", false),
    };
    let mut counts = Vec::new();
    if asked {
        counts.push(format!(
            "{} confirmed, {} refuted, {} untested, {}",
            counted(claims.confirmed, "claim"),
            claims.refuted,
            claims.untested,
            counted(claims.findings, "finding")
        ));
    }
    if !record.pipeline.is_empty() {
        counts.push(trials(&record.pipeline));
    }
    if !record.skipped.is_empty() {
        let parts: Vec<&str> = record.skipped.iter().map(|s| s.part.as_str()).collect();
        counts.push(format!("{} skipped: {}", record.skipped.len(), parts.join(", ")));
    }
    Verdict { word, good, counts }
}

/// `3 trials: 2 pass, 1 blocked`.
pub(super) fn trials(trials: &[TrialRow]) -> String {
    let each = trial_counts(trials);
    let words: Vec<String> =
        each.iter().map(|(v, n)| format!("{n} {}", v.word().replace('_', " "))).collect();
    format!("{}: {}", counted(trials.len(), "trial"), words.join(", "))
}
