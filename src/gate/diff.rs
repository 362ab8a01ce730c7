//! Two records compared: cells, then everything else, and the lanes that only one of them has.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::{self, CellChange, Cells, Regression};
use super::direction::Direction;
use super::facts::{Fact, Facts, Kind, Scope, facts};
use crate::record::{Record, Standing};

/// An answer that is no cell and is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactChange {
    /// What kind of answer.
    pub kind: Kind,
    /// What it is about.
    pub scope: Scope,
    /// The toolkit before, where that gave the old answer.
    pub before: Option<String>,
    /// The old answer; none where it was not queried.
    pub old: Option<Fact>,
    /// The new answer; none where it was not queried.
    pub new: Option<Fact>,
    /// How they stand to each other.
    pub direction: Direction,
}

impl FactChange {
    /// `pass → fail at fc1: expert=2 row=7 col=11: …`.
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

/// What one record was asked and the other was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lanes {
    /// Words such as `toolkit 12.9.86`, `target sm_120f`, `device NVIDIA GB10`.
    pub names: BTreeSet<String>,
}

impl Lanes {
    fn of(record: &Record) -> Self {
        let mut names = BTreeSet::new();
        for pair in &record.matrix.pairs {
            names.insert(format!("toolkit {}", pair.toolkit));
            names.insert(format!("target {}", pair.target));
        }
        names.extend(record.pipeline.iter().map(|t| format!("device {}", t.device)));
        names.extend(record.runs.iter().map(|r| format!("device {}", r.device)));
        names.extend(record.runs.iter().map(|r| format!("kernels for {}", r.target)));
        names.extend(record.pipeline.iter().map(|t| format!("kernels for {}", t.target)));
        if !record.tiles.rows.is_empty() {
            names.insert("the table of tiles".to_owned());
        }
        Self { names }
    }
}

/// What is different between two records.
#[derive(Debug)]
pub struct Diff<'a> {
    /// Cells.
    pub cells: Vec<CellChange<'a>>,
    /// Variants that a later toolkit refuses although an earlier one accepted them, new in the new record.
    pub regressions: Vec<Regression<'a>>,
    /// Everything else.
    pub facts: Vec<FactChange>,
    /// What only the old record was asked.
    pub not_asked_again: Lanes,
    /// What only the new record was asked.
    pub asked_anew: Lanes,
    /// Cells that both records answer, or that a new toolkit answers after an older one.
    pub compared: usize,
    /// The snippet of each variant, for grouping.
    pub snippets: BTreeMap<&'a str, &'a str>,
}

impl Diff<'_> {
    /// Whether nothing is different.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.facts.is_empty() && self.regressions.is_empty()
    }

    /// How many answers are worse or gone.
    #[must_use]
    pub fn worse(&self) -> usize {
        self.count(Direction::is_bad)
    }

    /// How many answers are of directions that `wanted` accepts.
    pub fn count(&self, wanted: impl Fn(Direction) -> bool) -> usize {
        self.cells.iter().filter(|c| wanted(c.direction)).count()
            + self.facts.iter().filter(|f| wanted(f.direction)).count()
    }
}

/// Compares two records.
#[must_use]
pub fn diff<'a>(old: &'a Record, new: &'a Record) -> Diff<'a> {
    let (then, now) = (Cells::new(&old.matrix), Cells::new(&new.matrix));
    let (lanes_then, lanes_now) = (Lanes::of(old), Lanes::of(new));
    let only = |a: &Lanes, b: &Lanes| Lanes { names: a.names.difference(&b.names).cloned().collect() };
    let mut snippets = BTreeMap::new();
    for record in [old, new] {
        for variant in &record.matrix.variants {
            let file = record.matrix.snippets.get(variant.snippet).map_or("", |s| s.file.as_str());
            let name = file.rsplit('/').next().unwrap_or(file);
            snippets.insert(variant.id.as_str(), name.strip_suffix(".ptx").unwrap_or(name));
        }
    }
    Diff {
        cells: cells::changes(&then, &now),
        regressions: cells::regressions(&then, &now),
        facts: fact_changes(&facts(old), &facts(new), &lanes_now),
        not_asked_again: only(&lanes_then, &lanes_now),
        asked_anew: only(&lanes_now, &lanes_then),
        compared: new.matrix.variants.iter().map(|v| v.outcomes.bytes().filter(|b| *b != b'.').count()).sum(),
        snippets,
    }
}

fn fact_changes(old: &Facts, new: &Facts, lanes: &Lanes) -> Vec<FactChange> {
    let toolkits = |facts: &Facts| -> BTreeMap<Kind, BTreeSet<String>> {
        let mut out: BTreeMap<Kind, BTreeSet<String>> = BTreeMap::new();
        for (kind, scope) in facts.keys() {
            out.entry(*kind).or_default().insert(scope.toolkit.clone());
        }
        out
    };
    let (known, asked) = (toolkits(old), toolkits(new));
    let mut out = Vec::new();
    let mut change =
        |kind: Kind, scope: &Scope, before: Option<String>, a: Option<&Fact>, b: Option<&Fact>| {
            let direction = match (a, b) {
                (Some(a), Some(b)) => match a.to(b) {
                    Some(direction) => direction,
                    None => return,
                },
                (Some(_), None) => Direction::Gone,
                (None, _) => Direction::New,
            };
            out.push(FactChange {
                kind,
                scope: scope.clone(),
                before,
                old: a.cloned(),
                new: b.cloned(),
                direction,
            });
        };
    // A claim stands on the lanes that were asked: with others it may be untested, which is no change of what it says.
    let untested = |fact: Option<&Fact>| fact.is_none_or(|f| f.answer == Standing::Untested.word());
    let open = |kind: Kind, a: Option<&Fact>, b: Option<&Fact>| {
        kind == Kind::Claim && (untested(a) || untested(b)) && b.is_none_or(|b| b.conforms)
    };
    let mut followed = BTreeSet::new();
    for ((kind, scope), now) in new {
        let of_kind = known.get(kind);
        let is_new_toolkit = of_kind.is_some_and(|set| !set.contains(&scope.toolkit)) && *kind != Kind::Claim;
        // The newest toolkit that the old record holds stands for the one before a new one.
        let before = of_kind.and_then(newest).filter(|_| is_new_toolkit);
        let key = (
            *kind,
            Scope { toolkit: before.clone().unwrap_or_else(|| scope.toolkit.clone()), ..scope.clone() },
        );
        let then = old.get(&key);
        if then.is_some() {
            followed.insert(key);
        }
        if open(*kind, then, Some(now)) {
            continue;
        }
        change(*kind, scope, before, then, Some(now));
    }
    for ((kind, scope), then) in old {
        let lane_asked =
            |name: &str, what: &str| what.is_empty() || lanes.names.contains(&format!("{name} {what}"));
        let toolkit_asked = asked.get(kind).is_some_and(|set| set.contains(&scope.toolkit));
        let asked_again = match kind {
            Kind::Claim => false,
            Kind::Tile => toolkit_asked,
            _ => {
                toolkit_asked
                    && lane_asked("device", &scope.device)
                    && lane_asked("kernels for", &scope.target)
            }
        };
        let key = (*kind, scope.clone());
        if asked_again && !new.contains_key(&key) && !followed.contains(&key) {
            change(*kind, scope, None, Some(then), None);
        }
    }
    out
}

/// The newest of toolkits named 13.5.37; words that are no version are older than all.
fn newest(set: &BTreeSet<String>) -> Option<String> {
    let version = |name: &&String| name.parse::<ptx::arch::ToolkitVersion>().ok();
    set.iter().max_by_key(version).cloned()
}
