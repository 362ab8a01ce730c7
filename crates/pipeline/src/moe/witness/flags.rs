//! Which changes of a sum show in the stored bf16.

use crate::moe::reference::formats::{bf16, bf16_neighbour, to_bf16};

/// A change of +1 is detected.
pub(super) const UP: u8 = 1;
/// A change of −1 is detected.
pub(super) const DOWN: u8 = 2;
/// Both are.
pub(super) const BOTH: u8 = 3;

/// How far one sum must move until no bf16 within its bound can be stored, whatever the error of the moved sum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moves {
    up: f64,
    down: f64,
    /// Whether a change of exactly that much rounds out of the bound.
    tie_up: bool,
    tie_down: bool,
}

impl Moves {
    pub(super) fn new(value: f64, error: f64) -> Self {
        let (low, high) = (to_bf16(value - error), to_bf16(value + error));
        let middle = |code: u16, up: bool| f64::midpoint(bf16(code), bf16(bf16_neighbour(code, up)));
        Self {
            up: middle(high, true) - value + error,
            down: value - middle(low, false) + error,
            // Ties go to even codes.
            tie_up: high & 1 == 1 && error == 0.0,
            tie_down: low & 1 == 1 && error == 0.0,
        }
    }

    /// Returns `flag` if a sum moved by `delta` is detected; a NaN always is.
    pub(super) fn seen(&self, delta: f64, flag: u8) -> u8 {
        let seen = delta.is_nan()
            || delta > self.up
            || -delta > self.down
            || (self.tie_up && delta == self.up)
            || (self.tie_down && -delta == self.down);
        if seen { flag } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_sums_are_moved_as_rounding_says() {
        for value in [1.0, 1.0078125, 255.0, 0.0, -3.5, 1.00390625, -1.01171875] {
            let moves = Moves::new(value, 0.0);
            let stored = to_bf16(value);
            for step in -4000..4000 {
                let delta = f64::from(step) / 4096.0;
                let changed = bf16(to_bf16(value + delta)) != bf16(stored);
                assert_eq!(moves.seen(delta, UP) == UP, changed, "{value} + {delta}");
            }
            assert_eq!(moves.seen(f64::NAN, DOWN), DOWN);
        }
    }

    #[test]
    fn an_error_has_to_be_overcome_twice() {
        let moves = Moves::new(1.0, 0.001);
        // The next bf16 is 2^-7 away and its middle 2^-8.
        assert_eq!(moves.seen(1.0 / 256.0 + 0.0005, UP), 0);
        assert_eq!(moves.seen(1.0 / 256.0 + 0.002, UP), UP);
    }
}
