//! Operands as the fast path reads them: doubles, and the places of their highest and lowest bits.

use crate::format::{BF16, F16, F32, Format, Layout, Parts, TF32, power_of_two};

/// The exponent of a zero, below every other; the sum of two still fits 16 bits.
pub(super) const ZERO: i16 = -0x3000;
/// The exponent of infinities and NaNs, above every other.
pub(super) const SPECIAL: i16 = 0x3000;

/// One operand.
#[derive(Clone, Copy)]
pub(super) struct Decoded {
    /// The value; zero for infinities and NaNs.
    pub(super) value: f64,
    /// The exponent that places it in a sum: not normalised for subnormals.
    pub(super) high: i16,
    /// The place of its lowest bit that is set.
    pub(super) low: i16,
}

impl Decoded {
    const NOTHING: Self = Self { value: 0.0, high: ZERO, low: SPECIAL };

    const fn of(parts: Parts) -> Self {
        match parts {
            Parts::Finite { significand: 0, .. } => Self::NOTHING,
            Parts::Finite { negative, significand, exponent, fraction } => {
                let unit = exponent - fraction as i32;
                let magnitude = significand as f64 * power_of_two(unit);
                Self {
                    value: if negative { -magnitude } else { magnitude },
                    high: exponent as i16,
                    low: (unit + significand.trailing_zeros() as i32) as i16,
                }
            }
            Parts::Nan | Parts::Infinite { .. } => Self { value: 0.0, high: SPECIAL, low: 0 },
        }
    }

    /// [`Decoded::of`] of a code of 16 or more bits.
    pub(super) fn wide(format: Format, code: u32) -> Self {
        match format {
            Format::F16 => Self::short(F16, format, code, code),
            Format::Bf16 => Self::short(BF16, format, code, code),
            Format::Tf32 => Self::short(TF32, format, code, code >> 13),
            _ => Self::short(F32, format, code, code),
        }
    }

    /// The short way for normal numbers; `bits` are those that `layout` describes.
    #[inline]
    fn short(layout: Layout, format: Format, code: u32, bits: u32) -> Self {
        let Layout { exponent_bits, mantissa_bits, .. } = layout;
        let largest = (1 << exponent_bits) - 1;
        let field = bits >> mantissa_bits & largest;
        if field == 0 || field == largest {
            return Self::of(format.parts(code));
        }
        let mantissa = bits & ((1 << mantissa_bits) - 1);
        let exponent = field.cast_signed() - 1 + layout.e_min();
        let low = exponent - (mantissa_bits - (mantissa | 1 << mantissa_bits).trailing_zeros()).cast_signed();
        let sign = u64::from(bits >> layout.magnitude_bits() & 1) << 63;
        let value = sign
            | u64::from((exponent + 1023).cast_unsigned()) << 52
            | u64::from(mantissa) << (52 - mantissa_bits);
        Self { value: f64::from_bits(value), high: exponent as i16, low: low as i16 }
    }
}

/// A format of `E` exponent and `M` mantissa bits, E at most 5, whose magnitudes from `LIMIT` on are infinite or NaN. All its
/// places fit one double.
///
/// Its codes are read by arithmetic alone, which compilers turn into vectors.
struct Small<const E: u32, const M: u32, const LIMIT: u32>;

type E4m3 = Small<4, 3, 0x7F>;
type E5m2 = Small<5, 2, 0x7C>;
type E3m2 = Small<3, 2, 0x20>;
type E2m3 = Small<2, 3, 0x20>;
type E2m1 = Small<2, 1, 0x08>;
type Half = Small<5, 10, 0x7C00>;

impl<const E: u32, const M: u32, const LIMIT: u32> Small<E, M, LIMIT> {
    const BIAS: i32 = (1 << (E - 1)) - 1;
    const MAGNITUDE: u32 = (1 << (E + M)) - 1;
    /// The smallest normal exponent, and the place of the lowest bit there is.
    const E_MIN: i32 = 1 - Self::BIAS;
    const UNIT: i32 = Self::E_MIN - M as i32;
    /// The bits of a sum of this and a magnitude count units.
    const ANCHOR: f64 = 1.5 * power_of_two(52 + Self::UNIT);

    #[inline(always)]
    fn decode(codes: &[u32], values: &mut [f64]) -> Summary {
        let (mut counts, mut special, mut zero) = (0, 0, 0);
        for (value, code) in values.iter_mut().zip(codes) {
            let magnitude = code & Self::MAGNITUDE;
            // A subnormal is read one exponent higher, where its hidden bit is, which is then taken away.
            let subnormal = magnitude < 1 << M;
            let exponent = (1023 - Self::BIAS) as u64 + u64::from(subnormal);
            let bits = (u64::from(magnitude) << (52 - M)) + (exponent << 52);
            let hidden = if subnormal { power_of_two(Self::E_MIN) } else { 0.0 };
            let size = f64::from_bits(bits) - hidden;
            counts |= (size + Self::ANCHOR).to_bits();
            special |= magnitude + (Self::MAGNITUDE + 1 - LIMIT);
            zero |= magnitude.wrapping_sub(1);
            let sign = u64::from(code >> (E + M) & 1) << 63;
            *value = f64::from_bits(size.to_bits() | sign);
        }
        let counts = counts & (u64::MAX >> 13);
        let (high, low) = match counts {
            0 => (ZERO, SPECIAL),
            counts => {
                let high = (counts.ilog2().cast_signed() + Self::UNIT).max(Self::E_MIN);
                (high as i16, (counts.trailing_zeros().cast_signed() + Self::UNIT) as i16)
            }
        };
        Summary { high, low, has_zero: zero >> 31 == 1, has_special: special > Self::MAGNITUDE }
    }

    #[inline(always)]
    fn exponents(codes: &[u32], out: &mut [i16]) {
        for (slot, code) in out.iter_mut().zip(codes) {
            let magnitude = (code & Self::MAGNITUDE) as i16;
            let exponent = (magnitude >> M).max(1) - Self::BIAS as i16;
            *slot = if magnitude == 0 { ZERO } else { exponent };
        }
    }
}

/// bfloat16, whose places do not fit one double: each code's lowest bit is found by itself, by arithmetic too.
struct Brain;

impl Brain {
    const MANTISSA: u32 = 7;
    const BIAS: i32 = 127;

    #[inline(always)]
    fn decode(codes: &[u32], values: &mut [f64]) -> Summary {
        let (mut high, mut low) = (i32::from(ZERO), i32::from(SPECIAL));
        let (mut largest, mut zero) = (0, false);
        for (value, code) in values.iter_mut().zip(codes) {
            *value = f64::from(f32::from_bits(code << 16)) + 0.0;
            let magnitude = code & 0x7FFF;
            let field = (magnitude >> Self::MANTISSA).cast_signed();
            let hidden = i32::from(field != 0) << Self::MANTISSA;
            let significand = (magnitude & 0x7F).cast_signed() | hidden;
            // The lowest bit that is set, alone, is a power of two whose exponent is its place.
            let lowest = (((significand & -significand) as f32).to_bits() >> 23).cast_signed() - 127;
            let exponent = field.max(1) - Self::BIAS;
            let nothing = magnitude == 0;
            high = high.max(if nothing { i32::from(ZERO) } else { exponent });
            let place = exponent - Self::MANTISSA as i32 + lowest;
            low = low.min(if nothing { i32::from(SPECIAL) } else { place });
            largest = largest.max(field);
            zero |= nothing;
        }
        Summary { high: high as i16, low: low as i16, has_zero: zero, has_special: largest == 0xFF }
    }

    #[inline(always)]
    fn exponents(codes: &[u32], out: &mut [i16]) {
        for (slot, code) in out.iter_mut().zip(codes) {
            let magnitude = (code & 0x7FFF) as i16;
            let exponent = (magnitude >> Self::MANTISSA).max(1) - Self::BIAS as i16;
            *slot = if magnitude == 0 { ZERO } else { exponent };
        }
    }
}

/// What the bounds of a fused sum need of one row of A or column of B.
#[derive(Clone, Copy)]
pub(super) struct Summary {
    pub(super) high: i16,
    pub(super) low: i16,
    pub(super) has_zero: bool,
    pub(super) has_special: bool,
}

impl Summary {
    pub(super) const NOTHING: Self = Self { high: ZERO, low: SPECIAL, has_zero: false, has_special: false };
}

/// The values of `codes`, written to `values`, and their summary. Infinities and NaNs have any value.
#[inline(always)]
pub(super) fn decode(format: Format, codes: &[u32], values: &mut [f64]) -> Summary {
    // One loop per format, so that its field widths are constants.
    match format {
        Format::E4m3 => E4m3::decode(codes, values),
        Format::E5m2 => E5m2::decode(codes, values),
        Format::E3m2 => E3m2::decode(codes, values),
        Format::E2m3 => E2m3::decode(codes, values),
        Format::E2m1 => E2m1::decode(codes, values),
        Format::F16 => Half::decode(codes, values),
        Format::Bf16 => Brain::decode(codes, values),
        _ => decode_by(codes, values, |code| Decoded::wide(format, code)),
    }
}

#[inline(always)]
fn decode_by(codes: &[u32], values: &mut [f64], decoded: impl Fn(u32) -> Decoded) -> Summary {
    let mut out = Summary::NOTHING;
    for (value, code) in values.iter_mut().zip(codes) {
        let decoded = decoded(*code);
        *value = decoded.value;
        out.high = out.high.max(decoded.high);
        out.low = out.low.min(decoded.low);
        out.has_zero |= decoded.high == ZERO;
    }
    out.has_special = out.high == SPECIAL;
    out
}

/// The exponents of `codes`, [`ZERO`] for zeros.
#[inline(always)]
pub(super) fn exponents(format: Format, codes: &[u32], out: &mut [i16]) {
    match format {
        Format::E4m3 => E4m3::exponents(codes, out),
        Format::E5m2 => E5m2::exponents(codes, out),
        Format::E3m2 => E3m2::exponents(codes, out),
        Format::E2m3 => E2m3::exponents(codes, out),
        Format::E2m1 => E2m1::exponents(codes, out),
        Format::F16 => Half::exponents(codes, out),
        Format::Bf16 => Brain::exponents(codes, out),
        _ => {
            for (slot, code) in out.iter_mut().zip(codes) {
                *slot = Decoded::wide(format, *code).high;
            }
        }
    }
}
