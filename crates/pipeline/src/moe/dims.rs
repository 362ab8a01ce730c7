//! The dimensions of a problem.

use crate::moe::case::{Case, FormatPair};

/// Elements that share an MX scale: dimensions are multiples of it in every format.
pub const BLOCK: usize = 32;

/// Dimensions; an unknown one (in a dump without the tensors that have it) is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Dims {
    /// Tokens T.
    pub tokens: usize,
    /// Width H of hidden states.
    pub hidden: usize,
    /// Width I between the GEMMs.
    pub inter: usize,
    /// Experts E, shared ones last.
    pub experts: usize,
    /// Experts k per token, shared ones last.
    pub top_k: usize,
    /// Shared experts, counted in both: every token visits them with weight 1, and the router does not see them.
    pub shared: usize,
}

impl Dims {
    /// Returns the dimensions of a case.
    #[must_use]
    pub const fn from_case(case: &Case) -> Self {
        Self {
            tokens: case.tokens,
            hidden: case.hidden,
            inter: case.inter,
            experts: case.experts + case.shared_experts,
            top_k: case.top_k + case.shared_experts,
            shared: case.shared_experts,
        }
    }

    /// The dimensions in words; those that are unknown are left out.
    #[must_use]
    pub fn words(&self) -> String {
        let known = [
            (self.tokens, "tokens"),
            (self.hidden, "hidden"),
            (self.inter, "inter"),
            (self.experts, "experts"),
            (self.top_k, "experts per token"),
        ];
        let parts: Vec<String> =
            known.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        parts.join(", ")
    }

    /// Experts that the router chooses from.
    #[must_use]
    pub const fn routed(&self) -> usize {
        self.experts.saturating_sub(self.shared)
    }

    /// Experts that the router chooses for a token.
    #[must_use]
    pub const fn chosen(&self) -> usize {
        self.top_k.saturating_sub(self.shared)
    }

    /// Permuted rows R = T·k.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.tokens * self.top_k
    }

    /// Columns of the first GEMM: 2·I.
    #[must_use]
    pub const fn fc1_cols(&self) -> usize {
        2 * self.inter
    }

    /// Bytes of one expert's weights, scales and biases.
    #[must_use]
    pub const fn expert_bytes(&self, pair: FormatPair) -> u128 {
        let weights = 3 * self.hidden as u128 * self.inter as u128;
        let bits = pair.weight().element().bits() as u128;
        weights * bits / 8 + weights / pair.block() as u128 + 4 * (self.fc1_cols() + self.hidden) as u128
    }
}
