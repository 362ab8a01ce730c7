//! How a model turns router logits into experts and weights.

use serde::Deserialize;

use record::words;

words! {
    /// How a router turns logits into scores.
    #[derive(Default)]
    Scores {
        /// Experts are chosen by logit; a softmax over the chosen ones weights them (gpt-oss).
        #[default]
        SoftmaxChosen "softmax_chosen",
        /// Softmax over all experts (Qwen3-MoE, DeepSeek-V2).
        SoftmaxAll "softmax_all",
        /// The sigmoid of each logit (DeepSeek-V3).
        Sigmoid "sigmoid",
    }
}

words! {
    /// How groups of experts are ranked.
    #[derive(Default)]
    GroupScore {
        /// By the sum of the two greatest keys (DeepSeek-V3).
        #[default]
        TopTwo "top_two",
        /// By the greatest key (DeepSeek-V2).
        Max "max",
    }
}

/// Groups of consecutive experts, of which only some may be chosen from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Groups {
    /// The number of groups (`n_group`).
    pub count: usize,
    /// The number of groups that experts are chosen from (`topk_group`).
    pub kept: usize,
    /// How groups are ranked.
    #[serde(default)]
    pub score: GroupScore,
}

/// How logits become choices and weights (docs/numerics.md, 3).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Router {
    /// How logits become scores.
    pub scores: Scores,
    /// Whether a per-expert bias is added to the score for the choice but not for the weight (`e_score_correction_bias`).
    pub correction_bias: bool,
    /// The groups of experts, if any.
    pub groups: Option<Groups>,
    /// Whether the weights of a token are divided by their sum (`norm_topk_prob`).
    pub renormalise: bool,
    /// The factor applied to the weights at the end (`routed_scaling_factor`).
    pub scaling: f32,
}

impl Default for Router {
    fn default() -> Self {
        Self::GPT_OSS
    }
}

/// The most groups that a warp can rank, one per lane.
const MOST_GROUPS: usize = 32;

impl Router {
    /// gpt-oss: softmax over the chosen logits.
    pub const GPT_OSS: Self = Self {
        scores: Scores::SoftmaxChosen,
        correction_bias: false,
        groups: None,
        renormalise: true,
        scaling: 1.0,
    };

    /// Checks that it can choose `top_k` of `experts`.
    ///
    /// # Errors
    /// The reason why it cannot.
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
