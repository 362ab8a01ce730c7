//! YAML files that are lists of entries; each entry keeps the line on which it begins.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::{HeaderError, parse_file};

/// Size limit of a file of entries, in bytes.
const LARGEST: u64 = 1 << 20;

/// Why a file of entries cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EntriesError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("{}: {bytes} bytes exceed the limit of {what} ({LARGEST})", path.display())]
    Large {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
        /// What kind of file it is.
        what: &'static str,
    },
    /// The file is not YAML of the expected form.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// An entry is well-formed but makes no sense.
    #[error("{}:{line}: {message}", path.display())]
    Meaning {
        /// The file.
        path: PathBuf,
        /// The line on which the entry begins.
        line: usize,
        /// What is wrong and how to fix it.
        message: String,
    },
}

/// An entry and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<T> {
    /// The entry.
    pub entry: T,
    /// The line on which the entry begins, from 1; 1 if it is unknown.
    pub line: usize,
}

impl<T> Placed<T> {
    /// Returns an error that places `message` at the entry's line of `path`.
    pub fn wrong(&self, path: &Path, message: impl Into<String>) -> EntriesError {
        EntriesError::Meaning { path: path.to_owned(), line: self.line, message: message.into() }
    }
}

/// Reads the text of a file; `what` names its kind in errors (`an expectations file`).
///
/// # Errors
/// [`EntriesError::Read`] and [`EntriesError::Large`].
pub fn read_text(path: &Path, what: &'static str) -> Result<String, EntriesError> {
    let fail = |source| EntriesError::Read { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(fail)?.len();
    if bytes > LARGEST {
        return Err(EntriesError::Large { path: path.to_owned(), bytes, what });
    }
    std::fs::read_to_string(path).map_err(fail)
}

/// Parses the entries of `text`; `list` extracts them from the parsed file, in file order. `path` appears in errors.
///
/// # Errors
/// [`EntriesError::Header`] with the position.
pub fn parse_entries<F: DeserializeOwned, T>(
    path: &Path,
    text: &str,
    list: impl FnOnce(F) -> Vec<T>,
) -> Result<Vec<Placed<T>>, EntriesError> {
    let entries = list(parse_file(path, text)?);
    let mut lines = beginnings(text).into_iter();
    Ok(entries.into_iter().map(|entry| Placed { entry, line: lines.next().unwrap_or(1) }).collect())
}

/// The lines on which entries of block-style lists begin: lines with a dash at the same indentation as the first dash.
fn beginnings(text: &str) -> Vec<usize> {
    let dash = |line: &str| {
        let rest = line.trim_start();
        (rest == "-" || rest.starts_with("- ")).then(|| line.len() - rest.len())
    };
    let first = text.lines().find_map(dash);
    let of = |(n, line): (usize, &str)| (first.is_some() && dash(line) == first).then_some(n + 1);
    text.lines().enumerate().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_their_lines() {
        let lines = |text: &str| -> Vec<(u8, usize)> {
            let list: Vec<Placed<u8>> = parse_entries(Path::new("f"), text, |l: Vec<u8>| l).unwrap();
            list.into_iter().map(|p| (p.entry, p.line)).collect()
        };
        assert_eq!(lines("# why\n- 3\n\n-\n  4\n"), [(3, 2), (4, 4)]);
        assert_eq!(lines("---\n  - 3\n  - 4\n"), [(3, 2), (4, 3)]);
        assert_eq!(lines("[3, 4]\n"), [(3, 1), (4, 1)]);
        assert!(read_text(Path::new("/no/such/file"), "a list").is_err());
    }
}
