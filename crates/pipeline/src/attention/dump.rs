//! The dump format of attention: a safetensors file with queries, keys and values in the layout of any library, and results (docs/attention.md).

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::cache::{Cache, Factors, Order, Plane, ScaleOf, ScaleOrder, Scales, Strides, ValueOrder};
use super::element::{BLOCK, Element};
use super::error::AttentionError;
use super::mla;
use super::problem::{HeadMap, Problem, Request, Shape, Side};
use super::quantize;
use super::semantics::{
    Arithmetic, Base, Denominator, Empty, Folded, Kernel, Mask, ProductSum, Semantics, TwoLevel,
};
use super::writer::Written;
use crate::kernel::FactorRule;

/// The tensor that makes a file one of a writer: the slot of each new token.
const SLOTS: &str = "slot_mapping";

/// The most bytes of a file.
const LIMIT: u64 = 16 << 30;

/// The most bytes of a header that the format allows.
const HEADER_LIMIT: u64 = 100_000_000;

/// The tensors, by all of their names: the first is ours.
const TENSORS: &[&[&str]] = &[
    &["q", "query"],
    &["k", "key"],
    &["v", "value"],
    &["k_cache", "key_cache", "paged_k_cache"],
    &["v_cache", "value_cache", "paged_v_cache"],
    &["kv_cache", "paged_kv_cache"],
    &["qo_indptr", "q_indptr", "cu_seqlens_q", "query_start_loc"],
    &["kv_indptr", "paged_kv_indptr", "cu_seqlens_k", "kv_page_indptr"],
    &["kv_indices", "paged_kv_indices", "kv_page_indices"],
    &["kv_last_page_len", "paged_kv_last_page_len"],
    &["block_table", "block_tables", "page_table"],
    &["seq_lens", "seqused_k", "cache_seqlens", "kv_lens"],
    &["q_scale"],
    &["k_scale"],
    &["v_scale"],
    &["k_scales", "k_sf"],
    &["v_scales", "v_sf"],
    &["k_global", "k_global_scale"],
    &["v_global", "v_global_scale"],
    &["sinks", "sink", "attention_sinks", "s_aux"],
    &["alibi_slopes"],
    &["custom_mask"],
    &["packed_custom_mask"],
    &["mask_indptr"],
    &["draft_mask"],
    &["slot_mapping"],
    &["topk_indices", "sparse_indices"],
    &["topk_length", "topk_lens"],
    &["out", "output", "o"],
    &["lse", "softmax_lse"],
];

/// The keys of the metadata, by all of their names: the first is ours.
const KEYS: &[&[&str]] = &[
    &["family"],
    &["case"],
    &["seed"],
    &["target"],
    &["configuration"],
    &["sm_scale", "softmax_scale", "scaling"],
    &["mask"],
    &["causal"],
    &["window"],
    &["window_left"],
    &["sliding_window"],
    &["soft_cap", "logits_soft_cap", "softcap"],
    &["lse_base"],
    &["lse_layout"],
    &["lse_sink"],
    &["empty"],
    &["kv_layout"],
    &["kv_format", "kv_cache_dtype"],
    &["q_format"],
    &["page_size", "block_size"],
    &["kv_heads", "num_kv_heads"],
    &["head_dim"],
    &["stacked"],
    &["v_order"],
    &["record"],
    &["value_width"],
    &["k_strides"],
    &["v_strides"],
    &["k_scale_layout"],
    &["v_scale_layout"],
    &["kernel"],
    &["products"],
    &["weights"],
    &["denominator"],
    &["partials"],
    &["elements"],
    &["tile"],
    &["split"],
    &["factor"],
    &["sum"],
    &["queries"],
];

/// A result that was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its type.
    pub element: Element,
    /// Its elements.
    pub values: Arc<Vec<f32>>,
}

/// The logarithms that were stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredLse {
    /// The elements.
    pub values: Arc<Vec<f32>>,
    /// How they may be read: one reading if everything is declared.
    pub readings: Vec<LseReading>,
}

/// What is stored in the place of the logarithm of a sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LseQuantity {
    /// The logarithm.
    Logarithm,
    /// Its negative: a fault, as the others are.
    Negated,
    /// The maximum of the scores.
    Maximum,
    /// The logarithm relative to the maximum.
    BesideMaximum,
    /// The sum relative to the maximum, not its logarithm.
    Sum,
    /// The logarithm and a constant.
    Shifted(f64),
}

/// How stored logarithms are to be read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LseReading {
    /// The base.
    pub base: Base,
    /// Whether they are [heads, rows] instead of [rows, heads].
    pub by_head: bool,
    /// Whether they include the sink.
    pub sink: bool,
    /// What they are.
    pub quantity: LseQuantity,
}

impl LseReading {
    /// Every reading.
    pub fn all(has_sinks: bool) -> Vec<Self> {
        let mut all = Vec::new();
        for base in Base::ALL {
            for by_head in [false, true] {
                let of = |sink| Self { base: *base, by_head, sink, quantity: LseQuantity::Logarithm };
                all.push(of(true));
                all.extend(has_sinks.then(|| of(false)));
            }
        }
        all
    }
}

/// A choice that the file does not declare, and its possible words: the first is the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undeclared {
    /// The key of the metadata.
    pub key: &'static str,
    /// Its possible values.
    pub words: Vec<&'static str>,
}

/// A dump.
#[derive(Debug, Clone, PartialEq)]
pub struct Dump {
    /// Heads and widths.
    pub shape: Shape,
    /// What is computed.
    pub semantics: Semantics,
    /// What its kernel may round.
    pub arithmetic: Arithmetic,
    /// The requests, with their keys in the order in which they are gathered.
    pub requests: Vec<Request>,
    /// Queries.
    pub queries: Arc<Vec<f32>>,
    /// Keys and values in memory.
    pub cache: Cache,
    /// The sink of each head of queries, base e; empty if there is none.
    pub sinks: Vec<f32>,
    /// The slope of each head of queries; empty if there is none.
    pub slopes: Vec<f32>,
    /// The bits of custom masks, request after request.
    pub mask: Arc<Vec<bool>>,
    /// The factors of whole tensors: of queries, keys and values, and the global ones of keys and values.
    pub scales: [f64; 5],
    /// The factor of scores that is declared.
    pub sm_scale: f64,
    /// The output.
    pub output: Option<Stored>,
    /// The logarithms.
    pub lse: Option<StoredLse>,
    /// What the file does not declare and this reading chose: keys and words.
    pub chosen: Vec<(&'static str, &'static str)>,
    /// The metadata.
    pub metadata: BTreeMap<String, String>,
}

impl Dump {
    /// Reads the keys and values of these requests.
    ///
    /// # Errors
    /// [`AttentionError::Value`] if a page is beyond the cache.
    pub fn problem(&self, requests: &[usize]) -> Result<Problem, AttentionError> {
        self.problem_like(requests, None)
    }

    /// Reads the keys and values of these requests; a side that this dump has in common with another is taken from the problem of the same
    /// requests of that one.
    ///
    /// # Errors
    /// As [`Self::problem`].
    pub fn problem_like(
        &self,
        requests: &[usize],
        known: Option<(&Self, &Problem)>,
    ) -> Result<Problem, AttentionError> {
        let mut first = 0;
        let mut chosen = Vec::new();
        for request in requests.iter().filter_map(|request| self.requests.get(*request)) {
            let keys = first..first + request.keys.len();
            first = keys.end;
            chosen.push(Request { keys, ..request.clone() });
        }
        let side = |side: usize| match known {
            Some((dump, problem)) if self.has_side_of(side, dump, requests) => {
                Ok(Arc::clone(if side == 0 { &problem.keys } else { &problem.values }))
            }
            _ => self.side(side, requests.iter().copied().zip(&chosen)).map(Arc::new),
        };
        Ok(Problem {
            shape: self.shape,
            semantics: self.semantics,
            keys: side(0)?,
            values: side(1)?,
            requests: chosen,
            queries: Arc::clone(&self.queries),
            sinks: self.sinks.clone(),
            slopes: self.slopes.clone(),
            mask: Arc::clone(&self.mask),
        })
    }

    /// Whether another dump has the same keys (side 0) or values in these requests, and rounds them alike.
    fn has_side_of(&self, side: usize, other: &Self, requests: &[usize]) -> bool {
        let length = |dump: &Self, request: &usize| dump.requests.get(*request).map(|r| r.keys.len());
        let of = |dump: &Self| {
            (
                dump.scales,
                dump.arithmetic.elements,
                dump.arithmetic.exact_elements,
                dump.cache.heads,
                dump.cache.page,
                dump.cache.by_slot,
            )
        };
        of(self) == of(other)
            && self.cache.is_permuted == other.cache.is_permuted
            && self.cache.key_shift.get(side) == other.cache.key_shift.get(side)
            && self.cache.planes[side] == other.cache.planes[side]
            && self.cache.table == other.cache.table
            && self.cache.value_table == other.cache.value_table
            && requests.iter().all(|request| length(self, request) == length(other, request))
    }

    /// Reads the keys (side 0) or values of these requests.
    fn side<'r>(
        &self,
        side: usize,
        requests: impl Iterator<Item = (usize, &'r Request)>,
    ) -> Result<Side, AttentionError> {
        let found = self.cache.gather(side, requests.map(|(at, request)| (at, request.keys.len())))?;
        let [_, k, v, k_global, v_global] = self.scales;
        let scale = if side == 0 { k * k_global } else { v * v_global };
        let plane = &self.cache.planes[side];
        // A power of two changes no code's precision.
        let is_scaled = plane.element.bits() <= 8 && (plane.factors.is_some() || !is_power_of_two(scale));
        let rounded = found.rounded.or(self.arithmetic.elements.filter(|_| is_scaled));
        let rounded = rounded.filter(|_| !self.arithmetic.exact_elements);
        Ok(Side { rounded, ..found })
    }
}

/// Whether a safetensors file holds tensors of attention: by its metadata, or by its queries.
///
/// # Errors
/// [`AttentionError`] if it cannot be read.
pub fn is_attention(path: &Path) -> Result<bool, AttentionError> {
    let mut file = fs::File::open(path)?;
    let mut size = [0; 8];
    // A file without a header is reported by the format that reads it.
    if file.read_exact(&mut size).is_err() {
        return Ok(false);
    }
    let mut bytes = Vec::new();
    file.take(u64::from_le_bytes(size).min(HEADER_LIMIT)).read_to_end(&mut bytes)?;
    let Ok(header) = serde_json::from_slice::<serde_json::Value>(&bytes) else { return Ok(false) };
    let family = header.get("__metadata__").and_then(|metadata| metadata.get("family"));
    Ok(match family.and_then(serde_json::Value::as_str) {
        Some(family) => family == super::FAMILY,
        None => {
            // The queries, any form of cache, the slots of a writer: no other family has such tensors.
            let names = TENSORS[0].iter().chain(TENSORS[3..6].iter().copied().flatten()).chain(&[SLOTS]);
            names.into_iter().any(|name| header.get(name).is_some())
        }
    })
}

/// What a file holds.
#[derive(Debug)]
pub enum Contents {
    /// Attention, in every way that the metadata leave open; the first is by defaults.
    Attention(Vec<Dump>),
    /// What a writer stored, in every way that the metadata leave open.
    Written(Vec<Written>),
}

/// Reads a file.
///
/// # Errors
/// [`AttentionError`] with the tensor, the index and the remedy.
pub fn read(path: &Path) -> Result<Contents, AttentionError> {
    let bytes = fs::metadata(path)?.len();
    if bytes > LIMIT {
        let what = path.display().to_string();
        return Err(AttentionError::TooLarge { what, bytes, limit: LIMIT });
    }
    contents(&fs::read(path)?)
}

/// Reads the bytes of a file.
///
/// # Errors
/// As [`read`].
pub fn contents(bytes: &[u8]) -> Result<Contents, AttentionError> {
    let tensors = SafeTensors::deserialize(bytes)?;
    let is_written = tensors.names().iter().any(|name| **name == *SLOTS);
    if is_written {
        return Ok(Contents::Written(readings(bytes, &tensors, |file, _| file.written())?));
    }
    Ok(Contents::Attention(parse(bytes)?))
}

/// Reads a dump of attention from the bytes of a file, in every way that its metadata leave open.
///
/// # Errors
/// As [`read`].
pub fn parse(bytes: &[u8]) -> Result<Vec<Dump>, AttentionError> {
    let tensors = SafeTensors::deserialize(bytes)?;
    readings(bytes, &tensors, |file, chosen| Ok(Dump { chosen: chosen.to_vec(), ..file.dump()? }))
}

/// A key and the word that a reading chose for it.
type Choice = (&'static str, &'static str);

/// Reads a file in every way that its metadata leave open.
fn readings<'a, T>(
    bytes: &[u8],
    tensors: &SafeTensors<'a>,
    read: impl Fn(&mut File<'a>, &[Choice]) -> Result<T, AttentionError>,
) -> Result<Vec<T>, AttentionError> {
    let (_, header) = SafeTensors::read_metadata(bytes)?;
    let said = header.metadata().clone().unwrap_or_default().into_iter().collect();
    let mut file = File::new(tensors, &said)?;
    let declared = file.metadata.clone();
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    // Every choice that is open once those before it are made.
    let mut open: Vec<Vec<Choice>> = vec![Vec::new()];
    while let Some(chosen) = open.pop() {
        file.metadata = declared.clone();
        file.metadata.extend(chosen.iter().map(|(key, word)| ((*key).to_owned(), (*word).to_owned())));
        let found = read(&mut file, &chosen);
        let undeclared = std::mem::take(&mut file.undeclared);
        match (undeclared.first(), found) {
            (Some(Undeclared { key, words }), _) => {
                // The last is taken first.
                let next = words.iter().rev().map(|word| [chosen.as_slice(), &[(*key, *word)]].concat());
                open.extend(next);
            }
            (None, Ok(found)) => all.push(found),
            // A reading in which tensors contradict one another is not meant.
            (None, Err(error)) => errors.push(error),
        }
    }
    match errors.into_iter().next() {
        Some(error) if all.is_empty() => Err(error),
        _ => Ok(all),
    }
}

/// Whether a number is a power of two.
pub(super) fn is_power_of_two(x: f64) -> bool {
    x.is_normal() && x.to_bits() & ((1 << 52) - 1) == 0
}

/// The name of ours for a name of any library.
fn ours(table: &[&[&'static str]], name: &str) -> Option<&'static str> {
    table.iter().find(|names| names.contains(&name)).map(|names| names[0])
}

/// A file: its tensors and metadata under our names.
struct File<'a> {
    tensors: BTreeMap<&'static str, (String, TensorView<'a>)>,
    metadata: BTreeMap<String, String>,
    undeclared: Vec<Undeclared>,
    /// The bytes of caches, shared by all readings.
    memory: BTreeMap<&'static str, Arc<Vec<u8>>>,
}

/// The requests of a file.
struct Lists {
    rows: Vec<Range<usize>>,
    lengths: Vec<usize>,
    /// Whether the table names slots.
    by_slot: bool,
    /// The pages of each; `None` for ragged keys.
    pages: Option<[Vec<Vec<usize>>; 2]>,
    /// [`Request::places`] of each; empty without lists.
    places: Vec<Vec<usize>>,
}

impl<'a> File<'a> {
    fn new(file: &SafeTensors<'a>, found: &BTreeMap<String, String>) -> Result<Self, AttentionError> {
        let known = |table: &[&[&str]]| table.iter().map(|names| names[0]).collect::<Vec<_>>().join(", ");
        let mut tensors: BTreeMap<&'static str, (String, TensorView<'a>)> = BTreeMap::new();
        let mut sorted = file.tensors();
        sorted.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (name, view) in sorted {
            let Some(of) = ours(TENSORS, &name) else {
                return Err(AttentionError::Name { what: "tensor", name, known: known(TENSORS) });
            };
            if let Some((first, _)) = tensors.insert(of, (name.clone(), view)) {
                return Err(AttentionError::Twice { first, second: name });
            }
        }
        let mut metadata = BTreeMap::new();
        for (key, value) in found {
            let Some(of) = ours(KEYS, key) else {
                let name = key.clone();
                return Err(AttentionError::Name { what: "metadata", name, known: known(KEYS) });
            };
            if metadata.insert(of.to_owned(), value.clone()).is_some() {
                return Err(AttentionError::Twice { first: of.to_owned(), second: key.clone() });
            }
        }
        Ok(Self { tensors, metadata, undeclared: Vec::new(), memory: BTreeMap::new() })
    }

    fn get(&self, name: &str) -> Option<&TensorView<'a>> {
        self.tensors.get(name).map(|(_, view)| view)
    }

    fn need(&self, name: &'static str, remedy: &str) -> Result<&TensorView<'a>, AttentionError> {
        self.get(name).ok_or_else(|| AttentionError::Missing { name, remedy: remedy.to_owned() })
    }

    /// The error of two tensors that exclude each other.
    fn both(&self, first: &str, second: &str) -> AttentionError {
        AttentionError::Twice { first: self.named(first), second: self.named(second) }
    }

    /// The name under which the file has a tensor.
    fn named(&self, name: &str) -> String {
        self.tensors.get(name).map_or_else(|| name.to_owned(), |(name, _)| name.clone())
    }

    fn wrong_shape(&self, name: &str, wanted: impl Into<String>) -> AttentionError {
        let found = self.get(name).map(|view| view.shape().to_vec()).unwrap_or_default();
        AttentionError::Shape { name: self.named(name), found, wanted: wanted.into() }
    }

    fn wrong_type(&self, name: &str, wanted: impl Into<String>) -> AttentionError {
        let found = self.get(name).map(|view| format!("{:?}", view.dtype())).unwrap_or_default();
        AttentionError::Type { name: self.named(name), found, wanted: wanted.into() }
    }

    fn wrong_value(&self, name: &str, index: usize, found: i64, wanted: impl Into<String>) -> AttentionError {
        AttentionError::Value { name: self.named(name), index, found, wanted: wanted.into() }
    }

    fn wrong_number(
        &self,
        name: &str,
        index: usize,
        found: f32,
        wanted: impl Into<String>,
    ) -> AttentionError {
        AttentionError::Number { name: self.named(name), index, found: found.into(), wanted: wanted.into() }
    }

    fn metadata_value(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    fn wrong_key(&self, key: &str, wanted: impl Into<String>) -> AttentionError {
        let found = self.metadata_value(key).unwrap_or_default().to_owned();
        AttentionError::Key { key: key.to_owned(), found, wanted: wanted.into() }
    }

    fn number<T: FromStr>(&self, key: &str) -> Result<Option<T>, AttentionError> {
        self.metadata_value(key)
            .map(|text| text.trim().parse().map_err(|_| self.wrong_key(key, "a number")))
            .transpose()
    }

    fn word<T: Copy>(
        &self,
        key: &str,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Result<Option<T>, AttentionError> {
        let Some(said) = self.metadata_value(key) else { return Ok(None) };
        let found = all.iter().copied().find(|value| word(*value).eq_ignore_ascii_case(said));
        let words = || all.iter().map(|value| word(*value)).collect::<Vec<_>>().join(", ");
        found.map_or_else(|| Err(self.wrong_key(key, format!("one of {}", words()))), |value| Ok(Some(value)))
    }

    /// A flag: `true`, `false`, `1` or `0`.
    fn flag(&self, key: &str) -> Result<Option<bool>, AttentionError> {
        Ok(match self.metadata_value(key).map(str::to_ascii_lowercase).as_deref() {
            None => None,
            Some("true" | "1") => Some(true),
            Some("false" | "0") => Some(false),
            Some(_) => return Err(self.wrong_key(key, "true or false")),
        })
    }

    /// The type of a tensor's elements: its own or, of bytes, the declared one.
    fn element(&self, name: &str, key: &str) -> Result<Element, AttentionError> {
        let declared = match self.metadata_value(key) {
            Some("auto") | None => None,
            Some("fp8" | "e4m3") => Some(Element::E4m3),
            Some("e5m2") => Some(Element::E5m2),
            Some("float16" | "half") => Some(Element::F16),
            Some("bfloat16") => Some(Element::Bf16),
            _ => self.word(key, Element::ALL, Element::word)?,
        };
        let Some(view) = self.get(name) else { return Ok(declared.unwrap_or(Element::Bf16)) };
        let of_type = match view.dtype() {
            Dtype::F32 => Element::F32,
            Dtype::BF16 => Element::Bf16,
            Dtype::F16 => Element::F16,
            Dtype::F8_E4M3 => Element::E4m3,
            Dtype::F8_E5M2 => Element::E5m2,
            Dtype::U8 | Dtype::I8 => {
                let wanted =
                    format!("bytes whose type is declared: metadata {key} nvfp4, fp8_e4m3 or fp8_e5m2");
                return declared.ok_or_else(|| self.wrong_type(name, wanted));
            }
            _ => return Err(self.wrong_type(name, "BF16, F16, F32, F8_E4M3, F8_E5M2 or, declared, U8")),
        };
        match declared {
            Some(declared) if declared != of_type => {
                Err(self.wrong_type(name, format!("{}, as metadata {key} declares", declared.word())))
            }
            _ => Ok(of_type),
        }
    }

    /// The elements of a tensor as binary32.
    fn floats(&self, name: &str) -> Result<Vec<f32>, AttentionError> {
        let Some(view) = self.get(name) else { return Ok(Vec::new()) };
        let element = match view.dtype() {
            Dtype::F32 => Element::F32,
            Dtype::BF16 => Element::Bf16,
            Dtype::F16 => Element::F16,
            Dtype::F64 => {
                return Ok(view.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b) as f32).collect());
            }
            _ => return Err(self.wrong_type(name, "F32, F64, BF16 or F16")),
        };
        let count = view.shape().iter().product();
        Ok((0..count).map_while(|at| element.value(view.data(), at)).collect())
    }

    /// The elements of a tensor of indices.
    fn integers(&self, name: &str) -> Result<Option<Vec<i64>>, AttentionError> {
        let Some(view) = self.get(name) else { return Ok(None) };
        let data = view.data();
        Ok(Some(match view.dtype() {
            Dtype::I32 => data.as_chunks().0.iter().map(|b| i64::from(i32::from_le_bytes(*b))).collect(),
            Dtype::U32 => data.as_chunks().0.iter().map(|b| i64::from(u32::from_le_bytes(*b))).collect(),
            Dtype::I64 => data.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect(),
            _ => return Err(self.wrong_type(name, "I32, U32 or I64")),
        }))
    }

    /// The ranges of an index pointer that ends at most at `end`.
    fn ranges(
        &self,
        name: &str,
        end: usize,
        what: &str,
    ) -> Result<Option<Vec<Range<usize>>>, AttentionError> {
        let Some(points) = self.integers(name)? else { return Ok(None) };
        if points.len() < 2 {
            return Err(self.wrong_shape(name, "one element more than requests"));
        }
        for (index, pair) in points.windows(2).enumerate() {
            if pair[1] < pair[0] {
                let wanted = format!("it must not be below its predecessor {}: sort the requests", pair[0]);
                return Err(self.wrong_value(name, index + 1, pair[1], wanted));
            }
        }
        if points[0] != 0 {
            return Err(self.wrong_value(
                name,
                0,
                points[0],
                "it must be 0: what is before it would not be judged",
            ));
        }
        let last = points.len() - 1;
        if usize::try_from(points[last]).is_ok_and(|point| point > end) {
            let wanted = format!("there are {end} {what}: export all of them, or fewer requests");
            return Err(self.wrong_value(name, last, points[last], wanted));
        }
        Ok(Some(points.windows(2).map(|pair| pair[0] as usize..pair[1] as usize).collect()))
    }

    /// Lets all words of an undeclared choice be tried.
    fn undeclared(&mut self, key: &'static str, words: Vec<&'static str>) {
        if self.metadata_value(key).is_none() && self.undeclared.iter().all(|of| of.key != key) {
            self.undeclared.push(Undeclared { key, words });
        }
    }

    /// The bytes of a tensor.
    fn bytes(&mut self, name: &'static str) -> Arc<Vec<u8>> {
        let data = self.tensors.get(name).map(|(_, view)| view.data()).unwrap_or_default();
        Arc::clone(self.memory.entry(name).or_insert_with(|| Arc::new(data.to_vec())))
    }

    /// The one number of a tensor or of the metadata.
    fn scalar(&self, name: &'static str) -> Result<Option<f64>, AttentionError> {
        let floats = self.floats(name)?;
        match (floats.as_slice(), self.get(name)) {
            ([one], _) if one.is_finite() && *one > 0.0 => Ok(Some(f64::from(*one))),
            ([one], _) => Err(self.wrong_number(name, 0, *one, "a scale is a positive number")),
            (_, Some(_)) => Err(self.wrong_shape(name, "one number")),
            (_, None) => Ok(None),
        }
    }

    fn dump(&mut self) -> Result<Dump, AttentionError> {
        let q = self.need("q", "the queries, [rows, heads, elements], are needed")?;
        let &[rows, heads, width] = q.shape() else {
            return Err(self.wrong_shape("q", "[rows, heads, elements]"));
        };
        if rows * heads * width == 0 {
            return Err(self.wrong_shape("q", "at least one row, head and element"));
        }
        let q_element = self.element("q", "q_format")?;
        let mut queries: Vec<f32> =
            (0..rows * heads * width).map_while(|at| q_element.value(q.data(), at)).collect();
        let (mut cache, value_width) = self.cache(width)?;
        let kv_heads = cache.heads;
        if kv_heads == 0 || heads % kv_heads != 0 {
            let wanted = format!("a number of heads that {kv_heads} heads of keys divide");
            return Err(self.wrong_shape("q", wanted));
        }
        let shape = Shape { heads, kv_heads, width, value_width, maps: [HeadMap::Grouped; 2] };
        let lists = self.lists(rows, &cache)?;
        cache.by_slot = lists.by_slot;
        if let Some([keys, values]) = lists.pages {
            cache.value_table = (keys != values).then_some(values);
            cache.table = keys;
        }
        let (mut requests, mut key, mut bit) = (Vec::new(), 0, 0);
        let mut places = lists.places.into_iter();
        for (rows, length) in lists.rows.into_iter().zip(lists.lengths) {
            let size = rows.len() * length;
            let position = length as i64 - rows.len() as i64;
            let keys = key..key + length;
            let places = places.next().unwrap_or_default();
            requests.push(Request {
                rows,
                keys,
                position,
                beyond: 0,
                mask: bit,
                mask_stride: length,
                places,
            });
            (key, bit) = (key + length, bit + size);
        }
        let mask = self.mask(&mut requests)?;
        let per_head = |name: &str| {
            let floats = self.floats(name)?;
            match floats.len() {
                0 => Ok(floats),
                len if len == heads => match floats.iter().position(|x| x.is_nan() || *x == f32::INFINITY) {
                    None => Ok(floats),
                    Some(head) => {
                        let wanted = "it must be a number, or minus infinity for no sink".to_owned();
                        Err(self.wrong_number(name, head, floats[head], wanted))
                    }
                },
                _ => Err(self.wrong_shape(name, format!("one number for each of {heads} heads of queries"))),
            }
        };
        let (sinks, slopes) = (per_head("sinks")?, per_head("alibi_slopes")?);
        let output = self.output(rows, shape)?;
        let semantics = self.semantics(shape, &requests, !mask.is_empty())?;
        let scales = self.scales()?;
        let sm_scale = semantics.scale / (scales[0] * scales[1] * scales[3]);
        let lse = self.lse(rows, heads, !sinks.is_empty())?;
        // Queries that were widened for the file tell less of the kernel than its results.
        let of_kernel = match (q_element, &output) {
            (Element::F32, Some(stored)) => stored.element,
            _ => q_element,
        };
        let record = cache.planes[0].record.map(|(layout, _)| layout);
        let arithmetic = self.arithmetic(of_kernel, shape.value_width, record)?;
        if let Some(record) = record.filter(|_| arithmetic.short_queries) {
            let fields = record.fields();
            quantize::round_queries(&mut queries, width, (fields.latent, fields.block));
        }
        Ok(Dump {
            shape,
            semantics,
            arithmetic,
            requests,
            queries: Arc::new(queries),
            cache,
            sinks,
            slopes,
            mask: Arc::new(mask),
            scales,
            sm_scale,
            output,
            lse,
            chosen: Vec::new(),
            metadata: self.metadata.clone(),
        })
    }
}

mod meaning;
mod memory;
