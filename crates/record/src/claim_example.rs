//! The first cell that contradicts a claim.

use std::borrow::Cow;

use super::document::Pair;
use super::named::Word;
use super::outcome::Outcome;

/// A cell and its outcome. In the record: `<variant> <toolkit> <target> <arch> <outcome>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimExample {
    /// The variant.
    pub variant: String,
    /// Toolkit, target and `-arch`.
    pub pair: Pair,
    /// The outcome.
    pub outcome: Outcome,
}

impl Word for ClaimExample {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.rsplitn(5, ' ');
        let outcome = words.next()?;
        let outcome = Outcome::ALL.iter().copied().find(|o| o.word() == outcome)?;
        let arch = words.next()?.parse().ok()?;
        let target = words.next()?.parse().ok()?;
        let toolkit = words.next()?.parse().ok()?;
        Some(Self { variant: words.next()?.to_owned(), pair: Pair { toolkit, target, arch }, outcome })
    }

    fn text(&self) -> Cow<'_, str> {
        let Pair { toolkit, target, arch } = self.pair;
        Cow::Owned(format!("{} {toolkit} {target} {arch} {}", self.variant, self.outcome.word()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_read_as_they_are_written() {
        let text = "a variant 13.5.37 sm_120 sm_121 unknown_target";
        let example = ClaimExample::read(text).unwrap();
        assert_eq!((example.variant.as_str(), example.outcome), ("a variant", Outcome::UnknownTarget));
        assert_eq!(example.text(), text);
        for odd in ["", "x", "a 13.5.37 sm_120 sm_121 maybe", "a 13 sm_120 sm_121 accepted"] {
            assert_eq!(ClaimExample::read(odd), None, "{odd}");
        }
    }
}
