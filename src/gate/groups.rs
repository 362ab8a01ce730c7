//! Groups changed cells for display: `sm_121f: +2 forms since 13.1: mma.mxf4nvf4.4X.ue8m0`.

use std::collections::{BTreeMap, BTreeSet};

use ptx::arch::{Target, ToolkitVersion};

use super::cells::CellChange;
use super::diff::Diff;
use super::direction::Direction;
use crate::record::CellAnswer;

/// Cells with the same change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The direction of the change.
    pub direction: Direction,
    /// The change in words: `rejected → accepted`.
    pub words: String,
    /// The targets: `sm_120f`, or `sm_120f for -arch sm_121f`.
    pub places: Vec<String>,
    /// The toolkits that gave the new answer.
    pub toolkits: Vec<ToolkitVersion>,
    /// The earlier toolkit that gave the old answer; `None` if the toolkits themselves gave it.
    pub before: Option<ToolkitVersion>,
    /// The variants.
    pub variants: Vec<String>,
    /// The variants, abbreviated: `mma.mxf4.* (all 12)`.
    pub names: Vec<String>,
}

impl Group {
    /// Describes the number of variants: `+2 forms`, `-1 form`, `~3 forms`.
    #[must_use]
    pub fn count(&self) -> String {
        let sign = match self.direction {
            Direction::Better | Direction::New => '+',
            Direction::Worse | Direction::Gone => '-',
            Direction::Other => '~',
        };
        format!("{sign}{} form{}", self.variants.len(), if self.variants.len() == 1 { "" } else { "s" })
    }

    /// Describes the toolkits: `since 13.1`, or `with 13.1.80 13.1.115`.
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

/// What the cells of a group have in common, except for their targets.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    direction: Direction,
    old: Option<CellAnswer>,
    new: Option<CellAnswer>,
    before: Option<ToolkitVersion>,
    toolkits: BTreeSet<ToolkitVersion>,
    variants: BTreeSet<&'a str>,
}

/// A target, an `-arch` and the change there.
type Where = (Target, Target, Direction, Option<CellAnswer>, Option<CellAnswer>, Option<ToolkitVersion>);

/// Groups the changed cells, worse changes first.
#[must_use]
pub fn groups(diff: &Diff<'_>) -> Vec<Group> {
    // The toolkits of each variant, target and change.
    let mut toolkits: BTreeMap<(Where, &str), BTreeSet<ToolkitVersion>> = BTreeMap::new();
    for c in &diff.cells {
        toolkits.entry((place(c), c.variant)).or_default().insert(c.toolkit);
    }
    // The variants of each target, change and set of toolkits.
    let mut variants: BTreeMap<(Where, BTreeSet<ToolkitVersion>), BTreeSet<&str>> = BTreeMap::new();
    for ((at, variant), set) in toolkits {
        variants.entry((at, set)).or_default().insert(variant);
    }
    // The targets of each change, set of toolkits and set of variants.
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

/// Names the targets: first those assembled for themselves, then the others by `-arch`.
fn named(places: &[(Target, Target)]) -> Vec<String> {
    let mut out: Vec<String> = places.iter().filter(|(t, a)| t == a).map(|(t, _)| t.to_string()).collect();
    let mut crossed: BTreeMap<Target, Vec<String>> = BTreeMap::new();
    for (target, arch) in places.iter().filter(|(t, a)| t != a) {
        crossed.entry(*arch).or_default().push(target.to_string());
    }
    out.extend(crossed.into_iter().map(|(arch, targets)| format!("{} for -arch {arch}", targets.join(" "))));
    out
}

/// Abbreviates variants: those of a snippet become its stem and a star.
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
