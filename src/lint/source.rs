//! Reads files that contain PTX and splits them into modules and lines that are not PTX.
//!
//! A file that starts with PTX and contains one module is passed to ptxas unchanged. A dump (text before the first `.version`,
//! several `.version` directives, or the markers of an IR dump) is split into modules; other lines are listed but not checked.

use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::{fs, str};

use ptx::arch::{PtxIsa, Target};
use ptx::scan::{CodeLines, outline};

use super::cuda::CudaFile;
use crate::store;

/// The size limit of a file, bytes.
pub const SIZE_LIMIT: u64 = 32 << 20;

/// The name of `--stdin` in messages.
pub const STDIN: &str = "<stdin>";

/// The reason why a file is not linted. Other files of the run still are.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {source}")]
    Read {
        /// The file.
        file: String,
        /// The underlying error.
        source: io::Error,
    },
    /// The file is too large.
    #[error("{file}:1: {} MB; the limit is {} MB: lint each module separately", bytes >> 20, SIZE_LIMIT >> 20)]
    TooLarge {
        /// The file.
        file: String,
        /// Its size.
        bytes: u64,
    },
    /// The file is empty.
    #[error("{file}:1: empty; did the compiler fail to write it?")]
    Empty {
        /// The file.
        file: String,
    },
    /// The file is not text.
    #[error("{file}:{line}: not text but {what}")]
    Binary {
        /// The file.
        file: String,
        /// The line of the first NUL byte; 1 if there is none.
        line: usize,
        /// Its actual format and a remedy.
        what: &'static str,
    },
    /// The file is CUDA C++.
    #[error(
        "{file}:{line}: this is CUDA C++, not PTX: name it `.cu` to have it compiled, or compile it with `nvcc -ptx`"
    )]
    Cuda {
        /// The file.
        file: String,
        /// The line that shows it.
        line: usize,
    },
    /// The file is of a format for device code, and contains no PTX.
    #[error("{file}: {has}")]
    NoPtxWithin {
        /// The file.
        file: String,
        /// What it has instead.
        has: String,
    },
    /// The file contains no PTX.
    #[error(
        "{file}:1: no PTX found: no line begins with `.version`, `.target` or an entry; name the .ptx file, or the \
        dump that contains it"
    )]
    NoPtx {
        /// The file.
        file: String,
    },
}

/// One PTX module of a file.
#[derive(Debug, Clone)]
pub struct Module {
    /// Its first line in the file, from 1.
    pub first_line: usize,
    /// Its last line in the file.
    pub last_line: usize,
    /// The text.
    pub text: String,
    /// The operand of `.version`.
    pub version: Option<String>,
    /// The first operand of `.target`.
    pub target: Option<String>,
    /// Whether a compiler chose `.version` and `.target`.
    pub is_compiled: bool,
    version_at: Option<Range<usize>>,
    target_at: Option<Range<usize>>,
    /// SHA-256 of the text.
    pub(super) hash: String,
}

/// A file with its modules.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its path as given.
    pub file: String,
    /// The whole text, without byte order mark and trailing NUL bytes.
    pub text: String,
    /// The modules, in order; at least one.
    pub modules: Vec<Module>,
    /// The CUDA C++ file from which the PTX was compiled.
    pub cuda: Option<CudaFile>,
    /// Notes about parts that were removed or skipped, in sentences.
    pub notes: Vec<String>,
}

impl Module {
    fn new(text: &str, first_line: usize) -> Self {
        let outline = outline(text);
        let word = |range: &Option<Range<usize>>| range.clone().map(|r| text[r].to_owned());
        Self {
            first_line,
            last_line: first_line + text.trim_end().lines().count().saturating_sub(1),
            text: text.to_owned(),
            version: word(&outline.version),
            target: word(&outline.target),
            is_compiled: false,
            version_at: outline.version,
            target_at: outline.target,
            hash: store::sha256(text.as_bytes()),
        }
    }

    /// Returns the `.version`, if it is valid.
    #[must_use]
    pub fn isa(&self) -> Option<PtxIsa> {
        self.version.as_deref()?.parse().ok()
    }

    /// Returns the `.target`, if it is known.
    #[must_use]
    pub fn known_target(&self) -> Option<Target> {
        self.target.as_deref()?.parse().ok()
    }

    /// Returns the module with another text, whose lines begin where its own do.
    pub(super) fn changed(&self, text: &str) -> Self {
        Self { is_compiled: self.is_compiled, ..Self::new(text, self.first_line) }
    }

    /// Returns the text with `.version` and `.target` replaced, each unchanged if `None`; line numbers stay the same.
    #[must_use]
    pub fn with(&self, version: Option<PtxIsa>, target: Option<Target>) -> String {
        let mut out = self.text.clone();
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        let mut front = String::new();
        match (version, &self.version_at) {
            (Some(v), Some(at)) => edits.push((at.clone(), v.to_string())),
            (Some(v), None) => front = format!(".version {v} "),
            (None, _) => {}
        }
        match (target, &self.target_at, &self.version_at) {
            (Some(t), Some(at), _) => edits.push((at.clone(), t.to_string())),
            // `.target` must follow `.version`.
            (Some(t), None, Some(at)) => edits.push((at.end..at.end, format!(" .target {t}"))),
            (Some(t), None, None) => front.push_str(&format!(".target {t} ")),
            (None, ..) => {}
        }
        // Replace from the end, so that earlier ranges stay valid.
        edits.sort_by_key(|(range, _)| std::cmp::Reverse((range.start, range.end)));
        for (range, new) in edits {
            out.replace_range(range, &new);
        }
        out.insert_str(0, &front);
        out
    }
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// [`SourceError`]: cannot be read, too large, or no PTX.
    pub fn read(path: &Path) -> Result<Self, SourceError> {
        let file = path.display().to_string();
        let read = |source| SourceError::Read { file: file.clone(), source };
        let bytes = fs::metadata(path).map_err(read)?.len();
        if bytes > SIZE_LIMIT {
            return Err(SourceError::TooLarge { file, bytes });
        }
        Self::take(&file, fs::File::open(path).map_err(read)?)
    }

    /// Reads to the end of a stream, such as standard input.
    ///
    /// # Errors
    /// [`SourceError`]: cannot be read, too large, or no PTX.
    pub fn take(file: &str, stream: impl Read) -> Result<Self, SourceError> {
        let mut bytes = Vec::new();
        // The size of a pipe is unknown in advance.
        let read = stream.take(SIZE_LIMIT + 1).read_to_end(&mut bytes);
        read.map_err(|source| SourceError::Read { file: file.to_owned(), source })?;
        Self::from_bytes(file, &bytes)
    }

    /// Parses the bytes of a file into modules.
    ///
    /// # Errors
    /// [`SourceError`]: too large, empty, binary, or no PTX in it.
    pub fn from_bytes(file: &str, bytes: &[u8]) -> Result<Self, SourceError> {
        let name = || file.to_owned();
        if bytes.len() as u64 > SIZE_LIMIT {
            return Err(SourceError::TooLarge { file: name(), bytes: bytes.len() as u64 });
        }
        let mut notes = Vec::new();
        let mut rest = bytes;
        if let Some(tail) = rest.strip_prefix(b"\xef\xbb\xbf") {
            notes.push("the leading byte order mark was removed; ptxas does not accept it".to_owned());
            rest = tail;
        }
        let nuls = rest.iter().rev().take_while(|b| **b == 0).count();
        if nuls > 0 {
            notes.push(format!("{nuls} NUL bytes at the end were removed; ptxas does not accept them"));
            rest = &rest[..rest.len() - nuls];
        }
        if rest.iter().all(u8::is_ascii_whitespace) {
            return Err(SourceError::Empty { file: name() });
        }
        if is_device_code(rest) {
            let (text, found) = ptx_within(file, rest)?;
            notes.push(found);
            return Self::of_text(name(), text, notes);
        }
        if let Some(what) = not_text(rest) {
            let end = rest.iter().position(|b| *b == 0).unwrap_or(0);
            let line = rest[..end].iter().filter(|b| **b == b'\n').count() + 1;
            return Err(SourceError::Binary { file: name(), line, what });
        }
        let text = match str::from_utf8(rest) {
            Ok(text) => text.to_owned(),
            // The decision is left to ptxas; line numbers stay the same.
            Err(error) => {
                let line = rest[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
                notes.push(format!("line {line} is not UTF-8"));
                String::from_utf8_lossy(rest).into_owned()
            }
        };
        Self::of_text(name(), text, notes)
    }

    /// Divides a text into modules.
    fn of_text(file: String, text: String, mut notes: Vec<String>) -> Result<Self, SourceError> {
        let Some((modules, foreign)) = divide(&text) else { return Err(without_ptx(file, &text)) };
        notes.extend(foreign);
        Ok(Self { file, text, modules, cuda: None, notes })
    }
}

/// Whether bytes are of a format that can contain device code.
fn is_device_code(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF") || bytes.starts_with(b"\x50\xed\x55\xba") || bytes.starts_with(b"!<arch>\n")
}

/// Returns the PTX in a fatbin, a cubin, a library or an executable, one module after the other, and says what was found.
fn ptx_within(file: &str, bytes: &[u8]) -> Result<(String, String), SourceError> {
    let (mut text, mut count, mut other, mut troubles) = (String::new(), 0_usize, 0_usize, Vec::new());
    devcode::scan_bytes(file, bytes.to_vec(), &devcode::Limits::default(), &mut |found| match found {
        devcode::Found::Entry { entry, code } if entry.kind == devcode::CodeKind::Ptx && !code.is_empty() => {
            count += 1;
            text.push_str(String::from_utf8_lossy(code).trim_end_matches('\0'));
            text.push('\n');
        }
        devcode::Found::Entry { .. } => other += 1,
        devcode::Found::Problem(problem) => troubles.push(problem.trouble.to_string()),
        devcode::Found::Holder(_) => {}
    });
    if count == 0 {
        let has = match (troubles.into_iter().next(), other) {
            (Some(trouble), _) => trouble,
            (None, 0) => "has no device code".to_owned(),
            (None, _) => {
                "has machine code and no PTX; build it with `-gencode arch=compute_120f,code=compute_120f`, \
                          or judge the machine code with `sm121probe audit`"
                    .to_owned()
            }
        };
        return Err(SourceError::NoPtxWithin { file: file.to_owned(), has });
    }
    let modules = if count == 1 { "1 module".to_owned() } else { format!("{count} modules") };
    Ok((text, format!("{modules} of PTX found in it; line numbers are those of the PTX")))
}

/// Says what a text without PTX is.
fn without_ptx(file: String, text: &str) -> SourceError {
    const WORDS: [&str; 4] = ["__global__", "__device__", "#include <cuda", "<<<"];
    match text.lines().position(|line| WORDS.iter().any(|word| line.contains(word))) {
        Some(at) => SourceError::Cuda { file, line: at + 1 },
        None => SourceError::NoPtx { file },
    }
}

/// Returns the format of bytes that are not text, with a remedy.
fn not_text(bytes: &[u8]) -> Option<&'static str> {
    let is = |magic: &[u8]| bytes.starts_with(magic);
    if is(b"PK\x03\x04") || is(b"\x1f\x8b") || is(b"\x28\xb5\x2f\xfd") {
        return Some("an archive or compressed; unpack it first");
    }
    if is(b"\xff\xfe") || is(b"\xfe\xff") {
        return Some("UTF-16; save it as UTF-8");
    }
    bytes.contains(&0).then_some("binary; name the .ptx file")
}

/// Splits a text into modules and a note on the lines outside of them; `None` if it contains no PTX.
fn divide(text: &str) -> Option<(Vec<Module>, Option<String>)> {
    let mut scanner = CodeLines::default();
    let lines: Vec<Line<'_>> = lines(text, &mut scanner);
    let starts: Vec<usize> = (0..lines.len()).filter(|n| lines[*n].is_version()).collect();
    if starts.is_empty() {
        // A file without `.version` is passed to ptxas, which has the better message.
        let ptx = lines.iter().any(Line::opens_ptx);
        return ptx.then(|| (vec![Module::new(text, 1)], None));
    }
    let leads = lines[..starts[0]].iter().all(|l| l.code.is_empty());
    let marked = lines.iter().any(|l| l.is_marker());
    if starts.len() == 1 && leads && !marked {
        return Some((vec![Module::new(text, 1)], None));
    }
    let mut modules = Vec::new();
    let mut outside: Vec<(usize, usize)> = Vec::new();
    let mut free = 0;
    for (n, start) in starts.iter().enumerate() {
        let next = starts.get(n + 1).copied().unwrap_or(lines.len());
        let end = end_of_module(&lines, *start, next);
        outside.extend(said(&lines, free, *start));
        let (from, to) = (lines[*start].start, lines.get(end).map_or(text.len(), |l| l.start));
        modules.push(Module::new(&text[from..to], start + 1));
        free = end;
    }
    outside.extend(said(&lines, free, lines.len()));
    let places: Vec<String> =
        outside.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a} to {b}") }).collect();
    let note = (!places.is_empty()).then(|| format!("not PTX and not judged: lines {}", places.join(", ")));
    Some((modules, note))
}

/// Returns the first and last line (from 1) of non-comment text between two lines; `None` if there is only whitespace or comments.
fn said(lines: &[Line<'_>], from: usize, to: usize) -> Option<(usize, usize)> {
    let first = (from..to).find(|n| !lines[*n].code.is_empty())?;
    let last = (from..to).rev().find(|n| !lines[*n].code.is_empty())?;
    Some((first + 1, last + 1))
}

/// Returns the line after a module that starts at `start`: a dump marker, text that is not valid at module scope, or `limit`.
fn end_of_module(lines: &[Line<'_>], start: usize, limit: usize) -> usize {
    let mut depth = 0_i32;
    let mut complete = true;
    for n in start..limit {
        let line = &lines[n];
        if n > start && line.is_marker() {
            return n;
        }
        let code = line.code.as_str();
        let foreign = |c: char| c.is_alphanumeric() || "#\"'=<>[-*+!?&|~^`_$%\\".contains(c);
        if depth == 0 && complete && code.starts_with(foreign) {
            return n;
        }
        for c in code.chars() {
            match c {
                '{' | '(' => depth += 1,
                '}' | ')' => depth = (depth - 1).max(0),
                _ => {}
            }
        }
        if let Some(last) = code.chars().next_back() {
            let alone = [".version", ".target", ".address_size", ".file"].iter().any(|d| code.starts_with(d));
            complete = depth == 0 && (matches!(last, '}' | ';') || alone);
        }
    }
    limit
}

/// A line, and its code: trimmed, without comments, with strings emptied.
struct Line<'a> {
    start: usize,
    raw: &'a str,
    code: String,
}

impl Line<'_> {
    fn is_version(&self) -> bool {
        let behind = self.code.strip_prefix(".version").map(str::trim_start);
        behind.is_some_and(|b| b.starts_with(|c: char| c.is_ascii_digit()))
            && self.code.as_bytes().get(8).is_some_and(u8::is_ascii_whitespace)
    }

    fn is_marker(&self) -> bool {
        self.raw.trim_start().starts_with("// -----//")
    }

    fn opens_ptx(&self) -> bool {
        let words = [
            ".target ",
            ".entry ",
            ".visible ",
            ".func ",
            ".address_size ",
            ".extern ",
            ".weak ",
            ".version",
        ];
        words.iter().any(|w| self.code.starts_with(w))
    }
}

fn lines<'a>(text: &'a str, scanner: &mut CodeLines) -> Vec<Line<'a>> {
    let mut start = 0;
    text.split_inclusive('\n')
        .map(|raw| {
            let line = Line { start, raw, code: scanner.code(raw).trim().to_owned() };
            start += raw.len();
            line
        })
        .collect()
}
