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
    /// What the kernels cost although they run, such as spills; empty where nothing or where no assembler was asked.
    #[serde(default)]
    pub remark: String,
    /// The stages in order. One entry without results stands for a trial that did not run; its note is the sentence.
    pub results: Vec<StageResult>,
}

impl TrialRow {
    /// The first stage that does not conform.
    #[must_use]
    pub fn first_wrong(&self) -> Option<&StageResult> {
        self.results.iter().find(|r| !r.verdict.conforms())
    }

    /// The trial in one word: that of the first stage that does not conform, else `known_fail` where one failed as reported,
    /// else `pass` where anything passed, else that of the first stage.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let any = |verdict: Verdict| self.results.iter().any(|r| r.verdict == verdict).then_some(verdict);
        let wrong = self.first_wrong().map(|wrong| wrong.verdict);
        wrong
            .or_else(|| any(Verdict::KnownFail))
            .or_else(|| any(Verdict::Pass))
            .unwrap_or_else(|| self.results.first().map_or(Verdict::Skipped, |r| r.verdict))
    }

    /// Whether it ran and something was judged.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        matches!(self.verdict(), Verdict::Pass | Verdict::KnownFail) || self.first_wrong().is_some()
    }
}
