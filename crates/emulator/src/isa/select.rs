//! Selection and classification (PTX ISA 9.7.3 and 9.7.5): `selp`, `slct`, `testp`.

use numerics::float::flush_f32;
use ptx::{Instruction, Type};

use super::lanewise::{destination, operands, source};
use super::{FormRow, Words};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, LANES, Machine, lanes};

const CHAPTER: &str = "Comparison and Selection";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "selp", "selp.type d, a, b, c", selp),
    FormRow::new(CHAPTER, "slct", "slct{.ftz}.dtype.{s32,f32} d, a, b, c", slct),
    FormRow::new(
        CHAPTER,
        "testp",
        "testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64} p, a",
        testp,
    ),
];

fn selp(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let ty = words.ty()?;
    words.done()?;
    let (to, sources) = operands(i, 3)?;
    let exec: Exec = match ty.bytes() {
        8 => select_d,
        2 | 4 => select_w,
        _ => return Err(format!("selp on {ty}")),
    };
    let (a, b) = (source(d, &sources[0], ty)?, source(d, &sources[1], ty)?);
    let (c, negated) = d.src_p(&sources[2])?;
    let (a, b) = if negated { (b, a) } else { (a, b) };
    let row = Row { d: destination(d, to, ty)?, a, b, c, ..Row::new(exec) };
    d.push(row);
    Ok(())
}

fn select_w(m: &mut Machine<'_>, row: &Row) -> Flow {
    let (a, b, p) = (m.r.w[row.a as usize], m.r.w[row.b as usize], m.r.p[row.c as usize]);
    let mask = m.mask;
    let d = &mut m.r.w[row.d as usize];
    if mask == !0 {
        for i in 0..LANES {
            d[i] = if p >> i & 1 == 1 { a[i] } else { b[i] };
        }
    } else {
        for i in lanes(mask) {
            d[i] = if p >> i & 1 == 1 { a[i] } else { b[i] };
        }
    }
    Flow::Next
}

fn select_d(m: &mut Machine<'_>, row: &Row) -> Flow {
    let (a, b, p) = (m.r.d[row.a as usize], m.r.d[row.b as usize], m.r.p[row.c as usize]);
    for i in lanes(m.mask) {
        m.r.d[row.d as usize][i] = if p >> i & 1 == 1 { a[i] } else { b[i] };
    }
    Flow::Next
}

/// `d = c >= 0 ? a : b`: two rows, of which the first tests and the second selects.
fn slct(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let ftz = words.take("ftz");
    let (ty, by) = (words.ty()?, words.ty()?);
    words.done()?;
    let (to, sources) = operands(i, 3)?;
    let ask: Exec = match by {
        Type::S32 => |m, row| ask(m, row, |c| c as i32 >= 0),
        // -0 counts as zero, a NaN as negative.
        Type::F32 if ftz => |m, row| ask(m, row, |c| f32::from_bits(flush_f32(c, true)) >= 0.0),
        Type::F32 => |m, row| ask(m, row, |c| f32::from_bits(c) >= 0.0),
        _ => return Err(format!("slct by {by}")),
    };
    let exec: Exec = match ty.bytes() {
        8 => select_d,
        2 | 4 => select_w,
        _ => return Err(format!("slct on {ty}")),
    };
    let (a, b) = (source(d, &sources[0], ty)?, source(d, &sources[1], ty)?);
    let c = d.src(&sources[2], by)?;
    let p = d.fresh(Type::Pred).slot;
    d.push(Row { d: p, a: c, ..Row::new(ask) });
    let row = Row { d: destination(d, to, ty)?, a, b, c: p, ..Row::new(exec) };
    d.push(row);
    Ok(())
}

#[inline(always)]
fn ask(m: &mut Machine<'_>, row: &Row, f: impl Fn(u32) -> bool) -> Flow {
    let a = &m.r.w[row.a as usize];
    let bits = (0..LANES).fold(0u32, |bits, i| bits | u32::from(f(a[i])) << i);
    m.set_predicate(row.d, bits);
    Flow::Next
}

#[inline(always)]
fn ask_wide(m: &mut Machine<'_>, row: &Row, f: impl Fn(f64) -> bool) -> Flow {
    let a = &m.r.d[row.a as usize];
    let bits = (0..LANES).fold(0u32, |bits, i| bits | u32::from(f(f64::from_bits(a[i]))) << i);
    m.set_predicate(row.d, bits);
    Flow::Next
}

/// Zero counts as a normal number.
fn testp(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    const QUESTIONS: [&str; 6] = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];
    let mut words = Words::from_instruction(i);
    let question = words.one_of(&QUESTIONS).ok_or("testp has no test")?;
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (question, ty) {
        ("finite", Type::F32) => |m, row| ask(m, row, |a| f32::from_bits(a).is_finite()),
        ("infinite", Type::F32) => |m, row| ask(m, row, |a| f32::from_bits(a).is_infinite()),
        ("number", Type::F32) => |m, row| ask(m, row, |a| !f32::from_bits(a).is_nan()),
        ("notanumber", Type::F32) => |m, row| ask(m, row, |a| f32::from_bits(a).is_nan()),
        ("normal", Type::F32) => |m, row| ask(m, row, |a| f32::from_bits(a).is_normal() || a << 1 == 0),
        ("subnormal", Type::F32) => |m, row| ask(m, row, |a| f32::from_bits(a).is_subnormal()),
        ("finite", Type::F64) => |m, row| ask_wide(m, row, f64::is_finite),
        ("infinite", Type::F64) => |m, row| ask_wide(m, row, f64::is_infinite),
        ("number", Type::F64) => |m, row| ask_wide(m, row, |a| !a.is_nan()),
        ("notanumber", Type::F64) => |m, row| ask_wide(m, row, f64::is_nan),
        ("normal", Type::F64) => |m, row| ask_wide(m, row, |a| a.is_normal() || a == 0.0),
        ("subnormal", Type::F64) => |m, row| ask_wide(m, row, f64::is_subnormal),
        _ => return Err(format!("testp on {ty}")),
    };
    let (to, sources) = operands(i, 1)?;
    let a = source(d, &sources[0], ty)?;
    let row = Row { d: d.dst_p(to)?, a, ..Row::new(exec) };
    d.push(row);
    Ok(())
}
