//! The clamped SwiGLU as an interval, and which scales and codes of MXFP8 it allows (docs/numerics.md, 5).

use super::formats::{e4m3, exp2};
use super::interval::Interval;
use super::quantize::{LARGEST_SCALE, NAN_CODE, NAN_SCALE, element, scale_code};
use crate::case::{GateUp, ScaleRule};
use crate::moe::contract::{ExpBound, Settings};

/// What the activation of one element may be before it is quantized.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A number in here; infinite ends where it may overflow.
    Within(Interval),
    /// NaN.
    Nan,
    /// Anything: infinity meets something that may have been rounded to zero.
    Open,
}

/// The columns of gate and up of column `col` among 2·`inter`.
#[must_use]
pub const fn columns(place: GateUp, inter: usize, col: usize) -> (usize, usize) {
    match place {
        GateUp::Interleaved => (2 * col, 2 * col + 1),
        GateUp::GateFirst => (col, inter + col),
        GateUp::UpFirst => (inter + col, col),
    }
}

/// e^x as a kernel with `bound` may compute it in f32.
#[must_use]
pub fn exp(x: Interval, bound: &ExpBound) -> Interval {
    let at = |end: f64| bound.relative + bound.per_argument * end.abs();
    let exact = x.exp();
    let (lo, hi) = (Interval::point(exact.lo).widened(at(x.lo)), Interval::point(exact.hi).widened(at(x.hi)));
    // exp never gives less than zero, whatever is flushed.
    Interval { lo: lo.lo.max(0.0), hi: hi.hi }
}

/// g·σ(αg)·(u + β) of a gate and an up, biases added already.
#[must_use]
pub fn swiglu(settings: &Settings, bound: &ExpBound, gate: f64, up: f64) -> Value {
    if gate.is_nan() || up.is_nan() {
        return Value::Nan;
    }
    let limit = f64::from(settings.limit);
    let (g, u) = (gate.min(limit), up.clamp(-limit, limit));
    if g == f64::NEG_INFINITY {
        // −∞ · 1/(1 + ∞) = −∞ · 0.
        return Value::Nan;
    }
    let sigmoid = if g == f64::INFINITY {
        // e^-∞ = 0, or e^0 where alpha is 0, or e^∞ where it is negative.
        match settings.alpha {
            a if a > 0.0 => Interval::point(1.0),
            _ => return Value::Open,
        }
    } else {
        sigmoid(settings, bound, Interval::point(g))
    };
    let gated = Interval::point(g).times(sigmoid).rounded();
    let linear = Interval::point(u).plus(Interval::point(f64::from(settings.beta))).rounded();
    if u.is_infinite() && gated.lo <= 0.0 && gated.hi >= 0.0 {
        return Value::Open;
    }
    if g.is_infinite() && linear.lo <= 0.0 && linear.hi >= 0.0 {
        return if linear.lo == 0.0 && linear.hi == 0.0 { Value::Nan } else { Value::Open };
    }
    Value::Within(gated.times(linear).rounded())
}

/// 1/(1 + e^(−αg)).
fn sigmoid(settings: &Settings, bound: &ExpBound, g: Interval) -> Interval {
    let (alpha, one) = (Interval::point(f64::from(settings.alpha)), Interval::point(1.0));
    let e = exp(alpha.times(g).rounded().negated(), bound);
    one.over(one.plus(e).rounded()).rounded()
}

/// As [`swiglu`], of a gate and an up that are anywhere in here; open where one may be infinite.
#[must_use]
pub fn swiglu_within(settings: &Settings, bound: &ExpBound, gate: Interval, up: Interval) -> Value {
    let limit = f64::from(settings.limit);
    let g = Interval { lo: gate.lo.min(limit), hi: gate.hi.min(limit) };
    let u = Interval { lo: up.lo.clamp(-limit, limit), hi: up.hi.clamp(-limit, limit) };
    if [g.lo, g.hi, u.lo, u.hi].iter().any(|x| !x.is_finite()) {
        return Value::Open;
    }
    let gated = g.times(sigmoid(settings, bound, g)).rounded();
    let linear = u.plus(Interval::point(f64::from(settings.beta))).rounded();
    Value::Within(gated.times(linear).rounded())
}

/// What 32 values that are anywhere in these intervals may be after quantization, scales included; none where one may
/// overflow. Each is the hull over the scales that the largest magnitude allows.
#[must_use]
pub fn requantized(rule: ScaleRule, values: &[Interval]) -> Option<Vec<Interval>> {
    let (least, most) = values.iter().fold((0.0, 0.0), |(lo, hi): (f64, f64), x| {
        let (a, b) = x.magnitudes();
        (lo.max(a), hi.max(b))
    });
    if !most.is_finite() || most > f64::from(f32::MAX) {
        return None;
    }
    let (first, last) = (scale_code(rule, least), scale_code(rule, most));
    let hull = |x: &Interval| {
        (first..=last).fold(Interval { lo: f64::INFINITY, hi: f64::NEG_INFINITY }, |hull, scale| {
            let at = |x: f64| e4m3(element(x, scale)) * exp2(i32::from(scale) - 127);
            Interval { lo: hull.lo.min(at(x.lo)), hi: hull.hi.max(at(x.hi)) }
        })
    };
    Some(values.iter().map(hull).collect())
}

/// How a stored block stands against the values it was made from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockVerdict {
    /// Whether the scale is one that the largest magnitude allows.
    pub scale: bool,
    /// Least and greatest scale code allowed.
    pub scales: (u8, u8),
    /// Elements, one bit each, that no value explains.
    pub wrong: u32,
    /// The largest |found − middle| / bound.
    pub worst: f64,
}

/// Judges one block of 32: its scale by the largest magnitude, each code given the stored scale. Where the scale is
/// wrong, a code is right if it is so under the stored scale or under one of those allowed: then the activation is right
/// and only the scale is not.
#[must_use]
pub fn judge_block(rule: ScaleRule, values: &[Value], scale: u8, codes: &[u8]) -> BlockVerdict {
    if values.contains(&Value::Open) {
        return BlockVerdict { scale: true, scales: (0, NAN_SCALE), wrong: 0, worst: 0.0 };
    }
    if values.contains(&Value::Nan) {
        let wrong = bits(codes, |_, code| code != NAN_CODE);
        let right = scale == NAN_SCALE;
        let worst = if right && wrong == 0 { 0.0 } else { f64::INFINITY };
        return BlockVerdict { scale: right, scales: (NAN_SCALE, NAN_SCALE), wrong, worst };
    }
    let intervals: Vec<Interval> = values
        .iter()
        .map(|v| match v {
            Value::Within(interval) => *interval,
            Value::Nan | Value::Open => Interval::point(0.0),
        })
        .collect();
    let (least, most) = intervals.iter().fold((0.0, 0.0), |(lo, hi): (f64, f64), x| {
        let (a, b) = x.magnitudes();
        (lo.max(a), hi.max(b))
    });
    let scales = (scale_code(rule, least), scale_code(rule, most.min(f64::from(f32::MAX))));
    let overflow = most.is_infinite() && scale == scale_code(rule, f64::INFINITY);
    let right = (scales.0..=scales.1).contains(&scale) || overflow;
    let fits = |scale: u8, at: usize, code: u8| {
        let (x, found) = (intervals[at], e4m3(code));
        e4m3(element(x.lo, scale)) <= found && found <= e4m3(element(x.hi, scale))
    };
    let wrong = if right {
        bits(codes, |at, code| !fits(scale, at, code))
    } else {
        bits(codes, |at, code| {
            let stored = scale != NAN_SCALE && fits(scale, at, code);
            !stored && !(scales.0..=scales.1).any(|s| fits(s, at, code))
        })
    };
    let worst = if right {
        (0..codes.len())
            .map(|at| over_bound(intervals[at], scale, codes[at], wrong >> at & 1 == 1))
            .fold(0.0, f64::max)
    } else {
        f64::INFINITY
    };
    let scales = if most.is_infinite() { (scales.0, LARGEST_SCALE) } else { scales };
    BlockVerdict { scale: right, scales, wrong, worst }
}

fn bits(codes: &[u8], wrong: impl Fn(usize, u8) -> bool) -> u32 {
    codes.iter().enumerate().fold(0, |mask, (at, code)| mask | u32::from(wrong(at, *code)) << at)
}

/// |found − middle| over half the interval and half a step of e4m3.
fn over_bound(x: Interval, scale: u8, code: u8, wrong: bool) -> f64 {
    let unit = exp2(127 - i32::from(scale));
    let (lo, hi, found) = (x.lo * unit, x.hi * unit, e4m3(code));
    let step = exp2(super::formats::exponent(found.abs().max(exp2(-6))) - 4);
    let ratio = (found - f64::midpoint(lo, hi)).abs() / ((hi - lo) / 2.0 + step);
    // Saturated and subnormal codes are further from their value than half a step, and right.
    match wrong {
        false if ratio.is_nan() => 0.0,
        false => ratio.min(1.0),
        true if ratio.is_nan() => f64::INFINITY,
        true => ratio.max(1.0_f64.next_up()),
    }
}
