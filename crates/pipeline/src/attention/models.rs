//! Attention layers of models by name, from a data file that cites its sources.

use std::path::Path;
use std::sync::OnceLock;

use serde::Deserialize;
use toolchain::header::{self, HeaderError};

use super::case::{Case, Layout, Length, Regime};
use super::semantics::Mask;

const TABLE: &str = include_str!("models.yaml");

/// The attention of one model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The published name, in lower case.
    pub name: String,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a head.
    pub width: usize,
    /// The most keys that a row of its windowed layers sees, its own included.
    #[serde(default)]
    pub window: Option<usize>,
    /// Whether each head has a sink.
    #[serde(default)]
    pub sinks: bool,
    /// The soft cap.
    #[serde(default)]
    pub cap: Option<f32>,
    /// The source of these values.
    pub source: String,
}

/// Returns every model, in the order of the file; empty if the file is invalid, which a test rules out.
#[must_use]
pub fn models() -> &'static [Model] {
    static MODELS: OnceLock<Vec<Model>> = OnceLock::new();
    MODELS.get_or_init(|| parse().unwrap_or_default())
}

fn parse() -> Result<Vec<Model>, HeaderError> {
    header::parse_file(Path::new("crates/pipeline/src/attention/models.yaml"), TABLE)
}

impl Model {
    /// Its layers as cases: a decode step and a chunk of a prefill, each of a full layer and, if it has a window, of a windowed one.
    pub(super) fn cases(&self) -> Vec<Case> {
        let windows: Vec<Option<usize>> = std::iter::once(None).chain(self.window.map(Some)).collect();
        let mut cases = Vec::new();
        for window in windows {
            let layer = if window.is_some() { "window" } else { "full" };
            for (step, rows, keys) in [("decode", 1, 1024), ("prefill", 40, 200)] {
                cases.push(Case {
                    name: format!("{}-{layer}-{step}", self.name),
                    about: format!("A {step} of a {layer} layer of {}.", self.name),
                    heads: self.heads,
                    kv_heads: self.kv_heads,
                    requests: vec![Length { rows, keys }],
                    page: 16,
                    spare: 1,
                    layout: Layout::Hnd,
                    mask: Mask::Causal,
                    window,
                    sinks: self.sinks,
                    slopes: false,
                    cap: self.cap,
                    swizzled: false,
                    split: Some(256),
                    natural: false,
                    regime: Regime::Real,
                    seed: 1,
                    swept: false,
                    sparse: false,
                    configurations: vec![format!("{step} d{} bf16", self.width)],
                });
            }
        }
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::configuration::WIDTHS;

    #[test]
    fn every_model_has_cases_that_kernels_compute() {
        let models = parse().unwrap();
        assert!(models.len() >= 9);
        for model in models {
            assert!(WIDTHS.contains(&model.width) && model.heads % model.kv_heads == 0, "{}", model.name);
            assert_eq!(model.cases().len(), if model.window.is_some() { 4 } else { 2 });
        }
    }
}
