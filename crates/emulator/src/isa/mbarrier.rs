//! Barrier objects in shared memory (PTX ISA 9.7.13.15): `mbarrier`.

use ptx::{Instruction, Type};

use super::async_copy::shared_window;
use super::{FormRow, Words};
use crate::api::trap::{Fault, Rule};
use crate::copies::pending::shared_address;
use crate::front::decode::Decoder;
use crate::front::program::{Extra, Row};
use crate::front::words::Refusal;
use crate::memory::remote::{Arrival, Site};
use crate::rules::order::{Order, Scope, Strong, Touch};
use crate::rules::races::At;
use crate::run::cta::OBJECT_BYTES;
use crate::run::machine::{Flow, LANES, Machine, Space, lanes};

const CHAPTER: &str = "Parallel Synchronization: mbarrier";

/// The scope of an operation that names none. PTX says `.cta`, but arrivals at the objects of other CTAs and the waits for them are
/// written without a scope wherever clusters are used (CUTLASS: `ClusterBarrier`), so that here the scope includes the cluster.
/// `.cta` where the program says so is what it says.
const UNNAMED_SCOPE: Scope = Scope::Cluster;

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "mbarrier.init",
        "mbarrier.init{.layout::v0}{.space}.b64 [addr], count",
        decode_init,
    ),
    FormRow::new(CHAPTER, "mbarrier.inval", "mbarrier.inval{.space}.b64 [addr]", decode_inval),
    FormRow::new(
        CHAPTER,
        "mbarrier.arrive",
        "mbarrier.arrive{.expect_tx,.noComplete}{.sem}{.scope}{.space}.b64 {state,_}, [addr]{, count}",
        decode_arrive,
    ),
    FormRow::new(
        CHAPTER,
        "mbarrier.arrive_drop",
        "mbarrier.arrive_drop{.expect_tx,.noComplete}{.sem}{.scope}{.space}.b64 {state,_}, [addr]{, count}",
        decode_arrive,
    ),
    FormRow::new(
        CHAPTER,
        "mbarrier.test_wait",
        "mbarrier.test_wait{.parity}{.sem}{.scope}{.space}.b64 p, [addr], {state,parity}",
        decode_wait,
    ),
    FormRow::new(
        CHAPTER,
        "mbarrier.try_wait",
        "mbarrier.try_wait{.parity}{.sem}{.scope}{.space}.b64 p, [addr], {state,parity}{, hint}",
        decode_wait,
    ),
    FormRow::new(
        CHAPTER,
        "mbarrier.expect_tx",
        "mbarrier.expect_tx{.sem}{.scope}{.space}.b64 [addr], n",
        decode_tx,
    ),
    FormRow::new(
        CHAPTER,
        "mbarrier.complete_tx",
        "mbarrier.complete_tx{.sem}{.scope}{.space}.b64 [addr], n",
        decode_tx,
    ),
    FormRow::new(
        CHAPTER,
        "mbarrier.pending_count",
        "mbarrier.pending_count.b64 count, state",
        decode_pending,
    ),
    FormRow::new(
        CHAPTER,
        "mbarrier.check_layout",
        "mbarrier.check_layout.layout::{v0,v1}{.space}.b64 p, [addr]; objects of v1 cannot be created here",
        decode_layout,
    ),
];

/// The address is a shared one, not a generic one.
const SHARED: u32 = 1;
const DROP: u32 = 2;
const EXPECT: u32 = 4;
const NO_COMPLETE: u32 = 8;
const PARITY: u32 = 16;
const TRY: u32 = 32;
const COMPLETE: u32 = 64;
/// The object may belong to another CTA of the cluster.
const CLUSTER: u32 = 128;

/// Bits of a state that hold the previous pending count; the phase is above them.
const STATE_BITS: u32 = 20;

/// The place of a barrier object.
pub(crate) fn object(m: &Machine<'_>, shared: bool, address: u64) -> Result<usize, Fault> {
    let space = if shared { Space::Shared } else { Space::Generic };
    let at = shared_window(m, space, address)?;
    Machine::aligned(at, 8)?;
    m.shared_at(at, 8)
}

/// Takes the words that all forms share; returns the flag of the space.
fn common(words: &mut Words<'_>) -> u32 {
    words.take("b64");
    words.take("layout::v0");
    let shared = words.take("shared") | words.take("shared::cta") | words.take("shared::cluster");
    if shared { SHARED } else { 0 }
}

/// The address of a row's barrier object for a lane.
fn place(m: &Machine<'_>, row: &Row, lane: usize) -> Result<usize, Fault> {
    let address = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
    object(m, row.c & SHARED != 0, address)
}

/// The CTA and the address of a row's barrier object for a lane, for instructions that reach the CTAs of the cluster.
fn site(m: &mut Machine<'_>, row: &Row, lane: usize) -> Result<Site, Fault> {
    let address = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
    cluster_object(m, row.c & SHARED != 0, address)
}

/// The site of a barrier object of the cluster.
pub(crate) fn cluster_object(m: &mut Machine<'_>, shared: bool, address: u64) -> Result<Site, Fault> {
    let space = if shared { Space::Cluster } else { Space::Generic };
    let at = shared_window(m, space, address)?;
    Machine::aligned(at, OBJECT_BYTES)?;
    m.site(at, OBJECT_BYTES)
}

/// Whether a row may name an object of another CTA: the forms with `.shared::cta` may not.
fn reach(words: &[String]) -> u32 {
    if words.iter().any(|w| w == "shared" || w == "shared::cta") { 0 } else { CLUSTER }
}

/// Runs `f` for every lane in turn.
fn each(
    m: &mut Machine<'_>,
    row: &Row,
    f: impl Fn(&mut Machine<'_>, usize, usize) -> Result<(), Fault>,
) -> Flow {
    for lane in lanes(m.mask) {
        let result = place(m, row, lane).and_then(|at| f(m, at, lane));
        if let Err(fault) = result {
            return m.fail(fault.at(lane));
        }
    }
    Flow::Next
}

/// The memory order of an operation on an object: it modifies the object, and therefore continues the release sequence there.
fn modify(order: Order) -> Option<Box<dyn Extra>> {
    Some(Box::new(Strong { order, touch: Touch::Modify }))
}

/// Reports an arrival, or a change of the tx-count, to the race detector.
fn publish(m: &mut Machine<'_>, row: &Row, site: Site) {
    if let Some(strong) = row.extra::<Strong>() {
        m.publish_barrier(site, *strong);
    }
}

/// Runs `f` for the object of every lane in turn; it may belong to another CTA.
fn each_site(
    m: &mut Machine<'_>,
    row: &Row,
    f: impl Fn(&mut Machine<'_>, Site, usize) -> Result<(), Fault>,
) -> Flow {
    for lane in lanes(m.mask) {
        let site = match row.c & CLUSTER {
            0 => place(m, row, lane).map(|at| Site { rank: None, at }),
            _ => site(m, row, lane),
        };
        if let Err(fault) = site.and_then(|site| f(m, site, lane)) {
            return m.fail(fault.at(lane));
        }
    }
    Flow::Next
}

fn decode_init(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("init");
    let c = common(&mut words);
    words.done()?;
    let [to, count] = i.operands.as_slice() else {
        return Err("mbarrier.init takes an address and a count".into());
    };
    let b = d.src(count, Type::U32)?;
    let (a, offset) = d.address(to)?;
    d.push(Row { a, b, c, imm: offset as u64, ..Row::new(init) });
    Ok(())
}

fn init(m: &mut Machine<'_>, row: &Row) -> Flow {
    each(m, row, |m, at, lane| m.cta.init_barrier(at, m.r.w[row.b as usize][lane], m.warp * 32 + lane as u32))
}

fn decode_inval(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("inval");
    let c = common(&mut words);
    words.done()?;
    let [to] = i.operands.as_slice() else { return Err("mbarrier.inval takes an address".into()) };
    let (a, offset) = d.address(to)?;
    d.push(Row {
        a,
        c,
        imm: offset as u64,
        ..Row::new(|m, row| {
            each(m, row, |m, at, lane| {
                m.use_barrier(at, lane).map(drop).and_then(|()| m.cta.inval_barrier(at, m.warp))
            })
        })
    });
    Ok(())
}

/// Whether an object has a layout: all objects initialised here have v0.
fn decode_layout(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("check_layout");
    let layout = words.one_of(&["layout::v0", "layout::v1"]).ok_or("check_layout names a layout")?;
    let c = common(&mut words);
    words.done()?;
    let [to, object] = i.operands.as_slice() else {
        return Err("it takes a predicate and an address".into());
    };
    let b = u32::from(layout == "layout::v0");
    let to = d.dst_p(to)?;
    let (a, offset) = d.address(object)?;
    d.push(Row { d: to, a, b, c, imm: offset as u64, ..Row::new(check_layout) });
    Ok(())
}

fn check_layout(m: &mut Machine<'_>, row: &Row) -> Flow {
    let done = each(m, row, |m, at, lane| m.use_barrier(at, lane).map(|_| ()));
    if done == Flow::Next {
        m.set_predicate(row.d, if row.b == 1 { !0 } else { 0 });
    }
    done
}

fn decode_arrive(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("arrive");
    let mut c = if words.take("arrive_drop") { DROP } else { 0 };
    if words.take("expect_tx") {
        c |= EXPECT;
    }
    if words.take("noComplete") {
        c |= NO_COMPLETE;
    }
    c |= common(&mut words) | reach(&i.modifiers);
    let order = Order::take(&mut words, Order::release(UNNAMED_SCOPE));
    words.done()?;
    let (state, to, count) = match i.operands.as_slice() {
        [state, to] => (state, to, None),
        [state, to, count] => (state, to, Some(count)),
        _ => return Err("mbarrier.arrive takes a state, an address and perhaps a count".into()),
    };
    if c & EXPECT != 0 && count.is_none() {
        return Err("`.expect_tx` takes a tx-count".into());
    }
    let b = match count {
        Some(count) => d.src(count, Type::U32)?,
        None => d.bits_w(1),
    };
    let state = d.dst_d(state)?;
    let (a, offset) = d.address(to)?;
    d.push(Row { d: state, a, b, c, imm: offset as u64, extra: modify(order), ..Row::new(arrive) });
    Ok(())
}

fn arrive(m: &mut Machine<'_>, row: &Row) -> Flow {
    each_site(m, row, |m, site, lane| {
        let operand = m.r.w[row.b as usize][lane];
        let expects = row.c & EXPECT != 0;
        let arrival = Arrival {
            count: if expects { 1 } else { operand },
            expect: expects.then_some(operand),
            drops: row.c & DROP != 0,
            no_complete: row.c & NO_COMPLETE != 0,
        };
        m.with_barrier(site, |_, _| Ok(()))?;
        publish(m, row, site);
        let (phase, missing) = m.with_barrier(site, |cta, at| arrival.make(cta, at))?;
        m.r.d[row.d as usize][lane] = phase << STATE_BITS | u64::from(missing);
        Ok(())
    })
}

fn decode_tx(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("expect_tx");
    let complete = words.take("complete_tx");
    let c = common(&mut words) | reach(&i.modifiers) | if complete { COMPLETE } else { 0 };
    let order = Order::take(&mut words, Order::relaxed(UNNAMED_SCOPE));
    words.done()?;
    let [to, count] = i.operands.as_slice() else { return Err("it takes an address and a tx-count".into()) };
    let b = d.src(count, Type::U32)?;
    let (a, offset) = d.address(to)?;
    d.push(Row { a, b, c, imm: offset as u64, extra: modify(order), ..Row::new(tx) });
    Ok(())
}

fn tx(m: &mut Machine<'_>, row: &Row) -> Flow {
    let flow = each_site(m, row, |m, site, lane| {
        m.with_barrier(site, |_, _| Ok(()))?;
        match row.extra::<Strong>() {
            Some(strong) if row.c & COMPLETE != 0 => {
                if m.publish_completion(site, *strong) {
                    let what = "what the warp wrote before complete_tx is ordered by fence.proxy.async alone, which PTX does not call a \
                        release; fence.release.sync_restrict::shared::cta.cluster is one";
                    m.lane_remarks.push((lane, what.to_owned()));
                }
            }
            _ => publish(m, row, site),
        }
        let bytes = i64::from(m.r.w[row.b as usize][lane]);
        m.with_barrier(site, |cta, at| match row.c & COMPLETE {
            0 => cta.expect_tx(at, bytes),
            _ => cta.complete_tx(at, bytes),
        })
    });
    m.record_remarks();
    flow
}

fn decode_wait(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("test_wait");
    let mut c = if words.take("try_wait") { TRY } else { 0 };
    if words.take("parity") {
        c |= PARITY;
    }
    words.take("phase_type::primary");
    c |= common(&mut words);
    let order = Order::take(&mut words, Order::acquire(UNNAMED_SCOPE));
    words.done()?;
    // A time hint has no effect here.
    let (done, to, phase) = match i.operands.as_slice() {
        [done, to, phase] => (done, to, phase),
        [done, to, phase, _] if c & TRY != 0 => (done, to, phase),
        _ => return Err("a wait takes a predicate, an address and a state or parity".into()),
    };
    let done = d.dst_p(done)?;
    let b = if c & PARITY != 0 { d.src(phase, Type::U32)? } else { d.src_d(phase, Type::B64)? };
    let (a, offset) = d.address(to)?;
    let order = Strong { order, touch: Touch::Modify };
    let extra: Option<Box<dyn Extra>> = Some(Box::new(Wait { order, used: true }));
    d.push(Row { d: done, a, b, c, imm: offset as u64, extra, ..Row::new(wait) });
    Ok(())
}

/// The extra of a wait.
#[derive(Clone, Copy)]
struct Wait {
    order: Strong,
    /// Whether some instruction uses the predicate ([`mark_unused`]).
    used: bool,
}

/// Marks a wait whose predicate no instruction uses.
///
/// Both waits may return false, `try_wait` after a time that PTX leaves open (PTX ISA 9.7.13.15.16). A thread that does not look does not know that
/// the phase is complete: it goes on, and nothing of what completed the phase is before what follows.
pub(super) fn mark_unused(row: &mut Row) {
    if let Some(unused) = row.extra::<Wait>().map(|wait| Wait { used: false, ..*wait }) {
        row.extra = Some(Box::new(unused));
    }
}

/// The lanes whose wait has the same operands as this lane's.
fn asking_as(m: &Machine<'_>, row: &Row, lane: usize) -> u32 {
    let (address, slot) = (&m.r.d[row.a as usize], row.b as usize);
    let by_parity = row.c & PARITY != 0;
    let same = |i: usize| {
        address[i] == address[lane]
            && if by_parity {
                m.r.w[slot][i] == m.r.w[slot][lane]
            } else {
                m.r.d[slot][i] == m.r.d[slot][lane]
            }
    };
    (0..LANES).fold(0, |mask, i| mask | u32::from(same(i)) << i)
}

/// Returns whether the phase that a lane waits for is complete, and the object's place and phase.
fn passed(m: &mut Machine<'_>, row: &Row, lane: usize) -> Result<(bool, usize, u64), Fault> {
    let at = place(m, row, lane)?;
    let phase = m.use_barrier(at, lane)?.phase;
    if row.c & PARITY != 0 {
        let parity = m.r.w[row.b as usize][lane];
        if parity > 1 {
            return Err(Fault::new(Rule::Operand, format!("a phase parity of {parity}")));
        }
        return Ok((phase & 1 != u64::from(parity), at, phase));
    }
    let wanted = m.r.d[row.b as usize][lane] >> STATE_BITS;
    if wanted > phase || wanted + 1 < phase {
        let what = format!(
            "a state of phase {wanted}, but the mbarrier at {:#x} is in phase {phase}: only this phase and the previous one can be waited for",
            shared_address(at)
        );
        return Err(Fault::new(Rule::Barrier, what));
    }
    Ok((wanted < phase, at, phase))
}

/// Of this many attempts to wait, one gives up under random schedules.
const GIVES_UP: usize = 8;

fn wait(m: &mut Machine<'_>, row: &Row) -> Flow {
    let extra = row.extra::<Wait>().copied();
    let used = extra.is_none_or(|wait| wait.used);
    let mut ready = 0u32;
    let mut missing = (0, 0);
    let mut left = m.mask;
    while left != 0 {
        let lane = left.trailing_zeros() as usize % LANES;
        // Usually all lanes wait for the same phase.
        let alike = asking_as(m, row, lane) & left;
        left &= !alike;
        match passed(m, row, lane) {
            Ok(_) if !used => {}
            Ok((true, at, phase)) => {
                ready |= alike;
                if let (Some(races), Some(Wait { order, .. })) = (&mut m.cta.races, extra) {
                    races.observe(shared_address(at), OBJECT_BYTES, m.warp, order, At::Shared);
                    races.passed(at, phase, m.warp, &mut m.world.races);
                }
                m.cta.meet(m.warp, !0);
            }
            Ok((false, at, phase)) => missing = (at, phase),
            Err(fault) => return m.fail(fault.at(lane)),
        }
    }
    if !used {
        m.set_predicate(row.d, 0);
        return Flow::Next;
    }
    let thread = m.warp * 32 + m.fragment.trailing_zeros() % 32;
    if row.c & TRY != 0 && ready == 0 {
        let gives_up = m.world.gives_up && m.world.random.below(GIVES_UP) == 0;
        if !std::mem::take(&mut m.impatient) && !gives_up {
            // Parked until something happens in the CTA.
            m.cta.awaited.insert(thread, missing);
            return Flow::Retry;
        }
    }
    m.set_predicate(row.d, ready);
    if ready == m.mask || row.c & TRY != 0 {
        return Flow::Next;
    }
    // A polling warp must eventually see a copy complete.
    match m.cta.hurry(m.world, missing.0) {
        Ok(()) => Flow::Yield,
        Err(fault) => m.fail(fault),
    }
}

fn decode_pending(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("pending_count");
    common(&mut words);
    words.done()?;
    let [to, state] = i.operands.as_slice() else { return Err("it takes a count and a state".into()) };
    let (to, a) = (d.dst(to)?, d.src_d(state, Type::B64)?);
    d.push(Row { d: to, a, ..Row::new(pending_count) });
    Ok(())
}

fn pending_count(m: &mut Machine<'_>, row: &Row) -> Flow {
    for lane in lanes(m.mask) {
        m.r.w[row.d as usize][lane] = (m.r.d[row.a as usize][lane] & ((1 << STATE_BITS) - 1)) as u32;
    }
    Flow::Next
}
