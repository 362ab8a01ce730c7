//! Changes of an operand of a GEMM: the layout and the place of its scales, its codes, and what is read along K.

use super::{Change, Field, change};
use crate::moe::case::{Format, FormatPair};
use crate::moe::contract::Contract;
use crate::moe::format::{BlockScale, Element};
use crate::moe::suspicion::OtherScales;
use crate::moe::tensors::{Array, Tensors};

const OF_SCALES: &str = "the layout of the scales that the quantizer stores and that the kernel reads";
const OF_INDEX: &str = "the index of the scale: row, block, and the byte selector of the mma";

/// The place that another layout gives to the scale of a block of a row; `None` if it does not hold so many.
type Places = fn(row: usize, block: usize, blocks: usize) -> usize;

/// Layouts of scales, and whether they hold so many rows and blocks.
const LAYOUTS: [(&str, Places, usize); 4] = [
    (
        "128x4",
        |r, c, blocks| (r / 128 * blocks.div_ceil(4) + c / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + c % 4,
        1,
    ),
    ("8x4", |r, c, blocks| (r / 8 * blocks.div_ceil(4) + c / 4) * 32 + r % 8 * 4 + c % 4, 1),
    (
        "in chunks of 64 rows",
        |r, c, blocks| r / 64 * 64 * blocks + c / 4 * 256 + r % 16 * 16 + r % 64 / 16 * 4 + c % 4,
        64,
    ),
    (
        "in tiles of 4x4",
        |r, c, blocks| ((r & !3) + c / (blocks / 4).max(1)) * blocks + c % (blocks / 4).max(1) * 4 + (r & 3),
        4,
    ),
];

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
    all.extend(of_stages(name, format, codes, scales));
    /// The row that is read for a row, of so many.
    type From = fn(usize, usize) -> usize;
    let rows: [(&str, From); 13] = [
        ("the row before", |row, rows| (row + rows - 1) % rows),
        ("the next row", |row, rows| (row + 1) % rows),
        ("the other row of a pair", |row, rows| if row ^ 1 < rows { row ^ 1 } else { row }),
        ("the first row", |_, _| 0),
        ("the row 8 apart", |row, rows| if row ^ 8 < rows { row ^ 8 } else { row }),
        ("the row 8 before", |row, _| row.checked_sub(8).unwrap_or(row)),
        ("the row 16 before", |row, _| row.checked_sub(16).unwrap_or(row)),
        ("the row 32 before", |row, _| row.checked_sub(32).unwrap_or(row)),
        ("the row 64 before", |row, _| row.checked_sub(64).unwrap_or(row)),
        ("the row 128 before", |row, _| row.checked_sub(128).unwrap_or(row)),
        ("the row 32 behind", |row, rows| if row + 32 < rows { row + 32 } else { row }),
        ("the row 64 behind", |row, rows| if row + 64 < rows { row + 64 } else { row }),
        ("the row 128 behind", |row, rows| if row + 128 < rows { row + 128 } else { row }),
    ];
    for (what, from) in rows {
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
    for (layout, at, multiple) in LAYOUTS {
        let holds = move |rows: usize, columns: usize| {
            multiple == 1 || rows.is_multiple_of(multiple) && columns.is_multiple_of(4)
        };
        let seen = "vl 50084, fi 3097, fi 3608";
        let what = format!("the scales of the {name} are stored {layout} and read as linear");
        let stored = change(what, OF_SCALES, move |_, t| {
            matrices(field(t), |rows, columns, matrix| {
                if !holds(rows, columns) {
                    return;
                }
                let old = matrix.to_vec();
                matrix.fill(0);
                for (n, scale) in old.iter().enumerate() {
                    if let Some(to) = matrix.get_mut(at(n / columns, n % columns, columns)) {
                        *to = *scale;
                    }
                }
            });
        });
        let what = format!("the scales of the {name} are stored linear and read {layout}");
        let read = change(what, OF_SCALES, move |_, t| {
            matrices(field(t), |rows, columns, matrix| {
                if !holds(rows, columns) {
                    return;
                }
                let old = matrix.to_vec();
                for (n, scale) in matrix.iter_mut().enumerate() {
                    *scale = old.get(at(n / columns, n % columns, columns)).copied().unwrap_or_default();
                }
            });
        });
        all.extend([Change { seen, ..stored }, Change { seen, ..read }]);
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
    /// The row and column from which a scale is read.
    type From = fn(usize, usize, usize, usize) -> (usize, usize);
    let places: [(&str, From); 20] = [
        ("of the neighbouring block, in pairs,", |r, c, _, columns| {
            (r, if c ^ 1 < columns { c ^ 1 } else { c })
        }),
        ("of the block before", |r, c, _, columns| (r, (c + columns - 1) % columns)),
        ("of the next block", |r, c, _, columns| (r, (c + 1) % columns)),
        ("of the first block of a row", |r, _, _, _| (r, 0)),
        ("of the first of each four blocks", |r, c, _, _| (r, c / 4 * 4)),
        ("of the even block of each pair", |r, c, _, _| (r, c / 2 * 2)),
        ("of the block of half the number", |r, c, _, _| (r, c / 2)),
        ("of the row before", |r, c, rows, _| ((r + rows - 1) % rows, c)),
        ("of the next row", |r, c, rows, _| ((r + 1) % rows, c)),
        ("of the row 8 apart", |r, c, rows, _| (if r ^ 8 < rows { r ^ 8 } else { r }, c)),
        ("of the row 16 apart", |r, c, rows, _| (if r ^ 16 < rows { r ^ 16 } else { r }, c)),
        ("of the first row", |_, c, _, _| (0, c)),
        ("of the next block of each four", |r, c, _, columns| (r, (c & !3 | (c + 1) & 3).min(columns - 1))),
        ("of the block before of each four", |r, c, _, columns| (r, (c & !3 | (c + 3) & 3).min(columns - 1))),
        ("of the four blocks in reverse", |r, c, _, columns| (r, (c & !3 | (3 - (c & 3))).min(columns - 1))),
        ("of the block two apart", |r, c, _, columns| (r, if c ^ 2 < columns { c ^ 2 } else { c })),
        ("of the odd block of each pair", |r, c, _, columns| (r, (c | 1).min(columns - 1))),
        ("of the other row of a pair", |r, c, rows, _| (if r ^ 1 < rows { r ^ 1 } else { r }, c)),
        ("of the row 32 apart", |r, c, rows, _| (if r ^ 32 < rows { r ^ 32 } else { r }, c)),
        ("of the row 64 apart", |r, c, rows, _| (if r ^ 64 < rows { r ^ 64 } else { r }, c)),
    ];
    for (what, from) in places {
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
        all.extend([
            change(
                format!("the two codes of each byte of the {name} are exchanged"),
                "the order of codes in a byte: the even element is in the low bits",
                each(|x| x.rotate_left(4)),
            ),
            change(
                format!("the codes of the {name} are not shifted by 2 bits"),
                "`<< 2` behind ldmatrix b4x16: the mma reads e2m1 in bits 2 to 5",
                each(|x| x >> 2 & 0x33),
            ),
            change(
                format!("the signs of the {name} are lost"),
                "the sign bit of the codes",
                each(|x| x & 0x77),
            ),
            change(
                format!("-6 is read as 6, of the {name}"),
                "the conversion of 0xF, the code of -6",
                each(|x| {
                    let nibble = |x: u8| if x == 0xF { 7 } else { x };
                    nibble(x & 15) | nibble(x >> 4) << 4
                }),
            ),
            change(
                format!("6 is read as 4, of the {name}"),
                "the conversion of the codes, and its largest magnitude",
                each(|x| {
                    let nibble = |x: u8| if x & 7 == 7 { x - 1 } else { x };
                    nibble(x & 15) | nibble(x >> 4) << 4
                }),
            ),
            change(
                format!("the low codes of the {name} are read twice, the high ones not at all"),
                "the shift by four bits that brings the odd codes down",
                each(|x| x & 15 | x << 4),
            ),
            change(
                format!("the high codes of the {name} are read twice, the low ones not at all"),
                "the shift by four bits that brings the odd codes down",
                each(|x| x & 0xF0 | x >> 4),
            ),
        ]);
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

/// Parts of K that are left out, or count twice: `name` is the GEMM's, the fields are those of its weights.
pub(super) fn parts_of_depth(
    name: &'static str,
    format: Format,
    codes: Field<u8>,
    scales: Field<u8>,
) -> Vec<Change> {
    let bits = format.element().bits();
    let mut all = Vec::new();
    // Which elements of K count.
    type Counts = fn(usize, usize, usize) -> bool;
    let parts: [(&str, Counts); 5] = [
        ("the last", |d, part, depth| d + part < depth),
        ("the first", |d, part, _| d >= part),
        ("all but the last", |d, part, depth| d + part >= depth),
        ("all but the first", |d, part, _| d < part),
        ("every second", |d, part, _| d / part % 2 == 0),
    ];
    let look = "the loop over K: its end, its stages and its accumulator";
    for part in [16, 32, 64, 128, 256] {
        for (what, counts) in parts {
            all.push(change(format!("{what} {part} of K of {name} are left out"), look, move |_, t| {
                without(codes(t), bits, |d, depth| part < depth && !counts(d, part, depth));
            }));
        }
        for tile in 1..MOST_TILES {
            let what = format!("tile {tile} of K, of {part} elements, is left out of {name}");
            all.push(change(what, look, move |_, t| {
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
            all.push(change(format!("the {what} {part} of K of {name} count twice"), look, move |_, t| {
                matrices(scales(t), |_, columns, matrix| {
                    let blocks = part / block;
                    let is_in =
                        |column: usize| if is_last { column + blocks >= columns } else { column < blocks };
                    for (at, x) in matrix.iter_mut().enumerate() {
                        if blocks < columns && is_in(at % columns) {
                            *x = twice(scale, *x);
                        }
                    }
                });
            }));
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

/// The most tiles of K of which each is tried alone.
const MOST_TILES: usize = 32;

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
    // The tile that is read for a tile, of so many.
    type From = fn(usize, usize) -> usize;
    let from: [(&str, From); 4] = [
        ("the tile before", |tile, _| tile.saturating_sub(1)),
        ("the next tile", |tile, tiles| (tile + 1).min(tiles - 1)),
        ("the other tile of a pair", |tile, tiles| if tile ^ 1 < tiles { tile ^ 1 } else { tile }),
        ("the first tile", |_, _| 0),
    ];
    for size in [32, 64, 128, 256] {
        for (what, from) in from {
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
