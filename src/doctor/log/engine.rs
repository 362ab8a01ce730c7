//! What a log says about the server, the model and the GPU.

use serde::{Deserialize, Serialize};

use super::rules::{Fact, Format, Rules};

/// A model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// llama.cpp.
    LlamaCpp,
    /// ollama.
    Ollama,
}

impl Engine {
    /// Returns its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::LlamaCpp => "llama.cpp",
            Self::Ollama => "ollama",
        }
    }
}

/// What a log says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The server; `None` if it is not recognised.
    pub engine: Option<Engine>,
    /// Its version.
    pub version: Option<String>,
    /// The model, by its name or path.
    pub model: Option<String>,
    /// The format of the quantised weights, by the server's configuration or by the name of the model.
    pub needs: Option<Format>,
    /// The name of the GPU.
    pub gpu: Option<String>,
    /// Its architecture number, such as 121.
    pub architecture: Option<u16>,
}

/// Returns the facts of a log. `gpu` counts only where the log does not say it.
pub(super) fn facts(text: &str, rules: &Rules, gpu: Option<u16>) -> Facts {
    let mut counts: Vec<(Engine, usize)> = Vec::new();
    for marker in &rules.engines {
        let found = text.lines().filter(|line| marker.line.is_match(line)).count();
        match counts.iter_mut().find(|(engine, _)| *engine == marker.engine) {
            Some((_, count)) => *count += found,
            None => counts.push((marker.engine, found)),
        }
    }
    // SGLang imports parts of vLLM, whose lines may occur, too.
    let engine = counts.into_iter().filter(|(_, n)| *n > 0).max_by_key(|(_, n)| *n).map(|(engine, _)| engine);
    let mut out = Facts { engine, ..Facts::default() };
    let mut quantisation = None;
    for line in text.lines() {
        for tell in rules.tells.iter().filter(|tell| Some(tell.engine) == engine) {
            let Some(value) = tell.line.captures(line).and_then(|found| found.name("value")) else {
                continue;
            };
            let value = value.as_str().trim().to_owned();
            let place = match tell.fact {
                Fact::Version => &mut out.version,
                Fact::Model => &mut out.model,
                Fact::Quantisation => &mut quantisation,
                Fact::Gpu => &mut out.gpu,
                Fact::Capability => {
                    out.architecture = out.architecture.or_else(|| architecture(&value));
                    continue;
                }
            };
            if place.is_none() && !matches!(value.as_str(), "" | "None" | "null") {
                *place = Some(value);
            }
        }
    }
    out.architecture = out.architecture.or_else(|| out.gpu.as_deref().and_then(of_product)).or(gpu);
    out.needs = needs(quantisation.as_deref(), out.model.as_deref());
    out
}

/// Reads `12.1`, `121` or `sm_121`.
fn architecture(text: &str) -> Option<u16> {
    let digits: String = text.trim_start_matches("sm").chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|number| (50..200).contains(number))
}

/// Returns the architecture of a product.
fn of_product(name: &str) -> Option<u16> {
    match products(name) {
        (_, true) => Some(121),
        (true, _) => Some(120),
        _ => None,
    }
}

/// The architecture number of the SM12x products that a message names, if they have one in common. Names of targets do not count: kernels
/// named `sm120` run on GB10, too.
pub(super) fn named_architecture(message: &str) -> Option<u16> {
    match products(message) {
        (true, false) => Some(120),
        (false, true) => Some(121),
        _ => None,
    }
}

/// Whether a text names products of SM120, and of SM121.
fn products(text: &str) -> (bool, bool) {
    let text = text.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let sm120 = has(&["RTX 50", "RTX50", "RTX PRO"]) && !has(&["RTX 5000 ADA"]);
    (sm120, has(&["GB10", "DGX SPARK"]) && !has(&["GB100"]))
}

/// Returns the format that a model needs, by the quantisation that the server names, or else by the name of the model.
fn needs(quantisation: Option<&str>, model: Option<&str>) -> Option<Format> {
    let of = |text: &str| {
        let text = text.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["mxfp4"]) {
            Some(Format::Mxfp4)
        } else if has(&["nvfp4", "modelopt_fp4", "petit_nvfp4"]) {
            Some(Format::Nvfp4)
        } else if has(&["fp8"]) {
            Some(Format::Fp8)
        } else if has(&["gpt-oss", "gpt_oss"]) {
            // Its weights are published in MXFP4 alone.
            Some(Format::Mxfp4)
        } else if has(&["bf16", "f16", "bfloat16"]) {
            Some(Format::Bf16)
        } else {
            None
        }
    };
    quantisation.and_then(of).or_else(|| model.and_then(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_architectures_are_read_as_servers_write_them() {
        assert_eq!(needs(Some("mxfp4"), None), Some(Format::Mxfp4));
        assert_eq!(needs(Some("modelopt_fp4"), Some("x/gpt-oss-20b")), Some(Format::Nvfp4));
        assert_eq!(needs(None, Some("openai/gpt-oss-120b")), Some(Format::Mxfp4));
        assert_eq!(needs(Some("compressed-tensors"), Some("x/Model-NVFP4")), Some(Format::Nvfp4));
        assert_eq!(needs(None, Some("x/Model")), None);
        assert_eq!(
            (architecture("12.1"), architecture("sm_120"), architecture("x")),
            (Some(121), Some(120), None)
        );
        assert_eq!(of_product("NVIDIA GB10"), Some(121));
        assert_eq!(of_product("NVIDIA GeForce RTX 5090"), Some(120));
        assert_eq!(of_product("NVIDIA H100 80GB HBM3"), None);
    }
}
