//! Loads snippets from the binary or a folder and expands them; a bad file affects only itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use numerics::{OperandKind, UnknownKind};
use ptx::arch::{Target, UnknownTarget};
use ptx::scan::outline;

use super::axes::{Assignment, holds};
use super::model::{AsWritten, Code, Execute, Header, Snippet, Variant};
use super::template::{Fault, Scope};
use crate::header::{self, HeaderError};

/// Files larger than this are refused; a kernel of this size is not a snippet.
const SIZE_LIMIT: u64 = 16 << 20;

/// Variants one file may expand to.
const VARIANT_LIMIT: usize = 10_000;

/// Why a snippet file, or a folder of them, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnippetError {
    /// The folder cannot be read.
    #[error("{}: {source}; --snippets takes a folder of .ptx files", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder contains no snippets.
    #[error("{}: no .ptx file in this folder; add a kernel, or create one with `sm121probe new snippet`", .0.display())]
    Empty(PathBuf),
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is too large.
    #[error("{}: {} MB, but snippets are limited to {} MB; cut the kernel down to the instruction in question", path.display(), bytes >> 20, SIZE_LIMIT >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The file is not UTF-8.
    #[error("{}:{line}: not UTF-8; PTX is plain text, save the file as UTF-8", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The line of the first bad byte.
        line: usize,
    },
    /// The header is not YAML, or not of the expected form.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Something in the header or the template is wrong.
    #[error("{}:{line}: {message}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What is wrong and how to fix it.
        message: String,
    },
    /// Two files define the same id.
    #[error("{}: {} defines the id `{id}`, too; rename one of them", path.display(), first.display())]
    Duplicate {
        /// The id.
        id: String,
        /// The second file, which is left out.
        path: PathBuf,
        /// The first file.
        first: PathBuf,
    },
    /// A plain file names an unknown target; it is judged, but not as written.
    #[error("{}:{line}: {source}; the file is judged with .target rewritten, but not as written", path.display())]
    Target {
        /// The file.
        path: PathBuf,
        /// The line of `.target`.
        line: usize,
        /// The unknown target.
        source: UnknownTarget,
    },
}

/// Snippets and their variants.
#[derive(Debug, Default)]
pub struct Library {
    /// The files, by path.
    pub snippets: Vec<Snippet>,
    /// All variants, by snippet and axis order.
    pub variants: Vec<Variant>,
    /// Files, or parts of files, that could not be used.
    pub problems: Vec<SnippetError>,
    /// Whether the snippets are the built-in ones.
    ours: bool,
}

impl Library {
    /// Loads the snippets built into the binary.
    #[must_use]
    pub fn embedded() -> Self {
        let mut library = Self { ours: true, ..Self::default() };
        for (path, text) in data::SNIPPETS.files() {
            library.add(Path::new(path), text);
        }
        library.drop_duplicates();
        library
    }

    /// Loads every `.ptx` file below `folder`.
    ///
    /// # Errors
    /// [`SnippetError::Folder`] and [`SnippetError::Empty`]; errors in single files are in `problems`.
    pub fn load(folder: &Path) -> Result<Self, SnippetError> {
        let mut files = Vec::new();
        collect(folder, &mut files)
            .map_err(|source| SnippetError::Folder { path: folder.to_owned(), source })?;
        files.sort();
        if files.is_empty() {
            return Err(SnippetError::Empty(folder.to_owned()));
        }
        let mut library = Self::default();
        for path in files {
            match read(&path) {
                Ok(text) => library.add(&path, &text),
                Err(error) => library.problems.push(error),
            }
        }
        library.drop_duplicates();
        Ok(library)
    }

    fn add(&mut self, path: &Path, text: &str) {
        match self.expand(path, text) {
            Ok((snippet, variants)) => {
                self.snippets.push(snippet);
                self.variants.extend(variants);
            }
            Err(error) => self.problems.push(error),
        }
    }

    fn expand(&mut self, path: &Path, text: &str) -> Result<(Snippet, Vec<Variant>), SnippetError> {
        let name =
            |p: Option<&std::ffi::OsStr>| p.map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = name(path.file_stem());
        let family = name(path.parent().and_then(Path::file_name));
        let index = self.snippets.len();
        let split = header::split(text);
        let Some(yaml) = split.yaml else {
            let as_written = self.as_written(path, text);
            let code = Code::from_module(text, outline(text), 1);
            let variant = Variant {
                id: stem.clone(),
                snippet: index,
                axes: Vec::new(),
                sass: Vec::new(),
                sass_count: 1,
                judged_late: true,
                execute: None,
                code,
            };
            let snippet =
                Snippet { path: path.to_owned(), family, stem, header: Header::default(), as_written };
            return Ok((snippet, vec![variant]));
        };
        let header: Header = header::parse_block(path, &yaml)?;
        let invalid =
            |line: usize, message: String| SnippetError::Invalid { path: path.to_owned(), line, message };
        let line_of =
            |word: &str| yaml.lines().position(|l| l.trim_start().starts_with(word)).map_or(1, |n| n + 1);
        check_header(&header).map_err(|(word, message)| invalid(line_of(&word), message))?;

        let mut used = BTreeSet::new();
        let mut variants = Vec::new();
        for axes in combinations(&header) {
            let mut scope = |extra: &[(&str, &str)], text: &str| -> Result<String, Fault> {
                let mut scope = Scope { axes: &axes, tables: &header.tables, extra, used: BTreeSet::new() };
                let out = scope.render(text)?;
                used.append(&mut scope.used);
                Ok(out)
            };
            let in_body = |fault: Fault| invalid(split.body_line + fault.line - 1, fault.message);
            let code = if outline(split.body).version.is_some() {
                let mut module = |isa, target| {
                    let text = scope(&[("isa", isa), ("target", target)], split.body)?;
                    Ok(Code::from_module(&text, outline(&text), split.body_line))
                };
                let code = module("8.8", "sm_121a").map_err(in_body)?;
                // If `${isa}` or `${target}` appeared elsewhere, the code would depend on them.
                let other = module("8.9", "sm_120f").map_err(in_body)?;
                if code.standalone(SAMPLE_ISA, SAMPLE_TARGET) != other.standalone(SAMPLE_ISA, SAMPLE_TARGET) {
                    let message =
                        "`${isa}` and `${target}` are allowed only in .version and .target".to_owned();
                    return Err(invalid(split.body_line, message));
                }
                code
            } else {
                Code::from_body(&scope(&[], split.body).map_err(in_body)?)
            };
            let in_sass = |fault: Fault| invalid(line_of("sass:"), fault.message);
            let sass =
                header.sass.iter().map(|s| scope(&[], s)).collect::<Result<_, _>>().map_err(in_sass)?;
            let sass_count = match &header.sass_count {
                None => 1,
                Some(count) => {
                    let text =
                        scope(&[], &count.0).map_err(|f| invalid(line_of("sass_count:"), f.message))?;
                    let number = text.parse().ok().filter(|n| *n > 0);
                    number.ok_or_else(|| {
                        invalid(line_of("sass_count:"), format!("`{text}` is not a count of opcodes"))
                    })?
                }
            };
            let execute = match &header.execute {
                None => None,
                Some(execute) => Some(
                    inputs(execute, &code, |text| scope(&[], text).map_err(|f| f.message))
                        .map_err(|message| invalid(line_of("execute:"), message))?,
                ),
            };
            let judged_late = header.judged_late || !self.ours;
            let values = axes.iter().map(|(_, value)| value.as_str());
            let id = std::iter::once(stem.as_str()).chain(values).collect::<Vec<_>>().join(".");
            variants.push(Variant { id, snippet: index, axes, sass, sass_count, judged_late, execute, code });
        }
        let mistake = mistake(&header, &variants, &used);
        if let Some(Mistake { key, nth, message }) = mistake {
            let lines = yaml.lines().enumerate().filter(|(_, line)| match nth {
                Some(_) => line.contains(&key),
                None => line.trim_start().starts_with(&key),
            });
            let line = lines.map(|(n, _)| n + 1).nth(nth.unwrap_or(0)).unwrap_or(1);
            return Err(invalid(line, message));
        }
        Ok((Snippet { path: path.to_owned(), family, stem, header, as_written: None }, variants))
    }

    fn as_written(&mut self, path: &Path, text: &str) -> Option<AsWritten> {
        // A file without `.target` cannot be assembled as written; the cells with a rewritten `.target` cover it.
        let place = outline(text).target?;
        match text[place.clone()].parse::<Target>() {
            Ok(target) => Some(AsWritten { text: text.to_owned(), target }),
            Err(source) => {
                let line = text[..place.start].matches('\n').count() + 1;
                self.problems.push(SnippetError::Target { path: path.to_owned(), line, source });
                None
            }
        }
    }

    fn drop_duplicates(&mut self) {
        let mut owner: BTreeMap<&str, usize> = BTreeMap::new();
        let mut drop = BTreeMap::new();
        for variant in &self.variants {
            match owner.get(variant.id.as_str()) {
                Some(first) if *first != variant.snippet => {
                    drop.entry(variant.snippet).or_insert_with(|| (variant.id.clone(), *first));
                }
                Some(first) => {
                    // An axis lists the same value twice.
                    drop.entry(*first).or_insert_with(|| (variant.id.clone(), *first));
                }
                None => {
                    owner.insert(&variant.id, variant.snippet);
                }
            }
        }
        self.variants.retain(|v| !drop.contains_key(&v.snippet));
        for (second, (id, first)) in drop {
            let path = |i: usize| self.snippets[i].path.clone();
            self.problems.push(SnippetError::Duplicate { id, path: path(second), first: path(first) });
        }
    }
}

/// The operand kinds of a variant's inputs.
fn inputs(
    execute: &Execute,
    code: &Code,
    mut render: impl FnMut(&str) -> Result<String, String>,
) -> Result<Vec<OperandKind>, String> {
    if code.per_lane(SAMPLE_ISA, SAMPLE_TARGET).is_none() {
        return Err("only a body can be run: a module has its own parameters".to_owned());
    }
    if execute.inputs.is_empty() {
        return Err("`inputs` names the types of the words of `in`, such as [f32]".to_owned());
    }
    let kind = |text: &String| render(text)?.parse().map_err(|error: UnknownKind| error.to_string());
    execute.inputs.iter().map(kind).collect()
}

/// Placeholder values for comparing two renderings of a module.
const SAMPLE_ISA: ptx::arch::PtxIsa = ptx::arch::PtxIsa { major: 1, minor: 0 };
const SAMPLE_TARGET: Target = Target { number: 120, suffix: ptx::arch::Suffix::Base };

/// Checks what serde cannot; an error carries the first word of the offending line.
fn check_header(header: &Header) -> Result<(), (String, String)> {
    let fault = |word: &str, message: String| Err((word.to_owned(), message));
    for (word, text) in [("about:", &header.about), ("spec:", &header.spec)] {
        if text.trim().is_empty() || text.contains("TODO") {
            return fault(word, format!("`{word}` is not filled in"));
        }
    }
    if header.grants.is_empty() {
        return fault("grants:", "a snippet must grant at least one capability".to_owned());
    }
    let snake = |s: &str| {
        !s.is_empty() && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    if let Some(bad) = header.grants.iter().find(|g| !snake(g) || g.contains("todo")) {
        return fault("grants:", format!("capability `{bad}` is not a snake_case name"));
    }
    if let Some(bad) = header.grants_when.iter().find(|g| !snake(&g.capability)) {
        let message = format!("capability `{}` is not a snake_case name", bad.capability);
        return fault("grants_when:", message);
    }
    let mut product = 1_usize;
    for (axis, values) in &header.axes {
        let word = format!("{axis}:");
        if !snake(axis) {
            return fault(&word, format!("axis `{axis}` is not a snake_case name"));
        }
        if values.is_empty() {
            return fault(&word, format!("axis `{axis}` has no values"));
        }
        let word_like = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if let Some(bad) = values.iter().find(|v| !word_like(&v.0)) {
            return fault(
                &word,
                format!(
                    "value `{}` of axis `{axis}` may contain only letters, digits and `_`; put other text into a table",
                    bad.0
                ),
            );
        }
        product = product.saturating_mul(values.len());
    }
    if product > VARIANT_LIMIT {
        return fault(
            "axes:",
            format!("{product} combinations, but a snippet is limited to {VARIANT_LIMIT}; split it"),
        );
    }
    let conditions = header
        .except
        .iter()
        .map(|c| ("except:", c))
        .chain(header.claims.iter().map(|c| ("claims:", &c.when)));
    for (word, condition) in conditions {
        for (axis, values) in condition {
            let Some(known) = header.axes.get(axis) else {
                return fault(word, format!("unknown axis `{axis}` in a condition of `{word}`"));
            };
            if let Some(bad) = values.0.iter().find(|v| !known.iter().any(|k| &k.0 == *v)) {
                return fault(
                    word,
                    format!("axis `{axis}` has no value `{bad}`, named in a condition of `{word}`"),
                );
            }
        }
    }
    if let Some(claim) = header.claims.iter().find(|c| c.source.trim().is_empty() || c.targets.is_empty()) {
        return fault("claims:", format!("a claim needs a source and targets (source: `{}`)", claim.source));
    }
    Ok(())
}

/// Every combination of axis values, the first axis slowest, without those that `except` excludes.
fn combinations(header: &Header) -> Vec<Assignment> {
    let mut out: Vec<Assignment> = vec![Vec::new()];
    for (axis, values) in &header.axes {
        out = out
            .into_iter()
            .flat_map(|head| {
                values.iter().map(move |value| {
                    let mut next = head.clone();
                    next.push((axis.clone(), value.0.clone()));
                    next
                })
            })
            .collect();
    }
    out.retain(|a| !header.except.iter().any(|e| holds(e, a)));
    out
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "ptx") {
            files.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, SnippetError> {
    let failed = |source| SnippetError::Read { path: path.to_owned(), source };
    let bytes = fs::metadata(path).map_err(failed)?.len();
    if bytes > SIZE_LIMIT {
        return Err(SnippetError::TooLarge { path: path.to_owned(), bytes });
    }
    String::from_utf8(fs::read(path).map_err(failed)?).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].iter().filter(|b| **b == b'\n').count() + 1;
        SnippetError::NotUtf8 { path: path.to_owned(), line }
    })
}
/// What is wrong with a header as a whole.
struct Mistake {
    /// The text of the line at fault.
    key: String,
    /// Which of the lines that contain `key`, from 0; the first that begins with it if `None`.
    nth: Option<usize>,
    message: String,
}

/// Returns what the variants of a header show to be wrong: nothing is left of them, or something of the header has no effect. `used` has
/// the axes, and the tables in brackets, that the text names.
fn mistake(header: &Header, variants: &[Variant], used: &BTreeSet<String>) -> Option<Mistake> {
    let at = |key: String, message: String| Some(Mistake { key, nth: None, message });
    if variants.is_empty() {
        return at("except:".to_owned(), "every combination of axis values is excluded".to_owned());
    }
    if let Some(axis) = header.axes.keys().find(|axis| !used.contains(*axis)) {
        let message = format!("axis `{axis}` is not used; write `${{{axis}}}` in the text or remove it");
        return at(format!("{axis}:"), message);
    }
    if let Some(table) = header.tables.keys().find(|table| !used.contains(&format!("[{table}]"))) {
        let message =
            format!("table `{table}` is not used; write `${{{table}[axis]}}` in the text or remove it");
        return at(format!("{table}:"), message);
    }
    let covers = |when: &_| variants.iter().any(|v| holds(when, &v.axes));
    if let Some(grant) = header.grants_when.iter().find(|grant| !covers(&grant.when)) {
        let capability = &grant.capability;
        let message = format!("no variant grants `{capability}`: check the axes and values of its `when`");
        return at("grants_when:".to_owned(), message);
    }
    let claim = header.claims.iter().position(|claim| !covers(&claim.when))?;
    Some(Mistake {
        key: "source:".to_owned(),
        nth: Some(claim),
        message: "this claim covers no variant: check the axes and values of its `when`".to_owned(),
    })
}
