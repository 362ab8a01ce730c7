//! What kernels of block-scaled products do wrong with an operand or a result, in indices alone: tables that every judge of a GEMM reads.

/// The layout that scales should have and have not.
pub(crate) const OF_SCALES: &str =
    "the layout of the scales that the quantizer stores and that the kernel reads";
/// Which scale an element gets.
pub(crate) const OF_INDEX: &str = "the index of the scale: row, block, and the byte selector of the mma";
/// What belongs to a loop over K.
pub(crate) const OF_DEPTH: &str = "the loop over K: its end, its stages and its accumulator";
/// What belongs to the result.
pub(crate) const OF_STORES: &str = "the store of the accumulators: fragments, rows and columns";

/// The place that a layout gives to the scale of a block of a row, of so many blocks.
type LayoutPlace = fn(row: usize, block: usize, blocks: usize) -> usize;
/// The row and the block whose scale has a place in a layout, of so many blocks; they may lie in its padding.
type PlaceOwner = fn(place: usize, blocks: usize) -> (usize, usize);

/// A layout of scales.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Its name.
    name: &'static str,
    /// The place of a scale.
    at: LayoutPlace,
    /// The scale of a place.
    owner: PlaceOwner,
    /// Its rows come in multiples of this, and its blocks in multiples of 4 unless it is 1.
    multiple: usize,
}

impl Layout {
    /// Whether it holds a matrix of so many rows and blocks without padding that a linear one lacks.
    const fn holds(&self, rows: usize, blocks: usize) -> bool {
        self.multiple == 1 || rows.is_multiple_of(self.multiple) && blocks.is_multiple_of(4)
    }
}

/// A matrix of scales that is stored in one layout and read in another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Relaid {
    stored: Layout,
    read: Layout,
}

impl Relaid {
    /// Each layout for each, those before a linear one first.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let [linear, others @ ..] = LAYOUTS;
        let beside = others
            .into_iter()
            .flat_map(move |of| [Self { stored: of, read: linear }, Self { stored: linear, read: of }]);
        let pairs = others.into_iter().flat_map(move |stored| {
            let read = others.into_iter().filter(move |read| read.name != stored.name);
            read.map(move |read| Self { stored, read })
        });
        beside.chain(pairs)
    }

    /// What happens to the scales of something, in words.
    pub(crate) fn words(&self, of: &str) -> String {
        let as_what = if self.read.name == LINEAR { "as " } else { "" };
        format!("the scales of the {of} are stored {} and read {as_what}{}", self.stored.name, self.read.name)
    }

    /// Whether both layouts can hold a matrix of so many rows and blocks.
    pub(crate) const fn fits(&self, rows: usize, blocks: usize) -> bool {
        blocks > 0 && self.stored.holds(rows, blocks) && self.read.holds(rows, blocks)
    }

    /// The place in a linear matrix of the scale that is read for that of a place; `None` if nothing is stored where it is read. Both layouts must
    /// be able to hold the matrix.
    pub(crate) fn source(&self, place: usize, rows: usize, blocks: usize) -> Option<usize> {
        let from = (self.read.at)(place / blocks, place % blocks, blocks);
        let (row, block) = (self.stored.owner)(from, blocks);
        (row < rows && block < blocks).then_some(row * blocks + block)
    }

    /// The scales of so many rows that are read where these are stored. What lies beyond is zero; all is kept if a layout cannot hold them.
    pub(crate) fn read(&self, scales: &[u8], rows: usize) -> Vec<u8> {
        let blocks = scales.len() / rows.max(1);
        if !self.fits(rows, blocks) {
            return scales.to_vec();
        }
        let read = |place| {
            self.source(place, rows, blocks).and_then(|from| scales.get(from)).copied().unwrap_or_default()
        };
        (0..rows * blocks).map(read).collect()
    }
}

/// The name of the layout that all tensors have here.
const LINEAR: &str = "linear";

/// Layouts of scales that are taken for one another.
const LAYOUTS: [Layout; 5] = [
    Layout {
        name: LINEAR,
        at: |r, c, blocks| r * blocks + c,
        owner: |place, blocks| (place / blocks, place % blocks),
        multiple: 1,
    },
    Layout {
        name: "128x4",
        at: |r, c, blocks| {
            (r / 128 * blocks.div_ceil(4) + c / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + c % 4
        },
        owner: |place, blocks| {
            let (tile, at, across) = (place / 512, place % 512, blocks.div_ceil(4));
            (tile / across * 128 + at % 16 / 4 * 32 + at / 16, tile % across * 4 + at % 4)
        },
        multiple: 1,
    },
    Layout {
        name: "8x4",
        at: |r, c, blocks| (r / 8 * blocks.div_ceil(4) + c / 4) * 32 + r % 8 * 4 + c % 4,
        owner: |place, blocks| {
            let (tile, at, across) = (place / 32, place % 32, blocks.div_ceil(4));
            (tile / across * 8 + at / 4, tile % across * 4 + at % 4)
        },
        multiple: 1,
    },
    Layout {
        name: "in chunks of 64 rows",
        at: |r, c, blocks| r / 64 * 64 * blocks + c / 4 * 256 + r % 16 * 16 + r % 64 / 16 * 4 + c % 4,
        owner: |place, blocks| {
            let (chunk, at) = (place / (64 * blocks), place % (64 * blocks));
            (chunk * 64 + at % 16 / 4 * 16 + at % 256 / 16, at / 256 * 4 + at % 4)
        },
        multiple: 64,
    },
    Layout {
        name: "in tiles of 4x4",
        at: |r, c, blocks| {
            ((r & !3) + c / (blocks / 4).max(1)) * blocks + c % (blocks / 4).max(1) * 4 + (r & 3)
        },
        owner: |place, blocks| {
            let (line, at) = (place / blocks, place % blocks);
            ((line & !3) + at % 4, (line & 3) * (blocks / 4).max(1) + at / 4)
        },
        multiple: 4,
    },
];

/// Another place of a matrix, of so many rows and columns.
pub(crate) type Elsewhere = fn(row: usize, column: usize, rows: usize, columns: usize) -> (usize, usize);

/// The other index of a pair so far apart, or the index itself if there is no other.
const fn apart(index: usize, by: usize, count: usize) -> usize {
    if index ^ by < count { index ^ by } else { index }
}

/// The row and the block from which a scale is read, in the words of "the scale … is taken".
pub(crate) const SCALES: [(&str, Elsewhere); 23] = [
    ("of the neighbouring block, in pairs,", |r, c, _, columns| (r, apart(c, 1, columns))),
    ("of the block before", |r, c, _, columns| (r, (c + columns - 1) % columns)),
    ("of the next block", |r, c, _, columns| (r, (c + 1) % columns)),
    ("of the first block of a row", |r, _, _, _| (r, 0)),
    ("of the first of each four blocks", |r, c, _, _| (r, c / 4 * 4)),
    ("of the even block of each pair", |r, c, _, _| (r, c / 2 * 2)),
    ("of the block of half the number", |r, c, _, _| (r, c / 2)),
    ("of the block of twice the number", |r, c, _, columns| (r + 2 * c / columns, 2 * c % columns)),
    ("of the block before, for the last block of a row,", |r, c, _, columns| {
        (r, if c + 1 == columns { c.saturating_sub(1) } else { c })
    }),
    ("of the row before", |r, c, rows, _| ((r + rows - 1) % rows, c)),
    ("of the next row", |r, c, rows, _| ((r + 1) % rows, c)),
    ("of the row 8 apart", |r, c, rows, _| (apart(r, 8, rows), c)),
    ("of the row 16 apart", |r, c, rows, _| (apart(r, 16, rows), c)),
    ("of the first row", |_, c, _, _| (0, c)),
    ("of the next block of each four", |r, c, _, columns| (r, (c & !3 | (c + 1) & 3).min(columns - 1))),
    ("of the block before of each four", |r, c, _, columns| (r, (c & !3 | (c + 3) & 3).min(columns - 1))),
    ("of the four blocks in reverse", |r, c, _, columns| (r, (c & !3 | (3 - (c & 3))).min(columns - 1))),
    ("of the block two apart", |r, c, _, columns| (r, apart(c, 2, columns))),
    ("of the odd block of each pair", |r, c, _, columns| (r, (c | 1).min(columns - 1))),
    ("of the other row of a pair", |r, c, rows, _| (apart(r, 1, rows), c)),
    ("of the row 32 apart", |r, c, rows, _| (apart(r, 32, rows), c)),
    ("of the row 64 apart", |r, c, rows, _| (apart(r, 64, rows), c)),
    ("of the row 128 apart", |r, c, rows, _| (apart(r, 128, rows), c)),
];

/// The index that is read for an index, of so many.
type Other = fn(usize, usize) -> usize;

/// The row that is read for a row, of so many, in the words of "the operand of … is read".
pub(crate) const ROWS: [(&str, Other); 17] = [
    ("the row before", |row, rows| (row + rows - 1) % rows),
    ("the next row", |row, rows| (row + 1) % rows),
    ("the other row of a pair", |row, rows| apart(row, 1, rows)),
    ("the first row", |_, _| 0),
    ("the row 8 apart", |row, rows| apart(row, 8, rows)),
    ("the row 8 before", |row, _| row.checked_sub(8).unwrap_or(row)),
    ("the row 16 before", |row, _| row.checked_sub(16).unwrap_or(row)),
    ("the row 32 before", |row, _| row.checked_sub(32).unwrap_or(row)),
    ("the row 64 before", |row, _| row.checked_sub(64).unwrap_or(row)),
    ("the row 128 before", |row, _| row.checked_sub(128).unwrap_or(row)),
    ("the row 32 behind", |row, rows| if row + 32 < rows { row + 32 } else { row }),
    ("the row 64 behind", |row, rows| if row + 64 < rows { row + 64 } else { row }),
    ("the row 128 behind", |row, rows| if row + 128 < rows { row + 128 } else { row }),
    ("the even row of each pair", |row, _| row & !1),
    ("the first half of each 16 rows", |row, _| row & !8),
    ("the row of half the number", |row, _| row / 2),
    ("the row of twice the number", |row, rows| 2 * row % rows),
];

/// The row and the element of K that are read for those of a fragment, where 16 bytes hold so many elements, in words with `X` for the operand.
pub(crate) type OfFragment = fn(row: usize, k: usize, chunk: usize) -> (usize, usize);

/// What loads of fragments do wrong: `ldmatrix`, its addresses, and the swizzle of the tile that it reads. Scales are loaded by themselves.
pub(crate) const FRAGMENTS: [(&str, OfFragment); 9] = [
    ("8×8 blocks of the X are transposed", |r, k, _| (r & !7 | k & 7, k & !7 | r & 7)),
    ("16×16 blocks of the X are transposed", |r, k, _| (r & !15 | k & 15, k & !15 | r & 15)),
    ("the two quarters of each fragment beside its diagonal are exchanged, of the X", |r, k, chunk| {
        if (r / 8 + k / chunk) % 2 == 1 { (r ^ 8, k ^ chunk) } else { (r, k) }
    }),
    ("the codes of the first 8 rows of each 16 are read twice, of the X", |r, k, _| (r & !8, k)),
    ("the first of every two chunks of 16 bytes along K is read twice, of the X", |r, k, chunk| {
        (r, k & !chunk)
    }),
    ("chunks of 16 bytes along K are exchanged in pairs, of the X", |r, k, chunk| (r, k ^ chunk)),
    ("the X is read without its swizzle of 128 bytes, or with one that it has not", |r, k, chunk| {
        (r, k ^ (r % 8 * chunk))
    }),
    ("the X is read without its swizzle of 64 bytes, or with one that it has not", |r, k, chunk| {
        (r, k ^ (r / 2 % 4 * chunk))
    }),
    ("the X is read without its swizzle of 32 bytes, or with one that it has not", |r, k, chunk| {
        (r, k ^ (r / 4 % 2 * chunk))
    }),
];

/// The last rows, or columns, that hold zero.
pub(crate) const LAST: [usize; 7] = [1, 2, 8, 16, 32, 64, 128];

/// The tile along K that is read for a tile, of so many, in the words of "the codes of … are read".
pub(crate) const STAGES: [(&str, Other); 4] = [
    ("the tile before", |tile, _| tile.saturating_sub(1)),
    ("the next tile", |tile, tiles| (tile + 1).min(tiles - 1)),
    ("the other tile of a pair", |tile, tiles| apart(tile, 1, tiles)),
    ("the first tile", |_, _| 0),
];

/// Tiles of K in elements.
pub(crate) const TILES: [usize; 5] = [16, 32, 64, 128, 256];

/// The most tiles of K of which each is left out alone.
pub(crate) const MOST_TILES: usize = 32;

/// Whether an element of K counts, of a part and a depth.
type Counts = fn(usize, usize, usize) -> bool;

/// The elements of K that count, of a part and a depth, in the words of "… of K are left out".
pub(crate) const PARTS: [(&str, Counts); 7] = [
    ("the last", |d, part, depth| d + part < depth),
    ("the first", |d, part, _| d >= part),
    ("all but the last", |d, part, depth| d + part >= depth),
    ("all but the first", |d, part, _| d < part),
    ("every second", |d, part, _| d / part % 2 == 0),
    ("the first of every two", |d, part, _| d / part % 2 == 1),
    ("all behind the last whole", |d, part, depth| d < depth / part * part),
];

/// What two codes that share a byte are read as.
type ReadPair = fn([u8; 2]) -> [u8; 2];

/// What codes of e2m1 are read as, in pairs that share a byte: what is read of `X`, where to look, and the function.
pub(crate) const PAIRS: [(&str, &str, ReadPair); 7] = [
    (
        "the two codes of each byte of the X are exchanged",
        "the order of codes in a byte: the even element is in the low bits",
        |[low, high]| [high, low],
    ),
    (
        "the codes of the X are not shifted by 2 bits",
        "`<< 2` behind ldmatrix b4x16: the mma reads e2m1 in bits 2 to 5",
        |codes| codes.map(|x| x >> 2),
    ),
    ("the signs of the X are lost", "the sign bit of the codes", |codes| codes.map(|x| x & 7)),
    ("-6 is read as 6, of the X", "the conversion of 0xF, the code of -6", |codes| {
        codes.map(|x| if x == 0xF { 7 } else { x })
    }),
    ("6 is read as 4, of the X", "the conversion of the codes, and its largest magnitude", |codes| {
        codes.map(|x| if x & 7 == 7 { x - 1 } else { x })
    }),
    (
        "the low codes of the X are read twice, the high ones not at all",
        "the shift by four bits that brings the odd codes down",
        |[low, _]| [low, low],
    ),
    (
        "the high codes of the X are read twice, the low ones not at all",
        "the shift by four bits that brings the odd codes down",
        |[_, high]| [high, high],
    ),
];

/// The place at which the element of a place is stored, in the words of "the result is stored with …". A place beyond the matrix is none.
pub(crate) const STORES: [(&str, Elsewhere); 28] = [
    ("columns of pairs exchanged", |r, c, _, _| (r, c ^ 1)),
    ("halves of 8 columns exchanged", |r, c, _, _| (r, c ^ 4)),
    ("tiles of 8 columns exchanged", |r, c, _, _| (r, c ^ 8)),
    ("rows of pairs exchanged", |r, c, _, _| (r ^ 1, c)),
    ("rows 8 apart exchanged", |r, c, _, _| (r ^ 8, c)),
    ("8×8 tiles transposed", |r, c, _, _| (r / 8 * 8 + c % 8, c / 8 * 8 + r % 8)),
    ("the halves of 16×16 tiles exchanged crosswise", |r, c, _, _| (r ^ 8, c ^ 8)),
    ("every row one too far", |r, c, rows, _| ((r + 1) % rows, c)),
    ("every row one too early", |r, c, rows, _| ((r + rows - 1) % rows, c)),
    ("every column one too far", |r, c, _, columns| (r, (c + 1) % columns)),
    ("every column one too early", |r, c, _, columns| (r, (c + columns - 1) % columns)),
    ("rows and columns exchanged", |r, c, rows, columns| {
        let at = c * rows + r;
        (at / columns, at % columns)
    }),
    ("columns 16 apart exchanged", |r, c, _, _| (r, c ^ 16)),
    ("columns 32 apart exchanged", |r, c, _, _| (r, c ^ 32)),
    ("columns 64 apart exchanged", |r, c, _, _| (r, c ^ 64)),
    ("columns 128 apart exchanged", |r, c, _, _| (r, c ^ 128)),
    ("the halves of a row exchanged", |r, c, _, columns| (r, (c + columns / 2) % columns)),
    ("rows 16 apart exchanged", |r, c, _, _| (r ^ 16, c)),
    ("rows 32 apart exchanged", |r, c, _, _| (r ^ 32, c)),
    ("rows 64 apart exchanged", |r, c, _, _| (r ^ 64, c)),
    ("rows 128 apart exchanged", |r, c, _, _| (r ^ 128, c)),
    ("every row 8 too far", |r, c, rows, _| ((r + 8) % rows, c)),
    ("every row 16 too far", |r, c, rows, _| ((r + 16) % rows, c)),
    ("every row 32 too far", |r, c, rows, _| ((r + 32) % rows, c)),
    ("every row 64 too far", |r, c, rows, _| ((r + 64) % rows, c)),
    ("every column 8 too far", |r, c, _, columns| (r, (c + 8) % columns)),
    ("every column 64 too far", |r, c, _, columns| (r, (c + 64) % columns)),
    ("every row in reverse", |r, c, rows, _| (rows - 1 - r, c)),
];

/// A change of the biases of all columns.
type OfBias = fn(&mut [f64]);

/// What becomes of the bias of each column, in the words of "the bias is …".
pub(crate) const BIASES: [(&str, OfBias); 11] = [
    ("added twice", |row| row.iter_mut().for_each(|x| *x *= 2.0)),
    ("added three times, as by three splits of K", |row| row.iter_mut().for_each(|x| *x *= 3.0)),
    ("added four times, as by four splits of K", |row| row.iter_mut().for_each(|x| *x *= 4.0)),
    ("added eight times, as by eight splits of K", |row| row.iter_mut().for_each(|x| *x *= 8.0)),
    ("halved", |row| row.iter_mut().for_each(|x| *x *= 0.5)),
    ("subtracted", |row| row.iter_mut().for_each(|x| *x = -*x)),
    ("that of the column before", |row| row.rotate_right(1)),
    ("that of the next column", |row| row.rotate_left(1)),
    ("that of the other column of a pair", |row| {
        row.as_chunks_mut::<2>().0.iter_mut().for_each(|pair| pair.swap(0, 1));
    }),
    ("that of the other half of the columns", |row| {
        let half = row.len() / 2;
        row.rotate_left(half);
    }),
    ("that of column 0", |row| row.fill(row.first().copied().unwrap_or_default())),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_knows_the_scale_of_each_place() {
        for (rows, blocks) in [(128, 4), (128, 12), (192, 8), (5, 3), (64, 20), (4, 4)] {
            for layout in LAYOUTS.iter().filter(|layout| layout.holds(rows, blocks)) {
                let all = (0..rows).flat_map(|row| (0..blocks).map(move |block| (row, block)));
                for (row, block) in all {
                    let found = (layout.owner)((layout.at)(row, block, blocks), blocks);
                    assert_eq!(found, (row, block), "{} of {rows} x {blocks}", layout.name);
                }
            }
        }
    }

    #[test]
    fn scales_are_read_where_others_are_stored() {
        let scales: Vec<u8> = (0..128_u32 * 6).map(|n| (n * 37 % 251) as u8 + 1).collect();
        for relaid in Relaid::all() {
            let mut flat = vec![0; 128 * 64];
            let place = |of: LayoutPlace, n: usize| of(n / 6, n % 6, 6);
            (0..scales.len()).for_each(|n| flat[place(relaid.stored.at, n)] = scales[n]);
            let wanted = match relaid.fits(128, 6) {
                true => (0..scales.len()).map(|n| flat[place(relaid.read.at, n)]).collect(),
                false => scales.clone(),
            };
            assert_eq!(relaid.read(&scales, 128), wanted, "{}", relaid.words("operand"));
        }
    }
}
