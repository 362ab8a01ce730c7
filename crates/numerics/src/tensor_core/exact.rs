//! The fused sum term by term on integers: the definition that the fast paths must match.

use super::{Kind, MmaForm, Model, Operands, Output};
use crate::float::value::{Value, unpack};
use crate::format::{F16, F32, F64, Format, Layout, NAN_16, NAN_F32, Parts, Specials, power_of_two};
use crate::round::{Exact, Rounding};

/// binary32 with 13 fraction bits.
const SINGLE13: Layout = Layout { exponent_bits: 8, mantissa_bits: 13, specials: Specials::Ieee };

/// The number of products in the longest fused sum, plus C.
const MOST_TERMS: usize = 65;

/// One addend, `significand · 2^unit`; `exponent` is its nominal exponent for alignment.
#[derive(Clone, Copy)]
struct Term {
    significand: i64,
    unit: i32,
    exponent: i32,
}

/// The addends of one sum, with flags for infinities and NaNs.
struct Sum {
    terms: [Term; MOST_TERMS],
    count: usize,
    zero_exponent: i32,
    infinite: [bool; 2],
    nan: bool,
}

impl Sum {
    fn new(zero_exponent: i32) -> Self {
        let nothing = Term { significand: 0, unit: 0, exponent: zero_exponent };
        Self { terms: [nothing; MOST_TERMS], count: 0, zero_exponent, infinite: [false; 2], nan: false }
    }

    fn push(&mut self, significand: i64, unit: i32, exponent: i32) {
        let exponent = if significand == 0 { self.zero_exponent } else { exponent };
        self.place(Term { significand, unit, exponent });
    }

    fn place(&mut self, term: Term) {
        if let Some(slot) = self.terms.get_mut(self.count) {
            *slot = term;
            self.count += 1;
        }
    }

    fn terms(&self) -> &[Term] {
        &self.terms[..self.count]
    }

    /// Adds the term `x · y · 2^shift`.
    fn product(&mut self, x: Parts, y: Parts, shift: i32) {
        match (x, y) {
            (Parts::Nan, _) | (_, Parts::Nan) => self.nan = true,
            (
                Parts::Finite { negative: s, significand: p, exponent: e, fraction: f },
                Parts::Finite { negative: t, significand: q, exponent: g, fraction: h },
            ) => {
                let magnitude = i64::from(p) * i64::from(q);
                let exponent = e + g + shift;
                let unit = exponent - (f + h).cast_signed();
                self.push(if s == t { magnitude } else { -magnitude }, unit, exponent);
            }
            (Parts::Infinite { negative }, other) | (other, Parts::Infinite { negative }) => match other {
                Parts::Finite { significand: 0, .. } | Parts::Nan => self.nan = true,
                Parts::Finite { negative: s, .. } | Parts::Infinite { negative: s } => {
                    self.infinite[usize::from(s != negative)] = true;
                }
            },
        }
    }

    fn addend(&mut self, c: Parts) {
        let one = Parts::Finite { negative: false, significand: 1, exponent: 0, fraction: 0 };
        self.product(c, one, 0);
    }

    /// Truncates every term `fraction` bits below the largest exponent, adds the terms and converts the sum.
    fn result(&self, fraction: i32, output: Output) -> u32 {
        if self.nan || self.infinite == [true; 2] {
            return output.nan();
        }
        if let Some(sign) = self.infinite.iter().position(|there| *there) {
            return output.infinity(sign == 1);
        }
        let largest = self.terms().iter().map(|t| t.exponent).max().unwrap_or(self.zero_exponent);
        let unit = largest - fraction;
        let sum: i64 = self.terms().iter().map(|t| t.cut_at(unit)).sum();
        output.convert(Exact::new(sum < 0, u128::from(sum.unsigned_abs()), unit))
    }
}

impl Term {
    /// Returns the value as an integer multiple of `2^unit`, truncated toward zero.
    ///
    /// A term is below `2^(exponent + 12)`, so the result has fewer than 63 bits.
    const fn cut_at(self, unit: i32) -> i64 {
        let shift = self.unit - unit;
        if self.significand == 0 {
            0
        } else if shift >= 0 {
            self.significand << shift
        } else if shift > -63 {
            self.significand / (1 << -shift)
        } else {
            0
        }
    }
}

impl Output {
    /// Converts a finite sum; a zero is positive, even one due to underflow.
    fn convert(self, exact: Exact) -> u32 {
        let (layout, rounding) = match self {
            Self::Single => (F32, Rounding::Zero),
            Self::Single13 => (SINGLE13, Rounding::Zero),
            Self::Half => (F16, Rounding::NearestEven),
        };
        let magnitude = exact.magnitude(layout, rounding);
        if magnitude == 0 {
            return 0;
        }
        if magnitude > layout.max_finite() {
            return self.infinity(exact.negative);
        }
        let magnitude = magnitude as u32;
        let magnitude = if self == Self::Single13 { magnitude << 10 } else { magnitude };
        magnitude | self.sign(exact.negative)
    }

    /// [`Output::of_double`] for several sums.
    #[inline(always)]
    pub(super) fn of_doubles<const N: usize>(self, sums: &[f64; N]) -> [u32; N] {
        // Compared as integers, for which vector instructions have a minimum; a zero wraps around and becomes large.
        let least = sums.iter().fold(u64::MAX, |least, sum| least.min(sum.abs().to_bits().wrapping_sub(1)));
        let small = least < power_of_two(F32.e_min()).to_bits() - 1;
        let kept = match self {
            Self::Single if !small => u64::MAX << 29,
            Self::Single13 if !small => u64::MAX << 39,
            _ => return sums.map(|sum| self.of_double(sum)),
        };
        // The truncated double converts exactly, or to infinity.
        let mut out = [0; N];
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = (f64::from_bits(sum.to_bits() & kept) as f32).to_bits();
        }
        out
    }

    /// [`Output::convert`] for a finite sum that is exact in a double.
    pub(super) fn of_double(self, sum: f64) -> u32 {
        let bits = sum.to_bits();
        let negative = bits >> 63 == 1;
        // If the double's exponent is that of a normal result: rebias the exponent, and truncate or round the rest.
        let magnitude = bits & (u64::MAX >> 1);
        let normal = |layout: Layout| {
            let below = power_of_two(layout.e_min()).to_bits();
            let above = power_of_two(2 - layout.e_min()).to_bits();
            (below..above).contains(&magnitude).then(|| magnitude - below + (1 << 52))
        };
        let short = match self {
            Self::Single => normal(F32).map(|m| m >> 29),
            Self::Single13 => normal(SINGLE13).map(|m| m >> 39 << 10),
            // Rounding may carry into the exponent, up to infinity, which is the correct result.
            Self::Half => normal(F16).map(|m| (m + (1 << 41) - 1 + (m >> 42 & 1)) >> 42),
        };
        match short {
            Some(code) => code as u32 | self.sign(negative),
            None => match unpack(F64, bits) {
                Value::Finite(exact) => self.convert(exact),
                Value::Infinite(_) | Value::Nan => self.nan(),
            },
        }
    }

    const fn sign(self, negative: bool) -> u32 {
        if !negative {
            return 0;
        }
        match self {
            Self::Half => 0x8000,
            Self::Single | Self::Single13 => 0x8000_0000,
        }
    }

    const fn infinity(self, negative: bool) -> u32 {
        let magnitude = match self {
            Self::Half => 0x7C00,
            Self::Single | Self::Single13 => 0x7F80_0000,
        };
        magnitude | self.sign(negative)
    }

    const fn nan(self) -> u32 {
        match self {
            Self::Half => NAN_16 as u32,
            Self::Single | Self::Single13 => NAN_F32,
        }
    }
}

fn code(codes: &[u32], at: usize) -> u32 {
    codes.get(at).copied().unwrap_or(0)
}

/// [`super::mma`] by its definition, without the fast paths.
#[expect(clippy::too_many_arguments, reason = "the operands of one instruction, each a matrix")]
pub fn mma_exact(
    model: Model,
    form: &MmaForm,
    a: &[u32],
    b: &[u32],
    c: &[u32],
    sfa: &[u32],
    sfb: &[u32],
    d: &mut [u32],
) {
    let operands = Operands { a, b, c, sfa, sfb };
    for row in 0..form.shape.m {
        for column in 0..form.shape.n {
            let at = row * form.shape.n + column;
            let Some(slot) = d.get_mut(at) else { return };
            *slot = mma_exact_at(model, form, row, column, &operands, code(c, at));
        }
    }
}

/// Computes one element of D.
pub(super) fn mma_exact_at(
    model: Model,
    form: &MmaForm,
    row: usize,
    column: usize,
    operands: &Operands<'_>,
    c: u32,
) -> u32 {
    let Operands { a, b, sfa, sfb, .. } = *operands;
    let rule = model.rule(form);
    let k = form.shape.k;
    let product = |at: usize| (form.a.parts(code(a, row * k + at)), form.b.parts(code(b, column * k + at)));
    let scale = |at: usize| match form.scale {
        None => (ONE, ONE),
        Some((format, chunks)) => {
            let chunks = chunks as usize;
            let chunk = at * chunks / k;
            (format.parts(code(sfa, row * chunks + chunk)), format.parts(code(sfb, column * chunks + chunk)))
        }
    };
    let widened = rule.kind == Kind::Widened;
    let mut accumulator = if widened { 0 } else { c };
    let mut first = 0;
    while first < k {
        let last = k.min(first + rule.depth);
        let mut sum = Sum::new(rule.zero_exponent);
        sum.addend(form.accumulator.parts(accumulator));
        match rule.kind {
            Kind::Products => {
                for at in first..last {
                    let (x, y) = product(at);
                    add_scaled(&mut sum, x, y, scale(at));
                }
            }
            Kind::Widened => {
                // The lower halves of all registers are unpacked for the first sum, the upper halves for the second.
                for at in (first..last).map(|place| place % (k / 2) / 2 * 4 + place % 2 + place / (k / 2) * 2)
                {
                    let (x, y) = product(at);
                    sum.product(in_binary16(x), in_binary16(y), 0);
                }
            }
            Kind::Groups(size) => {
                for from in (first..last).step_by(size) {
                    let products = (from..last.min(from + size)).map(product);
                    add_group(&mut sum, products, scale(from));
                }
            }
        }
        accumulator = sum.result(rule.fraction, rule.output);
        first = last;
    }
    if widened { add_separately(form.accumulator, accumulator, c) } else { accumulator }
}

/// Normalises a value as binary16 does: subnormals of e4m3 are normal numbers in binary16.
fn in_binary16(parts: Parts) -> Parts {
    let Parts::Finite { negative, mut significand, mut exponent, fraction } = parts else { return parts };
    while significand != 0 && significand >> fraction == 0 && exponent > BINARY16_E_MIN {
        significand <<= 1;
        exponent -= 1;
    }
    Parts::Finite { negative, significand, exponent, fraction }
}

/// The exponent of binary16's smallest normal number and of its subnormals.
const BINARY16_E_MIN: i32 = -14;

const ONE: Parts = Parts::Finite { negative: false, significand: 1, exponent: 0, fraction: 0 };

fn add_scaled(sum: &mut Sum, x: Parts, y: Parts, (alpha, beta): (Parts, Parts)) {
    match (alpha, beta) {
        (Parts::Finite { exponent: e, .. }, Parts::Finite { exponent: g, .. }) => sum.product(x, y, e + g),
        _ => sum.nan = true,
    }
}

/// Adds the exact sum of a group of finite products as one term, aligned only by the exponents of the scales.
fn add_group(sum: &mut Sum, products: impl Iterator<Item = (Parts, Parts)>, scales: (Parts, Parts)) {
    let (
        Parts::Finite { significand: s, exponent: e, fraction: f, .. },
        Parts::Finite { significand: t, exponent: g, fraction: h, .. },
    ) = scales
    else {
        sum.nan = true;
        return;
    };
    let scale = i64::from(s) * i64::from(t);
    let mut group = Sum::new(0);
    for (x, y) in products {
        group.product(x, y, 0);
    }
    // e2m1 products are multiples of a quarter.
    let total: i64 = group.terms().iter().map(|term| term.cut_at(-2)).sum();
    let unit = e + g - (f + h).cast_signed() - 2;
    if scale == 0 || group.terms().iter().all(|term| term.significand == 0) {
        sum.push(0, unit, 0);
    } else {
        // A group that cancels to zero keeps its exponent.
        sum.place(Term { significand: total * scale, unit, exponent: e + g });
    }
}

/// The separate addition of C in [`Kind::Widened`].
fn add_separately(accumulator: Format, sum: u32, c: u32) -> u32 {
    match accumulator {
        Format::F16 => u32::from(crate::float::add_f16(sum as u16, c as u16, false, false)),
        _ => crate::float::add_f32(sum, c, Rounding::NearestEven, false, false),
    }
}
