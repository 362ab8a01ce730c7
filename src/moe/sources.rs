//! The sources of a run: which kernels it launches, and with which macros each is compiled.

use super::contract::Settings;
use super::pipeline::Setup;
use crate::case::{BiasPlace, GateUp, ScaleRule};
use crate::kernel::{Kernel, KernelError, KernelStage, Library};
use crate::num::scale_layout::ScaleLayout;

/// A kernel and its macros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSource<'k> {
    /// The kernel.
    pub kernel: &'k Kernel,
    /// Names and values.
    pub defines: Vec<(String, String)>,
}

/// The kernels of a run in the order in which they are first launched: route, permute, quantize, GEMM, activation, finalize.
/// Both GEMMs are one.
///
/// # Errors
/// [`KernelError::Missing`] for a stage without a kernel.
pub fn of_run<'k>(
    library: &'k Library,
    settings: &Settings,
    setup: &Setup,
) -> Result<[KernelSource<'k>; 6], KernelError> {
    let s = settings;
    let source = |kernel: &'k Kernel, extra: Vec<(String, String)>| {
        let mut defines = defines(s, setup);
        defines.extend(extra);
        KernelSource { kernel, defines }
    };
    let bias = |on: bool| ("BIAS_HERE".to_owned(), u32::from(on).to_string());
    let plain = |stage| Ok::<_, KernelError>(source(library.of_stage(stage)?, Vec::new()));
    // Both GEMMs are one module; where their biases differ, the one that has none in its epilogue adds a bias of zeros.
    let epilogue = s.fc1_bias == BiasPlace::Epilogue || s.fc2_bias == BiasPlace::Epilogue;
    let mut of_gemm = setup.config.defines();
    of_gemm.push(bias(epilogue));
    let after = |stage, place| {
        Ok::<_, KernelError>(source(library.of_stage(stage)?, vec![bias(place == BiasPlace::NextStage)]))
    };
    Ok([
        plain(KernelStage::Route)?,
        plain(KernelStage::Permute)?,
        plain(KernelStage::Quantize)?,
        source(library.gemm(setup.config.path, setup.config.load)?, of_gemm),
        after(KernelStage::Activation, s.fc1_bias)?,
        after(KernelStage::Finalize, s.fc2_bias)?,
    ])
}

/// The macros that every kernel of a run is given.
fn defines(s: &Settings, setup: &Setup) -> Vec<(String, String)> {
    [
        ("PDL", setup.pdl),
        ("SCALES_8X4", setup.scales == ScaleLayout::Tile8x4),
        ("RULE_FLOOR", s.scale_rule == ScaleRule::Floor),
        ("RULE_EVEN", s.scale_rule == ScaleRule::Even),
        ("RULE_NEAREST", s.scale_rule == ScaleRule::Nearest),
        ("RULE_RZ", s.scale_rule == ScaleRule::Rz),
        ("RULE_IDENTITY", s.scale_rule == ScaleRule::Identity),
        ("GATE_UP_INTERLEAVED", s.gate_up == GateUp::Interleaved),
        ("GATE_FIRST", s.gate_up == GateUp::GateFirst),
    ]
    .map(|(name, on)| (name.to_owned(), u32::from(on).to_string()))
    .to_vec()
}
