//! How a model turns router logits into experts and weights.

use serde::Deserialize;

use record::words;

words! {
    /// What a router makes of its logits before it weighs experts.
    #[derive(Default)]
    Scores {
        /// The logits choose; softmax over the chosen ones weighs (gpt-oss).
        #[default]
        SoftmaxChosen "softmax_chosen",
        /// Softmax over all experts (Qwen3-MoE, DeepSeek-V2).
        SoftmaxAll "softmax_all",
        /// The sigmoid of each logit (DeepSeek-V3).
        Sigmoid "sigmoid",
    }
}

words! {
    /// By what groups of experts are compared.
    #[derive(Default)]
    GroupScore {
        /// The sum of the two greatest keys (DeepSeek-V3).
        #[default]
        TopTwo "top_two",
        /// The greatest key (DeepSeek-V2).
        Max "max",
    }
}

/// Experts in groups of neighbours, of which only some may be chosen from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Groups {
    /// Groups (`n_group`).
    pub count: usize,
    /// How many of them experts are chosen from (`topk_group`).
    pub kept: usize,
    /// By what they are compared.
    #[serde(default)]
    pub score: GroupScore,
}

/// From logits to choices and weights (docs/numerics.md, 3).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Router {
    /// What logits become.
    pub scores: Scores,
    /// Whether a bias for each expert is added to its score for the choice, not for the weight (`e_score_correction_bias`).
    pub correction_bias: bool,
    /// The groups, where there are any.
    pub groups: Option<Groups>,
    /// Whether the weights of a token are divided by their sum (`norm_topk_prob`).
    pub renormalise: bool,
    /// What the weights are multiplied with in the end (`routed_scaling_factor`).
    pub scaling: f32,
}

impl Default for Router {
    fn default() -> Self {
        Self::GPT_OSS
    }
}

/// Groups that a warp can compare, one a lane.
const MOST_GROUPS: usize = 32;

impl Router {
    /// Softmax over the chosen logits.
    pub const GPT_OSS: Self = Self {
        scores: Scores::SoftmaxChosen,
        correction_bias: false,
        groups: None,
        renormalise: true,
        scaling: 1.0,
    };

    /// Why it cannot choose `top_k` of `experts`.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self, experts: usize, top_k: usize) -> Result<(), String> {
        let plain = !self.correction_bias && self.groups.is_none() && self.renormalise;
        if self.scores == Scores::SoftmaxChosen && !plain {
            return Err("`router`: softmax over the chosen logits has no correction bias and no groups, and its weights \
                        add up to 1; use `scores: softmax_all` or `scores: sigmoid`"
                .to_owned());
        }
        if !self.scaling.is_finite() || self.scaling <= 0.0 {
            return Err(format!("`router`: scaling is {}; it must be finite and above 0", self.scaling));
        }
        let Some(Groups { count, kept, score }) = self.groups else { return Ok(()) };
        if count == 0 || count > MOST_GROUPS || !experts.is_multiple_of(count) {
            return Err(format!(
                "`router`: {experts} experts do not divide into {count} groups; use a divisor up to {MOST_GROUPS}"
            ));
        }
        let size = experts / count;
        if kept == 0 || kept > count || kept * size < top_k {
            return Err(format!(
                "`router`: {kept} of {count} groups of {size} experts do not give {top_k} choices"
            ));
        }
        if score == GroupScore::TopTwo && size < 2 {
            return Err("`router`: groups of one expert have no two keys; use `score: max`".to_owned());
        }
        Ok(())
    }
}
