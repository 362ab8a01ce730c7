//! Bare cubins in a data section, outside of a fatbin.

use super::cubin;
use super::entry::Compression;
use super::fatbin::{Block, Piece};
use super::source::{Source, u16_at, u32_at, u64_at};

/// The first bytes of a 64-bit little-endian ELF image.
pub(super) const MAGIC: &[u8] = b"\x7fELF\x02\x01";

/// Section types without bytes in the file: `NOBITS`, and NVIDIA's types for shared memory.
const NO_BYTES: [u32; 3] = [8, 0x7000_000a, 0x7000_0015];

/// Returns the cubin that starts at `at`, if any. No field states its length: it ends with its last section or header table,
/// whichever the tool that wrote it put last.
pub(super) fn cubin_at(source: &Source, at: u64) -> Option<Block> {
    let head: [u8; 64] = source.array(at).ok()?;
    if !head.starts_with(MAGIC) || !cubin::is_cubin(&head) {
        return None;
    }
    let image = source.part(at, u64::MAX);
    let table = |start: u64, size: usize, count: usize| {
        let bytes = u64::from(u16_at(&head, size)?) * u64::from(u16_at(&head, count)?);
        Some((start, start.checked_add(bytes)?))
    };
    let (_, programs) = table(u64_at(&head, 32)?, 54, 56)?;
    let (start, sections) = table(u64_at(&head, 40)?, 58, 60)?;
    if programs > image.len() || u16_at(&head, 58) != Some(64) {
        return None;
    }
    let headers = image.read(start, sections - start).ok()?;
    let end = |header: &[u8]| {
        let bytes = if NO_BYTES.contains(&u32_at(header, 4)?) { 0 } else { u64_at(header, 32)? };
        u64_at(header, 24)?.checked_add(bytes)
    };
    // Sections beyond the end of the file are not counted; reading the cubin reports what is missing.
    let last = headers.chunks_exact(64).filter_map(end).filter(|end| *end <= image.len()).max();
    let len = programs.max(sections).max(last.unwrap_or(0));
    (len > 64).then(|| Block {
        offset: at,
        code: image.part(0, len),
        compression: Compression::None,
        scrambled: false,
        unpacked: len,
        pieces: vec![Piece { header: None, start: 0, len }],
    })
}
