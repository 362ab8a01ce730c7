//! The answers of successive toolkits about one variant on one target.

use super::view::{Answer, View};

/// One answer per toolkit, ascending.
pub(super) struct History {
    answers: Vec<Answer>,
}

impl History {
    /// Takes the answers in ascending order of toolkits.
    pub(super) const fn new(answers: Vec<Answer>) -> Self {
        Self { answers }
    }

    /// The toolkits with an answer, and the answers.
    pub(super) fn said(&self) -> impl DoubleEndedIterator<Item = (usize, Answer)> {
        self.answers.iter().copied().enumerate().filter(|(_, a)| a.is_said())
    }

    /// The ranges of toolkits that accept; a toolkit without an answer does not end a range.
    pub(super) fn accepted(&self) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let mut open = false;
        for (n, answer) in self.said() {
            match runs.last_mut() {
                Some((_, last)) if open && answer == Answer::Accepted => *last = n,
                _ if answer == Answer::Accepted => runs.push((n, n)),
                _ => {}
            }
            open = answer == Answer::Accepted;
        }
        runs
    }

    /// The first toolkit of the range that accepts the form up to the newest one with an answer.
    pub(super) fn since(&self) -> Option<usize> {
        let (last, _) = self.said().next_back()?;
        self.accepted().last().filter(|(_, end)| *end == last).map(|(first, _)| *first)
    }

    /// The newest toolkit before `toolkit` that was queried, whatever its answer.
    pub(super) fn before(&self, toolkit: usize) -> Option<usize> {
        let older = self.answers.iter().take(toolkit);
        older.enumerate().rev().find(|(_, a)| **a != Answer::NotAsked).map(|(n, _)| n)
    }

    /// The newest toolkit that rejects, if it is the newest with an answer or is older than those that accept.
    pub(super) fn newest_refusal(&self) -> Option<usize> {
        self.said().rev().find(|(_, a)| *a != Answer::Accepted).map(|(n, _)| n)
    }

    /// The cell of a table: the toolkits that accept, then `native`. The legend of the catalogue explains the words.
    pub(super) fn summary(&self, view: &View<'_>, native: &str) -> String {
        if self.said().next().is_none() {
            return if self.answers.contains(&Answer::Silent) { "?" } else { "·" }.to_owned();
        }
        let mut parts = Vec::new();
        let runs = self.accepted();
        match (runs.as_slice(), self.said().rev().find(|(_, a)| a.is_no())) {
            ([], None) => {}
            ([], Some((_, Answer::Absent))) => parts.push("⊘".to_owned()),
            ([], Some(_)) => parts.push("✗".to_owned()),
            (_, _) if self.answers.iter().all(|a| *a == Answer::Accepted) => parts.push(format!("✓{native}")),
            (runs, refused) => {
                let list: Vec<String> = runs.iter().map(|run| self.range(*run, view)).collect();
                let gone = runs.len() == 1 && refused.is_some_and(|(n, _)| runs[0].1 < n);
                parts.push(format!("{}{}{native}", list.join(", "), if gone { " only" } else { "" }));
            }
        }
        for (bad, word) in [(Answer::Crashed, "crash"), (Answer::TimedOut, "timeout")] {
            let at: Vec<usize> = self.said().filter(|(_, a)| *a == bad).map(|(n, _)| n).collect();
            if at.len() == self.said().count() {
                parts.push(word.to_owned());
            } else if !at.is_empty() {
                let names: Vec<String> = at.iter().map(|n| self.range((*n, *n), view)).collect();
                parts.push(format!("{word} {}", names.join(" ").trim_end_matches('+')));
            }
        }
        parts.join("; ")
    }

    fn range(&self, (first, end): (usize, usize), view: &View<'_>) -> String {
        let (start, stop) = (view.start_name(first), view.end_name(end));
        if end + 1 == self.answers.len() {
            format!("{start}+")
        } else if start == stop {
            start
        } else if first == end {
            view.toolkits[first].to_string()
        } else {
            format!("{start}–{stop}")
        }
    }
}
