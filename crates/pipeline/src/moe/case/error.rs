//! Errors in case files and folders of them.

use std::io;
use std::path::PathBuf;

use toolchain::header::HeaderError;

/// Why a case, or a folder of cases, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The folder cannot be read.
    #[error("{}: {source}; --cases takes a folder of .yaml files", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The folder contains no case.
    #[error("{}: no .yaml file in this folder; copy one of the built-in cases there (`sm121probe moe --list`)", .0.display())]
    Empty(PathBuf),
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file is not valid YAML, or its fields are wrong.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A value in the file is invalid.
    #[error("{}:{line}: {message}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem and its remedy.
        message: String,
    },
    /// Two files have the same name.
    #[error("{}: the case `{name}` is in {} too; rename one of them", path.display(), first.display())]
    Duplicate {
        /// The name.
        name: String,
        /// The second file, which is ignored.
        path: PathBuf,
        /// The first file.
        first: PathBuf,
    },
    /// A name that cannot be a file stem.
    #[error("`{0}` is not a case's name; write letters, digits, `.`, `_`, `-`")]
    Name(String),
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No case has this name.
    #[error("no case `{name}`; {hint}")]
    Unknown {
        /// The requested name.
        name: String,
        /// Similar names, or how to list them.
        hint: String,
    },
}
