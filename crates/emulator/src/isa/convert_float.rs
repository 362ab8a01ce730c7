//! `cvt` with a floating-point number on either side (PTX ISA 9.7.10).

use numerics::convert::{self as num, nan};
use numerics::float::{
    canonical_bf16, canonical_f16, canonical_f32, flush_f32, quiet_f64, saturate_bf16, saturate_f16,
    saturate_f32, saturate_f64,
};
use numerics::{Format, Rounding};
use ptx::{Instruction, Type};

use super::Words;
use super::convert::{Integer, by_bank, is_float, origin, target, whole_rounding};
use super::float::rounding;
use super::lanewise::{by_lane, operands, w};
use super::operations::Operation;
use super::quotient::may_be_flushed;
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::Flow;

/// The operation of a row. Only the fields of its kind of conversion are used.
struct Conversion {
    from: Type,
    to: Type,
    rounding: Rounding,
    /// Round to an integer.
    whole: bool,
    ftz: bool,
    sat: bool,
    relu: bool,
    satfinite: bool,
    mask: u64,
}

pub(super) fn decode(d: &mut Decoder<'_>, i: &Instruction, to: Type, from: Type) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let whole = whole_rounding(&mut words);
    let rounded = rounding(&mut words);
    let (ftz, sat) = (words.take("ftz"), words.take("sat"));
    let (relu, satfinite) = (words.take("relu"), words.take("satfinite"));
    words.ty()?;
    words.ty()?;
    words.done()?;
    let lossy = is_float(to)
        && (!is_float(from) || from.bytes() > to.bytes() || (from.bytes() == to.bytes() && from != to));
    match (whole, rounded) {
        (Some(_), Some(_)) => return Err("two roundings".to_owned()),
        (None, Some(_)) if !lossy => return Err("a rounding modifier on an exact conversion".to_owned()),
        (Some(_), _) if lossy => return Err("an integer rounding between formats".to_owned()),
        // ptxas accepts this one without a rounding, and rounds to nearest even.
        (None, None) if (to, from) == (Type::Bf16, Type::F16) => {}
        (None, None) if lossy || !is_float(to) => return Err("no rounding".to_owned()),
        _ => {}
    }
    if (relu || satfinite) && !(from == Type::F32 && matches!(to, Type::F16 | Type::Bf16)) {
        return Err(".relu and .satfinite on these types".to_owned());
    }
    if ftz && from != Type::F32 && to != Type::F32 {
        return Err(".ftz without f32".to_owned());
    }
    let (out, sources) = operands(i, 1)?;
    let (a, wide) = origin(d, &sources[0], from)?;
    let target = target(d, out, to)?;
    let row = Row { d: target.slot, a, ..Row::new(|_, _| Flow::Next) };
    let rounding = whole.or(rounded).unwrap_or(Rounding::NearestEven);
    let common = !(sat || relu || satfinite) && target.mask.count_ones() as usize == to.bytes() * 8;
    let chosen = if ftz { fast_flushing } else { fast };
    if let Some(exec) =
        common.then(|| chosen(to, from, rounding, whole.is_some(), (wide, target.wide))).flatten()
    {
        d.push(Row { exec, ..row });
        return Ok(());
    }
    if (to, from) == (Type::F32, Type::F32)
        && sat
        && whole.is_none()
        && !ftz
        && target.mask.count_ones() == 32
    {
        d.push(Row { exec: w!(|a| saturate_f32(a)), ..row });
        return Ok(());
    }
    let conversion = Conversion {
        from,
        to,
        rounding,
        whole: whole.is_some(),
        ftz,
        sat,
        relu,
        satfinite,
        mask: target.mask,
    };
    let exec: Exec = match (is_float(to), is_float(from)) {
        (true, true) => by_bank!(wide, target.wide, Conversion, floats),
        (false, _) => by_bank!(wide, target.wide, Conversion, to_integer),
        (true, false) => by_bank!(wide, target.wide, Conversion, from_integer),
    };
    d.push(Row { exec, extra: Some(Box::new(conversion)), ..row });
    Ok(())
}

/// A conversion of the value that a function of the host's floats rounds to an integer.
macro_rules! rounded_by {
    ($round:ident; |$a:ident: $from:ty| -> $to:ty, |$value:ident: $float:ty| $body:expr) => {
        by_lane!(|$a: $from| -> $to {
            let $value = <$float>::from_bits($a).$round();
            $body
        })
    };
}

/// Conversions of values that are rounded to an integer as the modifier says.
macro_rules! whole {
    ($rounding:expr; $($conversion:tt)*) => {
        match $rounding {
            Rounding::Zero => rounded_by!(trunc; $($conversion)*),
            Rounding::NearestEven => rounded_by!(round_ties_even; $($conversion)*),
            Rounding::Down => rounded_by!(floor; $($conversion)*),
            Rounding::Up => rounded_by!(ceil; $($conversion)*),
            _ => return None,
        }
    };
}

/// The integer of a NaN, except of a float of 32 bits as an integer of as many: the sign bit alone.
const NAN_S32: u32 = 1 << 31;
const NAN_S64: u64 = 1 << 63;

/// Conversions that the host's own match bit for bit, and the usual widenings.
#[expect(clippy::too_many_lines, reason = "a row for each")]
fn fast(to: Type, from: Type, rounding: Rounding, whole: bool, wide: (bool, bool)) -> Option<Exec> {
    use Rounding::NearestEven;
    let exec: Exec = match (to, from, rounding, wide) {
        (Type::S32, Type::F32, _, (false, false)) => {
            whole!(rounding; |a: u32| -> u32, |x: f32| x as i32 as u32)
        }
        (Type::U32, Type::F32, _, (false, false)) => whole!(rounding; |a: u32| -> u32, |x: f32| x as u32),
        (Type::S64, Type::F32, _, (false, true)) => whole!(rounding; |a: u32| -> u64, |x: f32| {
            if x.is_nan() { NAN_S64 } else { x as i64 as u64 }
        }),
        (Type::U64, Type::F32, _, (false, true)) => whole!(rounding; |a: u32| -> u64, |x: f32| {
            if x.is_nan() { NAN_S64 } else { x as u64 }
        }),
        (Type::S32, Type::F64, _, (true, false)) => whole!(rounding; |a: u64| -> u32, |x: f64| {
            if x.is_nan() { NAN_S32 } else { x as i32 as u32 }
        }),
        (Type::U32, Type::F64, _, (true, false)) => whole!(rounding; |a: u64| -> u32, |x: f64| {
            if x.is_nan() { NAN_S32 } else { x as u32 }
        }),
        (Type::S64, Type::F64, _, (true, true)) => whole!(rounding; |a: u64| -> u64, |x: f64| {
            if x.is_nan() { NAN_S64 } else { x as i64 as u64 }
        }),
        (Type::U64, Type::F64, _, (true, true)) => whole!(rounding; |a: u64| -> u64, |x: f64| {
            if x.is_nan() { NAN_S64 } else { x as u64 }
        }),
        (Type::F32, Type::F32, _, (false, false)) if whole => whole!(rounding; |a: u32| -> u32, |x: f32| {
            canonical_f32(x.to_bits())
        }),
        (Type::F64, Type::F64, _, (true, true)) if whole => whole!(rounding; |a: u64| -> u64, |x: f64| {
            if x.is_nan() { quiet_f64(a) } else { x.to_bits() }
        }),
        (Type::F32, Type::U8, NearestEven, (false, false)) => {
            by_lane!(|a: u32| -> u32 { f32::from(a as u8).to_bits() })
        }
        (Type::F32, Type::S8, NearestEven, (false, false)) => {
            by_lane!(|a: u32| -> u32 { f32::from(a as i8).to_bits() })
        }
        (Type::F32, Type::U16, NearestEven, (false, false)) => {
            by_lane!(|a: u32| -> u32 { f32::from(a as u16).to_bits() })
        }
        (Type::F32, Type::S16, NearestEven, (false, false)) => {
            by_lane!(|a: u32| -> u32 { f32::from(a as i16).to_bits() })
        }
        (Type::F32, Type::S64, NearestEven, (true, false)) => {
            by_lane!(|a: u64| -> u32 { (a as i64 as f32).to_bits() })
        }
        (Type::F32, Type::U64, NearestEven, (true, false)) => {
            by_lane!(|a: u64| -> u32 { (a as f32).to_bits() })
        }
        (Type::F64, Type::S64, NearestEven, (true, true)) => {
            by_lane!(|a: u64| -> u64 { (a as i64 as f64).to_bits() })
        }
        (Type::F64, Type::U64, NearestEven, (true, true)) => {
            by_lane!(|a: u64| -> u64 { (a as f64).to_bits() })
        }
        (Type::F32, Type::S32, NearestEven, (false, false)) => Operation::FloatOfS32.exec(),
        (Type::F32, Type::U32, NearestEven, (false, false)) => Operation::FloatOfU32.exec(),
        (Type::F64, Type::S32, NearestEven, (false, true)) => {
            by_lane!(|a: u32| -> u64 { f64::from(a as i32).to_bits() })
        }
        (Type::F64, Type::U32, NearestEven, (false, true)) => {
            by_lane!(|a: u32| -> u64 { f64::from(a).to_bits() })
        }
        (Type::F64, Type::F32, _, (false, true)) => by_lane!(|a: u32| -> u64 {
            f64::from(f32::from_bits(a)).to_bits()
        } unless |quick| {
            f64::from_bits(quick).is_nan()
        } => {
            num::f32_to_f64(a)
        }),
        (Type::F32, Type::F64, NearestEven, (true, false)) => {
            by_lane!(|a: u64| -> u32 {
                (f64::from_bits(a) as f32).to_bits()
            } unless |quick| {
                f32::from_bits(quick).is_nan()
            } => {
                num::f64_to_f32(f64::from_bits(a), NearestEven, false)
            })
        }
        (Type::F32, Type::F16, _, (false, false)) => w!(|a| num::f16_to_f32(a as u16)),
        (Type::F32, Type::Bf16, _, (false, false)) => w!(|a| num::bf16_to_f32(a as u16)),
        (Type::S32, Type::F16, _, (false, false)) => {
            whole!(rounding; |a: u32| -> u32, |x: Half| x as i32 as u32)
        }
        (Type::U32, Type::F16, _, (false, false)) => whole!(rounding; |a: u32| -> u32, |x: Half| x as u32),
        (Type::U16, Type::F32, _, (false, false)) => {
            whole!(rounding; |a: u32| -> u32, |x: f32| u32::from(x as u16))
        }
        // Exact in 64 bits, so that it is rounded once.
        (Type::F16, Type::S32, NearestEven, (false, false)) => {
            by_lane!(|a: u32| -> u32 { u32::from(num::fast::f64_to_f16(f64::from(a as i32))) })
        }
        (Type::F16, Type::U32, NearestEven, (false, false)) => {
            by_lane!(|a: u32| -> u32 { u32::from(num::fast::f64_to_f16(f64::from(a))) })
        }
        (Type::F16, Type::F64, NearestEven, (true, false)) => {
            by_lane!(|a: u64| -> u32 {
                u32::from(num::fast::f64_to_f16(f64::from_bits(a)))
            } unless |quick| {
                quick & 0x7FFF > 0x7C00
            } => {
                u32::from(nan::f64_to_16(Format::F16, a))
            })
        }
        (Type::F16, Type::F32, NearestEven, (false, false)) => w!(|a| u32::from(num::fast::f32_to_f16(a))),
        (Type::Bf16, Type::F32, NearestEven, (false, false)) => w!(|a| u32::from(num::fast::f32_to_bf16(a))),
        (Type::F32, Type::F32, _, (false, false)) if !whole => w!(|a| a),
        _ => return None,
    };
    Some(exec)
}

/// [`fast`] with `.ftz`, which flushes sources and results of 32 bits, and makes a NaN canonical.
fn fast_flushing(
    to: Type,
    from: Type,
    rounding: Rounding,
    is_whole: bool,
    wide: (bool, bool),
) -> Option<Exec> {
    let exec: Exec = match (to, from, wide) {
        (Type::S32, Type::F32, (false, false)) => {
            whole!(rounding; |a: u32| -> u32, |x: Flushed| x as i32 as u32)
        }
        (Type::U32, Type::F32, (false, false)) => whole!(rounding; |a: u32| -> u32, |x: Flushed| x as u32),
        (Type::F32, Type::F32, (false, false)) if is_whole => {
            whole!(rounding; |a: u32| -> u32, |x: Flushed| {
                canonical_f32(x.to_bits())
            })
        }
        (Type::F32, Type::F32, (false, false)) => w!(|a| canonical_f32(flush_f32(a, true))),
        (Type::F32, Type::F64, (true, false)) if rounding == Rounding::NearestEven => {
            by_lane!(|a: u64| -> u32 {
                (f64::from_bits(a) as f32).to_bits()
            } unless |quick| {
                f32::from_bits(quick).is_nan() | may_be_flushed(quick)
            } => {
                num::f64_to_f32(f64::from_bits(a), Rounding::NearestEven, true)
            })
        }
        // An integer is no subnormal number.
        (Type::F32, Type::S32 | Type::U32, (false, false)) => {
            return fast(to, from, rounding, is_whole, wide);
        }
        _ => return None,
    };
    Some(exec)
}

/// A float of 16 bits.
struct Half;

impl Half {
    #[inline(always)]
    fn from_bits(bits: u32) -> f32 {
        f32::from_bits(num::f16_to_f32(bits as u16))
    }
}

/// A float of 32 bits whose subnormal numbers are flushed.
struct Flushed;

impl Flushed {
    #[inline(always)]
    fn from_bits(bits: u32) -> f32 {
        f32::from_bits(flush_f32(bits, true))
    }
}

fn format(ty: Type) -> Format {
    match ty {
        Type::F16 => Format::F16,
        Type::Bf16 => Format::Bf16,
        _ => Format::F32,
    }
}

/// A 16-bit or 32-bit float as `f32` bits. `.ftz` flushes, and makes a NaN canonical (measured).
#[inline(always)]
fn single(x: &Conversion, a: u64) -> u32 {
    match x.from {
        Type::F16 => num::f16_to_f32(a as u16),
        Type::Bf16 => flushed(num::bf16_to_f32(a as u16), x.ftz),
        _ => flushed(a as u32, x.ftz),
    }
}

fn flushed(bits: u32, ftz: bool) -> u32 {
    if ftz { canonical_f32(flush_f32(bits, true)) } else { bits }
}

fn saturated(to: Type, bits: u64) -> u64 {
    match to {
        Type::F64 => saturate_f64(bits),
        Type::F32 => u64::from(saturate_f32(bits as u32)),
        Type::F16 => u64::from(saturate_f16(bits as u16)),
        _ => u64::from(saturate_bf16(bits as u16)),
    }
}

/// From one floating-point format to another, or to an integer value of the same format.
fn floats(x: &Conversion, a: u64) -> u64 {
    let r = x.rounding;
    let bits = match (x.to, x.from) {
        (Type::F64, Type::F64) if x.whole => num::round_f64_to_whole(f64::from_bits(a), r),
        (Type::F64, Type::F64) => a,
        (Type::F64, Type::F16) => nan::f16_to_f64(a as u16),
        (Type::F64, _) => num::f32_to_f64(single(x, a)),
        (Type::F32, Type::F64) => u64::from(num::f64_to_f32(f64::from_bits(a), r, x.ftz)),
        (Type::F32, Type::F32) if x.whole => {
            u64::from(num::round_f32_to_whole(f32::from_bits(a as u32), r, x.ftz))
        }
        (Type::F32, _) => u64::from(flush_f32(single(x, a), x.ftz)),
        (Type::F16, Type::F16) if x.whole => u64::from(num::round_f16_to_whole(a as u16, r)),
        (Type::Bf16, Type::Bf16) if x.whole => {
            let bits = f32::from_bits(num::bf16_to_f32(a as u16));
            u64::from(num::round_f32_to_whole(bits, r, false) >> 16)
        }
        // Between equal formats, a NaN of 16 bits becomes canonical; one of 32 or 64 bits stays (measured).
        (Type::F16, Type::F16) => u64::from(canonical_f16(a as u16)),
        (Type::Bf16, Type::Bf16) => u64::from(canonical_bf16(a as u16)),
        (to, Type::F64) if f64::from_bits(a).is_nan() => u64::from(nan::f64_to_16(format(to), a)),
        (to, Type::F64) => u64::from(num::f64_to(format(to), f64::from_bits(a), r, x.satfinite, x.relu)),
        (to, _) => {
            let value = f32::from_bits(single(x, a));
            u64::from(num::f32_to(format(to), value, r, x.satfinite, x.relu))
        }
    };
    (if x.sat { saturated(x.to, bits) } else { bits }) & x.mask
}

fn to_integer(x: &Conversion, a: u64) -> u64 {
    let to = Integer::from_type(x.to);
    let (bits, signed, r) = (to.bits(), to.signed(), x.rounding);
    let value = match x.from {
        Type::F64 => num::f64_to_int(f64::from_bits(a), r, bits, signed),
        Type::F16 => num::f16_to_int(a as u16, r, bits, signed),
        Type::Bf16 => num::bf16_to_int(a as u16, r, bits, signed),
        _ => num::f32_to_int(f32::from_bits(single(x, a)), r, bits, signed),
    };
    to.extend(value) & x.mask
}

fn from_integer(x: &Conversion, a: u64) -> u64 {
    let value = Integer::from_type(x.from).value(a);
    let bits = match x.to {
        Type::F64 => num::int_to_f64(value, x.rounding),
        Type::F16 => u64::from(num::int_to_f16(value, x.rounding)),
        Type::Bf16 => u64::from(num::int_to_bf16(value, x.rounding)),
        _ => u64::from(num::int_to_f32(value, x.rounding)),
    };
    (if x.sat { saturated(x.to, bits) } else { bits }) & x.mask
}
