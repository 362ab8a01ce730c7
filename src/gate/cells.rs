//! The cells of two records side by side: what changed in the same cell, what a new toolkit says otherwise than the one before
//! it, and where a later toolkit refuses what an earlier one accepted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ptx::arch::{Target, ToolkitVersion};

use super::direction::Direction;
use crate::record::{CellAnswer, Matrix, Native, Outcome, Pair, VariantRow};

/// How much a kernel's author gets: 3 the hardware instruction, 2 code that is not known or in pieces, 1 an expansion, 0 nothing.
const fn worth(answer: CellAnswer) -> u8 {
    match (answer.outcome, answer.native) {
        (Outcome::Accepted, Some(Native::Native)) => 3,
        (Outcome::Accepted, Some(Native::Emulated)) => 1,
        (Outcome::Accepted, _) => 2,
        _ => 0,
    }
}

/// The change from `old` to `new`. Opcodes that nobody named are no change for the worse or the better.
fn direction(old: CellAnswer, new: CellAnswer) -> Direction {
    let unnamed = |a: CellAnswer| a.native.is_none_or(|n| n == Native::Unknown);
    if old.outcome == new.outcome && (unnamed(old) || unnamed(new)) {
        return Direction::Other;
    }
    match (old.outcome, new.outcome) {
        // Dying is worse than refusing.
        (Outcome::Rejected, Outcome::Crashed | Outcome::TimedOut) => Direction::Worse,
        (Outcome::Crashed | Outcome::TimedOut, Outcome::Rejected) => Direction::Better,
        _ => match worth(old).cmp(&worth(new)) {
            std::cmp::Ordering::Less => Direction::Better,
            std::cmp::Ordering::Greater => Direction::Worse,
            std::cmp::Ordering::Equal => Direction::Other,
        },
    }
}

/// One cell that is not what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellChange<'a> {
    /// The variant.
    pub variant: &'a str,
    /// The toolkit whose answer it is.
    pub toolkit: ToolkitVersion,
    /// The toolkit before it, where that gave the old answer: the old record does not hold `toolkit`.
    pub before: Option<ToolkitVersion>,
    /// The PTX `.target`.
    pub target: Target,
    /// The `-arch`.
    pub arch: Target,
    /// The old answer; none where it was not queried.
    pub old: Option<CellAnswer>,
    /// The new answer; none where it was not queried.
    pub new: Option<CellAnswer>,
    /// How they stand to each other.
    pub direction: Direction,
}

/// A variant that an earlier toolkit accepts and a later one does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Regression<'a> {
    /// The last toolkit that accepts it.
    pub accepted: ToolkitVersion,
    /// The first after it that does not.
    pub refused: ToolkitVersion,
    /// The PTX `.target`.
    pub target: Target,
    /// The `-arch`.
    pub arch: Target,
    /// The variant.
    pub variant: &'a str,
}

/// A matrix addressed by names.
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

/// Every cell that is not what it was. A toolkit that the old record does not hold is compared with the newest before it that
/// either record holds; cells of toolkits and targets that only the old record holds are left out, since nobody asked them again.
pub(super) fn changes<'a>(old: &Cells<'a>, new: &Cells<'a>) -> Vec<CellChange<'a>> {
    let mut out = Vec::new();
    let same_pairs = old.matrix.pairs == new.matrix.pairs;
    let all: BTreeSet<ToolkitVersion> = old.toolkits.union(&new.toolkits).copied().collect();
    let lanes: BTreeSet<Pair> = old.pairs.keys().chain(new.pairs.keys()).copied().collect();
    // Where the answers of a lane lie: in the old record, in the new one, and whom the old answer is from.
    struct Lane {
        pair: Pair,
        was: Option<Pair>,
        before: Option<ToolkitVersion>,
        only_new: bool,
    }
    let of_lane = |pair: Pair| {
        if old.toolkits.contains(&pair.toolkit) {
            let here = new.pairs.contains_key(&pair);
            return here.then_some(Lane {
                pair,
                was: Some(pair),
                before: None,
                only_new: !old.pairs.contains_key(&pair),
            });
        }
        let before = all.range(..pair.toolkit).next_back().copied();
        let was = before.map(|toolkit| Pair { toolkit, ..pair });
        Some(Lane { pair, was, before, only_new: false })
    };
    let lanes: Vec<Lane> =
        lanes.into_iter().filter_map(of_lane).filter(|l| !l.only_new && l.was.is_some()).collect();
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
            let Some(was) = lane.was else { continue };
            let of = |cells: &Cells<'a>, row: Option<&&'a VariantRow>, pair: &Pair| {
                row.and_then(|v| cells.at(v, pair))
            };
            let now_says = of(new, now, &lane.pair);
            let then_said = match lane.before {
                None => of(old, then, &was),
                Some(_) => of(new, now, &was).or_else(|| of(old, then, &was)),
            };
            // A snippet that the old record does not hold has no past with an older toolkit either.
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

/// Where a later toolkit refuses what an earlier one accepted, by both records together (the new one first), and not already by
/// the old record alone.
pub(super) fn regressions<'a>(old: &Cells<'a>, new: &Cells<'a>) -> Vec<Regression<'a>> {
    let same_pairs = old.matrix.pairs == new.matrix.pairs;
    let (both, alone) = (Lines::of(&[new, old]), Lines::of(&[old]));
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

/// The regressions of a matrix alone: earlier accepted, later refused.
#[must_use]
pub fn regressions_of(matrix: &Matrix) -> Vec<Regression<'_>> {
    let lines = Lines::of(&[&Cells::new(matrix)]);
    matrix.variants.iter().flat_map(|v| lines.regressions(&v.id, &[Some(v)])).collect()
}

/// Of each (target, arch) the toolkits, ascending, with the index of the pair in each record.
struct Lines(BTreeMap<(Target, Target), Line>);

/// Of each toolkit the index of the pair in each record.
type Line = BTreeMap<ToolkitVersion, Vec<Option<usize>>>;

impl Lines {
    fn of(records: &[&Cells<'_>]) -> Self {
        let mut lines: BTreeMap<(Target, Target), Line> = BTreeMap::new();
        for (n, cells) in records.iter().enumerate() {
            for (pair, index) in &cells.pairs {
                let line = lines.entry((pair.target, pair.arch)).or_default();
                line.entry(pair.toolkit).or_insert_with(|| vec![None; records.len()])[n] = Some(*index);
            }
        }
        Self(lines)
    }

    /// The regressions of a variant by the first of its `rows`, one per record, that answers each cell.
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
