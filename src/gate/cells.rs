//! Compares the cells of two records.
//!
//! It finds changes of a cell, differences between a new toolkit and its predecessor, and regressions, where a later toolkit
//! rejects what an earlier one accepted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ptx::arch::{Target, ToolkitVersion};

use super::direction::Direction;
use crate::record::{CellAnswer, Matrix, Native, Outcome, Pair, VariantRow};

/// Ranks an answer by its value to a kernel author: 3 for the hardware instruction, 2 for unknown or split code, 1 for emulation,
/// 0 for nothing.
const fn worth(answer: CellAnswer) -> u8 {
    match (answer.outcome, answer.native) {
        (Outcome::Accepted, Some(Native::Native)) => 3,
        (Outcome::Accepted, Some(Native::Emulated)) => 1,
        (Outcome::Accepted, _) => 2,
        _ => 0,
    }
}

/// Returns the direction of a change. Unknown opcodes make it neither better nor worse.
fn direction(old: CellAnswer, new: CellAnswer) -> Direction {
    let unnamed = |a: CellAnswer| a.native.is_none_or(|n| n == Native::Unknown);
    if old.outcome == new.outcome && (unnamed(old) || unnamed(new)) {
        return Direction::Other;
    }
    match (old.outcome, new.outcome) {
        // A crash is worse than a rejection.
        (Outcome::Rejected, Outcome::Crashed | Outcome::TimedOut) => Direction::Worse,
        (Outcome::Crashed | Outcome::TimedOut, Outcome::Rejected) => Direction::Better,
        _ => match worth(old).cmp(&worth(new)) {
            std::cmp::Ordering::Less => Direction::Better,
            std::cmp::Ordering::Greater => Direction::Worse,
            std::cmp::Ordering::Equal => Direction::Other,
        },
    }
}

/// A cell whose answer changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellChange<'a> {
    /// The variant.
    pub variant: &'a str,
    /// The toolkit that gave the new answer.
    pub toolkit: ToolkitVersion,
    /// The earlier toolkit that gave the old answer, if the old record does not contain `toolkit`.
    pub before: Option<ToolkitVersion>,
    /// The PTX `.target`.
    pub target: Target,
    /// The `-arch`.
    pub arch: Target,
    /// The old answer; `None` if it was not queried.
    pub old: Option<CellAnswer>,
    /// The new answer; `None` if it was not queried.
    pub new: Option<CellAnswer>,
    /// How the new answer compares with the old one.
    pub direction: Direction,
}

/// A variant that an earlier toolkit accepts and a later one does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Regression<'a> {
    /// The last toolkit that accepts it.
    pub accepted: ToolkitVersion,
    /// The next toolkit that answers, which does not.
    pub refused: ToolkitVersion,
    /// The PTX `.target`.
    pub target: Target,
    /// The `-arch`.
    pub arch: Target,
    /// The variant.
    pub variant: &'a str,
}

/// A matrix, indexed by pair and variant name.
pub(super) struct Cells<'a> {
    pub(super) matrix: &'a Matrix,
    pairs: HashMap<Pair, usize>,
    variants: BTreeMap<&'a str, &'a VariantRow>,
    toolkits: BTreeSet<ToolkitVersion>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(matrix: &'a Matrix) -> Self {
        Self {
            matrix,
            pairs: matrix.pairs.iter().enumerate().map(|(n, p)| (*p, n)).collect(),
            variants: matrix.variants.iter().map(|v| (v.id.as_str(), v)).collect(),
            toolkits: matrix.pairs.iter().map(|p| p.toolkit).collect(),
        }
    }

    fn at(&self, variant: &VariantRow, pair: &Pair) -> Option<CellAnswer> {
        self.pairs.get(pair).and_then(|n| variant.answer(*n))
    }
}

/// A pair of the new record, and the pair that gives its old answers.
struct Lane {
    pair: Pair,
    was: Pair,
    /// The earlier toolkit that the old answers are from; `None` if they are from the same one.
    before: Option<ToolkitVersion>,
}

/// Returns the pairs that are compared. A toolkit missing from the old record is compared with the newest earlier toolkit in either
/// record. For other toolkits, a pair of target and `-arch` that only one record contains is left out, since it was not queried
/// twice.
fn lanes(old: &Cells<'_>, new: &Cells<'_>) -> Vec<Lane> {
    let all: BTreeSet<ToolkitVersion> = old.toolkits.union(&new.toolkits).copied().collect();
    let pairs: BTreeSet<Pair> = old.pairs.keys().chain(new.pairs.keys()).copied().collect();
    let of_pair = |pair: Pair| {
        if old.toolkits.contains(&pair.toolkit) {
            let in_both = new.pairs.contains_key(&pair) && old.pairs.contains_key(&pair);
            return in_both.then_some(Lane { pair, was: pair, before: None });
        }
        let before = all.range(..pair.toolkit).next_back().copied()?;
        Some(Lane { pair, was: Pair { toolkit: before, ..pair }, before: Some(before) })
    };
    pairs.into_iter().filter_map(of_pair).collect()
}

/// Returns the number of cells of the new record that have an answer to be compared with.
pub(super) fn compared(old: &Cells<'_>, new: &Cells<'_>) -> usize {
    let lanes = lanes(old, new);
    let mut count = 0;
    for (id, now) in &new.variants {
        let Some(then) = old.variants.get(id) else { continue };
        for lane in lanes.iter().filter(|lane| new.at(now, &lane.pair).is_some()) {
            let earlier = lane.before.and_then(|_| new.at(now, &lane.was));
            count += usize::from(earlier.or_else(|| old.at(then, &lane.was)).is_some());
        }
    }
    count
}

/// Returns every cell whose answer changed, in the pairs of [`lanes`].
pub(super) fn changes<'a>(old: &Cells<'a>, new: &Cells<'a>) -> Vec<CellChange<'a>> {
    let mut out = Vec::new();
    let same_pairs = old.matrix.pairs == new.matrix.pairs;
    let lanes = lanes(old, new);
    let ids: BTreeSet<&'a str> = old.variants.keys().chain(new.variants.keys()).copied().collect();
    for id in ids {
        let (then, now) = (old.variants.get(id), new.variants.get(id));
        if let (Some(then), Some(now)) = (then, now)
            && same_pairs
            && then.same_answers(now)
        {
            continue;
        }
        for lane in &lanes {
            let was = lane.was;
            let of = |cells: &Cells<'a>, row: Option<&&'a VariantRow>, pair: &Pair| {
                row.and_then(|v| cells.at(v, pair))
            };
            let now_says = of(new, now, &lane.pair);
            let then_said = match lane.before {
                None => of(old, then, &was),
                Some(_) => of(new, now, &was).or_else(|| of(old, then, &was)),
            };
            // A snippet missing from the old record has no old answer from an earlier toolkit either.
            if then_said == now_says || (lane.before.is_some() && (then.is_none() || then_said.is_none())) {
                continue;
            }
            let direction = match (then_said, now_says) {
                (Some(a), Some(b)) => direction(a, b),
                (Some(_), None) => Direction::Gone,
                (None, _) => Direction::New,
            };
            out.push(CellChange {
                variant: id,
                toolkit: lane.pair.toolkit,
                before: lane.before,
                target: lane.pair.target,
                arch: lane.pair.arch,
                old: then_said,
                new: now_says,
                direction,
            });
        }
    }
    out
}

/// Returns the regressions in both records combined (answers of the new one take precedence) that are not in the old record
/// alone.
pub(super) fn regressions<'a>(old: &Cells<'a>, new: &Cells<'a>) -> Vec<Regression<'a>> {
    let same_pairs = old.matrix.pairs == new.matrix.pairs;
    let (both, alone) = (Lines::from_records(&[new, old]), Lines::from_records(&[old]));
    let ids: BTreeSet<&'a str> = old.variants.keys().chain(new.variants.keys()).copied().collect();
    let mut out = Vec::new();
    for id in ids {
        let (then, now) = (old.variants.get(id).copied(), new.variants.get(id).copied());
        if let (Some(then), Some(now)) = (then, now)
            && same_pairs
            && then.same_answers(now)
        {
            continue;
        }
        let known = alone.regressions(id, &[then]);
        out.extend(both.regressions(id, &[now, then]).into_iter().filter(|r| !known.contains(r)));
    }
    out
}

/// Returns the regressions within one matrix: variants that a later toolkit rejects after an earlier one accepted them.
#[must_use]
pub fn regressions_of(matrix: &Matrix) -> Vec<Regression<'_>> {
    let lines = Lines::from_records(&[&Cells::new(matrix)]);
    matrix.variants.iter().flat_map(|v| lines.regressions(&v.id, &[Some(v)])).collect()
}

/// For each (target, arch), the toolkits in ascending order with the index of the pair in each record.
struct Lines(BTreeMap<(Target, Target), Line>);

/// For each toolkit, the index of the pair in each record.
type Line = BTreeMap<ToolkitVersion, Vec<Option<usize>>>;

impl Lines {
    fn from_records(records: &[&Cells<'_>]) -> Self {
        let mut lines: BTreeMap<(Target, Target), Line> = BTreeMap::new();
        for (n, cells) in records.iter().enumerate() {
            for (pair, index) in &cells.pairs {
                let line = lines.entry((pair.target, pair.arch)).or_default();
                line.entry(pair.toolkit).or_insert_with(|| vec![None; records.len()])[n] = Some(*index);
            }
        }
        Self(lines)
    }

    /// Returns the regressions of a variant. `rows` has one row per record; the first row that answers a cell is used.
    fn regressions<'a>(&self, variant: &'a str, rows: &[Option<&VariantRow>]) -> Vec<Regression<'a>> {
        let mut out = Vec::new();
        for ((target, arch), line) in &self.0 {
            let mut accepted = None;
            for (toolkit, places) in line {
                let of = |(row, place): (&Option<&VariantRow>, &Option<usize>)| (*row)?.answer((*place)?);
                let Some(answer) = rows.iter().zip(places).find_map(of) else { continue };
                match (answer.outcome, accepted) {
                    (Outcome::Accepted, _) => accepted = Some(*toolkit),
                    (_, Some(before)) if answer.is_said() => {
                        let (target, arch) = (*target, *arch);
                        out.push(Regression { accepted: before, refused: *toolkit, target, arch, variant });
                        accepted = None;
                    }
                    _ => {}
                }
            }
        }
        out
    }
}
