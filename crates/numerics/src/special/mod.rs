//! The multifunction unit (`MUFU` in SASS): what the hardware computes for each special function, bit for bit.
//!
//! The design is the one that Oberman and Siu publish ("A High-Performance Area-Efficient Multifunction Interpolator",
//! ARITH 2005): the top bits of the operand choose a segment, the others are `x`, and the result is
//! `c0 + c1·x + c2·x²` in fixed point, with a truncated square and one rounding or none. The widths are those that
//! envytools describes for the G80. The tables are recovered from exhaustive outputs of an H200: per segment, exactly one
//! triple of integers gives the outputs of all mantissas.
//!
//! The functions flush subnormal operands and results, as the unit does; [`crate::float`] adds the instructions that ptxas
//! puts around it. docs/numerics.md lists on which GPU each function is proven over all its inputs.

mod double;
mod inverse;
mod lanes;
mod power;
mod square;
mod tables;
mod trigonometric;

pub use double::{rcp64h, rsq64h};
pub use inverse::{rcp, rsq, sqrt};
pub use lanes::{WARP, ex2_approx_f32_lanes};
pub use power::{ex2, lg2};
pub use trigonometric::{cos, sin, tanh};

use crate::format::NAN_F32 as NAN;
use square::square;

const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7F80_0000;
const ONE: u32 = 0x3F80_0000;
/// The implicit bit of a significand.
const IMPLICIT: u32 = 1 << 23;

const fn is_nan(a: u32) -> bool {
    a & !SIGN > INFINITY
}

/// The biased exponent.
const fn exponent(a: u32) -> i32 {
    (a >> 23 & 0xFF).cast_signed()
}

const fn fraction(a: u32) -> u32 {
    a & (IMPLICIT - 1)
}

/// A segment's coefficients; the constant in its place, with what rounds the result.
#[derive(Clone, Copy)]
struct Row {
    constant: i64,
    linear: i32,
    quadratic: i32,
}

/// The rows of a table whose constants lie so many places above the other terms.
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
    /// The sum of the three terms; the quadratic one lies so many places above the linear one.
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

/// The positive float of a biased exponent and a significand from 2^23 to 2^24, where the latter counts as the next exponent's
/// first; zero below the normal numbers.
#[inline(always)]
const fn float(exponent: i32, significand: i64) -> u32 {
    let bits = ((exponent as i64) << 23) + significand - IMPLICIT as i64;
    if bits < IMPLICIT as i64 { 0 } else { bits as u32 }
}

/// `significand * 2^places`, cut; only the lower 32 bits count.
#[inline(always)]
const fn shifted(significand: u32, places: i32) -> u32 {
    // From -24 on, where nothing is left of 24 bits, to 38, where the lower 32 are zeros.
    let places = if places < -24 {
        0
    } else if places > 38 {
        62
    } else {
        places + 24
    };
    ((significand as u64) << places >> 24) as u32
}

/// `value / 2^point` for a positive `value`, cut to a float.
#[inline(always)]
const fn cut(value: i64, point: i32) -> u32 {
    let zeros = value.leading_zeros();
    let significand = ((value as u64) << zeros) >> 40;
    float(127 + 63 - zeros.cast_signed() - point, significand.cast_signed())
}
