//! What can be wrong with a case file or a folder of them.

use std::io;
use std::path::PathBuf;

use toolchain::header::HeaderError;

/// Why a case, or a folder of them, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The folder cannot be read.
    #[error("{}: {source}; --cases takes a folder of .yaml files", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder holds no case.
    #[error("{}: no .yaml file in this folder; copy one of the built-in cases there (`sm121probe moe --list`)", .0.display())]
    Empty(PathBuf),
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no YAML, or not of our form.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Something in the file is impossible.
    #[error("{}:{line}: {message}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what to do.
        message: String,
    },
    /// Two files have one name.
    #[error("{}: the case `{name}` is in {} too; rename one of them", path.display(), first.display())]
    Duplicate {
        /// The name.
        name: String,
        /// The second file; it is left out.
        path: PathBuf,
        /// The first.
        first: PathBuf,
    },
    /// A name that is no file's stem.
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
        /// What was asked for.
        name: String,
        /// What there is.
        hint: String,
    },
}
