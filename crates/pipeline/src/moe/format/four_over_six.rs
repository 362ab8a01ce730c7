//! NVFP4 blocks whose largest magnitude maps to 4 or 6, whichever has the smaller error (docs/numerics.md, 9.3).

use crate::moe::case::ScaleRule;
use crate::moe::reference::formats::{e2m1, to_e2m1, to_e4m3, ue4m3};
use crate::moe::reference::interval::Interval;

/// The values that the largest magnitude may map to.
const CANDIDATES: [f64; 2] = [6.0, 4.0];

/// Rounding of a library's sum of 16 errors in f32, relative to the terms that it subtracts, and of the codes' quotients.
const ROUNDING: f64 = 1.0 / (1 << 18) as f64;

/// The error metric between a block's codes and its values.
#[derive(Clone, Copy)]
enum Metric {
    /// The sum of magnitudes.
    Absolute,
    /// The sum of squares.
    Square,
}

impl Metric {
    const fn from_rule(rule: ScaleRule) -> Option<Self> {
        match rule {
            ScaleRule::FourOverSixMae => Some(Self::Absolute),
            ScaleRule::FourOverSixMse => Some(Self::Square),
            _ => None,
        }
    }

    /// The error of these values under a scale, and how far that may be off where each value is within `half` of what is given.
    fn error(self, unit: f64, values: &[(f64, f64)]) -> (f64, f64) {
        values.iter().fold((0.0, 0.0), |(sum, off), (x, half)| {
            let code = if unit == 0.0 { 0.0 } else { e2m1(to_e2m1(x / unit)) };
            let (error, most) = ((x - code * unit).abs(), half + ROUNDING * x.abs());
            match self {
                Self::Absolute => (sum + error, off + most),
                Self::Square => {
                    (sum + error * error, off + most * (2.0 * error + most) + ROUNDING * error * error)
                }
            }
        })
    }
}

/// Returns the scale code under which `amax` maps to `largest`.
fn scale(global: f64, amax: f64, largest: f64) -> u8 {
    if amax == 0.0 { 0 } else { to_e4m3(amax / (largest * global)) }
}

/// Returns the scale of a block of numbers; `None` for another rule. On equal errors, 6 wins.
pub(super) fn chosen(rule: ScaleRule, global: f64, values: &[f64]) -> Option<u8> {
    let metric = Metric::from_rule(rule)?;
    let amax = values.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    let points: Vec<(f64, f64)> = values.iter().map(|x| (*x, 0.0)).collect();
    let [six, four] = CANDIDATES.map(|largest| scale(global, amax, largest));
    let error = |code| metric.error(ue4m3(code) * global, &points).0;
    Some(if error(four) < error(six) { four } else { six })
}

/// Returns the scales that a correct quantizer may store for values within these intervals, whose largest magnitude is within
/// `amax`; `None` for another rule. Both candidates are allowed if rounding decides which has the smaller error.
pub(super) fn allowed(
    rule: ScaleRule,
    global: f64,
    values: &[Interval],
    amax: Interval,
    slack: f64,
) -> Option<Vec<u8>> {
    let metric = Metric::from_rule(rule)?;
    let middles: Vec<(f64, f64)> =
        values.iter().map(|x| (f64::midpoint(x.lo, x.hi), (x.hi - x.lo) / 2.0)).collect();
    let codes = CANDIDATES.map(|largest| {
        let (lo, hi) = (amax.lo * (1.0 - slack), amax.hi * (1.0 + slack));
        scale(global, lo, largest)..=scale(global, hi, largest)
    });
    // The least and the greatest error of each candidate; unbounded for infinite values.
    let errors = codes.clone().map(|codes| {
        codes.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), code| {
            match metric.error(ue4m3(code) * global, &middles) {
                (error, off) if error.is_finite() && off.is_finite() => {
                    (least.min(error - off), most.max(error + off))
                }
                _ => (f64::NEG_INFINITY, f64::INFINITY),
            }
        })
    });
    let mut out = Vec::new();
    for (at, codes) in codes.into_iter().enumerate() {
        if errors[at].0 <= errors[1 - at].1 {
            out.extend(codes);
        }
    }
    out.sort_unstable();
    out.dedup();
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_between_four_and_six_takes_the_scale_with_the_smaller_error() {
        // With a scale of 2.5 every value is a code.
        let values = [10.0, 7.5, 5.0, 2.5];
        for rule in [ScaleRule::FourOverSixMae, ScaleRule::FourOverSixMse] {
            assert_eq!(chosen(rule, 1.0, &values), Some(to_e4m3(2.5)));
            // Codes of 6 itself.
            assert_eq!(chosen(rule, 1.0, &[6.0, 4.0, 3.0, 1.0]), Some(to_e4m3(1.0)));
            assert_eq!(chosen(rule, 1.0, &[0.0; 16]), Some(0));
        }
        assert_eq!(chosen(ScaleRule::Ceil, 1.0, &values), None);
        // Near 448 the scale for 4 saturates, so 6 has the smaller error.
        assert_eq!(chosen(ScaleRule::FourOverSixMae, 1.0, &[2688.0, 100.0]), Some(0x7E));
    }

    #[test]
    fn the_worse_scale_is_not_allowed_and_either_is_where_rounding_decides() {
        let of = |values: &[f64], half: f64| {
            let intervals: Vec<Interval> =
                values.iter().map(|x| Interval { lo: x - half, hi: x + half }).collect();
            let amax = values.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
            let amax = Interval { lo: amax - half, hi: amax + half };
            allowed(ScaleRule::FourOverSixMae, 1.0, &intervals, amax, 0.0).unwrap()
        };
        assert_eq!(of(&[10.0, 7.5, 5.0, 2.5], 0.0), [to_e4m3(2.5)]);
        assert_eq!(of(&[6.0, 4.0, 3.0, 1.0], 0.0), [to_e4m3(1.0)]);
        // Both errors are zero.
        assert_eq!(of(&[0.0; 16], 0.0), [0]);
        assert_eq!(of(&[12.0, 0.0], 0.0), [to_e4m3(2.0), to_e4m3(3.0)]);
        assert!(of(&[10.0, 7.5, 5.0, 2.5], 2.0).len() > 1);
        assert_eq!(of(&[f64::INFINITY, 1.0], 0.0), [0x7E]);
    }
}
