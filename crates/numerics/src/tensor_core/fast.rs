//! The fused sum of products in doubles, eight columns at a time: exact, and equal to the definition.
//!
//! All bits of a sum that survive the cut lie in a window of `fraction` + 8 places or fewer, far below the 53 of a
//! double. So where bounds show that no term reaches below the window, a plain dot product in doubles is exact.
//! Where C alone does, C is cut first; where products do, each is cut by the addition of a constant so large that
//! the sum has no place for the bits to drop. Infinities, NaNs and unusual shapes go the way of the definition.
//!
//! Loops run over arrays of eight with one operation each, which compilers turn into vectors.

use pulp::NullaryFnOnce;

use super::decoded::{Decoded, SPECIAL, Summary, ZERO, decode, exponents};
use super::exact::mma_exact_at;
use super::{MmaForm, Model, Operands, Rule};
use crate::dispatch;
use crate::format::{Format, power_of_two};

/// Columns of every `mma` but Volta's.
pub(super) const N: usize = 8;
/// The longest K of this kind.
const K: usize = 32;
/// Fused sums that one K takes at most.
const STEPS: usize = 2;

/// One number per column.
pub(super) type Lanes<T> = [T; N];

#[inline(always)]
pub(super) fn lanes<T>(f: impl FnMut(usize) -> T) -> Lanes<T> {
    std::array::from_fn(f)
}

/// [`lanes`] as a plain loop: a closure may be compiled apart, without the features that `dispatch` turns on.
macro_rules! each {
    ($n:ident => $value:expr) => {{
        let mut out = [Default::default(); N];
        for $n in 0..N {
            out[$n] = $value;
        }
        out
    }};
}

/// B by rows of K, eight columns side by side.
struct Columns {
    values: [Lanes<f64>; K],
    bounds: [Bounds; STEPS],
    /// Scale exponents.
    shifts: Lanes<i16>,
    special: Lanes<bool>,
}

/// The summaries of eight columns.
#[derive(Clone, Copy)]
struct Bounds {
    high: Lanes<i16>,
    low: Lanes<i16>,
    has_zero: Lanes<bool>,
}

/// The eight elements of C of one row.
pub(super) struct Addends {
    pub(super) values: Lanes<f64>,
    pub(super) high: Lanes<i16>,
    pub(super) low: Lanes<i16>,
}

/// One fused sum of one row.
struct Step<'a> {
    rule: &'a Rule,
    /// The elements of A.
    row: &'a [f64],
    summary: Summary,
    values: &'a [Lanes<f64>],
    bounds: &'a Bounds,
    addends: Addends,
    /// The power of two of both scales.
    shifts: Lanes<i16>,
}

/// Whether [`mma_products`] can compute `form`.
pub(super) fn fits(rule: &Rule, form: &MmaForm, operands: &Operands<'_>, d: &[u32]) -> bool {
    let shape = form.shape;
    let scaled = form.scale.is_some();
    shape.n == N
        && (1..=K).contains(&shape.k)
        && shape.k <= STEPS * rule.depth
        && form.scale.is_none_or(|(format, chunks)| format == Format::Ue8m0 && chunks == 1)
        && operands.a.len() >= shape.m * shape.k
        && operands.b.len() >= N * shape.k
        && operands.c.len() >= shape.m * N
        && (!scaled || (operands.sfa.len() >= shape.m && operands.sfb.len() >= N))
        && d.len() >= shape.m * N
}

/// `D = A·B + C` where [`fits`] holds and terms are products.
pub(super) fn mma_products(
    model: Model,
    rule: &Rule,
    form: &MmaForm,
    operands: &Operands<'_>,
    d: &mut [u32],
) {
    dispatch(Products { model, rule, form, operands, d });
}

/// [`mma_products`], compiled once for each set of vector instructions. They only differ in how many numbers they take
/// at a time.
struct Products<'a> {
    model: Model,
    rule: &'a Rule,
    form: &'a MmaForm,
    operands: &'a Operands<'a>,
    d: &'a mut [u32],
}

impl NullaryFnOnce for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { model, rule, form, operands, d } = self;
        products(model, rule, form, operands, d);
    }
}

#[inline(always)]
fn products(model: Model, rule: &Rule, form: &MmaForm, operands: &Operands<'_>, d: &mut [u32]) {
    let k = form.shape.k;
    let depth = rule.depth.min(k);
    let columns = Columns::of(form, depth, operands);
    let mut values = [0.0; K];
    // Few instructions need single exponents.
    let mut highs = None;
    let mut row_highs = [ZERO; K];
    let (c_rows, _) = operands.c.as_chunks::<N>();
    let (d_rows, _) = d.as_chunks_mut::<N>();
    let rows = operands.a.chunks_exact(k).zip(c_rows).zip(d_rows).take(form.shape.m);
    for (at, ((codes, c), out)) in rows.enumerate() {
        let (scale, nan) = scale_of(form, operands.sfa, at);
        let mut special = each!(n => columns.special[n] || nan);
        let shifts = each!(n => columns.shifts[n] + scale);
        *out = *c;
        for (step, codes) in codes.chunks(depth).enumerate() {
            let row = &mut values[..codes.len()];
            let summary = decode(form.a, codes, row);
            let addends = Addends::of(form.accumulator, out);
            for (flag, high) in special.iter_mut().zip(addends.high) {
                *flag |= summary.has_special || high == SPECIAL;
            }
            let from = step * depth;
            let step = Step {
                rule,
                row,
                summary,
                values: &columns.values[from..from + codes.len()],
                bounds: &columns.bounds[step],
                addends,
                shifts,
            };
            // Where one row needs single exponents, the next most likely does too.
            let uncut = if highs.is_none() { step.sums_without_cut() } else { None };
            let sums = match uncut {
                Some(sums) => sums,
                None => {
                    if highs.is_none() {
                        highs = Some(Columns::highs(form, operands));
                    }
                    let highs = highs.as_ref().map_or(&[][..], |highs| &highs[from..]);
                    exponents(form.a, codes, &mut row_highs);
                    step.sums_with_cut(&row_highs, highs)
                }
            };
            *out = rule.output.of_doubles(&sums);
        }
        if special.contains(&true) {
            for (column, slot) in out.iter_mut().enumerate().filter(|(column, _)| special[*column]) {
                *slot = mma_exact_at(model, form, at, column, operands, c[column]);
            }
        }
    }
}

/// The exponent of a `ue8m0` scale and whether it is NaN.
#[inline(always)]
fn scale_of(form: &MmaForm, codes: &[u32], at: usize) -> (i16, bool) {
    if form.scale.is_none() {
        return (0, false);
    }
    let code = codes.get(at).copied().unwrap_or(0) & 0xFF;
    (code as i16 - 127, code == 0xFF)
}

impl Columns {
    #[inline(always)]
    fn of(form: &MmaForm, depth: usize, operands: &Operands<'_>) -> Self {
        let k = form.shape.k;
        let nothing = Bounds { high: [ZERO; N], low: [SPECIAL; N], has_zero: [false; N] };
        let mut out =
            Self { values: [[0.0; N]; K], bounds: [nothing; STEPS], shifts: [0; N], special: [false; N] };
        let mut values = [0.0; K];
        for (column, codes) in operands.b.chunks_exact(k).take(N).enumerate() {
            let (scale, mut special) = scale_of(form, operands.sfb, column);
            for (step, codes) in codes.chunks(depth).enumerate() {
                let values = &mut values[..codes.len()];
                let summary = decode(form.b, codes, values);
                for (row, value) in out.values[step * depth..].iter_mut().zip(values) {
                    row[column] = *value;
                }
                let bounds = &mut out.bounds[step];
                bounds.high[column] = summary.high;
                bounds.low[column] = summary.low;
                bounds.has_zero[column] = summary.has_zero;
                special |= summary.has_special;
            }
            out.shifts[column] = scale;
            out.special[column] = special;
        }
        out
    }
}

impl Columns {
    /// The exponents of B, by rows of K.
    #[inline(always)]
    fn highs(form: &MmaForm, operands: &Operands<'_>) -> [Lanes<i16>; K] {
        let mut out = [[ZERO; N]; K];
        let mut highs = [ZERO; K];
        for (column, codes) in operands.b.chunks_exact(form.shape.k).take(N).enumerate() {
            exponents(form.b, codes, &mut highs);
            for (row, high) in out.iter_mut().zip(highs) {
                row[column] = high;
            }
        }
        out
    }
}

impl Addends {
    #[inline(always)]
    pub(super) fn of(accumulator: Format, bits: &Lanes<u32>) -> Self {
        let one = |bits: u32| Decoded::wide(accumulator, bits);
        let fields = each!(n => bits[n] >> 23 & 0xFF);
        let zeros = each!(n => bits[n] << 1 == 0);
        let mut plain = accumulator == Format::F32;
        for n in 0..N {
            plain &= (fields[n] != 0 || zeros[n]) && fields[n] != 0xFF;
        }
        if !plain {
            let decoded = bits.map(one);
            return Self {
                values: decoded.map(|d| d.value),
                high: decoded.map(|d| d.high),
                low: decoded.map(|d| d.low),
            };
        }
        // The lowest bit that is set, alone, is a power of two whose exponent is its place.
        let mut lowest = [0; N];
        for n in 0..N {
            let significand = (bits[n] & 0x007F_FFFF | 0x0080_0000).cast_signed();
            lowest[n] = ((significand & -significand) as f32).to_bits() >> 23;
        }
        let high = each!(n => if zeros[n] { ZERO } else { fields[n] as i16 - 127 });
        let low =
            each!(n => if zeros[n] { SPECIAL } else { (fields[n] + lowest[n]) as i16 - 127 - 127 - 23 });
        // `+ 0.0` makes a zero positive.
        Self { values: each!(n => f64::from(f32::from_bits(bits[n])) + 0.0), high, low }
    }
}

impl Step<'_> {
    /// The eight sums, where bounds on the exponents show that no bit of any is cut; a column with specials gives
    /// anything.
    #[inline(always)]
    fn sums_without_cut(&self) -> Option<Lanes<f64>> {
        let windows = self.windows(&each!(n => self.summary.high + self.bounds.high[n]));
        let products = self.lowest_products();
        let mut dropped = false;
        for n in 0..N {
            dropped |= windows[n] > products[n].min(self.addends.low[n]);
        }
        // No closure: it would be compiled without the features that `vectorize` turns on.
        if dropped { None } else { Some(self.finish(&self.dot(), &self.addends.values)) }
    }

    /// The eight sums, cut by the true largest exponents; `row` holds those of A, `columns` those of B.
    #[inline(always)]
    fn sums_with_cut(&self, row: &[i16], columns: &[Lanes<i16>]) -> Lanes<f64> {
        let mut largest = [2 * ZERO; N];
        for (a, b) in row.iter().zip(columns).take(self.row.len()) {
            for n in 0..N {
                largest[n] = largest[n].max(a + b[n]);
            }
        }
        let windows = self.windows(&largest);
        let products = self.lowest_products();
        let addends = each!(n => cut(self.addends.values[n], windows[n]));
        let mut products_drop = false;
        for n in 0..N {
            products_drop |= windows[n] > products[n];
        }
        let dots = if products_drop { self.cut_dot(&windows) } else { self.dot() };
        self.finish(&dots, &addends)
    }

    /// The lowest places that survive, given the largest exponents of the products.
    #[inline(always)]
    fn windows(&self, largest: &Lanes<i16>) -> Lanes<i16> {
        let zero = self.rule.zero_exponent as i16;
        let fraction = self.rule.fraction as i16;
        let any = self.summary.has_zero;
        let mut windows = [0; N];
        for n in 0..N {
            let high = self.addends.high[n];
            let zeros = any | self.bounds.has_zero[n] | (high == ZERO);
            let floor = if zeros { zero } else { ZERO };
            windows[n] = (largest[n] + self.shifts[n]).max(high).max(floor) - fraction;
        }
        windows
    }

    #[inline(always)]
    fn lowest_products(&self) -> Lanes<i16> {
        each!(n => self.summary.low + self.bounds.low[n] + self.shifts[n])
    }

    #[inline(always)]
    fn dot(&self) -> Lanes<f64> {
        // Sums are exact in any order; four of them side by side do not wait for each other.
        let mut parts = [[0.0; N]; 4];
        let (rows, rest) = self.row.as_chunks::<4>();
        let (columns, rest_columns) = self.values.as_chunks::<4>();
        for (elements, values) in rows.iter().zip(columns) {
            for (part, (element, values)) in parts.iter_mut().zip(elements.iter().zip(values)) {
                for n in 0..N {
                    part[n] += element * values[n];
                }
            }
        }
        for (element, values) in rest.iter().zip(rest_columns) {
            for n in 0..N {
                parts[0][n] += element * values[n];
            }
        }
        each!(n => (parts[0][n] + parts[1][n]) + (parts[2][n] + parts[3][n]))
    }

    /// The dot products with every product cut toward zero to whole multiples of its column's window.
    ///
    /// Each product has at most 22 bits and is below 2^27 windows. Less nearly half a window it is still exact in a
    /// double, and rounds to the cut value when 1.5·2^52 windows are added, which are then taken away again. The sums
    /// of all those are exact. They are sums of doubles, whose order compilers keep: of integers they would take several
    /// rows of B at once, and gather the elements of a column.
    #[inline(always)]
    fn cut_dot(&self, windows: &Lanes<i16>) -> Lanes<f64> {
        let unit = each!(n => power_of_two(i32::from(windows[n] - self.shifts[n])));
        let anchor = each!(n => unit[n] * ANCHOR);
        let nearly_half = each!(n => unit[n] * NEARLY_HALF);
        let mut sums = [0.0; N];
        // Sums of a few products each do not wait for one another.
        for (elements, rows) in self.row.chunks(4).zip(self.values.chunks(4)) {
            let mut part = [0.0; N];
            for (element, values) in elements.iter().zip(rows) {
                for n in 0..N {
                    let product = element * values[n];
                    let cut = (product - nearly_half[n].copysign(product)) + anchor[n];
                    part[n] += cut - anchor[n];
                }
            }
            for n in 0..N {
                sums[n] += part[n];
            }
        }
        sums
    }

    /// Scales the dot products and adds C.
    #[inline(always)]
    fn finish(&self, dots: &Lanes<f64>, addends: &Lanes<f64>) -> Lanes<f64> {
        each!(n => dots[n] * power_of_two(i32::from(self.shifts[n])) + addends[n])
    }
}

const ANCHOR: f64 = 1.5 * power_of_two(52);
const NEARLY_HALF: f64 = 0.5 - power_of_two(-26);

/// `value` cut toward zero at `window`, without a branch.
#[inline(always)]
pub(super) fn cut(value: f64, window: i16) -> f64 {
    let bits = value.to_bits();
    let leading = (bits >> 52 & 0x7FF).cast_signed() - 1023;
    let drop = 52 - leading + i64::from(window);
    // What is wholly below the window, a shift of 53 and more, is nothing.
    let kept = u64::MAX << drop.clamp(0, 63);
    f64::from_bits(if drop > 52 { 0 } else { bits & kept })
}
