//! Known failures: a YAML file of expectations with scope, verdict, reason, URL and expiry date.

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
use crate::record::{CellAnswer, Check, ConfigurationName, Native, Outcome, Verdict};

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

/// The scope of an expectation. An omitted field matches anything.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Where {
    variant: Option<Glob>,
    toolkit: Option<Glob>,
    target: Option<Glob>,
    device: Option<Glob>,
    case: Option<Glob>,
    #[serde(alias = "tile")]
    configuration: Option<Words>,
    #[serde(alias = "rung")]
    check: Option<Glob>,
}

/// The expected answer. One word can name several answers: `crashed` is an outcome of an assembler and a verdict of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedAnswer {
    word: &'static str,
    /// The outcome of the assembler, for cells.
    outcome: Option<Outcome>,
    /// The implementation in machine code, for cells.
    native: Option<Native>,
    /// The answer for a tile, trial or check.
    fact: Option<FactAnswer>,
}

impl ExpectedAnswer {
    /// Returns every accepted word.
    fn words() -> impl Iterator<Item = &'static str> {
        let mut seen = BTreeSet::new();
        let outcomes = Outcome::ALL.iter().map(|o| o.word());
        let natives = NATIVES.into_iter().map(Native::word);
        let verdicts = Verdict::ALL.iter().map(|v| v.word());
        let all = outcomes.chain(natives).chain(verdicts).chain([FactAnswer::MayRun.word()]);
        all.filter(move |word| seen.insert(*word))
    }

    fn from_text(text: &str) -> Option<Self> {
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

/// The implementations that can be expected; `unknown` cannot.
const NATIVES: [Native; 3] = [Native::Native, Native::Split, Native::Emulated];

impl fmt::Display for ExpectedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}

impl<'de> Deserialize<'de> for ExpectedAnswer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        Self::from_text(&word).ok_or_else(|| {
            let known: Vec<&str> = Self::words().collect();
            D::Error::custom(format!("`{word}` is not a verdict; use one of {}", known.join(" ")))
        })
    }
}

/// An expectation.
#[derive(Debug, Clone)]
pub struct Expectation {
    scope: Where,
    /// The expected answer.
    pub verdict: ExpectedAnswer,
    /// The reason.
    pub reason: String,
    /// The URL of the report.
    pub url: String,
    /// The last day on which it is valid.
    pub expires: Date,
    /// The line of the file on which it begins; 1 if unknown.
    pub line: usize,
}

impl Expectation {
    /// Whether its scope includes a cell.
    #[must_use]
    pub fn speaks_of_cell(&self, variant: &str, toolkit: ToolkitVersion, target: Target) -> bool {
        let s = &self.scope;
        let others = s.device.is_some() || s.case.is_some() || s.configuration.is_some() || s.check.is_some();
        !others
            && s.variant.as_ref().is_some_and(|g| g.matches(variant))
            && is_toolkit(s.toolkit.as_ref(), &toolkit.to_string())
            && is(s.target.as_ref(), &target.to_string())
    }

    /// Whether a cell has the expected answer.
    #[must_use]
    pub fn holds_of_cell(&self, answer: CellAnswer) -> bool {
        let Self { verdict: expected, .. } = self;
        expected.outcome == Some(answer.outcome)
            || (expected.native.is_some() && expected.native == answer.native)
    }

    /// Whether its scope includes an answer other than a cell.
    #[must_use]
    pub fn speaks_of(&self, subject: &Subject) -> bool {
        let s = &self.scope;
        let may_run = Some(FactAnswer::MayRun);
        let of_kind = match subject {
            // Whether a tile may run is independent of the verdicts of its trials.
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
            && s.configuration
                .as_ref()
                .is_none_or(|words| subject.configuration().is_some_and(|of| words.match_all(of)))
            && is(s.check.as_ref(), subject.check().map_or("", Check::word))
    }

    /// Whether an answer is the expected one.
    #[must_use]
    pub fn holds_of(&self, fact: &Fact) -> bool {
        self.verdict.fact == Some(fact.answer)
    }

    /// Returns the scope as written: `variant: mma.*, target: sm_121a`.
    #[must_use]
    pub fn about(&self) -> String {
        let s = &self.scope;
        let text = |glob: &Option<Glob>| glob.as_ref().map(|g| g.text().to_owned());
        let parts = [
            ("variant", text(&s.variant)),
            ("toolkit", text(&s.toolkit)),
            ("target", text(&s.target)),
            ("device", text(&s.device)),
            ("case", text(&s.case)),
            ("configuration", s.configuration.as_ref().map(ToString::to_string)),
            ("check", text(&s.check)),
        ];
        let of = |(name, text): (&str, Option<String>)| text.map(|text| format!("{name}: {text}"));
        parts.into_iter().filter_map(of).collect::<Vec<_>>().join(", ")
    }
}

fn is(glob: Option<&Glob>, name: &str) -> bool {
    glob.is_none_or(|g| g.matches(name))
}

/// The words that a configuration must have, each a glob.
#[derive(Debug, Clone)]
struct Words(Vec<Glob>);

impl Words {
    fn match_all(&self, configuration: &ConfigurationName) -> bool {
        self.0.iter().all(|glob| configuration.words().any(|word| glob.matches(word)))
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let globs =
            String::deserialize(from)?.split_whitespace().map(Glob::new).collect::<Result<Vec<_>, _>>();
        match globs.map_err(D::Error::custom)? {
            empty if empty.is_empty() => {
                Err(D::Error::custom("an empty configuration: omit the key to match every one"))
            }
            globs => Ok(Self(globs)),
        }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(Glob::text).collect::<Vec<_>>().join(" "))
    }
}

/// Matches a toolkit; `13.5` matches every release of 13.5.
fn is_toolkit(glob: Option<&Glob>, version: &str) -> bool {
    glob.is_none_or(|g| {
        g.matches(version) || version.strip_prefix(g.text()).is_some_and(|r| r.starts_with('.'))
    })
}

/// Reads the expectations of a file.
///
/// # Errors
/// [`EntriesError`] with file and line.
pub fn read(path: &Path) -> Result<Vec<Expectation>, EntriesError> {
    parse(path, &header::read_text(path, "an expectations file")?)
}

/// Parses expectations; `path` is used in error messages.
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
    if s.variant.is_none() && s.case.is_none() && s.configuration.is_none() && s.device.is_none() {
        return Err(wrong(
            "the scope names no `variant`, `case`, `configuration` or `device`: it would excuse everything",
        ));
    }
    if s.variant.is_some() && (s.case.is_some() || s.configuration.is_some()) {
        return Err(wrong(
            "`variant` is for cells, `case` and `configuration` are for trials: write two expectations",
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
