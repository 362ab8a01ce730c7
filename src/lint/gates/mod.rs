//! Architecture tests in source text: which SM12x targets each admits and shuts out, and whether that fits what it guards.
//!
//! A finding is a contradiction that the text itself shows: a test that tells 12.0 from 12.1, which have the same instructions; one
//! that shuts out `f` where `a` passes; one that admits a target which lacks an instruction of the guarded code; and options that build
//! for one of the two alone. A test whose truth depends on macros of the project is not judged.

mod block;
mod condition;
mod flag;
mod judge;
mod name;
mod need;
mod place;
mod token;

use std::path::{Path, PathBuf};

use ptx::arch::Target;

pub use need::{Need, need};

/// Bytes of a file that is read; sources are smaller.
const SIZE_LIMIT: u64 = 8 << 20;

/// Folders below folders that are looked into.
const DEPTH: usize = 64;

/// What is wrong with a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GateRule {
    /// It is true on one of 12.0 and 12.1 alone.
    OneDevice,
    /// It is true with `a` and false with `f`.
    NoFamily,
    /// It admits a target without the suffix that the guarded code needs.
    NeedsSuffix,
    /// It admits SM12x to instructions that SM12x lacks.
    Absent,
    /// It builds code that runs on one of 12.0 and 12.1 alone.
    OneBuild,
}

impl GateRule {
    /// Its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::OneDevice => "one_device",
            Self::NoFamily => "no_family",
            Self::NeedsSuffix => "needs_suffix",
            Self::Absent => "absent_instruction",
            Self::OneBuild => "one_build",
        }
    }
}

/// A test that contradicts what SM12x has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRow {
    /// The file, below the folder that was read.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
    /// What is wrong.
    pub rule: GateRule,
    /// The test, on one line.
    pub text: String,
    /// The SM12x targets, or architectures, that it admits.
    pub admits: Vec<Target>,
    /// Those that it shuts out.
    pub shuts_out: Vec<Target>,
    /// Instructions of the guarded code that need a suffix, or that SM12x lacks.
    pub instructions: Vec<String>,
}

/// What was found in folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateLint {
    /// Files that were read.
    pub files: usize,
    /// Architecture tests of SM12x that were understood.
    pub gates: usize,
    /// Those that are wrong, by file and line.
    pub rows: Vec<GateRow>,
    /// Files that could not be read, and why.
    pub unusable: Vec<String>,
}

/// Reads all sources in a folder, or one file.
#[must_use]
pub fn lint_gates(folder: &Path) -> GateLint {
    let mut files = Vec::new();
    let mut out = GateLint::default();
    collect(folder, DEPTH, &mut files, &mut out.unusable);
    files.sort();
    for path in files {
        let shown = path.strip_prefix(folder).ok().filter(|p| !p.as_os_str().is_empty()).unwrap_or(&path);
        let file = shown.display().to_string();
        match std::fs::read(&path) {
            Ok(bytes) => {
                out.files += 1;
                let (gates, rows) = lint_text(&file, &String::from_utf8_lossy(&bytes));
                out.gates += gates;
                out.rows.extend(rows);
            }
            Err(error) => out.unusable.push(format!("{}: {error}", path.display())),
        }
    }
    out
}

/// The tests of one file by its name: how many there are, and those that are wrong.
#[must_use]
pub fn lint_text(file: &str, text: &str) -> (usize, Vec<GateRow>) {
    let base = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let Some(language) = token::Language::of(base) else { return (0, Vec::new()) };
    // Most files of a project name no architecture.
    if !text.contains("12") && !text.contains("__CUDA_ARCH__") {
        return (0, Vec::new());
    }
    judge::judge(file, text, language)
}

/// The sources below a folder. Links to folders are not followed: they may lead in circles.
fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>, unusable: &mut Vec<String>) {
    let is_source = |path: &Path| {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        token::Language::of(&name).is_some()
    };
    if !path.is_dir() {
        return files.push(path.to_owned());
    }
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => return unusable.push(format!("{}: {error}", path.display())),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            if depth > 0 {
                collect(&path, depth - 1, files, unusable);
            }
        } else if is_source(&path) && entry.metadata().is_ok_and(|m| m.is_file() && m.len() <= SIZE_LIMIT) {
            files.push(path);
        }
    }
}
