//! The possible answers of cells and claims, and their letters in the record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Letter for a cell that was not queried.
pub(super) const NOT_ASKED: char = '.';

/// An enum of answers with a letter and a word each.
macro_rules! answers {
    ($(#[$doc:meta])* $name:ident { $($(#[$item:meta])* $variant:ident $letter:literal $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$item])* $variant,)* }

        impl $name {
            /// Every answer, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns its letter in the record.
            #[must_use]
            pub const fn letter(self) -> char {
                match self { $(Self::$variant => $letter,)* }
            }

            /// Returns its word in CSV and reports.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Returns the answer with this letter.
            #[must_use]
            pub fn from_letter(letter: char) -> Option<Self> {
                Self::ALL.iter().copied().find(|a| a.letter() == letter)
            }
        }
    };
}

answers! {
    /// How an assembler responded to a cell.
    Outcome {
        /// It generated code.
        Accepted 'A' "accepted",
        /// It refused the form with a diagnostic.
        Rejected 'R' "rejected",
        /// It does not know the target or the `-arch`.
        UnknownTarget 'U' "unknown_target",
        /// It does not know the PTX version.
        UnsupportedIsa 'I' "unsupported_isa",
        /// It was killed by a signal, or ended with neither code nor a diagnostic.
        Crashed 'C' "crashed",
        /// It exceeded its time limit.
        TimedOut 'T' "timed_out",
    }
}

answers! {
    /// The verdict on the machine code of an accepted cell.
    Native {
        /// The hardware instruction, as often as the text requests it.
        Native 'N' "native",
        /// More hardware instructions of this kind than the text requests.
        Split 'S' "split",
        /// No hardware instruction: ptxas expanded it or calls a helper.
        Emulated 'E' "emulated",
        /// Unknown: no disassembler, or the snippet names no opcode.
        Unknown '?' "unknown",
    }
}

/// The result that a claim states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// ptxas accepts it.
    Accepted,
    /// ptxas rejects it.
    Rejected,
    /// ptxas rejects it by design: the hardware has no such instruction.
    AbsentByDesign,
}

impl Expect {
    /// Returns its words in reports.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::AbsentByDesign => "absent by design",
        }
    }
}

/// The status of a claim after measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Every cell that it covers agrees.
    #[default]
    Confirmed,
    /// A cell that it covers disagrees.
    Refuted,
    /// No cell that it covers was answered.
    Untested,
}

impl Standing {
    /// Returns its word in reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
            Self::Untested => "untested",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn letters_are_distinct_and_read_back() {
        let letters: BTreeSet<char> = Outcome::ALL.iter().map(|o| o.letter()).collect();
        assert_eq!(letters.len(), Outcome::ALL.len());
        assert!(Outcome::ALL.iter().all(|o| Outcome::from_letter(o.letter()) == Some(*o)));
        assert!(Native::ALL.iter().all(|n| Native::from_letter(n.letter()) == Some(*n)));
        assert!(Outcome::from_letter(NOT_ASKED).is_none() && Native::from_letter(NOT_ASKED).is_none());
    }
}
