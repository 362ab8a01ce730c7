//! Compares what two trials leave in the results: byte by byte, and sums of float atomics within the rounding error that
//! reordering can cause.

use std::ops::Range;

use super::cycle::Unequal;
use super::verdict::{Open, Sums, Undetermined};
use crate::api::element::Element;
use crate::memory::global::GlobalMemory;
use crate::rules::float_sums::FloatSum;

/// A buffer whose contents are results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultBuffer {
    /// Its name in the verdict.
    pub name: String,
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub len: usize,
    /// The type of its elements.
    pub element: Element,
    /// Its elements per dimension, outermost first.
    pub dims: Vec<usize>,
    /// Whether the host reads it after the launches: undefined bytes in it are a violation. In memory that persists they are one where
    /// the host reads them.
    pub is_read: bool,
}

impl ResultBuffer {
    /// A buffer in memory that persists, whose element type is unknown: words of 32 bits, or bytes if its size is no multiple of four.
    #[must_use]
    pub fn untyped(name: String, address: u64, len: usize) -> Self {
        let element = if len.is_multiple_of(4) { Element::U32 } else { Element::U8 };
        Self { name, address, len, element, dims: vec![element.count_in(len)], is_read: false }
    }

    /// Compares the buffer in two memories. `sums` accumulates the differences of float-atomic sums that are within their bounds.
    pub(super) fn first_difference(
        &self,
        [first, other]: [&GlobalMemory; 2],
        sums: &mut Sums,
    ) -> Option<Unequal> {
        let untouched = |memory: &GlobalMemory| memory.untouched_runs(self.address);
        let (one, two) = (untouched(first), untouched(other));
        if one == two && first.first_difference_of(self.address, other).is_none() {
            return None;
        }
        let stored = Stored::new(&one, &two, self.len);
        let a = first.contents(self.address).unwrap_or_default();
        let b = other.contents(self.address).unwrap_or_default();
        let mut at = 0;
        while let Some(byte) = stored.next_difference((&a, &b), at) {
            let Some((start, one, two)) = same_sum(first, other, self.address + byte as u64) else {
                return Some(self.unequal(byte, (&a, &b), None));
            };
            let (from, size) = ((start - self.address) as usize, one.ty.bytes());
            let value = |bytes: &[u8]| {
                let mut word = [0; 8];
                word[..size].copy_from_slice(&bytes[from..from + size]);
                one.ty.value(u64::from_le_bytes(word))
            };
            let (difference, bound) = ((value(&a) - value(&b)).abs(), one.bound().max(two.bound()));
            // False for a NaN or an infinite bound.
            if !(difference <= bound && bound.is_finite()) {
                return Some(self.unequal(from, (&a, &b), Some((one.terms, bound))));
            }
            sums.differences += 1;
            if difference > 0.0 {
                sums.worst = sums.worst.max(difference / bound);
            }
            at = from + size;
        }
        None
    }

    fn unequal(&self, byte: usize, (a, b): (&[u8], &[u8]), sum: Option<(u64, f64)>) -> Unequal {
        let n = byte * 8 / self.element.bits();
        let value =
            |bytes: &[u8]| self.element.code_at(bytes, n).map_or_else(String::new, |c| self.element.show(c));
        let index = index_of(n, &self.dims);
        Unequal { buffer: self.name.clone(), byte, index, values: [value(a), value(b)], sum }
    }

    /// The elements that differ between two readings; `None` if none does.
    pub(super) fn undetermined(
        &self,
        open: Open,
        [chosen, other]: [&GlobalMemory; 2],
    ) -> Option<Undetermined> {
        chosen.first_difference_of(self.address, other)?;
        let a = chosen.contents(self.address).unwrap_or_default();
        let b = other.contents(self.address).unwrap_or_default();
        let (element, elements) = (self.element, self.element.count_in(self.len));
        let mut found: Option<Undetermined> = None;
        for n in 0..elements {
            let (Some(one), Some(two)) = (element.code_at(&a, n), element.code_at(&b, n)) else { break };
            if one == two {
                continue;
            }
            let all = found.get_or_insert_with(|| Undetermined {
                open,
                buffer: self.name.clone(),
                differing: 0,
                elements,
                index: index_of(n, &self.dims),
                chosen: element.show(one),
                other: element.show(two),
                largest: 0.0,
            });
            all.differing += 1;
            let difference = (element.value(one) - element.value(two)).abs();
            if difference.is_finite() {
                all.largest = all.largest.max(difference);
            }
        }
        found
    }
}

/// Returns the index of element `n`, the outermost dimension first.
#[must_use]
pub fn index_of(n: usize, dims: &[usize]) -> Vec<usize> {
    let mut left = n;
    let mut index: Vec<usize> = dims
        .iter()
        .rev()
        .map(|d| {
            let i = left % d.max(&1);
            left /= d.max(&1);
            i
        })
        .collect();
    index.reverse();
    index
}

/// The bytes that were stored to a buffer in two trials. Bytes that no store has changed in either trial are not compared.
struct Stored {
    /// Ranges that stores have changed in both trials, up to `alone`.
    both: Vec<Range<usize>>,
    /// The first byte that a store has changed in only one trial.
    alone: Option<usize>,
}

impl Stored {
    /// Computes the stored bytes of a buffer of `len` bytes from the ranges that no store has changed in the two trials.
    fn new(one: &[Range<usize>], two: &[Range<usize>], len: usize) -> Self {
        let same = one.iter().zip(two).take_while(|(a, b)| a == b).count();
        let alone = match (one.get(same), two.get(same)) {
            (Some(a), Some(b)) if a.start == b.start => Some(a.end.min(b.end)),
            (Some(a), Some(b)) => Some(a.start.min(b.start)),
            (a, b) => a.or(b).map(|run| run.start),
        };
        let mut both = Vec::new();
        let mut at = 0;
        for run in one.iter().take_while(|run| alone.is_none_or(|alone| run.start < alone)) {
            both.push(at..run.start);
            at = run.end;
        }
        both.push(at..alone.unwrap_or(len));
        both.retain(|run| run.start < run.end);
        Self { both, alone }
    }

    /// Returns the first byte from `at` on that differs.
    fn next_difference(&self, (a, b): (&[u8], &[u8]), at: usize) -> Option<usize> {
        let from = self.both.partition_point(|run| run.end <= at);
        let difference = |run: &Range<usize>| {
            let start = run.start.max(at);
            let (a, b) = (a.get(start..run.end)?, b.get(start..run.end)?);
            crate::api::device::first_difference(a, b).map(|found| start + found)
        };
        self.both[from..].iter().find_map(difference).or(self.alone.filter(|byte| *byte >= at))
    }
}

/// Returns the float-atomic sum that contains a byte in both memories: its address, and the sum in each.
fn same_sum(first: &GlobalMemory, other: &GlobalMemory, place: u64) -> Option<(u64, FloatSum, FloatSum)> {
    let (start, one) = first.float_sum(place)?;
    let (there, two) = other.float_sum(place)?;
    (start == there && one.ty == two.ty && one.terms == two.terms).then_some((start, one, two))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_store_has_changed_in_either_trial_is_no_result() {
        let runs = |ends: &[(usize, usize)]| ends.iter().map(|(start, end)| *start..*end).collect::<Vec<_>>();
        let next = |one: &[(usize, usize)], two: &[(usize, usize)], b: [u8; 8], at| {
            Stored::new(&runs(one), &runs(two), 8).next_difference((&[0xCD; 8], &b), at)
        };
        let zero = |run: Range<usize>| std::array::from_fn(|n| if run.contains(&n) { 0 } else { 0xCD });
        assert_eq!(next(&[(2, 4)], &[(2, 4)], zero(2..4), 0), None);
        assert_eq!(next(&[(2, 4)], &[(2, 4)], zero(2..5), 0), Some(4));
        assert_eq!(next(&[], &[], zero(2..4), 0), Some(2));
        assert_eq!(next(&[], &[], zero(2..4), 3), Some(3));
        assert_eq!(next(&[(0, 8)], &[(0, 8)], zero(0..8), 0), None);
        // A store in only one trial is a difference, even if it stores the same value.
        assert_eq!(next(&[(2, 4)], &[], zero(0..0), 0), Some(2));
        assert_eq!(next(&[(2, 4)], &[(2, 6)], zero(2..4), 0), Some(4));
        assert_eq!(next(&[(2, 4)], &[(3, 4)], zero(1..2), 0), Some(1));
        assert_eq!(next(&[(2, 4)], &[(3, 4)], zero(1..2), 2), Some(2));
        assert_eq!(next(&[(0, 2), (6, 8)], &[(0, 2)], zero(0..2), 0), Some(6));
    }

    #[test]
    fn an_index_counts_the_innermost_dimension_fastest() {
        assert_eq!(index_of(7, &[2, 2, 3]), [1, 0, 1]);
    }
}
