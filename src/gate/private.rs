//! Removes the names of machines and persons from a record, so that it can be published.

use std::path::Path;

use regex::Regex;
use serde_json::Value;

use crate::record::{Record, RecordError};

/// The names of this machine and its user; empty names are ignored.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// The host name.
    pub host: String,
    /// The user's home folder.
    pub home: String,
    /// The user name.
    pub user: String,
}

impl Names {
    /// Returns the names of this process: `HOME`, `USER`, and the kernel's host name.
    #[must_use]
    pub fn of_process() -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self { host: host.trim().to_owned(), home: variable("HOME"), user: variable("USER") }
    }
}

/// The shortest name that is replaced, in bytes; shorter ones are too common.
const LEAST: usize = 4;

/// Returns the record without the folders of paths, the names of host, home folder and user, and the serial
/// numbers and UUIDs of GPUs.
///
/// # Errors
/// [`RecordError::Damaged`] if the result is not a valid record, which a test rules out for the committed
/// one.
pub fn private(record: &Record, names: &Names) -> Result<Record, RecordError> {
    let damaged = |message: String| RecordError::Damaged { path: "the record".into(), message };
    let mut value = serde_json::to_value(record).map_err(|e| damaged(e.to_string()))?;
    let patterns = patterns(names).map_err(|e| damaged(e.to_string()))?;
    clean(&mut value, &patterns);
    // Parses text, as for every record: deserializing from a `Value` would add a second reader to the binary.
    Record::parse(Path::new("the record"), &value.to_string())
}

/// Returns the patterns and their replacements.
fn patterns(names: &Names) -> Result<Vec<(Regex, &'static str)>, regex::Error> {
    let mut out = vec![
        // Of an absolute path, the last component is kept.
        (Regex::new(r#"(^|[\s"'(=,:])/(?:[^\s/:"'(),;]+/)+([^\s/:"'(),;]+)"#)?, "$1$2"),
        (Regex::new(r"\b(GPU|MIG)-[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b")?, "$1-?"),
        (Regex::new(r"(?i)\b(serial( number)?|s/n)(\s*[:=#]\s*|\s+)[0-9A-Z]{6,}\b")?, "$1 ?"),
    ];
    for (name, instead) in [(&names.home, "~"), (&names.host, "<host>"), (&names.user, "<user>")] {
        if name.len() >= LEAST {
            let edge = |c: Option<char>| if c.is_some_and(char::is_alphanumeric) { r"\b" } else { "" };
            let (before, after) = (edge(name.chars().next()), edge(name.chars().last()));
            out.push((Regex::new(&format!("{before}{}{after}", regex::escape(name)))?, instead));
        }
    }
    Ok(out)
}

fn clean(value: &mut Value, patterns: &[(Regex, &str)]) {
    match value {
        Value::String(text) if !text.starts_with("http://") && !text.starts_with("https://") => {
            for (pattern, instead) in patterns {
                if pattern.is_match(text) {
                    *text = pattern.replace_all(text, *instead).into_owned();
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, patterns)),
        Value::Object(fields) => fields.values_mut().for_each(|field| clean(field, patterns)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Matrix, SkippedRow};

    #[test]
    fn what_names_a_machine_is_gone_and_the_rest_stays() {
        let names = Names { host: "spark-77".into(), home: "/home/alice".into(), user: "alice".into() };
        let mut record = Record::of_matrix("t".to_owned(), Matrix::default());
        let planted = [
            ("on spark-77", "on <host>"),
            ("/home/alice/kernels/k.ptx: no", "k.ptx: no"),
            ("see ~alice", "see ~<user>"),
            ("GPU-12345678-abcd-ABCD-0000-0123456789ab is lost", "GPU-? is lost"),
            ("serial number: 1650923001234", "serial number ?"),
            ("/opt/vendor/tool/bin/ptxas died", "ptxas died"),
            ("https://example.invalid/a/b/c", "https://example.invalid/a/b/c"),
            ("1/2 of 3/4, 512/1024 bytes at 0x10", "1/2 of 3/4, 512/1024 bytes at 0x10"),
        ];
        for (text, _) in planted {
            record.skipped.push(SkippedRow { part: "p".to_owned(), reason: text.to_owned(), needed: false });
        }
        let left = private(&record, &names).unwrap();
        for ((_, wanted), row) in planted.iter().zip(&left.skipped) {
            assert_eq!(row.reason, *wanted);
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/matrix.json");
        let committed = Record::read(&path).unwrap();
        assert!(private(&committed, &names).unwrap() == committed);
    }
}
