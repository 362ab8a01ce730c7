//! Random kernels in the record: what each compiler made of them on a device, compared with the emulator.

use std::collections::BTreeMap;

use ptx::arch::{PtxIsa, Target};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code_by::CodeBy;
use super::document::SCHEMA;
use super::named::Named;
use super::runs::DeviceRow;

/// A run of random kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FuzzTable {
    /// The version of the format: [`SCHEMA`].
    pub schema: u32,
    /// Name and version of the tool.
    pub tool: String,
    /// The GPU that ran the machine code; `None` if it was only assembled.
    #[serde(default)]
    pub device: Option<DeviceRow>,
    /// The target of the kernels.
    pub target: Named<Target>,
    /// The PTX version of the kernels.
    pub isa: String,
    /// The first seed.
    pub seed: u64,
    /// The number of kernels.
    pub kernels: u64,
    /// Kernels on which the emulator disagrees with itself. They were not compared with machine code.
    pub defects: u64,
    /// What became of the kernels, by compiler and level.
    pub builds: Vec<FuzzBuild>,
    /// Compilers that were selected and cannot be used, with the reason.
    #[serde(default)]
    pub left_out: BTreeMap<String, String>,
    /// What nothing known explains.
    pub findings: Vec<FuzzFinding>,
    /// Rows of the instruction table that were reached.
    pub reached: usize,
    /// Rows of the instruction table that were not.
    #[serde(default)]
    pub not_reached: Vec<String>,
}

/// The kernels of one compiler at one level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FuzzBuild {
    /// The compiler.
    pub code: CodeBy,
    /// The level, as in `-O3`; `None` if the compiler has only one.
    #[serde(default)]
    pub level: Option<u8>,
    /// Kernels that it assembled.
    pub assembled: u64,
    /// Kernels whose results were compared with the emulator's; those that did not end or crashed are among them.
    pub compared: u64,
    /// Kernels that were not run because a known miscompile, by name, may never end.
    #[serde(default)]
    pub not_run: BTreeMap<String, u64>,
    /// Kernels that differ because of a known miscompile, by name.
    #[serde(default)]
    pub known: BTreeMap<String, u64>,
    /// Kernels that differ by what PTX leaves open.
    #[serde(default)]
    pub left_open: BTreeMap<String, u64>,
    /// Kernels that differ, do not end or are not assembled, and nothing known explains it.
    pub unexplained: u64,
}

/// A kernel that nothing known explains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FuzzFinding {
    /// Its seed.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
    /// The compilers, with their levels, that have it; empty if the emulator disagrees with itself.
    pub builds: Vec<String>,
    /// The kernel, as small as it was made.
    pub kernel: String,
}

impl FuzzTable {
    /// A table without kernels.
    #[must_use]
    pub fn new(tool: String, device: Option<DeviceRow>, target: Target, isa: PtxIsa, seed: u64) -> Self {
        Self {
            schema: SCHEMA,
            tool,
            device,
            target: target.into(),
            isa: isa.to_string(),
            seed,
            kernels: 0,
            defects: 0,
            builds: Vec::new(),
            left_out: BTreeMap::new(),
            findings: Vec::new(),
            reached: 0,
            not_reached: Vec::new(),
        }
    }

    /// The number of comparisons of a kernel of one build with the emulator.
    #[must_use]
    pub fn compared(&self) -> u64 {
        self.builds.iter().map(|build| build.compared).sum()
    }

    /// Differences by the name of the known miscompile, over all builds.
    #[must_use]
    pub fn known(&self) -> BTreeMap<&str, u64> {
        sums(self.builds.iter().flat_map(|build| &build.known))
    }

    /// Differences by what PTX leaves open, over all builds.
    #[must_use]
    pub fn left_open(&self) -> BTreeMap<&str, u64> {
        sums(self.builds.iter().flat_map(|build| &build.left_open))
    }
}

/// The sums of counts by name.
fn sums<'a>(counts: impl Iterator<Item = (&'a String, &'a u64)>) -> BTreeMap<&'a str, u64> {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in counts {
        *all.entry(name).or_default() += count;
    }
    all
}
