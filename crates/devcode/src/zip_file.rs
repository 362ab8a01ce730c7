//! Members of zip archives, including wheels, read as streams and limited to the announced sizes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use zip::CompressionMethod;
use zip::ZipArchive;
use zip::result::ZipError;

use super::entry::Trouble;
use super::source::{Cursor, Source, u16_at, u32_at};

/// Maximum size of the central directory: 1 GiB of it would occupy several in memory.
const DIRECTORY_LIMIT: u64 = 128 << 20;
/// Members up to this size are unpacked to memory, larger ones to a temporary file.
pub(super) const MEMORY_LIMIT: u64 = 16 << 20;

/// A file in an archive.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// Unpacked size in bytes, as announced.
    pub(super) size: u64,
    packed: Source,
    deflated: bool,
    crc: u32,
}

impl Member {
    /// Size in the archive, in bytes.
    pub(super) fn packed(&self) -> u64 {
        self.packed.len()
    }

    /// Reads the first bytes, up to `len`.
    pub(super) fn head(&self, len: u64) -> Result<Vec<u8>, Trouble> {
        let mut bytes = Vec::new();
        self.stream().take(len.min(self.size)).read_to_end(&mut bytes).map_err(|error| damaged(&error))?;
        Ok(bytes)
    }

    fn stream(&self) -> Box<dyn Read + '_> {
        let cursor = Cursor::new(self.packed.clone());
        if self.deflated { Box::new(DeflateDecoder::new(cursor)) } else { Box::new(cursor) }
    }

    /// Reads the whole member into memory; the caller has checked its size against a limit.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, Trouble> {
        let mut bytes = Vec::new();
        self.copy(&mut |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Returns the whole member with random access: the bytes of the archive if it is stored uncompressed, memory if it is
    /// small, an unnamed temporary file otherwise.
    pub(super) fn source(&self) -> Result<Source, Trouble> {
        if !self.deflated {
            return Ok(self.packed.clone());
        }
        if self.size <= MEMORY_LIMIT {
            return Ok(Source::memory(self.bytes()?));
        }
        let unwritable = |error: std::io::Error| {
            Trouble::Unreadable(format!(
                "no temporary file of {} bytes to unpack it into: {error}",
                self.size
            ))
        };
        let mut file: File = tempfile::tempfile().map_err(unwritable)?;
        self.copy(&mut |chunk| file.write_all(chunk).map_err(unwritable))?;
        file.seek(SeekFrom::Start(0)).map_err(unwritable)?;
        Ok(Source::file(file, self.size))
    }

    /// Passes the member on in chunks and verifies the announced size and checksum.
    fn copy(&self, into: &mut dyn FnMut(&[u8]) -> Result<(), Trouble>) -> Result<(), Trouble> {
        let mut stream = self.stream().take(self.size + 1);
        let mut chunk = vec![0; 1 << 17];
        let (mut size, mut crc) = (0, Crc::new());
        loop {
            let len = stream.read(&mut chunk).map_err(|error| damaged(&error))?;
            if len == 0 {
                break;
            }
            size += len as u64;
            if size > self.size {
                return Err(Trouble::Damaged(format!(
                    "it unpacks to more than the declared {} bytes",
                    self.size
                )));
            }
            crc.update(&chunk[..len]);
            into(&chunk[..len])?;
        }
        if size != self.size {
            return Err(Trouble::Damaged(format!(
                "{} bytes are declared, but it unpacks to {size}",
                self.size
            )));
        }
        if crc.sum() != self.crc {
            return Err(Trouble::Damaged("its checksum is not that of the archive".to_owned()));
        }
        Ok(())
    }
}

fn damaged(error: &dyn std::fmt::Display) -> Trouble {
    Trouble::Damaged(format!("as a member of an archive: {error}"))
}

/// Passes every nonempty file of the archive to `each` with its name, or the reason why it cannot be read.
///
/// # Errors
/// If the archive as a whole cannot be read.
pub(super) fn members(
    source: &Source,
    each: &mut dyn FnMut(&str, Result<Member, Trouble>),
) -> Result<(), Trouble> {
    let directory = directory_size(source)?;
    if directory > DIRECTORY_LIMIT {
        return Err(Trouble::TooLarge(format!("a table of members of {directory} bytes")));
    }
    let mut archive = ZipArchive::new(Cursor::new(source.clone())).map_err(|error| whole(&error))?;
    for index in 0..archive.len() {
        let file = match archive.by_index_raw(index) {
            Ok(file) => file,
            Err(error) => {
                each(&format!("member {index}"), Err(whole(&error)));
                continue;
            }
        };
        let name = match file.name() {
            Ok(name) => name.into_owned(),
            Err(_) => format!("member {index}"),
        };
        if !file.is_file() || file.size() == 0 {
            continue;
        }
        let deflated = match file.compression() {
            _ if file.encrypted() => {
                each(&name, Err(Trouble::Encrypted));
                continue;
            }
            CompressionMethod::Stored => false,
            CompressionMethod::Deflated => true,
            other => {
                each(&name, Err(Trouble::Unsupported(format!("the compression `{other}`"))));
                continue;
            }
        };
        let Some(start) = file.data_start() else {
            each(&name, Err(Trouble::Damaged("the archive does not say where it starts".to_owned())));
            continue;
        };
        let (size, packed, crc) = (file.size(), file.compressed_size(), file.crc32());
        if start.checked_add(packed).is_none_or(|end| end > source.len()) {
            each(&name, Err(Trouble::Truncated("it ends after the end of its archive".to_owned())));
            continue;
        }
        if !deflated && size != packed {
            each(
                &name,
                Err(Trouble::Damaged("it is stored uncompressed, but its two sizes differ".to_owned())),
            );
            continue;
        }
        let packed = source.part(start, packed);
        each(&name.clone(), Ok(Member { size, packed, deflated, crc }));
    }
    Ok(())
}

fn whole(error: &ZipError) -> Trouble {
    match error {
        ZipError::Io(error) => Trouble::Truncated(error.to_string()),
        ZipError::UnsupportedArchive(what) => Trouble::Unsupported((*what).to_owned()),
        other => Trouble::Damaged(other.to_string()),
    }
}

/// Returns the size of the central directory from the record at the end of the archive.
fn directory_size(source: &Source) -> Result<u64, Trouble> {
    const RECORD: &[u8] = b"PK\x05\x06";
    /// Size of the record with the longest comment.
    const TAIL: u64 = 22 + 0xffff;
    let start = source.len().saturating_sub(TAIL);
    let tail = source.read(start, source.len() - start)?;
    let at = tail.windows(4).rposition(|window| window == RECORD).ok_or_else(|| {
        Trouble::Truncated("the end-of-central-directory record of the archive is missing".to_owned())
    })?;
    match (u32_at(&tail, at + 12), u16_at(&tail, at + 10)) {
        // Zip64 has the size in another record, which the locator in front of this one points to.
        (Some(u32::MAX), _) | (_, Some(u16::MAX)) => {
            let locator =
                at.checked_sub(20).and_then(|at| tail.get(at..)).filter(|l| l.starts_with(b"PK\x06\x07"));
            let record = locator.and_then(|locator| super::source::u64_at(locator, 8));
            let record: [u8; 56] = source.array(record.unwrap_or(source.len()))?;
            Ok(super::source::u64_at(&record, 40).unwrap_or(u64::MAX))
        }
        (Some(size), _) => Ok(u64::from(size)),
        _ => Err(Trouble::Truncated(
            "the end-of-central-directory record of the archive is truncated".to_owned(),
        )),
    }
}
