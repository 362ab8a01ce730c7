//! The forms a report can have in a file.

use super::{csv, junit, markdown};
use crate::record::Record;

/// A form of report for files and pipes; [`super::terminal()`] is the form for people at a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Markdown, as GitHub reads it.
    Md,
    /// The record.
    Json,
    /// RFC 4180, one row per cell.
    Csv,
    /// JUnit XML.
    Junit,
}

/// Why a report cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The record cannot be serialised.
    #[error("the record cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The record as JSON.
///
/// # Errors
/// [`ReportError::Json`], only when serialisation itself fails.
pub fn json(record: &Record) -> Result<String, ReportError> {
    Ok(record.to_json()?)
}

/// The record in a form.
///
/// # Errors
/// As [`json`].
pub fn render(record: &Record, format: Format) -> Result<String, ReportError> {
    match format {
        Format::Md => Ok(markdown(record)),
        Format::Json => json(record),
        Format::Csv => Ok(csv(record)),
        Format::Junit => Ok(junit(record)),
    }
}
