//! Results of a pipeline run: stages, verdicts and the first wrong element.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words;

words! {
    /// A stage of the pipeline, in execution order.
    #[derive(PartialOrd, Ord, JsonSchema)]
    Stage {
        /// Selects experts and weights of every token from the router logits.
        Route "route",
        /// Sorts the tokens' rows by expert.
        Permute "permute",
        /// Quantizes the hidden states.
        Quantize "quantize",
        /// The first grouped GEMM.
        Fc1 "fc1",
        /// The clamped SwiGLU.
        Activation "activation",
        /// Quantizes the result of the activation.
        Requantize "requantize",
        /// The second grouped GEMM.
        Fc2 "fc2",
        /// The weighted sum of each token's rows.
        Finalize "finalize",
    }
}

words! {
    /// The verdict on a trial or a stage.
    #[derive(PartialOrd, Ord, JsonSchema)]
    Verdict {
        /// Correct within the bound.
        Pass "pass",
        /// Wrong.
        Fail "fail",
        /// Not run because admission rejects it.
        Blocked "blocked",
        /// Rejected, as expected by design.
        ExpectedAbsent "expected_absent",
        /// Not run or not judged.
        Skipped "skipped",
        /// Wrong, as in a known report.
        KnownFail "known_fail",
        /// Correct, although a known report says that it is wrong.
        UnexpectedPass "unexpected_pass",
        /// Not decided: PTX does not determine the result, or the tensors or bounds at hand do not.
        Undetermined "undetermined",
        /// The emulator does not support an instruction form.
        Unsupported "unsupported",
        /// It exceeded its time limit.
        TimedOut "timed_out",
        /// It crashed.
        Crashed "crashed",
        /// The GPU was lost.
        DeviceLost "device_lost",
        /// The trial itself is defective.
        Broken "broken",
    }
}

impl Verdict {
    /// Whether a run with this verdict conforms; a skip conforms only if nothing required the run.
    #[must_use]
    pub const fn conforms(self) -> bool {
        matches!(
            self,
            Self::Pass
                | Self::Blocked
                | Self::ExpectedAbsent
                | Self::Skipped
                | Self::KnownFail
                | Self::Undetermined
        )
    }
}

/// An element of a stage's output, with its expert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The expert; null for stages without experts (`route`, `finalize`).
    pub expert: Option<usize>,
    /// The row of the whole tensor: a permuted row, or a token if `expert` is null.
    pub row: usize,
    /// The column.
    pub col: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(expert) = self.expert {
            write!(f, "expert={expert} ")?;
        }
        write!(f, "row={} col={}", self.row, self.col)
    }
}

/// The result of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageResult {
    /// The stage.
    pub stage: Stage,
    /// Its verdict.
    pub verdict: Verdict,
    /// The largest |found − reference| / bound of all elements; the bound includes half a step of the stored format. 0 if
    /// everything is exact, infinite (`"inf"` in JSON) if a bound of 0 or a NaN rule is violated.
    #[serde(with = "infinite")]
    #[schemars(with = "infinite::Number")]
    pub worst_over_bound: f64,
    /// Number of wrong elements.
    pub mismatches: u64,
    /// The first wrong element, by row and column.
    pub place: Option<Place>,
    /// The reason if the verdict alone does not give it: why the stage was skipped, or what was found and what is allowed.
    #[serde(default)]
    pub note: String,
}

impl StageResult {
    /// Creates the result of a stage that was not judged, with the reason.
    #[must_use]
    pub fn skipped(stage: Stage, reason: impl Into<String>) -> Self {
        Self {
            stage,
            verdict: Verdict::Skipped,
            worst_over_bound: 0.0,
            mismatches: 0,
            place: None,
            note: reason.into(),
        }
    }
}

/// JSON has no infinity; it is written as the word `inf`.
mod infinite {
    use schemars::JsonSchema;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    /// The number in JSON.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(untagged)]
    pub(super) enum Number {
        /// A finite number.
        Finite(f64),
        /// `inf`.
        Word(String),
    }

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { value.serialize(to) } else { "inf".serialize(to) }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        match Number::deserialize(from)? {
            Number::Finite(value) => Ok(value),
            Number::Word(word) if word == "inf" => Ok(f64::INFINITY),
            Number::Word(word) => Err(D::Error::custom(format!("`{word}` is neither a number nor `inf`"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_read_back_with_infinity() {
        let result = StageResult {
            stage: Stage::Fc1,
            verdict: Verdict::Fail,
            worst_over_bound: f64::INFINITY,
            mismatches: 3,
            place: Some(Place { expert: Some(2), row: 7, col: 11 }),
            note: "x".to_owned(),
        };
        let text = serde_json::to_string(&result).unwrap();
        assert!(text.contains("\"inf\"") && text.contains("\"fc1\"") && text.contains("\"fail\""), "{text}");
        assert_eq!(serde_json::from_str::<StageResult>(&text).unwrap(), result);
        let finite = StageResult { worst_over_bound: 0.5, ..result };
        let text = serde_json::to_string(&finite).unwrap();
        assert_eq!(serde_json::from_str::<StageResult>(&text).unwrap(), finite);
        let odd = text.replace("0.5", "\"much\"");
        assert!(serde_json::from_str::<StageResult>(&odd).unwrap_err().to_string().contains("much"));
        assert!(serde_json::from_str::<StageResult>(&text.replace("fc1", "fc3")).is_err());
    }

    #[test]
    fn words_are_distinct_and_places_are_written_as_in_csv() {
        assert!(Stage::ALL.iter().all(|s| Stage::from_word(s.word()) == Some(*s)));
        assert!(Verdict::ALL.iter().all(|v| Verdict::from_word(v.word()) == Some(*v)));
        assert_eq!(Verdict::ALL.iter().filter(|v| v.conforms()).count(), 6);
        assert_eq!(Place { expert: Some(1), row: 2, col: 3 }.to_string(), "expert=1 row=2 col=3");
        assert_eq!(Place { expert: None, row: 2, col: 3 }.to_string(), "row=2 col=3");
    }
}
