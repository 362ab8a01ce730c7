//! Operands of a product: block-scaled codes, or values that are multiplied as they are.

use std::sync::OnceLock;

use numerics::format::{Format, Parts};

/// An operand [rows, K].
#[derive(Debug, Clone, PartialEq)]
pub enum Matrix {
    /// Codes with block scales.
    Scaled(Scaled),
    /// Values, row-major.
    Plain {
        /// K.
        depth: usize,
        /// [rows, K].
        values: Vec<f64>,
    },
}

/// Codes with block scales and a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaled {
    /// The format of the codes.
    pub element: Format,
    /// K.
    pub depth: usize,
    /// [rows, K], one code in each byte.
    pub codes: Vec<u8>,
    /// The format of the scales.
    pub scale: Format,
    /// Elements of K that share a scale.
    pub block: usize,
    /// [rows, K / block].
    pub scales: Vec<u8>,
    /// The factor of all values.
    pub global: f64,
}

impl Matrix {
    /// K.
    #[must_use]
    pub const fn depth(&self) -> usize {
        match self {
            Self::Scaled(of) => of.depth,
            Self::Plain { depth, .. } => *depth,
        }
    }

    /// The elements of K in 16 bytes. Values that are multiplied as they are have 16 bits.
    pub(super) fn chunk(&self) -> usize {
        match self {
            Self::Scaled(of) if of.element == Format::E2m1 => 32,
            Self::Scaled(_) => 16,
            Self::Plain { .. } => 8,
        }
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        let elements = match self {
            Self::Scaled(of) => of.codes.len(),
            Self::Plain { values, .. } => values.len(),
        };
        elements / self.depth().max(1)
    }

    /// These rows of it alone.
    pub(super) fn of_rows(&self, rows: &[usize]) -> Self {
        fn picked<T: Copy>(all: &[T], rows: &[usize], width: usize) -> Vec<T> {
            rows.iter().filter_map(|row| all.get(row * width..(row + 1) * width)).flatten().copied().collect()
        }
        match self {
            Self::Plain { depth, values } => {
                Self::Plain { depth: *depth, values: picked(values, rows, *depth) }
            }
            Self::Scaled(of) => Self::Scaled(Scaled {
                codes: picked(&of.codes, rows, of.depth),
                scales: picked(&of.scales, rows, of.depth / of.block.max(1)),
                ..*of
            }),
        }
    }
}

/// The nominal exponent of zeros.
pub(super) const ZERO: i64 = -132;

/// The lowest bit of zeros.
pub(super) const NONE: i64 = 10_000;

/// What a tensor core reads of a code: its value, and the nominal exponent, which for subnormals is that of the smallest normal number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Code {
    pub(super) value: f64,
    pub(super) exponent: i64,
}

/// Every code of a format of at most 8 bits.
pub(super) fn codes(format: Format) -> &'static [Code; 256] {
    static TABLES: [OnceLock<[Code; 256]>; Format::ALL.len()] =
        [const { OnceLock::new() }; Format::ALL.len()];
    let at = Format::ALL.iter().position(|of| *of == format).unwrap_or(0);
    TABLES[at].get_or_init(|| {
        std::array::from_fn(|code| {
            let exponent = match format.parts(code as u32) {
                Parts::Finite { exponent, .. } => i64::from(exponent),
                Parts::Nan | Parts::Infinite { .. } => 0,
            };
            // A scale of ue4m3 has no sign.
            let is_beyond = format == Format::Ue4m3 && code > 0x7F;
            let value = if is_beyond { f64::NAN } else { f64::from(format.decode(code as u32)) };
            Code { value, exponent }
        })
    })
}

/// The exponent e of a number 1.m·2^e; that of zero is below every other.
pub(super) fn exponent(x: f64) -> i64 {
    let field = |x: f64| (x.to_bits() >> 52 & 0x7FF) as i64;
    match x {
        0.0 => ZERO,
        _ if field(x) == 0 => field(x * 2f64.powi(64)) - 64 - 1023,
        _ => field(x) - 1023,
    }
}

/// The exponent of the lowest set bit; that of zero is above every other.
pub(super) fn unit(x: f64) -> i64 {
    if x == 0.0 || !x.is_finite() {
        return NONE;
    }
    let fraction = x.to_bits() & ((1 << 52) - 1);
    let significand = if x.to_bits() >> 52 & 0x7FF == 0 { fraction } else { fraction | 1 << 52 };
    exponent(x).max(-1022) - 52 + i64::from(significand.trailing_zeros())
}

/// Decoded rows: values, nominal exponents and lowest bits of each.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) values: Vec<f64>,
    pub(super) exponents: Vec<i64>,
    pub(super) units: Vec<i64>,
}

impl Decoded {
    /// Adds values that are multiplied as they are.
    pub(super) fn add_values(&mut self, row: &[f64]) {
        for value in row {
            let nominal = if *value == 0.0 { ZERO } else { exponent(*value).max(-126) };
            self.add(*value, nominal);
        }
    }

    /// Adds codes of a format, each with the factor of its block of so many.
    pub(super) fn add_codes(&mut self, row: &[u8], element: Format, factors: &[f64], block: usize) {
        let table = codes(element);
        for (codes, factor) in row.chunks(block.max(1)).zip(factors) {
            // A factor of 1.m·2^e may raise a product to the next exponent.
            let is_power = factor.to_bits() & ((1 << 52) - 1) == 0;
            let lift = exponent(*factor) + i64::from(!is_power);
            for code in codes {
                let Code { value, exponent } = table[usize::from(*code)];
                self.add(value * factor, if value == 0.0 { ZERO } else { exponent + lift });
            }
        }
    }

    fn add(&mut self, value: f64, exponent: i64) {
        self.values.push(value);
        self.exponents.push(exponent);
        self.units.push(unit(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_bits_and_exponents_are_those_of_the_number() {
        assert_eq!([1.0, 6.0, 0.75, 2f64.powi(-1074)].map(unit), [0, 1, -2, -1074]);
        assert_eq!([1.0, 6.0, 0.75, 2f64.powi(-1074)].map(exponent), [0, 2, -1, -1074]);
        assert_eq!((unit(0.0), exponent(0.0)), (NONE, ZERO));
    }

    #[test]
    fn subnormal_codes_have_the_exponent_of_the_smallest_normal_number() {
        let of = codes(Format::E2m1);
        assert_eq!([1, 2, 7, 15].map(|code| of[code].value), [0.5, 1.0, 6.0, -6.0]);
        assert_eq!([1, 2, 7].map(|code| of[code].exponent), [0, 0, 2]);
        assert!(codes(Format::Ue4m3)[0x80].value.is_nan() && codes(Format::Ue8m0)[255].value.is_nan());
    }
}
