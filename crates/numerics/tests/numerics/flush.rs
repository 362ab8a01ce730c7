//! `.ftz` next to the smallest normal number, against exact arithmetic on integers: a result is flushed if it is below that number once
//! rounded to the format's precision with an unbounded exponent.

use numerics::Rounding::{self, Down, NearestEven, Up, Zero};
use numerics::convert::f64_to_f32;
use numerics::float::*;

const ROUNDINGS: [Rounding; 4] = [NearestEven, Zero, Down, Up];

/// A number: its sign, and `significand · 2^unit`. The lowest bit may stand for a rest below it.
#[derive(Clone, Copy)]
struct Number {
    negative: bool,
    significand: u128,
    unit: i32,
}

/// A format: bits of precision, the exponent of the smallest normal number, and bits of a code without its sign.
#[derive(Clone, Copy)]
struct Layout {
    precision: i32,
    smallest: i32,
    magnitude: u32,
}

const F16: Layout = Layout { precision: 11, smallest: -14, magnitude: 15 };
const F32: Layout = Layout { precision: 24, smallest: -126, magnitude: 31 };

impl Layout {
    fn take(self, code: u32) -> Number {
        let (fraction, sign) = (self.precision - 1, code >> self.magnitude);
        let (field, low) =
            ((code & !(sign << self.magnitude)) >> fraction, u128::from(code & ((1 << fraction) - 1)));
        let (significand, exponent) = if field == 0 { (0, 1) } else { (low | 1 << fraction, field as i32) };
        Number { negative: sign == 1, significand, unit: exponent - 1 + self.smallest - fraction }
    }

    /// The code of a number of at most two binades above the smallest normal one, rounded and flushed.
    fn flushed(self, x: Number, rounding: Rounding) -> u32 {
        let sign = u32::from(x.negative) << self.magnitude;
        if x.significand == 0 {
            return sign;
        }
        let cut = (128 - x.significand.leading_zeros()).cast_signed() - self.precision;
        let (mut kept, up) = match cut {
            ..=0 => (x.significand << -cut, false),
            _ => {
                let (kept, rest, half) =
                    (x.significand >> cut, x.significand & ((1 << cut) - 1), 1 << (cut - 1));
                let up = match rounding {
                    Zero => false,
                    Up => rest != 0 && !x.negative,
                    Down => rest != 0 && x.negative,
                    _ => rest > half || rest == half && kept & 1 == 1,
                };
                (kept, up)
            }
        };
        kept += u128::from(up);
        // The exponent of `kept`'s highest bit, had it not been carried.
        let exponent = x.unit + cut + self.precision - 1;
        let field = exponent - self.smallest + 1 + i32::from(kept >> self.precision != 0);
        if field < 1 {
            return sign;
        }
        let fraction =
            if kept >> self.precision != 0 { 0 } else { kept as u32 & ((1 << (self.precision - 1)) - 1) };
        sign | (field as u32) << (self.precision - 1) | fraction
    }
}

fn times(a: Number, b: Number) -> Number {
    let negative = a.negative != b.negative;
    Number { negative, significand: a.significand * b.significand, unit: a.unit + b.unit }
}

/// The sum, if its bits are close enough together.
fn plus(a: Number, b: Number, rounding: Rounding) -> Option<Number> {
    let (unit, [low, high]) = (a.unit.min(b.unit), if a.unit < b.unit { [a, b] } else { [b, a] });
    let shift = high.unit - low.unit;
    if shift + 128 - high.significand.leading_zeros().cast_signed() > 126 {
        return None;
    }
    let signed = |x: Number, shift: i32| {
        let magnitude = (x.significand << shift).cast_signed();
        if x.negative { -magnitude } else { magnitude }
    };
    let sum = signed(low, 0) + signed(high, shift);
    let zero = if a.negative == b.negative { a.negative } else { rounding == Down };
    Some(Number { negative: if sum == 0 { zero } else { sum < 0 }, significand: sum.unsigned_abs(), unit })
}

fn over(a: Number, b: Number) -> Number {
    let (up, negative) = (a.significand << 90, a.negative != b.negative);
    let rest = u128::from(!up.is_multiple_of(b.significand));
    Number { negative, significand: (up / b.significand) | rest, unit: a.unit - 90 - b.unit }
}

/// A sequence of pseudorandom numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * u64::from(n)) >> 32) as u32
    }

    fn sign(&mut self) -> u32 {
        self.below(2) << 31
    }

    /// The fraction of a float: often nearly empty, nearly full, or with few bits.
    fn fraction(&mut self) -> u32 {
        match self.below(5) {
            0 => self.below(4),
            1 => 0x7F_FFFF - self.below(4),
            2 => self.below(1 << 11) << 12,
            _ => self.below(1 << 23),
        }
    }
}

/// Every product of two binary16 numbers from half the smallest normal number to twice it.
#[test]
fn products_of_halves() {
    let mut below = 0;
    for a in 0x0400..0x7C00u16 {
        let x = F16.take(u32::from(a));
        // The codes of the powers of two from 2^-16 / a to 2^-13 / a.
        let exponent = (a >> 10).cast_signed() - 15;
        let codes = [-16, -13].map(|e: i16| ((e - exponent + 15).clamp(1, 30).cast_unsigned()) << 10);
        for b in codes[0]..codes[1] {
            let exact = times(x, F16.take(u32::from(b)));
            let want = F16.flushed(exact, NearestEven) as u16;
            for (a, want) in [(a, want), (a | 0x8000, want | 0x8000)] {
                assert_eq!(mul_f16(a, b, true, false), want, "{a:#06x} · {b:#06x}");
                assert_eq!(fma_f16(a, b, a & 0x8000, true, false, false), want, "{a:#06x} · {b:#06x}");
            }
            assert_eq!(mul_f16(a, b, true, true), want.min(0x3C00), "{a:#06x} · {b:#06x}, saturated");
            assert_eq!(
                fma_f16(a | 0x8000, b, 0, true, false, true),
                0,
                "{a:#06x} · {b:#06x}, without negatives"
            );
            below += u32::from(want == 0 && mul_f16(a, b, false, false) == 0x0400);
        }
    }
    assert!(below > 4000, "{below} products round to the smallest normal number and are flushed");
}

/// Products of binary16 numbers with an addend next to the smallest normal number.
#[test]
fn sums_of_halves() {
    let mut random = Random(3);
    for n in 0..4_000_000 {
        let c = [0, 1, 0x3FF, 0x400, 0x401, 0x402, 0x800, 0x7FF][random.below(8) as usize]
            | (random.sign() >> 16) as u16;
        let a = random.below(0x7C00) as u16 | (random.sign() >> 16) as u16;
        let exponent = (a >> 10 & 31).cast_signed() - 15;
        let e = (-14 - random.below(14) as i16 - exponent + 15).clamp(0, 30).cast_unsigned();
        let b = e << 10 | random.below(1 << 10) as u16;
        let [x, y, z] = [a, b, c].map(|code| F16.take(u32::from(code)));
        let Some(exact) = plus(times(x, y), z, NearestEven) else { continue };
        let want = F16.flushed(exact, NearestEven) as u16;
        assert_eq!(fma_f16(a, b, c, true, false, false), want, "{n}: {a:#06x} · {b:#06x} + {c:#06x}");
        let exact = plus(x, z, NearestEven).unwrap();
        assert_eq!(add_f16(a, c, true, false), F16.flushed(exact, NearestEven) as u16, "{a:#06x} + {c:#06x}");
    }
}

/// Products and quotients of floats next to 2^-126, in every rounding.
#[test]
fn products_and_quotients_of_floats() {
    let mut random = Random(1);
    let mut below = [0; 4];
    for _ in 0..300_000 {
        let (fraction, exponent) = (random.fraction(), 20 + random.below(90));
        let a = exponent << 23 | fraction;
        // b = 2^-126 / a, and its neighbours.
        let near = (1u64 << 47) / u64::from(fraction | 1 << 23);
        let b = if fraction == 0 {
            (128 - exponent) << 23
        } else {
            (127 - exponent) << 23 | (near as u32 & 0x7F_FFFF)
        };
        for b in (b - 2..=b + 2).map(|b| b | random.sign()) {
            for (n, r) in ROUNDINGS.into_iter().enumerate() {
                let want = F32.flushed(times(F32.take(a), F32.take(b)), r);
                assert_eq!(mul_f32(a, b, r, true, false), want, "{a:#x} · {b:#x} {r:?}");
                assert_eq!(fma_f32(a, b, b & 1 << 31, r, true, false), want, "{a:#x} · {b:#x} + 0 {r:?}");
                let saturated = if want >> 31 == 1 { 0 } else { want };
                assert_eq!(mul_f32(a, b, r, true, true), saturated, "{a:#x} · {b:#x} {r:?}, saturated");
                below[n] += u32::from(want << 1 == 0 && mul_f32(a, b, r, false, false) << 1 == 0x0100_0000);
            }
        }
        // a / b next to 2^-126.
        let b = (130 + random.below(122)) << 23 | fraction;
        for a in (b - (126 << 23) - 3..=b - (126 << 23) + 3).map(|a| a | random.sign()) {
            for r in ROUNDINGS {
                let want = F32.flushed(over(F32.take(a), F32.take(b)), r);
                assert_eq!(div_f32(a, b, r, true), want, "{a:#x} / {b:#x} {r:?}");
            }
        }
    }
    assert!(below[0] > 10_000 && below[1] == 0 && below[2] > 1000 && below[3] > 1000, "{below:?}");
}

/// Sums of a float next to 2^-126 and a small product, and of two floats.
#[test]
fn sums_of_floats() {
    let mut random = Random(2);
    for _ in 0..1_000_000 {
        let c = (0x0080_0000 + random.below(9) - 4) | random.sign();
        let (ea, distance) = (40 + random.below(40), random.below(60));
        let a = ea << 23 | random.fraction() | random.sign();
        let b = (128 - ea - distance.min(127 - ea)) << 23 | random.fraction() | random.sign();
        for r in ROUNDINGS {
            let [x, y, z] = [a, b, c].map(|code| F32.take(code));
            if let Some(exact) = plus(times(x, y), z, r) {
                assert_eq!(
                    fma_f32(a, b, c, r, true, false),
                    F32.flushed(exact, r),
                    "{a:#x} · {b:#x} + {c:#x} {r:?}"
                );
            }
            let d = (1 + random.below(3)) << 23 | random.fraction() | random.sign();
            let exact = plus(F32.take(d), z, r).unwrap();
            assert_eq!(add_f32(d, c, r, true, false), F32.flushed(exact, r), "{d:#x} + {c:#x} {r:?}");
            assert_eq!(
                sub_f32(d, c ^ 1 << 31, r, true, false),
                F32.flushed(exact, r),
                "{d:#x} - -{c:#x} {r:?}"
            );
        }
    }
}

/// Reciprocals of every float whose reciprocal is within a few units of 2^-126.
#[test]
fn reciprocals_of_floats() {
    for b in (253u32 << 23) - 2000..(253 << 23) + 2000 {
        for (b, r) in ROUNDINGS.into_iter().flat_map(|r| [(b, r), (b | 1 << 31, r)]) {
            let want = F32.flushed(over(F32.take(0x3F80_0000), F32.take(b)), r);
            assert_eq!(rcp_f32(b, r, true), want, "1 / {b:#x} {r:?}");
        }
    }
}

/// Doubles next to 2^-126 as floats.
#[test]
fn doubles_as_floats() {
    const SMALLEST: u64 = (1023 - 126) << 52;
    let steps = (0..40).map(|bit| 1u64 << bit);
    let near =
        steps.flat_map(|step| [SMALLEST - step, SMALLEST - step - 1, SMALLEST - step + 1, SMALLEST + step]);
    for bits in near.chain([SMALLEST]).flat_map(|bits| [bits, bits | 1 << 63]) {
        for r in ROUNDINGS {
            let exponent = (bits >> 52 & 0x7FF) as i32;
            let significand = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
            let exact = Number { negative: bits >> 63 == 1, significand, unit: exponent - 1075 };
            assert_eq!(f64_to_f32(f64::from_bits(bits), r, true), F32.flushed(exact, r), "{bits:#x} {r:?}");
        }
    }
}

/// Results of an H200: forms of `.ftz` on operands whose result rounds to 2^-126 or 2^-14 as a subnormal number.
#[test]
fn results_of_a_gpu() {
    assert_eq!(mul_f32(0x21FF_FFFF, 0x1E00_0000, NearestEven, true, false), 0);
    assert_eq!(mul_f32(0xA380_0000, 0x9C7F_FFFF, Up, true, true), 0);
    assert_eq!(mul_f32(0xA19C_B000, 0x1E51_212F, Down, true, false), 0x8000_0000);
    assert_eq!(fma_f32(0x2595_A000, 0x1A5B_0036, 0, NearestEven, true, false), 0);
    assert_eq!(div_approx_f32(0x3BFF_FFFF, 0x7B00_0000, true), 0);
    assert_eq!(div_full_f32(0x0DFF_FFFF, 0xCD00_0000, true), 0x8000_0000);
    assert_eq!(mul_f16(0x98B9, 0x26C6, true, false), 0x8000);
    assert_eq!(fma_f16(0x1426, 0x2BB6, 0x83FF, true, false, true), 0);
    assert_eq!(f64_to_f32(f64::from_bits(0x380F_FFFF_E000_0000), Up, true), 0);
}
