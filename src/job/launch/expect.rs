//! Compares results with expected values: |result - expected| <= atol + rtol |expected|; exactly, if neither is given.

use emulator::GlobalMemory;
use emulator::argument::Element;
use emulator::trials::index_of;

use super::run::Outcome;
use super::session::{Buffer, Expectation, Session};

/// The tolerance of a comparison with expected values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tolerance {
    /// `rtol`, relative to the expected value.
    pub relative: f64,
    /// `atol`, added to the relative tolerance.
    pub absolute: f64,
}

/// One element that differs from its expected value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
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
    /// The largest difference of finite values.
    pub largest: f64,
    /// The tolerance of the comparison.
    pub tolerance: Tolerance,
}

/// Returns the expectation of a buffer.
///
/// # Errors
/// A message if the numbers of elements differ.
pub(super) fn expectation(
    buffer: usize,
    of: &Buffer,
    element: Element,
    bytes: Vec<u8>,
    tolerance: Tolerance,
) -> Result<Expectation, String> {
    let (there, wanted) = (of.shape.count(), element.count_in(bytes.len()));
    if there != wanted {
        return Err(format!("buffer `{}` has {there} elements, but {wanted} are expected", of.name));
    }
    Ok(Expectation { buffer, element, bytes, unwritten: Vec::new(), tolerance })
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
        let element = buffer.shape.element;
        let address = addresses[expected.buffer];
        let bytes = memory.contents(address).unwrap_or_default();
        let mut checked = Checked {
            buffer: buffer.name.clone(),
            elements: buffer.shape.count(),
            wrong: 0,
            first: None,
            largest: 0.0,
            tolerance: expected.tolerance,
        };
        let whole = memory.is_written(address, 0, bytes.len());
        for n in 0..checked.elements {
            let (Some(got), Some(want)) =
                (element.code_at(&bytes, n), expected.element.code_at(&expected.bytes, n))
            else {
                continue;
            };
            let (at, len) = (n * element.bits() / 8, element.bits().div_ceil(8));
            if expected.unwritten.iter().any(|run| run.contains(&at)) {
                continue;
            }
            let written = whole || memory.is_written(address, at, len);
            let difference = difference((element, got), (expected.element, want));
            let limit = expected.tolerance.absolute
                + expected.tolerance.relative * expected.element.value(want).abs();
            if written && difference.is_finite() {
                checked.largest = checked.largest.max(difference);
            }
            // An infinite expected value makes the limit infinite; only the same infinity matches it.
            if written && (difference == 0.0 || difference.is_finite() && difference <= limit) {
                continue;
            }
            checked.wrong += 1;
            checked.first.get_or_insert_with(|| Mismatch {
                index: index_of(n, &buffer.shape.dims),
                got: if written { element.show(got) } else { "unwritten".to_owned() },
                wanted: expected.element.show(want),
            });
        }
        checked
    }
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
        // Integers that agree in their upper 53 bits are still not equal.
        let u64 = |x: u64| (Element::U64, x);
        assert_eq!(difference(u64(u64::MAX), u64(u64::MAX - 1)), 1.0);
    }
}
