//! Compares two records: cells, then all other answers, and the lanes that only one of them has.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::{self, CellChange, Cells, Regression};
use super::direction::Direction;
use super::facts::{Fact, FactAnswer, Facts, facts};
use super::subject::{Kind, Lane, Subject};
use crate::record::{CodeBy, Completeness, Incomplete, Record, Standing};

/// A changed answer that is not a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactChange {
    /// The subject of the answer.
    pub subject: Subject,
    /// The earlier code generator that gave the old answer, if the new one is missing from the old record.
    pub before: Option<CodeBy>,
    /// The old answer; `None` if it was not queried.
    pub old: Option<Fact>,
    /// The new answer; `None` if it was not queried.
    pub new: Option<Fact>,
    /// How the new answer compares with the old one.
    pub direction: Direction,
}

impl FactChange {
    /// Describes the change: `pass → fail at fc1: expert=2 row=7 col=11: …`.
    #[must_use]
    pub fn words(&self) -> String {
        let of = |fact: &Option<Fact>| fact.as_ref().map_or_else(|| "no answer".to_owned(), Fact::words);
        let detail = self.new.as_ref().map_or("", |f| f.detail.as_str());
        let cost =
            matches!((&self.old, &self.new), (Some(a), Some(b)) if a.answer == b.answer && a.at == b.at);
        if cost {
            let before = self.old.as_ref().map_or("", |f| f.detail.as_str());
            return format!("{}: {before} → {detail}", of(&self.new));
        }
        let colon = if detail.is_empty() { "" } else { ": " };
        format!("{} → {}{colon}{detail}", of(&self.old), of(&self.new))
    }
}

/// The lanes that a record covers.
pub type Lanes = BTreeSet<Lane>;

fn lanes_of(record: &Record) -> Lanes {
    let mut lanes = Lanes::new();
    for pair in &record.matrix.pairs {
        lanes.extend([Lane::Toolkit(pair.toolkit), Lane::Target(pair.target)]);
    }
    for trial in &record.trials {
        let family = Lane::Family(trial.family.clone());
        lanes.extend([family, Lane::Device(trial.device.clone()), Lane::Kernels(trial.target.clone())]);
    }
    for run in &record.runs {
        lanes.extend([Lane::Device(run.device.clone()), Lane::Kernels(run.target.clone())]);
    }
    if !record.tiles.rows.is_empty() {
        lanes.insert(Lane::Tiles);
    }
    lanes
}

/// The differences between two records.
#[derive(Debug)]
pub struct Diff<'a> {
    /// Changed cells.
    pub cells: Vec<CellChange<'a>>,
    /// New regressions: variants that a later toolkit rejects although an earlier one accepted them.
    pub regressions: Vec<Regression<'a>>,
    /// All other changed answers.
    pub facts: Vec<FactChange>,
    /// The lanes that only the old record covers.
    pub not_asked_again: Lanes,
    /// The lanes that only the new record covers.
    pub asked_anew: Lanes,
    /// The number of cells of the new record that have an answer to be compared with.
    pub compared_cells: usize,
    /// The number of other answers that both records contain, without claims, which follow from the cells.
    pub compared_facts: usize,
    /// The snippet of each variant, for grouping.
    pub snippets: BTreeMap<&'a str, &'a str>,
}

impl Diff<'_> {
    /// Whether there are no differences.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.facts.is_empty() && self.regressions.is_empty()
    }

    /// Returns why the comparison says nothing; `None` if the records have an answer in common.
    #[must_use]
    pub fn incomplete(&self) -> Option<Incomplete> {
        let compared = Completeness::of_checks(self.compared_cells + self.compared_facts);
        compared.incomplete("the records have no answer in common")
    }

    /// Counts the answers that are worse or gone.
    #[must_use]
    pub fn worse(&self) -> usize {
        self.count(Direction::is_bad)
    }

    /// Counts the answers whose direction `wanted` accepts.
    pub fn count(&self, wanted: impl Fn(Direction) -> bool) -> usize {
        self.cells.iter().filter(|c| wanted(c.direction)).count()
            + self.facts.iter().filter(|f| wanted(f.direction)).count()
    }
}

/// Compares two records.
#[must_use]
pub fn diff<'a>(old: &'a Record, new: &'a Record) -> Diff<'a> {
    let (then, now) = (Cells::new(&old.matrix), Cells::new(&new.matrix));
    let (lanes_then, lanes_now) = (lanes_of(old), lanes_of(new));
    let only = |a: &Lanes, b: &Lanes| a.difference(b).cloned().collect();
    let mut snippets = BTreeMap::new();
    for record in [old, new] {
        for variant in &record.matrix.variants {
            let stem = record.matrix.snippets.get(variant.snippet).map_or("", |s| s.stem());
            snippets.insert(variant.id.as_str(), stem);
        }
    }
    let (facts_then, facts_now) = (facts(old), facts(new));
    let in_both = |subject: &&Subject| subject.kind() != Kind::Claim && facts_then.contains_key(subject);
    let compared_facts = facts_now.keys().filter(in_both).count();
    Diff {
        cells: cells::changes(&then, &now),
        regressions: cells::regressions(&then, &now),
        facts: fact_changes(&facts_then, &facts_now, &lanes_now),
        not_asked_again: only(&lanes_then, &lanes_now),
        asked_anew: only(&lanes_now, &lanes_then),
        compared_cells: cells::compared(&then, &now),
        compared_facts,
        snippets,
    }
}

/// Returns the code generators of each kind of answer.
fn makers(facts: &Facts) -> BTreeMap<Kind, BTreeSet<&CodeBy>> {
    let mut out: BTreeMap<Kind, BTreeSet<&CodeBy>> = BTreeMap::new();
    for subject in facts.keys() {
        out.entry(subject.kind()).or_default().extend(subject.code());
    }
    out
}

fn fact_changes(old: &Facts, new: &Facts, lanes: &Lanes) -> Vec<FactChange> {
    let (known, asked) = (makers(old), makers(new));
    let mut out = Vec::new();
    let mut change = |subject: &Subject, before: Option<CodeBy>, a: Option<&Fact>, b: Option<&Fact>| {
        let direction = match (a, b) {
            (Some(a), Some(b)) => match a.to(b) {
                Some(direction) => direction,
                None => return,
            },
            (Some(_), None) => Direction::Gone,
            (None, _) => Direction::New,
        };
        let (old, new) = (a.cloned(), b.cloned());
        out.push(FactChange { subject: subject.clone(), before, old, new, direction });
    };
    // A claim is judged on the lanes queried. On other lanes it may be untested, which is not a change of its status.
    let untested =
        |fact: Option<&Fact>| fact.is_none_or(|f| f.answer == FactAnswer::Standing(Standing::Untested));
    let open = |subject: &Subject, a: Option<&Fact>, b: Option<&Fact>| {
        subject.kind() == Kind::Claim && (untested(a) || untested(b)) && b.is_none_or(|b| b.conforms)
    };
    let mut followed = BTreeSet::new();
    for (subject, now) in new {
        let of_kind = known.get(&subject.kind());
        let is_new = subject.code().is_some_and(|code| of_kind.is_some_and(|set| !set.contains(code)));
        // A new toolkit is compared with the newest one in the old record.
        let newest = || of_kind?.iter().max_by_key(|code| code.version()).map(|code| (*code).clone());
        let before = is_new.then(newest).flatten();
        let key = before.clone().map_or_else(|| subject.clone(), |code| subject.with_code(code));
        let then = old.get(&key);
        if then.is_some() {
            followed.insert(key);
        }
        if open(subject, then, Some(now)) {
            continue;
        }
        change(subject, before, then, Some(now));
    }
    for (subject, then) in old {
        let toolkit_asked = |code| asked.get(&subject.kind()).is_some_and(|set| set.contains(code));
        let asked_again =
            subject.code().is_some_and(toolkit_asked) && subject.lanes().iter().all(|l| lanes.contains(l));
        if asked_again && !new.contains_key(subject) && !followed.contains(subject) {
            change(subject, None, Some(then), None);
        }
    }
    out
}
