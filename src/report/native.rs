//! What the machine code of accepted forms shows, per target, with the newest toolkit.

use std::collections::BTreeMap;

use ptx::arch::Target;

use super::view::View;
use crate::record::Native;

/// The counts and the exceptions.
pub(super) struct Shown {
    /// The number of accepted variants of each target, per answer.
    pub(super) counts: BTreeMap<Native, Vec<usize>>,
    /// Variants that are not one hardware instruction, by answer and the targets with that answer.
    pub(super) exceptions: BTreeMap<(Native, Vec<Target>), Vec<usize>>,
}

/// Counts the accepted variants on `targets`.
pub(super) fn shown(view: &View<'_>, targets: &[Target]) -> Shown {
    let mut out = Shown { counts: BTreeMap::new(), exceptions: BTreeMap::new() };
    let Some(newest) = view.newest() else { return out };
    for (n, variant) in view.variants() {
        let mut special: BTreeMap<Native, Vec<Target>> = BTreeMap::new();
        for (place, target) in targets.iter().enumerate() {
            let Some(native) = view.native(variant, newest, *target) else { continue };
            out.counts.entry(native).or_insert_with(|| vec![0; targets.len()])[place] += 1;
            match native {
                Native::Split | Native::Emulated => special.entry(native).or_default().push(*target),
                Native::Native | Native::Unknown => {}
            }
        }
        for key in special {
            out.exceptions.entry(key).or_default().push(n);
        }
    }
    out
}

/// The answer as a heading.
pub(super) const fn words(native: Native) -> &'static str {
    match native {
        Native::Native => "native",
        Native::Split => "split into several hardware instructions",
        Native::Emulated => "emulated",
        Native::Unknown => "not known",
    }
}
