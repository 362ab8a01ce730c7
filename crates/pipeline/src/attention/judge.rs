//! Judges the results of a dump: which stored elements are right, which are wrong, and what is undecided.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use rayon::prelude::*;
use record::{StageResult, Verdict};

use super::dump::{Contents, Dump, LseReading};
use super::element::Element;
use super::error::AttentionError;
use super::hypotheses;
use super::problem::{Problem, Request};
use super::reference::{Expected, Reference};
use super::writer;
use crate::frame::diagnosis::Diagnosis;
use crate::frame::effort::Effort;
use crate::frame::region::Place;

/// A head of a row of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    /// The request.
    pub(super) request: usize,
    /// Its row.
    pub(super) row: usize,
    /// The head of queries.
    pub(super) head: usize,
}

impl Pair {
    /// The place of one of its elements: request, row, head, column.
    pub(super) fn place(self, d: usize) -> Place {
        [self.request as u32, self.row as u32, self.head as u32, d as u32]
    }
}

/// The most pairs on which an undeclared reading is tried.
const TRIED: usize = 128;

/// Counts of elements.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    checked: u64,
    decided: u64,
    open: u64,
    /// Wrong elements.
    pub(super) mismatches: u64,
    worst: f64,
    /// The sum of log2(1 + error / bound) over the wrong elements.
    pub(super) excess: f64,
    first: Option<((Pair, usize), String)>,
}

impl Tally {
    /// Counts an element.
    pub(super) fn add(
        &mut self,
        at: (Pair, usize),
        expected: &Expected,
        found: f64,
        element: Element,
    ) -> bool {
        self.add_decided(at, expected, found, (element, expected.decides(element)))
    }

    /// Counts a logarithm: its bound decides if it tells sums apart that differ by a tenth.
    pub(super) fn add_lse(&mut self, at: (Pair, usize), expected: &Expected, found: f64) -> bool {
        let decides = match expected {
            Expected::Number { error, .. } => *error < 0.1,
            Expected::Special(_) => true,
            Expected::Open => false,
        };
        self.add_decided(at, expected, found, (Element::F32, decides))
    }

    /// Counts an element of a quantized tensor, a code or a scale, by the least and the greatest number that it may be.
    pub(super) fn add_within(
        &mut self,
        at: (Pair, usize),
        (least, most): (f64, f64),
        found: f64,
        what: &str,
    ) -> bool {
        self.checked += 1;
        self.decided += u64::from(least == most || least * most > 0.0);
        let right = (least..=most).contains(&found);
        if !right {
            self.mismatches += 1;
            self.worst = f64::INFINITY;
            let wanted = if least == most { format!("{least:e}") } else { format!("{least:e} to {most:e}") };
            self.keep_first(at, || format!("{what} {found:e} instead of {wanted}"));
        }
        right
    }

    fn keep_first(&mut self, at: (Pair, usize), note: impl FnOnce() -> String) {
        if self.first.as_ref().is_none_or(|(first, _)| at < *first) {
            self.first = Some((at, note()));
        }
    }

    fn add_decided(
        &mut self,
        at: (Pair, usize),
        expected: &Expected,
        found: f64,
        (element, decides): (Element, bool),
    ) -> bool {
        self.checked += 1;
        self.open += u64::from(*expected == Expected::Open);
        let over = expected.over_bound(found, element);
        self.worst = self.worst.max(over);
        if expected.accepts(found, element) {
            self.decided += u64::from(decides);
            return true;
        }
        self.decided += 1;
        self.mismatches += 1;
        self.excess += over.min(1e9).ln_1p() / std::f64::consts::LN_2;
        self.keep_first(at, || format!("{found:e} instead of {}", allowed_values(expected, element)));
        false
    }

    /// Whether the bounds decide at least half of the elements.
    pub(super) const fn decides(&self) -> bool {
        self.decided * 2 >= self.checked
    }

    /// Whether an element may have any value.
    pub(super) const fn is_open(&self) -> bool {
        self.open > 0
    }

    pub(super) fn join(mut self, other: Self) -> Self {
        self.first = match (self.first.take(), other.first) {
            (Some(a), Some(b)) => Some(if a.0 <= b.0 { a } else { b }),
            (a, b) => a.or(b),
        };
        Self {
            checked: self.checked + other.checked,
            decided: self.decided + other.decided,
            open: self.open + other.open,
            mismatches: self.mismatches + other.mismatches,
            worst: self.worst.max(other.worst),
            excess: self.excess + other.excess,
            first: self.first,
        }
    }

    pub(super) fn result(self, stage: &'static str, remark: &str) -> StageResult {
        if self.checked == 0 {
            return StageResult::skipped(stage, "no row belongs to a request");
        }
        let mut notes: Vec<String> = Vec::new();
        let mut verdict = if self.mismatches > 0 { Verdict::Fail } else { Verdict::Pass };
        if let Some((_, note)) = &self.first {
            notes.push(note.clone());
        } else if !self.decides() {
            verdict = Verdict::Undetermined;
            notes.push(format!("the bounds decide {} % of the elements", self.decided * 100 / self.checked));
        }
        if self.open > 0 {
            notes.push(format!("{} of {} elements may have any value", self.open, self.checked));
        }
        if !remark.is_empty() {
            notes.push(remark.to_owned());
        }
        let place = self.first.map(|((pair, d), _)| {
            let of_row = [("request", pair.request), ("row", pair.row), ("head", pair.head), ("d", d)];
            // A logarithm belongs to a whole row.
            record::Place::at(&of_row[..if stage == LSE { 3 } else { 4 }])
        });
        StageResult {
            verdict,
            worst_over_bound: self.worst,
            mismatches: self.mismatches,
            place,
            note: notes.join("; "),
            ..StageResult::skipped(stage, "")
        }
    }
}

fn allowed_values(expected: &Expected, element: Element) -> String {
    match (*expected, expected.range(element)) {
        (Expected::Number { value, .. }, Some((least, most))) if least == most => {
            format!("{least:e} ({value:e})")
        }
        (Expected::Number { value, .. }, Some((least, most))) => format!("{least:e} to {most:e} ({value:e})"),
        (Expected::Special(value), _) => format!("{value}"),
        _ => "any value".to_owned(),
    }
}

/// The stages of the record.
pub(super) const OUTPUT: &str = "output";
pub(super) const LSE: &str = "lse";

/// The verdicts on a dump.
#[derive(Debug)]
pub struct Judgement {
    /// The output and the logarithms.
    pub results: Vec<StageResult>,
    /// What is not in the file, or not decided.
    pub gaps: Vec<String>,
    /// What explains the wrong elements; `None` if all are right.
    pub diagnosis: Option<Diagnosis>,
    /// What was judged, of the file's own words: the case.
    pub case: Option<String>,
}

/// The results of some pairs.
#[derive(Default)]
pub(super) struct Judged {
    /// The output.
    pub(super) output: Tally,
    /// The pairs with a wrong element of the output, and with none.
    pub(super) wrong: Vec<Pair>,
    pub(super) right: Vec<Pair>,
    /// The wrong elements, from [`Subject::wrong_places`] alone.
    pub(super) places: Vec<Place>,
    /// The logarithms by each reading.
    lse: Vec<Tally>,
    /// The wrong columns.
    pub(super) columns: BTreeSet<usize>,
    /// What every wrong element is, if they all are the same: zero, NaN.
    pub(super) same_value: Option<f32>,
}

/// A dump with the numbers of some of its requests.
pub(super) struct Subject<'a> {
    dump: &'a Dump,
    problem: Problem,
    /// The request of the dump for each of the problem's.
    requests: Vec<usize>,
}

/// The requests of pairs, rising.
fn requests_of(pairs: &[Pair]) -> Vec<usize> {
    let requests: BTreeSet<usize> = pairs.iter().map(|pair| pair.request).collect();
    requests.into_iter().collect()
}

impl<'a> Subject<'a> {
    /// Reads the requests of these pairs.
    pub(super) fn of_pairs(dump: &'a Dump, pairs: &[Pair]) -> Result<Self, AttentionError> {
        let requests = requests_of(pairs);
        Ok(Self { dump, problem: dump.problem(&requests)?, requests })
    }

    /// Reads the requests of these pairs. What the dump has in common with that of another subject of the same requests is shared.
    pub(super) fn like(dump: &'a Dump, pairs: &[Pair], known: &Subject<'_>) -> Result<Self, AttentionError> {
        let requests = requests_of(pairs);
        let known = Some((known.dump, &known.problem)).filter(|_| requests == known.requests);
        Ok(Self { dump, problem: dump.problem_like(&requests, known)?, requests })
    }

    /// Judges pairs. Logarithms are judged by `readings`.
    pub(super) fn judge(&self, pairs: &[Pair], readings: &[LseReading]) -> Judged {
        let reference = Reference::new(&self.problem, self.dump.arithmetic);
        Self::joined(pairs, |pair| self.pair(&reference, pair, readings, |_| ()))
    }

    /// Judges the output of pairs, and names its wrong elements.
    pub(super) fn wrong_places(&self, pairs: &[Pair]) -> Judged {
        let reference = Reference::new(&self.problem, self.dump.arithmetic);
        Self::joined(pairs, |pair| {
            let mut places = Vec::new();
            let judged = self.pair(&reference, pair, &[], |d| places.push(pair.place(d)));
            Judged { places, ..judged }
        })
    }

    /// Judges the logarithms of pairs, and names the wrong ones: as an output of one column.
    pub(super) fn wrong_logarithms(&self, pairs: &[Pair], reading: LseReading) -> Judged {
        let reference = Reference::new(&self.problem, self.dump.arithmetic);
        Self::joined(pairs, |pair| {
            let mut judged = Judged::default();
            let Some((expected, found)) = self.logarithm(&reference, pair, reading) else { return judged };
            match judged.output.add_lse((pair, 0), &expected, found) {
                true => judged.right.push(pair),
                false => {
                    judged.wrong.push(pair);
                    judged.places.push(pair.place(0));
                }
            }
            judged
        })
    }

    /// What is expected of the logarithm of a pair, and what is stored.
    fn logarithm(
        &self,
        reference: &Reference<'_>,
        pair: Pair,
        reading: LseReading,
    ) -> Option<(Expected, f64)> {
        let lse = self.dump.lse.as_ref()?;
        let request = self.problem.requests.get(self.requests.binary_search(&pair.request).ok()?)?;
        let row = reference.row(request, pair.row, pair.head);
        let found = lse.values.get(self.lse_index(request, pair, reading)).copied().unwrap_or(f32::NAN);
        Some((row.logarithm(reading), f64::from(found)))
    }

    /// Judges each of the pairs by `one`.
    fn joined(pairs: &[Pair], one: impl Fn(Pair) -> Judged + Sync) -> Judged {
        let join = |mut a: Judged, b: Judged| {
            a.right.extend(b.right);
            a.columns.extend(b.columns);
            a.places.extend(b.places);
            // NaN equals NaN here.
            a.same_value = match (a.output.mismatches > 0, b.output.mismatches > 0) {
                (false, _) => b.same_value,
                (_, false) => a.same_value,
                _ => a.same_value.filter(|x| b.same_value.is_some_and(|y| x.total_cmp(&y).is_eq())),
            };
            a.wrong.extend(b.wrong);
            a.output = a.output.join(b.output);
            a.lse = match a.lse.is_empty() {
                true => b.lse,
                false if b.lse.is_empty() => a.lse,
                false => a.lse.into_iter().zip(b.lse).map(|(a, b)| a.join(b)).collect(),
            };
            a
        };
        pairs.par_iter().map(|pair| one(*pair)).reduce(Judged::default, join)
    }

    /// What is expected of pairs, or of their logarithms by a reading, as one number that differs if anything in it does.
    pub(super) fn fingerprint(&self, pairs: &[Pair], reading: Option<LseReading>) -> u64 {
        let mut hasher = DefaultHasher::new();
        let reference = Reference::new(&self.problem, self.dump.arithmetic);
        let of_pair = |pair: &Pair| match reading {
            None => self.expected(*pair),
            Some(reading) => self.logarithm(&reference, *pair, reading).map(|(expected, _)| vec![expected]),
        };
        for expected in pairs.iter().filter_map(of_pair).flatten() {
            match expected {
                Expected::Number { value, error } => (0, value.to_bits(), error.to_bits()).hash(&mut hasher),
                Expected::Special(value) => (1, value.to_bits()).hash(&mut hasher),
                Expected::Open => 2.hash(&mut hasher),
            }
        }
        hasher.finish()
    }

    /// The numbers of a pair: the problem, and the pair's request in it.
    pub(super) fn request(&self, pair: Pair) -> Option<(&Problem, &Request)> {
        let request = self.requests.binary_search(&pair.request).ok()?;
        Some((&self.problem, self.problem.requests.get(request)?))
    }

    /// What is stored of an element of the output.
    pub(super) fn stored(&self, pair: Pair, column: usize) -> Option<f32> {
        let (_, request) = self.request(pair)?;
        let shape = &self.dump.shape;
        let line = (request.rows.start + pair.row) * shape.heads + pair.head;
        self.dump.output.as_ref()?.values.get(line * shape.value_width + column).copied()
    }

    /// What is expected of the elements of a pair.
    pub(super) fn expected(&self, pair: Pair) -> Option<Vec<Expected>> {
        let request = self.requests.binary_search(&pair.request).ok()?;
        let reference = Reference::new(&self.problem, self.dump.arithmetic);
        Some(reference.row(self.problem.requests.get(request)?, pair.row, pair.head).output)
    }

    /// The constant by which all logarithms of these pairs are too large; `None` if there is none.
    pub(super) fn lse_offset(&self, pairs: &[Pair], reading: LseReading) -> Option<f64> {
        let reference = Reference::new(&self.problem, self.dump.arithmetic);
        let (mut least, mut most) = (f64::NEG_INFINITY, f64::INFINITY);
        for pair in pairs {
            match self.logarithm(&reference, *pair, reading)? {
                (Expected::Number { value, error }, found) => {
                    let off = error + 2.0 * f64::from(f32::EPSILON) * (value.abs() + found.abs());
                    least = least.max(found - value - off);
                    most = most.min(found - value + off);
                }
                (Expected::Special(value), found) if value == found => {}
                (Expected::Special(_), _) => return None,
                (Expected::Open, _) => {}
            }
        }
        // A constant that is nothing is another fault.
        let middle =
            (least <= most && least.is_finite() && most.is_finite()).then(|| f64::midpoint(least, most));
        middle.filter(|x| x.abs() > 1e-3)
    }

    /// The index of the logarithm of a pair.
    fn lse_index(&self, request: &Request, pair: Pair, reading: LseReading) -> usize {
        let line = request.rows.start + pair.row;
        if reading.by_head {
            pair.head * self.problem.rows() + line
        } else {
            line * self.dump.shape.heads + pair.head
        }
    }

    /// Judges a pair; `wrong` gets the columns of its wrong elements.
    fn pair(
        &self,
        reference: &Reference<'_>,
        pair: Pair,
        readings: &[LseReading],
        mut wrong: impl FnMut(usize),
    ) -> Judged {
        let mut judged = Judged::default();
        let shape = &self.dump.shape;
        let Ok(request) = self.requests.binary_search(&pair.request) else { return judged };
        let of = &self.problem.requests[request];
        let row = reference.row(of, pair.row, pair.head);
        let line = (of.rows.start + pair.row) * shape.heads + pair.head;
        if let Some(output) = &self.dump.output {
            let mut right = true;
            let mut wrong_values: Vec<f32> = Vec::new();
            for (d, expected) in row.output.iter().enumerate() {
                let found = output.values.get(line * shape.value_width + d).copied().unwrap_or(f32::NAN);
                if !judged.output.add((pair, d), expected, f64::from(found), output.element) {
                    right = false;
                    judged.columns.insert(d);
                    wrong(d);
                    wrong_values.push(found);
                }
            }
            let same = |first: &f32| wrong_values.iter().all(|x| x.total_cmp(first).is_eq());
            judged.same_value = wrong_values.first().copied().filter(same);
            if right { judged.right.push(pair) } else { judged.wrong.push(pair) }
        }
        for reading in readings {
            let mut tally = Tally::default();
            if let Some(lse) = &self.dump.lse {
                let at = self.lse_index(of, pair, *reading);
                let found = lse.values.get(at).copied().unwrap_or(f32::NAN);
                tally.add_lse((pair, 0), &row.logarithm(*reading), f64::from(found));
            }
            judged.lse.push(tally);
        }
        judged
    }
}

/// Every pair of a dump.
fn all(dump: &Dump) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (request, of) in dump.requests.iter().enumerate() {
        for row in 0..of.rows.len() {
            pairs.extend((0..dump.shape.heads).map(|head| Pair { request, row, head }));
        }
    }
    pairs
}

/// At most so many of the pairs, evenly spread.
pub(super) fn spread(pairs: &[Pair], most: usize) -> Vec<Pair> {
    let count = pairs.len().min(most);
    (0..count).map(|n| pairs[n * pairs.len() / count.max(1)]).collect()
}

/// Chooses among the readings of a file: those in which nothing of a sample is wrong or, if there are none, the one with the fewest wrong
/// elements. The second value says what was chosen, and what else fits.
fn chosen(dumps: &[Dump]) -> Result<(&Dump, String), AttentionError> {
    let Some(first) = dumps.first() else {
        let remedy = "the file has no tensor".to_owned();
        return Err(AttentionError::Missing { name: "q", remedy });
    };
    if first.chosen.is_empty() {
        return Ok((first, String::new()));
    }
    let mut counted: Vec<(u64, &Dump)> = Vec::new();
    for dump in dumps {
        let sample = spread(&all(dump), TRIED);
        // A reading that leaves the cache is not meant.
        if let Ok(subject) = Subject::of_pairs(dump, &sample) {
            counted.push((subject.judge(&sample, &[]).output.mismatches, dump));
        }
    }
    counted.sort_by_key(|(wrong, _)| *wrong);
    let words = |dump: &Dump| {
        let words: Vec<String> = dump.chosen.iter().map(|(key, word)| format!("{key} {word}")).collect();
        words.join(", ")
    };
    let Some((least, dump)) = counted.first() else { return Ok((first, String::new())) };
    let same: Vec<String> =
        counted.iter().filter(|(wrong, _)| wrong == least).map(|(_, d)| words(d)).collect();
    let keys: Vec<&str> = dump.chosen.iter().map(|(key, _)| *key).collect();
    let keys = format!("{} {} not declared", keys.join(" and "), if keys.len() == 1 { "is" } else { "are" });
    let said = match (*least, same.as_slice()) {
        (0, [one]) => format!("{keys}: {one} fits"),
        (0, several) => format!("{keys}: {} fit equally", several.join("; ")),
        _ if counted.len() == 1 => format!("{keys}: only {} is possible, and does not fit", words(dump)),
        _ => format!("{keys}: none of {} readings fits, {} is the closest", counted.len(), words(dump)),
    };
    Ok((dump, said))
}

/// Judges what a file holds.
///
/// # Errors
/// [`AttentionError`] if a page is beyond the cache.
pub fn judge_contents(contents: &Contents, effort: Effort) -> Result<Judgement, AttentionError> {
    match contents {
        Contents::Attention(dumps) => judge_by(dumps, effort),
        Contents::Written(all) => {
            // The reading with the fewest wrong elements; the first of equal ones.
            let judged = all.iter().map(writer::judge);
            let wrong =
                |judgement: &Judgement| judgement.results.iter().map(|result| result.mismatches).sum::<u64>();
            judged.min_by_key(wrong).ok_or_else(|| AttentionError::Missing {
                name: "k_cache",
                remedy: "the file has no cache".to_owned(),
            })
        }
    }
}

/// Products beyond which a sample of the pairs is judged first.
const MOST_BEFORE_SAMPLE: usize = 1 << 30;
/// The pairs of that sample.
const FIRST_SAMPLE: usize = 256;

/// The pairs of a sample, if it is smaller than the dump and something in it is wrong.
fn wrong_sample(dump: &Dump, pairs: &[Pair]) -> Result<Option<Vec<Pair>>, AttentionError> {
    let of_pair = |pair: &Pair| dump.requests.get(pair.request).map_or(0, |request| request.keys.len());
    let keys: usize = pairs.iter().map(of_pair).sum();
    let sample = spread(pairs, FIRST_SAMPLE);
    if keys.saturating_mul(dump.shape.width + dump.shape.value_width) <= MOST_BEFORE_SAMPLE
        || sample.len() == pairs.len()
        || dump.output.is_none()
    {
        return Ok(None);
    }
    let judged = Subject::of_pairs(dump, &sample)?.judge(&sample, &[]);
    Ok((judged.output.mismatches > 0).then_some(sample))
}

/// Judges every element of a dump that may be read in these ways.
///
/// # Errors
/// [`AttentionError`] if a page is beyond the cache.
pub fn judge(dumps: &[Dump]) -> Result<Judgement, AttentionError> {
    judge_by(dumps, Effort::Every)
}

fn judge_by(dumps: &[Dump], effort: Effort) -> Result<Judgement, AttentionError> {
    let (dump, mut remark) = chosen(dumps)?;
    let mut pairs = all(dump);
    if effort == Effort::UntilWrong
        && let Some(sample) = wrong_sample(dump, &pairs)?
    {
        let comma = if remark.is_empty() { "" } else { "; " };
        remark = format!("of a sample of {} of {} heads of rows{comma}{remark}", sample.len(), pairs.len());
        pairs = sample;
    }
    let readings = dump.lse.as_ref().map(|lse| lse.readings.clone()).unwrap_or_default();
    let subject = Subject::of_pairs(dump, &pairs)?;
    let judged = subject.judge(&pairs, &readings);
    let mut gaps = Vec::new();
    let mut results = Vec::new();
    let wrong = judged.output.mismatches;
    let empty = judged.output.open;
    match &dump.output {
        Some(_) => results.push(judged.output.clone().result(OUTPUT, &remark)),
        None => results.push(StageResult::skipped(OUTPUT, "`out` is not in the file")),
    }
    let mut diagnosis = match wrong {
        0 => None,
        _ => Some(hypotheses::explain(dump, &judged)?),
    };
    if dump.lse.is_some() {
        let best = judged.lse.iter().enumerate().min_by_key(|(_, tally)| tally.mismatches);
        if let Some((at, tally)) = best {
            let said = if readings.len() > 1 { lse_words(readings[at]) } else { String::new() };
            results.push(tally.clone().result(LSE, &said));
            if tally.mismatches > 0 && diagnosis.is_none() {
                let judged = subject.wrong_logarithms(&pairs, readings[at]);
                diagnosis = Some(hypotheses::explain_lse(dump, readings[at], &judged)?);
            }
        }
    }
    for result in &results {
        match result.verdict {
            Verdict::Undetermined => gaps.push(format!("{}: {}", result.stage, result.note)),
            Verdict::Skipped if result.stage == *OUTPUT => {
                gaps.push("the output is not in the file: add `out`".to_owned());
            }
            _ => {}
        }
    }
    if empty > 0 && wrong == 0 {
        gaps.push(format!(
            "{empty} elements of the output may have any value: rows that see no key need metadata `empty`, infinities are not judged"
        ));
    }
    let judged_rows: usize = dump.requests.iter().map(|request| request.rows.len()).sum();
    let rows = subject.problem.rows();
    if judged_rows < rows {
        gaps.push(format!("{} of {rows} rows belong to no request and were not judged", rows - judged_rows));
    }
    let case = dump.metadata.get("case").cloned();
    Ok(Judgement { results, gaps, diagnosis, case })
}

/// The exact result and the bound of every element of a dump.
#[derive(Debug)]
pub struct Bounds {
    /// Rows, heads of queries and elements of a value.
    pub shape: [usize; 3],
    /// Value and bound of each element of the output, in its order; the bound is infinite where an element may have any value, or belongs
    /// to no request.
    pub output: Vec<(f64, f64)>,
    /// The same of the logarithms, base 2: [rows, heads], without and with the sink.
    pub lse: Vec<(f64, f64)>,
}

/// Computes the bounds of a dump, by its first reading.
///
/// # Errors
/// [`AttentionError`] if a page is beyond the cache.
pub fn bounds(dumps: &[Dump]) -> Result<Bounds, AttentionError> {
    let (dump, _) = chosen(dumps)?;
    let requests: Vec<usize> = (0..dump.requests.len()).collect();
    let problem = dump.problem(&requests)?;
    let reference = Reference::new(&problem, dump.arithmetic);
    let (heads, width) = (dump.shape.heads, dump.shape.value_width);
    let lines = problem.rows() * heads;
    let open = (f64::NAN, f64::INFINITY);
    let (mut output, mut lse) = (vec![open; lines * width], vec![open; lines * 2]);
    let of = |expected: &Expected| match *expected {
        Expected::Number { value, error } => (value, error),
        Expected::Special(value) => (value, 0.0),
        Expected::Open => open,
    };
    let rows: Vec<(Pair, _)> = all(dump)
        .into_par_iter()
        .map(|pair| (pair, reference.row(&problem.requests[pair.request], pair.row, pair.head)))
        .collect();
    for (pair, row) in rows {
        let line = (problem.requests[pair.request].rows.start + pair.row) * heads + pair.head;
        output[line * width..(line + 1) * width]
            .iter_mut()
            .zip(&row.output)
            .for_each(|(to, from)| *to = of(from));
        lse[line * 2..line * 2 + 2].iter_mut().zip(&row.lse).for_each(|(to, from)| *to = of(from));
    }
    Ok(Bounds { shape: [problem.rows(), heads, width], output, lse })
}

/// A reading of logarithms in the words of the metadata.
pub(super) fn lse_words(reading: LseReading) -> String {
    format!(
        "lse_base {}, lse_layout {}, lse_sink {}",
        reading.base.word(),
        if reading.by_head { "heads_rows" } else { "rows_heads" },
        if reading.sink { "included" } else { "excluded" }
    )
}
