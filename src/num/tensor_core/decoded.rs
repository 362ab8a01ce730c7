//! Operands as the fast path reads them: doubles, and the places of their highest and lowest bits.

use crate::num::format::{BF16, F16, F32, Format, Layout, Parts, TF32, power_of_two};

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

/// A code of at most 8 bits, with its places as marks, so that a set of codes is summed up by "or".
#[derive(Clone, Copy)]
struct Entry {
    value: f64,
    marks: u64,
}

/// Marks 0 to 31: the lowest bit stands at −16 to 15. Marks 32 to 61: the exponent is −14 to 15.
const LOWEST: i16 = -16;
const HIGHEST: i16 = -14;
const MARK_ZERO: u64 = 1 << 62;
const MARK_SPECIAL: u64 = 1 << 63;
const MARKS_HIGH: u32 = 0x3FFF_FFFF;

impl Entry {
    const fn of(decoded: Decoded) -> Self {
        let marks = match decoded.high {
            ZERO => MARK_ZERO,
            SPECIAL => MARK_SPECIAL,
            high => 1 << (decoded.low - LOWEST) | 1 << (32 + high - HIGHEST),
        };
        Self { value: decoded.value, marks }
    }
}

/// The exponent that the marks of one code or the largest of several show.
fn high_of(marks: u64) -> i16 {
    match (marks >> 32) as u32 & MARKS_HIGH {
        0 => ZERO,
        marks => marks.ilog2() as i16 + HIGHEST,
    }
}

/// Every code of a format of at most 8 bits; longer bytes repeat the shorter codes.
type Table = [Entry; 256];

const fn table(format: Format) -> Table {
    let mut out = [Entry::of(Decoded::NOTHING); 256];
    let mut code = 0;
    while code < 256 {
        out[code] = Entry::of(Decoded::of(format.parts(code as u32)));
        code += 1;
    }
    out
}

static E4M3: Table = table(Format::E4m3);
static E5M2: Table = table(Format::E5m2);
static E3M2: Table = table(Format::E3m2);
static E2M3: Table = table(Format::E2m3);
static E2M1: Table = table(Format::E2m1);

const fn table_of(format: Format) -> Option<&'static Table> {
    match format {
        Format::E4m3 => Some(&E4M3),
        Format::E5m2 => Some(&E5M2),
        Format::E3m2 => Some(&E3M2),
        Format::E2m3 => Some(&E2M3),
        Format::E2m1 => Some(&E2M1),
        _ => None,
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

/// The values of `codes`, written to `values`, and their summary.
pub(super) fn decode(format: Format, codes: &[u32], values: &mut [f64]) -> Summary {
    if let Some(table) = table_of(format) {
        let mut marks = 0;
        for (value, code) in values.iter_mut().zip(codes) {
            let entry = &table[*code as usize & 0xFF];
            *value = entry.value;
            marks |= entry.marks;
        }
        let low = match marks as u32 {
            0 => SPECIAL,
            marks => marks.trailing_zeros() as i16 + LOWEST,
        };
        return Summary {
            high: high_of(marks),
            low,
            has_zero: marks & MARK_ZERO != 0,
            has_special: marks & MARK_SPECIAL != 0,
        };
    }
    // One loop per format, so that its field widths are constants.
    match format {
        Format::F16 => decode_by(codes, values, |code| Decoded::short(F16, format, code, code)),
        Format::Bf16 => decode_by(codes, values, |code| Decoded::short(BF16, format, code, code)),
        _ => decode_by(codes, values, |code| Decoded::wide(format, code)),
    }
}

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
pub(super) fn exponents(format: Format, codes: &[u32], out: &mut [i16]) {
    let table = table_of(format);
    for (slot, code) in out.iter_mut().zip(codes) {
        *slot = match table {
            Some(table) => high_of(table[*code as usize & 0xFF].marks),
            None => Decoded::wide(format, *code).high,
        };
    }
}
