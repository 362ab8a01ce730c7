//! Double precision: add, sub, mul, fma, div, rcp, sqrt.
//!
//! A NaN operand is returned quiet. Of several NaNs, the second operand wins in sums and products (then the third and the
//! first in `fma`), and the first in quotients. An invalid operation returns [`NAN_F64`]. Measured on an H100.

use super::NAN_F64;
use super::value::{self, Value, unpack};
use crate::format::F64;
use crate::round::Rounding;

#[inline(always)]
const fn is_nan(bits: u64) -> bool {
    bits & 0x7FFF_FFFF_FFFF_FFFF > 0x7FF0_0000_0000_0000
}

/// Sets the quiet bit of a NaN.
#[must_use]
#[inline(always)]
pub const fn quiet_f64(bits: u64) -> u64 {
    bits | 0x0008_0000_0000_0000
}

/// Returns the first NaN among the operands, quiet, or else the result of `compute`. Operands are in order of precedence.
fn arithmetic<const N: usize>(operands: [u64; N], compute: impl FnOnce() -> u64) -> u64 {
    match operands.into_iter().find(|x| is_nan(*x)) {
        Some(nan) => quiet_f64(nan),
        None => {
            let bits = compute();
            if is_nan(bits) { NAN_F64 } else { bits }
        }
    }
}

fn pack(value: Value, rounding: Rounding) -> u64 {
    value.pack(F64, rounding, NAN_F64)
}

/// `add.f64`.
#[must_use]
pub fn add_f64(a: u64, b: u64, r: Rounding) -> u64 {
    arithmetic([b, a], || match r {
        Rounding::NearestEven => (f64::from_bits(a) + f64::from_bits(b)).to_bits(),
        _ => pack(value::add(unpack(F64, a), unpack(F64, b), r), r),
    })
}

/// `add.f64` of an atomic operation in global memory: the operand's NaN passes unchanged, before that of the memory. Measured on an
/// H200, where `atom`, `red` and bulk reductions do the same.
#[must_use]
pub fn add_f64_in_memory(memory: u64, operand: u64) -> u64 {
    match [operand, memory].into_iter().find(|x| is_nan(*x)) {
        Some(nan) => nan,
        None => add_f64(memory, operand, Rounding::NearestEven),
    }
}

/// `sub.f64`.
#[must_use]
pub fn sub_f64(a: u64, b: u64, r: Rounding) -> u64 {
    arithmetic([b, a], || add_f64(a, b ^ (1 << 63), r))
}

/// `mul.f64`.
#[must_use]
pub fn mul_f64(a: u64, b: u64, r: Rounding) -> u64 {
    arithmetic([b, a], || match r {
        Rounding::NearestEven => (f64::from_bits(a) * f64::from_bits(b)).to_bits(),
        _ => pack(value::mul(unpack(F64, a), unpack(F64, b)), r),
    })
}

/// `fma.f64`.
#[must_use]
pub fn fma_f64(a: u64, b: u64, c: u64, r: Rounding) -> u64 {
    arithmetic([b, c, a], || match r {
        Rounding::NearestEven => f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits(),
        _ => pack(value::fma(unpack(F64, a), unpack(F64, b), unpack(F64, c), r), r),
    })
}

/// `div.f64`.
#[must_use]
pub fn div_f64(a: u64, b: u64, r: Rounding) -> u64 {
    arithmetic([a, b], || match r {
        Rounding::NearestEven => (f64::from_bits(a) / f64::from_bits(b)).to_bits(),
        _ => pack(value::div(unpack(F64, a), unpack(F64, b)), r),
    })
}

/// `rcp.f64`.
#[must_use]
pub fn rcp_f64(a: u64, r: Rounding) -> u64 {
    div_f64(1.0f64.to_bits(), a, r)
}

/// `sqrt.f64`.
#[must_use]
pub fn sqrt_f64(a: u64, r: Rounding) -> u64 {
    arithmetic([a], || match r {
        Rounding::NearestEven => f64::from_bits(a).sqrt().to_bits(),
        _ => pack(value::sqrt(unpack(F64, a)), r),
    })
}

/// `abs.f64`: clears the sign bit; a NaN keeps its sign and becomes quiet (measured).
#[must_use]
#[inline(always)]
pub const fn abs_f64(a: u64) -> u64 {
    if is_nan(a) { quiet_f64(a) } else { a & !(1 << 63) }
}

/// `neg.f64`: flips the sign bit; a NaN keeps its sign and becomes quiet (measured).
#[must_use]
#[inline(always)]
pub const fn neg_f64(a: u64) -> u64 {
    if is_nan(a) { quiet_f64(a) } else { a ^ (1 << 63) }
}
