//! Tiles of the grouped GEMM: their names, and the geometry derived from them.

use super::configuration::Tile;
use super::format::Element;
use crate::frame::admission::{Blocked, SHARED_LIMIT};
use crate::kernel::{Load, MmaPath};
use crate::moe::case::{Format, FormatPair};

/// Maximum accumulators of a thread; with more, ptxas spills.
const MOST_ACCUMULATORS: u32 = 128;

/// Maximum warps of a CTA that multiply.
const MOST_WARPS: u32 = 8;

/// Number of stages above which more do not help.
const MOST_STAGES: u32 = 4;

/// Elements along K of one TMA copy of the kernels: 16U4_ALIGN16B has no other width, and for bf16 no swizzle is wider than
/// 64.
const fn slab(pair: FormatPair) -> u32 {
    if matches!(pair.activation(), Format::Bf16) { 64 } else { 128 }
}

/// Bytes that TMA kernels need in addition to the stages: alignment of the base to 1024, and barriers.
const TMA_EXTRA: u32 = 1024 + 64;

/// Two tensor maps, each aligned to 128 bytes, and up to as much before them.
const MAP_EXTRA: u32 = 2 * 128 + 128;

/// Rows that a GEMV multiplies at a time.
const GEMV_ROWS: u32 = 8;
/// Accumulators of a thread of a GEMV.
const GEMV_ACCUMULATORS: u32 = 64;
/// Shared memory of a block of 32 activations: three digits each, their scale, and padding that spreads blocks over the banks.
const GEMV_BLOCK_BYTES: u32 = 112;

/// A tile with the complete configuration of its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Config {
    /// The operand formats.
    pub pair: FormatPair,
    /// The tile.
    pub tile: Tile,
    /// Whether channels are the 16-row side of the mma.
    pub swap_ab: bool,
    /// Tiles in flight (pipeline stages).
    pub stages: u32,
    /// How tiles reach shared memory.
    pub load: Load,
    /// The MMA path.
    pub path: MmaPath,
    /// Warps along the 16-row side.
    pub warps_x: u32,
    /// Warps along the 8-column side.
    pub warps_y: u32,
}

/// Warps along the sides of a product of `x` rows of 16 and `y` columns of 8; every warp has at least one mma.
fn warps(x: u32, y: u32, path: MmaPath) -> [u32; 2] {
    if path == MmaPath::Portable {
        // Every warp converts all its rows of both operands to bf16, which is most of its work; shares of 32 by 64 need the least,
        // and their accumulators leave registers free. One warp alone would wait for memory.
        let warps_x = (x / 32).clamp(1, MOST_WARPS);
        let fewest = if warps_x == 1 { 2 } else { 1 };
        return [warps_x, y.div_ceil(64).max(fewest).min(MOST_WARPS / warps_x).min(y / 8)];
    }
    // Few accumulators are spread over four warps, many over eight.
    let warps = if x * y / (32 * 4) > 64 { MOST_WARPS } else { 4 };
    let warps_x = (x / 16).min(warps);
    [warps_x, (warps / warps_x).min(y / 8)]
}

impl Config {
    /// Returns the kernel for a tile of MXFP8 by MXFP4: its warps and the number of stages that fit.
    ///
    /// # Errors
    /// [`Blocked`]: the tile does not fit, with the numbers.
    pub fn new(tile: Tile, swap_ab: bool, load: Load, path: MmaPath) -> Result<Self, Blocked> {
        Self::with_tiles(FormatPair::default(), tile, swap_ab, load, path)
    }

    /// Like [`Config::new`] for operands of these formats.
    ///
    /// # Errors
    /// [`Blocked`]: the tile does not fit, with the numbers, or this path cannot multiply the formats.
    pub fn with_tiles(
        pair: FormatPair,
        tile: Tile,
        swap_ab: bool,
        load: Load,
        path: MmaPath,
    ) -> Result<Self, Blocked> {
        Self::within(pair, tile, swap_ab, load, path, SHARED_LIMIT)
    }

    /// Returns the kernel for a tile if a CTA has `shared_limit` bytes of shared memory.
    ///
    /// # Errors
    /// As [`Config::with_tiles`].
    pub fn within(
        pair: FormatPair,
        tile: Tile,
        swap_ab: bool,
        load: Load,
        path: MmaPath,
        shared_limit: u32,
    ) -> Result<Self, Blocked> {
        if path == MmaPath::Gemv {
            if pair != FormatPair::default() {
                let word = pair.word();
                return Err(Blocked(format!(
                    "the GEMV multiplies 8-bit by 4-bit codes, but the pair is {word}"
                )));
            }
            return Self::gemv(tile, swap_ab, load);
        }
        if path == MmaPath::Native && pair.activation() == Format::Bf16 {
            return Err(Blocked("no block-scaled mma takes 16-bit activations".to_owned()));
        }
        let slab = slab(pair);
        let (x, y) = if swap_ab { (tile.n, tile.m) } else { (tile.m, tile.n) };
        if x < 16 {
            let side = if swap_ab { "N under swap_ab" } else { "M" };
            return Err(Blocked(format!("{side} is {x}, but an mma has 16 rows")));
        }
        if load.by_tma() && tile.k < slab {
            let k = tile.k;
            return Err(Blocked(if path == MmaPath::Native && pair == FormatPair::default() {
                format!(
                    "K is {k}, but a TMA box of 16U4_ALIGN16B is {slab} elements wide (cuTensorMapEncodeTiled)"
                )
            } else {
                format!("K is {k}, but the kernel fetches slabs of {slab} elements")
            }));
        }
        let [warps_x, warps_y] = warps(x, y, path);
        let accumulators = x * y / (32 * warps_x * warps_y);
        if accumulators > MOST_ACCUMULATORS {
            return Err(Blocked(format!(
                "{accumulators} f32 accumulators per thread of {} warps leave no registers for the rest (255)",
                warps_x * warps_y
            )));
        }
        let mut config = Self { pair, tile, swap_ab, stages: MOST_STAGES, load, path, warps_x, warps_y };
        let extra = config.extra_bytes();
        config.stages = (shared_limit.saturating_sub(extra) / config.stage_bytes()).min(MOST_STAGES);
        if config.stages < 2 {
            return Err(Blocked(format!(
                "two stages need {} bytes of shared memory, but a CTA has {shared_limit}",
                2 * config.stage_bytes() + extra
            )));
        }
        Ok(config)
    }

    /// The GEMV of a tile: a warp sums `1024 / K` columns at a time, so that each lane has a block of 32 of every K tile.
    fn gemv(tile: Tile, swap_ab: bool, load: Load) -> Result<Self, Blocked> {
        if tile.m > GEMV_ROWS {
            let m = tile.m;
            return Err(Blocked(format!(
                "M is {m}, but the GEMV multiplies at most {GEMV_ROWS} rows at once"
            )));
        }
        let columns = 32 * 32 / tile.k;
        let warps_x = tile.n.div_ceil(columns).min(4);
        let accumulators = tile.m * tile.n.div_ceil(columns * warps_x);
        if accumulators > GEMV_ACCUMULATORS {
            return Err(Blocked(format!(
                "{accumulators} f32 accumulators per thread of {warps_x} warps, but the GEMV is unrolled for {GEMV_ACCUMULATORS}"
            )));
        }
        let (pair, path) = (FormatPair::default(), MmaPath::Gemv);
        Ok(Self { pair, tile, swap_ab, stages: 1, load, path, warps_x, warps_y: 1 })
    }

    /// Shared memory in addition to the stages.
    fn extra_bytes(&self) -> u32 {
        match self.load {
            Load::CpAsync | Load::Direct => 0,
            Load::Tma => TMA_EXTRA,
            Load::TmaReplace => TMA_EXTRA + MAP_EXTRA,
        }
    }

    /// Whether weights occupy four bits in shared memory: the portable path does not need the gaps that `ldmatrix` requires, and
    /// TMA without 16U4_ALIGN16B cannot create them. An `mma` requires e2m1 with gaps only together with e4m3.
    #[must_use]
    pub fn packed(&self) -> bool {
        let gaps = self.pair.activation().element() == Element::E4m3;
        self.pair.weight().element() == Element::E2m1
            && (!gaps || self.path == MmaPath::Portable && self.load.by_tma())
    }

    /// Bytes of a K tile of one row of weights in shared memory.
    fn weight_row(&self, elements: u32) -> u32 {
        if self.packed() { elements / 2 } else { elements }
    }

    /// Elements along K that one TMA copy fetches.
    #[must_use]
    pub fn slab(&self) -> u32 {
        slab(self.pair)
    }

    /// Bytes of a slab of one row of activations.
    #[must_use]
    pub fn token_slab(&self) -> u32 {
        self.slab() * self.pair.activation().element().bits() as u32 / 8
    }

    /// Bytes of a slab of one row of weights in shared memory.
    #[must_use]
    pub fn weight_slab(&self) -> u32 {
        self.weight_row(self.slab())
    }

    /// Shared memory of a stage in bytes: tokens, then weights, each aligned to 1024; for a GEMV, the digits of tokens.
    #[must_use]
    pub fn stage_bytes(&self) -> u32 {
        if self.path == MmaPath::Gemv {
            return self.tile.m * self.tile.k / 32 * GEMV_BLOCK_BYTES;
        }
        let tokens = self.tile.m * self.tile.k * self.pair.activation().element().bits() as u32 / 8;
        let weights = self.tile.n * self.weight_row(self.tile.k);
        tokens.next_multiple_of(1024) + weights.next_multiple_of(1024)
    }

    /// Dynamic shared memory of a launch, and the static barriers.
    #[must_use]
    pub fn shared_bytes(&self) -> u32 {
        self.stages * self.stage_bytes() + self.extra_bytes()
    }

    /// Warps that multiply.
    #[must_use]
    pub fn warps(&self) -> u32 {
        self.warps_x * self.warps_y
    }

    /// The macros of the kernel's source.
    #[must_use]
    pub fn defines(&self) -> Vec<(String, String)> {
        let flag = |b: bool| u32::from(b).to_string();
        [
            ("TILE_M", self.tile.m.to_string()),
            ("TILE_N", self.tile.n.to_string()),
            ("TILE_K", self.tile.k.to_string()),
            ("STAGES", self.stages.to_string()),
            ("WARPS_X", self.warps_x.to_string()),
            ("WARPS_Y", self.warps_y.to_string()),
            ("SWAP_AB", flag(self.swap_ab)),
            ("NATIVE", flag(self.path == MmaPath::Native)),
            ("PACKED", flag(self.packed())),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tiles() {
        let tile: Tile = "128x32x128".parse().unwrap();
        assert_eq!((tile, tile.to_string().as_str()), (Tile { m: 128, n: 32, k: 128 }, "128x32x128"));
        assert_eq!("128x32x128B".parse::<Tile>().unwrap(), tile);
        for wrong in ["128x32", "128x32x100", "4x8x64", "128x32x128x1", "ax8x64", "128x32x128b", ""] {
            assert!(wrong.parse::<Tile>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn stages_are_what_fits() {
        let config =
            |tile: &str, swap_ab, load, path| Config::new(tile.parse().unwrap(), swap_ab, load, path);
        let c = config("128x32x128", false, Load::CpAsync, MmaPath::Native).unwrap();
        assert_eq!((c.stages, c.stage_bytes(), c.warps()), (4, 20480, 4));
        // 128x128x128 in 8-bit containers: 32 KiB a stage.
        assert_eq!(config("128x128x128", false, Load::Tma, MmaPath::Native).unwrap().stages, 3);
        // The portable path: shares of 32 by 64, two warps at least.
        for (tile, swap_ab, warps) in [
            ("8x64x128", true, [2, 1]),
            ("8x16x128", true, [1, 1]),
            ("16x32x128", true, [1, 2]),
            ("32x128x128", true, [4, 1]),
            ("128x128x128", false, [4, 2]),
            ("256x64x128", true, [2, 4]),
            ("128x256x128", false, [4, 2]),
        ] {
            let c = config(tile, swap_ab, Load::Tma, MmaPath::Portable).unwrap();
            assert_eq!([c.warps_x, c.warps_y], warps, "{tile}");
        }
        // Packed weights leave room for one more stage.
        assert_eq!(config("128x128x128", false, Load::Tma, MmaPath::Portable).unwrap().stages, 4);
        for (tile, swap_ab, load, words) in [
            ("256x256x128", false, Load::CpAsync, "256 f32 accumulators"),
            ("128x64x512", false, Load::CpAsync, "196608 bytes of shared memory"),
            ("8x8x128", true, Load::CpAsync, "an mma has 16 rows"),
            ("128x64x64", false, Load::Tma, "128 elements wide"),
        ] {
            let error = config(tile, swap_ab, load, MmaPath::Native).unwrap_err();
            assert!(error.to_string().contains(words), "{tile}: {error}");
        }
    }
}
