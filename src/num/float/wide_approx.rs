//! The `.approx` instructions of double precision, and the NaN of out-of-bounds elements.
//!
//! PTX describes `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64` as working on the upper word: the lower 32 bits of the
//! operand are ignored, those of the result are zero, and subnormal numbers count as zero.

use super::{NAN_F64, quiet_f64};

const UPPER: u64 = 0xFFFF_FFFF_0000_0000;
const EXPONENT: u64 = 0x7FF0_0000_0000_0000;

const fn flush(bits: u64) -> u64 {
    if bits & EXPONENT == 0 { bits & (1 << 63) } else { bits }
}

/// `f` of the upper word, rounded to an upper word.
fn through(a: u64, f: impl FnOnce(f64) -> f64) -> u64 {
    let x = f64::from_bits(flush(a & UPPER));
    if x.is_nan() {
        return quiet_f64(a) & UPPER;
    }
    let bits = f(x).to_bits();
    if f64::from_bits(bits).is_nan() {
        return NAN_F64;
    }
    // Half a unit of the upper word; a carry runs into the exponent as it should.
    flush(bits.wrapping_add(1 << 31) & UPPER)
}

/// `rcp.approx.ftz.f64`.
#[must_use]
pub fn rcp_approx_ftz_f64(a: u64) -> u64 {
    through(a, |x| 1.0 / x)
}

/// `rsqrt.approx.ftz.f64`.
#[must_use]
pub fn rsqrt_approx_ftz_f64(a: u64) -> u64 {
    through(a, |x| 1.0 / x.sqrt())
}

/// `rsqrt.approx.f64`.
#[must_use]
pub fn rsqrt_approx_f64(a: u64) -> u64 {
    let x = f64::from_bits(a);
    if x.is_nan() {
        return quiet_f64(a);
    }
    let y = 1.0 / x.sqrt();
    if y.is_nan() { NAN_F64 } else { y.to_bits() }
}

/// Whether a value of 16 bits is the NaN that `fma.oob` takes for an element outside a tensor.
#[must_use]
pub const fn is_oob_nan(a: u16) -> bool {
    a == 0xFFFF
}
