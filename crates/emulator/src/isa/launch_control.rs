//! Cluster launch control (PTX ISA 9.7.13.17): `clusterlaunchcontrol`.

use ptx::{Instruction, Operand, Type};

use super::async_copy::shared_window;
use super::bulk::signalled;
use super::mbarrier::object;
use super::{FormRow, Words};
use crate::api::trap::{Fault, Rule};
use crate::copies::pending::{Pending, PendingKind, Piece, Work};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::words::Refusal;
use crate::memory::remote::Site;
use crate::run::machine::{Flow, Machine, Space, lanes};

const CHAPTER: &str = "Parallel Synchronization: cluster launch control";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "clusterlaunchcontrol.try_cancel",
        "clusterlaunchcontrol.try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes{.multicast::cluster::all}.b128",
        decode_cancel,
    ),
    FormRow::new(
        CHAPTER,
        "clusterlaunchcontrol.query_cancel",
        "clusterlaunchcontrol.query_cancel.{is_canceled.pred,get_first_ctaid{::x,::y,::z}.b32}.b128",
        decode_query,
    ),
];

const BYTES: usize = 16;

/// The fourth word of a response that names a CTA. The response is opaque to kernels: this encoding is the emulator's own.
const CANCELED: u32 = 1;

/// The value of a coordinate if there is none: PTX leaves it undefined.
const NOWHERE: u32 = 0xCDCD_CDCD;

/// A request: its barrier object and its line in the text.
struct Request {
    shared: bool,
    /// Whether all CTAs of the cluster get the response.
    all: bool,
    barrier: (u32, i64),
    line: u32,
}

fn decode_cancel(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("try_cancel");
    let asynchronous = words.take("async");
    let shared = words.take("shared::cta");
    let signals = words.take("mbarrier::complete_tx::bytes");
    let all = words.take("multicast::cluster::all");
    if !asynchronous || !signals || words.ty()? != Type::B128 {
        return Err("try_cancel is .async….mbarrier::complete_tx::bytes….b128".to_owned());
    }
    words.done()?;
    let [to, barrier] = i.operands.as_slice() else {
        return Err("try_cancel takes an address and a barrier object".to_owned());
    };
    let (a, offset) = d.address(to)?;
    let request = Request { shared, all, barrier: d.address(barrier)?, line: d.line() };
    d.takes_work = true;
    d.push(Row { a, imm: offset as u64, extra: Some(Box::new(request)), ..Row::new(cancel) });
    Ok(())
}

fn cancel(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(request) = row.extra::<Request>() else { return Flow::Next };
    for lane in lanes(m.mask) {
        if let Err(fault) = ask(m, row, request, lane) {
            return m.fail(fault.at(lane));
        }
    }
    m.record_remarks();
    Flow::Next
}

fn ask(m: &mut Machine<'_>, row: &Row, request: &Request, lane: usize) -> Result<(), Fault> {
    if m.cta.refused {
        let what = "another request to cancel a CTA after an earlier one was observed to fail";
        return Err(Fault::new(Rule::Operand, what));
    }
    let space = if request.shared { Space::Shared } else { Space::Generic };
    let address = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
    let at = shared_window(m, space, address)?;
    Machine::aligned(at, BYTES)?;
    let at = m.shared_at(at, BYTES)?;
    let (slot, offset) = request.barrier;
    let barrier = object(m, request.shared, m.r.d[slot as usize][lane].wrapping_add_signed(offset))?;
    let own = m.cta.member.rank;
    let ranks: Vec<Option<u32>> = match request.all {
        true => (0..m.cta.member.size()).map(|rank| (rank != own).then_some(rank)).collect(),
        false => vec![None],
    };
    for rank in &ranks {
        signalled(m, Site { rank: *rank, at: barrier }, lane)?;
    }
    let words = match m.world.stream.cancel(m.cta.grid) {
        Some([x, y, z]) => [x, y, z, CANCELED],
        None => [NOWHERE, NOWHERE, NOWHERE, 0],
    };
    // Warps that wait for room or for the end of the grid may continue.
    m.world.events += 1;
    m.world.ends += 1;
    for rank in ranks {
        let pending = Pending {
            warp: m.warp,
            lanes: 1 << lane,
            kind: PendingKind::Barrier,
            group: None,
            line: request.line,
            pieces: vec![Piece::whole(lane, at, BYTES, 0)],
            work: Work::Put { bytes: words.iter().flat_map(|w| w.to_le_bytes()).collect(), reduce: None },
            barrier: Some((barrier, BYTES as u32)),
            foreign: false,
            map: None,
            number: 0,
        };
        m.issue_at(rank, pending)?;
    }
    Ok(())
}

fn decode_query(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("query_cancel");
    let canceled = words.take("is_canceled");
    let axis = words.one_of(&["get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"]);
    let all = words.take("get_first_ctaid") && words.take("v4");
    words.take(if canceled { "pred" } else { "b32" });
    words.take("b128");
    words.done()?;
    let [to, from] = i.operands.as_slice() else {
        return Err("query_cancel takes a destination and a response".to_owned());
    };
    // The low half of a response holds x and y, the high half z and whether there is a CTA.
    let a = d.src_d(from, Type::B128)?;
    if canceled {
        let to = d.dst_p(to)?;
        d.push(Row { d: to, a, ..Row::new(is_canceled) });
        return Ok(());
    }
    let (first, targets): (u64, Vec<&Operand>) = match axis {
        Some(word) => (["x", "y", "z"].iter().position(|x| word.ends_with(*x)).unwrap_or(0) as u64, vec![to]),
        None if all => (0, Decoder::elements(to).iter().collect()),
        None => return Err("query_cancel requires .is_canceled or .get_first_ctaid".to_owned()),
    };
    for (n, target) in targets.into_iter().take(4).enumerate() {
        let to = d.dst(target)?;
        d.push(Row { d: to, a, imm: first + n as u64, ..Row::new(coordinate) });
    }
    Ok(())
}

/// A word of a response.
fn word(m: &Machine<'_>, slot: u32, n: u64, lane: usize) -> u32 {
    (m.r.d[slot as usize + n as usize / 2 % 2][lane] >> (32 * (n % 2))) as u32
}

fn is_canceled(m: &mut Machine<'_>, row: &Row) -> Flow {
    let taken = lanes(m.mask).filter(|lane| word(m, row.a, 3, *lane) == CANCELED);
    let taken = taken.fold(0u32, |mask, lane| mask | 1 << lane);
    m.cta.refused |= taken != m.mask;
    m.set_predicate(row.d, taken);
    Flow::Next
}

fn coordinate(m: &mut Machine<'_>, row: &Row) -> Flow {
    for lane in lanes(m.mask) {
        // The fourth element is not a coordinate and has no meaning.
        m.r.w[row.d as usize][lane] = if row.imm == 3 { NOWHERE } else { word(m, row.a, row.imm, lane) };
    }
    Flow::Next
}
