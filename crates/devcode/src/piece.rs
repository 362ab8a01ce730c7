//! Builds the entry of a piece of device code from its container and from the code itself.

use std::ops::Range;
use std::sync::Arc;

use ptx::arch::{PtxIsa, Suffix};

use super::entry::{CodeKind, Compression, Entry, Format, Place, Problem, ToldBy, Trouble};
use super::fatbin::{Block, Header, Marked, Piece};
use super::scan::Done;
use super::{cubin, ptx_text, unpack};

/// Unpacked code, shared by the pieces of a block.
pub(super) struct Code {
    block: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Code {
    pub(super) fn bytes(&self) -> &[u8] {
        self.block.get(self.range.clone()).unwrap_or_default()
    }

    fn none() -> Self {
        Self { block: Arc::default(), range: 0..0 }
    }
}

/// Returns the entries of a fatbin block; `place` is the location of the first piece.
pub(super) fn block(place: &Place, block: &Block) -> Vec<Done> {
    let is_read = |piece: &Piece| {
        let kind = piece.header.as_ref().map_or(CodeKind::Cubin, |header| header.kind);
        matches!(kind, CodeKind::Cubin | CodeKind::Ptx)
    };
    if !block.pieces.iter().any(is_read) {
        return entries(place, block).collect();
    }
    if block.scrambled {
        return unread(place, block, Trouble::Unsupported("obfuscated code".to_owned()));
    }
    let bytes = match unpack::unpack(&block.code, block.compression, block.unpacked) {
        Ok(bytes) => Arc::new(bytes),
        Err(trouble) => return unread(place, block, trouble),
    };
    let mut out = Vec::new();
    for (i, piece) in block.pieces.iter().enumerate() {
        let mut entry = announced(place, i, block, piece);
        // Pieces are within the block: the list was checked against its size.
        let start = usize::try_from(piece.start).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(piece.len).unwrap_or(usize::MAX));
        let code = Code { block: bytes.clone(), range: start..end };
        if let Err(trouble) = add(&mut entry, code.bytes(), piece.header.as_ref()) {
            out.push(Done::Problem(Problem { place: entry.place.clone(), trouble }));
        }
        out.push(Done::Entry(entry, code));
    }
    out
}

/// Returns the entries of a block that cannot be unpacked, from its header, after the problem.
pub(super) fn unread(place: &Place, block: &Block, trouble: Trouble) -> Vec<Done> {
    let problem = Done::Problem(Problem { place: place.clone(), trouble });
    std::iter::once(problem).chain(entries(place, block)).collect()
}

/// Iterates over the entries of a block from its header alone.
fn entries(place: &Place, block: &Block) -> impl Iterator<Item = Done> {
    let entry = |(i, piece)| Done::Entry(announced(place, i, block, piece), Code::none());
    block.pieces.iter().enumerate().map(entry)
}

/// Returns the entry of a piece from its header alone.
fn announced(place: &Place, i: usize, block: &Block, piece: &Piece) -> Entry {
    let index = place.index.saturating_add(u32::try_from(i).unwrap_or(u32::MAX));
    let mut entry = Entry {
        bytes: block.code.len(),
        compression: block.compression,
        ..blank(Place { index, ..place.clone() }, CodeKind::Cubin, piece.len)
    };
    if let Some(Header { kind, version, number, marked, name }) = &piece.header {
        entry.kind = *kind;
        entry.number = u16::try_from(*number).unwrap_or(0);
        let (suffix, told_by) = match marked {
            Marked::Arch => (Suffix::Arch, ToldBy::FatbinFlags),
            Marked::Family => (Suffix::Family, ToldBy::FatbinFlags),
            Marked::Neither if entry.number < 90 => (Suffix::Base, ToldBy::NoOther),
            Marked::Neither => (Suffix::Base, ToldBy::FatbinFlags),
        };
        (entry.suffix, entry.told_by) = (Some(suffix), told_by);
        entry.isa = (*kind == CodeKind::Ptx).then_some(PtxIsa { major: version.0, minor: version.1 });
        entry.name.clone_from(name);
    }
    entry
}

/// Returns an entry with unknown contents.
fn blank(place: Place, kind: CodeKind, bytes: u64) -> Entry {
    Entry {
        place,
        kind,
        number: 0,
        suffix: None,
        told_by: ToldBy::Nothing,
        isa: None,
        compression: Compression::None,
        bytes,
        unpacked: bytes,
        toolkit: None,
        name: None,
        kernels: Vec::new(),
    }
}

/// Returns the entry of code that is a whole file of `bytes` bytes.
pub(super) fn bare(place: Place, format: Format, bytes: u64, code: Result<Vec<u8>, Trouble>) -> Vec<Done> {
    let kind = match format {
        Format::Ptx => CodeKind::Ptx,
        Format::Bitcode => CodeKind::Bitcode,
        _ => CodeKind::Cubin,
    };
    let mut entry = blank(place, kind, bytes);
    let (code, trouble) = match code {
        Ok(code) => {
            let trouble = add(&mut entry, &code, None).err();
            let range = 0..code.len();
            (Code { block: Arc::new(code), range }, trouble)
        }
        Err(trouble) => (Code::none(), Some(trouble)),
    };
    let problem = trouble.map(|trouble| Done::Problem(Problem { place: entry.place.clone(), trouble }));
    problem.into_iter().chain([Done::Entry(entry, code)]).collect()
}

/// Adds the facts read from the code to those of its container.
fn add(entry: &mut Entry, code: &[u8], container: Option<&Header>) -> Result<(), Trouble> {
    match entry.kind {
        CodeKind::Cubin => {
            let facts = cubin::facts(code)?;
            if container.is_some() && facts.number != entry.number {
                let (announced, found) = (entry.number, facts.number);
                return Err(Trouble::Damaged(format!(
                    "its fatbin says sm_{announced} and the code sm_{found}"
                )));
            }
            // `fatbinary` marks the target it was given; the code is the better source for `a`.
            let marked = container.is_some_and(|header| header.marked != Marked::Neither);
            if container.is_none() || (!marked && facts.suffix == Some(Suffix::Arch)) {
                (entry.number, entry.suffix, entry.told_by) = (facts.number, facts.suffix, facts.told_by);
            }
            if facts.relocatable {
                entry.kind = CodeKind::Relocatable;
            }
            entry.toolkit = facts.toolkit;
            entry.kernels = facts.kernels;
        }
        CodeKind::Ptx => {
            let facts = ptx_text::facts(code)?;
            (entry.number, entry.suffix, entry.told_by) =
                (facts.number, Some(facts.suffix), ToldBy::PtxTarget);
            entry.isa = Some(facts.isa);
            entry.kernels = facts.kernels;
        }
        CodeKind::Relocatable | CodeKind::LtoIr | CodeKind::Bitcode | CodeKind::Other(_) => {}
    }
    Ok(())
}
