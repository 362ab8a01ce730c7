//! The container of device code that nvcc's `fatbinary` writes: a 16-byte header, then entries for targets.
//!
//! Undocumented; derived from the output of `fatbinary` 11.8 to 13.5 and compared with `cuobjdump` (`tests/devcode`). An
//! entry of kind 0x100 (`--concat`, since 13.x) contains several pieces of code in one compressed block; a list in its header
//! describes them.

use super::embedded;
use super::entry::{CodeKind, Compression, Trouble};
use super::source::{Source, text_at, u16_at, u32_at, u64_at};

/// The magic number of a fatbin.
pub(super) const MAGIC: [u8; 4] = 0xBA55_ED50_u32.to_le_bytes();

/// Size of the fixed part of an entry header.
const ENTRY: usize = 64;
/// Maximum size of an entry header: names and options are short, lists of pieces are not.
const HEADER_LIMIT: u64 = 4 << 20;
/// Maximum pieces of a concatenated entry; real ones have one per target, far fewer than this.
const PIECES_LIMIT: u32 = 4096;
const NAME_LIMIT: usize = 1024;

const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
/// Scrambled code in vendor libraries, which no tool can unpack.
const FLAG_SCRAMBLED: u64 = 0x1_0000;
const FLAG_ARCH: u64 = 0x0010_0000;
const FLAG_FAMILY: u64 = 0x0020_0000;

/// The suffix according to the flags of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marked {
    Arch,
    Family,
    Neither,
}

/// The header of one piece of code.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) kind: CodeKind,
    /// Major and minor version of the code; the PTX ISA version for PTX.
    pub(super) version: (u16, u16),
    pub(super) number: u32,
    pub(super) marked: Marked,
    pub(super) name: Option<String>,
}

/// One entry: a block of bytes that contains pieces of code.
#[derive(Debug)]
pub(super) struct Block {
    /// Offset of the code from the start of the source.
    pub(super) offset: u64,
    pub(super) code: Source,
    pub(super) compression: Compression,
    pub(super) scrambled: bool,
    /// Unpacked size in bytes.
    pub(super) unpacked: u64,
    pub(super) pieces: Vec<Piece>,
}

/// A piece of code in an unpacked block.
#[derive(Debug)]
pub(super) struct Piece {
    /// `None` for a bare cubin outside of a fatbin.
    pub(super) header: Option<Header>,
    pub(super) start: u64,
    pub(super) len: u64,
}

/// Receives each block, or a problem with its offset; returns whether to continue.
pub(super) type Each<'a> = dyn FnMut(Result<Block, (u64, Trouble)>) -> bool + 'a;

/// Reads the consecutive fatbins in `source` and passes their blocks to `each` in order. A problem is passed with its offset,
/// and reading resumes at the next fatbin. If the bytes are not `dedicated` to fatbins, a candidate must be plausible in every
/// field, since programs also contain the magic number as a constant; bare cubins are found there too, as profilers embed
/// theirs.
pub(super) fn walk(source: &Source, dedicated: bool, each: &mut Each<'_>) {
    let mut at = 0;
    while at + 16 <= source.len() {
        let Some(start) = next_magic(source, at, dedicated, each) else { return };
        if let Some(block) = embedded::cubin_at(source, start) {
            at = start + block.unpacked;
            if !each(Ok(block)) {
                return;
            }
            continue;
        }
        let header: [u8; 16] = match source.array(start) {
            Ok(header) => header,
            Err(trouble) => {
                each(Err((start, trouble)));
                return;
            }
        };
        let (Some(version), Some(length), Some(size)) =
            (u16_at(&header, 4), u16_at(&header, 6), u64_at(&header, 8))
        else {
            return;
        };
        if !dedicated && !plausible(source, start, &header) {
            at = start + 8;
            continue;
        }
        if version != 1 || length < 16 {
            let what = format!("a fatbin of version {version} with a header of {length} bytes");
            if !each(Err((start, Trouble::Unsupported(what)))) {
                return;
            }
            at = start + 8;
            continue;
        }
        let first = start + u64::from(length);
        let end = first.saturating_add(size);
        if end > source.len() {
            let have = source.len().saturating_sub(first);
            let what = format!("a fatbin declares {size} bytes, but only {have} are present");
            each(Err((start, Trouble::Truncated(what))));
        }
        match entries(source, first, end.min(source.len()), each) {
            Some(next) => at = next,
            None => return,
        }
    }
}

/// Whether the header and the first entry have the fields that all tools write.
fn plausible(source: &Source, start: u64, header: &[u8; 16]) -> bool {
    let entry: [u8; 16] = match source.array(start + 16) {
        Ok(entry) => entry,
        Err(_) => return false,
    };
    let (Some(size), Some(length), Some(body)) = (u64_at(header, 8), u32_at(&entry, 4), u64_at(&entry, 8))
    else {
        return false;
    };
    let length = u64::from(length);
    header[4..8] == [1, 0, 16, 0]
        && entry[2..4] == [1, 1]
        && (ENTRY as u64..=HEADER_LIMIT).contains(&length)
        && length.checked_add(body).is_some_and(|sum| sum <= size)
        && size <= source.len() - start
}

/// Returns the start of the next fatbin at or after `at`, or of the next cubin unless `dedicated`; both are 8-byte aligned.
fn next_magic(source: &Source, at: u64, dedicated: bool, each: &mut Each<'_>) -> Option<u64> {
    const CHUNK: u64 = 1 << 18;
    let wanted = |word: &[u8]| word.starts_with(&MAGIC) || (!dedicated && word.starts_with(embedded::MAGIC));
    let mut base = at.next_multiple_of(8);
    while base + 16 <= source.len() {
        let chunk = match source.part(base, CHUNK).head(CHUNK) {
            Ok(chunk) => chunk,
            Err(trouble) => {
                each(Err((base, trouble)));
                return None;
            }
        };
        if let Some(i) = chunk.chunks(8).position(wanted) {
            return Some(base + 8 * i as u64);
        }
        base += CHUNK;
    }
    None
}

/// Reads the entries of one fatbin. Returns the offset at which to resume: its end, or where parsing failed; `None` to stop.
fn entries(source: &Source, first: u64, end: u64, each: &mut Each<'_>) -> Option<u64> {
    let mut at = first;
    while at + ENTRY as u64 <= end {
        match entry(source, at, end) {
            Ok((block, next)) => {
                if block.is_some_and(|block| !each(Ok(block))) {
                    return None;
                }
                at = next;
            }
            Err(Stop::Lost(trouble)) => {
                if !each(Err((at, trouble))) {
                    return None;
                }
                // The sizes are unreliable, and so is the end.
                return Some(at + 8);
            }
            Err(Stop::Skip(trouble, next)) => {
                if !each(Err((at, trouble))) {
                    return None;
                }
                at = next;
            }
        }
    }
    Some(end)
}

enum Stop {
    /// The next entry cannot be located.
    Lost(Trouble),
    /// Only this entry is bad; the next one is at this offset.
    Skip(Trouble, u64),
}

/// Reads the entry at `at`; returns it, if not empty, and the offset of the next one.
fn entry(source: &Source, at: u64, end: u64) -> Result<(Option<Block>, u64), Stop> {
    let fixed: [u8; ENTRY] = source.array(at).map_err(Stop::Lost)?;
    let damaged = |what: String| Stop::Lost(Trouble::Damaged(what));
    let (Some(kind), Some(header_size), Some(size)) =
        (u16_at(&fixed, 0), u32_at(&fixed, 4), u64_at(&fixed, 8))
    else {
        return Err(damaged("an entry without a header".to_owned()));
    };
    let header_size = u64::from(header_size);
    if header_size < ENTRY as u64 || header_size > HEADER_LIMIT {
        return Err(damaged(format!("a fatbin's entry has a header of {header_size} bytes")));
    }
    let start = at + header_size;
    let Some(next) = start.checked_add(size).filter(|next| *next <= end) else {
        let have = end.saturating_sub(start);
        return Err(Stop::Lost(Trouble::Truncated(format!(
            "an entry declares {size} bytes, but only {have} are present"
        ))));
    };
    if size == 0 {
        return Ok((None, next));
    }
    let skip = |trouble| Stop::Skip(trouble, next);
    let header = source.read(at, header_size).map_err(skip)?;
    let (Some(packed), Some(list), Some(flags), Some(unpacked)) =
        (u32_at(&header, 0x10), u32_at(&header, 0x14), u64_at(&header, 0x28), u64_at(&header, 0x38))
    else {
        return Err(skip(Trouble::Damaged("an entry without a header".to_owned())));
    };
    let compression = match (flags & FLAG_LZ4 != 0, flags & FLAG_ZSTD != 0) {
        (false, false) if packed == 0 => Compression::None,
        (true, false) => Compression::Lz4,
        (false, true) => Compression::Zstd,
        _ => return Err(skip(Trouble::Unsupported(format!("a compression of flags {flags:#x}")))),
    };
    let (stored, unpacked) = match compression {
        Compression::None => (size, size),
        _ => (u64::from(packed), unpacked),
    };
    if stored > size {
        let what = format!("an entry of {size} bytes announces {stored} bytes of compressed code");
        return Err(skip(Trouble::Truncated(what)));
    }
    let pieces = if kind == 0x100 {
        concatenated(&header, list as usize, unpacked).map_err(skip)?
    } else {
        let Some(header) = described(&header, kind) else {
            return Err(skip(Trouble::Damaged("an entry without a header".to_owned())));
        };
        vec![Piece { header: Some(header), start: 0, len: unpacked }]
    };
    let code = source.part(start, stored);
    Ok((
        Some(Block {
            offset: start,
            code,
            compression,
            scrambled: flags & FLAG_SCRAMBLED != 0,
            unpacked,
            pieces,
        }),
        next,
    ))
}

/// Parses the header of an entry, or of a piece in a list: both have the same layout except for sizes.
fn described(header: &[u8], kind: u16) -> Option<Header> {
    let flags = u64_at(header, 0x28)?;
    let (name, name_len) = (u32_at(header, 0x20)? as usize, u32_at(header, 0x24)? as usize);
    let name =
        if name == 0 || name_len == 0 { None } else { header.get(name..)?.get(..name_len.min(NAME_LIMIT)) };
    Some(Header {
        kind: match kind {
            1 => CodeKind::Ptx,
            2 => CodeKind::Cubin,
            8 => CodeKind::LtoIr,
            other => CodeKind::Other(other),
        },
        version: (u16_at(header, 0x1a)?, u16_at(header, 0x18)?),
        number: u32_at(header, 0x1c)?,
        marked: match (flags & FLAG_ARCH != 0, flags & FLAG_FAMILY != 0) {
            (true, _) => Marked::Arch,
            (false, true) => Marked::Family,
            (false, false) => Marked::Neither,
        },
        name: name.and_then(|n| text_at(n, 0)).map(|n| String::from_utf8_lossy(n).into_owned()),
    })
}

/// Parses the pieces of an entry of kind 0x100 from the list at `list` in its header: the number of pieces and the size of the
/// list, then one header per piece, with the start of the piece at 4 and its size at 8, followed by name and options.
fn concatenated(header: &[u8], list: usize, unpacked: u64) -> Result<Vec<Piece>, Trouble> {
    let bad = || Trouble::Damaged("the list of a concatenated entry runs out of its header".to_owned());
    let count = u32_at(header, list).filter(|count| *count <= PIECES_LIMIT).ok_or_else(bad)?;
    let mut at = list.checked_add(8).ok_or_else(bad)?;
    let mut pieces = Vec::new();
    let mut behind = 0;
    for _ in 0..count {
        let rest = header.get(at..).filter(|rest| rest.len() >= ENTRY).ok_or_else(bad)?;
        let (Some(kind), Some(start), Some(len)) = (u16_at(rest, 0), u32_at(rest, 4), u64_at(rest, 8)) else {
            return Err(bad());
        };
        let start = u64::from(start);
        // Ordered and disjoint, so that the pieces cannot exceed the unpacked block.
        let Some(end) = start.checked_add(len).filter(|end| start >= behind && *end <= unpacked) else {
            return Err(Trouble::Damaged(
                "the pieces of a concatenated entry overlap or lie outside of it".to_owned(),
            ));
        };
        behind = end;
        pieces.push(Piece { header: Some(described(rest, kind).ok_or_else(bad)?), start, len });
        at += piece_header(rest).ok_or_else(bad)?;
    }
    Ok(pieces)
}

/// Size of a piece header including name and options; each string ends in a NUL and is padded to 8 bytes.
fn piece_header(rest: &[u8]) -> Option<usize> {
    let text = |offset: usize, len: usize| Some(offset.checked_add(len)?.checked_add(1)?.next_multiple_of(8));
    let mut size = ENTRY;
    let (name, name_len) = (u32_at(rest, 0x20)? as usize, u32_at(rest, 0x24)? as usize);
    if name != 0 {
        size = size.max(text(name, name_len)?);
    }
    let options = u32_at(rest, 0x14)? as usize;
    if options != 0 {
        let (start, len) = (u32_at(rest, options)? as usize, u32_at(rest, options.checked_add(4)?)? as usize);
        size = size.max(text(start, len)?).max(options.checked_add(8)?);
    }
    (size <= rest.len()).then_some(size)
}
