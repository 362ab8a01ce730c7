//! The results of lint, as written to JSON.

use ptx::arch::{Target, ToolkitVersion};
use serde::Serialize;

use super::cuda::CudaLine;
use crate::record::Outcome;

/// The condition under which a file conforms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Require {
    /// Every toolkit that supports a target accepts the file for it as written.
    #[default]
    All,
    /// The newest toolkit accepts the file as written for every target.
    Newest,
    /// At least one toolkit accepts the file as written, for every target.
    Any,
    /// The newest toolkit accepts the file for every target with `.version` and `.target` rewritten.
    Rewritten,
}

/// The form in which ptxas receives a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// As written.
    Written,
    /// With the toolkit's `.version`.
    Version,
    /// With the queried `.target`.
    Target,
    /// With both.
    Rewritten,
    /// With `.target` and `-arch` replaced by the queried GPU's target with another suffix.
    Suffix,
    /// With that target and the toolkit's `.version`.
    SuffixAndVersion,
}

impl Form {
    /// Returns its name in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Version => "version",
            Self::Target => "target",
            Self::Rewritten => "rewritten",
            Self::Suffix => "suffix",
            Self::SuffixAndVersion => "suffix_and_version",
        }
    }
}

/// The result of a whole run.
#[derive(Debug, Clone, Serialize)]
pub struct Lint {
    /// Version of this JSON format.
    pub schema: u32,
    /// The toolkits that were run, ascending.
    pub toolkits: Vec<String>,
    /// The targets (`-arch`) that were queried.
    pub targets: Vec<String>,
    /// The condition for conformance.
    pub require: Require,
    /// Whether every module conforms and every file could be used.
    pub conforms: bool,
    /// The files, in the order named.
    pub files: Vec<FileRow>,
    /// Files that are not linted, each with file, line and remedy.
    pub unusable: Vec<String>,
}

/// One file.
#[derive(Debug, Clone, Serialize)]
pub struct FileRow {
    /// Its path as given.
    pub file: String,
    /// Notes about parts that were removed or skipped.
    pub notes: Vec<String>,
    /// Its modules.
    pub modules: Vec<ModuleRow>,
}

/// One module.
#[derive(Debug, Clone, Serialize)]
pub struct ModuleRow {
    /// First line in the file, from 1.
    pub first_line: usize,
    /// Last line in the file.
    pub last_line: usize,
    /// The operand of `.version`.
    pub version: Option<String>,
    /// The operand of `.target`.
    pub target: Option<String>,
    /// Why the module does not conform; empty if it does.
    pub misses: Vec<String>,
    /// The results by target, form (as written and rewritten) and toolkit.
    pub cells: Vec<CellRow>,
    /// Changes that make ptxas accept a module that it rejects as written.
    pub cures: Vec<CureRow>,
    /// The problems that ptxas reports, each once, by line.
    pub problems: Vec<ProblemRow>,
    /// The number of rejected lines that are not in `problems`.
    pub further_lines: usize,
    /// Instructions that ptxas is known to compile wrongly. They do not decide conformance, since ptxas accepts them.
    pub known: Vec<KnownRow>,
}

/// An instruction that ptxas is known to compile wrongly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KnownRow {
    /// Line in the file.
    pub line: usize,
    /// The name of the miscompile, for `explain`.
    pub name: String,
    /// The function.
    pub function: String,
    /// The instruction with its modifiers.
    pub form: String,
    /// The toolkits of this run that have it.
    pub toolkits: Vec<String>,
    /// The targets of this run that have it.
    pub targets: Vec<String>,
    /// The versions and levels with which it was seen.
    pub seen_with: String,
    /// What the machine code does instead.
    pub effect: String,
    /// What PTX says.
    pub rule: String,
    /// How to write it so that every version is right.
    pub rewrite: String,
}

/// The result of one toolkit for one target and form.
#[derive(Debug, Clone, Serialize)]
pub struct CellRow {
    /// The toolkit.
    #[serde(serialize_with = "as_text")]
    pub toolkit: ToolkitVersion,
    /// The `-arch`.
    #[serde(serialize_with = "as_text")]
    pub target: Target,
    /// The form: written or rewritten.
    pub form: Form,
    /// The outcome.
    #[serde(serialize_with = "as_word")]
    pub outcome: Outcome,
    /// Whether conformance depends on it.
    pub counts: bool,
    /// The number of errors.
    pub errors: usize,
    /// Line of the first error in the file.
    pub line: Option<usize>,
    /// The kind of the first error, if known.
    pub kind: Option<&'static str>,
    /// The first error message of ptxas; empty if there is none.
    pub message: String,
    /// Warnings of an accepted module.
    pub warnings: Vec<WarningRow>,
}

/// A warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WarningRow {
    /// Line in the file.
    pub line: Option<usize>,
    /// The message of ptxas.
    pub message: String,
}

/// A change that makes ptxas accept a module for a target; each was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CureRow {
    /// The queried target.
    #[serde(serialize_with = "as_text")]
    pub target: Target,
    /// The form that is accepted.
    pub form: Form,
    /// The `.target` to write; unchanged if `None`.
    pub write_target: Option<String>,
    /// The lowest `.version` above the module's that the newest of these toolkits accepts, or the toolkit's own if the module's is newer;
    /// unchanged if `None`.
    pub write_version: Option<String>,
    /// The toolkits that accept the change.
    pub toolkits: Vec<String>,
}

/// A problem that ptxas reports.
#[derive(Debug, Clone, Serialize)]
pub struct ProblemRow {
    /// Line in the file; `None` if the message names no line.
    pub line: Option<usize>,
    /// The line of CUDA C++ that it comes from, if the file was compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<CudaLine>,
    /// First underlined column, in characters from 1.
    pub column: usize,
    /// The number of underlined characters.
    pub length: usize,
    /// The line, or a part of it if the line is very long.
    pub excerpt: String,
    /// The column where the excerpt starts, from 1.
    pub excerpt_from: usize,
    /// The instruction with its modifiers; empty if there is none.
    pub instruction: String,
    /// The message of the newest toolkit that reports it, for its first target.
    pub message: String,
    /// Further messages for the same line.
    pub also: Vec<String>,
    /// Its kind; `None` if the message is unknown.
    pub kind: Option<&'static str>,
    /// The cause, in a sentence.
    pub cause: Option<String>,
    /// The remedy, in a sentence.
    pub remedy: Option<String>,
    /// The toolkits, targets and forms for which it is reported.
    pub refused: Vec<RefusalRow>,
    /// The instruction with the fewest other modifiers, as the newest toolkit that refuses it accepts it in its place; a few, if equally near.
    pub proposals: Vec<String>,
    /// The nearest accepted alternatives.
    pub instead: Vec<InsteadRow>,
}

/// The toolkits that report a problem for one form and target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusalRow {
    /// The form of the module.
    pub form: Form,
    /// The `-arch`.
    #[serde(serialize_with = "as_text")]
    pub target: Target,
    /// The toolkits.
    pub toolkits: Vec<String>,
}

/// An accepted alternative to a rejected instruction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InsteadRow {
    /// The targets that accept it, among those that reject the original and their siblings with more features.
    pub targets: Vec<String>,
    /// The instruction.
    pub form: String,
    /// The snippet variant that demonstrates it, for `sm121probe explain`.
    pub variant: String,
    /// The toolkits of this run that accept it.
    pub toolkits: Vec<String>,
    /// Other changes that it requires.
    pub how: String,
    /// The source of this information.
    pub source: String,
}

fn as_text<S: serde::Serializer>(value: &impl std::fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

fn as_word<S: serde::Serializer>(value: &Outcome, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(value.word())
}
