//! Trials, for the terminal, as CSV and as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::markup::{Align, head, plain, row};
use super::phrase::counted;
use crate::record::{Check, CheckResult, Place, StageResult, TrialRow, Verdict};

const HEADER: [&str; 11] = [
    "family",
    "case",
    "configuration",
    "depth",
    "target",
    "device",
    "stage",
    "verdict",
    "worst_over_bound",
    "mismatches",
    "where",
];

/// One row per trial and stage, in the order of the trials.
#[must_use]
pub fn trials_csv(trials: &[TrialRow]) -> String {
    // Writing to memory does not fail; if it did, the reader would have to see it.
    rows(trials).unwrap_or_else(|error| format!("{}\n{error}\n", HEADER.join(",")))
}

fn rows(trials: &[TrialRow]) -> Result<String, Box<dyn std::error::Error>> {
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
    writer.write_record(HEADER)?;
    for trial in trials {
        for result in &trial.results {
            writer.write_record([
                trial.family.as_str(),
                &trial.case,
                trial.configuration.text(),
                &trial.depth.to_string(),
                &trial.target.text(),
                &trial.device,
                result.stage.text(),
                result.verdict.word(),
                &ratio(result.worst_over_bound),
                &result.mismatches.to_string(),
                result.place.as_ref().map_or("", Place::text),
            ])?;
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// `inf`, or three digits.
pub(super) fn ratio(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else if value.is_finite() {
        format!("{value:.3}")
    } else {
        "inf".to_owned()
    }
}

/// The number of trials with each verdict, in the order of the verdicts.
#[must_use]
pub fn trial_counts<'a>(trials: impl IntoIterator<Item = &'a TrialRow>) -> Vec<(Verdict, usize)> {
    let mut counts: BTreeMap<Verdict, usize> = BTreeMap::new();
    for trial in trials {
        *counts.entry(trial.verdict()).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// A check that does not conform, in a sentence.
pub(super) fn check_sentence(wrong: &CheckResult) -> String {
    format!("check {}: {}: {}", wrong.check.word(), wrong.verdict.word(), wrong.note)
}

/// Verdicts of each check, counted over the trials that ran on a device other than the emulator.
#[must_use]
pub(super) fn check_counts<'a>(
    trials: impl IntoIterator<Item = &'a TrialRow>,
) -> Vec<(Check, Vec<(Verdict, usize)>)> {
    let mut counts: BTreeMap<Check, BTreeMap<Verdict, usize>> = BTreeMap::new();
    for result in trials.into_iter().flat_map(|t| &t.checks) {
        *counts.entry(result.check).or_default().entry(result.verdict).or_default() += 1;
    }
    counts.into_iter().map(|(check, of)| (check, of.into_iter().collect())).collect()
}

pub(super) fn name(trial: &TrialRow) -> String {
    format!("{} {} {} on {}", trial.case, trial.configuration, trial.target, trial.device)
}

pub(super) fn sentence(result: &StageResult) -> String {
    let mut out = format!("{} {}", result.stage, result.verdict.word());
    if let Some(place) = &result.place {
        let _ = write!(out, " at {place}");
    }
    if result.mismatches > 0 {
        let _ =
            write!(out, ", {} wrong, {} times the bound", result.mismatches, ratio(result.worst_over_bound));
    }
    if !result.note.is_empty() {
        let _ = write!(out, ": {}", result.note);
    }
    out
}

/// One line per stage.
#[must_use]
pub fn stages_text(results: &[StageResult]) -> String {
    results.iter().map(|r| sentence(r) + "\n").collect()
}

/// Failures, known failures, blocked trials, kernel costs, and the counts.
#[must_use]
pub fn trials_text(trials: &[TrialRow]) -> String {
    let mut out = String::new();
    for trial in trials {
        if let Some(wrong) = trial.first_wrong() {
            let _ = writeln!(out, "{}\n  {}", name(trial), sentence(wrong));
        }
        for known in trial.results.iter().filter(|r| r.verdict == Verdict::KnownFail) {
            let _ = writeln!(out, "{}\n  {}", name(trial), sentence(known));
        }
        if let Some(wrong) = trial.wrong_check() {
            let _ = writeln!(out, "{}\n  {}", name(trial), check_sentence(wrong));
        }
    }
    let mut blocked: BTreeMap<&str, usize> = BTreeMap::new();
    for trial in trials.iter().filter(|t| t.verdict() == Verdict::Blocked) {
        *blocked.entry(trial.results.first().map_or("", |r| r.note.as_str())).or_default() += 1;
    }
    for (why, count) in blocked {
        let _ = writeln!(out, "blocked, {count}: {why}");
    }
    let mut remarks: BTreeMap<&str, Vec<&TrialRow>> = BTreeMap::new();
    for trial in trials.iter().filter(|t| !t.remark.is_empty()) {
        remarks.entry(&trial.remark).or_default().push(trial);
    }
    for (remark, trials) in remarks {
        let _ = writeln!(out, "remark, {}: {remark}", trials.len());
    }
    let counts: Vec<String> =
        trial_counts(trials).iter().map(|(verdict, n)| format!("{n} {}", verdict.word())).collect();
    for (check, counts) in check_counts(trials) {
        let words: Vec<String> =
            counts.iter().map(|(verdict, n)| format!("{n} {}", verdict.word())).collect();
        let _ = writeln!(out, "check {}: {}", check.word(), words.join(", "));
    }
    let _ = writeln!(out, "{}: {}", counted(trials.len(), "trial"), counts.join(", "));
    out
}

/// A table of the trials with the first wrong stage.
#[must_use]
pub fn trials_markdown(trials: &[TrialRow]) -> String {
    const COLUMNS: [&str; 8] =
        ["case", "configuration", "depth", "target", "device", "verdict", "worst / bound", "first wrong"];
    let mut out = head(&COLUMNS, Align::Left);
    for t in trials {
        let worst = t.results.iter().map(|r| r.worst_over_bound).fold(0.0, f64::max);
        let check = || t.wrong_check().map(check_sentence);
        let wrong = t.first_wrong().map(sentence).or_else(check).unwrap_or_default();
        out.push_str(&row(&[
            t.case.clone(),
            t.configuration.to_string(),
            t.depth.to_string(),
            t.target.to_string(),
            t.device.clone(),
            t.verdict().word().to_owned(),
            ratio(worst),
            wrong,
        ]
        .map(|cell| plain(&cell))));
    }
    out
}
