//! Trials of the pipeline in the record: a case, a tile and how it was compiled, with what every stage got.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pipeline::{StageResult, Verdict};

/// One trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRow {
    /// The case.
    pub case: String,
    /// The tile, `MxNxK`.
    pub tile: String,
    /// Whether channels were the 16-row side of the mma.
    pub swap_ab: bool,
    /// Tiles in flight.
    pub stages: u32,
    /// `cp_async` or `tma`.
    pub load: String,
    /// `native` or `portable`.
    pub kernel_path: String,
    /// What the kernels were compiled for.
    pub target: String,
    /// What ran them.
    pub device: String,
    /// The stages in order. One entry without results stands for a trial that did not run; its note is the sentence.
    pub results: Vec<StageResult>,
}

impl TrialRow {
    /// The first stage that does not conform.
    #[must_use]
    pub fn first_wrong(&self) -> Option<&StageResult> {
        self.results.iter().find(|r| !r.verdict.conforms())
    }

    /// The trial in one word: that of the first stage that does not conform, else `pass` where anything passed, else that of
    /// the first stage.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let passed = self.results.iter().any(|r| r.verdict == Verdict::Pass);
        match self.first_wrong() {
            Some(wrong) => wrong.verdict,
            None if passed => Verdict::Pass,
            None => self.results.first().map_or(Verdict::Skipped, |r| r.verdict),
        }
    }
}
