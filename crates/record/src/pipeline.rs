//! Results of a pipeline run: stages, verdicts and the first wrong element.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words;

words! {
    /// One step of the pipeline, in the order in which they run.
    #[derive(PartialOrd, Ord, JsonSchema)]
    Stage {
        /// Router logits to the experts and weights of every token.
        Route "route",
        /// Tokens to rows ordered by expert.
        Permute "permute",
        /// Hidden states to MXFP8.
        Quantize "quantize",
        /// The first grouped GEMM.
        Fc1 "fc1",
        /// The clamped SwiGLU.
        Activation "activation",
        /// Its result to MXFP8.
        Requantize "requantize",
        /// The second grouped GEMM.
        Fc2 "fc2",
        /// The weighted sum of each token's rows.
        Finalize "finalize",
    }
}

words! {
    /// What is said of a trial or a stage.
    #[derive(PartialOrd, Ord, JsonSchema)]
    Verdict {
        /// Right, within the bound.
        Pass "pass",
        /// Wrong.
        Fail "fail",
        /// Not run, since admission forbids it.
        Blocked "blocked",
        /// Refused by design, and it was refused.
        ExpectedAbsent "expected_absent",
        /// Not run or not judged.
        Skipped "skipped",
        /// Wrong as a known report says.
        KnownFail "known_fail",
        /// Right where a known report says it is wrong.
        UnexpectedPass "unexpected_pass",
        /// PTX leaves the answer open.
        Undetermined "undetermined",
        /// The emulator lacks a form.
        Unsupported "unsupported",
        /// It did not end in time.
        TimedOut "timed_out",
        /// It died.
        Crashed "crashed",
        /// The GPU is gone.
        DeviceLost "device_lost",
        /// The trial itself is wrong.
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

/// An element of a stage's output, by the expert it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The expert; none where a stage knows no experts (`route`, `finalize`).
    pub expert: Option<usize>,
    /// The row of the whole tensor: a permuted row, or a token where `expert` is none.
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

/// How one stage stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageResult {
    /// The stage.
    pub stage: Stage,
    /// What is said of it.
    pub verdict: Verdict,
    /// The largest |found − reference| / bound of all elements, half a step of the stored format counted into the bound:
    /// 0 where everything is exact, infinite where a bound of 0 or a rule of NaN is violated (`"inf"` in JSON).
    #[serde(with = "infinite")]
    #[schemars(with = "infinite::Number")]
    pub worst_over_bound: f64,
    /// Elements that are wrong.
    pub mismatches: u64,
    /// The first element that is wrong, by row and column.
    pub place: Option<Place>,
    /// Why, where the verdict does not say it: the sentence of a skip, what was found and what is allowed.
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
        /// A finite one.
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
