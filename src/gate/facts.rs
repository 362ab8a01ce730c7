//! The answers of a record other than cells: tiles, trials, rungs and claims, each by what it is about.

use std::collections::BTreeMap;

use super::direction::Direction;
use crate::record::{Record, RungResult, StageResult, TileRow, TrialRow, VariantRun, Verdict};

/// What kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Whether a tile may run, and what it costs.
    Tile,
    /// A trial of the pipeline.
    Trial,
    /// A rung of evidence of a trial on a device.
    Rung,
    /// A rung of evidence of a variant on a device.
    Run,
    /// How a claim stands.
    Claim,
}

impl Kind {
    /// Its name, as reports head it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tile => "tile",
            Self::Trial => "trial",
            Self::Rung => "rung",
            Self::Run => "run",
            Self::Claim => "claim",
        }
    }
}

/// What an answer is about; what does not apply is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The case.
    pub case: String,
    /// The tile, `MxNxK`.
    pub tile: String,
    /// The rest of how it was compiled: `swap_ab native cp_async`; or the rung; or the source of a claim.
    pub way: String,
    /// The variant; the snippet of a claim.
    pub variant: String,
    /// What it was compiled for.
    pub target: String,
    /// The toolkit: 13.5.37.
    pub toolkit: String,
    /// What ran it.
    pub device: String,
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let on = if self.device.is_empty() { String::new() } else { format!("on {}", self.device) };
        let parts = [&self.case, &self.variant, &self.tile, &self.way, &self.target, &self.toolkit, &on];
        let parts: Vec<&str> = parts.into_iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
        f.write_str(&parts.join(" "))
    }
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The answer in one word of a closed set: a verdict's, `may_run` or `blocked`, a standing's.
    pub answer: &'static str,
    /// Where it goes wrong, such as a stage; empty where nowhere. Part of the answer.
    pub at: String,
    /// Numbers or a sentence beside it.
    pub detail: String,
    /// Whether a run with it conforms.
    pub conforms: bool,
    /// Whether it proves something.
    pub proven: bool,
}

/// The answers by what they are about.
pub type Facts = BTreeMap<(Kind, Scope), Fact>;

impl Fact {
    fn of_verdict(verdict: Verdict, at: &str, detail: &str) -> Self {
        Self {
            answer: verdict.word(),
            at: at.to_owned(),
            detail: detail.to_owned(),
            conforms: verdict.conforms(),
            proven: matches!(verdict, Verdict::Pass | Verdict::KnownFail | Verdict::ExpectedAbsent),
        }
    }

    /// `fail at fc1`, `pass`.
    #[must_use]
    pub fn words(&self) -> String {
        let answer = self.answer.replace('_', " ");
        if self.at.is_empty() { answer } else { format!("{answer} at {}", self.at) }
    }

    /// How `new` stands to `self`; none where they are the same.
    #[must_use]
    pub fn to(&self, new: &Self) -> Option<Direction> {
        let same = self.answer == new.answer && self.at == new.at;
        // What a tile costs is part of its answer; a sentence beside a verdict is not.
        if same && (self.detail == new.detail || !matches!(self.answer, "may_run")) {
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
        out.insert((Kind::Tile, of_tile(row)), tile(row));
    }
    for row in &record.pipeline {
        let scope = of_trial(row);
        for rung in &row.rungs {
            out.insert(
                (Kind::Rung, Scope { way: format!("{} {}", scope.way, rung.rung.word()), ..scope.clone() }),
                of_rung(rung),
            );
        }
        out.insert((Kind::Trial, scope), trial(row));
    }
    for run in &record.runs {
        let (scope, _) = run_row(run);
        for rung in &run.rungs {
            let scope = Scope { way: rung.rung.word().to_owned(), ..scope.clone() };
            out.insert((Kind::Run, scope), of_rung(rung));
        }
    }
    for claim in &record.matrix.claims {
        let file = record.matrix.snippets.get(claim.snippet).map_or("", |s| s.file.as_str());
        let name = file.rsplit('/').next().unwrap_or(file);
        let targets: Vec<String> = claim.targets.iter().map(ToString::to_string).collect();
        let scope = Scope {
            variant: name.trim_end_matches(".ptx").to_owned(),
            way: format!("{} ({})", claim.source, claim.expect.words()),
            target: targets.join(" "),
            toolkit: claim.toolkits.clone(),
            device: String::new(),
            case: String::new(),
            // Two claims of one source may differ in the variants alone.
            tile: claim.variants.first().cloned().unwrap_or_default(),
        };
        let fact = Fact {
            answer: claim.standing.word(),
            at: String::new(),
            detail: claim.example.clone(),
            conforms: !claim.is_finding(),
            proven: claim.standing != crate::record::Standing::Untested,
        };
        let mut key = (Kind::Claim, scope);
        while out.contains_key(&key) {
            key.1.way.push('\'');
        }
        out.insert(key, fact);
    }
    out
}

/// What a trial is about.
#[must_use]
pub fn of_trial(row: &TrialRow) -> Scope {
    Scope {
        case: row.case.clone(),
        tile: row.tile.clone(),
        way: way(row.swap_ab, &row.kernel_path, &row.load),
        variant: String::new(),
        target: row.target.clone(),
        toolkit: row.code.trim_start_matches("ptxas ").to_owned(),
        device: row.device.clone(),
    }
}

/// What a run of a variant is about, and its rungs in words.
pub(super) fn run_row(run: &VariantRun) -> (Scope, String) {
    let scope = Scope {
        variant: run.variant.clone(),
        target: run.target.clone(),
        toolkit: run.code.trim_start_matches("ptxas ").to_owned(),
        device: run.device.clone(),
        ..Scope::default()
    };
    let of = |r: &RungResult| format!("{} {}", r.rung.word(), r.verdict.word().replace('_', " "));
    (scope, run.rungs.iter().map(of).collect::<Vec<_>>().join(", "))
}

/// What a tile row is about, and its answer.
pub(super) fn tile_row(row: &TileRow) -> (Scope, Fact) {
    (of_tile(row), tile(row))
}

/// A trial with its rungs in words: equal where two devices say the same.
pub(super) fn trial_words(row: &TrialRow) -> String {
    let fact = trial(row);
    let mut out = fact.words();
    for rung in &row.rungs {
        out.push_str(&format!(", {} {}", rung.rung.word(), rung.verdict.word().replace('_', " ")));
    }
    if fact.conforms || fact.detail.is_empty() { out } else { format!("{out}: {}", fact.detail) }
}

fn of_tile(row: &TileRow) -> Scope {
    Scope {
        tile: row.tile.clone(),
        way: way(row.swap_ab, &row.kernel_path, &row.load),
        target: row.target.clone(),
        toolkit: row.toolkit.clone(),
        ..Scope::default()
    }
}

fn way(swap_ab: bool, path: &str, load: &str) -> String {
    format!("{}{path} {load}", if swap_ab { "swap_ab " } else { "" })
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
        answer: if row.blocked.is_some() { "blocked" } else { "may_run" },
        at: String::new(),
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
    let stage = wrong.map_or("", |r| r.stage.word());
    // A rung that is wrong stands for itself.
    let verdict = wrong.map_or_else(
        || if row.wrong_rung().is_some() { Verdict::Pass } else { row.verdict() },
        |r| r.verdict,
    );
    let detail = wrong.map(sentence).or_else(blocked).unwrap_or_default();
    Fact::of_verdict(verdict, stage, &detail)
}

fn of_rung(rung: &RungResult) -> Fact {
    Fact::of_verdict(rung.verdict, "", &rung.note)
}
