//! Why a recording cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum VectorsError {
    /// The files are not there or cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file, folder or archive.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing at the path is a recording.
    #[error(
        "{}: not a recording: it has neither vectors.json (of a device) nor mma.json (of a model)", path.display()
    )]
    Nothing {
        /// The folder or archive.
        path: PathBuf,
    },
    /// The archive is damaged.
    #[error("{}: {message}", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The document is not the JSON of a recording.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Document {
        /// The document.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// The document contradicts itself.
    #[error("{}: {op}: {message}", path.display())]
    Op {
        /// The document.
        path: PathBuf,
        /// The instruction.
        op: String,
        /// What is wrong.
        message: String,
    },
    /// The words do not match the document.
    #[error("{}: {op}: {message}", path.display())]
    Words {
        /// The file of words.
        path: PathBuf,
        /// The instruction.
        op: String,
        /// What is wrong.
        message: String,
    },
    /// The words are longer than the document says.
    #[error(
        "{}: {found} bytes, but its document describes {described}; the two belong to different recordings", path.display()
    )]
    Length {
        /// The file of words.
        path: PathBuf,
        /// Bytes it has.
        found: usize,
        /// Bytes that belong to an instruction.
        described: usize,
    },
    /// The recording holds instructions of both kinds, or none.
    #[error("a recording needs at least one instruction, and all of one kind")]
    Mixed,
    /// A file cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
