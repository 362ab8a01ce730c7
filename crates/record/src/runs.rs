//! Runs of variants on a device in the record, one result per check.

use ptx::arch::Target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code_by::CodeBy;
use super::elapsed::Elapsed;
use super::named::Named;
use super::stage_result::Verdict;
use super::trials::CheckResult;

/// A GPU of a run, referenced by trials and variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceRow {
    /// Its name in trials and variants: `gpu:0`.
    pub device: String,
    /// Its name.
    pub name: String,
    /// `sm_121`.
    pub architecture: String,
    /// The driver version; empty if the system does not report it.
    pub driver: String,
    /// The CUDA version of the driver.
    pub cuda: String,
    /// Number of multiprocessors.
    pub multiprocessors: i32,
    /// Memory in bytes.
    pub memory: u64,
    /// L2 cache in bytes.
    pub l2: i32,
    /// An identifier that reveals nothing else: a digest of the machine's identity and the GPU's number; empty if the machine has
    /// no identity.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// One variant on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantRun {
    /// The variant.
    pub variant: String,
    /// The target that it was compiled for.
    pub target: Named<Target>,
    /// The device that ran it.
    pub device: String,
    /// The compiler of the code: `ptxas 13.5.37`, `the driver's JIT`; empty on the emulator.
    pub code: CodeBy,
    /// The checks.
    pub checks: Vec<CheckResult>,
    /// How long the checks took.
    #[serde(default, skip_serializing_if = "Elapsed::is_unknown")]
    pub seconds: Elapsed,
}

impl VariantRun {
    /// Whether a check passed or failed; a run that is only blocked says nothing about the variant.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.checks.iter().any(|check| check.verdict == Verdict::Pass) || self.first_wrong().is_some()
    }

    /// Returns the first check that does not conform.
    #[must_use]
    pub fn first_wrong(&self) -> Option<&CheckResult> {
        self.checks.iter().find(|check| !check.verdict.conforms())
    }
}
