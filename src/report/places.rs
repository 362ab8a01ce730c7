//! Where something holds: sets of (toolkit, target, arch) in a few words.

use std::collections::BTreeMap;

use ptx::arch::{Target, ToolkitVersion};

use super::phrase::names;
use super::view::View;

/// Lines such as `sm_120 sm_121: 12.9.41–13.5.37` for pairs of the record; places with the same toolkits share a line.
pub(super) fn lines(view: &View<'_>, pairs: impl Iterator<Item = usize>) -> Vec<String> {
    let mut toolkits: BTreeMap<(Target, Target), Vec<usize>> = BTreeMap::new();
    for pair in pairs.filter_map(|p| view.matrix.pairs.get(p)) {
        let at = view.toolkits.binary_search(&pair.toolkit);
        toolkits.entry((pair.target, pair.arch)).or_default().extend(at);
    }
    let mut shared: BTreeMap<Vec<usize>, Vec<(Target, Target)>> = BTreeMap::new();
    for (place, mut at) in toolkits {
        at.sort_unstable();
        at.dedup();
        shared.entry(at).or_default().push(place);
    }
    let mut out = Vec::new();
    for (at, places) in shared {
        let (own, other): (Vec<_>, Vec<_>) = places.into_iter().partition(|(target, arch)| target == arch);
        let own: Vec<Target> = own.into_iter().map(|(target, _)| target).collect();
        let own = Some(names(&own)).filter(|o| !o.is_empty());
        out.extend(own.into_iter().chain(crossed(&other)).map(|p| format!("{p}: {}", ranges(view, &at))));
    }
    out
}

/// (`.target`, `-arch`) pairs in words: `.target sm_121 sm_121f for -arch sm_120 sm_120a`.
pub(super) fn crossed(pairs: &[(Target, Target)]) -> Vec<String> {
    let mut targets: BTreeMap<Target, Vec<Target>> = BTreeMap::new();
    for (target, arch) in pairs {
        targets.entry(*arch).or_default().push(*target);
    }
    let mut shared: Vec<(Vec<Target>, Vec<Target>)> = Vec::new();
    for (arch, targets) in targets {
        match shared.iter_mut().find(|(t, _)| *t == targets) {
            Some((_, archs)) => archs.push(arch),
            None => shared.push((targets, vec![arch])),
        }
    }
    shared.iter().map(|(t, a)| format!(".target {} for -arch {}", names(t), names(a))).collect()
}

/// Toolkits as ranges of full versions: `12.9.41–13.5.37`.
pub(super) fn ranges(view: &View<'_>, toolkits: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for t in toolkits {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *t => *last = *t,
            _ => runs.push((*t, *t)),
        }
    }
    let name = |t: usize| view.toolkits.get(t).map_or_else(String::new, ToolkitVersion::to_string);
    let run = |(first, last): (usize, usize)| {
        if first == last { name(first) } else { format!("{}–{}", name(first), name(last)) }
    };
    runs.into_iter().map(run).collect::<Vec<_>>().join(", ")
}
