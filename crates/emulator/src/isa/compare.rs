//! Comparison (PTX ISA 9.7.5 and 9.7.6): `setp`, `set`.
//!
//! Sixteen operators are four tests per kind of number, with operands swapped and results inverted.

use numerics::convert::f16_to_f32;
use numerics::float::flush_f32;
use ptx::{Instruction, Operand, Type};

use super::lanewise::{destination, source};
use super::operations::Operation;
use super::{FormRow, Words};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, LANES, Machine, Registers};

const CHAPTER: &str = "Comparison and Selection";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "setp", "setp.cmp{.and,.or,.xor}{.ftz}.type p{|q}, a, b{, {!}c}", setp),
    FormRow::new(CHAPTER, "set", "set.cmp{.and,.or,.xor}{.ftz}.dtype.stype d, a, b{, {!}c}", set),
];

const OPERATORS: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu",
    "num", "nan",
];

/// The test of a comparison's rows.
#[derive(Clone, Copy)]
enum Ask {
    Equal,
    Less,
    /// Less or equal: for floats, not the inverse of greater.
    AtMost,
    /// Ordered and not equal.
    Apart,
    /// Neither is a NaN.
    Ordered,
}

/// The operator as a test, whether operands swap, and whether the result is inverted.
fn question(operator: &str, float: bool) -> Result<(Ask, bool, bool), Refusal> {
    Ok(match (operator, float) {
        ("eq", _) => (Ask::Equal, false, false),
        ("ne", false) => (Ask::Equal, false, true),
        ("lt" | "lo", false) | ("lt", true) => (Ask::Less, false, false),
        ("gt" | "hi", false) | ("gt", true) => (Ask::Less, true, false),
        ("ge" | "hs", false) => (Ask::Less, false, true),
        ("le" | "ls", false) => (Ask::Less, true, true),
        ("ne", true) => (Ask::Apart, false, false),
        ("le", true) => (Ask::AtMost, false, false),
        ("ge", true) => (Ask::AtMost, true, false),
        ("equ", true) => (Ask::Apart, false, true),
        ("neu", true) => (Ask::Equal, false, true),
        ("ltu", true) => (Ask::AtMost, true, true),
        ("leu", true) => (Ask::Less, true, true),
        ("gtu", true) => (Ask::AtMost, false, true),
        ("geu", true) => (Ask::Less, false, true),
        ("num", true) => (Ask::Ordered, false, false),
        ("nan", true) => (Ask::Ordered, false, true),
        _ => return Err(format!("the comparison .{operator} on this type")),
    })
}

// `imm` of a comparison: flags, and the slot of the second predicate in the upper half.
const INVERT: u64 = 1;
const AND: u64 = 2;
const OR: u64 = 4;
const XOR: u64 = 8;
const NOT_C: u64 = 16;
const SECOND: u64 = 32;
pub(super) const FTZ: u64 = 64;
/// The result for the upper halves goes to the second predicate.
const HALVES: u64 = 128;

/// Combines the result with the third operand and writes it, and its inverse or the result for the upper halves.
#[inline(always)]
pub(super) fn finish((r, mask): (&mut Registers, u32), row: &Row, answer: u32, other: u32) {
    let flip = |flag: u64| if row.imm & flag == 0 { 0 } else { !0u32 };
    let first = answer ^ flip(INVERT);
    let second = if row.imm & HALVES == 0 { !first } else { other ^ flip(INVERT) };
    let c = r.p[row.c as usize] ^ flip(NOT_C);
    let with = |t: u32| match row.imm & (AND | OR | XOR) {
        0 => t,
        AND => t & c,
        OR => t | c,
        _ => t ^ c,
    };
    let (first, second) = (with(first), with(second));
    let mut set = |slot: u32, bits: u32| {
        let p = &mut r.p[slot as usize];
        *p = *p & !mask | bits & mask;
    };
    set(row.d, first);
    if row.imm & SECOND != 0 {
        set((row.imm >> 32) as u32, second);
    }
}

#[inline(always)]
fn ask_w(m: &mut Machine<'_>, row: &Row, f: impl Fn(u32, u32) -> bool) -> Flow {
    let (a, b) = (&m.r.w[row.a as usize], &m.r.w[row.b as usize]);
    let answer = (0..LANES).fold(0u32, |bits, i| bits | u32::from(f(a[i], b[i])) << i);
    finish((m.r, m.mask), row, answer, 0);
    Flow::Next
}

#[inline(always)]
fn ask_d(m: &mut Machine<'_>, row: &Row, f: impl Fn(u64, u64) -> bool) -> Flow {
    let (a, b) = (&m.r.d[row.a as usize], &m.r.d[row.b as usize]);
    let answer = (0..LANES).fold(0u32, |bits, i| bits | u32::from(f(a[i], b[i])) << i);
    finish((m.r, m.mask), row, answer, 0);
    Flow::Next
}

#[inline(always)]
fn ask_f32(m: &mut Machine<'_>, row: &Row, f: impl Fn(f32, f32) -> bool) -> Flow {
    if row.imm & FTZ == 0 {
        return ask_w(m, row, |a, b| f(f32::from_bits(a), f32::from_bits(b)));
    }
    let flush = |x| f32::from_bits(flush_f32(x, true));
    ask_w(m, row, |a, b| f(flush(a), flush(b)))
}

fn ask_f64(m: &mut Machine<'_>, row: &Row, f: impl Fn(f64, f64) -> bool) -> Flow {
    ask_d(m, row, |a, b| f(f64::from_bits(a), f64::from_bits(b)))
}

/// Halves are compared as floats, which represent them exactly.
fn ask_16(m: &mut Machine<'_>, row: &Row, to: fn(u16) -> u32, f: impl Fn(f32, f32) -> bool) -> Flow {
    let (a, b) = (&m.r.w[row.a as usize], &m.r.w[row.b as usize]);
    let take = |x: u32| f32::from_bits(to(x as u16));
    let of = |shift: u32| {
        (0..LANES).fold(0u32, |bits, i| bits | u32::from(f(take(a[i] >> shift), take(b[i] >> shift))) << i)
    };
    let (low, high) = (of(0), if row.imm & HALVES == 0 { 0 } else { of(16) });
    finish((m.r, m.mask), row, low, high);
    Flow::Next
}

fn ask_f16(m: &mut Machine<'_>, row: &Row, f: impl Fn(f32, f32) -> bool) -> Flow {
    ask_16(m, row, f16_to_f32, f)
}

fn ask_f16_ftz(m: &mut Machine<'_>, row: &Row, f: impl Fn(f32, f32) -> bool) -> Flow {
    ask_16(m, row, |x| f16_to_f32(if x & 0x7C00 == 0 { x & 0x8000 } else { x }), f)
}

fn ask_bf16(m: &mut Machine<'_>, row: &Row, f: impl Fn(f32, f32) -> bool) -> Flow {
    ask_16(m, row, |x| u32::from(x) << 16, f)
}

/// The five tests of floats through one of the functions above.
macro_rules! floats {
    ($ask:expr, $how:expr) => {
        match $ask {
            Ask::Equal => |m, row| $how(m, row, |a, b| a == b),
            Ask::Less => |m, row| $how(m, row, |a, b| a < b),
            Ask::AtMost => |m, row| $how(m, row, |a, b| a <= b),
            Ask::Apart => |m, row| $how(m, row, |a, b| a.partial_cmp(&b).is_some_and(|o| o.is_ne())),
            Ask::Ordered => |m, row| $how(m, row, |a, b| !a.is_nan() && !b.is_nan()),
        }
    };
}

/// The row function of a test for a type.
fn comparison(ask: Ask, ty: Type, ftz: bool) -> Result<Exec, Refusal> {
    let exec: Exec = match (ty, ask) {
        (Type::F32, Ask::Equal) => Operation::EqualF32.exec(),
        (Type::F32, Ask::Less) => Operation::LessF32.exec(),
        (Type::F32, Ask::AtMost) => Operation::AtMostF32.exec(),
        (Type::F32, _) => floats!(ask, ask_f32),
        (Type::F64, _) => floats!(ask, ask_f64),
        (Type::F16 | Type::F16x2, _) if ftz => floats!(ask, ask_f16_ftz),
        (Type::F16 | Type::F16x2, _) => floats!(ask, ask_f16),
        (Type::Bf16 | Type::Bf16x2, _) => floats!(ask, ask_bf16),
        (Type::B16 | Type::B32 | Type::U16 | Type::U32 | Type::S16 | Type::S32, Ask::Equal) => {
            Operation::EqualW.exec()
        }
        (Type::B64 | Type::U64 | Type::S64, Ask::Equal) => Operation::EqualD.exec(),
        (Type::U16 | Type::U32, Ask::Less) => Operation::LessU32.exec(),
        (Type::S16, Ask::Less) => |m, row| ask_w(m, row, |a, b| (a as i16) < b as i16),
        (Type::S32, Ask::Less) => Operation::LessS32.exec(),
        (Type::U64, Ask::Less) => Operation::LessU64.exec(),
        (Type::S64, Ask::Less) => Operation::LessS64.exec(),
        _ => return Err(format!("this comparison on {ty}")),
    };
    Ok(exec)
}

fn is_float(ty: Type) -> bool {
    matches!(ty, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::F32 | Type::F64)
}

fn is_pair(ty: Type) -> bool {
    matches!(ty, Type::F16x2 | Type::Bf16x2)
}

/// The row of a comparison, without its destinations.
fn compare(
    d: &mut Decoder<'_>,
    words: &mut Words<'_>,
    ty: Type,
    sources: &[Operand],
) -> Result<Row, Refusal> {
    let operator = words.one_of(&OPERATORS).ok_or("no comparison operator")?;
    let with = words.one_of(&["and", "or", "xor"]);
    let ftz = words.take("ftz");
    let (ask, swap, invert) = question(operator, is_float(ty))?;
    // The unsigned operators compare as unsigned, whatever the type.
    let ordered = matches!(operator, "lo" | "ls" | "hi" | "hs");
    let kind = match ty {
        Type::S32 if ordered => Type::U32,
        Type::S16 if ordered => Type::U16,
        Type::S64 if ordered => Type::U64,
        ty => ty,
    };
    let exec = comparison(ask, kind, ftz)?;
    let (a, b, third) = match (with, sources) {
        (None, [a, b]) => (a, b, None),
        (Some(_), [a, b, c]) => (a, b, Some(c)),
        _ => return Err("two sources are required, and a predicate after .and, .or or .xor".to_owned()),
    };
    let (a, b) = if swap { (b, a) } else { (a, b) };
    let (a, b) = (source(d, a, ty)?, source(d, b, ty)?);
    let mut imm = match with {
        None => 0,
        Some("and") => AND,
        Some("or") => OR,
        Some(_) => XOR,
    };
    let mut c = 0;
    if let Some(third) = third {
        let (slot, negated) = d.src_p(third)?;
        c = slot;
        imm |= if negated { NOT_C } else { 0 };
    }
    imm |= if invert { INVERT } else { 0 } | if ftz { FTZ } else { 0 } | if is_pair(ty) { HALVES } else { 0 };
    Ok(Row { a, b, c, imm, ..Row::new(exec) })
}

fn setp(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let ty = words.ty()?;
    let Some((to, sources)) = i.operands.split_first() else {
        return Err("setp without operands".to_owned());
    };
    let row = compare(d, &mut words, ty, sources)?;
    words.done()?;
    let row = match to {
        Operand::Pair(p, q) => {
            let (p, q) = (d.dst_p(p)?, d.dst_p(q)?);
            Row { d: p, imm: row.imm | SECOND | u64::from(q) << 32, ..row }
        }
        p => Row { d: d.dst_p(p)?, ..row },
    };
    d.push(row);
    Ok(())
}

/// The value that `set` writes for true.
fn truth(ty: Type) -> Result<u64, Refusal> {
    Ok(match ty {
        Type::U16 | Type::S16 => 0xFFFF,
        Type::U32 | Type::S32 => 0xFFFF_FFFF,
        Type::F32 => u64::from(1.0f32.to_bits()),
        Type::F16 => 0x3C00,
        Type::Bf16 => 0x3F80,
        Type::F16x2 => 0x3C00,
        Type::Bf16x2 => 0x3F80,
        _ => return Err(format!("set with a result of {ty}")),
    })
}

/// A comparison into a hidden predicate, and a selection between the two values.
fn set(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let (to_type, ty) = (words.ty()?, words.ty()?);
    let Some((to, sources)) = i.operands.split_first() else { return Err("set without operands".to_owned()) };
    let row = compare(d, &mut words, ty, sources)?;
    words.done()?;
    // A pair is compared into a pair or a word, and only halves into a halfword.
    let legal = match (to_type, ty) {
        (Type::U32 | Type::S32, _) => true,
        (to, from) if is_pair(to) || is_pair(from) => to == from,
        (Type::U16 | Type::S16, from) => matches!(from, Type::F16 | Type::Bf16),
        _ => true,
    };
    if !legal {
        return Err(format!("set with a result of {to_type} for {ty}"));
    }
    let (p, q) = (d.fresh(Type::Pred).slot, d.fresh(Type::Pred).slot);
    d.push(Row { d: p, imm: row.imm | SECOND | u64::from(q) << 32, ..row });
    let value =
        if is_pair(ty) && matches!(to_type, Type::U32 | Type::S32) { 0xFFFF } else { truth(to_type)? };
    let out = destination(d, to, to_type)?;
    let exec: Exec = if is_pair(ty) { choose_halves } else { choose };
    d.push(Row { d: out, a: p, b: q, imm: value, ..Row::new(exec) });
    Ok(())
}

fn choose(m: &mut Machine<'_>, row: &Row) -> Flow {
    let p = m.r.p[row.a as usize];
    for i in crate::run::machine::lanes(m.mask) {
        m.r.w[row.d as usize][i] = if p >> i & 1 == 1 { row.imm as u32 } else { 0 };
    }
    Flow::Next
}

fn choose_halves(m: &mut Machine<'_>, row: &Row) -> Flow {
    let (p, q) = (m.r.p[row.a as usize], m.r.p[row.b as usize]);
    for i in crate::run::machine::lanes(m.mask) {
        m.r.w[row.d as usize][i] = row.imm as u32 * (p >> i & 1 | (q >> i & 1) << 16);
    }
    Flow::Next
}
