//! The identity of a kernel configuration: the tile, the operand order, the MMA path and the load path.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use super::named::Named;
use crate::words;

/// A logical tile: M counts tokens, N channels, K elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    /// Tokens.
    pub m: u32,
    /// Channels.
    pub n: u32,
    /// Elements along K.
    pub k: u32,
}

/// Allowed values of M, in tokens.
pub const TILE_M: [u32; 6] = [8, 16, 32, 64, 128, 256];
/// Allowed values of N, in channels.
pub const TILE_N: [u32; 6] = [8, 16, 32, 64, 128, 256];
/// Allowed values of K, in elements.
pub const TILE_K: [u32; 4] = [64, 128, 256, 512];

/// A name that is not a tile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a tile: write MxNxK, as 128x32x128, or with K in bytes of the e4m3 activation, as 128x32x128B; M \
    and N are powers of two from 8 to 256, K from 64 to 512"
)]
pub struct TileError(pub String);

impl FromStr for Tile {
    type Err = TileError;

    /// Parses `128x32x128`, and `128x32x128B` as in FlashInfer and TRT-LLM, where K counts bytes of the activation, which
    /// has one byte per element in MXFP8 x MXFP4.
    fn from_str(text: &str) -> Result<Self, TileError> {
        let wrong = || TileError(text.to_owned());
        let elements = text.strip_suffix('B').unwrap_or(text);
        let numbers: Vec<u32> =
            elements.split('x').map(|part| part.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        match numbers.as_slice() {
            [m, n, k] if TILE_M.contains(m) && TILE_N.contains(n) && TILE_K.contains(k) => {
                Ok(Self { m: *m, n: *n, k: *k })
            }
            _ => Err(wrong()),
        }
    }
}

impl<'de> Deserialize<'de> for Tile {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.m, self.n, self.k)
    }
}

words! {
    /// How a GEMM multiplies.
    #[derive(PartialOrd, Ord)]
    MmaPath {
        /// Block-scaled mma
        Native "native",
        /// bf16 mma, scales folded into the operands
        Portable "portable",
        /// Integer dot products without mma, for at most eight rows of an expert at once
        Gemv "gemv",
    }
}

words! {
    /// How tiles reach shared memory.
    #[derive(PartialOrd, Ord)]
    Load {
        /// Every thread copies
        CpAsync "cp_async",
        /// A producer warp with tensor maps
        Tma "tma",
        /// The same, with tensor maps that the kernel creates for each expert
        TmaReplace "tma_replace",
        /// Weights are loaded into registers
        Direct "direct",
    }
}

impl Load {
    /// Whether it uses tensor maps.
    #[must_use]
    pub const fn by_tma(self) -> bool {
        matches!(self, Self::Tma | Self::TmaReplace)
    }
}

/// What identifies a kernel configuration in rows of the record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ConfigurationKey {
    /// The tile, `MxNxK`.
    pub tile: Named<Tile>,
    /// Whether channels are the 16-row side of the mma.
    pub swap_ab: bool,
    /// `native`, `portable` or `gemv`.
    #[serde(rename = "kernel_path")]
    pub path: Named<MmaPath>,
    /// `cp_async`, `tma`, `tma_replace` or `direct`.
    pub load: Named<Load>,
}

impl fmt::Display for ConfigurationKey {
    /// Formats as `128x64x128 swap_ab portable tma`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let swap = if self.swap_ab { " swap_ab" } else { "" };
        write!(f, "{}{swap} {} {}", self.tile, self.path, self.load)
    }
}
