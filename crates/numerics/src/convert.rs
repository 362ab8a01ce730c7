//! Conversions between formats, as PTX `cvt` defines them.
//!
//! Sources: PTX ISA "cvt"; where the manual is silent, results recorded on an H100.

pub mod fast;
pub mod nan;

use super::float::value::{Value, unpack};
use super::float::{flush_f32, flush_rounded, quiet_f64};
use super::format::{BF16, F16, F32, F64, Format, Layout, NAN_16, NAN_F32};
use super::round::{Exact, Rounding};

/// The bits of a register that a tensor core reads as `tf32`.
const TF32_BITS: u32 = 0xFFFF_E000;
const QUIET_F32: u32 = 0x0040_0000;

/// Converts `x` to a code of `format`.
///
/// * `satfinite` turns overflow and infinities into the largest finite number; formats of 8 bits and fewer, except `ue8m0`,
///   always saturate.
/// * `relu` turns negative values, including `-0`, into `+0`.
/// * NaN becomes the format's canonical NaN, or the largest positive number where the format has none. Exceptions:
///   `cvt.rna.tf32` truncates a NaN's payload and keeps the rest, and the other `tf32` forms return 0x7FFFE000 (measured).
/// * `ue8m0` encodes the magnitude. PTX has `.rz` and `.rp`; the nearest modes follow CUDA's headers, and every other mode
///   rounds toward zero.
#[must_use]
pub fn f32_to(format: Format, x: f32, rounding: Rounding, satfinite: bool, relu: bool) -> u32 {
    let bits = x.to_bits();
    if rounding == Rounding::NearestEven && !relu {
        match (format, satfinite) {
            (Format::F16, false) => return u32::from(fast::f32_to_f16(bits)),
            (Format::Bf16, false) => return u32::from(fast::f32_to_bf16(bits)),
            (Format::E4m3, _) => return u32::from(fast::f32_to_e4m3(bits)),
            (Format::E5m2, _) => return u32::from(fast::f32_to_e5m2(bits)),
            (Format::E2m1, _) => return u32::from(fast::f32_to_e2m1(bits)),
            _ => {}
        }
    }
    if format == Format::Tf32 && rounding == Rounding::NearestAway && x.is_nan() {
        // With satfinite, ptxas subtracts one tf32 unit from the bits of a non-finite value, even a NaN (sm_90, measured:
        // 0x7FFFFFFF becomes 0x7FFFC000).
        let last = TF32_BITS & TF32_BITS.wrapping_neg();
        let cut =
            (bits & TF32_BITS) - if satfinite && bits & TF32_BITS & 0x007F_FFFF != 0 { last } else { 0 };
        // A payload with only low bits set would become an infinity.
        return if cut & 0x007F_FFFF == 0 { cut | QUIET_F32 } else { cut };
    }
    narrow(format, unpack(F32, u64::from(bits)), rounding, satfinite, relu)
}

/// [`f32_to`] from a double, rounded once.
#[must_use]
pub fn f64_to(format: Format, x: f64, rounding: Rounding, satfinite: bool, relu: bool) -> u32 {
    narrow(format, unpack(F64, x.to_bits()), rounding, satfinite, relu)
}

/// `cvt.f32.f64`, returning the bits; a NaN keeps its sign and upper payload and becomes quiet (measured). `.ftz` flushes as in
/// arithmetic: a result below 2^-126 once rounded to 24 bits.
#[must_use]
pub fn f64_to_f32(x: f64, r: Rounding, ftz: bool) -> u32 {
    let bits = f64_rounded_to_f32(x, r);
    if ftz { flush_rounded(bits, r, || unpack(F64, x.to_bits())) } else { bits }
}

fn f64_rounded_to_f32(x: f64, r: Rounding) -> u32 {
    if x.is_nan() {
        let bits = x.to_bits();
        let sign = (bits >> 63 << 31) as u32;
        return sign | F32.infinity() as u32 | QUIET_F32 | ((bits >> 29) as u32 & 0x007F_FFFF);
    }
    if r == Rounding::NearestEven {
        return (x as f32).to_bits();
    }
    f64_to(Format::F32, x, r, false, false)
}

/// `cvt.f64.f32`: exact; a NaN keeps its sign and payload and becomes quiet (measured).
#[must_use]
#[inline(always)]
pub fn f32_to_f64(x: u32) -> u64 {
    if x & 0x7FFF_FFFF <= 0x7F80_0000 {
        return f64::from(f32::from_bits(x)).to_bits();
    }
    let sign = u64::from(x >> 31) << 63;
    quiet_f64(sign | F64.infinity() | (u64::from(x & 0x007F_FFFF) << 29))
}

/// `cvt.f32.f16`: exact; a NaN becomes canonical.
#[must_use]
#[inline(always)]
pub fn f16_to_f32(x: u16) -> u32 {
    fast::f16_to_f32(x)
}

/// `cvt.f32.bf16`: the bits shifted into the upper half, including those of a NaN (measured).
#[must_use]
#[inline(always)]
pub const fn bf16_to_f32(x: u16) -> u32 {
    (x as u32) << 16
}

fn narrow(format: Format, value: Value, rounding: Rounding, satfinite: bool, relu: bool) -> u32 {
    let value = match value {
        Value::Infinite(true) if relu => Value::Finite(Exact::zero(false)),
        Value::Finite(exact) if relu && exact.negative => Value::Finite(Exact::zero(false)),
        other => other,
    };
    let Some(layout) = format.layout() else { return scale_of(value, rounding, satfinite) };
    let always = format.bits() <= 8;
    let code = match value {
        Value::Nan => return nan(format),
        Value::Infinite(negative) => {
            let magnitude = layout.max_finite() + u64::from(!satfinite && !always);
            magnitude | (u64::from(negative) << layout.magnitude_bits())
        }
        Value::Finite(exact) => exact.encode(layout, rounding, satfinite || always),
    };
    let code = code as u32;
    match format {
        Format::Tf32 => code << 13,
        Format::Ue4m3 => code & 0x7F,
        _ => code,
    }
}

/// Returns the result for a NaN operand.
const fn nan(format: Format) -> u32 {
    match format {
        Format::F16 | Format::Bf16 => NAN_16 as u32,
        Format::F32 => NAN_F32,
        Format::Tf32 => NAN_F32 & TF32_BITS,
        Format::E4m3 | Format::E5m2 | Format::Ue4m3 => 0x7F,
        Format::E2m3 | Format::E3m2 => 0x1F,
        Format::E2m1 => 0x7,
        Format::Ue8m0 => 0xFF,
    }
}

/// `cvt.{rz,rp}.ue8m0x2`: the exponent of the magnitude.
fn scale_of(value: Value, rounding: Rounding, satfinite: bool) -> u32 {
    let largest = if satfinite { 0xFE } else { 0xFF };
    let exact = match value {
        Value::Nan => return 0xFF,
        Value::Infinite(_) => return largest,
        Value::Finite(exact) if exact.is_zero() => return 0,
        Value::Finite(exact) => exact,
    };
    let power = exact.significand.is_power_of_two() && !exact.sticky;
    let up = match rounding {
        Rounding::Up => !power,
        // The midpoint between two powers of two is 1.5 times the lower. PTX has no nearest form, but CUDA's headers do.
        Rounding::NearestEven | Rounding::NearestAway => {
            let below = exact.significand.ilog2().checked_sub(1);
            below.is_some_and(|bit| (exact.significand >> bit) & 1 == 1)
        }
        Rounding::Zero | Rounding::Down | Rounding::Stochastic(_) => false,
    };
    let code = exact.exponent() + 127 + i32::from(up);
    if code > 0xFE { largest } else { code.max(0).cast_unsigned() }
}

/// `cvt.rni/rzi/rmi/rpi` to an integer of `bits` bits: saturated, in two's complement, zero-extended.
///
/// NaN converts to 0, or to the sign bit alone if the result has 64 bits.
#[must_use]
pub fn f32_to_int(x: f32, rounding: Rounding, bits: u32, signed: bool) -> u64 {
    to_int(unpack(F32, u64::from(x.to_bits())), rounding, bits, signed, bits == 64)
}

/// [`f32_to_int`] from a double; NaN always converts to the sign bit alone.
#[must_use]
pub fn f64_to_int(x: f64, rounding: Rounding, bits: u32, signed: bool) -> u64 {
    to_int(unpack(F64, x.to_bits()), rounding, bits, signed, true)
}

/// [`f32_to_int`] from binary16.
#[must_use]
pub fn f16_to_int(x: u16, rounding: Rounding, bits: u32, signed: bool) -> u64 {
    to_int(unpack(F16, u64::from(x)), rounding, bits, signed, bits == 64)
}

/// [`f32_to_int`] from bfloat16.
#[must_use]
pub fn bf16_to_int(x: u16, rounding: Rounding, bits: u32, signed: bool) -> u64 {
    to_int(unpack(BF16, u64::from(x)), rounding, bits, signed, bits == 64)
}

fn to_int(value: Value, rounding: Rounding, bits: u32, signed: bool, nan_is_sign: bool) -> u64 {
    let bits = bits.clamp(1, 64);
    let mask = u64::MAX >> (64 - bits);
    let (least, most) =
        if signed { (1u128 << (bits - 1), (1u128 << (bits - 1)) - 1) } else { (0, u128::from(mask)) };
    let (negative, magnitude) = match value {
        Value::Nan if nan_is_sign => return 1 << (bits - 1),
        Value::Nan => return 0,
        Value::Infinite(negative) => (negative, u128::MAX),
        // From 2^64 on, every integer type saturates.
        Value::Finite(exact) if !exact.is_zero() && exact.exponent() >= 64 => (exact.negative, u128::MAX),
        Value::Finite(exact) => (exact.negative, u128::from(exact.rounded_to(0, rounding))),
    };
    if negative { (magnitude.min(least) as u64).wrapping_neg() & mask } else { magnitude.min(most) as u64 }
}

/// `cvt.rni/rzi/rmi/rpi.f32.f32`: rounds to an integral value.
#[must_use]
pub fn round_f32_to_whole(x: f32, rounding: Rounding, ftz: bool) -> u32 {
    let bits = flush_f32(x.to_bits(), ftz);
    whole(F32, u64::from(bits), u64::from(NAN_F32), rounding) as u32
}

/// `cvt.rni/rzi/rmi/rpi.f64.f64`; a NaN becomes quiet.
#[must_use]
pub fn round_f64_to_whole(x: f64, rounding: Rounding) -> u64 {
    whole(F64, x.to_bits(), quiet_f64(x.to_bits()), rounding)
}

/// `cvt.rni/rzi/rmi/rpi.f16.f16`.
#[must_use]
pub fn round_f16_to_whole(x: u16, rounding: Rounding) -> u16 {
    whole(F16, u64::from(x), u64::from(NAN_16), rounding) as u16
}

fn whole(layout: Layout, bits: u64, nan: u64, rounding: Rounding) -> u64 {
    match unpack(layout, bits) {
        Value::Nan => nan,
        // A number with a unit of at least one is integral already.
        Value::Finite(exact) if exact.unit < 0 => {
            let integer = exact.rounded_to(0, rounding);
            Exact::new(exact.negative, u128::from(integer), 0).encode(layout, Rounding::Zero, false)
        }
        _ => bits,
    }
}

/// `cvt.f32` from an integer, returning the bits.
#[must_use]
pub fn int_to_f32(x: i128, r: Rounding) -> u32 {
    integer(x).encode(F32, r, false) as u32
}

/// `cvt.f64` from an integer, returning the bits.
#[must_use]
pub fn int_to_f64(x: i128, r: Rounding) -> u64 {
    integer(x).encode(F64, r, false)
}

/// `cvt.f16` from an integer.
#[must_use]
pub fn int_to_f16(x: i128, r: Rounding) -> u16 {
    integer(x).encode(F16, r, false) as u16
}

/// `cvt.bf16` from an integer.
#[must_use]
pub fn int_to_bf16(x: i128, r: Rounding) -> u16 {
    integer(x).encode(BF16, r, false) as u16
}

const fn integer(x: i128) -> Exact {
    Exact::new(x < 0, x.unsigned_abs(), 0)
}
