//! The nearest accepted form of a refused instruction, from a data file; each is shown only where ptxas has accepted it in this run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use super::ask::Assemblers;
use super::module::siblings;
use super::result::{FileRow, Form, InsteadRow, ProblemRow};
use super::statement::instructions;
use crate::arch::{Suffix, Target};
use crate::header::{self, HeaderError};
use crate::matrix::{self, MatrixError, Options, Plan, Selection};
use crate::record::{Matrix, Outcome};
use crate::snippet::{Code, Filter, Library, Variant};
use crate::toolkit::Toolkit;

const TABLE: &str = include_str!("instead.yaml");

/// The least suffix that has a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Least {
    Base,
    F,
    A,
}

/// One word or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "serde_json::Value")]
struct Shows(Vec<String>);

impl From<serde_json::Value> for Shows {
    fn from(value: serde_json::Value) -> Self {
        let word = |v: &serde_json::Value| v.as_str().map(str::to_owned);
        Self(match &value {
            serde_json::Value::Array(list) => list.iter().filter_map(word).collect(),
            one => word(one).into_iter().collect(),
        })
    }
}

/// One row: instructions that SM12x refuses, and what it has.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instead {
    /// A regular expression over the instruction with its modifiers.
    #[serde(rename = "match")]
    pattern: String,
    /// Variants of snippets that show what is accepted.
    pub variants: Vec<String>,
    shows: Shows,
    from: Least,
    /// What else has to change.
    pub how: String,
    /// Who says so.
    pub source: String,
}

/// What is wrong with the table.
#[derive(Debug, thiserror::Error)]
pub enum InsteadError {
    /// It is no YAML of our form.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A pattern is no regular expression.
    #[error("`{pattern}` is no pattern: {source}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why.
        source: regex::Error,
    },
}

/// Every row of the built-in table with its pattern.
///
/// # Errors
/// [`InsteadError`], which a test excludes.
pub fn table() -> Result<Vec<(Regex, Instead)>, InsteadError> {
    let rows: Vec<Instead> = header::parse_file(Path::new("src/lint/instead.yaml"), TABLE)?;
    let compiled = |row: Instead| match Regex::new(&row.pattern) {
        Ok(pattern) => Ok((pattern, row)),
        Err(source) => Err(InsteadError::Pattern { pattern: row.pattern, source }),
    };
    rows.into_iter().map(compiled).collect()
}

impl Instead {
    /// The SM12x targets that accept every variant of the row.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        let has = |t: &Target| match self.from {
            Least::Base => true,
            Least::F => t.suffix != Suffix::Base,
            Least::A => t.suffix == Suffix::Arch,
        };
        Target::default_set().into_iter().filter(has).collect()
    }

    /// The instruction that a variant shows.
    #[must_use]
    pub fn shown(&self, variant: &Variant) -> Option<String> {
        let text = text_of(&variant.code);
        let forms = instructions(&text);
        self.shows.0.iter().find_map(|word| forms.iter().find(|f| f.starts_with(word.as_str())).cloned())
    }
}

fn text_of(code: &Code) -> String {
    match code {
        Code::Entry { before, after, .. } => format!("{before}v0{after}"),
        Code::Module { text, .. } => text.clone(),
    }
}

/// Adds accepted forms to problems.
pub(super) struct Advisor<'a> {
    assemblers: &'a Assemblers<'a>,
    library: &'a Library,
    table: Vec<(Regex, Instead)>,
}

impl<'a> Advisor<'a> {
    pub(super) fn new(assemblers: &'a Assemblers<'a>, library: &'a Library) -> Self {
        // A damaged table advises nothing, and a test says so.
        Self { assemblers, library, table: table().unwrap_or_default() }
    }

    /// Looks every refused instruction up, asks ptxas about the forms that the table names, and adds those it accepts.
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
        let filters = variants.iter().filter_map(|id| Filter::new(id).ok()).collect();
        let selection = Selection { targets: targets.into_iter().collect(), filters };
        let toolkits: &[&Toolkit] = self.assemblers.toolkits;
        let Ok(plan) = Plan::new(self.library, toolkits, &selection) else { return Ok(()) };
        let (store, sink) = (self.assemblers.store, self.assemblers.sink);
        let options = Options { time_limit: self.assemblers.limit, ..Options::default() };
        let (record, _) = matrix::run(self.library, &plan, toolkits, None, store, &options, sink)?;
        for problem in files.iter_mut().flat_map(|f| &mut f.modules).flat_map(|m| &mut m.problems) {
            if let Some(row) = self.row(problem) {
                problem.instead = self.rows(row, problem, &record.matrix);
            }
        }
        Ok(())
    }

    /// The table's row about a refused instruction; none where the words are about something else than what the target has.
    fn row(&self, problem: &ProblemRow) -> Option<&Instead> {
        if problem.instruction.is_empty() {
            return None;
        }
        self.table.iter().find(|(p, _)| p.is_match(&problem.instruction)).map(|(_, row)| row)
    }

    fn rows(&self, row: &Instead, problem: &ProblemRow, matrix: &Matrix) -> Vec<InsteadRow> {
        let mut out = Vec::new();
        for id in &row.variants {
            let Some(variant) = self.library.variants.iter().find(|v| v.id == *id) else { continue };
            let Some(cells) = matrix.variants.iter().find(|v| v.id == *id) else { continue };
            let Some(form) = row.shown(variant) else { continue };
            let mut accepted: BTreeMap<Target, Vec<String>> = BTreeMap::new();
            for (n, pair) in matrix.pairs.iter().enumerate().filter(|(_, p)| p.target == p.arch) {
                if matrix.cell(cells, n).is_some_and(|c| c.outcome == Outcome::Accepted) {
                    accepted.entry(pair.target).or_default().push(pair.toolkit.to_string());
                }
            }
            let mut by_toolkits: Vec<(Vec<String>, Vec<String>)> = Vec::new();
            for target in places(problem) {
                let Some(toolkits) = accepted.get(&target) else { continue };
                match by_toolkits.iter_mut().find(|(t, _)| t == toolkits) {
                    Some((_, targets)) => targets.push(target.to_string()),
                    None => by_toolkits.push((toolkits.clone(), vec![target.to_string()])),
                }
            }
            out.extend(by_toolkits.into_iter().map(|(toolkits, targets)| InsteadRow {
                targets,
                form: form.clone(),
                variant: id.clone(),
                toolkits,
                how: row.how.clone(),
                source: row.source.clone(),
            }));
        }
        out
    }
}

/// Where a form may stand in for a refused instruction: the targets that refuse it, and those of the same GPUs with a suffix.
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
