//! Floating-point sums and products (PTX ISA 9.7.3, 9.7.4 and 9.7.7): `add`, `sub`, `mul`, `fma`, `mad` on `f32`,
//! `f32x2`, `f64`, and on `f32` with 16-bit operands.

use numerics::Rounding;
use numerics::convert::f16_to_f32;
use numerics::float::{self, canonical_f32};
use ptx::{Instruction, Type};

use super::Words;
use super::lanewise::{d, push, same, w};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine};

type Decoded = Result<(), Refusal>;

/// Rounding and the modifiers that change values, stored in a row's `imm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) rounding: Rounding,
    pub(super) ftz: bool,
    pub(super) sat: bool,
}

impl Mode {
    /// Takes `.rn`, `.rz`, `.rm`, `.rp`, `.ftz` and `.sat`.
    pub(super) fn take_from(words: &mut Words<'_>) -> Self {
        let rounding = rounding(words).unwrap_or(Rounding::NearestEven);
        Self { rounding, ftz: words.take("ftz"), sat: words.take("sat") }
    }

    pub(super) fn imm(self) -> u64 {
        let rounding = match self.rounding {
            Rounding::Zero => 1,
            Rounding::Up => 2,
            Rounding::Down => 3,
            _ => 0,
        };
        rounding | u64::from(self.ftz) << 2 | u64::from(self.sat) << 3
    }

    #[inline(always)]
    pub(super) fn from(imm: u64) -> Self {
        let rounding = match imm & 3 {
            1 => Rounding::Zero,
            2 => Rounding::Up,
            3 => Rounding::Down,
            _ => Rounding::NearestEven,
        };
        Self { rounding, ftz: imm >> 2 & 1 == 1, sat: imm >> 3 & 1 == 1 }
    }

    fn plain(self) -> bool {
        self.rounding == Rounding::NearestEven && !self.ftz && !self.sat
    }
}

/// Takes a rounding modifier.
pub(super) fn rounding(words: &mut Words<'_>) -> Option<Rounding> {
    Some(match words.one_of(&["rn", "rz", "rm", "rp"])? {
        "rz" => Rounding::Zero,
        "rm" => Rounding::Down,
        "rp" => Rounding::Up,
        _ => Rounding::NearestEven,
    })
}

/// A type in words, including the pair of floats that [`Type`] lacks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    F32x2,
    F64,
    /// `f32` with operands of this type.
    Mixed(Type),
}

fn kind(words: &mut Words<'_>) -> Result<Kind, Refusal> {
    if words.take("f32x2") {
        return Ok(Kind::F32x2);
    }
    Ok(match (words.ty()?, words.maybe_ty()) {
        (Type::F32, None) => Kind::F32,
        (Type::F64, None) => Kind::F64,
        (Type::F32, Some(ty @ (Type::F16 | Type::Bf16))) => Kind::Mixed(ty),
        (ty, _) => return Err(format!("floating-point arithmetic on {ty}")),
    })
}

/// `f` on both floats of a pair.
#[inline(always)]
fn each(a: u64, b: u64, c: u64, f: impl Fn(u32, u32, u32) -> u32) -> u64 {
    let high = f((a >> 32) as u32, (b >> 32) as u32, (c >> 32) as u32);
    u64::from(f(a as u32, b as u32, c as u32)) | u64::from(high) << 32
}

fn bf16_to_f32(x: u16) -> u32 {
    u32::from(x) << 16
}

/// `to` applied to the low halfword.
#[inline(always)]
fn widened(x: u32, to: fn(u16) -> u32) -> u32 {
    to(x as u16)
}

#[inline(always)]
fn plus(a: u32, b: u32) -> u32 {
    canonical_f32((f32::from_bits(a) + f32::from_bits(b)).to_bits())
}

#[inline(always)]
fn minus(a: u32, b: u32) -> u32 {
    canonical_f32((f32::from_bits(a) - f32::from_bits(b)).to_bits())
}

#[inline(always)]
fn times(a: u32, b: u32) -> u32 {
    canonical_f32((f32::from_bits(a) * f32::from_bits(b)).to_bits())
}

pub(super) fn add(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    sum(d, i, false)
}

pub(super) fn sub(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    sum(d, i, true)
}

/// The sign bit of a float if the row subtracts: bit 4 of `imm`.
const SUBTRACT: u64 = 16;

#[inline(always)]
fn sign(imm: u64) -> u32 {
    ((imm & SUBTRACT) << 27) as u32
}

fn sum(d: &mut Decoder<'_>, i: &Instruction, subtract: bool) -> Decoded {
    let mut words = Words::from_instruction(i);
    let mode = Mode::take_from(&mut words);
    let kind = kind(&mut words)?;
    words.done()?;
    let imm = mode.imm() | if subtract { SUBTRACT } else { 0 };
    match kind {
        Kind::F32 if mode.plain() => {
            same(d, i, Type::F32, 2, if subtract { w!(|a, b| minus(a, b)) } else { w!(|a, b| plus(a, b)) })
        }
        Kind::F32 => push(d, i, Type::F32, &[Type::F32; 2], sum_f32, imm),
        Kind::F32x2 if !mode.sat => push(d, i, Type::B64, &[Type::B64; 2], sum_f32x2, imm),
        Kind::F64 if !mode.ftz && !mode.sat => push(d, i, Type::F64, &[Type::F64; 2], sum_f64, imm),
        Kind::Mixed(ty) if !mode.ftz => {
            let exec: Exec = if ty == Type::F16 {
                |m, row| sum_mixed(m, row, f16_to_f32)
            } else {
                |m, row| sum_mixed(m, row, bf16_to_f32)
            };
            push(d, i, Type::F32, &[ty, Type::F32], exec, imm)
        }
        _ => Err(format!("{} with these modifiers on this type", i.opcode)),
    }
}

fn sum_f32(m: &mut Machine<'_>, row: &Row) -> Flow {
    let (mode, sign) = (Mode::from(row.imm), sign(row.imm));
    m.map2(row, |a, b| float::add_f32(a, b ^ sign, mode.rounding, mode.ftz, mode.sat))
}

fn sum_f32x2(m: &mut Machine<'_>, row: &Row) -> Flow {
    let (mode, sign) = (Mode::from(row.imm), sign(row.imm));
    m.wide2(row, |a, b| each(a, b, 0, |a, b, _| float::add_f32(a, b ^ sign, mode.rounding, mode.ftz, false)))
}

fn sum_f64(m: &mut Machine<'_>, row: &Row) -> Flow {
    let mode = Mode::from(row.imm);
    if row.imm & SUBTRACT == 0 {
        m.wide2(row, |a, b| float::add_f64(a, b, mode.rounding))
    } else {
        m.wide2(row, |a, b| float::sub_f64(a, b, mode.rounding))
    }
}

#[inline(always)]
fn sum_mixed(m: &mut Machine<'_>, row: &Row, to: fn(u16) -> u32) -> Flow {
    let (mode, sign) = (Mode::from(row.imm), sign(row.imm));
    m.map2(row, |a, b| float::add_f32(widened(a, to), b ^ sign, mode.rounding, false, mode.sat))
}

pub(super) fn mul(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let mode = Mode::take_from(&mut words);
    let kind = kind(&mut words)?;
    words.done()?;
    let imm = mode.imm();
    match kind {
        Kind::F32 if mode.plain() => same(d, i, Type::F32, 2, w!(|a, b| times(a, b))),
        Kind::F32 => push(d, i, Type::F32, &[Type::F32; 2], mul_f32, imm),
        Kind::F32x2 if !mode.sat => push(d, i, Type::B64, &[Type::B64; 2], mul_f32x2, imm),
        Kind::F64 if !mode.ftz && !mode.sat => push(d, i, Type::F64, &[Type::F64; 2], mul_f64, imm),
        _ => Err("mul with these modifiers on this type".to_owned()),
    }
}

fn mul_f32(m: &mut Machine<'_>, row: &Row) -> Flow {
    let mode = Mode::from(row.imm);
    m.map2(row, |a, b| float::mul_f32(a, b, mode.rounding, mode.ftz, mode.sat))
}

fn mul_f32x2(m: &mut Machine<'_>, row: &Row) -> Flow {
    let mode = Mode::from(row.imm);
    m.wide2(row, |a, b| each(a, b, 0, |a, b, _| float::mul_f32(a, b, mode.rounding, mode.ftz, false)))
}

fn mul_f64(m: &mut Machine<'_>, row: &Row) -> Flow {
    let mode = Mode::from(row.imm);
    m.wide2(row, |a, b| float::mul_f64(a, b, mode.rounding))
}

/// `fma`, and `mad`, which also rounds once on every current target.
pub(super) fn fma(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let mode = Mode::take_from(&mut words);
    let kind = kind(&mut words)?;
    words.done()?;
    let imm = mode.imm();
    match kind {
        Kind::F32 if mode.plain() => {
            let exec: Exec = w!(|a, b, c| float::fma_f32(a, b, c, Rounding::NearestEven, false, false));
            same(d, i, Type::F32, 3, exec)
        }
        Kind::F32 => push(d, i, Type::F32, &[Type::F32; 3], fma_f32, imm),
        Kind::F32x2 if !mode.sat => push(d, i, Type::B64, &[Type::B64; 3], fma_f32x2, imm),
        Kind::F64 if mode.plain() => {
            same(d, i, Type::F64, 3, d!(|a, b, c| float::fma_f64(a, b, c, Rounding::NearestEven)))
        }
        Kind::F64 if !mode.ftz && !mode.sat => push(d, i, Type::F64, &[Type::F64; 3], fma_f64, imm),
        Kind::Mixed(ty) if !mode.ftz => {
            let exec: Exec = if ty == Type::F16 {
                |m, row| fma_mixed(m, row, f16_to_f32)
            } else {
                |m, row| fma_mixed(m, row, bf16_to_f32)
            };
            push(d, i, Type::F32, &[ty, ty, Type::F32], exec, imm)
        }
        _ => Err(format!("{} with these modifiers on this type", i.opcode)),
    }
}

fn fma_f32(m: &mut Machine<'_>, row: &Row) -> Flow {
    let mode = Mode::from(row.imm);
    m.map3(row, |a, b, c| float::fma_f32(a, b, c, mode.rounding, mode.ftz, mode.sat))
}

fn fma_f32x2(m: &mut Machine<'_>, row: &Row) -> Flow {
    let mode = Mode::from(row.imm);
    m.wide3(row, |a, b, c| each(a, b, c, |a, b, c| float::fma_f32(a, b, c, mode.rounding, mode.ftz, false)))
}

fn fma_f64(m: &mut Machine<'_>, row: &Row) -> Flow {
    let mode = Mode::from(row.imm);
    m.wide3(row, |a, b, c| float::fma_f64(a, b, c, mode.rounding))
}

#[inline(always)]
fn fma_mixed(m: &mut Machine<'_>, row: &Row, to: fn(u16) -> u32) -> Flow {
    let mode = Mode::from(row.imm);
    m.map3(row, |a, b, c| float::fma_f32(widened(a, to), widened(b, to), c, mode.rounding, false, mode.sat))
}
