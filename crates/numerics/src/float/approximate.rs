//! The `.approx` instructions: computed in double precision by the `libm` crate and rounded once.
//!
//! PTX bounds their errors and promises no bits, so any answer inside the bound is right; these are the same on
//! every host. Special values follow the manual's tables and the recorded answers of an H100.

use super::single::{canonical_f32, flush_f32};
use crate::convert::f64_to;
use crate::format::{Format, NAN_F32, power_of_two};
use crate::round::Rounding;

/// `function` of a float, in double precision, rounded to nearest.
fn through(a: u32, ftz: bool, function: impl FnOnce(f64) -> f64) -> u32 {
    let x = f64::from(f32::from_bits(flush_f32(a, ftz)));
    flush_f32(canonical_f32((function(x) as f32).to_bits()), ftz)
}

/// `ex2.approx.f32`: two to the power of `a`.
#[must_use]
pub fn ex2_approx_f32(a: u32, ftz: bool) -> u32 {
    through(a, ftz, libm::exp2)
}

/// `lg2.approx.f32`: logarithm to base two.
#[must_use]
pub fn lg2_approx_f32(a: u32, ftz: bool) -> u32 {
    through(a, ftz, libm::log2)
}

/// `sin.approx.f32`: a subnormal input counts as zero, with and without `.ftz`.
#[must_use]
pub fn sin_approx_f32(a: u32, ftz: bool) -> u32 {
    through(flush_f32(a, true), ftz, libm::sin)
}

/// `cos.approx.f32`.
#[must_use]
pub fn cos_approx_f32(a: u32, ftz: bool) -> u32 {
    through(a, ftz, libm::cos)
}

/// `rcp.approx.f32`.
#[must_use]
pub fn rcp_approx_f32(a: u32, ftz: bool) -> u32 {
    through(a, ftz, |x| 1.0 / x)
}

/// `rsqrt.approx.f32`: minus infinity for `-0`.
#[must_use]
pub fn rsqrt_approx_f32(a: u32, ftz: bool) -> u32 {
    through(a, ftz, |x| 1.0 / x.sqrt())
}

/// `sqrt.approx.f32`.
#[must_use]
pub fn sqrt_approx_f32(a: u32, ftz: bool) -> u32 {
    through(a, ftz, f64::sqrt)
}

/// `tanh.approx.f32`.
#[must_use]
pub fn tanh_approx_f32(a: u32) -> u32 {
    through(a, false, libm::tanh)
}

/// `div.approx.f32`: `a · (1/b)`, where the reciprocal of a divisor above 2^126 counts as zero.
#[must_use]
pub fn div_approx_f32(a: u32, b: u32, ftz: bool) -> u32 {
    let (x, y) = (f32::from_bits(flush_f32(a, ftz)), f32::from_bits(flush_f32(b, ftz)));
    if y.is_finite() && f64::from(y.abs()) > power_of_two(126) {
        if x.is_nan() || x.is_infinite() {
            return NAN_F32;
        }
        return (a ^ b) & 0x8000_0000;
    }
    div_full_f32(a, b, ftz)
}

/// `div.full.f32`: the full range, within 2 ulp.
#[must_use]
pub fn div_full_f32(a: u32, b: u32, ftz: bool) -> u32 {
    let y = f64::from(f32::from_bits(flush_f32(b, ftz)));
    through(a, ftz, |x| x / y)
}

/// `function` of a value of 16 bits, cut toward zero as an H100 does; what is too large is infinite.
fn through_16(format: Format, a: u16, function: impl FnOnce(f64) -> f64) -> u16 {
    let x = f64::from(format.decode(u32::from(a)));
    let y = function(x);
    let beyond = if format == Format::F16 { 16 } else { 128 };
    let rounding = if y.abs() < power_of_two(beyond) { Rounding::Zero } else { Rounding::NearestEven };
    f64_to(format, y, rounding, false, false) as u16
}

/// `tanh.approx.f16`.
#[must_use]
pub fn tanh_approx_f16(a: u16) -> u16 {
    through_16(Format::F16, a, libm::tanh)
}

/// `tanh.approx.bf16`.
#[must_use]
pub fn tanh_approx_bf16(a: u16) -> u16 {
    through_16(Format::Bf16, a, libm::tanh)
}

/// `ex2.approx.f16`.
#[must_use]
pub fn ex2_approx_f16(a: u16) -> u16 {
    through_16(Format::F16, a, libm::exp2)
}

/// `ex2.approx.ftz.bf16`: subnormal inputs and results count as zero.
#[must_use]
pub fn ex2_approx_bf16(a: u16) -> u16 {
    let flush = |x: u16| if x & 0x7F80 == 0 { x & 0x8000 } else { x };
    flush(through_16(Format::Bf16, flush(a), libm::exp2))
}
