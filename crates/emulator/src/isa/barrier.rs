//! Barriers and fences (PTX ISA 9.7.13): `bar`, `barrier`, `bar.warp.sync`, `membar`, `fence`, `barrier.cluster`.

use ptx::{Immediate, Instruction, Operand, Type};

use super::{FormRow, Words};
use crate::api::trap::{Fault, Rule};
use crate::copies::tensor_map::{TENSOR_MAP_BYTES, TensorMap};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::words::Refusal;
use crate::memory::window::{Window, window_of};
use crate::rules::order::{Fence, Scope};
use crate::run::cta::Acquired;
use crate::run::machine::{Flow, Machine, World, lanes};

const CHAPTER: &str = "Parallel Synchronization: barriers and fences";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "bar", "bar{.cta}.{sync,arrive,red.{popc.u32,and.pred,or.pred}}", decode_bar),
    FormRow::new(CHAPTER, "barrier", "barrier{.cta}.{sync,arrive,red…}{.aligned}", decode_bar),
    FormRow::new(CHAPTER, "bar.warp", "bar.warp.sync mask", decode_warp),
    FormRow::new(
        CHAPTER,
        "barrier.cluster",
        "barrier.cluster.{arrive{.release,.relaxed},wait{.acquire}}{.aligned}",
        decode_cluster,
    ),
    FormRow::new(CHAPTER, "membar", "membar.{cta,gl,sys} and .proxy forms", decode_fence),
    FormRow::new(CHAPTER, "fence", "fence{.sem}.scope, fence.proxy…, fence.mbarrier_init…", decode_fence),
];

const ARRIVE: u64 = 1;
const ALIGNED: u64 = 2;
const POPC: u64 = 4;
const AND: u64 = 8;
const OR: u64 = 16;
const COUNTED: u64 = 32;
const NEGATED: u64 = 64;
const RELAXED: u64 = 128;

fn decode_bar(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("cta");
    // `bar` is `barrier` with `.aligned`.
    let mut imm = if words.take("aligned") || i.opcode == "bar" { ALIGNED } else { 0 };
    let action = words.one_of(&["sync", "arrive", "red"]).ok_or("bar requires .sync, .arrive or .red")?;
    let mut operands = i.operands.iter();
    let mut row = Row::new(arrive);
    if action == "red" {
        let op = words.one_of(&["popc", "and", "or"]).ok_or("bar.red requires an operation")?;
        words.maybe_ty();
        imm |= match op {
            "popc" => POPC,
            "and" => AND,
            _ => OR,
        };
        let to = operands.next().ok_or("bar.red requires a destination")?;
        row.d = if op == "popc" { d.dst(to)? } else { d.dst_p(to)? };
    }
    if action == "arrive" {
        imm |= ARRIVE;
    }
    words.done()?;
    let mut rest: Vec<&Operand> = operands.collect();
    if action == "red" {
        let source = rest.pop().ok_or("bar.red requires a predicate")?;
        let (slot, negated) = d.src_p(source)?;
        row.list = Box::new([slot]);
        if negated {
            imm |= NEGATED;
        }
    }
    let barrier = rest.first().ok_or("bar requires a barrier number")?;
    row.a = d.src(barrier, Type::U32)?;
    if let Some(count) = rest.get(1) {
        row.b = d.src(count, Type::U32)?;
        imm |= COUNTED;
    }
    row.imm = imm;
    if action == "red" {
        // The wait, then the result: two rows, since the vote is known only after the barrier.
        let result = Row { d: row.d, a: row.a, imm, ..Row::new(vote) };
        d.push(row);
        d.push(result);
    } else {
        d.push(row);
    }
    Ok(())
}

fn arrive(m: &mut Machine<'_>, row: &Row) -> Flow {
    if row.imm & ALIGNED != 0
        && let Err(flow) = m.all_together()
    {
        return flow;
    }
    let lane = m.mask.trailing_zeros() as usize;
    let ids = &m.r.w[row.a as usize];
    let id = ids[lane];
    // Mostly the number is a constant. Only if it is not, those of lanes that take no part are told apart.
    let differ = ids.iter().fold(0, |bits, other| bits | (other ^ id)) != 0;
    if id > 15 || differ && lanes(m.mask).any(|i| ids[i] != id) {
        return m.fail(
            Fault::new(
                Rule::Barrier,
                format!("barrier {id}; the number must be 0 to 15 and the same in all lanes"),
            )
            .at(lane),
        );
    }
    let expected = if row.imm & COUNTED != 0 { m.r.w[row.b as usize][lane] } else { u32::MAX };
    if row.imm & COUNTED != 0 && (expected == 0 || expected % 32 != 0) {
        let what = format!("barrier {id} waits for {expected} threads, which is not a multiple of 32");
        return m.fail(Fault::new(Rule::Barrier, what).at(lane));
    }
    // A warp counts in full, even if lanes have ended: counts are multiples of 32.
    let arrived = if expected == u32::MAX { m.mask.count_ones() } else { whole(m.mask, m.live) };
    let votes = match row.list.first() {
        Some(p) => {
            let flip = if row.imm & NEGATED != 0 { !0 } else { 0 };
            ((m.r.p[*p as usize] ^ flip) & m.mask).count_ones()
        }
        None => 0,
    };
    let whole_cta = m.cta.size.next_multiple_of(32);
    let barrier = &mut m.cta.barriers[id as usize];
    // Without a count it waits for all threads of the CTA, which a count may say, too.
    let same = |a: u32, b: u32| a == b || a == u32::MAX && b == whole_cta || b == u32::MAX && a == whole_cta;
    if barrier.arrived > 0 && !same(barrier.expected, expected) {
        let threads = |count| if count == u32::MAX { "all".to_owned() } else { format!("{count}") };
        let (first, now) = (threads(barrier.expected), threads(expected));
        let what = format!("barrier {id} is used with {first} and with {now} threads");
        return m.fail(Fault::new(Rule::Barrier, what).at(lane));
    }
    if barrier.arrived == 0 {
        barrier.expected = expected;
    }
    let expected = barrier.expected;
    barrier.arrived += arrived;
    barrier.votes += votes;
    if barrier.arrived > expected {
        let what = format!("{} threads arrive at barrier {id}, which waits for {expected}", barrier.arrived);
        return m.fail(Fault::new(Rule::Barrier, what).at(lane));
    }
    m.cta.arrived_in = barrier.generation;
    if let Some(races) = &mut m.cta.races {
        races.arrive(id as usize, m.warp, row.imm & ARRIVE == 0);
    }
    if row.imm & ARRIVE == 0 {
        m.cta.meet(m.warp, m.mask);
    }
    m.cta.settle(id as usize);
    if row.imm & ALIGNED != 0 {
        remark_exited(m, lane);
    }
    if row.imm & ARRIVE != 0 { Flow::Next } else { Flow::Barrier(id) }
}

/// Remarks that lanes of the warp have exited before an aligned barrier.
fn remark_exited(m: &mut Machine<'_>, lane: usize) {
    let behind = m.cta.size.saturating_sub(32 * m.warp);
    let launched = if behind >= 32 { !0 } else { (1 << behind) - 1 };
    let exited = launched & !m.live;
    if exited != 0 {
        let what = format!(
            "lanes {exited:#010x} of the warp have exited before this barrier; PTX says that all threads of the warp execute it, \
             CUDA says that it waits for those that have not exited"
        );
        m.lane_remarks.push((lane, what));
        m.record_remarks();
    }
}

/// The number of threads that an arrival counts for if counts are multiples of 32.
fn whole(mask: u32, live: u32) -> u32 {
    if mask == live { 32 } else { mask.count_ones() }
}

fn vote(m: &mut Machine<'_>, row: &Row) -> Flow {
    let lane = m.mask.trailing_zeros() as usize;
    let id = m.r.w[row.a as usize][lane];
    let votes = m.cta.barriers[id as usize & 15].result;
    if row.imm & POPC != 0 {
        for i in lanes(m.mask) {
            m.r.w[row.d as usize][i] = votes;
        }
    } else {
        let all = m.cta.barriers[id as usize & 15].voters;
        let holds = if row.imm & AND != 0 { votes == all } else { votes > 0 };
        m.set_predicate(row.d, if holds { !0 } else { 0 });
    }
    Flow::Next
}

fn decode_warp(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let [mask] = i.operands.as_slice() else { return Err("bar.warp.sync takes a mask".to_owned()) };
    let a = d.src(mask, Type::U32)?;
    d.push(Row { a, ..Row::new(warp_sync) });
    Ok(())
}

/// Waits for diverged lanes that the mask names.
fn warp_sync(m: &mut Machine<'_>, row: &Row) -> Flow {
    match m.parties(row.a) {
        Ok(parties) => {
            parties.for_each(|lanes| m.cta.meet(m.warp, lanes));
            Flow::Next
        }
        Err(flow) => flow,
    }
}

fn decode_cluster(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let aligned = i.has("aligned");
    let arrive = i.has("arrive");
    let a = d.bits_w(0);
    let imm = if aligned { ALIGNED } else { 0 } | if arrive { ARRIVE } else { 0 };
    let imm = imm | if i.has("relaxed") { RELAXED } else { 0 };
    d.push(Row { a, imm, ..Row::new(cluster) });
    Ok(())
}

fn cluster(m: &mut Machine<'_>, row: &Row) -> Flow {
    if row.imm & ALIGNED != 0
        && let Err(flow) = m.all_together()
    {
        return flow;
    }
    if row.imm & ARRIVE != 0 {
        if let Some(races) = &mut m.cta.races {
            races.cluster_arrive(m.warp, row.imm & RELAXED == 0, m.cta.member.phase());
        }
        if m.cta.member.arrive(m.warp, m.mask) {
            m.world.events += 1;
        }
        return Flow::Next;
    }
    match m.cta.member.has_passed(m.warp, m.mask) {
        Ok(true) => {
            if let Some(races) = &mut m.cta.races {
                races.cluster_wait(m.warp, m.cta.member.arrived_in(m.warp, m.mask.trailing_zeros() % 32));
            }
            m.cta.meet(m.warp, !0);
            Flow::Next
        }
        Ok(false) => Flow::Retry,
        Err(fault) => m.fail(fault),
    }
}

fn decode_fence(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let everywhere = ["async", "shared::cta", "shared::cluster"];
    if i.has("proxy")
        && i.modifiers.iter().any(|m| everywhere.contains(&m.as_str()) || m.starts_with("async::"))
    {
        let shared = i.modifiers.iter().any(|m| m.contains("shared::"));
        if !shared {
            d.push(Row::new(global_proxy_fence));
        }
        // A fence for `.global` alone does not apply to shared memory.
        if !i.has("global") {
            d.push(Row::new(proxy_fence));
        }
        return Ok(());
    }
    if i.has("tensormap::generic")
        && i.has("acquire")
        && let Some(map) = i.operands.first()
    {
        let Some(Operand::Immediate(Immediate::Integer { bits: 128, .. })) = i.operands.get(1) else {
            return Err("a fence that acquires a tensor map names its 128 bytes".to_owned());
        };
        let (a, offset) = d.address(map)?;
        let scope = Scope::named_in(i).unwrap_or(Scope::Gpu);
        d.push(Row { a, imm: offset as u64, extra: Some(Box::new(scope)), ..Row::new(acquire_map) });
        return Ok(());
    }
    if i.has("tensormap::generic") && i.has("release") {
        let scope = Scope::named_in(i).unwrap_or(Scope::Gpu);
        d.push(Row { extra: Some(Box::new(scope)), ..Row::new(release_maps) });
        return Ok(());
    }
    if i.has("mbarrier_init") {
        if i.modifiers != ["mbarrier_init", "release", "cluster"] {
            return Err("`fence.mbarrier_init` is `.release.cluster` and nothing else".to_owned());
        }
        d.push(Row::new(|m, _| {
            m.cta.fence_init(m.warp, m.mask);
            Flow::Next
        }));
        return Ok(());
    }
    // Memory is sequentially consistent here; the race detector records the fence and finds the effect of a missing one.
    if !i.has("proxy") {
        d.push(Row { extra: Some(Box::new(Fence::from_instruction(i))), ..Row::new(fence) });
        return Ok(());
    }
    d.push(Row::new(|_, _| Flow::Next));
    Ok(())
}

fn fence(m: &mut Machine<'_>, row: &Row) -> Flow {
    if let (Some(races), Some(fence)) = (&mut m.cta.races, row.extra::<Fence>()) {
        races.fence(m.warp, *fence, &mut m.world.races);
        m.cta.meet_by_fence(m.warp, fence.order.acquires);
    }
    Flow::Next
}

/// Releases writes through the generic proxy to the tensormap proxy.
fn release_maps(m: &mut Machine<'_>, row: &Row) -> Flow {
    if let (Some(races), Some(scope)) = (&mut m.cta.races, row.extra::<Scope>()) {
        races.release_map(m.warp, *scope, None, &mut m.world.races);
    }
    Flow::Next
}

/// Updates the tensormap proxy's knowledge of a tensor map. An acquire is no access, and a map that it does not make
/// visible may never be used: a copy that uses it reports what is missing.
fn acquire_map(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(scope) = row.extra::<Scope>() else { return Flow::Next };
    for lane in lanes(m.mask) {
        let address = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
        if window_of(address).0 != Window::Global {
            continue;
        }
        if address == 0 {
            m.lane_remarks
                .push((lane, "an acquire of a tensor map at address 0, where there is none".to_owned()));
            continue;
        }
        m.world.touch(address, TENSOR_MAP_BYTES, false);
        let place = match m.world.global.locate(address, TENSOR_MAP_BYTES) {
            Ok((region, at)) => m.world.global.region(region).get::<TENSOR_MAP_BYTES>(at),
            Err(fault) => return m.fail(fault.at(lane)),
        };
        if let Some(map) = place.and_then(|bytes| TensorMap::decode(&bytes).ok()) {
            let World { races: world, stream, .. } = &mut *m.world;
            let races = m.cta.races.as_mut();
            let lacks =
                races.and_then(|r| r.acquire_map(m.warp, *scope, (address, TENSOR_MAP_BYTES), world, stream));
            let clock = m.cta.races.as_ref().map_or(0, |r| r.clock(m.warp));
            m.cta.acquired.insert((address, m.warp), Acquired { map, clock, lacks });
        }
    }
    m.record_remarks();
    Flow::Next
}

fn global_proxy_fence(m: &mut Machine<'_>, _: &Row) -> Flow {
    if let Some(races) = &mut m.cta.races {
        races.global_proxy_fence(m.warp, &mut m.world.races);
    }
    Flow::Next
}

fn proxy_fence(m: &mut Machine<'_>, _: &Row) -> Flow {
    m.cta.fence_proxy(m.warp, m.mask);
    if let Some(races) = &mut m.cta.races {
        races.proxy_fence(m.warp);
    }
    Flow::Next
}
