//! Integer and single-bit `mma`: exact 32-bit sums that wrap, or saturate with `.satfinite`.

use super::MmaShape;

/// Element types of an integer `mma`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Integer {
    /// Signed, 8 bits.
    S8,
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 4 bits.
    S4,
    /// Unsigned, 4 bits.
    U4,
}

impl Integer {
    /// Parses a PTX type name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "s8" => Some(Self::S8),
            "u8" => Some(Self::U8),
            "s4" => Some(Self::S4),
            "u4" => Some(Self::U4),
            _ => None,
        }
    }

    /// Width of an element in bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
        }
    }

    /// Returns the value of a code.
    #[must_use]
    pub const fn decode(self, code: u32) -> i32 {
        match self {
            Self::S8 => code as i8 as i32,
            Self::U8 => code as u8 as i32,
            Self::S4 => (code << 28).cast_signed() >> 28,
            Self::U4 => (code & 0xF).cast_signed(),
        }
    }
}

/// The operation that a single-bit `mma` applies before the population count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum BitOp {
    /// `.and.popc`.
    And,
    /// `.xor.popc`.
    Xor,
}

/// Computes `D = A·B + C` on integers; the matrices have the layout of [`super::mma`].
#[expect(clippy::too_many_arguments, reason = "the operands of one instruction, each a matrix")]
pub fn mma_integer(
    shape: MmaShape,
    a_type: Integer,
    b_type: Integer,
    a: &[u32],
    b: &[u32],
    c: &[u32],
    satfinite: bool,
    d: &mut [u32],
) {
    let product = |x: u32, y: u32| i64::from(a_type.decode(x)) * i64::from(b_type.decode(y));
    each(shape, a, b, c, d, product, satfinite);
}

/// Computes a single-bit `mma`: adds the population count of `A op B` to C. Codes are single bits.
pub fn mma_b1(shape: MmaShape, op: BitOp, a: &[u32], b: &[u32], c: &[u32], d: &mut [u32]) {
    let product = |x: u32, y: u32| match op {
        BitOp::And => i64::from(x & y & 1),
        BitOp::Xor => i64::from((x ^ y) & 1),
    };
    each(shape, a, b, c, d, product, false);
}

fn each(
    shape: MmaShape,
    a: &[u32],
    b: &[u32],
    c: &[u32],
    d: &mut [u32],
    product: impl Fn(u32, u32) -> i64,
    satfinite: bool,
) {
    for (row, x) in a.chunks(shape.k).take(shape.m).enumerate() {
        for (column, y) in b.chunks(shape.k).take(shape.n).enumerate() {
            let at = row * shape.n + column;
            let (Some(slot), Some(addend)) = (d.get_mut(at), c.get(at)) else { return };
            let dot: i64 = x.iter().zip(y).map(|(x, y)| product(*x, *y)).sum();
            let sum = dot + i64::from(addend.cast_signed());
            let sum = if satfinite { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) } else { sum };
            *slot = sum as u32;
        }
    }
}
