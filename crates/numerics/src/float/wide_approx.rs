//! The `.approx` instructions of double precision, and the NaN of out-of-bounds elements.
//!
//! `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64` are a single multifunction-unit instruction on the upper word: the lower 32
//! bits of the operand are ignored, those of the result are zero, and subnormal numbers count as zero.

use super::{NAN_F64, quiet_f64};
use crate::special;

/// Applies `unit` to the upper word.
fn upper(a: u64, unit: impl FnOnce(u32) -> u32) -> u64 {
    u64::from(unit((a >> 32) as u32)) << 32
}

/// `rcp.approx.ftz.f64`.
#[must_use]
pub fn rcp_approx_ftz_f64(a: u64) -> u64 {
    upper(a, special::rcp64h)
}

/// `rsqrt.approx.ftz.f64`.
#[must_use]
pub fn rsqrt_approx_ftz_f64(a: u64) -> u64 {
    upper(a, special::rsq64h)
}

/// `rsqrt.approx.f64`: one cubic iteration step from the unit's result, as ptxas emits it; subnormal operands are scaled.
#[must_use]
pub fn rsqrt_approx_f64(a: u64) -> u64 {
    const UP: f64 = 18_014_398_509_481_984.0;
    const BACK: f64 = 134_217_728.0;
    let x = f64::from_bits(a);
    match x {
        _ if x.is_nan() => quiet_f64(a),
        0.0 => f64::INFINITY.copysign(x).to_bits(),
        _ if x < 0.0 => NAN_F64,
        f64::INFINITY => 0,
        _ if x < f64::MIN_POSITIVE => (step(x * UP) * BACK).to_bits(),
        _ => step(x).to_bits(),
    }
}

/// Refines the unit's `1/√x`.
fn step(x: f64) -> f64 {
    let y = f64::from_bits(rsqrt_approx_ftz_f64(x.to_bits()));
    let error = x.mul_add(-(y * y), 1.0);
    error.mul_add(0.375, 0.5).mul_add(y * error, y)
}

/// Whether a 16-bit value is the NaN by which `fma.oob` recognises an out-of-bounds element: 0x7FF7 of either sign. Of all
/// 65,536 values, only these make an H100 return zero, and its tensor copies use this NaN as fill value.
#[must_use]
#[inline(always)]
pub const fn is_oob_nan(a: u16) -> bool {
    a & 0x7FFF == 0x7FF7
}
