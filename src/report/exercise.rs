//! Which features the trials exercised in each configuration of the grouped GEMM, by tile, and which they left out.

use std::collections::BTreeMap;

use super::markup::{Align, head, plain, row};
use super::phrase::counted;
use crate::record::{ExerciseRow, Named, Tile, TileRow, TileTable};

/// The number of tiles that text lists one by one; more are summarized.
const TOLD: usize = 12;
/// The number of configurations not exercised that text lists.
const LISTED: usize = 4;

/// What all configurations of a tile exercised at least.
struct Least<'a> {
    rows: Vec<&'a ExerciseRow>,
}

impl Least<'_> {
    fn least(&self, count: impl Fn(&ExerciseRow) -> u32) -> u32 {
        self.rows.iter().map(|r| count(r)).min().unwrap_or(0)
    }

    fn all(&self, is: impl Fn(&ExerciseRow) -> bool) -> bool {
        self.rows.iter().all(|r| is(r))
    }

    /// As `9 K tiles, 2 stage wraps, 7 N tiles, 6 M tiles, ragged K, N and M`.
    fn sentence(&self) -> String {
        let count = |n: u32, what: &str| counted(n as usize, what);
        let mut parts = vec![
            count(self.least(|r| r.k_tiles), "K tile"),
            count(self.least(|r| r.wraps), "stage wrap"),
            count(self.least(|r| r.n_tiles), "N tile"),
            count(self.least(|r| r.m_tiles), "M tile"),
        ];
        let ragged: Vec<&str> = self.ragged();
        match ragged.as_slice() {
            [] => {}
            [one] => parts.push(format!("ragged {one}")),
            [rest @ .., last] => parts.push(format!("ragged {} and {last}", rest.join(", "))),
        }
        parts.join(", ")
    }

    fn ragged(&self) -> Vec<&'static str> {
        let sides = [
            ("K", self.all(|r| r.ragged_k)),
            ("N", self.all(|r| r.ragged_n)),
            ("M", self.all(|r| r.ragged_m)),
        ];
        sides.into_iter().filter(|(_, ragged)| *ragged).map(|(side, _)| side).collect()
    }
}

fn name(row: &ExerciseRow) -> String {
    format!("{} {}", row.configuration, row.target)
}

/// Rows by tile, in the order of the rows.
fn by_tile<'a>(rows: &[&'a ExerciseRow]) -> Vec<(&'a Named<Tile>, Vec<&'a ExerciseRow>)> {
    let mut out: Vec<(&Named<Tile>, Vec<&ExerciseRow>)> = Vec::new();
    let mut places: BTreeMap<&Named<Tile>, usize> = BTreeMap::new();
    for row in rows.iter().copied() {
        let tile = &row.configuration.tile;
        let place = *places.entry(tile).or_insert(out.len());
        if place == out.len() {
            out.push((tile, Vec::new()));
        }
        out[place].1.push(row);
    }
    out
}

/// What was exercised and what was not, one line each; nothing if nothing ran.
pub(super) fn lines(rows: &[&ExerciseRow]) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let mut out = Vec::new();
    let (exercised, rest): (Vec<&ExerciseRow>, Vec<_>) = rows.iter().copied().partition(|r| r.is_exercised());
    let tiles = by_tile(&exercised);
    if tiles.len() <= TOLD {
        for (tile, rows) in &tiles {
            let configurations = counted(rows.len(), "configuration");
            out.push(format!(
                "exercised: {tile}, {configurations}: {}",
                Least { rows: rows.clone() }.sentence()
            ));
        }
    } else {
        out.push(format!(
            "exercised: {} of {}, each with at least {}, an expert without rows, and both values of every switch",
            counted(exercised.len(), "configuration"),
            counted(tiles.len(), "tile"),
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

/// The configurations that may run but that no trial ran, as a sentence.
pub(super) fn left_out(tiles: &TileTable, rows: &[ExerciseRow]) -> Option<String> {
    let same = |r: &ExerciseRow, t: &TileRow| r.configuration == t.configuration && r.target == t.target;
    let ran = rows.iter().any(|r| tiles.rows.iter().any(|t| t.target == r.target));
    let left = tiles.rows.iter().filter(|t| t.blocked.is_none() && !rows.iter().any(|r| same(r, t))).count();
    (ran && left > 0).then(|| {
        format!(
            "not exercised: {} that may run but are not in the default set of trials; `sm121probe moe --all` runs them",
            counted(left, "configuration")
        )
    })
}

/// A table of what each tile exercised; empty if nothing ran.
pub(super) fn markdown(rows: &[&ExerciseRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let columns =
        ["tile", "configurations", "K tiles", "stage wraps", "N tiles", "M tiles", "ragged", "not exercised"];
    let mut out = format!(
        "\n### What each tile was tested with, at least\n\n{}",
        head(&columns.map(str::to_owned), Align::Centre)
    );
    for (tile, rows) in by_tile(rows) {
        let (exercised, rest): (Vec<&ExerciseRow>, Vec<_>) = rows.into_iter().partition(|r| r.is_exercised());
        let count = exercised.len();
        let least = Least { rows: exercised };
        let missing: Vec<String> =
            rest.iter().map(|r| format!("{}: {}", name(r), r.missing.join(", "))).collect();
        out.push_str(&row(&[
            tile.to_string(),
            count.to_string(),
            least.least(|r| r.k_tiles).to_string(),
            least.least(|r| r.wraps).to_string(),
            least.least(|r| r.n_tiles).to_string(),
            least.least(|r| r.m_tiles).to_string(),
            if count == 0 { String::new() } else { least.ragged().join(" ") },
            plain(&missing.join("; ")),
        ]));
    }
    out
}
