//! Half precision (PTX ISA 9.7.4): `add`, `sub`, `mul`, `fma` on `f16`, `f16x2`, `bf16`, `bf16x2`.

use numerics::float;
use ptx::{Instruction, Type};

use super::Words;
use super::lanewise::{push, w};
use crate::front::decode::Decoder;
use crate::front::program::Exec;
use crate::front::words::Refusal;

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

/// The function on the value in a register, or on both values of a pair. Sources are the halves at `$shift`.
macro_rules! values {
    (one |$shift:ident| $value:expr) => {{
        let $shift = 0;
        u32::from($value)
    }};
    (both |$shift:ident| $value:expr) => {{
        let high = {
            let $shift = 16;
            u32::from($value)
        };
        let low = {
            let $shift = 0;
            u32::from($value)
        };
        low | high << 16
    }};
}

/// The row of two sources with these flags: `$f` is a function of numbers, `.ftz` and `.sat`. Rows without flags are vectors.
macro_rules! two {
    ($width:ident $f:path) => {
        |imm| {
            if imm == 0 {
                w!(|a, b| values!($width | at | $f((a >> at) as u16, (b >> at) as u16, false, false)))
            } else {
                |m, row| {
                    let (ftz, sat) = (row.imm & FTZ != 0, row.imm & SAT != 0);
                    m.map2(row, |a, b| {
                        values!($width | at | $f((a >> at) as u16, (b >> at) as u16, ftz, sat))
                    })
                }
            }
        }
    };
}

/// The row with these flags.
type OfFlags = fn(u64) -> Exec;

fn binary(d: &mut Decoder<'_>, i: &Instruction, of_type: fn(Type) -> Option<OfFlags>) -> Decoded {
    let mut words = Words::from_instruction(i);
    let (imm, ty) = flags(&mut words)?;
    words.done()?;
    if imm & (RELU | OOB) != 0 {
        return Err(format!("{} with .relu or .oob", i.opcode));
    }
    let row_of = of_type(ty).ok_or_else(|| format!("{} on {ty}", i.opcode))?;
    push(d, i, ty, &[ty; 2], row_of(imm), imm)
}

pub(super) fn add(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    binary(d, i, |ty| {
        Some(match ty {
            Type::F16 => two!(one float::add_f16),
            Type::F16x2 => two!(both float::add_f16),
            Type::Bf16 => two!(one float::add_bf16),
            Type::Bf16x2 => two!(both float::add_bf16),
            _ => return None,
        })
    })
}

pub(super) fn sub(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    binary(d, i, |ty| {
        Some(match ty {
            Type::F16 => two!(one float::sub_f16),
            Type::F16x2 => two!(both float::sub_f16),
            Type::Bf16 => two!(one float::sub_bf16),
            Type::Bf16x2 => two!(both float::sub_bf16),
            _ => return None,
        })
    })
}

pub(super) fn mul(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    binary(d, i, |ty| {
        Some(match ty {
            Type::F16 => two!(one float::mul_f16),
            Type::F16x2 => two!(both float::mul_f16),
            Type::Bf16 => two!(one float::mul_bf16),
            Type::Bf16x2 => two!(both float::mul_bf16),
            _ => return None,
        })
    })
}

/// A product and sum with the row's flags.
#[inline(always)]
fn product(a: u16, b: u16, c: u16, imm: u64, f: impl Fn(u16, u16, u16, bool, bool, bool) -> u16) -> u16 {
    // `.oob`: an out-of-bounds NaN as a factor makes the result zero.
    if imm & OOB != 0 && (float::is_oob_nan(a) || float::is_oob_nan(b)) {
        return 0;
    }
    f(a, b, c, imm & FTZ != 0, imm & SAT != 0, imm & RELU != 0)
}

/// The row of three sources with these flags, as [`two`].
macro_rules! three {
    ($width:ident $f:path, $imm:expr) => {
        if $imm == 0 {
            w!(|a, b, c| values!(
                $width | at | {
                    $f((a >> at) as u16, (b >> at) as u16, (c >> at) as u16, false, false, false)
                }
            ))
        } else {
            |m, row| {
                let imm = row.imm;
                m.map3(row, |a, b, c| {
                    values!(
                        $width | at | {
                            product((a >> at) as u16, (b >> at) as u16, (c >> at) as u16, imm, $f)
                        }
                    )
                })
            }
        }
    };
}

pub(super) fn fma(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let (imm, ty) = flags(&mut words)?;
    words.done()?;
    let exec: Exec = match ty {
        Type::F16 => three!(one float::fma_f16, imm),
        Type::F16x2 => three!(both float::fma_f16, imm),
        Type::Bf16 => three!(one float::fma_bf16, imm),
        Type::Bf16x2 => three!(both float::fma_bf16, imm),
        _ => return Err(format!("fma on {ty}")),
    };
    push(d, i, ty, &[ty; 3], exec, imm)
}
