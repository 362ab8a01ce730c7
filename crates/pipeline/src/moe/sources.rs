//! The sources of a run: its kernels, and the macros of each.

use numerics::scale_layout::ScaleLayout;

use super::contract::Settings;
use super::kernels::{KernelStage, Variant};
use super::pipeline::Setup;
use crate::frame::compile::KernelSource;
use crate::kernel::{Kernel, KernelError, Library};
use crate::moe::case::{BiasPlace, Format, FormatPair, GateUp, GroupScore, ScaleRule, Scores};

/// Returns the kernels of a run in the order of their first launch: route, permute, quantize, GEMM, activation, finalize.
/// Both GEMMs share one.
///
/// # Errors
/// [`KernelError::Missing`] if a stage has no kernel.
pub fn of_run<'k>(
    library: &'k Library,
    settings: &Settings,
    setup: &Setup,
) -> Result<[KernelSource<'k>; 6], KernelError> {
    let s = settings;
    // Only the macros that a stage depends on, so that cases with the same kernel compile it once.
    let source = |kernel: &'k Kernel, extra: Vec<(String, String)>| {
        let layout = [("PDL", setup.pdl), ("SCALES_8X4", setup.scales == ScaleLayout::Tile8x4)];
        KernelSource { kernel, defines: flags(&layout).chain(extra).collect() }
    };
    let bias = |on: bool| ("BIAS_HERE".to_owned(), u32::from(on).to_string());
    let mut formats = formats(s.pair);
    if s.has_token_scales() {
        formats.push(("TOKEN_SCALE".to_owned(), "1".to_owned()));
    }
    let rules = || flags(&scale_rules(s.scale_rule)).chain(formats.clone()).collect::<Vec<_>>();
    // Both GEMMs share one module; if their biases differ, the one without a bias in its epilogue adds zeros.
    let epilogue = s.fc1_bias == BiasPlace::Epilogue || s.fc2_bias == BiasPlace::Epilogue;
    let mut of_gemm = setup.config.defines();
    of_gemm.push(bias(epilogue));
    of_gemm.extend(formats.clone());
    let after = |place| vec![bias(place == BiasPlace::NextStage)];
    let mut of_activation = after(s.fc1_bias);
    of_activation.extend(rules());
    of_activation.extend(flags(&[
        ("GATE_UP_INTERLEAVED", s.gate_up == GateUp::Interleaved),
        ("GATE_FIRST", s.gate_up == GateUp::GateFirst),
    ]));
    let router = &s.router;
    let group = |score| router.groups.is_some_and(|g| g.score == score);
    let of_route = flags(&[
        ("SCORES_SOFTMAX_ALL", router.scores == Scores::SoftmaxAll),
        ("SCORES_SIGMOID", router.scores == Scores::Sigmoid),
        ("GROUPS_TOP_TWO", group(GroupScore::TopTwo)),
        ("GROUPS_MAX", group(GroupScore::Max)),
        ("RENORMALISE", router.renormalise),
    ])
    .collect();
    let [route, permute, quantize, activation, finalize] = beside_the_gemm(library, setup.variant)?;
    Ok([
        source(route, of_route),
        source(permute, Vec::new()),
        source(quantize, rules()),
        source(library.gemm(s.pair, setup.config.path, setup.config.load)?, of_gemm),
        source(activation, of_activation),
        source(finalize, after(s.fc2_bias)),
    ])
}

/// Returns the kernels of a run except the GEMM, in stage order: route, permute, quantize, activation, finalize.
///
/// # Errors
/// [`KernelError::Missing`] if a stage has no kernel.
pub fn beside_the_gemm(library: &Library, variant: Variant) -> Result<[&Kernel; 5], KernelError> {
    let of = |stage| library.of_stage(stage, variant);
    Ok([
        of(KernelStage::Route)?,
        of(KernelStage::Permute)?,
        of(KernelStage::Quantize)?,
        of(KernelStage::Activation)?,
        of(KernelStage::Finalize)?,
    ])
}

/// The macros of the operands' formats; none for MXFP8 by MXFP4.
fn formats(pair: FormatPair) -> Vec<(String, String)> {
    let macros = [("A_FORMAT", pair.activation()), ("W_FORMAT", pair.weight())];
    let of = |(name, format): (&str, Format)| {
        (name.to_owned(), format!("FORMAT_{}", format.word().to_uppercase()))
    };
    if pair == FormatPair::default() { Vec::new() } else { macros.map(of).into() }
}

/// Macros whose value is 0 or 1.
fn flags(of: &[(&str, bool)]) -> impl Iterator<Item = (String, String)> {
    of.iter().map(|(name, on)| ((*name).to_owned(), u32::from(*on).to_string()))
}

/// The macro of a scale rule; `ceil` has none.
fn scale_rules(rule: ScaleRule) -> [(&'static str, bool); 7] {
    [
        ("RULE_FLOOR", rule == ScaleRule::Floor),
        ("RULE_EVEN", rule == ScaleRule::Even),
        ("RULE_NEAREST", rule == ScaleRule::Nearest),
        ("RULE_RZ", rule == ScaleRule::Rz),
        ("RULE_IDENTITY", rule == ScaleRule::Identity),
        ("RULE_FOUR_OVER_SIX_MAE", rule == ScaleRule::FourOverSixMae),
        ("RULE_FOUR_OVER_SIX_MSE", rule == ScaleRule::FourOverSixMse),
    ]
}
