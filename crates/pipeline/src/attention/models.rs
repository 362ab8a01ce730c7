//! Attention layers of models by name, from a data file that cites its sources.

use std::path::Path;
use std::sync::OnceLock;

use serde::Deserialize;
use toolchain::header::{self, HeaderError};

use super::case::{Case, Layout, Length, Pages, Regime};
use super::configuration::WIDTHS;
use super::semantics::Mask;

const TABLE: &str = include_str!("models.yaml");

record::words! {
    /// What a layer attends to, and how its cache stores it.
    Form {
        /// Keys and values per head, each shared by a group of query heads.
        Grouped "grouped",
        /// One latent record per token, which is key and value of all heads (MLA).
        Latent "latent",
        /// Latent records of which an indexer selects some for each row (DSA).
        SelectedLatent "selected_latent",
        /// A window of records and selected compressed ones, as in DeepSeek V4.
        Compressed "compressed",
        /// Keys and values per head, of which an indexer selects blocks for each row (QSA).
        SelectedBlocks "selected_blocks",
        /// Tensors without a cache, as in diffusion.
        Dense "dense",
        /// Linear attention, which keeps a state instead of a cache.
        Linear "linear",
    }
}

/// The attention of one model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The published name, in lower case.
    pub name: String,
    /// What its layers attend to; keys and values per head if absent.
    #[serde(default)]
    pub form: Option<Form>,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a head.
    pub width: usize,
    /// Elements of a value, if not those of a key.
    #[serde(default)]
    pub values: Option<usize>,
    /// The most keys that a row of its windowed layers sees, its own included.
    #[serde(default)]
    pub window: Option<usize>,
    /// The layers without a window, if their heads are others.
    #[serde(default)]
    pub full: Option<Heads>,
    /// Whether each head has a sink.
    #[serde(default)]
    pub sinks: bool,
    /// The soft cap.
    #[serde(default)]
    pub cap: Option<f32>,
    /// The source of these values.
    pub source: String,
}

/// The heads of keys and values of some layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heads {
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a head.
    pub width: usize,
}

/// One kind of layer of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layer {
    /// What it attends to.
    pub form: Form,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a key.
    pub width: usize,
    /// Elements of a value.
    pub values: usize,
    /// The most keys that a row sees, its own included.
    pub window: Option<usize>,
    /// Whether each head has a sink.
    pub sinks: bool,
    /// The soft cap.
    pub cap: Option<f32>,
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
    /// Its kinds of layers: a full one and, if it has a window, a windowed one. A form with its own choice of keys has one kind.
    #[must_use]
    pub fn layers(&self) -> Vec<Layer> {
        let form = self.form.unwrap_or(Form::Grouped);
        let windowed = Layer {
            form,
            heads: self.heads,
            kv_heads: self.kv_heads,
            width: self.width,
            values: self.values.unwrap_or(self.width),
            window: self.window,
            sinks: self.sinks,
            cap: self.cap,
        };
        let full = match self.full {
            Some(Heads { kv_heads, width }) => {
                Layer { kv_heads, width, values: width, window: None, ..windowed }
            }
            None => Layer { window: None, ..windowed },
        };
        match self.window {
            Some(_) if form == Form::Grouped => vec![full, windowed],
            Some(_) => vec![windowed],
            None => vec![full],
        }
    }

    /// Whether kernels of this project compute some of its layers.
    #[must_use]
    pub fn has_kernels(&self) -> bool {
        self.layers().iter().any(Layer::has_kernels)
    }

    /// Its layers as cases: a decode step and a chunk of a prefill of every kind that kernels compute.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for layer in self.layers().iter().filter(|layer| layer.has_kernels()) {
            let kind = if layer.window.is_some() { "window" } else { "full" };
            for (step, rows, keys) in [("decode", 1, 1024), ("prefill", 40, 200)] {
                cases.push(Case {
                    name: format!("{}-{kind}-{step}", self.name),
                    about: format!("A {step} of a {kind} layer of {}.", self.name),
                    heads: layer.heads,
                    kv_heads: layer.kv_heads,
                    requests: vec![Length { rows, keys }],
                    page: 16,
                    spare: 1,
                    pages: Pages::Packed,
                    layout: Layout::Hnd,
                    mask: Mask::Causal,
                    window: layer.window,
                    sinks: layer.sinks,
                    slopes: false,
                    cap: layer.cap,
                    swizzled: false,
                    key_swizzled: false,
                    split: Some(256),
                    natural: false,
                    regime: Regime::Real,
                    seed: 1,
                    swept: false,
                    sparse: false,
                    configurations: vec![format!("{step} d{} bf16", layer.width)],
                });
            }
        }
        cases
    }
}

impl Layer {
    /// Whether kernels of this project compute it.
    fn has_kernels(&self) -> bool {
        self.form == Form::Grouped && self.values == self.width && WIDTHS.contains(&self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_model_has_layers_and_cases_of_those_that_kernels_compute() {
        let models = parse().unwrap();
        let names: BTreeSet<&str> = models.iter().map(|model| model.name.as_str()).collect();
        assert!(models.len() >= 17 && names.len() == models.len(), "{names:?}");
        for model in &models {
            let layers = model.layers();
            assert!(layers.iter().all(|layer| layer.heads % layer.kv_heads == 0), "{}", model.name);
            let computed = layers.iter().filter(|layer| layer.has_kernels()).count();
            assert_eq!(model.cases().len(), 2 * computed, "{}", model.name);
        }
        let of = |name: &str| models.iter().find(|model| model.name == name).unwrap();
        // The global layers of Gemma 4 have heads that no kernel here computes.
        let widths: Vec<usize> = of("gemma-4-26b-a4b").layers().iter().map(|layer| layer.width).collect();
        assert_eq!((widths, of("gemma-4-26b-a4b").cases().len()), (vec![512, 256], 2));
        assert_eq!((of("gpt-oss-20b").cases().len(), of("llama-3.1-8b").cases().len()), (4, 2));
        assert!(!of("deepseek-v3").has_kernels() && of("deepseek-v4-flash").layers()[0].window == Some(128));
    }
}
