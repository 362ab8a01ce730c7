//! The classes of types, and the registers that hold them.

use ptx::Type;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Same,
    Twice,
    SameOrMore,
    /// The same size, of whatever class.
    Size,
    /// Packed in 32 bits if it is smaller.
    Packed,
}

/// The class of a type, which decides the registers that hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Bits,
    Integer,
    Float,
    /// `.f16x2` and packed integers.
    Pair,
    /// Formats that have no registers of their own: only registers of bits hold them.
    Packed,
    Predicate,
}

/// The class and size of the type that a word names.
pub(super) fn shape(word: &str) -> Option<(Class, usize)> {
    Some(match word {
        "b8" => (Class::Bits, 1),
        "b16" => (Class::Bits, 2),
        "b32" => (Class::Bits, 4),
        "b64" => (Class::Bits, 8),
        "b128" => (Class::Bits, 16),
        "u8" | "s8" => (Class::Integer, 1),
        "u16" | "s16" => (Class::Integer, 2),
        "u32" | "s32" => (Class::Integer, 4),
        "u64" | "s64" => (Class::Integer, 8),
        "f16" => (Class::Float, 2),
        "f32" => (Class::Float, 4),
        "f64" => (Class::Float, 8),
        "f16x2" | "u16x2" | "s16x2" | "u8x4" | "s8x4" => (Class::Pair, 4),
        "e2m1x2" => (Class::Packed, 1),
        "bf16" | "e4m3x2" | "e5m2x2" | "e2m3x2" | "e3m2x2" | "ue8m0x2" | "s2f6x2" | "e2m1x4" => {
            (Class::Packed, 2)
        }
        "tf32" | "raw32" | "bf16x2" | "ue8m0x4" | "e2m1p4x4" | "e4m3x4" | "e5m2x4" | "e2m3x4" | "e3m2x4" => {
            (Class::Packed, 4)
        }
        "f32x2" => (Class::Packed, 8),
        "pred" => (Class::Predicate, 0),
        _ => return None,
    })
}

/// The class and size of 32 bits or more that hold elements of a type: fragments of matrices.
pub(super) fn packed(word: &str) -> (Class, usize) {
    match (shape(word), word) {
        (Some((class, bytes @ 4..)), _) => (class, bytes),
        (_, "f16") => (Class::Pair, 4),
        (_, "bf16") => (Class::Packed, 4),
        _ => (Class::Bits, 4),
    }
}

/// The class and size of a register.
pub(super) fn held(ty: Type) -> Option<(Class, usize)> {
    Some(match ty {
        Type::B8 | Type::B16 | Type::B32 | Type::B64 | Type::B128 => (Class::Bits, ty.bytes()),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::S8 | Type::S16 | Type::S32 | Type::S64 => {
            (Class::Integer, ty.bytes())
        }
        Type::F16 | Type::F32 | Type::F64 => (Class::Float, ty.bytes()),
        Type::F16x2 => (Class::Pair, 4),
        Type::Bf16 | Type::Bf16x2 => (Class::Packed, ty.bytes()),
        Type::Pred => (Class::Predicate, 0),
        Type::TexRef | Type::SamplerRef | Type::SurfRef | Type::None => return None,
    })
}

/// Whether a register of one type may be passed as a parameter of another.
pub(crate) fn passes_as(register: Type, parameter: Type) -> bool {
    match (held(register), held(parameter)) {
        (Some(has), Some(wanted)) => fits(has, wanted, Width::Same),
        _ => true,
    }
}

/// Whether a register may hold a value of a type.
pub(super) fn fits(has: (Class, usize), wanted: (Class, usize), width: Width) -> bool {
    let sized = match width {
        Width::Same | Width::Size | Width::Packed => has.1 == wanted.1,
        Width::Twice => has.1 == 2 * wanted.1,
        Width::SameOrMore => has.1 >= wanted.1,
    };
    if width == Width::Size {
        return sized && has.0 != Class::Predicate;
    }
    let classed = match (has.0, wanted.0) {
        (Class::Predicate, other) | (other, Class::Predicate) => other == Class::Predicate,
        (Class::Bits, _) | (_, Class::Bits) => true,
        (Class::Integer | Class::Pair, Class::Integer) => true,
        (Class::Float, Class::Float) => has.1 == wanted.1,
        (Class::Pair, Class::Pair) | (Class::Packed, Class::Packed) => true,
        _ => false,
    };
    sized && classed
}
