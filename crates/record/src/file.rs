//! Reads and writes records.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;

use super::audit::AuditTable;
use super::document::{Matrix, Record, SCHEMA, Spread};
use super::schema_1;
use super::tiles::TileTable;

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is larger than any record.
    #[error("{}: {bytes} bytes exceed the limit of a record ({LARGEST})", path.display())]
    Large {
        /// The file is larger than a record can be.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
    },
    /// The file cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a record.
    #[error("{}:{line}:{column}: not a record of sm121probe: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// The file has no text of a record.
    #[error("{}: not a record of sm121probe: {what}", path.display())]
    NoText {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: &'static str,
    },
    /// The file is a list, as `--format json` of single commands once was.
    #[error("{}: a list of rows (`--format json` of an older sm121probe), not a record; write it again", path.display())]
    List {
        /// The file.
        path: PathBuf,
    },
    /// The record has another schema.
    #[error("{}: schema {found}, but this build reads schemas 1 and {SCHEMA}; use the sm121probe that wrote it ({tool})", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
        /// The tool that wrote it.
        tool: String,
    },
    /// The record is inconsistent.
    #[error("{}: the record is damaged: {message}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The inconsistency.
        message: String,
    },
}

/// Maximum size of a record file in bytes: a hundred times the full matrix.
const LARGEST: u64 = 256 << 20;

/// The fields common to all schemas.
#[derive(Deserialize)]
struct Envelope {
    schema: u64,
    #[serde(default)]
    tool: String,
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// [`RecordError`] if the file is not a record, has another schema, or contains an index out of range.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let fail = |source| RecordError::Read { path: path.to_owned(), source };
        let bytes = fs::metadata(path).map_err(fail)?.len();
        if bytes > LARGEST {
            return Err(RecordError::Large { path: path.to_owned(), bytes });
        }
        let bytes = fs::read(path).map_err(fail)?;
        let no_text = |what| RecordError::NoText { path: path.to_owned(), what };
        let text = String::from_utf8(bytes).map_err(|_| no_text("it is not text"))?;
        match text.trim() {
            "" => Err(no_text("it is empty")),
            _ if text.contains('\0') => Err(no_text("it is not text")),
            _ => Self::parse(path, &text),
        }
    }

    /// Parses a record from `text`; `path` appears in errors.
    ///
    /// # Errors
    /// As for [`Record::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, RecordError> {
        let syntax = |error: serde_json::Error| RecordError::Syntax {
            path: path.to_owned(),
            line: error.line().max(1),
            column: error.column().max(1),
            message: message(&error),
        };
        if text.trim_start().starts_with('[') {
            return Err(RecordError::List { path: path.to_owned() });
        }
        let damaged = |message| RecordError::Damaged { path: path.to_owned(), message };
        let record: Self = match serde_json::from_str::<Envelope>(text).ok() {
            Some(Envelope { schema: schema_1::SCHEMA, .. }) => {
                let mut document = serde_json::from_str(text).map_err(syntax)?;
                schema_1::record(&mut document);
                serde_json::from_value(document).map_err(|error| damaged(error.to_string()))?
            }
            // Another schema is reported as such, before any other mismatch.
            Some(Envelope { schema, tool }) if schema != u64::from(SCHEMA) => {
                return Err(RecordError::Schema { path: path.to_owned(), found: schema, tool });
            }
            _ => serde_json::from_str(text).map_err(syntax)?,
        };
        check(&record.matrix).and_then(|()| record.audit.check()).map_err(damaged)?;
        Ok(record)
    }

    /// Serialises the record as JSON with one line per row, so that differences are readable.
    ///
    /// # Errors
    /// Only if serialisation itself fails.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut out = format!(
            "{{\n\"schema\": {},\n\"tool\": {},\n\"matrix\": {}",
            self.schema,
            serde_json::to_string(&self.tool)?,
            object(serde_json::to_value(&self.matrix)?)?
        );
        // For readers of the file; the record derives it again.
        if let Some(incomplete) = self.incomplete() {
            out.push_str(&format!(",\n\"incomplete\": {}", serde_json::to_string(&incomplete)?));
        }
        // Parts that a run does not have are omitted.
        if self.tiles != TileTable::default() {
            out.push_str(&format!(",\n\"tiles\": {}", object(serde_json::to_value(&self.tiles)?)?));
        }
        if self.audit != AuditTable::default() {
            out.push_str(&format!(",\n\"audit\": {}", object(serde_json::to_value(&self.audit)?)?));
        }
        for (name, value) in [
            ("devices", serde_json::to_value(&self.devices)?),
            ("runs", serde_json::to_value(&self.runs)?),
            ("families", serde_json::to_value(&self.families)?),
            ("trials", serde_json::to_value(&self.trials)?),
            ("fault_coverage", serde_json::to_value(&self.fault_coverage)?),
            ("exercised", serde_json::to_value(&self.exercised)?),
            ("faults", serde_json::to_value(&self.faults)?),
            ("selftest", serde_json::to_value(&self.selftest)?),
            ("fuzzed", serde_json::to_value(&self.fuzzed)?),
            ("skipped", serde_json::to_value(&self.skipped)?),
            ("conflicts", serde_json::to_value(&self.conflicts)?),
            ("filters", serde_json::to_value(&self.filters)?),
        ] {
            if value.as_array().is_some_and(|rows| !rows.is_empty()) {
                out.push_str(&format!(",\n\"{name}\": {}", rows(&value)?));
            }
        }
        Ok(out + "\n}\n")
    }

    /// Writes `text`, rendered from a record, atomically.
    ///
    /// # Errors
    /// [`RecordError::Write`]; an older file then remains.
    pub fn write_report(path: &Path, text: &str) -> Result<(), RecordError> {
        write_atomic(path, text.as_bytes())
            .map_err(|source| RecordError::Write { path: path.to_owned(), source })
    }
}

/// The message of an error without its place, which is said before it.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message).to_owned()
}

/// A list with one line per item.
fn rows(value: &serde_json::Value) -> serde_json::Result<String> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<String> = items.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    Ok(if rows.is_empty() { "[]".to_owned() } else { format!("[\n{}\n  ]", rows.join(",\n")) })
}

/// An object with one line per field, and per item of fields that are lists.
pub(super) fn object(value: serde_json::Value) -> serde_json::Result<String> {
    let mut fields = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let text = if value.is_array() { rows(value)? } else { serde_json::to_string(value)? };
        fields.push(format!("  {}: {text}", serde_json::to_string(name)?));
    }
    Ok(format!("{{\n{}\n}}", fields.join(",\n")))
}

/// Writes `bytes` to `path` atomically: a reader sees the old file or the new one, never a part.
///
/// # Errors
/// When the folder cannot be written; the old file then remains.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A device or a pipe (`-o /dev/stdout`) is written to, never replaced; a symbolic link is kept and its target replaced.
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return fs::write(path, bytes);
    }
    let resolved = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let path = resolved.as_path();
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // A new file gets the mode that the umask leaves of this one, like any file of the user; a replaced one keeps its own.
    let everyone = fs::Permissions::from_mode(0o666);
    // The name of the temporary file says nothing to a reader.
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(error.kind(), format!("there is no folder {}", folder.display()))
        }
        kind => io::Error::new(kind, format!("{} in the folder {}", io::Error::from(kind), folder.display())),
    };
    let mut temporary = tempfile::Builder::new()
        .prefix(".sm121probe-")
        .permissions(everyone)
        .tempfile_in(folder)
        .map_err(failed)?;
    io::Write::write_all(&mut temporary, bytes)?;
    if let Ok(old) = fs::metadata(path) {
        temporary.as_file().set_permissions(old.permissions())?;
    }
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn check(matrix: &Matrix) -> Result<(), String> {
    let pairs = matrix.pairs.len();
    let mut known = HashSet::new();
    if let Some(pair) = matrix.pairs.iter().find(|p| !known.insert(**p)) {
        return Err(format!("{} {} {} is listed twice", pair.toolkit, pair.target, pair.arch));
    }
    let mut known = HashSet::new();
    if let Some(variant) = matrix.variants.iter().find(|v| !known.insert(v.id.as_str())) {
        return Err(format!("variant `{}` is listed twice", variant.id));
    }
    let spreads = |spreads: &[Spread], things: usize| {
        spreads.iter().all(|s| s.index < things && s.pairs.last().is_none_or(|l| l < pairs))
    };
    for v in &matrix.variants {
        v.check_letters(pairs)?;
        let known = v.snippet < matrix.snippets.len()
            && spreads(&v.messages, matrix.messages.len())
            && spreads(&v.sass, matrix.opcodes.len());
        if !known {
            return Err(format!("variant `{}` refers to missing rows", v.id));
        }
    }
    if matrix.messages.iter().any(|m| m.kind.is_some_and(|k| k >= matrix.kinds.len())) {
        return Err("a message refers to a missing kind".to_owned());
    }
    if matrix.claims.iter().any(|c| c.snippet >= matrix.snippets.len()) {
        return Err("a claim refers to a missing snippet".to_owned());
    }
    Ok(())
}
