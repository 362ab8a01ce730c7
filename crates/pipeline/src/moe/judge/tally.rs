//! Counts the right and wrong elements of a stage.

use crate::moe::reference::expected::Expected;
use record::{Place, Stage, StageResult, Verdict};

/// Counts of checked and wrong elements.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    checked: u64,
    /// Checked elements that may have any value.
    open: u64,
    mismatches: u64,
    worst: f64,
    /// The first wrong element by row and column, with a note on the value found.
    first: Option<((usize, usize), String)>,
}

impl Tally {
    /// Counts a right element, with its error relative to its bound.
    pub(super) fn right(&mut self, over_bound: f64) {
        self.checked += 1;
        self.worst = self.worst.max(over_bound);
    }

    /// Counts a wrong element; `note` describes the value found.
    pub(super) fn wrong(&mut self, row: usize, col: usize, over_bound: f64, note: impl FnOnce() -> String) {
        self.checked += 1;
        self.mismatches += 1;
        self.worst = self.worst.max(over_bound);
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
        if same.0 == same.1 { self.right(0.0) } else { self.wrong(row, col, f64::INFINITY, note) }
    }

    /// Compares a bf16 with its expected value.
    pub(super) fn number(&mut self, row: usize, col: usize, expected: &Expected, found: u16) {
        self.open += u64::from(*expected == Expected::Open);
        let over = expected.over_bound(found);
        if expected.accepts(found) {
            self.right(over);
        } else {
            self.wrong(row, col, over, || format!("bf16 {found:#06x} instead of {expected}"));
        }
    }

    /// Merges two tallies.
    pub(super) fn join(self, other: Self) -> Self {
        let first = match (self.first, other.first) {
            (Some(a), Some(b)) => Some(if a.0 <= b.0 { a } else { b }),
            (a, b) => a.or(b),
        };
        Self {
            checked: self.checked + other.checked,
            open: self.open + other.open,
            mismatches: self.mismatches + other.mismatches,
            worst: self.worst.max(other.worst),
            first,
        }
    }

    /// Returns the stage's result; `expert` maps a row to its expert. Skipped if no element was checked or all may have any value.
    pub(super) fn result(self, stage: Stage, expert: impl Fn(usize) -> Option<usize>) -> StageResult {
        if self.checked == 0 {
            return StageResult::skipped(stage, "its tensors have no element");
        }
        if self.checked == self.open {
            return StageResult::skipped(
                stage,
                "every element may have any value: sums or operands out of range",
            );
        }
        let open = match self.open {
            0 => String::new(),
            n => {
                format!("{n} of {} elements may have any value: sums or operands out of range", self.checked)
            }
        };
        let (place, note) = self
            .first
            .map_or((None, open), |((row, col), note)| (Some(Place { expert: expert(row), row, col }), note));
        StageResult {
            stage,
            verdict: if self.mismatches == 0 { Verdict::Pass } else { Verdict::Fail },
            worst_over_bound: self.worst,
            mismatches: self.mismatches,
            place,
            note,
        }
    }
}
