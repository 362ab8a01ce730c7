//! Global scales of NVFP4: one f32 for each expert and operand.

use super::activations::SPECIAL_GLOBAL;
use crate::moe::case::{Arguments, Case, Regime};
use crate::moe::error::MoeError;
use crate::moe::random::{Purpose, Stream};
use crate::moe::tensors::Array;

/// Largest magnitudes that activations are calibrated for in `real`: outliers of hidden states, and products of clamped gates and
/// ups.
const HIDDEN: f64 = 96.0;
const PRODUCTS: f64 = 56.0;
/// With [`Arguments::Wide`] hidden states are larger by this factor.
const WIDE: f64 = 16.0;
/// The divisor of a calibrated magnitude: the largest e2m1 times the largest ue4m3.
const FULL: f64 = 6.0 * 448.0;

/// One random factor near one, whose product with anything rounds.
fn near_one(stream: Stream) -> f64 {
    0.875 + stream.below(0, 1 << 24) as f64 / f64::from(1 << 26)
}

const fn is_exact(case: &Case) -> bool {
    matches!(case.regime, Regime::Exact | Regime::Impulse)
}

/// Returns the global scales of weights, if their format has them: powers of two in `exact` and `impulse`, different per expert.
pub(super) fn weights(case: &Case, seed: u64, purpose: Purpose, experts: &[usize]) -> Option<Vec<f32>> {
    let of = |expert: &usize| match is_exact(case) {
        true => 1.0 / (128 << (expert % 3)) as f32,
        false => (near_one(Stream::new(seed, purpose, *expert)) / 1024.0) as f32,
    };
    case.pair.weight().has_global().then(|| experts.iter().map(of).collect())
}

/// Returns the global scales of activations, by expert.
///
/// # Errors
/// [`MoeError::Shape`] never.
pub(super) fn activations(
    case: &Case,
    seed: u64,
    purpose: Purpose,
    experts: &[usize],
) -> Result<Array<f32>, MoeError> {
    let (name, calibrated) = match purpose {
        Purpose::A1Global if case.arguments == Arguments::Wide => ("a1_global", HIDDEN * WIDE),
        Purpose::A1Global => ("a1_global", HIDDEN),
        _ => ("a2_global", PRODUCTS),
    };
    let is_special = |expert: usize| {
        case.regime == Regime::Special && purpose == Purpose::A1Global && expert.is_multiple_of(2)
    };
    let of = |expert: &usize| match is_exact(case) {
        true => 0.25 / (1 << (expert % 2)) as f32,
        false if is_special(*expert) => SPECIAL_GLOBAL,
        false => (near_one(Stream::new(seed, purpose, *expert)) * calibrated / FULL) as f32,
    };
    Array::new(name, &[experts.len()], experts.iter().map(of).collect())
}
