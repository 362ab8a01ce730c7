//! Runs of variants on a device in the record, one result per check.

use ptx::arch::Target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code_by::CodeBy;
use super::named::Named;
use super::trials::CheckResult;

/// A GPU that took part in a run: what the devices of trials and variants are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceRow {
    /// What trials and variants call it: `gpu:0`.
    pub device: String,
    /// Its name.
    pub name: String,
    /// `sm_121`.
    pub architecture: String,
    /// The driver's own version; empty where the system does not say it.
    pub driver: String,
    /// The CUDA version that the driver brings.
    pub cuda: String,
    /// Multiprocessors.
    pub multiprocessors: i32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of the L2 cache.
    pub l2: i32,
    /// What tells this GPU from others, and says nothing else: a digest of the machine's own identity and the GPU's number; empty
    /// where the machine has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// One variant on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantRun {
    /// The variant.
    pub variant: String,
    /// What it was compiled for.
    pub target: Named<Target>,
    /// What ran it.
    pub device: String,
    /// Who made the code: `ptxas 13.5.37`, `the driver's JIT`; empty on the emulator.
    pub code: CodeBy,
    /// The checks.
    #[serde(rename = "rungs")]
    pub checks: Vec<CheckResult>,
}

impl VariantRun {
    /// Returns the first check that does not conform.
    #[must_use]
    pub fn first_wrong(&self) -> Option<&CheckResult> {
        self.checks.iter().find(|check| !check.verdict.conforms())
    }
}
