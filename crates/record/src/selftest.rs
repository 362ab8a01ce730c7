//! Instructions in the record: recorded answers of hardware, or new ones, compared with the emulator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An instruction of a device, compared with the emulator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelftestRow {
    /// The device or model that computed the answers.
    pub device: String,
    /// The instruction.
    pub op: String,
    /// Warps or matrices.
    pub cases: usize,
    /// Output elements that were compared.
    pub outputs: usize,
    /// Output elements that differ.
    pub mismatches: usize,
    /// `pass`, `fail` or `unsupported`.
    pub verdict: String,
}
