//! Tiles in the record: requirements, admission, support by peers, and the choices of tile policies.

use ptx::arch::{Target, ToolkitVersion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::configuration::{ConfigurationKey, Tile};
use super::named::{Named, or_empty};
use crate::words;

/// What is known of tiles. Empty where nobody asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TileTable {
    /// Every tile, by how its kernel would be compiled.
    pub rows: Vec<TileRow>,
    /// What other projects have for each tile and side.
    #[serde(rename = "offers")]
    pub peers: Vec<PeerRow>,
    /// What policies choose.
    pub policies: Vec<PolicyRow>,
}

/// One tile and how its kernel would be compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TileRow {
    /// The kernel configuration.
    #[serde(flatten)]
    pub configuration: ConfigurationKey,
    /// What it would be compiled for.
    pub target: Named<Target>,
    /// The ptxas that answered; empty where none did.
    #[serde(with = "or_empty")]
    #[schemars(with = "String")]
    pub toolkit: Option<Named<ToolkitVersion>>,
    /// Tiles in flight; none where the geometry has no kernel.
    pub stages: Option<u32>,
    /// Shared memory of a CTA, bytes: dynamic, and static where ptxas has said it.
    pub shared: Option<u32>,
    /// What a CTA may have.
    pub shared_limit: u32,
    /// Registers of a thread, by ptxas.
    pub registers: Option<u32>,
    /// Bytes that a thread spills, stores and loads, by ptxas.
    pub spills: Option<(u32, u32)>,
    /// Why it may not run; none where it may.
    pub blocked: Option<String>,
    /// What it costs where it may run, such as spills; empty where nothing.
    pub remark: String,
}

words! {
    /// Whether a project has a kernel for a tile.
    PeerAnswer {
        /// It has or would generate one.
        Offered "offered",
        /// It has one for another architecture.
        Elsewhere "elsewhere",
        /// It has none.
        Refused "refused",
    }
}

/// What a project has for a tile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OfferRow")]
pub struct PeerRow {
    /// The tile, `MxNxK`.
    pub tile: Named<Tile>,
    /// Whether channels are the 16-row side of the mma.
    pub swap_ab: bool,
    /// The project and its version.
    pub stack: String,
    /// `offered`, `elsewhere` or `refused`.
    pub answer: Named<PeerAnswer>,
    /// What it has, or why not.
    pub sentence: String,
}

impl TileTable {
    /// Returns the kernels of other projects for the tile and operand order of `row`.
    pub fn peers_of<'a>(&'a self, row: &'a TileRow) -> impl Iterator<Item = &'a PeerRow> {
        let key = &row.configuration;
        self.peers.iter().filter(move |p| p.swap_ab == key.swap_ab && p.tile == key.tile)
    }
}

/// What a policy chooses for a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyRow {
    /// The policy.
    pub policy: String,
    /// What it must know.
    pub needs: String,
    /// Whose it is.
    pub source: String,
    /// How tokens choose experts.
    pub shape: String,
    /// Tokens of the batch.
    pub tokens: u32,
    /// Rows of the expert that has most.
    pub most: u32,
    /// Rows of the tile it chooses.
    pub m: u32,
    /// Tiles of tokens.
    pub tiles: u64,
    /// Rows that are there.
    pub rows: u64,
    /// Rows that are thrown away.
    pub padding: u64,
    /// Padding among all rows that are multiplied.
    pub waste: f64,
}
