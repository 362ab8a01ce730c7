//! Bits, bit fields and small dot products (PTX ISA 9.7.1).

use ptx::{Instruction, Type};

use super::lanewise::{by_lane, d, destination, operands, push, same, source, w};
use super::{FormRow, Words};
use crate::api::trap::{Fault, Rule};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine, lanes};

const CHAPTER: &str = "Integer Arithmetic: bits";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "popc", "popc.{b32,b64}", popc),
    FormRow::new(CHAPTER, "clz", "clz.{b32,b64}", clz),
    FormRow::new(CHAPTER, "bfind", "bfind{.shiftamt}.{u32,u64,s32,s64}", bfind),
    FormRow::new(CHAPTER, "fns", "fns.b32 d, mask, base, offset", fns),
    FormRow::new(CHAPTER, "brev", "brev.{b32,b64}", brev),
    FormRow::new(CHAPTER, "bfe", "bfe.{u32,u64,s32,s64}", bfe),
    FormRow::new(CHAPTER, "bfi", "bfi.{b32,b64}", bfi),
    FormRow::new(CHAPTER, "bmsk", "bmsk.{clamp,wrap}.b32", bmsk),
    FormRow::new(CHAPTER, "szext", "szext.{clamp,wrap}.{u32,s32}", szext),
    FormRow::new(CHAPTER, "dp4a", "dp4a.{u32,s32}.{u32,s32}", dp4a),
    FormRow::new(CHAPTER, "dp2a", "dp2a.{lo,hi}.{u32,s32}.{u32,s32}", dp2a),
];

type Decoded = Result<(), Refusal>;

fn refuse(i: &Instruction, ty: Type) -> Decoded {
    Err(format!("{} on {ty}", i.opcode))
}

fn lone_type(i: &Instruction) -> Result<Type, Refusal> {
    let mut words = Words::from_instruction(i);
    let ty = words.ty()?;
    words.done()?;
    Ok(ty)
}

fn popc(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let ty = lone_type(i)?;
    let exec: Exec = match ty {
        Type::B32 => w!(|a| a.count_ones()),
        Type::B64 => by_lane!(|a: u64| -> u32 { a.count_ones() }),
        _ => return refuse(i, ty),
    };
    push(d, i, Type::U32, &[ty], exec, 0)
}

fn clz(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let ty = lone_type(i)?;
    let exec: Exec = match ty {
        Type::B32 => w!(|a| a.leading_zeros()),
        Type::B64 => by_lane!(|a: u64| -> u32 { a.leading_zeros() }),
        _ => return refuse(i, ty),
    };
    push(d, i, Type::U32, &[ty], exec, 0)
}

/// The position of the leading one; all ones if there is none.
fn leading(a: u64) -> u32 {
    63u32.wrapping_sub(a.leading_zeros())
}

/// The leading bit that differs from the sign.
fn leading_signed(a: i64) -> u32 {
    leading(if a < 0 { !a } else { a } as u64)
}

/// The shift that moves a bit at `place` to the top of `width` bits.
fn shift_amount(place: u32, width: u32) -> u32 {
    if place == !0 { place } else { width - 1 - place }
}

fn bfind(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let shift = words.take("shiftamt");
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (ty, shift) {
        (Type::U32, false) => w!(|a| leading(u64::from(a))),
        (Type::S32, false) => w!(|a| leading_signed(i64::from(a as i32))),
        (Type::U64, false) => by_lane!(|a: u64| -> u32 { leading(a) }),
        (Type::S64, false) => by_lane!(|a: u64| -> u32 { leading_signed(a as i64) }),
        (Type::U32, true) => w!(|a| shift_amount(leading(u64::from(a)), 32)),
        (Type::S32, true) => w!(|a| shift_amount(leading_signed(i64::from(a as i32)), 32)),
        (Type::U64, true) => by_lane!(|a: u64| -> u32 { shift_amount(leading(a), 64) }),
        (Type::S64, true) => by_lane!(|a: u64| -> u32 { shift_amount(leading_signed(a as i64), 64) }),
        _ => return refuse(i, ty),
    };
    push(d, i, Type::U32, &[ty], exec, 0)
}

/// The position of the `offset`-th set bit of `mask` from `base`, downwards if `offset` is negative; for zero, `base` if the bit
/// there is set.
fn nth_set(mask: u32, base: u32, offset: i32) -> u32 {
    let base = base & 31;
    if offset == 0 {
        return if mask >> base & 1 == 1 { base } else { !0 };
    }
    let mut left = offset.unsigned_abs();
    let mut at = base.cast_signed();
    while (0..32).contains(&at) {
        if mask >> at & 1 == 1 {
            left -= 1;
            if left == 0 {
                return at.cast_unsigned();
            }
        }
        at += offset.signum();
    }
    !0
}

fn fns(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let ty = lone_type(i)?;
    if ty != Type::B32 {
        return refuse(i, ty);
    }
    let (_, sources) = operands(i, 3)?;
    let b = d.src(&sources[1], Type::U32)?;
    d.push(Row { b, ..Row::new(base_is_a_lane) });
    same(d, i, ty, 3, w!(|a, b, c| nth_set(a, b, c as i32)))
}

fn base_is_a_lane(m: &mut Machine<'_>, row: &Row) -> Flow {
    let base = &m.r.w[row.b as usize];
    match lanes(m.mask).find(|i| base[*i] > 31) {
        None => Flow::Next,
        Some(lane) => {
            let what = format!("fns with a base of {}, above 31", base[lane]);
            m.fail(Fault::new(Rule::Operand, what).at(lane))
        }
    }
}

fn brev(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let ty = lone_type(i)?;
    let exec: Exec = match ty {
        Type::B32 => w!(|a| a.reverse_bits()),
        Type::B64 => d!(|a| a.reverse_bits()),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 1, exec)
}

/// `length` bits of `a` from `place`; if `signed`, extended by their highest bit.
fn field(a: u64, place: u32, length: u32, width: u32, signed: bool) -> u64 {
    let (place, length) = (place & 0xFF, length & 0xFF);
    if length == 0 {
        return 0;
    }
    let top = (place + length - 1).min(width - 1);
    let sign = signed && a >> top & 1 == 1;
    let bits = a.checked_shr(place).unwrap_or(0);
    // A field that extends beyond the register is filled like one that ends in it.
    let kept = if place >= width { 0 } else { length.min(width - place) };
    let mask = if kept == 64 { !0 } else { (1u64 << kept) - 1 };
    bits & mask | if sign { !mask } else { 0 }
}

fn bfe(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let ty = lone_type(i)?;
    let exec: Exec = match ty {
        Type::U32 => w!(|a, b, c| field(u64::from(a), b, c, 32, false) as u32),
        Type::S32 => w!(|a, b, c| field(u64::from(a), b, c, 32, true) as u32),
        Type::U64 => |m, row| field_64(m, row, false),
        Type::S64 => |m, row| field_64(m, row, true),
        _ => return refuse(i, ty),
    };
    push(d, i, ty, &[ty, Type::U32, Type::U32], exec, 0)
}

fn field_64(m: &mut Machine<'_>, row: &Row, signed: bool) -> Flow {
    let (place, length) = (m.r.w[row.b as usize], m.r.w[row.c as usize]);
    for i in lanes(m.mask) {
        m.r.d[row.d as usize][i] = field(m.r.d[row.a as usize][i], place[i], length[i], 64, signed);
    }
    Flow::Next
}

/// `into` with `length` bits from `place` replaced by the low end of `a`.
fn insert(a: u64, into: u64, place: u32, length: u32) -> u64 {
    let (place, length) = (place & 0xFF, length & 0xFF);
    let ones = if length >= 64 { !0 } else { (1u64 << length) - 1 };
    let mask = ones.checked_shl(place).unwrap_or(0);
    into & !mask | a.checked_shl(place).unwrap_or(0) & mask
}

fn bfi(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let ty = lone_type(i)?;
    let exec: Exec = match ty {
        Type::B32 => insert_32,
        Type::B64 => insert_64,
        _ => return refuse(i, ty),
    };
    let (to, sources) = operands(i, 4)?;
    let (a, b) = (source(d, &sources[0], ty)?, source(d, &sources[1], ty)?);
    let c = d.src(&sources[2], Type::U32)?;
    let length = d.src(&sources[3], Type::U32)?;
    let row = Row { d: destination(d, to, ty)?, a, b, c, imm: u64::from(length), ..Row::new(exec) };
    d.push(row);
    Ok(())
}

fn insert_32(m: &mut Machine<'_>, row: &Row) -> Flow {
    let length = m.r.w[row.imm as usize];
    let (a, b, c) = (m.r.w[row.a as usize], m.r.w[row.b as usize], m.r.w[row.c as usize]);
    for i in lanes(m.mask) {
        m.r.w[row.d as usize][i] = insert(u64::from(a[i]), u64::from(b[i]), c[i], length[i]) as u32;
    }
    Flow::Next
}

fn insert_64(m: &mut Machine<'_>, row: &Row) -> Flow {
    let length = m.r.w[row.imm as usize];
    let (a, b, c) = (m.r.d[row.a as usize], m.r.d[row.b as usize], m.r.w[row.c as usize]);
    for i in lanes(m.mask) {
        m.r.d[row.d as usize][i] = insert(a[i], b[i], c[i], length[i]);
    }
    Flow::Next
}

/// `length` ones from `place`.
fn mask(place: u32, length: u32, clamp: bool) -> u32 {
    let (low, bits) = (place & 31, length & 31);
    let from = if clamp && place >= 32 { 0 } else { !0 << low };
    let beyond = low + bits >= 32 || clamp && (place >= 32 || length >= 32);
    let behind = if beyond { 0 } else { !0 << (low + bits) };
    from & !behind
}

fn bmsk(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let mode = words.one_of(&["clamp", "wrap"]).ok_or("bmsk requires .clamp or .wrap")?;
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (mode, ty) {
        ("clamp", Type::B32) => w!(|a, b| mask(a, b, true)),
        (_, Type::B32) => w!(|a, b| mask(a, b, false)),
        _ => return refuse(i, ty),
    };
    same(d, i, ty, 2, exec)
}

/// The low `n` bits of `a`, extended by zeros or by the highest of them.
fn extend(a: u32, n: u32, clamp: bool, signed: bool) -> u32 {
    if clamp && n >= 32 {
        return a;
    }
    let n = n & 31;
    let above = !0u32 << n;
    if signed && n != 0 && a >> (n - 1) & 1 == 1 { a | above } else { a & !above }
}

fn szext(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let mode = words.one_of(&["clamp", "wrap"]).ok_or("szext requires .clamp or .wrap")?;
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (mode, ty) {
        ("clamp", Type::U32) => w!(|a, b| extend(a, b, true, false)),
        ("clamp", Type::S32) => w!(|a, b| extend(a, b, true, true)),
        (_, Type::U32) => w!(|a, b| extend(a, b, false, false)),
        (_, Type::S32) => w!(|a, b| extend(a, b, false, true)),
        _ => return refuse(i, ty),
    };
    push(d, i, ty, &[ty, Type::U32], exec, 0)
}

/// Byte `n` as an integer.
#[inline(always)]
fn byte(x: u32, n: u32, signed: bool) -> i32 {
    let byte = (x >> (8 * n)) as u8;
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}

/// The product of byte `n` of `a` and of `b`.
#[inline(always)]
fn product<const A: bool, const B: bool>(a: u32, b: u32, n: u32) -> u32 {
    (byte(a, n, A) * byte(b, n, B)) as u32
}

/// Written out: a fold over the bytes is not inlined, so that a row of vector instructions would call it for each lane.
#[inline(always)]
fn dot4<const A: bool, const B: bool>(a: u32, b: u32, c: u32) -> u32 {
    let low = product::<A, B>(a, b, 0).wrapping_add(product::<A, B>(a, b, 1));
    let high = product::<A, B>(a, b, 2).wrapping_add(product::<A, B>(a, b, 3));
    c.wrapping_add(low).wrapping_add(high)
}

/// Two halfwords of `a` with two bytes of `b`, starting at byte `first`.
#[inline(always)]
fn dot2<const A: bool, const B: bool>(a: u32, b: u32, c: u32, first: u32) -> u32 {
    let half = |n: u32| {
        let half = (a >> (16 * n)) as u16;
        if A { i32::from(half as i16) } else { i32::from(half) }
    };
    let product = |n: u32| (half(n) * byte(b, first + n, B)) as u32;
    c.wrapping_add(product(0)).wrapping_add(product(1))
}

/// Whether each of the two types is signed.
fn signs(words: &mut Words<'_>) -> Result<(bool, bool), Refusal> {
    let mut one = || match words.ty()? {
        Type::U32 => Ok(false),
        Type::S32 => Ok(true),
        other => Err(format!("a dot product of {other}")),
    };
    Ok((one()?, one()?))
}

fn dp4a(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let signed = signs(&mut words)?;
    words.done()?;
    let exec: Exec = match signed {
        (false, false) => w!(|a, b, c| dot4::<false, false>(a, b, c)),
        (false, true) => w!(|a, b, c| dot4::<false, true>(a, b, c)),
        (true, false) => w!(|a, b, c| dot4::<true, false>(a, b, c)),
        (true, true) => w!(|a, b, c| dot4::<true, true>(a, b, c)),
    };
    same(d, i, Type::B32, 3, exec)
}

fn dp2a(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let high = words.one_of(&["lo", "hi"]).ok_or("dp2a requires .lo or .hi")? == "hi";
    let signed = signs(&mut words)?;
    words.done()?;
    let exec: Exec = match signed {
        (false, false) => {
            by_lane!(imm; |a: u32, b: u32, c: u32| -> u32 { dot2::<false, false>(a, b, c, imm as u32) })
        }
        (false, true) => {
            by_lane!(imm; |a: u32, b: u32, c: u32| -> u32 { dot2::<false, true>(a, b, c, imm as u32) })
        }
        (true, false) => {
            by_lane!(imm; |a: u32, b: u32, c: u32| -> u32 { dot2::<true, false>(a, b, c, imm as u32) })
        }
        (true, true) => {
            by_lane!(imm; |a: u32, b: u32, c: u32| -> u32 { dot2::<true, true>(a, b, c, imm as u32) })
        }
    };
    push(d, i, Type::B32, &[Type::B32; 3], exec, if high { 2 } else { 0 })
}
