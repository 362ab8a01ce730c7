//! Times of the pipeline on a GPU by stage, tile and number of tokens, compared with measured peak rates.

use ptx::arch::Target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code_by::CodeBy;
use super::document::SCHEMA;
use super::family::{ConfigurationName, StageName};
use super::file::object;
use super::named::Named;
use super::runs::DeviceRow;
use super::schema_1;

/// A bench: what was timed, on what, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchTable {
    /// The version of the format: [`SCHEMA`].
    pub schema: u32,
    /// The family of the kernels.
    pub family: String,
    /// Name and version of the tool.
    pub tool: String,
    /// The GPU.
    pub device: DeviceRow,
    /// The target that the kernels were compiled for.
    pub target: Named<Target>,
    /// The compiler of the code.
    pub code: CodeBy,
    /// The dimensions: a model's or a case's name.
    pub dimensions: String,
    /// Width of the hidden states, width between the GEMMs, number of experts, experts per token.
    pub sizes: [usize; 4],
    /// How tokens choose experts, as in a case.
    #[serde(default = "by_random")]
    pub routing: String,
    /// Rounds that are not counted.
    pub warm_up: usize,
    /// Rounds that the median is computed from.
    pub samples: usize,
    /// Bytes that are read before every launch, so that no input is in a cache.
    pub flushed: u64,
    /// Measured peak read bandwidth of the GPU's memory in bytes per second.
    pub bandwidth: f64,
    /// Measured peak rate of the tensor cores in operations per second, by path.
    pub rates: Vec<RateRow>,
    /// The times.
    pub rows: Vec<BenchRow>,
    /// The times of decode steps of attention.
    #[serde(default)]
    pub decodes: Vec<DecodeRow>,
    /// Every policy's choices.
    pub regrets: Vec<RegretRow>,
}

/// The routing of tables that do not name it.
fn by_random() -> String {
    "random".to_owned()
}

/// Why a text is not a table of times.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// It does not have the form of one.
    #[error("not a table of times of sm121probe: {0}")]
    Form(#[from] serde_json::Error),
    /// It has another schema.
    #[error("schema {0}, but this build reads schemas 1 and {SCHEMA}")]
    Schema(u64),
}

impl BenchTable {
    /// Reads a table.
    ///
    /// # Errors
    /// [`BenchError`] if the text is not a table, or has another schema.
    pub fn parse(text: &str) -> Result<Self, BenchError> {
        let mut document: serde_json::Value = serde_json::from_str(text)?;
        // The first schema had no number.
        match document.get("schema").and_then(serde_json::Value::as_u64) {
            None => schema_1::bench(&mut document),
            Some(schema) if schema == u64::from(SCHEMA) => {}
            Some(other) => return Err(BenchError::Schema(other)),
        }
        Ok(serde_json::from_value(document)?)
    }

    /// Serialises the table as JSON with one line per row, so that differences are readable.
    ///
    /// # Errors
    /// Only if serialisation itself fails.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(object(serde_json::to_value(self)?)? + "\n")
    }
}

/// The peak rate of `mma.sync` on a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateRow {
    /// The word of the configurations that it limits: `native`.
    pub path: String,
    /// The instruction.
    pub instruction: String,
    /// Multiplications and additions per second.
    pub operations: f64,
}

/// One stage of one tile for one number of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchRow {
    /// The kernel configuration.
    pub configuration: ConfigurationName,
    /// Tokens of the batch.
    pub tokens: usize,
    /// Number of experts with rows.
    pub experts: usize,
    /// The stage.
    pub stage: StageName,
    /// Median of the samples in microseconds, by the GPU's events.
    pub microseconds: f64,
    /// Minimum and maximum of the samples in microseconds.
    pub range: [f64; 2],
    /// Bytes that must be read or written at least once, including stored padding.
    pub bytes: u64,
    /// Of these, bytes of weights and their scales.
    pub weights: u64,
    /// Multiplications and additions of the rows with data; 0 for stages without a GEMM.
    pub operations: u64,
    /// Multiplications and additions of all rows, padding rows of tiles included.
    pub multiplied: u64,
    /// Bytes per time, as a share of the measured bandwidth.
    pub of_bandwidth: f64,
    /// Multiplied operations per time, as a share of the measured rate; null if the path has no such rate.
    pub of_rate: Option<f64>,
}

/// One decode step of attention over long caches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DecodeRow {
    /// The kernel configuration.
    pub configuration: ConfigurationName,
    /// The stage.
    pub stage: StageName,
    /// Requests of the batch, of one row each.
    pub batch: usize,
    /// Keys of a request.
    pub keys: usize,
    /// Splits of these keys.
    pub splits: usize,
    /// Median of the samples in microseconds, by the GPU's events.
    pub microseconds: f64,
    /// Minimum and maximum of the samples in microseconds.
    pub range: [f64; 2],
    /// Bytes of all keys and values with their block scales.
    pub bytes: u64,
    /// Bytes per time, as a share of the measured bandwidth.
    pub of_bandwidth: f64,
    /// Median in microseconds of a kernel that only reads as many bytes: of a short launch much is its start and end. Null if not measured.
    #[serde(default)]
    pub plain_read: Option<f64>,
}

impl DecodeRow {
    /// Returns bytes per second.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        self.bytes as f64 / (self.microseconds / 1e6)
    }

    /// Returns the time of the plain read as a share of this one's.
    #[must_use]
    pub fn of_plain_read(&self) -> Option<f64> {
        self.plain_read.map(|plain| plain / self.microseconds)
    }
}

/// The cost of a policy's tile compared with the best measured tile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegretRow {
    /// The policy.
    pub policy: String,
    /// The path whose tiles it chooses from.
    pub path: String,
    /// Tokens of the batch.
    pub tokens: usize,
    /// Rows of the tile it chooses.
    pub m: u32,
    /// Time of both GEMMs in microseconds with the fastest measured tile of that many rows; null if none was measured.
    pub microseconds: Option<f64>,
    /// The fastest kernel configuration.
    pub best: String,
    /// Its time in microseconds.
    pub best_microseconds: f64,
}

impl RegretRow {
    /// Returns the excess over the best time as a fraction; 0 if equal.
    #[must_use]
    pub fn regret(&self) -> Option<f64> {
        self.microseconds.map(|own| own / self.best_microseconds - 1.0)
    }
}
