//! What is expected of a run although it is wrong: a YAML file with scopes, verdicts, reasons, addresses and days of expiry.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use ptx::arch::{Target, ToolkitVersion};
use serde::{Deserialize, Deserializer, de::Error};

use super::date::Date;
use super::facts::{Fact, FactAnswer};
use super::glob::Glob;
use super::subject::Subject;
use crate::header::{self, EntriesError, Placed};
use crate::record::{CellAnswer, Check, Native, Outcome, Verdict};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    expectations: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    scope: Where,
    verdict: ExpectedAnswer,
    reason: String,
    url: String,
    expires: Date,
}

/// What an expectation speaks of; what is left out is any.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Where {
    variant: Option<Glob>,
    toolkit: Option<Glob>,
    target: Option<Glob>,
    device: Option<Glob>,
    case: Option<Glob>,
    tile: Option<Glob>,
    #[serde(rename = "rung")]
    check: Option<Glob>,
}

/// The answer that an expectation names. One word may name several: `crashed` is what an assembler does and what a trial ends
/// with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedAnswer {
    word: &'static str,
    /// Of a cell: what the assembler did.
    outcome: Option<Outcome>,
    /// Of a cell: what the code shows.
    native: Option<Native>,
    /// Of a tile, a trial or a check.
    fact: Option<FactAnswer>,
}

impl ExpectedAnswer {
    /// Every word that may be written.
    fn words() -> impl Iterator<Item = &'static str> {
        let mut seen = BTreeSet::new();
        let outcomes = Outcome::ALL.iter().map(|o| o.word());
        let natives = NATIVES.into_iter().map(Native::word);
        let verdicts = Verdict::ALL.iter().map(|v| v.word());
        let all = outcomes.chain(natives).chain(verdicts).chain([FactAnswer::MayRun.word()]);
        all.filter(move |word| seen.insert(*word))
    }

    fn of(text: &str) -> Option<Self> {
        let word = Self::words().find(|word| *word == text)?;
        let verdict = Verdict::from_word(word).map(FactAnswer::Verdict);
        Some(Self {
            word,
            outcome: Outcome::ALL.iter().copied().find(|o| o.word() == word),
            native: NATIVES.into_iter().find(|n| n.word() == word),
            fact: verdict.or_else(|| (word == FactAnswer::MayRun.word()).then_some(FactAnswer::MayRun)),
        })
    }
}

/// What code is expected to show: that it is not known is not an expectation.
const NATIVES: [Native; 3] = [Native::Native, Native::Split, Native::Emulated];

impl fmt::Display for ExpectedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}

impl<'de> Deserialize<'de> for ExpectedAnswer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        Self::of(&word).ok_or_else(|| {
            let known: Vec<&str> = Self::words().collect();
            D::Error::custom(format!("`{word}` is not a verdict; use one of {}", known.join(" ")))
        })
    }
}

/// One expectation.
#[derive(Debug, Clone)]
pub struct Expectation {
    scope: Where,
    /// The answer expected.
    pub verdict: ExpectedAnswer,
    /// Why.
    pub reason: String,
    /// Where it is reported.
    pub url: String,
    /// The last day on which it is believed.
    pub expires: Date,
    /// The line of the file on which it begins; the first line where that cannot be told.
    pub line: usize,
}

impl Expectation {
    /// Whether it speaks of a cell.
    #[must_use]
    pub fn speaks_of_cell(&self, variant: &str, toolkit: ToolkitVersion, target: Target) -> bool {
        let s = &self.scope;
        let others = s.device.is_some() || s.case.is_some() || s.tile.is_some() || s.check.is_some();
        !others
            && s.variant.as_ref().is_some_and(|g| g.matches(variant))
            && is_toolkit(s.toolkit.as_ref(), &toolkit.to_string())
            && is(s.target.as_ref(), &target.to_string())
    }

    /// Whether a cell is as expected.
    #[must_use]
    pub fn holds_of_cell(&self, answer: CellAnswer) -> bool {
        let Self { verdict: expected, .. } = self;
        expected.outcome == Some(answer.outcome)
            || (expected.native.is_some() && expected.native == answer.native)
    }

    /// Whether it speaks of another answer.
    #[must_use]
    pub fn speaks_of(&self, subject: &Subject) -> bool {
        let s = &self.scope;
        let may_run = Some(FactAnswer::MayRun);
        let of_kind = match subject {
            // Whether a tile may run is another question than what its trials give.
            Subject::Tile(_) => {
                s.case.is_none()
                    && s.device.is_none()
                    && s.variant.is_none()
                    && s.check.is_none()
                    && [may_run, Some(FactAnswer::Verdict(Verdict::Blocked))].contains(&self.verdict.fact)
            }
            Subject::Trial(_) => s.variant.is_none() && s.check.is_none() && self.verdict.fact != may_run,
            Subject::Check(..) => s.variant.is_none() && s.check.is_some(),
            Subject::Run(..) => s.variant.is_some() && s.device.is_some(),
            Subject::Claim(_) => false,
        };
        of_kind
            && is(s.variant.as_ref(), subject.variant())
            && is_toolkit(s.toolkit.as_ref(), &subject.toolkit())
            && is(s.target.as_ref(), &subject.target())
            && is(s.device.as_ref(), subject.device())
            && is(s.case.as_ref(), subject.case())
            && is(s.tile.as_ref(), &subject.tile())
            && is(s.check.as_ref(), subject.check().map_or("", Check::word))
    }

    /// Whether an answer is as expected.
    #[must_use]
    pub fn holds_of(&self, fact: &Fact) -> bool {
        self.verdict.fact == Some(fact.answer)
    }

    /// What it speaks of, as it was written: `variant: mma.*, target: sm_121a`.
    #[must_use]
    pub fn about(&self) -> String {
        let s = &self.scope;
        let parts = [
            ("variant", &s.variant),
            ("toolkit", &s.toolkit),
            ("target", &s.target),
            ("device", &s.device),
            ("case", &s.case),
            ("tile", &s.tile),
            ("rung", &s.check),
        ];
        let of = |(name, glob): (&str, &Option<Glob>)| glob.as_ref().map(|g| format!("{name}: {}", g.text()));
        parts.into_iter().filter_map(of).collect::<Vec<_>>().join(", ")
    }
}

fn is(glob: Option<&Glob>, name: &str) -> bool {
    glob.is_none_or(|g| g.matches(name))
}

/// 13.5 is every release of 13.5, as everywhere.
fn is_toolkit(glob: Option<&Glob>, version: &str) -> bool {
    glob.is_none_or(|g| {
        g.matches(version) || version.strip_prefix(g.text()).is_some_and(|r| r.starts_with('.'))
    })
}

/// The expectations of a file.
///
/// # Errors
/// [`EntriesError`] with file and line.
pub fn read(path: &Path) -> Result<Vec<Expectation>, EntriesError> {
    parse(path, &header::read_text(path, "an expectations file")?)
}

/// The expectations of a text; `path` is for errors.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Vec<Expectation>, EntriesError> {
    let entries = header::parse_entries(path, text, |file: File| file.expectations)?;
    entries.into_iter().map(|placed| expectation(path, placed)).collect()
}

fn expectation(path: &Path, placed: Placed<Entry>) -> Result<Expectation, EntriesError> {
    let wrong = |message: &str| placed.wrong(path, message);
    let Entry { scope: s, reason, url, .. } = &placed.entry;
    if s.variant.is_none() && s.case.is_none() && s.tile.is_none() && s.device.is_none() {
        return Err(wrong(
            "the scope names no `variant`, `case`, `tile` or `device`: it would excuse everything",
        ));
    }
    if s.variant.is_some() && (s.case.is_some() || s.tile.is_some()) {
        return Err(wrong(
            "`variant` is for cells, `case` and `tile` are for trials: write two expectations",
        ));
    }
    if reason.trim().is_empty() {
        return Err(wrong("`reason` is empty: state the reason in a sentence"));
    }
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err(wrong(&format!("`{url}` is not a URL: give the address of the report")));
    }
    let Placed { entry: Entry { scope, verdict, reason, url, expires }, line } = placed;
    Ok(Expectation { scope, verdict, reason, url, expires, line })
}
