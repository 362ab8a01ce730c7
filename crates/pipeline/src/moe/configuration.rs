//! The configurations of the grouped GEMM: the tile, the operand order, the MMA path and the load path.

use std::fmt;
use std::str::FromStr;

use record::ConfigurationName;
use serde::{Deserialize, Deserializer, de::Error};

use super::case::FormatPair;
use super::tile::Config;
use crate::frame::admission::Blocked;
use crate::kernel::{Load, MmaPath};

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

/// The word of configurations whose channels are the 16-row side of the mma.
pub const SWAP_AB: &str = "swap_ab";

/// A kernel configuration: a tile and how it is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Configuration {
    /// The tile.
    pub tile: Tile,
    /// Whether channels are the 16-row side.
    pub swap_ab: bool,
    /// How it is multiplied.
    pub path: MmaPath,
    /// How it reaches shared memory.
    pub load: Load,
}

impl Configuration {
    /// Returns the kernel for operands of these formats.
    ///
    /// # Errors
    /// [`Blocked`], with the reason.
    pub fn config(&self, pair: FormatPair) -> Result<Config, Blocked> {
        Config::with_tiles(pair, self.tile, self.swap_ab, self.load, self.path)
    }

    /// Returns its name in the record.
    #[must_use]
    pub fn name(&self) -> ConfigurationName {
        self.to_string().into()
    }

    /// Reads a name of the record; `None` if this build does not know one of its words.
    #[must_use]
    pub fn from_name(name: &ConfigurationName) -> Option<Self> {
        let words: Vec<&str> = name.words().collect();
        let (tile, swap_ab, path, load) = match words.as_slice() {
            [tile, path, load] => (tile, false, path, load),
            [tile, SWAP_AB, path, load] => (tile, true, path, load),
            _ => return None,
        };
        let (path, load) = (MmaPath::from_word(path)?, Load::from_word(load)?);
        Some(Self { tile: tile.parse().ok()?, swap_ab, path, load })
    }
}

impl fmt::Display for Configuration {
    /// Formats as `128x64x128 swap_ab portable tma`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let swap = if self.swap_ab { format!(" {SWAP_AB}") } else { String::new() };
        write!(f, "{}{swap} {} {}", self.tile, self.path.word(), self.load.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_reads_back_from_its_name() {
        for swap_ab in [false, true] {
            let tile = Tile { m: 128, n: 64, k: 128 };
            let of = Configuration { tile, swap_ab, path: MmaPath::Portable, load: Load::TmaReplace };
            assert_eq!(Configuration::from_name(&of.name()), Some(of));
        }
        for unknown in
            ["", "128x64x128", "128x64x128 swap native tma", "12x64x128 native tma", "8x64x128 native fly"]
        {
            assert_eq!(Configuration::from_name(&unknown.into()), None, "{unknown}");
        }
    }
}
