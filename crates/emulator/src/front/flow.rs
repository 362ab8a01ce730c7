//! Control flow of decoded rows: where lanes that diverge at a branch reconverge.
//!
//! Each branch reconverges at the first row of its immediate post-dominator. A [`Flow::Join`](crate::run::machine::Flow) row is inserted
//! there, so that other rows pay nothing.

use crate::front::assignment;
use crate::front::program::{Origin, Row};
use crate::front::registers::Step;
use crate::front::rows;
use crate::work;

/// No reconvergence point: the paths meet only at the end of the thread.
pub(crate) const NEVER: u32 = u32::MAX;

/// Rows to insert.
#[derive(Default)]
struct Insertions {
    /// After the row before this position; jumps to the position skip them.
    behind: Vec<(usize, Row)>,
    /// Before the row at this position; jumps to the position run them.
    before: Vec<(usize, Row)>,
}

/// The possible successors of each row; one past the last row is the end.
pub(crate) fn successors(rows: &[Row], target: &[Option<usize>]) -> Vec<[usize; 2]> {
    let n = rows.len();
    (0..n)
        .map(|i| {
            let next = (i + 1).min(n);
            match target[i] {
                Some(t) if rows[i].guard == crate::front::program::UNGUARDED && rows[i].imm == 0 => [t, t],
                Some(t) => [next, t],
                None if (rows[i].extra::<rows::Ends>().is_some()
                    || rows[i].extra::<rows::Returns>().is_some())
                    && rows[i].guard == crate::front::program::UNGUARDED =>
                {
                    [n, n]
                }
                None => [next, next],
            }
        })
        .collect()
}

/// Finds reconvergence points and the registers to track, and inserts the rows that both need. Moves the rows of `entries`, where
/// execution begins. Returns for each tracked register a row that names it, before the insertion, and the rows with a target.
pub(crate) fn finish(
    rows: &mut Vec<Row>,
    origins: &mut Vec<Origin>,
    target: &[Option<usize>],
    successors: &[[usize; 2]],
    (steps, shared): (&[Step], &[Step]),
    entries: &mut [usize],
) -> (Vec<usize>, Vec<u32>) {
    let n = rows.len();
    let mut meets = post_dominators(successors, target);
    // Lanes that reconverge only to exit need not wait for each other: a barrier then no longer counts those that have exited.
    let ends = |row: usize| {
        rows.get(row).is_some_and(|row| {
            row.guard == crate::front::program::UNGUARDED && row.extra::<rows::Ends>().is_some()
        })
    };
    for meet in meets.iter_mut().filter(|meet| ends(**meet)) {
        *meet = n;
    }
    let mut insertions = Insertions::default();
    let mut meeting: Vec<usize> =
        (0..n).filter(|i| target[*i].is_some()).map(|i| meets[i]).filter(|m| *m < n).collect();
    meeting.sort_unstable();
    meeting.dedup();
    for at in meeting {
        insertions.before.push((at, Row::new(rows::join)));
    }
    let watched = assignment::watch(
        rows,
        (successors, entries),
        steps,
        shared,
        &mut insertions.before,
        &mut insertions.behind,
    );
    let Insertions { mut behind, mut before } = insertions;
    behind.sort_by_key(|(at, _)| *at);
    before.sort_by_key(|(at, _)| *at);
    // Target of a jump to a row: before the rows inserted in front of it, after those that belong to the previous row.
    let (behind_at, before_at): (Vec<usize>, Vec<usize>) =
        (behind.iter().map(|(at, _)| *at).collect(), before.iter().map(|(at, _)| *at).collect());
    let moved =
        |row: usize| row + behind_at.partition_point(|p| *p <= row) + before_at.partition_point(|p| *p < row);
    entries.iter_mut().for_each(|entry| *entry = moved(*entry));
    let mut out = Vec::with_capacity(n + behind.len() + before.len());
    let mut out_origins = Vec::with_capacity(out.capacity());
    let (mut behind, mut before) = (behind.into_iter().peekable(), before.into_iter().peekable());
    let mut last = Origin::default();
    let mut branches = Vec::new();
    for (i, (mut row, origin)) in std::mem::take(rows).into_iter().zip(std::mem::take(origins)).enumerate() {
        while let Some((_, extra)) = behind.next_if(|(at, _)| *at == i) {
            out.push(extra);
            out_origins.push(last.inserted_row());
        }
        while let Some((_, extra)) = before.next_if(|(at, _)| *at == i) {
            out.push(extra);
            out_origins.push(origin.inserted_row());
        }
        if let Some(t) = target[i] {
            row.c = u32::try_from(moved(t)).unwrap_or(NEVER);
            row.d = if meets[i] < n { u32::try_from(moved(meets[i])).unwrap_or(NEVER) } else { NEVER };
            branches.push(u32::try_from(out.len()).unwrap_or(NEVER));
        }
        last = origin;
        out.push(row);
        out_origins.push(origin);
    }
    *rows = out;
    *origins = out_origins;
    (watched, branches)
}

/// The row where all paths of each branch reconverge; `n` for the end. On basic blocks of the reversed graph.
fn post_dominators(successors: &[[usize; 2]], target: &[Option<usize>]) -> Vec<usize> {
    let n = successors.len();
    // Basic blocks: leaders are branch targets and the rows after a branch or an exit.
    let mut leader = vec![false; n + 1];
    leader[0] = true;
    leader[n] = true;
    for i in 0..n {
        if let Some(t) = target[i] {
            leader[t] = true;
            leader[i + 1] = true;
        } else if successors[i] != [i + 1, i + 1] {
            leader[i + 1] = true;
        }
    }
    let starts: Vec<usize> = (0..=n).filter(|i| leader[*i]).collect();
    let block_of = |row: usize| starts.partition_point(|s| *s <= row) - 1;
    let count = starts.len();
    let end = count - 1;
    let follows: Vec<[usize; 2]> = (0..count)
        .map(|b| {
            if b == end {
                return [end, end];
            }
            let last = starts[b + 1] - 1;
            successors[last].map(block_of)
        })
        .collect();
    let mut preds: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (b, next) in follows.iter().enumerate().take(end) {
        preds[next[0]].push(b);
        if next[1] != next[0] {
            preds[next[1]].push(b);
        }
    }
    let idom = dominators(&preds, &follows, end);
    (0..n)
        .map(|i| match target[i] {
            // An endless loop never reaches the end: its lanes never reconverge.
            Some(_) => idom.get(block_of(i)).filter(|b| **b < end).map_or(n, |b| starts[*b]),
            None => n,
        })
        .collect()
}

/// No block.
const NONE: usize = usize::MAX;

/// The immediate dominator of each block that is reachable from `root` along `next`; `before` are the edges in reverse.
///
/// Lengauer and Tarjan, "A Fast Algorithm for Finding Dominators in a Flowgraph", with path compression alone: edges times the
/// logarithm of the blocks in any graph. Simpler algorithms walk chains of dominators and are quadratic for a jump into a long
/// sequence of labels.
fn dominators(next: &[Vec<usize>], before: &[[usize; 2]], root: usize) -> Vec<usize> {
    let count = next.len();
    let mut forest =
        Forest { semi: vec![NONE; count], label: (0..count).collect(), ancestor: vec![NONE; count] };
    // Blocks in depth-first order; `semi` is at first their number in it.
    let (mut order, mut parent) = (vec![root], vec![NONE; count]);
    forest.semi[root] = 0;
    let mut stack = vec![(root, 0)];
    while let Some((block, edge)) = stack.pop() {
        let Some(to) = next[block].get(edge).copied() else { continue };
        stack.push((block, edge + 1));
        if forest.semi[to] == NONE {
            forest.semi[to] = order.len();
            parent[to] = block;
            order.push(to);
            stack.push((to, 0));
        }
    }
    let mut dominator = vec![NONE; count];
    // Blocks by semidominator.
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); count];
    for block in order.iter().skip(1).rev().copied() {
        for from in before[block] {
            if forest.semi[from] == NONE {
                continue;
            }
            let best = forest.best(from);
            forest.semi[block] = forest.semi[block].min(forest.semi[best]);
        }
        waiting[order[forest.semi[block]]].push(block);
        forest.ancestor[block] = parent[block];
        for other in std::mem::take(&mut waiting[parent[block]]) {
            let best = forest.best(other);
            dominator[other] = if forest.semi[best] < forest.semi[other] { best } else { parent[block] };
        }
    }
    for block in order.iter().skip(1).copied() {
        if dominator[block] != order[forest.semi[block]] {
            dominator[block] = dominator[dominator[block]];
        }
    }
    dominator[root] = root;
    dominator
}

/// The forest of the blocks that have been processed.
struct Forest {
    /// Number of the semidominator.
    semi: Vec<usize>,
    /// The block with the least semidominator on the compressed path.
    label: Vec<usize>,
    ancestor: Vec<usize>,
}

impl Forest {
    /// The block with the least semidominator between a block and the root of its tree, which is excluded.
    fn best(&mut self, block: usize) -> usize {
        if self.ancestor[block] == NONE {
            return block;
        }
        let mut path = Vec::new();
        let mut at = block;
        while self.ancestor[self.ancestor[at]] != NONE {
            work::count(1);
            path.push(at);
            at = self.ancestor[at];
        }
        for at in path.into_iter().rev() {
            let above = self.ancestor[at];
            if self.semi[self.label[above]] < self.semi[self.label[at]] {
                self.label[at] = self.label[above];
            }
            self.ancestor[at] = self.ancestor[above];
        }
        self.label[block]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::random::Random;

    /// Whether `to` is reachable from the root when a block is removed.
    fn reaches(next: &[Vec<usize>], root: usize, without: usize, to: usize) -> bool {
        let mut seen = vec![false; next.len()];
        let mut stack = vec![root];
        while let Some(block) = stack.pop() {
            if block == without || std::mem::replace(&mut seen[block], true) {
                continue;
            }
            stack.extend(&next[block]);
        }
        seen[to]
    }

    #[test]
    fn dominators_are_those_of_the_definition() {
        let mut random = Random(7);
        for _ in 0..400 {
            let count = 2 + random.below(9);
            // Edges towards the root, two from each block, as the reversed graph of a kernel has.
            let before: Vec<[usize; 2]> =
                (0..count).map(|_| [random.below(count), random.below(count)]).collect();
            let mut next = vec![Vec::new(); count];
            for (block, [a, b]) in before.iter().enumerate() {
                next[*a].push(block);
                next[*b].push(block);
            }
            let root = count - 1;
            let found = dominators(&next, &before, root);
            for block in 0..count {
                if block == root || !reaches(&next, root, NONE, block) {
                    continue;
                }
                let dominates = |by: usize, block: usize| by == block || !reaches(&next, root, by, block);
                let all: Vec<usize> = (0..count)
                    .filter(|by| *by != block && reaches(&next, root, NONE, *by) && dominates(*by, block))
                    .collect();
                // The immediate one is dominated by all others.
                let immediate = all.iter().find(|one| all.iter().all(|other| dominates(*other, **one)));
                assert_eq!(Some(&found[block]), immediate, "{before:?} block {block}");
            }
        }
    }
}
