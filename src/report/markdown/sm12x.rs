//! The SM12x targets: suffix against suffix, number against number, and all six together.

use std::collections::BTreeMap;
use std::fmt::Write;

use ptx::arch::{Suffix, Target};

use super::super::markup::{Align, code, head, plain, row};
use super::super::phrase::{all_of, counted, grouped, names, short};
use super::super::sm12x::{self, Contrast, Difference, Group};
use super::super::{ids, native};
use super::page::{Page, mark};
use crate::record::Native;

/// Groups with at most this many variants name them.
const NAMED: usize = 60;

impl Page<'_> {
    pub(super) fn suffixes(&self) -> String {
        let targets = sm12x::targets(self.view);
        let of = |suffix| targets.iter().rev().find(move |t| t.suffix == suffix).copied();
        let (Some(a), Some(f)) = (of(Suffix::Arch), of(Suffix::Family)) else { return String::new() };
        let main = sm12x::contrast(self.view, a, f);
        let mut out = format!("## {a} against {f}\n\n{}", self.contrast(&main));
        for sibling in sm12x::siblings(self.view) {
            _ = write!(out, "\n{}", self.contrast(&sibling));
        }
        out
    }

    fn contrast(&self, contrast: &Contrast) -> String {
        let Contrast { left, right, compared, open, only_left, only_right, settled } = contrast;
        let newest = self.view.newest_name();
        let differ = only_left.len() + only_right.len();
        let mut out = if *compared == 0 {
            format!("{left} against {right}: {newest} has no answer for both.\n")
        } else if differ == 0 {
            format!(
                "{newest} gives the same answers for {} on {left} and {right}.\n",
                counted(*compared, "variant")
            )
        } else {
            format!(
                "{newest} answers {differ} of {} differently on {left} and {right}:\n",
                counted(*compared, "variant")
            )
        };
        if differ > 0 {
            out.push_str("\n| variant | only accepted on | since | the other says |\n|---|---|---|---|\n");
            for (list, accepts, refuses) in [(only_left, *left, *right), (only_right, *right, *left)] {
                for difference in list {
                    out.push_str(&self.difference(difference, accepts, refuses));
                }
            }
        }
        if *open > 0 {
            _ = write!(
                out,
                "\n{} could not be compared: one of the two is unknown.\n",
                counted(*open, "variant")
            );
        }
        if !settled.is_empty() {
            out.push_str("\nOlder toolkits answered these differently:\n\n");
            for (variant, last) in settled {
                let id = code(&self.view.matrix.variants[*variant].id);
                _ = writeln!(out, "- {id}: last with {}", self.view.toolkits[*last]);
            }
        }
        out
    }

    fn difference(&self, difference: &Difference, accepts: Target, refuses: Target) -> String {
        let variant = &self.view.matrix.variants[difference.variant];
        let since = if difference.was_alike {
            self.view.since_name(difference.since)
        } else {
            format!("{}, {}", self.view.start_name(difference.since.first), difference.since.knows_both())
        };
        let since = sm12x::and_committed(since, difference.committed.as_ref());
        let message = self.view.newest().and_then(|t| self.view.message(variant, t, refuses));
        let words = message.map_or_else(String::new, |m| code(&m.text));
        row(&[code(&variant.id), accepts.to_string(), since, words])
    }

    pub(super) fn groups(&self) -> String {
        let targets = sm12x::targets(self.view);
        let groups = sm12x::groups(self.view, &targets);
        if targets.is_empty() || groups.is_empty() {
            return String::new();
        }
        let mut names_row = vec!["variants that are".to_owned()];
        names_row.extend(targets.iter().map(|t| short(*t)));
        names_row.extend(["variants".to_owned(), "since".to_owned()]);
        let mut out = format!(
            "## What {} SM12x targets accept\n\nBy {}.\n\n",
            all_of(targets.len()),
            self.view.newest_name()
        );
        out.push_str(&head(&names_row, Align::Centre));
        for group in &groups {
            let mut cells = vec![group.title.clone()];
            cells.extend(group.answers.iter().map(|a| mark(*a).to_owned()));
            let since = group.since.iter().map(|(t, l)| {
                let since = sm12x::and_committed(self.view.since_name(*t), group.committed.get(t));
                format!("{since} ({})", l.len())
            });
            cells.extend([grouped(group.count), since.collect::<Vec<_>>().join(", ")]);
            out.push_str(&row(&cells));
        }
        let known: Vec<String> = sm12x::first_known(self.view)
            .into_iter()
            .map(|(t, list)| format!("{} from {}", names(&list), self.view.since_name(t)))
            .collect();
        _ = write!(out, "\nTargets known: {}.\n\n", known.join("; "));
        for group in &groups {
            out.push_str(&self.members(group));
        }
        for (n, targets, last) in sm12x::withdrawn(self.view) {
            let id = code(&self.view.matrix.variants[n].id);
            _ = writeln!(
                out,
                "- withdrawn: {id} on {}, last accepted by {}",
                names(&targets),
                self.view.toolkits[last]
            );
        }
        out
    }

    /// The variants of a group: all of a small one; for a large one, those that came later than most, and a count per family.
    fn members(&self, group: &Group) -> String {
        let mut out = String::new();
        if group.count <= NAMED {
            _ = writeln!(out, "- **{}**: {}", group.title, self.ids(&group.variants));
        } else {
            let mut families: BTreeMap<&str, usize> = BTreeMap::new();
            for n in &group.variants {
                *families.entry(self.view.family(&self.view.matrix.variants[*n])).or_default() += 1;
            }
            let list: Vec<String> = families.iter().map(|(f, n)| format!("{} {n}", plain(f))).collect();
            _ = writeln!(out, "- **{}**: {}", group.title, list.join(", "));
        }
        let most =
            group.since.iter().max_by_key(|(t, list)| (list.len(), std::cmp::Reverse(**t))).map(|(t, _)| *t);
        for (toolkit, list) in group.since.iter().filter(|(t, _)| Some(**t) != most) {
            let since = sm12x::and_committed(self.view.since_name(*toolkit), group.committed.get(toolkit));
            _ = writeln!(out, "  - from {since}: {}", self.ids(list));
        }
        out
    }

    fn ids(&self, variants: &[usize]) -> String {
        let bunches = ids::bunches(self.view, variants);
        bunches.iter().flat_map(|b| b.complete(self.view, code)).collect::<Vec<_>>().join(", ")
    }

    /// What the machine code of accepted forms shows.
    pub(super) fn natives(&self) -> String {
        let targets = sm12x::targets(self.view);
        let shown = native::shown(self.view, &targets);
        if shown.counts.keys().all(|n| *n == Native::Unknown) {
            return String::new();
        }
        let newest = self.view.newest_name();
        let mut out = format!(
            "## Is it a hardware instruction?\n\nAccepted variants by the kind of their machine code, by {newest}.\n\n"
        );
        let mut names_row = vec!["machine code".to_owned()];
        names_row.extend(targets.iter().map(|t| short(*t)));
        out.push_str(&head(&names_row, Align::Centre));
        for (native, counts) in &shown.counts {
            let mut cells = vec![native::words(*native).to_owned()];
            cells.extend(counts.iter().map(|n| grouped(*n)));
            out.push_str(&row(&cells));
        }
        out.push('\n');
        for ((native, targets), variants) in &shown.exceptions {
            let (what, ids) = (native::words(*native), self.ids(variants));
            _ = writeln!(out, "- **{what}** on {}: {ids}", names(targets));
        }
        out
    }
}
