//! Errors of dumps of attention: what is wrong, where, and what to do about it.

use std::io;

/// Why tensors of attention cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum AttentionError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
    /// A file is not a safetensors file, or is damaged.
    #[error("not a safetensors file, or truncated: {0}; write it again")]
    Format(#[from] safetensors::SafeTensorError),
    /// A name is not in the format.
    #[error("the dump format of attention has no {what} `{name}`; rename it, or leave it out ({known})")]
    Name {
        /// `tensor` or `metadata`.
        what: &'static str,
        /// The name.
        name: String,
        /// The valid names.
        known: String,
    },
    /// Two names of one tensor or key are present.
    #[error("`{first}` and `{second}` name the same thing; keep one")]
    Twice {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// A tensor is missing.
    #[error("`{name}` is missing: {remedy}")]
    Missing {
        /// The tensor.
        name: &'static str,
        /// What to do.
        remedy: String,
    },
    /// A tensor has elements of another type.
    #[error("`{name}` is {found}; expected {wanted}")]
    Type {
        /// The tensor.
        name: String,
        /// Its type.
        found: String,
        /// The types that are understood, and what to declare.
        wanted: String,
    },
    /// A tensor has another shape.
    #[error("`{name}` is {found:?}; expected {wanted}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The expected shape and its reason.
        wanted: String,
    },
    /// An element of a table is wrong.
    #[error("`{name}[{index}]` is {found}; {wanted}")]
    Value {
        /// The tensor.
        name: String,
        /// The index.
        index: usize,
        /// The value.
        found: i64,
        /// What is possible, and the remedy.
        wanted: String,
    },
    /// An element of a tensor of numbers is wrong.
    #[error("`{name}[{index}]` is {found}; {wanted}")]
    Number {
        /// The tensor.
        name: String,
        /// The index.
        index: usize,
        /// The value.
        found: f64,
        /// What is possible, and the remedy.
        wanted: String,
    },
    /// A value of the metadata is wrong.
    #[error("metadata `{key}` is `{found}`; expected {wanted}")]
    Key {
        /// The key.
        key: String,
        /// Its value.
        found: String,
        /// What is understood.
        wanted: String,
    },
    /// The tensors need more memory than the limit.
    #[error("{what} takes {} MB, but the limit is {} MB; dump one request", bytes >> 20, limit >> 20)]
    TooLarge {
        /// What.
        what: String,
        /// Its bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}
