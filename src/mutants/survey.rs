//! The results of a run of mutants: the fate and explanation of each, and counts by file and operator.

use std::collections::BTreeMap;

use super::explained::Entry;
use super::model::{Mutant, Operator};
use super::run::{Fate, Unfit};
use crate::record::{StageName, Verdict};

/// A mutant and its fate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The mutant.
    pub mutant: Mutant,
    /// Its fate.
    pub fate: Fate,
    /// The index of the entry that explains it.
    pub entry: Option<usize>,
}

impl Judged {
    /// Whether it passes every trial and no entry explains it.
    #[must_use]
    pub fn is_survivor(&self) -> bool {
        matches!(self.fate, Fate::Survived(_)) && self.entry.is_none()
    }
}

/// The results of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// The mutants run, in order.
    pub judged: Vec<Judged>,
    /// The entries of explained mutants.
    pub entries: Vec<Entry>,
    /// The number of mutants generated; if only a sample was run, it is larger than the number run.
    pub made: usize,
    /// The indices of entries for these files that match no mutant.
    pub stray: Vec<usize>,
    /// Trials that fail with the unchanged kernels; no mutant was run on them.
    pub unfit: Vec<Unfit>,
    /// Files that no selected trial runs.
    pub idle: Vec<String>,
}

/// The counts of a file and an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// Mutants run.
    pub run: usize,
    /// Mutants that do not compile.
    pub unbuilt: usize,
    /// Mutants with unchanged PTX.
    pub equivalent: usize,
    /// Mutants detected by a trial.
    pub killed: usize,
    /// Mutants that survive and are explained.
    pub explained: usize,
    /// Mutants that survive and are not explained.
    pub survivors: usize,
    /// The number of mutants killed, by the first wrong stage and its verdict.
    by: BTreeMap<String, usize>,
}

impl Row {
    fn add(&mut self, judged: &Judged) {
        self.run += 1;
        match &judged.fate {
            Fate::Unbuilt(_) => self.unbuilt += 1,
            Fate::Equivalent => self.equivalent += 1,
            Fate::Killed { stage, verdict, .. } => {
                self.killed += 1;
                *self.by.entry(words(stage.as_ref(), *verdict)).or_default() += 1;
            }
            Fate::Survived(_) if judged.entry.is_some() => self.explained += 1,
            Fate::Survived(_) => self.survivors += 1,
        }
    }

    /// Returns the stage and verdict that detected most mutants: `fc1`, or `fc1 crashed` for a verdict other
    /// than `fail`.
    #[must_use]
    pub fn mostly(&self) -> &str {
        self.by.iter().max_by_key(|(_, n)| **n).map_or("", |(words, _)| words)
    }
}

fn words(stage: Option<&StageName>, verdict: Verdict) -> String {
    let stage = stage.map_or("tensors", StageName::text);
    if verdict == Verdict::Fail { stage.to_owned() } else { format!("{stage} {}", verdict.word()) }
}

impl Survey {
    /// Creates the survey of `mutants` with their `fates`, explained by `entries`. `made` are all generated
    /// mutants.
    #[must_use]
    pub fn new(
        mutants: Vec<Mutant>,
        fates: Vec<Fate>,
        entries: Vec<Entry>,
        made: &[Mutant],
        unfit: Vec<Unfit>,
    ) -> Self {
        let of_files = |e: &Entry| made.iter().any(|m| m.file == e.file);
        let stray =
            entries.iter().enumerate().filter(|(_, e)| of_files(e) && !made.iter().any(|m| e.explains(m)));
        let stray = stray.map(|(n, _)| n).collect();
        let judge = |(mutant, fate): (Mutant, Fate)| {
            let entry = entries.iter().position(|e| e.explains(&mutant));
            Judged { mutant, fate, entry }
        };
        let judged = mutants.into_iter().zip(fates).map(judge).collect();
        Self { judged, entries, made: made.len(), stray, unfit, idle: Vec::new() }
    }

    /// Returns the counts by file and operator.
    #[must_use]
    pub fn rows(&self) -> BTreeMap<(String, Operator), Row> {
        let mut out: BTreeMap<(String, Operator), Row> = BTreeMap::new();
        for judged in &self.judged {
            out.entry((judged.mutant.file.clone(), judged.mutant.operator)).or_default().add(judged);
        }
        out
    }

    /// Returns the total counts.
    #[must_use]
    pub fn total(&self) -> Row {
        let mut out = Row::default();
        self.judged.iter().for_each(|judged| out.add(judged));
        out
    }

    /// Iterates over the mutants that survive without an explanation.
    pub fn survivors(&self) -> impl Iterator<Item = &Judged> {
        self.judged.iter().filter(|j| j.is_survivor())
    }

    /// Returns the entries that explain a mutant which a trial detects, each with the first such mutant.
    #[must_use]
    pub fn refuted(&self) -> Vec<(&Entry, &Judged)> {
        let is_refuted = |n: usize| {
            self.judged.iter().find(move |j| j.entry == Some(n) && matches!(j.fate, Fate::Killed { .. }))
        };
        self.entries.iter().enumerate().filter_map(|(n, e)| Some((e, is_refuted(n)?))).collect()
    }
}

/// Chooses `count` of the items by `seed`, or all if there are fewer, and keeps their order.
#[must_use]
pub fn sample<T>(items: Vec<T>, count: usize, seed: u64) -> Vec<T> {
    let mut keyed: Vec<(u64, usize)> = (0..items.len()).map(|n| (mixed(seed, n as u64), n)).collect();
    keyed.sort_unstable();
    let chosen: std::collections::BTreeSet<usize> = keyed.into_iter().take(count).map(|(_, n)| n).collect();
    items.into_iter().enumerate().filter(|(n, _)| chosen.contains(n)).map(|(_, item)| item).collect()
}

/// SplitMix64 of a seed and an index.
const fn mixed(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add((n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::{mutants, parse_explained};
    use super::*;
    use std::path::Path;

    #[test]
    fn a_sample_is_the_seeds_and_keeps_the_order() {
        let all: Vec<usize> = (0..100).collect();
        let some = sample(all.clone(), 10, 1);
        assert!(some.len() == 10 && some.is_sorted(), "{some:?}");
        assert_eq!(some, sample(all.clone(), 10, 1));
        assert_ne!(some, sample(all.clone(), 10, 2));
        assert_eq!(sample(all.clone(), 200, 1), all);
    }

    #[test]
    fn fates_are_counted_and_entries_are_held_to_them() {
        let made = mutants("k.cu", "x = a + 1;\n");
        let entries = "- {file: k.cu, line: 'x = a + 1;', becomes: 'x = a - 1;', reason: r}\n\
            - {file: k.cu, line: 'x = a + 1;', becomes: 'x = a + 2;', reason: r}\n\
            - {file: k.cu, line: 'x = b;', operator: sign, reason: r}\n\
            - {file: other.cu, line: 'x = b;', operator: sign, reason: r}\n";
        let entries = parse_explained(Path::new("m"), entries).unwrap();
        let killed = Fate::Killed { trial: "t".into(), stage: Some("fc1".into()), verdict: Verdict::Fail };
        let fate = |m: &Mutant| match m.after.as_str() {
            "x = a + 2;" => killed.clone(),
            _ => Fate::Survived(1),
        };
        let fates = made.iter().map(fate).collect();
        let survey = Survey::new(made.clone(), fates, entries, &made, Vec::new());
        let total = survey.total();
        assert_eq!(
            (total.run, total.killed, total.explained, total.survivors, total.mostly()),
            (3, 1, 1, 1, "fc1")
        );
        assert_eq!(survey.survivors().map(|j| j.mutant.after.as_str()).collect::<Vec<_>>(), ["x = a + 0;"]);
        assert_eq!(survey.stray, [2]);
        assert_eq!(survey.refuted().iter().map(|(e, _)| e.at).collect::<Vec<_>>(), [2]);
        assert_eq!(survey.rows().len(), 3);
    }
}
