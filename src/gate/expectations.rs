//! What is expected of a run although it is wrong: a YAML file with scopes, verdicts, reasons, addresses and days of expiry.

use std::path::{Path, PathBuf};

use ptx::arch::{Target, ToolkitVersion};
use serde::{Deserialize, Deserializer, de::Error};

use super::cells::CellAnswer;
use super::date::Date;
use super::facts::{Fact, Kind, Scope};
use super::glob::Glob;
use crate::header::{self, HeaderError};
use crate::record::{Native, Outcome, Verdict};

/// The largest file of expectations that is read, bytes.
const LARGEST: u64 = 1 << 20;

/// Why a file of expectations cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExpectationError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is too large.
    #[error("{}: {bytes} bytes exceed the limit of an expectations file ({LARGEST})", path.display())]
    Large {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// It is no such YAML.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// An entry asks for nothing.
    #[error("{}:{line}: {message}", path.display())]
    Meaning {
        /// The file.
        path: PathBuf,
        /// The line on which the entry begins.
        line: usize,
        /// What is wrong, and what to do.
        message: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    expectations: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    scope: Where,
    verdict: Word,
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
    rung: Option<Glob>,
}

/// A word of the closed sets of answers.
#[derive(Debug, Clone)]
struct Word(String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        let known: Vec<&str> = words().collect();
        if known.contains(&word.as_str()) {
            return Ok(Self(word));
        }
        Err(D::Error::custom(format!("`{word}` is not a verdict; use one of {}", known.join(" "))))
    }
}

/// Of cells what the assembler did or what the code shows, of tiles and trials the verdict.
fn words() -> impl Iterator<Item = &'static str> {
    let outcomes = Outcome::ALL.iter().map(|o| o.word());
    let natives = [Native::Native, Native::Split, Native::Emulated].into_iter().map(Native::word);
    let verdicts = Verdict::ALL.iter().map(|v| v.word()).filter(|w| !["crashed", "timed_out"].contains(w));
    outcomes.chain(natives).chain(verdicts).chain(["may_run"])
}

/// One expectation.
#[derive(Debug, Clone)]
pub struct Expectation {
    scope: Where,
    /// The answer expected, in its word.
    pub verdict: String,
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
        let others = s.device.is_some() || s.case.is_some() || s.tile.is_some() || s.rung.is_some();
        !others
            && s.variant.as_ref().is_some_and(|g| g.matches(variant))
            && is_toolkit(s.toolkit.as_ref(), &toolkit.to_string())
            && is(s.target.as_ref(), &target.to_string())
    }

    /// Whether a cell is as expected.
    #[must_use]
    pub fn holds_of_cell(&self, answer: CellAnswer) -> bool {
        answer.outcome.word() == self.verdict || answer.native.is_some_and(|n| n.word() == self.verdict)
    }

    /// Whether it speaks of another answer.
    #[must_use]
    pub fn speaks_of(&self, kind: Kind, scope: &Scope) -> bool {
        let s = &self.scope;
        let of_kind = match kind {
            // Whether a tile may run is another question than what its trials give.
            Kind::Tile => {
                s.case.is_none()
                    && s.device.is_none()
                    && s.variant.is_none()
                    && s.rung.is_none()
                    && ["may_run", "blocked"].contains(&self.verdict.as_str())
            }
            Kind::Trial => s.variant.is_none() && s.rung.is_none() && self.verdict != "may_run",
            Kind::Rung => s.variant.is_none() && s.rung.is_some(),
            Kind::Run => s.variant.is_some() && s.device.is_some(),
            Kind::Claim => false,
        };
        let rung = scope.way.rsplit(' ').next().unwrap_or_default();
        of_kind
            && is(s.variant.as_ref(), &scope.variant)
            && is_toolkit(s.toolkit.as_ref(), &scope.toolkit)
            && is(s.target.as_ref(), &scope.target)
            && is(s.device.as_ref(), &scope.device)
            && is(s.case.as_ref(), &scope.case)
            && is(s.tile.as_ref(), &scope.tile)
            && is(s.rung.as_ref(), rung)
    }

    /// Whether an answer is as expected.
    #[must_use]
    pub fn holds_of(&self, fact: &Fact) -> bool {
        fact.answer == self.verdict
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
            ("rung", &s.rung),
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
/// [`ExpectationError`] with file and line.
pub fn read(path: &Path) -> Result<Vec<Expectation>, ExpectationError> {
    let fail = |source| ExpectationError::Read { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(fail)?.len();
    if bytes > LARGEST {
        return Err(ExpectationError::Large { path: path.to_owned(), bytes });
    }
    parse(path, &std::fs::read_to_string(path).map_err(fail)?)
}

/// The expectations of a text; `path` is for errors.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Vec<Expectation>, ExpectationError> {
    let file: File = header::parse_file(path, text)?;
    let lines = beginnings(text);
    let mut out = Vec::new();
    for (n, entry) in file.expectations.into_iter().enumerate() {
        let line = lines.get(n).copied().unwrap_or(1);
        let wrong = |message: String| ExpectationError::Meaning { path: path.to_owned(), line, message };
        let s = &entry.scope;
        if s.variant.is_none() && s.case.is_none() && s.tile.is_none() && s.device.is_none() {
            return Err(wrong(
                "the scope names no `variant`, `case`, `tile` or `device`: it would excuse everything"
                    .to_owned(),
            ));
        }
        if s.variant.is_some() && (s.case.is_some() || s.tile.is_some()) {
            return Err(wrong(
                "`variant` is for cells, `case` and `tile` are for trials: write two expectations".to_owned(),
            ));
        }
        if entry.reason.trim().is_empty() {
            return Err(wrong("`reason` is empty: state the reason in a sentence".to_owned()));
        }
        if !entry.url.starts_with("https://") && !entry.url.starts_with("http://") {
            return Err(wrong(format!("`{}` is not a URL: give the address of the report", entry.url)));
        }
        out.push(Expectation {
            scope: entry.scope,
            verdict: entry.verdict.0,
            reason: entry.reason,
            url: entry.url,
            expires: entry.expires,
            line,
        });
    }
    Ok(out)
}

/// The lines on which the entries of a list in block style begin: those with a dash as far in as the first.
fn beginnings(text: &str) -> Vec<usize> {
    let dash = |line: &str| {
        let rest = line.trim_start();
        (rest == "-" || rest.starts_with("- ")).then(|| line.len() - rest.len())
    };
    let first = text.lines().find_map(dash);
    let of = |(n, line): (usize, &str)| (first.is_some() && dash(line) == first).then_some(n + 1);
    text.lines().enumerate().filter_map(of).collect()
}
