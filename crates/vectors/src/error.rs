//! Errors of reading and writing recordings.

use std::io;
use std::path::PathBuf;

/// An error while reading or writing a recording.
#[derive(Debug, thiserror::Error)]
pub enum VectorsError {
    /// A file is missing or cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file, folder or archive.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The path does not contain a recording.
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
        /// The defect.
        message: String,
    },
    /// The document is not the valid JSON of a recording.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Document {
        /// The document.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The defect.
        message: String,
    },
    /// The document contradicts itself.
    #[error("{}: {op}: {message}", path.display())]
    Op {
        /// The document.
        path: PathBuf,
        /// The instruction.
        op: String,
        /// The defect.
        message: String,
    },
    /// The words do not match the document.
    #[error("{}: {op}: {message}", path.display())]
    Words {
        /// The file of words.
        path: PathBuf,
        /// The instruction.
        op: String,
        /// The defect.
        message: String,
    },
    /// The file of words is longer than the document describes.
    #[error(
        "{}: {found} bytes, but its document describes {described}; the two belong to different recordings", path.display()
    )]
    Length {
        /// The file of words.
        path: PathBuf,
        /// Size of the file in bytes.
        found: usize,
        /// Number of bytes that the document describes.
        described: usize,
    },
    /// The recording contains instructions of both kinds, or none.
    #[error("a recording needs at least one instruction, and all of one kind")]
    Mixed,
    /// A file cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
}
