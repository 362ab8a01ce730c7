//! Boxes of tensors (PTX ISA 5.5): the mapping between global and shared memory of a tensor copy.

use crate::copies::pending::Piece;
use crate::copies::tensor_map::{Im2col, TensorMap};
use crate::copies::tensor_type::{Interleave, OobFill, Swizzle, TensorType};

/// The kind of a tensor copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Load,
    Store,
    Reduce,
}

/// The elements that a tensor copy selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A box.
    Tile,
    /// Four rows at independent coordinates: `.tile::gather4` for loads, `.tile::scatter4` for stores.
    Rows { gather: bool },
    /// Pixels of an im2col traversal, each shifted by these offsets in dimensions 1, 2 and 3.
    Im2col { offsets: [i64; 3] },
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::Tile => "tile",
            Self::Im2col { .. } => "im2col",
            Self::Rows { gather: true } => "gather4",
            Self::Rows { gather: false } => "scatter4",
        }
    }
}

/// Required alignment of a box in shared memory. An H100 accepts any address with this alignment, for every swizzle.
pub(crate) const SHARED_ALIGNMENT: u64 = 128;

/// Granularity in bytes of a box in shared memory.
const CHUNK: u64 = 16;

/// Checks a copy against a map that is itself valid.
pub(crate) fn check(map: &TensorMap, at: &[i64; 5], mode: Mode, usage: Use) -> Result<(), String> {
    let ty = map.data_type;
    // Measured on an H100: any other coordinate raises an illegal instruction.
    let interleaved = map.interleave != Interleave::None;
    if interleaved && mode != Mode::Tile {
        return Err(format!("{} of an interleaved tensor", mode.word()));
    }
    // Measured on an H100: with interleaving the first coordinate counts whole pieces.
    let unit = match ty {
        _ if interleaved => 1,
        _ if ty.unpacks() => 128,
        _ => CHUNK * 8 / ty.bits(),
    };
    if at[0].rem_euclid(unit as i64) != 0 {
        return Err(format!("coordinate 0 is {}, which is not a multiple of {unit} for {ty}", at[0]));
    }
    match (mode, &map.im2col) {
        (Mode::Im2col { .. }, Some(walk)) => {
            // Measured on an H200: any other pixel raises an illegal instruction.
            for (i, start) in at.iter().enumerate().take(map.rank - 1).skip(1) {
                let (first, last) = walk.bounds(i, map.dims[i]);
                if !(first..=last).contains(start) {
                    return Err(format!(
                        "coordinate {i} is {start}, outside of the bounding box, which is {first} to {last} there"
                    ));
                }
            }
        }
        (Mode::Im2col { .. }, None) => return Err("an im2col copy by a map for tiles".to_owned()),
        (_, Some(_)) => return Err(format!("a {} copy by a map for im2col", mode.word())),
        (_, None) => {}
    }
    if matches!(mode, Mode::Rows { .. }) && map.box_dims[1] != 1 {
        return Err(format!("{} by a map whose boxes have {} rows, not one", mode.word(), map.box_dims[1]));
    }
    if usage != Use::Load {
        // Measured on an H100, and stated by the programming guide.
        if let Some(n) = at[..map.rank].iter().find(|c| **c < 0) {
            return Err(format!("a store to the negative coordinate {n}"));
        }
        if ty == TensorType::U4Align16 {
            return Err(format!("a store of {ty}, which can only be loaded"));
        }
        if usage == Use::Reduce && matches!(ty, TensorType::U4Align8 | TensorType::U6Align16) {
            return Err(format!("a reduction of {ty}"));
        }
    } else if map.swizzle == Swizzle::B128Atom64 && ty == TensorType::U6Align16 {
        return Err(format!("a load of {ty} swizzled {}, which is for stores", map.swizzle));
    }
    Ok(())
}

/// The 16-byte fill pattern for bytes outside the tensor.
pub(crate) fn fill(map: &TensorMap) -> [u8; 16] {
    match map.oob_fill {
        OobFill::Zeros => [0; 16],
        // Measured on an H100, for every floating-point type.
        OobFill::Nan => std::array::from_fn(|i| if i % 2 == 0 { 0xF7 } else { 0x7F }),
    }
}

/// Whether loads round elements to TF32.
pub(crate) fn rounds(ty: TensorType) -> bool {
    matches!(ty, TensorType::Tf32 | TensorType::Tf32Ftz)
}

/// The runs of a box at coordinates `at`, with shared addresses from `base`. Gathers and scatters use the rows `at[1..5]`.
pub(crate) fn pieces(
    map: &TensorMap,
    at: &[i64; 5],
    mode: Mode,
    usage: Use,
    base: u64,
    lane: usize,
) -> Vec<Piece> {
    if map.interleave != Interleave::None {
        return interleaved(map, at, base, lane);
    }
    if let (Mode::Im2col { offsets }, Some(walk)) = (mode, &map.im2col) {
        return pixels(map, walk, at, offsets, base, lane);
    }
    let gather = mode != Mode::Tile;
    let taken = map.taken();
    let (inner, pitch) = map.row_bytes();
    let mut out = Vec::new();
    let mut row = 0;
    let rows = |i: usize| if i < map.rank { taken[i] } else { 1 };
    let count: u64 = if gather { 4 } else { (1..5).map(rows).product() };
    while row < count {
        // The address of the row in the tensor.
        let mut inside = true;
        let mut address = map.address as i64;
        let mut rest = row;
        for i in 1..map.rank {
            let coordinate = if gather {
                at[1 + row as usize % 4]
            } else {
                let index = rest % taken[i];
                rest /= taken[i];
                at[i] + index as i64 * i64::from(map.element_strides[i])
            };
            inside &= coordinate >= 0 && (coordinate as u64) < map.dims[i];
            address += coordinate * map.strides[i - 1] as i64;
        }
        let mut offset = 0;
        while offset < inner {
            let chunk = chunk(map, at[0], offset, inside, address as u64, usage);
            place(map, base + row * pitch + offset, chunk, lane, &mut out);
            offset += CHUNK;
        }
        row += 1;
    }
    out
}

/// The pixels of an im2col load, one row each: from the start through the bounding box, image after image. Measured on an H200.
fn pixels(
    map: &TensorMap,
    walk: &Im2col,
    at: &[i64; 5],
    offsets: [i64; 3],
    base: u64,
    lane: usize,
) -> Vec<Piece> {
    let (inner, pitch) = map.row_bytes();
    let images = map.rank - 1;
    let mut now = *at;
    let mut out = Vec::new();
    for row in 0..u64::from(walk.pixels) {
        let mut inside = true;
        let mut address = map.address as i64;
        for i in 1..map.rank {
            let coordinate = now[i] + if i < images { offsets[i - 1] } else { 0 };
            inside &= coordinate >= 0 && (coordinate as u64) < map.dims[i];
            address += coordinate * map.strides[i - 1] as i64;
        }
        for offset in (0..inner).step_by(CHUNK as usize) {
            let chunk = chunk(map, at[0], offset, inside, address as u64, Use::Load);
            place(map, base + row * pitch + offset, chunk, lane, &mut out);
        }
        let mut i = 1;
        while i < images {
            let (first, last) = walk.bounds(i, map.dims[i]);
            now[i] += i64::from(map.element_strides[i]);
            if now[i] <= last {
                break;
            }
            now[i] = first;
            i += 1;
        }
        if i == images {
            now[images] += 1;
        }
    }
    out
}

/// The runs of a box of an interleaved tensor (NC/8HWC8 and similar): the first dimension counts pieces of 16 or 32 bytes, the
/// second to last counts slices of channels, of which a box has one. Measured on an H100.
fn interleaved(map: &TensorMap, at: &[i64; 5], base: u64, lane: usize) -> Vec<Piece> {
    let (taken, piece) = (map.taken(), map.interleave.bytes());
    let mut out = Vec::new();
    for n in 0..taken.iter().product::<u64>() {
        let (mut rest, mut inside, mut address) = (n, true, map.address as i64);
        for i in 0..map.rank {
            let index = rest % taken[i];
            rest /= taken[i];
            let coordinate = at[i] + index as i64 * i64::from(map.element_strides[i]);
            inside &= coordinate >= 0 && (coordinate as u64) < map.dims[i];
            address += coordinate * if i == 0 { piece } else { map.strides[i - 1] } as i64;
        }
        for offset in (0..piece).step_by(CHUNK as usize) {
            let (from, taken) = if inside { (address as u64 + offset, CHUNK) } else { (0, 0) };
            let chunk = Chunk { len: CHUNK, address: from, skip: 0, taken };
            place(map, base + n * piece + offset, chunk, lane, &mut out);
        }
    }
    out
}

/// One chunk of a row: bytes of shared memory, and which of them the tensor contains.
struct Chunk {
    len: u64,
    address: u64,
    skip: u64,
    taken: u64,
}

fn chunk(map: &TensorMap, first: i64, offset: u64, inside: bool, row: u64, usage: Use) -> Chunk {
    let ty = map.data_type;
    // A chunk is sixteen elements for padded types, and 16 bytes of elements for the others.
    let (elements, len) = match ty {
        TensorType::U4Align16 => (16, 8),
        TensorType::U6Align16 if usage == Use::Load => (16, 12),
        TensorType::U6Align16 => (16, 16),
        _ => (CHUNK * 8 / ty.bits(), CHUNK),
    };
    let begin = first + (offset / CHUNK * elements) as i64;
    let low = begin.clamp(0, map.dims[0] as i64);
    let mut high = (begin + elements as i64).clamp(0, map.dims[0] as i64);
    if usage != Use::Load && high > low {
        // Measured on an H100: a store writes all 16 bytes if any of their elements is inside.
        high = begin + elements as i64;
    }
    let bytes = |n: i64| n as u64 * ty.bits() / 8;
    if !inside || high <= low {
        return Chunk { len, address: 0, skip: 0, taken: 0 };
    }
    Chunk { len, address: row + bytes(low), skip: bytes(low - begin), taken: bytes(high - low) }
}

/// Adds a chunk at its swizzled address.
fn place(map: &TensorMap, address: u64, chunk: Chunk, lane: usize, out: &mut Vec<Piece>) {
    let whole = |at: u64, part: &Chunk| Piece {
        lane: lane as u32,
        at: at as usize,
        len: part.len as usize,
        address: part.address,
        skip: part.skip as usize,
        taken: part.taken as usize,
    };
    if map.swizzle != Swizzle::B128Atom32Flip8 || map.data_type.unpacks() {
        let piece = whole(map.swizzle.place(address), &chunk);
        match out.last_mut() {
            // Without swizzle, rows are long runs.
            Some(last)
                if last.at + last.len == piece.at
                    && last.taken == last.len
                    && piece.taken == piece.len
                    && last.address + last.len as u64 == piece.address =>
            {
                last.len += piece.len;
                last.taken += piece.taken;
            }
            _ => out.push(piece),
        }
        return;
    }
    // The two halves are swapped separately.
    for half in [0, 8] {
        let begin = chunk.skip.clamp(half, half + 8);
        let end = (chunk.skip + chunk.taken).clamp(half, half + 8);
        let part = Chunk {
            len: 8,
            address: chunk.address + begin.saturating_sub(chunk.skip),
            skip: begin - half,
            taken: end - begin,
        };
        out.push(whole(map.swizzle.place(address + half), &part));
    }
}
