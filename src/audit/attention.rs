//! What an attention backend takes on SM12x, and whether that is enough for the layers of a model.

use std::fmt;

use serde::{Deserialize, Deserializer, de::Error};

use crate::attention::{Form, Layer, Model};
use crate::record::{self, AuditModel, AuditTakes};

record::words! {
    /// The types of a cache.
    Cache {
        /// bf16.
        Bf16 "bf16",
        /// fp16.
        Fp16 "fp16",
        /// e4m3 with a scale per tensor, or per token and head.
        E4m3 "e4m3",
        /// e5m2.
        E5m2 "e5m2",
        /// int8.
        Int8 "int8",
        /// int4.
        Int4 "int4",
        /// NVFP4.
        Nvfp4 "nvfp4",
        /// Records of e4m3 latents with their scales and rotated part.
        Fp8DsMla "fp8_ds_mla",
        /// The formats of TurboQuant.
        Turboquant "turboquant",
    }
}

record::words! {
    /// The steps of serving.
    Step {
        /// Many rows.
        Prefill "prefill",
        /// Few rows.
        Decode "decode",
    }
}

/// What a backend takes on SM12x.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Takes {
    /// The forms of attention.
    forms: Vec<Form>,
    /// The elements of a head.
    heads: Widths,
    /// The only numbers of query heads; any if empty.
    #[serde(default)]
    query_heads: Vec<usize>,
    /// The only models, for which its source asks by name; any if empty.
    #[serde(default)]
    models: Vec<String>,
    /// Models that its engine refuses to serve with it.
    #[serde(default)]
    not_models: Vec<String>,
    /// Whether it computes sliding windows.
    #[serde(default)]
    window: bool,
    /// Whether it computes sinks.
    #[serde(default)]
    sinks: bool,
    /// Whether it computes a soft cap.
    #[serde(default)]
    cap: bool,
    /// The types of the cache.
    cache: Vec<Cache>,
    /// The only step that it computes; both if absent.
    step: Option<Step>,
    /// What it refuses although it takes each part.
    #[serde(default)]
    refuses: Vec<Refusal>,
    /// Another condition, which is shown and not judged.
    note: Option<String>,
}

/// A combination that is refused: all the given conditions hold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    cache: Cache,
    /// The elements of a head.
    heads: Option<usize>,
    /// Whether there are sinks.
    sinks: Option<bool>,
}

/// Sets of head widths.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Widths(Vec<Width>);

/// Head widths from `least` to `most` that are multiples of `multiple`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Width {
    least: usize,
    /// Without a limit if absent.
    most: Option<usize>,
    multiple: usize,
    values: Values,
}

/// The elements of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    /// As many as a key has.
    OfKeys,
    /// Any number.
    Any,
    /// Another number than a key has.
    Other,
    /// This number.
    Only(usize),
}

/// Text that names no head widths.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` names no widths of heads; write 64, 16..512/16, 32.., 576:512, 32..:any, 32..:other or any")]
struct UnknownWidths(String);

impl Takes {
    /// Returns the cache types with which it serves every layer of a model.
    ///
    /// # Errors
    /// Why it serves none.
    pub(super) fn caches_for(&self, model: &Model) -> Result<Vec<Cache>, String> {
        let layers = model.layers();
        if let Some(why) =
            layers.iter().find_map(|layer| self.lacks(layer)).or_else(|| self.lacking_features(&layers))
        {
            return Err(why);
        }
        if !self.models.is_empty() && !self.models.contains(&model.name) {
            return Err(format!("a name that it does not take: it takes {} alone", self.models.join(", ")));
        }
        if self.not_models.contains(&model.name) {
            return Err("a name that the engine does not serve with it".to_owned());
        }
        let refused = |cache: &Cache| {
            layers.iter().any(|layer| self.refuses.iter().any(|refusal| refusal.holds(*cache, layer)))
        };
        let caches: Vec<Cache> = self.cache.iter().copied().filter(|cache| !refused(cache)).collect();
        match caches.is_empty() && !self.cache.is_empty() {
            true => Err(format!("it refuses every type of cache: {}", self.exceptions().join("; "))),
            false => Ok(caches),
        }
    }

    /// Returns what a layer is and it does not take; `None` if it takes the form and the heads.
    fn lacks(&self, layer: &Layer) -> Option<String> {
        if !self.forms.contains(&layer.form) {
            let forms: Vec<&str> = self.forms.iter().map(|form| form.word()).collect();
            return Some(format!("layers of the form {}, it takes {}", layer.form.word(), forms.join(", ")));
        }
        if !self.heads.contain(layer.width, layer.values) {
            let values = match layer.values == layer.width {
                true => String::new(),
                false => format!(" with values of {}", layer.values),
            };
            return Some(format!("heads of {}{values}, it takes {}", layer.width, self.heads));
        }
        if !self.query_heads.is_empty() && !self.query_heads.contains(&layer.heads) {
            let taken: Vec<String> = self.query_heads.iter().map(ToString::to_string).collect();
            return Some(format!("{} query heads, it takes {}", layer.heads, taken.join(" or ")));
        }
        None
    }

    /// Returns the features that layers need and it lacks; `None` if it has all.
    fn lacking_features(&self, layers: &[Layer]) -> Option<String> {
        let needed = |needs: &dyn Fn(&Layer) -> bool| layers.iter().any(needs);
        // The window of the compressed form is part of the form.
        let window = needed(&|layer| layer.window.is_some() && layer.form == Form::Grouped);
        let lacking: Vec<&str> = [
            (window && !self.window, "a window"),
            (needed(&|layer| layer.sinks) && !self.sinks, "sinks"),
            (needed(&|layer| layer.cap.is_some()) && !self.cap, "a soft cap"),
        ]
        .into_iter()
        .filter_map(|(lacking, what)| lacking.then_some(what))
        .collect();
        (!lacking.is_empty()).then(|| format!("{}, which it lacks", lacking.join(" and ")))
    }

    /// Returns the models and the combinations that it takes alone or refuses, and its note.
    fn exceptions(&self) -> Vec<String> {
        let only = (!self.models.is_empty()).then(|| format!("{} alone", self.models.join(", ")));
        let not = self.not_models.iter().map(|name| format!("not {name}"));
        let refused = self.refuses.iter().map(ToString::to_string);
        only.into_iter().chain(not).chain(refused).chain(self.note.clone()).collect()
    }

    /// Returns how it serves a model that it takes: with which caches, in which step, on which condition.
    pub(super) fn served_words(&self, model: &Model) -> String {
        let caches = self.caches_for(model).unwrap_or_default();
        let caches: Vec<&str> = caches.iter().map(|cache| cache.word()).collect();
        let mut parts = Vec::new();
        if !caches.is_empty() {
            parts.push(format!("with a cache of {}", caches.join(", ")));
        }
        parts.extend(self.step.map(|step| format!("{} only", step.word())));
        parts.extend(self.note.clone());
        parts.join("; ")
    }

    /// Returns its row in a record.
    pub(super) fn row(&self) -> AuditTakes {
        AuditTakes {
            forms: self.forms.iter().map(|form| form.word().to_owned()).collect(),
            heads: self.heads.to_string(),
            query_heads: self.query_heads.clone(),
            window: self.window,
            sinks: self.sinks,
            cap: self.cap,
            cache: self.cache.iter().map(|cache| cache.word().to_owned()).collect(),
            step: self.step.map_or("", Step::word).to_owned(),
            except: self.exceptions(),
        }
    }
}

impl Refusal {
    fn holds(&self, cache: Cache, layer: &Layer) -> bool {
        self.cache == cache
            && self.heads.is_none_or(|width| width == layer.width)
            && self.sinks.is_none_or(|sinks| sinks == layer.sinks)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not {}", self.cache.word())?;
        if let Some(width) = self.heads {
            write!(f, " with heads of {width}")?;
        }
        match self.sinks {
            Some(true) => f.write_str(" with sinks"),
            Some(false) => f.write_str(" without sinks"),
            None => Ok(()),
        }
    }
}

impl Widths {
    fn contain(&self, width: usize, values: usize) -> bool {
        self.0.iter().any(|set| {
            let inside = width >= set.least && set.most.is_none_or(|most| width <= most);
            inside
                && width.is_multiple_of(set.multiple)
                && match set.values {
                    Values::OfKeys => values == width,
                    Values::Any => true,
                    Values::Other => values != width,
                    Values::Only(only) => values == only,
                }
        })
    }
}

impl fmt::Display for Widths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            Some(most) if most == self.least => write!(f, "{most}")?,
            Some(most) => write!(f, "{} to {most}", self.least)?,
            None if self.least <= 1 => f.write_str("any width")?,
            None => write!(f, "{} and more", self.least)?,
        }
        if self.multiple > 1 {
            write!(f, " by {}", self.multiple)?;
        }
        match self.values {
            Values::OfKeys => Ok(()),
            Values::Any => f.write_str(" with any values"),
            Values::Other => f.write_str(" with values of another width"),
            Values::Only(values) => write!(f, " with values of {values}"),
        }
    }
}

impl<'de> Deserialize<'de> for Widths {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        read_widths(&text).ok_or_else(|| D::Error::custom(UnknownWidths(text)))
    }
}

/// Reads sets of widths, separated by spaces: `64 128`, `16..512/16`, `32..`, `576:512`, `32..:any`, `32..:other`, `any`.
fn read_widths(text: &str) -> Option<Widths> {
    let one = |item: &str| -> Option<Width> {
        let (keys, values) = item.split_once(':').map_or((item, None), |(keys, values)| (keys, Some(values)));
        let values = match values {
            None => Values::OfKeys,
            Some("any") => Values::Any,
            Some("other") => Values::Other,
            Some(number) => Values::Only(number.parse().ok()?),
        };
        if keys == "any" {
            return Some(Width { least: 1, most: None, multiple: 1, values });
        }
        let (range, multiple) = match keys.split_once('/') {
            Some((range, multiple)) => (range, multiple.parse().ok().filter(|by| *by > 0)?),
            None => (keys, 1),
        };
        let (least, most) = match range.split_once("..") {
            Some((least, "")) => (least.parse().ok()?, None),
            Some((least, most)) => (least.parse().ok()?, Some(most.parse().ok()?)),
            None => range.parse().ok().map(|one| (one, Some(one)))?,
        };
        Some(Width { least, most, multiple, values })
    };
    let sets: Vec<Width> = text.split_whitespace().map(one).collect::<Option<_>>()?;
    (!sets.is_empty()).then_some(Widths(sets))
}

/// Returns the row of a model in a record.
pub(super) fn row_of_model(model: &Model) -> AuditModel {
    let words = |layer: &Layer| {
        let mut parts = vec![format!(
            "{} query heads, {} of keys, {} elements",
            layer.heads, layer.kv_heads, layer.width
        )];
        if layer.values != layer.width {
            parts.push(format!("values of {}", layer.values));
        }
        parts.extend(layer.window.map(|keys| format!("window {keys}")));
        parts.extend(layer.sinks.then(|| "sinks".to_owned()));
        parts.extend(layer.cap.map(|cap| format!("soft cap {cap}")));
        parts.join(", ")
    };
    let layers: Vec<String> = model.layers().iter().map(words).collect();
    AuditModel {
        name: model.name.clone(),
        form: model.form.unwrap_or(Form::Grouped).word().to_owned(),
        layers: layers.join("; "),
        source: model.source.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::models;
    use crate::header;
    use std::path::Path;

    fn takes(text: &str) -> Takes {
        header::parse_file(Path::new("t.yaml"), text).unwrap()
    }

    fn model(name: &str) -> &'static Model {
        models().iter().find(|model| model.name == name).unwrap()
    }

    #[test]
    fn widths_are_sets_of_keys_with_their_values() {
        for (text, holds, lacks, said) in [
            ("64 128", &[(64, 64), (128, 128)][..], &[(96, 96), (64, 128)][..], "64, 128"),
            ("16..512/16", &[(16, 16), (512, 512)], &[(8, 8), (520, 520), (20, 20)], "16 to 512 by 16"),
            ("32..", &[(32, 32), (512, 512)], &[(31, 31), (192, 128)], "32 and more"),
            ("576:512 512", &[(576, 512), (512, 512)], &[(576, 576)], "576 with values of 512, 512"),
            ("32..:any", &[(192, 128), (64, 64)], &[(16, 16)], "32 and more with any values"),
            ("32..:other", &[(192, 128)], &[(64, 64)], "32 and more with values of another width"),
            ("any", &[(7, 7)], &[(7, 8)], "any width"),
        ] {
            let widths = read_widths(text).unwrap();
            assert_eq!(widths.to_string(), said);
            assert!(holds.iter().all(|(keys, values)| widths.contain(*keys, *values)), "{text}");
            assert!(!lacks.iter().any(|(keys, values)| widths.contain(*keys, *values)), "{text}");
        }
        for text in ["", "x", "64..x", "64/0", "64:y", "..64"] {
            assert_eq!(read_widths(text), None, "{text}");
        }
    }

    #[test]
    fn every_limit_refuses_a_model_that_needs_more() {
        let all =
            "forms: [grouped]\nheads: '64 128 256'\nwindow: true\nsinks: true\ncap: true\ncache: [bf16]\n";
        for name in ["gpt-oss-20b", "llama-3.1-8b", "gemma-2-9b"] {
            assert_eq!(takes(all).caches_for(model(name)), Ok(vec![Cache::Bf16]), "{name}");
        }
        for (from, to, name, why) in [
            ("64 128", "128", "gpt-oss-20b", "heads of 64, it takes 128, 256"),
            ("window: true", "window: false", "gpt-oss-20b", "a window, which it lacks"),
            ("sinks: true", "sinks: false", "gpt-oss-20b", "sinks, which it lacks"),
            (
                "window: true\nsinks: true",
                "sinks: false",
                "gpt-oss-20b",
                "a window and sinks, which it lacks",
            ),
            ("cap: true", "cap: false", "gemma-2-9b", "a soft cap, which it lacks"),
            ("[grouped]", "[latent]", "llama-3.1-8b", "layers of the form grouped, it takes latent"),
            ("cap: true", "query_heads: [128]", "llama-3.1-8b", "32 query heads, it takes 128"),
            (
                "cap: true",
                "models: [glm-5]",
                "llama-3.1-8b",
                "a name that it does not take: it takes glm-5 alone",
            ),
            (
                "cap: true",
                "not_models: [llama-3.1-8b]",
                "llama-3.1-8b",
                "a name that the engine does not serve with it",
            ),
            ("", "", "gemma-4-26b-a4b", "heads of 512, it takes 64, 128, 256"),
            ("", "", "mimo-v2-flash", "heads of 192 with values of 128, it takes 64, 128, 256"),
            ("", "", "deepseek-v3", "layers of the form latent, it takes grouped"),
        ] {
            let answer = takes(&all.replacen(from, to, 1)).caches_for(model(name));
            assert_eq!(answer, Err(why.to_owned()), "{name}");
        }
        // The window of DeepSeek V4 is no sliding window of a layer of keys per head.
        let compressed = "forms: [compressed]\nheads: '512'\nsinks: true\ncache: [e4m3]\n";
        assert_eq!(takes(compressed).caches_for(model("deepseek-v4-flash")), Ok(vec![Cache::E4m3]));
    }

    #[test]
    fn a_combination_is_refused_for_its_cache_alone() {
        let text =
            "forms: [grouped]\nheads: '64 128'\nwindow: true\nsinks: true\ncache: [bf16, nvfp4]\nrefuses:\n";
        let by_width = takes(&format!("{text}- {{ cache: nvfp4, heads: 64 }}\n"));
        let by_sinks = takes(&format!("{text}- {{ cache: nvfp4, sinks: true }}\n"));
        let both = vec![Cache::Bf16, Cache::Nvfp4];
        for (takes, said) in [(&by_width, "not nvfp4 with heads of 64"), (&by_sinks, "not nvfp4 with sinks")]
        {
            assert_eq!(takes.caches_for(model("gpt-oss-20b")), Ok(vec![Cache::Bf16]));
            assert_eq!(takes.caches_for(model("llama-3.1-8b")), Ok(both.clone()));
            assert_eq!(takes.row().except, [said]);
        }
        let alone = by_width.row().phrase();
        assert_eq!(
            alone,
            "heads of 64, 128; windows, sinks, without soft cap; cache bf16, nvfp4; not nvfp4 with heads of 64"
        );
        let none = takes("forms: [grouped]\nheads: '128'\ncache: [nvfp4]\nrefuses: [{ cache: nvfp4 }]\n");
        let why = "it refuses every type of cache: not nvfp4".to_owned();
        assert_eq!(none.caches_for(model("qwen3-8b")), Err(why));
    }
}
