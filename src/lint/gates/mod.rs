//! Architecture tests in source text: which SM12x targets each admits and shuts out, and whether that fits what it guards.
//!
//! A finding is a contradiction that the text itself shows: a test that tells 12.0 from 12.1, which have the same instructions; one
//! that shuts out `f` where `a` passes; one that admits a target which lacks an instruction of the guarded code; and options that build
//! for one of the two alone. A test whose truth depends on macros of the project is not judged.

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

/// Bytes of a file that is read; sources are smaller.
const SIZE_LIMIT: u64 = 32 << 20;

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
    /// The file, by the path of the folder that was read.
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

/// A test of an architecture.
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
    /// Those that it certainly shuts out; the others depend on what the text does not say.
    pub shuts_out: Vec<Target>,
}

/// What was found in folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateLint {
    /// Files that were read.
    pub files: usize,
    /// Architecture tests, by file and line.
    pub tests: Vec<GateTest>,
    /// Lists of architectures and options for the compiler that name SM12x: files that have some.
    pub builds: usize,
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

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("is not a file")]
    NoFile,
    #[error("is not a C++, CUDA, Python, CMake or Bazel source")]
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

/// What was found in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateFile {
    /// Its architecture tests.
    pub tests: Vec<GateTest>,
    /// Whether it has options or lists that name SM12x.
    pub builds: bool,
    /// What is wrong.
    pub rows: Vec<GateRow>,
}

/// The tests of one file by its name.
#[must_use]
pub fn lint_text(file: &str, text: &str) -> GateFile {
    let Some(language) = language(Path::new(file)) else { return GateFile::default() };
    // Most files of a project name no architecture.
    if !text.contains("12") && !text.contains("__CUDA_ARCH__") {
        return GateFile::default();
    }
    judge::judge(file, text, language)
}

fn language(path: &Path) -> Option<token::Language> {
    token::Language::of(&path.file_name()?.to_string_lossy())
}

/// A file's text. Bytes that are not UTF-8 are replaced: only comments and strings hold them.
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

/// The sources below a folder. Links to folders are not followed: they may lead in circles.
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
