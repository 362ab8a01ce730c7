//! What a trial covers: its rules and dimensions, and pairs of the options that its GEMM is compiled with; and what it costs.

use std::collections::BTreeSet;

use super::case::{Format, KTail};
use super::plan::Trial;
use crate::frame::family::Features;
use crate::kernel::MmaPath;

/// Prefixes of the features that must be covered at any cost: each K of a tile, each power of two that K reaches, each pair of
/// formats, and an `mma` of which K fills only the first half.
const REQUIRED: [&str; 4] = ["tile of K ", "K of 2^", "formats ", "half an mma of "];

/// Prefixes of the features that further trials must cover at any cost: the other options of quantizers, and each power of two of K whose last tile ends at least one word of
/// scales early.
const REQUIRED_FURTHER: [&str; 2] = ["scales by ", "words behind K of 2^"];

/// Returns what a trial covers.
#[must_use]
pub fn features(trial: &Trial) -> Features {
    let (beside, configured) = (features_beside(trial), features_of_gemm(trial));
    let of = |prefixes: &[&str]| -> BTreeSet<String> {
        let begins = |feature: &&String| prefixes.iter().any(|prefix| feature.starts_with(prefix));
        beside.iter().chain(&configured).filter(begins).cloned().collect()
    };
    let (required, required_further) = (of(&REQUIRED), of(&REQUIRED_FURTHER));
    Features { beside, configured, required, required_further }
}

/// Returns the features of a trial that affect kernels other than the GEMM.
#[must_use]
fn features_beside(trial: &Trial) -> BTreeSet<String> {
    let c = &trial.case;
    let rows = c.tokens * c.top_k;
    let scores = c.router.scores.word();
    let groups = c
        .router
        .groups
        .map_or("no groups".to_owned(), |g| format!("{} groups by {}", g.count, g.score.word()));
    BTreeSet::from([
        format!("{}{}", REQUIRED[2], c.pair.word()),
        format!("{} of {}", c.regime.word(), c.pair.word()),
        format!("tail {} of {}", c.k_tail.word(), c.pair.word()),
        groups.clone(),
        format!("{} of {scores}", c.routing.word()),
        format!("{} of {groups}", c.routing.word()),
        format!("arguments {} of {scores}", c.arguments.word()),
        format!("experts {} of {scores}", c.experts.next_power_of_two()),
        format!("renormalise {} of {scores}", c.router.renormalise),
        format!("correction bias {}", c.router.correction_bias),
        format!("scaling {}", c.router.scaling),
        c.regime.word().to_owned(),
        c.routing.word().to_owned(),
        format!(
            "{}{} of {}, {}",
            REQUIRED_FURTHER[0],
            c.scale_rule.word(),
            c.pair.word(),
            c.global_scale.word()
        ),
        c.gate_up.word().to_owned(),
        format!("fc1 bias {}", c.fc1_bias.word()),
        format!("fc2 bias {}", c.fc2_bias.word()),
        format!("bias {}", c.bias),
        format!("tail {}", c.k_tail.word()),
        format!("scales {}", c.scale_tiles.word()),
        format!("arguments {}", c.arguments.word()),
        format!("pdl {}", c.pdl),
        format!("exp {}", c.exp.word()),
        format!("finalize {}", c.finalize.word()),
        format!("top-k {}", c.top_k),
        format!("clamp {}", c.limit < 1.0),
        format!("unclamped {}", c.limit.is_infinite()),
        format!("schedules {}", c.schedules > 1),
        format!("experts {}", c.experts.next_power_of_two()),
        format!("{} among experts {}", c.routing.word(), c.experts > 32),
        format!("blocks of K {}", (c.hidden / 32).next_power_of_two()),
        format!("blocks between {}", (c.inter / 32).next_power_of_two()),
        format!("alpha {}", c.alpha),
        format!("M {}", trial.tile.m),
        format!("warps of rows: {}", (rows.div_ceil(32)).min(4)),
    ])
}

fn features_of_gemm(trial: &Trial) -> BTreeSet<String> {
    let c = &trial.case;
    let (tile, path, load) = (trial.tile, trial.path.word(), trial.load.word());
    let rows = c.tokens * c.top_k;
    let mut out = BTreeSet::from([
        format!("{}{}", REQUIRED[0], tile.k),
        format!("{}{}", REQUIRED[1], c.hidden.max(1).ilog2()),
        format!("{path} {load} {}", trial.swap_ab),
        format!("{path} {load} K {}", tile.k),
        format!("{} {path}", c.pair.word()),
        format!("{} {load}", c.pair.word()),
        format!("{path} K {} {}", tile.k, trial.swap_ab),
        format!("M {} {path}", tile.m),
        format!("N {} {path}", tile.n),
        format!("{} {path}", c.regime.word()),
        format!("{} {load}", c.regime.word()),
        format!("tail {} {path} {load}", c.k_tail.word()),
        format!("scales {} {path}", c.scale_tiles.word()),
        format!("pdl {} {load}", c.pdl),
        // Loops that end within a warp, a tile or a block.
        format!("ragged K {path}: {}", !c.hidden.is_multiple_of(128)),
        format!("ragged N {path}: {}", !c.hidden.is_multiple_of(tile.n as usize)),
        format!("blocks of K {path} K {}: {}", tile.k, (c.hidden / 32).next_power_of_two()),
        format!("slots {} {path} {load}", c.slots.word()),
        format!("{} {path} {}", c.regime.word(), trial.swap_ab),
        format!("several tiles of M: {}", rows > tile.m as usize),
        format!("several tiles of K {path}: {}", (c.hidden / tile.k as usize).min(6)),
    ]);
    out.extend(half_filled(trial));
    let (tile_k, last) = (tile.k as usize, c.hidden % tile.k as usize);
    if last > 0 && last + 128 <= tile_k {
        out.insert(format!("{}{} by {path}", REQUIRED_FURTHER[1], c.hidden.ilog2()));
    }
    if let Ok(config) = trial.config {
        out.insert(format!("stages {} {load}", config.stages));
        out.insert(format!("warps {}x{} {path}", config.warps_x, config.warps_y));
        let steps = c.hidden.div_ceil(tile.k as usize);
        out.insert(format!("wraps of stages {load}: {}", (steps / config.stages as usize).min(3)));
    }
    out
}

/// Returns the features of a K that ends in the middle of an `mma` of 64 elements, whose second half is then masked: the formats,
/// which decide whether a scale covers 16 or 32 elements, and which of the two `mma` that share a word of scales it is.
fn half_filled(trial: &Trial) -> BTreeSet<String> {
    let c = &trial.case;
    let masks = trial.path == MmaPath::Native
        && c.k_tail == KTail::Stop
        && matches!(c.pair.activation(), Format::Mxfp4 | Format::Nvfp4);
    let ends = [c.hidden, c.inter].into_iter().filter(|k| masks && k % 64 == 32);
    ends.map(|k| format!("{}{} {}: {} of 128", REQUIRED[3], c.pair.word(), trial.swap_ab, k % 128)).collect()
}

/// Estimates the cost of a trial: the multiplications of the padded problem, its weights and a constant.
#[must_use]
pub fn cost(trial: &Trial) -> u64 {
    let c = &trial.case;
    let up = |n: usize, to: u32| n.next_multiple_of(to.max(1) as usize) as u64;
    let rows =
        (c.tokens * c.top_k) as u64 + (c.experts.min(c.tokens * c.top_k) as u64) * u64::from(trial.tile.m);
    let products = up(2 * c.inter, trial.tile.n) * up(c.hidden, trial.tile.k)
        + up(c.hidden, trial.tile.n) * up(c.inter, trial.tile.k);
    let weights = (c.experts * c.hidden * c.inter) as u64;
    c.schedules.max(1) * (rows * products + 20 * weights + 20_000_000)
}
