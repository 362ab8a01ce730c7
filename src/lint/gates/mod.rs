//! Checks architecture tests in source text: which SM12x targets each admits or excludes, and whether this fits the guarded code.
//!
//! A finding is a contradiction that the text itself shows: a test that distinguishes 12.0 from 12.1, which have the same
//! instructions; a test that admits `a` but excludes `f`; a test that admits a target which lacks an instruction of the guarded code;
//! and options that build for only one of 12.0 and 12.1. A test that depends on macros of the project is not judged.

mod around;
mod block;
mod bound;
mod condition;
mod define;
mod derived;
mod flag;
mod judge;
mod name;
mod need;
mod place;
mod refusal;
mod selection;
mod sources;
mod token;

use std::path::Path;

use ptx::arch::Target;

use derived::Tree;
use sources::Text;

pub use need::{Need, need};

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GateRule {
    /// A test is true on only one of 12.0 and 12.1.
    OneDevice,
    /// A test is true for `a` and false for `f`.
    NoFamily,
    /// A test admits a target without the suffix that the guarded code needs.
    NeedsSuffix,
    /// A test admits SM12x to code with instructions that SM12x lacks.
    Absent,
    /// A test excludes every SM12x target from code whose instructions SM12x has.
    ShutOut,
    /// A build option produces code that runs on only one of 12.0 and 12.1.
    OneBuild,
    /// A test refuses every SM12x device. Whether the code behind it would run is not known, so this is a note.
    Refuses,
    /// A list of architectures leaves SM12x the PTX of an older one alone, which the driver compiles; a note.
    PtxOnly,
}

impl GateRule {
    /// Returns its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::OneDevice => "one_device",
            Self::NoFamily => "no_family",
            Self::NeedsSuffix => "needs_suffix",
            Self::Absent => "absent_instruction",
            Self::ShutOut => "shut_out",
            Self::OneBuild => "one_build",
            Self::Refuses => "refuses",
            Self::PtxOnly => "ptx_only",
        }
    }

    /// Whether it only informs: the text alone does not show that the test is wrong.
    #[must_use]
    pub const fn is_note(self) -> bool {
        matches!(self, Self::Refuses | Self::PtxOnly)
    }
}

/// A finding: an architecture test or build option that contradicts the features of SM12x.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRow {
    /// The file, by the path of the folder that was read.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
    /// The kind of the finding.
    pub rule: GateRule,
    /// The test, on one line.
    pub text: String,
    /// The SM12x targets, or architectures, that it admits.
    pub admits: Vec<Target>,
    /// The SM12x targets, or architectures, that it excludes.
    pub shuts_out: Vec<Target>,
    /// The guarded instructions that need a suffix or that SM12x lacks.
    pub instructions: Vec<String>,
    /// The macro that the test names, and where it is defined under an architecture test, in words.
    pub through: Option<String>,
}

/// An architecture test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateTest {
    /// The file, by the path of the folder that was read.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
    /// The test, on one line.
    pub text: String,
    /// The SM12x targets, or architectures, that it certainly admits.
    pub admits: Vec<Target>,
    /// Those that it certainly excludes; for the others the result cannot be determined from the text.
    pub shuts_out: Vec<Target>,
}

/// The results for a folder or a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateLint {
    /// The number of files that were read.
    pub files: usize,
    /// Architecture tests, by file and line.
    pub tests: Vec<GateTest>,
    /// The number of files with architecture lists or compiler options that name SM12x.
    pub builds: usize,
    /// The findings, by file and line.
    pub rows: Vec<GateRow>,
    /// Files that could not be read, each with the reason.
    pub unusable: Vec<String>,
}

impl GateLint {
    /// The number of findings that are no notes.
    #[must_use]
    pub fn wrong(&self) -> usize {
        self.rows.iter().filter(|row| !row.rule.is_note()).count()
    }
}

/// Checks all sources of folders, files, wheels, archives and revisions of the Git repository in `here`, as one tree: macros of one
/// file are known in the others.
#[must_use]
pub fn lint_gates(places: &[&Path], here: &Path) -> GateLint {
    let mut out = GateLint::default();
    let texts = sources::read(places, here, &mut out.unusable);
    let defines = |text: &&Text| {
        let is_c = language(Path::new(&text.file)) == Some(token::Language::C);
        is_c && text.text.lines().any(|line| line.trim_start().starts_with('#') && line.contains("define"))
    };
    let mut tree = Tree::default();
    for Text { file, text } in texts.iter().filter(defines) {
        judge::survey(file, text, &mut tree);
    }
    for Text { file, text } in &texts {
        out.files += 1;
        let found = lint_in(file, text, Some(&tree));
        out.builds += usize::from(found.builds);
        out.tests.extend(found.tests);
        out.rows.extend(found.rows);
    }
    out
}

/// The results for one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateFile {
    /// Its architecture tests.
    pub tests: Vec<GateTest>,
    /// Whether it has compiler options or architecture lists that name SM12x.
    pub builds: bool,
    /// The findings.
    pub rows: Vec<GateRow>,
}

/// Checks the text of one file; its name determines the language.
#[must_use]
pub fn lint_text(file: &str, text: &str) -> GateFile {
    lint_in(file, text, None)
}

fn lint_in(file: &str, text: &str, tree: Option<&Tree>) -> GateFile {
    let Some(language) = language(Path::new(file)) else { return GateFile::default() };
    // Fast path: most files of a project do not name an architecture.
    let names = ["12", "ARCH", "capabilit", "Capabilit", "sm_", "arch", "cc", "major"];
    let is_used = || tree.is_some_and(|tree| tree.is_used_by(text));
    if !names.iter().any(|name| text.contains(name)) && !is_used() {
        return GateFile::default();
    }
    judge::judge(file, text, language, tree)
}

fn language(path: &Path) -> Option<token::Language> {
    token::Language::from_name(&path.file_name()?.to_string_lossy())
}
