//! What may be wrong with a kernel: changes of what a dump means, one of which may make every wrong element right.
//!
//! Each hypothesis changes one thing: how the cache is read, which keys a row sees, a factor. It is tried on a sample of wrong and of right
//! elements first, then on all of them. It explains the result only if nothing that it predicts is wrong; rows that it leaves open count as
//! not explained.

mod fitted;
mod table;

use std::collections::BTreeSet;

use super::dump::{Dump, Stored};
use super::error::AttentionError;
use super::judge::{Judged, Pair, Subject, spread};
use crate::frame::diagnosis::{Diagnosis, Explanation};

/// Wrong pairs, one of which a variant must make right to be tried on more.
const FEW: usize = 4;
/// The most wrong and right pairs of the first sample.
const SAMPLE: usize = 24;
/// The most wrong and right pairs on which a hypothesis that survives is verified.
const VERIFIED: usize = 4096;

/// A row of the table.
pub(super) struct Hypothesis {
    /// What a kernel would do.
    name: &'static str,
    /// Where to look.
    look: &'static str,
    /// Public examples.
    seen: &'static str,
    /// The dump as such a kernel reads it, each with what distinguishes it from the others; empty where it makes no difference.
    variants: fn(&Dump) -> Vec<(String, Dump)>,
}

/// What explains logarithms alone: other readings of them, or else other kernels.
pub(super) fn of_lse(
    wrong: u64,
    declared: &str,
    readings: &[String],
    (kernels, offset): (&[&str], Option<f64>),
) -> Diagnosis {
    let of_reading = |reading: &String| Explanation {
        what: format!("the logarithms are {reading}, not {declared}"),
        look: "the base, the layout and the sink of the LSE that the caller expects".to_owned(),
        seen: "fi 4485, fi 5119, vl 47079, vllm-flash-attn 87".to_owned(),
        same: Vec::new(),
    };
    let of_kernel = |kernel: &&str| Explanation {
        what: format!("the kernel rounds more than is declared: as {kernel} does"),
        look: "metadata `kernel`: if this is the kernel, nothing is wrong".to_owned(),
        seen: String::new(),
        same: Vec::new(),
    };
    let of_offset = |offset: f64| Explanation {
        what: format!("each logarithm is too large by {offset:.5}, as if the sum had a factor"),
        look: "the maximum that is added to the logarithm of the sum, and the factor of the weights"
            .to_owned(),
        seen: "fi 3838".to_owned(),
        same: Vec::new(),
    };
    let readings = readings.iter().map(of_reading).chain(kernels.iter().map(of_kernel));
    Diagnosis {
        wrong,
        verified: wrong,
        explanations: readings.chain(offset.map(of_offset)).collect(),
        next: None,
        undecided: Vec::new(),
        roundings: Vec::new(),
        extent: "the output is right".to_owned(),
    }
}

/// What a variant predicts of a sample.
#[derive(Clone, Copy)]
struct Score {
    /// Wrong pairs, and those of them that it makes right.
    wrong: u64,
    made_right: u64,
    /// Right pairs that it makes wrong.
    made_wrong: u64,
    /// Whether its bounds decide too little: then nothing counts as made right.
    is_open: bool,
}

impl Score {
    const fn explains(self) -> bool {
        self.wrong > 0 && self.made_right == self.wrong && self.made_wrong == 0
    }

    /// The percentage of wrong pairs that become right.
    const fn percent(self) -> u64 {
        match (self.made_right * 100).checked_div(self.wrong) {
            Some(percent) => percent,
            None => 0,
        }
    }
}

/// Wrong and right pairs, and the numbers of their requests as the dump declares them.
struct Sample<'a> {
    wrong: Vec<Pair>,
    right: Vec<Pair>,
    declared: Subject<'a>,
}

impl<'a> Sample<'a> {
    /// At most so many wrong and so many right pairs, evenly spread.
    fn new(dump: &'a Dump, wrong: &[Pair], right: &[Pair], most: usize) -> Result<Self, AttentionError> {
        let (wrong, right) = (spread(wrong, most), spread(right, most));
        let declared = Subject::of_pairs(dump, &[wrong.as_slice(), &right].concat())?;
        Ok(Self { wrong, right, declared })
    }

    /// The numbers of its requests as a variant has them.
    fn subject<'v>(&self, variant: &'v Dump) -> Option<Subject<'v>> {
        Subject::like(variant, &[self.wrong.as_slice(), &self.right].concat(), &self.declared).ok()
    }

    /// Judges its pairs by a variant: a few first, as most variants make none of them right.
    fn score(&self, variant: &Dump) -> Option<Score> {
        let subject = self.subject(variant)?;
        let none = Score { wrong: self.wrong.len() as u64, made_right: 0, made_wrong: 0, is_open: false };
        if subject.judge(&spread(&self.wrong, FEW), &[]).right.is_empty() {
            return Some(none);
        }
        let by_wrong = subject.judge(&self.wrong, &[]);
        let by_right = subject.judge(&self.right, &[]);
        // Bounds that accept nearly anything explain nothing.
        let open = by_wrong.output.is_open() || !by_wrong.output.decides();
        let fits = by_wrong.right.len() == self.wrong.len();
        Some(Score {
            made_right: if open { 0 } else { by_wrong.right.len() as u64 },
            made_wrong: by_right.wrong.len() as u64,
            is_open: open && fits,
            ..none
        })
    }
}

/// The search for explanations.
struct Search<'a> {
    dump: &'a Dump,
    /// The pairs on which a variant is tried first, and those on which it is verified.
    sample: Sample<'a>,
    full: Sample<'a>,
    explanations: Vec<Explanation>,
    /// What each explanation predicts of the sample, and its output.
    found: Vec<(u64, Option<Stored>)>,
    /// The best of those that explain only a part.
    next: Option<(String, u64)>,
    /// Those that would fit, but of which the bounds decide too little.
    undecided: Vec<String>,
}

impl Search<'_> {
    /// Tries the variants of a hypothesis: its name, where to look and public examples.
    fn try_all(&mut self, [name, look, seen]: [&str; 3], variants: Vec<(String, Dump)>) {
        for (detail, variant) in variants {
            // Some changes change nothing, such as those by a scale of one.
            if variant == *self.dump {
                continue;
            }
            let Some(first) = self.sample.score(&variant) else { continue };
            let space = if detail.is_empty() { "" } else { ": " };
            let what = format!("{name}{space}{detail}");
            if first.is_open && first.made_wrong == 0 {
                self.undecided.push(what);
            } else if first.explains() && self.full.score(&variant).is_some_and(Score::explains) {
                let predicted =
                    self.full.subject(&variant).map_or(0, |subject| subject.fingerprint(&self.full.wrong));
                let effect =
                    (predicted, variant.output.filter(|output| Some(output) != self.dump.output.as_ref()));
                match self.found.iter().position(|found| *found == effect) {
                    Some(at) => self.explanations[at].same.push(what),
                    None => {
                        let [look, seen] = [look, seen].map(ToOwned::to_owned);
                        self.explanations.push(Explanation { what, look, seen, same: Vec::new() });
                        self.found.push(effect);
                    }
                }
            } else if first.percent() > self.next.as_ref().map_or(0, |(_, most)| *most)
                && first.made_wrong == 0
            {
                self.next = Some((what, first.percent()));
            }
        }
    }
}

/// Finds what explains the wrong elements.
///
/// # Errors
/// [`AttentionError`] if a page is beyond the cache.
pub(super) fn explain(dump: &Dump, judged: &Judged) -> Result<Diagnosis, AttentionError> {
    let mut wrong = judged.wrong.clone();
    let mut right = judged.right.clone();
    wrong.sort_unstable();
    right.sort_unstable();
    let sample = Sample::new(dump, &wrong, &right, SAMPLE)?;
    let full = Sample::new(dump, &wrong, &right, VERIFIED)?;
    let mut search = Search {
        dump,
        sample,
        full,
        explanations: Vec::new(),
        found: Vec::new(),
        next: None,
        undecided: Vec::new(),
    };
    for of in table::ALL {
        search.try_all([of.name, of.look, of.seen], (of.variants)(dump));
    }
    // A number that is fitted says less than a row of the table.
    if search.explanations.is_empty() {
        for of in fitted::ALL {
            search.try_all([of.name, of.look, of.seen], (of.variants)(dump, &wrong));
        }
    }
    // A wider bound accepts more, whatever is wrong: it is no explanation.
    let is_within = |(_, variant): &(String, Dump)| {
        let fits = |sample: &Sample<'_>| {
            sample.subject(variant).is_some_and(|subject| {
                subject.judge(&sample.wrong, &[]).wrong.is_empty()
                    && subject.judge(&sample.right, &[]).wrong.is_empty()
            })
        };
        *variant != *dump && fits(&search.sample) && fits(&search.full)
    };
    let roundings = table::roundings(dump).into_iter().filter(is_within).map(|(what, _)| what).collect();
    let Search { full, explanations, next, undecided, .. } = search;
    let width = dump.shape.value_width as u64;
    let share = full.wrong.len() as u64 * judged.output.mismatches / (wrong.len() as u64).max(1);
    Ok(Diagnosis {
        wrong: judged.output.mismatches,
        verified: share.min(judged.output.mismatches).max(width.min(judged.output.mismatches)),
        explanations,
        next,
        undecided,
        roundings,
        extent: extent(dump, &wrong, judged),
    })
}

/// The smallest description of the wrong rows, heads and columns.
fn extent(dump: &Dump, wrong: &[Pair], judged: &Judged) -> String {
    let of = |what: &str, all: usize, values: BTreeSet<usize>| {
        let list: Vec<usize> = values.into_iter().collect();
        match (list.as_slice(), list.first(), list.last()) {
            (_, None, _) | (_, _, None) => format!("no {what}"),
            (list, ..) if list.len() == all && all > 1 => format!("every {what}"),
            ([one], ..) => format!("{what} {one}"),
            (list, Some(first), Some(last)) if last - first + 1 == list.len() => {
                format!("{what}s {first} to {last}")
            }
            ([one, other], ..) => format!("{what}s {one} and {other}"),
            (list, Some(first), Some(second)) => {
                let step = list.get(1).map_or(1, |next| next - first).max(1);
                let regular = list.iter().enumerate().all(|(n, value)| *value == first + n * step);
                match regular {
                    true => format!("{what}s {first}, {}, … {second}", first + step),
                    false => format!("{} {what}s from {first} to {second}", list.len()),
                }
            }
        }
    };
    let requests = wrong.iter().map(|pair| pair.request).collect();
    let heads = wrong.iter().map(|pair| pair.head).collect();
    let most_rows = dump.requests.iter().map(|request| request.rows.len()).max().unwrap_or(0);
    let rows = wrong.iter().map(|pair| pair.row).collect();
    let mut words = vec![
        of("request", dump.requests.len(), requests),
        of("row", most_rows, rows),
        of("head", dump.shape.heads, heads),
        of("column", dump.shape.value_width, judged.columns.clone()),
    ];
    words.extend(judged.same_value.map(|value| format!("each wrong value is {value}")));
    words.join(", ")
}
