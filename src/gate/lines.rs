//! Finds the changed lines of a file, ignoring comments, blank lines and indentation.

use std::collections::BTreeSet;

use crate::record::listed;

use crate::mutants::without_comments;

/// The most pairs of lines to compare; beyond it, everything between the common start and end of two texts counts as changed.
const MOST_PAIRS: usize = 1 << 24;

/// The numbers of changed lines, from 1: lines of the new text missing from the old one, and lines of the old text missing from
/// the new one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) new: BTreeSet<usize>,
    pub(super) old: BTreeSet<usize>,
}

impl Changed {
    pub(super) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.old.is_empty()
    }
}

/// Returns the lines with code and their numbers, with white space normalized. The lines of a kernel's `//@` header count as code.
pub(super) fn code(text: &str) -> Vec<(usize, String)> {
    let plain = without_comments(text);
    let of = |(n, (plain, written)): (usize, (&str, &str))| {
        let line = if written.starts_with("//@") { written } else { plain };
        let words: Vec<&str> = line.split_whitespace().collect();
        (!words.is_empty()).then(|| (n + 1, words.join(" ")))
    };
    plain.lines().zip(text.lines()).enumerate().filter_map(of).collect()
}

/// Compares two texts by the longest common subsequence of their lines.
pub(super) fn changed(old: &str, new: &str) -> Changed {
    let (old, new) = (code(old), code(new));
    let mut a = old.as_slice();
    let mut b = new.as_slice();
    while let ([x, rest_a @ ..], [y, rest_b @ ..]) = (a, b)
        && x.1 == y.1
    {
        (a, b) = (rest_a, rest_b);
    }
    while let ([rest_a @ .., x], [rest_b @ .., y]) = (a, b)
        && x.1 == y.1
    {
        (a, b) = (rest_a, rest_b);
    }
    let mut out = Changed::default();
    let (mut i, mut j) = (0, 0);
    if a.len() * b.len() <= MOST_PAIRS {
        let width = b.len() + 1;
        // The length of the longest common subsequence of the suffixes at each pair of lines.
        let mut longest = vec![0u32; (a.len() + 1) * width];
        for i in (0..a.len()).rev() {
            for j in (0..b.len()).rev() {
                longest[i * width + j] = if a[i].1 == b[j].1 {
                    longest[(i + 1) * width + j + 1] + 1
                } else {
                    longest[(i + 1) * width + j].max(longest[i * width + j + 1])
                };
            }
        }
        while i < a.len() && j < b.len() {
            if a[i].1 == b[j].1 {
                (i, j) = (i + 1, j + 1);
            } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
                out.old.insert(a[i].0);
                i += 1;
            } else {
                out.new.insert(b[j].0);
                j += 1;
            }
        }
    }
    out.old.extend(a[i..].iter().map(|l| l.0));
    out.new.extend(b[j..].iter().map(|l| l.0));
    out
}

/// Formats line numbers: `line 31`, `lines 3, 7 to 9 and 12`.
pub(super) fn words(lines: &BTreeSet<usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for line in lines {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *line => *last = *line,
            _ => runs.push((*line, *line)),
        }
    }
    let shown: Vec<String> =
        runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a} to {b}") }).collect();
    let word = if lines.len() == 1 { "line" } else { "lines" };
    format!("{word} {}", listed(&shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(old: &str, new: &str) -> (Vec<usize>, Vec<usize>) {
        let found = changed(old, new);
        (found.new.into_iter().collect(), found.old.into_iter().collect())
    }

    #[test]
    fn code_that_changed_and_nothing_else() {
        assert_eq!(both("a;\nb;\nc;\n", "a;\nx;\nc;\n"), (vec![2], vec![2]));
        assert_eq!(both("a;\nb;\nc;\n", "a;\nc;\n"), (vec![], vec![2]));
        assert_eq!(both("a;\nc;\n", "a;\n// why\n\nb;\nc;\nd;\n"), (vec![4, 6], vec![]));
        assert_eq!(both("a; // x\n\n  b;", "a; /* y */\nb;\n// z\n"), (vec![], vec![]));
        // A moved line is reported at its old and new positions.
        assert_eq!(both("a;\nb;\nc;\n", "b;\nc;\na;\n"), (vec![3], vec![1]));
        // The header determines how the kernel is launched.
        assert_eq!(both("//@ grid: [1]\n// x\n", "//@ grid: [2]\n// y\n"), (vec![1], vec![1]));
        assert!(changed("", "").is_empty());
    }

    #[test]
    fn lines_are_told_in_runs() {
        let told = |lines: &[usize]| words(&lines.iter().copied().collect());
        assert_eq!(told(&[31]), "line 31");
        assert_eq!(told(&[3, 7, 8, 9, 12]), "lines 3, 7 to 9 and 12");
        assert_eq!(told(&[1, 2]), "lines 1 to 2");
    }
}
