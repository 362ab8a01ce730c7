//! Moving registers (PTX ISA 9.7.9): `mov`, packing and unpacking, addresses and their spaces.

use ptx::{Instruction, Operand, Type};

use super::lanewise::{by_lane, w};
use super::operations::Operation;
use super::{FormRow, Words};
use crate::front::decode::{Decoder, Register, Symbol};
use crate::front::program::{Exec, Row, Special};
use crate::front::registers::Bank;
use crate::front::rows::{part, part_mask, widen};
use crate::front::words::Refusal;
use crate::memory::window::{LOCAL_WINDOW, SHARED_WINDOW, Window, window_of};
use crate::run::cluster::RANK_SHIFT;
use crate::run::machine::{Flow, LANES, Machine, Space, lanes};

const CHAPTER: &str = "Data Movement: registers and addresses";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "mov", "mov.type d, a; packing and unpacking of vectors", decode_mov),
    FormRow::new(CHAPTER, "cvta", "cvta{.to}.space.size d, a", decode_cvta),
    FormRow::new(CHAPTER, "isspacep", "isspacep.space p, a", decode_isspacep),
    FormRow::new(CHAPTER, "mapa", "mapa{.shared::cluster}.type d, a, rank", decode_mapa),
    FormRow::new(CHAPTER, "getctarank", "getctarank{.shared::cluster}.type d, a", decode_getctarank),
];

/// `d = a` in the 32-bit bank.
pub(crate) fn move_w() -> Exec {
    Operation::MoveW.exec()
}

/// `d = a` in the 64-bit bank.
pub(crate) fn move_d() -> Exec {
    Operation::MoveD.exec()
}

fn move_p(m: &mut Machine<'_>, row: &Row) -> Flow {
    let bits = m.r.p[row.a as usize] ^ row.imm as u32;
    m.set_predicate(row.d, bits);
    Flow::Next
}

/// A part of a 64-bit register in a 32-bit one.
fn part_of_wide() -> Exec {
    by_lane!(imm; |a: u64| -> u32 {
        let (from, mask) = part_mask(imm);
        (a >> from & mask) as u32
    })
}

/// Packs the registers of `list`, each `imm` bits wide, into a 32-bit one.
fn pack_w(m: &mut Machine<'_>, row: &Row) -> Flow {
    let width = row.imm;
    let mut out = [0u32; LANES];
    for (n, slot) in row.list.iter().enumerate() {
        let a = &m.r.w[*slot as usize];
        for i in 0..LANES {
            out[i] |= (a[i] & ((1u64 << width) - 1) as u32) << (n as u64 * width);
        }
    }
    for i in lanes(m.mask) {
        m.r.w[row.d as usize][i] = out[i];
    }
    Flow::Next
}

/// Packs the registers of `list`, each `imm` bits wide, into a 64-bit one.
fn pack_d(m: &mut Machine<'_>, row: &Row) -> Flow {
    let width = row.imm;
    let mut out = [0u64; LANES];
    for (n, slot) in row.list.iter().enumerate() {
        let a = &m.r.w[*slot as usize];
        for i in 0..LANES {
            out[i] |= (u64::from(a[i]) & ((1u64 << width) - 1)) << (n as u64 * width);
        }
    }
    for i in lanes(m.mask) {
        m.r.d[row.d as usize][i] = out[i];
    }
    Flow::Next
}

fn decode_mov(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let ty = words.ty()?;
    words.done()?;
    let [to, from] = i.operands.as_slice() else { return Err("mov takes two operands".to_owned()) };
    match (to, from) {
        // PTX has vectors of two and four. ptxas takes one of one register, too, and moves its lowest byte (`docs/emulator.md`).
        (Operand::Vector(parts), _) | (_, Operand::Vector(parts)) if parts.len() == 1 => {
            Err("a vector of one register: mov packs and unpacks two or more".to_owned())
        }
        (Operand::Vector(parts), _) => unpack(d, parts, from, ty),
        (_, Operand::Vector(parts)) => pack(d, to, parts, ty),
        (Operand::Name(name), Operand::Name(source))
            if source.starts_with('%') && clock(source).is_some() =>
        {
            let shift = clock(source).unwrap_or(0);
            match d.register(name) {
                Some(Register { bank: Bank::D, .. }) => {
                    let row = Row { d: d.dst_d(to)?, ..Row::new(read_clock_d) };
                    d.push(row);
                    Ok(())
                }
                Some(Register { bank: Bank::W, .. }) => {
                    let row = Row { d: d.dst(to)?, imm: shift, ..Row::new(read_clock_w) };
                    d.push(row);
                    Ok(())
                }
                _ => Err(format!("`{name}` cannot hold a clock")),
            }
        }
        (_, Operand::Name(name)) if name == "%is_explicit_cluster" => {
            let (a, to) = (d.special_w(Special::IsExplicitCluster), d.dst_p(to)?);
            d.push(Row { d: to, a, ..Row::new(is_set) });
            Ok(())
        }
        _ if ty == Type::Pred => {
            let (a, negated) = d.src_p(from)?;
            let to = d.dst_p(to)?;
            d.push(Row { d: to, a, imm: if negated { u64::from(u32::MAX) } else { 0 }, ..Row::new(move_p) });
            Ok(())
        }
        _ if ty == Type::B128 => {
            let (a, to) = (d.src_d(from, ty)?, d.dst_as(to, ty)?);
            for half in 0..2 {
                d.push(Row { d: to + half, a: a + half, ..Row::new(move_d()) });
            }
            Ok(())
        }
        _ if ty.bytes() == 8 => {
            let (a, to) = (d.src_d(from, ty)?, d.dst_d(to)?);
            d.push(Row { d: to, a, ..Row::new(move_d()) });
            Ok(())
        }
        _ => {
            let (a, to) = (d.src(from, ty)?, d.dst_as(to, ty)?);
            d.push(Row { d: to, a, ..Row::new(move_w()) });
            Ok(())
        }
    }
}

/// Clocks count executed instructions; `imm` is the shift of the selected half.
fn clock(name: &str) -> Option<u64> {
    match name {
        "%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo" => Some(0),
        "%clock_hi" | "%globaltimer_hi" => Some(32),
        _ => None,
    }
}

fn read_clock_w(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.world.clock += 1;
    m.world.communicate();
    let value = (m.world.clock >> row.imm) as u32;
    for i in lanes(m.mask) {
        m.r.w[row.d as usize][i] = value;
    }
    Flow::Next
}

fn read_clock_d(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.world.clock += 1;
    m.world.communicate();
    let value = m.world.clock;
    for i in lanes(m.mask) {
        m.r.d[row.d as usize][i] = value;
    }
    Flow::Next
}

/// The type of each part of a vector that fills `ty`: registers have exactly its size.
fn part_type(d: &Decoder<'_>, parts: &[Operand], ty: Type) -> Result<Type, Refusal> {
    let part = match ty.bytes() * 8 / parts.len().max(1) {
        64 => Type::B64,
        32 => Type::B32,
        16 => Type::B16,
        8 => Type::B8,
        _ => return Err(format!("a vector of {} parts of {ty}", parts.len())),
    };
    for name in parts.iter().filter_map(|p| if let Operand::Name(name) = p { Some(name) } else { None }) {
        if let Some(bytes) = d.register(name).map(|r| r.ty.bytes()).filter(|bytes| *bytes != part.bytes()) {
            let [has, wanted] = [bytes, part.bytes()].map(|bytes| 8 * bytes);
            return Err(format!("`{name}` has {has} bits, but each of {} parts has {wanted}", parts.len()));
        }
    }
    Ok(part)
}

fn unpack(d: &mut Decoder<'_>, parts: &[Operand], from: &Operand, ty: Type) -> Result<(), Refusal> {
    let part_type = part_type(d, parts, ty)?;
    let width = part_type.bytes() * 8;
    // The source may be among the destinations, so it is read completely first if that matters.
    match ty.bytes() {
        16 if width == 64 => {
            let a = d.src_d(from, ty)?;
            for (n, part) in parts.iter().enumerate() {
                if *part != Operand::Sink {
                    let to = d.dst_d(part)?;
                    d.push(Row { d: to, a: a + n as u32, ..Row::new(move_d()) });
                }
            }
            Ok(())
        }
        8 | 16 => {
            let a = d.src_d(from, ty)?;
            for (n, element) in parts.iter().enumerate() {
                if *element == Operand::Sink {
                    continue;
                }
                let to = d.dst_as(element, part_type)?;
                let bit = n * width;
                let slot = a + (bit / 64) as u32;
                let row = part((bit % 64) as u32, width as u32);
                d.push(Row { d: to, a: slot, exec: part_of_wide(), ..row });
            }
            Ok(())
        }
        4 | 2 => {
            let mut a = d.src(from, ty)?;
            if parts.iter().any(|p| p == from) {
                let copy = d.fresh(Type::B32).slot;
                d.push(Row { d: copy, a, ..Row::new(move_w()) });
                a = copy;
            }
            for (n, element) in parts.iter().enumerate() {
                if *element != Operand::Sink {
                    let to = d.dst_as(element, part_type)?;
                    d.push(Row { d: to, a, ..part((n * width) as u32, width as u32) });
                }
            }
            Ok(())
        }
        _ => Err(format!("a vector of {} parts of {ty}", parts.len())),
    }
}

fn pack(d: &mut Decoder<'_>, to: &Operand, parts: &[Operand], ty: Type) -> Result<(), Refusal> {
    let part_type = part_type(d, parts, ty)?;
    let width = part_type.bytes() * 8;
    if ty == Type::B128 && width == 64 {
        let to = d.dst_as(to, ty)?;
        let parts: Vec<u32> = parts.iter().map(|p| d.src_d(p, part_type)).collect::<Result<_, _>>()?;
        for (n, a) in parts.into_iter().enumerate() {
            d.push(Row { d: to + n as u32, a, ..Row::new(move_d()) });
        }
        return Ok(());
    }
    let list: Vec<u32> = parts.iter().map(|p| d.src(p, part_type)).collect::<Result<_, _>>()?;
    let imm = width as u64;
    match ty.bytes() {
        16 => {
            let to = d.dst_as(to, ty)?;
            let (low, high) = list.split_at(list.len() / 2);
            d.push(Row { d: to, list: low.into(), imm, ..Row::new(pack_d) });
            d.push(Row { d: to + 1, list: high.into(), imm, ..Row::new(pack_d) });
        }
        8 if let [a, b] = list[..] => {
            let both = by_lane!(|a: u32, b: u32| -> u64 { u64::from(b) << 32 | u64::from(a) });
            let row = Row { d: d.dst_d(to)?, a, b, ..Row::new(both) };
            d.push(row);
        }
        4 if let [a, b] = list[..] => {
            let row = Row { d: d.dst_as(to, ty)?, a, b, ..Row::new(w!(|a, b| b << 16 | a & 0xFFFF)) };
            d.push(row);
        }
        8 => {
            let to = d.dst_d(to)?;
            d.push(Row { d: to, list: list.into(), imm, ..Row::new(pack_d) });
        }
        _ => {
            let to = d.dst_as(to, ty)?;
            d.push(Row { d: to, list: list.into(), imm, ..Row::new(pack_w) });
        }
    }
    Ok(())
}

/// The space of a modifier.
pub(crate) fn space(words: &mut Words<'_>) -> Option<Space> {
    let named = [
        ("global", Space::Global),
        ("shared", Space::Shared),
        ("shared::cta", Space::Shared),
        ("shared::cluster", Space::Cluster),
        ("local", Space::Local),
        ("const", Space::Const),
        ("param", Space::Param),
        ("param::entry", Space::Param),
        ("param::func", Space::Param),
    ];
    named.into_iter().find_map(|(word, space)| words.take(word).then_some(space))
}

fn decode_cvta(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let to_space = words.take("to");
    let space = space(&mut words).ok_or("cvta names a state space")?;
    let ty = words.ty()?;
    words.done()?;
    let [to, from] = i.operands.as_slice() else { return Err("cvta takes two operands".to_owned()) };
    if ty.bytes() != 8 {
        return Err("32-bit generic addresses".to_owned());
    }
    let out = d.dst_d(to)?;
    // `cvta.shared.u64 d, variable` takes the variable's address in its space.
    let a = match from {
        Operand::Name(name) if d.register(name).is_none() => {
            let constant = d.address_of(name, 0, false)?;
            match (constant, d.symbol(name)) {
                (
                    _,
                    Some(
                        Symbol::Param(_)
                        | Symbol::Local(_)
                        | Symbol::Shared(_)
                        | Symbol::Const(_)
                        | Symbol::Global(_)
                        | Symbol::DynamicShared(_),
                    ),
                ) => d.src_d(from, ty)?,
                _ => return Err(format!("`{name}` has no address")),
            }
        }
        Operand::Name(name) => match d.register(name) {
            // A shared address in a 32-bit register.
            Some(Register { bank: Bank::W, .. }) => {
                let (wide, a) = (d.fresh(Type::B64).slot, d.src(from, Type::B32)?);
                d.push(Row { d: wide, a, ..Row::new(widen()) });
                wide
            }
            _ => d.src_d(from, ty)?,
        },
        _ => d.src_d(from, ty)?,
    };
    let exec = match (to_space, space) {
        (_, Space::Global | Space::Generic) => move_d(),
        (false, Space::Shared | Space::Cluster) => {
            |m: &mut Machine<'_>, row: &Row| m.wide1(row, |a| SHARED_WINDOW + a)
        }
        (false, Space::Local) => |m: &mut Machine<'_>, row: &Row| m.wide1(row, |a| LOCAL_WINDOW + a),
        (false, Space::Const) => {
            |m: &mut Machine<'_>, row: &Row| m.wide1(row, |a| Machine::generic(Space::Const, a))
        }
        (false, Space::Param) => {
            |m: &mut Machine<'_>, row: &Row| m.wide1(row, |a| Machine::generic(Space::Param, a))
        }
        (true, Space::Shared | Space::Cluster) => {
            |m: &mut Machine<'_>, row: &Row| to_window(m, row, Window::Shared)
        }
        (true, Space::Local) => |m: &mut Machine<'_>, row: &Row| to_window(m, row, Window::Local),
        (true, Space::Const) => |m: &mut Machine<'_>, row: &Row| to_window(m, row, Window::Const),
        (true, Space::Param) => |m: &mut Machine<'_>, row: &Row| to_window(m, row, Window::Param),
    };
    d.push(Row { d: out, a, ..Row::new(exec) });
    Ok(())
}

/// Addresses of another space have no meaning here; the use is the fault, since the conversion may precede a
/// branch that tests the space.
fn to_window(m: &mut Machine<'_>, row: &Row, window: Window) -> Flow {
    m.wide1(row, |a| {
        let (w, at) = window_of(a);
        if w == window { at } else { a }
    })
}

fn decode_isspacep(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let space = space(&mut words).ok_or("isspacep names a state space")?;
    words.done()?;
    let [to, from] = i.operands.as_slice() else { return Err("isspacep takes two operands".to_owned()) };
    let (to, a) = (d.dst_p(to)?, d.src_d(from, Type::B64)?);
    let imm = match space {
        Space::Global | Space::Generic => 0,
        Space::Cluster => 1,
        Space::Local => 2,
        Space::Const => 3,
        Space::Param => 4,
        Space::Shared => 5,
    };
    d.push(Row { d: to, a, imm, ..Row::new(is_space) });
    Ok(())
}

fn is_space(m: &mut Machine<'_>, row: &Row) -> Flow {
    let wanted =
        [Window::Global, Window::Shared, Window::Local, Window::Const, Window::Param, Window::Shared]
            [row.imm as usize % 6];
    // `.shared` is the window of this CTA, within that of the cluster.
    let own = row.imm == 5;
    let base = m.cta.member.base();
    let a = m.r.d[row.a as usize];
    let within = |address: u64| {
        let (window, at) = window_of(address);
        window == wanted && (!own || (at ^ base) >> RANK_SHIFT == 0)
    };
    let bits = (0..LANES).filter(|i| within(a[*i])).fold(0u32, |t, i| t | 1 << i);
    m.set_predicate(row.d, bits);
    Flow::Next
}

fn decode_mapa(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let shared = words.take("shared::cluster");
    let ty = words.ty()?;
    words.done()?;
    let [to, from, rank] = i.operands.as_slice() else { return Err("mapa takes three operands".to_owned()) };
    let b = d.src(rank, Type::U32)?;
    if ty.bytes() == 8 {
        let (to, a) = (d.dst_d(to)?, d.src_d(from, ty)?);
        d.push(Row { d: to, a, b, imm: if shared { SHARED_WIDE } else { GENERIC }, ..Row::new(map_rank) });
    } else {
        let (to, a) = (d.dst(to)?, d.src(from, ty)?);
        d.push(Row { d: to, a, b, ..Row::new(map_rank) });
    }
    Ok(())
}

/// A rank that no cluster has: the address of such a CTA is wrong only when used, since compilers compute it early.
const NO_RANK: u64 = 0xFF;

/// 64-bit `mapa`: of a generic address, or of a shared one.
const GENERIC: u64 = 1;
const SHARED_WIDE: u64 = 2;

fn map_rank(m: &mut Machine<'_>, row: &Row) -> Flow {
    let rank = m.r.w[row.b as usize];
    for i in lanes(m.mask) {
        let rank = u64::from(rank[i]).min(NO_RANK) << RANK_SHIFT;
        if row.imm != 0 {
            let a = m.r.d[row.a as usize][i];
            let known = row.imm == SHARED_WIDE || window_of(a).0 == Window::Shared;
            m.r.d[row.d as usize][i] = if known { a & !(NO_RANK << RANK_SHIFT) | rank } else { a };
        } else {
            m.r.w[row.d as usize][i] = m.r.w[row.a as usize][i] & ((1 << RANK_SHIFT) - 1) | rank as u32;
        }
    }
    Flow::Next
}

fn decode_getctarank(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let shared = words.take("shared::cluster");
    let ty = words.ty()?;
    words.done()?;
    let [to, from] = i.operands.as_slice() else { return Err("getctarank takes two operands".to_owned()) };
    let to = d.dst(to)?;
    let a = if ty.bytes() == 8 && !(shared && is_narrow(d, from)) {
        d.src_d(from, ty)?
    } else {
        let (wide, a) = (d.fresh(Type::B64).slot, d.src(from, Type::B32)?);
        d.push(Row { d: wide, a, ..Row::new(widen()) });
        wide
    };
    d.push(Row { d: to, a, ..Row::new(rank_of) });
    Ok(())
}

fn is_narrow(d: &Decoder<'_>, operand: &Operand) -> bool {
    matches!(operand, Operand::Name(name) if d.register(name).is_some_and(|r| r.bank == Bank::W))
}

fn rank_of(m: &mut Machine<'_>, row: &Row) -> Flow {
    for i in lanes(m.mask) {
        m.r.w[row.d as usize][i] = (m.r.d[row.a as usize][i] >> RANK_SHIFT & NO_RANK) as u32;
    }
    Flow::Next
}

/// A special register of one bit, as a predicate.
fn is_set(m: &mut Machine<'_>, row: &Row) -> Flow {
    let a = m.r.w[row.a as usize];
    let bits = (0..LANES).filter(|i| a[*i] != 0).fold(0u32, |t, i| t | 1 << i);
    m.set_predicate(row.d, bits);
    Flow::Next
}
