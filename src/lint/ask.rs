//! Questions about one module to many assemblers, each asked once and kept.

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

/// Kind of the entries in the store; the number changes with the format or with how ptxas is run.
const KIND: &str = "lint-1";

/// One question: a module, as written where nothing stands, for one `-arch`.
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
    /// ptxas's words.
    pub(super) text: String,
}

/// What a ptxas answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) outcome: Outcome,
    pub(super) errors: Vec<Said>,
    pub(super) warnings: Vec<Said>,
}

type Stored = (char, Vec<Said>, Vec<Said>);

/// Who is asked, and how.
pub struct Assemblers<'a> {
    /// The toolkits, ascending.
    pub toolkits: &'a [&'a Toolkit],
    /// Where answers are kept; nowhere when left out.
    pub store: Option<&'a Store>,
    /// Time that one run of ptxas gets.
    pub limit: Duration,
    /// Who is told of warnings.
    pub sink: &'a dyn Sink,
}

/// The answers about one module.
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

    /// The same question without what the module says anyway.
    fn plain(&self, mut question: Question) -> Question {
        if question.version.is_some() && question.version == self.module.isa() {
            question.version = None;
        }
        if question.target.is_some() && question.target == self.module.known_target() {
            question.target = None;
        }
        question
    }

    /// Asks what has not been asked, several at a time.
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

    /// The answer to a question that was asked.
    pub(super) fn get(&self, question: Question) -> Option<&Answer> {
        self.answers.get(&self.plain(question))
    }

    fn answer(&self, question: &Question) -> Answer {
        let toolkit = self.assemblers.toolkits[question.toolkit];
        let name = question.arch.to_string();
        if !toolkit.knows(question.arch) {
            // What ptxas says then is known, and it says nothing about the file.
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
                // What may be the machine's fault is not kept.
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
            // Some errors name their line in words alone: `Unexpected EOF encountered on line 13`.
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

/// ptxas's words with the file's line in the place of the module's.
pub(super) fn of_file(said: &Said, first_line: usize) -> (Option<usize>, String) {
    let line = said.line.map(|l| l + first_line - 1);
    let text = match (said.text.rsplit_once(ON_LINE), spoken_line(&said.text), line) {
        (Some((words, _)), Some(_), Some(line)) => format!("{words}{ON_LINE}{line}"),
        _ => said.text.clone(),
    };
    (line, text)
}
