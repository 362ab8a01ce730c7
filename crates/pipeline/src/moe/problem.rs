//! A problem: the inputs of one run of the pipeline, made from a case and a seed.

use super::checkpoint::Layer;
use super::contract::Settings;
use super::dims::Dims;
use super::error::MoeError;
use super::tensors::{Array, Tensors};
use crate::case::Case;

/// What the host puts in place of the activation's result before the second GEMM.
#[derive(Debug, Clone, PartialEq)]
pub struct InjectedA2 {
    /// e4m3 codes [R, I].
    pub codes: Array<u8>,
    /// Scales [R, I/32].
    pub scales: Array<u8>,
    /// Global scales `[R]`, where tokens have some.
    pub token_scales: Option<Array<f32>>,
}

/// The inputs of one run, and the rules that no kernel chooses.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Dimensions.
    pub dims: Dims,
    /// Rules that no kernel chooses.
    pub settings: Settings,
    /// The seed.
    pub seed: u64,
    /// `hidden_states`, `router_logits`, and for the routed experts, named by `expert_ids` in ascending order,
    /// `w13_blocks`, `w13_scales`, `w13_bias`, `w2_blocks`, `w2_scales` and `w2_bias`.
    pub inputs: Tensors,
    /// In the regimes `exact` and `impulse`.
    pub injected_a2: Option<InjectedA2>,
}

/// Makes the inputs of `case`. Every value is a function of (seed, tensor, expert, index) alone.
///
/// # Errors
/// [`MoeError::TooLarge`] when the tensors would not fit in memory.
pub fn generate(case: &Case, seed: u64) -> Result<Problem, MoeError> {
    super::generate::problem(case, seed, None)
}

/// Makes the inputs of `case` with the weights of a checkpoint's layer. Where the case routes at random, the layer's router
/// chooses; other ways to route stay the case's.
///
/// # Errors
/// As [`generate`], and [`MoeError::Checkpoint`] when the case does not fit or the file cannot be read.
pub fn of_layer(case: &Case, seed: u64, layer: &Layer) -> Result<Problem, MoeError> {
    super::generate::problem(case, seed, Some(layer))
}

/// A problem for timing: the case's routing over all its experts, biases of zero, neither hidden states nor weights; and the rows of
/// every expert.
///
/// # Errors
/// As [`generate`].
pub fn for_timing(case: &Case, seed: u64) -> Result<(Problem, Vec<usize>), MoeError> {
    super::generate::for_timing(case, seed)
}

/// Problems of the same weights that fit one set of buffers, so that a graph captured with the first can be replayed with the
/// others: the case's own routing, one by chance, one in which all tokens choose the same experts, and one in which half of
/// the tokens are padding, followed by the problem of the other half alone. A case of one token has only three. The weights
/// are those of `layer` where there is one.
///
/// # Errors
/// As [`of_layer`], when the weights of all their experts would not fit in memory.
pub fn variants(case: &Case, seed: u64, layer: Option<&Layer>) -> Result<Vec<Problem>, MoeError> {
    super::generate::variants(case, seed, layer)
}
