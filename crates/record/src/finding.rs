//! A finding: something that does not conform, with its kind, subject, message and place in a file.

use super::{ConfigurationName, Incomplete, StageName};

/// Why a run does not conform, the most serious first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ground {
    /// A verdict is wrong, an expectation is not met, or records disagree.
    Wrong,
    /// A planted one-line fault passes every trial, and no entry of mutants.yaml explains it.
    Survivor,
    /// The status of a claim differs from its recorded status.
    Claim,
    /// An answer differs from the baseline.
    Baseline,
    /// Something that was asked was not checked: a toolkit or device of the baseline is missing, or nothing was selected.
    Incomplete,
}

impl Ground {
    /// Returns its name in SARIF rules and annotation titles.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Wrong => "does_not_conform",
            Self::Survivor => "mutant_survives",
            Self::Claim => "claim_contradicted",
            Self::Baseline => "baseline_contradicted",
            Self::Incomplete => Incomplete::WORD,
        }
    }

    /// Returns its meaning in one sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Wrong => "A verdict is wrong, an expectation is not met, or records disagree.",
            Self::Survivor => {
                "A planted one-line fault passes every trial, and no entry of mutants.yaml explains it."
            }
            Self::Claim => "A claim about cells differs from its recorded status.",
            Self::Baseline => "An answer differs from the baseline.",
            Self::Incomplete => Incomplete::SENTENCE,
        }
    }

    /// Every ground, the most serious first.
    pub const ALL: [Self; 5] = [Self::Wrong, Self::Survivor, Self::Claim, Self::Baseline, Self::Incomplete];
}

/// Something that does not conform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The ground.
    pub ground: Ground,
    /// Its subject.
    pub about: String,
    /// What is wrong.
    pub message: String,
    /// File and line (from 1) to look at.
    pub place: Option<(String, usize)>,
    /// Of a race: file and line of the other access.
    pub other_place: Option<(String, usize)>,
    /// For a trial: its family, its configuration and the stage that is wrong.
    pub trial: Option<(String, ConfigurationName, StageName)>,
}

impl Finding {
    /// Creates a finding without a place.
    #[must_use]
    pub const fn new(ground: Ground, about: String, message: String) -> Self {
        Self { ground, about, message, place: None, other_place: None, trial: None }
    }

    /// Formats it as `FILE:LINE: about: message`.
    #[must_use]
    pub fn line(&self) -> String {
        let place = self.place.as_ref().map_or_else(String::new, |(file, line)| format!("{file}:{line}: "));
        format!("{place}{}: {}", self.about, self.message)
    }
}
