//! Bulk copies (PTX ISA 9.7.9.27.4): `cp.async.bulk`, `cp.reduce.async.bulk`, their groups, and `st.bulk`.

use ptx::{Instruction, Operand, Type};

use super::async_copy::{cache_words, constant, shared_window};
use super::mbarrier::cluster_object;
use super::{FormRow, Words};
use crate::api::trap::{Fault, Rule};
use crate::copies::pending::{Pending, PendingKind, Piece, Store, Work};
use crate::copies::reduce::Reduce;
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::registers::Bank;
use crate::front::words::Refusal;
use crate::memory::remote::Site;
use crate::run::machine::{Flow, Machine, Space, lanes};

const CHAPTER: &str = "Data Movement: bulk copies";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "cp.async.bulk",
        "cp.async.bulk{.weak,.relaxed.scope}.d.s.{mbarrier::complete_tx::bytes,bulk_group}{.multicast::cluster,.cp_mask,.ignore_oob}…",
        decode_copy,
    ),
    FormRow::new(
        CHAPTER,
        "cp.reduce.async.bulk",
        "cp.reduce.async.bulk.d.s.{mbarrier::complete_tx::bytes,bulk_group}.op{.noftz}.type",
        decode_copy,
    ),
    FormRow::new(
        CHAPTER,
        "cp.async.bulk.prefetch",
        "cp.async.bulk.prefetch.L2.global [s], size (its address and size are checked)",
        decode_prefetch,
    ),
    FormRow::new(CHAPTER, "cp.async.bulk.commit_group", "cp.async.bulk.commit_group", |d, _| {
        d.push(Row::new(commit));
        Ok(())
    }),
    FormRow::new(CHAPTER, "cp.async.bulk.wait_group", "cp.async.bulk.wait_group{.read} n", decode_wait),
    FormRow::new(CHAPTER, "st.bulk", "st.bulk{.weak}{.shared::cta} [d], size, 0", decode_store_bulk),
    FormRow::out_of_scope(
        CHAPTER,
        "multimem.cp.async.bulk",
        "multimem.cp.async.bulk…: multicast addresses need several devices",
    ),
    FormRow::out_of_scope(
        CHAPTER,
        "multimem.cp.reduce.async.bulk",
        "multimem.cp.reduce.async.bulk…: multicast addresses need several devices",
    ),
];

/// A barrier object as an operand: slot and offset.
#[derive(Clone, Copy)]
pub(crate) struct BarrierOperand {
    slot: u32,
    offset: i64,
}

impl BarrierOperand {
    pub(crate) fn decode(d: &mut Decoder<'_>, operand: &Operand) -> Result<Self, Refusal> {
        let (slot, offset) = d.address(operand)?;
        Ok(Self { slot, offset })
    }

    /// The site of the object, which must exist.
    pub(crate) fn site(self, m: &mut Machine<'_>, lane: usize) -> Result<Site, Fault> {
        let address = m.r.d[self.slot as usize][lane].wrapping_add_signed(self.offset);
        let site = cluster_object(m, true, address)?;
        m.with_barrier(site, |cta, at| cta.mbarrier(at).map(|_| site))
    }

    /// The place of the object for a copy of the async proxy, which must see the initialisation of the object: in the CTA of `rank`, whose shared
    /// memory the copy writes.
    pub(crate) fn place_for_proxy(
        self,
        m: &mut Machine<'_>,
        lane: usize,
        rank: Option<u32>,
    ) -> Result<usize, Fault> {
        let site = self.site(m, lane)?;
        if site.rank != rank {
            let name = |rank: Option<u32>| rank.unwrap_or(m.cta.member.rank);
            let what = format!(
                "the copy writes shared memory of CTA rank {}, but its mbarrier is in that of CTA rank {}",
                name(rank),
                name(site.rank)
            );
            return Err(Fault::new(Rule::Operand, what));
        }
        signalled(m, site, lane)
    }

    /// The place of the object in the CTA of `rank` that a multicast reaches: at one offset in every CTA.
    pub(crate) fn place_in(
        self,
        m: &mut Machine<'_>,
        lane: usize,
        rank: Option<u32>,
    ) -> Result<usize, Fault> {
        let address = m.r.d[self.slot as usize][lane].wrapping_add_signed(self.offset);
        let site = cluster_object(m, true, address)?.with_rank(rank);
        signalled(m, site, lane)
    }
}

/// The place of a barrier object that the async proxy signals: it exists, and the proxy sees it.
pub(crate) fn signalled(m: &mut Machine<'_>, site: Site, lane: usize) -> Result<usize, Fault> {
    m.with_barrier(site, |cta, at| cta.mbarrier(at).map(|_| ()))?;
    match m.with_barrier(site, |cta, at| cta.seen_by_proxy(at)) {
        // Other CTAs need the fence not only for the proxy.
        Err(fault) if site.rank.is_none() && !m.world.check_fences => m.lane_remarks.push((lane, fault.what)),
        other => other?,
    }
    Ok(site.at)
}

/// The state spaces of a copy in written order: destination first. They are taken out of the words.
pub(crate) fn sides<'a>(i: &'a Instruction, words: &mut Words<'_>) -> Result<(&'a str, &'a str), Refusal> {
    let known = ["shared::cta", "shared::cluster", "global"];
    let mut named = i.modifiers.iter().map(String::as_str).filter(|m| known.contains(m));
    let (Some(to), Some(from), None) = (named.next(), named.next(), named.next()) else {
        return Err("a bulk copy names two state spaces".to_owned());
    };
    words.take(to);
    words.take(from);
    Ok((to, from))
}

/// Takes the completion mechanism; returns whether it is a barrier object.
pub(crate) fn completion(words: &mut Words<'_>) -> Result<bool, Refusal> {
    match (words.take("mbarrier::complete_tx::bytes"), words.take("bulk_group")) {
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        _ => Err("a bulk copy completes on an mbarrier or in a bulk_group".to_owned()),
    }
}

/// The CTAs that a mask names; the own one is `None`.
pub(crate) fn named_ctas(m: &Machine<'_>, slot: u32, lane: usize) -> Result<Vec<Option<u32>>, Fault> {
    let mask = m.r.w[slot as usize][lane] & 0xFFFF;
    let (size, own) = (m.cta.member.size(), m.cta.member.rank);
    if mask == 0 || mask >> size != 0 {
        return Err(Fault::new(Rule::Operand, format!("CTA mask {mask:#06x} in a cluster of {size}")));
    }
    Ok((0..size).filter(|rank| mask >> rank & 1 == 1).map(|rank| (rank != own).then_some(rank)).collect())
}

/// A bulk copy.
struct Bulk {
    to: (u32, i64),
    from: (u32, i64),
    to_shared: bool,
    /// Whether the destination may be another CTA's.
    to_cluster: bool,
    from_shared: bool,
    size: u32,
    barrier: Option<BarrierOperand>,
    ctas: Option<u32>,
    mask: Option<u32>,
    /// Bytes at the beginning and at the end that may be outside every allocation.
    ignored: Option<[u32; 2]>,
    reduce: Option<Reduce>,
    line: u32,
}

fn decode_copy(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("async");
    words.take("bulk");
    let (to, from) = sides(i, &mut words)?;
    let signals = completion(&mut words)?;
    // The order has no effect here: there is one memory.
    if !words.take("weak") && words.take("relaxed") {
        words.one_of(&["cta", "cluster", "gpu", "sys"]);
    }
    let hint = cache_words(&mut words);
    let multicast = words.take("multicast::cluster") || words.take("multicast::cluster::16b");
    let masked = words.take("cp_mask");
    let ignores = words.take("ignore_oob");
    let mut reduce = None;
    if words.take("reduce") {
        let op = words.one_of(&["add", "min", "max", "inc", "dec", "and", "or", "xor"]);
        let op = op.ok_or("a reduction requires an operation")?;
        let exact = words.take("noftz");
        let ty = words.ty()?;
        if exact && ty == Type::F32 {
            return Err("`.noftz` of .f32 is known but not emulated".to_owned());
        }
        if exact != (op == "add" && matches!(ty, Type::F16 | Type::Bf16)) {
            return Err(
                "`.noftz` is required for `.add` of .f16 and .bf16 and allowed nowhere else".to_owned()
            );
        }
        if to != "global" && !within(op, ty) {
            return Err(format!("there is no reduction `{op}` of {ty} in shared memory"));
        }
        reduce = Some(Reduce::from_op(op, ty)?);
    } else {
        words.take("b128");
    }
    words.done()?;
    let legal = match (to, from, signals) {
        ("shared::cta" | "shared::cluster", "global", true) => reduce.is_none() && !masked,
        ("shared::cluster", "shared::cta", true) => !masked && !multicast,
        ("global", "shared::cta", false) => !(multicast || masked && reduce.is_some()),
        _ => false,
    };
    if !legal || ignores && (to != "shared::cta" || from != "global") {
        return Err(format!("there is no such bulk copy from {from} to {to}"));
    }
    let mut operands = i.operands.iter();
    let mut next = |what: &str| operands.next().ok_or_else(|| format!("a bulk copy requires {what}"));
    let to_address = d.address(next("a destination")?)?;
    let from_address = d.address(next("a source")?)?;
    let size = d.src(next("a size")?, Type::U32)?;
    let mut ignored = None;
    if ignores {
        let left = d.src(next("a number of bytes to ignore")?, Type::U32)?;
        ignored = Some([left, d.src(next("a number of bytes to ignore")?, Type::U32)?]);
    }
    let barrier = if signals { Some(BarrierOperand::decode(d, next("a barrier")?)?) } else { None };
    let ctas = if multicast { Some(d.src(next("a CTA mask")?, Type::U16)?) } else { None };
    if hint {
        next("a policy")?;
    }
    let mask = if masked { Some(d.src(next("a byte mask")?, Type::U16)?) } else { None };
    let from_shared = from != "global";
    d.async_copies = true;
    let bulk = Bulk {
        to: to_address,
        from: from_address,
        to_shared: to != "global",
        to_cluster: to == "shared::cluster",
        from_shared,
        size,
        barrier,
        ctas,
        mask,
        ignored,
        reduce,
        line: d.line(),
    };
    d.push(Row { extra: Some(Box::new(bulk)), ..Row::new(copy) });
    Ok(())
}

/// Whether shared memory has this reduction.
fn within(op: &str, ty: Type) -> bool {
    match op {
        "add" => matches!(ty, Type::U32 | Type::S32 | Type::U64),
        "min" | "max" => matches!(ty, Type::U32 | Type::S32),
        "inc" | "dec" => ty == Type::U32,
        _ => ty == Type::B32,
    }
}

fn copy(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(bulk) = row.extra::<Bulk>() else { return Flow::Next };
    for lane in lanes(m.mask) {
        if let Err(fault) = issue(m, bulk, lane) {
            return m.fail(fault.at(lane));
        }
    }
    m.record_remarks();
    Flow::Next
}

/// The rules of a bulk address and size.
fn check(address: u64, size: usize) -> Result<(), Fault> {
    Machine::aligned(address, 16)?;
    if !size.is_multiple_of(16) {
        return Err(Fault::new(
            Rule::Misaligned,
            format!("a bulk size of {size}, which is not a multiple of 16"),
        ));
    }
    Ok(())
}

/// The global address of a bulk copy, whose bytes must exist.
fn global(m: &mut Machine<'_>, address: u64, size: usize) -> Result<u64, Fault> {
    check(address, size)?;
    m.split(Space::Global, address)?;
    if size > 0 {
        m.world.global.runs(address, size)?;
    }
    Ok(address)
}

fn shared(m: &Machine<'_>, address: u64, size: usize) -> Result<usize, Fault> {
    check(address, size)?;
    let at = shared_window(m, Space::Shared, address)?;
    m.shared_at(at, size)
}

/// A load whose ends may be outside every allocation; ignored bytes are undefined afterwards.
fn part(
    m: &mut Machine<'_>,
    ends: [u32; 2],
    lane: usize,
    at: usize,
    size: usize,
    from: u64,
) -> Result<Vec<Piece>, Fault> {
    let [left, right] = ends.map(|slot| m.r.w[slot as usize][lane] as usize);
    if left > 15 || right > 15 || left + right > size {
        let what = format!("{left} and {right} of {size} bytes are ignored; the maximum is 15 at either end");
        return Err(Fault::new(Rule::Operand, what));
    }
    check(from, size)?;
    m.split(Space::Global, from)?;
    let (address, taken) = (from + left as u64, size - left - right);
    Piece { lane: lane as u32, at, len: size, address, skip: left, taken }.by_buffer(&mut m.world.global)
}

/// The runs of bytes that a mask selects in `size` bytes: offsets and lengths. A bit stands for a byte of each group of 16.
fn runs(mask: u16, size: usize) -> impl Iterator<Item = (usize, usize)> {
    let selected = move |at: usize| mask >> (at % 16) & 1 == 1;
    let mut at = if mask == 0 { size } else { 0 };
    std::iter::from_fn(move || {
        let start = (at..size).find(|at| selected(*at))?;
        at = if mask == u16::MAX { size } else { (start..size).find(|at| !selected(*at)).unwrap_or(size) };
        Some((start, at - start))
    })
}

/// A store of the bytes that a mask selects, one piece for each run. The other bytes are neither read nor written: they may be outside
/// every allocation, unwritten, or in use by others.
fn selected(
    m: &mut Machine<'_>,
    mask: u16,
    lane: usize,
    from: u64,
    size: usize,
    to: u64,
) -> Result<Vec<Piece>, Fault> {
    check(from, size)?;
    check(to, size)?;
    let from = shared_window(m, Space::Shared, from)?;
    m.split(Space::Global, to)?;
    let one = |(start, len): (usize, usize)| {
        let (from, to) = (from.wrapping_add(start as u64), to.wrapping_add(start as u64));
        let at = m.shared_at(from, len)?;
        Piece::whole(lane, at, len, to).by_buffer(&mut m.world.global)
    };
    let pieces: Result<Vec<_>, Fault> = runs(mask, size).map(one).collect();
    Ok(pieces?.concat())
}

fn issue(m: &mut Machine<'_>, bulk: &Bulk, lane: usize) -> Result<(), Fault> {
    let size = m.r.w[bulk.size as usize][lane] as usize;
    let to = m.r.d[bulk.to.0 as usize][lane].wrapping_add_signed(bulk.to.1);
    let from = m.r.d[bulk.from.0 as usize][lane].wrapping_add_signed(bulk.from.1);
    let mut rank = None;
    let (pieces, work) = match (bulk.to_shared, bulk.from_shared) {
        (true, false) => {
            let at;
            (rank, at) = target(m, bulk, to, size)?;
            match bulk.ignored {
                None => {
                    let whole = Piece::whole(lane, at, size, global(m, from, size)?);
                    let pieces = whole.by_buffer(&mut m.world.global)?;
                    (pieces, Work::Load { fill: Some([0; 16]), round: false })
                }
                Some(ends) => (part(m, ends, lane, at, size, from)?, Work::Load { fill: None, round: false }),
            }
        }
        (false, _) => {
            let pieces = match bulk.mask {
                None => Piece::whole(lane, shared(m, from, size)?, size, global(m, to, size)?)
                    .by_buffer(&mut m.world.global)?,
                Some(slot) => selected(m, m.r.w[slot as usize][lane] as u16, lane, from, size, to)?,
            };
            (pieces, Work::Store(Store { reduce: bulk.reduce, ..Store::default() }))
        }
        (true, true) => {
            let at = shared(m, from, size)?;
            let to_at;
            (rank, to_at) = target(m, bulk, to, size)?;
            match rank {
                None => {
                    let whole = Piece::whole(lane, at, size, to_at as u64);
                    (vec![whole], Work::Within { reduce: bulk.reduce })
                }
                // Its source is read at once, which is one of the permitted times.
                Some(_) => {
                    let bytes =
                        m.cta.read_for_copy(at, size, m.warp * 32 + lane as u32, m.world.check_init)?;
                    (vec![Piece::whole(lane, to_at, size, 0)], Work::Put { bytes, reduce: bulk.reduce })
                }
            }
        }
    };
    let ranks = match bulk.ctas {
        Some(slot) => named_ctas(m, slot, lane)?,
        None => vec![rank],
    };
    let mut number = 0;
    for rank in ranks {
        number = issue_to(m, bulk, (lane, rank), (&pieces, size), work.clone(), number)?;
    }
    Ok(())
}

/// The CTA and the place that a copy to shared memory writes.
fn target(m: &mut Machine<'_>, bulk: &Bulk, to: u64, size: usize) -> Result<(Option<u32>, usize), Fault> {
    if !bulk.to_cluster {
        return Ok((None, shared(m, to, size)?));
    }
    let at = shared_window(m, Space::Cluster, to)?;
    check(at, size)?;
    let Site { rank, at } = m.site(at, size)?;
    Ok((rank, at))
}

fn issue_to(
    m: &mut Machine<'_>,
    bulk: &Bulk,
    (lane, rank): (usize, Option<u32>),
    (pieces, size): (&[Piece], usize),
    work: Work,
    number: u32,
) -> Result<u32, Fault> {
    let barrier = match bulk.barrier {
        Some(operand) if bulk.ctas.is_some() => Some(operand.place_in(m, lane, rank)?),
        Some(operand) => Some(operand.place_for_proxy(m, lane, rank)?),
        None => None,
    };
    let barrier = barrier.map(|at| (at, size as u32));
    let pending = Pending {
        warp: m.warp,
        lanes: 1 << lane,
        kind: if barrier.is_some() { PendingKind::Barrier } else { PendingKind::Bulk },
        group: None,
        line: bulk.line,
        pieces: pieces.to_vec(),
        work,
        barrier,
        foreign: false,
        map: None,
        number,
    };
    m.issue_at(rank, pending)
}

fn decode_prefetch(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    for word in ["async", "bulk", "prefetch", "L2", "global"] {
        words.take(word);
    }
    cache_words(&mut words);
    words.done()?;
    let [from, size, ..] = i.operands.as_slice() else {
        return Err("it takes an address and a size".to_owned());
    };
    let b = d.src(size, Type::U32)?;
    let (a, offset) = d.address(from)?;
    d.push(Row { a, b, imm: offset as u64, ..Row::new(prefetch) });
    Ok(())
}

fn prefetch(m: &mut Machine<'_>, row: &Row) -> Flow {
    for lane in lanes(m.mask) {
        let address = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
        let size = m.r.w[row.b as usize][lane] as usize;
        if let Err(fault) = global(m, address, size) {
            return m.fail(fault.at(lane));
        }
    }
    Flow::Next
}

fn commit(m: &mut Machine<'_>, _: &Row) -> Flow {
    m.cta.commit(m.warp, m.mask, PendingKind::Bulk);
    Flow::Next
}

fn decode_wait(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let n = i.operands.first().and_then(constant).ok_or("cp.async.bulk.wait_group takes a constant")?;
    d.push(Row { imm: n, c: u32::from(i.has("read")), ..Row::new(wait) });
    Ok(())
}

fn wait(m: &mut Machine<'_>, row: &Row) -> Flow {
    match m.cta.wait_group(m.world, m.warp, m.mask, PendingKind::Bulk, row.imm, row.c == 1) {
        Ok(()) => Flow::Next,
        Err(fault) => m.fail(fault),
    }
}

fn decode_store_bulk(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("bulk");
    words.take("weak");
    let c = u32::from(words.take("shared::cta"));
    words.done()?;
    let [to, size, value] = i.operands.as_slice() else {
        return Err("st.bulk takes an address, a size and 0".to_owned());
    };
    if constant(value) != Some(0) {
        return Err("st.bulk stores zeros only".to_owned());
    }
    let narrow = matches!(size, Operand::Name(n) if d.register(n).is_some_and(|r| r.bank == Bank::W));
    let b = if narrow {
        let wide = d.fresh(Type::B64).slot;
        let a = d.src(size, Type::U32)?;
        d.push(Row { d: wide, a, ..Row::new(crate::front::rows::widen()) });
        wide
    } else {
        d.src_d(size, Type::U64)?
    };
    let (a, offset) = d.address(to)?;
    d.push(Row { a, b, c, imm: offset as u64, ..Row::new(store_bulk) });
    Ok(())
}

/// The maximum number of bytes of one `st.bulk`.
const MOST_BULK: u64 = 16_777_216;

fn store_bulk(m: &mut Machine<'_>, row: &Row) -> Flow {
    let space = if row.c == 1 { Space::Shared } else { Space::Generic };
    for lane in lanes(m.mask) {
        let address = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
        let size = m.r.d[row.b as usize][lane];
        let result = shared_window(m, space, address).and_then(|at| {
            Machine::aligned(at, 8)?;
            if !size.is_multiple_of(8) || size > MOST_BULK {
                let what =
                    format!("a size of {size} bytes; the size must be a multiple of 8 up to {MOST_BULK}");
                return Err(Fault::new(Rule::Misaligned, what));
            }
            let size = size as usize;
            let at = m.shared_at(at, size)?;
            m.cta.note(at, size, true, m.warp)?;
            m.cta.wrote(at, size, m.warp * 32 + lane as u32);
            m.cta.shared.put(at, &vec![0; size]);
            Ok(())
        });
        if let Err(fault) = result {
            return m.fail(fault.at(lane));
        }
    }
    m.cta.events += 1;
    Flow::Next
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn a_byte_mask_repeats_and_its_runs_are_joined() {
        let of = |mask, size| runs(mask, size).collect::<Vec<_>>();
        assert_eq!(of(0xF, 32), [(0, 4), (16, 4)]);
        assert_eq!(of(0xF00F, 48), [(0, 4), (12, 8), (28, 8), (44, 4)]);
        assert_eq!(of(0b101, 16), [(0, 1), (2, 1)]);
        assert_eq!(of(0, 1 << 20), []);
        assert_eq!(of(0xFFFF, 1 << 20), [(0, 1 << 20)]);
        assert_eq!(of(0xFFFF, 0), []);
    }
}
