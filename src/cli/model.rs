//! `--model`: the hardware whose results the emulator computes.

use clap::Args;
use numerics::tensor_core::Model;

/// Which hardware.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct ModelArgs {
    /// Compute tensor-core sums and special functions as this architecture does: sm_80, sm_89, sm_90, sm_100 or sm_120
    /// [default: the target's; with `exec`, the GPU's]
    #[arg(long, value_name = "ARCH", value_parser = model)]
    pub(super) model: Option<Model>,
}

fn model(text: &str) -> Result<Model, String> {
    Model::parse(text).ok_or_else(|| {
        let names: Vec<&str> = Model::ALL.iter().map(|model| model.name()).collect();
        format!("`{text}` is not a model; the models are {}", names.join(", "))
    })
}
