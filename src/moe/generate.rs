//! Makes problems: routing first, then activations and weights of the routed experts.

mod activations;
mod logits;
mod weights;

use super::checkpoint::Layer;
use super::contract::Settings;
use super::dims::Dims;
use super::error::MoeError;
use super::problem::Problem;
use super::reference::route;
use super::tensors::{Array, Tensors};
use crate::case::{Case, Regime, Routing};

/// Tensors of one problem that are too many for a workstation.
const MEMORY_LIMIT: u128 = 4 << 30;

/// Distinct exponents of neighbouring scales in the regimes `exact` and `impulse`.
const WINDOW: usize = 4;

/// The problem of `case` and `seed`, with the weights of `layer` where there is one.
pub(super) fn problem(case: &Case, seed: u64, layer: Option<&Layer>) -> Result<Problem, MoeError> {
    layer.map_or(Ok(()), |layer| layer.fits(case))?;
    let dims = Dims::of(case);
    let few = |what: &str, bytes: u128| {
        if bytes > MEMORY_LIMIT {
            return Err(MoeError::TooLarge {
                what: format!("case `{}`: {what}", case.name),
                bytes,
                limit: MEMORY_LIMIT,
            });
        }
        Ok(())
    };
    let (tokens, rows) = (dims.tokens as u128, dims.rows() as u128);
    few("the logits", 4 * tokens * dims.experts as u128)?;
    // bf16 in and out, and per row codes and both GEMMs' results.
    let per_row = 3 * dims.hidden as u128 + 5 * dims.inter as u128;
    few("activations", 4 * tokens * dims.hidden as u128 + rows * per_row)?;

    let router = layer.filter(|_| case.routing == Routing::Random);
    // Real values do not depend on where a token is routed, so that the router can be asked first.
    let logits = match router {
        Some(layer) => layer.logits(&activations::hidden(case, &dims, seed, &[]))?,
        None => logits::logits(case, &dims, seed),
    };
    let choices: Vec<Vec<usize>> =
        logits.chunks(dims.experts).map(|row| route::top_k(row, dims.top_k)).collect();
    let rows = route::permute(&choices);
    let mut experts: Vec<usize> = rows.iter().map(|r| r.expert).collect();
    experts.dedup();
    few("the weights of its routed experts", experts.len() as u128 * dims.expert_bytes())?;

    let hidden = activations::hidden(case, &dims, seed, &rows);
    let mut inputs = Tensors {
        hidden_states: Some(Array::new("hidden_states", &[dims.tokens, dims.hidden], hidden)?),
        router_logits: Some(Array::new("router_logits", &[dims.tokens, dims.experts], logits)?),
        expert_ids: Some(Array::new(
            "expert_ids",
            &[experts.len()],
            experts.iter().map(|e| *e as i32).collect(),
        )?),
        ..Tensors::default()
    };
    match layer {
        Some(layer) => layer.weights(case.gate_up, &experts, &mut inputs)?,
        None => weights::weights(case, &dims, seed, &experts, &mut inputs)?,
    }
    let injected_a2 = match case.regime {
        Regime::Exact | Regime::Impulse => Some(activations::injected(case, &dims, seed, &rows)?),
        Regime::Real | Regime::Special => None,
    };
    Ok(Problem { dims, settings: Settings::of(case), seed, inputs, injected_a2 })
}

/// Exponents in which neighbours differ: in k (`block`) and its groups of four, in the row and the groups of 8, 32 and 128
/// rows of scale layouts, and in the expert.
const fn window(expert: usize, row: usize, block: usize) -> usize {
    (block + block / 4 + row + row / 8 + row / 32 + 2 * (row / 128) + expert) % WINDOW
}
