//! What a run would have detected: the fault coverage of each kernel's inputs, and planted single-byte faults.

use ptx::arch::Target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::configuration::ConfigurationKey;
use super::named::Named;

/// Of one kernel of the grouped GEMM, how many places of its inputs (scale bytes and codes of weights and activations, of
/// both GEMMs) the data that it got right would have shown changed by one, up and down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WitnessRow")]
pub struct FaultCoverageRow {
    /// The kernel configuration.
    #[serde(flatten)]
    pub configuration: ConfigurationKey,
    /// What it was compiled for.
    pub target: Named<Target>,
    /// What ran it.
    pub device: String,
    /// The cases whose data these are; none where no exact or impulse case passed.
    pub cases: Vec<String>,
    /// Places of which the data expose a fault.
    #[serde(rename = "witnessed")]
    pub exposed: u64,
    /// All places.
    pub total: u64,
}

impl FaultCoverageRow {
    /// Whether the data expose a fault in every place; `false` if there are no places.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.total > 0 && self.exposed == self.total
    }
}

/// What the trials that a kernel configuration passed put it through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExerciseRow {
    /// The kernel configuration.
    #[serde(flatten)]
    pub configuration: ConfigurationKey,
    /// What it was compiled for.
    pub target: Named<Target>,
    /// What ran it.
    pub device: String,
    /// Most tiles along K of one GEMM.
    pub k_tiles: u32,
    /// How often the ring of stages began again in that GEMM.
    pub wraps: u32,
    /// Most tiles along N of one GEMM.
    pub n_tiles: u32,
    /// Most tiles along M of one expert.
    pub m_tiles: u32,
    /// Whether a last tile of K was not full.
    pub ragged_k: bool,
    /// Whether a tile of N behind a full one was not full.
    pub ragged_n: bool,
    /// Whether a tile of M behind a full one was not full.
    pub ragged_m: bool,
    /// What it was not put through, as phrases; empty where it is exercised.
    pub missing: Vec<String>,
}

impl ExerciseRow {
    /// Whether the trials exercised everything that a configuration must handle.
    #[must_use]
    pub fn is_exercised(&self) -> bool {
        self.missing.is_empty()
    }
}

/// Random faults of one byte (a scale or a code that is one more or less) in the operands of a grouped GEMM, and how many each
/// kind of data shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultRow {
    /// Whose dimensions: the model, and what of it.
    pub dimensions: String,
    /// Faults drawn.
    pub faults: u64,
    /// Those that exact and impulse data show.
    pub exact_and_impulse: u64,
    /// Those that real-valued data show, with as many rows.
    pub real: u64,
    /// Those that real-valued data show with one row per expert, as at decode.
    pub real_decode: u64,
}
