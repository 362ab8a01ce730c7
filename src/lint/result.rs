//! What lint found, as it is written to JSON.

use ptx::arch::{Target, ToolkitVersion};
use serde::Serialize;

use crate::record::Outcome;

/// When a file is good enough.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Require {
    /// Every toolkit that knows a target accepts the file for it as written.
    #[default]
    All,
    /// The newest toolkit accepts the file as written for every target.
    Newest,
    /// For every target there is a toolkit that accepts the file as written.
    Any,
    /// The newest toolkit accepts the file for every target once `.version` and `.target` are rewritten for it.
    Rewritten,
}

/// How a module is put to ptxas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// As it stands.
    Written,
    /// With the toolkit's `.version`.
    Version,
    /// With the asked `.target`.
    Target,
    /// With both.
    Rewritten,
    /// As written, for the asked GPU's target with another suffix.
    Suffix,
    /// With that target and the toolkit's `.version`.
    SuffixAndVersion,
}

impl Form {
    /// The word that stands for it.
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

/// The whole run.
#[derive(Debug, Clone, Serialize)]
pub struct Lint {
    /// Version of this form.
    pub schema: u32,
    /// The toolkits that were asked, ascending.
    pub toolkits: Vec<String>,
    /// The targets (`-arch`) that were asked.
    pub targets: Vec<String>,
    /// What was demanded.
    pub require: Require,
    /// Whether every module is as demanded, and every file could be used.
    pub conforms: bool,
    /// The files, in the order named.
    pub files: Vec<FileRow>,
    /// Files that are not linted, each with file, line and remedy.
    pub unusable: Vec<String>,
}

/// One file.
#[derive(Debug, Clone, Serialize)]
pub struct FileRow {
    /// How it was named.
    pub file: String,
    /// What was left out of it.
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
    /// What stands behind `.version`.
    pub version: Option<String>,
    /// What stands behind `.target`.
    pub target: Option<String>,
    /// What is not as demanded; empty where the module conforms.
    pub misses: Vec<String>,
    /// The answers, by target and toolkit: as written and rewritten.
    pub cells: Vec<CellRow>,
    /// What makes ptxas accept what it refuses as written.
    pub cures: Vec<CureRow>,
    /// What ptxas refuses, each once, by line.
    pub problems: Vec<ProblemRow>,
    /// Further lines that ptxas refuses and that are not in `problems`.
    pub further_lines: usize,
}

/// One answer.
#[derive(Debug, Clone, Serialize)]
pub struct CellRow {
    /// The toolkit.
    #[serde(serialize_with = "as_text")]
    pub toolkit: ToolkitVersion,
    /// The `-arch`.
    #[serde(serialize_with = "as_text")]
    pub target: Target,
    /// Written or rewritten.
    pub form: Form,
    /// The outcome.
    #[serde(serialize_with = "as_word")]
    pub outcome: Outcome,
    /// Whether the demand counts it.
    pub counts: bool,
    /// Errors.
    pub errors: usize,
    /// Line of the first, in the file.
    pub line: Option<usize>,
    /// Its kind, when one is known.
    pub kind: Option<&'static str>,
    /// ptxas's words.
    pub message: String,
    /// Warnings of an accepted module.
    pub warnings: Vec<WarningRow>,
}

/// A warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WarningRow {
    /// Line in the file.
    pub line: Option<usize>,
    /// ptxas's words.
    pub message: String,
}

/// What makes ptxas accept a module for a target; each was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CureRow {
    /// The asked target.
    #[serde(serialize_with = "as_text")]
    pub target: Target,
    /// What is changed.
    pub form: Form,
    /// The `.target` to write; as it is where left out.
    pub write_target: Option<String>,
    /// The lowest `.version` that the newest of the toolkits accepts; as it is where left out.
    pub write_version: Option<String>,
    /// The toolkits that then accept it.
    pub toolkits: Vec<String>,
}

/// Something ptxas refuses.
#[derive(Debug, Clone, Serialize)]
pub struct ProblemRow {
    /// Line in the file; nothing where ptxas speaks of the whole.
    pub line: Option<usize>,
    /// First column of what is underlined, in characters from 1.
    pub column: usize,
    /// Characters underlined.
    pub length: usize,
    /// The line; of one that is longer than anybody reads, a part of it.
    pub excerpt: String,
    /// The column at which the excerpt begins, from 1.
    pub excerpt_from: usize,
    /// The instruction with its modifiers, where there is one.
    pub instruction: String,
    /// ptxas's words: of the newest toolkit that refuses it, for its first target.
    pub message: String,
    /// Further words on the same line.
    pub also: Vec<String>,
    /// Its kind; nothing where the words are none of those known.
    pub kind: Option<&'static str>,
    /// Why, in a sentence.
    pub cause: Option<&'static str>,
    /// What to do, in a sentence.
    pub remedy: Option<&'static str>,
    /// Who refuses it.
    pub refused: Vec<RefusalRow>,
    /// The nearest forms that are accepted.
    pub instead: Vec<InsteadRow>,
}

/// Who refuses something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusalRow {
    /// How the module was put.
    pub form: Form,
    /// The `-arch`.
    #[serde(serialize_with = "as_text")]
    pub target: Target,
    /// The toolkits.
    pub toolkits: Vec<String>,
}

/// A form that is accepted where another is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InsteadRow {
    /// The `.target`s, of those that refuse the other and of the same GPUs with a suffix, that accept it.
    pub targets: Vec<String>,
    /// The instruction.
    pub form: String,
    /// The variant of a snippet that shows it, for `sm121probe explain`.
    pub variant: String,
    /// The toolkits of this run that accept it.
    pub toolkits: Vec<String>,
    /// What else has to change.
    pub how: String,
    /// Who says so.
    pub source: String,
}

fn as_text<S: serde::Serializer>(value: &impl std::fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

fn as_word<S: serde::Serializer>(value: &Outcome, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(value.word())
}
