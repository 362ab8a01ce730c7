//! Suggests alternatives to rejected instructions from a data file; each is shown only if ptxas accepts it for the target.

use std::collections::BTreeSet;
use std::path::Path;

use ptx::arch::{Suffix, Target};
use regex::Regex;
use serde::Deserialize;

use super::ask::Assemblers;
use super::module::siblings;
use super::result::{FileRow, Form, InsteadRow, ProblemRow};
use crate::event::Event;
use crate::header::{self, HeaderError};
use crate::matrix::{self, MatrixError, Options, Plan, Selection};
use crate::record::Outcome;
use crate::snippet::{Code, Filter, Library, Variant};
use crate::store;
use crate::toolkit::Toolkit;
use ptx::scan::instructions;

const TABLE: &str = include_str!("instead.yaml");

/// Kind of the entries in the store that list accepted variants; the number changes with the format.
const KIND: &str = "lint-instead-1";

/// The variant, target and toolkit of an acceptance.
type Accepted = (String, String, String);

/// The minimum target suffix that a form requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Least {
    Base,
    F,
    A,
}

/// One row of the table: instructions that SM12x rejects, and their alternatives.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instead {
    /// A regular expression over the instruction with its modifiers.
    #[serde(rename = "match")]
    pattern: String,
    /// Snippet variants that demonstrate the alternatives.
    pub variants: Vec<String>,
    shows: Vec<String>,
    from: Least,
    /// Other changes that the alternative requires.
    pub how: String,
    /// The source of this information.
    pub source: String,
}

/// The reason why the table is invalid.
#[derive(Debug, thiserror::Error)]
pub enum InsteadError {
    /// It is not YAML in the expected format.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A pattern is not a regular expression.
    #[error("`{pattern}` is not a pattern: {source}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The underlying error.
        source: regex::Error,
    },
}

/// Returns every row of the built-in table with its compiled pattern.
///
/// # Errors
/// [`InsteadError`] if the table is invalid; a test checks that it is not.
pub fn table() -> Result<Vec<(Regex, Instead)>, InsteadError> {
    let rows: Vec<Instead> = header::parse_file(Path::new("src/lint/instead.yaml"), TABLE)?;
    let compiled = |row: Instead| match Regex::new(&row.pattern) {
        Ok(pattern) => Ok((pattern, row)),
        Err(source) => Err(InsteadError::Pattern { pattern: row.pattern, source }),
    };
    rows.into_iter().map(compiled).collect()
}

impl Instead {
    /// Returns the SM12x targets that accept every variant of the row.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        let has = |t: &Target| match self.from {
            Least::Base => true,
            Least::F => t.suffix != Suffix::Base,
            Least::A => t.suffix == Suffix::Arch,
        };
        Target::default_set().into_iter().filter(has).collect()
    }

    /// Returns the instruction that a variant demonstrates.
    #[must_use]
    pub fn shown(&self, variant: &Variant) -> Option<String> {
        let text = text_of(&variant.code);
        let forms = instructions(&text);
        self.shows.iter().find_map(|word| forms.iter().find(|f| f.starts_with(word.as_str())).cloned())
    }
}

fn text_of(code: &Code) -> String {
    match code {
        Code::Entry { before, after, .. } => format!("{before}v0{after}"),
        Code::Module { text, .. } => text.clone(),
    }
}

/// Adds accepted alternatives to problems.
pub(super) struct Advisor<'a> {
    assemblers: &'a Assemblers<'a>,
    library: &'a Library,
    table: Vec<(Regex, Instead)>,
}

impl<'a> Advisor<'a> {
    pub(super) fn new(assemblers: &'a Assemblers<'a>, library: &'a Library) -> Self {
        // An invalid table yields no suggestions; a test checks that it is valid.
        Self { assemblers, library, table: table().unwrap_or_default() }
    }

    /// Looks up every rejected instruction, runs ptxas on the alternatives in the table, and adds those that it accepts.
    pub(super) fn advise(&self, files: &mut [FileRow]) -> Result<(), MatrixError> {
        let mut variants: BTreeSet<&str> = BTreeSet::new();
        let mut targets: BTreeSet<Target> = BTreeSet::new();
        for problem in files.iter().flat_map(|f| &f.modules).flat_map(|m| &m.problems) {
            if let Some(row) = self.row(problem) {
                variants.extend(row.variants.iter().map(String::as_str));
                targets.extend(places(problem));
            }
        }
        if variants.is_empty() {
            return Ok(());
        }
        let accepted = self.accepted(&variants, targets.into_iter().collect())?;
        for problem in files.iter_mut().flat_map(|f| &mut f.modules).flat_map(|m| &mut m.problems) {
            if let Some(row) = self.row(problem) {
                problem.instead = self.rows(row, problem, &accepted);
            }
        }
        Ok(())
    }

    /// Returns the acceptances of these variants for these targets, from the cache or by running ptxas.
    fn accepted(&self, ids: &BTreeSet<&str>, targets: Vec<Target>) -> Result<Vec<Accepted>, MatrixError> {
        let (store, sink) = (self.assemblers.store, self.assemblers.sink);
        let toolkits: &[&Toolkit] = self.assemblers.toolkits;
        let mut identity: Vec<String> = toolkits.iter().map(|t| t.sha256.clone()).collect();
        identity.extend(targets.iter().map(ToString::to_string));
        identity
            .extend(ids.iter().filter_map(|id| Some(format!("{id} {}", self.variant(id)?.code.identity()))));
        let key = store::sha256(identity.join("\0").as_bytes())[..40].to_owned();
        let kept = store.and_then(|store| serde_json::from_slice(&store.get(KIND, &key)?).ok());
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let filters = ids.iter().filter_map(|id| Filter::new(id).ok()).collect();
        let Ok(plan) = Plan::new(self.library, toolkits, &Selection { targets, filters }) else {
            return Ok(Vec::new());
        };
        let options = Options { time_limit: self.assemblers.limit, ..Options::default() };
        let matrix = matrix::run(self.library, &plan, toolkits, None, store, &options, sink)?.0.matrix;
        let mut out: Vec<Accepted> = Vec::new();
        let mut lasts = true;
        for row in &matrix.variants {
            for (n, pair) in matrix.pairs.iter().enumerate().filter(|(_, p)| p.target == p.arch) {
                let Some(cell) = matrix.cell(row, n) else { continue };
                lasts &= !matches!(cell.outcome, Outcome::Crashed | Outcome::TimedOut);
                if cell.outcome == Outcome::Accepted {
                    out.push((row.id.clone(), pair.target.to_string(), pair.toolkit.to_string()));
                }
            }
        }
        if let Some(store) = store.filter(|_| lasts)
            && let Err(error) = store.put(KIND, &key, &serde_json::to_vec(&out).unwrap_or_default())
        {
            sink.emit(Event::Warning { text: error.to_string() });
        }
        Ok(out)
    }

    fn variant(&self, id: &str) -> Option<&Variant> {
        self.library.variants.iter().find(|v| v.id == id)
    }

    /// Returns the table row for a rejected instruction; `None` if the problem has no instruction or no row matches.
    fn row(&self, problem: &ProblemRow) -> Option<&Instead> {
        if problem.instruction.is_empty() {
            return None;
        }
        self.table.iter().find(|(p, _)| p.is_match(&problem.instruction)).map(|(_, row)| row)
    }

    fn rows(&self, row: &Instead, problem: &ProblemRow, accepted: &[Accepted]) -> Vec<InsteadRow> {
        let mut out: Vec<InsteadRow> = Vec::new();
        for id in &row.variants {
            let Some(form) = self.variant(id).and_then(|v| row.shown(v)) else { continue };
            for target in places(problem) {
                let name = target.to_string();
                let by = accepted.iter().filter(|(v, t, _)| v == id && *t == name);
                let toolkits: Vec<String> = by.map(|(_, _, toolkit)| toolkit.clone()).collect();
                if toolkits.is_empty() {
                    continue;
                }
                match out.iter_mut().find(|r| r.variant == *id && r.toolkits == toolkits) {
                    Some(same) => same.targets.push(name),
                    None => out.push(InsteadRow {
                        targets: vec![name],
                        form: form.clone(),
                        variant: id.clone(),
                        toolkits,
                        how: row.how.clone(),
                        source: row.source.clone(),
                    }),
                }
            }
        }
        out
    }
}

/// Returns the targets for alternatives: those that reject the instruction, and those of the same GPUs with more features.
fn places(problem: &ProblemRow) -> BTreeSet<Target> {
    let mut out: BTreeSet<Target> = BTreeSet::new();
    for refusal in &problem.refused {
        if refusal.target.is_sm12x() && matches!(refusal.form, Form::Written | Form::Rewritten) {
            out.insert(refusal.target);
            out.extend(siblings(refusal.target));
        }
    }
    out
}
