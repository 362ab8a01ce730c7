//! Tensor copies (PTX ISA 9.7.9.27.5): `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor`, in tile mode.

use ptx::{Instruction, Operand, Type};

use super::bulk::{BarrierOperand, completion, named_ctas, sides};
use super::{FormRow, Words};
use crate::api::trap::{Fault, Rule};
use crate::copies::boxes::{self, Mode, Use};
use crate::copies::pending::{Pending, PendingKind, Piece, Store, Work};
use crate::copies::reduce::Reduce;
use crate::copies::tensor_map::{TENSOR_MAP_BYTES, TensorMap};
use crate::copies::tensor_map_bytes::missing;
use crate::copies::tensor_type::TensorType;
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::words::Refusal;
use crate::memory::window::{Window, window_of};
use crate::run::cluster::RANK_SHIFT;
use crate::run::machine::{Flow, Machine, Space, lanes};

const CHAPTER: &str = "Data Movement: tensor copies";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "cp.async.bulk.tensor",
        "cp.async.bulk.tensor.{1d…5d}.d.s{.tile,.tile::gather4,.tile::scatter4,.im2col}.{mbarrier::complete_tx::bytes,bulk_group}{.multicast::cluster}…",
        decode_copy,
    ),
    FormRow::new(
        CHAPTER,
        "cp.reduce.async.bulk.tensor",
        "cp.reduce.async.bulk.tensor.{1d…5d}.global.shared::cta.op{.tile}.bulk_group",
        decode_copy,
    ),
    FormRow::new(
        CHAPTER,
        "cp.async.bulk.prefetch.tensor",
        "cp.async.bulk.prefetch.tensor.{1d…5d}.L2.global{.tile,.im2col} (its map and coordinates are checked)",
        decode_copy,
    ),
    FormRow::planned(
        CHAPTER,
        "cp.async.bulk.tensor.im2col_no_offs",
        "stores in im2col mode, and the modes `im2col::w` and `im2col::w::128`",
    ),
];

/// A tensor copy.
struct Tensor {
    rank: usize,
    mode: Mode,
    map: (u32, i64),
    coordinates: Vec<u32>,
    /// Offsets of the pixels of an im2col copy.
    offsets: Vec<u32>,
    /// The address in shared memory; `None` for a prefetch.
    shared: Option<(u32, i64)>,
    barrier: Option<BarrierOperand>,
    ctas: Option<u32>,
    /// Whether the destination may be another CTA's.
    to_cluster: bool,
    reduce: Option<&'static str>,
    line: u32,
}

/// How a copy walks through a tensor.
struct Walk {
    mode: Mode,
    gather: bool,
    scatter: bool,
    /// In the order of im2col.
    walks: bool,
}

/// Reads the words that say how a copy walks through a tensor of this many dimensions.
fn walk(words: &mut Words<'_>, rank: usize) -> Result<Walk, Refusal> {
    let gather = words.take("tile::gather4");
    let scatter = words.take("tile::scatter4");
    let walks = words.take("im2col");
    let mode = match (gather || scatter, walks) {
        (true, _) => Mode::Rows { gather },
        (false, true) => Mode::Im2col { offsets: [0; 3] },
        (false, false) => Mode::Tile,
    };
    words.take("tile");
    if let Some(word) = words.left().iter().find(|w| w.starts_with("im2col") || w.starts_with("tile::")) {
        return Err(format!("the mode `.{word}` is known but not emulated"));
    }
    if walks && rank < 3 {
        return Err("im2col is for tensors of three to five dimensions".to_owned());
    }
    if matches!(mode, Mode::Rows { .. }) && rank != 2 {
        return Err("`.tile::gather4` and `.tile::scatter4` are for tensors of two dimensions".to_owned());
    }
    Ok(Walk { mode, gather, scatter, walks })
}

fn decode_copy(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    for word in ["async", "bulk", "tensor"] {
        words.take(word);
    }
    let rank = match words.one_of(&["1d", "2d", "3d", "4d", "5d"]) {
        Some(word) => usize::from(word.as_bytes()[0] - b'0'),
        None => return Err("a tensor copy names its dimensions".to_owned()),
    };
    let prefetch = words.take("prefetch");
    let Walk { mode, gather, scatter, walks } = walk(&mut words, rank)?;
    words.take("L2");
    words.take("L2::cache_hint");
    let multicast = words.take("multicast::cluster") || words.take("multicast::cluster::16b");
    words.take("cta_group::1");
    let mut reduce = None;
    let (load, signals);
    if prefetch {
        words.take("global");
        if scatter {
            return Err("`.tile::scatter4` is for stores".to_owned());
        }
        (load, signals) = (true, false);
    } else {
        let (to, from) = sides(i, &mut words)?;
        signals = completion(&mut words)?;
        if words.take("reduce") {
            const OPERATIONS: [&str; 8] = ["add", "min", "max", "inc", "dec", "and", "or", "xor"];
            let op = words.one_of(&OPERATIONS).ok_or("a reduction requires an operation")?;
            reduce = OPERATIONS.into_iter().find(|o| *o == op);
        }
        load = match (to, from, signals) {
            ("shared::cta" | "shared::cluster", "global", true) if reduce.is_none() && !scatter => true,
            ("global", "shared::cta", false)
                if !(gather || walks || multicast || scatter && reduce.is_some()) =>
            {
                false
            }
            _ => return Err(format!("there is no such tensor copy from {from} to {to}")),
        };
    }
    words.done()?;
    let mut operands = i.operands.iter();
    let mut next = |what: &str| operands.next().ok_or_else(|| format!("a tensor copy requires {what}"));
    // Loads name shared memory first, stores the tensor; prefetches have no shared memory.
    let (tensor, shared) = match (prefetch, load) {
        (true, _) => (next("a tensor map")?, None),
        (false, true) => {
            let shared = next("a destination")?;
            (next("a tensor map")?, Some(shared))
        }
        (false, false) => {
            let tensor = next("a tensor map")?;
            (tensor, Some(next("a source")?))
        }
    };
    let Operand::Composite(_, parts) = tensor else {
        return Err("a tensor operand is [map, {coordinates}]".to_owned());
    };
    let [Operand::Vector(list)] = parts.as_slice() else {
        return Err("a tensor operand is [map, {coordinates}]".to_owned());
    };
    if list.len() != if matches!(mode, Mode::Rows { .. }) { 5 } else { rank } {
        return Err(format!("{} coordinates for {rank} dimensions", list.len()));
    }
    let coordinates = list.iter().map(|c| d.src(c, Type::S32)).collect::<Result<_, _>>()?;
    let map = d.address(tensor)?;
    let shared = match shared {
        Some(operand) => Some(d.address(operand)?),
        None => None,
    };
    let barrier = if signals { Some(BarrierOperand::decode(d, next("a barrier")?)?) } else { None };
    let mut offsets = Vec::new();
    if walks {
        let Operand::Vector(list) = next("offsets of pixels")? else {
            return Err("offsets of pixels are a vector".to_owned());
        };
        if list.len() != rank - 2 {
            return Err(format!("{} offsets of pixels for {rank} dimensions", list.len()));
        }
        offsets = list.iter().map(|o| d.src(o, Type::U16)).collect::<Result<_, _>>()?;
    }
    let ctas = if multicast { Some(d.src(next("a CTA mask")?, Type::U16)?) } else { None };
    d.async_copies = true;
    let to_cluster = load && i.has("shared::cluster");
    let line = d.line();
    let tensor =
        Tensor { rank, mode, map, coordinates, offsets, shared, barrier, ctas, to_cluster, reduce, line };
    d.push(Row { extra: Some(Box::new(tensor)), ..Row::new(copy) });
    Ok(())
}

fn copy(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(tensor) = row.extra::<Tensor>() else { return Flow::Next };
    for lane in lanes(m.mask) {
        if let Err(fault) = issue(m, tensor, lane) {
            return m.fail(fault.at(lane));
        }
    }
    m.record_remarks();
    Flow::Next
}

/// The 128 bytes of a tensor map in memory.
pub(crate) fn read_map(
    m: &mut Machine<'_>,
    space: Space,
    address: u64,
    lane: usize,
) -> Result<([u8; TENSOR_MAP_BYTES], TensorMap), Fault> {
    let mut bytes = [0; TENSOR_MAP_BYTES];
    for (i, part) in bytes.chunks_exact_mut(16).enumerate() {
        part.copy_from_slice(&m.read::<16>(space, address + 16 * i as u64, lane)?);
    }
    let map = TensorMap::decode(&bytes);
    let map = map.map_err(|e| Fault::new(Rule::TensorMap, format!("{e}, at {address:#x}")))?;
    Ok((bytes, map))
}

/// Reads the tensor map of a copy and checks that it is whole, visible and of the copy's dimensions. Returns it with its address, if that
/// is in global memory.
fn checked_map(m: &mut Machine<'_>, tensor: &Tensor, lane: usize) -> Result<(TensorMap, Option<u64>), Fault> {
    let rule = |what: String| Fault::new(Rule::TensorMap, what);
    let address = m.r.d[tensor.map.0 as usize][lane].wrapping_add_signed(tensor.map.1);
    Machine::aligned(address, 64)?;
    let (bytes, map) = read_map(m, Space::Generic, address, lane)?;
    if let Some(field) = missing(&bytes, &map) {
        return Err(rule(format!(
            "the tensor map at {address:#x} is built from zeros, and `{field}` was never set"
        )));
    }
    map.check().map_err(|e| rule(e.to_string()))?;
    let in_global = (window_of(address).0 == Window::Global).then_some(address);
    if m.cta.races.is_some()
        && m.world.races.written(address, TENSOR_MAP_BYTES)
        && let Some(lacks) = m.cta.map_lacks(address, m.warp, &map)
    {
        let what =
            format!("no proxy fence: the tensor map at {address:#x} was written in this launch, and {lacks}");
        return Err(Fault::new(Rule::Race, what));
    }
    if map.rank != tensor.rank {
        let what = format!("a copy of {} dimensions by a map of {}", tensor.rank, map.rank);
        return Err(rule(what));
    }
    Ok((map, in_global))
}

fn issue(m: &mut Machine<'_>, tensor: &Tensor, lane: usize) -> Result<(), Fault> {
    let rule = |what: String| Fault::new(Rule::TensorMap, what);
    let (map, in_global) = checked_map(m, tensor, lane)?;
    let mut coordinates = [0i64; 5];
    for (to, slot) in coordinates.iter_mut().zip(&tensor.coordinates) {
        *to = i64::from(m.r.w[*slot as usize][lane] as i32);
    }
    let load = tensor.barrier.is_some() || tensor.shared.is_none();
    let usage = match (load, tensor.reduce) {
        (true, _) => Use::Load,
        (false, None) => Use::Store,
        (false, Some(_)) => Use::Reduce,
    };
    let mode = match tensor.mode {
        Mode::Im2col { mut offsets } => {
            for (to, slot) in offsets.iter_mut().zip(&tensor.offsets) {
                *to = i64::from(m.r.w[*slot as usize][lane] as u16);
            }
            Mode::Im2col { offsets }
        }
        mode => mode,
    };
    boxes::check(&map, &coordinates, mode, usage).map_err(rule)?;
    let Some((slot, offset)) = tensor.shared else { return Ok(()) };
    let address = m.r.d[slot as usize][lane].wrapping_add_signed(offset);
    let space = if tensor.to_cluster { Space::Cluster } else { Space::Shared };
    let at = super::async_copy::shared_window(m, space, address)?;
    let rank = if tensor.to_cluster { m.site(at, 0)?.rank } else { None };
    let at = if rank.is_some() { at & ((1 << RANK_SHIFT) - 1) } else { at };
    if !at.is_multiple_of(boxes::SHARED_ALIGNMENT) {
        let what = format!("shared address {at:#x} is not a multiple of {}", boxes::SHARED_ALIGNMENT);
        return Err(Fault::new(Rule::Misaligned, what));
    }
    let pack6 = map.data_type == TensorType::U6Align16;
    let mut pieces = boxes::pieces(&map, &coordinates, mode, usage, at, lane);
    if !load {
        // A store reads only what it writes.
        pieces.retain(|piece| piece.taken > 0);
        pieces.iter_mut().filter(|_| !pack6).for_each(|piece| *piece = piece.trimmed());
    }
    // The swizzle moves the parts of a box: each one is looked up separately.
    let mut placed = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let at = m.shared_at(piece.at as u64, piece.len)?;
        let piece = Piece { at, ..piece };
        if map.data_type == TensorType::U6Align16 {
            // Its bytes are packed differently on both sides, so that they cannot be split.
            if piece.taken > 0 {
                m.world.global.reach(piece.address, piece.taken)?;
            }
            placed.push(piece);
        } else {
            placed.extend(piece.by_buffer(&mut m.world.global)?);
        }
    }
    let reduce = match tensor.reduce {
        Some(op) => Some(reduction(op, map.data_type).map_err(rule)?),
        None => None,
    };
    let work = if load {
        Work::Load { fill: Some(boxes::fill(&map)), round: boxes::rounds(map.data_type) }
    } else {
        Work::Store(Store { reduce, pack6, ..Store::default() })
    };
    let bytes = map.transaction_bytes() * if matches!(mode, Mode::Rows { .. }) { 4 } else { 1 };
    let ranks = match tensor.ctas {
        Some(slot) => named_ctas(m, slot, lane)?,
        None => vec![rank],
    };
    let mut number = 0;
    for rank in ranks {
        let barrier = match tensor.barrier {
            Some(operand) if tensor.ctas.is_some() => Some(operand.place_in(m, lane, rank)?),
            Some(operand) => Some(operand.place_for_proxy(m, lane, rank)?),
            None => None,
        };
        let pending = Pending {
            warp: m.warp,
            lanes: 1 << lane,
            kind: if barrier.is_some() { PendingKind::Barrier } else { PendingKind::Bulk },
            group: None,
            line: tensor.line,
            pieces: placed.clone(),
            work: work.clone(),
            barrier: barrier.map(|at| (at, bytes as u32)),
            foreign: false,
            map: in_global,
            number,
        };
        number = m.issue_at(rank, pending)?;
    }
    Ok(())
}

/// The reduction of a tensor's type.
fn reduction(op: &str, ty: TensorType) -> Result<Reduce, String> {
    let bits = matches!(op, "and" | "or" | "xor");
    let ty = match ty {
        TensorType::F32Ftz | TensorType::Tf32Ftz if op == "add" => return Ok(Reduce::flushed_sum()),
        TensorType::U32 | TensorType::S32 if bits => Type::B32,
        TensorType::U64 if bits => Type::B64,
        TensorType::U32 => Type::U32,
        TensorType::S32 => Type::S32,
        TensorType::U64 => Type::U64,
        TensorType::S64 if op != "add" => Type::S64,
        TensorType::F16 => Type::F16,
        TensorType::Bf16 => Type::Bf16,
        TensorType::F32 | TensorType::Tf32 => Type::F32,
        TensorType::F64 => Type::F64,
        other => return Err(format!("there is no reduction `{op}` of {other}")),
    };
    Reduce::from_op(op, ty)
}
