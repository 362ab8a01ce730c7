//! Tables: the families, a handful of variants, and which `.target` goes to which `-arch`.

use ptx::arch::Target;

use super::super::phrase::{Columns, clean, counted, grouped, short, width, wrapped};
use super::super::style::Tone;
use super::super::view::Answer;
use super::super::{cross, notes, rollup, sm12x};
use super::page::{LISTED, Page};

/// A column of the table of families.
struct Column {
    first: Target,
    name: String,
    cells: Vec<(String, Tone)>,
}

impl Column {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|(text, _)| text.chars().count()).max().unwrap_or_default();
        1 + cells.max(self.name.chars().count())
    }
}

impl Page<'_> {
    pub(super) fn families(&self) -> String {
        let view = self.view;
        let families = rollup::families(view, &view.targets);
        let columns = self.columns(&families);
        let mut out = self.heading(&format!("Families: accepted forms, by {}", view.newest_name()));
        let names = families.iter().map(|f| f.name.chars().count()).max().unwrap_or_default();
        let mut rest = columns.as_slice();
        while let Some(first) = rest.first() {
            // As many columns as fit; at least one.
            let mut used = 2 + names.max(6) + 7 + first.width();
            let fits = |c: &&Column| {
                used += c.width();
                used <= width()
            };
            let (part, others) = rest.split_at(1 + rest[1..].iter().take_while(fits).count());
            rest = others;
            let mut table = Columns::new(false);
            let head = ["family", "forms"].into_iter().chain(part.iter().map(|c| c.name.as_str()));
            table.row(head.map(|text| (text.to_owned(), Tone::Faint)));
            for (n, family) in families.iter().enumerate() {
                let first = [(clean(family.name), Tone::Plain), (grouped(family.forms), Tone::Faint)];
                table.row(first.into_iter().chain(part.iter().map(|c| c.cells[n].clone())));
            }
            out.push_str(&table.render(self.styles));
        }
        let refused: usize = families.iter().map(|f| f.refused).sum();
        let mut legend =
            "absent: by design, according to a confirmed claim. ?: unknown to the toolkit, or not queried."
                .to_owned();
        if refused > 0 {
            legend.push_str(&format!(
                " Not counted: {} that must be rejected, and are.",
                counted(refused, "form")
            ));
        }
        out + &wrapped("  ", legend.split(' '))
    }

    /// One column per target; targets of one architecture family and suffix that agree in every row share one.
    fn columns(&self, families: &[rollup::Family<'_>]) -> Vec<Column> {
        let mut columns: Vec<Column> = Vec::new();
        for (n, target) in self.view.targets.iter().enumerate() {
            let cells: Vec<_> = families.iter().map(|f| f.tallies[n].word()).collect();
            let alike = |c: &&mut Column| {
                c.first.same_family(*target) && c.first.suffix == target.suffix && c.cells == cells
            };
            match columns.iter_mut().find(alike) {
                Some(column) => column.name.push_str(&format!("/{}", short(*target))),
                None => columns.push(Column { first: *target, name: short(*target), cells }),
            }
        }
        columns
    }

    /// Every variant on the SM12x targets, with the messages of the newest toolkit that rejects.
    pub(super) fn variants(&self) -> String {
        let view = self.view;
        let targets: Vec<Target> = match sm12x::targets(view) {
            none if none.is_empty() => view.targets.iter().take(8).copied().collect(),
            some => some,
        };
        let Some(newest) = view.newest() else { return String::new() };
        let mut table = Columns::new(false);
        let mut head = vec!["variant".to_owned()];
        head.extend(targets.iter().map(|t| short(*t)));
        table.row(head.into_iter().map(|text| (text, Tone::Faint)));
        let mut said: Vec<usize> = Vec::new();
        for variant in &view.matrix.variants {
            let mut row = vec![(clean(&variant.id), Tone::Plain)];
            row.extend(targets.iter().map(|t| word(view.answer(variant, newest, *t, *t))));
            table.row(row);
            let spoken = |index: usize| {
                targets
                    .iter()
                    .filter_map(|t| view.matrix.pair(view.toolkits[newest], *t, *t))
                    .any(|pair| variant.messages.iter().any(|s| s.index == index && s.pairs.contains(pair)))
            };
            said.extend(variant.messages.iter().map(|s| s.index).filter(|i| spoken(*i)));
        }
        said.sort_unstable();
        said.dedup();
        let mut out = self.heading(&format!("By {}", view.newest_name()));
        out.push_str(&table.render(self.styles));
        // Messages by kind; those that differ only in the target appear once.
        let mut kinds: Vec<(Option<usize>, Vec<String>)> = Vec::new();
        for message in said.iter().filter_map(|i| view.matrix.messages.get(*i)) {
            let words = notes::words(&message.text);
            match kinds.iter_mut().find(|(kind, _)| *kind == message.kind) {
                Some((_, list)) if list.contains(&words) => {}
                Some((_, list)) => list.push(words),
                None => kinds.push((message.kind, vec![words])),
            }
        }
        for (kind, list) in kinds {
            for words in list.iter().take(LISTED) {
                out.push_str(&wrapped("  ptxas: ", words.split(' ')));
            }
            if let Some(kind) = kind.and_then(|k| view.matrix.kinds.get(k)) {
                let advice = format!("{} {}", clean(&kind.cause), clean(&kind.remedy));
                out.push_str(&wrapped("    ", advice.split(' ')));
            }
        }
        out
    }

    /// The first variant with several -arch values on SM12x, as a table.
    pub(super) fn crossing(&self) -> String {
        let view = self.view;
        let all = cross::crossings(view);
        let Some(crossing) = all.first() else { return String::new() };
        let of = |list: &[Target]| -> Vec<Target> { list.iter().copied().filter(|t| t.is_sm12x()).collect() };
        let (targets, archs) = (of(&crossing.targets), of(&crossing.archs));
        if targets.is_empty() || archs.is_empty() {
            return String::new();
        }
        let mut table = Columns::new(false);
        let head = std::iter::once(".target \\ -arch".to_owned()).chain(archs.iter().map(|a| short(*a)));
        table.row(head.map(|text| (text, Tone::Faint)));
        for target in targets {
            let answers = archs.iter().map(|arch| word(crossing.answer(view, target, *arch)));
            table.row(std::iter::once((target.to_string(), Tone::Plain)).chain(answers));
        }
        let id = clean(&crossing.variant.id);
        self.heading(&format!("Which .target each -arch accepts, by {} ({id})", view.newest_name()))
            + &table.render(self.styles)
    }
}

/// An answer as a table shows it.
pub(super) fn word(answer: Answer) -> (String, Tone) {
    let (word, tone) = match answer {
        Answer::Accepted => ("yes", Tone::Good),
        Answer::Rejected => ("no", Tone::Bad),
        Answer::Absent => ("absent", Tone::Faint),
        Answer::Silent => ("?", Tone::Doubt),
        Answer::Crashed => ("crash", Tone::Doubt),
        Answer::TimedOut => ("timeout", Tone::Doubt),
        Answer::NotAsked => ("·", Tone::Faint),
    };
    (word.to_owned(), tone)
}
