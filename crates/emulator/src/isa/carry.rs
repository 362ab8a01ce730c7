//! Extended-precision integer arithmetic (PTX ISA 9.7.2): the carry is one bit per lane.
//!
//! The manual calls the flag a carry after additions and a borrow after subtractions, and does not say what an addition makes of a borrow.
//! Every ptxas computes `a - b` as `a + ~b + 1` and keeps the carry of that: 1 where nothing is borrowed. nvcc relies on it: its division of 128-bit
//! integers has `sub.cc` followed by `addc`. So it is here, and a chain of one kind does not depend on it.

use ptx::{Instruction, Type};

use super::integer::{high_s32, high_s64, high_u32, high_u64};
use super::lanewise::push;
use super::{FormRow, Words};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine, lanes};

const CHAPTER: &str = "Extended-Precision Integer Arithmetic";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "add.cc", "add.cc.{u32,s32,u64,s64}", add),
    FormRow::new(CHAPTER, "addc", "addc{.cc}.{u32,s32,u64,s64}", add),
    FormRow::new(CHAPTER, "sub.cc", "sub.cc.{u32,s32,u64,s64}", sub),
    FormRow::new(CHAPTER, "subc", "subc{.cc}.{u32,s32,u64,s64}", sub),
    FormRow::new(CHAPTER, "mad.lo.cc", "mad.lo.cc.{u32,s32,u64,s64}", mad),
    FormRow::new(CHAPTER, "mad.hi.cc", "mad.hi.cc.{u32,s32,u64,s64}", mad),
    FormRow::new(CHAPTER, "madc", "madc.{hi,lo}{.cc}.{u32,s32,u64,s64}", mad),
];

type Decoded = Result<(), Refusal>;

/// The row reads the carry.
const IN: u64 = 1;
/// The row writes the carry.
const OUT: u64 = 2;

/// The carry in is 1, whatever the carry is.
const SET: u64 = 4;

/// The flags in `imm`, and the type.
fn flags(i: &Instruction, words: &mut Words<'_>) -> Result<(u64, Type), Refusal> {
    let carry_in = if i.opcode.ends_with('c') { IN } else { 0 };
    let carry_out = if words.take("cc") { OUT } else { 0 };
    Ok((carry_in | carry_out, words.ty()?))
}

/// Runs `f(lane, carry)` for the masked lanes; it returns the carry out.
#[inline(always)]
fn chain(m: &mut Machine<'_>, row: &Row, f: impl Fn(&mut Machine<'_>, usize, bool) -> bool) -> Flow {
    let mut carries = m.r.carry;
    for i in lanes(m.mask) {
        let carry = row.imm & SET != 0 || row.imm & IN != 0 && carries >> i & 1 == 1;
        let out = f(m, i, carry);
        carries = carries & !(1 << i) | u32::from(out) << i;
    }
    if row.imm & OUT != 0 {
        m.r.carry = carries;
    }
    Flow::Next
}

#[inline(always)]
fn chain_w(m: &mut Machine<'_>, row: &Row, f: impl Fn(u32, u32, u32, bool) -> (u32, bool)) -> Flow {
    chain(m, row, |m, i, carry| {
        let (a, b, c) = (m.r.w[row.a as usize][i], m.r.w[row.b as usize][i], m.r.w[row.c as usize][i]);
        let (sum, out) = f(a, b, c, carry);
        m.r.w[row.d as usize][i] = sum;
        out
    })
}

#[inline(always)]
fn chain_d(m: &mut Machine<'_>, row: &Row, f: impl Fn(u64, u64, u64, bool) -> (u64, bool)) -> Flow {
    chain(m, row, |m, i, carry| {
        let (a, b, c) = (m.r.d[row.a as usize][i], m.r.d[row.b as usize][i], m.r.d[row.c as usize][i]);
        let (sum, out) = f(a, b, c, carry);
        m.r.d[row.d as usize][i] = sum;
        out
    })
}

fn add_32(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

fn add_64(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let sum = u128::from(a) + u128::from(b) + u128::from(carry);
    (sum as u64, sum >> 64 != 0)
}

fn add(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let (imm, ty) = flags(i, &mut words)?;
    words.done()?;
    let exec: Exec = match ty {
        Type::U32 | Type::S32 => |m, row| chain_w(m, row, |a, b, _, carry| add_32(a, b, carry)),
        Type::U64 | Type::S64 => |m, row| chain_d(m, row, |a, b, _, carry| add_64(a, b, carry)),
        _ => return Err(format!("{} on {ty}", i.opcode)),
    };
    push(d, i, ty, &[ty; 2], exec, imm)
}

fn sub(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let (imm, ty) = flags(i, &mut words)?;
    words.done()?;
    // Without a carry in, nothing is borrowed.
    let imm = if imm & IN == 0 { imm | SET } else { imm };
    let exec: Exec = match ty {
        Type::U32 | Type::S32 => |m, row| chain_w(m, row, |a, b, _, carry| add_32(a, !b, carry)),
        Type::U64 | Type::S64 => |m, row| chain_d(m, row, |a, b, _, carry| add_64(a, !b, carry)),
        _ => return Err(format!("{} on {ty}", i.opcode)),
    };
    push(d, i, ty, &[ty; 2], exec, imm)
}

fn mad(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let part = words.one_of(&["lo", "hi"]).ok_or("mad with a carry requires .lo or .hi")?;
    let (imm, ty) = flags(i, &mut words)?;
    words.done()?;
    let exec: Exec = match (part, ty) {
        ("lo", Type::U32 | Type::S32) => {
            |m, row| chain_w(m, row, |a, b, c, carry| add_32(a.wrapping_mul(b), c, carry))
        }
        ("lo", Type::U64 | Type::S64) => {
            |m, row| chain_d(m, row, |a, b, c, carry| add_64(a.wrapping_mul(b), c, carry))
        }
        (_, Type::U32) => |m, row| chain_w(m, row, |a, b, c, carry| add_32(high_u32(a, b), c, carry)),
        (_, Type::S32) => |m, row| chain_w(m, row, |a, b, c, carry| add_32(high_s32(a, b), c, carry)),
        (_, Type::U64) => |m, row| chain_d(m, row, |a, b, c, carry| add_64(high_u64(a, b), c, carry)),
        (_, Type::S64) => |m, row| chain_d(m, row, |a, b, c, carry| add_64(high_s64(a, b), c, carry)),
        _ => return Err(format!("{} on {ty}", i.opcode)),
    };
    push(d, i, ty, &[ty; 3], exec, imm)
}
