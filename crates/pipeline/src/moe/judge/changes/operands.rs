//! Changes of an operand of a GEMM: the layout and the place of its scales, its codes, and what is read along K.

use super::{Change, Field, change};
use crate::moe::case::{Format, FormatPair};
use crate::moe::contract::Contract;
use crate::moe::format::{BlockScale, Element};
use crate::moe::suspicion::OtherScales;
use crate::moe::tensors::{Array, Tensors};
use crate::product::faults::{
    FRAGMENTS, MOST_TILES, OF_DEPTH, OF_INDEX, OF_SCALES, OfFragment, PAIRS, PARTS, ROWS, Relaid, SCALES,
    STAGES, TILES,
};

/// Calls `each` with the rows, the columns and the bytes of every matrix of a tensor.
fn matrices(field: &mut Option<Array<u8>>, each: impl Fn(usize, usize, &mut [u8])) {
    let Some(array) = field else { return };
    let [.., rows, columns] = array.shape[..] else { return };
    if rows * columns == 0 {
        return;
    }
    array.data.chunks_mut(rows * columns).for_each(|matrix| each(rows, columns, matrix));
}

/// Reads each byte from another place of its matrix: `None` keeps it.
fn moved(field: &mut Option<Array<u8>>, from: impl Fn(usize, usize, usize, usize) -> Option<usize>) {
    let Some(array) = field else { return };
    let [.., rows, columns] = array.shape[..] else { return };
    let mut out = Vec::with_capacity(array.data.len());
    for matrix in array.data.chunks((rows * columns).max(1)) {
        for row in 0..rows {
            for column in 0..columns {
                let place = from(row, column, rows, columns).filter(|place| *place < matrix.len());
                out.push(matrix[place.unwrap_or(row * columns + column)]);
            }
        }
    }
    array.data = out.into();
}

/// Reads each row of a matrix from another one, of so many.
fn moved_rows(field: &mut Option<Array<u8>>, from: impl Fn(usize, usize) -> usize) {
    let Some(array) = field else { return };
    let [.., rows, columns] = array.shape[..] else { return };
    let mut out = Vec::with_capacity(array.data.len());
    for matrix in array.data.chunks((rows * columns).max(1)) {
        for row in 0..rows {
            let of = from(row, rows);
            out.extend_from_slice(&matrix[of * columns..(of + 1) * columns]);
        }
    }
    array.data = out.into();
}

/// Reads each tile of so many columns of a matrix from another one of its row, of so many; nothing if there are no two whole tiles.
fn moved_tiles(field: &mut Option<Array<u8>>, width: usize, from: impl Fn(usize, usize) -> usize) {
    let Some(array) = field else { return };
    let Some(columns) = array.shape.last().copied() else { return };
    if width == 0 || columns < 2 * width || !columns.is_multiple_of(width) {
        return;
    }
    let tiles = columns / width;
    let mut out = Vec::with_capacity(array.data.len());
    for row in array.data.chunks(columns) {
        for tile in 0..tiles {
            let of = from(tile, tiles) * width;
            out.extend_from_slice(&row[of..of + width]);
        }
    }
    array.data = out.into();
}

/// Changes of an operand: its scales and its codes.
pub(super) fn of_operand(
    name: &'static str,
    format: Format,
    codes: Field<u8>,
    scales: Field<u8>,
) -> Vec<Change> {
    let mut all = Vec::new();
    if let Some(scale) = format.scale() {
        all.extend(of_scales(name, scale, scales));
    }
    all.extend(of_codes(name, format.element(), codes));
    all.extend(of_fragments(name, format.element(), codes));
    all.extend(of_stages(name, format, codes, scales));
    for (what, from) in ROWS {
        let look = "the row that each thread or TMA box reads";
        all.push(change(format!("the {name} of {what} are read"), look, move |_, t| {
            for field in [codes, scales] {
                moved_rows(field(t), from);
            }
        }));
    }
    all
}

/// Scales that are stored in one layout and read as another.
fn layouts(name: &'static str, field: Field<u8>) -> Vec<Change> {
    let mut all = Vec::new();
    for relaid in Relaid::all() {
        let change = change(relaid.words(name), OF_SCALES, move |_, t| {
            matrices(field(t), |rows, _, matrix| matrix.copy_from_slice(&relaid.read(matrix, rows)));
        });
        all.push(Change { seen: "vl 50084, fi 3097, fi 3608", ..change });
    }
    all.push(change(format!("the scales of the {name} are read as [K, rows]"), OF_SCALES, move |_, t| {
        moved(field(t), |row, column, rows, _| Some(column * rows + row));
    }));
    all.push(change(format!("the scales of the {name} are stored as [K, rows]"), OF_SCALES, move |_, t| {
        moved(field(t), |row, column, rows, columns| {
            let flat = row * columns + column;
            Some(flat % rows * columns + flat / rows)
        });
    }));
    all
}

/// Changes of scales.
fn of_scales(name: &'static str, scale: BlockScale, field: Field<u8>) -> Vec<Change> {
    let mut all = layouts(name, field);
    for (what, from) in SCALES {
        all.push(change(format!("the scale {what} is taken, of the {name}"), OF_INDEX, move |_, t| {
            moved(field(t), |row, column, rows, columns| {
                let (row, column) = from(row, column, rows, columns);
                Some(row * columns + column)
            });
        }));
    }
    let each = move |apply: fn(u8) -> u8| {
        move |_: &mut Contract, t: &mut Tensors| {
            field(t).iter_mut().flat_map(|array| &mut array.data).for_each(|scale| *scale = apply(*scale));
        }
    };
    let bias = "the bias of the scale's exponent, and factors of two beside it";
    match scale {
        BlockScale::Ue8m0 => all.extend([
            change(
                format!("the scales of the {name} are left out"),
                "whether the mma gets scales",
                each(|_| 127),
            ),
            change(
                format!("the scales of the {name} are twice as large"),
                bias,
                each(|x| x.saturating_add(1).min(254)),
            ),
            change(
                format!("the scales of the {name} are half as large"),
                bias,
                each(|x| x.saturating_sub(1)),
            ),
            change(
                format!("scales of the {name} that are NaN are read as one"),
                "0xFF, which is NaN in ue8m0",
                each(|x| if x == 0xFF { 127 } else { x }),
            ),
            change(
                format!("scales of the {name} that are NaN are read as the largest number"),
                "0xFF, which is NaN in ue8m0",
                each(|x| if x == 0xFF { 254 } else { x }),
            ),
        ]),
        BlockScale::Ue4m3 => all.extend([
            change(
                format!("the scales of the {name} are left out"),
                "whether the mma gets scales",
                each(|_| 0x38),
            ),
            change(
                format!("the scales of the {name} are read as powers of two"),
                "the type of the scales: ue4m3 has a mantissa",
                each(|x| x & 0x78),
            ),
            change(
                format!("the scales of the {name} are twice as large"),
                bias,
                each(|x| if (0x08..0x77).contains(&x) { x + 8 } else { x }),
            ),
            change(
                format!("the scales of the {name} are half as large"),
                bias,
                each(|x| if x >= 0x10 { x - 8 } else { x }),
            ),
        ]),
    }
    all
}

/// Changes of codes.
fn of_codes(name: &'static str, element: Element, field: Field<u8>) -> Vec<Change> {
    let mut all = Vec::new();
    let each = move |apply: fn(u8) -> u8| {
        move |_: &mut Contract, t: &mut Tensors| {
            field(t).iter_mut().flat_map(|array| &mut array.data).for_each(|byte| *byte = apply(*byte));
        }
    };
    if element == Element::E2m1 {
        for (what, look, read) in PAIRS {
            all.push(change(what.replace('X', name), look, move |_, t| {
                for byte in field(t).iter_mut().flat_map(|array| &mut array.data) {
                    let [low, high] = read([*byte & 15, *byte >> 4]);
                    *byte = low | high << 4;
                }
            }));
        }
    }
    if element == Element::E4m3 {
        all.push(change(
            format!("the signs of the {name} are lost"),
            "the sign bit of the codes",
            each(|x| x & 0x7F),
        ));
    }
    all
}

/// Fragments that are loaded wrongly. Elements of 16 bits are two bytes, which no code of this module takes apart.
fn of_fragments(name: &'static str, element: Element, field: Field<u8>) -> Vec<Change> {
    let bits = element.bits();
    if bits > 8 {
        return Vec::new();
    }
    let chunk = 128 / bits;
    let look = "the fragment of the operand: ldmatrix, its address and its swizzle";
    let of = |(what, from): (&str, OfFragment)| {
        change(what.replace('X', name), look, move |_, t| {
            moved_elements(field(t), bits, |row, k| from(row, k, chunk));
        })
    };
    FRAGMENTS.into_iter().map(of).collect()
}

/// Reads each element of so many bits, 4 or 8, from another row and column of its matrix; its own, if that does not exist.
fn moved_elements(field: &mut Option<Array<u8>>, bits: usize, from: impl Fn(usize, usize) -> (usize, usize)) {
    let of_byte = 8 / bits;
    matrices(field, |rows, bytes, matrix| {
        let old = matrix.to_vec();
        let columns = bytes * of_byte;
        let read = |row: usize, column: usize| {
            let byte = old[row * bytes + column / of_byte];
            if bits == 4 { byte >> (column % 2 * 4) & 15 } else { byte }
        };
        for (at, byte) in matrix.iter_mut().enumerate() {
            let element = |n: usize| {
                let (row, column) = (at / bytes, at % bytes * of_byte + n);
                let to = Some(from(row, column)).filter(|(row, column)| *row < rows && *column < columns);
                let (row, column) = to.unwrap_or((row, column));
                read(row, column)
            };
            *byte = if bits == 4 { element(0) | element(1) << 4 } else { element(0) };
        }
    });
}

/// Parts of K that are left out, or count twice: `name` is the GEMM's, the fields are those of its weights.
pub(super) fn parts_of_depth(
    name: &'static str,
    format: Format,
    codes: Field<u8>,
    scales: Field<u8>,
) -> Vec<Change> {
    let bits = format.element().bits();
    let mut all = Vec::new();
    for part in TILES {
        for (what, counts) in PARTS {
            all.push(change(format!("{what} {part} of K of {name} are left out"), OF_DEPTH, move |_, t| {
                without(codes(t), bits, |d, depth| part < depth && !counts(d, part, depth));
            }));
        }
        for tile in 1..MOST_TILES {
            let what = format!("tile {tile} of K, of {part} elements, is left out of {name}");
            all.push(change(what, OF_DEPTH, move |_, t| {
                without(codes(t), bits, |d, depth| (tile + 1) * part < depth && d / part == tile);
            }));
        }
    }
    for (what, second) in [("second", true), ("first", false)] {
        let look = "the loop over K: its end";
        all.push(change(format!("the {what} half of K of {name} is left out"), look, move |_, t| {
            without(codes(t), bits, |d, depth| (2 * d >= depth) == second);
        }));
    }
    let Some(scale) = format.scale() else { return all };
    let block = scale.block();
    for part in [32, 64, 128, 256] {
        for (what, is_last) in [("last", true), ("first", false)] {
            all.push(change(
                format!("the {what} {part} of K of {name} count twice"),
                OF_DEPTH,
                move |_, t| {
                    matrices(scales(t), |_, columns, matrix| {
                        let blocks = part / block;
                        let is_in = |column: usize| {
                            if is_last { column + blocks >= columns } else { column < blocks }
                        };
                        for (at, x) in matrix.iter_mut().enumerate() {
                            if blocks < columns && is_in(at % columns) {
                                *x = twice(scale, *x);
                            }
                        }
                    });
                },
            ));
        }
    }
    all
}

/// The operands of a GEMM, activations first.
pub(super) struct Gemm {
    pub(super) names: [&'static str; 2],
    pub(super) codes: [Field<u8>; 2],
    pub(super) scales: [Field<u8>; 2],
    /// The depth K.
    pub(super) depth: fn(&mut Contract) -> &mut usize,
}

/// Scales of a GEMM that are read as another type, or for blocks of half the size.
pub(super) fn scales_of_gemm(pair: FormatPair, gemm: &Gemm) -> Vec<Change> {
    let formats = [pair.activation(), pair.weight()];
    let mut all = Vec::new();
    let look = "the type of the scales: `ue8m0` or `ue4m3` in the mma, or in the conversion to f32";
    for other in OtherScales::ALL {
        let read = other.operands().into_iter().zip(formats).zip(gemm.names);
        let read: Vec<_> = read.filter(|((is_read, _), _)| *is_read).collect();
        let scales = read.iter().map(|((_, format), _)| format.scale()).collect::<Option<Vec<_>>>();
        let Some(first) = scales.as_ref().and_then(|scales| scales.first()) else { continue };
        let (is, of) = match first {
            BlockScale::Ue8m0 => ("ue8m0", "ue4m3"),
            BlockScale::Ue4m3 => ("ue4m3", "ue8m0"),
        };
        let names: Vec<&str> = read.iter().map(|(_, name)| *name).collect();
        let what = format!("the {is} scales of the {} are read as {of}", names.join(" and "));
        all.push(change(what, look, move |c, _| c.suspicion.other_scales = *other));
    }
    // The depth doubles, so that a block of MX holds half of a block's codes, and zeros.
    let is_split = |format: Format| format.block() == MX_BLOCK;
    if !formats.into_iter().all(|format| format.scale().is_none() || is_split(format)) {
        return all;
    }
    for (which, (format, name)) in formats.into_iter().zip(gemm.names).enumerate() {
        if format.scale().is_none() {
            continue;
        }
        for (with, stride) in [("", 1), (", with rows of as many scales", 2)] {
            let what = format!("the scales of the {name} are read for blocks of 16 instead of 32{with}");
            let look = "the elements of a scale: `.block16` or `.block32`, or the scale vector's size";
            let (codes, scales, depth) = (gemm.codes, gemm.scales, gemm.depth);
            all.push(change(what, look, move |c, t| {
                *depth(c) *= 2;
                for (operand, format) in formats.into_iter().enumerate() {
                    half_blocks(codes[operand](t), format.element().bits());
                    match operand == which {
                        true => scales_of_half_blocks(scales[operand](t), stride),
                        false => widened(scales[operand](t), 1, |block| [block, block].concat()),
                    }
                }
            }));
        }
    }
    all
}

/// Elements that share a scale of MX.
const MX_BLOCK: usize = 32;

/// Makes two of each so many bytes of a tensor's rows.
fn widened(field: &mut Option<Array<u8>>, bytes: usize, both: impl Fn(&[u8]) -> Vec<u8>) {
    let Some(array) = field else { return };
    let Some(columns) = array.shape.last_mut() else { return };
    *columns *= 2;
    array.data = array.data.chunks(bytes).flat_map(both).collect::<Vec<_>>().into();
}

/// Gives each half of a block of MX a block of its own, whose other half is zero: the sums stay the same.
fn half_blocks(field: &mut Option<Array<u8>>, bits: usize) {
    let bytes = MX_BLOCK * bits / 8;
    widened(field, bytes, |block| {
        let (first, second) = block.split_at(block.len() / 2);
        [first, &vec![0; second.len()], &vec![0; first.len()], second].concat()
    });
}

/// Reads a scale for each half of a block of MX, one behind the other; a row begins where one of so many times the scales does.
fn scales_of_half_blocks(field: &mut Option<Array<u8>>, stride: usize) {
    let Some(array) = field else { return };
    let [.., rows, columns] = array.shape[..] else { return };
    let mut out = Vec::with_capacity(array.data.len() * 2);
    for matrix in array.data.chunks((rows * columns).max(1)) {
        for row in 0..rows {
            let first = row * columns * stride;
            out.extend((0..2 * columns).map(|n| matrix[(first + n) % matrix.len()]));
        }
    }
    array.data = out.into();
    if let Some(columns) = array.shape.last_mut() {
        *columns *= 2;
    }
}

/// The scale of twice the value; the same at the end of the range.
const fn twice(scale: BlockScale, x: u8) -> u8 {
    match scale {
        BlockScale::Ue8m0 if x < 254 => x + 1,
        BlockScale::Ue4m3 if x >= 0x08 && x < 0x77 => x + 8,
        _ => x,
    }
}

/// Tiles of K that are those of another stage.
fn of_stages(name: &'static str, format: Format, codes: Field<u8>, scales: Field<u8>) -> Vec<Change> {
    let bits = format.element().bits();
    let block = format.block();
    let mut all = Vec::new();
    let look = "the stages of the loop over K: which one is read, and whether its copy has ended";
    for size in [32, 64, 128, 256] {
        for (what, from) in STAGES {
            for (of, with_codes, with_scales) in
                [("codes and scales", true, true), ("codes", true, false), ("scales", false, true)]
            {
                if format.scale().is_none() && with_scales != with_codes {
                    continue;
                }
                let what = format!("the {of} of {what} of {size} along K are read, of the {name}");
                all.push(change(what, look, move |_, t| {
                    if with_codes {
                        moved_tiles(codes(t), size * bits / 8, from);
                    }
                    if with_scales {
                        moved_tiles(scales(t), size / block, from);
                    }
                }));
            }
        }
    }
    all
}

/// Sets elements of K to zero.
fn without(field: &mut Option<Array<u8>>, bits: usize, is_out: impl Fn(usize, usize) -> bool) {
    let Some(array) = field else { return };
    let Some(width) = array.shape.last().copied().filter(|width| *width > 0) else { return };
    let depth = width * 8 / bits;
    // The bits of a row that stay.
    let mut kept = vec![0xFF_u8; width];
    for d in (0..depth).filter(|d| is_out(*d, depth)) {
        match bits {
            4 => kept[d / 2] &= if d % 2 == 0 { 0xF0 } else { 0x0F },
            8 => kept[d] = 0,
            _ => kept[2 * d..2 * d + 2].fill(0),
        }
    }
    if kept.iter().all(|bits| *bits == 0xFF) {
        return;
    }
    for row in array.data.chunks_mut(width) {
        row.iter_mut().zip(&kept).for_each(|(byte, kept)| *byte &= kept);
    }
}
