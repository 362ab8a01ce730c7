//! Times of the pipeline on a GPU by stage, tile and number of tokens, compared with measured peak rates.

use ptx::arch::Target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code_by::CodeBy;
use super::configuration::{ConfigurationKey, MmaPath};
use super::file::object;
use super::named::Named;
use super::pipeline::Stage;
use super::runs::DeviceRow;

/// A bench: what was timed, on what, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchTable {
    /// Name and version of the tool.
    pub tool: String,
    /// The GPU.
    pub device: DeviceRow,
    /// What the kernels were compiled for.
    pub target: Named<Target>,
    /// Who made the code.
    pub code: CodeBy,
    /// The dimensions: a model's or a case's name.
    pub dimensions: String,
    /// Width of hidden states, width between the GEMMs, experts, experts of a token.
    pub sizes: [usize; 4],
    /// How tokens choose experts: the word of a case.
    #[serde(default = "by_random")]
    pub routing: String,
    /// Rounds that are not counted.
    pub warm_up: usize,
    /// Rounds of which the median is taken.
    pub samples: usize,
    /// Bytes that are read in front of every launch, so that caches hold nothing of its inputs.
    pub flushed: u64,
    /// Bytes per second that the GPU reads from memory at most, measured.
    pub bandwidth: f64,
    /// Operations per second of the tensor cores at most, measured, by path.
    pub rates: Vec<RateRow>,
    /// The times.
    pub rows: Vec<BenchRow>,
    /// Every policy's choices.
    pub regrets: Vec<RegretRow>,
}

/// The routing of tables that do not name it.
fn by_random() -> String {
    "random".to_owned()
}

impl BenchTable {
    /// Serialises the table as JSON with one line per row, so that differences are readable.
    ///
    /// # Errors
    /// Only if serialisation itself fails.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(object(serde_json::to_value(self)?)? + "\n")
    }
}

/// What `mma.sync` of a path does at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateRow {
    /// `native` or `portable`.
    #[serde(rename = "kernel_path")]
    pub path: Named<MmaPath>,
    /// The instruction.
    pub instruction: String,
    /// Multiplications and additions per second.
    pub operations: f64,
}

/// One stage of one tile for one number of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchRow {
    /// The kernel configuration.
    #[serde(flatten)]
    pub configuration: ConfigurationKey,
    /// Tokens of the batch.
    pub tokens: usize,
    /// Experts that have rows.
    pub experts: usize,
    /// The stage.
    pub stage: Stage,
    /// Median of the samples, by the GPU's own events.
    pub microseconds: f64,
    /// The least and the most.
    pub range: [f64; 2],
    /// Bytes that must be read or written once, padding as stored counted.
    pub bytes: u64,
    /// Of these, weights and their scales.
    pub weights: u64,
    /// Multiplications and additions of the rows that are there; 0 for stages without a GEMM.
    pub operations: u64,
    /// The same with the rows that fill tiles up.
    pub multiplied: u64,
    /// Bytes over time over the measured bandwidth.
    pub of_bandwidth: f64,
    /// Multiplied operations over time over the measured rate; none where the path has no such rate.
    pub of_rate: Option<f64>,
}

/// What a policy's tile costs against the best that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegretRow {
    /// The policy.
    pub policy: String,
    /// The path among whose tiles it chooses.
    #[serde(rename = "kernel_path")]
    pub path: Named<MmaPath>,
    /// Tokens of the batch.
    pub tokens: usize,
    /// Rows of the tile it chooses.
    pub m: u32,
    /// Both GEMMs with the fastest measured tile of so many rows; none where none was measured.
    pub microseconds: Option<f64>,
    /// The fastest of all.
    pub best: String,
    /// Its time.
    pub best_microseconds: f64,
}

impl RegretRow {
    /// Returns the excess over the best time as a fraction; 0 if equal.
    #[must_use]
    pub fn regret(&self) -> Option<f64> {
        self.microseconds.map(|own| own / self.best_microseconds - 1.0)
    }
}
