//! The clamped SwiGLU as an interval, and which scales and codes of a format it allows (docs/numerics.md, 5).

use super::formats::exp2;
use super::interval::Interval;
use crate::moe::case::{Format, GateUp, ScaleRule};
use crate::moe::contract::{ExpBound, Settings};
use crate::moe::format::Element;
use crate::moe::suspicion::{Amax, Clamp, Rounding};

/// The e4m3 code of every element of a NaN block.
const NAN_CODE: u16 = 0x7F;

/// The possible value of an activation element before it is quantized.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A number in this interval; infinite ends if it may overflow.
    Within(Interval),
    /// NaN.
    Nan,
    /// Anything: infinity meets something that may have been rounded to zero.
    Open,
}

impl Value {
    /// Whether it tells a value from what gross faults make of it.
    #[must_use]
    pub fn decides(self) -> bool {
        match self {
            Self::Within(interval) => interval.decides(),
            Self::Nan => true,
            Self::Open => false,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Within(interval) => interval.fmt(f),
            Self::Nan => f.write_str("NaN"),
            Self::Open => f.write_str("any value"),
        }
    }
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
    if x == Interval::point(0.0) {
        return Interval::point(1.0);
    }
    let exact = x.exp();
    let (lo, hi) = (Interval::point(exact.lo).widened(at(x.lo)), Interval::point(exact.hi).widened(at(x.hi)));
    // exp is never negative, whatever is flushed.
    Interval { lo: lo.lo.max(0.0), hi: hi.hi }
}

/// g·σ(αg)·(u + β) of a gate and an up, with biases already added.
#[must_use]
pub fn swiglu(settings: &Settings, clamp: Clamp, bound: &ExpBound, gate: f64, up: f64) -> Value {
    if gate.is_nan() || up.is_nan() {
        return Value::Nan;
    }
    let limit = f64::from(settings.limit);
    let (g, u) = clamp.apply(limit, gate, up);
    if g == f64::NEG_INFINITY {
        // −∞ · 1/(1 + ∞) = −∞ · 0.
        return Value::Nan;
    }
    let sigmoid = if g == f64::INFINITY {
        // e^-∞ = 0, or e^0 if alpha is 0, or e^∞ if it is negative.
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
    let product = alpha.times(g);
    let product = if bound.is_of_exact_argument() { product.to_f32() } else { product.rounded() };
    let e = exp(product.negated(), bound);
    one.over(one.plus(e).rounded()).rounded()
}

/// Like [`swiglu`], for a gate and an up anywhere in these intervals; open if one may be infinite.
#[must_use]
pub fn swiglu_within(
    settings: &Settings,
    clamp: Clamp,
    bound: &ExpBound,
    gate: Interval,
    up: Interval,
) -> Value {
    let limit = f64::from(settings.limit);
    // Every clamp rises with its argument, so that ends become ends.
    let (low, high) = (clamp.apply(limit, gate.lo, up.lo), clamp.apply(limit, gate.hi, up.hi));
    let (g, u) = (Interval { lo: low.0, hi: high.0 }, Interval { lo: low.1, hi: high.1 });
    if [g.lo, g.hi, u.lo, u.hi].iter().any(|x| !x.is_finite()) {
        return Value::Open;
    }
    let gated = g.times(sigmoid(settings, bound, g)).rounded();
    let linear = u.plus(Interval::point(f64::from(settings.beta))).rounded();
    Value::Within(gated.times(linear).rounded())
}

/// How a block of an operand is quantized: the format, the scale rule and the global scale, which is one if the format has none.
#[derive(Debug, Clone, Copy)]
pub struct Quantizer {
    /// The format.
    pub format: Format,
    /// The rule for power-of-two scales.
    pub rule: ScaleRule,
    /// The factor on codes and block scales.
    pub global: f32,
    /// How elements are rounded.
    pub rounding: Rounding,
    /// The elements whose largest magnitude determines the scale of a block.
    pub amax: Amax,
}

impl Quantizer {
    fn scale_value(&self, scale: u8) -> f64 {
        self.format.scale().map_or(1.0, |of| of.value(scale)) * f64::from(self.global)
    }

    /// The values of the codes that may be stored for a value within `x` under a scale; `None` if the scale hides them.
    fn values(&self, x: Interval, scale: u8) -> Option<(f64, f64)> {
        let (element, slack) = (self.format.element(), self.format.description().slack);
        let unit = self.scale_value(scale);
        if unit == 0.0 || unit.is_nan() {
            return None;
        }
        let toward = |x: f64, up: bool| {
            let away = if (x > 0.0) == up { 1.0 + slack } else { 1.0 - slack };
            self.rounding.value(element, x * away / unit)
        };
        Some((toward(x.lo, false), toward(x.hi, true)))
    }

    /// The possible values after quantization of values anywhere in these intervals, block scales but no global scale
    /// included; `None` if one may overflow. Each is the hull over the scales that the largest magnitude allows.
    #[must_use]
    pub fn requantized(&self, values: &[Interval]) -> Option<Vec<Interval>> {
        let amax = largest(values);
        let nan = values.iter().any(|x| x.lo.is_nan());
        if nan || !amax.hi.is_finite() || amax.hi > f64::from(f32::MAX) {
            return None;
        }
        let scales = self.format.allowed_scales(self.rule, self.global, values, amax);
        let hull = |x: &Interval| {
            scales.iter().fold(Interval { lo: f64::INFINITY, hi: f64::NEG_INFINITY }, |hull, scale| {
                let unit = self.scale_value(*scale) / f64::from(self.global);
                let (lo, hi) = self.values(*x, *scale).unwrap_or_default();
                Interval { lo: hull.lo.min(lo * unit), hi: hull.hi.max(hi * unit) }
            })
        };
        Some(values.iter().map(hull).collect())
    }
}

/// The least and the greatest possible value of the largest magnitude.
pub(super) fn largest(values: &[Interval]) -> Interval {
    values.iter().fold(Interval::point(0.0), |of, x| {
        let (least, most) = x.magnitudes();
        Interval { lo: of.lo.max(least), hi: of.hi.max(most) }
    })
}

/// The comparison of a stored block with the values it was made from.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockVerdict {
    /// Whether the values allow the scale.
    pub scale: bool,
    /// The allowed scale codes, ascending.
    pub scales: Vec<u8>,
    /// Elements that no value explains, one bit each.
    pub wrong: u32,
    /// Elements whose allowed codes tell no gross fault apart, one bit each.
    pub open: u32,
    /// Whether the allowed scales do: none is more than twice another.
    pub scale_decides: bool,
    /// The largest |found − middle| / bound.
    pub worst: f64,
}

impl BlockVerdict {
    /// The allowed scales in words.
    #[must_use]
    pub fn wanted(&self) -> String {
        match self.scales[..] {
            [] => "none".to_owned(),
            [one] => format!("{one:#04x}"),
            [first, .., last] if usize::from(last - first) + 1 == self.scales.len() => {
                format!("{first:#04x} to {last:#04x}")
            }
            _ => self.scales.iter().map(|s| format!("{s:#04x}")).collect::<Vec<_>>().join(" or "),
        }
    }
}

/// Judges block `block` of a row of values: its scale by the largest magnitude, each code given the stored scale. If the scale is
/// wrong, a code is right if it is right under the stored scale or under an allowed one: then the activation is right
/// and only the scale is wrong.
#[must_use]
pub fn judge_block(by: &Quantizer, row: &[Value], block: usize, scale: u8, codes: &[u16]) -> BlockVerdict {
    let len = by.format.block();
    let values = Amax::Block.elements(row, block, len);
    let scaled = by.amax.elements(row, block, len);
    let element = by.format.element();
    let Some(of_scale) = by.format.scale() else { return judge_unscaled(by, values, codes) };
    if values.contains(&Value::Open) || scaled.contains(&Value::Open) {
        return BlockVerdict {
            scale: true,
            scales: (0..=of_scale.nan()).collect(),
            wrong: 0,
            open: u32::MAX,
            scale_decides: false,
            worst: 0.0,
        };
    }
    if values.contains(&Value::Nan) || scaled.contains(&Value::Nan) {
        // e2m1 has no NaN: under a NaN scale, any code is one.
        let wrong = bits(codes, |_, code| element == Element::E4m3 && code != NAN_CODE);
        let right = of_scale.is_nan(scale);
        let worst = if right && wrong == 0 { 0.0 } else { f64::INFINITY };
        let scales = vec![of_scale.nan()];
        return BlockVerdict { scale: right, scales, wrong, open: 0, scale_decides: true, worst };
    }
    let within = |values: &[Value]| -> Vec<Interval> {
        let interval = |value: &Value| match value {
            Value::Within(interval) => *interval,
            Value::Nan | Value::Open => Interval::point(0.0),
        };
        values.iter().map(interval).collect()
    };
    let (intervals, scaled) = (within(values), within(scaled));
    let amax = largest(&scaled);
    let allowed = |amax| by.format.allowed_scales(by.rule, by.global, &scaled, amax);
    let mut scales = allowed(Interval { lo: amax.lo, hi: amax.hi.min(f64::from(f32::MAX)) });
    let overflow = amax.hi.is_infinite() && Some(&scale) == allowed(Interval::point(f64::INFINITY)).last();
    let right = scales.contains(&scale) || overflow;
    let fits = |scale: u8, at: usize, code: u16| {
        let found = element.value(code);
        by.values(intervals[at], scale).is_none_or(|(lo, hi)| lo <= found && found <= hi)
    };
    let wrong = if right {
        bits(codes, |at, code| !fits(scale, at, code))
    } else {
        bits(codes, |at, code| {
            let stored = !of_scale.is_nan(scale) && fits(scale, at, code);
            !stored && !scales.iter().any(|s| fits(*s, at, code))
        })
    };
    let worst = if right {
        (0..codes.len())
            .map(|at| over_bound(by, intervals[at], scale, codes[at], wrong >> at & 1 == 1))
            .fold(0.0, f64::max)
    } else {
        f64::INFINITY
    };
    if amax.hi.is_infinite() {
        scales.push(of_scale.largest());
        scales.dedup();
    }
    let open = bits(codes, |at, _| {
        by.values(intervals[at], scale).is_some_and(|(lo, hi)| !Interval { lo, hi }.decides())
    });
    // The lowest scale of ue4m3 is zero: beside another one, it decides nothing.
    let value = |code: Option<&u8>| code.map_or(0.0, |code| of_scale.value(*code));
    let (least, most) = (value(scales.first()), value(scales.last()));
    let scale_decides = scales.len() == 1 || (least > 0.0 && most <= 2.0 * least);
    BlockVerdict { scale: right, scales, wrong, open, scale_decides, worst }
}

/// Elements without a scale, each on its own.
fn judge_unscaled(by: &Quantizer, values: &[Value], codes: &[u16]) -> BlockVerdict {
    let element = by.format.element();
    let fits = |at: usize, code: u16| {
        let found = element.value(code);
        match values[at] {
            Value::Open => true,
            Value::Nan => found.is_nan(),
            Value::Within(x) => by.values(x, 0).is_none_or(|(lo, hi)| lo <= found && found <= hi),
        }
    };
    let wrong = bits(codes, |at, code| !fits(at, code));
    let ratio = |at: usize| match values[at] {
        Value::Within(x) => over_bound(by, x, 0, codes[at], wrong >> at & 1 == 1),
        _ if wrong >> at & 1 == 1 => f64::INFINITY,
        _ => 0.0,
    };
    let worst = (0..codes.len()).map(ratio).fold(0.0, f64::max);
    let open = bits(codes, |at, _| match values[at] {
        Value::Within(x) => by.values(x, 0).is_some_and(|(lo, hi)| !Interval { lo, hi }.decides()),
        other => !other.decides(),
    });
    BlockVerdict { scale: true, scales: Vec::new(), wrong, open, scale_decides: true, worst }
}

fn bits(codes: &[u16], wrong: impl Fn(usize, u16) -> bool) -> u32 {
    codes.iter().enumerate().fold(0, |mask, (at, code)| mask | u32::from(wrong(at, *code)) << at)
}

/// |found − middle| over half the interval plus half a step of the element.
fn over_bound(by: &Quantizer, x: Interval, scale: u8, code: u16, wrong: bool) -> f64 {
    // The exponent of the smallest normal number, and that of half a step of 1.
    let (least, half) = match by.format.element() {
        Element::E4m3 => (-6, -4),
        Element::E2m1 => (0, -2),
        Element::Bf16 => (-126, -8),
    };
    let unit = by.scale_value(scale);
    let (lo, hi, found) = (x.lo / unit, x.hi / unit, by.format.element().value(code));
    let step = exp2(super::formats::exponent(found.abs().max(exp2(least))) + half);
    let ratio = (found - f64::midpoint(lo, hi)).abs() / ((hi - lo) / 2.0 + step);
    // Saturated and subnormal codes are further from their value than half a step, and still right.
    match wrong {
        false if ratio.is_nan() => 0.0,
        false => ratio.min(1.0),
        true if ratio.is_nan() => f64::INFINITY,
        true => ratio.max(1.0_f64.next_up()),
    }
}
