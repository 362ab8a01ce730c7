//! Half precision (PTX ISA 9.7.4): `add`, `sub`, `mul`, `fma` on `f16`, `f16x2`, `bf16`, `bf16x2`.

use numerics::float;
use ptx::{Instruction, Type};

use super::Words;
use super::lanewise::push;
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine};

type Decoded = Result<(), Refusal>;

// The flags of a row's `imm`.
const FTZ: u64 = 1;
const SAT: u64 = 2;
const RELU: u64 = 4;
const OOB: u64 = 8;

/// The flags of `.rn`, `.ftz`, `.sat`, `.relu` and `.oob`, and the type.
fn flags(words: &mut Words<'_>) -> Result<(u64, Type), Refusal> {
    words.take("rn");
    let mut imm = 0;
    for (word, flag) in [("ftz", FTZ), ("sat", SAT), ("relu", RELU), ("oob", OOB)] {
        imm |= if words.take(word) { flag } else { 0 };
    }
    let ty = words.ty()?;
    if imm & (FTZ | SAT) != 0 && matches!(ty, Type::Bf16 | Type::Bf16x2) {
        return Err(".ftz and .sat are not for bf16".to_owned());
    }
    Ok((imm, ty))
}

/// `f` on the low halfword.
#[inline(always)]
fn one2(m: &mut Machine<'_>, row: &Row, f: impl Fn(u16, u16, bool, bool) -> u16) -> Flow {
    let (ftz, sat) = (row.imm & FTZ != 0, row.imm & SAT != 0);
    m.map2(row, |a, b| u32::from(f(a as u16, b as u16, ftz, sat)))
}

/// `f` on both halfwords.
#[inline(always)]
fn both2(m: &mut Machine<'_>, row: &Row, f: impl Fn(u16, u16, bool, bool) -> u16) -> Flow {
    let (ftz, sat) = (row.imm & FTZ != 0, row.imm & SAT != 0);
    m.map2(row, |a, b| {
        let high = f((a >> 16) as u16, (b >> 16) as u16, ftz, sat);
        u32::from(f(a as u16, b as u16, ftz, sat)) | u32::from(high) << 16
    })
}

fn binary(d: &mut Decoder<'_>, i: &Instruction, of_type: fn(Type) -> Option<Exec>) -> Decoded {
    let mut words = Words::from_instruction(i);
    let (imm, ty) = flags(&mut words)?;
    words.done()?;
    if imm & (RELU | OOB) != 0 {
        return Err(format!("{} with .relu or .oob", i.opcode));
    }
    let exec = of_type(ty).ok_or_else(|| format!("{} on {ty}", i.opcode))?;
    push(d, i, ty, &[ty; 2], exec, imm)
}

pub(super) fn add(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    binary(d, i, |ty| {
        Some(match ty {
            Type::F16 => |m, row| one2(m, row, float::add_f16),
            Type::F16x2 => |m, row| both2(m, row, float::add_f16),
            Type::Bf16 => |m, row| one2(m, row, float::add_bf16),
            Type::Bf16x2 => |m, row| both2(m, row, float::add_bf16),
            _ => return None,
        })
    })
}

pub(super) fn sub(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    binary(d, i, |ty| {
        Some(match ty {
            Type::F16 => |m, row| one2(m, row, float::sub_f16),
            Type::F16x2 => |m, row| both2(m, row, float::sub_f16),
            Type::Bf16 => |m, row| one2(m, row, float::sub_bf16),
            Type::Bf16x2 => |m, row| both2(m, row, float::sub_bf16),
            _ => return None,
        })
    })
}

pub(super) fn mul(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    binary(d, i, |ty| {
        Some(match ty {
            Type::F16 => |m, row| one2(m, row, float::mul_f16),
            Type::F16x2 => |m, row| both2(m, row, float::mul_f16),
            Type::Bf16 => |m, row| one2(m, row, float::mul_bf16),
            Type::Bf16x2 => |m, row| both2(m, row, float::mul_bf16),
            _ => return None,
        })
    })
}

type Fma = fn(u16, u16, u16, bool, bool, bool) -> u16;

/// One product and sum with the row's flags.
#[inline(always)]
fn fma_one(a: u16, b: u16, c: u16, imm: u64, f: Fma) -> u16 {
    // `.oob`: an out-of-bounds NaN as a factor makes the result zero.
    if imm & OOB != 0 && (float::is_oob_nan(a) || float::is_oob_nan(b)) {
        return 0;
    }
    f(a, b, c, imm & FTZ != 0, imm & SAT != 0, imm & RELU != 0)
}

#[inline(always)]
fn one3(m: &mut Machine<'_>, row: &Row, f: Fma) -> Flow {
    let imm = row.imm;
    m.map3(row, |a, b, c| u32::from(fma_one(a as u16, b as u16, c as u16, imm, f)))
}

#[inline(always)]
fn both3(m: &mut Machine<'_>, row: &Row, f: Fma) -> Flow {
    let imm = row.imm;
    m.map3(row, |a, b, c| {
        let high = fma_one((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16, imm, f);
        u32::from(fma_one(a as u16, b as u16, c as u16, imm, f)) | u32::from(high) << 16
    })
}

/// Two values without flags.
#[inline(always)]
fn plain_bf16x2(a: u32, b: u32, c: u32) -> u32 {
    let one = |a: u16, b: u16, c: u16| {
        float::product_bf16(a, b, c).unwrap_or_else(|| float::fma_bf16(a, b, c, false, false, false))
    };
    u32::from(one((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16)) << 16
        | u32::from(one(a as u16, b as u16, c as u16))
}

pub(super) fn fma(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let (imm, ty) = flags(&mut words)?;
    words.done()?;
    let exec: Exec = match ty {
        Type::F16 => |m, row| one3(m, row, float::fma_f16),
        Type::F16x2 => |m, row| both3(m, row, float::fma_f16),
        Type::Bf16 => |m, row| one3(m, row, float::fma_bf16),
        Type::Bf16x2 if imm == 0 => |m, row| m.map3(row, plain_bf16x2),
        Type::Bf16x2 => |m, row| both3(m, row, float::fma_bf16),
        _ => return Err(format!("fma on {ty}")),
    };
    push(d, i, ty, &[ty; 3], exec, imm)
}
