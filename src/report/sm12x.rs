//! The main comparison: what the SM12x targets accept, where they differ, and since which toolkit.

use std::collections::BTreeMap;

use ptx::arch::{Suffix, Target};

use super::phrase::all_of;
use super::view::{Answer, View};

/// Variants with equal answers on the SM12x targets with the newest toolkit.
pub(super) struct Group {
    /// The answers, one per target.
    pub(super) answers: Vec<Answer>,
    /// The answers in words.
    pub(super) title: String,
    /// The number of variants.
    pub(super) count: usize,
    /// The variants by the first toolkit from which every accepting target accepts; empty if none accepts.
    pub(super) since: BTreeMap<usize, Vec<usize>>,
    /// All variants.
    pub(super) variants: Vec<usize>,
}

/// A comparison of two targets.
pub(super) struct Contrast {
    /// The first target.
    pub(super) left: Target,
    /// The second target.
    pub(super) right: Target,
    /// Variants that both answer.
    pub(super) compared: usize,
    /// Variants that one of them does not answer, and how often.
    pub(super) open: usize,
    /// Variants that only the first accepts, with the newest toolkit.
    pub(super) only_left: Vec<Difference>,
    /// Variants that only the second accepts, with the newest toolkit.
    pub(super) only_right: Vec<Difference>,
    /// Variants on which an older toolkit differs and the newest does not: the variant and the newest toolkit that differs.
    pub(super) settled: Vec<(usize, usize)>,
}

/// A variant on which two targets differ.
pub(super) struct Difference {
    /// The variant.
    pub(super) variant: usize,
    /// The first toolkit from which they differ.
    pub(super) since: usize,
    /// Whether an older toolkit answers for both, with equal answers.
    pub(super) was_alike: bool,
}

/// The SM12x targets of the record.
pub(super) fn targets(view: &View<'_>) -> Vec<Target> {
    view.targets.iter().copied().filter(|t| t.is_sm12x()).collect()
}

/// Groups all variants by their answers on `targets` with the newest toolkit, those with the most acceptances first.
pub(super) fn groups(view: &View<'_>, targets: &[Target]) -> Vec<Group> {
    let Some(newest) = view.newest() else { return Vec::new() };
    let mut by_answers: BTreeMap<Vec<Answer>, Group> = BTreeMap::new();
    for (n, variant) in view.variants() {
        let mut answers: Vec<Answer> = targets.iter().map(|t| view.answer(variant, newest, *t, *t)).collect();
        if !answers.iter().all(|a| *a == Answer::Absent) {
            for answer in answers.iter_mut().filter(|a| **a == Answer::Absent) {
                *answer = Answer::Rejected;
            }
        }
        let accepting = targets.iter().zip(&answers).filter(|(_, a)| **a == Answer::Accepted);
        let since = accepting.filter_map(|(t, _)| view.history(variant, *t).since()).max();
        let group = by_answers.entry(answers.clone()).or_insert_with(|| Group {
            title: title(targets, &answers),
            answers,
            count: 0,
            since: BTreeMap::new(),
            variants: Vec::new(),
        });
        group.count += 1;
        group.variants.push(n);
        if let Some(since) = since {
            group.since.entry(since).or_default().push(n);
        }
    }
    let mut groups: Vec<Group> = by_answers.into_values().collect();
    let accepting = |g: &Group| g.answers.iter().filter(|a| **a == Answer::Accepted).count();
    groups.sort_by_key(|g| std::cmp::Reverse(accepting(g)));
    groups
}

/// The answers in words.
fn title(targets: &[Target], answers: &[Answer]) -> String {
    let uniform = answers.first().filter(|first| answers.iter().all(|a| a == *first));
    if let Some(answer) = uniform {
        let all = all_of(targets.len());
        return match answer {
            Answer::Accepted => format!("accepted on {all}"),
            Answer::Rejected => format!("rejected on {all}"),
            Answer::Absent => "absent by design".to_owned(),
            Answer::Silent => "unknown to this toolkit".to_owned(),
            Answer::Crashed => "crashes ptxas".to_owned(),
            Answer::TimedOut => "ptxas times out".to_owned(),
            Answer::NotAsked => "not queried".to_owned(),
        };
    }
    let plain = answers.iter().all(|a| *a == Answer::Accepted || a.is_no());
    let accepts = |suffix| {
        let mut of = targets.iter().zip(answers).filter(|(t, _)| t.suffix == suffix).map(|(_, a)| *a);
        let first = of.next();
        first.filter(|f| of.all(|a| a == *f)).map(|f| f == Answer::Accepted)
    };
    match (accepts(Suffix::Base), accepts(Suffix::Arch), accepts(Suffix::Family)) {
        (Some(false), Some(true), Some(true)) if plain => "needs a suffix, a or f".to_owned(),
        (Some(false), Some(true), Some(false)) if plain => "a only, not f".to_owned(),
        (Some(false), Some(false), Some(true)) if plain => "f only, not a".to_owned(),
        (Some(true), Some(true), Some(false)) if plain => "all but f".to_owned(),
        (Some(true), Some(false), Some(true)) if plain => "all but a".to_owned(),
        (Some(true), Some(false), Some(false)) if plain => "only without suffix".to_owned(),
        _ if plain => "differs by number".to_owned(),
        _ => "not known for all".to_owned(),
    }
}

/// Compares two targets by the newest toolkit, and by older ones if that one sees no difference.
pub(super) fn contrast(view: &View<'_>, left: Target, right: Target) -> Contrast {
    let (only_left, only_right, settled) = (Vec::new(), Vec::new(), Vec::new());
    let mut out = Contrast { left, right, compared: 0, open: 0, only_left, only_right, settled };
    for (n, variant) in view.variants() {
        let on = |target| move |toolkit| view.answer(variant, toolkit, target, target);
        let (on_left, on_right) = (on(left), on(right));
        let clear = |a: Answer| a == Answer::Accepted || a.is_no();
        // Toolkits that answer for both, newest first: do their answers differ?
        let both: Vec<(usize, bool)> = (0..view.toolkits.len())
            .rev()
            .map(|t| (t, on_left(t), on_right(t)))
            .filter(|(_, l, r)| clear(*l) && clear(*r))
            .map(|(t, l, r)| (t, (l == Answer::Accepted) != (r == Answer::Accepted)))
            .collect();
        let Some((newest, differs)) = both.first().filter(|(t, _)| Some(*t) == view.newest()).copied() else {
            out.open += 1;
            continue;
        };
        out.compared += 1;
        if !differs {
            out.settled.extend(both.iter().find(|(_, d)| *d).map(|(t, _)| (n, *t)));
            continue;
        }
        let since = both.iter().take_while(|(_, d)| *d).last().map_or(newest, |(t, _)| *t);
        let difference = Difference { variant: n, since, was_alike: both.iter().any(|(_, d)| !*d) };
        let list = if on_left(newest) == Answer::Accepted { &mut out.only_left } else { &mut out.only_right };
        list.push(difference);
    }
    out
}

/// The comparisons between the two numbers for each suffix: 120 with 121, 120a with 121a, 120f with 121f.
pub(super) fn siblings(view: &View<'_>) -> Vec<Contrast> {
    let targets = targets(view);
    let mut out = Vec::new();
    for suffix in [Suffix::Base, Suffix::Arch, Suffix::Family] {
        let same: Vec<Target> = targets.iter().copied().filter(|t| t.suffix == suffix).collect();
        out.extend(same.windows(2).map(|w| contrast(view, w[0], w[1])));
    }
    out
}

/// For each toolkit, the SM12x targets that it is the first to know.
pub(super) fn first_known(view: &View<'_>) -> BTreeMap<usize, Vec<Target>> {
    let mut out: BTreeMap<usize, Vec<Target>> = BTreeMap::new();
    for target in targets(view) {
        let says = |t: &usize| view.variants().any(|(_, v)| view.answer(v, *t, target, target).is_said());
        if let Some(first) = (0..view.toolkits.len()).find(says) {
            out.entry(first).or_default().push(target);
        }
    }
    out
}

/// Variants that an older toolkit accepts on SM12x targets and the newest with an answer rejects: variant, targets
/// and the newest toolkit that accepts.
pub(super) fn withdrawn(view: &View<'_>) -> Vec<(usize, Vec<Target>, usize)> {
    let targets = targets(view);
    let mut out: Vec<(usize, Vec<Target>, usize)> = Vec::new();
    for (n, variant) in view.variants() {
        for target in &targets {
            let history = view.history(variant, *target);
            let refused = history.said().next_back().is_some_and(|(_, a)| a.is_no());
            let Some((_, end)) = history.accepted().last().copied().filter(|_| refused) else { continue };
            match out.last_mut() {
                Some((m, list, last)) if *m == n && *last == end => list.push(*target),
                _ => out.push((n, vec![*target], end)),
            }
        }
    }
    out
}
