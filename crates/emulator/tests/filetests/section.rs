//! The lines of a header, read one by one: what all variants share, and what each has of its own.

use std::path::{Path, PathBuf};

use emulator::Rule;
use emulator::argument::{self, Argument, Content, MapOf};

use super::edit::Edit;
use super::words::{checks, contract, expect, number, schedules, three, violation};

/// The mark of a header line, a comment in PTX.
const MARK: &str = "//@";

/// What is wrong with a test file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {what}", path.display())]
pub(crate) struct Problem {
    /// The file.
    pub(crate) path: PathBuf,
    /// Its line, from 1.
    pub(crate) line: usize,
    /// What is wrong there.
    pub(crate) what: String,
}

/// An argument of a launch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Given {
    /// Bytes.
    Value(Vec<u8>),
    /// The address of a buffer of the test.
    Buffer(String),
    /// A tensor map over a buffer of the test.
    Map(MapOf),
}

/// A launch: the words of `emulate`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub(crate) entry: Option<String>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    /// Whether it may begin before the launch in front of it has ended.
    pub(crate) programmatic: bool,
    /// Whether all its CTAs are resident together.
    pub(crate) cooperative: bool,
    /// Its own arguments; those of the `arg:` lines where it has none.
    pub(crate) args: Vec<Given>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            entry: None,
            grid: [1; 3],
            block: [32, 1, 1],
            shared_bytes: 0,
            programmatic: false,
            cooperative: false,
            args: Vec::new(),
        }
    }
}

/// A violation that a test may end with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    /// Text of the one PTX line that it names.
    pub(crate) at: Option<String>,
}

/// The values that a buffer holds at the end, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawValues {
    /// Line of the file, from 1.
    pub(crate) line: usize,
    pub(crate) buffer: String,
    /// The first element.
    pub(crate) first: usize,
    pub(crate) list: String,
}

/// How a test ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Values(RawValues),
    NoViolation,
    Violation(Violation),
    /// A form that is not emulated, with text of the one PTX line that has it.
    Unsupported(String),
    /// A launch that cannot be made, or text that is no PTX; with a part of the message.
    Error(String),
}

/// Schedules that a test runs under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schedules {
    /// Seeds 0 to this.
    pub(crate) count: u64,
    /// Whether one schedule that finds the violation is enough.
    pub(crate) any: bool,
}

/// The checks that are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checks {
    pub(crate) initialisation: bool,
    pub(crate) races: bool,
    pub(crate) fences: bool,
}

/// The lines in front of the first variant, or of one variant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Section {
    /// Line of the file, from 1.
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) edits: Vec<(usize, Edit)>,
    pub(crate) source: Option<(usize, PathBuf)>,
    pub(crate) runs: Vec<Run>,
    pub(crate) args: Vec<Given>,
    /// Buffers by name, with what they hold at first, in the order in which they are allocated.
    pub(crate) buffers: Vec<(String, Content)>,
    pub(crate) schedules: Option<Schedules>,
    pub(crate) fuel: Option<u64>,
    /// Whether products and sums round once.
    pub(crate) contract: Option<bool>,
    pub(crate) checks: Option<Checks>,
    pub(crate) ends: Vec<(usize, End)>,
    pub(crate) messages: Vec<String>,
}

/// A file divided: sections, the first of which all variants share, and the text that is edited and run.
#[derive(Debug)]
pub(crate) struct Divided {
    pub(crate) sections: Vec<Section>,
    /// The comments at the top.
    pub(crate) header: String,
    /// The PTX, without the expectations on its lines.
    pub(crate) body: String,
}

/// Reads the header lines of a file.
pub(crate) fn divide(path: &Path, text: &str) -> Result<Divided, Problem> {
    let mut sections = vec![Section::default()];
    let (mut header, mut body) = (String::new(), String::new());
    let mut in_header = true;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let problem = |what: String| Problem { path: path.to_owned(), line: number, what };
        in_header &= line.is_empty() || line.starts_with("//");
        let (code, mark) = match line.split_once(MARK) {
            Some((code, mark)) => (code, Some(mark)),
            None => (line, None),
        };
        if let Some(mark) = mark {
            let (key, value) = mark
                .split_once(':')
                .ok_or_else(|| problem("a header line is `//@ KEY: VALUE`".to_owned()))?;
            let (key, value) = (key.trim(), value.trim());
            if !in_header && key != "expect" {
                return Err(problem(format!(
                    "`{key}` belongs into the header; only `expect` may follow PTX"
                )));
            }
            let at = if in_header { sections.len() - 1 } else { 0 };
            if key == "variant" {
                sections.push(variant(number, value).map_err(problem)?);
            } else {
                sections[at].take(number, key, value).map_err(problem)?;
            }
        }
        let (to, kept) = if in_header { (&mut header, line) } else { (&mut body, code.trim_end()) };
        to.push_str(kept);
        to.push('\n');
    }
    Ok(Divided { sections, header, body })
}

/// `NAME`, or `NAME: OLD => NEW`.
fn variant(line: usize, value: &str) -> Result<Section, String> {
    let (name, edit) = value.split_once(':').map_or((value, None), |(name, edit)| (name.trim(), Some(edit)));
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
        return Err(format!("`{name}` is not a name of small letters, digits and `_`"));
    }
    let mut section = Section { line, name: name.to_owned(), ..Section::default() };
    if let Some(edit) = edit {
        section.edits.push((line, Edit::once(edit)?));
    }
    Ok(section)
}

impl Section {
    fn take(&mut self, line: usize, key: &str, value: &str) -> Result<(), String> {
        match key {
            "run" => {
                let run = self.run(value)?;
                self.runs.push(run);
            }
            "arg" => {
                let given = self.argument(value)?;
                self.args.push(given);
            }
            "buf" => {
                let (name, content) = argument::parse_buffer(value).map_err(|error| error.to_string())?;
                self.buffer(name, content)?;
            }
            "source" => once(key, &mut self.source, (line, value.into()))?,
            "schedules" => once(key, &mut self.schedules, schedules(value)?)?,
            "fuel" => once(key, &mut self.fuel, number(value)?)?,
            "contract" => once(key, &mut self.contract, contract(value)?)?,
            "checks" => once(key, &mut self.checks, checks(value)?)?,
            "replace" => self.edits.push((line, Edit::once(value)?)),
            "replace all" => self.edits.push((line, Edit::all(value)?)),
            "expect" => self.ends.push((line, expect(line, value)?)),
            "violation" => self.ends.push((line, End::Violation(violation(value)?))),
            "unsupported" => self.ends.push((line, End::Unsupported(value.to_owned()))),
            "error" => self.ends.push((line, End::Error(value.to_owned()))),
            "message" => self.messages.push(value.to_owned()),
            _ => match key.strip_prefix("replace ").and_then(|n| n.parse().ok()) {
                Some(n) => self.edits.push((line, Edit::nth(n, value)?)),
                None => {
                    return Err(format!(
                        "`{key}` is not a key; the keys are run, arg, buf, source, schedules, fuel, contract, checks, \
                         variant, replace, replace all, replace N, expect, violation, unsupported, error, message"
                    ));
                }
            },
        }
        Ok(())
    }

    fn buffer(&mut self, name: String, content: Content) -> Result<(), String> {
        if self.buffers.iter().any(|(known, _)| *known == name) {
            return Err(format!("two buffers are named `{name}`"));
        }
        self.buffers.push((name, content));
        Ok(())
    }

    fn argument(&mut self, word: &str) -> Result<Given, String> {
        // A buffer of an argument further up.
        if let Some(name) = word.strip_prefix("buf:").filter(|name| !name.contains('=')) {
            return Ok(Given::Buffer(name.to_owned()));
        }
        Ok(match argument::parse(word).map_err(|error| error.to_string())? {
            Argument::Value { bytes, .. } => Given::Value(bytes),
            Argument::Buffer { name, content } => {
                self.buffer(name.clone(), content)?;
                Given::Buffer(name)
            }
            Argument::Map(map) => Given::Map(map),
        })
    }

    fn run(&mut self, value: &str) -> Result<Run, String> {
        let mut run = Run::default();
        let mut words = value.split_whitespace();
        while let Some(flag) = words.next() {
            if flag == "--programmatic" {
                run.programmatic = true;
                continue;
            }
            if flag == "--cooperative" {
                run.cooperative = true;
                continue;
            }
            let word = words.next().ok_or_else(|| format!("`{flag}` needs a value"))?;
            match flag {
                "--entry" => run.entry = Some(word.to_owned()),
                "--grid" => run.grid = three(word)?,
                "--block" => run.block = three(word)?,
                "--smem" => run.shared_bytes = number(word)?,
                "--arg" => {
                    let given = self.argument(word)?;
                    run.args.push(given);
                }
                _ => {
                    return Err(format!(
                        "`{flag}` is not one of --entry, --grid, --block, --smem, --arg, --programmatic, --cooperative"
                    ));
                }
            }
        }
        Ok(run)
    }
}

fn once<T>(key: &str, slot: &mut Option<T>, value: T) -> Result<(), String> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("`{key}` is given twice")),
    }
}
