//! Footnotes: the assemblers' messages, numbered, with their causes, each once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::markup::{Align, code, head, plain, prose, row, superscript};
use super::phrase::clean;
use crate::record::{Matrix, MessageRow};

/// The footnotes of one or several tables.
#[derive(Default)]
pub(super) struct Notes {
    numbers: BTreeMap<(String, Option<usize>), usize>,
}

impl Notes {
    /// Returns the number of the note for a message; messages that differ only in the target share one.
    pub(super) fn number(&mut self, message: &MessageRow) -> usize {
        let next = self.numbers.len() + 1;
        *self.numbers.entry((words(&message.text), message.kind)).or_insert(next)
    }

    /// The notes as a Markdown list, each with the name of its kind.
    pub(super) fn list(&self, matrix: &Matrix) -> String {
        let mut notes: Vec<_> = self.numbers.iter().map(|((text, kind), n)| (*n, text, *kind)).collect();
        notes.sort();
        let mut out = String::new();
        for (number, text, kind) in notes {
            let kind = kind.and_then(|k| matrix.kinds.get(k));
            let kind = kind.map_or(String::new(), |k| format!(" ({})", plain(&k.name)));
            _ = writeln!(out, "- {} {}{kind}", superscript(number), code(text));
        }
        out
    }

    /// The kinds of the notes.
    pub(super) fn kinds(&self) -> impl Iterator<Item = usize> {
        self.numbers.keys().filter_map(|(_, kind)| *kind)
    }
}

/// The kinds with cause and remedy as a Markdown table.
pub(super) fn kinds(matrix: &Matrix, used: &BTreeSet<usize>) -> String {
    let mut out = head(&["kind", "why ptxas says it", "what to do"], Align::Left);
    for kind in used.iter().filter_map(|k| matrix.kinds.get(*k)) {
        out.push_str(&row(&[plain(&kind.name), prose(&kind.cause), prose(&kind.remedy)]));
    }
    out
}

/// A message on one line, with `'sm_*'` for every quoted target, which the column already states. `sm_90 or higher` stays.
pub(super) fn words(text: &str) -> String {
    let text = clean(text);
    let mut parts = text.split("'sm_");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let rest = digits.strip_prefix(['a', 'f']).unwrap_or(digits);
        let is_target = digits.len() < part.len() && rest.starts_with('\'');
        out.push_str(if is_target { "'sm_*" } else { "'sm_" });
        out.push_str(if is_target { rest } else { part });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_for_several_targets_share_a_note() {
        let mut notes = Notes::default();
        let message = |text: &str| MessageRow { text: text.to_owned(), kind: None };
        assert_eq!(notes.number(&message("no 'x' on .target 'sm_121'")), 1);
        assert_eq!(notes.number(&message("no 'y' on .target 'sm_121'")), 2);
        assert_eq!(notes.number(&message("no 'x' on .target 'sm_120f'")), 1);
        assert_eq!(words("'sm_100a' needs sm_90 or 'sm_x' 'sm_12'"), "'sm_*' needs sm_90 or 'sm_x' 'sm_*'");
    }
}
