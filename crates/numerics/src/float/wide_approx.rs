//! The `.approx` instructions of double precision, and the NaN of out-of-bounds elements.
//!
//! PTX describes `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64` as working on the upper word: the lower 32 bits of the
//! operand are ignored, those of the result are zero, and subnormal numbers count as zero.

use super::{NAN_F64, quiet_f64};

/// The NaN of the upper word that the manual names.
const NAN: u64 = 0x7FFF_FFFF_0000_0000;

const UPPER: u64 = 0xFFFF_FFFF_0000_0000;
const EXPONENT: u64 = 0x7FF0_0000_0000_0000;

const fn flush(bits: u64) -> u64 {
    if bits & EXPONENT == 0 { bits & (1 << 63) } else { bits }
}

/// `f` of the upper word, cut to an upper word.
fn through(a: u64, f: impl FnOnce(f64) -> f64) -> u64 {
    let x = f64::from_bits(flush(a & UPPER));
    let y = f(x);
    // A NaN whose payload lies in the lower word would look like an infinity above.
    if y.is_nan() || f64::from_bits(a).is_nan() {
        return NAN;
    }
    let bits = y.to_bits();
    // Cut, as an H100 does in nearly all cases.
    flush(bits & UPPER)
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

/// Whether a value of 16 bits is the NaN that `fma.oob` takes for an element outside a tensor: 0x7FF7 of either sign, the one
/// of all 65,536 values with which an H100 gives zero, and what its tensor copies fill with.
#[must_use]
pub const fn is_oob_nan(a: u16) -> bool {
    a & 0x7FFF == 0x7FF7
}
