//! What explains wrong elements of a product.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use super::bound::{Bound, Lines, Sum, Way, short_sum, spread, sum_of};
use super::changes::{Altered, Apply, Change, Operand, Stale, Zero, table};
use super::matrix::{Matrix, codes};
use super::{Bounds, Product};
use crate::frame::diagnosis::Diagnosis;
use crate::frame::fitted::Fitted;
use crate::frame::region::{Place, Region};
use crate::frame::search::{Candidate, Cause, Outcome, Scope, Search, Suspect};

/// The most wrong and the most right elements of a sample, and the most wrong ones that are looked at first.
const SAMPLE: usize = 32;
const FEW: usize = 4;

/// Products up to which every element is looked at; of larger ones, so many rows and columns.
const MOST_PRODUCTS: usize = 1 << 27;
const SPREAD: usize = 96;

/// Products of a sample up to which two changes at once are tried.
const MOST_PAIRED: usize = 1 << 18;

/// How narrow a fitted factor must be.
const NARROW: f64 = 0.05;

/// Explains the elements of `stored` [M, N] that `bounds` do not admit; `None` if there are none.
#[must_use]
pub fn explain(product: &Product, bounds: &Bounds, stored: &[f64]) -> Option<Diagnosis> {
    let [rows, columns] = bounds.shape;
    let judged = |at: usize| bounds.elements.get(at).is_some_and(|bound| bound.error.is_finite());
    let is_wrong = |at: usize| judged(at) && stored.get(at).is_some_and(|x| !bounds.elements[at].admits(*x));
    let wrong: Vec<usize> = (0..rows * columns).filter(|at| is_wrong(*at)).collect();
    let first = wrong.first()?;
    let places: Vec<Place> = wrong.iter().map(|at| place(at / columns, at % columns)).collect();
    let all = match &bounds.sampled {
        Some(axes) => axes.each_ref().map(|axis| axis.iter().map(|n| as_index(*n)).collect()),
        None => [rows, columns].map(|count| (0..as_index(count)).collect::<BTreeSet<u32>>()),
    };
    let along = |axis: usize| places.iter().map(|place| place[axis]).collect::<BTreeSet<u32>>();
    let region = Region::from_indices(all.into_iter().enumerate().map(|(axis, all)| [along(axis), all]));
    let value = stored[*first];
    let is_one_value = wrong.len() > 1
        && wrong.iter().all(|at| stored[*at] == value || stored[*at].is_nan() && value.is_nan());
    let of_value = if is_one_value { format!(", each wrong element is {value}") } else { String::new() };
    let of_sample = bounds.sampled.as_ref().map_or_else(String::new, |[rows, columns]| {
        format!("of a sample of {} rows and {} columns: ", rows.len(), columns.len())
    });
    let mut diagnosis = Diagnosis {
        wrong: wrong.len() as u64,
        extent: format!("{of_sample}{}{of_value}", region.words(AXES)),
        arithmetic: product.program(first / columns, first % columns, value),
        ..Diagnosis::default()
    };
    let suspect = WrongProduct::new(product, bounds, stored, &wrong, is_one_value);
    let Some(search) = Search::new(&suspect) else {
        diagnosis.unsearched = Some("no element of the sample is wrong".to_owned());
        return Some(diagnosis);
    };
    let answer = search.answer();
    let any_order =
        suspect.declared.then(&(Arc::new(|altered: &mut Altered<'_>| altered.has_any_order = true) as Apply));
    let fits = |scope| suspect.judge(&any_order, scope).is_some_and(|outcome| outcome.wrong.is_empty());
    if product.sum != Sum::UNKNOWN && fits(Scope::Sample) && fits(Scope::Full) {
        diagnosis.roundings.push("sums in any order, of any tensor core".to_owned());
    }
    Some(Diagnosis {
        verified: answer.verified.min(diagnosis.wrong),
        explanations: answer.explanations,
        next: answer.next,
        undecided: answer.undecided,
        question: answer.question,
        ..diagnosis
    })
}

const AXES: &[&str] = &["row", "column"];

fn as_index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn place(row: usize, column: usize) -> Place {
    [as_index(row), as_index(column), 0, 0]
}

/// A product with changes, in their order.
struct Variant<'p> {
    applied: Vec<Apply>,
    altered: Altered<'p>,
}

impl PartialEq for Variant<'_> {
    /// Whether they are the same changes; others that have the same effect are found by that.
    fn eq(&self, other: &Self) -> bool {
        self.applied.len() == other.applied.len()
            && self.applied.iter().zip(&other.applied).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl Variant<'_> {
    fn then(&self, apply: &Apply) -> Self {
        let mut altered = self.altered.clone();
        apply(&mut altered);
        let applied = self.applied.iter().chain([apply]).map(Arc::clone).collect();
        Self { applied, altered }
    }
}

/// Elements, by row and column, with their stored values.
struct Elements {
    places: Vec<(usize, usize)>,
    /// Those that are wrong as declared.
    is_wrong: Vec<bool>,
}

/// A product whose stored values are wrong.
struct WrongProduct<'p> {
    product: &'p Product,
    stored: &'p [f64],
    shape: [usize; 2],
    table: Vec<Change>,
    declared: Variant<'p>,
    few: Elements,
    sample: Elements,
    full: Elements,
    /// Rows and columns that [`Scope::Full`] looks at.
    axes: [Vec<usize>; 2],
    /// Decoded rows of both operands as they are declared, by row.
    known: [Known; 2],
    is_one_value: bool,
}

/// Decoded rows.
struct Known {
    index: BTreeMap<usize, usize>,
    lines: Lines,
}

impl Known {
    fn new(operand: &Operand<'_>, rows: BTreeSet<usize>, depth: usize, sum: Sum) -> Self {
        let rows: Vec<usize> = rows.into_iter().collect();
        let lines = Lines::new(operand.decoded(&rows), depth, sum);
        Self { index: rows.into_iter().enumerate().map(|(at, row)| (row, at)).collect(), lines }
    }

    fn has(&self, rows: &BTreeSet<usize>) -> bool {
        rows.iter().all(|row| self.index.contains_key(row))
    }
}

impl<'p> WrongProduct<'p> {
    fn new(
        product: &'p Product,
        bounds: &Bounds,
        stored: &'p [f64],
        wrong: &[usize],
        is_one_value: bool,
    ) -> Self {
        let shape @ [rows, columns] = bounds.shape;
        let at = |of: &[usize]| of.iter().map(|at| (at / columns, at % columns)).collect::<Vec<_>>();
        // Half of the wrong ones are those whose bounds are narrowest for their size: a fitted factor must hold there, too.
        let width = |at: &usize| bounds.elements[*at].error / bounds.elements[*at].value.abs();
        let mut narrow = wrong.to_vec();
        narrow.sort_by(|a, b| width(a).total_cmp(&width(b)));
        narrow.truncate(SAMPLE / 2);
        let of_wrong: BTreeSet<usize> = spread(wrong, SAMPLE / 2).into_iter().chain(narrow).collect();
        let of_wrong: Vec<usize> = of_wrong.into_iter().collect();
        let all_wrong: BTreeSet<usize> = wrong.iter().copied().collect();
        let judged = |at: &usize| bounds.elements[*at].error.is_finite();
        let right: Vec<usize> =
            (0..rows * columns).filter(|at| judged(at) && !all_wrong.contains(at)).collect();
        let elements = |of: &[usize]| Elements {
            is_wrong: of.iter().map(|at| all_wrong.contains(at)).collect(),
            places: at(of),
        };
        let few = elements(&spread(&of_wrong, FEW));
        let sample: Vec<usize> = of_wrong.iter().copied().chain(spread(&right, SAMPLE)).collect();
        let is_small = rows * columns * product.a.depth() <= MOST_PRODUCTS;
        let axes = bounds.sampled.clone().unwrap_or_else(|| {
            shape.map(|count| {
                let all: Vec<usize> = (0..count).collect();
                if is_small { all } else { spread(&all, SPREAD) }
            })
        });
        let [some_rows, some_columns] = &axes;
        let full: Vec<usize> = some_rows
            .iter()
            .flat_map(|row| some_columns.iter().map(move |column| row * columns + column))
            .filter(judged)
            .collect();
        let (sample, full) = (elements(&sample), elements(&full));
        let altered = Altered::new(product);
        let of_axis = |axis: usize| -> BTreeSet<usize> {
            let places = few.places.iter().chain(&sample.places);
            let some = places.map(|(row, column)| if axis == 0 { *row } else { *column });
            axes[axis].iter().copied().chain(some).collect()
        };
        let depth = product.a.depth();
        let known = [0, 1].map(|n| Known::new(&altered.operands[n], of_axis(n), depth, product.sum));
        let declared = Variant { applied: Vec::new(), altered };
        let table = table(product);
        Self { product, stored, shape, table, declared, few, sample, full, axes, known, is_one_value }
    }

    const fn elements(&self, scope: Scope) -> &Elements {
        match scope {
            Scope::Few => &self.few,
            Scope::Sample => &self.sample,
            Scope::Full => &self.full,
        }
    }

    /// What elements are by a variant.
    fn expected(&self, of: &Altered<'_>, places: &[(usize, usize)]) -> Vec<Bound> {
        let before = |(row, column): (usize, usize)| match of.stale? {
            Stale { of_rows: true, tile } => Some((row.checked_sub(tile)?, column)),
            Stale { of_rows: false, tile } => Some((row, column.checked_sub(tile)?)),
        };
        let rows_of = |axis: usize| -> BTreeSet<usize> {
            let each = places.iter().copied().chain(places.iter().filter_map(|at| before(*at)));
            each.map(|(row, column)| if axis == 0 { row } else { column }).collect()
        };
        let sum = if of.has_any_order { Sum::UNKNOWN } else { self.product.sum };
        let depth = self.product.a.depth();
        let fresh = [0, 1].map(|n| {
            let rows = rows_of(n);
            let is_known = of.operands[n].is_declared && !of.has_any_order && self.known[n].has(&rows);
            (!is_known).then(|| Known::new(&of.operands[n], rows, depth, sum))
        });
        let [left, right] = [0, 1].map(|n| fresh[n].as_ref().unwrap_or(&self.known[n]));
        let one = |(row, column): (usize, usize)| {
            let [row, column] = [(left, row), (right, column)].map(|(of, at)| of.index.get(&at).copied());
            match row.zip(column) {
                Some((row, column)) => {
                    let lines = [&left.lines, &right.lines];
                    let whole = sum_of(lines, row, column, sum);
                    of.short_sums.map_or(whole, |short| short_sum(lines, (row, column), whole, short))
                }
                None => Bound { value: f64::NAN, error: f64::INFINITY },
            }
        };
        let result = self.product.result;
        let element = |at: &(usize, usize)| {
            if of.zero.is_some_and(|Zero { of_rows, from }| if of_rows { at.0 >= from } else { at.1 >= from })
            {
                return Bound { value: 0.0, error: 0.0 };
            }
            let mut bound = one(*at);
            if let Some(earlier) = before(*at) {
                let other = one(earlier);
                // Both sums are in one accumulator of 24 bits, whose order of additions is not known.
                let size = bound.value.abs() + other.value.abs();
                let error = bound.error + other.error + 2f64.powi(-22) * size;
                bound = Bound { value: bound.value + other.value, error };
            }
            for bias in [
                of.bias.as_ref().and_then(|of| of.get(at.1)),
                of.row_bias.as_ref().and_then(|of| of.get(at.0)),
            ]
            .into_iter()
            .flatten()
            {
                bound = bound.plus(*bias);
            }
            let bound = if of.is_cut { bound.settled(result, Way::Zero) } else { bound.rounded(result) };
            if of.factor == 1.0 {
                return bound;
            }
            let value = bound.value * of.factor;
            Bound { value, error: of.factor.abs() * bound.error + result.roundoff() * value.abs() }
        };
        if places.len() <= SAMPLE * 2 {
            return places.iter().map(element).collect();
        }
        places.par_iter().map(element).collect()
    }

    /// Where an element is stored.
    fn stored_at(&self, of: &Altered<'_>, (row, column): (usize, usize)) -> (usize, usize) {
        let [rows, columns] = self.shape;
        let to = of.stored_at.map(|at| at(row, column, rows, columns));
        to.filter(|(row, column)| *row < rows && *column < columns).unwrap_or((row, column))
    }

    /// The stored value that belongs to an element.
    fn found(&self, of: &Altered<'_>, place: (usize, usize)) -> f64 {
        let [_, columns] = self.shape;
        let (row, column) = self.stored_at(of, place);
        self.stored.get(row * columns + column).copied().unwrap_or(f64::NAN)
    }

    /// The least and the greatest factor that makes every wrong element right, or every one of the sample if there is none for all.
    fn ratios(&self, variant: &Variant<'_>) -> Option<[f64; 2]> {
        let of_sample = self.ratios_of(variant, Scope::Sample)?;
        Some(self.ratios_of(variant, Scope::Full).unwrap_or(of_sample))
    }

    fn ratios_of(&self, variant: &Variant<'_>, scope: Scope) -> Option<[f64; 2]> {
        let Elements { places, is_wrong } = self.elements(scope);
        let wrong: Vec<(usize, usize)> =
            places.iter().zip(is_wrong).filter(|(_, is)| **is).map(|(at, _)| *at).collect();
        let expected = self.expected(&variant.altered, &wrong);
        let (mut least, mut most, mut sure) = (f64::NEG_INFINITY, f64::INFINITY, 0);
        for (at, Bound { value, error }) in wrong.iter().zip(expected) {
            let found = self.found(&variant.altered, *at);
            if !found.is_finite()
                || found == 0.0
                || value.abs().partial_cmp(&(4.0 * error)) != Some(std::cmp::Ordering::Greater)
            {
                continue;
            }
            sure += 1;
            let ratio = found / value;
            // A factor f is right if |found − f·value| ≤ |f|·(error + roundoff·|value|): the product with the factor is rounded, also where the
            // right value is exact.
            let off = error / value.abs() + self.product.result.roundoff();
            let (one, other) = (ratio / (1.0 + off), ratio / (1.0 - off));
            (least, most) = (least.max(one.min(other)), most.min(one.max(other)));
        }
        let enough = sure >= FEW.min(wrong.len()) && 2 * sure >= wrong.len();
        let is_narrow = least <= most && most - least <= NARROW * (least + most).abs() / 2.0;
        (enough && is_narrow).then_some([least, most])
    }

    /// What two variants do when an input holds other values.
    fn differ_with(&self, one: &Variant<'_>, other: &Variant<'_>, input: Input) -> bool {
        let Some(product) = input.replaced(self.product) else { return false };
        let effect = |variant: &Variant<'_>| {
            let mut altered = Altered::new(&product);
            variant.applied.iter().for_each(|apply| apply(&mut altered));
            // No row is known of this product.
            altered.operands.iter_mut().for_each(|operand| operand.is_declared = false);
            self.results(&altered)
        };
        let (first, second) = (effect(one), effect(other));
        first.iter().any(|(at, bits)| second.get(at).is_some_and(|other| other != bits))
    }

    /// What is stored by a product with changes, by row and column, of the elements that [`Scope::Full`] looks at.
    fn results(&self, altered: &Altered<'_>) -> BTreeMap<(usize, usize), u64> {
        let places = &self.full.places;
        let at = |place: &(usize, usize)| self.stored_at(altered, *place);
        let expected = self.expected(altered, places);
        places.iter().zip(expected).map(|(place, bound)| (at(place), bound.value.to_bits())).collect()
    }
}

/// An input of a product.
#[derive(Debug, Clone, Copy)]
enum Input {
    Elements(usize),
    Scales(usize),
    Bias,
}

impl Input {
    const ALL: [Self; 5] =
        [Self::Scales(0), Self::Scales(1), Self::Elements(0), Self::Elements(1), Self::Bias];

    const fn name(self) -> &'static str {
        match self {
            Self::Elements(0) => "the elements of `a`",
            Self::Elements(_) => "the elements of `b`",
            Self::Scales(0) => "the scales of `a`",
            Self::Scales(_) => "the scales of `b`",
            Self::Bias => "`bias`",
        }
    }

    /// The product with other values in this input, each different from its neighbours; `None` if it has no such input.
    fn replaced(self, product: &Product) -> Option<Product> {
        let mut product = product.clone();
        let number = |n: usize| (n as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        if let Self::Bias = self {
            let bias = product.bias.as_mut()?;
            bias.iter_mut().enumerate().for_each(|(n, x)| *x = (number(n) % 61) as f64 - 30.0);
            return Some(product);
        }
        let (Self::Elements(which) | Self::Scales(which)) = self else { return None };
        let matrix = if which == 0 { &mut product.a } else { &mut product.b };
        match (matrix, self) {
            (Matrix::Scaled(of), Self::Elements(_)) => {
                let (table, count) = (codes(of.element), 1_u64 << of.element.bits());
                for (n, code) in of.codes.iter_mut().enumerate() {
                    let other = (number(n) % count) as u8;
                    if table[usize::from(other)].value.is_finite() {
                        *code = other;
                    }
                }
            }
            (Matrix::Scaled(of), _) => {
                // Codes that every format of scales has, within a few powers of two.
                let (first, step) =
                    if of.scale == numerics::format::Format::Ue4m3 { (0x30, 1) } else { (120, 1) };
                for (n, scale) in of.scales.iter_mut().enumerate() {
                    *scale = first + step * (number(n) % 16) as u8;
                }
            }
            (Matrix::Plain { values, .. }, Self::Elements(_)) => {
                values.iter_mut().enumerate().for_each(|(n, x)| *x = (number(n) % 61) as f64 - 30.0);
            }
            (Matrix::Plain { .. }, _) => return None,
        }
        Some(product)
    }
}

impl<'p> Suspect for WrongProduct<'p> {
    type Variant = Variant<'p>;
    type Effect = BTreeMap<(usize, usize), u64>;

    fn axes(&self) -> &'static [&'static str] {
        AXES
    }

    fn declared(&self) -> &Variant<'p> {
        &self.declared
    }

    fn table<'a>(&'a self, to: &'a Variant<'p>) -> Vec<Candidate<'a, Variant<'p>>> {
        let candidate = |change: &'a Change| Candidate {
            what: change.what.clone(),
            look: change.look,
            seen: change.seen,
            variant: Box::new(move || to.then(&change.apply)),
        };
        self.table.iter().map(candidate).collect()
    }

    fn fitted<'a>(&'a self, to: &'a Variant<'p>) -> Vec<Candidate<'a, Variant<'p>>> {
        self.factor(to)
    }

    fn factor<'a>(&'a self, to: &'a Variant<'p>) -> Vec<Candidate<'a, Variant<'p>>> {
        // Most variants have no factor that fits.
        let Some([least, most]) = self.ratios(to) else { return Vec::new() };
        let Fitted { value, words } = Fitted::between(least, most);
        if value == 1.0 {
            return Vec::new();
        }
        let apply: Apply = Arc::new(move |altered: &mut Altered<'_>| altered.factor *= value);
        vec![Candidate {
            what: format!("the result has a constant factor: {words}"),
            look: "alpha, the global scales, and a reduction over too many or too few lanes",
            seen: "",
            variant: Box::new(move || to.then(&apply)),
        }]
    }

    fn takes_pairs(&self) -> bool {
        !self.is_one_value && self.product.a.depth() * SAMPLE <= MOST_PAIRED
    }

    fn indices(&self) -> Vec<BTreeSet<u32>> {
        self.axes.iter().map(|all| all.iter().map(|n| as_index(*n)).collect()).collect()
    }

    fn judge(&self, variant: &Variant<'p>, scope: Scope) -> Option<Outcome> {
        let Elements { places, is_wrong } = self.elements(scope);
        let expected = self.expected(&variant.altered, places);
        let mut outcome = Outcome::default();
        let mut decided = 0;
        for ((at, bound), is_wrong) in places.iter().zip(&expected).zip(is_wrong) {
            decided += usize::from(*is_wrong && bound.decides());
            let found = self.found(&variant.altered, *at);
            // What may be anything explains nothing.
            if bound.error.is_finite() && bound.admits(found) {
                continue;
            }
            let off = (found - bound.value).abs() / bound.error;
            outcome.excess += if off.is_finite() { (1.0 + off).log2() } else { FAR };
            outcome.wrong.push(place(at.0, at.1));
        }
        outcome.decides = 2 * decided >= is_wrong.iter().filter(|is| **is).count();
        Some(outcome)
    }

    fn effect(&self, variant: &Variant<'p>) -> Option<BTreeMap<(usize, usize), u64>> {
        Some(self.results(&variant.altered))
    }

    fn told_apart_by(&self, [(_, one), (_, other)]: [Cause<'_, Variant<'p>>; 2]) -> Option<String> {
        let found = Input::ALL.into_iter().find(|input| self.differ_with(one, other, *input))?;
        Some(found.name().to_owned())
    }
}

/// The distance of an element that has no bound, or an exact one, in powers of two.
const FAR: f64 = 60.0;

#[cfg(test)]
mod tests {
    use numerics::format::Format;
    use numerics::tensor_core::Accumulation;

    use super::super::{ResultType, Scaled};
    use super::*;

    const NATIVE: Sum = Sum::Steps { length: 32, accumulation: Accumulation { fraction: 25, rising: true } };

    fn numbers(count: usize, seed: u64) -> impl Iterator<Item = u64> {
        (0..count as u64).map(move |n| (n + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33)
    }

    /// An NVFP4 operand [48, 128].
    fn scaled(seed: u64) -> Scaled {
        Scaled {
            element: Format::E2m1,
            depth: 128,
            codes: numbers(48 * 128, seed).map(|n| (n % 16) as u8).collect(),
            scale: Format::Ue4m3,
            block: 16,
            scales: numbers(48 * 8, seed + 99_991).map(|n| 0x20 + (n % 0x30) as u8).collect(),
            global: 0.25,
        }
    }

    fn product(a: Scaled, b: Scaled) -> Product {
        let (a, b) = (Matrix::Scaled(a), Matrix::Scaled(b));
        Product { a, b, bias: None, sum: NATIVE, result: ResultType::F32 }
    }

    fn values(product: &Product) -> Vec<f64> {
        product.bounds().elements.iter().map(|bound| bound.value).collect()
    }

    fn why(product: &Product, stored: &[f64]) -> String {
        explain(product, &product.bounds(), stored).map(|diagnosis| diagnosis.text()).unwrap_or_default()
    }

    #[test]
    fn right_results_have_no_explanation_and_garbage_is_unexplained() {
        let right = product(scaled(1), scaled(2));
        assert_eq!(why(&right, &values(&right)), "");
        let garbage: Vec<f64> = numbers(48 * 48, 5).map(|n| (n % 1009) as f64 - 500.0).collect();
        assert!(why(&right, &garbage).starts_with("unexplained: no hypothesis"), "{}", why(&right, &garbage));
    }

    #[test]
    fn an_operand_that_is_read_otherwise_is_named() {
        let right = product(scaled(1), scaled(2));
        let mut exchanged = scaled(2);
        exchanged.scales.as_chunks_mut::<2>().0.iter_mut().for_each(|pair| pair.swap(0, 1));
        let text = why(&right, &values(&product(scaled(1), exchanged)));
        assert!(text.starts_with("explained, all "), "{text}");
        assert!(
            text.contains("the scale of the neighbouring block, in pairs, is taken, of the operand `b`"),
            "{text}"
        );
    }

    #[test]
    fn values_that_are_multiplied_as_they_are_have_the_faults_of_indices() {
        let plain = |seed| Matrix::Plain {
            depth: 128,
            values: numbers(48 * 128, seed).map(|n| (n % 255) as f64 / 64.0 - 2.0).collect(),
        };
        let right =
            Product { a: plain(3), b: plain(4), bias: None, sum: Sum::UNKNOWN, result: ResultType::Bf16 };
        let mut short = right.clone();
        if let Matrix::Plain { values, .. } = &mut short.a {
            values.chunks_mut(128).for_each(|row| row[96..].fill(0.0));
        }
        let text = why(&right, &values(&short));
        assert!(
            text.starts_with("explained, all ") && text.contains("the last 32 of K are left out"),
            "{text}"
        );
        // The results by both are the same, whatever the data are.
        let rotated = |row: &[f64]| [&row[47..], &row[..47]].concat();
        let text = why(&right, &values(&right).chunks(48).flat_map(rotated).collect::<Vec<_>>());
        assert!(
            text.contains("stored with every column one too far") && text.contains("`b` of the row before"),
            "{text}"
        );
        assert!(!text.contains("to tell "), "{text}");
    }

    #[test]
    fn what_other_scales_would_tell_apart_is_said() {
        // Every second scale is that of its neighbour: exchanged ones and the even one for both look alike.
        let mut b = scaled(2);
        let twice: Vec<u8> =
            b.scales.chunks(2).flat_map(|pair| [pair[0], pair[0] ^ 8, pair[0], pair[0] ^ 8]).collect();
        b.scales = twice.into_iter().take(48 * 8).collect();
        let right = product(scaled(1), b.clone());
        b.scales.as_chunks_mut::<2>().0.iter_mut().for_each(|pair| pair.swap(0, 1));
        let text = why(&right, &values(&product(scaled(1), b)));
        assert!(text.contains("other values in the scales of `b` make their results differ"), "{text}");
    }
}
