//! A file into its tests: every variant with its PTX, its launches and its expected end.

use std::path::Path;

use emulator::argument::{Content, Shape};

use super::section::{
    Checks, Divided, End, Given, Problem, RawValues, Run, Schedules, Section, Violation, divide,
};
use super::values::Values;

/// Instructions of a launch where the header does not say: enough for every test, few enough to end soon.
const FUEL: u64 = 10_000_000;

/// What a test expects.
#[derive(Debug, PartialEq)]
pub(crate) enum Expected {
    /// No violation, and these values.
    Values(Vec<Values>),
    /// One of these violations.
    Violation(Vec<Violation>),
    /// A form that is not emulated, in the one line with this text.
    Unsupported(String),
    /// A launch or a text that is refused with this message.
    Error(String),
}

/// A test.
#[derive(Debug, PartialEq)]
pub(crate) struct Test {
    /// The variant; empty where the file has none.
    pub(crate) name: String,
    /// The text that is run; its first lines are the header, unless it comes from another file.
    pub(crate) ptx: String,
    /// Lines of `ptx` that are the header's.
    pub(crate) header_lines: usize,
    pub(crate) buffers: Vec<(String, Content)>,
    pub(crate) runs: Vec<Run>,
    pub(crate) schedules: Schedules,
    pub(crate) fuel: u64,
    pub(crate) contract: bool,
    pub(crate) checks: Checks,
    pub(crate) expected: Expected,
    /// Parts of the message.
    pub(crate) messages: Vec<String>,
}

/// Reads the tests of a file.
pub(crate) fn read(path: &Path, text: &str) -> Result<Vec<Test>, Problem> {
    let Divided { mut sections, header, body } = divide(path, text)?;
    let own = sections.split_off(1);
    let problem = |line: usize, what: String| Problem { path: path.to_owned(), line, what };
    let Some(common) = sections.pop() else { return Ok(Vec::new()) };
    let (header, body) = match &common.source {
        None => (header, body),
        Some((line, source)) => {
            if !body.trim().is_empty() {
                return Err(problem(*line, "a file with a `source` has no PTX of its own".to_owned()));
            }
            let from = path.parent().unwrap_or(path).join(source);
            let text = std::fs::read_to_string(&from)
                .map_err(|error| problem(*line, format!("{}: {error}", from.display())))?;
            (String::new(), text)
        }
    };
    let file = FileParts { path, header, body, common };
    if own.is_empty() {
        return Ok(vec![file.test(&Section { line: 1, ..Section::default() })?]);
    }
    let mut tests: Vec<Test> = Vec::new();
    for section in &own {
        let test = file.test(section)?;
        let same = |other: &Test| {
            (&other.ptx, &other.buffers, &other.runs, other.schedules, other.fuel, other.checks)
                == (&test.ptx, &test.buffers, &test.runs, test.schedules, test.fuel, test.checks)
                && other.contract == test.contract
        };
        if let Some(other) = tests.iter().find(|other| other.name == test.name || same(other)) {
            return Err(problem(
                section.line,
                format!("variant `{}` is the same as `{}`", test.name, other.name),
            ));
        }
        tests.push(test);
    }
    Ok(tests)
}

/// What all variants of a file are made of.
struct FileParts<'a> {
    path: &'a Path,
    header: String,
    body: String,
    common: Section,
}

impl FileParts<'_> {
    fn problem(&self, line: usize, what: impl Into<String>) -> Problem {
        Problem { path: self.path.to_owned(), line, what: what.into() }
    }

    fn test(&self, own: &Section) -> Result<Test, Problem> {
        let common = &self.common;
        let mut body = self.body.clone();
        for (line, edit) in common.edits.iter().chain(&own.edits) {
            body = edit.apply(&body).map_err(|what| self.problem(*line, what))?;
        }
        let buffers: Vec<(String, Content)> = common.buffers.iter().chain(&own.buffers).cloned().collect();
        let args = if own.args.is_empty() { &common.args } else { &own.args };
        let mut runs = if own.runs.is_empty() { common.runs.clone() } else { own.runs.clone() };
        if runs.is_empty() {
            runs.push(Run::default());
        }
        for run in &mut runs {
            if run.args.is_empty() {
                run.args.clone_from(args);
            }
            for given in &run.args {
                let (Given::Buffer(name) | Given::Map(emulator::argument::MapOf { of: name, .. })) = given
                else {
                    continue;
                };
                if !buffers.iter().any(|(known, _)| known == name) {
                    return Err(self.problem(own.line, format!("there is no buffer `{name}`")));
                }
            }
        }
        let (ends, messages) = if own.ends.is_empty() {
            (&common.ends, common.messages.iter().chain(&own.messages).cloned().collect())
        } else {
            (&own.ends, own.messages.clone())
        };
        let expected = self.expected(own.line, ends, &buffers)?;
        Ok(Test {
            name: own.name.clone(),
            header_lines: self.header.lines().count(),
            ptx: format!("{}{body}", self.header),
            buffers,
            runs,
            schedules: own.schedules.or(common.schedules).unwrap_or(Schedules { count: 1, any: false }),
            fuel: own.fuel.or(common.fuel).unwrap_or(FUEL),
            contract: own.contract.or(common.contract).unwrap_or(false),
            checks: own.checks.or(common.checks).unwrap_or(Checks {
                initialisation: true,
                races: true,
                fences: false,
            }),
            expected,
            messages,
        })
    }

    /// The one way to end that these lines describe.
    fn expected(
        &self,
        section: usize,
        ends: &[(usize, End)],
        buffers: &[(String, Content)],
    ) -> Result<Expected, Problem> {
        let (mut values, mut violations, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut passes = false;
        for (line, end) in ends {
            match end {
                End::NoViolation => passes = true,
                End::Values(raw) => values.push(self.values(raw, buffers)?),
                End::Violation(violation) => violations.push(violation.clone()),
                End::Unsupported(text) => others.push(Expected::Unsupported(text.clone())),
                End::Error(text) if text.is_empty() => {
                    return Err(self.problem(*line, "an `error` needs a part of its message"));
                }
                End::Error(text) => others.push(Expected::Error(text.clone())),
            }
        }
        let passes = passes || !values.is_empty();
        match (passes, violations.is_empty(), others.len()) {
            (true, true, 0) => Ok(Expected::Values(values)),
            (false, false, 0) => Ok(Expected::Violation(violations)),
            (false, true, 1) => Ok(others.remove(0)),
            (false, true, 0) => Err(self.problem(
                section,
                "nothing is expected; `//@ expect: no violation` is the least that a test says",
            )),
            _ => Err(self.problem(section, "a test ends in one way: values, a violation or a refusal")),
        }
    }

    fn values(&self, raw: &RawValues, buffers: &[(String, Content)]) -> Result<Values, Problem> {
        let found = buffers.iter().find(|(name, _)| *name == raw.buffer);
        let shape = found.and_then(|(_, content)| shape(content));
        let shape =
            shape.ok_or_else(|| self.problem(raw.line, format!("there is no buffer `{}`", raw.buffer)))?;
        Values::read(raw, shape).map_err(|what| self.problem(raw.line, what))
    }
}

fn shape(content: &Content) -> Option<&Shape> {
    match content {
        Content::Zeros(shape)
        | Content::Iota(shape)
        | Content::Random(_, shape)
        | Content::Unwritten(shape) => Some(shape),
        Content::File { .. } => None,
    }
}
