//! Compares results with expected values: |result - expected| <= atol + rtol |expected|; exactly, if neither is given.

use std::ops::Range;

use emulator::GlobalMemory;
use emulator::argument::Element;
use emulator::trials::index_of;

use super::product::{Product, ProductResult};
use super::run::Outcome;
use super::session::{Buffer, Expectation, Session, Wanted};
use crate::frame::diagnosis::Diagnosis;
use crate::product::Bound;

/// The tolerance of a comparison with expected values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tolerance {
    /// `rtol`, relative to the expected value.
    pub relative: f64,
    /// `atol`, added to the relative tolerance.
    pub absolute: f64,
    /// `ulps`: a value that is so many steps of its floating-point type away matches, too.
    pub ulps: u64,
}

/// What decides whether an element is wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum Limit {
    /// A tolerance that the caller gives.
    Tolerance(Tolerance),
    /// The bound that is derived for a product, with what explains the wrong elements.
    Bound(Option<Box<Diagnosis>>),
}

/// One element that differs from its expected value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Its number, in the order of memory.
    pub element: usize,
    /// Its index, the outermost dimension first.
    pub index: Vec<usize>,
    /// Its value, or `unwritten`.
    pub got: String,
    /// The expected value.
    pub wanted: String,
}

/// The comparison of one buffer with its expected values.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The buffer.
    pub buffer: String,
    /// The number of its elements.
    pub elements: usize,
    /// The number of elements that differ by more than the tolerance.
    pub wrong: usize,
    /// The first of them.
    pub first: Option<Mismatch>,
    /// The number of elements that were compared.
    pub compared: usize,
    /// The largest difference of finite values; for a bound, the largest as a multiple of it.
    pub largest: f64,
    /// What decides.
    pub limit: Limit,
    /// Why nothing was compared.
    pub why: Option<String>,
}

/// Returns the expectation of a buffer.
///
/// # Errors
/// A message if the numbers of elements differ.
pub(super) fn expectation(
    buffer: usize,
    of: &Buffer,
    (element, bytes): (Element, Vec<u8>),
    unwritten: Vec<Range<usize>>,
    tolerance: Tolerance,
) -> Result<Expectation, String> {
    let (there, wanted) = (of.shape.count(), element.count_in(bytes.len()));
    if there != wanted {
        return Err(format!("buffer `{}` has {there} elements, but {wanted} are expected", of.name));
    }
    if tolerance.ulps > 0 && (element != of.shape.element || !element.is_float()) {
        let (own, other) = (of.shape.element.name(), element.name());
        return Err(format!(
            "`ulps` needs one floating-point type, and buffer `{}` is of {own}, its values of {other}",
            of.name
        ));
    }
    Ok(Expectation { buffer, wanted: Wanted::Values { element, bytes, unwritten, tolerance } })
}

impl Session {
    /// Compares a trial's results with all expectations, in order.
    #[must_use]
    pub fn check(&self, memory: &GlobalMemory, addresses: &[u64]) -> Vec<Checked> {
        self.expectations.iter().map(|expected| self.check_one(expected, memory, addresses)).collect()
    }

    /// Returns the names of buffers that kernels have changed but that have no expectation.
    #[must_use]
    pub fn not_compared(&self, outcome: &Outcome) -> Vec<String> {
        self.changed_buffers(outcome, false)
    }

    /// Whether at least one buffer that kernels have changed is compared.
    #[must_use]
    pub fn compares_results(&self, outcome: &Outcome) -> bool {
        !self.changed_buffers(outcome, true).is_empty()
    }

    /// Returns the names of buffers that kernels have changed and that are compared, or, if `compared` is false, that are not.
    fn changed_buffers(&self, outcome: &Outcome, compared: bool) -> Vec<String> {
        let is_compared = |n: usize| self.expectations.iter().any(|e| e.buffer == n);
        let wanted =
            |n: &usize| !self.buffers[*n].scratch && is_compared(*n) == compared && self.changed(*n, outcome);
        (0..self.buffers.len()).filter(wanted).map(|n| self.buffers[n].name.clone()).collect()
    }

    fn check_one(&self, expected: &Expectation, memory: &GlobalMemory, addresses: &[u64]) -> Checked {
        let buffer = &self.buffers[expected.buffer];
        let address = addresses[expected.buffer];
        let bytes = memory.contents(address).unwrap_or_default();
        match &expected.wanted {
            Wanted::Product(product) => check_product(buffer, product, &bytes),
            Wanted::Values { element, bytes: wanted, unwritten, tolerance } => {
                let values = Values { element: *element, bytes: wanted, unwritten, tolerance: *tolerance };
                values.check(buffer, &bytes, (memory, address))
            }
        }
    }
}

/// The result of a buffer of which nothing was compared yet.
fn nothing_compared(buffer: &Buffer, limit: Limit) -> Checked {
    Checked {
        buffer: buffer.name.clone(),
        elements: buffer.shape.count(),
        wrong: 0,
        first: None,
        compared: 0,
        largest: 0.0,
        limit,
        why: None,
    }
}

/// Judges a product.
fn check_product(buffer: &Buffer, product: &Product, bytes: &[u8]) -> Checked {
    let mut checked = nothing_compared(buffer, Limit::Bound(None));
    match product.judge(buffer.shape.element, bytes) {
        Ok(ProductResult { wrong, first, largest, diagnosis }) => {
            (checked.compared, checked.wrong, checked.largest) = (checked.elements, wrong, largest);
            checked.first = first.map(|([row, column], Bound { value, error })| {
                let element = row * buffer.shape.dims.last().copied().unwrap_or(1) + column;
                let code = buffer.shape.element.code_at(bytes, element);
                let got = code.map_or_else(String::new, |code| buffer.shape.element.show(code));
                let wanted = format!("{value} ± {error:.3e}");
                Mismatch { element, index: vec![row, column], got, wanted }
            });
            checked.limit = Limit::Bound(diagnosis.map(Box::new));
        }
        Err(why) => checked.why = Some(why),
    }
    checked
}

/// Expected values.
struct Values<'a> {
    element: Element,
    bytes: &'a [u8],
    unwritten: &'a [Range<usize>],
    tolerance: Tolerance,
}

impl Values<'_> {
    /// Compares the bytes of a buffer, which is at an address of this memory.
    fn check(&self, buffer: &Buffer, bytes: &[u8], (memory, address): (&GlobalMemory, u64)) -> Checked {
        let element = buffer.shape.element;
        let tolerance = self.tolerance;
        let mut checked = nothing_compared(buffer, Limit::Tolerance(tolerance));
        let whole = memory.is_written(address, 0, bytes.len());
        for n in 0..checked.elements {
            let (Some(got), Some(want)) = (element.code_at(bytes, n), self.element.code_at(self.bytes, n))
            else {
                continue;
            };
            let (at, len) = (n * element.bits() / 8, element.bits().div_ceil(8));
            if self.unwritten.iter().any(|run| run.contains(&at)) {
                continue;
            }
            checked.compared += 1;
            let written = whole || memory.is_written(address, at, len);
            let difference = difference((element, got), (self.element, want));
            let limit = tolerance.absolute + tolerance.relative * self.element.value(want).abs();
            if written && difference.is_finite() {
                checked.largest = checked.largest.max(difference);
            }
            // An infinite expected value makes the limit infinite; only the same infinity matches it.
            let is_near = difference == 0.0
                || difference.is_finite()
                    && (difference <= limit || steps(element, got, want) <= tolerance.ulps);
            if written && is_near {
                continue;
            }
            checked.wrong += 1;
            checked.first.get_or_insert_with(|| Mismatch {
                element: n,
                index: index_of(n, &buffer.shape.dims),
                got: if written { element.show(got) } else { "unwritten".to_owned() },
                wanted: self.element.show(want),
            });
        }
        if checked.compared == 0 {
            checked.why = Some("none of its elements is compared".to_owned());
        }
        checked
    }
}

/// The steps between two numbers of a floating-point type: 0 for equal codes and for zeros of either sign.
fn steps(element: Element, one: u64, other: u64) -> u64 {
    let sign = 1_u64 << (element.bits() - 1);
    let order = |code: u64| {
        let magnitude = i128::from(code & (sign - 1));
        if code & sign == 0 { magnitude } else { -magnitude }
    };
    u64::try_from((order(one) - order(other)).unsigned_abs()).unwrap_or(u64::MAX)
}

/// Returns the difference of two values: 0 only if they are equal, where NaNs are equal to each other.
fn difference((one, a): (Element, u64), (other, b): (Element, u64)) -> f64 {
    if let (Some(a), Some(b)) = (one.integer(a), other.integer(b)) {
        return (a - b).unsigned_abs() as f64;
    }
    let (a, b) = (one.value(a), other.value(b));
    match a == b || a.is_nan() && b.is_nan() {
        true => 0.0,
        // Never 0: the difference of two unequal values is at least a subnormal.
        false if a.is_nan() || b.is_nan() => f64::INFINITY,
        false => (a - b).abs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_means_equal_values() {
        let f32 = |x: f32| (Element::F32, u64::from(x.to_bits()));
        let s32 = |x: i32| (Element::S32, u64::from(x.cast_unsigned()));
        assert_eq!(difference(f32(1.5), (Element::F64, 1.5f64.to_bits())), 0.0);
        assert_eq!(difference(f32(f32::NAN), f32(-f32::NAN)), 0.0);
        assert_eq!(difference(f32(f32::NAN), f32(1.0)), f64::INFINITY);
        assert_eq!(difference(f32(f32::INFINITY), f32(f32::MAX)), f64::INFINITY);
        assert_eq!(difference(f32(0.0), f32(-0.0)), 0.0);
        assert_eq!(difference(s32(-1), (Element::U32, 0xFFFF_FFFF)), 4_294_967_296.0);
        assert_eq!(steps(Element::F32, f32(1.0).1, f32(1.0 + 2.0 * f32::EPSILON).1), 2);
        assert_eq!(steps(Element::F32, f32(f32::from_bits(1)).1, f32(-f32::from_bits(2)).1), 3);
        assert_eq!(steps(Element::F32, f32(0.0).1, f32(-0.0).1), 0);
        assert_eq!(steps(Element::Bf16, 0x3F80, 0x3F81), 1);
        // Integers that agree in their upper 53 bits are still not equal.
        let u64 = |x: u64| (Element::U64, x);
        assert_eq!(difference(u64(u64::MAX), u64(u64::MAX - 1)), 1.0);
    }
}
