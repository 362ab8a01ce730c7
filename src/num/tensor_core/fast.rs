//! The fused sum of products in doubles, eight columns at a time: exact, and equal to the definition.
//!
//! All bits of a sum that survive the cut lie in a window of `fraction` + 8 places or fewer, far below the 53 of a
//! double. So where bounds show that no term reaches below the window, a plain dot product in doubles is exact.
//! Where C alone does, C is cut first; where products do, each is cut by the addition of a constant so large that
//! the sum has no place for the bits to drop. Infinities, NaNs and unusual shapes go the way of the definition.

use super::decoded::{Decoded, SPECIAL, Summary, ZERO, decode};
use super::exact::mma_exact_at;
use super::{MmaForm, Model, Operands, Rule};
use crate::num::format::{Format, Parts, power_of_two};

/// Columns of every `mma` but Volta's.
pub(super) const N: usize = 8;
/// The longest K of this kind.
const K: usize = 32;
/// Fused sums that one K takes at most.
const STEPS: usize = 2;

/// B by rows of K, eight columns side by side.
struct Columns {
    values: [[f64; N]; K],
    highs: [[i16; N]; K],
    summaries: [[Summary; N]; STEPS],
    scales: [i32; N],
    special: [bool; N],
}

/// One fused sum of one row: its elements of A, and what C and the scales contribute to each column.
struct Step<'a> {
    rule: &'a Rule,
    elements: &'a [Decoded],
    values: &'a [[f64; N]],
    highs: &'a [[i16; N]],
    row: Summary,
    columns: &'a [Summary; N],
    addends: [Decoded; N],
    /// The power of two of both scales.
    shifts: [i32; N],
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
    let k = form.shape.k;
    let depth = rule.depth.min(k);
    let columns = Columns::of(form, depth, operands);
    let mut elements = [Decoded::NOTHING; K];
    let elements = &mut elements[..k];
    let (c_rows, _) = operands.c.as_chunks::<N>();
    let (d_rows, _) = d.as_chunks_mut::<N>();
    let rows = operands.a.chunks_exact(k).zip(c_rows).zip(d_rows).take(form.shape.m);
    for (at, ((codes, c), out)) in rows.enumerate() {
        decode(form.a, codes, elements);
        let (scale, nan) = scale_of(form, operands.sfa, at);
        let mut special = columns.special.map(|special| special || nan);
        let mut shifts = columns.scales;
        for shift in &mut shifts {
            *shift += scale;
        }
        *out = *c;
        let steps = elements.chunks(depth).zip(columns.values[..k].chunks(depth));
        for (((elements, values), highs), columns) in
            steps.zip(columns.highs[..k].chunks(depth)).zip(&columns.summaries)
        {
            let row = Summary::of(elements);
            let addends = out.map(|bits| decode_addend(form.accumulator, bits));
            for (flag, addend) in special.iter_mut().zip(&addends) {
                *flag |= row.has_special() || addend.high == SPECIAL;
            }
            let step = Step { rule, elements, values, highs, row, columns, addends, shifts };
            *out = step.sums().map(|sum| rule.output.of_double(sum));
        }
        for (column, slot) in out.iter_mut().enumerate() {
            if special[column] {
                *slot = mma_exact_at(model, form, at, column, operands, c[column]);
            }
        }
    }
}

/// The exponent of a scale and whether it is NaN.
fn scale_of(form: &MmaForm, codes: &[u32], at: usize) -> (i32, bool) {
    let Some((format, _)) = form.scale else { return (0, false) };
    match format.parts(codes.get(at).copied().unwrap_or(0)) {
        Parts::Finite { exponent, .. } => (exponent, false),
        Parts::Nan | Parts::Infinite { .. } => (0, true),
    }
}

/// [`Decoded::of`] with a short way for normal floats.
pub(super) fn decode_addend(accumulator: Format, bits: u32) -> Decoded {
    let field = (bits >> 23 & 0xFF) as i16;
    if accumulator != Format::F32 || field == 0 || field == 0xFF {
        return Decoded::of(accumulator.parts(bits));
    }
    let high = field - 127;
    let zeros = (bits | 1 << 23).trailing_zeros() as i16;
    Decoded { value: f64::from(f32::from_bits(bits)), high, low: high - 23 + zeros }
}

impl Columns {
    fn of(form: &MmaForm, depth: usize, operands: &Operands<'_>) -> Self {
        let k = form.shape.k;
        let mut out = Self {
            values: [[0.0; N]; K],
            highs: [[ZERO; N]; K],
            summaries: [[Summary::NOTHING; N]; STEPS],
            scales: [0; N],
            special: [false; N],
        };
        let mut elements = [Decoded::NOTHING; K];
        for (column, codes) in operands.b.chunks_exact(k).take(N).enumerate() {
            decode(form.b, codes, &mut elements[..k]);
            for (at, element) in elements[..k].iter().enumerate() {
                out.values[at][column] = element.value;
                out.highs[at][column] = element.high;
            }
            let (scale, nan) = scale_of(form, operands.sfb, column);
            out.scales[column] = scale;
            out.special[column] = nan;
            for (summaries, part) in out.summaries.iter_mut().zip(elements[..k].chunks(depth)) {
                summaries[column] = Summary::of(part);
                out.special[column] |= summaries[column].has_special();
            }
        }
        out
    }
}

impl Step<'_> {
    /// The eight sums, cut where they must be; a column with specials gives anything.
    fn sums(&self) -> [f64; N] {
        let mut windows = [0; N];
        let mut exact = true;
        for (column, window) in windows.iter_mut().enumerate() {
            let other = &self.columns[column];
            let products = self.row.high + other.high + self.shifts[column];
            *window = self.window(column, products);
            exact &= *window <= self.lowest_product(column) && *window <= i32::from(self.addends[column].low);
        }
        if exact {
            return self.finish(&self.dot(), |addend, _| addend.value, &windows);
        }
        // The bounds on the largest exponent are not tight: find it, and see again.
        let largest = self.largest_exponents();
        let mut products_fit = true;
        for (column, window) in windows.iter_mut().enumerate() {
            *window = self.window(column, i32::from(largest[column]) + self.shifts[column]);
            products_fit &= *window <= self.lowest_product(column);
        }
        let dots = if products_fit { self.dot() } else { self.cut_dot(&windows) };
        self.finish(&dots, cut_addend, &windows)
    }

    /// The lowest place that survives, given the largest exponent of the products.
    fn window(&self, column: usize, products: i32) -> i32 {
        let addend = i32::from(self.addends[column].high);
        let zeros = self.row.has_zero || self.columns[column].has_zero || self.addends[column].is_zero();
        let zero = if zeros { self.rule.zero_exponent } else { i32::from(ZERO) };
        products.max(addend).max(zero) - self.rule.fraction
    }

    fn lowest_product(&self, column: usize) -> i32 {
        self.row.low + self.columns[column].low + self.shifts[column]
    }

    fn dot(&self) -> [f64; N] {
        let mut sums = [0.0; N];
        for (element, values) in self.elements.iter().zip(self.values) {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += element.value * value;
            }
        }
        sums
    }

    /// The largest exponent of a product that is not zero.
    fn largest_exponents(&self) -> [i16; N] {
        let mut largest = [2 * ZERO; N];
        for (element, highs) in self.elements.iter().zip(self.highs) {
            for (slot, high) in largest.iter_mut().zip(highs) {
                *slot = (*slot).max(element.high + high);
            }
        }
        largest
    }

    /// The dot products with every product cut toward zero to whole multiples of its column's window.
    ///
    /// Each product has at most 22 bits and is below 2^27 windows. Less nearly half a window it is still exact in a
    /// double, and rounds to the cut value when 1.5·2^52 windows are added. The sums of all those stay in one binade,
    /// where the bits of a double count windows.
    fn cut_dot(&self, windows: &[i32; N]) -> [f64; N] {
        let unit: [f64; N] = std::array::from_fn(|n| power_of_two(windows[n] - self.shifts[n]));
        let anchor = unit.map(|unit| unit * ANCHOR);
        let nearly_half = unit.map(|unit| unit * NEARLY_HALF);
        let mut counts = [0u64; N];
        for (element, values) in self.elements.iter().zip(self.values) {
            for n in 0..N {
                let product = element.value * values[n];
                let cut = (product - nearly_half[n].copysign(product)) + anchor[n];
                counts[n] = counts[n].wrapping_add(cut.to_bits());
            }
        }
        let terms = self.elements.len() as u64;
        std::array::from_fn(|n| {
            let count = counts[n].wrapping_sub(anchor[n].to_bits().wrapping_mul(terms));
            count.cast_signed() as f64 * unit[n]
        })
    }

    /// Scales the dot products and adds C.
    fn finish(&self, dots: &[f64; N], addend: impl Fn(&Decoded, i32) -> f64, windows: &[i32; N]) -> [f64; N] {
        std::array::from_fn(|n| dots[n] * power_of_two(self.shifts[n]) + addend(&self.addends[n], windows[n]))
    }
}

const ANCHOR: f64 = 1.5 * power_of_two(52);
const NEARLY_HALF: f64 = 0.5 - power_of_two(-26);

/// C cut toward zero at `window`.
fn cut_addend(addend: &Decoded, window: i32) -> f64 {
    let dropped = window - i32::from(addend.low);
    if dropped <= 0 {
        return addend.value;
    }
    // All bits of the double below `window`, which is `high - window` places below the leading one.
    let bits = addend.value.to_bits();
    let leading = (bits >> 52 & 0x7FF) as i32 - 1023;
    match 52 - (leading - window) {
        ..=0 => addend.value,
        drop @ 1..=52 => f64::from_bits(bits & (u64::MAX << drop)),
        _ => 0.0,
    }
}
