//! Model dimensions by name, from a data file that cites its sources.

use std::path::Path;
use std::sync::OnceLock;

use serde::Deserialize;

use super::model::GateUp;
use super::pair::FormatPair;
use super::router::Router;
use toolchain::header::{self, HeaderError};

const TABLE: &str = include_str!("models.yaml");

/// The mixture-of-experts layer of one model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The published name.
    pub name: String,
    /// Width of the hidden states.
    pub hidden: usize,
    /// Intermediate width of one expert.
    pub inter: usize,
    /// Experts per layer.
    pub experts: usize,
    /// Experts per token.
    pub top_k: usize,
    /// The factor inside the sigmoid.
    pub alpha: f32,
    /// The constant added to up.
    pub beta: f32,
    /// The bound that gate and up are clamped to; infinite for none.
    pub limit: f32,
    /// Whether the experts have biases.
    pub bias: bool,
    /// Experts that every token visits.
    #[serde(default)]
    pub shared_experts: usize,
    /// How logits become choices and weights.
    #[serde(default)]
    pub router: Router,
    /// The operand formats in which the model runs on SM12x.
    #[serde(default)]
    pub format: FormatPair,
    /// The order of gate and up in the checkpoint.
    pub gate_up: GateUp,
    /// The source of these values.
    pub source: String,
}

/// Returns every model of the table in its order; empty if the table is invalid, which a test rules out.
pub fn models() -> &'static [Model] {
    static MODELS: OnceLock<Vec<Model>> = OnceLock::new();
    MODELS.get_or_init(|| parse().unwrap_or_default())
}

fn parse() -> Result<Vec<Model>, HeaderError> {
    header::parse_file(Path::new("crates/pipeline/src/case/models.yaml"), TABLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_can_be_read_and_its_dimensions_are_possible() {
        let models = parse().unwrap();
        let names: BTreeSet<_> = models.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names.len(), models.len());
        for m in &models {
            assert!(
                m.hidden % 32 == 0 && m.inter % 32 == 0 && m.top_k <= m.experts && !m.source.is_empty(),
                "{m:?}"
            );
            assert_eq!(m.router.check(m.experts, m.top_k), Ok(()), "{}", m.name);
        }
        let oss = models.iter().find(|m| m.name == "gpt-oss-120b").unwrap();
        assert_eq!((oss.hidden, oss.inter, oss.experts, oss.top_k), (2880, 2880, 128, 4));
    }
}
