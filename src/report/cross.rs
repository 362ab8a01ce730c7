//! Which PTX `.target` can be assembled for which `-arch`, according to the variants that were tried with several.

use ptx::arch::Target;

use super::view::{Answer, View};
use crate::record::{Outcome, Pair, VariantRow};

/// A variant that was tried with several `-arch` values per `.target`.
pub(super) struct Crossing<'a> {
    /// The variant.
    pub(super) variant: &'a VariantRow,
    /// The `.target` values tried, SM12x first.
    pub(super) targets: Vec<Target>,
    /// The `-arch` values tried, SM12x first.
    pub(super) archs: Vec<Target>,
}

/// A `.target`, the `-arch` values with the same answer, and the answer.
type Row = (Target, Vec<Target>, Answer);

impl Crossing<'_> {
    /// The newest toolkit's answer.
    pub(super) fn answer(&self, view: &View<'_>, target: Target, arch: Target) -> Answer {
        view.newest().map_or(Answer::NotAsked, |newest| view.answer(self.variant, newest, target, arch))
    }

    /// The targets that accept the variant with their own `-arch`.
    pub(super) fn own(&self, view: &View<'_>) -> Vec<Target> {
        self.targets.iter().copied().filter(|t| self.answer(view, *t, *t) == Answer::Accepted).collect()
    }

    /// Answers of other toolkits that differ from the newest one's. Only cells that both toolkits answer count.
    pub(super) fn changes(&self, view: &View<'_>) -> Vec<(usize, Target, Vec<Target>, Answer)> {
        let mut out = Vec::new();
        for toolkit in 0..view.newest().unwrap_or_default() {
            let rows = self.rows(|target, arch| {
                let now = self.answer(view, target, arch);
                let then = view.answer(self.variant, toolkit, target, arch);
                // With its own -arch, a change belongs to the catalogue.
                let both = target != arch && now.is_said() && then.is_said();
                (both && (now.is_no() != then.is_no() || (!now.is_no() && now != then))).then_some(then)
            });
            // If the target itself was not supported, the answer says nothing about the -arch.
            let own = |target| view.answer(self.variant, toolkit, target, target);
            let rows = rows.into_iter().filter(|(t, _, then)| !(then.is_no() && own(*t).is_no()));
            out.extend(rows.map(|(target, archs, then)| (toolkit, target, archs, then)));
        }
        out
    }

    /// Cells in which the newest toolkit deviates from the rule that `ptxas --help` states.
    pub(super) fn against_rule(&self, view: &View<'_>) -> Vec<Row> {
        self.rows(|target, arch| {
            let rule = self.answer(view, target, target) == Answer::Accepted && target.may_assemble_for(arch);
            let answer = self.answer(view, target, arch);
            (answer.is_said() && rule != (answer == Answer::Accepted)).then_some(answer)
        })
    }

    /// Cells of the newest toolkit that neither `base` nor the variant's own `.target` predicts.
    pub(super) fn deviations(&self, view: &View<'_>, base: &Crossing<'_>) -> Vec<Row> {
        self.rows(|target, arch| {
            let own = self.answer(view, target, target) == Answer::Accepted;
            let foretold = own && base.answer(view, target, arch) == Answer::Accepted;
            let answer = self.answer(view, target, arch);
            (answer.is_said() && foretold != (answer == Answer::Accepted)).then_some(answer)
        })
    }

    fn rows(&self, pick: impl Fn(Target, Target) -> Option<Answer>) -> Vec<Row> {
        let mut out: Vec<Row> = Vec::new();
        for (target, arch) in self.targets.iter().flat_map(|t| self.archs.iter().map(move |a| (*t, *a))) {
            let Some(answer) = pick(target, arch) else { continue };
            match out.iter_mut().find(|(t, _, a)| *t == target && *a == answer) {
                Some((_, archs, _)) => archs.push(arch),
                None => out.push((target, vec![arch], answer)),
            }
        }
        out
    }
}

/// The variants that were tried with an `-arch` other than their `.target`; the one that most pairs accept comes first.
pub(super) fn crossings<'a>(view: &View<'a>) -> Vec<Crossing<'a>> {
    let mut out = Vec::new();
    for (_, variant) in view.variants() {
        let asked: Vec<Pair> =
            variant.answers().filter_map(|(n, _)| view.matrix.pairs.get(n).copied()).collect();
        if asked.iter().all(|p| p.target == p.arch) {
            continue;
        }
        let list = |of: fn(&Pair) -> Target| {
            let mut targets: Vec<Target> = asked.iter().map(of).collect();
            targets.sort_by_key(|t| (!t.is_sm12x(), *t));
            targets.dedup();
            targets
        };
        out.push(Crossing { variant, targets: list(|p| p.target), archs: list(|p| p.arch) });
    }
    let accepted = |c: &Crossing<'_>| c.variant.count(Outcome::Accepted);
    out.sort_by_key(|c| std::cmp::Reverse(accepted(c)));
    out
}
