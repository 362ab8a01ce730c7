//! Ranges of bytes in a file, read on demand, or in a buffer. No memory is mapped.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::entry::Trouble;

/// A range of bytes that can be read from any thread.
#[derive(Debug, Clone)]
pub(super) struct Source {
    store: Store,
    start: u64,
    len: u64,
}

#[derive(Debug, Clone)]
enum Store {
    File(Arc<File>),
    Memory(Arc<Vec<u8>>),
}

impl Source {
    /// Returns a source for all of `file`, which has `len` bytes.
    pub(super) fn file(file: File, len: u64) -> Self {
        Self { store: Store::File(Arc::new(file)), start: 0, len }
    }

    /// Returns a source for a buffer.
    pub(super) fn memory(bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u64;
        Self { store: Store::Memory(Arc::new(bytes)), start: 0, len }
    }

    /// Length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the part of `len` bytes at `at`, clamped to the end.
    pub(super) fn part(&self, at: u64, len: u64) -> Self {
        let at = at.min(self.len);
        let len = len.min(self.len - at);
        Self { store: self.store.clone(), start: self.start + at, len }
    }

    /// Reads exactly `into.len()` bytes at `at`.
    pub(super) fn read_into(&self, at: u64, into: &mut [u8]) -> Result<(), Trouble> {
        let wanted = into.len() as u64;
        if at.checked_add(wanted).is_none_or(|end| end > self.len) {
            let have = self.len.saturating_sub(at);
            return Err(Trouble::Truncated(format!(
                "{wanted} bytes are declared, but only {have} are present"
            )));
        }
        let start = self.start + at;
        match &self.store {
            Store::File(file) => file.read_exact_at(into, start).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    Trouble::Truncated("the file shrank while it was read".to_owned())
                }
                _ => Trouble::Unreadable(error.to_string()),
            }),
            Store::Memory(bytes) => {
                // Both ends are within the buffer, and so within usize: checked above and in `part`.
                let part = usize::try_from(start).ok().and_then(|s| bytes.get(s..)?.get(..into.len()));
                into.copy_from_slice(part.ok_or_else(|| Trouble::Truncated("the buffer ends".to_owned()))?);
                Ok(())
            }
        }
    }

    /// Reads `len` bytes at `at`. Memory is allocated only after the range has been checked.
    pub(super) fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, Trouble> {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            let have = self.len.saturating_sub(at);
            return Err(Trouble::Truncated(format!("{len} bytes are declared, but only {have} are present")));
        }
        let size = usize::try_from(len).map_err(|_| Trouble::TooLarge(format!("{len} bytes")))?;
        let mut bytes = vec![0; size];
        self.read_into(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads `N` bytes at `at`.
    pub(super) fn array<const N: usize>(&self, at: u64) -> Result<[u8; N], Trouble> {
        let mut bytes = [0; N];
        self.read_into(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads up to `len` bytes from the start.
    pub(super) fn head(&self, len: u64) -> Result<Vec<u8>, Trouble> {
        self.read(0, len.min(self.len))
    }
}

/// A [`Source`] as a seekable stream, for archive readers.
#[derive(Debug, Clone)]
pub(super) struct Cursor {
    source: Source,
    at: u64,
}

impl Cursor {
    pub(super) fn new(source: Source) -> Self {
        Self { source, at: 0 }
    }
}

impl io::Read for Cursor {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.source.len().saturating_sub(self.at);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        self.source
            .read_into(self.at, &mut into[..len])
            .map_err(|trouble| io::Error::other(trouble.to_string()))?;
        self.at += len as u64;
        Ok(len)
    }
}

impl io::Seek for Cursor {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let at = match to {
            io::SeekFrom::Start(at) => Some(at),
            io::SeekFrom::End(by) => self.source.len().checked_add_signed(by),
            io::SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

/// Reads a little-endian number; `None` beyond the end.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..)?.get(..2)?.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..)?.get(..4)?.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..)?.get(..8)?.try_into().ok()?))
}

/// Returns the text at `at` up to its NUL or the end.
pub(super) fn text_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    Some(&rest[..rest.iter().position(|b| *b == 0).unwrap_or(rest.len())])
}
