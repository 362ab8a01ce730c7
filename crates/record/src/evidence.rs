//! What a run would have detected: the fault coverage of each kernel's inputs, and planted single-byte faults.

use ptx::arch::Target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::family::ConfigurationName;
use super::named::Named;

/// Fault coverage of one kernel: the places of its inputs, such as scale bytes and codes, at which the data of passed trials expose
/// a change by one, up and down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultCoverageRow {
    /// The family of the kernel.
    pub family: String,
    /// The kernel configuration.
    pub configuration: ConfigurationName,
    /// The target that it was compiled for.
    pub target: Named<Target>,
    /// The device that ran it.
    pub device: String,
    /// The cases of the data; empty if no case that exposes such a change passed.
    pub cases: Vec<String>,
    /// Number of places at which the data expose a fault.
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
    /// The family of the kernel.
    pub family: String,
    /// The kernel configuration.
    pub configuration: ConfigurationName,
    /// The target that it was compiled for.
    pub target: Named<Target>,
    /// The device that ran it.
    pub device: String,
    /// What passing trials went through, each with the largest number in one launch: K tiles, wraps of a ring.
    #[serde(default)]
    pub counts: Vec<Count>,
    /// What some passing trial had, as phrases: `a ragged K tile`.
    #[serde(default)]
    pub met: Vec<String>,
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

/// A number of things.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    /// The thing, in the singular: `K tile`.
    pub what: String,
    /// How many.
    pub count: u32,
}

/// Random single-byte faults (a scale or a code that is one more or less) in the inputs of a kernel, and how many of them each kind
/// of data exposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultRow {
    /// The family of the kernel.
    pub family: String,
    /// The model and the part of it whose dimensions are used.
    pub dimensions: String,
    /// Number of faults.
    pub faults: u64,
    /// Number of faults that each kind of data exposes.
    pub exposed: Vec<Exposed>,
}

/// The faults that one kind of data exposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exposed {
    /// The kind of data: `exact and impulse data`.
    pub by: String,
    /// Number of faults.
    pub faults: u64,
}
