//! Hypotheses on scores and queries, and on the store of the output.

use std::sync::Arc;

use super::{each, with};
use crate::attention::dump::{Dump, Stored};
use crate::attention::semantics::ScoreOrder;

/// Caps that are missing, others, or in another order.
pub(super) fn soft_caps(dump: &Dump) -> Vec<(String, Dump)> {
    let Some(cap) = dump.semantics.cap else {
        // Those of published models: a kernel may be compiled for one.
        let caps = [15.0, 20.0, 30.0, 50.0, 100.0].map(|cap| (cap, format!("none is declared, it is {cap}")));
        return each(dump, caps, |d, cap| d.semantics.cap = Some(cap));
    };
    let mut all = vec![("it is missing".to_owned(), with(dump, |d| d.semantics.cap = None))];
    let log2 = std::f64::consts::LOG2_E;
    let factors = [
        (0.5, "half of it"),
        (2.0, "twice as large"),
        (log2, "times log2 e"),
        (1.0 / log2, "without log2 e"),
    ];
    let others = factors.map(|(factor, how)| (factor, how.to_owned()));
    all.extend(each(dump, others, |d, factor| d.semantics.cap = Some(cap * factor)));
    let orders = [
        (ScoreOrder::CapFirst, "before the scale of scores"),
        (ScoreOrder::SlopeLast, "before the slopes are added"),
    ];
    all.extend(each(dump, orders.map(|(o, s)| (o, s.to_owned())), |d, order| d.semantics.score = order));
    all
}

/// Queries of other rows or heads, or without their last elements.
pub(super) fn queries(dump: &Dump) -> Vec<(String, Dump)> {
    let (heads, width) = (dump.shape.heads, dump.shape.width);
    let rows = dump.queries.len() / (heads * width).max(1);
    let read = |from: &dyn Fn(usize, usize, usize) -> Option<usize>| {
        let elements = (0..rows * heads * width).map(|n| {
            let at = from(n / width / heads, n / width % heads, n % width);
            at.and_then(|at| dump.queries.get(at)).copied().unwrap_or_default()
        });
        with(dump, |d| d.queries = Arc::new(elements.collect()))
    };
    let at = |row: usize, head: usize, d: usize| Some((row * heads + head) * width + d);
    let mut all = vec![
        ("of the next row".to_owned(), read(&|row, head, d| at((row + 1) % rows, head, d))),
        ("of the previous row".to_owned(), read(&|row, head, d| at((row + rows - 1) % rows, head, d))),
        ("of the next head".to_owned(), read(&|row, head, d| at(row, (head + 1) % heads, d))),
        ("of the previous head".to_owned(), read(&|row, head, d| at(row, (head + heads - 1) % heads, d))),
        ("of head 0".to_owned(), read(&|row, _, d| at(row, 0, d))),
        ("of row 0".to_owned(), read(&|_, head, d| at(0, head, d))),
        (
            "as [heads, rows, elements]".to_owned(),
            read(&|row, head, d| Some((head * rows + row) * width + d)),
        ),
        ("elements of pairs exchanged".to_owned(), read(&|row, head, d| at(row, head, d ^ 1))),
        (
            "halves of a head exchanged".to_owned(),
            read(&|row, head, d| at(row, head, (d + width / 2) % width)),
        ),
    ];
    let mut counts = vec![width / 2, width / 4 * 3, width / 16 * 16, width / 32 * 32, width / 64 * 64];
    counts.extend([width.saturating_sub(16), width.saturating_sub(32), 64, 128, 192, 256, 512]);
    counts.retain(|count| (1..width).contains(count));
    counts.sort_unstable();
    counts.dedup();
    for count in counts {
        let detail = format!("only the first {count} elements");
        all.push((detail, read(&|row, head, d| if d < count { at(row, head, d) } else { None })));
    }
    all
}

/// Outputs whose elements were stored in other places: the stored output is put into the order that such a kernel had.
pub(super) fn permutations(dump: &Dump) -> Vec<(String, Dump)> {
    let Some(stored) = &dump.output else { return Vec::new() };
    let (heads, width) = (dump.shape.heads, dump.shape.value_width);
    let rows = stored.values.len() / (heads * width).max(1);
    // The element that such a kernel stored in the place (row, head, d).
    type From = fn((usize, usize, usize), (usize, usize, usize)) -> (usize, usize, usize);
    let from: [(&str, From); 13] = [
        ("columns of pairs exchanged", |(row, head, d), _| (row, head, d ^ 1)),
        ("halves of 8 columns exchanged", |(row, head, d), _| (row, head, d ^ 4)),
        ("tiles of 8 columns exchanged", |(row, head, d), _| (row, head, d ^ 8)),
        ("8×8 tiles transposed", |(row, head, d), _| (row / 8 * 8 + d % 8, head, d / 8 * 8 + row % 8)),
        ("halves of a head exchanged", |(row, head, d), (_, _, width)| (row, head, (d + width / 2) % width)),
        ("heads in reverse", |(row, head, d), (_, heads, _)| (row, heads - 1 - head, d)),
        ("heads and columns exchanged", |(row, head, d), (_, heads, width)| {
            let at = head * width + d;
            (row, at % heads, at / heads)
        }),
        ("rows of 8 exchanged", |(row, head, d), _| (row ^ 8, head, d)),
        ("rows and heads exchanged", |(row, head, d), (rows, heads, _)| {
            let at = row * heads + head;
            (at % rows, at / rows, d)
        }),
        ("the next row", |(row, head, d), (rows, ..)| ((row + 1) % rows, head, d)),
        ("the previous row", |(row, head, d), (rows, ..)| ((row + rows - 1) % rows, head, d)),
        ("the next head", |(row, head, d), (_, heads, _)| (row, (head + 1) % heads, d)),
        ("the previous head", |(row, head, d), (_, heads, _)| (row, (head + heads - 1) % heads, d)),
    ];
    let mut all = Vec::new();
    for (name, from) in from {
        // What such a kernel stored nowhere stays as it is, and so stays wrong.
        let mut values = stored.values.as_ref().clone();
        for row in 0..rows {
            for head in 0..heads {
                for d in 0..width {
                    let (to_row, to_head, to_d) = from((row, head, d), (rows, heads, width));
                    let found = stored.values[(row * heads + head) * width + d];
                    if to_row < rows && to_d < width {
                        values[(to_row * heads + to_head) * width + to_d] = found;
                    }
                }
            }
        }
        let values = Arc::new(values);
        let other = with(dump, |d| d.output = Some(Stored { values, ..stored.clone() }));
        all.push((name.to_owned(), other));
    }
    all
}
