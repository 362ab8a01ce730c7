//! The rule that decides whether a run checked what it was asked to check.
//!
//! Exit code 0 means that something was checked and conforms. A run that checks nothing, or less than it was asked to, is
//! *incomplete*. Every command counts its checks in a [`Completeness`] and names each gap, so that all of them decide alike and say
//! so in the same words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number of checks of a run, and the checks that it was asked for and did not make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completeness {
    checks: usize,
    gaps: Vec<String>,
}

impl Completeness {
    /// Starts with a number of checks that were made, of any kind: cells, trials, launches, files.
    #[must_use]
    pub const fn of_checks(checks: usize) -> Self {
        Self { checks, gaps: Vec::new() }
    }

    /// Adds checks that were made.
    pub const fn add_checks(&mut self, checks: usize) {
        self.checks += checks;
    }

    /// Adds a sentence that names what was asked and not checked, and why: `1 kernel could not run: k: no PTX`.
    pub fn add_gap(&mut self, gap: impl Into<String>) {
        let gap = gap.into();
        if !self.gaps.contains(&gap) {
            self.gaps.push(gap);
        }
    }

    /// Returns what is incomplete; `None` if there is a check and no gap. `empty` says why there is no check if no gap says it.
    #[must_use]
    pub fn incomplete(self, empty: &str) -> Option<Incomplete> {
        let nothing_checked = self.checks == 0;
        let mut reasons = self.gaps;
        if nothing_checked && reasons.is_empty() {
            reasons.push(empty.to_owned());
        }
        (!reasons.is_empty()).then_some(Incomplete { nothing_checked, reasons })
    }
}

/// A run that checked nothing, or less than it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{}: {}", if *nothing_checked { "NOTHING CHECKED" } else { "INCOMPLETE" }, reasons.join("; "))]
pub struct Incomplete {
    /// Whether nothing at all was checked.
    pub nothing_checked: bool,
    /// What was not checked, and why; at least one sentence.
    pub reasons: Vec<String>,
}

impl Incomplete {
    /// Creates the result of a run that checked nothing, for this reason.
    #[must_use]
    pub fn nothing(reason: impl Into<String>) -> Self {
        Self { nothing_checked: true, reasons: vec![reason.into()] }
    }

    /// The rule's name in SARIF, annotations and the types of JUnit errors.
    pub const WORD: &'static str = "incomplete";

    /// The rule in one sentence.
    pub const SENTENCE: &'static str = "Something that was asked was not checked.";
}

/// The first line of a report of an incomplete run; empty for a complete one.
#[must_use]
pub fn first_line(incomplete: Option<&Incomplete>) -> String {
    incomplete.map_or_else(String::new, |incomplete| format!("{incomplete}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_with_checks_and_without_gaps_is_complete() {
        let nothing = Completeness::default().incomplete("no kernel ran").unwrap();
        assert_eq!(nothing.to_string(), "NOTHING CHECKED: no kernel ran");
        assert_eq!(Completeness::of_checks(3).incomplete("no kernel ran"), None);
        let mut some = Completeness::default();
        some.add_gap("1 kernel could not run: k");
        some.add_gap("1 kernel could not run: k");
        assert_eq!(
            some.clone().incomplete("no kernel ran").unwrap().to_string(),
            "NOTHING CHECKED: 1 kernel could not run: k"
        );
        some.add_checks(1);
        let part = some.incomplete("no kernel ran").unwrap();
        assert_eq!(first_line(Some(&part)), "INCOMPLETE: 1 kernel could not run: k\n");
        assert_eq!(first_line(None), "");
    }
}
