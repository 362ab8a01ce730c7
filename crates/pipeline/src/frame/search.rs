//! The search for what explains wrong elements: one engine for every family.
//!
//! A family is a [`Suspect`]: a problem whose stored results are wrong. Its table gives candidates, each a problem with one change. A candidate
//! explains the result if its bounds accept every wrong element and still accept every right one: then the kernel computed what the candidate
//! says. It explains a part if it makes every wrong element right and breaks others only outside the region that holds the wrong ones: then
//! the fault is in that region alone.
//!
//! Why a candidate that fits is no accident: a bound that decides accepts a small share of what an element may be, and an explanation needs all
//! wrong elements. One that explains the whole must also leave every right element right. One that explains a part need not, so that it counts
//! from [`LEAST_PART`] wrong elements on. Bounds that accept nearly anything explain nothing: such candidates are listed as undecided.

use std::collections::BTreeSet;

use super::diagnosis::Explanation;
use super::region::{AXES, Place, Region};

/// How many elements a candidate is judged on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A few, nearly all of them wrong: most candidates end here.
    Few,
    /// Some wrong and right ones.
    Sample,
    /// All, or as many as time allows: what an explanation is verified on.
    Full,
}

/// What a candidate's bounds say of the elements of a scope.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The elements that are wrong by it.
    pub wrong: Vec<Place>,
    /// Whether its bounds decide enough to explain anything.
    pub decides: bool,
    /// How far off the wrong elements are: the sum of log2(1 + error / bound) over them.
    pub excess: f64,
}

/// A problem with a change that may explain what is wrong.
pub struct Candidate<'a, V> {
    /// What a kernel would do.
    pub what: String,
    /// Where to look.
    pub look: &'a str,
    /// Public examples.
    pub seen: &'a str,
    /// The problem so changed.
    pub variant: Box<dyn FnOnce() -> V + 'a>,
}

/// A problem whose stored results are wrong.
pub trait Suspect {
    /// The problem with changes.
    type Variant: PartialEq;

    /// What a change does to the elements that are looked at: variants with the same effect cannot be told apart.
    type Effect: PartialEq;

    /// The names of the axes of a place.
    fn axes(&self) -> &'static [&'static str];

    /// The problem as it is declared.
    fn declared(&self) -> &Self::Variant;

    /// The changes of the table, applied to a variant.
    fn table<'a>(&'a self, to: &'a Self::Variant) -> Vec<Candidate<'a, Self::Variant>>;

    /// Changes with a number that is fitted to wrong elements, applied to a variant.
    fn fitted<'a>(&'a self, to: &'a Self::Variant) -> Vec<Candidate<'a, Self::Variant>>;

    /// A factor that is fitted to wrong elements, applied to a variant.
    fn factor<'a>(&'a self, to: &'a Self::Variant) -> Vec<Candidate<'a, Self::Variant>>;

    /// Whether two changes at once are worth trying: not where each costs much, or where wrong elements were never stored.
    fn takes_pairs(&self) -> bool;

    /// The indices along each axis that [`Scope::Full`] looks at.
    fn indices(&self) -> Vec<BTreeSet<u32>>;

    /// Judges the elements of a scope by a variant; `None` if the variant changes nothing or cannot be computed.
    fn judge(&self, variant: &Self::Variant, scope: Scope) -> Option<Outcome>;

    /// What a variant expects of the wrong elements, and which stored ones it changes.
    fn effect(&self, variant: &Self::Variant) -> Option<Self::Effect>;

    /// The first input that makes results of two variants of the table differ once it holds other values; `None` if none is found.
    fn told_apart_by(&self, variants: [Cause<'_, Self::Variant>; 2]) -> Option<String>;
}

/// A variant with its name in the table.
pub type Cause<'v, V> = (&'v str, &'v V);

/// The wrong elements that a partial explanation needs at least: with fewer, one of a thousand candidates may fit by chance.
pub const LEAST_PART: usize = 24;

/// Candidates that come nearest, with which every other one is paired.
const PAIRED: usize = 3;

/// The share of the distance that a candidate may leave to come near.
const NEAR: f64 = 0.8;

/// What a scope shows of the problem as it is declared.
struct Shown {
    wrong: BTreeSet<Place>,
    excess: f64,
}

/// A candidate that comes near.
struct Near<V> {
    what: String,
    look: String,
    variant: V,
    excess: f64,
}

/// How much of the wrong elements a candidate explains.
enum Fit {
    Whole,
    /// Those of a region alone, in words.
    Part(String),
    Undecided,
    None {
        percent: u64,
        breaks_none: bool,
    },
}

/// An explanation, with what it does to the wrong elements and the variants that do so: as many as a question needs.
struct Found<S: Suspect> {
    effect: Option<S::Effect>,
    explanation: Explanation,
    variants: Vec<(String, S::Variant)>,
}

/// The variants that are told apart.
const APART: usize = 2;

/// The search.
pub struct Search<'s, S: Suspect> {
    suspect: &'s S,
    few: Shown,
    sample: Shown,
    full: Shown,
    /// The region that holds the wrong elements.
    region: Region,
    found: Vec<Found<S>>,
    parts: Vec<Found<S>>,
    near: Vec<Near<S::Variant>>,
    next: Option<(String, u64)>,
    undecided: Vec<String>,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What explains every wrong element.
    pub explanations: Vec<Explanation>,
    /// The best of the others, and the share of the wrong elements of a sample that it explains, in percent.
    pub next: Option<(String, u64)>,
    /// What would fit, but of which the bounds decide too little.
    pub undecided: Vec<String>,
    /// The wrong elements on which explanations were verified.
    pub verified: u64,
    /// The region of those.
    pub region: Region,
    /// Which input would tell explanations apart, in a sentence.
    pub question: Option<String>,
}

impl<'s, S: Suspect> Search<'s, S> {
    /// A search; `None` if no element of its scopes is wrong, or the problem cannot be judged.
    #[must_use]
    pub fn new(suspect: &'s S) -> Option<Self> {
        let shown = |scope: Scope| {
            let outcome = suspect.judge(suspect.declared(), scope)?;
            Some(Shown { wrong: outcome.wrong.into_iter().collect(), excess: outcome.excess })
        };
        let (few, sample, full) = (shown(Scope::Few)?, shown(Scope::Sample)?, shown(Scope::Full)?);
        if few.wrong.is_empty() || sample.wrong.is_empty() || full.wrong.is_empty() {
            return None;
        }
        let along = |axis: usize| full.wrong.iter().map(|place| place[axis]).collect::<BTreeSet<u32>>();
        let all = suspect.indices().into_iter().take(AXES).enumerate();
        let region = Region::from_indices(all.map(|(axis, all)| [along(axis), all]));
        Some(Self {
            suspect,
            few,
            sample,
            full,
            region,
            found: Vec::new(),
            parts: Vec::new(),
            near: Vec::new(),
            next: None,
            undecided: Vec::new(),
        })
    }

    /// Tries everything: the table, fitted numbers, parts, and pairs of changes, each only if nothing before explains all.
    #[must_use]
    pub fn answer(mut self) -> Answer {
        let declared = self.suspect.declared();
        self.try_all(self.suspect.table(declared), "");
        // A number that is fitted says less than a row of the table.
        if self.found.is_empty() {
            self.try_all(self.suspect.fitted(declared), "");
        }
        if self.found.is_empty() && self.parts.is_empty() && self.suspect.takes_pairs() {
            self.pairs();
        }
        let mut found = std::mem::take(&mut self.found);
        if found.is_empty() {
            found = std::mem::take(&mut self.parts);
        }
        let question = self.question(&found);
        Answer {
            explanations: found.into_iter().map(|of| of.explanation).collect(),
            question,
            next: self.next,
            undecided: self.undecided,
            verified: self.full.wrong.len() as u64,
            region: self.region,
        }
    }

    /// The input that tells two explanations apart: the first two that differ in what they do here, or two that do the same.
    fn question(&self, found: &[Found<S>]) -> Option<String> {
        let firsts = found.iter().filter_map(|of| of.variants.first());
        let others = found.first().into_iter().flat_map(|of| &of.variants);
        let pair: Vec<_> = if found.len() > 1 { firsts.collect() } else { others.collect() };
        let [(one, variant), (other, of_other), ..] = pair[..] else { return None };
        let input = self.suspect.told_apart_by([(one, variant), (other, of_other)])?;
        Some(format!("to tell “{one}” from “{other}”: other values in {input} make their results differ"))
    }

    /// Tries two changes at once: a fitted factor with each row of the table, and each with those that come nearest.
    fn pairs(&mut self) {
        let suspect = self.suspect;
        self.near.sort_by(|a, b| a.excess.total_cmp(&b.excess));
        self.near.truncate(PAIRED);
        for Candidate { what, look, variant, .. } in suspect.table(suspect.declared()) {
            let variant = variant();
            if variant == *suspect.declared() {
                continue;
            }
            let factors = suspect.factor(&variant).into_iter();
            let named = factors.map(|of| Candidate { look, ..of }).collect();
            self.try_all(named, &what);
            if !self.found.is_empty() {
                return;
            }
        }
        for Near { what, look, variant, .. } in std::mem::take(&mut self.near) {
            let second = suspect.table(&variant).into_iter();
            let both =
                second.map(|of| Candidate { look: if of.look.is_empty() { &look } else { of.look }, ..of });
            self.try_all(both.collect(), &what);
        }
    }

    /// Tries candidates; `first` is what they are combined with, if anything.
    fn try_all(&mut self, candidates: Vec<Candidate<'_, S::Variant>>, first: &str) {
        for Candidate { what, look, seen, variant } in candidates {
            let variant = variant();
            if variant == *self.suspect.declared() {
                continue;
            }
            let what = if first.is_empty() { what } else { format!("{first}; and {what}") };
            let Some(few) = self.suspect.judge(&variant, Scope::Few) else { continue };
            let explanation = |cause: String, region: &str| Explanation {
                what: format!("{region}{cause}"),
                cause,
                look: look.to_owned(),
                seen: seen.to_owned(),
                same: Vec::new(),
            };
            match self.fit(&variant, &few) {
                Fit::Whole => {
                    let effect = self.suspect.effect(&variant);
                    add(&mut self.found, effect, explanation(what, ""), variant);
                }
                Fit::Part(region) if first.is_empty() => {
                    let (effect, region) = (self.suspect.effect(&variant), format!("in {region} alone: "));
                    add(&mut self.parts, effect, explanation(what, &region), variant);
                }
                Fit::Part(_) => {}
                Fit::Undecided => self.undecided.push(what),
                Fit::None { percent, breaks_none } => {
                    if breaks_none && percent > self.next.as_ref().map_or(0, |(_, most)| *most) {
                        self.next = Some((what.clone(), percent));
                    }
                    // A part of the distance is gone, so that another change may explain the rest.
                    if first.is_empty() && few.decides && few.excess < NEAR * self.few.excess {
                        let look = look.to_owned();
                        self.near.push(Near { what, look, variant, excess: few.excess });
                    }
                }
            }
        }
    }

    /// How well a variant fits, which leaves these of the few elements wrong.
    fn fit(&self, variant: &S::Variant, few: &Outcome) -> Fit {
        let nothing = Fit::None { percent: 0, breaks_none: false };
        // An element may be wrong twice, by its code and by its scale.
        let made_right = |shown: &Shown, outcome: &Outcome| {
            let wrong: BTreeSet<&Place> = outcome.wrong.iter().collect();
            shown.wrong.iter().filter(|place| !wrong.contains(place)).count()
        };
        if made_right(&self.few, few) * 4 < self.few.wrong.len() {
            return nothing;
        }
        let Some(sample) = self.suspect.judge(variant, Scope::Sample) else { return nothing };
        let right = made_right(&self.sample, &sample);
        let breaks_none = sample.wrong.iter().all(|place| self.sample.wrong.contains(place));
        if right < self.sample.wrong.len() {
            let percent =
                if sample.decides { right as u64 * 100 / self.sample.wrong.len() as u64 } else { 0 };
            return Fit::None { percent, breaks_none };
        }
        if !sample.decides {
            return if breaks_none { Fit::Undecided } else { nothing };
        }
        let Some(full) = self.suspect.judge(variant, Scope::Full) else { return nothing };
        if !full.decides || made_right(&self.full, &full) < self.full.wrong.len() {
            return Fit::None { percent: 99, breaks_none };
        }
        if full.wrong.is_empty() {
            return Fit::Whole;
        }
        let outside = full.wrong.iter().all(|place| !self.region.contains(place));
        if self.region.is_part() && outside && self.full.wrong.len() >= LEAST_PART {
            return Fit::Part(self.region.distinctive_words(self.suspect.axes()));
        }
        Fit::None { percent: 99, breaks_none: false }
    }
}

/// Adds an explanation, or its name to one that says the same.
fn add<S: Suspect>(
    all: &mut Vec<Found<S>>,
    effect: Option<S::Effect>,
    explanation: Explanation,
    variant: S::Variant,
) {
    let named = (explanation.cause.clone(), variant);
    match all.iter_mut().find(|known| known.effect == effect) {
        Some(known) => {
            known.explanation.same.push(explanation.cause);
            if known.variants.len() < APART {
                known.variants.push(named);
            }
        }
        None => all.push(Found { effect, explanation, variants: vec![named] }),
    }
}
