//! A problem: the inputs of one run of the pipeline, generated from a case and a seed.

use super::checkpoint::Layer;
use super::contract::Settings;
use super::dims::Dims;
use super::error::MoeError;
use super::tensors::{Array, Tensors};
use crate::moe::case::Case;

/// The host's replacement for the activation's result before the second GEMM.
#[derive(Debug, Clone, PartialEq)]
pub struct InjectedA2 {
    /// Codes [R, bytes of I].
    pub codes: Array<u8>,
    /// Scales [R, blocks of I].
    pub scales: Array<u8>,
    /// Global scales `[R]`, if tokens have some.
    pub token_scales: Option<Array<f32>>,
}

/// The inputs of one run, and the rules that all kernels share.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Dimensions.
    pub dims: Dims,
    /// Rules that all kernels share.
    pub settings: Settings,
    /// The seed.
    pub seed: u64,
    /// `hidden_states`, `router_logits`, and for the routed experts, named by `expert_ids` in ascending order,
    /// `w13_blocks`, `w13_scales`, `w13_bias`, `w2_blocks`, `w2_scales` and `w2_bias`; with global scales and the router's correction
    /// bias, if any.
    pub inputs: Tensors,
    /// Present in the regimes `exact` and `impulse`.
    pub injected_a2: Option<InjectedA2>,
}

/// Generates the inputs of `case`. Every value is a function of (seed, tensor, expert, index) alone.
///
/// # Errors
/// [`MoeError::TooLarge`] if the tensors would not fit in memory.
pub fn generate(case: &Case, seed: u64) -> Result<Problem, MoeError> {
    super::generate::problem(case, seed, None)
}

/// Generates the inputs of `case` with the weights of a checkpoint's layer. If the case routes at random, the layer's router
/// chooses; other routings remain those of the case.
///
/// # Errors
/// Same as [`generate`], and [`MoeError::Checkpoint`] if the case does not fit or the file cannot be read.
pub fn of_layer(case: &Case, seed: u64, layer: &Layer) -> Result<Problem, MoeError> {
    super::generate::problem(case, seed, Some(layer))
}

/// Generates a problem for timing: the case's routing over all its experts, zero biases, neither hidden states nor weights; also returns
/// the rows of every expert.
///
/// # Errors
/// Same as [`generate`].
pub fn for_timing(case: &Case, seed: u64) -> Result<(Problem, Vec<usize>), MoeError> {
    super::generate::for_timing(case, seed)
}

/// Generates problems with the same weights for one set of buffers, so that a graph captured with the first can be replayed with the
/// others: the case's own routing, a random one, one in which all tokens choose the same experts, and one in which half of
/// the tokens are padding, followed by the problem of the other half alone. A case of one token has only three. The weights
/// are those of `layer`, if any.
///
/// # Errors
/// Same as [`of_layer`], if the weights of all their experts would not fit in memory.
pub fn variants(case: &Case, seed: u64, layer: Option<&Layer>) -> Result<Vec<Problem>, MoeError> {
    super::generate::variants(case, seed, layer)
}
