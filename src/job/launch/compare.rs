//! Outcomes of two trials compared, byte by byte; sums of float atomics within the bound that the order of their adds explains.

use emulator::FloatSum;

use super::error::LaunchError;
use super::run::Outcome;
use super::session::Session;

/// Sums of float atomics that differed between trials, within their bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    /// Elements of buffers that are such sums.
    pub elements: usize,
    /// How often one differed from the first schedule.
    pub differences: usize,
    /// The largest difference, as a part of its bound.
    pub worst: f64,
}

impl Session {
    /// Compares an outcome with the first; `sums` gathers what float atomics did.
    ///
    /// # Errors
    /// [`LaunchError::Schedules`], [`LaunchError::Sums`] and [`LaunchError::Poison`].
    pub fn compare(&self, first: &Outcome, other: &Outcome, sums: &mut Sums) -> Result<(), LaunchError> {
        let (x, y) = (first.trial.poison, other.trial.poison);
        // What nobody wrote differs from one content to another by itself.
        let differ = |(a, b): (&u8, &u8)| a != b && (x == y || (*a, *b) != (x, y));
        let mut elements = 0;
        for (n, (buffer, address)) in self.buffers.iter().zip(&first.addresses).enumerate() {
            if buffer.scratch {
                continue;
            }
            elements += first.memory.float_sums(*address, buffer.shape.bytes);
            if first.agrees(other, n) {
                continue;
            }
            let (a, b) = (first.bytes(n), other.bytes(n));
            let mut at = 0;
            while let Some(found) = a[at..].iter().zip(&b[at..]).position(differ) {
                let byte = at + found;
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
                // Not so for a NaN, nor where the bound is infinite.
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

/// The sum in which a byte lies in both outcomes: its address, and what was added in each.
fn same_sum(first: &Outcome, other: &Outcome, place: u64) -> Option<(u64, FloatSum, FloatSum)> {
    let (start, one) = first.memory.float_sum(place)?;
    let (there, two) = other.memory.float_sum(place)?;
    (start == there && one.ty == two.ty && one.terms == two.terms).then_some((start, one, two))
}
