//! Suggests alternatives to rejected instructions from a data file; each is shown only if ptxas accepts it for the target.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

use emulator::Modifiers;
use ptx::arch::{PtxIsa, Suffix, Target};
use ptx::scan::instructions;
use regex::Regex;
use serde::Deserialize;

use super::ask::Assemblers;
use super::module::siblings;
use super::nearest::{NONE, Near, candidates, nearest, remedy, tried};
use super::phrase::version_of_form;
use super::result::{FileRow, Form, InsteadRow, ProblemRow};
use super::source::{Module, Source};
use super::trial::Trial;
use crate::event::Event;
use crate::header::{self, HeaderError};
use crate::matrix::{self, MatrixError, Options, Plan, Selection};
use crate::record::Outcome;
use crate::snippet::{Code, Filter, Library, Variant};
use crate::store;
use crate::toolkit::Toolkit;

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

/// Returns the text of a variant.
pub(crate) fn text_of(code: &Code) -> String {
    match code {
        Code::Entry { before, after, .. } => format!("{before}v0{after}"),
        Code::Module { text, .. } => text.clone(),
    }
}

/// Kinds of messages that ptxas may print of a form that PTX lacks for every target.
const NO_FORM: [&str; 8] = [
    "unknown_word",
    "syntax",
    "modifier_missing",
    "modifier_illegal",
    "type_illegal",
    "shape_illegal",
    "state_space_illegal",
    "operands_illegal",
];

/// What is said of the forms that the matrix has.
const NEAREST: (&str, &str) =
    ("the nearest form that PTX has", "the snippets of the matrix, asked in this run");

/// Adds accepted alternatives to problems.
pub(super) struct Advisor<'a> {
    assemblers: &'a Assemblers<'a>,
    library: &'a Library,
    table: Vec<(Regex, Instead)>,
    /// The instructions of the snippets, each with its variant, once they are needed.
    forms: OnceLock<Vec<(&'a str, String)>>,
}

impl<'a> Advisor<'a> {
    pub(super) fn new(assemblers: &'a Assemblers<'a>, library: &'a Library) -> Self {
        // An invalid table yields no suggestions; a test checks that it is valid.
        Self { assemblers, library, table: table().unwrap_or_default(), forms: OnceLock::new() }
    }

    /// Returns the instructions of the snippets, each with its variant.
    fn forms(&self) -> &[(&'a str, String)] {
        let of =
            |v: &'a Variant| instructions(&text_of(&v.code)).into_iter().map(|form| (v.id.as_str(), form));
        self.forms.get_or_init(|| self.library.variants.iter().flat_map(of).collect())
    }

    /// Returns the forms near to an instruction that PTX lacks; ptxas decides whether it has them.
    fn near(&self, problem: &ProblemRow) -> Vec<Near<'a>> {
        let Some(Modifiers::Near(table)) = no_form(problem) else { return Vec::new() };
        let mut messages = vec![problem.message.as_str()];
        messages.extend(problem.also.iter().map(String::as_str));
        candidates(&problem.instruction, &messages, self.forms(), &table)
    }

    /// Looks up every rejected instruction of files read from `sources`, runs ptxas on the alternatives in the table, and adds those that it
    /// accepts.
    pub(super) fn advise(
        &self,
        files: &mut [FileRow],
        sources: &[Source],
        scratch: &Path,
    ) -> Result<(), MatrixError> {
        let mut variants: BTreeSet<&str> = BTreeSet::new();
        let mut targets: BTreeSet<Target> = BTreeSet::new();
        for problem in files.iter().flat_map(|f| &f.modules).flat_map(|m| &m.problems) {
            if let Some(row) = self.row(problem) {
                variants.extend(row.variants.iter().map(String::as_str));
                targets.extend(places(problem));
            }
            let near = self.near(problem);
            if !near.is_empty() {
                variants.extend(near.iter().filter_map(|near| near.variant));
                targets.extend(places(problem));
            }
        }
        let accepted = if variants.is_empty() {
            Vec::new()
        } else {
            self.accepted(&variants, targets.into_iter().collect())?
        };
        let modules = sources.iter().flat_map(|source| &source.modules);
        for (row, module) in files.iter_mut().flat_map(|f| &mut f.modules).zip(modules) {
            for problem in &mut row.problems {
                match no_form(problem) {
                    Some(Modifiers::Near(_)) => self.name_nearest(problem, module, scratch, &accepted),
                    Some(Modifiers::Since(version)) => self.name_version(problem, version),
                    None => {}
                }
                if let Some(row) = self.row(problem) {
                    problem.instead = self.rows(row, problem, &accepted);
                }
            }
        }
        Ok(())
    }

    /// Says what PTX has instead of a form that it lacks, which is more than the general remedy: the fewest changes that ptxas accepts in the
    /// instruction's place, or else the nearest snippets, whose operands may differ.
    fn name_nearest(&self, problem: &mut ProblemRow, module: &Module, scratch: &Path, accepted: &[Accepted]) {
        let near = self.near(problem);
        let rows = |near: &Near<'_>| {
            let variant = near.variant.unwrap_or_default();
            accepted_rows(variant, &near.form, NEAREST, problem, accepted)
        };
        if near.iter().any(|near| near.is_it() && !rows(near).is_empty()) {
            return;
        }
        let trial = Trial::for_problem(problem, module, self.assemblers, scratch);
        let in_place = trial.map(|trial| tried(&near, |form| trial.accepts(form))).unwrap_or_default();
        let proposals = in_place.accepted.iter().map(|near| near.form.clone()).collect();
        let mut named = in_place.accepted;
        if named.is_empty() {
            named = nearest(&near, |near| !rows(near).is_empty());
        }
        let instead = named.iter().flat_map(|near| rows(near)).collect();
        problem.proposals = proposals;
        if !named.is_empty() {
            problem.remedy = Some(remedy(&named));
        } else if in_place.all {
            problem.remedy = Some(NONE.to_owned());
        }
        problem.instead = instead;
    }

    /// Names the version of PTX that introduced a form, if every toolkit that refuses it is older.
    fn name_version(&self, problem: &mut ProblemRow, version: PtxIsa) {
        let refusing = |toolkit: &&&Toolkit| {
            let name = toolkit.version.to_string();
            problem.refused.iter().any(|refusal| refusal.toolkits.contains(&name))
        };
        let newest = self.assemblers.toolkits.iter().rfind(refusing);
        if newest.is_some_and(|toolkit| toolkit.isa < version) {
            problem.remedy = Some(version_of_form(version));
        }
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
            if let Some(form) = self.variant(id).and_then(|v| row.shown(v)) {
                out.extend(accepted_rows(id, &form, (&row.how, &row.source), problem, accepted));
            }
        }
        out
    }
}

/// What the table of forms says of an instruction of which ptxas says that PTX has no such form.
fn no_form(problem: &ProblemRow) -> Option<Modifiers> {
    let said = problem.kind.is_some_and(|kind| NO_FORM.contains(&kind));
    said.then(|| emulator::modifiers(&problem.instruction)).flatten()
}

/// The rows of an alternative, by the toolkits that accept it.
fn accepted_rows(
    id: &str,
    form: &str,
    (how, source): (&str, &str),
    problem: &ProblemRow,
    accepted: &[Accepted],
) -> Vec<InsteadRow> {
    let mut out: Vec<InsteadRow> = Vec::new();
    for target in places(problem) {
        let name = target.to_string();
        let by = accepted.iter().filter(|(v, t, _)| v == id && *t == name);
        let toolkits: Vec<String> = by.map(|(_, _, toolkit)| toolkit.clone()).collect();
        if toolkits.is_empty() {
            continue;
        }
        match out.iter_mut().find(|r| r.toolkits == toolkits) {
            Some(same) => same.targets.push(name),
            None => out.push(InsteadRow {
                targets: vec![name],
                form: form.to_owned(),
                variant: id.to_owned(),
                toolkits,
                how: how.to_owned(),
                source: source.to_owned(),
            }),
        }
    }
    out
}

/// Returns the targets for alternatives: those that reject the instruction, and those of the same GPUs with more features.
pub(super) fn places(problem: &ProblemRow) -> BTreeSet<Target> {
    let mut out: BTreeSet<Target> = BTreeSet::new();
    for refusal in &problem.refused {
        if refusal.target.is_sm12x() && matches!(refusal.form, Form::Written | Form::Rewritten) {
            out.insert(refusal.target);
            out.extend(siblings(refusal.target));
        }
    }
    out
}
