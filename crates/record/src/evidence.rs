//! What a run would have detected: the fault coverage of each kernel's inputs, and planted single-byte faults.

use ptx::arch::Target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::configuration::ConfigurationKey;
use super::named::Named;

/// Fault coverage of one kernel of the grouped GEMM: the places of its inputs (scale bytes and codes of weights and activations,
/// of both GEMMs) at which the data of passed trials expose a change by one, up and down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WitnessRow")]
pub struct FaultCoverageRow {
    /// The kernel configuration.
    #[serde(flatten)]
    pub configuration: ConfigurationKey,
    /// The target that it was compiled for.
    pub target: Named<Target>,
    /// The device that ran it.
    pub device: String,
    /// The cases of the data; empty if no exact or impulse case passed.
    pub cases: Vec<String>,
    /// Number of places at which the data expose a fault.
    #[serde(rename = "witnessed")]
    pub exposed: u64,
    /// Number of places.
    pub total: u64,
}

impl FaultCoverageRow {
    /// Whether the data expose a fault in every place; `false` if there are no places.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.total > 0 && self.exposed == self.total
    }
}

/// What the passed trials exercise in a kernel configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExerciseRow {
    /// The kernel configuration.
    #[serde(flatten)]
    pub configuration: ConfigurationKey,
    /// The target that it was compiled for.
    pub target: Named<Target>,
    /// The device that ran it.
    pub device: String,
    /// Maximum tiles along K of one GEMM.
    pub k_tiles: u32,
    /// How often the ring of stages wraps around in that GEMM.
    pub wraps: u32,
    /// Maximum tiles along N of one GEMM.
    pub n_tiles: u32,
    /// Maximum tiles along M of one expert.
    pub m_tiles: u32,
    /// Whether the last tile along K is partial in some trial.
    pub ragged_k: bool,
    /// Whether a partial tile along N follows a full one in some trial.
    pub ragged_n: bool,
    /// Whether a partial tile along M follows a full one in some trial.
    pub ragged_m: bool,
    /// What the trials do not exercise, as phrases; empty if nothing is missing.
    pub missing: Vec<String>,
}

impl ExerciseRow {
    /// Whether the trials exercised everything that a configuration must handle.
    #[must_use]
    pub fn is_exercised(&self) -> bool {
        self.missing.is_empty()
    }
}

/// Random single-byte faults (a scale or a code that is one more or less) in the operands of a grouped GEMM, and how many of them
/// each kind of data exposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultRow {
    /// The model and the part of it whose dimensions are used.
    pub dimensions: String,
    /// Number of faults.
    pub faults: u64,
    /// Number of faults that exact and impulse data expose.
    pub exact_and_impulse: u64,
    /// Number of faults that real-valued data with the same rows expose.
    pub real: u64,
    /// Number of faults that real-valued data with one row per expert, as in decode, expose.
    pub real_decode: u64,
}
