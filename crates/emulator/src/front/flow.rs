//! Control flow of decoded rows: where lanes that diverge at a branch reconverge.
//!
//! Each branch reconverges at the first row of its immediate post-dominator. A [`Flow::Join`](crate::run::machine::Flow) row is inserted
//! there, so that other rows pay nothing.

use crate::front::assignment;
use crate::front::decode::Step;
use crate::front::program::{Origin, Row};
use crate::isa::control;

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
                None if rows[i].extra::<control::Ends>().is_some()
                    && rows[i].guard == crate::front::program::UNGUARDED =>
                {
                    [n, n]
                }
                None => [next, next],
            }
        })
        .collect()
}

/// Finds reconvergence points and the registers to track, and inserts the rows that both need. Returns the number of tracked
/// registers, and the rows with a target.
pub(crate) fn finish(
    rows: &mut Vec<Row>,
    origins: &mut Vec<Origin>,
    target: &[Option<usize>],
    successors: &[[usize; 2]],
    steps: &[Step],
    shared: &[Step],
) -> (usize, Vec<u32>) {
    let n = rows.len();
    let mut meets = post_dominators(successors, target);
    // Lanes that reconverge only to exit need not wait for each other: a barrier then no longer counts those that have exited.
    let ends = |row: usize| {
        rows.get(row).is_some_and(|row| {
            row.guard == crate::front::program::UNGUARDED && row.extra::<control::Ends>().is_some()
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
        insertions.before.push((at, Row::new(control::join)));
    }
    let watched =
        assignment::watch(rows, successors, steps, shared, &mut insertions.before, &mut insertions.behind);
    let Insertions { mut behind, mut before } = insertions;
    behind.sort_by_key(|(at, _)| *at);
    before.sort_by_key(|(at, _)| *at);
    // Target of a jump to a row: before the rows inserted in front of it, after those that belong to the previous row.
    let (behind_at, before_at): (Vec<usize>, Vec<usize>) =
        (behind.iter().map(|(at, _)| *at).collect(), before.iter().map(|(at, _)| *at).collect());
    let moved =
        |row: usize| row + behind_at.partition_point(|p| *p <= row) + before_at.partition_point(|p| *p < row);
    let mut out = Vec::with_capacity(n + behind.len() + before.len());
    let mut out_origins = Vec::with_capacity(out.capacity());
    let (mut behind, mut before) = (behind.into_iter().peekable(), before.into_iter().peekable());
    let mut last = Origin::default();
    let mut branches = Vec::new();
    for (i, (mut row, origin)) in std::mem::take(rows).into_iter().zip(std::mem::take(origins)).enumerate() {
        while let Some((_, extra)) = behind.next_if(|(at, _)| *at == i) {
            out.push(extra);
            out_origins.push(last.beside());
        }
        while let Some((_, extra)) = before.next_if(|(at, _)| *at == i) {
            out.push(extra);
            out_origins.push(origin.beside());
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

/// The row where all paths of each branch reconverge; `n` for the end.
///
/// Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", on basic blocks of the reversed graph.
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
    // Postorder of the reversed graph from the end.
    let mut order = vec![usize::MAX; count];
    let mut sequence = Vec::with_capacity(count);
    let mut stack = vec![(end, 0usize)];
    let mut seen = vec![false; count];
    seen[end] = true;
    while let Some((b, i)) = stack.pop() {
        if let Some(next) = preds[b].get(i) {
            stack.push((b, i + 1));
            if !seen[*next] {
                seen[*next] = true;
                stack.push((*next, 0));
            }
        } else {
            order[b] = sequence.len();
            sequence.push(b);
        }
    }
    let mut idom = vec![usize::MAX; count];
    idom[end] = end;
    let intersect = |idom: &[usize], mut a: usize, mut b: usize| {
        while a != b {
            while order[a] < order[b] {
                a = idom[a];
            }
            while order[b] < order[a] {
                b = idom[b];
            }
        }
        a
    };
    let mut changed = true;
    while changed {
        changed = false;
        for b in sequence.iter().rev().copied().filter(|b| *b != end) {
            let mut new = usize::MAX;
            for next in follows[b] {
                if idom[next] != usize::MAX {
                    new = if new == usize::MAX { next } else { intersect(&idom, next, new) };
                }
            }
            if new != usize::MAX && idom[b] != new {
                idom[b] = new;
                changed = true;
            }
        }
    }
    (0..n)
        .map(|i| match target[i] {
            // An endless loop never reaches the end: its lanes never reconverge.
            Some(_) => idom.get(block_of(i)).filter(|b| **b < end).map_or(n, |b| starts[*b]),
            None => n,
        })
        .collect()
}
