//! Runs of variants on a device, for the terminal and as CSV.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::csv::table;
use crate::record::{Rung, VariantRun, Verdict};

const HEADER: [&str; 7] = ["variant", "target", "device", "code", "rung", "verdict", "note"];

/// What is not right, then how many stand on each rung.
#[must_use]
pub fn runs_text(runs: &[VariantRun]) -> String {
    let mut out = String::new();
    for run in runs {
        if let Some(wrong) = run.first_wrong() {
            let _ = writeln!(
                out,
                "{} {} {}: {}",
                run.variant,
                wrong.rung.word(),
                wrong.verdict.word(),
                wrong.note
            );
        }
    }
    out.push_str(&run_counts(runs));
    out
}

/// How many stand on each rung, on one line, and how many the device does not have.
#[must_use]
pub fn run_counts(runs: &[VariantRun]) -> String {
    let mut counts: BTreeMap<Rung, usize> = BTreeMap::new();
    for rung in runs.iter().flat_map(|run| &run.rungs).filter(|rung| rung.verdict == Verdict::Pass) {
        *counts.entry(rung.rung).or_default() += 1;
    }
    let blocked = runs.iter().filter(|run| run.rungs.iter().any(|r| r.verdict == Verdict::Blocked)).count();
    let wrong = runs.iter().filter(|run| run.first_wrong().is_some()).count();
    let rungs: Vec<String> = counts.iter().map(|(rung, n)| format!("{n} {}", rung.word())).collect();
    format!("{} variants run: {}; {blocked} blocked, {wrong} wrong\n", runs.len(), rungs.join(", "))
}

/// A row per variant and rung.
#[must_use]
pub fn runs_csv(runs: &[VariantRun]) -> String {
    let rows = runs.iter().flat_map(|run| {
        run.rungs.iter().map(|rung| {
            vec![
                run.variant.clone(),
                run.target.clone(),
                run.device.clone(),
                run.code.clone(),
                rung.rung.word().to_owned(),
                rung.verdict.word().to_owned(),
                rung.note.lines().next().unwrap_or_default().to_owned(),
            ]
        })
    });
    table(std::iter::once(HEADER.map(str::to_owned).to_vec()).chain(rows))
}
