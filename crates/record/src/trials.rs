//! Trials in the record: a case of a family, a kernel configuration and its target, with the result of every stage.

use ptx::arch::Target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code_by::CodeBy;
use super::elapsed::Elapsed;
use super::family::ConfigurationName;
use super::named::Named;
use super::stage_result::{StageResult, Verdict};
use crate::words;

words! {
    /// A check of a trial or of a variant on a device; no check implies another.
    #[derive(PartialOrd, Ord, JsonSchema)]
    Check {
        /// The device loads the code.
        Loads "loads",
        /// Every launch ends, and no guard zone is written.
        Runs "runs",
        /// Every stage is correct within its bound.
        Correct "correct",
        /// All stored bits equal the emulator's.
        AsEmulator "as_emulator",
        /// A hundred replays store the same bits.
        Deterministic "deterministic",
        /// Kernels that start before their predecessor has ended store the same bits.
        Pdl "pdl",
        /// A graph stores the correct bits for a routing other than the captured one.
        Graph "graph",
    }
}

/// The name of the emulator as a device of trials.
pub const EMULATOR: &str = "emulator";

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckResult {
    /// The check.
    pub check: Check,
    /// Its verdict.
    pub verdict: Verdict,
    /// What the check ran, or why it did not pass.
    #[serde(default)]
    pub note: String,
}

/// One trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRow {
    /// The family of its kernels.
    pub family: String,
    /// The case.
    pub case: String,
    /// The kernel configuration.
    pub configuration: ConfigurationName,
    /// Tiles in flight in its main loop; 0 if it has none.
    #[serde(default)]
    pub depth: u32,
    /// The target that the kernels were compiled for.
    pub target: Named<Target>,
    /// The device that ran them.
    pub device: String,
    /// Costs of the kernels, such as spills, and the requested contraction of products and sums; empty if there are none or no
    /// assembler was used.
    #[serde(default)]
    pub remark: String,
    /// The stages in order. A single entry without results represents a trial that did not run; its note gives the reason.
    pub results: Vec<StageResult>,
    /// The compiler of the code that the device ran: `ptxas 13.5.37`, `the driver's JIT`; empty on the emulator, which runs PTX.
    #[serde(default, skip_serializing_if = "CodeBy::is_nobody")]
    pub code: CodeBy,
    /// The checks, on a device other than the emulator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckResult>,
    /// How long the trial took, in the run that made this record.
    #[serde(default, skip_serializing_if = "Elapsed::is_unknown")]
    pub seconds: Elapsed,
}

impl TrialRow {
    /// Returns the first stage that does not conform.
    #[must_use]
    pub fn first_wrong(&self) -> Option<&StageResult> {
        self.results.iter().find(|r| !r.verdict.conforms())
    }

    /// Returns the first check that does not conform although every stage does.
    #[must_use]
    pub fn wrong_check(&self) -> Option<&CheckResult> {
        let check = self.checks.iter().find(|r| !r.verdict.conforms());
        check.filter(|_| self.first_wrong().is_none())
    }

    /// Whether every stage and every check conforms.
    #[must_use]
    pub fn conforms(&self) -> bool {
        self.first_wrong().is_none() && self.wrong_check().is_none()
    }

    /// Returns the verdict of the trial: that of the first stage or check that does not conform, else `known_fail` if a stage failed
    /// as reported, else `pass` if a stage passed, else that of the first stage.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let any = |verdict: Verdict| self.results.iter().any(|r| r.verdict == verdict).then_some(verdict);
        let check = || self.wrong_check().map(|wrong| wrong.verdict);
        let wrong = self.first_wrong().map(|wrong| wrong.verdict).or_else(check);
        wrong
            .or_else(|| any(Verdict::KnownFail))
            .or_else(|| any(Verdict::Pass))
            .unwrap_or_else(|| self.results.first().map_or(Verdict::Skipped, |r| r.verdict))
    }

    /// Whether it ran and was judged.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        matches!(self.verdict(), Verdict::Pass | Verdict::KnownFail) || !self.conforms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_words_of_another_version_is_kept() {
        let known = r#"{"family":"moe","case":"c","configuration":"8x64x128 swap_ab native tma","depth":4,
            "target":"sm_121a","device":"gpu:0","remark":"","results":[],"code":"ptxas 13.5.37",
            "checks":[{"check":"loads","verdict":"pass","note":""}]}"#;
        let unknown = known
            .replace("\"moe\"", "\"conv\"")
            .replace("8x64x128", "12x64x128")
            .replace("tma\"", "tma_multicast\"")
            .replace("sm_121a", "sm_999")
            .replace("ptxas 13.5.37", "nvcc");
        for text in [known, &unknown] {
            let row: TrialRow = serde_json::from_str(text).unwrap();
            let (before, after): (serde_json::Value, serde_json::Value) =
                (serde_json::from_str(text).unwrap(), serde_json::to_value(&row).unwrap());
            assert_eq!(before, after);
            assert_eq!(row.target.known().is_some(), text == known);
        }
        // A check that this build does not know remains an error.
        let error =
            serde_json::from_str::<TrialRow>(&known.replace("loads", "flies")).unwrap_err().to_string();
        assert!(error.contains("unknown variant `flies`"), "{error}");
    }
}
