//! The answers of a record other than cells, by what they are about.

use std::collections::BTreeMap;

use super::direction::Direction;
use super::subject::{ClaimKey, RunKey, Subject, TileKey, TrialKey};
use crate::record::{
    CheckResult, Record, Stage, StageResult, Standing, TileRow, TrialRow, VariantRun, Verdict,
};

/// An answer in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactAnswer {
    /// A tile may run.
    MayRun,
    /// A verdict; of a tile that may not run `blocked`.
    Verdict(Verdict),
    /// The standing of a claim.
    Standing(Standing),
}

impl FactAnswer {
    /// The word in files of expectations and in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::MayRun => "may_run",
            Self::Verdict(verdict) => verdict.word(),
            Self::Standing(standing) => standing.word(),
        }
    }
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The answer.
    pub answer: FactAnswer,
    /// The stage that is wrong. Part of the answer.
    pub at: Option<Stage>,
    /// Numbers or a sentence beside it.
    pub detail: String,
    /// Whether a run with it conforms.
    pub conforms: bool,
    /// Whether it proves something.
    pub proven: bool,
}

/// The answers by what they are about.
pub type Facts = BTreeMap<Subject, Fact>;

impl Fact {
    fn of_verdict(verdict: Verdict, at: Option<Stage>, detail: &str) -> Self {
        Self {
            answer: FactAnswer::Verdict(verdict),
            at,
            detail: detail.to_owned(),
            conforms: verdict.conforms(),
            proven: matches!(verdict, Verdict::Pass | Verdict::KnownFail | Verdict::ExpectedAbsent),
        }
    }

    /// `fail at fc1`, `pass`.
    #[must_use]
    pub fn words(&self) -> String {
        let answer = self.answer.word().replace('_', " ");
        self.at.map_or_else(|| answer.clone(), |stage| format!("{answer} at {}", stage.word()))
    }

    /// The change from `self` to `new`; none where they are the same.
    #[must_use]
    pub fn to(&self, new: &Self) -> Option<Direction> {
        let same = self.answer == new.answer && self.at == new.at;
        // What a tile costs is part of its answer; a sentence beside a verdict is not.
        if same && (self.detail == new.detail || self.answer != FactAnswer::MayRun) {
            return None;
        }
        Some(match (self.conforms, new.conforms, self.proven, new.proven) {
            (true, false, ..) | (true, true, true, false) => Direction::Worse,
            (false, true, ..) | (true, true, false, true) => Direction::Better,
            _ => Direction::Other,
        })
    }
}

/// All answers of a record but its cells.
#[must_use]
pub fn facts(record: &Record) -> Facts {
    let mut out = Facts::new();
    for row in &record.tiles.rows {
        out.insert(Subject::Tile(TileKey::of(row)), tile(row));
    }
    for row in &record.pipeline {
        let key = TrialKey::of(row);
        for result in &row.checks {
            out.insert(Subject::Check(key.clone(), result.check), of_check(result));
        }
        out.insert(Subject::Trial(key), trial(row));
    }
    for run in &record.runs {
        let key = RunKey::of(run);
        for result in &run.checks {
            out.insert(Subject::Run(key.clone(), result.check), of_check(result));
        }
    }
    for claim in &record.matrix.claims {
        let fact = Fact {
            answer: FactAnswer::Standing(claim.standing),
            at: None,
            detail: claim.example.as_ref().map(ToString::to_string).unwrap_or_default(),
            conforms: !claim.is_finding(),
            proven: claim.standing != Standing::Untested,
        };
        // Of claims that say the same, one that is contradicted is not lost.
        let subject = Subject::Claim(ClaimKey::of(&record.matrix, claim));
        match out.get(&subject) {
            Some(known) if !known.conforms => {}
            _ => _ = out.insert(subject, fact),
        }
    }
    out
}

/// The checks of a run in words: equal where two devices say the same.
pub(super) fn run_words(run: &VariantRun) -> String {
    run.checks.iter().map(check_words).collect::<Vec<_>>().join(", ")
}

/// A tile's answer in words.
pub(super) fn tile_words(row: &TileRow) -> String {
    let fact = tile(row);
    if fact.detail.is_empty() { fact.words() } else { format!("{}: {}", fact.words(), fact.detail) }
}

/// A trial with its checks in words: equal where two devices say the same.
pub(super) fn trial_words(row: &TrialRow) -> String {
    let fact = trial(row);
    let mut out = fact.words();
    for result in &row.checks {
        out.push_str(&format!(", {}", check_words(result)));
    }
    if fact.conforms || fact.detail.is_empty() { out } else { format!("{out}: {}", fact.detail) }
}

fn check_words(result: &CheckResult) -> String {
    format!("{} {}", result.check.word(), result.verdict.word().replace('_', " "))
}

fn tile(row: &TileRow) -> Fact {
    let number = |name: &str, n: Option<u32>| n.map(|n| format!("{name} {n}"));
    let spills = row.spills.filter(|s| *s != (0, 0)).map(|(s, l)| format!("spills {s}+{l} bytes"));
    let parts = [
        number("stages", row.stages),
        number("shared", row.shared),
        number("registers", row.registers),
        spills,
    ];
    let costs: Vec<String> = parts.into_iter().flatten().collect();
    Fact {
        answer: if row.blocked.is_some() {
            FactAnswer::Verdict(Verdict::Blocked)
        } else {
            FactAnswer::MayRun
        },
        at: None,
        detail: row.blocked.clone().unwrap_or_else(|| costs.join(", ")),
        conforms: true,
        proven: row.blocked.is_none(),
    }
}

fn trial(row: &TrialRow) -> Fact {
    let wrong = row.first_wrong();
    let sentence = |r: &StageResult| {
        let place = r.place.map_or_else(String::new, |p| format!("{p}: "));
        format!("{place}{}", r.note)
    };
    let blocked = || row.results.first().filter(|r| r.verdict != Verdict::Pass).map(sentence);
    // A check that is wrong has a finding of its own.
    let verdict = wrong.map_or_else(
        || if row.wrong_check().is_some() { Verdict::Pass } else { row.verdict() },
        |r| r.verdict,
    );
    let detail = wrong.map(sentence).or_else(blocked).unwrap_or_default();
    Fact::of_verdict(verdict, wrong.map(|r| r.stage), &detail)
}

fn of_check(result: &CheckResult) -> Fact {
    Fact::of_verdict(result.verdict, None, &result.note)
}
