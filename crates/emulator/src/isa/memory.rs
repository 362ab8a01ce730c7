//! Loads and stores (PTX ISA 9.7.9): `ld`, `st`, `ldu`, `prefetch` and cache hints, which have no effect here.

use ptx::{Instruction, Operand, Type};

use super::elements::{load, load_global_word, load_parameter, load_shared_word, store, store_shared_word};
use super::moves::space;
use super::used_bytes::{Reads, load_used, pieces};
use super::{FormRow, Words};
use crate::front::decode::{Decoder, Symbol};
use crate::front::program::{Exec, Row};
use crate::front::registers::Bank;
use crate::front::words::Refusal;
use crate::rules::order::{Order, Strong, Touch};
use crate::run::machine::{Flow, Machine, Space, lanes};

const CHAPTER: &str = "Data Movement: memory";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "ld",
        "ld{.weak,.relaxed,.acquire,.volatile}{.scope}{.space}{.cache}{.vec}.type",
        decode_load,
    ),
    FormRow::new(CHAPTER, "ldu", "ldu{.space}{.vec}.type", decode_load),
    FormRow::new(
        CHAPTER,
        "st",
        "st{.weak,.relaxed,.release,.volatile}{.scope}{.space}{.cache}{.vec}.type",
        decode_store,
    ),
    FormRow::new(
        CHAPTER,
        "prefetch",
        "prefetch{.space}.level, prefetch.tensormap (the alignment of its map is checked)",
        decode_prefetch,
    ),
    FormRow::new(CHAPTER, "prefetchu", "prefetchu.L1", decode_nothing),
    FormRow::new(CHAPTER, "applypriority", "applypriority{.global}.level", decode_nothing),
    FormRow::new(CHAPTER, "discard", "discard{.global}.level", decode_nothing),
    FormRow::new(CHAPTER, "createpolicy", "createpolicy… (the policy has no effect here)", decode_policy),
];

fn decode_nothing(d: &mut Decoder<'_>, _: &Instruction) -> Result<(), Refusal> {
    d.push(Row::new(|_, _| Flow::Next));
    Ok(())
}

fn decode_prefetch(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let named = i.has("param") || i.has("const");
    let Some(map) = i.operands.first().filter(|_| i.has("tensormap") && !named) else {
        return decode_nothing(d, i);
    };
    let (a, offset) = d.address(map)?;
    d.push(Row { a, imm: offset as u64, ..Row::new(prefetch_map) });
    Ok(())
}

/// A tensor map is fetched as a whole, from a multiple of 64 (PTX ISA, prefetch): what is there may still change, and is not read.
fn prefetch_map(m: &mut Machine<'_>, row: &Row) -> Flow {
    for lane in lanes(m.mask) {
        let address = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
        if let Err(fault) = Machine::aligned(address, 64) {
            return m.fail(fault.at(lane));
        }
    }
    Flow::Next
}

fn decode_policy(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let to = i.operands.first().ok_or("createpolicy requires a destination")?;
    let (to, a) = (d.dst_d(to)?, d.bits_d(0));
    d.push(Row { d: to, a, ..Row::new(super::moves::move_d()) });
    Ok(())
}

/// The properties of an access, from the fields of a row.
struct Access {
    space: Space,
    ty: Type,
    count: usize,
    /// `.volatile`, `.relaxed`, `.acquire`, `.release`, `.mmio`.
    order: Option<Order>,
    /// `.nc`: writes of the grid itself may not be seen.
    non_coherent: bool,
}

fn access(i: &Instruction) -> Result<Access, Refusal> {
    let mut words = Words::from_instruction(i);
    let order = Order::take_access(&mut words);
    let space = space(&mut words).unwrap_or(Space::Generic);
    let non_coherent = words.take("nc");
    for word in ["ca", "cg", "cs", "lu", "cv", "wb", "wt", "unified", "L2::cache_hint"] {
        words.take(word);
    }
    while words.prefixed("L1::").is_some() || words.prefixed("L2::").is_some() {}
    let count = match words.one_of(&["v2", "v4", "v8"]) {
        Some("v2") => 2,
        Some("v4") => 4,
        Some(_) => 8,
        None => 1,
    };
    let ty = words.ty()?;
    words.done()?;
    Ok(Access { space, ty, count, order, non_coherent })
}

/// A parameter of a call is in the thread's frame; one of the entry is not.
pub(super) fn resolve(d: &Decoder<'_>, operand: &Operand, space: Space) -> Space {
    match (space, d.address_symbol(operand)) {
        (Space::Param, Some(Symbol::Local(_))) => Space::Local,
        (Space::Generic, Some(Symbol::Local(_))) => Space::Local,
        (Space::Generic, Some(Symbol::Shared(_) | Symbol::DynamicShared(_))) => Space::Shared,
        (Space::Generic, Some(Symbol::Const(_))) => Space::Const,
        (Space::Generic, Some(Symbol::Param(_))) => Space::Param,
        _ => space,
    }
}

/// Bytes of the registers of a load or store. Those of a vector have one size (ptxas: "Incompatible elements of vector
/// expression"); without a register, the type decides.
fn register_bytes(d: &Decoder<'_>, elements: &[Operand], ty: Type) -> Result<usize, Refusal> {
    let mut found = None;
    for element in elements {
        let Operand::Name(name) = element else { continue };
        let Some(register) = d.register(name) else { continue };
        match (register.bank, ty.bytes()) {
            (Bank::P, _) => return Err(format!("`{name}` is a predicate")),
            (_, bytes) if register.ty.bytes() < bytes => {
                return Err(format!("`{name}` is smaller than an element of {} bits", 8 * bytes));
            }
            (Bank::W | Bank::D, _) | (Bank::Q, 16) => {}
            // ptxas extends it.
            (Bank::Q, bytes) => {
                return Err(format!(
                    "`{name}` has 128 bits, which no element of {} bits fills here",
                    8 * bytes
                ));
            }
        }
        if found.is_some_and(|other| other != register.ty.bytes()) {
            return Err("a vector has registers of different sizes".to_owned());
        }
        found = Some(register.ty.bytes());
    }
    match found {
        None if ty.bytes() == 16 => Err("an element of 16 bytes requires a register".to_owned()),
        found => Ok(found.unwrap_or(ty.bytes())),
    }
}

/// The instance of `load` or `store` for elements of so many bytes, in registers of 64 bits if `wide`, and so many elements.
macro_rules! instance {
    ($of:ident, $access:expr, $wide:expr) => {
        match ($access.ty.bytes(), $wide, $access.count) {
            (1, false, 1) => $of::<u32, 1, 1>,
            (1, false, 2) => $of::<u32, 1, 2>,
            (1, false, 4) => $of::<u32, 1, 4>,
            (2, false, 1) => $of::<u32, 2, 2>,
            (2, false, 2) => $of::<u32, 2, 4>,
            (2, false, 4) => $of::<u32, 2, 8>,
            (4, false, 1) => $of::<u32, 4, 4>,
            (4, false, 2) => $of::<u32, 4, 8>,
            (4, false, 4) => $of::<u32, 4, 16>,
            (4, false, 8) => $of::<u32, 4, 32>,
            (1, true, 1) => $of::<u64, 1, 1>,
            (1, true, 2) => $of::<u64, 1, 2>,
            (1, true, 4) => $of::<u64, 1, 4>,
            (2, true, 1) => $of::<u64, 2, 2>,
            (2, true, 2) => $of::<u64, 2, 4>,
            (2, true, 4) => $of::<u64, 2, 8>,
            (4, true, 1) => $of::<u64, 4, 4>,
            (4, true, 2) => $of::<u64, 4, 8>,
            (4, true, 4) => $of::<u64, 4, 16>,
            (4, true, 8) => $of::<u64, 4, 32>,
            (8, true, 1) => $of::<u64, 8, 8>,
            (8, true, 2) | (16, true, 1) => $of::<u64, 8, 16>,
            (8, true, 4) => $of::<u64, 8, 32>,
            (bytes, _, count) => return Err(format!("{count} elements of {bytes} bytes in these registers")),
        }
    };
}

/// A register of 128 bits is two of 64, the low one first.
fn halves(access: &Access, list: Vec<u32>) -> Vec<u32> {
    if access.ty.bytes() == 16 { list.iter().flat_map(|low| [*low, low + 1]).collect() } else { list }
}

fn decode_load(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let access = access(i)?;
    let (to, from) = match i.operands.as_slice() {
        [to, from] | [to, from, _] => (to, from),
        _ => return Err("ld takes a destination and an address".to_owned()),
    };
    let space = resolve(d, from, access.space);
    let (a, offset) = d.address(from)?;
    let elements = Decoder::elements(to);
    if elements.len() != access.count {
        return Err(format!("{} destinations for {} elements", elements.len(), access.count));
    }
    let register = register_bytes(d, elements, access.ty)?;
    let wide = register >= 8;
    let to = |element: &Operand| d.dst_as(element, if register == 8 { Type::B64 } else { access.ty });
    let list = halves(&access, elements.iter().map(to).collect::<Result<_, _>>()?);
    let named = matches!(d.address_symbol(from), Some(Symbol::Param(_)));
    let exec: Exec = match (space, access.ty.bytes(), access.count) {
        (Space::Param, ..) if named => instance!(load_parameter, access, wide),
        (Space::Shared, 4, 1) if !wide => load_shared_word,
        (Space::Global | Space::Generic, 4, 1) if !wide => load_global_word,
        _ => instance!(load, access, wide),
    };
    let signed = matches!(access.ty, Type::S8 | Type::S16 | Type::S32);
    let row = Row {
        a,
        b: space.number(),
        c: if signed { 8 * register as u32 } else { 0 },
        imm: offset as u64,
        list: list.into(),
        ..ordered(exec, access.order, Touch::Load)
    };
    // A strong load is a single access.
    let used = d.used_bytes.take().filter(|_| access.order.is_none());
    let (element, len) = (access.ty.bytes().min(8), access.ty.bytes() * access.count);
    let some = used.is_some_and(|mask| (0..len).any(|n| mask >> n & 1 == 0));
    let pieces = if some { pieces(used.unwrap_or(!0), len) } else { [(0, len)].into() };
    let row = Row { d: if some { 0 } else { d.finding(a) }, ..row };
    let reads = Reads { exec: if some { load_used } else { exec }, len, element, wide, pieces };
    d.push(match (access.non_coherent, some) {
        (true, _) => Row { exec: load_nc, extra: Some(Box::new(reads)), ..row },
        (false, true) => Row { exec: load_used, extra: Some(Box::new(reads)), ..row },
        (false, false) => row,
    });
    Ok(())
}

/// Memory that is read by `.nc` must be read-only while the kernel runs (PTX ISA, `ld.global.nc`).
fn load_nc(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(Reads { exec, pieces, .. }) = row.extra::<Reads>() else { return Flow::Next };
    if let Some(flow) = m.read_only_apart(|m| exec(m, row)) {
        return flow;
    }
    if let Some(races) = &m.cta.races {
        let address = m.r.d[row.a as usize];
        for lane in lanes(m.mask) {
            for (at, len) in pieces {
                let at = address[lane].wrapping_add(row.imm + *at as u64);
                if let Err(fault) = races.read_only(at, *len, &mut m.world.races) {
                    return m.fail(fault.at(lane));
                }
            }
        }
    }
    exec(m, row)
}

fn decode_store(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let access = access(i)?;
    let (to, from) = match i.operands.as_slice() {
        [to, from] | [to, from, _] => (to, from),
        _ => return Err("st takes an address and a source".to_owned()),
    };
    let space = resolve(d, to, access.space);
    let (a, offset) = d.address(to)?;
    let elements = Decoder::elements(from);
    if elements.len() != access.count {
        return Err(format!("{} sources for {} elements", elements.len(), access.count));
    }
    let wide = register_bytes(d, elements, access.ty)? >= 8;
    let from = |element: &Operand| {
        if wide { d.src_d(element, access.ty) } else { d.src(element, access.ty) }
    };
    let list = halves(&access, elements.iter().map(from).collect::<Result<_, _>>()?);
    let exec: Exec = match (space, access.ty.bytes(), access.count) {
        (Space::Shared, 4, 1) if !wide => store_shared_word,
        _ => instance!(store, access, wide),
    };
    let (b, imm, list, finding) = (space.number(), offset as u64, list.into(), d.finding(a));
    d.push(Row { d: finding, a, b, imm, list, ..ordered(exec, access.order, Touch::Store) });
    Ok(())
}

/// A row whose accesses are strong, or weak if there is no order.
fn ordered(exec: Exec, order: Option<Order>, touch: Touch) -> Row {
    match order {
        Some(order) => {
            Row { extra: Some(Box::new((exec, Strong { order, touch }))), ..Row::new(strong_access) }
        }
        None => Row::new(exec),
    }
}

fn strong_access(m: &mut Machine<'_>, row: &Row) -> Flow {
    match row.extra::<(Exec, Strong)>() {
        Some((exec, strong)) => {
            let flow = m.strongly(*strong, |m| exec(m, row));
            m.record_remarks();
            flow
        }
        None => Flow::Next,
    }
}
