//! Errors of problems, dumps and requests for them.

use std::io;
use std::path::PathBuf;

/// Why a problem cannot be generated or tensors cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum MoeError {
    /// A problem exceeds the memory limit.
    #[error("{what} takes {} MB, but the limit is {} MB; use fewer tokens, experts or columns", bytes >> 20, limit >> 20)]
    TooLarge {
        /// The data that need the memory.
        what: String,
        /// The required bytes.
        bytes: u128,
        /// The limit in bytes.
        limit: u128,
    },
    /// A layer of a checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] super::checkpoint::CheckpointError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not a safetensors file, or is damaged.
    #[error("{}: not a safetensors file, or truncated: {message}; write it again", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The parser's message.
        message: String,
    },
    /// A tensor holds elements of another type.
    #[error("{}: `{name}` is {found}, but the dump format requires {wanted}; convert it when exporting", path.display())]
    Type {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: &'static str,
        /// Its type.
        found: String,
        /// The format's type.
        wanted: &'static str,
    },
    /// A tensor's name is not in the format.
    #[error("{}: the dump format has no tensor `{name}`; rename it, or leave it out ({hint})", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
        /// The valid names.
        hint: String,
    },
    /// A key of the metadata is not in the format.
    #[error("{}: the dump format has no metadata `{key}`; correct it, or leave it out ({hint})", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The valid keys.
        hint: String,
    },
    /// A tensor has a shape that does not fit the others.
    #[error("`{name}` is {found:?}; expected {wanted} ({why})")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The expected shape.
        wanted: String,
        /// The reason for the expected shape.
        why: String,
    },
    /// A required tensor is missing.
    #[error("tensor `{name}` is missing; {why}")]
    Missing {
        /// The tensor.
        name: &'static str,
        /// The reason why it is required.
        why: String,
    },
    /// A metadata value is invalid.
    #[error("metadata `{key}` is `{found}`; {wanted}")]
    Metadata {
        /// The key.
        key: &'static str,
        /// Its value.
        found: String,
        /// The valid values.
        wanted: String,
    },
    /// Tensors contradict each other, or a contract is impossible.
    #[error("{0}")]
    Invalid(String),
}

impl From<MoeError> for crate::frame::TrialError {
    fn from(error: MoeError) -> Self {
        Self::Data(Box::new(error))
    }
}
