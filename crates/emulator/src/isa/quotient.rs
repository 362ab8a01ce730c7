//! Quotients, roots and approximate functions (PTX ISA 9.7.3 and 9.7.4): `div`, `rcp`, `sqrt`, `rsqrt`, `sin`, `cos`, `lg2`,
//! `ex2`, `tanh`.

use numerics::Rounding;
use numerics::float::{self, flush_f32};
use ptx::{Instruction, Type};

use super::float::Mode;
use super::lanewise::{d, halves, push, w};
use super::{FormRow, Words};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine};
use crate::run::vectors::{by_lane, by_warp};

const CHAPTER: &str = "Floating Point: quotients, roots, approximated functions";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "rcp", "rcp.{approx,rn,rz,rm,rp}{.ftz}.{f32,f64}", rcp),
    FormRow::new(CHAPTER, "sqrt", "sqrt.{approx,rn,rz,rm,rp}{.ftz}.{f32,f64}", sqrt),
    FormRow::new(CHAPTER, "rsqrt", "rsqrt.approx{.ftz}.{f32,f64}", function),
    FormRow::new(CHAPTER, "sin", "sin.approx{.ftz}.f32", function),
    FormRow::new(CHAPTER, "cos", "cos.approx{.ftz}.f32", function),
    FormRow::new(CHAPTER, "lg2", "lg2.approx{.ftz}.f32", function),
    FormRow::new(CHAPTER, "ex2", "ex2.approx{.ftz}.{f32,f16,f16x2,bf16,bf16x2}", function),
    FormRow::new(CHAPTER, "tanh", "tanh.approx.{f32,f16,f16x2,bf16,bf16x2}", function),
];

type Decoded = Result<(), Refusal>;

fn refuse(i: &Instruction) -> Decoded {
    Err(format!("{} with these modifiers on this type", i.opcode))
}

/// The rounding of a quotient or root: a missing modifier is an error, as in ptxas.
fn method<'a>(words: &mut Words<'a>) -> Result<(Option<&'a str>, Mode), Refusal> {
    let approximate = words.one_of(&["approx", "full"]);
    let rounded = words.left().iter().any(|w| matches!(*w, "rn" | "rz" | "rm" | "rp"));
    if approximate.is_none() && !rounded {
        return Err("no rounding, .approx or .full".to_owned());
    }
    Ok((approximate, Mode::take_from(words)))
}

pub(super) fn div(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let (approximate, mode) = method(&mut words)?;
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (approximate, ty, mode.ftz) {
        _ if mode.sat => return refuse(i),
        (Some("approx"), Type::F32, false) => {
            by_warp!(|a: u32, b: u32| -> u32 { float::div_approx_f32_lanes(&a, &b, false) })
        }
        (Some("approx"), Type::F32, true) => {
            by_warp!(|a: u32, b: u32| -> u32 { float::div_approx_f32_lanes(&a, &b, true) })
        }
        (Some(_), Type::F32, false) => {
            by_warp!(|a: u32, b: u32| -> u32 { float::div_full_f32_lanes(&a, &b, false) })
        }
        (Some(_), Type::F32, true) => {
            by_warp!(|a: u32, b: u32| -> u32 { float::div_full_f32_lanes(&a, &b, true) })
        }
        (None, Type::F32, false) if mode.is_nearest() => by_lane!(|a: u32, b: u32| -> u32 {
            (f32::from_bits(a) / f32::from_bits(b)).to_bits()
        } unless |quick| { f32::from_bits(quick).is_nan() } => {
            float::div_f32(a, b, Rounding::NearestEven, false)
        }),
        (None, Type::F32, true) if mode.is_nearest() => by_lane!(|a: u32, b: u32| -> u32 {
            (f32::from_bits(flush_f32(a, true)) / f32::from_bits(flush_f32(b, true))).to_bits()
        } unless |quick| { f32::from_bits(quick).is_nan() | may_be_flushed(quick) } => {
            float::div_f32(a, b, Rounding::NearestEven, true)
        }),
        (None, Type::F32, _) => div_f32,
        (None, Type::F64, false) if mode.is_nearest() => by_lane!(|a: u64, b: u64| -> u64 {
            (f64::from_bits(a) / f64::from_bits(b)).to_bits()
        } unless |quick| { f64::from_bits(quick).is_nan() } => {
            float::div_f64(a, b, Rounding::NearestEven)
        }),
        (None, Type::F64, false) => div_f64,
        _ => return refuse(i),
    };
    push(d, i, ty, &[ty; 2], exec, mode.imm())
}

/// Whether a result is subnormal, or the smallest normal number, to which a smaller one may have been rounded.
#[inline(always)]
pub(super) const fn may_be_flushed(bits: u32) -> bool {
    let size = bits & 0x7FFF_FFFF;
    (size != 0) & (size <= 0x0080_0000)
}

fn div_f32(m: &mut Machine<'_>, row: &Row) -> Flow {
    let mode = Mode::from(row.imm);
    m.map2(row, |a, b| float::div_f32(a, b, mode.rounding, mode.ftz))
}

fn div_f64(m: &mut Machine<'_>, row: &Row) -> Flow {
    let mode = Mode::from(row.imm);
    m.wide2(row, |a, b| float::div_f64(a, b, mode.rounding))
}

fn rcp(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let (approximate, mode) = method(&mut words)?;
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (approximate, ty, mode.ftz) {
        _ if mode.sat => return refuse(i),
        (Some("approx"), Type::F32, false) => {
            by_warp!(|a: u32| -> u32 { float::rcp_approx_f32_lanes(&a, false) })
        }
        (Some("approx"), Type::F32, true) => {
            by_warp!(|a: u32| -> u32 { float::rcp_approx_f32_lanes(&a, true) })
        }
        (Some("approx"), Type::F64, true) => d!(|a| float::rcp_approx_ftz_f64(a)),
        (None, Type::F32, false) if mode.is_nearest() => by_lane!(|a: u32| -> u32 {
            (1.0 / f32::from_bits(a)).to_bits()
        } unless |quick| { f32::from_bits(quick).is_nan() } => {
            float::rcp_f32(a, Rounding::NearestEven, false)
        }),
        (None, Type::F32, true) if mode.is_nearest() => by_lane!(|a: u32| -> u32 {
            (1.0 / f32::from_bits(flush_f32(a, true))).to_bits()
        } unless |quick| { f32::from_bits(quick).is_nan() | may_be_flushed(quick) } => {
            float::rcp_f32(a, Rounding::NearestEven, true)
        }),
        (None, Type::F32, _) => {
            |m, row| rounded(m, row, |a, mode| float::rcp_f32(a, mode.rounding, mode.ftz))
        }
        (None, Type::F64, false) if mode.is_nearest() => by_lane!(|a: u64| -> u64 {
            (1.0 / f64::from_bits(a)).to_bits()
        } unless |quick| { f64::from_bits(quick).is_nan() } => {
            float::rcp_f64(a, Rounding::NearestEven)
        }),
        (None, Type::F64, false) => |m, row| rounded_wide(m, row, float::rcp_f64),
        _ => return refuse(i),
    };
    push(d, i, ty, &[ty], exec, mode.imm())
}

fn sqrt(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let (approximate, mode) = method(&mut words)?;
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (approximate, ty, mode.ftz) {
        _ if mode.sat => return refuse(i),
        (Some("approx"), Type::F32, false) => {
            by_warp!(|a: u32| -> u32 { float::sqrt_approx_f32_lanes(&a, false) })
        }
        (Some("approx"), Type::F32, true) => {
            by_warp!(|a: u32| -> u32 { float::sqrt_approx_f32_lanes(&a, true) })
        }
        (None, Type::F32, false) if mode.is_nearest() => by_lane!(|a: u32| -> u32 {
            f32::from_bits(a).sqrt().to_bits()
        } unless |quick| { f32::from_bits(quick).is_nan() } => {
            float::sqrt_f32(a, Rounding::NearestEven, false)
        }),
        // The root of a normal number is one.
        (None, Type::F32, true) if mode.is_nearest() => by_lane!(|a: u32| -> u32 {
            f32::from_bits(flush_f32(a, true)).sqrt().to_bits()
        } unless |quick| { f32::from_bits(quick).is_nan() } => {
            float::sqrt_f32(a, Rounding::NearestEven, true)
        }),
        (None, Type::F32, _) => {
            |m, row| rounded(m, row, |a, mode| float::sqrt_f32(a, mode.rounding, mode.ftz))
        }
        (None, Type::F64, false) if mode.is_nearest() => by_lane!(|a: u64| -> u64 {
            f64::from_bits(a).sqrt().to_bits()
        } unless |quick| { f64::from_bits(quick).is_nan() } => {
            float::sqrt_f64(a, Rounding::NearestEven)
        }),
        (None, Type::F64, false) => |m, row| rounded_wide(m, row, float::sqrt_f64),
        _ => return refuse(i),
    };
    push(d, i, ty, &[ty], exec, mode.imm())
}

#[inline(always)]
fn rounded(m: &mut Machine<'_>, row: &Row, f: impl Fn(u32, Mode) -> u32) -> Flow {
    let mode = Mode::from(row.imm);
    m.map1(row, |a| f(a, mode))
}

#[inline(always)]
fn rounded_wide(m: &mut Machine<'_>, row: &Row, f: impl Fn(u64, Rounding) -> u64) -> Flow {
    let mode = Mode::from(row.imm);
    m.wide1(row, |a| f(a, mode.rounding))
}

fn function(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    if !words.take("approx") {
        return Err(format!("{} without .approx", i.opcode));
    }
    let ftz = words.take("ftz");
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (i.opcode.as_str(), ty, ftz) {
        ("rsqrt", Type::F32, false) => by_warp!(|a: u32| -> u32 { float::rsqrt_approx_f32_lanes(&a, false) }),
        ("rsqrt", Type::F32, true) => by_warp!(|a: u32| -> u32 { float::rsqrt_approx_f32_lanes(&a, true) }),
        ("rsqrt", Type::F64, false) => d!(|a| float::rsqrt_approx_f64(a)),
        ("rsqrt", Type::F64, true) => d!(|a| float::rsqrt_approx_ftz_f64(a)),
        ("sin", Type::F32, _) => by_warp!(|a: u32| -> u32 { float::sin_approx_f32_lanes(&a) }),
        ("cos", Type::F32, _) => by_warp!(|a: u32| -> u32 { float::cos_approx_f32_lanes(&a) }),
        ("lg2", Type::F32, false) => by_warp!(|a: u32| -> u32 { float::lg2_approx_f32_lanes(&a, false) }),
        ("lg2", Type::F32, true) => by_warp!(|a: u32| -> u32 { float::lg2_approx_f32_lanes(&a, true) }),
        ("ex2", Type::F32, false) => by_warp!(|a: u32| -> u32 { float::ex2_approx_f32_lanes(&a, false) }),
        ("ex2", Type::F32, true) => by_warp!(|a: u32| -> u32 { float::ex2_approx_f32_lanes(&a, true) }),
        ("ex2", Type::F16, false) => w!(|a| u32::from(float::ex2_approx_f16(a as u16))),
        ("ex2", Type::F16x2, false) => w!(|a| halves!(a, |x| float::ex2_approx_f16(x))),
        ("ex2", Type::Bf16, true) => w!(|a| u32::from(float::ex2_approx_bf16(a as u16))),
        ("ex2", Type::Bf16x2, true) => w!(|a| halves!(a, |x| float::ex2_approx_bf16(x))),
        ("tanh", Type::F32, false) => by_warp!(|a: u32| -> u32 { float::tanh_approx_f32_lanes(&a) }),
        ("tanh", Type::F16, false) => w!(|a| u32::from(float::tanh_approx_f16(a as u16))),
        ("tanh", Type::F16x2, false) => w!(|a| halves!(a, |x| float::tanh_approx_f16(x))),
        ("tanh", Type::Bf16, false) => w!(|a| u32::from(float::tanh_approx_bf16(a as u16))),
        ("tanh", Type::Bf16x2, false) => w!(|a| halves!(a, |x| float::tanh_approx_bf16(x))),
        _ => return refuse(i),
    };
    push(d, i, ty, &[ty], exec, 0)
}
