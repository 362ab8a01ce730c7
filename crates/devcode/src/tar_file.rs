//! Members of tar archives, plain or compressed by gzip, read as one stream.

use std::io::{ErrorKind, Read, Seek as _, SeekFrom, Write as _};

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType};

use super::entry::Trouble;
use super::source::{Cursor, Source};
use super::zip_file::MEMORY_LIMIT;

/// The first bytes of what gzip wrote.
pub(super) const GZIP: &[u8] = b"\x1f\x8b";
/// The place of [`USTAR`] in a tar archive.
const MAGIC_AT: usize = 257;
/// The format's name, which POSIX and GNU archives have.
const USTAR: &[u8] = b"ustar";

/// Whether a file begins like a plain tar archive.
pub(super) fn is_tar(head: &[u8]) -> bool {
    head.get(MAGIC_AT..).is_some_and(|rest| rest.starts_with(USTAR))
}

/// Whether a file that gzip wrote is named like a tar archive.
pub(super) fn is_named(name: &str) -> bool {
    name.ends_with(".tar.gz") || name.ends_with(".tgz")
}

/// Gets the name of a member, its announced size and its bytes.
type OnMember<'a> = dyn FnMut(&str, u64, &mut dyn Read) -> Result<(), Trouble> + 'a;

/// Calls `f` with the name, the announced size and the bytes of every file in an archive, in order. Links and folders have no bytes, and
/// are left out.
///
/// # Errors
/// If the archive cannot be read to its end; what came before was passed on.
pub(super) fn members(source: &Source, compressed: bool, f: &mut OnMember<'_>) -> Result<(), Trouble> {
    let cursor = Cursor::new(source.clone());
    let stream: Box<dyn Read> =
        if compressed { Box::new(MultiGzDecoder::new(cursor)) } else { Box::new(cursor) };
    let mut archive = Archive::new(stream);
    for entry in archive.entries().map_err(|error| damaged(&error))? {
        let mut entry = entry.map_err(|error| damaged(&error))?;
        if !matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Continuous) {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let size = entry.size();
        f(&name, size, &mut entry)?;
    }
    Ok(())
}

fn damaged(error: &std::io::Error) -> Trouble {
    match error.kind() {
        ErrorKind::UnexpectedEof => Trouble::Truncated("the archive ends early".to_owned()),
        _ => Trouble::Damaged(error.to_string()),
    }
}

/// Reads at most `len` bytes.
///
/// # Errors
/// If the stream cannot be read.
pub(super) fn read(stream: &mut dyn Read, len: u64) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    stream.take(len).read_to_end(&mut bytes).map_err(|error| damaged(&error))?;
    Ok(bytes)
}

/// The rest of a member behind its `head`, with random access: in memory if it is small, else in an unnamed temporary file.
///
/// # Errors
/// If the stream ends early, or no file can be written.
pub(super) fn source(head: Vec<u8>, size: u64, stream: &mut dyn Read) -> Result<Source, Trouble> {
    let left = size.saturating_sub(head.len() as u64);
    if size <= MEMORY_LIMIT {
        let rest = read(stream, left)?;
        let short = (rest.len() as u64) < left;
        return if short {
            Err(damaged(&ErrorKind::UnexpectedEof.into()))
        } else {
            Ok(Source::memory([head, rest].concat()))
        };
    }
    let unwritable = |error: std::io::Error| {
        Trouble::Unreadable(format!("no temporary file of {size} bytes to unpack it into: {error}"))
    };
    let mut file = tempfile::tempfile().map_err(unwritable)?;
    file.write_all(&head).map_err(unwritable)?;
    // One error for both sides: what a decoder says is of the archive, the rest of the temporary file.
    let written = std::io::copy(&mut stream.take(left), &mut file).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput => damaged(&error),
        _ => unwritable(error),
    })?;
    if written < left {
        return Err(damaged(&ErrorKind::UnexpectedEof.into()));
    }
    file.seek(SeekFrom::Start(0)).map_err(unwritable)?;
    Ok(Source::file(file, size))
}
