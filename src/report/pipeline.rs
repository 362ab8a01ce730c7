//! The pipeline's section of a report: the verdict, each case, what is wrong and what is blocked.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::markup::{code, head, plain, row};
use super::phrase::{counted, grouped, wrapped};
use super::style::{Styles, Tone};
use super::trials::{name, ratio, rung_counts, rung_sentence, sentence};
use super::verdict::trials as counts;
use crate::record::{FaultRow, PIPELINE, Record, TrialRow, Verdict, WitnessRow};

/// Wrong trials listed on a terminal.
const LISTED: usize = 12;

/// Trials that differ only in what they were compiled for are emulated once.
const ONCE: &str = "PTX that differs only in its `.target` is emulated once and credited to both. The emulator proves kernels \
    against the documented meaning of PTX, never hardware.";

/// Every trial by case, in the order of the trials.
fn by_case(trials: &[TrialRow]) -> Vec<(&str, Vec<&TrialRow>)> {
    let mut out: Vec<(&str, Vec<&TrialRow>)> = Vec::new();
    for trial in trials {
        match out.iter_mut().find(|(case, _)| *case == trial.case) {
            Some((_, list)) => list.push(trial),
            None => out.push((&trial.case, vec![trial])),
        }
    }
    out
}

fn conforms(trials: &[TrialRow]) -> &'static str {
    let wrong = trials.iter().any(|t| !t.conforms());
    let ran = trials.iter().any(TrialRow::is_judged);
    match (wrong, ran) {
        (true, _) => "does not conform",
        (false, true) => "conforms",
        (false, false) => "nothing was run",
    }
}

/// What the data of the trials would have shown, a line each: coverage by witnesses, and faults of single bytes.
fn evidence(witness: &[WitnessRow], faults: &[FaultRow]) -> Vec<String> {
    let mut out = Vec::new();
    if !witness.is_empty() {
        let whole = witness.iter().filter(|w| w.is_whole()).count();
        let percent = |w: &WitnessRow| 100.0 * w.witnessed as f64 / w.total.max(1) as f64;
        let least = witness.iter().map(percent).fold(f64::INFINITY, f64::min);
        let mut line = format!(
            "witness coverage: of {} every byte of the inputs has a witness in exact and impulse data, for {whole}",
            counted(witness.len(), "kernel")
        );
        let rest: Vec<&WitnessRow> = witness.iter().filter(|w| !w.is_whole()).collect();
        if let Some(first) = rest.first() {
            let swap = if first.swap_ab { " swap_ab" } else { "" };
            let cases =
                if first.cases.is_empty() { "no such case".to_owned() } else { first.cases.join(" + ") };
            let _ = write!(
                line,
                "; not for {}, {least:.2} % at least, the first {}{swap} {} {} {} ({cases}): a fault there may go unseen",
                rest.len(),
                first.tile,
                first.kernel_path,
                first.load,
                first.target
            );
        }
        out.push(line);
    }
    for f in faults {
        let percent = |n: u64| 100.0 * n as f64 / f.faults.max(1) as f64;
        out.push(format!(
            "of {} random faults of one byte in {}, exact and impulse data show {:.1} %, real values {:.1} %, and {:.1} % \
             with one row per expert",
            grouped(usize::try_from(f.faults).unwrap_or(usize::MAX)),
            f.dimensions,
            percent(f.exact_and_impulse),
            percent(f.real),
            percent(f.real_decode)
        ));
    }
    out
}

/// What the data of trials would have shown, a line each: coverage by witnesses, and faults of single bytes.
#[must_use]
pub fn evidence_text(witness: &[WitnessRow], faults: &[FaultRow]) -> String {
    evidence(witness, faults).into_iter().map(|line| line + "\n").collect()
}

/// The sentences of blocked trials, each with how many it blocks.
fn blocked(trials: &[TrialRow]) -> Vec<(&str, usize)> {
    let mut out: BTreeMap<&str, usize> = BTreeMap::new();
    for trial in trials.iter().filter(|t| t.verdict() == Verdict::Blocked) {
        *out.entry(trial.results.first().map_or("", |r| r.note.as_str())).or_default() += 1;
    }
    let mut out: Vec<_> = out.into_iter().collect();
    out.sort_by_key(|(sentence, n)| (std::cmp::Reverse(*n), *sentence));
    out
}

/// What failed as it is reported to, stage by stage.
fn known(trials: &[TrialRow]) -> Vec<String> {
    let of = |t: &TrialRow| {
        let results = t.results.iter().filter(|r| r.verdict == Verdict::KnownFail);
        results.map(|r| format!("{}: {}", name(t), sentence(r))).collect::<Vec<_>>()
    };
    trials.iter().flat_map(of).collect()
}

/// The rungs of trials on devices other than the emulator, by device and who made the code; empty without any.
fn rungs(trials: &[TrialRow]) -> String {
    let mut devices: Vec<(&str, &str)> = Vec::new();
    for trial in trials.iter().filter(|t| !t.rungs.is_empty()) {
        let device = (trial.device.as_str(), trial.code.as_str());
        if !devices.contains(&device) {
            devices.push(device);
        }
    }
    let mut out = String::new();
    for (device, made) in devices {
        let of: Vec<TrialRow> = trials
            .iter()
            .filter(|t| (t.device.as_str(), t.code.as_str()) == (device, made))
            .cloned()
            .collect();
        let _ = writeln!(out, "\n### Rungs on {}, code by {}\n", code(device), plain(made));
        for (rung, counts) in rung_counts(&of) {
            let words: Vec<String> = counts.iter().map(|(v, n)| format!("{n} {}", v.word())).collect();
            let _ = writeln!(out, "- {}: {}", rung.word(), words.join(", "));
        }
        for trial in &of {
            if let Some(wrong) = trial.wrong_rung() {
                let _ = writeln!(out, "- {}: {}", plain(&name(trial)), plain(&rung_sentence(wrong)));
            }
        }
    }
    out
}

/// The section as Markdown: what was skipped, where nothing was run; empty where nobody asked.
#[must_use]
pub(super) fn markdown(record: &Record) -> String {
    let trials = record.pipeline.as_slice();
    let skipped: Vec<String> = record
        .skipped
        .iter()
        .map(|s| format!("## {}\n\n**skipped.** {}\n", plain(&s.part), plain(&s.reason)))
        .collect();
    let skipped = skipped.join("\n");
    if trials.is_empty() {
        return skipped;
    }
    let mut out = format!("## {PIPELINE}\n\n**{}.** {}. {ONCE}\n\n", conforms(trials), counts(trials));
    for line in evidence(&record.witness, &record.faults) {
        let _ = writeln!(out, "- {}", plain(&line));
    }
    out.push('\n');
    let columns = ["case", "tiles", "pass", "blocked", "wrong", "worst / bound"].map(str::to_owned);
    out.push_str(&head(&columns));
    for (case, list) in by_case(trials) {
        let count = |wanted: Verdict| list.iter().filter(|t| t.verdict() == wanted).count();
        let mut tiles: Vec<&str> = list.iter().map(|t| t.tile.as_str()).collect();
        tiles.sort_unstable();
        tiles.dedup();
        let tiles = if let [one] = tiles.as_slice() { (*one).to_owned() } else { tiles.len().to_string() };
        let worst = list.iter().flat_map(|t| &t.results).map(|r| r.worst_over_bound).fold(0.0, f64::max);
        let wrong = list.iter().filter(|t| !t.conforms()).count();
        out.push_str(&row(&[
            code(case),
            tiles,
            count(Verdict::Pass).to_string(),
            count(Verdict::Blocked).to_string(),
            wrong.to_string(),
            ratio(worst),
        ]));
    }
    let wrong: Vec<_> = trials.iter().filter_map(|t| Some((t, t.first_wrong()?))).collect();
    if !wrong.is_empty() {
        out.push_str("\n### First stage that is wrong\n\n");
        for (trial, result) in wrong {
            let _ = writeln!(out, "- {}: {}", plain(&name(trial)), plain(&sentence(result)));
        }
    }
    let known = known(trials);
    if !known.is_empty() {
        out.push_str("\n### Wrong as reported\n\n");
        known.iter().for_each(|line| _ = writeln!(out, "- {}", plain(line)));
    }
    out.push_str(&rungs(trials));
    let blocked = blocked(trials);
    if !blocked.is_empty() {
        out.push_str("\n### Blocked\n\n");
        for (why, n) in blocked {
            let _ = writeln!(out, "- {n}: {}", plain(why));
        }
    }
    if !skipped.is_empty() {
        let _ = write!(out, "\n{skipped}");
    }
    out
}

/// The section for a terminal; empty where nobody asked.
#[must_use]
pub(super) fn terminal(record: &Record, styles: &Styles) -> String {
    let trials = record.pipeline.as_slice();
    let skipped = record.skipped.iter().map(|s| {
        let why = format!("skipped: {}", s.reason);
        format!("{}\n{}", styles.paint(Tone::Head, &s.part), wrapped("  ", why.split(' ')))
    });
    let skipped = skipped.collect::<Vec<_>>().join("\n");
    if trials.is_empty() {
        return skipped;
    }
    let mut out = format!("{}\n", styles.paint(Tone::Head, PIPELINE));
    let _ = writeln!(out, "  {}; {}", conforms(trials), counts(trials));
    for line in evidence(&record.witness, &record.faults) {
        out.push_str(&wrapped("  ", line.split(' ')));
    }
    let wrong: Vec<_> = trials.iter().filter_map(|t| Some((t, t.first_wrong()?))).collect();
    for (trial, result) in wrong.iter().take(LISTED) {
        let _ = writeln!(out, "  {}\n    {}", name(trial), sentence(result));
    }
    if wrong.len() > LISTED {
        let _ = writeln!(out, "  and {} more: --report md lists them", wrong.len() - LISTED);
    }
    for line in known(trials) {
        let _ = writeln!(out, "  {line}");
    }
    if !skipped.is_empty() {
        let _ = write!(out, "\n{skipped}");
    }
    out
}
