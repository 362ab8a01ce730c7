//! Compares the outcomes of two trials byte by byte; sums of float atomics within the rounding error that reordering can cause.

use std::ops::Range;

use emulator::FloatSum;

use super::error::LaunchError;
use super::run::Outcome;
use super::session::Session;

/// Statistics of float-atomic sums that differed between trials, within their bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    /// Buffer elements that are sums of float atomics.
    pub elements: usize,
    /// The number of differences from the first schedule.
    pub differences: usize,
    /// The largest difference, as a fraction of its bound.
    pub worst: f64,
}

impl Session {
    /// Compares an outcome with the first; `sums` accumulates the differences of float-atomic sums.
    ///
    /// # Errors
    /// [`LaunchError::Schedules`], [`LaunchError::Sums`] and [`LaunchError::Poison`].
    pub fn compare(&self, first: &Outcome, other: &Outcome, sums: &mut Sums) -> Result<(), LaunchError> {
        let (x, y) = (first.trial.poison, other.trial.poison);
        let mut elements = 0;
        for (n, (buffer, address)) in self.buffers.iter().zip(&first.addresses).enumerate() {
            if buffer.scratch {
                continue;
            }
            elements += first.memory.float_sums(*address, buffer.shape.bytes);
            let untouched = |o: &Outcome| o.memory.untouched_runs(o.addresses[n]);
            let (one, two) = (untouched(first), untouched(other));
            if one == two && first.agrees(other, n) {
                continue;
            }
            let stored = Stored::of(&one, &two, buffer.shape.bytes);
            let (a, b) = (first.bytes(n), other.bytes(n));
            let mut at = 0;
            while let Some(byte) = stored.next_difference((&a, &b), at) {
                let place = address + byte as u64;
                let Some((start, one, two)) = same_sum(first, other, place) else {
                    let buffer = buffer.name.clone();
                    return Err(match x == y {
                        true => LaunchError::Schedules { buffer, seed: other.trial.seed, byte },
                        false => LaunchError::Poison { buffer, byte, first: x, other: y },
                    });
                };
                let (from, size) = ((start - address) as usize, one.ty.bytes());
                let value = |bytes: &[u8]| {
                    let mut word = [0; 8];
                    word[..size].copy_from_slice(&bytes[from..from + size]);
                    one.ty.value(u64::from_le_bytes(word))
                };
                let (sum, sum_there) = (value(&a), value(&b));
                let (difference, bound) = ((sum - sum_there).abs(), one.bound().max(two.bound()));
                // False for a NaN or an infinite bound.
                if !(difference <= bound && bound.is_finite()) {
                    return Err(LaunchError::Sums {
                        buffer: buffer.name.clone(),
                        index: from / size,
                        seed: other.trial.seed,
                        terms: one.terms,
                        first: sum,
                        other: sum_there,
                        bound,
                    });
                }
                sums.differences += 1;
                if difference > 0.0 {
                    sums.worst = sums.worst.max(difference / bound);
                }
                at = from + size;
            }
        }
        sums.elements = sums.elements.max(elements);
        Ok(())
    }
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
    fn of(one: &[Range<usize>], two: &[Range<usize>], len: usize) -> Self {
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
            a.iter().zip(b).position(|(a, b)| a != b).map(|found| start + found)
        };
        self.both[from..].iter().find_map(difference).or(self.alone.filter(|byte| *byte >= at))
    }
}

/// Returns the float-atomic sum that contains a byte in both outcomes: its address, and the sum in each outcome.
fn same_sum(first: &Outcome, other: &Outcome, place: u64) -> Option<(u64, FloatSum, FloatSum)> {
    let (start, one) = first.memory.float_sum(place)?;
    let (there, two) = other.memory.float_sum(place)?;
    (start == there && one.ty == two.ty && one.terms == two.terms).then_some((start, one, two))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_store_has_changed_in_either_trial_is_no_result() {
        let runs = |ends: &[(usize, usize)]| ends.iter().map(|(start, end)| *start..*end).collect::<Vec<_>>();
        let next = |one: &[(usize, usize)], two: &[(usize, usize)], b: [u8; 8], at| {
            Stored::of(&runs(one), &runs(two), 8).next_difference((&[0xCD; 8], &b), at)
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
}
