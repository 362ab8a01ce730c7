//! Which trials a run consists of.

use super::admission::{self, Limits, Question, Toolchain};
use super::layout::KPad;
use super::pipeline::Setup;
use super::policy::{self, HostKnown};
use super::tile::{Blocked, Config, TILE_K, TILE_M, TILE_N, Tile};
use crate::case::{Case, KTail, ScaleTiles};
use crate::kernel::{KernelError, Library, Load, MmaPath};
use crate::num::scale_layout::ScaleLayout;

/// A tile and how it would be compiled, or why it cannot be.
#[derive(Debug, Clone)]
pub struct Candidate {
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

/// Every tile, load and path.
#[must_use]
pub fn candidates() -> Vec<Candidate> {
    candidates_of(&tiles(), &LOADS, &PATHS)
}

fn candidates_of(tiles: &[Tile], loads: &[Load], paths: &[MmaPath]) -> Vec<Candidate> {
    let mut out = Vec::new();
    for tile in tiles {
        for swap_ab in swaps(*tile) {
            for load in loads {
                for path in paths {
                    let config = Config::new(*tile, *swap_ab, *load, *path);
                    out.push(Candidate { tile: *tile, swap_ab: *swap_ab, load: *load, path: *path, config });
                }
            }
        }
    }
    out
}

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

impl Trial<'_> {
    /// The trial as a toolchain admits it: blocked where the kernels need what the toolchain has not.
    ///
    /// # Errors
    /// [`KernelError::Missing`] when there is no GEMM for it.
    pub fn admitted(&self, library: &Library, toolchain: Option<Toolchain<'_>>) -> Result<Self, KernelError> {
        self.admitted_on(library, toolchain, Limits::SM12X)
    }

    /// As [`Trial::admitted`], on a device with these limits.
    ///
    /// # Errors
    /// [`KernelError::Missing`] when there is no GEMM for it.
    pub fn admitted_on(
        &self,
        library: &Library,
        toolchain: Option<Toolchain<'_>>,
        limits: Limits,
    ) -> Result<Self, KernelError> {
        let question = Question {
            tile: self.tile,
            swap_ab: self.swap_ab,
            kernel: library.gemm(self.path, self.load)?,
            path: self.path,
            toolchain,
            limits,
        };
        let config = admission::admit_run(&question, library).map(|admitted| admitted.config);
        Ok(Self { config, ..self.clone() })
    }
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

/// A tile and how it would be compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// The tile.
    pub tile: Tile,
    /// Whether channels are the 16-row side.
    pub swap_ab: bool,
    /// How it is multiplied.
    pub path: MmaPath,
    /// How it reaches shared memory.
    pub load: Load,
}

/// The ways to compile these tiles with these loads and paths.
#[must_use]
pub fn ways(tiles: &[Tile], loads: &[Load], paths: &[MmaPath]) -> Vec<Way> {
    let mut out = Vec::new();
    for tile in tiles {
        for swap_ab in swaps(*tile) {
            for path in paths {
                out.extend(loads.iter().map(|load| Way {
                    tile: *tile,
                    swap_ab: *swap_ab,
                    path: *path,
                    load: *load,
                }));
            }
        }
    }
    out
}

/// The trials of a case with these tiles, loads and paths.
#[must_use]
pub fn trials<'a>(case: &'a Case, tiles: &[Tile], loads: &[Load], paths: &[MmaPath]) -> Vec<Trial<'a>> {
    let of =
        |Candidate { tile, swap_ab, load, path, config }| Trial { case, tile, swap_ab, load, path, config };
    candidates_of(tiles, loads, paths).into_iter().map(of).collect()
}

/// The cases on which every tile is run: together they leave no byte of a kernel's inputs without a witness.
pub const SWEEP: [&str; 2] = ["tiny-exact", "tiny-impulse"];

/// What is run when nothing is named: every tile, load and path on [`SWEEP`], and every case with its own tiles or the
/// policy's, on both loads and paths.
#[must_use]
pub fn default_set<'a>(cases: &[&'a Case]) -> Vec<Trial<'a>> {
    let mut out = Vec::new();
    for case in cases {
        let tiles = if SWEEP.contains(&case.name.as_str()) { tiles() } else { own_tiles(case) };
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

/// The tile that the default policy chooses, from what the host knows: [`policy::mean_rows`].
#[must_use]
pub fn default_tile(case: &Case) -> Tile {
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let host =
        HostKnown { tokens: small(case.tokens), top_k: small(case.top_k), experts: small(case.experts) };
    Tile { m: policy::mean_rows(host), n: 64, k: 128 }
}

/// The tiles that a case is run with: every one, those that are named, its own, or the policy's.
#[must_use]
pub fn tiles_of(case: &Case, named: &[Tile], all: bool) -> Vec<Tile> {
    if all {
        return tiles();
    }
    if !named.is_empty() {
        return named.to_vec();
    }
    own_tiles(case)
}

/// How a case is run with a kernel.
#[must_use]
pub const fn setup(case: &Case, config: Config) -> Setup {
    Setup {
        config,
        k_pad: match case.k_tail {
            KTail::Stop => KPad::Poison,
            KTail::Padded => KPad::Zeros,
        },
        scales: match case.scale_tiles {
            ScaleTiles::Tile128x4 => ScaleLayout::Tile128x4,
            ScaleTiles::Tile8x4 => ScaleLayout::Tile8x4,
        },
        pdl: case.pdl,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_has_an_answer() {
        let all = candidates();
        let runs = all.iter().filter(|c| c.config.is_ok()).count();
        assert!(runs > 100 && runs < all.len(), "{runs} of {}", all.len());
        assert!(all.iter().filter_map(|c| c.config.as_ref().err()).all(|b| b.0.contains(char::is_numeric)));
    }
}
