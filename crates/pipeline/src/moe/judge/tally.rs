//! Counts the right, wrong and undecided elements of a stage.

use std::collections::HashMap;

use super::gaps;
use crate::moe::reference::expected::Expected;
use crate::moe::reference::formats::{bf16, bf16_order};
use crate::moe::stage::Stage;
use record::{Place, StageResult, Verdict};

/// The elements of a row: all of them, and those whose bound decides.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    checked: u64,
    decided: u64,
}

/// The most wrong elements whose places are kept.
const MOST_PLACES: usize = 1 << 18;

/// The verdict on a stage, and what a search for its cause needs.
pub(super) struct StageJudgement {
    /// The verdict.
    pub(super) result: StageResult,
    /// Rows and columns of wrong elements: all of them, or many.
    pub(super) wrong: Vec<(usize, usize)>,
    /// The sum of log2(1 + error / bound) over them.
    pub(super) excess: f64,
    /// Whether the bounds decide enough of the elements.
    pub(super) decides: bool,
    /// Whether a sample alone was judged, as it is wrong.
    pub(super) is_sample: bool,
    /// The least and the greatest factor that would make every number right; `None` if no number tells one.
    pub(super) factor: Option<[f64; 2]>,
}

impl From<StageResult> for StageJudgement {
    fn from(result: StageResult) -> Self {
        Self { result, wrong: Vec::new(), excess: 0.0, decides: false, is_sample: false, factor: None }
    }
}

/// Counts of checked and wrong elements.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    checked: u64,
    /// Checked elements that may have any value.
    open: u64,
    mismatches: u64,
    worst: f64,
    /// Rows and columns of wrong elements, and the sum of log2(1 + error / bound) over them.
    places: Vec<(usize, usize)>,
    excess: f64,
    /// The least and the greatest factor of all numbers; empty if the least is the greater one.
    factor: Option<[f64; 2]>,
    /// The first wrong element by row and column, with a note on the value found.
    first: Option<((usize, usize), String)>,
    rows: HashMap<usize, Share>,
    /// Elements that should be numbers, and the bf16 values that are allowed for them together.
    numbers: u64,
    codes: f64,
}

impl Tally {
    fn count(&mut self, row: usize, decided: bool) {
        self.checked += 1;
        let share = self.rows.entry(row).or_default();
        share.checked += 1;
        share.decided += u64::from(decided);
    }

    /// Counts a right element whose bound decides, with its error relative to its bound.
    pub(super) fn right(&mut self, row: usize, over_bound: f64) {
        self.within(row, over_bound, true);
    }

    /// Counts an element within its bound, with its error relative to it; `decided` says whether the bound decides
    /// (docs/numerics.md, 2.1).
    pub(super) fn within(&mut self, row: usize, over_bound: f64, decided: bool) {
        self.count(row, decided);
        self.worst = self.worst.max(over_bound);
    }

    /// Counts a wrong element; `note` describes the value found.
    pub(super) fn wrong(&mut self, row: usize, col: usize, over_bound: f64, note: impl FnOnce() -> String) {
        self.count(row, true);
        self.mismatches += 1;
        self.worst = self.worst.max(over_bound);
        self.excess += over_bound.min(1e9).ln_1p() / std::f64::consts::LN_2;
        if self.places.len() < MOST_PLACES {
            self.places.push((row, col));
        }
        if self.first.as_ref().is_none_or(|(place, _)| (row, col) < *place) {
            self.first = Some(((row, col), note()));
        }
    }

    /// Compares an element that must be equal.
    pub(super) fn equal<T: PartialEq>(
        &mut self,
        row: usize,
        col: usize,
        same: (T, T),
        note: impl FnOnce() -> String,
    ) {
        if same.0 == same.1 {
            self.right(row, 0.0);
        } else {
            self.wrong(row, col, f64::INFINITY, note);
        }
    }

    /// Compares a bf16 with its expected value.
    pub(super) fn number(&mut self, row: usize, col: usize, expected: &Expected, found: u16) {
        self.open += u64::from(*expected == Expected::Open);
        if let Some((lo, hi)) = expected.range() {
            self.numbers += 1;
            self.codes += f64::from(bf16_order(hi)) - f64::from(bf16_order(lo)) + 1.0;
            if let Some(factor) = factor_between(bf16(lo), bf16(hi), bf16(found)) {
                self.factor = Some(both(self.factor, factor));
            }
        }
        let over = expected.over_bound(found);
        if expected.accepts(found) {
            self.within(row, over, expected.decides());
        } else {
            self.wrong(row, col, over, || format!("bf16 {found:#06x} instead of {expected}"));
        }
    }

    /// Merges two tallies.
    pub(super) fn join(mut self, other: Self) -> Self {
        let room = MOST_PLACES.saturating_sub(self.places.len());
        self.places.extend(other.places.into_iter().take(room));
        let first = match (self.first, other.first) {
            (Some(a), Some(b)) => Some(if a.0 <= b.0 { a } else { b }),
            (a, b) => a.or(b),
        };
        for (row, of) in other.rows {
            let share = self.rows.entry(row).or_default();
            share.checked += of.checked;
            share.decided += of.decided;
        }
        Self {
            checked: self.checked + other.checked,
            open: self.open + other.open,
            mismatches: self.mismatches + other.mismatches,
            worst: self.worst.max(other.worst),
            places: self.places,
            excess: self.excess + other.excess,
            factor: match (self.factor, other.factor) {
                (a, Some(b)) => Some(both(a, b)),
                (a, None) => a,
            },
            first,
            rows: self.rows,
            numbers: self.numbers + other.numbers,
            codes: self.codes + other.codes,
        }
    }

    /// The percentage of elements whose bound decides, rounded down.
    pub(super) fn percent_decided(&self) -> u64 {
        let decided: u64 = self.rows.values().map(|share| share.decided).sum();
        decided * 100 / self.checked.max(1)
    }

    /// The first row of which the bounds decide fewer than half of the elements, and the number of such rows. A result that is
    /// judged on its own inputs may have some, such as rows with infinities, unless they decide fewer than half of all elements.
    fn undecided(&self, is_from_afar: bool) -> Option<(usize, usize)> {
        let decided: u64 = self.rows.values().map(|share| share.decided).sum();
        if !is_from_afar && decided * 2 >= self.checked {
            return None;
        }
        let rows = self.rows.iter().filter(|(_, share)| share.decided * 2 < share.checked);
        let rows: Vec<usize> = rows.map(|(row, _)| *row).collect();
        Some((*rows.iter().min()?, rows.len()))
    }

    /// Says that a result was judged from earlier tensors, because these are absent, and how tightly; empty if none is.
    fn absence(&self, absent: &[&str]) -> String {
        if absent.is_empty() {
            return String::new();
        }
        let allowed = match self.numbers {
            0 => String::new(),
            n => format!("{:.1} bf16 values are allowed on average, and ", self.codes / n as f64),
        };
        format!(
            "judged from earlier tensors, because {} missing; {allowed}the bounds decide {} % of the elements",
            gaps::are(absent),
            self.percent_decided()
        )
    }

    /// Returns the stage's result; `expert` maps a row to its expert. Skipped if no element was checked or all may have any value;
    /// undetermined if nothing is wrong, but the bounds decide too little (docs/numerics.md, 2.1). The note names the tensors that are `absent`
    /// before it, so that it was judged from earlier ones.
    pub(super) fn result(
        self,
        stage: Stage,
        absent: &[&str],
        expert: impl Fn(usize) -> Option<usize>,
    ) -> StageJudgement {
        if self.checked == 0 {
            return StageResult::skipped(stage, "its tensors have no element").into();
        }
        if self.checked == self.open {
            let why = "every element may have any value: sums or operands out of range";
            return StageResult::skipped(stage, why).into();
        }
        let mut note = match self.open {
            0 => String::new(),
            n => {
                format!("{n} of {} elements may have any value: sums or operands out of range", self.checked)
            }
        };
        let undecided = self.undecided(!absent.is_empty());
        let decides = undecided.is_none();
        let verdict = match undecided {
            _ if self.mismatches > 0 => Verdict::Fail,
            None => Verdict::Pass,
            Some((row, count)) => {
                let colon = if note.is_empty() { "" } else { "; " };
                note = format!(
                    "the bounds decide fewer than half of the elements in {count} of {} rows, first in row {row}{colon}{note}",
                    self.rows.len()
                );
                Verdict::Undetermined
            }
        };
        let absence = self.absence(absent);
        let (place, note) =
            self.first.map_or((None, note), |((row, col), note)| (Some(place(expert(row), row, col)), note));
        let colon = if absence.is_empty() || note.is_empty() { "" } else { ": " };
        let note = format!("{absence}{colon}{note}");
        let result = StageResult {
            stage: stage.into(),
            verdict,
            worst_over_bound: self.worst,
            mismatches: self.mismatches,
            place,
            note,
        };
        StageJudgement {
            result,
            wrong: self.places,
            excess: self.excess,
            decides,
            is_sample: false,
            factor: self.factor,
        }
    }
}

/// The factors that a stored number may have, of one between two: none if zero may be among them, which tells nothing.
fn factor_between(low: f64, high: f64, found: f64) -> Option<[f64; 2]> {
    // A stored number is off by at most half a step of bf16; so are the ends of the range.
    const STEP: f64 = 1.0 / 128.0;
    let is_certain = low * high > 0.0 && high.abs().min(low.abs()) >= f64::from(f32::MIN_POSITIVE);
    if !is_certain || !found.is_finite() || found == 0.0 {
        return None;
    }
    let [a, b] = [found / low, found / high];
    let off = a.abs().max(b.abs()) * STEP;
    Some([a.min(b) - off, a.max(b) + off])
}

/// What two ranges have in common.
fn both(a: Option<[f64; 2]>, b: [f64; 2]) -> [f64; 2] {
    a.map_or(b, |a| [a[0].max(b[0]), a[1].min(b[1])])
}

/// Names an element of a stage's output; stages without experts have none.
fn place(expert: Option<usize>, row: usize, col: usize) -> Place {
    match expert {
        Some(expert) => Place::at(&[("expert", expert), ("row", row), ("col", col)]),
        None => Place::at(&[("row", row), ("col", col)]),
    }
}
