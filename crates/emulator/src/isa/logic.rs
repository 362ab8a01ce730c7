//! Logic and shift instructions (PTX ISA 9.7.8).

use ptx::{Immediate, Instruction, Operand, Type};

use super::lanewise::{by_lane, d, operands, push, same, w};
use super::operations::Operation;
use super::{FormRow, Words};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine};

const CHAPTER: &str = "Logic and Shift";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "and", "and.{pred,b16,b32,b64}", logic),
    FormRow::new(CHAPTER, "or", "or.{pred,b16,b32,b64}", logic),
    FormRow::new(CHAPTER, "xor", "xor.{pred,b16,b32,b64}", logic),
    FormRow::new(CHAPTER, "not", "not.{pred,b16,b32,b64}", not),
    FormRow::new(CHAPTER, "cnot", "cnot.{b16,b32,b64}", cnot),
    FormRow::new(CHAPTER, "lop3", "lop3{.or,.and}.b32 d{|p}, a, b, c, table{, q}", lop3),
    FormRow::new(CHAPTER, "shl", "shl.{b16,b32,b64}", shl),
    FormRow::new(CHAPTER, "shr", "shr.{b,u,s}{16,32,64}", shr),
    FormRow::new(CHAPTER, "shf", "shf.{l,r}.{clamp,wrap}.b32", shf),
    FormRow::new(CHAPTER, "prmt", "prmt.b32{.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}", prmt),
];

type Decoded = Result<(), Refusal>;

fn refuse(i: &Instruction, ty: Type) -> Decoded {
    Err(format!("{} on {ty}", i.opcode))
}

fn logic(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let ty = words.ty()?;
    words.done()?;
    if ty == Type::Pred {
        return predicates(d, i);
    }
    let exec: Exec = match (i.opcode.as_str(), ty.bytes()) {
        ("and", 2 | 4) => Operation::AndW.exec(),
        ("or", 2 | 4) => Operation::OrW.exec(),
        ("xor", 2 | 4) => Operation::XorW.exec(),
        ("and", 8) => Operation::AndD.exec(),
        ("or", 8) => Operation::OrD.exec(),
        ("xor", 8) => d!(|a, b| a ^ b),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 2, exec)
}

/// Logic of predicates; a source may be `!p`.
fn predicates(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let (to, sources) = operands(i, 2)?;
    let ((a, not_a), (b, not_b)) = (d.src_p(&sources[0])?, d.src_p(&sources[1])?);
    let exec: Exec = match i.opcode.as_str() {
        "and" => Operation::And.exec(),
        "or" => Operation::Or.exec(),
        _ => Operation::Xor.exec(),
    };
    let imm = u64::from(not_a) | u64::from(not_b) << 1;
    let row = Row { d: d.dst_p(to)?, a, b, imm, ..Row::new(exec) };
    d.push(row);
    Ok(())
}

fn not(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (ty, ty.bytes()) {
        (Type::Pred, _) => {
            let (to, sources) = operands(i, 1)?;
            let (a, negated) = d.src_p(&sources[0])?;
            let row = Row { d: d.dst_p(to)?, a, imm: u64::from(negated), ..Row::new(not_p) };
            d.push(row);
            return Ok(());
        }
        (_, 2) => w!(|a| !a & 0xFFFF),
        (_, 4) => Operation::NotW.exec(),
        (_, 8) => d!(|a| !a),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 1, exec)
}

fn not_p(m: &mut Machine<'_>, row: &Row) -> Flow {
    let a = m.r.p[row.a as usize];
    m.set_predicate(row.d, if row.imm == 0 { !a } else { a });
    Flow::Next
}

fn cnot(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match ty.bytes() {
        2 | 4 => w!(|a| u32::from(a == 0)),
        8 => d!(|a| u64::from(a == 0)),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 1, exec)
}

/// The table as a tree of selections: `c` selects between neighbours, then `b`, then `a`.
#[inline(always)]
fn table(a: u32, b: u32, c: u32, bits: [u32; 8]) -> u32 {
    let pick = |by: u32, no: u32, yes: u32| no ^ (by & (no ^ yes));
    let low = pick(b, pick(c, bits[0], bits[1]), pick(c, bits[2], bits[3]));
    let high = pick(b, pick(c, bits[4], bits[5]), pick(c, bits[6], bits[7]));
    pick(a, low, high)
}

fn lop3_any(m: &mut Machine<'_>, row: &Row) -> Flow {
    let bits = std::array::from_fn(|n| 0u32.wrapping_sub((row.imm >> n & 1) as u32));
    m.map3(row, |a, b, c| table(a, b, c, bits))
}

fn lop3(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let operator = words.one_of(&["or", "and"]);
    let ty = words.ty()?;
    words.done()?;
    if ty != Type::B32 {
        return refuse(i, ty);
    }
    let (to, sources) = operands(i, if operator.is_some() { 5 } else { 4 })?;
    let Operand::Immediate(Immediate::Integer { bits: imm, .. }) = &sources[3] else {
        return Err("the table of lop3 is a number".to_owned());
    };
    let [a, b, c] = [d.src(&sources[0], ty)?, d.src(&sources[1], ty)?, d.src(&sources[2], ty)?];
    let exec: Exec = match imm & 0xFF {
        0x96 => w!(|a, b, c| a ^ b ^ c),
        0xE8 => w!(|a, b, c| (a & b) | (c & (a | b))),
        0xCA => w!(|a, b, c| c ^ (a & (b ^ c))),
        0xF8 => w!(|a, b, c| a | (b & c)),
        0xEA => w!(|a, b, c| (a & b) | c),
        0xFE => w!(|a, b, c| a | b | c),
        0x80 => w!(|a, b, c| a & b & c),
        0x78 => w!(|a, b, c| a ^ (b & c)),
        0x6A => w!(|a, b, c| (a & b) ^ c),
        _ => lop3_any,
    };
    let row = |out: u32| Row { d: out, a, b, c, imm: imm & 0xFF, ..Row::new(exec) };
    let Some(operator) = operator else {
        let out = d.dst(to)?;
        d.push(row(out));
        return Ok(());
    };
    let Operand::Pair(value, predicate) = to else {
        return Err("lop3 with a predicate requires d|p".to_owned());
    };
    let (q, negated) = d.src_p(&sources[4])?;
    let (out, p) = (d.dst(value)?, d.dst_p(predicate)?);
    d.push(row(out));
    let imm = u64::from(operator == "and") | u64::from(negated) << 1;
    d.push(Row { d: p, a: out, b: q, imm, ..Row::new(nonzero_with) });
    Ok(())
}

/// `d = (a != 0) op b`.
fn nonzero_with(m: &mut Machine<'_>, row: &Row) -> Flow {
    let a = &m.r.w[row.a as usize];
    let some = (0..32).fold(0u32, |bits, i| bits | u32::from(a[i] != 0) << i);
    let q = m.r.p[row.b as usize] ^ 0u32.wrapping_sub((row.imm >> 1 & 1) as u32);
    m.set_predicate(row.d, if row.imm & 1 == 1 { some & q } else { some | q });
    Flow::Next
}

/// Shift amounts have 32 bits and are clamped to the width.
fn shift(d: &mut Decoder<'_>, i: &Instruction, ty: Type, exec: Exec) -> Decoded {
    push(d, i, ty, &[ty, Type::U32], exec, 0)
}

fn shl(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match ty {
        Type::B16 => w!(|a, b| if b < 16 { a << (b & 15) & 0xFFFF } else { 0 }),
        Type::B32 => Operation::ShiftLeftW.exec(),
        Type::B64 => Operation::ShiftLeftD.exec(),
        _ => return refuse(i, ty),
    };
    shift(d, i, ty, exec)
}

fn shr(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match ty {
        Type::B16 | Type::U16 | Type::B32 | Type::U32 => Operation::ShiftRightU32.exec(),
        Type::S16 => w!(|a, b| (i32::from(a as i16) >> b.min(15)) as u32 & 0xFFFF),
        Type::S32 => Operation::ShiftRightS32.exec(),
        Type::B64 | Type::U64 => {
            by_lane!(|a: u64, b: u32| -> u64 { if b < 64 { a >> (b & 63) } else { 0 } })
        }
        Type::S64 => by_lane!(|a: u64, b: u32| -> u64 { (a as i64 >> b.min(63)) as u64 }),
        _ => return refuse(i, ty),
    };
    shift(d, i, ty, exec)
}

fn shf(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    fn joined(a: u32, b: u32) -> u64 {
        u64::from(b) << 32 | u64::from(a)
    }
    let mut words = Words::from_instruction(i);
    let direction = words.one_of(&["l", "r"]).ok_or("shf requires .l or .r")?;
    let mode = words.one_of(&["clamp", "wrap"]).ok_or("shf requires .clamp or .wrap")?;
    let ty = words.ty()?;
    words.done()?;
    if ty != Type::B32 {
        return refuse(i, ty);
    }
    let exec: Exec = match (direction, mode) {
        ("l", "wrap") => w!(|a, b, c| (joined(a, b) << (c & 31) >> 32) as u32),
        ("l", _) => w!(|a, b, c| (joined(a, b) << c.min(32) >> 32) as u32),
        (_, "wrap") => w!(|a, b, c| (joined(a, b) >> (c & 31)) as u32),
        _ => w!(|a, b, c| (joined(a, b) >> c.min(32)) as u32),
    };
    same(d, i, ty, 3, exec)
}

/// The selectors of a named mode by the low two bits of `c`: one digit per byte of the result.
fn selectors(mode: &str) -> Option<[u16; 4]> {
    Some(match mode {
        "f4e" => [0x3210, 0x4321, 0x5432, 0x6543],
        "b4e" => [0x5670, 0x6701, 0x7012, 0x0123],
        "rc8" => [0x0000, 0x1111, 0x2222, 0x3333],
        "ecl" => [0x3210, 0x3211, 0x3222, 0x3333],
        "ecr" => [0x0000, 0x1110, 0x2210, 0x3210],
        "rc16" => [0x1010, 0x3232, 0x1010, 0x3232],
        _ => return None,
    })
}

/// Each byte of the result is one of the eight of `b:a`, or, for digits of 8 and above, its sign repeated eight times.
#[inline(always)]
fn permute(a: u32, b: u32, digits: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    (0..4).fold(0, |out, n| {
        let digit = digits >> (4 * n);
        let byte = (bytes >> (8 * (digit & 7))) as u8;
        let byte = if digit & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 };
        out | u32::from(byte) << (8 * n)
    })
}

fn prmt(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let mode = words.one_of(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]);
    let ty = words.ty()?;
    words.done()?;
    if ty != Type::B32 {
        return refuse(i, ty);
    }
    match mode.and_then(selectors) {
        None => same(d, i, ty, 3, w!(|a, b, c| permute(a, b, c))),
        Some([w0, w1, w2, w3]) => {
            let all = [w0, w1, w2, w3].iter().rev().fold(0u64, |all, w| all << 16 | u64::from(*w));
            push(d, i, ty, &[ty; 3], permute_mode, all)
        }
    }
}

fn permute_mode(m: &mut Machine<'_>, row: &Row) -> Flow {
    let imm = row.imm;
    m.map3(row, |a, b, c| permute(a, b, (imm >> (16 * (c & 3))) as u32 & 0xFFFF))
}
