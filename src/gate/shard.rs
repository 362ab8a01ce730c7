//! Shards of the work: they are disjoint, cover everything, and are the same on every machine with the same build.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::frame::family::SharedTrial;
use crate::record::ConfigurationName;
use crate::snippet::Library;

/// Part `index`, from 0, of `of` parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    of: usize,
}

impl Shard {
    /// Whether it is the first shard, which does the work that is not divided.
    #[must_use]
    pub const fn is_first(self) -> bool {
        self.index == 0
    }

    /// Retains the variants of this shard's snippets. A snippet is never divided, so that its claims are judged as a whole.
    /// Snippets are assigned largest first, each to the shard with the fewest variants.
    pub fn of_snippets(self, library: &mut Library) {
        let mut sizes = vec![0_usize; library.snippets.len()];
        for variant in &library.variants {
            sizes[variant.snippet] += 1;
        }
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|s| (std::cmp::Reverse(sizes[*s]), *s));
        let mut loads = vec![0_usize; self.of];
        let mut mine = BTreeSet::new();
        for snippet in order {
            let Some(least) = (0..self.of).min_by_key(|n| (loads[*n], *n)) else { return };
            loads[least] += sizes[snippet];
            if least == self.index {
                mine.insert(snippet);
            }
        }
        library.variants.retain(|v| mine.contains(&v.snippet));
    }

    /// Retains the trials of this shard. Trials of the same configuration stay together, since fault coverage is computed
    /// per kernel.
    pub fn of_trials(self, trials: &mut Vec<SharedTrial>) {
        let all: BTreeSet<ConfigurationName> = trials.iter().map(|trial| trial.configuration()).collect();
        let mine: BTreeSet<ConfigurationName> =
            all.into_iter().enumerate().filter(|(n, _)| n % self.of == self.index).map(|(_, c)| c).collect();
        trials.retain(|t| mine.contains(&t.configuration()));
    }

    /// Retains this shard's rows of a table.
    pub fn of_rows<T>(self, rows: &mut Vec<T>) {
        let mut n = 0;
        rows.retain(|_| {
            n += 1;
            (n - 1) % self.of == self.index
        });
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a shard: write 2/8 for the second of eight");
        let (index, of) = text.split_once('/').ok_or_else(bad)?;
        let (index, of): (usize, usize) = (index.parse().map_err(|_| bad())?, of.parse().map_err(|_| bad())?);
        if index == 0 || index > of || of > 100_000 { Err(bad()) } else { Ok(Self { index: index - 1, of }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::family::Family as _;
    use crate::moe::family::MOE;

    #[test]
    fn shards_are_disjoint_and_together_everything() {
        let whole = Library::embedded();
        let cases: Vec<String> = MOE.cases().into_iter().map(|case| case.name).collect();
        let all = MOE.default_set(&cases.iter().map(String::as_str).collect::<Vec<_>>());
        for of in [1, 3, 8] {
            let (mut ids, mut names, mut rows) = (Vec::new(), Vec::new(), Vec::new());
            let mut most = 0;
            for n in 1..=of {
                let shard: Shard = format!("{n}/{of}").parse().unwrap();
                let mut part = Library::embedded();
                shard.of_snippets(&mut part);
                most = most.max(part.variants.len());
                ids.extend(part.variants.into_iter().map(|v| v.id));
                let mut trials = all.clone();
                shard.of_trials(&mut trials);
                names.extend(trials.iter().map(|t| t.name()));
                let mut some: Vec<usize> = (0..10).collect();
                shard.of_rows(&mut some);
                rows.extend(some);
            }
            let mut expected: Vec<String> = whole.variants.iter().map(|v| v.id.clone()).collect();
            ids.sort();
            expected.sort();
            assert_eq!(ids, expected);
            assert_eq!(names.len(), all.len());
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), all.len());
            rows.sort_unstable();
            assert_eq!(rows, (0..10).collect::<Vec<_>>());
            // No shard gets much more than its share.
            assert!(most <= expected.len() / of + 60, "{most} of {} in one of {of}", expected.len());
        }
        for text in ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/1000000"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
