//! Signs, minima and maxima of floating-point numbers (PTX ISA 9.7.3 and 9.7.4): `abs`, `neg`, `copysign`, `min`, `max`.

use numerics::float;
use ptx::{Instruction, Type};

use super::lanewise::halves;
use super::lanewise::{d, push, w};
use super::operations::Operation;
use super::{FormRow, Words};
use crate::front::decode::Decoder;
use crate::front::program::Exec;
use crate::front::words::Refusal;

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
        (Type::F16x2, false) => w!(|a| halves!(a, |x| float::abs_f16(x, false))),
        (Type::F16x2, true) => w!(|a| halves!(a, |x| float::abs_f16(x, true))),
        (Type::Bf16, false) => w!(|a| u32::from(float::abs_bf16(a as u16, false))),
        (Type::Bf16x2, false) => w!(|a| halves!(a, |x| float::abs_bf16(x, false))),
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
        (Type::F32, false) => Operation::NegateF32.exec(),
        (Type::F32, true) => w!(|a| float::neg_f32(a, true)),
        (Type::F64, false) => d!(|a| float::neg_f64(a)),
        (Type::F16, false) => w!(|a| u32::from(float::neg_f16(a as u16, false))),
        (Type::F16, true) => w!(|a| u32::from(float::neg_f16(a as u16, true))),
        (Type::F16x2, false) => w!(|a| halves!(a, |x| float::neg_f16(x, false))),
        (Type::F16x2, true) => w!(|a| halves!(a, |x| float::neg_f16(x, true))),
        (Type::Bf16, false) => w!(|a| u32::from(float::neg_bf16(a as u16, false))),
        (Type::Bf16x2, false) => w!(|a| halves!(a, |x| float::neg_bf16(x, false))),
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

/// The function on the value in a register, or on both values of a pair.
macro_rules! picked {
    (f32 $pick:path, $a:ident, $b:ident, $flags:expr) => {{
        let (ftz, nan, xorsign) = $flags;
        $pick($a, $b, ftz, nan, xorsign)
    }};
    (one $pick:path, $a:ident, $b:ident, $flags:expr) => {{
        let (ftz, nan, xorsign) = $flags;
        u32::from($pick($a as u16, $b as u16, ftz, nan, xorsign))
    }};
    (both $pick:path, $a:ident, $b:ident, $flags:expr) => {{
        let (ftz, nan, xorsign) = $flags;
        let high = $pick(($a >> 16) as u16, ($b >> 16) as u16, ftz, nan, xorsign);
        u32::from($pick($a as u16, $b as u16, ftz, nan, xorsign)) | u32::from(high) << 16
    }};
}

/// The row of two sources of `$pick`, a function of numbers and flags: of `f32`, one 16-bit number, or both of a pair. The flags that
/// kernels use have rows of vectors.
macro_rules! two {
    ($width:ident $pick:path, $imm:expr) => {
        match $imm {
            0 => w!(|a, b| picked!($width $pick, a, b, (false, false, false))),
            FTZ => w!(|a, b| picked!($width $pick, a, b, (true, false, false))),
            NAN => w!(|a, b| picked!($width $pick, a, b, (false, true, false))),
            _ => |m, row| {
                let flags = (row.imm & FTZ != 0, row.imm & NAN != 0, row.imm & XORSIGN != 0);
                m.map2(row, |a, b| picked!($width $pick, a, b, flags))
            },
        }
    };
}

/// A row of three sources of `f32`. The third is combined with the result of the first two; NaNs and signs of zero come out the same
/// in any order.
macro_rules! three {
    ($pick:path) => {
        |m, row| {
            let (ftz, nan) = (row.imm & FTZ != 0, row.imm & NAN != 0);
            let keep = if row.imm & ABS == 0 { !0 } else { 0x7FFF_FFFF };
            m.map3(row, |a, b, c| {
                $pick($pick(a & keep, b & keep, ftz, nan, false), c & keep, ftz, nan, false)
            })
        }
    };
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
        (Type::F32, false, false) => two!(f32 float::min_f32, imm),
        (Type::F32, true, false) => two!(f32 float::max_f32, imm),
        (Type::F32, false, true) => three!(float::min_f32),
        (Type::F32, true, true) => three!(float::max_f32),
        (_, _, true) => return Err(format!("three sources of {ty}")),
        (Type::F64, false, _) if imm == 0 => d!(|a, b| float::min_f64(a, b)),
        (Type::F64, true, _) if imm == 0 => d!(|a, b| float::max_f64(a, b)),
        (Type::F16, false, _) => two!(one float::min_f16, imm),
        (Type::F16, true, _) => two!(one float::max_f16, imm),
        (Type::F16x2, false, _) => two!(both float::min_f16, imm),
        (Type::F16x2, true, _) => two!(both float::max_f16, imm),
        (Type::Bf16, false, _) => two!(one float::min_bf16, imm),
        (Type::Bf16, true, _) => two!(one float::max_bf16, imm),
        (Type::Bf16x2, false, _) => two!(both float::min_bf16, imm),
        (Type::Bf16x2, true, _) => two!(both float::max_bf16, imm),
        _ => return refuse(i, ty),
    };
    push(d, i, ty, &[ty; 3][..if three { 3 } else { 2 }], exec, imm)
}
