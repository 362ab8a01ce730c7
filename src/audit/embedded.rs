//! Cubins that lie in a data section as they are, in no fatbin.

use super::cubin;
use super::entry::Compression;
use super::fatbin::{Block, Piece};
use super::source::{Source, u16_at, u64_at};

/// What an ELF image of 64 bits, little-endian, starts with.
pub(super) const MAGIC: &[u8] = b"\x7fELF\x02\x01";

/// The cubin that starts at `at`, if one does. Nothing says how long it is; its last bytes are its program headers, or its
/// section headers where it has none.
pub(super) fn cubin_at(source: &Source, at: u64) -> Option<Block> {
    let head: [u8; 64] = source.array(at).ok()?;
    if !head.starts_with(MAGIC) || !cubin::is_cubin(&head) {
        return None;
    }
    let end = |start: u64, size: usize, count: usize| {
        let bytes = u64::from(u16_at(&head, size)?) * u64::from(u16_at(&head, count)?);
        start.checked_add(bytes)
    };
    let programs = end(u64_at(&head, 32)?, 54, 56)?;
    let sections = end(u64_at(&head, 40)?, 58, 60)?;
    let len = programs.max(sections);
    let inside = len > 64 && at.checked_add(len).is_some_and(|end| end <= source.len());
    inside.then(|| Block {
        offset: at,
        code: source.part(at, len),
        compression: Compression::None,
        scrambled: false,
        unpacked: len,
        pieces: vec![Piece { header: None, start: 0, len }],
    })
}
