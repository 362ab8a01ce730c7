//! The 32-bit and 16-bit `.approx` and `.full` instructions: the result of the multifunction unit, with the instructions
//! that ptxas emits around it.
//!
//! The sequences were read from the SASS of ptxas 12.9 and 13.5. They are the same for sm_80, sm_90, sm_100, sm_120 and
//! sm_121. PTX specifies error bounds, not bits: a kernel may rely only on the bounds.

use super::single::{canonical_f32, flush_f32, may_be_tiny, mul_f32, mul_f32_nearest};
use crate::convert::f32_to;
use crate::format::Format;
use crate::round::Rounding;
use crate::special::{self, Cos, Ex2, Lg2, Rcp, Rsq, Sin, Sqrt, Tanh};

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

/// Defines an instruction: on several lanes, `$before` gives the operand of the unit for `$a`, and `$after` the result for `$a` and what the
/// unit gives; and on one lane. Both are written in a loop here, because a function that is passed as a value is compiled apart from the
/// loop that calls it.
macro_rules! through_unit {
    (
        $(#[$doc:meta])* $name:ident, $lanes:ident, $unit:ty, ($a:ident $(, $flag:ident)?),
        $before:expr, |$of:pat_param, $y:ident| $after:expr
    ) => {
        #[doc = concat!("[`", stringify!($name), "`] of several lanes, for vector instructions.")]
        #[inline(always)]
        #[must_use]
        pub fn $lanes<const N: usize>(a: &[u32; N] $(, $flag: bool)?) -> [u32; N] {
            let mut operands = [0; N];
            for lane in 0..N {
                let $a = a[lane];
                operands[lane] = $before;
            }
            let mut out = special::of_each::<$unit, N>(&operands);
            for lane in 0..N {
                let ($of, $y) = (a[lane], out[lane]);
                out[lane] = $after;
            }
            out
        }

        $(#[$doc])*
        #[must_use]
        pub fn $name(a: u32 $(, $flag: bool)?) -> u32 {
            let [result] = $lanes(&[a] $(, $flag)?);
            result
        }
    };
}

/// Whether an operand is scaled, because it is subnormal and the instruction has no `.ftz`.
#[inline(always)]
fn is_scaled(a: u32, ftz: bool) -> bool {
    !ftz & (f32::from_bits(a).abs() < f32::MIN_POSITIVE)
}

/// The operand, if need be times 2^24.
#[inline(always)]
fn scaled_up(a: u32, ftz: bool) -> u32 {
    if is_scaled(a, ftz) { (f32::from_bits(a) * UP).to_bits() } else { a }
}

/// Whether the root of a result is had first, because the result may be subnormal and the instruction has no `.ftz`.
#[inline(always)]
fn is_halved(a: u32, ftz: bool) -> bool {
    !ftz & (f32::from_bits(a) < -126.0)
}

through_unit!(
    /// `ex2.approx.f32`: two to the power of `a`. Without `.ftz`, a result that may be subnormal is the square of its root.
    ex2_approx_f32, ex2_approx_f32_lanes, Ex2, (a, ftz),
    if is_halved(a, ftz) { (f32::from_bits(a) * 0.5).to_bits() } else { a },
    |a, y| {
        let root = f32::from_bits(y);
        if is_halved(a, ftz) { bits(root * root) } else { y }
    }
);

through_unit!(
    /// `lg2.approx.f32`: logarithm to base two.
    lg2_approx_f32, lg2_approx_f32_lanes, Lg2, (a, ftz),
    scaled_up(a, ftz),
    |a, y| if is_scaled(a, ftz) { bits(f32::from_bits(y) - 24.0) } else { y }
);

/// Returns `a / 2π` rounded toward zero, the operand of `MUFU.SIN` and `MUFU.COS`.
#[inline(always)]
fn turns(a: u32) -> u32 {
    let exact = f64::from(f32::from_bits(a)) * f64::from(TURNS);
    let nearest = exact as f32;
    // The product is exact, and infinite only for infinite operands.
    let toward_zero = nearest.to_bits().wrapping_sub(u32::from(f64::from(nearest).abs() > exact.abs()));
    if nearest.is_nan() { crate::format::NAN_F32 } else { toward_zero }
}

through_unit!(
    /// `sin.approx.f32`: the same with and without `.ftz`.
    sin_approx_f32, sin_approx_f32_lanes, Sin, (a),
    turns(a),
    |_, y| y
);

through_unit!(
    /// `cos.approx.f32`: the same with and without `.ftz`.
    cos_approx_f32, cos_approx_f32_lanes, Cos, (a),
    turns(a),
    |_, y| y
);

/// The factor of the operand and of the result of a reciprocal.
#[inline(always)]
fn reciprocal_scale(a: u32, ftz: bool) -> f32 {
    let magnitude = f32::from_bits(a).abs();
    let large = if magnitude > LARGE { 0.25 } else { 1.0 };
    let scale = if magnitude < f32::MIN_POSITIVE { UP } else { large };
    if ftz { 1.0 } else { scale }
}

through_unit!(
    /// `rcp.approx.f32`: without `.ftz`, subnormal operands and results are scaled.
    rcp_approx_f32, rcp_approx_f32_lanes, Rcp, (a, ftz),
    (f32::from_bits(a) * reciprocal_scale(a, ftz)).to_bits(),
    |a, y| bits(reciprocal_scale(a, ftz) * f32::from_bits(y))
);

through_unit!(
    /// `rsqrt.approx.f32`: minus infinity for `-0`.
    rsqrt_approx_f32, rsqrt_approx_f32_lanes, Rsq, (a, ftz),
    scaled_up(a, ftz),
    |a, y| if is_scaled(a, ftz) { bits(f32::from_bits(y) * 4096.0) } else { y }
);

through_unit!(
    /// `sqrt.approx.f32`.
    sqrt_approx_f32, sqrt_approx_f32_lanes, Sqrt, (a, ftz),
    scaled_up(a, ftz),
    |a, y| if is_scaled(a, ftz) { bits(f32::from_bits(y) / 4096.0) } else { y }
);

through_unit!(
    /// `tanh.approx.f32`.
    tanh_approx_f32, tanh_approx_f32_lanes, Tanh, (a),
    a,
    |_, y| y
);

/// `FMUL` of several lanes, with or without `.ftz`.
#[inline(always)]
fn products<const N: usize>(a: &[u32; N], b: &[u32; N], ftz: bool) -> [u32; N] {
    let mut out = [0; N];
    let mut doubt = false;
    for lane in 0..N {
        out[lane] = mul_f32_nearest(a[lane], b[lane], ftz, false);
        doubt |= ftz & may_be_tiny(out[lane]);
    }
    if doubt { exact_products(a, b, ftz) } else { out }
}

#[cold]
fn exact_products<const N: usize>(a: &[u32; N], b: &[u32; N], ftz: bool) -> [u32; N] {
    std::array::from_fn(|lane| mul_f32(a[lane], b[lane], Rounding::NearestEven, ftz, false))
}

/// The factor of the operands of a quotient: without `.ftz`, for a subnormal divisor, and of `div.full`, for a large one.
#[inline(always)]
fn quotient_scale(divisor: f32, ftz: bool, full: bool) -> f32 {
    let small = if !ftz & (divisor.abs() < f32::MIN_POSITIVE) { UP } else { 1.0 };
    if full & (divisor.abs() > LARGE) { 0.25 } else { small }
}

/// `a · (1/b)` of several lanes.
#[inline(always)]
fn quotients<const N: usize>(a: &[u32; N], b: &[u32; N], ftz: bool, full: bool) -> [u32; N] {
    // `.full` flushes its operands first.
    let flush = full & ftz;
    let (mut dividends, mut divisors, mut scales) = ([0; N], [0; N], [0; N]);
    for lane in 0..N {
        dividends[lane] = flush_f32(a[lane], flush);
        let y = f32::from_bits(flush_f32(b[lane], flush));
        let scale = quotient_scale(y, ftz, full);
        divisors[lane] = (y * scale).to_bits();
        scales[lane] = scale.to_bits();
    }
    let reciprocals = special::of_each::<Rcp, N>(&divisors);
    products(&products(&dividends, &scales, flush), &reciprocals, ftz)
}

/// [`div_approx_f32`] of several lanes, for vector instructions.
#[inline(always)]
#[must_use]
pub fn div_approx_f32_lanes<const N: usize>(a: &[u32; N], b: &[u32; N], ftz: bool) -> [u32; N] {
    quotients(a, b, ftz, false)
}

/// `div.approx.f32`: `a · (1/b)`; without `.ftz`, both operands are scaled if `b` is subnormal. The reciprocal of a divisor
/// above 2^126 is zero.
#[must_use]
pub fn div_approx_f32(a: u32, b: u32, ftz: bool) -> u32 {
    let [quotient] = quotients(&[a], &[b], ftz, false);
    quotient
}

/// [`div_full_f32`] of several lanes, for vector instructions.
#[inline(always)]
#[must_use]
pub fn div_full_f32_lanes<const N: usize>(a: &[u32; N], b: &[u32; N], ftz: bool) -> [u32; N] {
    quotients(a, b, ftz, true)
}

/// `div.full.f32`: as `div.approx.f32`, but both operands are scaled if `b` is above 2^126.
#[must_use]
pub fn div_full_f32(a: u32, b: u32, ftz: bool) -> u32 {
    let [quotient] = quotients(&[a], &[b], ftz, true);
    quotient
}

/// Applies `unit` to a 16-bit value and truncates the result; overflow is infinity.
#[inline(always)]
fn narrow<F: special::Function>(format: Format, a: u16) -> u16 {
    let y = f32::from_bits(special::of_one::<F>(format.decode(u32::from(a)).to_bits()));
    if format == Format::Bf16 {
        return (y.to_bits() >> 16) as u16;
    }
    let rounding = if y.abs() < 65536.0 { Rounding::Zero } else { Rounding::NearestEven };
    f32_to(format, y, rounding, false, false) as u16
}

/// `tanh.approx.f16`.
#[must_use]
pub fn tanh_approx_f16(a: u16) -> u16 {
    narrow::<Tanh>(Format::F16, a)
}

/// `tanh.approx.bf16`.
#[must_use]
pub fn tanh_approx_bf16(a: u16) -> u16 {
    narrow::<Tanh>(Format::Bf16, a)
}

/// `ex2.approx.f16`.
#[must_use]
pub fn ex2_approx_f16(a: u16) -> u16 {
    narrow::<Ex2>(Format::F16, a)
}

/// `ex2.approx.ftz.bf16`.
#[must_use]
pub fn ex2_approx_bf16(a: u16) -> u16 {
    narrow::<Ex2>(Format::Bf16, a)
}
