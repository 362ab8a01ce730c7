//! Reads the log of a model server: which paths it chose for MoE layers, attention and quantisation, and whether they suit the model and
//! the GPU.

mod engine;
mod judge;
#[cfg(test)]
mod messages;
mod near;
mod rules;

use std::borrow::Cow;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use serde::Serialize;

pub use engine::{Engine, Facts};
pub use judge::{Choice, Flag, Judgement};
pub use rules::{Format, Path};

/// The size limit of a log, bytes: what a server says when it starts is in its first megabytes, but logs of months are kept.
const SIZE_LIMIT: u64 = 256 << 20;

/// What a log shows.
#[derive(Debug, Clone, Serialize)]
pub struct LogReport {
    /// The file.
    pub file: PathBuf,
    /// The number of lines.
    pub lines: usize,
    /// What the log says about the server, the model and the GPU.
    pub facts: Facts,
    /// The paths that were chosen, in the order of the log.
    pub choices: Vec<Choice>,
    /// What is wrong or suspicious, in the order of the log.
    pub flags: Vec<Flag>,
    /// Messages whose words are nearest to those of an error that is not known; their cause may be another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<Flag>,
    /// What the log does not say.
    pub missing: Vec<String>,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It cannot be read.
    #[error("{}: cannot be read: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The underlying error.
        source: std::io::Error,
    },
    /// It is empty.
    #[error("{}: empty: redirect both outputs of the server into it (`… > server.log 2>&1`)", .0.display())]
    Empty(PathBuf),
    /// It is too large.
    #[error("{}: {} MB; the limit is {} MB: cut off what follows the start of the server (`head -n 20000`)", file.display(), bytes >> 20, SIZE_LIMIT >> 20)]
    Large {
        /// The file.
        file: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// It is not text.
    #[error("{}:{line}: not text: byte {byte:#04x}; name the log itself, unpacked", file.display())]
    Binary {
        /// The file.
        file: PathBuf,
        /// The line of the first such byte.
        line: usize,
        /// The byte.
        byte: u8,
    },
    /// The table of rules is invalid, which a test rules out.
    #[error("the table of what servers write cannot be used: {0}")]
    Rules(String),
}

/// Reads a log. `gpu` is the architecture number of the GPU that it ran on, where the log does not say so.
///
/// # Errors
/// [`LogError`] if it is not a readable text.
pub fn read_log(file: &std::path::Path, gpu: Option<u16>) -> Result<LogReport, LogError> {
    let failed = |source| LogError::Read { file: file.to_owned(), source };
    let opened = File::open(file).map_err(failed)?;
    let metadata = opened.metadata().map_err(failed)?;
    if metadata.is_file() && metadata.len() > SIZE_LIMIT {
        return Err(LogError::Large { file: file.to_owned(), bytes: metadata.len() });
    }
    let mut bytes = Vec::new();
    opened.take(SIZE_LIMIT + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > SIZE_LIMIT {
        return Err(LogError::Large { file: file.to_owned(), bytes: bytes.len() as u64 });
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(LogError::Empty(file.to_owned()));
    }
    let strange = |b: &u8| *b < 0x20 && !matches!(b, b'\t' | b'\n' | b'\r' | 0x08 | 0x0c | 0x1b | 0x07);
    if let Some(at) = bytes.iter().position(strange) {
        let line = bytes[..at].iter().filter(|b| **b == b'\n').count() + 1;
        return Err(LogError::Binary { file: file.to_owned(), line, byte: bytes[at] });
    }
    let text = plain(&String::from_utf8_lossy(&bytes));
    let rules = rules::table().map_err(|error| LogError::Rules(error.to_string()))?;
    let facts = engine::facts(&straight(&text), rules, gpu);
    let (choices, flags) = judge::judge(&text, rules, &facts);
    let missing = judge::missing(&facts, &choices);
    let near = match flags.iter().find(|flag| flag.is_unknown()) {
        Some(unknown) => near_messages(&unknown.text)?,
        None => Vec::new(),
    };
    Ok(LogReport { file: file.to_owned(), lines: text.lines().count(), facts, choices, flags, near, missing })
}

/// Returns what is known of a message of a server, a compiler or a library, whatever the GPU.
///
/// # Errors
/// [`LogError::Rules`].
pub fn known_messages(text: &str) -> Result<Vec<Flag>, LogError> {
    let rules = rules::table().map_err(|error| LogError::Rules(error.to_string()))?;
    Ok(judge::signs(&plain(text), rules))
}

/// Returns what messages like this one mean in general, the more specific first: the last resort, where nothing else is known of it.
///
/// # Errors
/// [`LogError::Rules`].
pub fn general_messages(text: &str) -> Result<Vec<Flag>, LogError> {
    let rules = rules::table().map_err(|error| LogError::Rules(error.to_string()))?;
    Ok(judge::general(&plain(text), rules))
}

/// Returns the messages whose words are nearest to those of this one, the nearest first, where nothing else is known of it. Their cause may be
/// another.
///
/// # Errors
/// [`LogError::Rules`].
pub fn near_messages(text: &str) -> Result<Vec<Flag>, LogError> {
    let rules = rules::table().map_err(|error| LogError::Rules(error.to_string()))?;
    near::near(&straight(&plain(text)), rules).map_err(|error| LogError::Rules(error.to_string()))
}

/// Makes the quotes of word processors, web pages and compilers in other languages plain ones.
#[must_use]
pub fn straight(text: &str) -> Cow<'_, str> {
    const CURVED: [char; 4] = ['\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}'];
    if !text.contains(CURVED) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(&CURVED[..2], "'").replace(&CURVED[2..], "\""))
}

/// Removes the colours of terminals. A progress bar that returns to the start of its line becomes lines.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' if rest.peek() == Some(&'[') => {
                rest.next();
                for c in rest.by_ref() {
                    if c.is_ascii_alphabetic() {
                        break;
                    }
                }
            }
            // `\r\n` ends one line.
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => out.push('\n'),
            '\u{7}' | '\u{8}' | '\u{c}' => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curved_quotes_are_read_as_plain_ones() {
        assert_eq!(straight("\u{2018}a\u{2019} \u{201c}b\u{201d}"), "'a' \"b\"");
        assert!(matches!(straight("'a'"), Cow::Borrowed(_)));
    }
}
