//! The 32-bit and 16-bit `.approx` and `.full` instructions: the result of the multifunction unit, with the instructions
//! that ptxas emits around it.
//!
//! The sequences were read from the SASS of ptxas 12.9 and 13.5. They are the same for sm_80, sm_90, sm_100, sm_120 and
//! sm_121. PTX specifies error bounds, not bits: a kernel may rely only on the bounds.

use super::single::{canonical_f32, flush_f32, mul_f32};
use crate::convert::f32_to;
use crate::format::Format;
use crate::round::Rounding;
use crate::special;

/// The factor by which ptxas scales a subnormal operand.
const UP: f32 = 16_777_216.0;
/// A divisor above this is divided by four first; its reciprocal would otherwise be subnormal.
const LARGE: f32 = f32::from_bits(0x7E80_0000);
/// 1/2π, rounded to nearest.
const TURNS: f32 = f32::from_bits(0x3E22_F983);

/// The bits of a result of `FMUL` or `FADD`, whose NaNs are canonical.
#[inline(always)]
fn bits(x: f32) -> u32 {
    canonical_f32(x.to_bits())
}

/// `$unit` of a float. A macro, because a function that is passed as a value is compiled apart from the loop that calls it.
macro_rules! through_unit {
    ($unit:path, $x:expr) => {
        f32::from_bits($unit($x.to_bits()))
    };
}

/// `$unit` of the bits of a float. Without `.ftz`, a subnormal operand is scaled by 2^24, and `$back` corrects the result.
macro_rules! scaled {
    ($a:ident, $ftz:ident, $unit:path, |$y:ident| $back:expr) => {{
        let x = f32::from_bits($a);
        let up = !$ftz && x.abs() < f32::MIN_POSITIVE;
        let result = $unit(if up { (x * UP).to_bits() } else { $a });
        let $y = f32::from_bits(result);
        if up { bits($back) } else { result }
    }};
}

/// `ex2.approx.f32`: two to the power of `a`. Without `.ftz`, a result that may be subnormal is the square of its root.
#[inline(always)]
#[must_use]
pub fn ex2_approx_f32(a: u32, ftz: bool) -> u32 {
    let x = f32::from_bits(a);
    let halved = !ftz & (x < -126.0);
    let result = special::ex2(if halved { (x * 0.5).to_bits() } else { a });
    let root = f32::from_bits(result);
    if halved { bits(root * root) } else { result }
}

/// `lg2.approx.f32`: logarithm to base two.
#[inline(always)]
#[must_use]
pub fn lg2_approx_f32(a: u32, ftz: bool) -> u32 {
    scaled!(a, ftz, special::lg2, |y| y - 24.0)
}

/// Returns `a / 2π` rounded toward zero, the operand of `MUFU.SIN` and `MUFU.COS`.
#[inline(always)]
fn turns(a: u32) -> u32 {
    let exact = f64::from(f32::from_bits(a)) * f64::from(TURNS);
    let nearest = exact as f32;
    // The product is exact, and infinite only for infinite operands.
    let toward_zero = nearest.to_bits().wrapping_sub(u32::from(f64::from(nearest).abs() > exact.abs()));
    if nearest.is_nan() { crate::format::NAN_F32 } else { toward_zero }
}

/// `sin.approx.f32`: the same with and without `.ftz`.
#[inline(always)]
#[must_use]
pub fn sin_approx_f32(a: u32) -> u32 {
    special::sin(turns(a))
}

/// `cos.approx.f32`: the same with and without `.ftz`.
#[inline(always)]
#[must_use]
pub fn cos_approx_f32(a: u32) -> u32 {
    special::cos(turns(a))
}

/// `rcp.approx.f32`: without `.ftz`, subnormal operands and results are scaled.
#[inline(always)]
#[must_use]
pub fn rcp_approx_f32(a: u32, ftz: bool) -> u32 {
    let x = f32::from_bits(a);
    let large = if x.abs() > LARGE { 0.25 } else { 1.0 };
    let scale = if x.abs() < f32::MIN_POSITIVE { UP } else { large };
    let scale = if ftz { 1.0 } else { scale };
    bits(scale * through_unit!(special::rcp, x * scale))
}

/// `rsqrt.approx.f32`: minus infinity for `-0`.
#[inline(always)]
#[must_use]
pub fn rsqrt_approx_f32(a: u32, ftz: bool) -> u32 {
    scaled!(a, ftz, special::rsq, |y| y * 4096.0)
}

/// `sqrt.approx.f32`.
#[inline(always)]
#[must_use]
pub fn sqrt_approx_f32(a: u32, ftz: bool) -> u32 {
    scaled!(a, ftz, special::sqrt, |y| y / 4096.0)
}

/// `tanh.approx.f32`.
#[inline(always)]
#[must_use]
pub fn tanh_approx_f32(a: u32) -> u32 {
    special::tanh(a)
}

/// `FMUL`, with or without `.ftz`.
#[inline(always)]
fn product(a: f32, b: f32, ftz: bool) -> u32 {
    mul_f32(a.to_bits(), b.to_bits(), Rounding::NearestEven, ftz, false)
}

/// `div.approx.f32`: `a · (1/b)`; without `.ftz`, both operands are scaled if `b` is subnormal. The reciprocal of a divisor
/// above 2^126 is zero.
#[inline(always)]
#[must_use]
pub fn div_approx_f32(a: u32, b: u32, ftz: bool) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    let scale = if !ftz && y.abs() < f32::MIN_POSITIVE { UP } else { 1.0 };
    product(x * scale, through_unit!(special::rcp, y * scale), ftz)
}

/// `div.full.f32`: as `div.approx.f32`, but both operands are scaled if `b` is above 2^126.
#[inline(always)]
#[must_use]
pub fn div_full_f32(a: u32, b: u32, ftz: bool) -> u32 {
    let (x, y) = (f32::from_bits(flush_f32(a, ftz)), f32::from_bits(flush_f32(b, ftz)));
    if y.abs() > LARGE {
        let x = f32::from_bits(product(x, 0.25, ftz));
        return product(x, through_unit!(special::rcp, y * 0.25), ftz);
    }
    div_approx_f32(x.to_bits(), y.to_bits(), ftz)
}

/// Applies `unit` to a 16-bit value and truncates the result; overflow is infinity.
#[inline(always)]
fn narrow(format: Format, a: u16, unit: impl FnOnce(u32) -> u32) -> u16 {
    let y = f32::from_bits(unit(format.decode(u32::from(a)).to_bits()));
    if format == Format::Bf16 {
        return (y.to_bits() >> 16) as u16;
    }
    let rounding = if y.abs() < 65536.0 { Rounding::Zero } else { Rounding::NearestEven };
    f32_to(format, y, rounding, false, false) as u16
}

/// `tanh.approx.f16`.
#[must_use]
pub fn tanh_approx_f16(a: u16) -> u16 {
    narrow(Format::F16, a, special::tanh)
}

/// `tanh.approx.bf16`.
#[must_use]
pub fn tanh_approx_bf16(a: u16) -> u16 {
    narrow(Format::Bf16, a, special::tanh)
}

/// `ex2.approx.f16`.
#[must_use]
pub fn ex2_approx_f16(a: u16) -> u16 {
    narrow(Format::F16, a, special::ex2)
}

/// `ex2.approx.ftz.bf16`.
#[must_use]
pub fn ex2_approx_bf16(a: u16) -> u16 {
    narrow(Format::Bf16, a, special::ex2)
}
