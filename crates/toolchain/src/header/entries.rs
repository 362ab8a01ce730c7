//! Files of entries: lists in YAML, each entry with the line on which it begins.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::{HeaderError, parse_file};

/// The largest file of entries that is read, bytes.
const LARGEST: u64 = 1 << 20;

/// Why a file of entries cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EntriesError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is too large.
    #[error("{}: {bytes} bytes exceed the limit of {what} ({LARGEST})", path.display())]
    Large {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// What kind of file it is.
        what: &'static str,
    },
    /// It is not YAML of this form.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// An entry cannot be meant so.
    #[error("{}:{line}: {message}", path.display())]
    Meaning {
        /// The file.
        path: PathBuf,
        /// The line on which the entry begins.
        line: usize,
        /// What is wrong, and what to do.
        message: String,
    },
}

/// An entry of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<T> {
    /// The entry.
    pub entry: T,
    /// The line on which it begins, from 1; 1 where that cannot be told.
    pub line: usize,
}

impl<T> Placed<T> {
    /// That the entry cannot be meant so.
    pub fn wrong(&self, path: &Path, message: impl Into<String>) -> EntriesError {
        EntriesError::Meaning { path: path.to_owned(), line: self.line, message: message.into() }
    }
}

/// The text of a file; `what` names its kind: `an expectations file`.
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

/// The entries of a text; `list` takes them out of the file in their order. `path` is for errors.
///
/// # Errors
/// [`EntriesError::Header`] with the place.
pub fn parse_entries<F: DeserializeOwned, T>(
    path: &Path,
    text: &str,
    list: impl FnOnce(F) -> Vec<T>,
) -> Result<Vec<Placed<T>>, EntriesError> {
    let entries = list(parse_file(path, text)?);
    let mut lines = beginnings(text).into_iter();
    Ok(entries.into_iter().map(|entry| Placed { entry, line: lines.next().unwrap_or(1) }).collect())
}

/// The lines on which the entries of lists in block style begin: those with a dash as far in as the first.
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
