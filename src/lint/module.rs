//! Lints one module for all toolkits and targets: results, conformance, changes that make it accepted, and problems by line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use ptx::arch::{PtxIsa, Suffix, Target};
use regex::Regex;

use super::ask::{Answer, Assemblers, Desk, Question, Said, of_file};
use super::instead::Advisor;
use super::known::known;
use super::phrase;
use super::result::{
    CellRow, CureRow, FileRow, Form, Lint, ModuleRow, ProblemRow, RefusalRow, Require, WarningRow,
};
use super::source::{Module, Source};
use super::statement::offence;
use crate::matrix::{self, MatrixError};
use crate::record::Outcome;
use crate::snippet::Library;

/// Version of the JSON.
const SCHEMA: u32 = 1;

/// The options of a lint run.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The targets, each passed as `-arch`.
    pub targets: Vec<Target>,
    /// Whether the user named the targets. If not, conformance ignores targets that a module's `.target` cannot be assembled for.
    pub named: bool,
    /// The condition for conformance.
    pub require: Require,
    /// Whether every rejected line is reported, or only the first of each result.
    pub all_errors: bool,
}

/// Lints files. `unusable` describes the files that could not be read.
///
/// # Errors
/// [`MatrixError`] if no temporary folder can be created or the check of alternatives fails; a failure of ptxas is a result.
pub fn lint(
    sources: &[Source],
    unusable: Vec<String>,
    asked: &Asked,
    assemblers: &Assemblers<'_>,
    library: &Library,
) -> Result<Lint, MatrixError> {
    let scratch = matrix::scratch(assemblers.store).map_err(MatrixError::Scratch)?;
    let mut files = Vec::new();
    for source in sources {
        let of = |module| one(module, asked, assemblers, scratch.path());
        let modules = source.modules.iter().map(of).collect();
        files.push(FileRow { file: source.file.clone(), notes: source.notes.clone(), modules });
    }
    Advisor::new(assemblers, library).advise(&mut files, sources, scratch.path())?;
    for (file, source) in files.iter_mut().zip(sources) {
        let Some(cuda) = &source.cuda else { continue };
        for problem in file.modules.iter_mut().flat_map(|module| &mut module.problems) {
            problem.cuda = problem.line.and_then(|line| cuda.line(&source.text, line));
        }
    }
    let conforms = unusable.is_empty() && files.iter().flat_map(|f| &f.modules).all(|m| m.misses.is_empty());
    Ok(Lint {
        schema: SCHEMA,
        toolkits: assemblers.toolkits.iter().map(|t| t.version.to_string()).collect(),
        targets: asked.targets.iter().map(ToString::to_string).collect(),
        require: asked.require,
        conforms,
        files,
        unusable,
    })
}

/// One module with its options and results.
struct Bench<'a> {
    module: &'a Module,
    asked: &'a Asked,
    desk: Desk<'a>,
}

fn one(module: &Module, asked: &Asked, assemblers: &Assemblers<'_>, scratch: &Path) -> ModuleRow {
    let mut bench = Bench { module, asked, desk: Desk::new(assemblers, module, scratch) };
    let mut first = Vec::new();
    for target in &asked.targets {
        for toolkit in 0..assemblers.toolkits.len() {
            first.extend(bench.forms().iter().map(|form| bench.question(toolkit, *target, *form, *target)));
        }
    }
    bench.desk.ask(first);
    let cures = asked.targets.iter().flat_map(|target| bench.cures(*target)).collect();
    let cells = bench.cells();
    let misses = bench.misses(&cells);
    let (problems, further_lines) = bench.problems();
    ModuleRow {
        first_line: module.first_line,
        last_line: module.last_line,
        version: module.version.clone(),
        target: module.target.clone(),
        misses,
        cells,
        cures,
        problems,
        further_lines,
        known: known(module, &asked.targets, assemblers),
    }
}

/// Returns the targets of the same GPU with more features, the most portable first.
pub(super) fn siblings(target: Target) -> impl Iterator<Item = Target> {
    let more: &[Suffix] = match target.suffix {
        Suffix::Base => &[Suffix::Family, Suffix::Arch],
        Suffix::Family => &[Suffix::Arch],
        Suffix::Arch => &[],
    };
    more.iter().map(move |suffix| Target { number: target.number, suffix: *suffix })
}

impl Bench<'_> {
    fn toolkits(&self) -> usize {
        self.desk.assemblers.toolkits.len()
    }

    /// The forms that are asked: a compiler chose the `.version` and `.target` of what it compiled, so these are rewritten.
    const fn forms(&self) -> &'static [Form] {
        if self.module.is_compiled { &[Form::Rewritten] } else { &[Form::Written, Form::Rewritten] }
    }

    /// The form that conformance depends on.
    const fn demanded(&self) -> Form {
        match self.asked.require {
            Require::Rewritten => Form::Rewritten,
            Require::All | Require::Newest | Require::Any if self.module.is_compiled => Form::Rewritten,
            Require::All | Require::Newest | Require::Any => Form::Written,
        }
    }

    /// Returns the query for a form; `to` is the `.target` for forms that change it.
    fn question(&self, toolkit: usize, arch: Target, form: Form, to: Target) -> Question {
        let own = self.desk.assemblers.toolkits[toolkit].isa;
        let (version, target, arch) = match form {
            Form::Written => (None, None, arch),
            Form::Version => (Some(own), None, arch),
            Form::Target => (None, Some(to), arch),
            Form::Rewritten => (Some(own), Some(to), arch),
            Form::Suffix => (None, Some(to), to),
            Form::SuffixAndVersion => (Some(own), Some(to), to),
        };
        Question { toolkit, version, target, arch }
    }

    fn knows(&self, toolkit: usize, target: Target) -> bool {
        self.desk.assemblers.toolkits[toolkit].knows(target)
    }

    fn accepted(&self, question: Question) -> bool {
        self.desk.get(question).is_some_and(|a| a.outcome == Outcome::Accepted)
    }

    /// Finds, for each toolkit that rejects the module as written, the smallest change with which it accepts it.
    fn cures(&mut self, target: Target) -> Vec<CureRow> {
        let mut refused: Vec<usize> = (0..self.toolkits())
            .filter(|t| {
                let given = self.question(*t, target, self.forms()[0], target);
                self.knows(*t, target) && !self.accepted(given)
            })
            .collect();
        let mut ways = vec![(Form::Version, target), (Form::Target, target), (Form::Rewritten, target)];
        ways.extend(siblings(target).map(|s| (Form::Suffix, s)));
        ways.extend(siblings(target).map(|s| (Form::SuffixAndVersion, s)));
        let mut out = Vec::new();
        for (form, to) in ways {
            let ask: Vec<(usize, Question)> =
                refused.iter().map(|t| (*t, self.question(*t, target, form, to))).collect();
            self.desk.ask(ask.iter().map(|(_, q)| *q));
            let works: Vec<usize> = ask.iter().filter(|(_, q)| self.accepted(*q)).map(|(t, _)| *t).collect();
            let Some(newest) = works.last() else { continue };
            let changes_target = !matches!(form, Form::Version);
            let changes_version = matches!(form, Form::Version | Form::Rewritten | Form::SuffixAndVersion);
            let question = self.question(*newest, target, form, to);
            refused.retain(|t| !works.contains(t));
            out.push(CureRow {
                target,
                form,
                write_target: changes_target.then(|| to.to_string()),
                write_version: changes_version.then(|| self.lowest(question).to_string()),
                toolkits: works.iter().map(|t| self.version(*t)).collect(),
            });
        }
        out
    }

    /// Returns the lowest PTX version above the module's with which an accepted query is still accepted; the toolkit's own if the
    /// module's is newer.
    fn lowest(&mut self, question: Question) -> PtxIsa {
        let own = self.desk.assemblers.toolkits[question.toolkit].isa;
        let written = self.module.isa().unwrap_or(own);
        let target = question.target.or(self.module.known_target()).and_then(Target::first_isa);
        for version in written.up_to(own).filter(|version| target.is_none_or(|first| first <= *version)) {
            let lower = Question { version: Some(version), ..question };
            self.desk.ask([lower]);
            if self.accepted(lower) {
                return version;
            }
        }
        own
    }

    fn version(&self, toolkit: usize) -> String {
        self.desk.assemblers.toolkits[toolkit].version.to_string()
    }

    /// Whether a target applies to the module: the user named targets, or the module's `.target` can be assembled for it.
    fn is_meant_for(&self, target: Target) -> bool {
        self.asked.named || self.module.known_target().is_none_or(|own| own.may_assemble_for(target))
    }

    fn cells(&self) -> Vec<CellRow> {
        let mut out = Vec::new();
        for target in &self.asked.targets {
            for form in self.forms().iter().copied() {
                for (t, toolkit) in self.desk.assemblers.toolkits.iter().enumerate() {
                    let Some(answer) = self.desk.get(self.question(t, *target, form, *target)) else {
                        continue;
                    };
                    let first = answer.errors.first().map(|e| of_file(e, self.module.first_line));
                    let (line, message) = first.unwrap_or_default();
                    let warnings = answer.warnings.iter().map(|w| {
                        let (line, message) = of_file(w, self.module.first_line);
                        WarningRow { line, message }
                    });
                    out.push(CellRow {
                        toolkit: toolkit.version,
                        target: *target,
                        form,
                        outcome: answer.outcome,
                        counts: self.counts(t, *target, form),
                        errors: answer.errors.len(),
                        line,
                        kind: matrix::meaning(&message).map(|m| m.kind),
                        message,
                        warnings: warnings.collect(),
                    });
                }
            }
        }
        out
    }

    /// Whether conformance depends on a result.
    fn counts(&self, toolkit: usize, target: Target, form: Form) -> bool {
        let newest = (0..self.toolkits()).rfind(|t| self.knows(*t, target));
        let one_of = match self.asked.require {
            Require::All | Require::Any => self.knows(toolkit, target),
            Require::Newest | Require::Rewritten => Some(toolkit) == newest,
        };
        // A rewritten module applies to every target.
        let meant = self.asked.require == Require::Rewritten || self.is_meant_for(target);
        form == self.demanded() && one_of && meant
    }

    /// Returns why the module does not conform, one sentence per target.
    fn misses(&self, cells: &[CellRow]) -> Vec<String> {
        let mut out = Vec::new();
        let mut demanded = false;
        for target in &self.asked.targets {
            let counted: Vec<&CellRow> = cells.iter().filter(|c| c.target == *target && c.counts).collect();
            let refused: Vec<&CellRow> =
                counted.iter().copied().filter(|c| c.outcome != Outcome::Accepted).collect();
            demanded |= !counted.is_empty();
            if counted.is_empty() && self.asked.named {
                out.push(format!("{target}: no toolkit knows it"));
            }
            let failed = match self.asked.require {
                Require::Any => !counted.is_empty() && refused.len() == counted.len(),
                _ => !refused.is_empty(),
            };
            if failed {
                let form = if self.demanded() == Form::Rewritten { "rewritten" } else { "as written" };
                let versions: Vec<String> = refused.iter().map(|c| c.toolkit.to_string()).collect();
                let all: Vec<String> =
                    self.desk.assemblers.toolkits.iter().map(|t| t.version.to_string()).collect();
                out.push(format!("{target}: not accepted {form} by {}", phrase::ranges(&versions, &all)));
            }
        }
        if !demanded && out.is_empty() {
            let own = self.module.target.as_deref().unwrap_or("none");
            let targets: Vec<String> = self.asked.targets.iter().map(ToString::to_string).collect();
            let fits = self.asked.targets.iter().any(|t| self.is_meant_for(*t));
            out.push(if fits {
                "no toolkit knows a target that its `.target` can run on".to_owned()
            } else {
                format!("its `.target {own}` runs on none of {}", targets.join(", "))
            });
        }
        out
    }

    /// Returns the problems by line, and the number of rejected lines that are not reported.
    fn problems(&self) -> (Vec<ProblemRow>, usize) {
        let mut gathered = Gathered::default();
        // Targets with the most features come first: the others lack what these lack.
        let mut targets: Vec<&Target> = self.asked.targets.iter().collect();
        targets.sort_by_key(|t| match t.suffix {
            Suffix::Arch => 0,
            Suffix::Family => 1,
            Suffix::Base => 2,
        });
        for form in self.forms().iter().copied() {
            for target in &targets {
                // The newest toolkit comes first: its message is shown.
                for t in (0..self.toolkits()).rev().filter(|t| self.knows(*t, **target)) {
                    let Some(answer) = self.desk.get(self.question(t, **target, form, **target)) else {
                        continue;
                    };
                    gathered.take(answer, self, form, **target, t);
                }
            }
        }
        let told: BTreeSet<usize> = gathered.found.iter().filter_map(|f| f.line).collect();
        let further = gathered.lines.difference(&told).count();
        let lines: Vec<&str> = self.module.text.lines().collect();
        gathered.found.sort_by_key(|f| f.line);
        let all: Vec<String> = (0..self.toolkits()).map(|t| self.version(t)).collect();
        let rows = gathered.found.into_iter().map(|f| self.problem(&f, &lines, &all)).collect();
        (rows, further)
    }

    fn problem(&self, found: &Found, lines: &[&str], all: &[String]) -> ProblemRow {
        let (line, message) = of_file(&found.said, self.module.first_line);
        let place = found.line.and_then(|l| offence(lines, l, &message));
        let meaning = matrix::meaning(&message);
        let mut also: Vec<String> = Vec::new();
        for said in &found.also {
            let words = of_file(said, self.module.first_line).1;
            if words != message && !also.contains(&words) {
                also.push(words);
            }
        }
        let refused = found.refused.iter().map(|((form, target), toolkits)| RefusalRow {
            form: *form,
            target: *target,
            toolkits: all
                .iter()
                .enumerate()
                .filter(|(n, _)| toolkits.contains(n))
                .map(|(_, v)| v.clone())
                .collect(),
        });
        let (column, length, line_text, instruction) =
            place.map_or_else(Default::default, |p| (p.column, p.length, p.excerpt, p.form));
        let (excerpt_from, excerpt) = clipped(line_text, column);
        // What other programs say of the same message, where the kinds of the matrix have none.
        let known = || crate::doctor::known_messages(&message).ok()?.into_iter().next();
        let (cause, remedy) = match meaning {
            Some(meaning) => (Some(meaning.cause.to_owned()), Some(meaning.remedy.to_owned())),
            None => known().map(|flag| (flag.meaning, flag.remedy)).unzip(),
        };
        let remedy = phrase::needed_version(&message, &also).or(remedy);
        ProblemRow {
            line,
            cuda: None,
            column,
            length,
            excerpt,
            excerpt_from,
            instruction,
            message,
            also,
            kind: meaning.map(|m| m.kind),
            cause,
            remedy,
            refused: refused.collect(),
            proposals: Vec::new(),
            instead: Vec::new(),
        }
    }
}

/// One problem during collection.
struct Found {
    key: String,
    line: Option<usize>,
    said: Said,
    also: Vec<Said>,
    refused: BTreeMap<(Form, Target), BTreeSet<usize>>,
}

#[derive(Default)]
struct Gathered {
    found: Vec<Found>,
    /// Every rejected line.
    lines: BTreeSet<usize>,
}

impl Gathered {
    fn take(&mut self, answer: &Answer, bench: &Bench<'_>, form: Form, target: Target, toolkit: usize) {
        self.lines.extend(answer.errors.iter().filter_map(|e| e.line));
        let mut told: BTreeSet<Option<usize>> = BTreeSet::new();
        for said in &answer.errors {
            // It is not a problem of the file that PTX for one architecture does not assemble for another.
            let kind = matrix::meaning(&said.text).map(|m| m.kind);
            if kind == Some("target_does_not_fit_arch")
                && !bench.is_meant_for(target)
                && bench.goes_somewhere()
            {
                continue;
            }
            if !told.insert(said.line) {
                continue;
            }
            let key = same(&said.text);
            let found = match self.found.iter_mut().find(|f| f.line == said.line && f.key == key) {
                Some(found) => found,
                None => {
                    let also = answer.errors.iter().filter(|e| e.line.is_some() && e.line == said.line);
                    self.found.push(Found {
                        key,
                        line: said.line,
                        said: said.clone(),
                        also: also.cloned().collect(),
                        refused: BTreeMap::new(),
                    });
                    let last = self.found.len() - 1;
                    &mut self.found[last]
                }
            };
            found.refused.entry((form, target)).or_default().insert(toolkit);
            if !bench.asked.all_errors {
                break;
            }
        }
    }
}

impl Bench<'_> {
    /// Whether the module's `.target` can be assembled for any of the queried targets.
    fn goes_somewhere(&self) -> bool {
        self.asked
            .targets
            .iter()
            .any(|t| self.module.known_target().is_some_and(|own| own.may_assemble_for(*t)))
    }
}

/// The number of characters shown of a long line.
const SHOWN: usize = 400;

/// Returns a line, or the part of a long line from `column` on, and the column of its first character.
fn clipped(line: String, column: usize) -> (usize, String) {
    if line.chars().nth(SHOWN).is_none() {
        return (1, line);
    }
    let part: String = line.chars().skip(column.saturating_sub(1)).take(SHOWN).collect();
    (column.max(1), part)
}

static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"sm_\d+[af]?|\d+\.\d+").ok());

/// Returns a key that is equal for messages that differ only in targets and versions.
fn same(text: &str) -> String {
    NAMES.as_ref().map_or_else(|| text.to_owned(), |names| names.replace_all(text, "~").into_owned())
}
