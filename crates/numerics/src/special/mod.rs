//! Bit-exact models of the special functions of the multifunction unit (`MUFU` in SASS).
//!
//! The design is the one published by Oberman and Siu ("A High-Performance Area-Efficient Multifunction Interpolator",
//! ARITH 2005): the top bits of the operand select a segment, the remaining bits are `x`, and the result is
//! `c0 + c1·x + c2·x²` in fixed point, with a truncated square and at most one rounding. The widths are those that
//! envytools describes for the G80. The tables were recovered from exhaustive outputs of an H200: for each segment, exactly
//! one triple of integers reproduces the outputs for all mantissas.
//!
//! The functions flush subnormal operands and results, as the unit does; [`crate::float`] adds the instructions that ptxas emits around
//! it. docs/numerics.md lists the GPUs on which each function was verified for all inputs.

mod double;
mod inverse;
mod power;
mod square;
mod tables;
mod trigonometric;

pub use double::{rcp64h, rsq64h};
pub(crate) use inverse::{Rcp, Rsq, Sqrt};
pub(crate) use power::{Ex2, Lg2};
pub(crate) use trigonometric::{Cos, Sin, Tanh};

use crate::format::NAN_F32 as NAN;

const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7F80_0000;
const ONE: u32 = 0x3F80_0000;
/// The implicit bit of a significand.
const IMPLICIT: u32 = 1 << 23;

#[inline(always)]
const fn is_nan(a: u32) -> bool {
    a & !SIGN > INFINITY
}

/// The biased exponent.
#[inline(always)]
const fn exponent(a: u32) -> i32 {
    (a >> 23 & 0xFF).cast_signed()
}

#[inline(always)]
const fn fraction(a: u32) -> u32 {
    a & (IMPLICIT - 1)
}

/// The coefficients of a segment; the constant is aligned with the other terms and includes the rounding term.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    constant: i64,
    linear: i32,
    quadratic: i32,
}

/// Prepares the rows of a table: shifts the constants left by `places` and adds the rounding term.
const fn rows<const N: usize>(table: &[[i32; 3]; N], places: u32, rounding: i64) -> [Row; N] {
    let mut rows = [Row { constant: 0, linear: 0, quadratic: 0 }; N];
    let mut n = 0;
    while n < N {
        let [constant, linear, quadratic] = table[n];
        rows[n] = Row { constant: ((constant as i64) << places) + rounding, linear, quadratic };
        n += 1;
    }
    rows
}

impl Row {
    /// Returns the sum of the three terms; the quadratic term is shifted left by `places`.
    #[inline(always)]
    fn sum(self, x: u32, square: u32, places: u32) -> i64 {
        let quadratic = (i64::from(self.quadratic) * i64::from(square)) << places;
        self.constant + i64::from(self.linear) * i64::from(x) + quadratic
    }
}

/// A function of the unit in three steps. The first and the last have no branches, so that a loop over lanes becomes vector
/// instructions. Between them, the rows of the table are copied lane by lane: that takes less time than gathering them.
pub(crate) trait Function {
    /// The table.
    const ROWS: &'static [Row];

    /// The segment of an operand, and the distance from its start.
    fn place(a: u32) -> (u32, u32);

    /// The row of the table for an operand of a segment.
    #[inline(always)]
    fn row(_a: u32, segment: u32) -> usize {
        segment as usize
    }

    /// What is squared: a number of 17 bits.
    #[inline(always)]
    fn squared(x: u32) -> u32 {
        x
    }

    /// What a row of the table gives for an operand at this place, given the square.
    fn interpolate(a: u32, row: Row, place: (u32, u32), square: u32) -> u32;

    /// The result, also for operands without a place: what the table gives for them does not matter.
    fn result(a: u32, interpolated: u32) -> u32;
}

/// A function of several operands.
#[inline(always)]
pub(crate) fn of_each<F: Function, const N: usize>(a: &[u32; N]) -> [u32; N] {
    let (mut segments, mut offsets, mut out) = ([0; N], [0; N], [0; N]);
    for lane in 0..N {
        (segments[lane], offsets[lane]) = F::place(a[lane]);
    }
    let rows = rows_of_each::<F, N>(a, &segments);
    // Loops over numbers of one size each, of which a vector holds as many as it can.
    let (mut low, mut shifted, mut squares) = ([0; N], [0; N], [0; N]);
    for lane in 0..N {
        (low[lane], shifted[lane]) = square::halves(F::squared(offsets[lane]));
    }
    for lane in 0..N {
        squares[lane] = match N {
            1 => square::of_one(F::squared(offsets[lane])),
            _ => square::of_halves(low[lane], shifted[lane]),
        };
    }
    let mut interpolated = [0; N];
    for lane in 0..N {
        let place = (segments[lane], offsets[lane]);
        interpolated[lane] = F::interpolate(a[lane], rows[lane], place, squares[lane].into());
    }
    for lane in 0..N {
        out[lane] = F::result(a[lane], interpolated[lane]);
    }
    out
}

/// A function of one operand.
pub(crate) fn of_one<F: Function>(a: u32) -> u32 {
    let [result] = of_each::<F, 1>(&[a]);
    result
}

/// The rows of the table. Apart, so that this is not compiled for vectors.
#[inline(never)]
fn rows_of_each<F: Function, const N: usize>(a: &[u32; N], segments: &[u32; N]) -> [Row; N] {
    let mut out = [Row { constant: 0, linear: 0, quadratic: 0 }; N];
    for lane in 0..N {
        if let Some(row) = F::ROWS.get(F::row(a[lane], segments[lane])) {
            out[lane] = *row;
        }
    }
    out
}

/// Builds a positive float from a biased exponent and a significand from 2^23 to 2^24, where 2^24 carries into the exponent; results
/// below the normal numbers become zero.
#[inline(always)]
const fn float(exponent: i32, significand: i32) -> u32 {
    let bits = (exponent << 23).wrapping_add(significand).wrapping_sub(IMPLICIT.cast_signed());
    if bits < IMPLICIT.cast_signed() { 0 } else { bits.cast_unsigned() }
}

/// Returns the lower 32 bits of `significand * 2^places`, truncated.
#[inline(always)]
const fn shifted(significand: u32, places: i32) -> u32 {
    // Clamped to -24, where none of 24 bits remain, and 38, where the lower 32 bits are zero.
    let places = if places < -24 {
        0
    } else if places > 38 {
        62
    } else {
        places + 24
    };
    ((significand as u64) << places >> 24) as u32
}

/// Returns `value / 2^point` truncated to a float; `value` must be positive and below 2^52.
#[inline(always)]
const fn cut(value: u64, point: u32) -> u32 {
    // As the fraction of a double from 2^52 on, and less 2^52: exact, and no conversion, which AVX2 does not have for vectors.
    const SHIFTED: u64 = 0x433 << 52;
    let value = f64::from_bits(SHIFTED | value) - f64::from_bits(SHIFTED);
    // The exponent of a double is biased by 1023, that of a float by 127; the fraction loses its low 29 bits.
    let bits = (value.to_bits() >> 29) as i64 - (((1023 - 127 + point) as i64) << 23);
    if bits < IMPLICIT as i64 { 0 } else { bits as u32 }
}
