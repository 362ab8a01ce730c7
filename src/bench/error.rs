//! What is wrong with a profile or with the file of classes.

use std::path::PathBuf;

use crate::header::HeaderError;

/// Why a profile is not judged.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is neither of the forms, or is damaged.
    #[error("{}: {message}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// A line of a table is damaged.
    #[error("{}:{line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong.
        message: String,
    },
    /// The file of classes does not fit its type.
    #[error(transparent)]
    Classes(#[from] HeaderError),
    /// A pattern of the file of classes is no regular expression.
    #[error("{}: class `{class}`: {source}", path.display())]
    Pattern {
        /// The file.
        path: PathBuf,
        /// The class.
        class: String,
        /// What is wrong with it.
        source: regex::Error,
    },
    /// The file of classes says something twice or leaves it out.
    #[error("{}: {message}", path.display())]
    ClassList {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}
