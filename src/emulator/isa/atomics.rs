//! Atomic operations (PTX ISA 9.7.15): `atom` and `red`; the asynchronous forms are next door.
//!
//! Lanes go one after the other, lowest first. Orders and scopes say nothing here, where memory is sequentially consistent;
//! they are the race observer's business.

use super::memory::{numbered, resolve, space_number, stored};
use super::moves::space;
use super::{FormRow, Words};
use crate::emulator::decode::{Decoder, Refusal};
use crate::emulator::machine::{Flow, Machine, Space, lanes};
use crate::emulator::memory::{Window, window_of};
use crate::emulator::program::Row;
use crate::emulator::trap::{Fault, Law};
use crate::num::Rounding;
use crate::num::float;
use crate::ptx::{Instruction, Operand, Type};

pub(super) const CHAPTER: &str = "Parallel Synchronization: atomic operations";

pub(in crate::emulator) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "atom",
        "atom{.sem}{.scope}{.space}.{add,min,max,and,or,xor,exch,cas,inc,dec}{.noftz}{.vec}.type",
        decode_atom,
    ),
    FormRow::new(
        CHAPTER,
        "red",
        "red{.sem}{.scope}{.space}.{add,min,max,and,or,xor,inc,dec}{.noftz}{.vec}.type",
        decode_atom,
    ),
    FormRow::out_of_scope(CHAPTER, "multimem", "multimem.*: multicast addresses need several devices"),
];

/// The new value of one element: what memory holds, the operand, and whether subnormals are flushed.
pub(super) type Op = fn(u64, u64, bool) -> u64;

/// What an atomic row does with each element.
#[derive(Clone, Copy)]
enum Action {
    Op(Op),
    Exchange,
    /// Compare with `b`, replace with `c`.
    Swap,
}

/// The extra of an atomic row. `list` holds destinations, then sources, then (for `cas`) replacements.
struct Atomic {
    action: Action,
    space: Space,
    /// Bytes of an element.
    bytes: usize,
    /// Elements, each a slot of the 64-bit bank when `wide`.
    count: usize,
    wide: bool,
    /// `atom` writes destinations, `red` has none.
    returns: bool,
    /// A plain `add.f32` flushes subnormals in global memory and keeps them in shared memory.
    flush: bool,
}

pub(super) const OPS: [&str; 10] = ["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"];

pub(super) fn skip_order(words: &mut Words<'_>) {
    for word in ["relaxed", "acquire", "release", "acq_rel", "weak", "mmio", "cta", "cluster", "gpu", "sys"] {
        words.take(word);
    }
}

fn decode_atom(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let returns = i.opcode == "atom";
    let mut words = Words::of(i);
    skip_order(&mut words);
    let named = space(&mut words).unwrap_or(Space::Generic);
    let op = words.one_of(&OPS).ok_or("an atomic wants an operation")?;
    let noftz = words.take("noftz");
    let hint = words.take("L2::cache_hint");
    let count = vector(&mut words);
    let ty = words.ty()?;
    words.done()?;
    if matches!(named, Space::Local | Space::Const | Space::Param) {
        return Err("atomics work on global and shared memory".to_owned());
    }
    let action = action(op, ty, returns)?;
    let half = matches!(ty, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2);
    if half && !noftz && !matches!(action, Action::Exchange | Action::Swap) {
        return Err(format!("{op}.{ty:?} wants .noftz"));
    }
    let mut operands = i.operands.iter();
    let to = if returns { operands.next() } else { None };
    let at = operands.next().ok_or("an atomic wants an address")?;
    let mut rest: Vec<&Operand> = operands.collect();
    if hint {
        rest.pop();
    }
    let (sources, replacements) = match (action, rest.as_slice()) {
        (Action::Swap, [b, c]) => (*b, Some(*c)),
        (Action::Op(_) | Action::Exchange, [b]) => (*b, None),
        _ => return Err(format!("{op} does not take {} sources", rest.len())),
    };
    let space = resolve(d, at, named);
    let (a, offset) = d.address(at)?;
    let wide = ty.bytes() >= 8;
    let mut list = Vec::new();
    if let Some(to) = to {
        let targets = Decoder::elements(to);
        // `_` stands for a whole vector.
        for n in 0..count {
            let target =
                if *to == Operand::Sink { to } else { targets.get(n).ok_or("too few destinations")? };
            put(&mut list, ty, if wide { d.dst_d(target)? } else { d.dst(target)? });
        }
    }
    for source in [Some(sources), replacements].into_iter().flatten() {
        let elements = Decoder::elements(source);
        if elements.len() != count {
            return Err(format!("{} sources for {count} elements", elements.len()));
        }
        for element in elements {
            put(&mut list, ty, if wide { d.src_d(element, ty)? } else { d.src(element, ty)? });
        }
    }
    let flush = ty == Type::F32 && op == "add" && !noftz;
    let (bytes, count) = if ty == Type::B128 { (8, 2) } else { (ty.bytes(), count) };
    let extra = Atomic { action, space, bytes, count, wide, returns, flush };
    let row = Row {
        a,
        b: space_number(space),
        imm: offset as u64,
        list: list.into(),
        extra: Some(Box::new(extra)),
        ..Row::new(atomic)
    };
    d.push(row);
    Ok(())
}

/// A 128-bit register is two slots of the 64-bit bank.
fn put(list: &mut Vec<u32>, ty: Type, slot: u32) {
    list.push(slot);
    if ty == Type::B128 {
        list.push(slot + 1);
    }
}

pub(super) fn vector(words: &mut Words<'_>) -> usize {
    match words.one_of(&["v2", "v4", "v8"]) {
        Some("v2") => 2,
        Some("v4") => 4,
        Some(_) => 8,
        None => 1,
    }
}

fn action(op: &str, ty: Type, returns: bool) -> Result<Action, Refusal> {
    match (op, ty) {
        ("exch", Type::B32 | Type::B64 | Type::B128) if returns => Ok(Action::Exchange),
        ("cas", Type::B16 | Type::B32 | Type::B64 | Type::B128) if returns => Ok(Action::Swap),
        _ => Ok(Action::Op(operation(op, ty).ok_or_else(|| format!("atomic {op} on {ty:?}"))?)),
    }
}

pub(super) fn operation(op: &str, ty: Type) -> Option<Op> {
    use Type::{B32, B64, Bf16, Bf16x2, F16, F16x2, F32, F64, S32, S64, U32, U64};
    Some(match (op, ty) {
        ("add", U32 | S32) => |x, y, _| u64::from((x as u32).wrapping_add(y as u32)),
        ("add", U64 | S64) => |x, y, _| x.wrapping_add(y),
        ("add", F32) => {
            |x, y, ftz| u64::from(float::add_f32(x as u32, y as u32, Rounding::NearestEven, ftz, false))
        }
        ("add", F64) => |x, y, _| float::add_f64(x, y, Rounding::NearestEven),
        ("add", F16) => |x, y, _| half(x, y, |x, y| float::add_f16(x, y, false, false)),
        ("add", Bf16) => |x, y, _| half(x, y, |x, y| float::add_bf16(x, y, false, false)),
        ("add", F16x2) => |x, y, _| halves(x, y, |x, y| float::add_f16(x, y, false, false)),
        ("add", Bf16x2) => |x, y, _| halves(x, y, |x, y| float::add_bf16(x, y, false, false)),
        ("min", U32) => |x, y, _| u64::from((x as u32).min(y as u32)),
        ("max", U32) => |x, y, _| u64::from((x as u32).max(y as u32)),
        ("min", S32) => |x, y, _| u64::from((x as i32).min(y as i32) as u32),
        ("max", S32) => |x, y, _| u64::from((x as i32).max(y as i32) as u32),
        ("min", U64) => |x, y, _| x.min(y),
        ("max", U64) => |x, y, _| x.max(y),
        ("min", S64) => |x, y, _| (x as i64).min(y as i64) as u64,
        ("max", S64) => |x, y, _| (x as i64).max(y as i64) as u64,
        ("min", F16) => |x, y, _| half(x, y, |x, y| float::min_f16(x, y, false, false, false)),
        ("max", F16) => |x, y, _| half(x, y, |x, y| float::max_f16(x, y, false, false, false)),
        ("min", Bf16) => |x, y, _| half(x, y, |x, y| float::min_bf16(x, y, false, false, false)),
        ("max", Bf16) => |x, y, _| half(x, y, |x, y| float::max_bf16(x, y, false, false, false)),
        ("min", F16x2) => |x, y, _| halves(x, y, |x, y| float::min_f16(x, y, false, false, false)),
        ("max", F16x2) => |x, y, _| halves(x, y, |x, y| float::max_f16(x, y, false, false, false)),
        ("min", Bf16x2) => |x, y, _| halves(x, y, |x, y| float::min_bf16(x, y, false, false, false)),
        ("max", Bf16x2) => |x, y, _| halves(x, y, |x, y| float::max_bf16(x, y, false, false, false)),
        ("and", B32 | B64) => |x, y, _| x & y,
        ("or", B32 | B64) => |x, y, _| x | y,
        ("xor", B32 | B64) => |x, y, _| x ^ y,
        ("inc", U32) => |x, y, _| if x >= y { 0 } else { x + 1 },
        ("dec", U32) => |x, y, _| if x == 0 || x > y { y } else { x - 1 },
        _ => return None,
    })
}

fn half(x: u64, y: u64, op: impl Fn(u16, u16) -> u16) -> u64 {
    u64::from(op(x as u16, y as u16))
}

fn halves(x: u64, y: u64, op: impl Fn(u16, u16) -> u16) -> u64 {
    let (low, high) = (op(x as u16, y as u16), op((x >> 16) as u16, (y >> 16) as u16));
    u64::from(low) | u64::from(high) << 16
}

fn atomic(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(atomic) = row.extra::<Atomic>() else { return Flow::Next };
    for lane in lanes(m.mask) {
        let address = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
        if let Err(fault) = m.strongly(|m| lane_atomic(m, row, atomic, address, lane)) {
            return m.fail(fault.at(lane));
        }
    }
    stored(m, numbered(row.b))
}

fn lane_atomic(
    m: &mut Machine<'_>,
    row: &Row,
    atomic: &Atomic,
    address: u64,
    lane: usize,
) -> Result<(), Fault> {
    let Atomic { bytes, count, .. } = *atomic;
    Machine::aligned(address, bytes * count)?;
    let window = match atomic.space {
        Space::Generic => window_of(address).0,
        Space::Shared => Window::Shared,
        _ => Window::Global,
    };
    if !matches!(window, Window::Global | Window::Shared) {
        let what = format!("an atomic operation on {window:?} memory, at {address:#x}");
        return Err(Fault::new(Law::WrongSpace, what));
    }
    let from = if atomic.returns { count } else { 0 };
    let mut old = [0u64; 8];
    let mut new = [0u64; 8];
    for n in 0..count {
        let at = address + (n * bytes) as u64;
        old[n] = read(m, atomic.space, at, lane, bytes)?;
        new[n] = value(m, atomic, row.list[from + n], lane);
    }
    match atomic.action {
        Action::Op(op) => {
            let flush = atomic.flush && window == Window::Global;
            for n in 0..count {
                new[n] = op(old[n], new[n], flush);
            }
        }
        Action::Exchange => {}
        Action::Swap => {
            // The elements of a 128-bit value are compared together.
            let same = old[..count] == new[..count];
            for n in 0..count {
                new[n] = if same { value(m, atomic, row.list[from + count + n], lane) } else { old[n] };
            }
        }
    }
    for n in 0..count {
        write(m, atomic.space, address + (n * bytes) as u64, lane, bytes, new[n])?;
        if atomic.returns {
            match atomic.wide {
                true => m.r.d[row.list[n] as usize][lane] = old[n],
                false => m.r.w[row.list[n] as usize][lane] = old[n] as u32,
            }
        }
    }
    Ok(())
}

fn value(m: &Machine<'_>, atomic: &Atomic, slot: u32, lane: usize) -> u64 {
    match atomic.wide {
        true => m.r.d[slot as usize][lane],
        false => u64::from(m.r.w[slot as usize][lane]) & (u64::MAX >> (64 - 8 * atomic.bytes)),
    }
}

pub(super) fn read(
    m: &mut Machine<'_>,
    space: Space,
    at: u64,
    lane: usize,
    bytes: usize,
) -> Result<u64, Fault> {
    Ok(match bytes {
        2 => u64::from(u16::from_le_bytes(m.read(space, at, lane)?)),
        4 => u64::from(u32::from_le_bytes(m.read(space, at, lane)?)),
        _ => u64::from_le_bytes(m.read(space, at, lane)?),
    })
}

pub(super) fn write(
    m: &mut Machine<'_>,
    space: Space,
    at: u64,
    lane: usize,
    bytes: usize,
    value: u64,
) -> Result<(), Fault> {
    match bytes {
        2 => m.write(space, at, lane, (value as u16).to_le_bytes()),
        4 => m.write(space, at, lane, (value as u32).to_le_bytes()),
        _ => m.write(space, at, lane, value.to_le_bytes()),
    }
}
