//! The pipeline's section of a report: the verdict, each case, what is wrong and what is blocked.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::markup::{code, head, plain, row};
use super::phrase::counted;
use super::style::{Styles, Tone};
use super::trials::{name, ratio, sentence, trial_counts};
use crate::record::{TrialRow, Verdict};

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
    let wrong = trials.iter().any(|t| t.first_wrong().is_some());
    let ran = trials.iter().any(TrialRow::is_judged);
    match (wrong, ran) {
        (true, _) => "does not conform",
        (false, true) => "conforms",
        (false, false) => "nothing was run",
    }
}

fn counts(trials: &[TrialRow]) -> String {
    let each = trial_counts(trials);
    let words: Vec<String> =
        each.iter().map(|(v, n)| format!("{n} {}", v.word().replace('_', " "))).collect();
    format!("{}: {}", counted(trials.len(), "trial"), words.join(", "))
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

/// The section as Markdown; empty without trials.
#[must_use]
pub(super) fn markdown(trials: &[TrialRow]) -> String {
    if trials.is_empty() {
        return String::new();
    }
    let mut out =
        format!("## MXFP4 fused-MoE pipeline\n\n**{}.** {}. {ONCE}\n\n", conforms(trials), counts(trials));
    let columns = ["case", "tiles", "pass", "blocked", "wrong", "worst / bound"].map(str::to_owned);
    out.push_str(&head(&columns));
    for (case, list) in by_case(trials) {
        let count = |wanted: Verdict| list.iter().filter(|t| t.verdict() == wanted).count();
        let mut tiles: Vec<&str> = list.iter().map(|t| t.tile.as_str()).collect();
        tiles.sort_unstable();
        tiles.dedup();
        let tiles = if let [one] = tiles.as_slice() { (*one).to_owned() } else { tiles.len().to_string() };
        let worst = list.iter().flat_map(|t| &t.results).map(|r| r.worst_over_bound).fold(0.0, f64::max);
        let wrong = list.iter().filter(|t| t.first_wrong().is_some()).count();
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
    let blocked = blocked(trials);
    if !blocked.is_empty() {
        out.push_str("\n### Blocked\n\n");
        for (why, n) in blocked {
            let _ = writeln!(out, "- {n}: {}", plain(why));
        }
    }
    out
}

/// The section for a terminal; empty without trials.
#[must_use]
pub(super) fn terminal(trials: &[TrialRow], styles: &Styles) -> String {
    if trials.is_empty() {
        return String::new();
    }
    let mut out = format!("{}\n", styles.paint(Tone::Head, "MXFP4 fused-MoE pipeline"));
    let _ = writeln!(out, "  {}; {}", conforms(trials), counts(trials));
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
    out
}
