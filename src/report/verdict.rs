//! The verdict on a whole run, with its counts.

use super::claims;
use super::phrase::counted;
use super::runs::run_counts;
use super::trials::trial_counts;
use crate::record::{Record, TrialRow};

/// The verdict in one word, and its counts.
pub(super) struct Verdict {
    /// `conforms`, `does not conform`, `claims contradicted`, `incomplete` or `nothing checked`.
    pub(super) word: &'static str,
    /// Whether the verdict is good.
    pub(super) good: bool,
    /// The counts, one clause each.
    pub(super) counts: Vec<String>,
    /// Those of them that ran: trials, by device, and variants.
    pub(super) ran: Vec<String>,
}

/// The text on a run: its trials first, then its claims.
pub(super) fn verdict(record: &Record) -> Verdict {
    let wrong = record.trials.iter().any(|t| !t.conforms())
        || record.runs.iter().any(|run| run.first_wrong().is_some());
    let incomplete = record.incomplete();
    let claims = claims::counts(&record.matrix);
    let asked = !record.matrix.variants.is_empty();
    let (word, good) = match (wrong, claims.findings > 0, incomplete) {
        (true, ..) => ("does not conform", false),
        (false, true, _) => ("claims contradicted", false),
        (false, false, None) => ("conforms", true),
        (false, false, Some(incomplete)) if incomplete.nothing_checked => ("nothing checked", false),
        (false, false, Some(_)) => ("incomplete", false),
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
    let mut ran: Vec<String> = by_device(record.trials.iter())
        .into_iter()
        .map(|(device, list)| match device {
            EMULATOR => trials(list),
            device => format!("on {device}: {}", trials(list)),
        })
        .collect();
    if !record.runs.is_empty() {
        ran.push(run_counts(&record.runs).trim_end().to_owned());
    }
    counts.extend(ran.iter().cloned());
    if !record.skipped.is_empty() {
        let parts: Vec<&str> = record.skipped.iter().map(|s| s.part.as_str()).collect();
        counts.push(format!("{} skipped: {}", record.skipped.len(), parts.join(", ")));
    }
    Verdict { word, good, counts, ran }
}

pub(super) use crate::record::EMULATOR;

/// The trials of each device, in record order: evidence from one device does not apply to another.
pub(super) fn by_device<'a>(
    trials: impl IntoIterator<Item = &'a TrialRow>,
) -> Vec<(&'a str, Vec<&'a TrialRow>)> {
    grouped(trials, |trial| &trial.device)
}

/// The trials of each family, in record order.
pub(super) fn by_family<'a>(
    trials: impl IntoIterator<Item = &'a TrialRow>,
) -> Vec<(&'a str, Vec<&'a TrialRow>)> {
    grouped(trials, |trial| &trial.family)
}

fn grouped<'a>(
    trials: impl IntoIterator<Item = &'a TrialRow>,
    of: impl Fn(&'a TrialRow) -> &'a str,
) -> Vec<(&'a str, Vec<&'a TrialRow>)> {
    let mut out: Vec<(&str, Vec<&TrialRow>)> = Vec::new();
    for trial in trials {
        match out.iter_mut().find(|(name, _)| *name == of(trial)) {
            Some((_, list)) => list.push(trial),
            None => out.push((of(trial), vec![trial])),
        }
    }
    out
}

/// `3 trials: 2 pass, 1 blocked`.
pub(super) fn trials<'a>(trials: impl IntoIterator<Item = &'a TrialRow>) -> String {
    let trials: Vec<&TrialRow> = trials.into_iter().collect();
    let each = trial_counts(trials.iter().copied());
    let words: Vec<String> =
        each.iter().map(|(v, n)| format!("{n} {}", v.word().replace('_', " "))).collect();
    format!("{}: {}", counted(trials.len(), "trial"), words.join(", "))
}
