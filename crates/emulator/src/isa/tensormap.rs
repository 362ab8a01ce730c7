//! Modification of tensor maps in memory (PTX ISA 9.7.9.28, 9.7.13.16): `tensormap.replace`, `tensormap.cp_fenceproxy`.

use ptx::{Instruction, Type};

use super::async_copy::constant;
use super::moves::space;
use super::tensor::read_map;
use super::{FormRow, Words};
use crate::api::trap::{Fault, Rule};
use crate::copies::tensor_map::{TENSOR_MAP_BYTES, TensorMap};
use crate::copies::tensor_map_bytes::{Field, after_setting};
use crate::copies::tensor_type::{Interleave, OobFill, Swizzle, TensorType};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::rows::widen;
use crate::front::words::Refusal;
use crate::rules::drafts::Watch;
use crate::rules::order::Scope;
use crate::run::machine::{Flow, Machine, Space, lanes};

const CHAPTER: &str = "Data Movement: tensor maps";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "tensormap.replace",
        "tensormap.replace.tile.field{.global,.shared::cta}.b1024.{b32,b64} [map]{, ord}, value",
        decode_replace,
    ),
    FormRow::new(
        CHAPTER,
        "tensormap.cp_fenceproxy",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [d], [s], 128",
        decode_copy,
    ),
];

/// The object of a replacement.
struct Replace {
    field: Field,
    space: Space,
}

fn decode_replace(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    for word in ["replace", "tile", "b1024"] {
        words.take(word);
    }
    let space = space(&mut words).unwrap_or(Space::Generic);
    let ty = words.ty()?;
    let names = [
        "global_address",
        "rank",
        "box_dim",
        "global_dim",
        "global_stride",
        "element_stride",
        "elemtype",
        "interleave_layout",
        "swizzle_mode",
        "swizzle_atomicity",
        "fill_mode",
    ];
    let name = words.one_of(&names).ok_or("tensormap.replace names a field")?;
    words.done()?;
    let (map, ordinal, value) = match i.operands.as_slice() {
        [map, value] => (map, None, value),
        [map, ordinal, value] => (map, Some(constant(ordinal).ok_or("the ordinal is a constant")?), value),
        _ => return Err("tensormap.replace takes a map, perhaps an ordinal, and a value".to_owned()),
    };
    let most = if name == "global_stride" { 4 } else { 5 };
    let nth = || match ordinal {
        Some(n) if n < most => Ok(n as usize),
        _ => Err(format!("`.{name}` takes an ordinal below {most}")),
    };
    let field = match name {
        "box_dim" => Field::Box(nth()?),
        "global_dim" => Field::Dim(nth()?),
        "global_stride" => Field::Stride(nth()?),
        "element_stride" => Field::ElementStride(nth()?),
        _ if ordinal.is_some() => return Err(format!("`.{name}` takes no ordinal")),
        "global_address" => Field::Address,
        "rank" => Field::Rank,
        "elemtype" => Field::Type,
        "interleave_layout" => Field::Interleave,
        "swizzle_mode" => Field::Swizzle,
        "swizzle_atomicity" => Field::Atomicity,
        _ => Field::Fill,
    };
    let wide = matches!(field, Field::Address | Field::Stride(_));
    if wide != (ty.bytes() == 8) {
        return Err(format!("`.{name}` of {ty}"));
    }
    let b = if wide {
        d.src_d(value, Type::B64)?
    } else {
        let narrow = d.src(value, Type::B32)?;
        let slot = d.fresh(Type::B64).slot;
        d.push(Row { d: slot, a: narrow, ..Row::new(widen()) });
        slot
    };
    let (a, offset) = d.address(map)?;
    d.map_edits = d.map_edits.max(if space == Space::Shared { Watch::Shared } else { Watch::Everywhere });
    let extra = Some(Box::new(Replace { field, space }) as Box<_>);
    d.push(Row { a, b, imm: offset as u64, extra, ..Row::new(replace) });
    Ok(())
}

fn replace(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(Replace { field, space }) = row.extra::<Replace>() else { return Flow::Next };
    let (addresses, values) = (m.r.d[row.a as usize], m.r.d[row.b as usize]);
    for lane in lanes(m.mask) {
        let (address, value) = (addresses[lane].wrapping_add(row.imm), values[lane]);
        // Lanes of one instruction may set the same field to the same value.
        if lanes(m.mask)
            .take_while(|l| *l < lane)
            .any(|l| (addresses[l], values[l]) == (addresses[lane], value))
        {
            continue;
        }
        let result = Machine::aligned(address, 64).and_then(|()| {
            met(m, *space, address, Some(lane))?;
            let (bytes, mut map) = read_map(m, *space, address, lane)?;
            change(&mut map, *field, value).map_err(|what| Fault::new(Rule::TensorMap, what))?;
            write_map(m, *space, address, lane, &after_setting(&bytes, map, *field))
        });
        if let Err(fault) = result {
            return m.fail(fault.at(lane));
        }
    }
    m.record_remarks();
    if matches!(space, Space::Shared) {
        m.cta.events += 1
    } else {
        m.world.events += 1
    }
    Flow::Next
}

/// Checks whether a lane, or the whole warp, finds bytes of a map that other lanes stored without synchronizing in between.
fn met(m: &Machine<'_>, space: Space, address: u64, reader: Option<usize>) -> Result<(), Fault> {
    let Some(drafts) = &m.cta.drafts else { return Ok(()) };
    let (_, address) = m.split(space, address)?;
    match drafts.apart(address, TENSOR_MAP_BYTES, m.warp, reader) {
        None => Ok(()),
        Some((byte, other)) => {
            let who = reader.map_or("the warp".to_owned(), |lane| format!("lane {lane}"));
            let what = format!(
                "{who} reads the tensor map at {address:#x}, whose byte at {byte:#x} lane {other} of the same warp \
                 wrote without a `bar.warp.sync` in between"
            );
            Err(Fault::new(Rule::Race, what))
        }
    }
}

fn write_map(
    m: &mut Machine<'_>,
    space: Space,
    address: u64,
    lane: usize,
    bytes: &[u8; TENSOR_MAP_BYTES],
) -> Result<(), Fault> {
    for (i, part) in bytes.chunks_exact(16).enumerate() {
        let mut word = [0; 16];
        word.copy_from_slice(part);
        m.write::<16>(space, address + 16 * i as u64, lane, word)?;
    }
    Ok(())
}

/// Stores a value in a field. Values are those of the driver, except that the rank is one less.
fn change(map: &mut TensorMap, field: Field, value: u64) -> Result<(), String> {
    let among = |low: u64, high: u64, what: &str| {
        if (low..=high).contains(&value) {
            Ok(value)
        } else {
            Err(format!("a new {what} of {value}; it must be {low} to {high}"))
        }
    };
    let missing = |what: &str| format!("a new {what} of {value}, which does not exist");
    match field {
        Field::Address => map.address = value,
        Field::Rank => map.rank = among(0, 4, "rank (less one)")? as usize + 1,
        Field::Box(n) => map.box_dims[n] = among(1, 256, "box dimension")? as u32,
        Field::Dim(n) => map.dims[n] = among(1, u64::from(u32::MAX), "dimension")?,
        Field::Stride(_) if !value.is_multiple_of(16) => {
            return Err(format!("a new stride of {value} bytes, which is not a multiple of 16"));
        }
        Field::Stride(n) => map.strides[n] = among(0, (1 << 40) - 1, "stride")?,
        Field::ElementStride(n) => map.element_strides[n] = among(1, 8, "element stride")? as u32,
        Field::Type => {
            use TensorType::{
                Bf16, F16, F32, F32Ftz, F64, S32, S64, Tf32, Tf32Ftz, U4Align8, U4Align16, U6Align16, U8,
                U16, U32, U64,
            };
            // The order of the PTX manual, which differs from the driver's.
            const TYPES: [TensorType; 16] = [
                U8, U16, U32, S32, U64, S64, F16, F32, F32Ftz, F64, Bf16, Tf32, Tf32Ftz, U4Align8, U4Align16,
                U6Align16,
            ];
            map.data_type = *TYPES.get(value as usize).ok_or_else(|| missing("element type"))?;
        }
        Field::Interleave => {
            map.interleave = Interleave::from_code(value).ok_or_else(|| missing("interleaving"))?
        }
        Field::Swizzle => {
            let mode =
                Swizzle::from_code(value).filter(|_| value < 4).ok_or_else(|| missing("swizzle mode"))?;
            // The atomicity stays if the mode has one.
            if mode != Swizzle::B128 || map.swizzle.span() != 128 {
                map.swizzle = mode;
            }
        }
        Field::Atomicity => {
            const ATOMS: [Swizzle; 4] =
                [Swizzle::B128, Swizzle::B128Atom32, Swizzle::B128Atom32Flip8, Swizzle::B128Atom64];
            let atom = *ATOMS.get(value as usize).ok_or_else(|| missing("swizzle atomicity"))?;
            if map.swizzle.span() == 128 {
                map.swizzle = atom;
            } else if value != 0 {
                return Err(format!("a swizzle atomicity of {value} without 128-byte swizzling"));
            }
        }
        Field::Fill => map.oob_fill = OobFill::from_code(value).ok_or_else(|| missing("fill mode"))?,
    }
    Ok(())
}

fn decode_copy(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    for word in ["cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"]
    {
        if !words.take(word) {
            return Err(format!("tensormap.cp_fenceproxy without `.{word}`"));
        }
    }
    let scope = Scope::named_in(i).ok_or("tensormap.cp_fenceproxy names a scope")?;
    words.one_of(&["cta", "cluster", "gpu", "sys"]);
    words.done()?;
    let [to, from, size] = i.operands.as_slice() else {
        return Err("it takes two addresses and 128".to_owned());
    };
    if constant(size) != Some(TENSOR_MAP_BYTES as u64) {
        return Err("the size is 128".to_owned());
    }
    let (a, to) = d.address(to)?;
    let (b, from) = d.address(from)?;
    d.map_edits = d.map_edits.max(Watch::Shared);
    d.push(Row { a, b, imm: to as u64, extra: Some(Box::new((from, scope))), ..Row::new(copy) });
    Ok(())
}

/// The warp copies one map.
fn copy(m: &mut Machine<'_>, row: &Row) -> Flow {
    if let Err(flow) = m.all_together() {
        return flow;
    }
    let Some((offset, scope)) = row.extra::<(i64, Scope)>().copied() else { return Flow::Next };
    let lane = m.mask.trailing_zeros() as usize % 32;
    let to = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
    let from = m.r.d[row.b as usize][lane].wrapping_add_signed(offset);
    let same = |slot: u32| {
        let values = &m.r.d[slot as usize];
        lanes(m.mask).all(|l| values[l] == values[lane])
    };
    if !same(row.a) || !same(row.b) {
        return m.fail(Fault::new(Rule::Operand, "lanes that name different tensor maps"));
    }
    let result = Machine::aligned(to | from, TENSOR_MAP_BYTES).and_then(|()| {
        // Any lane may do the copying, and `.sync` alone orders no memory (PTX ISA 8).
        match met(m, Space::Shared, from, None) {
            Err(fault) if !m.world.check_fences => m.lane_remarks.push((lane, fault.what)),
            other => other?,
        }
        let (bytes, _) = read_map(m, Space::Shared, from, lane)?;
        write_map(m, Space::Global, to, lane, &bytes)?;
        if let Some(races) = &mut m.cta.races {
            races.release_map(m.warp, scope, Some(to), &mut m.world.races);
        }
        Ok(())
    });
    m.record_remarks();
    m.world.events += 1;
    match result {
        Ok(()) => Flow::Next,
        Err(fault) => m.fail(fault.at(lane)),
    }
}
