//! The answers of a record other than cells, by subject.

use std::collections::BTreeMap;

use super::direction::Direction;
use super::subject::{ClaimKey, RunKey, Subject, TileKey, TrialKey};
use crate::record::{
    CheckResult, Record, StageName, StageResult, Standing, TileRow, TrialRow, VariantRun, Verdict,
};

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactAnswer {
    /// A tile may run.
    MayRun,
    /// A verdict; `blocked` for a tile that may not run.
    Verdict(Verdict),
    /// The status of a claim.
    Standing(Standing),
}

impl FactAnswer {
    /// Returns the word used in expectation files and JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::MayRun => "may_run",
            Self::Verdict(verdict) => verdict.word(),
            Self::Standing(standing) => standing.word(),
        }
    }
}

/// An answer with its details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The answer.
    pub answer: FactAnswer,
    /// The stage that is wrong; part of the answer.
    pub at: Option<StageName>,
    /// Additional numbers or a sentence.
    pub detail: String,
    /// Whether a run with this answer conforms.
    pub conforms: bool,
    /// Whether the answer is evidence: for example a pass, but not a skipped trial.
    pub proven: bool,
}

/// Answers by subject.
pub type Facts = BTreeMap<Subject, Fact>;

impl Fact {
    fn of_verdict(verdict: Verdict, at: Option<StageName>, detail: &str) -> Self {
        Self {
            answer: FactAnswer::Verdict(verdict),
            at,
            detail: detail.to_owned(),
            conforms: verdict.conforms(),
            proven: matches!(verdict, Verdict::Pass | Verdict::KnownFail | Verdict::ExpectedAbsent),
        }
    }

    /// Describes the answer: `fail at fc1`, `pass`.
    #[must_use]
    pub fn words(&self) -> String {
        let answer = self.answer.word().replace('_', " ");
        self.at.as_ref().map_or_else(|| answer.clone(), |stage| format!("{answer} at {stage}"))
    }

    /// Returns the direction of the change from `self` to `new`; `None` if they are equal.
    #[must_use]
    pub fn to(&self, new: &Self) -> Option<Direction> {
        let same = self.answer == new.answer && self.at == new.at;
        // The cost of a tile is part of its answer; the sentence of a verdict is not.
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

/// Returns all answers of a record except its cells.
#[must_use]
pub fn facts(record: &Record) -> Facts {
    let mut out = Facts::new();
    for row in &record.tiles.rows {
        out.insert(Subject::Tile(TileKey::from_row(row)), tile(row));
    }
    for row in &record.trials {
        let key = TrialKey::from_row(row);
        for result in &row.checks {
            out.insert(Subject::Check(key.clone(), result.check), of_check(result));
        }
        out.insert(Subject::Trial(key), trial(row));
    }
    for run in &record.runs {
        let key = RunKey::from_run(run);
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
        // Of identical claims, one that does not conform takes precedence.
        let subject = Subject::Claim(ClaimKey::from_claim(&record.matrix, claim));
        match out.get(&subject) {
            Some(known) if !known.conforms => {}
            _ => _ = out.insert(subject, fact),
        }
    }
    out
}

/// Describes the checks of a run; equal if two devices agree.
pub(super) fn run_words(run: &VariantRun) -> String {
    run.checks.iter().map(check_words).collect::<Vec<_>>().join(", ")
}

/// Describes the answer of a tile.
pub(super) fn tile_words(row: &TileRow) -> String {
    let fact = tile(row);
    if fact.detail.is_empty() { fact.words() } else { format!("{}: {}", fact.words(), fact.detail) }
}

/// Describes a trial and its checks; equal if two devices agree.
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
        number("stages", row.depth),
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
        let place = r.place.as_ref().map_or_else(String::new, |p| format!("{p}: "));
        format!("{place}{}", r.note)
    };
    let blocked = || row.results.first().filter(|r| r.verdict != Verdict::Pass).map(sentence);
    // A failed check is reported as a separate answer.
    let verdict = wrong.map_or_else(
        || if row.wrong_check().is_some() { Verdict::Pass } else { row.verdict() },
        |r| r.verdict,
    );
    let detail = wrong.map(sentence).or_else(blocked).unwrap_or_default();
    Fact::of_verdict(verdict, wrong.map(|r| r.stage.clone()), &detail)
}

fn of_check(result: &CheckResult) -> Fact {
    Fact::of_verdict(result.verdict, None, &result.note)
}
