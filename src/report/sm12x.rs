//! The main comparison: what the SM12x targets accept, where they differ, and since which toolkit.

use std::collections::BTreeMap;

use ptx::arch::{Suffix, Target};

use super::built_in;
use super::phrase::all_of;
use super::view::{Answer, Since, View};
use crate::record::VariantRow;

/// Variants with equal answers on the SM12x targets with the newest toolkit.
pub(super) struct Group {
    /// The answers, one per target.
    pub(super) answers: Vec<Answer>,
    /// The answers in words.
    pub(super) title: String,
    /// The number of variants.
    pub(super) count: usize,
    /// The variants by the first toolkit from which every accepting target accepts; empty if none accepts.
    pub(super) since: BTreeMap<Since, Vec<usize>>,
    /// Since when the variants of each group are accepted according to the committed record, where this one did not query the release before.
    pub(super) committed: BTreeMap<Since, String>,
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
    pub(super) since: Since,
    /// Since when they differ according to the committed record, if this one did not query the release before.
    pub(super) committed: Option<String>,
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
        let since = accepting.filter_map(|(t, _)| view.since(variant, *t)).max();
        let group = by_answers.entry(answers.clone()).or_insert_with(|| Group {
            title: title(targets, &answers),
            answers,
            count: 0,
            since: BTreeMap::new(),
            committed: BTreeMap::new(),
            variants: Vec::new(),
        });
        group.count += 1;
        group.variants.push(n);
        if let Some(since) = since {
            group.since.entry(since).or_default().push(n);
        }
    }
    let mut groups: Vec<Group> = by_answers.into_values().collect();
    for group in &mut groups {
        let open = group.since.iter().filter(|(since, _)| !since.is_release());
        let committed = |(since, list): (&Since, &Vec<usize>)| {
            Some((*since, committed_groups(view, targets, &group.answers, list)?))
        };
        group.committed = open.filter_map(committed).collect();
    }
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

/// Appends what the committed record says.
pub(super) fn and_committed(text: String, committed: Option<&String>) -> String {
    match committed {
        Some(toolkit) => format!("{text}; the built-in record: {toolkit}"),
        None => text,
    }
}

/// Returns the toolkits since which all variants of a group are accepted on its targets, in the committed record: the earliest and the
/// latest; `None` if it does not have all of these variants.
fn committed_groups(
    view: &View<'_>,
    targets: &[Target],
    answers: &[Answer],
    variants: &[usize],
) -> Option<String> {
    let committed = View::new(built_in::matrix()?);
    let of = |n: &usize| {
        let id = &view.matrix.variants[*n].id;
        let variant = committed.matrix.variants.iter().find(|v| v.id == *id)?;
        let accepting = targets.iter().zip(answers).filter(|(_, a)| **a == Answer::Accepted);
        accepting.map(|(t, _)| committed.since(variant, *t)).max().flatten()
    };
    committed.range(variants.iter().map(of))
}

/// Returns the same for a difference between two targets.
fn committed_difference(view: &View<'_>, variant: usize, left: Target, right: Target) -> Option<String> {
    let committed = View::new(built_in::matrix()?);
    let id = &view.matrix.variants[variant].id;
    let variant = committed.matrix.variants.iter().find(|v| v.id == *id)?;
    let answers = answers_of_both(&committed, variant, left, right);
    answers.first().filter(|(_, differs)| *differs)?;
    committed.range([Some(first_difference(&committed, &answers, left, right)?)].into_iter())
}

/// The toolkits that answer for both targets, newest first, and whether their answers differ.
fn answers_of_both(view: &View<'_>, variant: &VariantRow, left: Target, right: Target) -> Vec<(usize, bool)> {
    let on = |target| move |toolkit| view.answer(variant, toolkit, target, target);
    let (on_left, on_right) = (on(left), on(right));
    let clear = |a: Answer| a == Answer::Accepted || a.is_no();
    (0..view.toolkits.len())
        .rev()
        .map(|t| (t, on_left(t), on_right(t)))
        .filter(|(_, l, r)| clear(*l) && clear(*r))
        .map(|(t, l, r)| (t, (l == Answer::Accepted) != (r == Answer::Accepted)))
        .collect()
}

/// Returns since when two targets differ, given the toolkits that answer for both, newest first, of which the newest differs.
fn first_difference(view: &View<'_>, both: &[(usize, bool)], left: Target, right: Target) -> Option<Since> {
    let (first, _) = both.iter().take_while(|(_, differs)| *differs).last()?;
    let asked = |target| (0..*first).rev().find(|t| view.pair(*t, target).is_some());
    Some(view.first(*first, asked(left).max(asked(right)), &[left, right]))
}

/// Compares two targets by the newest toolkit, and by older ones if that one sees no difference.
pub(super) fn contrast(view: &View<'_>, left: Target, right: Target) -> Contrast {
    let (only_left, only_right, settled) = (Vec::new(), Vec::new(), Vec::new());
    let mut out = Contrast { left, right, compared: 0, open: 0, only_left, only_right, settled };
    for (n, variant) in view.variants() {
        let both = answers_of_both(view, variant, left, right);
        let Some((newest, differs)) = both.first().filter(|(t, _)| Some(*t) == view.newest()).copied() else {
            out.open += 1;
            continue;
        };
        out.compared += 1;
        if !differs {
            out.settled.extend(both.iter().find(|(_, d)| *d).map(|(t, _)| (n, *t)));
            continue;
        }
        let Some(since) = first_difference(view, &both, left, right) else { continue };
        let committed = if since.is_release() { None } else { committed_difference(view, n, left, right) };
        let was_alike = both.iter().any(|(_, d)| !*d);
        let accepted = view.answer(variant, newest, left, left) == Answer::Accepted;
        let list = if accepted { &mut out.only_left } else { &mut out.only_right };
        list.push(Difference { variant: n, since, committed, was_alike });
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
pub(super) fn first_known(view: &View<'_>) -> BTreeMap<Since, Vec<Target>> {
    let mut out: BTreeMap<Since, Vec<Target>> = BTreeMap::new();
    for target in targets(view) {
        let says = |t: &usize| view.variants().any(|(_, v)| view.answer(v, *t, target, target).is_said());
        if let Some(first) = (0..view.toolkits.len()).find(says) {
            let before = (0..first).rev().find(|t| view.pair(*t, target).is_some());
            out.entry(view.first(first, before, &[target])).or_default().push(target);
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
