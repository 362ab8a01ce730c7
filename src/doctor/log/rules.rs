//! The table of what servers write: lines that name a chosen path, and lines that show that something is wrong.

use std::path::Path as FilePath;
use std::sync::OnceLock;

use regex::{Regex, bytes};
use serde::{Deserialize, Serialize};

use super::Engine;
use crate::header::{self, HeaderError};

/// What servers say of their start.
const TABLE: &str = include_str!("rules.yaml");

/// What is written when something is wrong.
const SIGNS: &str = include_str!("signs.yaml");

/// What a server chooses a kernel for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// The MoE layers.
    Moe,
    /// Attention.
    Attention,
    /// The products of quantised linear layers.
    Linear,
    /// The format of the KV cache.
    KvCache,
}

impl Path {
    /// Returns its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Moe => "MoE",
            Self::Attention => "attention",
            Self::Linear => "linear layers",
            Self::KvCache => "KV cache",
        }
    }
}

/// A format of quantised weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// FP4 with a scale of 8 exponent bits for 32 elements.
    Mxfp4,
    /// FP4 with a scale of FP8 for 16 elements.
    Nvfp4,
    /// FP8.
    Fp8,
    /// BF16 or FP16.
    Bf16,
}

impl Format {
    /// Returns its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mxfp4 => "MXFP4",
            Self::Nvfp4 => "NVFP4",
            Self::Fp8 => "FP8",
            Self::Bf16 => "BF16",
        }
    }

    /// Whether its products need block scales in the tensor cores.
    pub(super) const fn is_fp4(self) -> bool {
        matches!(self, Self::Mxfp4 | Self::Nvfp4)
    }
}

/// How a backend multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Arithmetic {
    /// With the block-scaled FP4 instructions of SM12x.
    Native,
    /// After widening the weights to BF16.
    Widened,
    /// With instructions that SM12x lacks, such as tcgen05.
    OfOthers,
    /// Without tensor cores for the format.
    Emulated,
    /// It runs on SM12x; the log does not say with what instructions.
    Runs,
}

/// A line that names a chosen path.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Naming {
    pub(super) engine: Engine,
    pub(super) path: Path,
    /// Its group `backend` is the name.
    #[serde(deserialize_with = "regex")]
    pub(super) line: Regex,
    /// The format whose path it is, where the line tells.
    #[serde(default)]
    pub(super) format: Option<Format>,
}

/// What a backend does on SM12x.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Backend {
    pub(super) path: Path,
    #[serde(deserialize_with = "regex")]
    pub(super) name: Regex,
    pub(super) arithmetic: Arithmetic,
    pub(super) about: String,
}

/// What a sign counts for in a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Weight {
    /// It names what is wrong.
    #[default]
    Fault,
    /// It follows from what another line says, and counts only where nothing else is known.
    Consequence,
    /// Programs that run well write it, too: it counts only in a line with which a program ends.
    Warning,
    /// It says what messages of its kind mean: the first counts, in a line with which a program ends, where nothing else is known.
    General,
}

impl Weight {
    /// Whether it counts beside a sign that names what is wrong.
    pub(super) const fn counts_beside_a_cause(self) -> bool {
        matches!(self, Self::Fault | Self::Warning)
    }
}

/// A line that shows that something is wrong.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sign {
    pub(super) name: String,
    #[serde(deserialize_with = "of_bytes")]
    line: bytes::Regex,
    /// Lines that have another cause, and another sign.
    #[serde(default, deserialize_with = "some_of_bytes")]
    except: Option<bytes::Regex>,
    /// Only for these architectures.
    #[serde(default)]
    pub(super) gpus: Vec<u16>,
    pub(super) meaning: String,
    pub(super) remedy: String,
    /// Where such a line was seen.
    pub(super) source: String,
    /// Whether it costs speed alone.
    #[serde(default)]
    pub(super) slow: bool,
    #[serde(default)]
    pub(super) weight: Weight,
    /// Whether it is said in general of so many messages that it tells nothing beside another sign.
    #[serde(default)]
    pub(super) broad: bool,
}

impl Sign {
    /// Whether a line shows it; its quotes are plain ones.
    pub(super) fn is_in(&self, line: &str) -> bool {
        let line = line.as_bytes();
        self.line.is_match(line) && !self.except.as_ref().is_some_and(|except| except.is_match(line))
    }

    /// Whether it is about a GPU with this architecture number, if that is known.
    pub(super) fn is_about(&self, architecture: Option<u16>) -> bool {
        self.gpus.is_empty() || architecture.is_none_or(|gpu| self.gpus.contains(&gpu))
    }

    /// The regular expression of lines that show it.
    pub(super) fn pattern(&self) -> &str {
        self.line.as_str()
    }

    /// Whether it says why something goes wrong, so that lines that follow from that say nothing more.
    pub(super) fn is_cause(&self) -> bool {
        !self.slow && self.weight.counts_beside_a_cause()
    }
}

/// A line with a fact about the server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Telling {
    pub(super) engine: Engine,
    pub(super) fact: Fact,
    /// Its group `value` is the fact.
    #[serde(deserialize_with = "regex")]
    pub(super) line: Regex,
}

/// A fact that a log tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fact {
    Version,
    Model,
    Quantisation,
    Gpu,
    Capability,
}

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rules {
    pub(super) engines: Vec<Marker>,
    pub(super) tells: Vec<Telling>,
    pub(super) names: Vec<Naming>,
    pub(super) backends: Vec<Backend>,
    #[serde(skip)]
    pub(super) signs: Vec<Sign>,
    /// Lines with which a server, a compiler or Python reports an error that ends it.
    #[serde(deserialize_with = "regexes")]
    pub(super) errors: Vec<Regex>,
}

/// A line by which a server is recognised.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Marker {
    pub(super) engine: Engine,
    #[serde(deserialize_with = "regex")]
    pub(super) line: Regex,
}

fn regex<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Regex, D::Error> {
    let text = String::deserialize(from)?;
    Regex::new(&text).map_err(serde::de::Error::custom)
}

/// A regular expression whose classes are of ASCII: with those of Unicode, all signs take three times as long to compile.
fn of_bytes<'de, D: serde::Deserializer<'de>>(from: D) -> Result<bytes::Regex, D::Error> {
    let text = String::deserialize(from)?;
    bytes::RegexBuilder::new(&text).unicode(false).build().map_err(serde::de::Error::custom)
}

fn some_of_bytes<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<bytes::Regex>, D::Error> {
    of_bytes(from).map(Some)
}

fn regexes<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Regex>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| Regex::new(text).map_err(serde::de::Error::custom)).collect()
}

/// Returns the table.
pub(super) fn table() -> Result<&'static Rules, &'static HeaderError> {
    static ALL: OnceLock<Result<Rules, HeaderError>> = OnceLock::new();
    let read = || {
        let signs = header::parse_file(FilePath::new("src/doctor/log/signs.yaml"), SIGNS)?;
        let rules: Rules = header::parse_file(FilePath::new("src/doctor/log/rules.yaml"), TABLE)?;
        Ok(Rules { signs, ..rules })
    };
    ALL.get_or_init(read).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_the_group_that_is_read() {
        let rules = table().unwrap();
        for naming in &rules.names {
            assert!(naming.line.capture_names().flatten().any(|name| name == "backend"), "{:?}", naming.line);
        }
        for telling in &rules.tells {
            assert!(telling.line.capture_names().flatten().any(|name| name == "value"), "{:?}", telling.line);
        }
        for sign in &rules.signs {
            assert!(
                ![&sign.meaning, &sign.remedy, &sign.source].iter().any(|t| t.is_empty()),
                "{}",
                sign.name
            );
        }
    }
}
