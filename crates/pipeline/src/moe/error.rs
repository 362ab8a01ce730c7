//! What can be wrong with a problem, a dump or a request for them.

use std::io;
use std::path::PathBuf;

/// Why a problem cannot be made or tensors cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum MoeError {
    /// A problem larger than memory is worth.
    #[error("{what} takes {} MB, but the limit is {} MB; use fewer tokens, experts or columns", bytes >> 20, limit >> 20)]
    TooLarge {
        /// What takes it.
        what: String,
        /// How much.
        bytes: u128,
        /// How much it may.
        limit: u128,
    },
    /// A layer of a checkpoint cannot be taken.
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
    /// A file is no safetensors file, or a damaged one.
    #[error("{}: not a safetensors file, or truncated: {message}; write it again", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What the format says.
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
        /// The names there are.
        hint: String,
    },
    /// A tensor has a shape that does not fit the others.
    #[error("`{name}` is {found:?}; expected {wanted} ({why})")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// What it should be.
        wanted: String,
        /// Where that comes from.
        why: String,
    },
    /// A tensor that is needed is not there.
    #[error("tensor `{name}` is missing; {why}")]
    Missing {
        /// The tensor.
        name: &'static str,
        /// What needs it.
        why: String,
    },
    /// A word of the metadata has no meaning.
    #[error("metadata `{key}` is `{found}`; {wanted}")]
    Metadata {
        /// The key.
        key: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        wanted: String,
    },
    /// Tensors contradict each other, or a contract is impossible.
    #[error("{0}")]
    Invalid(String),
}
