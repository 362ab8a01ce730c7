//! Parses YAML into typed structs; every error names file, line and column.
//!
//! YAML appears in two places: whole files, and the `//@` comment block at the top of a snippet or
//! kernel. Only this module uses `serde_yaml`.

mod entries;

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

pub use entries::{EntriesError, Placed, parse_entries, read_text};

/// The prefix of a header line; it is a comment in PTX and in CUDA C++.
const PREFIX: &str = "//@";

/// YAML that does not match its type.
#[derive(Debug, thiserror::Error)]
#[error("{}:{line}:{column}: {message}", path.display())]
pub struct HeaderError {
    /// The file.
    pub path: PathBuf,
    /// Line in the file, from 1.
    pub line: usize,
    /// Column in the file, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// A text split into its `//@` header and the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split<'a> {
    /// The YAML of the header without the prefixes; `None` if the text does not start with `//@`.
    pub yaml: Option<String>,
    /// Everything after the header.
    pub body: &'a str,
    /// The line on which the body begins, from 1.
    pub body_line: usize,
}

/// Splits `text` into header and body. The header is the unbroken run of `//@` lines at the top.
#[must_use]
pub fn split(text: &str) -> Split<'_> {
    let mut yaml = String::new();
    let mut rest = text;
    let mut lines = 0;
    while rest.starts_with(PREFIX) {
        let (line, tail) = rest.split_once('\n').unwrap_or((rest, ""));
        let content = &line[PREFIX.len()..];
        yaml.push_str(content.strip_prefix(' ').unwrap_or(content).trim_end_matches('\r'));
        yaml.push('\n');
        rest = tail;
        lines += 1;
    }
    Split { yaml: (lines > 0).then_some(yaml), body: rest, body_line: lines + 1 }
}

/// Parses the YAML of the `//@` block at the top of `path`.
///
/// # Errors
/// [`HeaderError`] with the position in the file, prefix included.
pub fn parse_block<T: DeserializeOwned>(path: &Path, yaml: &str) -> Result<T, HeaderError> {
    // Every column of the block is preceded by "//@ ".
    parse_at(path, yaml, PREFIX.len() + 1)
}

/// Parses a whole YAML file.
///
/// # Errors
/// [`HeaderError`] with the position in the file.
pub fn parse_file<T: DeserializeOwned>(path: &Path, yaml: &str) -> Result<T, HeaderError> {
    parse_at(path, yaml, 0)
}

fn parse_at<T: DeserializeOwned>(path: &Path, yaml: &str, indent: usize) -> Result<T, HeaderError> {
    serde_yaml::from_str(yaml).map_err(|error| {
        let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column() + indent));
        // The message already begins with the position.
        let text = error.to_string();
        let message = text.split(" at line ").next().unwrap_or(&text).to_owned();
        HeaderError { path: path.to_owned(), line, column, message }
    })
}

/// Returns the text of a file that [`parse_file`] reads; `None` if a value has no form in it.
pub fn file_text<T: serde::Serialize>(value: &T) -> Option<String> {
    serde_yaml::to_string(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        about: String,
        n: u8,
    }

    #[test]
    fn splits_header_and_body() {
        let s = split("//@ about: x\n//@ n: 1\nret;\n//@ not header\n");
        assert_eq!(s.yaml.as_deref(), Some("about: x\nn: 1\n"));
        assert_eq!((s.body, s.body_line), ("ret;\n//@ not header\n", 3));
        assert_eq!(split("ret;").yaml, None);
        assert_eq!(split("//@ a: 1").body, "");
    }

    #[test]
    fn errors_name_the_place_in_the_file() {
        let path = Path::new("a.ptx");
        let got: Sample = parse_block(path, "about: x\nn: 1\n").unwrap();
        assert_eq!(got, Sample { about: "x".into(), n: 1 });
        for (yaml, line) in [
            ("about: x\nn: 1\nzz: 3\n", 3),
            ("about: x\nn: hello\n", 2),
            ("about: \"x\n", 2),
            ("n: 300\nabout: x\n", 1),
        ] {
            let error = parse_block::<Sample>(path, yaml).unwrap_err();
            assert_eq!(error.line, line, "{yaml}: {error}");
            assert!(error.to_string().starts_with(&format!("a.ptx:{line}:")), "{error}");
        }
    }
}
