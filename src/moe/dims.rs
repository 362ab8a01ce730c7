//! The dimensions of a problem.

use crate::case::Case;

/// Elements that share one scale.
pub const BLOCK: usize = 32;

/// Dimensions; those that nothing tells (a dump without the tensors that have them) are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Dims {
    /// Tokens T.
    pub tokens: usize,
    /// Width H of hidden states.
    pub hidden: usize,
    /// Width I between the GEMMs.
    pub inter: usize,
    /// Experts E of the model, routed or not.
    pub experts: usize,
    /// Experts k of a token.
    pub top_k: usize,
}

impl Dims {
    /// Those of a case.
    #[must_use]
    pub const fn of(case: &Case) -> Self {
        Self {
            tokens: case.tokens,
            hidden: case.hidden,
            inter: case.inter,
            experts: case.experts,
            top_k: case.top_k,
        }
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
    pub const fn expert_bytes(&self) -> u128 {
        let weights = 3 * self.hidden as u128 * self.inter as u128;
        weights / 2 + weights / BLOCK as u128 + 4 * (self.fc1_cols() + self.hidden) as u128
    }
}
