//! The error of a failed launch, with the line of the PTX underlined.

use emulator::{Lack, Place, Stop};
use miette::{Diagnostic, LabeledSpan, NamedSource, SourceSpan};

use super::exit;
use crate::record::Incomplete;

/// A [`Stop`] and the PTX to which it refers.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub(super) struct PtxError {
    message: String,
    #[source_code]
    ptx: NamedSource<String>,
    #[label(collection)]
    at: Vec<LabeledSpan>,
    #[help]
    help: Option<String>,
    code: u8,
}

impl PtxError {
    pub(super) fn new(name: &str, text: &str, stop: Stop) -> Box<Self> {
        let message = stop.to_string();
        let mut other = None;
        let (line, label, help, code) = match stop {
            Stop::Trap(trap) => {
                let beside = trap.other.and_then(|other| other.place);
                let help =
                    source_line(&trap.place).map(|source| match beside.as_ref().and_then(source_line) {
                        Some(other) => {
                            format!("the source lines are {source} and, of the other access, {other}")
                        }
                        None => format!("the source line is {source}"),
                    });
                // Another launch may be of another module.
                other = beside.filter(|other| other.launch == trap.place.launch).map(|other| other.line);
                (trap.place.line, trap.rule.word().to_owned(), help, exit::DOES_NOT_CONFORM)
            }
            Stop::Unsupported(form) => match form.lack {
                Lack::Emulator => (form.line, "not emulated".to_owned(), None, exit::INCOMPLETE),
                // ptxas refuses it, too: the file is wrong.
                Lack::Ptx => (form.line, "refused by ptxas, too".to_owned(), None, exit::USAGE),
            },
            Stop::Launch(_) => (0, String::new(), None, exit::USAGE),
            Stop::Bug(_) => (0, String::new(), None, exit::INTERNAL),
        };
        let labeled = |label: &str, line| {
            span(text, line).map(|at| LabeledSpan::new_with_span(Some(label.to_owned()), at))
        };
        let same = other.is_some_and(|other| other == line);
        let other = other.filter(|_| !same).and_then(|other| labeled("the other access", other));
        let labels = labeled(&label, line).into_iter().chain(other).collect();
        Box::new(Self { message, ptx: NamedSource::new(name, text.to_owned()), at: labels, help, code })
    }

    /// The error of a text that is not PTX, at its place.
    pub(super) fn syntax(name: &str, text: &str, error: &ptx::SyntaxError) -> Box<Self> {
        let at = span(text, error.line).map(|at| LabeledSpan::new_with_span(Some("not PTX".to_owned()), at));
        Box::new(Self {
            message: format!("{name}: {error}"),
            ptx: NamedSource::new(name, text.to_owned()),
            at: at.into_iter().collect(),
            help: None,
            code: exit::USAGE,
        })
    }

    pub(super) fn exit_code(&self) -> u8 {
        self.code
    }

    /// Returns what was not checked, if the kernel uses something that is not emulated.
    pub(super) fn incomplete(&self) -> Option<Incomplete> {
        let refused = self.code == exit::INCOMPLETE;
        refused.then(|| Incomplete::nothing(format!("1 kernel could not run: {}", self.message)))
    }
}

/// The file and line of the source, with the text; and those of the call, if the line is of a function that was inlined.
fn source_line(place: &Place) -> Option<String> {
    let shown = |at: &Option<(String, u32)>, text: &Option<String>| {
        let (file, line) = at.as_ref()?;
        let text = text.as_ref().map_or_else(String::new, |text| format!(" `{text}`"));
        Some(format!("{file}:{line}{text}"))
    };
    let line = shown(&place.source, &place.source_text)?;
    Some(match shown(&place.inlined_at, &place.inlined_text) {
        Some(call) => format!("{line}, inlined at {call}"),
        None => line,
    })
}

/// The span of a line without its indentation.
fn span(text: &str, line: usize) -> Option<SourceSpan> {
    let number = line.checked_sub(1)?;
    let row = text.split_inclusive('\n').nth(number)?;
    let start: usize = text.split_inclusive('\n').take(number).map(str::len).sum();
    let indent = row.len() - row.trim_start().len();
    Some((start + indent, row.trim().len()).into())
}
