//! Whether registers fit the type of an instruction (PTX ISA 9.2, "Type Information for Instructions and Operands"), according to ptxas.
//!
//! A register of a bit type fits any type of its size, one of an integer type any integer, and one of a floating-point type only that type.
//! Loads, stores and conversions accept wider registers. Other instructions are checked only by their decoders.

use ptx::{Instruction, Operand, Type};

use super::words::scalar;
use crate::decode::{Decoder, Refusal};

/// Instructions whose operands all have the one type that they name.
const UNIFORM: [&str; 24] = [
    "add", "addc", "sub", "subc", "mul", "mad", "madc", "fma", "div", "rem", "min", "max", "abs", "neg",
    "mov", "selp", "setp", "and", "or", "xor", "not", "sad", "sqrt", "rcp",
];

/// The permitted width of a register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Same,
    Twice,
    SameOrMore,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Bits,
    Integer,
    Float,
    /// `.f16x2`: bits to integers.
    Pair,
}

fn class(ty: Type) -> Option<Class> {
    Some(match ty {
        Type::B8 | Type::B16 | Type::B32 | Type::B64 => Class::Bits,
        Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::S8 | Type::S16 | Type::S32 | Type::S64 => {
            Class::Integer
        }
        Type::F16 | Type::F32 | Type::F64 => Class::Float,
        Type::F16x2 => Class::Pair,
        _ => return None,
    })
}

/// Whether a register of one type may be an operand of another.
fn fits(register: Type, ty: Type, width: Width) -> bool {
    let (Some(has), Some(wanted)) = (class(register), class(ty)) else { return true };
    let sized = match width {
        Width::Same => register.bytes() == ty.bytes(),
        Width::Twice => register.bytes() == 2 * ty.bytes(),
        Width::SameOrMore => register.bytes() >= ty.bytes(),
    };
    let classed = match (has, wanted) {
        (Class::Bits, _) | (_, Class::Bits) | (Class::Integer, Class::Integer) => true,
        (Class::Pair, Class::Integer) => true,
        (Class::Float, Class::Float) | (Class::Pair, Class::Pair) => register == ty,
        _ => false,
    };
    sized && classed
}

/// Whether a register of one type may be passed as a parameter of another.
pub(crate) fn passes_as(register: Type, parameter: Type) -> bool {
    fits(register, parameter, Width::Same)
}

/// Rejects registers that do not fit.
pub(super) fn check(d: &Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let judge = |n: usize, ty: Type, width: Width| match i.operands.get(n) {
        Some(Operand::Name(name)) => match d.register(name) {
            Some(register) if !fits(register.ty, ty, width) => Err(format!(
                "`{name}` is a register of {:?}, which does not fit {ty:?} (ptxas: arguments mismatch)",
                register.ty
            )),
            _ => Ok(()),
        },
        _ => Ok(()),
    };
    let has = |word: &str| i.modifiers.iter().any(|m| m == word);
    let types: Vec<Type> = i.modifiers.iter().filter_map(|m| scalar(m)).collect();
    match (i.opcode.as_str(), types.as_slice()) {
        (opcode, [ty]) if UNIFORM.contains(&opcode) => (0..i.operands.len()).try_for_each(|n| {
            let wide = has("wide") && (n == 0 || n == 3);
            judge(n, *ty, if wide { Width::Twice } else { Width::Same })
        }),
        ("ld" | "ldu", [ty]) => judge(0, *ty, Width::SameOrMore),
        ("st", [ty]) if !has("async") && !has("bulk") => judge(1, *ty, Width::SameOrMore),
        ("atom", [ty]) => judge(0, *ty, Width::Same).and_then(|()| judge(2, *ty, Width::Same)),
        ("red", [ty]) if !has("async") => judge(1, *ty, Width::Same),
        ("cvt", [to, from]) if i.operands.len() == 2 && !has("pack") => {
            judge(0, *to, Width::SameOrMore).and_then(|()| judge(1, *from, Width::SameOrMore))
        }
        _ => Ok(()),
    }
}
