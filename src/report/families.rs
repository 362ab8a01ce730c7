//! The sections of the families in a report: the verdict, each case, failures and blocked trials.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::exercise;
use super::markup::{Align, code, head, plain, row};
use super::phrase::{counted, grouped, percent, wrapped};
use super::runs::device;
use super::style::{Styles, Tone};
use super::trials::{check_counts, check_sentence, name, ratio, sentence};
use super::verdict::{EMULATOR, by_device, by_family, trials as counts};
use crate::record::{
    Check, CodeBy, ExerciseRow, Exposed, FaultCoverageRow, FaultRow, Record, SkippedRow, TrialRow, Verdict,
    listed,
};

/// Wrong trials listed on a terminal.
const LISTED: usize = 12;

/// What a result on a GPU proves.
const OWN: &str =
    "Every trial ran its checks on the GPU. Agreement with the emulator is reported but does not count.";

/// Trials that differ only in their compilation target are emulated once.
const ONCE: &str = "PTX that differs only in its `.target` is emulated once and counts for both. The emulator \
    proves kernels against the documented meaning of PTX, never hardware.";

/// Every trial by case, in the order of the trials.
fn by_case<'a>(trials: &[&'a TrialRow]) -> Vec<(&'a str, Vec<&'a TrialRow>)> {
    let mut out: Vec<(&str, Vec<&TrialRow>)> = Vec::new();
    for trial in trials.iter().copied() {
        match out.iter_mut().find(|(case, _)| *case == trial.case) {
            Some((_, list)) => list.push(trial),
            None => out.push((&trial.case, vec![trial])),
        }
    }
    out
}

fn conforms(trials: &[&TrialRow]) -> &'static str {
    let wrong = trials.iter().any(|t| !t.conforms());
    let ran = trials.iter().any(|t| t.is_judged());
    match (wrong, ran) {
        (true, _) => "does not conform",
        (false, true) => "conforms",
        (false, false) => "nothing was run",
    }
}

/// What the data of the trials would expose, one line each: fault coverage, and faults of single bytes.
fn evidence(coverage: &[&FaultCoverageRow], faults: &[&FaultRow]) -> Vec<String> {
    let mut out = Vec::new();
    if !coverage.is_empty() {
        let whole = coverage.iter().filter(|w| w.is_whole()).count();
        let mut line = format!(
            "fault coverage: the data expose a fault in any single input byte for {whole} of {}",
            counted(coverage.len(), "kernel")
        );
        let rest = coverage.iter().filter(|w| !w.is_whole());
        let (without, less): (Vec<&&FaultCoverageRow>, Vec<_>) = rest.partition(|w| w.cases.is_empty());
        let share = |w: &FaultCoverageRow| w.exposed as f64 / w.total.max(1) as f64;
        let least = less.iter().min_by(|a, b| share(a).total_cmp(&share(b)));
        if let (Some(first), Some(least)) = (less.first(), least) {
            let _ = write!(
                line,
                "; {} {} fewer, {} at least, such as {} {} ({}): faults in them can stay unseen",
                counted(less.len(), "kernel"),
                if less.len() == 1 { "shows" } else { "show" },
                percent(least.exposed, least.total, 2),
                first.configuration,
                first.target,
                first.cases.join(" + ")
            );
        }
        if let Some(first) = without.first() {
            let has = if without.len() == 1 { "has" } else { "have" };
            let _ = write!(
                line,
                "; {} {has} no case whose data show such faults, such as {} {}: faults in them can stay unseen",
                counted(without.len(), "kernel"),
                first.configuration,
                first.target
            );
        }
        out.push(line);
    }
    for f in faults {
        let exposed = |e: &Exposed| format!("{} expose {}", e.by, percent(e.faults, f.faults, 1));
        out.push(format!(
            "of {} random single-byte faults in {}, {}",
            grouped(usize::try_from(f.faults).unwrap_or(usize::MAX)),
            f.dimensions,
            listed(&f.exposed.iter().map(exposed).collect::<Vec<_>>())
        ));
    }
    out
}

/// What the data of the trials would expose, one line each: fault coverage, and faults of single bytes.
#[must_use]
pub fn evidence_text(
    exercised: &[ExerciseRow],
    coverage: &[FaultCoverageRow],
    faults: &[FaultRow],
) -> String {
    let exercised: Vec<&ExerciseRow> = exercised.iter().collect();
    let coverage: Vec<&FaultCoverageRow> = coverage.iter().collect();
    let faults: Vec<&FaultRow> = faults.iter().collect();
    let lines = exercise::lines(&exercised, "configuration").into_iter().chain(evidence(&coverage, &faults));
    lines.map(|line| line + "\n").collect()
}

/// The reasons of blocked trials, each with the number of trials that it blocks.
fn blocked<'a>(trials: &[&'a TrialRow]) -> Vec<(&'a str, usize)> {
    let mut out: BTreeMap<&str, usize> = BTreeMap::new();
    for trial in trials.iter().filter(|t| t.verdict() == Verdict::Blocked) {
        *out.entry(trial.results.first().map_or("", |r| r.note.as_str())).or_default() += 1;
    }
    let mut out: Vec<_> = out.into_iter().collect();
    out.sort_by_key(|(sentence, n)| (std::cmp::Reverse(*n), *sentence));
    out
}

/// Failures that are reported as known, stage by stage.
fn known(trials: &[&TrialRow]) -> Vec<String> {
    let of = |t: &&TrialRow| {
        let results = t.results.iter().filter(|r| r.verdict == Verdict::KnownFail);
        results.map(|r| format!("{}: {}", name(t), sentence(r))).collect::<Vec<_>>()
    };
    trials.iter().flat_map(of).collect()
}

/// The checks of a device's trials by the tool that made the code; empty if there are none.
fn checks(trials: &[&TrialRow]) -> String {
    let mut makers: Vec<&CodeBy> = trials.iter().filter(|t| !t.checks.is_empty()).map(|t| &t.code).collect();
    makers.dedup();
    let mut out = String::new();
    for made in makers {
        let of = || trials.iter().copied().filter(|t| !t.checks.is_empty() && t.code == *made);
        let _ = writeln!(out, "\n### Checks, code by {}\n", plain(&made.text()));
        for line in check_lines(of()) {
            let _ = writeln!(out, "- {line}");
        }
        for trial in of() {
            if let Some(wrong) = trial.wrong_check() {
                let _ = writeln!(out, "- {}: {}", plain(&name(trial)), plain(&check_sentence(wrong)));
            }
        }
    }
    out
}

/// Counts the verdicts of each check, one line each.
fn check_lines<'a>(trials: impl IntoIterator<Item = &'a TrialRow>) -> Vec<String> {
    let words = |counts: Vec<(Verdict, usize)>| -> Vec<String> {
        counts.iter().map(|(v, n)| format!("{n} {}", v.word())).collect()
    };
    let line = |(check, counts): (Check, Vec<_>)| format!("{}: {}", check.word(), words(counts).join(", "));
    check_counts(trials).into_iter().map(line).collect()
}

/// The heading of a family's sections.
pub(super) fn title(record: &Record, name: &str) -> String {
    record.family(name).map_or_else(|| name.to_owned(), |family| family.title.clone())
}

/// The text on a family's trials on a device: its title, what it proves, its evidence; faults belong to the emulator's.
struct Part<'a> {
    title: String,
    /// What the first word of a configuration names.
    leading: String,
    proves: &'static str,
    trials: Vec<&'a TrialRow>,
    exercised: Vec<&'a ExerciseRow>,
    evidence: Vec<String>,
}

fn parts<'a>(record: &'a Record) -> Vec<Part<'a>> {
    let of_family = |(family, trials): (&'a str, Vec<&'a TrialRow>)| {
        let of_device = |(name, trials)| part(record, family, name, trials);
        by_device(trials).into_iter().map(of_device).collect::<Vec<_>>()
    };
    by_family(&record.trials).into_iter().flat_map(of_family).collect()
}

fn part<'a>(record: &'a Record, family: &str, name: &str, trials: Vec<&'a TrialRow>) -> Part<'a> {
    let coverage: Vec<&FaultCoverageRow> =
        record.fault_coverage.iter().filter(|w| w.family == family && w.device == name).collect();
    let exercised: Vec<&ExerciseRow> =
        record.exercised.iter().filter(|e| e.family == family && e.device == name).collect();
    let emulated = name == EMULATOR;
    let (title, row) = (title(record, family), record.family(family));
    let leading = row.map_or_else(|| "configuration".to_owned(), |row| row.leading.clone());
    let mut lines = exercise::lines(&exercised, &leading);
    if emulated {
        lines.extend(row.and_then(|row| exercise::left_out(&record.tiles, row, &exercised)));
    }
    let faults: Vec<&FaultRow> = record.faults.iter().filter(|f| emulated && f.family == family).collect();
    lines.extend(evidence(&coverage, &faults));
    Part {
        title: if emulated { title } else { format!("{title} on {}", device(record, name)) },
        leading,
        proves: if emulated { ONCE } else { OWN },
        trials,
        exercised,
        evidence: lines,
    }
}

/// The sections as Markdown, one per device, and what was skipped; empty if the pipeline was not requested.
#[must_use]
pub(super) fn markdown(record: &Record) -> String {
    let mut sections: Vec<String> = parts(record).iter().map(section).collect();
    let skipped = |s: &SkippedRow| format!("## {}\n\n**skipped.** {}\n", plain(&s.part), plain(&s.reason));
    sections.extend(record.skipped.iter().map(skipped));
    sections.join("\n")
}

fn section(part: &Part<'_>) -> String {
    let trials = part.trials.as_slice();
    let all = counts(trials.iter().copied());
    let mut out =
        format!("## {}\n\n**{}.** {all}. {}\n\n", plain(&part.title), conforms(trials), part.proves);
    for line in &part.evidence {
        let _ = writeln!(out, "- {}", plain(line));
    }
    out.push('\n');
    let leading = format!("{}s", part.leading);
    let columns = ["case", &leading, "pass", "blocked", "wrong", "worst / bound"].map(str::to_owned);
    out.push_str(&head(&columns, Align::Centre));
    for (case, list) in by_case(trials) {
        let count = |wanted: Verdict| list.iter().filter(|t| t.verdict() == wanted).count();
        let mut leading: Vec<&str> = list.iter().map(|t| t.configuration.leading()).collect();
        leading.sort_unstable();
        leading.dedup();
        let leading =
            if let [one] = leading.as_slice() { (*one).to_owned() } else { leading.len().to_string() };
        let worst = list.iter().flat_map(|t| &t.results).map(|r| r.worst_over_bound).fold(0.0, f64::max);
        let wrong = list.iter().filter(|t| !t.conforms()).count();
        out.push_str(&row(&[
            code(case),
            leading,
            count(Verdict::Pass).to_string(),
            count(Verdict::Blocked).to_string(),
            wrong.to_string(),
            ratio(worst),
        ]));
    }
    out.push_str(&exercise::markdown(&part.exercised, &part.leading));
    let wrong: Vec<_> = trials.iter().filter_map(|t| Some((t, t.first_wrong()?))).collect();
    if !wrong.is_empty() {
        out.push_str("\n### First wrong stage\n\n");
        for (trial, result) in wrong {
            let _ = writeln!(out, "- {}: {}", plain(&name(trial)), plain(&sentence(result)));
        }
    }
    let known = known(trials);
    if !known.is_empty() {
        out.push_str("\n### Known failures\n\n");
        known.iter().for_each(|line| _ = writeln!(out, "- {}", plain(line)));
    }
    out.push_str(&checks(trials));
    let blocked = blocked(trials);
    if !blocked.is_empty() {
        out.push_str("\n### Blocked\n\n");
        for (why, n) in blocked {
            let _ = writeln!(out, "- {n}: {}", plain(why));
        }
    }
    out
}

/// The sections for a terminal, as [`markdown`].
#[must_use]
pub(super) fn terminal(record: &Record, styles: &Styles) -> String {
    let mut sections: Vec<String> = parts(record).iter().map(|part| shown(part, styles)).collect();
    sections.extend(record.skipped.iter().map(|s| {
        let why = format!("skipped: {}", s.reason);
        format!("{}\n{}", styles.paint(Tone::Head, &s.part), wrapped("  ", why.split(' ')))
    }));
    sections.join("\n")
}

fn shown(part: &Part<'_>, styles: &Styles) -> String {
    let trials = part.trials.as_slice();
    let mut out = format!("{}\n", styles.paint(Tone::Head, &part.title));
    let line = format!("{}; {}", conforms(trials), counts(trials.iter().copied()));
    let _ = writeln!(out, "  {line}");
    for line in &part.evidence {
        out.push_str(&wrapped("  ", line.split(' ')));
    }
    let checks = check_lines(trials.iter().copied());
    if !checks.is_empty() {
        out.push_str(&wrapped("  checks  ", checks.join("; ").split(' ')));
    }
    let mut wrong: Vec<String> = Vec::new();
    for trial in trials {
        let stage = trial.first_wrong().map(sentence);
        let found = stage.or_else(|| trial.wrong_check().map(check_sentence));
        wrong.extend(found.map(|what| format!("  {}\n    {what}\n", name(trial))));
    }
    wrong.iter().take(LISTED).for_each(|lines| out.push_str(lines));
    if wrong.len() > LISTED {
        let _ = writeln!(out, "  and {} more: --format md lists them", wrong.len() - LISTED);
    }
    for line in known(trials) {
        let _ = writeln!(out, "  {line}");
    }
    out
}
