//! Runs of variants on a device in the record, rung by rung.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::trials::RungResult;

/// One variant on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantRun {
    /// The variant.
    pub variant: String,
    /// What it was compiled for.
    pub target: String,
    /// What ran it.
    pub device: String,
    /// Who made the code: `ptxas 13.5.37`, `the driver's JIT`; empty on the emulator.
    pub code: String,
    /// The rungs of evidence.
    pub rungs: Vec<RungResult>,
}

impl VariantRun {
    /// The first rung that does not conform.
    #[must_use]
    pub fn first_wrong(&self) -> Option<&RungResult> {
        self.rungs.iter().find(|rung| !rung.verdict.conforms())
    }
}
