//! Integer arithmetic (PTX ISA 9.7.1).

use ptx::{Instruction, Type};

use super::lanewise::{d, push, same, w};
use super::operations::Operation;
use super::{FormRow, Words};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::registers::Bank;
use crate::front::words::Refusal;
use crate::run::machine::{Flow, LANES, Machine};

const CHAPTER: &str = "Integer Arithmetic";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "mul24", "mul24{.hi,.lo}.{u32,s32}", mul24),
    FormRow::new(CHAPTER, "mad24", "mad24{.hi,.lo}{.sat}.{u32,s32}", mad24),
    FormRow::new(CHAPTER, "sad", "sad.{u16,u32,u64,s16,s32,s64}", sad),
    FormRow::new(CHAPTER, "rem", "rem.{u16,u32,u64,s16,s32,s64}", rem),
];

type Decoded = Result<(), Refusal>;

/// The only type of an instruction without other modifiers.
fn lone_type(i: &Instruction) -> Result<Type, Refusal> {
    let mut words = Words::from_instruction(i);
    let ty = words.ty()?;
    words.done()?;
    Ok(ty)
}

fn refuse(i: &Instruction, ty: Type) -> Decoded {
    Err(format!("{} on {ty}", i.opcode))
}

pub(super) fn add(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let sat = words.take("sat");
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (ty, sat) {
        (Type::S32, true) => w!(|a, b| (a as i32).saturating_add(b as i32) as u32),
        (Type::U32, true) => w!(|a, b| a.saturating_add(b)),
        (_, true) => return refuse(i, ty),
        (Type::U16 | Type::S16, _) => w!(|a, b| a.wrapping_add(b) & 0xFFFF),
        (Type::U32 | Type::S32, _) => Operation::AddW.exec(),
        (Type::U64 | Type::S64, _) => Operation::AddD.exec(),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 2, exec)
}

pub(super) fn sub(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let sat = words.take("sat");
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (ty, sat) {
        (Type::S32, true) => w!(|a, b| (a as i32).saturating_sub(b as i32) as u32),
        (Type::U32, true) => w!(|a, b| a.saturating_sub(b)),
        (_, true) => return refuse(i, ty),
        (Type::U16 | Type::S16, _) => w!(|a, b| a.wrapping_sub(b) & 0xFFFF),
        (Type::U32 | Type::S32, _) => Operation::SubtractW.exec(),
        (Type::U64 | Type::S64, _) => Operation::SubtractD.exec(),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 2, exec)
}

/// The upper half of a product.
#[inline(always)]
pub(super) fn high_u32(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

#[inline(always)]
pub(super) fn high_s32(a: u32, b: u32) -> u32 {
    ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
}

#[inline(always)]
pub(super) fn high_u64(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

#[inline(always)]
pub(super) fn high_s64(a: u64, b: u64) -> u64 {
    ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
}

#[inline(always)]
fn product_s16(a: u32, b: u32) -> u32 {
    (i32::from(a as i16) * i32::from(b as i16)) as u32
}

/// The type of a product twice as wide.
fn doubled(ty: Type) -> Type {
    match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        _ => Type::S64,
    }
}

pub(super) fn mul(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let part = words.one_of(&["lo", "hi", "wide"]).ok_or("mul of integers requires .lo, .hi or .wide")?;
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (part, ty) {
        ("lo", Type::U16 | Type::S16) => w!(|a, b| a.wrapping_mul(b) & 0xFFFF),
        ("lo", Type::U32 | Type::S32) => Operation::MultiplyW.exec(),
        ("lo", Type::U64 | Type::S64) => d!(|a, b| a.wrapping_mul(b)),
        ("hi", Type::U16) => w!(|a, b| ((a & 0xFFFF) * (b & 0xFFFF)) >> 16),
        ("hi", Type::S16) => w!(|a, b| product_s16(a, b) >> 16),
        ("hi", Type::U32) => w!(|a, b| high_u32(a, b)),
        ("hi", Type::S32) => w!(|a, b| high_s32(a, b)),
        ("hi", Type::U64) => d!(|a, b| high_u64(a, b)),
        ("hi", Type::S64) => d!(|a, b| high_s64(a, b)),
        ("wide", Type::U16) => w!(|a, b| (a & 0xFFFF) * (b & 0xFFFF)),
        ("wide", Type::S16) => w!(|a, b| product_s16(a, b)),
        ("wide", Type::U32) => Operation::MultiplyWideU32.exec(),
        ("wide", Type::S32) => Operation::MultiplyWideS32.exec(),
        _ => return refuse(i, ty),
    };
    let to = if part == "wide" { doubled(ty) } else { ty };
    push(d, i, to, &[ty, ty], exec, 0)
}

pub(super) fn mad(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let part = words.one_of(&["lo", "hi", "wide"]).ok_or("mad of integers requires .lo, .hi or .wide")?;
    let sat = words.take("sat");
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (part, ty, sat) {
        ("hi", Type::S32, true) => {
            w!(|a, b, c| (high_s32(a, b) as i32).saturating_add(c as i32) as u32)
        }
        (_, _, true) => return refuse(i, ty),
        ("lo", Type::U16 | Type::S16, _) => w!(|a, b, c| a.wrapping_mul(b).wrapping_add(c) & 0xFFFF),
        ("lo", Type::U32 | Type::S32, _) => Operation::MultiplyAddW.exec(),
        ("lo", Type::U64 | Type::S64, _) => d!(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        ("hi", Type::U16, _) => w!(|a, b, c| (((a & 0xFFFF) * (b & 0xFFFF)) >> 16).wrapping_add(c) & 0xFFFF),
        ("hi", Type::S16, _) => w!(|a, b, c| (product_s16(a, b) >> 16).wrapping_add(c) & 0xFFFF),
        ("hi", Type::U32, _) => w!(|a, b, c| high_u32(a, b).wrapping_add(c)),
        ("hi", Type::S32, _) => w!(|a, b, c| high_s32(a, b).wrapping_add(c)),
        ("hi", Type::U64, _) => d!(|a, b, c| high_u64(a, b).wrapping_add(c)),
        ("hi", Type::S64, _) => d!(|a, b, c| high_s64(a, b).wrapping_add(c)),
        ("wide", Type::U16, _) => w!(|a, b, c| ((a & 0xFFFF) * (b & 0xFFFF)).wrapping_add(c)),
        ("wide", Type::S16, _) => w!(|a, b, c| product_s16(a, b).wrapping_add(c)),
        ("wide", Type::U32, _) => Operation::MultiplyAddWideU32.exec(),
        ("wide", Type::S32, _) => Operation::MultiplyAddWideS32.exec(),
        _ => return refuse(i, ty),
    };
    let to = if part == "wide" { doubled(ty) } else { ty };
    push(d, i, to, &[ty, ty, to], exec, 0)
}

/// The product of the low 24 bits, 48 bits wide.
#[inline(always)]
fn product_24(a: u32, b: u32, signed: bool) -> u64 {
    if signed {
        let low = |x: u32| i64::from((x << 8) as i32 >> 8);
        (low(a) * low(b)) as u64
    } else {
        u64::from(a & 0xFF_FFFF) * u64::from(b & 0xFF_FFFF)
    }
}

fn mul24(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let part = words.one_of(&["lo", "hi"]).unwrap_or("lo");
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (part, ty) {
        ("lo", Type::U32) => w!(|a, b| product_24(a, b, false) as u32),
        ("lo", Type::S32) => w!(|a, b| product_24(a, b, true) as u32),
        (_, Type::U32) => w!(|a, b| (product_24(a, b, false) >> 16) as u32),
        (_, Type::S32) => w!(|a, b| (product_24(a, b, true) >> 16) as u32),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 2, exec)
}

fn mad24(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let part = words.one_of(&["lo", "hi"]).unwrap_or("lo");
    let sat = words.take("sat");
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (part, ty, sat) {
        ("hi", Type::S32, true) => {
            w!(|a, b, c| ((product_24(a, b, true) >> 16) as i32).saturating_add(c as i32) as u32)
        }
        (_, _, true) => return refuse(i, ty),
        ("lo", Type::U32, _) => w!(|a, b, c| (product_24(a, b, false) as u32).wrapping_add(c)),
        ("lo", Type::S32, _) => w!(|a, b, c| (product_24(a, b, true) as u32).wrapping_add(c)),
        (_, Type::U32, _) => w!(|a, b, c| ((product_24(a, b, false) >> 16) as u32).wrapping_add(c)),
        (_, Type::S32, _) => w!(|a, b, c| ((product_24(a, b, true) >> 16) as u32).wrapping_add(c)),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 3, exec)
}

fn sad(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let ty = lone_type(i)?;
    let exec: Exec = match ty {
        Type::U16 => w!(|a, b, c| a.abs_diff(b).wrapping_add(c) & 0xFFFF),
        Type::S16 => {
            w!(|a, b, c| u32::from((a as i16).abs_diff(b as i16)).wrapping_add(c) & 0xFFFF)
        }
        Type::U32 => w!(|a, b, c| a.abs_diff(b).wrapping_add(c)),
        Type::S32 => w!(|a, b, c| (a as i32).abs_diff(b as i32).wrapping_add(c)),
        Type::U64 => d!(|a, b, c| a.abs_diff(b).wrapping_add(c)),
        Type::S64 => d!(|a, b, c| (a as i64).abs_diff(b as i64).wrapping_add(c)),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 3, exec)
}

pub(super) fn div(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let ty = lone_type(i)?;
    let exec: Exec = match ty {
        Type::U16 => |m, row| quotient_w(m, row, |a, b| a.checked_div(b).unwrap_or(0xFFFF)),
        Type::U32 => |m, row| quotient_w(m, row, |a, b| a.checked_div(b).unwrap_or(!0)),
        Type::S16 => |m, row| {
            let quotient = |a, b| (a as i16).checked_div(b as i16).map_or(a, |q| q as u32) & 0xFFFF;
            quotient_w(m, row, quotient)
        },
        Type::S32 => {
            |m, row| quotient_w(m, row, |a, b| (a as i32).checked_div(b as i32).map_or(a, |q| q as u32))
        }
        Type::U64 => |m, row| quotient_d(m, row, |a, b| a.checked_div(b).unwrap_or(!0)),
        Type::S64 => {
            |m, row| quotient_d(m, row, |a, b| (a as i64).checked_div(b as i64).map_or(a, |q| q as u64))
        }
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 2, exec)
}

fn rem(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let ty = lone_type(i)?;
    let exec: Exec = match ty {
        Type::U16 | Type::U32 => |m, row| quotient_w(m, row, |a, b| a.checked_rem(b).unwrap_or(0)),
        Type::S16 => |m, row| {
            let remainder = |a, b| (a as i16).checked_rem(b as i16).map_or(0, |r| r as u32) & 0xFFFF;
            quotient_w(m, row, remainder)
        },
        Type::S32 => {
            |m, row| quotient_w(m, row, |a, b| (a as i32).checked_rem(b as i32).map_or(0, |r| r as u32))
        }
        Type::U64 => |m, row| quotient_d(m, row, |a, b| a.checked_rem(b).unwrap_or(0)),
        Type::S64 => {
            |m, row| quotient_d(m, row, |a, b| (a as i64).checked_rem(b as i64).map_or(0, |r| r as u64))
        }
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 2, exec)
}

/// A division, or its remainder. PTX leaves the result undefined if the divisor is zero.
#[inline(always)]
fn quotient_w(m: &mut Machine<'_>, row: &Row, f: impl Fn(u32, u32) -> u32) -> Flow {
    let zeros = zeros(&m.r.w[row.b as usize]) & m.mask;
    m.map2(row, f);
    if zeros == 0 { Flow::Next } else { m.leaves_open((Bank::W, row.d), zeros) }
}

#[inline(always)]
fn quotient_d(m: &mut Machine<'_>, row: &Row, f: impl Fn(u64, u64) -> u64) -> Flow {
    let zeros = zeros(&m.r.d[row.b as usize]) & m.mask;
    m.wide2(row, f);
    if zeros == 0 { Flow::Next } else { m.leaves_open((Bank::D, row.d), zeros) }
}

/// The lanes that hold zero.
fn zeros<T: Copy + Default + PartialEq>(register: &[T; LANES]) -> u32 {
    (0..LANES).fold(0, |found, i| found | u32::from(register[i] == T::default()) << i)
}

pub(super) fn abs(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let ty = lone_type(i)?;
    let exec: Exec = match ty {
        Type::S16 => w!(|a| (a as i16).wrapping_abs() as u32 & 0xFFFF),
        Type::S32 => w!(|a| (a as i32).wrapping_abs() as u32),
        Type::S64 => d!(|a| (a as i64).wrapping_abs() as u64),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 1, exec)
}

pub(super) fn neg(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let ty = lone_type(i)?;
    let exec: Exec = match ty {
        Type::S16 => w!(|a| a.wrapping_neg() & 0xFFFF),
        Type::S32 => Operation::NegateW.exec(),
        Type::S64 => d!(|a| a.wrapping_neg()),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 1, exec)
}

pub(super) fn min(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let (relu, ty) = relu(i)?;
    let exec: Exec = match (ty, relu) {
        (Type::S32, true) => w!(|a, b| (a as i32).min(b as i32).max(0) as u32),
        (_, true) => return refuse(i, ty),
        (Type::U16 | Type::U32, _) => Operation::MinU32.exec(),
        (Type::S16, _) => w!(|a, b| if (a as i16) < b as i16 { a } else { b }),
        (Type::S32, _) => Operation::MinS32.exec(),
        (Type::U64, _) => d!(|a, b| a.min(b)),
        (Type::S64, _) => d!(|a, b| (a as i64).min(b as i64) as u64),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 2, exec)
}

pub(super) fn max(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let (relu, ty) = relu(i)?;
    let exec: Exec = match (ty, relu) {
        (Type::S32, true) => w!(|a, b| (a as i32).max(b as i32).max(0) as u32),
        (_, true) => return refuse(i, ty),
        (Type::U16 | Type::U32, _) => Operation::MaxU32.exec(),
        (Type::S16, _) => w!(|a, b| if (a as i16) > b as i16 { a } else { b }),
        (Type::S32, _) => Operation::MaxS32.exec(),
        (Type::U64, _) => d!(|a, b| a.max(b)),
        (Type::S64, _) => d!(|a, b| (a as i64).max(b as i64) as u64),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 2, exec)
}

fn relu(i: &Instruction) -> Result<(bool, Type), Refusal> {
    let mut words = Words::from_instruction(i);
    let relu = words.take("relu");
    let ty = words.ty()?;
    words.done()?;
    Ok((relu, ty))
}
