//! The error of a failed launch, with the line of the PTX underlined.

use emulator::{Lack, Stop};
use miette::{Diagnostic, NamedSource, SourceSpan};

use super::exit;
use crate::record::Incomplete;

/// A [`Stop`] and the PTX to which it refers.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub(super) struct PtxError {
    message: String,
    #[source_code]
    ptx: NamedSource<String>,
    #[label("{label}")]
    at: Option<SourceSpan>,
    label: String,
    #[help]
    help: Option<String>,
    code: u8,
}

impl PtxError {
    pub(super) fn new(name: &str, text: &str, stop: Stop) -> Box<Self> {
        let message = stop.to_string();
        let (line, label, help, code) = match stop {
            Stop::Trap(trap) => {
                let source = trap.place.source.as_ref();
                let help = source.map(|(file, line)| format!("the source line is {file}:{line}"));
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
        Box::new(Self {
            message,
            ptx: NamedSource::new(name, text.to_owned()),
            at: span(text, line),
            label,
            help,
            code,
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

/// The span of a line without its indentation.
fn span(text: &str, line: usize) -> Option<SourceSpan> {
    let number = line.checked_sub(1)?;
    let row = text.split_inclusive('\n').nth(number)?;
    let start: usize = text.split_inclusive('\n').take(number).map(str::len).sum();
    let indent = row.len() - row.trim_start().len();
    Some((start + indent, row.trim().len()).into())
}
