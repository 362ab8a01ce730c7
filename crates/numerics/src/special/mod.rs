//! Bit-exact models of the special functions of the multifunction unit (`MUFU` in SASS).
//!
//! The design is the one published by Oberman and Siu ("A High-Performance Area-Efficient Multifunction Interpolator",
//! ARITH 2005): the top bits of the operand select a segment, the remaining bits are `x`, and the result is
//! `c0 + c1·x + c2·x²` in fixed point, with a truncated square and at most one rounding. The widths are those that
//! envytools describes for the G80. The tables were recovered from exhaustive outputs of an H200: for each segment, exactly
//! one triple of integers reproduces the outputs for all mantissas.
//!
//! No function branches, so that a loop over lanes becomes vector instructions. The functions flush subnormal operands and results, as the unit does; [`crate::float`] adds the instructions that ptxas
//! emits around it. docs/numerics.md lists the GPUs on which each function was verified for all inputs.

mod double;
mod inverse;
mod power;
mod square;
mod tables;
mod trigonometric;

pub use double::{rcp64h, rsq64h};
pub use inverse::{rcp, rsq, sqrt};
pub use power::{ex2, lg2};
pub use trigonometric::{cos, sin, tanh};

use crate::format::NAN_F32 as NAN;
use square::square;

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
struct Row {
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
    fn at(self, x: u32, places: u32) -> i64 {
        self.sum(x.into(), square(x), places)
    }

    #[inline(always)]
    fn sum(self, x: i64, square: u32, places: u32) -> i64 {
        let quadratic = (i64::from(self.quadratic) * i64::from(square)) << places;
        self.constant + i64::from(self.linear) * x + quadratic
    }
}

/// The coefficients of all segments, for loops over lanes: the sum is an integer below 2^53, which a double holds exactly.
struct Columns<const N: usize> {
    constant: [f64; N],
    linear: [f64; N],
    quadratic: [f64; N],
}

/// Prepares the columns of a table: as [`rows`], with the quadratic term shifted left by `quadratic_places`.
const fn columns<const N: usize>(
    table: &[[i32; 3]; N],
    places: u32,
    rounding: i64,
    quadratic_places: u32,
) -> Columns<N> {
    let mut columns = Columns { constant: [0.0; N], linear: [0.0; N], quadratic: [0.0; N] };
    let mut n = 0;
    while n < N {
        let [constant, linear, quadratic] = table[n];
        columns.constant[n] = (((constant as i64) << places) + rounding) as f64;
        columns.linear[n] = linear as f64;
        columns.quadratic[n] = ((quadratic as i64) << quadratic_places) as f64;
        n += 1;
    }
    columns
}

impl<const N: usize> Columns<N> {
    /// Returns the sum of the three terms of a segment. N is a power of two.
    #[inline(always)]
    fn at(&self, segment: u32, x: u32, square: u32) -> f64 {
        let n = segment as usize % N;
        let (x, square) = (f64::from(x.cast_signed()), f64::from(square.cast_signed()));
        self.constant[n] + self.linear[n] * x + self.quadratic[n] * square
    }
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

/// Returns `value / 2^point` truncated to a float; `value` must be a positive integer below 2^53.
#[inline(always)]
const fn cut(value: f64, point: u32) -> u32 {
    // The exponent of a double is biased by 1023, that of a float by 127; the fraction loses its low 29 bits.
    let bits = (value.to_bits() >> 29) as i64 - (((1023 - 127 + point) as i64) << 23);
    if bits < IMPLICIT as i64 { 0 } else { bits as u32 }
}
