//! Runs of variants on devices, for the terminal, as Markdown and as CSV.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::csv::table;
use super::markup::{Align, code, head, plain, row};
use super::phrase::{clean, counted, wrapped};
use super::style::{Styles, Tone};
use crate::record::{Check, CheckResult, DeviceRow, Record, VariantRun, Verdict};

const HEADER: [&str; 7] = ["variant", "target", "device", "code", "check", "verdict", "note"];

/// Failures, then the number of variants that passed each check.
#[must_use]
pub fn runs_text(runs: &[VariantRun]) -> String {
    let mut out = String::new();
    for run in runs {
        if let Some(wrong) = run.first_wrong() {
            let _ = writeln!(
                out,
                "{} {} {}: {}",
                run.variant,
                wrong.check.word(),
                wrong.verdict.word(),
                wrong.note
            );
        }
    }
    out.push_str(&run_counts(runs));
    out
}

/// The number that passed each check, on one line, and the number that the device does not have.
#[must_use]
pub fn run_counts<'a>(runs: impl IntoIterator<Item = &'a VariantRun>) -> String {
    let mut counts: BTreeMap<Check, usize> = BTreeMap::new();
    let (mut all, mut blocked, mut wrong) = (0, 0, 0);
    for run in runs {
        for check in run.checks.iter().filter(|check| check.verdict == Verdict::Pass) {
            *counts.entry(check.check).or_default() += 1;
        }
        all += 1;
        blocked += usize::from(run.checks.iter().any(|r| r.verdict == Verdict::Blocked));
        wrong += usize::from(run.first_wrong().is_some());
    }
    let checks: Vec<String> = counts.iter().map(|(check, n)| format!("{n} {}", check.word())).collect();
    format!("{} run: {}; {blocked} blocked, {wrong} wrong\n", counted(all, "variant"), checks.join(", "))
}

/// One row per variant and check.
#[must_use]
pub fn runs_csv(runs: &[VariantRun]) -> String {
    let rows = runs.iter().flat_map(|run| {
        run.checks.iter().map(|check| {
            vec![
                run.variant.clone(),
                run.target.to_string(),
                run.device.clone(),
                run.code.to_string(),
                check.check.word().to_owned(),
                check.verdict.word().to_owned(),
                check.note.lines().next().unwrap_or_default().to_owned(),
            ]
        })
    });
    table(std::iter::once(HEADER.map(str::to_owned).to_vec()).chain(rows))
}

/// Wrong variants listed on a terminal.
const LISTED: usize = 12;

/// What a run on a GPU proves and what it does not.
const OWN: &str = "Evidence of the GPU itself: every check ran on it, and its answers were compared with the \
    emulator's bit for bit.";

/// `gpu:0`, and its description if the record has one.
pub(super) fn device(record: &Record, name: &str) -> String {
    let of = |row: &DeviceRow| {
        let driver = if row.driver.is_empty() { String::new() } else { format!(" {}", row.driver) };
        format!("{name} ({}, {}, driver{driver}, CUDA {})", row.name, row.architecture, row.cuda)
    };
    record.devices.iter().find(|row| row.device == name).map_or_else(|| name.to_owned(), of)
}

/// The runs of each device, target and code generator, in record order.
fn groups(record: &Record) -> Vec<(&VariantRun, Vec<&VariantRun>)> {
    let mut out: Vec<(&VariantRun, Vec<&VariantRun>)> = Vec::new();
    for run in &record.runs {
        let same = |r: &VariantRun| (&r.device, &r.target, &r.code) == (&run.device, &run.target, &run.code);
        match out.iter_mut().find(|(first, _)| same(first)) {
            Some((_, list)) => list.push(run),
            None => out.push((run, vec![run])),
        }
    }
    out
}

/// The tool that made the code, and its target.
fn made(run: &VariantRun) -> String {
    let by = if run.code.is_nobody() { String::new() } else { format!(" by {}", run.code) };
    format!("code for {}{by}", run.target)
}

fn wrong_sentence(run: &VariantRun, wrong: &CheckResult) -> String {
    format!("{}: {} {}: {}", run.variant, wrong.check.word(), wrong.verdict.word(), clean(&wrong.note))
}

/// A verdict as the table marks it.
const fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "✓",
        Verdict::Blocked => "⊘",
        Verdict::Skipped => "·",
        Verdict::Undetermined => "?",
        _ => "✗",
    }
}

/// The section as Markdown, one row per variant; empty if no device ran any.
pub(super) fn markdown(record: &Record) -> String {
    let mut out = String::new();
    for (first, runs) in groups(record) {
        let name = plain(&device(record, &first.device));
        let counts = run_counts(runs.iter().copied());
        let _ = write!(
            out,
            "{}## Snippets on {name}\n\n{}; {}. {OWN}\n\n",
            if out.is_empty() { "" } else { "\n" },
            plain(&made(first)),
            counts.trim_end()
        );
        let wrong: Vec<_> = runs.iter().filter_map(|run| Some((run, run.first_wrong()?))).collect();
        for (run, wrong) in &wrong {
            let _ = writeln!(out, "- {}", plain(&wrong_sentence(run, wrong)));
        }
        if !wrong.is_empty() {
            out.push('\n');
        }
        let mut checks: Vec<Check> = runs.iter().flat_map(|run| &run.checks).map(|r| r.check).collect();
        checks.sort_unstable();
        checks.dedup();
        let _ = writeln!(out, "✓ passes, ✗ fails, ⊘ the GPU has no such instruction, · not tried.\n");
        let mut names = vec!["variant".to_owned()];
        names.extend(checks.iter().map(|check| check.word().to_owned()));
        out.push_str(&head(&names, Align::Centre));
        for run in runs {
            let of =
                |check: &Check| run.checks.iter().find(|r| r.check == *check).map_or("", |r| mark(r.verdict));
            let mut cells = vec![code(&run.variant)];
            cells.extend(checks.iter().map(|check| of(check).to_owned()));
            out.push_str(&row(&cells));
        }
    }
    out
}

/// The section for a terminal; empty if no device ran any.
pub(super) fn terminal(record: &Record, styles: &Styles) -> String {
    let mut out = String::new();
    for (first, runs) in groups(record) {
        let title = format!("Snippets on {}", device(record, &first.device));
        let _ = writeln!(out, "{}", styles.paint(Tone::Head, &clean(&title)));
        let counts = format!("{}; {}", made(first), run_counts(runs.iter().copied()));
        out.push_str(&wrapped("  ", counts.split_whitespace()));
        let wrong: Vec<_> = runs.iter().filter_map(|run| Some((run, run.first_wrong()?))).collect();
        for (run, wrong) in wrong.iter().take(LISTED) {
            out.push_str(&wrapped("  ", wrong_sentence(run, wrong).split(' ')));
        }
        if wrong.len() > LISTED {
            let _ = writeln!(out, "  and {} more: --format md lists them", wrong.len() - LISTED);
        }
    }
    out
}
