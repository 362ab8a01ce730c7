//! Rows that work on each lane separately: short forms of [`by_lane!`] for one bank, and the operands of such rows.

use ptx::{Instruction, Operand, Type};

use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine, each};
pub(super) use crate::run::vectors::by_lane;

/// `w!(|a, b| …)`: [`by_lane!`] from 32-bit registers to one.
macro_rules! w {
    (|$($source:ident),+| $value:expr) => {
        $crate::run::vectors::by_lane!(|$($source: u32),+| -> u32 { $value })
    };
}

/// `d!(|a, b| …)`: [`by_lane!`] from 64-bit registers to one.
macro_rules! d {
    (|$($source:ident),+| $value:expr) => {
        $crate::run::vectors::by_lane!(|$($source: u64),+| -> u64 { $value })
    };
}

/// `halves!(pair, |x| …)`: a function of 16 bits on both halves of a word.
macro_rules! halves {
    ($pair:expr, |$x:ident| $value:expr) => {{
        let low = {
            let $x = $pair as u16;
            u32::from($value)
        };
        let high = {
            let $x = ($pair >> 16) as u16;
            u32::from($value)
        };
        low | high << 16
    }};
}

pub(super) use {d, halves, w};

/// A source in the bank that `ty` belongs to.
pub(super) fn source(d: &mut Decoder<'_>, operand: &Operand, ty: Type) -> Result<u32, Refusal> {
    if ty.bytes() == 8 { d.src_d(operand, ty) } else { d.src(operand, ty) }
}

/// A destination in the bank that `ty` belongs to.
pub(super) fn destination(d: &mut Decoder<'_>, operand: &Operand, ty: Type) -> Result<u32, Refusal> {
    d.dst_as(operand, ty)
}

/// Pushes a row with destination type `to` and sources of these types, in slots `a`, `b`, `c`.
pub(super) fn push(
    d: &mut Decoder<'_>,
    i: &Instruction,
    to: Type,
    from: &[Type],
    exec: Exec,
    imm: u64,
) -> Result<(), Refusal> {
    let (out, sources) = operands(i, from.len())?;
    let mut slots = [0; 3];
    for ((slot, operand), ty) in slots.iter_mut().zip(sources).zip(from) {
        *slot = source(d, operand, *ty)?;
    }
    let [a, b, c] = slots;
    let row = Row { d: destination(d, out, to)?, a, b, c, imm, ..Row::new(exec) };
    d.push(row);
    Ok(())
}

/// [`push`] if every operand has type `ty`.
pub(super) fn same(
    d: &mut Decoder<'_>,
    i: &Instruction,
    ty: Type,
    sources: usize,
    exec: Exec,
) -> Result<(), Refusal> {
    push(d, i, ty, &[ty; 3][..sources.min(3)], exec, 0)
}

/// The destination and the sources; the number of sources must be `n`.
pub(super) fn operands(i: &Instruction, n: usize) -> Result<(&Operand, &[Operand]), Refusal> {
    match i.operands.split_first() {
        Some((out, sources)) if sources.len() == n => Ok((out, sources)),
        _ => Err(format!("one result and {n} sources are required")),
    }
}

/// `d = f(a)` from the 32-bit bank to the 64-bit one.
#[inline(always)]
pub(super) fn widen1(m: &mut Machine<'_>, row: &Row, f: impl Fn(u32) -> u64) -> Flow {
    let a = &m.r.w[row.a as usize];
    let to = &mut m.r.d[row.d as usize];
    each(m.mask, |i| to[i] = f(a[i]));
    Flow::Next
}

/// `d = f(a)` from the 64-bit bank to the 32-bit one.
#[inline(always)]
pub(super) fn narrow1(m: &mut Machine<'_>, row: &Row, f: impl Fn(u64) -> u32) -> Flow {
    let a = &m.r.d[row.a as usize];
    let to = &mut m.r.w[row.d as usize];
    each(m.mask, |i| to[i] = f(a[i]));
    Flow::Next
}
