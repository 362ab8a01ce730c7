//! The SM12x targets: suffix against suffix, number against number, and all six together.

use super::super::phrase::{Columns, all_of, clean, counted, grouped, names, short, wrapped};
use super::super::sm12x::{self, Contrast, Difference, Group};
use super::super::style::Tone;
use super::page::{LISTED, Page};
use super::tables::word;
use crate::arch::{Suffix, Target};

impl Page<'_> {
    /// sm_121a against sm_121f, or whichever number has both.
    pub(super) fn main_contrast(&self) -> Option<Contrast> {
        let targets = sm12x::targets(self.view);
        let of = |suffix| targets.iter().rev().find(move |t| t.suffix == suffix).copied();
        Some(sm12x::contrast(self.view, of(Suffix::Arch)?, of(Suffix::Family)?))
    }

    /// The main contrast, then the numbers against each other.
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
            out.push_str(&self.differences(&contrast.only_left, contrast.left, contrast.right));
            out.push_str(&self.differences(&contrast.only_right, contrast.right, contrast.left));
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

    fn differences(&self, list: &[Difference], accepts: Target, refuses: Target) -> String {
        let mut out = match list.len() {
            0 => return format!("  only {accepts} accepts: none\n"),
            n => format!("  only {accepts} accepts {}; {refuses} says:\n", counted(n, "variant")),
        };
        let mut by_words: Vec<(String, Vec<&Difference>)> = Vec::new();
        for difference in list {
            let variant = &self.view.matrix.variants[difference.variant];
            let message = self.view.newest().and_then(|t| self.view.message(variant, t, refuses));
            let words = message.map_or_else(|| "nothing".to_owned(), |m| clean(&m.text));
            match by_words.iter_mut().find(|(w, _)| *w == words) {
                Some((_, members)) => members.push(difference),
                None => by_words.push((words, vec![difference])),
            }
        }
        for (words, members) in by_words {
            out.push_str(&wrapped("    ", words.split(' ')));
            for member in members.iter().take(LISTED) {
                let id = clean(&self.view.matrix.variants[member.variant].id);
                let since = self.view.start_name(member.since);
                let since = if member.was_alike { format!("since {since}") } else { format!("{since}+") };
                let line = format!("      {id}  {}", self.styles.paint(Tone::Faint, &since));
                out.push_str(&(line + "\n"));
            }
            if members.len() > LISTED {
                out.push_str(&format!("      and {} more\n", members.len() - LISTED));
            }
        }
        out
    }

    fn siblings(&self) -> String {
        let (mut alike, mut out) = (Vec::new(), String::new());
        for Contrast { left, right, compared, only_left, only_right, .. } in sm12x::siblings(self.view) {
            if compared > 0 && only_left.is_empty() && only_right.is_empty() {
                alike.push(format!("{left} as {right}"));
            } else if compared > 0 {
                out.push_str(&self.differences(&only_left, left, right));
                out.push_str(&self.differences(&only_right, right, left));
            }
        }
        if !alike.is_empty() {
            let text = format!("The same answers in every variant: {}.", alike.join(", "));
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
        for group in &groups {
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
            .map(|(t, list)| format!("{} from {}", names(&list), self.view.start_name(t)))
            .collect();
        out.push_str(&wrapped("  ", format!("Targets known: {}.", known.join("; ")).split(' ')));
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

    /// `12.9 (240), 13.1 (12)`: from which toolkit on all accepting targets accept.
    fn since(&self, group: &Group) -> String {
        let part = |(t, list): (&usize, &Vec<usize>)| {
            let name = self.view.start_name(*t);
            if list.len() == group.count { name } else { format!("{name} ({})", grouped(list.len())) }
        };
        group.since.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}
