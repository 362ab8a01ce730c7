//! Checks architecture tests in source text: which SM12x targets each admits or excludes, and whether this fits the guarded code.
//!
//! A finding is a contradiction that the text itself shows: a test that distinguishes 12.0 from 12.1, which have the same
//! instructions; a test that admits `a` but excludes `f`; a test that admits a target which lacks an instruction of the guarded code;
//! and options that build for only one of 12.0 and 12.1. A test that depends on macros of the project is not judged.

mod block;
mod condition;
mod define;
mod flag;
mod judge;
mod name;
mod need;
mod place;
mod token;

use std::path::{Path, PathBuf};

use ptx::arch::Target;

pub use need::{Need, need};

/// The size limit of a file, bytes; sources are smaller.
const SIZE_LIMIT: u64 = 32 << 20;

/// The depth limit of nested folders.
const DEPTH: usize = 64;

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
    /// A build option produces code that runs on only one of 12.0 and 12.1.
    OneBuild,
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
            Self::OneBuild => "one_build",
        }
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

/// Checks all sources in a folder, or one file.
#[must_use]
pub fn lint_gates(folder: &Path) -> GateLint {
    let mut files = Vec::new();
    let mut out = GateLint::default();
    if folder.is_dir() {
        collect(folder, DEPTH, &mut files, &mut out.unusable);
    } else {
        files.push(folder.to_owned());
    }
    files.sort();
    for path in files {
        let shown = path.strip_prefix(".").ok().filter(|p| !p.as_os_str().is_empty()).unwrap_or(&path);
        match read(&path) {
            Ok(text) => {
                out.files += 1;
                let found = lint_text(&shown.display().to_string(), &text);
                out.builds += usize::from(found.builds);
                out.tests.extend(found.tests);
                out.rows.extend(found.rows);
            }
            Err(error) => out.unusable.push(format!("{}: {error}", shown.display())),
        }
    }
    out
}

/// The reason why a file is not read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("is not a file")]
    NoFile,
    #[error("is not a C++, CUDA, Python, TOML, CMake or Bazel source")]
    NoSource,
    #[error("is larger than {} MiB", SIZE_LIMIT >> 20)]
    Large,
}

fn read(path: &Path) -> Result<String, ReadError> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(ReadError::NoFile);
    }
    if language(path).is_none() {
        return Err(ReadError::NoSource);
    }
    if metadata.len() > SIZE_LIMIT {
        return Err(ReadError::Large);
    }
    Ok(decoded(&std::fs::read(path)?))
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
    let Some(language) = language(Path::new(file)) else { return GateFile::default() };
    // Fast path: most files of a project do not name an architecture.
    if !text.contains("12") && !text.contains("__CUDA_ARCH__") {
        return GateFile::default();
    }
    judge::judge(file, text, language)
}

fn language(path: &Path) -> Option<token::Language> {
    token::Language::from_name(&path.file_name()?.to_string_lossy())
}

/// Decodes a file's text. Bytes that are not UTF-8 are replaced: they occur only in comments and strings.
fn decoded(bytes: &[u8]) -> String {
    let wide = |unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|b| unit([b[0], b[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Collects the sources below a folder. Symbolic links to folders are not followed, because they may form cycles.
fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>, unusable: &mut Vec<String>) {
    let mut fails =
        |path: &Path, why: &dyn std::fmt::Display| unusable.push(format!("{}: {why}", path.display()));
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return fails(folder, &error),
    };
    let mut below = Vec::new();
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                fails(folder, &error);
                continue;
            }
        };
        let path = entry.path();
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            below.push(path);
        } else if language(&path).is_some() && std::fs::metadata(&path).is_ok_and(|m| m.is_file()) {
            files.push(path);
        }
    }
    for path in below {
        match depth.checked_sub(1) {
            Some(depth) => collect(&path, depth, files, unusable),
            None => unusable.push(format!("{}: is too deep", path.display())),
        }
    }
}
