//! Opcodes that integers and floating-point numbers share: the type selects the decoder (PTX ISA 9.7.1 to 9.7.7).

use ptx::{Instruction, Type};

use super::{FormRow, float, half, integer, minmax, packed, quotient};
use crate::front::decode::Decoder;
use crate::front::words::Refusal;

const CHAPTER: &str = "Arithmetic: integer, floating point, half precision, mixed precision";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "add",
        "add{.sat}.{integers,u16x2,s16x2,u8x4,s8x4}; add{.rnd}{.ftz}{.sat}.{f32,f32x2,f64,f16,f16x2,bf16,bf16x2,f32.f16,f32.bf16}",
        |d, i| by_type(d, i, [integer::add, float::add, half::add]),
    ),
    FormRow::new(
        CHAPTER,
        "sub",
        "sub{.sat}.{integers,u16x2,s16x2,u8x4,s8x4}; sub{.rnd}{.ftz}{.sat}.{f32,f32x2,f64,f16,f16x2,bf16,bf16x2,f32.f16,f32.bf16}",
        |d, i| by_type(d, i, [integer::sub, float::sub, half::sub]),
    ),
    FormRow::new(
        CHAPTER,
        "mul",
        "mul.{lo,hi,wide}.integers; mul{.rnd}{.ftz}{.sat}.{f32,f32x2,f64,f16,f16x2,bf16,bf16x2}",
        |d, i| by_type(d, i, [integer::mul, float::mul, half::mul]),
    ),
    FormRow::new(
        CHAPTER,
        "mad",
        "mad.{lo,hi,wide}{.sat}.integers; mad{.rnd}{.ftz}{.sat}.{f32,f64}",
        |d, i| by_type(d, i, [integer::mad, float::fma, half::fma]),
    ),
    FormRow::new(
        CHAPTER,
        "fma",
        "fma.rnd{.ftz}{.sat}.{f32,f32x2,f64,f32.f16,f32.bf16}; fma.rn{.ftz}{.sat}{.relu,.oob,.oob.relu}.{f16,f16x2,bf16,bf16x2}",
        |d, i| by_type(d, i, [no_integers, float::fma, half::fma]),
    ),
    FormRow::new(CHAPTER, "div", "div.integers; div.{approx,full,rnd}{.ftz}.f32; div.rnd.f64", |d, i| {
        by_type(d, i, [integer::div, quotient::div, quotient::div])
    }),
    FormRow::new(CHAPTER, "abs", "abs{.ftz}.{s16,s32,s64,f32,f64,f16,f16x2,bf16,bf16x2}", |d, i| {
        by_type(d, i, [integer::abs, minmax::abs, minmax::abs])
    }),
    FormRow::new(CHAPTER, "neg", "neg{.ftz}.{s16,s32,s64,s8x4,f32,f64,f16,f16x2,bf16,bf16x2}", |d, i| {
        by_type(d, i, [integer::neg, minmax::neg, minmax::neg])
    }),
    FormRow::new(
        CHAPTER,
        "min",
        "min{.relu}.{integers,u16x2,s16x2,u8x4,s8x4}; min{.ftz}{.NaN}{.xorsign.abs}.floats; three sources of f32",
        |d, i| by_type(d, i, [integer::min, minmax::min, minmax::min]),
    ),
    FormRow::new(
        CHAPTER,
        "max",
        "max{.relu}.{integers,u16x2,s16x2,u8x4,s8x4}; max{.ftz}{.NaN}{.xorsign.abs}.floats; three sources of f32",
        |d, i| by_type(d, i, [integer::max, minmax::max, minmax::max]),
    ),
];

type Decode = fn(&mut Decoder<'_>, &Instruction) -> Result<(), Refusal>;

fn no_integers(_: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    Err(format!("{} is for floating-point numbers", i.opcode))
}

/// Integers; `f32` and `f64`; 16-bit formats. The first type decides.
fn by_type(d: &mut Decoder<'_>, i: &Instruction, decoders: [Decode; 3]) -> Result<(), Refusal> {
    if packed::is_packed(i) {
        return packed::decode(d, i);
    }
    let [integers, floats, halves] = decoders;
    if i.has("f32x2") {
        return floats(d, i);
    }
    match i.modifiers.iter().find_map(|word| crate::front::words::scalar(word)) {
        Some(Type::F32 | Type::F64) => floats(d, i),
        Some(Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) => halves(d, i),
        _ => integers(d, i),
    }
}
