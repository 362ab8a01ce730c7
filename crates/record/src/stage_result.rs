//! Results of a trial: stages, verdicts and the first wrong element.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::family::{Place, StageName};
use crate::words;

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

/// The result of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageResult {
    /// The stage.
    pub stage: StageName,
    /// Its verdict.
    pub verdict: Verdict,
    /// The largest |found − reference| / bound of all elements; the bound includes half a step of the stored format. 0 if
    /// everything is exact, infinite (`"inf"` in JSON) if a bound of 0 or a NaN rule is violated.
    #[serde(with = "infinite")]
    #[schemars(with = "infinite::Number")]
    pub worst_over_bound: f64,
    /// Number of wrong elements.
    pub mismatches: u64,
    /// The first wrong element, in the order of the output.
    pub place: Option<Place>,
    /// The reason if the verdict alone does not give it: why the stage was skipped, or what was found and what is allowed.
    #[serde(default)]
    pub note: String,
}

impl StageResult {
    /// Creates the result of a stage that was not judged, with the reason.
    #[must_use]
    pub fn skipped(stage: impl Into<StageName>, reason: impl Into<String>) -> Self {
        Self {
            stage: stage.into(),
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
            stage: "fc1".into(),
            verdict: Verdict::Fail,
            worst_over_bound: f64::INFINITY,
            mismatches: 3,
            place: Some(Place::at(&[("expert", 2), ("row", 7), ("col", 11)])),
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
    }

    #[test]
    fn words_are_distinct() {
        assert!(Verdict::ALL.iter().all(|v| Verdict::from_word(v.word()) == Some(*v)));
        assert_eq!(Verdict::ALL.iter().filter(|v| v.conforms()).count(), 6);
    }
}
