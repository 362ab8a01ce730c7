//! Global scales of NVFP4 per row of activations: which may be stored, and what a row may become under an unknown one
//! (docs/numerics.md, 9.3).

use super::activation::{Quantizer, Value, largest};
use super::formats::exp2;
use super::interval::Interval;
use crate::moe::case::{Format, ScaleRule};
use crate::moe::suspicion::{Amax, Rounding};

/// The divisor of a row's largest magnitude: the largest e2m1 times the largest ue4m3.
const FULL: f64 = 6.0 * 448.0;

/// The global scale of a row of numbers: 1 if all are zero.
#[must_use]
pub fn shared_scale(values: &[f64]) -> f32 {
    let amax = values.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    if amax == 0.0 { 1.0 } else { (amax / FULL) as f32 }
}

/// Below this, the reciprocal of the product with the least block scale, 2^-9, may overflow.
const LEAST: f32 = f32::MIN_POSITIVE * 1024.0;

/// Whether codes and block scales follow from a row's values under this global scale: if it is not finite, the row is meaningless,
/// and if it is tiny, libraries that multiply by reciprocals flush the row.
#[must_use]
pub const fn decides(global: f32) -> bool {
    global.is_finite() && global >= LEAST
}

/// The correct global scales of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Allowed {
    /// Those in this interval.
    Within(Interval),
    /// NaN.
    Nan,
    /// Any: some element of the row may be anything.
    Open,
}

impl Allowed {
    /// Those of a row with these values: the largest magnitude over 448·6, within the error of a library's division and the last
    /// bit of a subnormal number. A row of zeros may have any finite scale.
    #[must_use]
    pub fn from_values(values: &[Value]) -> Self {
        let mut intervals = Vec::with_capacity(values.len());
        for value in values {
            match value {
                Value::Open => return Self::Open,
                Value::Nan => intervals.push(Interval::point(f64::NAN)),
                Value::Within(x) => intervals.push(*x),
            }
        }
        if values.contains(&Value::Nan) {
            return Self::Nan;
        }
        let (most, slack) = (f64::from(f32::MAX), Format::Nvfp4.description().slack);
        let Interval { lo, hi } = largest(&intervals);
        let last_bit = exp2(-149);
        // Zero determines no scale, and infinity may be stored as the largest number.
        let hi = match (lo, hi) {
            (0.0, _) => most,
            (_, hi) if hi > most => f64::INFINITY,
            (_, hi) => hi / FULL * (1.0 + slack) + last_bit,
        };
        let lo = (lo.min(most) / FULL * (1.0 - slack) - last_bit).max(0.0);
        Self::Within(Interval { lo, hi })
    }

    /// Whether they tell a scale from what gross faults make of it; a row with an infinity may have the largest scale.
    #[must_use]
    pub fn decides(&self) -> bool {
        match self {
            Self::Open => false,
            Self::Nan => true,
            Self::Within(x) => x.decides() || (x.lo > 0.0 && x.hi.is_infinite()),
        }
    }

    /// Whether `stored` is one of them.
    #[must_use]
    pub fn accepts(&self, stored: f32) -> bool {
        match self {
            Self::Open => true,
            Self::Nan => stored.is_nan(),
            Self::Within(x) => (x.lo..=x.hi).contains(&f64::from(stored)),
        }
    }
}

impl std::fmt::Display for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open => f.write_str("any number"),
            Self::Nan => f.write_str("NaN"),
            Self::Within(x) => write!(f, "{:e} to {:e}", x.lo, x.hi),
        }
    }
}

/// The possible values after quantization of values anywhere in these intervals, with the row's own global scale, all scales included;
/// `None` if one may overflow or nothing is known about the scale.
///
/// A value x under a scale g' becomes what x·g/g' becomes under g, times g'/g. The values are therefore widened by the possible error of
/// the scale, quantized under a scale in the middle, and widened again.
#[must_use]
pub fn quantized(rule: ScaleRule, row: &[Interval]) -> Option<Vec<Interval>> {
    let amax = largest(row);
    if row.iter().any(|x| x.lo.is_nan()) || !amax.hi.is_finite() || amax.hi > f64::from(f32::MAX) {
        return None;
    }
    if amax.hi == 0.0 {
        return Some(vec![Interval::point(0.0); row.len()]);
    }
    let values: Vec<Value> = row.iter().map(|x| Value::Within(*x)).collect();
    let Allowed::Within(scales) = Allowed::from_values(&values) else { return None };
    let middle = (scales.lo * scales.hi).sqrt() as f32;
    if !decides(scales.lo as f32) {
        return None;
    }
    let off = (scales.hi / f64::from(middle)).max(f64::from(middle) / scales.lo) - 1.0;
    let wide: Vec<Interval> = row.iter().map(|x| x.widened(off)).collect();
    let by = Quantizer {
        format: Format::Nvfp4,
        rule,
        global: middle,
        rounding: Rounding::NearestEven,
        amax: Amax::Block,
    };
    let blocks: Option<Vec<_>> = wide.chunks(by.format.block()).map(|block| by.requantized(block)).collect();
    let times = |x: Interval| x.times(Interval::point(middle.into())).widened(off);
    Some(blocks?.into_iter().flatten().map(times).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_of_rows_are_their_largest_magnitude_over_2688() {
        let point = |x: f64| Value::Within(Interval::point(x));
        let allowed =
            |values: &[f64]| Allowed::from_values(&values.iter().map(|x| point(*x)).collect::<Vec<_>>());
        let row = allowed(&[1.0, -21.0, 0.5]);
        assert!(row.accepts(1.0 / 128.0));
        assert!(!row.accepts(1.001 / 128.0) && !row.accepts(0.999 / 128.0) && !row.accepts(1.0));
        assert!(allowed(&[0.0, -0.0]).accepts(1.0) && !allowed(&[0.0]).accepts(f32::NAN));
        assert!(
            allowed(&[f64::INFINITY, 1.0]).accepts(f32::INFINITY) && !allowed(&[f64::INFINITY]).accepts(1.0)
        );
        let nan = Allowed::from_values(&[point(1.0), Value::Nan]);
        assert!(nan.accepts(f32::NAN) && !nan.accepts(1.0));
        assert!(Allowed::from_values(&[Value::Nan, Value::Open]).accepts(1.0));
    }

    #[test]
    fn quantized_rows_stay_within_what_is_allowed_without_their_scale() {
        let mut state = 1_u64;
        let (mut exact, mut all) = (0, 0);
        for round in 0..200 {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 40) as f64 / f64::from(1 << 24) - 0.5
            };
            let spread = f64::from(round % 30);
            let values: Vec<f64> = (0..64).map(|_| next() * (next() * spread).exp2()).collect();
            let global = shared_scale(&values);
            let (codes, scales) = Format::Nvfp4.quantize_row(ScaleRule::Ceil, global, &values);
            let points: Vec<Interval> = values.iter().map(|x| Interval::point(*x)).collect();
            let allowed = quantized(ScaleRule::Ceil, &points).unwrap();
            for (found, x) in Format::Nvfp4.decoded(&codes, &scales).iter().zip(&allowed) {
                let found = found * f64::from(global);
                assert!(x.lo <= found && found <= x.hi, "{found:e} outside {x:?}");
                exact += usize::from(x.hi - x.lo <= found.abs() * exp2(-17));
                all += 1;
            }
        }
        // Few values are so near the middle of two codes or scales that rounding decides.
        assert!(exact * 100 > all * 99, "{exact} of {all}");
        assert!(quantized(ScaleRule::Ceil, &[Interval::point(f64::INFINITY)]).is_none());
        let zeros = [Interval::point(0.0); 16];
        assert_eq!(quantized(ScaleRule::Ceil, &zeros).unwrap(), zeros);
    }
}
