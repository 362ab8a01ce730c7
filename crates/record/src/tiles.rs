//! Kernel configurations in the record: resources, admission, support by other projects, and the choices of tile policies.

use ptx::arch::{Target, ToolkitVersion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::family::ConfigurationName;
use super::named::{Named, or_empty};
use crate::words;

/// The tiles; empty if they were not requested.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TileTable {
    /// Every tile, by how its kernel would be compiled.
    pub rows: Vec<TileRow>,
    /// The kernels of other projects for each tile and operand order.
    #[serde(default)]
    pub peers: Vec<PeerRow>,
    /// The choices of the policies.
    #[serde(default)]
    pub policies: Vec<PolicyRow>,
}

/// One tile and how its kernel would be compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TileRow {
    /// The family of the kernel.
    pub family: String,
    /// The kernel configuration.
    pub configuration: ConfigurationName,
    /// The target that it would be compiled for.
    pub target: Named<Target>,
    /// The ptxas that compiled it; empty if none did.
    #[serde(with = "or_empty")]
    #[schemars(with = "String")]
    pub toolkit: Option<Named<ToolkitVersion>>,
    /// Tiles in flight in its main loop; null if the geometry has no kernel.
    pub depth: Option<u32>,
    /// Shared memory of a CTA in bytes: dynamic, plus static if ptxas reports it.
    pub shared: Option<u32>,
    /// The limit of shared memory per CTA in bytes.
    pub shared_limit: u32,
    /// Registers per thread, as reported by ptxas.
    pub registers: Option<u32>,
    /// Spill stores and spill loads per thread in bytes, as reported by ptxas.
    pub spills: Option<(u32, u32)>,
    /// Why it cannot run; null if it can.
    pub blocked: Option<String>,
    /// Its costs if it can run, such as spills; empty if there are none.
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

/// A project's kernel for a tile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeerRow {
    /// The words that it shares with the configurations it speaks of: `128x32x128 swap_ab`.
    pub configurations: String,
    /// The project and its version.
    pub stack: String,
    /// `offered`, `elsewhere` or `refused`.
    pub answer: Named<PeerAnswer>,
    /// The kernel, or why there is none.
    pub sentence: String,
}

/// The choice of a policy for a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyRow {
    /// The policy.
    pub policy: String,
    /// The input that it needs.
    pub needs: String,
    /// Its source.
    pub source: String,
    /// How tokens choose experts.
    pub shape: String,
    /// Tokens of the batch.
    pub tokens: u32,
    /// Rows of the expert with the most rows.
    pub most: u32,
    /// Rows of the tile it chooses.
    pub m: u32,
    /// Tiles of tokens.
    pub tiles: u64,
    /// Rows with data.
    pub rows: u64,
    /// Padding rows.
    pub padding: u64,
    /// Share of padding among all multiplied rows.
    pub waste: f64,
}
