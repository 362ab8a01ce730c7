//! Parses `mutants.yaml` in a folder of kernels: mutants without an observable effect, each with the reason.

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Deserializer, de::Error};

use super::model::{Mutant, Operator};
use crate::header::{self, EntriesError, Placed};

/// The name of the file.
pub const FILE: &str = "mutants.yaml";

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

/// An entry: mutants of a line that nothing can detect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The file of the mutants.
    pub file: String,
    /// The original line, trimmed.
    pub line: String,
    /// The line of the mutant; `None` matches any.
    pub becomes: Option<String>,
    /// The operator; `None` matches any.
    pub operator: Option<Operator>,
    /// Why nothing can detect the mutants.
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

/// Reads the entries of a folder; an empty list if it has no such file.
///
/// # Errors
/// [`EntriesError`] with file and line.
pub fn read(folder: &Path) -> Result<Vec<Entry>, EntriesError> {
    let path = folder.join(FILE);
    match header::read_text(&path, "a file of explained mutants") {
        Ok(text) => parse(&path, &text),
        Err(EntriesError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Parses entries; `path` is used in error messages.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Vec<Entry>, EntriesError> {
    let list = |written: Option<Vec<Written>>| written.unwrap_or_default();
    header::parse_entries(path, text, list)?.into_iter().map(|placed| entry(path, placed)).collect()
}

fn entry(path: &Path, placed: Placed<Written>) -> Result<Entry, EntriesError> {
    let written = &placed.entry;
    if written.becomes.is_none() && written.operator.is_none() {
        return Err(placed
            .wrong(path, "has neither `becomes` nor `operator`: it would explain every mutant of the line"));
    }
    if written.reason.trim().is_empty() {
        return Err(
            placed.wrong(path, "`reason` is empty: say in a sentence why nothing can detect the mutant")
        );
    }
    let Placed { entry: written, line: at } = placed;
    Ok(Entry {
        file: written.file,
        line: written.line.trim().to_owned(),
        becomes: written.becomes.map(|b| b.trim().to_owned()),
        operator: written.operator.map(|o| o.0),
        reason: written.reason.trim().to_owned(),
        at,
    })
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
