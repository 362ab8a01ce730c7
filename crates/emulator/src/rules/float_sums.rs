//! Sums made by float atomics, per element. Their rounding, and so the last bits of the result, depends on the order of the adds.
//! The operands bound how far the results of two orders can differ.
//!
//! Adding n numbers in any order with rounding to nearest, unit roundoff u, errs by at most (n − 1) u Σ|xᵢ| (Jeannerod and Rump,
//! "Improved error bounds for inner products in floating-point arithmetic", SIAM J. Matrix Anal. Appl. 34, 2013; without the
//! denominator 1 − (n − 1) u of Higham, "Accuracy and Stability of Numerical Algorithms", 4.2, and so for every n). Two orders
//! differ by at most twice that. An add that flushes subnormals errs by less than the least normal number more.

use rustc_hash::FxHashMap;

use numerics::Format;
use ptx::Type;

/// An element type that float atomics can add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FloatType {
    /// binary16.
    F16,
    /// The upper half of binary32.
    Bf16,
    /// binary32.
    F32 {
        /// Whether subnormals are flushed to zero.
        flush: bool,
    },
    /// binary64.
    F64,
}

impl FloatType {
    pub(crate) fn added(ty: Type, flush: bool) -> Option<Self> {
        Some(match ty {
            Type::F16 | Type::F16x2 => Self::F16,
            Type::Bf16 | Type::Bf16x2 => Self::Bf16,
            Type::F32 => Self::F32 { flush },
            Type::F64 => Self::F64,
            _ => return None,
        })
    }

    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 { .. } => 4,
            Self::F64 => 8,
        }
    }

    /// The unit roundoff: half the distance from 1 to the next larger number.
    #[must_use]
    pub fn unit_roundoff(self) -> f64 {
        let digits = match self {
            Self::F16 => 11,
            Self::Bf16 => 8,
            Self::F32 { .. } => 24,
            Self::F64 => 53,
        };
        (-f64::from(digits)).exp2()
    }

    /// Decodes a value.
    #[must_use]
    pub fn value(self, code: u64) -> f64 {
        match self {
            Self::F16 => f64::from(Format::F16.decode(code as u32)),
            Self::Bf16 => f64::from(Format::Bf16.decode(code as u32)),
            Self::F32 { .. } => f64::from(f32::from_bits(code as u32)),
            Self::F64 => f64::from_bits(code),
        }
    }
}

/// Record of what was added to one element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FloatSum {
    /// The element type.
    pub ty: FloatType,
    /// Number of terms: the initial value, unless it was 0, and one per add.
    pub terms: u64,
    /// Sum of the magnitudes of all terms.
    pub magnitude: f64,
}

impl FloatSum {
    /// Upper bound on the difference between two orders of the adds; infinite if a term is not finite.
    #[must_use]
    pub fn bound(&self) -> f64 {
        let adds = self.terms.saturating_sub(1) as f64;
        // The magnitude is itself a rounded sum.
        let magnitude = self.magnitude * (1.0 + 2.0 * adds * f64::EPSILON);
        let flushed = match self.ty {
            FloatType::F32 { flush: true } => 2.0 * self.terms as f64 * f64::from(f32::MIN_POSITIVE),
            _ => 0.0,
        };
        2.0 * adds * self.ty.unit_roundoff() * magnitude + flushed
    }
}

/// The sums in one memory, by element address; `None` if they are not tracked. Any other write to an element ends its sum.
#[derive(Debug, Clone, Default)]
pub(crate) struct FloatSums(Option<FxHashMap<u64, FloatSum>>);

impl FloatSums {
    /// Records a write that is not a float add.
    #[inline]
    pub(crate) fn written(&mut self, address: u64, len: usize) {
        if self.0.is_some() {
            self.end(address, len);
        }
    }

    #[cold]
    fn end(&mut self, address: u64, len: usize) {
        let Some(sums) = &mut self.0 else { return };
        let end = address.saturating_add(len as u64);
        // Elements begin at multiples of their size, which is at least 2; one of 8 bytes may begin before the range.
        if len / 2 > sums.len() {
            sums.retain(|at, sum| *at >= end || *at + sum.ty.bytes() as u64 <= address);
            return;
        }
        for at in ((address & !7)..end).step_by(2) {
            if sums.get(&at).is_some_and(|sum| at + sum.ty.bytes() as u64 > address) {
                sums.remove(&at);
            }
        }
    }

    /// Whether sums are tracked.
    pub(crate) fn tracked(&self) -> bool {
        self.0.is_some()
    }

    /// Records that elements from `address` on changed from `old` to `old + added`.
    pub(crate) fn add_all(&mut self, address: u64, ty: FloatType, old: &[u8], added: &[u8]) {
        let Some(sums) = &mut self.0 else { return };
        let size = ty.bytes();
        let value = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            ty.value(u64::from_le_bytes(word))
        };
        for (n, (old, added)) in old.chunks_exact(size).zip(added.chunks_exact(size)).enumerate() {
            let before = value(old);
            let first = FloatSum { ty, terms: u64::from(before != 0.0), magnitude: before.abs() };
            let known = sums.entry(address + (n * size) as u64).or_insert(first);
            // A sum of another type counts as a single number.
            if known.ty != ty {
                *known = first;
            }
            known.terms += 1;
            known.magnitude += value(added).abs();
        }
    }

    /// Merges the sums of a clone for bytes that it wrote.
    pub(crate) fn adopt(&mut self, clone: &Self, address: u64, len: usize) {
        self.written(address, len);
        let (Some(sums), Some(theirs)) = (&mut self.0, &clone.0) else { return };
        if !theirs.is_empty() {
            let written = (address..address.saturating_add(len as u64)).step_by(2);
            sums.extend(written.filter_map(|at| theirs.get(&at).map(|sum| (at, *sum))));
        }
    }

    /// The sum at an element address.
    pub(crate) fn at(&self, address: u64) -> Option<FloatSum> {
        self.0.as_ref()?.get(&address).copied()
    }
}

impl crate::memory::global::GlobalMemory {
    /// Starts recording the sums that float atomics make, for [`Self::float_sum`]. Costs about 40 bytes per element added to.
    pub fn track_float_sums(&mut self) {
        self.sums.0.get_or_insert_default();
    }

    /// Ends the recording and forgets all sums.
    pub(crate) fn forget_float_sums(&mut self) {
        self.sums = FloatSums::default();
    }

    /// The sum of the element that contains the byte at `address`, with the element's address.
    #[must_use]
    pub fn float_sum(&self, address: u64) -> Option<(u64, FloatSum)> {
        [2, 4, 8].into_iter().find_map(|size| {
            let at = address & !(size - 1);
            self.sums.at(at).filter(|sum| at + sum.ty.bytes() as u64 > address).map(|sum| (at, sum))
        })
    }

    /// Number of elements in `len` bytes from `base` on that are such sums.
    #[must_use]
    pub fn float_sums(&self, base: u64, len: usize) -> usize {
        let inside = |at: &&u64| (base..base.saturating_add(len as u64)).contains(*at);
        self.sums.0.as_ref().map_or(0, |sums| sums.keys().filter(inside).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::global::GlobalMemory;

    const F32: FloatType = FloatType::F32 { flush: false };

    fn add(memory: &mut GlobalMemory, at: u64, ty: FloatType, old: f32, added: f32) {
        memory.track_float_sums();
        memory.sums.add_all(at, ty, &old.to_le_bytes(), &added.to_le_bytes());
    }

    #[test]
    fn a_sum_counts_its_terms_until_something_else_is_written() {
        let mut memory = GlobalMemory::default();
        add(&mut memory, 16, F32, 0.0, 1.0);
        add(&mut memory, 16, F32, 1.0, -3.0);
        add(&mut memory, 20, F32, 5.0, 1.0);
        let (at, sum) = memory.float_sum(19).unwrap();
        assert_eq!((at, sum.terms, sum.magnitude), (16, 2, 4.0));
        assert_eq!(memory.float_sum(20).unwrap().1.terms, 2);
        assert_eq!((memory.float_sums(16, 8), memory.float_sums(20, 8)), (2, 1));
        // One add to zero is exact in any order.
        let one = FloatSum { ty: F32, terms: 1, magnitude: 4.0 };
        assert_eq!(one.bound(), 0.0);
        let sum = FloatSum { terms: 3, ..one };
        assert!((sum.bound() / (2.0 * 2.0 * 2f64.powi(-24) * 4.0) - 1.0).abs() < 1e-9);
        // A clone's write ends a sum, also in the original once it adopts the bytes.
        let mut clone = memory.clone();
        add(&mut clone, 24, F32, 0.0, 2.0);
        clone.sums.written(16, 4);
        memory.sums.adopt(&clone.sums, 16, 4);
        memory.sums.adopt(&clone.sums, 24, 4);
        assert!(memory.float_sum(16).is_none() && memory.float_sum(20).is_some());
        assert_eq!(memory.float_sum(24).unwrap().1.magnitude, 2.0);
        add(&mut memory, 16, F32, 0.0, 1.0);
        memory.sums.written(23, 1);
        assert!(memory.float_sum(20).is_none() && memory.float_sum(16).is_some());
        memory.sums.written(0, 1 << 20);
        assert!(memory.float_sum(16).is_none());
    }

    #[test]
    fn two_orders_of_any_numbers_lie_within_the_bound() {
        let mut state = 1u64;
        for n in [2usize, 3, 10, 300, 5000] {
            let numbers: Vec<f32> = (0..n)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 40) as f32 - 8_388_608.0
                })
                .collect();
            let up: f32 = numbers.iter().sum();
            let down: f32 = numbers.iter().rev().sum();
            let magnitude = numbers.iter().map(|x| f64::from(x.abs())).sum();
            let bound = FloatSum { ty: F32, terms: n as u64, magnitude }.bound();
            assert!(f64::from((up - down).abs()) <= bound, "{n}: {up} {down} {bound}");
        }
    }
}
