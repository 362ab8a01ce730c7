//! The choice of experts and the permutation, by their definitions (docs/numerics.md, 3).

use std::cmp::Ordering;

use super::activation::Value;
use super::interval::Interval;
use super::scores::{keys, scores};
use crate::moe::case::{GroupScore, Groups, Router, Scores};
use crate::moe::contract::ExpBound;
use crate::moe::dims::Dims;

/// The order of logits: greatest first, NaN greatest of all (like `torch.topk`), −0 = +0, ties by lowest index.
fn order(logits: &[f32], a: usize, b: usize) -> Ordering {
    let (x, y) = (logits[a], logits[b]);
    // `partial_cmp` is `None` only for a NaN.
    let values = y.partial_cmp(&x).unwrap_or_else(|| y.is_nan().cmp(&x.is_nan()));
    values.then(a.cmp(&b))
}

/// The experts of the `k` greatest logits, best first.
#[must_use]
pub fn top_k(logits: &[f32], k: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..logits.len()).collect();
    all.sort_by(|a, b| order(logits, *a, *b));
    all.truncate(k);
    all
}

/// Whether a group is among the selected ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Surely,
    Perhaps,
    Never,
}

/// The choices open to one token. If keys are known only as intervals, several choices may be right.
pub struct Choice<'a> {
    logits: &'a [f32],
    bias: &'a [f32],
    keys: Vec<Value>,
    /// The state of each group, and the number of undecided ones that are kept.
    groups: Vec<Kept>,
    perhaps: usize,
    /// The groups kept if every key is the middle of its interval.
    nominal: Vec<usize>,
    exact: bool,
}

/// A wrong choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongChoice {
    /// An expert that had to be chosen instead; `None` if the chosen one is impossible in combination with the others.
    pub wanted: Option<usize>,
}

impl<'a> Choice<'a> {
    /// Returns the choices for a token's logits; `bias` is empty if the router has none.
    #[must_use]
    pub fn new(router: &Router, logits: &'a [f32], bias: &'a [f32], bound: &ExpBound) -> Self {
        let bias = if router.correction_bias { bias } else { &[] };
        let exact = router.scores == Scores::SoftmaxChosen;
        let mut keys = keys(&scores(router, logits, bound), bias);
        if router.scores == Scores::SoftmaxAll && keys.iter().all(|key| *key == Value::Nan) {
            // A NaN or an infinity among the logits makes every score NaN; no rule then defines the greatest.
            keys.fill(Value::Open);
        }
        let mut new =
            Self { logits, bias, keys, groups: vec![Kept::Surely], perhaps: 0, nominal: vec![0], exact };
        if let Some(of) = router.groups {
            (new.groups, new.perhaps, new.nominal) = new.kept(of);
        }
        new
    }

    fn group(&self, expert: usize) -> usize {
        expert * self.groups.len() / self.keys.len().max(1)
    }

    /// Whether two experts have the same inputs, and therefore the same key.
    fn alike(&self, a: usize, b: usize) -> bool {
        let alike = |x: f32, y: f32| x == y || (x.is_nan() && y.is_nan());
        let same_bias = self.bias.get(a).zip(self.bias.get(b)).is_none_or(|(x, y)| alike(*x, *y));
        alike(self.logits[a], self.logits[b]) && same_bias
    }

    /// Whether `a` comes before `b` for all possible keys: its key is greater, or equal with a lower index.
    fn precedes(&self, a: usize, b: usize) -> bool {
        if self.alike(a, b) {
            return a < b;
        }
        surely_before(self.keys[a], self.keys[b], a < b)
    }

    /// The experts whose keys make up a group's score, if rounding does not decide which they are.
    fn makers(&self, group: &[usize], score: GroupScore) -> Option<Vec<usize>> {
        let mut by_key = group.to_vec();
        by_key.sort_by(|a, b| middles(self.keys[*b], self.keys[*a]).then(a.cmp(b)));
        let wanted = match score {
            GroupScore::TopTwo => 2,
            GroupScore::Max => 1,
        };
        let surely = |n: usize| {
            let first = by_key[n];
            by_key[n + 1..]
                .iter()
                .all(|e| self.alike(first, *e) || surely_before(self.keys[first], self.keys[*e], true))
        };
        let wanted = wanted.min(by_key.len());
        (0..wanted).all(surely).then(|| by_key[..wanted].to_vec())
    }

    /// The state of each group, the number of undecided ones that are kept, and the groups kept by the middles.
    fn kept(&self, of: Groups) -> (Vec<Kept>, usize, Vec<usize>) {
        let experts: Vec<usize> = (0..self.keys.len()).collect();
        let groups: Vec<&[usize]> = experts.chunks(experts.len().div_ceil(of.count.max(1)).max(1)).collect();
        let scores: Vec<Value> =
            groups.iter().map(|group| group_key(&self.keys[group[0]..][..group.len()], of.score)).collect();
        let makers: Vec<Option<Vec<usize>>> = groups.iter().map(|g| self.makers(g, of.score)).collect();
        // Groups whose scores have the same inputs tie, however these are rounded.
        let tied = |a: usize, b: usize| {
            makers[a]
                .as_ref()
                .zip(makers[b].as_ref())
                .is_some_and(|(x, y)| x.len() == y.len() && x.iter().zip(y).all(|(x, y)| self.alike(*x, *y)))
        };
        let before = |a: usize, b: usize| {
            if tied(a, b) { a < b } else { surely_before(scores[a], scores[b], a < b) }
        };
        let all = || 0..scores.len();
        let known = |g: usize| {
            if all().filter(|h| before(*h, g)).count() >= of.kept {
                Kept::Never
            } else if all().filter(|h| *h != g && !before(g, *h)).count() < of.kept {
                Kept::Surely
            } else {
                Kept::Perhaps
            }
        };
        let known: Vec<Kept> = all().map(known).collect();
        let sure = known.iter().filter(|k| **k == Kept::Surely).count();
        let mut nominal: Vec<usize> = all().collect();
        nominal.sort_by(|a, b| middles(scores[*b], scores[*a]).then(a.cmp(b)));
        nominal.truncate(of.kept);
        (known, of.kept.saturating_sub(sure), nominal)
    }

    /// The `k` experts chosen if every key is the middle of its interval, best first.
    #[must_use]
    pub fn best(&self, k: usize) -> Vec<usize> {
        if self.exact {
            return top_k(self.logits, k);
        }
        let mut all: Vec<usize> =
            (0..self.keys.len()).filter(|e| self.nominal.contains(&self.group(*e))).collect();
        all.sort_by(|a, b| middles(self.keys[*b], self.keys[*a]).then(a.cmp(b)));
        all.truncate(k);
        all
    }

    /// Every expert that may be among the `k` chosen, ascending.
    #[must_use]
    pub fn possible(&self, k: usize) -> Vec<usize> {
        let mut best = self.best(k);
        if !self.exact {
            let may = |e: &usize| {
                self.groups[self.group(*e)] != Kept::Never
                    && (0..self.keys.len())
                        .filter(|other| {
                            self.groups[self.group(*other)] == Kept::Surely && self.precedes(*other, *e)
                        })
                        .take(k)
                        .count()
                        < k
            };
            best.extend((0..self.keys.len()).filter(may));
        }
        best.sort_unstable();
        best.dedup();
        best
    }

    /// Returns the error of each stored choice, in order.
    #[must_use]
    pub fn judge(&self, ids: &[i32]) -> Vec<Option<WrongChoice>> {
        let index = |id: &i32| usize::try_from(*id).ok().filter(|e| *e < self.keys.len());
        // Groups that these choices must come from: of the undecided ones, no more than there is room for.
        let mut used: Vec<bool> = self.groups.iter().map(|g| *g == Kept::Surely).collect();
        let mut room = self.perhaps;
        let mut out = Vec::with_capacity(ids.len());
        for id in ids {
            let group = index(id).map(|e| self.group(e));
            out.push(match group {
                Some(g) if used[g] => None,
                Some(g) if self.groups[g] == Kept::Perhaps && room > 0 => {
                    used[g] = true;
                    room -= 1;
                    None
                }
                _ => Some(WrongChoice { wanted: None }),
            });
        }
        // The possible choices, greatest first, so that an error names the best.
        let mut ranked: Vec<usize> = (0..self.keys.len()).filter(|e| used[self.group(*e)]).collect();
        if self.exact {
            ranked = top_k(self.logits, self.keys.len());
        } else {
            ranked.sort_by(|a, b| middles(self.keys[*b], self.keys[*a]).then(a.cmp(b)));
        }
        for slot in 0..ids.len() {
            let before: Vec<usize> = ids[..slot].iter().filter_map(index).collect();
            let left = ranked.iter().copied().filter(|e| !before.contains(e));
            let chosen = index(&ids[slot]).filter(|e| !before.contains(e));
            let mut left = left;
            out[slot] = match chosen {
                None => Some(WrongChoice { wanted: left.next() }),
                Some(chosen) if out[slot].is_some() => {
                    Some(WrongChoice { wanted: left.find(|e| *e != chosen) })
                }
                Some(chosen) => left
                    .find(|e| *e != chosen && self.precedes(*e, chosen))
                    .map(|e| WrongChoice { wanted: Some(e) }),
            };
        }
        if room > 0
            && let Some(last) = ids.last().and_then(index)
            && let Some(wrong) = self.left_out(&used, room, last)
            && let Some(slot) = out.last_mut()
        {
            slot.get_or_insert(wrong);
        }
        out
    }

    /// `room` of the undecided, unused groups must be kept. Returns an expert of theirs that comes before the last choice, unless
    /// enough of these groups have none.
    fn left_out(&self, used: &[bool], room: usize, last: usize) -> Option<WrongChoice> {
        let before =
            |group: usize| (0..self.keys.len()).find(|e| self.group(*e) == group && self.precedes(*e, last));
        let unused = (0..used.len()).filter(|g| !used[*g] && self.groups[*g] == Kept::Perhaps);
        let found: Vec<Option<usize>> = unused.map(before).collect();
        let harmless = found.iter().filter(|e| e.is_none()).count();
        let wanted = found.into_iter().flatten().next();
        (harmless < room).then_some(WrongChoice { wanted })
    }
}

/// Whether a key certainly comes before another; `first` if ties go to it.
fn surely_before(a: Value, b: Value, first: bool) -> bool {
    match (a, b) {
        (Value::Open, _) | (_, Value::Open) => false,
        (Value::Nan, Value::Nan) => first,
        (Value::Nan, _) => true,
        (_, Value::Nan) => false,
        (Value::Within(a), Value::Within(b)) => a.lo > b.hi || (a.lo == b.hi && first),
    }
}

/// The order of keys by the middle of their intervals, NaN greatest; unknown keys count as equal.
fn middles(a: Value, b: Value) -> Ordering {
    let middle = |value| match value {
        Value::Within(Interval { lo, hi }) if lo == hi => lo,
        Value::Within(Interval { lo, hi }) => f64::midpoint(lo, hi),
        Value::Nan => f64::INFINITY,
        Value::Open => 0.0,
    };
    let nan = |value| value == Value::Nan;
    nan(a).cmp(&nan(b)).then(middle(a).total_cmp(&middle(b)))
}

/// The score of a group: the sum of its two greatest keys, or the greatest.
fn group_key(keys: &[Value], score: GroupScore) -> Value {
    let (mut los, mut his) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
    for key in keys {
        match key {
            Value::Within(Interval { lo, hi }) => {
                los.push(*lo);
                his.push(*hi);
            }
            other => return *other,
        }
    }
    let greatest = |mut of: Vec<f64>| {
        of.sort_by(|a, b| b.total_cmp(a));
        of.truncate(2);
        (of.first().copied().unwrap_or(f64::NEG_INFINITY), of.get(1).copied().unwrap_or(f64::NEG_INFINITY))
    };
    let ((lo, second_lo), (hi, second_hi)) = (greatest(los), greatest(his));
    Value::Within(match score {
        GroupScore::Max => Interval { lo, hi },
        GroupScore::TopTwo => Interval { lo: lo + second_lo, hi: hi + second_hi }.rounded(),
    })
}

/// The experts of every token, shared ones last, if every key is the middle of its interval.
#[must_use]
pub fn choices(router: &Router, dims: &Dims, logits: &[f32], bias: &[f32]) -> Vec<Vec<usize>> {
    logits
        .chunks(dims.routed().max(1))
        .map(|logits| {
            let mut experts = Choice::new(router, logits, bias, &ExpBound::EX2_APPROX).best(dims.chosen());
            experts.extend(dims.routed()..dims.experts);
            experts
        })
        .collect()
}

/// Every expert that some token may visit, ascending.
#[must_use]
pub fn possible(router: &Router, dims: &Dims, logits: &[f32], bias: &[f32]) -> Vec<usize> {
    let mut experts: Vec<usize> = logits
        .chunks(dims.routed().max(1))
        .flat_map(|logits| Choice::new(router, logits, bias, &ExpBound::EX2_APPROX).possible(dims.chosen()))
        .chain(dims.routed()..dims.experts)
        .collect();
    experts.sort_unstable();
    experts.dedup();
    experts
}

/// One permuted row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// The expert.
    pub expert: usize,
    /// The token.
    pub token: usize,
    /// The index of the token's choice.
    pub slot: usize,
}

/// The rows of all tokens, by (expert, token, slot).
#[must_use]
pub fn permute(choices: &[Vec<usize>]) -> Vec<Row> {
    let mut rows: Vec<Row> = choices
        .iter()
        .enumerate()
        .flat_map(|(token, experts)| {
            experts.iter().enumerate().map(move |(slot, expert)| Row { expert: *expert, token, slot })
        })
        .collect();
    rows.sort_unstable();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGMOID: Router = Router {
        scores: Scores::Sigmoid,
        correction_bias: true,
        renormalise: true,
        scaling: 2.5,
        groups: None,
    };

    fn right(router: &Router, logits: &[f32], bias: &[f32], ids: &[i32]) -> bool {
        Choice::new(router, logits, bias, &ExpBound::FMA).judge(ids).iter().all(Option::is_none)
    }

    #[test]
    fn the_bias_decides_the_choice() {
        let (logits, bias) = ([3.0, 2.0, 1.0, 0.0], [-0.5, 0.0, 0.0, 0.5]);
        // Keys: 0.4526, 0.8808, 0.7311, 1.
        assert!(right(&SIGMOID, &logits, &bias, &[3, 1]));
        for wrong in [[0, 1], [1, 3], [3, 3], [3, 4], [3, -1], [3, 2]] {
            assert!(!right(&SIGMOID, &logits, &bias, &wrong), "{wrong:?}");
        }
        let plain = Router { correction_bias: false, ..SIGMOID };
        assert!(right(&plain, &logits, &bias, &[0, 1]) && !right(&plain, &logits, &bias, &[3, 1]));
    }

    #[test]
    fn keys_that_rounding_may_exchange_are_accepted_either_way_and_equal_ones_are_not() {
        let near = [1.0, 1.0 + f32::EPSILON, -3.0];
        assert!(right(&SIGMOID, &near, &[0.0; 3], &[0, 1]) && right(&SIGMOID, &near, &[0.0; 3], &[1, 0]));
        assert!(!right(&SIGMOID, &near, &[0.0; 3], &[1, 2]));
        assert_eq!(Choice::new(&SIGMOID, &near, &[0.0; 3], &ExpBound::FMA).possible(1), [0, 1]);
        // Equal inputs have equal keys: the lowest index wins.
        let same = [1.0, 1.0, -3.0];
        assert!(right(&SIGMOID, &same, &[0.0; 3], &[0, 1]) && !right(&SIGMOID, &same, &[0.0; 3], &[1, 0]));
    }

    #[test]
    fn only_kept_groups_are_chosen_from() {
        let groups = |score| Router {
            groups: Some(Groups { count: 3, kept: 2, score }),
            scores: Scores::SoftmaxAll,
            correction_bias: false,
            ..SIGMOID
        };
        // Greatest keys: 3, 2.5, 1; sums of two also lead to the second and the first group, but not to the same best two.
        let logits = [3.0, -9.0, 2.5, 2.4, 2.6, -9.0];
        assert_eq!(Choice::new(&groups(GroupScore::Max), &logits, &[], &ExpBound::FMA).best(3), [0, 4, 1]);
        assert_eq!(Choice::new(&groups(GroupScore::TopTwo), &logits, &[], &ExpBound::FMA).best(3), [0, 2, 3]);
        assert!(right(&groups(GroupScore::TopTwo), &logits, &[], &[0, 2, 3]));
        assert!(!right(&groups(GroupScore::TopTwo), &logits, &[], &[0, 4, 2]));
        assert!(!right(&groups(GroupScore::Max), &logits, &[], &[0, 2, 3]));
    }

    #[test]
    fn groups_that_rounding_may_exchange_leave_room_for_one() {
        let router = Router {
            groups: Some(Groups { count: 3, kept: 2, score: GroupScore::Max }),
            correction_bias: false,
            ..SIGMOID
        };
        let logits = [2.0, -2.0, 1.0, -1.0, 1.0 + f32::EPSILON, -1.5];
        for (ids, accepted) in
            [([0, 2], true), ([0, 4], true), ([2, 4], false), ([0, 3], false), ([0, 1], false)]
        {
            assert_eq!(right(&router, &logits, &[], &ids), accepted, "{ids:?}");
        }
    }

    #[test]
    fn groups_of_the_same_inputs_tie_and_the_lower_is_kept() {
        for score in [GroupScore::Max, GroupScore::TopTwo] {
            let router = Router {
                groups: Some(Groups { count: 3, kept: 2, score }),
                correction_bias: false,
                ..SIGMOID
            };
            let (same, other) = ([0.3, -0.0, 0.0, 0.3, 0.3, 0.0], [0.3, -0.0, 0.3, 0.0, 0.3, 0.3]);
            assert!(right(&router, &same, &[], &[0, 3, 1, 2]));
            assert!(!right(&router, &same, &[], &[0, 4, 1, 5]), "{score:?}: group 1 precedes group 2");
            // By the sum of two the last group is the greatest.
            assert_eq!(right(&router, &other, &[], &[0, 4, 5, 1]), score == GroupScore::TopTwo);
            // A different bias for each expert makes their inputs differ.
            let biased = Router { correction_bias: true, ..router };
            assert!(right(&biased, &same, &[0.0, 0.0, 0.0, 0.0, 0.25, 0.25], &[4, 5, 0, 1]));
        }
    }

    #[test]
    fn logits_alone_choose_exactly() {
        let logits = [f32::NAN, 1.0, -0.0, 0.0, f32::INFINITY, 1.0];
        assert!(right(&Router::GPT_OSS, &logits, &[], &[0, 4, 1, 5, 2]));
        for wrong in [[0, 4, 5, 1, 2], [4, 0, 1, 5, 2], [0, 4, 1, 5, 3]] {
            assert!(!right(&Router::GPT_OSS, &logits, &[], &wrong), "{wrong:?}");
        }
        let choice = Choice::new(&Router::GPT_OSS, &logits, &[], &ExpBound::FMA);
        assert_eq!(choice.judge(&[4, 0])[0], Some(WrongChoice { wanted: Some(0) }));
    }
}
