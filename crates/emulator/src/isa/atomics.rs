//! Atomic operations (PTX ISA 9.7.15): `atom` and `red`; the asynchronous forms are in `async_store.rs`.
//!
//! Lanes execute one after another, lowest first. Orders and scopes do not change the values read, since memory is sequentially
//! consistent here; the race detector uses them.

use numerics::Rounding;
use numerics::float::{add_f32, add_f64, add_f64_in_memory};
use ptx::{Instruction, Operand, Type};

use super::elements::stored;
use super::memory::resolve;
use super::moves::space;
use super::{FormRow, Words};
use crate::api::trap::{Fault, Rule};
use crate::copies::reduce::{Combine, Reduce};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::registers::Bank;
use crate::front::words::Refusal;
use crate::memory::window::{Window, window_of};
use crate::rules::float_sums::FloatType;
use crate::rules::order::{Order, Scope, Strong, Touch};
use crate::run::machine::{Flow, LANES, Machine, Space, lanes};

pub(super) const CHAPTER: &str = "Parallel Synchronization: atomic operations";

pub(crate) const ROWS: &[FormRow] = &[
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

/// The operation of an atomic row on each element.
#[derive(Clone, Copy)]
enum Action {
    Combine(Combine),
    /// An operation on both halves of a word.
    Halves(Combine),
    /// `add.f32`, which flushes subnormals in global memory unless `.noftz` is given, and keeps them in shared memory.
    AddSingle {
        flush: bool,
    },
    /// `add.f64`. In shared memory it is a loop around an addition of the operand and the value in memory.
    AddDouble,
    Exchange,
    /// Compare with `b`, replace with `c`.
    Swap,
}

#[derive(Clone)]
/// The extra of an atomic row. `list` holds destinations, then sources, then (for `cas`) replacements.
struct Atomic {
    action: Action,
    space: Space,
    /// Bytes of an element.
    bytes: usize,
    /// Elements, each a slot of the 64-bit bank if `wide`.
    count: usize,
    wide: bool,
    /// `atom` writes destinations, `red` has none.
    returns: bool,
    /// Whether some instruction reads a destination ([`mark_unused`]).
    used: bool,
    order: Order,
    /// Whether the order of such atomics on one element does not change what becomes of it.
    commutes: bool,
    /// The type that it adds, if it adds floats.
    sum: Option<FloatType>,
}

pub(super) const OPS: [&str; 10] = ["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"];

fn decode_atom(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let returns = i.opcode == "atom";
    let mut words = Words::from_instruction(i);
    let order = Order::take(&mut words, Order::relaxed(Scope::Gpu));
    let named = space(&mut words).unwrap_or(Space::Generic);
    let op = words.one_of(&OPS).ok_or("an atomic requires an operation")?;
    let noftz = words.take("noftz");
    let hint = words.take("L2::cache_hint");
    let count = vector(&mut words);
    let ty = words.ty()?;
    words.done()?;
    if matches!(named, Space::Local | Space::Const | Space::Param) {
        return Err("atomics work on global and shared memory".to_owned());
    }
    let action = action(op, ty, returns, noftz)?;
    let half = matches!(ty, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2);
    let known = match ty {
        Type::F16 | Type::Bf16 => op == "add" || count > 1,
        Type::F16x2 | Type::Bf16x2 => count <= 4 && (op == "add" || count > 1),
        Type::F32 => count <= 4,
        _ => count == 1,
    };
    if !known || half != noftz && ty != Type::F32 {
        return Err(format!("there is no such {op} of {count} {ty}; halves require .noftz"));
    }
    let mut operands = i.operands.iter();
    let to = if returns { operands.next() } else { None };
    let at = operands.next().ok_or("an atomic requires an address")?;
    let mut rest: Vec<&Operand> = operands.collect();
    if hint {
        rest.pop();
    }
    let (sources, replacements) = match (action, rest.as_slice()) {
        (Action::Swap, [b, c]) => (*b, Some(*c)),
        (Action::Swap, _) => return Err("cas takes two sources".to_owned()),
        (_, [b]) => (*b, None),
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
            put(&mut list, ty, d.dst_as(target, ty)?);
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
    let (bytes, count) = if ty == Type::B128 { (8, 2) } else { (ty.bytes(), count) };
    let flush = matches!(action, Action::AddSingle { flush: true });
    let sum = FloatType::added(ty, flush).filter(|_| op == "add");
    let integer = !half && !matches!(ty, Type::F32 | Type::F64);
    let commutes = integer && matches!(op, "add" | "min" | "max" | "and" | "or" | "xor");
    let extra = Atomic { action, space, bytes, count, wide, returns, used: returns, order, commutes, sum };
    let row = Row {
        a,
        b: space.number(),
        imm: offset as u64,
        list: list.into(),
        extra: Some(Box::new(extra)),
        ..Row::new(atomic)
    };
    d.push(row);
    Ok(())
}

/// Marks an atomic whose old value no instruction uses.
///
/// A compiler writes `atom` where the program ignores the result. A thread that does not look at the old value cannot know which
/// other read-modify-writes came before its own, so that its access orders none of them ([`Touch::Reduce`]).
pub(super) fn mark_unused(row: &mut Row) {
    if let Some(unused) = row.extra::<Atomic>().map(|atomic| Atomic { used: false, ..atomic.clone() }) {
        row.extra = Some(Box::new(unused));
    }
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

fn action(op: &str, ty: Type, returns: bool, noftz: bool) -> Result<Action, Refusal> {
    match (op, ty) {
        ("exch", Type::B32 | Type::B64 | Type::B128) if returns => Ok(Action::Exchange),
        ("cas", Type::B16 | Type::B32 | Type::B64 | Type::B128) if returns => Ok(Action::Swap),
        ("add", Type::F32) => Ok(Action::AddSingle { flush: !noftz }),
        ("add", Type::F64) => Ok(Action::AddDouble),
        (_, Type::F16x2) => Ok(Action::Halves(Reduce::from_op(op, Type::F16)?.combine())),
        (_, Type::Bf16x2) => Ok(Action::Halves(Reduce::from_op(op, Type::Bf16)?.combine())),
        _ => Ok(Action::Combine(Reduce::from_op(op, ty)?.combine())),
    }
}

fn atomic(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(atomic) = row.extra::<Atomic>() else { return Flow::Next };
    let mut replaced = Undefined::default();
    let touch = if atomic.used { Touch::Modify } else { Touch::Reduce };
    m.log_lanes(row, atomic.space, atomic.bytes * atomic.count, touch);
    let strong = Strong { order: atomic.order, touch };
    let together = match atomic.bytes {
        4 => at_once::<4>(m, row, atomic, strong),
        8 => at_once::<8>(m, row, atomic, strong),
        _ => None,
    };
    if together.is_some() {
        m.compare_lanes();
        return stored(m, Space::numbered(row.b));
    }
    for lane in lanes(m.mask) {
        let address = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
        if let Err(fault) = m.strongly(strong, |m| lane_atomic(m, row, atomic, address, lane, &mut replaced))
        {
            return m.fail(fault.at(lane));
        }
    }
    m.compare_lanes();
    let flow = stored(m, Space::numbered(row.b));
    match replaced.0 {
        None => flow,
        Some(bits) => {
            let bank = if atomic.wide { Bank::D } else { Bank::W };
            m.loads_undefined(&row.list[..atomic.count], bank, |n, lane| bits[lane][n])
        }
    }
}

/// Executes an atomic of one element for all lanes, if nothing about its memory is unusual.
fn at_once<const T: usize>(m: &mut Machine<'_>, row: &Row, atomic: &Atomic, strong: Strong) -> Option<()> {
    if atomic.count != 1 {
        return None;
    }
    let address = m.r.d[row.a as usize][m.mask.trailing_zeros() as usize % LANES].wrapping_add(row.imm);
    let window = atomic.window(address);
    let source = *row.list.get(usize::from(atomic.returns))?;
    // A comparison that fails is a read to the race detector. Apart from it, it counts as a modification, which conflicts with more.
    let swap = matches!(atomic.action, Action::Swap);
    if swap && !(window == Window::Global && m.world.checks_apart()) {
        return None;
    }
    let replacement = if swap { Some(*row.list.get(usize::from(atomic.returns) + 1)?) } else { None };
    let how = (strong, atomic.commutes && !atomic.used);
    let operands: [u64; LANES] = std::array::from_fn(|lane| value(m, atomic, source, lane));
    let replacements: Option<[u64; LANES]> =
        replacement.map(|slot| std::array::from_fn(|lane| value(m, atomic, slot, lane)));
    let to = (row.a, m.reach::<T>(row.a));
    let space = atomic.space;
    let held = match (&replacements, atomic.action) {
        (Some(new), _) => m.modify_lines::<T>(space, to, row.imm, how, |lane, held| {
            if element(held) == operands[lane] { bytes(new[lane]) } else { held }
        }),
        // The most frequent ones, without a decision for each lane.
        (None, Action::Combine(op)) => m.modify_lines::<T>(space, to, row.imm, how, |lane, held| {
            bytes(op(element(held), operands[lane]))
        }),
        (None, action) => m.modify_lines::<T>(space, to, row.imm, how, |lane, held| {
            bytes(combined(action, window, element(held), operands[lane]))
        }),
    }?;
    if atomic.returns {
        let to = row.list[0] as usize;
        for lane in lanes(m.mask) {
            match atomic.wide {
                true => m.r.d[to][lane] = element(held[lane]),
                false => m.r.w[to][lane] = element(held[lane]) as u32,
            }
        }
    }
    Some(())
}

/// An element of up to 8 bytes, zero-extended.
#[inline(always)]
fn element<const T: usize>(bytes: [u8; T]) -> u64 {
    let mut all = [0; 8];
    all[..T].copy_from_slice(&bytes);
    u64::from_le_bytes(all)
}

/// The low bytes of an element.
#[inline(always)]
fn bytes<const T: usize>(element: u64) -> [u8; T] {
    let mut low = [0; T];
    low.copy_from_slice(&element.to_le_bytes()[..T]);
    low
}

impl Atomic {
    /// The window of an address.
    fn window(&self, address: u64) -> Window {
        match self.space {
            Space::Generic => window_of(address).0,
            Space::Shared | Space::Cluster => Window::Shared,
            _ => Window::Global,
        }
    }
}

/// What an element becomes, for all actions but comparing exchanges.
fn combined(action: Action, window: Window, old: u64, operand: u64) -> u64 {
    match action {
        Action::Combine(op) => op(old, operand),
        Action::Halves(op) => {
            let high = |word: u64| word >> 16;
            op(old & 0xFFFF, operand & 0xFFFF) | op(high(old), high(operand)) << 16
        }
        Action::AddSingle { flush } => {
            let flush = flush && window == Window::Global;
            u64::from(add_f32(old as u32, operand as u32, Rounding::NearestEven, flush, false))
        }
        Action::AddDouble if window == Window::Global => add_f64_in_memory(old, operand),
        Action::AddDouble => add_f64(operand, old, Rounding::NearestEven),
        Action::Exchange | Action::Swap => operand,
    }
}

/// By lane and element, the undefined bits of the value that an exchange replaced: it depends on none of the operands.
#[derive(Default)]
struct Undefined(Option<Box<[[u64; 2]; LANES]>>);

impl Undefined {
    /// Reads an element that will be replaced.
    fn read(
        &mut self,
        m: &mut Machine<'_>,
        atomic: &Atomic,
        at: u64,
        lane: usize,
        n: usize,
    ) -> Result<u64, Fault> {
        let value = match atomic.bytes {
            4 => u64::from(u32::from_le_bytes(m.load_replaced(atomic.space, at, lane)?)),
            _ => u64::from_le_bytes(m.load_replaced(atomic.space, at, lane)?),
        };
        if let Some(loaded) = m.loaded.take() {
            let mut bits = [0; 8];
            bits.copy_from_slice(&loaded[lane][..8]);
            self.0.get_or_insert_default()[lane][n % 2] = u64::from_le_bytes(bits);
        }
        Ok(value)
    }
}

fn lane_atomic(
    m: &mut Machine<'_>,
    row: &Row,
    atomic: &Atomic,
    address: u64,
    lane: usize,
    replaced: &mut Undefined,
) -> Result<(), Fault> {
    let Atomic { bytes, count, .. } = *atomic;
    Machine::aligned(address, bytes * count)?;
    let window = atomic.window(address);
    if !matches!(window, Window::Global | Window::Shared) {
        let what = format!("an atomic operation on {window} memory, at {address:#x}");
        return Err(Fault::new(Rule::WrongSpace, what));
    }
    let from = if atomic.returns { count } else { 0 };
    let mut old = [0u64; 8];
    let mut new = [0u64; 8];
    for n in 0..count {
        let at = address + (n * bytes) as u64;
        old[n] = match atomic.action {
            Action::Exchange => replaced.read(m, atomic, at, lane, n)?,
            _ => read(m, atomic.space, at, lane, bytes)?,
        };
        new[n] = value(m, atomic, row.list[from + n], lane);
    }
    let compared = new;
    if matches!(atomic.action, Action::Swap) {
        // The elements of a 128-bit value are compared together.
        let same = old[..count] == new[..count];
        for n in 0..count {
            new[n] = if same { value(m, atomic, row.list[from + count + n], lane) } else { old[n] };
        }
    } else {
        (0..count).for_each(|n| new[n] = combined(atomic.action, window, old[n], new[n]));
    }
    // A comparison that fails writes nothing, and therefore releases nothing.
    let writes = !matches!(atomic.action, Action::Swap) || old[..count] == compared[..count];
    // Each write would end the sums that it continues.
    let sums = atomic.sum.map(|_| std::mem::take(&mut m.world.global.sums));
    let written = (0..if writes { count } else { 0 })
        .try_for_each(|n| write(m, atomic.space, address + (n * bytes) as u64, lane, bytes, new[n]));
    if let Some((mut sums, ty)) = sums.zip(atomic.sum) {
        if window == Window::Global && sums.tracked() {
            let all = |words: &[u64]| -> Vec<u8> {
                words[..count].iter().flat_map(|w| w.to_le_bytes().into_iter().take(bytes)).collect()
            };
            sums.add_all(address, ty, &all(&old), &all(&compared));
        }
        m.world.global.sums = sums;
    }
    written?;
    for n in 0..count {
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
