//! The result of attention in f64 from the stored inputs, and a bound on what a kernel may store (docs/numerics.md, 14).
//!
//! The bound holds for any split and any order of the keys. Names follow the derivation there: t is a score in units of log2, w a
//! weight relative to the largest one, η the error of a weight before it is rounded to its type, ρ that of this rounding.

use std::collections::BTreeMap;

use self::summed::{Sums, Term};
use super::dump::{LseQuantity, LseReading};
use super::element::{Element, Roundoff, U};
use super::problem::{Problem, Request, lowest_bit};
use super::semantics::{
    Arithmetic, Base, Denominator, Empty, MergeFault, ProductSum, ScoreOrder, WrongMerge,
};

mod folded;
mod summed;
mod two_level;

/// The relative error of ex2.approx (PTX ISA).
const EX2: f64 = 1.0 / 4_194_304.0;
/// The absolute error of lg2.approx near one (PTX ISA).
const LG2: f64 = 1.0 / 4_194_304.0;
/// The relative error of tanh.approx (PTX ISA).
const TANH: f64 = 1.0 / 2048.0;
/// Weights below 2^-126 of the largest may be flushed to zero.
const FLUSHED: f64 = -126.0;
/// Half the difference of the exponents beyond which nothing of a weight remains in binary32.
const LOST: f64 = -150.0;

/// What an element may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Expected {
    /// A number, and the bound on what is rounded to the type of the result.
    Number {
        /// The exact result.
        value: f64,
        /// The bound.
        error: f64,
    },
    /// Exactly this; an infinity or NaN.
    Special(f64),
    /// Anything.
    Open,
}

impl Expected {
    /// The least and the greatest value of a type that may be stored.
    pub(super) fn range(&self, element: Element) -> Option<(f64, f64)> {
        match *self {
            Self::Number { value, error } => {
                Some((element.nearest(value - error), element.nearest(value + error)))
            }
            _ => None,
        }
    }

    /// Whether a stored value is right.
    pub(super) fn accepts(&self, found: f64, element: Element) -> bool {
        match *self {
            Self::Number { .. } => {
                self.range(element).is_some_and(|(least, most)| least <= found && found <= most)
            }
            Self::Special(value) if value.is_nan() => found.is_nan(),
            Self::Special(value) => found == value,
            Self::Open => true,
        }
    }

    /// |found − value| over the bound and half a step of the type: at most 1 if the value is right.
    pub(super) fn over_bound(&self, found: f64, element: Element) -> f64 {
        let accepted = self.accepts(found, element);
        let Self::Number { value, error } = *self else { return if accepted { 0.0 } else { f64::INFINITY } };
        let step = element.roundoff().relative * (value.abs() + error) + element.roundoff().absolute;
        let ratio = (found - value).abs() / (error + step);
        match accepted {
            true if ratio.is_nan() => 0.0,
            true => ratio.min(1.0),
            false if ratio.is_finite() => ratio.max(1.0_f64.next_up()),
            false => f64::INFINITY,
        }
    }

    /// Whether the bound tells the value from zero, from its double and from its negative.
    pub(super) fn decides(&self, element: Element) -> bool {
        match self.range(element) {
            Some((least, most)) => {
                least == most
                    || (least * most > 0.0 && {
                        let (small, large) = (least.abs().min(most.abs()), least.abs().max(most.abs()));
                        large < 2.0 * small
                    })
            }
            None => *self != Self::Open,
        }
    }
}

/// The results of a head of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// The elements of the output.
    pub output: Vec<Expected>,
    /// The logarithm, base 2, of the sum of exponentials without and with that of the sink.
    pub lse: [Expected; 2],
    /// The largest score, in units of log2, without and with the sink.
    pub most: [f64; 2],
}

impl Expected {
    /// The sum of two results.
    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Number { value: a, error: of_a }, Self::Number { value: b, error: of_b }) => {
                let value = a + b;
                Self::Number { value, error: of_a + of_b + 2.0 * U * (a.abs() + b.abs()) }
            }
            (Self::Special(special), _) | (_, Self::Special(special)) => Self::Special(special),
            _ => Self::Open,
        }
    }

    /// A logarithm, base 2, in another base.
    pub(super) fn in_base(self, base: Base) -> Self {
        match (self, base) {
            (Self::Number { value, error }, Base::E) => {
                let ln2 = std::f64::consts::LN_2;
                Self::Number { value: value * ln2, error: (error + 2.0 * U * value.abs()) * ln2 }
            }
            _ => self,
        }
    }
}

impl Row {
    /// What is stored as its logarithm.
    pub(super) fn logarithm(&self, reading: LseReading) -> Expected {
        let of = usize::from(reading.sink);
        let (lse, most) = (self.lse[of], self.most[of]);
        let Expected::Number { value, error } = lse else { return lse };
        let number =
            |value: f64, error: f64| Expected::Number { value, error: error + 4.0 * U * value.abs() };
        match reading.quantity {
            LseQuantity::Logarithm => lse.in_base(reading.base),
            LseQuantity::Negated => number(-value, error).in_base(reading.base),
            LseQuantity::Maximum => number(most, error).in_base(reading.base),
            LseQuantity::BesideMaximum => number(value - most, error).in_base(reading.base),
            LseQuantity::Sum => {
                let sum = libm::exp2(value - most);
                number(sum, sum * error * (1.0 + error))
            }
            LseQuantity::Shifted(by) => match lse.in_base(reading.base) {
                Expected::Number { value, error } => number(value + by, error),
                other => other,
            },
        }
    }
}

/// The weights of a head of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// The row of each visible key among all keys, its score in units of log2, and its weight relative to the largest.
    pub(super) keys: Vec<(usize, f64, f64)>,
    /// The largest score.
    pub(super) most: f64,
    /// The sum of all weights, that of the sink included.
    pub(super) total: f64,
}

/// A problem, and the lowest bits of its keys and values, from which the exactness of sums follows.
pub(super) struct Reference<'a> {
    problem: &'a Problem,
    arithmetic: Arithmetic,
    /// The exponent of the lowest bit of each key and head.
    key_bits: &'a [i32],
    value_bits: &'a [i32],
}

/// Whether sums of multiples of 2^`bit` are exact in binary32 in every order if their magnitudes add up to `total`.
fn is_exact(total: f64, bit: i32) -> bool {
    // Also above the smallest number, so that nothing is flushed.
    bit > -120 && total < libm::ldexp(1.0, bit.min(900) + 24)
}

/// A visible key.
struct Key {
    /// Its row among all keys.
    row: usize,
    /// Its score.
    t: f64,
    /// The bound on the error of the product of query and key, scaled like t.
    product: f64,
    /// Its weight relative to the largest.
    weight: f64,
    /// The relative error of its weight.
    eta: f64,
    /// The relative error of rounding it to the type of weights.
    rho: f64,
    /// The same of later roundings that the denominator does not share.
    later: f64,
    /// What may be lost of it where it is subnormal in its type.
    absolute: f64,
}

/// What is common to the keys of a row.
struct Common {
    /// The largest score, that of the sink included.
    most: f64,
    /// The number of times that the maximum may rise, or that a tile may be rescaled.
    rises: f64,
    /// Whether every weight is exact: all scores are equal, and so is everything that leads to them.
    exact: bool,
    /// The keys whose weights are not lost.
    count: f64,
    /// The sum of all weights, that of the sink included.
    total: f64,
    /// The weight of the sink over the total.
    sink: f64,
    /// The error of the sink's weight.
    sink_eta: f64,
}

impl<'a> Reference<'a> {
    /// Prepares a problem.
    pub(super) fn new(problem: &'a Problem, arithmetic: Arithmetic) -> Self {
        let key_bits = problem.keys.lowest_bits(problem.shape.width);
        let value_bits = problem.values.lowest_bits(problem.shape.value_width);
        Self { problem, arithmetic, key_bits, value_bits }
    }

    /// The scores of the visible keys; if one is not a finite number, what every element of the row may be.
    fn keys(&self, request: &Request, row: usize, head: usize) -> Result<Vec<Key>, Expected> {
        let Problem { shape, semantics, .. } = self.problem;
        let kv_head = shape.kv_head(0, head);
        let query = self.problem.query(request.rows.start + row, head);
        let query_bit = lowest_bit(query);
        let of_query: f64 = query.iter().map(|q| f64::from(q.abs())).sum();
        let kappa = self.kappa(shape.width as f64);
        let slope = self.problem.slopes.get(head).map(|slope| f64::from(*slope));
        let mut keys = Vec::new();
        for key in self.problem.visible(request, row) {
            let at = request.keys.start + key;
            let (mut sum, mut size, mut of_key) = (0.0, 0.0, 0.0);
            for (q, k) in query.iter().zip(self.problem.keys.row(at, kv_head, shape.kv_heads, shape.width)) {
                let product = f64::from(*q) * f64::from(*k);
                sum += product;
                size += product.abs();
                of_key += f64::from(k.abs());
            }
            let factor = semantics.scale * self.problem.keys.factor(at, kv_head, shape.kv_heads);
            let bit = self.key_bits.get(at * shape.kv_heads + kv_head).copied().unwrap_or_default();
            let exact = is_exact(size, query_bit.saturating_add(bit));
            let mut product = if exact { 0.0 } else { factor.abs() * kappa * size };
            let rounding = |element: Element| {
                let Roundoff { relative, absolute } = element.roundoff();
                // Products of codes and scales are rounded in binary32 here, too.
                factor.abs() * ((relative + 2.0 * U) * size + absolute * of_query)
            };
            product += self.problem.keys.rounded.map_or(0.0, rounding);
            product += self.of_queries(factor, size, of_key);
            // The position of the row is that of its last key.
            let distance = (key as i64 - request.position - row as i64) as f64;
            let bias = slope.map_or(0.0, |slope| slope * distance);
            product += 4.0 * U * bias.abs();
            let mut cap = |score: f64, factor: f64| match semantics.cap {
                Some(cap) => {
                    let tanh = libm::tanh(score / cap);
                    // A tangent of exponentials errs in absolute terms.
                    product += factor.abs() * cap * ((TANH + 4.0 * U) * tanh.abs() + 16.0 * U);
                    cap * tanh
                }
                None => score,
            };
            let score = match semantics.score {
                ScoreOrder::Declared => cap(sum * factor + bias, 1.0),
                ScoreOrder::SlopeLast => cap(sum * factor, 1.0) + bias,
                ScoreOrder::CapFirst => cap(sum, factor) * factor + bias,
            };
            if !score.is_finite() {
                // A NaN reaches the sum of weights whatever the maximum is; an infinity may give anything.
                return Err(if score.is_nan() { Expected::Special(f64::NAN) } else { Expected::Open });
            }
            if semantics.sentinel.is_some_and(|sentinel| score < sentinel) {
                continue;
            }
            let log2 = std::f64::consts::LOG2_E;
            let (t, product) = (score * log2, product * log2);
            keys.push(Key {
                row: at,
                t,
                product,
                weight: 0.0,
                eta: 0.0,
                rho: 0.0,
                later: 0.0,
                absolute: 0.0,
            });
        }
        Ok(keys)
    }

    /// The relative error of a sum of so many products.
    fn kappa(&self, products: f64) -> f64 {
        match self.arithmetic.sum {
            ProductSum::Any => 1.5 * products * U,
            // N steps, each of which cuts its result by 2u and adds it with u; 4.9 has what the terms lose.
            ProductSum::BlockScaled => (products / 64.0).ceil() * (3.0 * U + 20.0 * libm::exp2(-35.0)),
        }
    }

    /// The error of a score by roundings of the elements of a query, and of their products with those of a key; `size` is the sum of the
    /// magnitudes of these products, and `of_key` that of the elements of the key.
    fn of_queries(&self, factor: f64, size: f64, of_key: f64) -> f64 {
        let (factor, width) = (factor.abs(), self.problem.shape.width as f64);
        let scaled = self.arithmetic.queries.map_or(0.0, |element| {
            let Roundoff { relative, absolute } = element.roundoff();
            // llama.cpp's mma kernel rounds the query, its factor and their product. The tile kernel rounds their product, a quarter of it
            // and the products of this with the key.
            let three = relative * (3.0 + 4.0 * relative) + 2.0 * U;
            factor * three * size + absolute * ((factor + 5.0) * of_key + 4.0 * width)
        });
        let products = self.arithmetic.products.map_or(0.0, |element| {
            let Roundoff { relative, absolute } = element.roundoff();
            factor * (relative * size + absolute * width)
        });
        scaled + products
    }

    /// Weights and their errors.
    fn weigh(&self, keys: &mut [Key], sink: Option<f64>) -> Common {
        let sink = sink.map(|sink| sink * std::f64::consts::LOG2_E);
        let of_keys = keys.iter().fold(f64::NEG_INFINITY, |most, key| most.max(key.t));
        let most = sink.map_or(of_keys, |sink| sink.max(of_keys));
        // After a key is read the running maximum lies between its score and the largest, so that only such scores matter.
        let same = keys.iter().all(|key| key.t == of_keys && key.product == 0.0);
        let exact = same && of_keys == 0.0;
        let tiles = keys.len().div_ceil(self.arithmetic.tile) as f64;
        let rises = if same { 0.0 } else { tiles.min(keys.len() as f64 - 1.0) };
        let zeros = keys.iter().filter(|key| key.t - most < LOST).count();
        // Where all relevant scores differ by whole numbers, weights are powers of two whatever the running maximum is.
        let off_grid = keys.iter().filter(|key| key.t - of_keys >= LOST).fold(0.0, |off: f64, key| {
            let difference = key.t - of_keys;
            off.max((difference - difference.round()).abs())
        });
        let roundoff = self.arithmetic.weights.roundoff();
        let of_types = roundoff.relative;
        let later = libm::pow(1.0 + of_types, f64::from(self.arithmetic.rescaled)) - 1.0;
        for key in keys.iter_mut() {
            key.weight = libm::exp2(key.t - most);
            let size = key.t.abs().max(of_keys.abs());
            let rounded = if exact { 0.0 } else { (16.0 + 3.0 * rises) * U * size + key.product };
            // A division for each tile errs like a further rescale.
            let divided = self.arithmetic.denominator == Denominator::Normalised;
            let factors = if divided { 2.0 } else { 1.0 } * (rises + 2.0) * (EX2 + 2.0 * U);
            let factors = if exact && !divided { 0.0 } else { factors };
            key.eta = libm::expm1(rounded * std::f64::consts::LN_2) + factors * 1.01;
            // A number within ε of one that the type has is rounded by at most ε.
            let is_most = of_keys - key.t <= 2.0 * rounded;
            let near = match () {
                () if is_most => Some(of_keys - key.t),
                () if off_grid < 1e-3 => Some(2.0 * off_grid),
                () => None,
            };
            let representable = self.problem.values.factors.is_empty() && !divided;
            let near = near.filter(|_| representable).map(|off| 2.0 * key.eta + off);
            key.rho = near.map_or(of_types, |near| near.min(of_types));
            key.later = if is_most { 0.0 } else { later };
            // Larger weights are normal numbers of their type, whose error is relative.
            let absolute = roundoff.absolute * self.arithmetic.headroom;
            let is_normal = key.weight * roundoff.relative >= absolute * 1.02;
            let flushed = if key.t - most < FLUSHED { key.weight } else { 0.0 };
            // In short sums a factor that rescales may be subnormal as well.
            let lost = if self.short_step().is_some() { 2.0 } else { 1.0 } * absolute.min(key.weight);
            key.absolute = if is_normal { 0.0 } else { lost } + flushed;
        }
        let count = self.problem.semantics.sink_count;
        let with_sink = sink.map_or(0.0, |sink| count * libm::exp2(sink - most));
        let total = keys.iter().map(|key| key.weight).sum::<f64>() + with_sink;
        let sink_eta = match sink {
            Some(0.0) if exact => 0.0,
            Some(sink) => {
                let size = sink.abs().max(most.abs());
                let rounded = (16.0 + 3.0 * rises) * U * size;
                libm::expm1(rounded * std::f64::consts::LN_2) + (rises + 2.0) * (EX2 + 2.0 * U) * 1.01
            }
            None => 0.0,
        };
        // Splits are merged by weights that are computed from their logarithms.
        if !exact {
            let merge = self.merge_error(most, keys.len());
            keys.iter_mut().for_each(|key| key.eta += merge);
        }
        Common {
            most,
            rises,
            exact: exact && sink.is_none_or(|sink| sink == 0.0),
            count: (keys.len() - zeros) as f64,
            total,
            sink: with_sink / total,
            sink_eta,
        }
    }

    /// The relative error of the weight of a split.
    fn merge_error(&self, most: f64, keys: usize) -> f64 {
        if self.arithmetic.partials.is_none() {
            return 0.0;
        }
        let of_merge = 4.0 * U * (most.abs() + libm::log2(keys.max(1) as f64)) + 2.0 * LG2;
        libm::expm1(of_merge * std::f64::consts::LN_2) + 2.0 * EX2
    }

    /// Computes the weights of a head of a row of a request; `None` if it sees no key, or a score is not a finite number.
    pub(super) fn line(&self, request: &Request, row: usize, head: usize) -> Option<Line> {
        let mut keys = self.keys(request, row, head).ok().filter(|keys| !keys.is_empty())?;
        let common = self.weigh(&mut keys, self.problem.sink(row, head));
        Some(Line {
            keys: keys.iter().map(|key| (key.row, key.t, key.weight)).collect(),
            most: common.most,
            total: common.total,
        })
    }

    /// Computes a head of a row of a request.
    pub(super) fn row(&self, request: &Request, row: usize, head: usize) -> Row {
        let mut own = self.own_row(request, row, head);
        let stale = self.problem.semantics.stale.and_then(|back| row.checked_sub(back));
        if let Some(stale) = stale {
            let stale = self.own_row(request, stale, head);
            own.output.iter_mut().zip(stale.output).for_each(|(own, stale)| *own = own.plus(stale));
        }
        own
    }

    /// Computes a head of a row of a request, whatever was left in its accumulator.
    fn own_row(&self, request: &Request, row: usize, head: usize) -> Row {
        let shape = &self.problem.shape;
        let width = shape.value_width;
        let mut keys = match self.keys(request, row, head) {
            Ok(keys) => keys,
            Err(all) => return Row { output: vec![all; width], lse: [all; 2], most: [f64::NEG_INFINITY; 2] },
        };
        let sink = self.problem.sink(row, head);
        if keys.is_empty() {
            return self.empty(sink);
        }
        let common = self.weigh(&mut keys, sink);
        let lse = self.logarithms(&keys, &common);
        let most = [keys.iter().fold(f64::NEG_INFINITY, |most, key| most.max(key.t)), common.most];
        if let Some(of) = self.arithmetic.two_level {
            let output = self.output_of_codes(of, &keys, &common, request, shape.kv_head(1, head));
            return Row { output, lse, most };
        }
        if let Some(of) = self.arithmetic.folded {
            let output = self.output_of_folded(of, &keys, &common, request, shape.kv_head(1, head));
            return Row { output, lse, most };
        }
        if let Some(merge) = self.problem.semantics.merge {
            merge_wrongly(&mut keys, &common, request, merge);
        }
        let mut output = self.output(&keys, &common, shape.kv_head(1, head));
        if self.problem.semantics.reads_hidden {
            self.poison(request, shape.kv_head(1, head), &mut output);
        }
        Row { output, lse, most }
    }

    /// The logarithms, base 2, of the sum of exponentials without and with that of the sink.
    fn logarithms(&self, keys: &[Key], common: &Common) -> [Expected; 2] {
        let Roundoff { relative, absolute } = self.arithmetic.weights.roundoff();
        // A constant in all exponents is subtracted from the logarithm again.
        let by_largest = self.arithmetic.two_level.is_some_and(|of| of.by_largest);
        let added = if by_largest { 16.0 * U * two_level::LARGEST_LOG2 } else { 0.0 };
        let sum = 1.5 * (keys.len() as f64 + 2.0 + common.rises) * U + added;
        // Relative to the largest score of the keys where the sink is left out: a kernel logs that sum before it adds the sink.
        let of_keys = keys.iter().fold(f64::NEG_INFINITY, |most, key| most.max(key.t));
        let weight = |key: &Key, most: f64| libm::exp2(key.t - most);
        let keys_alone: f64 = keys.iter().map(|key| weight(key, of_keys)).sum();
        [(of_keys, keys_alone, 0.0), (common.most, common.total, common.sink * common.sink_eta)].map(
            |(most, total, of_sink)| {
                let of_key = |key: &Key| {
                    let weight = weight(key, most);
                    let flushed = if key.t - most < FLUSHED { weight } else { 0.0 };
                    let is_normal = weight * relative >= absolute * 1.02;
                    let short = if is_normal { 0.0 } else { absolute.min(weight) };
                    match self.arithmetic.denominator {
                        Denominator::Unrounded | Denominator::Normalised => weight * key.eta + flushed,
                        Denominator::Rounded | Denominator::Either => {
                            weight * (key.eta + key.rho) + short + flushed
                        }
                    }
                };
                let eta = keys.iter().map(of_key).sum::<f64>() / total;
                let relative = eta + of_sink + sum;
                let error = std::f64::consts::LOG2_E * relative * (1.0 + relative) + 2.0 * LG2 + added;
                let value = most + libm::log2(total);
                Expected::Number { value, error: error + 8.0 * U * (value.abs() + most.abs()) }
            },
        )
    }

    /// Makes the elements NaN in which some value of the request is no finite number.
    fn poison(&self, request: &Request, kv_head: usize, output: &mut [Expected]) {
        let shape = &self.problem.shape;
        for key in request.keys.clone() {
            let row = self.problem.values.row(key, kv_head, shape.kv_heads, shape.value_width);
            for (expected, _) in output.iter_mut().zip(row).filter(|(_, value)| !value.is_finite()) {
                *expected = Expected::Special(f64::NAN);
            }
        }
    }

    /// A row that sees no key.
    fn empty(&self, sink: Option<f64>) -> Row {
        let lse_of_sink = |sink: f64| {
            let value = sink * std::f64::consts::LOG2_E;
            Expected::Number { value, error: 8.0 * U * value.abs() + 2.0 * LG2 }
        };
        let nothing = Expected::Special(f64::NEG_INFINITY);
        let (output, lse) = match self.problem.semantics.empty {
            Empty::Any => (Expected::Open, [Expected::Open; 2]),
            Empty::Nan => (Expected::Special(f64::NAN), [Expected::Open; 2]),
            Empty::Zero => {
                let zero = Expected::Number { value: 0.0, error: 0.0 };
                (zero, [nothing, sink.map_or(nothing, lse_of_sink)])
            }
        };
        Row { output: vec![output; self.problem.shape.value_width], lse, most: [f64::NEG_INFINITY; 2] }
    }

    /// The elements of the output.
    fn output(&self, keys: &[Key], common: &Common, kv_head: usize) -> Vec<Expected> {
        let Problem { shape, semantics, values, .. } = self.problem;
        let hot_key = keys.iter().max_by(|a, b| a.weight.total_cmp(&b.weight));
        let of = |key: &Key| values.row(key.row, kv_head, shape.kv_heads, shape.value_width);
        let factor = |key: &Key| semantics.value_scale * values.factor(key.row, kv_head, shape.kv_heads);
        let hot: Vec<f64> = hot_key
            .map_or_else(Vec::new, |hot| of(hot).iter().map(|v| f64::from(*v) * factor(hot)).collect());
        let (mut etas, mut rhos, mut absolutes) = (common.sink * common.sink_eta, 0.0, 0.0);
        let mut bit = i32::MAX / 4;
        let mut terms = Vec::with_capacity(keys.len());
        for key in keys {
            let share = key.weight / common.total;
            let grown = share * (1.0 + key.eta);
            let term = Term {
                row: of(key),
                factor: factor(key),
                weight: key.weight,
                share,
                eta: share * key.eta,
                rho: grown * key.rho,
                later: grown * key.later,
                absolute: key.absolute / common.total,
                others: if hot_key.is_some_and(|hot| std::ptr::eq(hot, key)) { 1.0 - share } else { share },
            };
            etas += term.eta;
            rhos += term.rho;
            absolutes += term.absolute;
            bit =
                bit.min(self.value_bits.get(key.row * shape.kv_heads + kv_head).copied().unwrap_or_default());
            terms.push(term);
        }
        let (out, mut sums) = summed::by_element(&terms, &hot, common.total);
        let exact = common.exact && keys.iter().all(|key| key.rho == 0.0) && values.factors.is_empty();
        if let Some(step) = self.short_step() {
            // What an addition loses is at most a half step of the sum, and at most what is added.
            for term in &terms {
                let share = term.share * term.factor.abs();
                for (sum, v) in sums.iter_mut().zip(term.row) {
                    sum.short += (step.relative * sum.size).min(share * f64::from(v.abs()));
                }
            }
        }
        let of_element = |((sum, value), hot): ((&Sums, f64), &f64)| {
            if !value.is_finite() {
                // An infinity times a weight of which nothing remains may be NaN.
                return if value.is_nan() { Expected::Special(f64::NAN) } else { Expected::Open };
            }
            let exact = exact && values.rounded.is_none() && self.arithmetic.accumulator == Element::F32;
            let mut error = self.error(sum, value, common, [etas, rhos, absolutes], exact.then_some(bit));
            if let Some(element) = values.rounded {
                let Roundoff { relative, absolute } = element.roundoff();
                error += (relative + 2.0 * U) * sum.size + absolute;
            }
            let error = error + self.of_partials(sum, *hot, error);
            let error = error + self.of_merges(sum, *hot, error);
            Expected::Number { value, error: error + 4.0 * U * value.abs() }
        };
        sums.iter().zip(out).zip(&hot).map(of_element).collect()
    }

    /// The error of an element before it is divided and stored; `bit` is the lowest one of the values if all weights are exact.
    fn error(
        &self,
        sum: &Sums,
        value: f64,
        common: &Common,
        [etas, rhos, absolutes]: [f64; 3],
        bit: Option<i32>,
    ) -> f64 {
        let left = |lost: f64| if lost < 0.5 { 1.0 - lost } else { f64::MIN_POSITIVE };
        let by_sink = common.sink * common.sink_eta * value.abs();
        let shared = (sum.eta + sum.rho_off + by_sink) / left(etas + rhos + absolutes);
        let apart = (sum.eta + by_sink + sum.rho) / left(etas);
        let of_weights = match self.arithmetic.denominator {
            Denominator::Rounded => shared,
            Denominator::Unrounded | Denominator::Normalised => apart,
            Denominator::Either => shared.max(apart),
        };
        let later = sum.later / left(etas);
        // Values may be scaled only after the sum: the factor does not change which sums are exact.
        let scale = self.problem.semantics.value_scale.abs();
        let total = sum.size * common.total / if scale > 0.0 { scale } else { 1.0 };
        let of_sums = match bit {
            Some(bit) if is_exact(total, bit) && common.total < 16_777_216.0 => 0.0,
            _ => {
                // Besides the additions, each rescale rounds its factor and its product, and up to eight sums of parts are added.
                let short = self.short_step().map_or(0.0, |Roundoff { relative, absolute }| {
                    let (rescales, all) = (2.0 * common.rises + 8.0, common.count + 2.0 * common.rises + 8.0);
                    let small = all * absolute * self.arithmetic.headroom / common.total;
                    (sum.short + rescales * relative * sum.size) * (1.0 + all * relative) + small
                });
                1.5 * (common.count + 2.0 + common.rises) * U * (sum.size + value.abs()) + short
            }
        };
        of_weights + later + sum.absolute / left(etas + rhos + absolutes) + of_sums
    }

    /// The half step of sums of values that are shorter than binary32.
    fn short_step(&self) -> Option<Roundoff> {
        Some(self.arithmetic.accumulator).filter(|of| *of != Element::F32).map(Element::roundoff)
    }

    /// The error of storing the results of splits: of each its half step, unless it is close to a number that the type has.
    fn of_partials(&self, sum: &Sums, hot: f64, error: f64) -> f64 {
        let Some(partials) = self.arithmetic.partials else { return 0.0 };
        let roundoff = partials.roundoff();
        let of_size = roundoff.relative * (sum.size + error) + roundoff.absolute;
        if partials.nearest(hot) == hot { of_size.min(sum.off_hot + error) } else { of_size }
    }

    /// The error of rounding results of parts of the keys while they are added up. Where only the key with the largest weight counts,
    /// each of these numbers is close to its value or to zero, by what the others contribute and by what was rounded before.
    fn of_merges(&self, sum: &Sums, hot: f64, error: f64) -> f64 {
        let weights = self.arithmetic.weights;
        let Roundoff { relative, absolute } = weights.roundoff();
        let times = f64::from(self.arithmetic.merges);
        let of_size = times * (relative * (sum.size + error) + absolute) * libm::pow(1.0 + relative, times);
        let of_others = (libm::exp2(times) - 1.0) * (sum.others + error);
        if weights.nearest(hot) == hot { of_size.min(of_others) } else { of_size }
    }
}

/// Changes weights to those that a wrong merge of splits gives, over the right divisor.
fn merge_wrongly(keys: &mut [Key], common: &Common, request: &Request, merge: WrongMerge) {
    let size = merge.split.size(request.keys.len());
    let part = |key: &Key| (key.row - request.keys.start) / size;
    // Of each split: the sum of its weights, and its largest score.
    let mut parts: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for key in keys.iter() {
        let (sum, most) = parts.entry(part(key)).or_insert((0.0, f64::NEG_INFINITY));
        *sum += key.weight;
        *most = most.max(key.t);
    }
    // The weight of the sink stays what it is.
    let weights: f64 = keys.iter().map(|key| key.weight).sum();
    let of_own: f64 = parts.values().map(|(sum, most)| sum * libm::exp2(common.most - most)).sum();
    let of_own = of_own + (common.total - weights);
    let count = parts.len() as f64;
    let largest = parts.values().fold(0.0, |most: f64, (sum, _)| most.max(*sum));
    // What a split counts for, of its logarithm in another base.
    let in_base = |sum: f64, factor: f64| libm::exp2(libm::log2(sum / largest) * factor);
    let (log2, ln2) = (std::f64::consts::LOG2_E, std::f64::consts::LN_2);
    let of_two: f64 = parts.values().map(|(sum, _)| in_base(*sum, log2)).sum();
    let of_e: f64 = parts.values().map(|(sum, _)| in_base(*sum, ln2)).sum();
    let reversed: BTreeMap<usize, f64> =
        parts.keys().copied().zip(parts.values().rev().map(|(sum, _)| *sum)).collect();
    let last = parts.last_key_value().map(|(part, (sum, _))| (*part, *sum));
    let of_last = last.map_or(0.0, |(_, sum)| sum);
    let total = common.total;
    for key in keys.iter_mut() {
        let own = part(key);
        let Some((sum, most)) = parts.get(&own) else { continue };
        let times = |is: f64| if last.is_some_and(|(part, _)| part == own) { is } else { 1.0 };
        key.weight *= match merge.fault {
            MergeFault::Averaged => total / count / sum,
            MergeFault::Added => total / sum,
            MergeFault::OwnMaximum => libm::exp2(common.most - most) * total / of_own,
            MergeFault::TwoAsE => in_base(*sum, log2) / of_two * weights / sum,
            MergeFault::EAsTwo => in_base(*sum, ln2) / of_e * weights / sum,
            MergeFault::Reversed => reversed.get(&own).map_or(1.0, |other| other / sum),
            MergeFault::LastTwice => times(2.0) * total / (total + of_last),
            MergeFault::DivisorWithoutLast => total / (total - of_last),
            MergeFault::Undivided => total,
        };
    }
}
