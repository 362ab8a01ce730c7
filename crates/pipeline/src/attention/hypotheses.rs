//! What may be wrong with a kernel: changes of what a dump means, one of which may make every wrong element right.
//!
//! Each hypothesis changes one thing: how the cache is read, which keys a row sees, a factor. [`crate::frame::search`] tries them; here are
//! the samples of pairs that they are judged on, and the words of the answer.

mod apart;
mod fitted;
mod lse;
mod table;
#[cfg(test)]
mod unique;

use std::collections::BTreeSet;

use super::arithmetic;
use super::dump::{Dump, LseReading, Stored};
use super::error::AttentionError;
use super::judge::{Judged, Pair, Subject, spread};
use crate::frame::diagnosis::Diagnosis;
use crate::frame::region::Region;
use crate::frame::search::{Answer, Candidate, Cause, Outcome, Scope, Search, Suspect};

/// Wrong pairs that most variants are tried on alone.
const FEW: usize = 4;
/// The most wrong and right pairs of the first sample.
const SAMPLE: usize = 24;
/// The most wrong and right pairs on which a hypothesis that survives is verified.
const VERIFIED: usize = 4096;

/// Products of queries and keys of the few pairs up to which two changes at once are tried.
const MOST_PAIRED: usize = 1 << 19;

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

/// The axes of an element of the output.
const AXES: &[&str] = &["request", "row", "head", "column"];

/// Wrong and right pairs, and the numbers of their requests as the dump declares them.
struct Sample<'a> {
    wrong: Vec<Pair>,
    right: Vec<Pair>,
    declared: Subject<'a>,
}

impl<'a> Sample<'a> {
    /// At most so many wrong and so many right pairs, evenly spread.
    fn new(
        dump: &'a Dump,
        (wrong, right): (&[Pair], &[Pair]),
        (most_wrong, most_right): (usize, usize),
    ) -> Result<Self, AttentionError> {
        let (wrong, right) = (spread(wrong, most_wrong), spread(right, most_right));
        let declared = Subject::of_pairs(dump, &[wrong.as_slice(), &right].concat())?;
        Ok(Self { wrong, right, declared })
    }

    /// The numbers of its requests as a variant has them.
    fn subject<'v>(&self, variant: &'v Dump) -> Option<Subject<'v>> {
        Subject::like(variant, &[self.wrong.as_slice(), &self.right].concat(), &self.declared).ok()
    }
}

/// What a variant expects of the wrong pairs, as one number, and its output if it is another.
type Effect = (u64, Option<Stored>);

/// A dump with wrong elements.
struct WrongDump<'a> {
    dump: &'a Dump,
    /// How its logarithms are read, if they are what is wrong.
    reading: Option<LseReading>,
    /// Whether every wrong element is the same number.
    is_constant: bool,
    few: Sample<'a>,
    sample: Sample<'a>,
    full: Sample<'a>,
}

impl WrongDump<'_> {
    const fn sample_of(&self, scope: Scope) -> &Sample<'_> {
        match scope {
            Scope::Few => &self.few,
            Scope::Sample => &self.sample,
            Scope::Full => &self.full,
        }
    }
}

/// The candidates of variants of a dump.
fn candidates<'a>(
    [name, look, seen]: [&'a str; 3],
    variants: Vec<(String, Dump)>,
) -> impl Iterator<Item = Candidate<'a, Dump>> {
    variants.into_iter().map(move |(detail, dump)| {
        let space = if detail.is_empty() { "" } else { ": " };
        Candidate { what: format!("{name}{space}{detail}"), look, seen, variant: Box::new(move || dump) }
    })
}

impl Suspect for WrongDump<'_> {
    type Variant = Dump;
    type Effect = Effect;

    fn axes(&self) -> &'static [&'static str] {
        AXES
    }

    fn declared(&self) -> &Dump {
        self.dump
    }

    fn table<'a>(&'a self, to: &'a Dump) -> Vec<Candidate<'a, Dump>> {
        let of_lse = self.reading.map(|reading| lse::readings(to, reading)).unwrap_or_default();
        let of_lse = candidates([lse::NAME, lse::LOOK, lse::SEEN], of_lse);
        let rows = table::ALL.iter();
        of_lse.chain(rows.flat_map(|of| candidates([of.name, of.look, of.seen], (of.variants)(to)))).collect()
    }

    fn fitted<'a>(&'a self, to: &'a Dump) -> Vec<Candidate<'a, Dump>> {
        if let Some(reading) = self.reading {
            let offset = self.sample.declared.lse_offset(&self.sample.wrong, reading);
            let variants = offset.map(|offset| lse::shifted(to, reading, offset)).into_iter().collect();
            return candidates([lse::NAME, lse::LOOK_OF_OFFSET, "fi 3838"], variants).collect();
        }
        let rows = fitted::ALL.iter();
        rows.flat_map(|of| candidates([of.name, of.look, of.seen], (of.variants)(to, &self.sample.wrong)))
            .collect()
    }

    fn factor<'a>(&'a self, to: &'a Dump) -> Vec<Candidate<'a, Dump>> {
        let of = &fitted::FACTOR;
        if self.reading.is_some() {
            return Vec::new();
        }
        candidates([of.name, of.look, of.seen], (of.variants)(to, &self.few.wrong)).collect()
    }

    fn takes_pairs(&self) -> bool {
        let keys = |pair: &Pair| self.dump.requests.get(pair.request).map_or(0, |request| request.keys.len());
        let work: usize = self.few.wrong.iter().map(keys).sum();
        !self.is_constant && work * self.dump.shape.width <= MOST_PAIRED
    }

    fn indices(&self) -> Vec<BTreeSet<u32>> {
        let pairs = || self.full.wrong.iter().chain(&self.full.right).map(|pair| pair.place(0));
        let along = |axis: usize| pairs().map(|place| place[axis]).collect();
        let columns = (0..self.dump.shape.value_width as u32).collect();
        vec![along(0), along(1), along(2), columns]
    }

    fn judge(&self, variant: &Dump, scope: Scope) -> Option<Outcome> {
        let sample = self.sample_of(scope);
        let subject = sample.subject(variant)?;
        let reading = self.reading.and_then(|_| variant.lse.as_ref()?.readings.first().copied());
        let judged = |pairs: &[Pair]| match reading {
            None => subject.wrong_places(pairs),
            Some(reading) => subject.wrong_logarithms(pairs, reading),
        };
        let (by_wrong, by_right) = (judged(&sample.wrong), judged(&sample.right));
        Some(Outcome {
            decides: !by_wrong.output.is_open() && by_wrong.output.decides(),
            excess: by_wrong.output.excess,
            wrong: [by_wrong.places, by_right.places].concat(),
        })
    }

    fn told_apart_by(&self, variants: [Cause<'_, Dump>; 2]) -> Option<String> {
        // Readings of logarithms differ once the output does, which they do not change.
        let pairs = (self.reading.is_none()).then_some(self.few.wrong.as_slice())?;
        apart::INPUTS
            .iter()
            .find(|input| self.differ_with(input, variants, pairs))
            .map(|input| input.name.to_owned())
    }

    fn effect(&self, variant: &Dump) -> Option<Effect> {
        let reading = self.reading.and_then(|_| variant.lse.as_ref()?.readings.first().copied());
        let expected = self.full.subject(variant)?.fingerprint(&self.full.wrong, reading);
        Some((expected, variant.output.clone().filter(|output| Some(output) != self.dump.output.as_ref())))
    }
}

/// Finds what explains the wrong elements.
///
/// # Errors
/// [`AttentionError`] if a page is beyond the cache.
pub(super) fn explain(dump: &Dump, judged: &Judged) -> Result<Diagnosis, AttentionError> {
    explain_wrong(dump, judged, None, extent(dump, judged))
}

/// Finds what explains wrong logarithms beside an output that is right.
///
/// # Errors
/// [`AttentionError`] if a page is beyond the cache.
pub(super) fn explain_lse(
    dump: &Dump,
    reading: LseReading,
    judged: &Judged,
) -> Result<Diagnosis, AttentionError> {
    // The one reading that was judged is what is declared.
    let mut declared = dump.clone();
    declared.lse.iter_mut().for_each(|lse| lse.readings = vec![reading]);
    let output = if dump.output.is_some() { "right" } else { "not there" };
    explain_wrong(&declared, judged, Some(reading), format!("the logarithms; the output is {output}"))
}

fn explain_wrong(
    dump: &Dump,
    judged: &Judged,
    reading: Option<LseReading>,
    extent: String,
) -> Result<Diagnosis, AttentionError> {
    let (mut wrong, mut right) = (judged.wrong.clone(), judged.right.clone());
    wrong.sort_unstable();
    right.sort_unstable();
    let of = |most_wrong, most_right| Sample::new(dump, (&wrong, &right), (most_wrong, most_right));
    let (few, sample, full) = (of(FEW, 0)?, of(SAMPLE, SAMPLE)?, of(VERIFIED, VERIFIED)?);
    let suspect = WrongDump { dump, reading, is_constant: judged.same_value.is_some(), few, sample, full };
    let answer = Search::new(&suspect).map(Search::answer);
    // A wider bound accepts more, whatever is wrong: it is no explanation.
    let is_within = |(_, variant): &(String, Dump)| {
        let fits = |scope| suspect.judge(variant, scope).is_some_and(|outcome| outcome.wrong.is_empty());
        *variant != *dump && fits(Scope::Sample) && fits(Scope::Full)
    };
    let roundings = table::roundings(dump).into_iter().filter(is_within).map(|(what, _)| what).collect();
    let count = judged.output.mismatches;
    let unsearched =
        answer.is_none().then(|| "the sample of elements that are explained has none of them".to_owned());
    let verified = answer.as_ref().map_or(0, |answer| answer.verified).min(count);
    let there = [("lse", dump.lse.is_some()), ("out", dump.output.is_some())];
    let wanted =
        there.into_iter().filter(|(_, is_there)| !is_there).map(|(name, _)| name.to_owned()).collect();
    let arithmetic = reading.is_none().then(|| first_program(&suspect.sample.declared, &wrong)).flatten();
    let found = Diagnosis {
        wrong: count,
        verified,
        roundings,
        is_zero: judged.same_value == Some(0.0),
        unsearched,
        arithmetic,
        extent,
        wanted,
        ..Diagnosis::default()
    };
    Ok(match answer {
        Some(Answer { explanations, next, undecided, question, .. }) => {
            Diagnosis { explanations, next, undecided, question, ..found }
        }
        None => found,
    })
}

/// The arithmetic of the first wrong element of the first of these pairs.
fn first_program(subject: &Subject<'_>, wrong: &[Pair]) -> Option<String> {
    let pair = *wrong.first()?;
    let column = subject.wrong_places(&[pair]).places.first()?[3] as usize;
    arithmetic::program(subject, pair, column, subject.stored(pair, column)?)
}

/// The smallest description of the wrong rows, heads and columns.
fn extent(dump: &Dump, judged: &Judged) -> String {
    let indices = |count: usize| (0..count as u32).collect::<BTreeSet<u32>>();
    let found = |index: fn(&Pair) -> usize| judged.wrong.iter().map(|pair| index(pair) as u32).collect();
    let most_rows = dump.requests.iter().map(|request| request.rows.len()).max().unwrap_or(0);
    let columns = judged.columns.iter().map(|column| *column as u32).collect();
    let region = Region::from_indices([
        [found(|pair| pair.request), indices(dump.requests.len())],
        [found(|pair| pair.row), indices(most_rows)],
        [found(|pair| pair.head), indices(dump.shape.heads)],
        [columns, indices(dump.shape.value_width)],
    ]);
    let mut words = region.words(AXES);
    if let Some(value) = judged.same_value {
        words += &format!(", each wrong value is {value}");
    }
    words
}
