//! The cases: problems of the writer, one YAML file each.

use std::path::Path;
use std::sync::OnceLock;

use serde::Deserialize;
use toolchain::header;

use crate::frame::case_files;

record::words! {
    /// The kind of values.
    Regime {
        /// Every quotient is exact, so that each byte has one right value.
        Exact "exact",
        /// Every quotient is exact, and every element lies halfway between two codes.
        Ties "ties",
        /// Normal numbers.
        Real "real",
        /// Scales that are subnormal or zero.
        Small "small",
    }
}

record::words! {
    /// How tokens choose slots.
    Slots {
        /// The slots from the first on.
        Sequential "sequential",
        /// Slots of all pages out of order; some tokens have none.
        Scattered "scattered",
    }
}

/// A problem of the writer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// The name: the file stem.
    #[serde(skip)]
    pub(super) name: String,
    /// One sentence on what it tests.
    pub(super) about: String,
    /// New tokens.
    pub(super) tokens: usize,
    /// Heads of keys and values.
    pub(super) heads: usize,
    /// Slots of a page, a multiple of 4.
    pub(super) page: usize,
    /// Pages of the cache.
    pub(super) pages: usize,
    /// How tokens choose slots.
    pub(super) slots: Slots,
    /// The kind of values.
    pub(super) regime: Regime,
    /// The seed, unless a run sets another.
    #[serde(default)]
    pub(super) seed: u64,
    /// Whether the default set runs it on every configuration.
    #[serde(default)]
    pub(super) swept: bool,
}

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
        let (cases, problems) = case_files::read("cases/kv_cache", parse);
        Cases { cases, problems }
    })
}

/// Parses the case in `text`; `path` supplies its name.
fn parse(path: &Path, text: &str) -> Result<Case, String> {
    let mut case: Case = header::parse_file(path, text).map_err(|error| error.to_string())?;
    case.name = case_files::name(path);
    let slots = case.pages * case.page;
    let wrong = if case.tokens == 0 || case.heads == 0 {
        Some(("tokens", "a case needs a token and a head".to_owned()))
    } else if case.page == 0 || !case.page.is_multiple_of(4) {
        Some(("page", format!("a page has a multiple of 4 slots, not {}", case.page)))
    } else if case.tokens > slots {
        Some(("tokens", format!("{} tokens do not fit into {slots} slots", case.tokens)))
    } else {
        None
    };
    wrong.map_or(Ok(case), |(key, message)| Err(case_files::problem(path, text, key, &message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_case_is_valid_and_mistakes_name_file_and_line() {
        let all = built_in();
        assert!(all.problems.is_empty() && all.cases.len() >= 5, "{:?}", all.problems);
        let good = "about: x\ntokens: 4\nheads: 1\npage: 8\npages: 1\nslots: sequential\nregime: real\n";
        let read = |text: &str| parse(Path::new("c.yaml"), text);
        assert_eq!(read(good).unwrap().name, "c");
        for (old, new, wanted) in [
            ("tokens: 4", "tokens: 9", "c.yaml:2: 9 tokens do not fit into 8 slots"),
            ("page: 8", "page: 6", "c.yaml:4: a page has a multiple of 4 slots, not 6"),
            ("heads: 1", "head: 1", "c.yaml:3"),
        ] {
            let error = read(&good.replace(old, new)).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
