//! The formats of reports.

use super::{Beside, Styles, csv, html, junit, markdown, terminal};
use crate::record::Record;

/// A format. Not every report has every format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// For people at a terminal.
    #[default]
    Text,
    /// Markdown for GitHub.
    Md,
    /// JSON; for a record, the record itself.
    Json,
    /// RFC 4180 with LF; for a record, one row per cell.
    Csv,
    /// JUnit XML.
    Junit,
    /// SARIF 2.1.0.
    Sarif,
    /// A plot.
    Svg,
    /// One self-contained page.
    Html,
}

impl Format {
    /// The word for `--format`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Md => "md",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Junit => "junit",
            Self::Sarif => "sarif",
            Self::Svg => "svg",
            Self::Html => "html",
        }
    }
}

/// Why a report cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The record cannot be serialised.
    #[error("the record cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A record has no such format.
    #[error("a record has no format {}; it has text, md, json, csv, junit and html", .0.word())]
    Format(Format),
    /// The data of a page cannot be compressed.
    #[error("the data of the page cannot be compressed: {0}")]
    Compress(std::io::Error),
}

/// The record as JSON.
///
/// # Errors
/// [`ReportError::Json`], only if serialisation itself fails.
pub fn json(record: &Record) -> Result<String, ReportError> {
    Ok(record.to_json()?)
}

/// Renders the record in a format; `styles` apply to [`Format::Text`]. [`html()`] shows more than a record alone.
///
/// # Errors
/// As [`json`], and [`ReportError::Format`] for SARIF and SVG.
pub fn render(record: &Record, format: Format, styles: &Styles) -> Result<String, ReportError> {
    match format {
        Format::Text => Ok(terminal(record, styles)),
        Format::Md => Ok(markdown(record)),
        Format::Json => json(record),
        Format::Csv => Ok(csv(record)),
        Format::Junit => Ok(junit(record)),
        Format::Html => html(record, &Beside::default()),
        Format::Sarif | Format::Svg => Err(ReportError::Format(format)),
    }
}
