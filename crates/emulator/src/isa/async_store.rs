//! Asynchronous stores and reductions of registers (PTX ISA 9.7.9 `st.async`, 9.7.15 `red.async`), which signal an mbarrier.

use ptx::Instruction;

use super::atomics::{CHAPTER, OPS, read, vector, write};
use super::bulk::BarrierOperand;
use super::elements::stored;
use super::moves::space;
use super::{FormRow, Words};
use crate::api::trap::{Fault, Rule};
use crate::copies::pending::{Pending, PendingKind, Piece, Work};
use crate::copies::reduce::Reduce;
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::words::Refusal;
use crate::memory::remote::Site;
use crate::rules::order::{Order, Scope, Strong, Touch};
use crate::run::machine::{Flow, Machine, Space, lanes};

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "red.async",
        "red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.op.type; .release….global.add",
        decode_async,
    ),
    FormRow::new(
        CHAPTER,
        "st.async",
        "st.async{.weak}{.shared::cluster}.mbarrier::complete_tx::bytes{.vec}.type; .release….global.type",
        decode_async,
    ),
];

/// The extra of an asynchronous row: `reduce` is `None` for a store.
struct Asynchronous {
    reduce: Option<Reduce>,
    bytes: usize,
    wide: bool,
    barrier: Option<BarrierOperand>,
    order: Order,
    line: u32,
}

fn decode_async(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("async");
    words.take("weak");
    words.take("mmio");
    let order = Order::take(&mut words, Order::relaxed(Scope::Gpu));
    let named = space(&mut words).unwrap_or(Space::Cluster);
    let counted = words.take("mbarrier::complete_tx::bytes");
    let op = words.one_of(&OPS);
    let count = vector(&mut words);
    let ty = words.ty()?;
    words.done()?;
    let reduce = match (i.opcode.as_str(), op) {
        ("st", None) if count <= 4 => None,
        ("red", Some(op)) if count == 1 => Some(Reduce::from_op(op, ty)?),
        _ => return Err("red.async requires an operation and no vector, st.async no operation".to_owned()),
    };
    if ty.bytes() < 4 || ty.bytes() > 8 {
        return Err(format!("{ty}; elements have 32 or 64 bits"));
    }
    let (at, from, barrier) = match (i.operands.as_slice(), named, counted) {
        ([at, from, barrier], Space::Cluster, true) => (at, from, Some(BarrierOperand::decode(d, barrier)?)),
        ([at, from], Space::Global, false) => (at, from, None),
        _ => {
            return Err(
                "the operands are [a], b, [mbarrier] in shared memory or [a], b in global memory".to_owned()
            );
        }
    };
    let (a, offset) = d.address(at)?;
    let wide = ty.bytes() == 8;
    let elements = Decoder::elements(from);
    if elements.len() != count {
        return Err(format!("{} sources for {count} elements", elements.len()));
    }
    let mut list = Vec::new();
    for element in elements {
        list.push(if wide { d.src_d(element, ty)? } else { d.src(element, ty)? });
    }
    let exec = if barrier.is_some() { to_shared } else { to_global };
    let extra = Asynchronous { reduce, bytes: ty.bytes(), wide, barrier, order, line: d.line() };
    d.push(Row { a, imm: offset as u64, list: list.into(), extra: Some(Box::new(extra)), ..Row::new(exec) });
    Ok(())
}

/// The lane's source registers.
fn sources(m: &Machine<'_>, row: &Row, extra: &Asynchronous, lane: usize) -> Vec<u64> {
    let value = |slot: &u32| match extra.wide {
        true => m.r.d[*slot as usize][lane],
        false => u64::from(m.r.w[*slot as usize][lane]),
    };
    row.list.iter().map(value).collect()
}

/// No barrier object is signalled for global memory: the operation takes effect at once, which is one of the permitted times.
fn to_global(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(extra) = row.extra::<Asynchronous>() else { return Flow::Next };
    let one = |m: &mut Machine<'_>, lane: usize| {
        let at = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
        for (n, value) in sources(m, row, extra, lane).into_iter().enumerate() {
            let at = at + (n * extra.bytes) as u64;
            let value = match extra.reduce {
                None => value,
                Some(reduce) => reduce.combine()(read(m, Space::Global, at, lane, extra.bytes)?, value),
            };
            write(m, Space::Global, at, lane, extra.bytes, value)?;
        }
        Ok(())
    };
    for lane in lanes(m.mask) {
        let touch = if extra.reduce.is_some() { Touch::Reduce } else { Touch::Store };
        if let Err(fault) = m.strongly(Strong { order: extra.order, touch }, |m| one(m, lane)) {
            return m.fail(Fault::at(fault, lane));
        }
    }
    stored(m, Space::Global)
}

fn to_shared(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(extra) = row.extra::<Asynchronous>() else { return Flow::Next };
    for lane in lanes(m.mask) {
        if let Err(fault) = issue(m, row, extra, lane) {
            return m.fail(fault.at(lane));
        }
    }
    Flow::Next
}

fn issue(m: &mut Machine<'_>, row: &Row, extra: &Asynchronous, lane: usize) -> Result<(), Fault> {
    let address = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
    let values = sources(m, row, extra, lane);
    let len = extra.bytes * values.len();
    Machine::aligned(address, len)?;
    let (_, address) = m.split(Space::Cluster, address)?;
    let Site { rank, at } = m.site(address, len)?;
    let barrier = match extra.barrier {
        Some(operand) => {
            let barrier = operand.site(m, lane)?;
            if barrier.rank != rank {
                let what = "the destination and the mbarrier are in the shared memory of different CTAs";
                return Err(Fault::new(Rule::Operand, what));
            }
            Some((barrier.at, len as u32))
        }
        None => None,
    };
    let bytes = values.iter().flat_map(|v| v.to_le_bytes().into_iter().take(extra.bytes)).collect();
    let pending = Pending {
        warp: m.warp,
        lanes: 1 << lane,
        kind: PendingKind::Barrier,
        group: None,
        line: extra.line,
        pieces: vec![Piece::whole(lane, at, len, 0)],
        work: Work::Put { bytes, reduce: extra.reduce },
        barrier,
        foreign: false,
        map: None,
        number: 0,
    };
    m.issue_at(rank, pending).map(|_| ())
}
