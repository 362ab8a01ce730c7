//! `mutants.yaml` in a folder of kernels: mutants that change nothing anybody can see, each with the reason.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, de::Error};

use super::model::{Mutant, Operator};
use crate::header::{self, HeaderError};

/// The file's name.
pub const FILE: &str = "mutants.yaml";

/// The largest file that is read, bytes.
const LARGEST: u64 = 1 << 20;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExplainedError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is too large.
    #[error("{}: {bytes} bytes exceed the limit of a file of explained mutants ({LARGEST})", path.display())]
    Large {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// It is no such YAML.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// An entry says too little or too much.
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    file: String,
    line: String,
    becomes: Option<String>,
    operator: Option<Word>,
    reason: String,
}

#[derive(Debug)]
struct Word(Operator);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map(Self).map_err(D::Error::custom)
    }
}

/// One entry: the mutants of a line that nothing can notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The file of the mutants.
    pub file: String,
    /// The line as it is, without the space around it.
    pub line: String,
    /// The line of the mutant; any when none.
    pub becomes: Option<String>,
    /// The operator; any when none.
    pub operator: Option<Operator>,
    /// Why nothing can notice.
    pub reason: String,
    /// The line of the YAML file on which the entry begins.
    pub at: usize,
}

impl Entry {
    /// Whether it explains a mutant.
    #[must_use]
    pub fn explains(&self, mutant: &Mutant) -> bool {
        self.file == mutant.file
            && self.line == mutant.before
            && self.becomes.as_ref().is_none_or(|b| *b == mutant.after)
            && self.operator.is_none_or(|o| o == mutant.operator)
    }
}

/// The entries of a folder; none where it has no such file.
///
/// # Errors
/// [`ExplainedError`] with file and line.
pub fn read(folder: &Path) -> Result<Vec<Entry>, ExplainedError> {
    let path = folder.join(FILE);
    let fail = |source| ExplainedError::Read { path: path.clone(), source };
    let bytes = match std::fs::metadata(&path) {
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fail(error)),
    };
    if bytes > LARGEST {
        return Err(ExplainedError::Large { path, bytes });
    }
    parse(&path, &std::fs::read_to_string(&path).map_err(fail)?)
}

/// The entries of a text; `path` is for errors.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Vec<Entry>, ExplainedError> {
    let written: Option<Vec<Written>> = header::parse_file(path, text)?;
    // An entry begins with a dash in the first column.
    let mut lines = text.lines().enumerate().filter(|(_, l)| l.starts_with('-')).map(|(n, _)| n + 1);
    let mut out = Vec::new();
    for entry in written.unwrap_or_default() {
        let at = lines.next().unwrap_or(1);
        let wrong = |message: &str| {
            let message = message.to_owned();
            Err(ExplainedError::Meaning { path: path.to_owned(), line: at, message })
        };
        if entry.becomes.is_none() && entry.operator.is_none() {
            return wrong("has neither `becomes` nor `operator`: it would explain every mutant of the line");
        }
        if entry.reason.trim().is_empty() {
            return wrong("`reason` is empty: say in a sentence why nothing can detect the mutant");
        }
        out.push(Entry {
            file: entry.file,
            line: entry.line.trim().to_owned(),
            becomes: entry.becomes.map(|b| b.trim().to_owned()),
            operator: entry.operator.map(|o| o.0),
            reason: entry.reason.trim().to_owned(),
            at,
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::mutants;
    use super::*;

    #[test]
    fn an_entry_explains_its_mutants_alone() {
        let text = "# why\n- file: k.cu\n  line: 'x = a < 1;'\n  becomes: x = a < 2;\n  reason: r\n- {file: k.cu, line: 'x = a < 1;', operator: comparison, reason: s}\n";
        let entries = parse(Path::new("mutants.yaml"), text).unwrap();
        assert_eq!(entries.iter().map(|e| e.at).collect::<Vec<_>>(), [2, 6]);
        let of = |file: &str| mutants(file, "    x = a < 1;\n");
        let explained = |file: &str, n: usize| -> Vec<String> {
            of(file).iter().filter(|m| entries[n].explains(m)).map(|m| m.after.clone()).collect()
        };
        assert_eq!(explained("k.cu", 0), ["x = a < 2;"]);
        assert_eq!(explained("k.cu", 1), ["x = a <= 1;"]);
        assert_eq!(explained("l.cu", 0), Vec::<String>::new());
        assert_eq!(parse(Path::new("m"), "").unwrap(), []);
    }

    #[test]
    fn mistakes_name_file_and_line() {
        let good = "- {file: k, line: l, becomes: m, reason: r}\n";
        for (bad, words) in [
            ("- {file: k, line: l, reason: r}\n", "mutants.yaml:2: has neither"),
            ("- {file: k, line: l, becomes: m, reason: ' '}\n", "mutants.yaml:2: `reason` is empty"),
            ("- {file: k, line: l, becomes: m, reason: r, why: x}\n", "mutants.yaml:2:"),
            ("- {file: k, line: l, operator: shuffle, reason: r}\n", "`shuffle` is not a mutation operator"),
            ("- {file: k\n", "mutants.yaml:"),
        ] {
            let error = parse(Path::new("mutants.yaml"), &format!("{good}{bad}")).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
