//! One PTX file that holds many variants as entries, and the mapping from diagnostics to entries.

use ptx::arch::{PtxIsa, Target};

use crate::snippet::preamble;

/// An entry to be assembled: the text before and after its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    /// The text before the name.
    pub(super) before: &'a str,
    /// The text after the name.
    pub(super) after: &'a str,
    /// The line of the user's file at which the entry begins, if messages should name it.
    pub(super) first_line: Option<usize>,
}

/// A file of entries named `v0`, `v1`, ….
pub(super) struct EntryFile {
    /// The text.
    pub(super) text: String,
    /// The first line of each entry, ascending.
    starts: Vec<usize>,
    /// The first line after the last entry.
    end: usize,
}

impl EntryFile {
    /// Writes `entries` one after another.
    pub(super) fn new<'a>(isa: PtxIsa, target: Target, entries: impl Iterator<Item = Entry<'a>>) -> Self {
        let mut text = preamble(isa, target);
        let mut line = text.matches('\n').count() + 1;
        let mut starts = Vec::new();
        for (n, entry) in entries.enumerate() {
            starts.push(line);
            text.push_str(entry.before);
            text.push_str(&name(n));
            text.push_str(entry.after);
            line += entry.before.matches('\n').count() + entry.after.matches('\n').count();
        }
        Self { text, starts, end: line }
    }

    /// Appends the entry [`NOTHING`].
    pub(super) fn add_nothing(&mut self) {
        self.text.push_str(&format!(".visible .entry {NOTHING}()\n{{\nret;\n}}\n"));
    }

    /// The entry that contains `line`, and the line within it, from 0.
    pub(super) fn entry_at(&self, line: usize) -> Option<(usize, usize)> {
        if line >= self.end {
            return None;
        }
        let entry = self.starts.partition_point(|start| *start <= line).checked_sub(1)?;
        Some((entry, line - self.starts[entry]))
    }

    /// The entry that a message without a line names, as in `Entry function 'v12' uses too much shared data`.
    pub(super) fn entry_named(&self, message: &str) -> Option<usize> {
        let mut quoted = message.split('\'').skip(1).step_by(2);
        let number = quoted.find_map(|word| word.strip_prefix('v')?.parse::<usize>().ok())?;
        (number < self.starts.len()).then_some(number)
    }
}

/// The name of an empty entry, for runs that need no code of the others.
pub(super) const NOTHING: &str = "nothing";

/// The name of entry `n`.
pub(super) fn name(n: usize) -> String {
    format!("v{n}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lead_to_entries() {
        let entry = |after| Entry { before: ".entry ", after, first_line: None };
        let file = EntryFile::new(
            "9.5".parse().unwrap(),
            "sm_121a".parse().unwrap(),
            [entry("() {\nret;\n}\n"), entry("() { ret; }\n")].into_iter(),
        );
        assert_eq!(file.text.lines().nth(6), Some(".entry v1() { ret; }"));
        let at: Vec<_> = (1..=8).map(|line| file.entry_at(line)).collect();
        assert_eq!(at, [None, None, None, Some((0, 0)), Some((0, 1)), Some((0, 2)), Some((1, 0)), None]);
        assert_eq!(file.entry_named("Entry function 'v1' uses 'v0'"), Some(1));
        assert_eq!(file.entry_named("Entry function 'v2' uses"), None);
    }
}
