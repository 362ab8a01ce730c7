//! Opcodes that integers and floating-point numbers share: the type decides whose they are (PTX ISA 9.7.1 to 9.7.6).

use super::{FormRow, integer, packed};
use crate::emulator::decode::{Decoder, Refusal};
use crate::ptx::{Instruction, Type};

const CHAPTER: &str = "Arithmetic: integer, floating point, half precision, mixed precision";

pub(in crate::emulator) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "add", "add{.sat}.integer", |d, i| by_type(d, i, integer::add)),
    FormRow::new(CHAPTER, "sub", "sub{.sat}.integer", |d, i| by_type(d, i, integer::sub)),
    FormRow::new(CHAPTER, "mul", "mul{.lo,.hi,.wide}.integer", |d, i| by_type(d, i, integer::mul)),
    FormRow::new(CHAPTER, "mad", "mad{.lo,.hi,.wide}{.sat}.integer", |d, i| by_type(d, i, integer::mad)),
    FormRow::new(CHAPTER, "div", "div.integer", |d, i| by_type(d, i, integer::div)),
    FormRow::new(CHAPTER, "abs", "abs.integer", |d, i| by_type(d, i, integer::abs)),
    FormRow::new(CHAPTER, "neg", "neg.integer", |d, i| by_type(d, i, integer::neg)),
    FormRow::new(CHAPTER, "min", "min{.relu}.integer", |d, i| by_type(d, i, integer::min)),
    FormRow::new(CHAPTER, "max", "max{.relu}.integer", |d, i| by_type(d, i, integer::max)),
];

type Decode = fn(&mut Decoder<'_>, &Instruction) -> Result<(), Refusal>;

fn by_type(d: &mut Decoder<'_>, i: &Instruction, integers: Decode) -> Result<(), Refusal> {
    if packed::is_packed(i) {
        return packed::decode(d, i);
    }
    let float = |word: &String| {
        matches!(
            super::words::scalar(word),
            Some(Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::F32 | Type::F64)
        )
    };
    if i.modifiers.iter().any(float) {
        return Err("floating point".to_owned());
    }
    integers(d, i)
}
