//! The stages of the pipeline.

use record::{StageName, words};

words! {
    /// A stage of the pipeline, in execution order.
    #[derive(PartialOrd, Ord)]
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

impl Stage {
    /// Reads a name of the record; `None` if this build does not know it.
    #[must_use]
    pub fn from_name(name: &StageName) -> Option<Self> {
        Self::from_word(name.text())
    }

    /// Returns what it does, in a sentence.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Route => "selects experts and weights of every token",
            Self::Permute => "sorts the tokens' rows by expert",
            Self::Quantize => "quantizes the hidden states",
            Self::Fc1 => "the first grouped GEMM",
            Self::Activation => "the clamped SwiGLU",
            Self::Requantize => "quantizes the result of the activation",
            Self::Fc2 => "the second grouped GEMM",
            Self::Finalize => "the weighted sum of each token's rows",
        }
    }
}

impl From<Stage> for StageName {
    fn from(stage: Stage) -> Self {
        stage.word().into()
    }
}

impl PartialEq<Stage> for StageName {
    fn eq(&self, stage: &Stage) -> bool {
        self == stage.word()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_reads_back_from_its_name() {
        for stage in Stage::ALL {
            let name = StageName::from(*stage);
            assert!(name == *stage && Stage::from_name(&name) == Some(*stage) && !stage.about().is_empty());
        }
        assert_eq!(Stage::from_name(&"fc3".into()), None);
    }
}
