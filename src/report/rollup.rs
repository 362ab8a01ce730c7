//! Families summarized: how many variants of each a target accepts with the newest toolkit.

use std::collections::BTreeMap;

use ptx::arch::Target;

use super::phrase::grouped;
use super::style::Tone;
use super::view::{Answer, View, speaks_of};
use crate::record::{Expect, Outcome, VariantRow};

/// A family on all targets.
pub(super) struct Family<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Forms that may be accepted.
    pub(super) forms: usize,
    /// Forms that exist to be rejected: a claim says so, and no toolkit accepts them.
    pub(super) refused: usize,
    /// One tally per target of the view.
    pub(super) tallies: Vec<Tally>,
}

/// The answers of a family's forms on one target.
#[derive(Default)]
pub(super) struct Tally {
    accepted: usize,
    rejected: usize,
    absent: usize,
    failed: usize,
    open: usize,
}

impl Tally {
    fn add(&mut self, answer: Answer) {
        match answer {
            Answer::Accepted => self.accepted += 1,
            Answer::Rejected => self.rejected += 1,
            Answer::Absent => self.absent += 1,
            Answer::Crashed | Answer::TimedOut => self.failed += 1,
            Answer::Silent | Answer::NotAsked => self.open += 1,
        }
    }

    /// The tally in a few letters: `all`, `none`, `absent`, `?`, or the number accepted; `!` if ptxas crashed or did not
    /// end, `?` after a number if some are not known.
    pub(super) fn word(&self) -> (String, Tone) {
        let said = self.accepted + self.rejected + self.absent + self.failed;
        let marks = format!(
            "{}{}",
            if self.failed > 0 { "!" } else { "" },
            if self.open > 0 && said > 0 { "?" } else { "" }
        );
        let (word, tone) = match (said, self.accepted) {
            (0, _) if self.open == 0 => ("–".to_owned(), Tone::Faint),
            (0, _) => ("?".to_owned(), Tone::Doubt),
            (n, accepted) if n == accepted && self.open == 0 => ("all".to_owned(), Tone::Good),
            (n, 0) if n == self.absent => ("absent".to_owned(), Tone::Faint),
            (_, 0) => ("none".to_owned(), Tone::Bad),
            (_, accepted) => (grouped(accepted), Tone::Plain),
        };
        (word + &marks, if self.failed > 0 { Tone::Doubt } else { tone })
    }
}

/// The families, by name.
pub(super) fn families<'a>(view: &View<'a>, targets: &[Target]) -> Vec<Family<'a>> {
    let Some(newest) = view.newest() else { return Vec::new() };
    let mut families: BTreeMap<&str, Family<'a>> = BTreeMap::new();
    for (_, variant) in view.variants() {
        let name = view.family(variant);
        let family = families.entry(name).or_insert_with(|| Family {
            name,
            forms: 0,
            refused: 0,
            tallies: targets.iter().map(|_| Tally::default()).collect(),
        });
        if exists_to_be_refused(view, variant) {
            family.refused += 1;
            continue;
        }
        family.forms += 1;
        for (target, tally) in targets.iter().zip(&mut family.tallies) {
            tally.add(view.answer(variant, newest, *target, *target));
        }
    }
    families.into_values().collect()
}

/// Whether a claim expects rejection and every cell is a rejection.
pub(super) fn exists_to_be_refused(view: &View<'_>, variant: &VariantRow) -> bool {
    let accepted = variant.count(Outcome::Accepted) > 0;
    !accepted
        && view.matrix.claims.iter().any(|c| c.expect == Expect::Rejected && speaks_of(c, variant))
        && !view.matrix.claims.iter().any(|c| c.expect != Expect::Rejected && speaks_of(c, variant))
}
