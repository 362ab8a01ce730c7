//! The cases: problems of attention, one YAML file each.

use std::path::Path;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use toolchain::header;

use super::semantics::Mask;
use crate::frame::case_files;

record::words! {
    /// The kind of values.
    Regime {
        /// All scores are equal and values are small integers: sums are exact.
        Equal "equal",
        /// Each query is far closest to one key, whose value is the output bit for bit.
        OneHot "one_hot",
        /// Normal numbers.
        Real "real",
        /// Scores about −6e4, below the sentinels of some kernels.
        Low "low",
    }
}

record::words! {
    /// Where the pages of a cache are.
    #[derive(Default)]
    Pages {
        /// One behind the other.
        #[default]
        Packed "packed",
        /// Three at offsets beyond 2^33, 2^32 and 2^31 elements, with nothing in between.
        Spread "spread",
    }
}

record::words! {
    /// Where keys and values are.
    Layout {
        /// Two tensors [pages, slots, heads, elements].
        Nhd "nhd",
        /// Two tensors [pages, heads, slots, elements].
        Hnd "hnd",
        /// One tensor [pages, heads, slots, 2·elements], keys before values in each row.
        Halves "halves",
        /// As `hnd`, with 64 unused bytes behind each page, and values with wider pages than keys.
        Padded "padded",
    }
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Length {
    /// Rows of queries.
    pub(super) rows: usize,
    /// Keys.
    pub(super) keys: usize,
}

/// A problem of attention.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// The name: the file stem.
    #[serde(skip)]
    pub(super) name: String,
    /// One sentence on what it tests.
    pub(super) about: String,
    /// Heads of queries.
    pub(super) heads: usize,
    /// Heads of keys and values.
    pub(super) kv_heads: usize,
    /// The requests.
    pub(super) requests: Vec<Length>,
    /// Slots of a page.
    pub(super) page: usize,
    /// Pages of the cache that no request has.
    #[serde(default)]
    pub(super) spare: usize,
    /// Where the pages are.
    #[serde(default)]
    pub(super) pages: Pages,
    /// Where keys and values are.
    pub(super) layout: Layout,
    /// Which keys a row sees.
    pub(super) mask: Mask,
    /// The most keys that a row sees.
    #[serde(default)]
    pub(super) window: Option<usize>,
    /// Whether each head has a sink.
    #[serde(default)]
    pub(super) sinks: bool,
    /// Whether each head has a slope.
    #[serde(default)]
    pub(super) slopes: bool,
    /// The soft cap.
    #[serde(default)]
    pub(super) cap: Option<f32>,
    /// Whether the block scales of NVFP4 values are swizzled.
    #[serde(default)]
    pub(super) swizzled: bool,
    /// Whether the block scales of NVFP4 keys are swizzled.
    #[serde(default)]
    pub(super) key_swizzled: bool,
    /// Keys of a split; all of them if absent.
    #[serde(default)]
    pub(super) split: Option<usize>,
    /// Whether logarithms are natural.
    #[serde(default)]
    pub(super) natural: bool,
    /// The kind of values.
    pub(super) regime: Regime,
    /// The seed, unless a run sets another.
    #[serde(default)]
    pub(super) seed: u64,
    /// Whether the default set runs it on every configuration.
    #[serde(default)]
    pub(super) swept: bool,
    /// Whether each row has a table of slots of its own, as the kernel for latent attention reads it: requests of one row.
    #[serde(default)]
    pub(super) sparse: bool,
    /// The configurations of the default set, in words; those of every case if there are none.
    #[serde(default)]
    pub(super) configurations: Vec<String>,
}

impl Case {
    /// Heads of queries that share a head of keys.
    pub(super) const fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Rows of queries.
    pub(super) fn rows(&self) -> usize {
        self.requests.iter().map(|request| request.rows).sum()
    }

    /// The keys of the longest request.
    pub(super) fn most_keys(&self) -> usize {
        self.requests.iter().map(|request| request.keys).max().unwrap_or(0)
    }

    /// Keys of a split, and the number of splits.
    pub(super) fn splits(&self) -> (usize, usize) {
        let keys = self.most_keys().max(1);
        let chunk = self.split.unwrap_or(keys).min(keys);
        (chunk, keys.div_ceil(chunk))
    }

    /// Cases with other data, and with enough keys to tell pages and tiles apart, each with its data in words.
    pub(super) fn more_telling(&self) -> Vec<(String, Self)> {
        let mut out = Vec::new();
        for (regime, ahead) in [(Regime::Real, 1), (Regime::OneHot, 2)] {
            let seed = self.seed.wrapping_add(ahead);
            let words = format!("the data of regime {} and seed {seed}", regime.word());
            out.push((words, Self { regime, seed, ..self.clone() }));
        }
        // Keys of three pages and a part tell pages, tiles and splits apart.
        let seed = self.seed.wrapping_add(3);
        let mut larger = Self { regime: Regime::Real, seed, ..self.clone() };
        let keys = self.page * 3 + self.page.div_ceil(2);
        larger.requests.iter_mut().for_each(|request| request.keys = request.keys.max(keys));
        out.push((format!("requests of at least {keys} keys, regime real and seed {seed}"), larger));
        out.retain(|(_, other)| other != self && other.wrong().is_none());
        out
    }

    /// The cases one step smaller, the largest steps first.
    pub(super) fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut push = |change: &dyn Fn(&mut Self)| {
            let mut smaller = self.clone();
            change(&mut smaller);
            if smaller != *self && smaller.wrong().is_none() {
                all.push(smaller);
            }
        };
        for at in 0..self.requests.len() {
            push(&|case| case.requests = vec![case.requests[at]]);
        }
        for at in 0..self.requests.len() {
            push(&|case| {
                case.requests.remove(at);
            });
        }
        push(&|case| case.heads = case.kv_heads);
        push(&|case| (case.heads, case.kv_heads) = (case.group(), 1));
        push(&|case| case.heads -= case.kv_heads.min(case.heads));
        for at in 0..self.requests.len() {
            push(&|case| case.requests[at].rows = 1);
            push(&|case| case.requests[at].rows /= 2);
            push(&|case| case.requests[at].rows -= case.requests[at].rows.min(1));
            push(&|case| case.requests[at].keys /= 2);
            push(&|case| case.requests[at].keys -= case.requests[at].keys.min(case.page));
            push(&|case| case.requests[at].keys -= case.requests[at].keys.min(1));
        }
        push(&|case| case.split = None);
        push(&|case| case.window = None);
        push(&|case| case.sinks = false);
        push(&|case| case.slopes = false);
        push(&|case| case.cap = None);
        push(&|case| case.swizzled = false);
        push(&|case| case.key_swizzled = false);
        push(&|case| case.natural = false);
        push(&|case| case.spare = 0);
        push(&|case| case.pages = Pages::Packed);
        push(&|case| case.mask = Mask::Full);
        push(&|case| case.layout = Layout::Hnd);
        all
    }

    /// What is wrong with it: the key, and a sentence.
    fn wrong(&self) -> Option<(&'static str, String)> {
        let Self { heads, kv_heads, page, .. } = *self;
        if kv_heads == 0 || heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Some(("heads", format!("{heads} heads of queries are no multiple of {kv_heads}")));
        }
        if self.group() > MOST_GROUP {
            return Some(("heads", format!("a head of keys serves at most {MOST_GROUP} heads of queries")));
        }
        if self.rows() == 0 {
            return Some(("requests", "a case needs a row of queries".to_owned()));
        }
        let is_plain = self.mask == Mask::Full && self.window.is_none() && self.cap.is_none() && !self.slopes;
        if self.sparse && !(kv_heads == 1 && is_plain && self.requests.iter().all(|of| of.rows == 1)) {
            let what = "a sparse case has requests of one row, one head of keys, and neither mask, window, cap nor slopes";
            return Some(("sparse", what.to_owned()));
        }
        if page == 0 || (self.swizzled || self.key_swizzled) && !page.is_multiple_of(4) {
            return Some((
                "page",
                format!("{page} slots: at least 1, and a multiple of 4 for swizzled scales"),
            ));
        }
        if self.split == Some(0) || self.window == Some(0) {
            return Some(("split", "a split and a window have at least one key".to_owned()));
        }
        if self.mask == Mask::TopLeft {
            return Some(("mask", "no kernel has a mask from the top left".to_owned()));
        }
        None
    }
}

/// The most heads of queries that share a head of keys.
pub(super) const MOST_GROUP: usize = 16;

/// The built-in cases, and what is wrong with the other files.
#[derive(Debug, Default)]
pub(super) struct Cases {
    pub(super) cases: Vec<Case>,
    pub(super) problems: Vec<String>,
}

/// Returns the built-in cases, read once.
pub(super) fn built_in() -> &'static Cases {
    static CASES: OnceLock<Cases> = OnceLock::new();
    CASES.get_or_init(|| {
        let (cases, problems) = case_files::read("cases/attention", parse);
        Cases { cases, problems }
    })
}

/// Parses the case in `text`; `path` supplies its name.
pub(super) fn parse(path: &Path, text: &str) -> Result<Case, String> {
    let mut case: Case = header::parse_file(path, text).map_err(|error| error.to_string())?;
    case.name = case_files::name(path);
    case.wrong().map_or(Ok(case), |(key, message)| Err(case_files::problem(path, text, key, &message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_case_is_valid_and_mistakes_name_file_and_line() {
        let all = built_in();
        assert!(all.problems.is_empty() && all.cases.len() >= 8, "{:?}", all.problems);
        let good = "about: x\nheads: 4\nkv_heads: 2\nrequests: [{rows: 1, keys: 3}]\npage: 8\nlayout: nhd\nmask: causal\nregime: real\n";
        let read = |text: &str| parse(Path::new("c.yaml"), text);
        assert_eq!(read(good).unwrap().name, "c");
        for (old, new, wanted) in [
            ("heads: 4", "heads: 3", "c.yaml:2: 3 heads of queries are no multiple of 2"),
            ("heads: 4", "heads: 64", "c.yaml:2: a head of keys serves at most 16"),
            ("page: 8", "page: 0", "c.yaml:5: 0 slots"),
            ("rows: 1", "rows: 0", "c.yaml:4: a case needs a row"),
            ("mask: causal", "mask: causal_top_left", "c.yaml:7: no kernel"),
            ("layout: nhd", "layouts: nhd", "c.yaml:6"),
            ("regime: real", "sparse: true\nregime: real", "c.yaml:8: a sparse case has requests of one row"),
        ] {
            let error = read(&good.replace(old, new)).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
