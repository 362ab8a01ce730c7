//! The cells of a variant: stored as letters in the record, used as answers everywhere else.

use super::document::VariantRow;
use super::outcome::{NOT_ASKED, Native, Outcome};

/// The answer of a cell: the outcome and, if accepted, the verdict on the machine code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellAnswer {
    /// How the assembler responded.
    pub outcome: Outcome,
    /// The verdict on the machine code; `None` if not accepted.
    pub native: Option<Native>,
}

impl CellAnswer {
    /// Returns its words: `accepted (emulated)`, `rejected`.
    #[must_use]
    pub fn words(self) -> String {
        match self.native {
            Some(native) if native != Native::Unknown => {
                format!("{} ({})", self.outcome.word().replace('_', " "), native.word())
            }
            _ => self.outcome.word().replace('_', " "),
        }
    }

    /// Whether the answer is about the form; it is not if the assembler does not know the target or the PTX version.
    #[must_use]
    pub const fn is_said(self) -> bool {
        !matches!(self.outcome, Outcome::UnknownTarget | Outcome::UnsupportedIsa)
    }
}

/// The suffix of the id of a row whose file is assembled as its author wrote it, with the author's target.
pub const AS_WRITTEN: &str = "@as-written";

fn letter_at(letters: &str, pair: usize) -> Option<char> {
    letters.as_bytes().get(pair).map(|byte| char::from(*byte))
}

impl VariantRow {
    /// Whether the row is a file as its author wrote it, with the author's target.
    #[must_use]
    pub fn is_as_written(&self) -> bool {
        self.id.ends_with(AS_WRITTEN)
    }

    /// Returns the answer in a pair, an index into the record's pairs; `None` if the cell was not queried.
    #[must_use]
    pub fn answer(&self, pair: usize) -> Option<CellAnswer> {
        let outcome = letter_at(&self.outcomes, pair).and_then(Outcome::from_letter)?;
        Some(CellAnswer { outcome, native: letter_at(&self.native, pair).and_then(Native::from_letter) })
    }

    /// Iterates over the answers with their pairs, without cells that were not queried.
    pub fn answers(&self) -> impl Iterator<Item = (usize, CellAnswer)> {
        (0..self.outcomes.len()).filter_map(|pair| Some((pair, self.answer(pair)?)))
    }

    /// Whether another row over the same pairs has the same answers.
    #[must_use]
    pub fn same_answers(&self, other: &Self) -> bool {
        self.outcomes == other.outcomes && self.native == other.native
    }

    /// Returns the number of answered cells.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.answers().count()
    }

    /// Returns the number of cells with this outcome.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.outcomes.matches(outcome.letter()).count()
    }

    /// Replaces all answers, one per pair.
    pub fn set(&mut self, answers: impl IntoIterator<Item = Option<CellAnswer>>) {
        let (mut outcomes, mut native) = (String::new(), String::new());
        for answer in answers {
            outcomes.push(answer.map_or(NOT_ASKED, |a| a.outcome.letter()));
            native.push(answer.and_then(|a| a.native).map_or(NOT_ASKED, Native::letter));
        }
        self.outcomes = outcomes.trim_end_matches(NOT_ASKED).to_owned();
        self.native = native.trim_end_matches(NOT_ASKED).to_owned();
    }

    /// Checks the letters of a row over this number of pairs.
    pub(super) fn check_letters(&self, pairs: usize) -> Result<(), String> {
        let outcomes = self.outcomes.chars().all(|c| c == NOT_ASKED || Outcome::from_letter(c).is_some());
        let natives = self.native.chars().all(|c| c == NOT_ASKED || Native::from_letter(c).is_some());
        if outcomes && natives && self.outcomes.len() <= pairs && self.native.len() <= pairs {
            Ok(())
        } else {
            Err(format!("variant `{}` has unknown letters", self.id))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_back_as_they_were_set() {
        let mut row = VariantRow {
            id: "kernel@as-written".to_owned(),
            snippet: 0,
            expects: vec![],
            outcomes: String::new(),
            native: String::new(),
            messages: vec![],
            sass: vec![],
        };
        let of = |outcome, native| Some(CellAnswer { outcome, native });
        let answers = [
            None,
            of(Outcome::Accepted, Some(Native::Split)),
            of(Outcome::Rejected, None),
            None,
            of(Outcome::Crashed, None),
            None,
        ];
        row.set(answers);
        assert_eq!((row.outcomes.as_str(), row.native.as_str()), (".AR.C", ".S"));
        assert!((0..9).all(|n| row.answer(n) == answers.get(n).copied().flatten()));
        assert_eq!((row.answered(), row.count(Outcome::Rejected), row.is_as_written()), (3, 1, true));
        assert!(row.check_letters(5).is_ok() && row.check_letters(4).is_err());
        row.outcomes.push('X');
        assert!(row.check_letters(9).is_err());
    }
}
