//! Changed cells as a person reads them: `sm_121f: +2 forms since 13.1: mma.mxf4nvf4.4X.ue8m0`.

use std::collections::{BTreeMap, BTreeSet};

use ptx::arch::{Target, ToolkitVersion};

use super::cells::CellChange;
use super::diff::Diff;
use super::direction::Direction;
use crate::record::CellAnswer;

/// Cells that changed alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// For the worse or for the better.
    pub direction: Direction,
    /// `rejected → accepted`.
    pub words: String,
    /// `sm_120f`, or `sm_120f for -arch sm_121f`.
    pub places: Vec<String>,
    /// The toolkits that answer so.
    pub toolkits: Vec<ToolkitVersion>,
    /// The toolkit before, whose answer was the old one; none where the toolkits themselves answered otherwise.
    pub before: Option<ToolkitVersion>,
    /// The variants.
    pub variants: Vec<String>,
    /// The variants in few names: `mma.mxf4.* (all 12)`.
    pub names: Vec<String>,
}

impl Group {
    /// `+2 forms`, `-1 form`, `~3 forms`.
    #[must_use]
    pub fn count(&self) -> String {
        let sign = match self.direction {
            Direction::Better | Direction::New => '+',
            Direction::Worse | Direction::Gone => '-',
            Direction::Other => '~',
        };
        format!("{sign}{} form{}", self.variants.len(), if self.variants.len() == 1 { "" } else { "s" })
    }

    /// `since 13.1`, or `with 13.1.80 13.1.115`.
    #[must_use]
    pub fn when(&self) -> String {
        match (self.before, self.toolkits.first()) {
            (Some(_), Some(first)) => format!("since {}", first.short()),
            _ => {
                let names: Vec<String> = self.toolkits.iter().map(ToString::to_string).collect();
                format!("with {}", names.join(" "))
            }
        }
    }
}

/// What all cells of a group have in common, but for the places.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    direction: Direction,
    old: Option<CellAnswer>,
    new: Option<CellAnswer>,
    before: Option<ToolkitVersion>,
    toolkits: BTreeSet<ToolkitVersion>,
    variants: BTreeSet<&'a str>,
}

/// A place and how it changed there.
type Where = (Target, Target, Direction, Option<CellAnswer>, Option<CellAnswer>, Option<ToolkitVersion>);

/// The changed cells in groups: what is worse first.
#[must_use]
pub fn groups(diff: &Diff<'_>) -> Vec<Group> {
    // Toolkits of each variant, place and change.
    let mut toolkits: BTreeMap<(Where, &str), BTreeSet<ToolkitVersion>> = BTreeMap::new();
    for c in &diff.cells {
        toolkits.entry((place(c), c.variant)).or_default().insert(c.toolkit);
    }
    // Variants of each place, change and set of toolkits.
    let mut variants: BTreeMap<(Where, BTreeSet<ToolkitVersion>), BTreeSet<&str>> = BTreeMap::new();
    for ((at, variant), set) in toolkits {
        variants.entry((at, set)).or_default().insert(variant);
    }
    // Places of each change, set of toolkits and set of variants.
    let mut out: BTreeMap<Key<'_>, Vec<(Target, Target)>> = BTreeMap::new();
    for (((target, arch, direction, old, new, before), toolkits), variants) in variants {
        out.entry(Key { direction, old, new, before, toolkits, variants }).or_default().push((target, arch));
    }
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for snippet in diff.snippets.values() {
        *sizes.entry(snippet).or_default() += 1;
    }
    let words = |a: Option<CellAnswer>| a.map_or_else(|| "not queried".to_owned(), CellAnswer::words);
    out.into_iter()
        .map(|(key, places)| Group {
            direction: key.direction,
            words: format!("{} → {}", words(key.old), words(key.new)),
            places: named(&places),
            toolkits: key.toolkits.into_iter().collect(),
            before: key.before,
            names: short(&key.variants, &diff.snippets, &sizes),
            variants: key.variants.into_iter().map(str::to_owned).collect(),
        })
        .collect()
}

fn place(c: &CellChange<'_>) -> Where {
    (c.target, c.arch, c.direction, c.old, c.new, c.before)
}

/// Targets, then crossings by `-arch`.
fn named(places: &[(Target, Target)]) -> Vec<String> {
    let mut out: Vec<String> = places.iter().filter(|(t, a)| t == a).map(|(t, _)| t.to_string()).collect();
    let mut crossed: BTreeMap<Target, Vec<String>> = BTreeMap::new();
    for (target, arch) in places.iter().filter(|(t, a)| t != a) {
        crossed.entry(*arch).or_default().push(target.to_string());
    }
    out.extend(crossed.into_iter().map(|(arch, targets)| format!("{} for -arch {arch}", targets.join(" "))));
    out
}

/// All variants of a snippet are its stem and a star.
fn short(
    variants: &BTreeSet<&str>,
    snippets: &BTreeMap<&str, &str>,
    sizes: &BTreeMap<&str, usize>,
) -> Vec<String> {
    let mut by_snippet: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for variant in variants {
        by_snippet.entry(snippets.get(variant).copied().unwrap_or(variant)).or_default().push(variant);
    }
    let mut out = Vec::new();
    for (snippet, members) in by_snippet {
        let of = sizes.get(snippet).copied().unwrap_or_default();
        if members.len() > 2 && members.len() == of {
            out.push(format!("{snippet}.* (all {of})"));
        } else if members.len() > 4 {
            out.push(format!("{snippet}.* ({} of {of})", members.len()));
        } else {
            out.extend(members.into_iter().map(str::to_owned));
        }
    }
    out
}
