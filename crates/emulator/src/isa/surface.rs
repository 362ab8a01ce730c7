//! Surfaces (PTX ISA 9.7.11): `suld`, `sust`, `sured`, `suq`, with handles of surface objects. x is in bytes for `.b`, in texels for `.p`.
//!
//! What lies outside a surface is a violation with `.trap`, the nearest texel with `.clamp`, and nothing with `.zero`. A load may return
//! what was there before the grid began, as a texture fetch ([`super::texture`]).

use ptx::{Instruction, Operand, Type};

use super::FormRow;
use super::texture::{address, decode_handle, decode_query, object, read_bytes, read_only_bytes};
use crate::api::texture::{Arrangement, Channel, Image, Level, TextureObject};
use crate::api::trap::{Fault, Rule};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::words::Refusal;
use crate::rules::order::{Order, Scope, Strong, Touch};
use crate::run::machine::{Flow, Machine, Space, lanes};

const CHAPTER: &str = "Surfaces";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "suld", "suld.b.geom{.cache}{.vec}.type.clamp", decode),
    FormRow::new(CHAPTER, "sust", "sust.{b,p}.geom{.cache}{.vec}.type.clamp", decode),
    FormRow::new(CHAPTER, "sured", "sured.{b,p}.op.geom.type.clamp", decode),
    FormRow::new(CHAPTER, "suq", "suq.query.b32", decode_query),
];

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Load,
    Store,
    Reduce(Reduction),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reduction {
    Add,
    Min,
    Max,
    And,
    Or,
}

/// What a place outside the surface means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outside {
    Trap,
    Clamp,
    Zero,
}

/// An access: its extra data.
struct Access {
    handle: (u32, i64),
    action: Action,
    outside: Outside,
    /// Whether x is in texels and values are converted to the format of the surface.
    formatted: bool,
    dimensions: usize,
    layer: Option<u32>,
    coordinates: Vec<u32>,
    ty: Type,
    /// The registers of the elements, of the 64-bit bank if the type has 64 bits.
    elements: Vec<u32>,
}

fn decode(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let geometry = i.modifiers.iter().find_map(|word| match word.as_str() {
        "1d" => Some((1, false)),
        "2d" => Some((2, false)),
        "3d" => Some((3, false)),
        "a1d" => Some((1, true)),
        "a2d" => Some((2, true)),
        _ => None,
    });
    let (dimensions, layers) = geometry.ok_or("a surface of this geometry is not emulated")?;
    let ty = i.modifiers.iter().filter_map(|word| Type::named(word)).next_back();
    let ty = ty.ok_or("a surface access names a type")?;
    let outside = match i.modifiers.last().map(String::as_str) {
        Some("clamp") => Outside::Clamp,
        Some("zero") => Outside::Zero,
        _ => Outside::Trap,
    };
    let action = match i.opcode.as_str() {
        "suld" => Action::Load,
        "sust" => Action::Store,
        _ => Action::Reduce(reduction(i)?),
    };
    let (surface, values) = match (i.operands.as_slice(), action) {
        ([values, surface], Action::Load) | ([surface, values], _) => (surface, values),
        _ => return Err("a surface access has a surface and values".to_owned()),
    };
    let Operand::Composite(_, parts) = surface else {
        return Err("a surface is [handle, {coordinates}]".to_owned());
    };
    let coordinates = match parts.as_slice() {
        [Operand::Vector(list)] => list.as_slice(),
        other => other,
    };
    let mut slots = coordinates.iter().map(|c| d.src(c, Type::B32)).collect::<Result<Vec<_>, _>>()?;
    let layer = if layers && !slots.is_empty() { Some(slots.remove(0)) } else { None };
    if slots.len() < dimensions {
        return Err(format!("{} coordinates for {dimensions} dimensions", slots.len()));
    }
    slots.truncate(dimensions);
    let handle = decode_handle(d, surface)?;
    let wide = ty.bytes() == 8;
    let elements = Decoder::elements(values).iter();
    let elements = elements
        .map(|element| match (action, wide) {
            (Action::Load, _) => d.dst_as(element, ty),
            (_, true) => d.src_d(element, ty),
            (_, false) => d.src(element, ty),
        })
        .collect::<Result<_, _>>()?;
    let formatted = i.modifiers.first().is_some_and(|word| word == "p");
    let access =
        Access { handle, action, outside, formatted, dimensions, layer, coordinates: slots, ty, elements };
    d.push(Row { extra: Some(Box::new(access)), ..Row::new(run) });
    Ok(())
}

fn reduction(i: &Instruction) -> Result<Reduction, Refusal> {
    let op = i.modifiers.get(1).map_or("", String::as_str);
    Ok(match op {
        "add" => Reduction::Add,
        "min" => Reduction::Min,
        "max" => Reduction::Max,
        "and" => Reduction::And,
        "or" => Reduction::Or,
        _ => return Err(format!("there is no reduction `{op}` of a surface")),
    })
}

fn run(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(access) = row.extra::<Access>() else { return Flow::Next };
    if access.action != Action::Load {
        m.world.communicate();
    }
    for lane in lanes(m.mask) {
        if let Err(fault) = access_lane(m, access, lane) {
            return m.fail(fault.at(lane));
        }
    }
    Flow::Next
}

fn access_lane(m: &mut Machine<'_>, access: &Access, lane: usize) -> Result<(), Fault> {
    let object = object(m, access.handle, lane)?;
    let TextureObject::Surface(image) = &*object else {
        return Err(Fault::new(Rule::Operand, "a surface access to a texture"));
    };
    let level = image.levels[0];
    let len = if access.formatted {
        image.format.bytes() as usize
    } else {
        access.ty.bytes() * access.elements.len()
    };
    let Some(address) = place(m, access, image, level, (lane, len))? else {
        if access.action == Action::Load {
            (0..access.elements.len()).for_each(|n| put(m, access, n, lane, 0));
        }
        return Ok(());
    };
    match access.action {
        Action::Load => {
            let bytes = read_only_bytes(m, address, len, lane)?;
            for n in 0..access.elements.len() {
                let size = access.ty.bytes();
                let mut word = [0; 8];
                word[..size].copy_from_slice(&bytes[n * size..(n + 1) * size]);
                put(m, access, n, lane, u64::from_le_bytes(word));
            }
            Ok(())
        }
        Action::Store => {
            let bytes =
                if access.formatted { formatted(m, access, image, lane) } else { raw(m, access, lane) };
            write_bytes(m, address, &bytes[..len], lane)
        }
        Action::Reduce(op) => {
            let size = access.ty.bytes();
            let strong = Strong { order: Order::relaxed(Scope::Gpu), touch: Touch::Reduce };
            m.strongly(strong, |m| {
                let bytes = read_bytes(m, address, size, lane)?;
                let old = u64::from_le_bytes(std::array::from_fn(|n| if n < size { bytes[n] } else { 0 }));
                let new = reduced(op, access.ty, old, value(m, access, 0, lane));
                write_bytes(m, address, &new.to_le_bytes()[..size], lane)
            })
        }
    }
}

/// The address of an access; `None` if it has none and does nothing.
fn place(
    m: &Machine<'_>,
    access: &Access,
    image: &Image,
    level: Level,
    (lane, len): (usize, usize),
) -> Result<Option<u64>, Fault> {
    let number = |slot: u32| i64::from(m.r.w[slot as usize][lane] as i32);
    let has_layers =
        matches!(image.arrangement, Arrangement::Layers(_) | Arrangement::Cube | Arrangement::Cubes);
    if image.arrangement.dimensions() != access.dimensions || has_layers != access.layer.is_some() {
        let what =
            format!("an access to a surface whose texels are arranged otherwise: {:?}", image.arrangement);
        return Err(Fault::new(Rule::Operand, what));
    }
    let texel = image.format.bytes() as i64;
    let mut at = [0i64; 3];
    for (to, slot) in at.iter_mut().zip(&access.coordinates) {
        *to = number(*slot);
    }
    let byte = if access.formatted { at[0].wrapping_mul(texel) } else { at[0] };
    if let Some(layer) = access.layer {
        at[2] = number(layer);
    }
    if byte.rem_euclid(len.max(1) as i64) != 0 {
        return Err(Fault::new(
            Rule::Misaligned,
            format!("byte {byte} of a row, in an access to {len} bytes"),
        ));
    }
    let row = i64::from(level.size[0]) * texel;
    let limits = [row - len as i64, i64::from(level.size[1]) - 1, i64::from(level.size[2]) - 1];
    let mut inside = [byte, at[1], at[2]];
    let is_inside = inside.iter().zip(limits).all(|(at, last)| (0..=last).contains(at));
    match access.outside {
        _ if is_inside => {}
        Outside::Zero => return Ok(None),
        Outside::Clamp => {
            inside.iter_mut().zip(limits).for_each(|(at, last)| *at = (*at).clamp(0, last.max(0)));
        }
        Outside::Trap => {
            let [x, y, z] = level.size;
            let what = format!(
                "byte {byte}, row {}, slice {} of a surface of {x} x {y} x {z} texels of {texel} bytes, which lies outside of it",
                at[1], at[2]
            );
            return Err(Fault::new(Rule::OutOfBounds, what));
        }
    }
    Ok(Some(address(level, image.format, [0, inside[1], inside[2]]) + inside[0] as u64))
}

fn value(m: &Machine<'_>, access: &Access, n: usize, lane: usize) -> u64 {
    let Some(slot) = access.elements.get(n).map(|slot| *slot as usize) else { return 0 };
    if access.ty.bytes() == 8 { m.r.d[slot][lane] } else { u64::from(m.r.w[slot][lane]) }
}

fn put(m: &mut Machine<'_>, access: &Access, n: usize, lane: usize, bits: u64) {
    let slot = access.elements[n] as usize;
    if access.ty.bytes() == 8 { m.r.d[slot][lane] = bits } else { m.r.w[slot][lane] = bits as u32 }
}

/// The bytes of the registers, as they are.
fn raw(m: &Machine<'_>, access: &Access, lane: usize) -> [u8; 16] {
    let size = access.ty.bytes();
    let mut bytes = [0; 16];
    for n in 0..access.elements.len() {
        bytes[n * size..(n + 1) * size].copy_from_slice(&value(m, access, n, lane).to_le_bytes()[..size]);
    }
    bytes
}

/// The values of the registers in the format of the surface: integers are saturated, floats are rounded.
fn formatted(m: &Machine<'_>, access: &Access, image: &Image, lane: usize) -> [u8; 16] {
    let format = image.format;
    let size = format.bits as usize / 8;
    let mut bytes = [0; 16];
    for n in 0..format.channels as usize {
        let word = value(m, access, n, lane) as u32;
        let signed = i64::from(word as i32);
        let bits: u64 = match format.channel {
            Channel::Signed => signed.clamp(-(1 << (format.bits - 1)), (1 << (format.bits - 1)) - 1) as u64,
            Channel::Unsigned => u64::from(word).min((1 << format.bits) - 1),
            Channel::Float if format.bits == 16 => {
                u64::from(numerics::texture::single_to_half(f32::from_bits(word)))
            }
            Channel::Float => u64::from(word),
        };
        bytes[n * size..(n + 1) * size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }
    bytes
}

fn write_bytes(m: &mut Machine<'_>, address: u64, bytes: &[u8], lane: usize) -> Result<(), Fault> {
    fn write<const N: usize>(
        m: &mut Machine<'_>,
        address: u64,
        bytes: &[u8],
        lane: usize,
    ) -> Result<(), Fault> {
        m.write::<N>(Space::Global, address, lane, std::array::from_fn(|n| bytes[n]))
    }
    match bytes.len() {
        1 => write::<1>(m, address, bytes, lane),
        2 => write::<2>(m, address, bytes, lane),
        4 => write::<4>(m, address, bytes, lane),
        8 => write::<8>(m, address, bytes, lane),
        _ => write::<16>(m, address, bytes, lane),
    }
}

fn reduced(op: Reduction, ty: Type, old: u64, new: u64) -> u64 {
    let signed = matches!(ty, Type::S32 | Type::S64);
    let less = match (signed, ty.bytes()) {
        (true, 4) => (old as i32) < new as i32,
        (true, _) => (old as i64) < new as i64,
        (false, _) => old < new,
    };
    match op {
        Reduction::Add => old.wrapping_add(new),
        Reduction::Min => {
            if less {
                old
            } else {
                new
            }
        }
        Reduction::Max => {
            if less {
                new
            } else {
                old
            }
        }
        Reduction::And => old & new,
        Reduction::Or => old | new,
    }
}
