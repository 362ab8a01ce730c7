//! The layout of block scales in memory: the 128×4 and 8×4 tilings that GEMM libraries share.
//!
//! Sources: CUTLASS `detail/sm100_blockscaled_layout.hpp` (`Sm1xxBlockScaledBasicChunk`); FlashInfer
//! `quantization_utils.cuh` (`get_sf_out_offset_128x4`, `get_sf_out_offset_8x4`).

/// A tiling of scales, one byte each, over rows and columns; a column covers one block along K.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ScaleLayout {
    /// Row-major, without padding.
    Linear,
    /// Tiles of 128 rows and 4 columns; within one, rows r, r+32, r+64 and r+96 share 16 bytes.
    Tile128x4,
    /// Tiles of 8 rows and 4 columns, row-major within a tile.
    Tile8x4,
}

impl ScaleLayout {
    const fn tile(self) -> (usize, usize) {
        match self {
            Self::Linear => (1, 1),
            Self::Tile128x4 => (128, 4),
            Self::Tile8x4 => (8, 4),
        }
    }

    /// Returns rows and columns including the padding of the layout.
    #[must_use]
    pub const fn padded(self, rows: usize, columns: usize) -> (usize, usize) {
        let (tile_rows, tile_columns) = self.tile();
        (rows.next_multiple_of(tile_rows), columns.next_multiple_of(tile_columns))
    }

    /// Size in bytes of a buffer of `rows` × `columns` scales, including padding.
    #[must_use]
    pub const fn size(self, rows: usize, columns: usize) -> usize {
        let (rows, columns) = self.padded(rows, columns);
        rows * columns
    }

    /// Byte offset of scale (`row`, `column`) in a buffer of `columns` columns.
    #[must_use]
    pub const fn offset(self, row: usize, column: usize, columns: usize) -> usize {
        match self {
            Self::Linear => row * columns + column,
            Self::Tile128x4 => {
                (row / 128 * columns.div_ceil(4) + column / 4) * 512
                    + row % 32 * 16
                    + row % 128 / 32 * 4
                    + column % 4
            }
            Self::Tile8x4 => (row / 8 * columns.div_ceil(4) + column / 4) * 32 + row % 8 * 4 + column % 4,
        }
    }

    /// Byte offset of a scale in batch `batch` of buffers of equal size.
    #[must_use]
    pub const fn batched_offset(
        self,
        batch: usize,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
    ) -> usize {
        batch * self.size(rows, columns) + self.offset(row, column, columns)
    }
}
