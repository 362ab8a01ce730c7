//! Hypotheses with a number that follows from wrong elements: a factor, a rotation of columns, another head or row.
//!
//! Each is fitted to a few wrong pairs. The caller then judges it by all of them, as it judges every row of the table, so that a fit by chance
//! explains nothing.

use std::sync::Arc;

use crate::attention::dump::{Dump, Stored};
use crate::attention::judge::{Pair, Subject};
use crate::attention::reference::Expected;
use crate::frame::fitted::Fitted;

/// The variants of a dump, each with what distinguishes it from the others.
type Variants = Vec<(String, Dump)>;

/// A hypothesis with a number that is fitted.
pub(super) struct Fit {
    /// What a kernel would do.
    pub(super) name: &'static str,
    /// Where to look.
    pub(super) look: &'static str,
    /// Public examples.
    pub(super) seen: &'static str,
    /// The variants that follow from these wrong pairs.
    pub(super) variants: fn(&Dump, &[Pair]) -> Variants,
}

/// Wrong pairs to which a number is fitted.
const FITTED: usize = 8;

/// A factor of the output.
pub(super) const FACTOR: Fit = Fit {
    name: "the output has a constant factor",
    look: "the sum of weights and the lanes it is reduced over, the factor of the output, or of the values",
    seen: "fi 3838",
    variants: factors,
};

/// Every fitted hypothesis.
pub(super) const ALL: &[Fit] = &[
    FACTOR,
    Fit {
        name: "columns of the output are rotated",
        look: "the column at which a thread stores its elements",
        seen: "fa 2553",
        variants: rotations,
    },
    Fit {
        name: "heads of the output hold the results of others",
        look: "the index of the head in the store of the output",
        seen: "",
        variants: heads,
    },
];

/// The stored elements of a pair beside what is expected of them.
fn compared(dump: &Dump, subject: &Subject<'_>, pair: Pair) -> Option<Vec<(Expected, f64)>> {
    let stored = dump.output.as_ref()?;
    let found = stored_row(dump, stored, pair)?;
    let expected = subject.expected(pair)?;
    Some(expected.into_iter().zip(found.iter().map(|x| f64::from(*x))).collect())
}

/// The stored elements of a pair.
fn stored_row<'a>(dump: &Dump, stored: &'a Stored, pair: Pair) -> Option<&'a [f32]> {
    let (heads, width) = (dump.shape.heads, dump.shape.value_width);
    let row = dump.requests.get(pair.request)?.rows.start + pair.row;
    let first = (row * heads + pair.head) * width;
    stored.values.get(first..first + width)
}

/// The pairs to fit to, with the numbers of their requests.
fn subject<'a>(dump: &'a Dump, wrong: &[Pair]) -> Option<(Subject<'a>, Vec<Pair>)> {
    let pairs = super::spread(wrong, FITTED);
    Some((Subject::of_pairs(dump, &pairs).ok()?, pairs))
}

/// The factor that all elements of the pairs have in common.
fn factors(dump: &Dump, wrong: &[Pair]) -> Variants {
    let Some((subject, pairs)) = subject(dump, wrong) else { return Vec::new() };
    let Some(stored) = &dump.output else { return Vec::new() };
    let relative = stored.element.roundoff().relative;
    let (mut least, mut most) = (f64::NEG_INFINITY, f64::INFINITY);
    for (expected, found) in pairs.iter().filter_map(|pair| compared(dump, &subject, *pair)).flatten() {
        let Expected::Number { value, error } = expected else { continue };
        // Only elements whose sign is certain.
        if value.abs() < 4.0 * error || found == 0.0 || !found.is_finite() {
            continue;
        }
        let ratio = found / value;
        let off = ratio.abs() * (error / (value.abs() - error) + 2.0 * relative);
        least = least.max(ratio - off);
        most = most.min(ratio + off);
    }
    if !(least <= most && least.is_finite() && most.is_finite()) {
        return Vec::new();
    }
    let factor = plainest_factor(dump, least, most);
    let mut other = dump.clone();
    other.semantics.value_scale *= factor.value;
    vec![(factor.words, other)]
}

/// The plainest factor between two numbers.
fn plainest_factor(dump: &Dump, least: f64, most: f64) -> Fitted {
    let group = dump.shape.heads / dump.shape.kv_heads.max(1);
    let counts = [("heads of queries", dump.shape.heads), ("heads of a group", group)];
    let counts = counts.into_iter().filter(|(_, count)| *count > 1);
    let of_dump = counts.flat_map(|(name, count)| {
        [
            (1.0 / count as f64, format!("1 / {count}, the {name}")),
            (count as f64, format!("{count}, the {name}")),
        ]
    });
    let all = of_dump.chain([(dump.sm_scale, "sm_scale".to_owned())]);
    Fitted::among(all, least, most).unwrap_or_else(|| Fitted::between(least, most))
}

/// The number of columns by which every pair is rotated.
fn rotations(dump: &Dump, wrong: &[Pair]) -> Variants {
    let (Some((subject, pairs)), Some(stored)) = (subject(dump, wrong), &dump.output) else {
        return Vec::new();
    };
    let width = dump.shape.value_width;
    let rows: Vec<_> = pairs.iter().filter_map(|pair| compared(dump, &subject, *pair)).collect();
    let fits = |by: usize| {
        rows.iter().all(|row| {
            row.iter()
                .enumerate()
                .all(|(d, (_, found))| row[(d + by) % width].0.accepts(*found, stored.element))
        })
    };
    let found = (1..width).filter(|by| !rows.is_empty() && fits(*by));
    // The stored elements are put back.
    let restore = |by: usize| {
        let mut values = stored.values.as_ref().clone();
        for (to, from) in values.chunks_mut(width).zip(stored.values.chunks(width)) {
            for (d, x) in from.iter().enumerate() {
                if let Some(place) = to.get_mut((d + by) % width) {
                    *place = *x;
                }
            }
        }
        Dump { output: Some(Stored { values: Arc::new(values), ..stored.clone() }), ..dump.clone() }
    };
    found.take(2).map(|by| (format!("column d holds column d + {by}, mod {width}"), restore(by))).collect()
}

/// The heads whose results the heads of a row hold, if one row tells them.
fn heads(dump: &Dump, wrong: &[Pair]) -> Variants {
    let (Some(stored), Some(first)) = (&dump.output, wrong.first()) else { return Vec::new() };
    let (count, width) = (dump.shape.heads, dump.shape.value_width);
    let pairs: Vec<Pair> = (0..count).map(|head| Pair { head, ..*first }).collect();
    let Ok(subject) = Subject::of_pairs(dump, &pairs) else { return Vec::new() };
    let expected: Vec<_> = pairs.iter().filter_map(|pair| subject.expected(*pair)).collect();
    let mut held = Vec::new();
    for pair in &pairs {
        let Some(found) = stored_row(dump, stored, *pair) else { return Vec::new() };
        let fits = |head: &usize| {
            expected.get(*head).is_some_and(|row| {
                row.iter().zip(found).all(|(expected, x)| expected.accepts(f64::from(*x), stored.element))
            })
        };
        // A head that is right stays where it is.
        let Some(head) = [pair.head].into_iter().chain(0..count).find(fits) else { return Vec::new() };
        held.push(head);
    }
    let moved: Vec<String> = held
        .iter()
        .enumerate()
        .filter(|(to, from)| to != *from)
        .map(|(to, from)| format!("{to} that of {from}"))
        .collect();
    if moved.is_empty() {
        return Vec::new();
    }
    let mut values = stored.values.as_ref().clone();
    for (to, from) in values.chunks_mut(count * width).zip(stored.values.chunks(count * width)) {
        for (place, head) in held.iter().enumerate() {
            if let (Some(to), Some(from)) =
                (to.get_mut(head * width..(head + 1) * width), from.get(place * width..(place + 1) * width))
            {
                to.copy_from_slice(from);
            }
        }
    }
    let more = if moved.len() > 8 { ", …" } else { "" };
    let detail = format!("head {}{more}", moved[..moved.len().min(8)].join(", "));
    vec![(
        detail,
        Dump { output: Some(Stored { values: Arc::new(values), ..stored.clone() }), ..dump.clone() },
    )]
}
