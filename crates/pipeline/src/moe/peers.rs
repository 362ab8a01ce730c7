//! What CUTLASS, FlashInfer, b12x, DeepGEMM and TRT-LLM support for a tile, from a data file that cites its sources.
//!
//! A project's builder is a set of rules, its dispatch a closed list; both answer for any tile.

use std::path::Path;
use std::sync::OnceLock;

use ptx::arch::Target;
use serde::Deserialize;

use super::configuration::Tile;
use record::PeerAnswer;
use toolchain::header::{self, HeaderError};

const TABLE: &str = include_str!("data/peers.yaml");

/// A project, in the version that was read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// Name and version.
    pub stack: String,
    /// The source: files and functions, or the document that quotes them.
    pub source: String,
    /// What is known beyond the rules of its builder.
    #[serde(default)]
    pub note: String,
    /// The architecture of its list, if not SM12x.
    pub only_for: Option<Target>,
    /// Rules that a tile must satisfy.
    pub builder: Option<Builder>,
    /// The tiles that it has.
    #[serde(default)]
    pub tiles: Vec<Listed>,
    /// Tiles that it lacks for a specific reason.
    #[serde(default)]
    pub refused: Vec<Named>,
}

/// The rules of a builder.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Builder {
    /// M must be a multiple of it.
    pub m_multiple: u32,
    /// M must be a multiple of it if N is below `narrow_below`.
    pub m_multiple_narrow: u32,
    /// The N below which a tile is narrow.
    pub narrow_below: u32,
    /// The minimum N.
    pub n_least: u32,
    /// K must be a multiple of it.
    pub k_multiple: u32,
    /// Shared memory of a CTA in bytes.
    pub smem_bytes: u32,
    /// The bytes of it that a grouped GEMM uses for barriers and tensor maps.
    pub grouped_reserve: u32,
    /// Bytes of a stage in addition to operands and scales.
    pub stage_overhead: u32,
    /// The minimum number of scale rows in a stage.
    pub scale_rows_least: u32,
    /// The minimum number of stages.
    pub stages_least: u32,
}

/// A tile of a list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// The project's notation.
    pub tile: String,
    /// The sides that it is compiled for.
    pub swap_ab: Vec<bool>,
    /// Its name in the project, and what is reported about it.
    pub note: String,
}

/// A tile that is named but does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The project's notation.
    pub tile: String,
    /// The reason.
    pub reason: String,
}

/// A project's answer for a tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// It has a kernel or would build one.
    Offered(String),
    /// It has a kernel for another architecture.
    Elsewhere(String),
    /// It has no kernel, with the reason.
    Refused(String),
}

impl Support {
    /// The answer in tables.
    #[must_use]
    pub const fn answer(&self) -> PeerAnswer {
        match self {
            Self::Offered(_) => PeerAnswer::Offered,
            Self::Elsewhere(_) => PeerAnswer::Elsewhere,
            Self::Refused(_) => PeerAnswer::Refused,
        }
    }

    /// The sentence.
    #[must_use]
    pub fn sentence(&self) -> &str {
        match self {
            Self::Offered(text) | Self::Elsewhere(text) | Self::Refused(text) => text,
        }
    }
}

/// Every project of the table, in its order; none if the table is damaged, which a test excludes.
pub fn stacks() -> &'static [Stack] {
    static STACKS: OnceLock<Vec<Stack>> = OnceLock::new();
    STACKS.get_or_init(|| parse().unwrap_or_default())
}

fn parse() -> Result<Vec<Stack>, HeaderError> {
    header::parse_file(Path::new("crates/pipeline/src/moe/data/peers.yaml"), TABLE)
}

impl Stack {
    /// Returns what the project has for a logical tile with channels (`swap_ab`) or tokens as its M.
    #[must_use]
    pub fn support(&self, tile: Tile, swap_ab: bool) -> Support {
        // The tile in the project's terms.
        let seen = if swap_ab { Tile { m: tile.n, n: tile.m, k: tile.k } } else { tile };
        if let Some(builder) = &self.builder {
            return match builder.judge(seen) {
                Ok(text) => Support::Offered(format!("{text}; {}", self.note)),
                Err(text) => Support::Refused(text),
            };
        }
        let name = seen.to_string();
        if let Some(listed) = self.tiles.iter().find(|t| t.tile == name && t.swap_ab.contains(&swap_ab)) {
            return match self.only_for {
                Some(target) => Support::Elsewhere(format!("for {target} alone: {}", listed.note)),
                None => Support::Offered(listed.note.clone()),
            };
        }
        if let Some(named) = self.refused.iter().find(|t| t.tile == name) {
            return Support::Refused(named.reason.clone());
        }
        let sides = |t: &Listed| match t.swap_ab.as_slice() {
            [true] => format!("{} swapped", t.tile),
            [false] => format!("{} unswapped", t.tile),
            _ => t.tile.clone(),
        };
        let there: Vec<String> = self.tiles.iter().map(sides).collect();
        Support::Refused(format!("{seen} is not in its list: {}", there.join(" ")))
    }
}

impl Builder {
    /// Returns the stages of a tile in the builder's terms, or the rule that it breaks.
    fn judge(&self, tile: Tile) -> Result<String, String> {
        let narrow = tile.n < self.narrow_below;
        let m_multiple = if narrow { self.m_multiple_narrow } else { self.m_multiple };
        if !tile.m.is_multiple_of(m_multiple) {
            let below =
                if narrow { format!(" where TileN is below {}", self.narrow_below) } else { String::new() };
            return Err(format!("TileM is {}, but its warps cover {m_multiple} rows{below}", tile.m));
        }
        if tile.n < self.n_least {
            return Err(format!("TileN is {}, but the builder requires at least {}", tile.n, self.n_least));
        }
        if !tile.k.is_multiple_of(self.k_multiple) {
            let k = self.k_multiple;
            return Err(format!(
                "TileK is {}, but 8-bit containers of FP4 require a multiple of {k}",
                tile.k
            ));
        }
        let (bytes, room) = (self.stage_bytes(tile), self.smem_bytes - self.grouped_reserve);
        let stages = room / bytes;
        if stages < self.stages_least {
            let (least, needed) = (self.stages_least, self.stages_least * bytes);
            return Err(format!("{least} stages need {needed} of {room} bytes, before the epilogue"));
        }
        Ok(format!("{stages} stages of {bytes} bytes, {} left for the epilogue", room - stages * bytes))
    }

    /// Bytes of a stage: both operands in 8-bit containers, and scales in atoms of 128 rows.
    #[must_use]
    pub fn stage_bytes(&self, tile: Tile) -> u32 {
        let scales = |rows: u32| rows.max(self.scale_rows_least) * tile.k / 32;
        (tile.m + tile.n) * tile.k + self.stage_overhead + scales(tile.m) + scales(tile.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn support(stack: &str, tile: &str, swap_ab: bool) -> Support {
        let stack = stacks().iter().find(|s| s.stack == stack).unwrap();
        stack.support(tile.parse().unwrap(), swap_ab)
    }

    #[test]
    fn the_table_can_be_read_and_every_row_cites_its_source() {
        let stacks = parse().unwrap();
        assert_eq!(stacks.len(), 7);
        for stack in &stacks {
            assert!(stack.source.len() > 20, "{}", stack.stack);
            assert_eq!(stack.builder.is_some(), !stack.note.is_empty(), "{}", stack.stack);
            assert_ne!(stack.builder.is_some(), !stack.tiles.is_empty(), "{}: rules or a list", stack.stack);
            let named = stack.tiles.iter().map(|t| &t.tile).chain(stack.refused.iter().map(|t| &t.tile));
            for tile in named {
                tile.parse::<Tile>().unwrap();
            }
        }
    }

    #[test]
    fn stages_of_cutlass_are_those_that_were_computed_by_hand() {
        let builder = stacks()[0].builder.clone().unwrap();
        // docs/numerics.md, 11: bytes of a stage, and stages before the epilogue's share.
        for (tile, bytes, stages) in [
            ("128x32x128", 21632, 4),
            ("128x64x128", 25728, 3),
            ("128x128x128", 33920, 2),
            ("128x256x128", 50816, 1),
            ("256x128x128", 50816, 1),
            ("128x32x256", 43136, 2),
        ] {
            let tile: Tile = tile.parse().unwrap();
            assert_eq!(
                (builder.stage_bytes(tile), 100_944 / builder.stage_bytes(tile)),
                (bytes, stages),
                "{tile}"
            );
            assert_eq!(builder.judge(tile).is_ok(), stages >= 2, "{tile}");
        }
        let text = support("CUTLASS 4.5", "128x128x128", false);
        assert!(text.sentence().starts_with("2 stages of 33920 bytes, 33104 left for the epilogue; "));
    }

    #[test]
    fn every_project_answers_for_every_tile_with_a_sentence() {
        for tile in super::super::plan::tiles() {
            for stack in stacks() {
                for swap_ab in [false, true] {
                    let found = stack.support(tile, swap_ab);
                    assert!(found.sentence().len() > 10, "{} {tile} {found:?}", stack.stack);
                }
            }
        }
    }

    #[test]
    fn the_answers_are_those_of_the_sources() {
        let word = |stack: &str, tile: &str, swap_ab| support(stack, tile, swap_ab).answer().word();
        // N from 32 in 4.5, from 8 in 4.7.
        assert_eq!(word("CUTLASS 4.5", "8x128x128", true), "refused");
        assert_eq!(word("CUTLASS 4.7", "8x128x128", true), "offered");
        assert_eq!(word("CUTLASS 4.7", "8x64x128", true), "refused");
        assert_eq!(word("CUTLASS 4.7", "128x128x64", false), "refused");
        assert_eq!(word("FlashInfer 0.7.2", "32x128x128", true), "offered");
        assert_eq!(word("FlashInfer 0.7.2", "16x128x128", true), "refused");
        let text = support("FlashInfer 0.7.2", "128x128x256", false);
        assert!(text.sentence().contains("never dispatched"), "{text:?}");
        assert_eq!(word("TRT-LLM", "8x128x512", true), "elsewhere");
        assert_eq!(word("TRT-LLM", "128x8x512", false), "refused");
        assert_eq!(word("TRT-LLM", "128x128x128", false), "refused");
        // Eight tokens in CuTe DSL, with channels as M.
        assert_eq!(word("FlashInfer 0.7.2 CuTe DSL", "8x128x128", true), "offered");
        assert_eq!(word("FlashInfer 0.7.2 CuTe DSL", "8x128x128", false), "refused");
        assert_eq!(word("b12x in FlashInfer 0.7.2", "16x128x64", false), "offered");
        assert_eq!(word("DeepGEMM sgl 0.2.5", "32x64x128", false), "offered");
        assert_eq!(word("DeepGEMM sgl 0.2.5", "32x128x128", false), "refused");
    }
}
