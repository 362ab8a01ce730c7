//! The SM12x targets: suffix against suffix, number against number, and all six together.

use std::collections::{BTreeMap, BTreeSet};

use ptx::arch::{Suffix, Target};

use super::super::phrase::{Columns, all_of, clean, counted, grouped, names, short, wrapped};
use super::super::sm12x::{self, Contrast, Difference, Group};
use super::super::style::Tone;
use super::super::{ids, native};
use super::page::{LISTED, Page};
use super::tables::word;
use crate::record::Native;

/// The number of messages listed per difference between the numbers; none is expected.
const SIBLINGS: usize = 3;

impl Page<'_> {
    /// sm_121a against sm_121f, or the highest numbers with these suffixes in the record.
    pub(super) fn main_contrast(&self) -> Option<Contrast> {
        let targets = sm12x::targets(self.view);
        let of = |suffix| targets.iter().rev().find(move |t| t.suffix == suffix).copied();
        Some(sm12x::contrast(self.view, of(Suffix::Arch)?, of(Suffix::Family)?))
    }

    /// The main comparison, then the numbers against each other.
    pub(super) fn suffixes(&self) -> String {
        let Some(contrast) = self.main_contrast() else { return String::new() };
        let (a, f, newest) = (contrast.left, contrast.right, self.view.newest_name());
        let differ = contrast.only_left.len() + contrast.only_right.len();
        let title = format!("{a} against {f}, by {newest}");
        let verdict = match (differ, contrast.compared) {
            (_, 0) => "nothing to compare".to_owned(),
            (0, n) => format!("no difference in {}", counted(n, "variant")),
            (d, n) => format!("{} of {} variants differ", grouped(d), grouped(n)),
        };
        let mut out = self.heading(&format!("{title}: {verdict}"));
        if contrast.compared > 0 {
            out.push_str(&self.differences(&contrast.only_left, contrast.left, contrast.right, LISTED));
            out.push_str(&self.differences(&contrast.only_right, contrast.right, contrast.left, LISTED));
        }
        if contrast.open > 0 {
            out.push_str(&format!("  not known on both: {}\n", counted(contrast.open, "variant")));
        }
        if !contrast.settled.is_empty() {
            let last = contrast.settled.iter().map(|(_, t)| *t).max().unwrap_or_default();
            let text = format!(
                "{} differed with older toolkits, the last of them {}.",
                counted(contrast.settled.len(), "further variant"),
                self.view.toolkits[last]
            );
            out.push_str(&wrapped("  ", text.split(' ')));
        }
        out.push_str(&self.siblings());
        out
    }

    fn differences(&self, list: &[Difference], accepts: Target, refuses: Target, limit: usize) -> String {
        let view = self.view;
        let mut out = match list.len() {
            0 => return format!("  only {accepts} accepts: none\n"),
            n => format!("  only {accepts} accepts {}; {refuses} says:\n", counted(n, "variant")),
        };
        // One line of messages covers every snippet whose first difference has them.
        let mut by_words: Vec<(String, Vec<String>)> = Vec::new();
        for bunch in ids::bunches(view, &list.iter().map(|d| d.variant).collect::<Vec<_>>()) {
            let variant = bunch.members.first().and_then(|n| view.matrix.variants.get(*n));
            let message = variant.and_then(|v| view.message(v, view.newest()?, refuses));
            let words = message.map_or_else(|| "nothing".to_owned(), |m| clean(&m.text));
            let since: BTreeSet<String> = list
                .iter()
                .filter(|d| bunch.members.contains(&d.variant))
                .map(|d| sm12x::and_committed(view.since_words(d.since), d.committed.as_ref()))
                .collect();
            let since = since.into_iter().collect::<Vec<_>>().join(" and ");
            let name = format!("{} {since};", clean(&bunch.short(view).join(", ")));
            match by_words.iter_mut().find(|(w, _)| *w == words) {
                Some((_, names)) => names.push(name),
                None => by_words.push((words, vec![name])),
            }
        }
        let more = by_words.len().saturating_sub(limit);
        for (words, names) in by_words.into_iter().take(limit) {
            out.push_str(&wrapped("    ", words.split(' ')));
            let names = names.join(" ");
            out.push_str(&wrapped("      ", names.trim_end_matches(';').split(' ')));
        }
        if more > 0 {
            out.push_str(&format!("    and {more} more messages\n"));
        }
        out
    }

    fn siblings(&self) -> String {
        let (mut alike, mut out) = (Vec::new(), String::new());
        for Contrast { left, right, compared, only_left, only_right, .. } in sm12x::siblings(self.view) {
            if compared > 0 && only_left.is_empty() && only_right.is_empty() {
                alike.push(format!("{left} and {right}"));
            } else if compared > 0 {
                out.push_str(&self.differences(&only_left, left, right, SIBLINGS));
                out.push_str(&self.differences(&only_right, right, left, SIBLINGS));
            }
        }
        if !alike.is_empty() {
            let text = format!("The same answers for every variant: {}.", alike.join(", "));
            out.push_str(&wrapped("  ", text.split(' ')));
        }
        out
    }

    pub(super) fn groups(&self) -> String {
        let targets = sm12x::targets(self.view);
        let groups = sm12x::groups(self.view, &targets);
        if targets.is_empty() || groups.is_empty() {
            return String::new();
        }
        let mut table = Columns::new(true);
        let head = |text: &str| (text.to_owned(), Tone::Faint);
        let mut first = vec![head("variants that are")];
        first.extend(targets.iter().map(|t| head(&short(*t))));
        table.row(first.into_iter().chain([head("variants"), head("from toolkit")]));
        for group in groups.iter().take(LISTED) {
            let mut row = vec![(group.title.clone(), Tone::Plain)];
            row.extend(group.answers.iter().map(|a| word(*a)));
            table.row(
                row.into_iter()
                    .chain([(grouped(group.count), Tone::Plain), (self.since(group), Tone::Faint)]),
            );
        }
        let newest = self.view.newest_name();
        let mut out =
            self.heading(&format!("SM12x: what {} targets accept, by {newest}", all_of(targets.len())));
        out.push_str(&table.render(self.styles));
        let known: Vec<String> = sm12x::first_known(self.view)
            .into_iter()
            .map(|(t, list)| format!("{} from {}", names(&list), self.view.since_name(t)))
            .collect();
        out.push_str(&wrapped("  ", format!("Targets known: {}.", known.join("; ")).split(' ')));
        if groups.len() > LISTED {
            let more = format!("  and {} more combinations\n", groups.len() - LISTED);
            out.push_str(&more);
        }
        for group in groups.iter().take(LISTED) {
            out.push_str(&self.later(group));
        }
        for (n, targets, last) in sm12x::withdrawn(self.view).into_iter().take(LISTED) {
            let id = &self.view.matrix.variants[n].id;
            let text = format!(
                "Withdrawn: {id} on {}, last accepted by {}.",
                names(&targets),
                self.view.toolkits[last]
            );
            out.push_str(&wrapped("  ", clean(&text).split(' ')));
        }
        out
    }

    /// `12.9`, or `12.9, 71 later`: the toolkit from which all accepting targets accept.
    fn since(&self, group: &Group) -> String {
        let Some((first, list)) = group.since.first_key_value() else { return String::new() };
        let later = group.since.values().map(Vec::len).sum::<usize>() - list.len();
        let name = self.view.start_name(first.first);
        // At the latest: `later` says more.
        let name = if first.is_release() { name } else { format!("by {name}") };
        if later == 0 { name } else { format!("{name}, {} later", grouped(later)) }
    }

    /// What was queried before the first toolkit, unless it is the release before, and the families that grew with each later toolkit.
    fn later(&self, group: &Group) -> String {
        let mut out = String::new();
        if let Some((first, _)) = group.since.first_key_value().filter(|(first, _)| !first.is_release()) {
            let since = sm12x::and_committed(self.view.since_words(*first), group.committed.get(first));
            out.push_str(&wrapped("  ", format!("First, {}: {since}.", group.title).split(' ')));
        }
        let mut parts: Vec<String> = Vec::new();
        for (toolkit, list) in group.since.iter().skip(1) {
            let mut families: BTreeMap<&str, usize> = BTreeMap::new();
            for n in list {
                *families.entry(self.view.family(&self.view.matrix.variants[*n])).or_default() += 1;
            }
            let families: Vec<String> = families.iter().map(|(f, n)| format!("{} {n}", clean(f))).collect();
            let since = sm12x::and_committed(self.view.since_name(*toolkit), group.committed.get(toolkit));
            parts.push(format!("from {since}: {}", families.join(", ")));
        }
        if !parts.is_empty() {
            let text = format!("Later, {}: {}.", group.title, parts.join("; "));
            out.push_str(&wrapped("  ", text.split(' ')));
        }
        out
    }

    /// The accepted variants that are not one hardware instruction.
    pub(super) fn natives(&self) -> String {
        let Some(target) = self.main_contrast().map(|c| c.left) else { return String::new() };
        let shown = native::shown(self.view, &[target]);
        if shown.counts.keys().all(|n| *n == Native::Unknown) {
            return String::new();
        }
        let count = |(native, counts): (&Native, &Vec<usize>)| {
            format!("{} {}", grouped(counts.iter().sum()), native::words(*native))
        };
        let counts: Vec<String> = shown.counts.iter().map(count).collect();
        let newest = self.view.newest_name();
        let mut out = self.heading(&format!("Machine code of what {target} accepts, by {newest}"));
        out.push_str(&wrapped("  ", counts.join(", ").split(' ')));
        for ((native, _), variants) in shown.exceptions.iter().rev() {
            let bunches = ids::bunches(self.view, variants);
            let names: Vec<String> = bunches.iter().flat_map(|b| b.short(self.view)).collect();
            let more = names.len().saturating_sub(LISTED);
            let mut text = clean(&names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", "));
            if more > 0 {
                text.push_str(&format!(", and {more} more"));
            }
            let word = native.word();
            out.push_str(&wrapped(&format!("  {word}: "), text.split(' ')));
        }
        out
    }
}
