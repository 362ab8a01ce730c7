//! Which trials a run consists of.

use super::layout::KPad;
use super::pipeline::Setup;
use super::tile::{Blocked, Config, TILE_K, TILE_M, TILE_N, Tile};
use crate::case::Case;
use crate::kernel::{Load, MmaPath};
use crate::num::scale_layout::ScaleLayout;

/// A case, a tile and how it would be compiled, or why it cannot be.
#[derive(Debug, Clone)]
pub struct Trial<'a> {
    /// The case.
    pub case: &'a Case,
    /// The tile.
    pub tile: Tile,
    /// Whether channels are the 16-row side.
    pub swap_ab: bool,
    /// How tiles reach shared memory.
    pub load: Load,
    /// How they are multiplied.
    pub path: MmaPath,
    /// The kernel, or the sentence.
    pub config: Result<Config, Blocked>,
}

/// A tile below 64 tokens is swapped, and a larger one may be: 16 rows of an mma are better filled with channels.
#[must_use]
pub const fn swaps(tile: Tile) -> &'static [bool] {
    if tile.m < 64 { &[true] } else { &[false, true] }
}

/// Every tile.
#[must_use]
pub fn tiles() -> Vec<Tile> {
    let of = |m| TILE_N.into_iter().flat_map(move |n| TILE_K.into_iter().map(move |k| Tile { m, n, k }));
    TILE_M.into_iter().flat_map(of).collect()
}

/// Both loads.
pub const LOADS: [Load; 2] = [Load::CpAsync, Load::Tma];
/// Both paths.
pub const PATHS: [MmaPath; 2] = [MmaPath::Native, MmaPath::Portable];

/// The trials of a case with these tiles, loads and paths.
#[must_use]
pub fn trials<'a>(case: &'a Case, tiles: &[Tile], loads: &[Load], paths: &[MmaPath]) -> Vec<Trial<'a>> {
    let mut out = Vec::new();
    for tile in tiles {
        for swap_ab in swaps(*tile) {
            for load in loads {
                for path in paths {
                    let config = Config::new(*tile, *swap_ab, *load, *path);
                    out.push(Trial {
                        case,
                        tile: *tile,
                        swap_ab: *swap_ab,
                        load: *load,
                        path: *path,
                        config,
                    });
                }
            }
        }
    }
    out
}

/// The case on which every tile is run.
pub const SWEEP: &str = "tiny-exact";

/// What is run when nothing is named: every tile, load and path on [`SWEEP`], and every case with its own tiles or the
/// policy's, on both loads and paths.
#[must_use]
pub fn default_set<'a>(cases: &[&'a Case]) -> Vec<Trial<'a>> {
    let mut out = Vec::new();
    for case in cases {
        let tiles = if case.name == SWEEP { tiles() } else { own_tiles(case) };
        out.extend(trials(case, &tiles, &LOADS, &PATHS));
    }
    out
}

/// The tiles that a case names, else the policy's.
#[must_use]
pub fn own_tiles(case: &Case) -> Vec<Tile> {
    let own: Vec<Tile> = case.tiles.iter().filter_map(|t| t.parse().ok()).collect();
    if own.is_empty() { vec![default_tile(case)] } else { own }
}

/// The tile that the default policy chooses, from what the host knows: as many tokens as an expert has on average, a power of
/// two from 8 to 128.
#[must_use]
pub fn default_tile(case: &Case) -> Tile {
    let rows = case.tokens * case.top_k;
    let mean = rows.div_ceil(case.experts.min(rows).max(1)).next_power_of_two().clamp(8, 128);
    Tile { m: u32::try_from(mean).unwrap_or(128), n: 64, k: 128 }
}

/// How a case is run with a kernel, when nothing else is said: K stops before its padding.
#[must_use]
pub const fn setup(config: Config) -> Setup {
    Setup { config, k_pad: KPad::Poison, scales: ScaleLayout::Tile128x4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_has_an_answer() {
        let case = crate::case::find(SWEEP).unwrap();
        let all = trials(&case, &tiles(), &LOADS, &PATHS);
        let runs = all.iter().filter(|c| c.config.is_ok()).count();
        assert!(runs > 100 && runs < all.len(), "{runs} of {}", all.len());
        assert!(all.iter().filter_map(|c| c.config.as_ref().err()).all(|b| b.0.contains(char::is_numeric)));
    }
}
