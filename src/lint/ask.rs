//! Runs one module through many assemblers; each query runs once and its result is cached.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use ptx::arch::{PtxIsa, Target};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::source::Module;
use crate::event::{Event, Sink};
use crate::matrix::{self, FileAnswer};
use crate::record::Outcome;
use crate::store::{self, Store};
use crate::toolkit::Toolkit;

/// Kind of the entries in the store; the number changes with the format or the way ptxas is run.
const KIND: &str = "lint-1";

/// One query: a module for one `-arch`; `.version` and `.target` are as written if `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Question {
    /// Index into the toolkits.
    pub(super) toolkit: usize,
    pub(super) version: Option<PtxIsa>,
    pub(super) target: Option<Target>,
    pub(super) arch: Target,
}

/// An error or a warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Said {
    /// Line of the module, from 1.
    pub(super) line: Option<usize>,
    /// The message of ptxas.
    pub(super) text: String,
}

/// The result of one run of ptxas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) outcome: Outcome,
    pub(super) errors: Vec<Said>,
    pub(super) warnings: Vec<Said>,
}

type Stored = (char, Vec<Said>, Vec<Said>);

/// The assemblers to run, with their time limit, cache and sink.
pub struct Assemblers<'a> {
    /// The toolkits, ascending.
    pub toolkits: &'a [&'a Toolkit],
    /// The cache of results; no cache if `None`.
    pub store: Option<&'a Store>,
    /// The time limit of one run of ptxas.
    pub limit: Duration,
    /// Receives progress and warnings.
    pub sink: &'a dyn Sink,
}

/// The results for one module.
pub(super) struct Desk<'a> {
    pub(super) assemblers: &'a Assemblers<'a>,
    module: &'a Module,
    scratch: &'a Path,
    answers: HashMap<Question, Answer>,
}

impl<'a> Desk<'a> {
    pub(super) fn new(assemblers: &'a Assemblers<'a>, module: &'a Module, scratch: &'a Path) -> Self {
        Self { assemblers, module, scratch, answers: HashMap::new() }
    }

    /// Normalizes a query: drops a version or target that equals the module's.
    fn plain(&self, mut question: Question) -> Question {
        if question.version.is_some() && question.version == self.module.isa() {
            question.version = None;
        }
        if question.target.is_some() && question.target == self.module.known_target() {
            question.target = None;
        }
        question
    }

    /// Runs the queries that have no result yet, in parallel.
    pub(super) fn ask(&mut self, questions: impl IntoIterator<Item = Question>) {
        let mut open: Vec<Question> = Vec::new();
        for question in questions {
            let question = self.plain(question);
            if !self.answers.contains_key(&question) && !open.contains(&question) {
                open.push(question);
            }
        }
        if open.is_empty() {
            return;
        }
        let sink = self.assemblers.sink;
        sink.emit(Event::MatrixStarted { pairs: open.len(), cells: open.len() });
        let one = |question: &Question| {
            let answer = self.answer(question);
            let version = self.assemblers.toolkits[question.toolkit].version;
            sink.emit(Event::PairFinished { pair: format!("{version} {}", question.arch) });
            (*question, answer)
        };
        let answered: Vec<(Question, Answer)> = open.par_iter().map(one).collect();
        sink.emit(Event::MatrixFinished);
        self.answers.extend(answered);
    }

    /// Returns the result of a query that was run.
    pub(super) fn get(&self, question: Question) -> Option<&Answer> {
        self.answers.get(&self.plain(question))
    }

    /// Returns the result of a query, from the cache or by running ptxas.
    pub(super) fn answer(&self, question: &Question) -> Answer {
        let toolkit = self.assemblers.toolkits[question.toolkit];
        let name = question.arch.to_string();
        if !toolkit.knows(question.arch) {
            // The message of ptxas is known in this case, and it does not depend on the file.
            let text = format!("Value '{name}' is not defined for option 'gpu-name'");
            let errors = vec![Said { line: None, text }];
            return Answer { outcome: Outcome::UnknownTarget, errors, warnings: Vec::new() };
        }
        let word = |w: Option<String>| w.unwrap_or_else(|| "as written".to_owned());
        let (version, target) =
            (word(question.version.map(|v| v.to_string())), word(question.target.map(|t| t.to_string())));
        let identity = format!("{} {name} {version} {target} {}", toolkit.sha256, self.module.hash);
        let key = store::sha256(identity.as_bytes())[..40].to_owned();
        if let Some(answer) = self.assemblers.store.and_then(|store| kept(store, &key)) {
            return answer;
        }
        let text = self.module.with(question.version, question.target);
        match matrix::ask_file(toolkit, question.arch, &text, self.scratch, self.assemblers.limit) {
            Ok(answer) => {
                let answer = taken(answer);
                // Crashes and time-outs may be caused by the machine and are not cached.
                if !matches!(answer.outcome, Outcome::Crashed | Outcome::TimedOut) {
                    self.keep(&key, &answer);
                }
                answer
            }
            Err(error) => {
                let errors = vec![Said { line: None, text: cannot_start(&error) }];
                Answer { outcome: Outcome::Crashed, errors, warnings: Vec::new() }
            }
        }
    }

    fn keep(&self, key: &str, answer: &Answer) {
        let Some(store) = self.assemblers.store else { return };
        let stored: Stored = (answer.outcome.letter(), answer.errors.clone(), answer.warnings.clone());
        // Letters, numbers and strings always serialise.
        let bytes = serde_json::to_vec(&stored).unwrap_or_default();
        if let Err(error) = store.put(KIND, key, &bytes) {
            self.assemblers.sink.emit(Event::Warning { text: error.to_string() });
        }
    }
}

fn cannot_start(error: &io::Error) -> String {
    format!("ptxas cannot be run: {error}")
}

fn kept(store: &Store, key: &str) -> Option<Answer> {
    let (letter, errors, warnings) = serde_json::from_slice::<Stored>(&store.get(KIND, key)?).ok()?;
    Some(Answer { outcome: Outcome::from_letter(letter)?, errors, warnings })
}

fn taken(answer: FileAnswer) -> Answer {
    let said = |list: Vec<matrix::Diagnostic>| {
        let one = |d: matrix::Diagnostic| {
            // Some errors name their line only in the text: `Unexpected EOF encountered on line 13`.
            let line = d.line.or_else(|| spoken_line(&d.text));
            Said { line, text: d.text }
        };
        list.into_iter().map(one).collect()
    };
    Answer { outcome: answer.outcome, errors: said(answer.errors), warnings: said(answer.warnings) }
}

const ON_LINE: &str = " on line ";

fn spoken_line(text: &str) -> Option<usize> {
    text.rsplit_once(ON_LINE)?.1.parse().ok()
}

/// Converts the line in a message of ptxas from the module's line to the file's.
pub(super) fn of_file(said: &Said, first_line: usize) -> (Option<usize>, String) {
    let line = said.line.map(|l| l + first_line - 1);
    let text = match (said.text.rsplit_once(ON_LINE), spoken_line(&said.text), line) {
        (Some((words, _)), Some(_), Some(line)) => format!("{words}{ON_LINE}{line}"),
        _ => said.text.clone(),
    };
    (line, text)
}
