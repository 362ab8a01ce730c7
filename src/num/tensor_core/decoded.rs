//! Operands as the fast path reads them: a double, and the places of its highest and lowest bits.

use crate::num::format::{Format, Parts, power_of_two};

/// The exponent of a zero, below every other; it keeps the sum of two in 16 bits.
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
    pub(super) const NOTHING: Self = Self { value: 0.0, high: ZERO, low: SPECIAL };

    pub(super) const fn of(parts: Parts) -> Self {
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

    pub(super) const fn is_zero(self) -> bool {
        self.high == ZERO
    }
}

/// Every code of a format of at most 8 bits; longer bytes repeat the shorter codes.
type Table = [Decoded; 256];

const fn table(format: Format) -> Table {
    let mut out = [Decoded::NOTHING; 256];
    let mut code = 0;
    while code < 256 {
        out[code] = Decoded::of(format.parts(code as u32));
        code += 1;
    }
    out
}

static E4M3: Table = table(Format::E4m3);
static E5M2: Table = table(Format::E5m2);
static E3M2: Table = table(Format::E3m2);
static E2M3: Table = table(Format::E2m3);
static E2M1: Table = table(Format::E2m1);

/// Decodes `codes` of `format` into `out`, which ends where the codes do.
pub(super) fn decode(format: Format, codes: &[u32], out: &mut [Decoded]) {
    let table = match format {
        Format::E4m3 => &E4M3,
        Format::E5m2 => &E5M2,
        Format::E3m2 => &E3M2,
        Format::E2m3 => &E2M3,
        Format::E2m1 => &E2M1,
        _ => {
            for (slot, code) in out.iter_mut().zip(codes) {
                *slot = Decoded::of(format.parts(*code));
            }
            return;
        }
    };
    for (slot, code) in out.iter_mut().zip(codes) {
        *slot = table[*code as usize & 0xFF];
    }
}

/// What the bounds of a fused sum need of one row of A or column of B.
#[derive(Clone, Copy)]
pub(super) struct Summary {
    pub(super) high: i32,
    pub(super) low: i32,
    pub(super) has_zero: bool,
}

impl Summary {
    pub(super) const NOTHING: Self = Self { high: ZERO as i32, low: SPECIAL as i32, has_zero: false };

    pub(super) fn of(elements: &[Decoded]) -> Self {
        let (mut high, mut least, mut low) = (ZERO, SPECIAL, SPECIAL);
        for element in elements {
            high = high.max(element.high);
            least = least.min(element.high);
            low = low.min(element.low);
        }
        Self { high: i32::from(high), low: i32::from(low), has_zero: least == ZERO }
    }

    pub(super) const fn has_special(self) -> bool {
        self.high == SPECIAL as i32
    }
}
