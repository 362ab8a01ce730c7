//! Asynchronous copies of single threads (PTX ISA 9.7.9.27.3): `cp.async`, its groups, its arrivals at barrier objects.

use ptx::{Immediate, Instruction, Operand, Type};

use super::mbarrier::object;
use super::{FormRow, Words};
use crate::api::trap::{Fault, Rule};
use crate::copies::cp_async::{Copy, taken};
use crate::copies::pending::{Pending, PendingKind, Piece, Work};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::registers::Bank;
use crate::front::words::Refusal;
use crate::memory::window::Window;
use crate::rules::order::Touch;
use crate::run::machine::{Flow, Machine, Space, lanes};

const CHAPTER: &str = "Data Movement: asynchronous copies";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "cp.async",
        "cp.async.{ca,cg}.shared{::cta}.global{.L2…} [d], [s], size{, src-size or ignore-src}{, policy}",
        decode_copy,
    ),
    FormRow::new(CHAPTER, "cp.async.commit_group", "cp.async.commit_group", |d, _| {
        d.push(Row::new(commit));
        Ok(())
    }),
    FormRow::new(CHAPTER, "cp.async.wait_group", "cp.async.wait_group n", decode_wait),
    FormRow::new(CHAPTER, "cp.async.wait_all", "cp.async.wait_all", |d, _| {
        d.push(Row::new(commit));
        d.push(Row::new(wait));
        Ok(())
    }),
    FormRow::new(
        CHAPTER,
        "cp.async.mbarrier.arrive",
        "cp.async.mbarrier.arrive{.noinc}{.shared{::cta}}.b64 [addr]",
        decode_arrive,
    ),
];

/// The value of a constant operand.
pub(crate) fn constant(operand: &Operand) -> Option<u64> {
    match operand {
        Operand::Immediate(Immediate::Integer { bits, .. }) => Some(*bits),
        _ => None,
    }
}

/// Takes the cache modifiers, which have no effect here; returns whether there is a policy operand.
pub(crate) fn cache_words(words: &mut Words<'_>) -> bool {
    let hint = words.take("L2::cache_hint");
    for size in ["L2::64B", "L2::128B", "L2::256B"] {
        words.take(size);
    }
    hint
}

fn decode_copy(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("async");
    let cached = words.one_of(&["ca", "cg"]).ok_or("cp.async requires .ca or .cg")?;
    if !(words.take("shared") || words.take("shared::cta")) || !words.take("global") {
        return Err("cp.async copies from .global to .shared or .shared::cta".to_owned());
    }
    let hint = cache_words(&mut words);
    words.done()?;
    let mut operands = i.operands.as_slice();
    if hint {
        operands = &operands[..operands.len().saturating_sub(1)];
    }
    let (to, from, size, rest) = match operands {
        [to, from, size] => (to, from, size, None),
        [to, from, size, rest] => (to, from, size, Some(rest)),
        _ => return Err("cp.async takes a destination, a source and a size".to_owned()),
    };
    let size = constant(size).filter(|n| matches!(n, 4 | 8 | 16)).ok_or("the size is 4, 8 or 16")? as usize;
    if cached == "cg" && size != 16 {
        return Err("cp.async.cg copies 16 bytes".to_owned());
    }
    let (mut taken, mut ignore) = (None, None);
    if let Some(operand) = rest {
        let predicate = match operand {
            Operand::Name(name) => d.register(name).is_some_and(|r| r.bank == Bank::P),
            Operand::Not(_) => true,
            _ => false,
        };
        if predicate {
            ignore = Some(d.src_p(operand)?);
        } else {
            taken = Some(d.src(operand, Type::U32)?);
        }
    }
    let (a, to) = d.address(to)?;
    let (b, from) = d.address(from)?;
    let copy = Copy { to, from, size, taken, ignore, line: d.line() };
    d.push(Row { a, b, extra: Some(Box::new(copy)), ..Row::new(copy_async) });
    Ok(())
}

fn copy_async(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(copy) = row.extra::<Copy>() else { return Flow::Next };
    let mut pieces = Vec::with_capacity(m.mask.count_ones() as usize);
    for lane in lanes(m.mask) {
        match piece(m, row, copy, lane) {
            Ok(piece) => pieces.push(piece),
            Err(fault) => return m.fail(fault.at(lane)),
        }
    }
    let pending = Pending {
        warp: m.warp,
        lanes: m.mask,
        kind: PendingKind::CpAsync,
        group: None,
        line: copy.line,
        pieces,
        work: Work::Load { fill: Some([0; 16]), round: false },
        barrier: None,
        foreign: false,
        map: None,
        number: 0,
    };
    m.log_lanes_at(row, Space::Shared, (m.mask, copy.to.cast_unsigned(), copy.size), Touch::Store);
    match m.issue_at(None, pending) {
        Ok(_) => {
            m.compare_lanes();
            m.record_remarks();
            Flow::Next
        }
        Err(fault) => m.fail(fault),
    }
}

fn piece(m: &mut Machine<'_>, row: &Row, copy: &Copy, lane: usize) -> Result<Piece, Fault> {
    let to = m.r.d[row.a as usize][lane].wrapping_add_signed(copy.to);
    let from = m.r.d[row.b as usize][lane].wrapping_add_signed(copy.from);
    Machine::aligned(to, copy.size)?;
    let (_, to) = m.split(Space::Shared, to)?;
    let at = m.shared_at(to, copy.size)?;
    let taken = taken(m, copy, lane);
    if taken > copy.size {
        let what = format!("a source size of {taken} bytes for a copy of {}", copy.size);
        return Err(Fault::new(Rule::Operand, what));
    }
    if taken > 0 {
        Machine::aligned(from, copy.size)?;
        m.split(Space::Global, from)?;
        m.world.global.reach(from, taken)?;
    }
    Ok(Piece { taken, ..Piece::whole(lane, at, copy.size, from) })
}

fn commit(m: &mut Machine<'_>, _: &Row) -> Flow {
    m.cta.commit(m.warp, m.mask, PendingKind::CpAsync);
    Flow::Next
}

fn decode_wait(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let n = i.operands.first().and_then(constant).ok_or("cp.async.wait_group takes a constant")?;
    d.push(Row { imm: n, ..Row::new(wait) });
    Ok(())
}

/// Waits until at most `imm` groups are in flight.
fn wait(m: &mut Machine<'_>, row: &Row) -> Flow {
    match m.cta.wait_group(m.world, m.warp, m.mask, PendingKind::CpAsync, row.imm, false) {
        Ok(()) => Flow::Next,
        Err(fault) => m.fail(fault),
    }
}

fn decode_arrive(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    for word in ["async", "mbarrier", "arrive", "b64"] {
        words.take(word);
    }
    let noinc = words.take("noinc");
    let shared = words.take("shared") || words.take("shared::cta");
    words.done()?;
    let [to] = i.operands.as_slice() else { return Err("it takes an address".to_owned()) };
    let (a, offset) = d.address(to)?;
    let line = u64::from(d.line());
    let c = u32::from(noinc) | u32::from(shared) << 1;
    d.push(Row { a, c, b: line as u32, imm: offset as u64, ..Row::new(arrive) });
    Ok(())
}

/// Arrives when the earlier copies of the lane are done. Unless `.noinc` says that the count allows for it, the count of
/// the phase is first incremented.
fn arrive(m: &mut Machine<'_>, row: &Row) -> Flow {
    let mut pieces = Vec::new();
    for lane in lanes(m.mask) {
        let address = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
        let result = object(m, row.c & 2 != 0, address).and_then(|at| {
            let barrier = m.use_barrier(at, lane)?;
            if row.c & 1 == 0 {
                barrier.add_pending()?;
            }
            Ok(at)
        });
        match result {
            Ok(at) => pieces.push(Piece::whole(lane, at, 0, 0)),
            Err(fault) => return m.fail(fault.at(lane)),
        }
    }
    let pending = Pending {
        warp: m.warp,
        lanes: m.mask,
        kind: PendingKind::Barrier,
        group: None,
        line: row.b,
        pieces,
        work: Work::Arrive { behind: Vec::new() },
        barrier: None,
        foreign: false,
        map: None,
        number: 0,
    };
    match m.issue_here(pending) {
        Ok(()) => Flow::Next,
        Err(fault) => m.fail(fault),
    }
}

/// Whether an address is in shared memory, as copies of the async proxy require.
pub(crate) fn shared_window(m: &Machine<'_>, space: Space, address: u64) -> Result<u64, Fault> {
    match m.split(space, address)? {
        (Window::Shared, at) => Ok(at),
        (window, _) => {
            let what = format!("{address:#x} is a {window} address, but a shared address is required");
            Err(Fault::new(Rule::WrongSpace, what))
        }
    }
}
