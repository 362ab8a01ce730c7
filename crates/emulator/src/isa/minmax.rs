//! Signs, minima and maxima of floating-point numbers (PTX ISA 9.7.3 and 9.7.4): `abs`, `neg`, `copysign`, `min`, `max`.

use numerics::float;
use ptx::{Instruction, Type};

use super::lanewise::{d, push, w};
use super::quotient::halves;
use super::{FormRow, Words};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine};

const CHAPTER: &str = "Floating Point: signs";

pub(crate) const ROWS: &[FormRow] =
    &[FormRow::new(CHAPTER, "copysign", "copysign.{f32,f64} d, a, b", copysign)];

type Decoded = Result<(), Refusal>;

fn refuse(i: &Instruction, ty: Type) -> Decoded {
    Err(format!("{} with these modifiers on {ty}", i.opcode))
}

fn copysign(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match ty {
        Type::F32 => w!(|a, b| float::copysign_f32(a, b)),
        Type::F64 => d!(|a, b| (a & 1 << 63) | (b & !(1 << 63))),
        _ => return refuse(i, ty),
    };
    push(d, i, ty, &[ty; 2], exec, 0)
}

pub(super) fn abs(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let ftz = words.take("ftz");
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (ty, ftz) {
        (Type::F32, false) => w!(|a| float::abs_f32(a, false)),
        (Type::F32, true) => w!(|a| float::abs_f32(a, true)),
        (Type::F64, false) => d!(|a| float::abs_f64(a)),
        (Type::F16, false) => w!(|a| u32::from(float::abs_f16(a as u16, false))),
        (Type::F16, true) => w!(|a| u32::from(float::abs_f16(a as u16, true))),
        (Type::F16x2, false) => w!(|a| halves(a, |x| float::abs_f16(x, false))),
        (Type::F16x2, true) => w!(|a| halves(a, |x| float::abs_f16(x, true))),
        (Type::Bf16, false) => w!(|a| u32::from(float::abs_bf16(a as u16, false))),
        (Type::Bf16x2, false) => w!(|a| halves(a, |x| float::abs_bf16(x, false))),
        _ => return refuse(i, ty),
    };
    push(d, i, ty, &[ty], exec, 0)
}

pub(super) fn neg(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let ftz = words.take("ftz");
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (ty, ftz) {
        (Type::F32, false) => w!(|a| float::neg_f32(a, false)),
        (Type::F32, true) => w!(|a| float::neg_f32(a, true)),
        (Type::F64, false) => d!(|a| float::neg_f64(a)),
        (Type::F16, false) => w!(|a| u32::from(float::neg_f16(a as u16, false))),
        (Type::F16, true) => w!(|a| u32::from(float::neg_f16(a as u16, true))),
        (Type::F16x2, false) => w!(|a| halves(a, |x| float::neg_f16(x, false))),
        (Type::F16x2, true) => w!(|a| halves(a, |x| float::neg_f16(x, true))),
        (Type::Bf16, false) => w!(|a| u32::from(float::neg_bf16(a as u16, false))),
        (Type::Bf16x2, false) => w!(|a| halves(a, |x| float::neg_bf16(x, false))),
        _ => return refuse(i, ty),
    };
    push(d, i, ty, &[ty], exec, 0)
}

// The flags of a row's `imm`.
const FTZ: u64 = 1;
const NAN: u64 = 2;
const XORSIGN: u64 = 4;
const ABS: u64 = 8;

pub(super) fn min(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    extreme(d, i, false)
}

pub(super) fn max(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    extreme(d, i, true)
}

fn extreme(d: &mut Decoder<'_>, i: &Instruction, greater: bool) -> Decoded {
    let mut words = Words::from_instruction(i);
    let mut imm = 0;
    for (word, flag) in [("ftz", FTZ), ("NaN", NAN), ("xorsign", XORSIGN), ("abs", ABS)] {
        imm |= if words.take(word) { flag } else { 0 };
    }
    let ty = words.ty()?;
    words.done()?;
    let three = i.operands.len() == 4;
    match (imm & (XORSIGN | ABS), three) {
        (0, _) | (12, false) => {}
        (ABS, true) => {}
        _ => return Err(".xorsign.abs is for two sources, .abs alone for three".to_owned()),
    }
    let exec: Exec = match (ty, greater, three) {
        (Type::F32, false, false) if imm == 0 => w!(|a, b| float::min_f32(a, b, false, false, false)),
        (Type::F32, true, false) if imm == 0 => w!(|a, b| float::max_f32(a, b, false, false, false)),
        (Type::F32, false, false) => |m, row| two_f32(m, row, float::min_f32),
        (Type::F32, true, false) => |m, row| two_f32(m, row, float::max_f32),
        (Type::F32, false, true) => |m, row| three_f32(m, row, float::min_f32),
        (Type::F32, true, true) => |m, row| three_f32(m, row, float::max_f32),
        (_, _, true) => return Err(format!("three sources of {ty}")),
        (Type::F64, false, _) if imm == 0 => d!(|a, b| float::min_f64(a, b)),
        (Type::F64, true, _) if imm == 0 => d!(|a, b| float::max_f64(a, b)),
        (Type::F16, false, _) => |m, row| one_16(m, row, float::min_f16),
        (Type::F16, true, _) => |m, row| one_16(m, row, float::max_f16),
        (Type::F16x2, false, _) => |m, row| both_16(m, row, float::min_f16),
        (Type::F16x2, true, _) => |m, row| both_16(m, row, float::max_f16),
        (Type::Bf16, false, _) => |m, row| one_16(m, row, float::min_bf16),
        (Type::Bf16, true, _) => |m, row| one_16(m, row, float::max_bf16),
        (Type::Bf16x2, false, _) => |m, row| both_16(m, row, float::min_bf16),
        (Type::Bf16x2, true, _) => |m, row| both_16(m, row, float::max_bf16),
        _ => return refuse(i, ty),
    };
    push(d, i, ty, &[ty; 3][..if three { 3 } else { 2 }], exec, imm)
}

type Pick<T> = fn(T, T, bool, bool, bool) -> T;

#[inline(always)]
fn flags(imm: u64) -> (bool, bool, bool) {
    (imm & FTZ != 0, imm & NAN != 0, imm & XORSIGN != 0)
}

#[inline(always)]
fn two_f32(m: &mut Machine<'_>, row: &Row, f: Pick<u32>) -> Flow {
    let (ftz, nan, xorsign) = flags(row.imm);
    m.map2(row, |a, b| f(a, b, ftz, nan, xorsign))
}

/// The third source is combined with the result of the first two; NaNs and signs of zero come out the same in any order.
#[inline(always)]
fn three_f32(m: &mut Machine<'_>, row: &Row, f: Pick<u32>) -> Flow {
    let (ftz, nan, _) = flags(row.imm);
    let keep = if row.imm & ABS == 0 { !0 } else { 0x7FFF_FFFF };
    m.map3(row, |a, b, c| f(f(a & keep, b & keep, ftz, nan, false), c & keep, ftz, nan, false))
}

#[inline(always)]
fn one_16(m: &mut Machine<'_>, row: &Row, f: Pick<u16>) -> Flow {
    let (ftz, nan, xorsign) = flags(row.imm);
    m.map2(row, |a, b| u32::from(f(a as u16, b as u16, ftz, nan, xorsign)))
}

#[inline(always)]
fn both_16(m: &mut Machine<'_>, row: &Row, f: Pick<u16>) -> Flow {
    let (ftz, nan, xorsign) = flags(row.imm);
    m.map2(row, |a, b| {
        let high = f((a >> 16) as u16, (b >> 16) as u16, ftz, nan, xorsign);
        u32::from(f(a as u16, b as u16, ftz, nan, xorsign)) | u32::from(high) << 16
    })
}
