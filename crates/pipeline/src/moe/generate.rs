//! Generates problems: routing first, then activations and weights of the routed experts.

mod activations;
mod globals;
mod logits;
mod weights;

use super::checkpoint::Layer;
use super::contract::Settings;
use super::dims::Dims;
use super::error::MoeError;
use super::format::BlockScale;
use super::problem::Problem;
use super::reference::{formats, route};
use super::tensors::{Array, Tensors};
use crate::moe::case::{Case, Format, FormatPair, Regime, Routing};

/// The memory limit for the tensors of one problem, in bytes, chosen for a workstation.
const MEMORY_LIMIT: u128 = 4 << 30;

/// The global scales of timed problems.
const TIMED_GLOBAL: f32 = 1.0 / 1024.0;

/// Derives the seed of other tokens.
const OTHER: u64 = 0x5EED_0000;

/// Distinct exponents of neighbouring scales in the regimes `exact` and `impulse`.
const WINDOW: usize = 4;

/// Generates the problem of `case` and `seed`, with the weights of `layer` if present.
pub(super) fn problem(case: &Case, seed: u64, layer: Option<&Layer>) -> Result<Problem, MoeError> {
    layer.map_or(Ok(()), |layer| layer.fits(case))?;
    let dims = Dims::from_case(case);
    let few = |what: &str, bytes: u128| few(case, what, bytes);
    let (tokens, all_rows) = (dims.tokens as u128, dims.rows() as u128);
    few("the logits", 4 * tokens * dims.routed() as u128)?;
    // bf16 in and out, and per row codes and both GEMMs' results.
    let per_row = 3 * dims.hidden as u128 + 5 * dims.inter as u128;
    few("activations", 4 * tokens * dims.hidden as u128 + all_rows * per_row)?;

    let logits = router_logits(case, &dims, seed, layer)?;
    let bias = correction(case, &dims, seed, layer)?.unwrap_or_default();
    let rows = rows(case, &dims, &logits, &bias);
    let hidden = activations::hidden(case, &dims, seed, &rows);
    // Where rounding decides, the device may choose otherwise.
    let experts = route::possible(&case.router, &dims, &logits, &bias);
    let mut problem = with_weights(case, seed, layer, &experts, hidden, logits)?;
    problem.injected_a2 = match case.regime {
        Regime::Exact | Regime::Impulse => Some(activations::injected(case, &dims, seed, &rows)?),
        Regime::Real | Regime::Special => None,
    };
    Ok(problem)
}

/// The routing of `case` over all experts, and the rows of each.
pub(super) fn for_timing(case: &Case, seed: u64) -> Result<(Problem, Vec<usize>), MoeError> {
    let dims = Dims::from_case(case);
    few(case, "the logits", 4 * dims.tokens as u128 * dims.routed() as u128)?;
    few(case, "the weights of all experts", dims.experts as u128 * dims.expert_bytes(case.pair))?;
    let logits = logits::logits(case, &dims, seed);
    let counts = rows_of_experts(case, seed);
    let (e, n, h) = (dims.experts, dims.fc1_cols(), dims.hidden);
    let inputs = Tensors {
        router_logits: Some(Array::new("router_logits", &[dims.tokens, dims.routed()], logits)?),
        correction_bias: bias(case, &dims, seed, None)?,
        expert_ids: Some(Array::new("expert_ids", &[e], (0..e).map(|e| e as i32).collect())?),
        w13_bias: Some(Array::new("w13_bias", &[e, n], vec![0.0; e * n])?),
        w2_bias: Some(Array::new("w2_bias", &[e, h], vec![0.0; e * h])?),
        a1_global: Some(Array::new("a1_global", &[e], vec![TIMED_GLOBAL; e])?),
        a2_global: Some(Array::new("a2_global", &[e], vec![TIMED_GLOBAL; e])?),
        w13_global: Some(Array::new("w13_global", &[e], vec![TIMED_GLOBAL; e])?),
        w2_global: Some(Array::new("w2_global", &[e], vec![TIMED_GLOBAL; e])?),
        ..Tensors::default()
    };
    Ok((Problem { dims, settings: Settings::from_case(case), seed, inputs, injected_a2: None }, counts))
}

/// Returns the rows of every expert, routed by the case's own logits.
pub(super) fn rows_of_experts(case: &Case, seed: u64) -> Vec<usize> {
    let dims = Dims::from_case(case);
    let mut counts = vec![0; dims.experts];
    let bias = logits::correction_bias(case, &dims, seed).unwrap_or_default();
    for row in rows(case, &dims, &logits::logits(case, &dims, seed), &bias) {
        counts[row.expert] += 1;
    }
    counts
}

/// Problems of the same weights, for one set of buffers: the case's own tokens and routing; other tokens that choose
/// by chance; tokens that all choose the same experts; and half of the tokens, the rest zeros as a batch is padded with, after
/// which comes that half alone. Nothing is injected.
pub(super) fn variants(case: &Case, seed: u64, layer: Option<&Layer>) -> Result<Vec<Problem>, MoeError> {
    let dims = Dims::from_case(case);
    let like = |routing| Case { routing, expert_rows: Vec::new(), ..case.clone() };
    // The router belongs to the weights: one bias for all.
    let bias = correction(case, &dims, seed, layer)?.unwrap_or_default();
    let mut data = Vec::new();
    for (like, seed) in [
        (case.clone(), seed),
        (like(Routing::Random), seed ^ OTHER),
        (like(Routing::Same), seed ^ (OTHER + 1)),
    ] {
        let logits = router_logits(&like, &dims, seed, layer)?;
        data.push((activations::hidden(&like, &dims, seed, &rows(case, &dims, &logits, &bias)), logits));
    }
    if dims.tokens > 1 {
        let (mut hidden, mut logits) = data[0].clone();
        let half = dims.tokens / 2;
        hidden[half * dims.hidden..].fill(0);
        logits[half * dims.routed()..].fill(0.0);
        data.push((hidden, logits));
    }
    let possible = |logits: &[f32]| route::possible(&case.router, &dims, logits, &bias);
    let mut experts: Vec<usize> = data.iter().flat_map(|(_, logits)| possible(logits)).collect();
    experts.sort_unstable();
    experts.dedup();
    let first = with_weights(case, seed, layer, &experts, data[0].0.clone(), data[0].1.clone())?;
    let mut out = Vec::new();
    for (hidden, logits) in data {
        let mut one = first.clone();
        one.inputs.hidden_states = Some(Array::new("hidden_states", &[dims.tokens, dims.hidden], hidden)?);
        one.inputs.router_logits = Some(Array::new("router_logits", &[dims.tokens, dims.routed()], logits)?);
        out.push(one);
    }
    if let Some(padded) = out.get(3) {
        let (mut alone, tokens) = (padded.clone(), dims.tokens / 2);
        alone.dims.tokens = tokens;
        if let Some(all) = alone.inputs.hidden_states.take() {
            let data = all.data[..tokens * dims.hidden].to_vec();
            alone.inputs.hidden_states = Some(Array::new("hidden_states", &[tokens, dims.hidden], data)?);
        }
        if let Some(all) = alone.inputs.router_logits.take() {
            let data = all.data[..tokens * dims.routed()].to_vec();
            alone.inputs.router_logits = Some(Array::new("router_logits", &[tokens, dims.routed()], data)?);
        }
        out.push(alone);
    }
    Ok(out)
}

fn few(case: &Case, what: &str, bytes: u128) -> Result<(), MoeError> {
    if bytes > MEMORY_LIMIT {
        return Err(MoeError::TooLarge {
            what: format!("case `{}`: {what}", case.name),
            bytes,
            limit: MEMORY_LIMIT,
        });
    }
    Ok(())
}

/// Returns the router's logits: the layer's if the case routes at random, otherwise the case's own.
fn router_logits(case: &Case, dims: &Dims, seed: u64, layer: Option<&Layer>) -> Result<Vec<f32>, MoeError> {
    match layer.filter(|_| case.routing == Routing::Random) {
        // Real values do not depend on a token's routing, so the router can run first.
        Some(layer) => Ok(layer.logits(&activations::hidden(case, dims, seed, &[]))?),
        None => Ok(logits::logits(case, dims, seed)),
    }
}

/// Returns the permuted rows of these logits.
fn rows(case: &Case, dims: &Dims, logits: &[f32], bias: &[f32]) -> Vec<route::Row> {
    route::permute(&route::choices(&case.router, dims, logits, bias))
}

/// Returns the router's correction bias, if it has one: the layer's if its router chooses, otherwise the case's own.
fn correction(
    case: &Case,
    dims: &Dims,
    seed: u64,
    layer: Option<&Layer>,
) -> Result<Option<Vec<f32>>, MoeError> {
    match layer.filter(|_| case.routing == Routing::Random) {
        Some(layer) => Ok(layer.correction_bias()?),
        None => Ok(logits::correction_bias(case, dims, seed)),
    }
}

/// [`correction`] as a tensor.
fn bias(case: &Case, dims: &Dims, seed: u64, layer: Option<&Layer>) -> Result<Option<Array<f32>>, MoeError> {
    let data = correction(case, dims, seed, layer)?;
    data.map(|data| Array::new("correction_bias", &[dims.routed()], data)).transpose()
}

/// Generates a problem with the weights of these experts and no injected a2.
fn with_weights(
    case: &Case,
    seed: u64,
    layer: Option<&Layer>,
    experts: &[usize],
    hidden: Vec<u16>,
    logits: Vec<f32>,
) -> Result<Problem, MoeError> {
    let dims = Dims::from_case(case);
    few(case, "the weights of its routed experts", experts.len() as u128 * dims.expert_bytes(case.pair))?;
    let ids = experts.iter().map(|e| *e as i32).collect();
    let mut inputs = Tensors {
        hidden_states: Some(Array::new("hidden_states", &[dims.tokens, dims.hidden], hidden)?),
        router_logits: Some(Array::new("router_logits", &[dims.tokens, dims.routed()], logits)?),
        expert_ids: Some(Array::new("expert_ids", &[experts.len()], ids)?),
        correction_bias: bias(case, &dims, seed, layer)?,
        ..Tensors::default()
    };
    match layer {
        Some(layer) => layer.weights(case, experts, &mut inputs)?,
        None => weights::weights(case, &dims, seed, experts, &mut inputs)?,
    }
    Ok(Problem { dims, settings: Settings::from_case(case), seed, inputs, injected_a2: None })
}

/// ue4m3 codes of `exact` and `impulse`: 1, 1.375, 2.25 and 3.5. Few bits, so that sums of a model's depth stay exact, and no two
/// a power of two apart.
const UE4M3_STEPS: [u8; WINDOW] = [0x38, 0x3B, 0x41, 0x46];

/// The scale of a step of `window`.
fn scale_step(format: Format, step: usize) -> f64 {
    match format.scale() {
        Some(BlockScale::Ue4m3) => BlockScale::Ue4m3.value(UE4M3_STEPS[step]),
        Some(BlockScale::Ue8m0) | None => formats::exp2(step as i32),
    }
}

/// The step of a scale that neighbours do not share. In pairs of formats other than the first one blocks 16 apart differ too, so that
/// the scales of one slab cannot stand for another's.
const fn step(pair: FormatPair, expert: usize, row: usize, block: usize) -> usize {
    match pair {
        FormatPair::Mxfp8Mxfp4 => window(expert, row, block),
        _ => (window(expert, row, block) + block / 16) % WINDOW,
    }
}

/// Exponents in which neighbours differ: in k (`block`) and its groups of four, in the row and the groups of 8, 32 and 128
/// rows of scale layouts, and in the expert.
const fn window(expert: usize, row: usize, block: usize) -> usize {
    (block + block / 4 + row + row / 8 + row / 32 + 2 * (row / 128) + expert) % WINDOW
}
