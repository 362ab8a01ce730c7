//! The closed sets of answers that cells and claims have, and their letters in the record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Letter in the record for a cell that was not asked.
pub(super) const NOT_ASKED: char = '.';

/// A closed set of answers with a letter and a word each.
macro_rules! answers {
    ($(#[$doc:meta])* $name:ident { $($(#[$item:meta])* $variant:ident $letter:literal $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$item])* $variant,)* }

        impl $name {
            /// Every answer, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The letter that stands for it in the record.
            #[must_use]
            pub const fn letter(self) -> char {
                match self { $(Self::$variant => $letter,)* }
            }

            /// The word that stands for it in CSV and reports.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The answer of a letter.
            #[must_use]
            pub fn from_letter(letter: char) -> Option<Self> {
                Self::ALL.iter().copied().find(|a| a.letter() == letter)
            }
        }
    };
}

answers! {
    /// What an assembler did with a cell.
    Outcome {
        /// It made code.
        Accepted 'A' "accepted",
        /// It refused, with a diagnostic.
        Rejected 'R' "rejected",
        /// It does not know the target or the `-arch`.
        UnknownTarget 'U' "unknown_target",
        /// It does not know the PTX version.
        UnsupportedIsa 'I' "unsupported_isa",
        /// It ended by a signal, or without code and without a diagnostic.
        Crashed 'C' "crashed",
        /// It did not end in time.
        TimedOut 'T' "timed_out",
    }
}

answers! {
    /// What the machine code of an accepted cell shows.
    Native {
        /// The hardware instruction, once.
        Native 'N' "native",
        /// Several hardware instructions of the kind.
        Split 'S' "split",
        /// None: ptxas expanded it, or calls a helper.
        Emulated 'E' "emulated",
        /// Not known: no disassembler, or the snippet names no opcode.
        Unknown '?' "unknown",
    }
}

/// What a claim says ptxas does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// ptxas accepts it.
    Accepted,
    /// ptxas rejects it.
    Rejected,
    /// ptxas rejects it, and is meant to: the hardware has no such instruction.
    AbsentByDesign,
}

impl Expect {
    /// The words that stand for it in reports.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::AbsentByDesign => "absent by design",
        }
    }
}

/// How a claim stands against measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Every cell it speaks of agrees.
    #[default]
    Confirmed,
    /// Some cell it speaks of disagrees.
    Refuted,
    /// No cell it speaks of was answered.
    Untested,
}

impl Standing {
    /// The word that stands for it in reports.
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
