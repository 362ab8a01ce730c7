//! Instructions over the lanes of a warp (PTX ISA 9.7.9.6 `shfl`, 9.7.13 `vote`, `match`, `redux`, `activemask`, `elect`).
//!
//! Lanes that name the same member mask participate together; a row can serve several such parties at once.

use numerics::float::{abs_f32, canonical_f32, max_f32, min_f32};
use ptx::{Instruction, Operand, Type};

use super::{FormRow, Words};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::registers::Bank;
use crate::front::words::Refusal;
use crate::run::machine::{Flow, LANES, Machine, lanes};

const CHAPTER: &str = "Warp-wide instructions";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "shfl", "shfl.sync.{up,down,bfly,idx}.b32 d{|p}, a, b, c, mask", decode_shfl),
    FormRow::new(CHAPTER, "vote", "vote.sync.{all,any,uni}.pred, vote.sync.ballot.b32", decode_vote),
    FormRow::new(CHAPTER, "match", "match.any.sync.{b32,b64}, match.all.sync.{b32,b64} d{|p}", decode_match),
    FormRow::new(
        CHAPTER,
        "redux",
        "redux.sync.{add,min,max}.{u32,s32}, .{and,or,xor}.b32, .{min,max}{.abs}{.NaN}.f32",
        decode_redux,
    ),
    FormRow::new(CHAPTER, "activemask", "activemask.b32 d", decode_activemask),
    FormRow::new(CHAPTER, "elect", "elect.sync d|p, mask", decode_elect),
];

/// `d` and `p` of `d|p`; `p` is `None` if only `d` is written.
fn pair(operand: &Operand) -> (&Operand, Option<&Operand>) {
    match operand {
        Operand::Pair(d, p) => (d, Some(p)),
        other => (other, None),
    }
}

/// The slot of the predicate half of `d|p`, or one that nothing reads.
fn predicate_half(d: &mut Decoder<'_>, p: Option<&Operand>) -> Result<u32, Refusal> {
    d.dst_p(p.unwrap_or(&Operand::Sink))
}

fn sync(words: &mut Words<'_>) -> Result<(), Refusal> {
    match words.take("sync") {
        true => Ok(()),
        false => Err("the form without `.sync` was removed in sm_70".to_owned()),
    }
}

const SHUFFLES: [&str; 4] = ["up", "down", "bfly", "idx"];

fn decode_shfl(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    sync(&mut words)?;
    let mode = words.one_of(&SHUFFLES).ok_or("shfl requires .up, .down, .bfly or .idx")?;
    if words.ty()? != Type::B32 {
        return Err("shfl moves .b32".to_owned());
    }
    words.done()?;
    let [to, a, b, c, members] = i.operands.as_slice() else {
        return Err("shfl.sync takes five operands".to_owned());
    };
    let (to, p) = pair(to);
    let exec: Exec = match mode {
        "up" => |m, row| shfl(m, row, |lane, b, _, limit| (lane.wrapping_sub(b), lane >= b + limit)),
        "down" => |m, row| shfl(m, row, |lane, b, _, limit| (lane + b, lane + b <= limit)),
        "bfly" => |m, row| shfl(m, row, |lane, b, _, limit| (lane ^ b, lane ^ b <= limit)),
        _ => |m, row| {
            shfl(m, row, |lane, b, segment, limit| {
                let from = (lane & segment) | (b & !segment & 31);
                (from, from <= limit)
            })
        },
    };
    let list = [d.src(b, Type::B32)?, d.src(c, Type::B32)?, d.src(members, Type::B32)?];
    let row = Row {
        d: d.dst(to)?,
        a: d.src(a, Type::B32)?,
        b: predicate_half(d, p)?,
        list: Box::new(list),
        ..Row::new(exec)
    };
    d.push(row);
    Ok(())
}

/// `source` maps lane, `b`, segment mask and limit to the lane to read from and whether it is in range.
#[inline(always)]
fn shfl(
    m: &mut Machine<'_>,
    row: &Row,
    source: impl Fn(usize, usize, usize, usize) -> (usize, bool),
) -> Flow {
    let [b, c, members] = *row.list else { return Flow::Next };
    let parties = match m.parties(members) {
        Ok(parties) => parties,
        Err(flow) => return flow,
    };
    let a = m.r.w[row.a as usize];
    let (b, c) = (m.r.w[b as usize], m.r.w[c as usize]);
    let (mut in_range, mut absent) = (0u32, 0u32);
    let mut out = a;
    if parties.are_whole_warp() {
        // Every lane participates: no read can go wrong.
        for lane in 0..LANES {
            let segment = (c[lane] >> 8 & 31) as usize;
            let limit = (lane & segment) | (c[lane] as usize & 31 & !segment);
            let (from, within) = source(lane, b[lane] as usize & 31, segment, limit);
            in_range |= u32::from(within) << lane;
            out[lane] = a[if within { from % LANES } else { lane }];
        }
        m.r.w[row.d as usize] = out;
        m.set_predicate(row.b, in_range);
        return Flow::Next;
    }
    for party in parties {
        for lane in lanes(party) {
            let segment = (c[lane] >> 8 & 31) as usize;
            let limit = (lane & segment) | (c[lane] as usize & 31 & !segment);
            let (from, within) = source(lane, b[lane] as usize & 31, segment, limit);
            if !within {
                continue;
            }
            in_range |= 1 << lane;
            // The value of a lane that does not participate is undefined. A reduction in a warp that is not full reads such lanes, and
            // drops what it gets.
            if party >> from & 1 == 0 {
                absent |= 1 << lane;
                out[lane] = u32::from_ne_bytes([m.world.poison; 4]);
            } else {
                out[lane] = a[from];
            }
        }
    }
    for lane in lanes(m.mask) {
        m.r.w[row.d as usize][lane] = out[lane];
    }
    m.set_predicate(row.b, in_range);
    if absent == 0 { Flow::Next } else { m.leaves_open((Bank::W, row.d), absent) }
}

fn decode_vote(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    sync(&mut words)?;
    let mode = words.one_of(&["all", "any", "uni", "ballot"]).ok_or("vote requires a mode")?;
    let ty = words.ty()?;
    words.done()?;
    let [to, from, members] = i.operands.as_slice() else {
        return Err("vote takes three operands".to_owned());
    };
    let (a, negated) = d.src_p(from)?;
    let b = d.src(members, Type::B32)?;
    let imm = if negated { u64::from(u32::MAX) } else { 0 };
    let (exec, to): (Exec, u32) = match (mode, ty) {
        ("ballot", Type::B32) => (ballot, d.dst(to)?),
        ("all", Type::Pred) => (|m, row| vote(m, row, |votes, party| votes == party), d.dst_p(to)?),
        ("any", Type::Pred) => (|m, row| vote(m, row, |votes, _| votes != 0), d.dst_p(to)?),
        ("uni", Type::Pred) => {
            (|m, row| vote(m, row, |votes, party| votes == party || votes == 0), d.dst_p(to)?)
        }
        _ => return Err(format!("vote.sync.{mode} on {ty}")),
    };
    d.push(Row { d: to, a, b, imm, ..Row::new(exec) });
    Ok(())
}

fn vote(m: &mut Machine<'_>, row: &Row, holds: impl Fn(u32, u32) -> bool) -> Flow {
    let parties = match m.parties(row.b) {
        Ok(parties) => parties,
        Err(flow) => return flow,
    };
    let a = m.r.p[row.a as usize] ^ row.imm as u32;
    let out = parties.filter(|party| holds(a & party, *party)).fold(0, |bits, party| bits | party);
    m.set_predicate(row.d, out);
    Flow::Next
}

fn ballot(m: &mut Machine<'_>, row: &Row) -> Flow {
    let parties = match m.parties(row.b) {
        Ok(parties) => parties,
        Err(flow) => return flow,
    };
    let a = m.r.p[row.a as usize] ^ row.imm as u32;
    for party in parties {
        for lane in lanes(party) {
            m.r.w[row.d as usize][lane] = a & party;
        }
    }
    Flow::Next
}

fn decode_match(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    sync(&mut words)?;
    let all = match words.one_of(&["any", "all"]) {
        Some(mode) => mode == "all",
        None => return Err("match requires .any or .all".to_owned()),
    };
    let ty = words.ty()?;
    words.done()?;
    let [to, from, members] = i.operands.as_slice() else {
        return Err("match takes three operands".to_owned());
    };
    let (to, p) = pair(to);
    if p.is_some() && !all {
        return Err("match.any has no predicate".to_owned());
    }
    let (exec, a): (Exec, u32) = match (ty, all) {
        (Type::B32, false) => (|m, row| match_any(m, row, m.r.w[row.a as usize]), d.src(from, ty)?),
        (Type::B64, false) => (|m, row| match_any(m, row, m.r.d[row.a as usize]), d.src_d(from, ty)?),
        (Type::B32, true) => (|m, row| match_all(m, row, m.r.w[row.a as usize]), d.src(from, ty)?),
        (Type::B64, true) => (|m, row| match_all(m, row, m.r.d[row.a as usize]), d.src_d(from, ty)?),
        _ => return Err(format!("match on {ty}")),
    };
    let row =
        Row { d: d.dst(to)?, a, b: d.src(members, Type::B32)?, c: predicate_half(d, p)?, ..Row::new(exec) };
    d.push(row);
    Ok(())
}

fn match_any<T: PartialEq + Copy>(m: &mut Machine<'_>, row: &Row, a: [T; LANES]) -> Flow {
    let parties = match m.parties(row.b) {
        Ok(parties) => parties,
        Err(flow) => return flow,
    };
    for party in parties {
        for lane in lanes(party) {
            let same = lanes(party).filter(|i| a[*i] == a[lane]).fold(0u32, |bits, i| bits | 1 << i);
            m.r.w[row.d as usize][lane] = same;
        }
    }
    Flow::Next
}

fn match_all<T: PartialEq + Copy>(m: &mut Machine<'_>, row: &Row, a: [T; LANES]) -> Flow {
    let parties = match m.parties(row.b) {
        Ok(parties) => parties,
        Err(flow) => return flow,
    };
    let mut agree = 0;
    for party in parties {
        let first = a[party.trailing_zeros() as usize % LANES];
        let same = lanes(party).all(|i| a[i] == first);
        if same {
            agree |= party;
        }
        for lane in lanes(party) {
            m.r.w[row.d as usize][lane] = if same { party } else { 0 };
        }
    }
    m.set_predicate(row.c, agree);
    Flow::Next
}

fn decode_redux(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    sync(&mut words)?;
    let op = words.one_of(&["add", "min", "max", "and", "or", "xor"]).ok_or("redux requires an operation")?;
    let (abs, nan) = (words.take("abs"), words.take("NaN"));
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (op, ty) {
        (_, Type::F32) => return decode_redux_f32(d, i, op, abs, nan),
        _ if abs || nan => return Err("redux.abs and redux.NaN are for .f32".to_owned()),
        ("add", Type::U32 | Type::S32) => |m, row| redux(m, row, u32::wrapping_add),
        ("min", Type::U32) => |m, row| redux(m, row, u32::min),
        ("max", Type::U32) => |m, row| redux(m, row, u32::max),
        ("min", Type::S32) => |m, row| redux(m, row, |a, b| (a as i32).min(b as i32) as u32),
        ("max", Type::S32) => |m, row| redux(m, row, |a, b| (a as i32).max(b as i32) as u32),
        ("and", Type::B32) => |m, row| redux(m, row, |a, b| a & b),
        ("or", Type::B32) => |m, row| redux(m, row, |a, b| a | b),
        ("xor", Type::B32) => |m, row| redux(m, row, |a, b| a ^ b),
        _ => return Err(format!("redux.sync.{op} on {ty}")),
    };
    push_redux(d, i, ty, exec)
}

fn decode_redux_f32(
    d: &mut Decoder<'_>,
    i: &Instruction,
    op: &str,
    abs: bool,
    nan: bool,
) -> Result<(), Refusal> {
    let exec: Exec = match (op, abs, nan) {
        ("min", false, false) => |m, row| redux_f32(m, row, false, |a, b| min_f32(a, b, false, false, false)),
        ("min", false, true) => |m, row| redux_f32(m, row, false, |a, b| min_f32(a, b, false, true, false)),
        ("min", true, false) => |m, row| redux_f32(m, row, true, |a, b| min_f32(a, b, false, false, false)),
        ("min", true, true) => |m, row| redux_f32(m, row, true, |a, b| min_f32(a, b, false, true, false)),
        ("max", false, false) => |m, row| redux_f32(m, row, false, |a, b| max_f32(a, b, false, false, false)),
        ("max", false, true) => |m, row| redux_f32(m, row, false, |a, b| max_f32(a, b, false, true, false)),
        ("max", true, false) => |m, row| redux_f32(m, row, true, |a, b| max_f32(a, b, false, false, false)),
        ("max", true, true) => |m, row| redux_f32(m, row, true, |a, b| max_f32(a, b, false, true, false)),
        _ => return Err(format!("redux.sync.{op}.f32; .f32 has .min and .max")),
    };
    push_redux(d, i, Type::F32, exec)
}

fn push_redux(d: &mut Decoder<'_>, i: &Instruction, ty: Type, exec: Exec) -> Result<(), Refusal> {
    let [to, from, members] = i.operands.as_slice() else {
        return Err("redux takes three operands".to_owned());
    };
    let row = Row { d: d.dst(to)?, a: d.src(from, ty)?, b: d.src(members, Type::B32)?, ..Row::new(exec) };
    d.push(row);
    Ok(())
}

fn redux_f32(m: &mut Machine<'_>, row: &Row, abs: bool, op: impl Fn(u32, u32) -> u32) -> Flow {
    let a = m.r.w[row.a as usize];
    // A party of one still returns a canonical NaN.
    reduce(m, row, |i| if abs { abs_f32(a[i], false) } else { canonical_f32(a[i]) }, op)
}

fn redux(m: &mut Machine<'_>, row: &Row, op: impl Fn(u32, u32) -> u32) -> Flow {
    let a = m.r.w[row.a as usize];
    reduce(m, row, |i| a[i], op)
}

#[inline(always)]
fn reduce(
    m: &mut Machine<'_>,
    row: &Row,
    value: impl Fn(usize) -> u32,
    op: impl Fn(u32, u32) -> u32,
) -> Flow {
    let parties = match m.parties(row.b) {
        Ok(parties) => parties,
        Err(flow) => return flow,
    };
    for party in parties {
        let result = lanes(party).map(&value).reduce(&op).unwrap_or_default();
        for lane in lanes(party) {
            m.r.w[row.d as usize][lane] = result;
        }
    }
    Flow::Next
}

fn decode_activemask(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.ty()?;
    words.done()?;
    let [to] = i.operands.as_slice() else { return Err("activemask takes a destination".to_owned()) };
    let to = d.dst(to)?;
    d.push(Row { d: to, ..Row::new(active_mask) });
    Ok(())
}

/// The schedule selects which lanes run together; these do.
fn active_mask(m: &mut Machine<'_>, row: &Row) -> Flow {
    for lane in lanes(m.mask) {
        m.r.w[row.d as usize][lane] = m.mask;
    }
    Flow::Next
}

fn decode_elect(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    sync(&mut words)?;
    words.done()?;
    let [to, members] = i.operands.as_slice() else { return Err("elect takes two operands".to_owned()) };
    let (to, Some(p)) = pair(to) else { return Err("elect writes a pair d|p".to_owned()) };
    let row = Row { d: d.dst(to)?, a: d.dst_p(p)?, b: d.src(members, Type::B32)?, ..Row::new(elect) };
    d.push(row);
    Ok(())
}

/// The lowest lane of a party leads: PTX only requires that the choice be the same each time.
fn elect(m: &mut Machine<'_>, row: &Row) -> Flow {
    let parties = match m.parties(row.b) {
        Ok(parties) => parties,
        Err(flow) => return flow,
    };
    let mut leaders = 0u32;
    for party in parties {
        let leader = party.trailing_zeros();
        leaders |= 1u32.checked_shl(leader).unwrap_or(0);
        for lane in lanes(party) {
            m.r.w[row.d as usize][lane] = leader;
        }
    }
    m.set_predicate(row.a, leaders);
    Flow::Next
}
