//! A profile of a decode step in the record: time by kernel class, and the resulting decision.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether work on the tiles of the MoE GEMMs can pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It is worthwhile.
    Go,
    /// Expect modest gains.
    Cautious,
    /// It is not worth it.
    Stop,
}

impl Decision {
    /// Returns its word in tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Cautious => "cautious",
            Self::Stop => "stop",
        }
    }

    /// Returns its meaning.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Go => "work on the tiles is worthwhile",
            Self::Cautious => "proceed cautiously, expect modest gains",
            Self::Stop => "not worth working on the tiles",
        }
    }
}

/// The kernels of one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassTime {
    /// The class.
    pub class: String,
    /// Whether it belongs to the MoE layer.
    pub moe: bool,
    /// Share of the time of all kernels, 0 to 1.
    pub share: f64,
    /// Nanoseconds.
    pub nanoseconds: f64,
    /// Launches.
    pub launches: u64,
    /// Its kernel with the most time.
    pub longest: String,
    /// That kernel's share, 0 to 1.
    pub longest_share: f64,
}

/// A judged profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileRow {
    /// The form of the file: `nsys` or `chrome`.
    pub form: String,
    /// Number of kernels with different names.
    pub kernels: u64,
    /// Nanoseconds of the kernels that the file lists.
    pub nanoseconds: f64,
    /// Share of the time that the file lists; below 1 if the file omits kernels.
    pub listed: f64,
    /// Classes, the longest first.
    pub classes: Vec<ClassTime>,
    /// Share of the MoE GEMMs and GEMVs.
    pub gemm_share: f64,
    /// Share of the whole MoE layer.
    pub moe_share: f64,
    /// The resulting decision.
    pub decision: Decision,
}
