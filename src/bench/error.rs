//! Errors in profiles and in the file of kernel classes.

use std::path::PathBuf;

use crate::header::HeaderError;

/// Why a profile cannot be summarized.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The file has neither of the supported formats, or is damaged.
    #[error("{}: {message}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The mistake, and the expected form.
        message: String,
    },
    /// A line of a table is damaged.
    #[error("{}:{line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The mistake.
        message: String,
    },
    /// The file of classes cannot be parsed.
    #[error(transparent)]
    Classes(#[from] HeaderError),
    /// A pattern in the file of classes is not a regular expression.
    #[error("{}: class `{class}`: {source}", path.display())]
    Pattern {
        /// The file.
        path: PathBuf,
        /// The class.
        class: String,
        /// The error of the regular expression.
        source: regex::Error,
    },
    /// The file of classes has a duplicate class, or lacks something required.
    #[error("{}: {message}", path.display())]
    ClassList {
        /// The file.
        path: PathBuf,
        /// The mistake.
        message: String,
    },
}
