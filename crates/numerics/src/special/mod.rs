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
mod power;
mod square;
mod tables;
mod trigonometric;

pub use double::{rcp64h, rsq64h};
pub use inverse::{rcp, rsq, sqrt};
pub use power::{ex2, lg2};
pub use trigonometric::{cos, sin, tanh};

pub(crate) use crate::format::NAN_F32 as NAN;

pub(crate) const SIGN: u32 = 0x8000_0000;
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

/// Where the terms of a sum lie: how far each is shifted to the left.
#[derive(Clone, Copy)]
struct Places {
    constant: u32,
    linear: u32,
    quadratic: u32,
}

/// The sum of the three terms.
#[inline(always)]
fn sum([c0, c1, c2]: [i32; 3], x: u32, square: u32, places: Places) -> i64 {
    let constant = i64::from(c0) << places.constant;
    let linear = (i64::from(c1) * i64::from(x)) << places.linear;
    let quadratic = (i64::from(c2) * i64::from(square)) << places.quadratic;
    constant + linear + quadratic
}

/// The positive float of a biased exponent and a significand from 2^23 to 2^24, where the latter counts as the next exponent's
/// first; zero below the normal numbers.
#[inline(always)]
const fn float(exponent: i32, significand: i64) -> u32 {
    let bits = ((exponent as i64) << 23) + significand - IMPLICIT as i64;
    if bits < IMPLICIT as i64 { 0 } else { bits as u32 }
}

/// `value / 2^point` for a positive `value`, cut to a float.
#[inline(always)]
const fn cut(value: i64, point: i32) -> u32 {
    let top = value.ilog2().cast_signed();
    let significand = if top >= 23 { value >> (top - 23) } else { value << (23 - top) };
    float(top - point + 127, significand)
}
