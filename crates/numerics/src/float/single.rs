//! Single precision: add, sub, mul, fma, div, rcp, sqrt.
//!
//! `.ftz` turns a result into a zero if it is below the smallest normal number once rounded to 24 bits with an unbounded exponent, as
//! recorded on an H200. A product just below 2^-126 may round to it as a subnormal number and is still flushed.

use super::value::{self, Value, unpack};
use crate::format::{F32, NAN_F32};
use crate::round::Rounding;

/// Replaces a subnormal by a zero of the same sign if `ftz`.
#[must_use]
#[inline(always)]
pub const fn flush_f32(bits: u32, ftz: bool) -> u32 {
    if ftz && bits & 0x7F80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// Replaces any NaN by the canonical one.
#[must_use]
#[inline(always)]
pub const fn canonical_f32(bits: u32) -> u32 {
    if bits & 0x7FFF_FFFF > 0x7F80_0000 { NAN_F32 } else { bits }
}

/// `.sat`: clamps to the range from `+0` to 1; NaN becomes `+0`.
#[must_use]
#[inline(always)]
pub fn saturate_f32(bits: u32) -> u32 {
    let x = f32::from_bits(bits);
    let most = if x < 1.0 { bits } else { 1.0f32.to_bits() };
    // The comparison is false for NaN and for -0.
    if x > 0.0 { most } else { 0 }
}

/// Applies `.ftz` to the result of rounding `exact`.
#[inline(always)]
pub(crate) fn flush_rounded(bits: u32, r: Rounding, exact: impl FnOnce() -> Value) -> u32 {
    const SMALLEST_NORMAL: u32 = 0x0080_0000;
    if bits & 0x7FFF_FFFF == SMALLEST_NORMAL && exact().is_tiny(F32, r) {
        return bits & 0x8000_0000;
    }
    flush_f32(bits, true)
}

/// NaNs, flushing and saturation of the result of rounding `exact`.
#[inline(always)]
fn finish(bits: u32, r: Rounding, ftz: bool, sat: bool, exact: impl FnOnce() -> Value) -> u32 {
    let bits = canonical_f32(bits);
    let bits = if ftz { flush_rounded(bits, r, exact) } else { bits };
    if sat { saturate_f32(bits) } else { bits }
}

fn take(bits: u32) -> Value {
    unpack(F32, u64::from(bits))
}

fn pack(value: Value, rounding: Rounding) -> u32 {
    value.pack(F32, rounding, u64::from(NAN_F32)) as u32
}

/// `add.f32`.
#[must_use]
#[inline(always)]
pub fn add_f32(a: u32, b: u32, r: Rounding, ftz: bool, sat: bool) -> u32 {
    let (a, b) = (flush_f32(a, ftz), flush_f32(b, ftz));
    let bits = match r {
        Rounding::NearestEven => (f32::from_bits(a) + f32::from_bits(b)).to_bits(),
        _ => pack(value::add(take(a), take(b), r), r),
    };
    finish(bits, r, ftz, sat, || value::add(take(a), take(b), r))
}

/// `sub.f32`.
#[must_use]
pub fn sub_f32(a: u32, b: u32, r: Rounding, ftz: bool, sat: bool) -> u32 {
    add_f32(a, b ^ 0x8000_0000, r, ftz, sat)
}

/// `mul.f32`.
#[must_use]
#[inline(always)]
pub fn mul_f32(a: u32, b: u32, r: Rounding, ftz: bool, sat: bool) -> u32 {
    let (a, b) = (flush_f32(a, ftz), flush_f32(b, ftz));
    let bits = match r {
        Rounding::NearestEven => (f32::from_bits(a) * f32::from_bits(b)).to_bits(),
        _ => pack(value::mul(take(a), take(b)), r),
    };
    finish(bits, r, ftz, sat, || value::mul(take(a), take(b)))
}

/// `fma.f32`.
#[must_use]
#[inline(always)]
pub fn fma_f32(a: u32, b: u32, c: u32, r: Rounding, ftz: bool, sat: bool) -> u32 {
    let (a, b, c) = (flush_f32(a, ftz), flush_f32(b, ftz), flush_f32(c, ftz));
    let bits = match r {
        Rounding::NearestEven => f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c)).to_bits(),
        _ => pack(value::fma(take(a), take(b), take(c), r), r),
    };
    finish(bits, r, ftz, sat, || value::fma(take(a), take(b), take(c), r))
}

/// Returns `x · y + z` rounded to odd; `x · y` must be exact in a double. A later rounding to at most 51 bits equals a
/// single rounding of the exact sum (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums").
///
/// The correction is a selection, so that a loop over lanes has no branches.
#[inline(always)]
pub(super) fn fma_to_odd(x: f64, y: f64, z: f64) -> f64 {
    let product = x * y;
    let sum = product + z;
    // Knuth's two-sum: `sum + error` is exactly `product + z`.
    let virtual_z = sum - product;
    let error = (product - (sum - virtual_z)) + (z - virtual_z);
    let bits = sum.to_bits();
    // `sum` is even and off by `error`: the odd neighbour on that side represents all values in between.
    let odd = if (error > 0.0) == (sum > 0.0) { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    let keeps = error == 0.0 || bits & 1 == 1 || !error.is_finite();
    f64::from_bits(if keeps { bits } else { odd })
}

/// `add.rn.f32`, without branches. A sum below 2^-126 is exact, so that `.ftz` needs no more than its bits.
#[must_use]
#[inline(always)]
pub fn add_f32_nearest(a: u32, b: u32, ftz: bool, sat: bool) -> u32 {
    let sum = f32::from_bits(flush_f32(a, ftz)) + f32::from_bits(flush_f32(b, ftz));
    nearest(sum, ftz, sat)
}

/// `mul.rn.f32`, without branches; with `.ftz`, a result that [`may_be_tiny`] is to be had from [`mul_f32`].
#[must_use]
#[inline(always)]
pub fn mul_f32_nearest(a: u32, b: u32, ftz: bool, sat: bool) -> u32 {
    let product = f32::from_bits(flush_f32(a, ftz)) * f32::from_bits(flush_f32(b, ftz));
    nearest(product, ftz, sat)
}

/// `fma.rn.f32`, without branches; with `.ftz`, a result that [`may_be_tiny`] is to be had from [`fma_f32`].
#[must_use]
#[inline(always)]
pub fn fma_f32_nearest(a: u32, b: u32, c: u32, ftz: bool, sat: bool) -> u32 {
    let (a, b, c) = (flush_f32(a, ftz), flush_f32(b, ftz), flush_f32(c, ftz));
    nearest(f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c)), ftz, sat)
}

/// `add.f32` with `.rz`, `.rm` or `.rp`, without branches; with `.ftz`, a result that [`may_be_tiny`] is to be had from [`add_f32`].
#[must_use]
#[inline(always)]
pub fn add_f32_directed(a: u32, b: u32, r: Rounding, ftz: bool, sat: bool) -> u32 {
    fma_f32_directed(a, 1.0f32.to_bits(), b, r, ftz, sat)
}

/// `mul.f32` with `.rz`, `.rm` or `.rp`, without branches; with `.ftz`, a result that [`may_be_tiny`] is to be had from [`mul_f32`].
#[must_use]
#[inline(always)]
pub fn mul_f32_directed(a: u32, b: u32, r: Rounding, ftz: bool, sat: bool) -> u32 {
    let product = f64::from(f32::from_bits(flush_f32(a, ftz))) * f64::from(f32::from_bits(flush_f32(b, ftz)));
    nearest(directed(product, 0.0, r), ftz, sat)
}

/// `fma.f32` with `.rz`, `.rm` or `.rp`, without branches; with `.ftz`, a result that [`may_be_tiny`] is to be had from [`fma_f32`].
#[must_use]
#[inline(always)]
pub fn fma_f32_directed(a: u32, b: u32, c: u32, r: Rounding, ftz: bool, sat: bool) -> u32 {
    let [a, b, c] = [a, b, c].map(|bits| f64::from(f32::from_bits(flush_f32(bits, ftz))));
    // Exact: 48 bits, and no exponent that a double lacks.
    let product = a * b;
    let sum = product + c;
    // Knuth's two-sum: `sum + error` is exactly `product + c`.
    let virtual_c = sum - product;
    let error = (product - (sum - virtual_c)) + (c - virtual_c);
    let rounded = directed(sum, error, r);
    // The sign of a zero from a sum, which is exact here (IEEE 754, 6.3).
    let (one, two) = (product.to_bits() >> 32, c.to_bits() >> 32);
    let sign = if r == Rounding::Down { one | two } else { one & two } as u32 & 0x8000_0000;
    nearest(if sum == 0.0 { f32::from_bits(sign) } else { rounded }, ftz, sat)
}

/// `sum + error` rounded toward zero, down or up, where `sum` is the nearest double to that.
#[inline(always)]
fn directed(sum: f64, error: f64, r: Rounding) -> f32 {
    let near = sum as f32;
    // What is left has the sign of the exact rest: `sum - near` is exact, and either 0 or larger than `error`. For infinite numbers it is
    // infinite where a finite one has overflowed, and otherwise NaN.
    let rest = (sum - f64::from(near)) + error;
    let down = if r == Rounding::Zero { sum > 0.0 } else { r == Rounding::Down };
    let steps = if down { rest < 0.0 } else { rest > 0.0 };
    let bits = near.to_bits();
    let (magnitude, sign) = (bits & 0x7FFF_FFFF, bits & 0x8000_0000);
    let toward_zero = down == (sign == 0);
    let stepped = if toward_zero { bits.wrapping_sub(1) } else { bits.wrapping_add(1) };
    // From a zero, the step leads to the least number of the direction.
    let stepped = if magnitude == 0 { if down { 0x8000_0001 } else { 1 } } else { stepped };
    f32::from_bits(if steps { stepped } else { bits })
}

/// Whether a result may be that of a smaller exact one, which `.ftz` turns into a zero.
#[must_use]
#[inline(always)]
pub const fn may_be_tiny(bits: u32) -> bool {
    bits & 0x7FFF_FFFF == 0x0080_0000
}

#[inline(always)]
fn nearest(x: f32, ftz: bool, sat: bool) -> u32 {
    // A comparison of floats takes fewer vector instructions than one of bits.
    let canonical = if x.is_nan() { NAN_F32 } else { x.to_bits() };
    let bits = flush_f32(canonical, ftz);
    if sat { saturate_f32(bits) } else { bits }
}

/// `div{.rn,.rz,.rm,.rp}.f32`.
#[must_use]
pub fn div_f32(a: u32, b: u32, r: Rounding, ftz: bool) -> u32 {
    let (a, b) = (flush_f32(a, ftz), flush_f32(b, ftz));
    let bits = match r {
        Rounding::NearestEven => (f32::from_bits(a) / f32::from_bits(b)).to_bits(),
        _ => pack(value::div(take(a), take(b)), r),
    };
    finish(bits, r, ftz, false, || value::div(take(a), take(b)))
}

/// `rcp{.rn,.rz,.rm,.rp}.f32`.
#[must_use]
pub fn rcp_f32(a: u32, r: Rounding, ftz: bool) -> u32 {
    div_f32(1.0f32.to_bits(), a, r, ftz)
}

/// `sqrt{.rn,.rz,.rm,.rp}.f32`.
#[must_use]
pub fn sqrt_f32(a: u32, r: Rounding, ftz: bool) -> u32 {
    let a = flush_f32(a, ftz);
    let bits = match r {
        Rounding::NearestEven => f32::from_bits(a).sqrt().to_bits(),
        _ => pack(value::sqrt(take(a)), r),
    };
    finish(bits, r, ftz, false, || value::sqrt(take(a)))
}

/// `abs.f32`.
#[must_use]
#[inline(always)]
pub const fn abs_f32(a: u32, ftz: bool) -> u32 {
    canonical_f32(flush_f32(a, ftz) & 0x7FFF_FFFF)
}

/// `neg.f32`.
#[must_use]
#[inline(always)]
pub const fn neg_f32(a: u32, ftz: bool) -> u32 {
    canonical_f32(flush_f32(a, ftz) ^ 0x8000_0000)
}

/// `copysign.f32 d, a, b`: combines the sign of `a` and the magnitude of `b`.
#[must_use]
#[inline(always)]
pub const fn copysign_f32(a: u32, b: u32) -> u32 {
    (a & 0x8000_0000) | (b & 0x7FFF_FFFF)
}
