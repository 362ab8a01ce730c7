//! What the trials exercised in each kernel configuration, and what they left out.

use std::collections::{BTreeMap, BTreeSet};

use super::markup::{Align, head, plain, row};
use super::phrase::counted;
use crate::record::{ExerciseRow, FamilyRow, TileRow, TileTable, listed};

/// The number of groups of configurations that text lists one by one; more are summarized.
const SHOWN: usize = 12;
/// The number of configurations not exercised that text lists.
const LISTED: usize = 4;

/// What all of some configurations exercised at least.
struct Least<'a> {
    rows: Vec<&'a ExerciseRow>,
}

impl<'a> Least<'a> {
    /// What is counted, in the order of the first row, with the least number.
    fn counts(&self) -> Vec<(&'a str, u32)> {
        let first = self.rows.first().map_or(&[][..], |row| row.counts.as_slice());
        let least = |what: &str| {
            let of = |row: &&ExerciseRow| row.counts.iter().find(|c| c.what == what).map_or(0, |c| c.count);
            self.rows.iter().map(of).min().unwrap_or(0)
        };
        first.iter().map(|count| (count.what.as_str(), least(&count.what))).collect()
    }

    /// What every one of them met, in the order of the first row.
    fn met(&self) -> Vec<&'a str> {
        let first = self.rows.first().map_or(&[][..], |row| row.met.as_slice());
        let all = |phrase: &&String| self.rows.iter().all(|row| row.met.contains(phrase));
        first.iter().filter(all).map(String::as_str).collect()
    }

    /// As `9 K tiles, 2 stage wraps, 7 N tiles, a ragged K tile and an expert without rows`.
    fn sentence(&self) -> String {
        let counts = self.counts().into_iter().map(|(what, count)| counted(count as usize, what));
        let parts: Vec<String> = counts.chain(self.met().into_iter().map(str::to_owned)).collect();
        listed(&parts)
    }
}

fn name(row: &ExerciseRow) -> String {
    format!("{} {}", row.configuration, row.target)
}

/// Rows by the first word of their configurations, in the order of the rows.
fn by_leading<'a>(rows: &[&'a ExerciseRow]) -> Vec<(&'a str, Vec<&'a ExerciseRow>)> {
    let mut out: Vec<(&str, Vec<&ExerciseRow>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows.iter().copied() {
        let leading = row.configuration.leading();
        let place = *places.entry(leading).or_insert(out.len());
        if place == out.len() {
            out.push((leading, Vec::new()));
        }
        out[place].1.push(row);
    }
    out
}

/// What was exercised and what was not, one line each; nothing if nothing ran. `leading` says what the first word of a configuration
/// names.
pub(super) fn lines(rows: &[&ExerciseRow], leading: &str) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let mut out = Vec::new();
    let (exercised, rest): (Vec<&ExerciseRow>, Vec<_>) = rows.iter().copied().partition(|r| r.is_exercised());
    let groups = by_leading(&exercised);
    if groups.len() <= SHOWN {
        for (first, rows) in &groups {
            let configurations = counted(rows.len(), "configuration");
            out.push(format!(
                "exercised: {first}, {configurations}: {}",
                Least { rows: rows.clone() }.sentence()
            ));
        }
    } else {
        out.push(format!(
            "exercised: {} of {}, each with at least {}",
            counted(exercised.len(), "configuration"),
            counted(groups.len(), leading),
            Least { rows: exercised }.sentence()
        ));
    }
    for row in rest.iter().take(LISTED) {
        out.push(format!("not exercised: {}: it lacks {}", name(row), row.missing.join(", ")));
    }
    if rest.len() > LISTED {
        out.push(format!("not exercised: {} more", counted(rest.len() - LISTED, "configuration")));
    }
    out
}

/// The configurations of a family that may run but that no trial ran, as a sentence.
pub(super) fn left_out(tiles: &TileTable, family: &FamilyRow, rows: &[&ExerciseRow]) -> Option<String> {
    let same = |r: &&ExerciseRow, t: &TileRow| r.configuration == t.configuration && r.target == t.target;
    let own = || tiles.rows.iter().filter(|t| t.family == family.name);
    let ran = rows.iter().any(|r| own().any(|t| t.target == r.target));
    let left = own().filter(|t| t.blocked.is_none() && !rows.iter().any(|r| same(r, t))).count();
    let all = match family.all.as_str() {
        "" => String::new(),
        command => format!("; `{command}` runs them"),
    };
    (ran && left > 0).then(|| {
        format!(
            "not exercised: {} that may run but are not in the default set of trials{all}",
            counted(left, "configuration")
        )
    })
}

/// A table of what the configurations exercised, by their first word; empty if nothing ran.
pub(super) fn markdown(rows: &[&ExerciseRow], leading: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut seen = BTreeSet::new();
    let counts = rows.iter().flat_map(|row| &row.counts).map(|count| count.what.as_str());
    let counts: Vec<&str> = counts.filter(|what| seen.insert(*what)).collect();
    let mut columns = vec![leading.to_owned(), "configurations".to_owned()];
    columns.extend(counts.iter().map(|what| format!("{what}s")));
    columns.extend(["met", "not exercised"].map(str::to_owned));
    let mut out =
        format!("\n### What each {leading} was tested with, at least\n\n{}", head(&columns, Align::Centre));
    for (first, rows) in by_leading(rows) {
        let (exercised, rest): (Vec<&ExerciseRow>, Vec<_>) = rows.into_iter().partition(|r| r.is_exercised());
        let mut cells = vec![plain(first), exercised.len().to_string()];
        let least = Least { rows: exercised };
        let found: BTreeMap<&str, u32> = least.counts().into_iter().collect();
        cells.extend(counts.iter().map(|what| found.get(what).copied().unwrap_or(0).to_string()));
        cells.push(plain(&least.met().join(", ")));
        let missing: Vec<String> =
            rest.iter().map(|r| format!("{}: {}", name(r), r.missing.join(", "))).collect();
        cells.push(plain(&missing.join("; ")));
        out.push_str(&row(&cells));
    }
    out
}
