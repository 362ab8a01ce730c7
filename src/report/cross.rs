//! Which PTX `.target` may be assembled for which `-arch`, by the variants that were asked with several.

use super::view::{Answer, View};
use crate::arch::Target;
use crate::record::{Pair, VariantRow};

/// A variant that was asked with several `-arch` per `.target`.
pub(super) struct Crossing<'a> {
    /// The variant.
    pub(super) variant: &'a VariantRow,
    /// The `.target`s asked, SM12x first.
    pub(super) targets: Vec<Target>,
    /// The `-arch`s asked, SM12x first.
    pub(super) archs: Vec<Target>,
}

impl Crossing<'_> {
    /// What toolkits other than the newest answer otherwise: toolkit, `.target`, `-arch`, answer. Only cells that both
    /// toolkits answer count.
    pub(super) fn changes(&self, view: &View<'_>) -> Vec<(usize, Target, Target, Answer)> {
        let Some(newest) = view.newest() else { return Vec::new() };
        let mut out = Vec::new();
        for toolkit in 0..newest {
            for (target, arch) in self.targets.iter().flat_map(|t| self.archs.iter().map(move |a| (*t, *a))) {
                let now = view.answer(self.variant, newest, target, arch);
                let then = view.answer(self.variant, toolkit, target, arch);
                let both = now.is_said() && then.is_said();
                if both && (now.is_no() != then.is_no() || (!now.is_no() && now != then)) {
                    out.push((toolkit, target, arch, then));
                }
            }
        }
        out
    }

    /// Cells in which assembling differs from the rule that `ptxas --help` states, with the newest toolkit.
    pub(super) fn against_rule(&self, view: &View<'_>) -> Vec<(Target, Target, Answer)> {
        let Some(newest) = view.newest() else { return Vec::new() };
        let cells = self.targets.iter().flat_map(|t| self.archs.iter().map(move |a| (*t, *a)));
        cells
            .map(|(target, arch)| (target, arch, view.answer(self.variant, newest, target, arch)))
            .filter(|(target, arch, answer)| {
                let own = view.answer(self.variant, newest, *target, *target);
                let rule = own == Answer::Accepted && target.may_assemble_for(*arch);
                answer.is_said() && rule != (*answer == Answer::Accepted)
            })
            .collect()
    }
}

/// The variants that were asked with an `-arch` other than their `.target`.
pub(super) fn crossings<'a>(view: &View<'a>) -> Vec<Crossing<'a>> {
    let mut out = Vec::new();
    for (_, variant) in view.variants() {
        let asked: Vec<Pair> = variant
            .outcomes
            .bytes()
            .zip(&view.matrix.pairs)
            .filter(|(letter, _)| *letter != b'.')
            .map(|(_, pair)| *pair)
            .collect();
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
    out
}
