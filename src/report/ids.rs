//! Names for many variants: all variants of a snippet are its stem and a star.

use std::collections::BTreeMap;

use super::claims::stem;
use super::view::View;

/// Some variants of one snippet.
pub(super) struct Bunch {
    /// The snippet's stem.
    pub(super) stem: String,
    /// The variants.
    pub(super) members: Vec<usize>,
    /// The number of the snippet's variants in the record.
    pub(super) of: usize,
}

/// The variants by snippet, in record order.
pub(super) fn bunches(view: &View<'_>, variants: &[usize]) -> Vec<Bunch> {
    let mut whole: BTreeMap<usize, usize> = BTreeMap::new();
    for (_, variant) in view.variants() {
        *whole.entry(variant.snippet).or_default() += 1;
    }
    let mut by_snippet: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for n in variants {
        by_snippet.entry(view.matrix.variants[*n].snippet).or_default().push(*n);
    }
    let bunch = |(snippet, members): (usize, Vec<usize>)| {
        let row = view.matrix.snippets.get(snippet);
        let of = whole.get(&snippet).copied().unwrap_or_default();
        Bunch { stem: row.map_or_else(String::new, |r| stem(&r.file).to_owned()), members, of }
    };
    by_snippet.into_iter().map(bunch).collect()
}

impl Bunch {
    /// Names for a complete list: `mma.mxf4.* (all 12)`, or every id.
    pub(super) fn complete(&self, view: &View<'_>, name: impl Fn(&str) -> String) -> Vec<String> {
        if self.members.len() == self.of && self.of > 2 {
            vec![format!("{} (all {})", name(&format!("{}.*", self.stem)), self.of)]
        } else {
            self.members.iter().map(|n| name(&view.matrix.variants[*n].id)).collect()
        }
    }

    /// Names for a short list: `mma.mxf4.* (12)`, `mma.mxf4.* (5 of 12)`, or one or two ids.
    pub(super) fn short(&self, view: &View<'_>) -> Vec<String> {
        if self.members.len() <= 2 {
            self.members.iter().map(|n| view.matrix.variants[*n].id.clone()).collect()
        } else if self.members.len() == self.of {
            vec![format!("{}.* ({})", self.stem, self.of)]
        } else {
            vec![format!("{}.* ({} of {})", self.stem, self.members.len(), self.of)]
        }
    }
}
