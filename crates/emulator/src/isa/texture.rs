//! Texture fetches (PTX ISA 9.7.10): `tex`, `tld4`, `txq`, with handles of texture objects.
//!
//! A texture reads global memory through a cache that is not kept coherent: bytes that the same grid has written may be read as they were
//! before (CUDA C++ Programming Guide, "Read/Write Coherency"), which is a race here.

use std::sync::Arc;

use numerics::texture::{
    between, fraction, most, nearest, part_weights, position, weighted, weighted_fraction, weights,
};
use ptx::{AddressBase, Instruction, Operand, Type};

use super::FormRow;
use super::srgb::linear;
use crate::api::texture::{
    Addressing, Arrangement, Channel, Image, Level, Sampling, TexelFormat, TextureObject,
};
use crate::api::trap::{Fault, Rule};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::registers::Bank;
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine, Space, lanes};

const CHAPTER: &str = "Textures";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "tex", "tex{.base,.level,.grad}.geom.v4.type.type", decode_fetch),
    FormRow::new(CHAPTER, "tld4", "tld4.component.{2d,a2d}.v4.type.f32", decode_fetch),
    FormRow::new(CHAPTER, "txq", "txq{.level}.query.b32", decode_query),
];

/// Where a fetch takes its mipmap level from.
#[derive(Debug, Clone)]
enum Detail {
    /// The first level.
    Base,
    /// A register.
    Level(u32),
    /// The gradients of the coordinates in x and in y.
    Gradient([Vec<u32>; 2]),
}

/// A fetch: its extra data.
struct Fetch {
    handle: (u32, i64),
    /// The arrangement that the instruction names.
    geometry: Geometry,
    /// The register of the layer.
    layer: Option<u32>,
    coordinates: Vec<u32>,
    /// Whether the coordinates are integers.
    integers: bool,
    detail: Detail,
    /// The type of the results.
    ty: Type,
    /// The channel that `tld4` gathers.
    gathers: Option<usize>,
    to: Vec<u32>,
    /// The predicate that says whether the texels are resident.
    resident: Option<u32>,
}

/// The geometry that an instruction names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Geometry {
    dimensions: usize,
    layers: bool,
    cube: bool,
}

impl Geometry {
    fn named(word: &str) -> Option<Self> {
        let (layers, rest) = word.strip_prefix('a').map_or((false, word), |rest| (true, rest));
        let (dimensions, cube) = match rest {
            "1d" => (1, false),
            "2d" => (2, false),
            "3d" if !layers => (3, false),
            "cube" => (3, true),
            _ => return None,
        };
        Some(Self { dimensions, layers, cube })
    }

    /// Whether an image has it.
    fn fits(self, arrangement: Arrangement) -> bool {
        let of_image = match arrangement {
            Arrangement::Linear => Self { dimensions: 1, layers: false, cube: false },
            Arrangement::Dimensions(n) => Self { dimensions: usize::from(n), layers: false, cube: false },
            Arrangement::Layers(n) => Self { dimensions: usize::from(n), layers: true, cube: false },
            Arrangement::Cube => Self { dimensions: 3, layers: false, cube: true },
            Arrangement::Cubes => Self { dimensions: 3, layers: true, cube: true },
        };
        self == of_image
    }
}

/// The slots of the elements of a vector operand.
fn vector(
    d: &mut Decoder<'_>,
    operand: Option<&Operand>,
    ty: Type,
    least: usize,
) -> Result<Vec<u32>, Refusal> {
    let Some(Operand::Vector(list)) = operand else {
        return Err("a vector of registers is expected".to_owned());
    };
    if list.len() < least {
        return Err(format!("{} elements, where {least} are expected", list.len()));
    }
    list.iter().take(least).map(|element| d.src(element, ty)).collect()
}

fn decode_fetch(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let geometry = i.modifiers.iter().find_map(|word| Geometry::named(word));
    let geometry = geometry.ok_or("a texture of this geometry is not emulated")?;
    let types: Vec<Type> = i.modifiers.iter().filter_map(|word| Type::named(word)).collect();
    let [.., ty, coordinate] = types[..] else { return Err("a fetch names two types".to_owned()) };
    if !matches!(ty, Type::F32 | Type::U32 | Type::S32) {
        return Err(format!("results of type {ty} are not emulated"));
    }
    let gathers = (i.opcode == "tld4")
        .then(|| i.modifiers.first().and_then(|word| ["r", "g", "b", "a"].iter().position(|c| c == word)));
    let gathers = gathers.map(|channel| channel.ok_or("tld4 names a component")).transpose()?;
    let mut operands = i.operands.iter();
    let (to, resident) = match operands.next() {
        Some(Operand::Pair(to, resident)) => (&**to, Some(d.dst_p(resident)?)),
        Some(to) => (to, None),
        None => return Err("a fetch has results".to_owned()),
    };
    let texture = operands.next().ok_or("a fetch names a texture")?;
    let Operand::Composite(_, parts) = texture else {
        return Err("a texture is [handle, {coordinates}]".to_owned());
    };
    let [coordinates] = parts.as_slice() else {
        return Err("samplers of their own (`.texmode_independent`) are not emulated".to_owned());
    };
    let coordinates = match coordinates {
        Operand::Vector(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let (layer, coordinates) = match coordinates.split_first() {
        Some((layer, rest)) if geometry.layers => (Some(d.src(layer, Type::B32)?), rest),
        _ => (None, coordinates),
    };
    if coordinates.len() < geometry.dimensions {
        return Err(format!("{} coordinates for {} dimensions", coordinates.len(), geometry.dimensions));
    }
    let coordinates: Vec<u32> = coordinates
        .iter()
        .take(geometry.dimensions)
        .map(|c| d.src(c, coordinate))
        .collect::<Result<_, _>>()?;
    let handle = decode_handle(d, texture)?;
    let detail = match (i.has("level"), i.has("grad")) {
        (true, _) => Detail::Level(d.src(operands.next().ok_or("a level is expected")?, coordinate)?),
        (_, true) => {
            let x = vector(d, operands.next(), Type::F32, geometry.dimensions)?;
            Detail::Gradient([x, vector(d, operands.next(), Type::F32, geometry.dimensions)?])
        }
        _ => Detail::Base,
    };
    if operands.next().is_some() {
        return Err("offsets of texels and depth comparisons are not emulated".to_owned());
    }
    let to = Decoder::elements(to).iter().map(|element| d.dst_as(element, ty)).collect::<Result<_, _>>()?;
    let integers = coordinate != Type::F32;
    let fetch = Fetch { handle, geometry, layer, coordinates, integers, detail, ty, gathers, to, resident };
    d.push(Row { extra: Some(Box::new(fetch)), ..Row::new(fetch_texels) });
    Ok(())
}

/// The slot and the offset of a handle: a number of 64 bits.
pub(super) fn decode_handle(d: &mut Decoder<'_>, operand: &Operand) -> Result<(u32, i64), Refusal> {
    if let Operand::Address(address) | Operand::Qualified(address, _) | Operand::Composite(address, _) =
        operand
        && let AddressBase::Name(name) = &address.base
        && let Some(register) = d.register(name)
        && (register.bank != Bank::D || register.ty == Type::F64)
    {
        return Err(format!("`{name}` cannot hold a handle, which has 64 bits"));
    }
    d.address(operand)
}

/// The object of a handle.
pub(super) fn object(
    m: &Machine<'_>,
    (slot, offset): (u32, i64),
    lane: usize,
) -> Result<Arc<TextureObject>, Fault> {
    let handle = m.r.d[slot as usize][lane].wrapping_add_signed(offset);
    m.world.global.textures.get(handle).cloned().ok_or_else(|| {
        Fault::new(
            Rule::OutOfBounds,
            format!("{handle:#x} is the handle of no texture or surface, or it was destroyed"),
        )
    })
}

fn fetch_texels(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(fetch) = row.extra::<Fetch>() else { return Flow::Next };
    for lane in lanes(m.mask) {
        match fetch_lane(m, fetch, lane) {
            Ok(texel) => {
                for (slot, word) in fetch.to.iter().zip(texel) {
                    m.r.w[*slot as usize][lane] = word;
                }
            }
            Err(fault) => return m.fail(fault.at(lane)),
        }
    }
    if let Some(resident) = fetch.resident {
        m.r.p[resident as usize] |= m.mask;
    }
    Flow::Next
}

fn fetch_lane(m: &mut Machine<'_>, fetch: &Fetch, lane: usize) -> Result<[u32; 4], Fault> {
    let object = object(m, fetch.handle, lane)?;
    let TextureObject::Texture(image, sampling) = &*object else {
        return Err(Fault::new(Rule::Operand, "a fetch from a surface"));
    };
    if !fetch.geometry.fits(image.arrangement) {
        let what =
            format!("a fetch from a texture whose texels are arranged otherwise: {:?}", image.arrangement);
        return Err(Fault::new(Rule::Operand, what));
    }
    let word = |slot: u32| m.r.w[slot as usize][lane];
    let number =
        |slot: u32| if fetch.integers { word(slot) as i32 as f32 } else { f32::from_bits(word(slot)) };
    let mut at: Vec<f32> = fetch.coordinates.iter().map(|slot| number(*slot)).collect();
    // A negative layer is a large one.
    let mut layer = fetch.layer.map_or(0, |slot| i64::from(word(slot)));
    let mut sampler = Sampler { image, sampling, lane, layer: 0, faces: 1 };
    if fetch.geometry.cube {
        let (face, x, y) = face(&at);
        at = vec![x, y];
        layer = layer.clamp(0, i64::from(image.levels[0].size[2] / 6).max(1) - 1) * 6 + face;
        sampler.faces = 6;
    }
    sampler.layer = layer.clamp(0, i64::from(image.levels[0].size[2].max(1)) - 1);
    let Some(channel) = fetch.gathers else {
        let level = match &fetch.detail {
            Detail::Base => 0.0,
            Detail::Level(slot) => number(*slot),
            Detail::Gradient(gradients) => {
                let gradients =
                    gradients.each_ref().map(|g| g.iter().map(|slot| number(*slot)).collect::<Vec<_>>());
                sampler.level_of(&gradients)
            }
        };
        let texel = if fetch.integers || image.arrangement == Arrangement::Linear {
            sampler.integer(
                m,
                &fetch
                    .coordinates
                    .iter()
                    .map(|s| i64::from(m.r.w[*s as usize][lane] as i32))
                    .collect::<Vec<_>>(),
            )?
        } else {
            sampler.at_level(m, &at, level)?
        };
        return Ok(texel.words(fetch.ty));
    };
    sampler.gather(m, &at, channel).map(|texels| texels.map(|texel| texel.words(fetch.ty)[0]))
}

/// The face of a cube that a direction meets, and the coordinates there, from 0 to 1 (programming guide, "Cubemap Textures").
fn face(direction: &[f32]) -> (i64, f32, f32) {
    let [x, y, z] = [direction[0], direction[1], direction[2]];
    let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
    let (face, m, s, t) = if ax >= ay && ax >= az {
        if x >= 0.0 { (0, ax, -z, -y) } else { (1, ax, z, -y) }
    } else if ay >= az {
        if y >= 0.0 { (2, ay, x, z) } else { (3, ay, x, -z) }
    } else if z >= 0.0 {
        (4, az, x, -y)
    } else {
        (5, az, -x, -y)
    };
    let place = |s: f32| ((f64::from(s) / f64::from(m) + 1.0) / 2.0) as f32;
    (face, place(s), place(t))
}

/// The channels of a texel.
#[derive(Debug, Clone, Copy)]
enum Texel {
    Integers([i64; 4]),
    Floats([f32; 4]),
}

impl Texel {
    /// The registers that receive it.
    fn words(self, ty: Type) -> [u32; 4] {
        match (self, ty) {
            (Self::Integers(channels), Type::F32) => channels.map(|c| (c as f32).to_bits()),
            (Self::Integers(channels), _) => channels.map(|c| c as u32),
            (Self::Floats(channels), _) => channels.map(f32::to_bits),
        }
    }
}

/// A texture while it is sampled.
struct Sampler<'a> {
    image: &'a Image,
    sampling: &'a Sampling,
    lane: usize,
    /// The layer, or the face.
    layer: i64,
    /// Faces of a cube; 1 if it is none.
    faces: u32,
}

impl Sampler<'_> {
    /// The texel that one of linear memory, or of an unfiltered image, has at a place given by integers.
    fn integer(&self, m: &mut Machine<'_>, at: &[i64]) -> Result<Texel, Fault> {
        let level = self.image.levels[0];
        if self.image.arrangement == Arrangement::Linear {
            // What lies outside reads as zero.
            if !(0..i64::from(level.size[0])).contains(&at[0]) {
                return Ok(self.outside([0.0; 4]));
            }
            return self.texel(m, level, [at[0], 0, 0]);
        }
        let places: Vec<Option<i64>> =
            at.iter().enumerate().map(|(n, at)| self.placed(*at, level.size[n], n)).collect();
        self.at_places(m, level, &places)
    }

    /// The mipmap level for the gradients of coordinates.
    fn level_of(&self, gradients: &[Vec<f32>; 2]) -> f32 {
        let size = self.image.levels[0].size;
        let length = |gradient: &Vec<f32>| {
            let scaled = gradient.iter().zip(size).map(|(g, size)| {
                let texels = if self.sampling.normalised { f64::from(size) } else { 1.0 };
                (f64::from(*g) * texels).powi(2)
            });
            scaled.sum::<f64>().sqrt()
        };
        length(&gradients[0]).max(length(&gradients[1])).log2() as f32
    }

    /// The texel of a mipmap level, or between two.
    fn at_level(&self, m: &mut Machine<'_>, at: &[f32], level: f32) -> Result<Texel, Fault> {
        let last = self.image.levels.len() - 1;
        if last == 0 {
            return self.sample(m, at, self.image.levels[0]);
        }
        // Levels are numbers with 8 bits behind the point; what is beyond is dropped before they are added, as on an H200.
        let fixed = |level: f32| (f64::from(level) * 256.0).floor() as i64;
        let [least, most] = self.sampling.levels.map(fixed);
        let level = (fixed(level) + fixed(self.sampling.bias))
            .clamp(least, most.max(least))
            .clamp(0, (last as i64) << 8);
        if !self.sampling.between_levels {
            return self.sample(m, at, self.image.levels[((level + 128) >> 8) as usize]);
        }
        let (lower, fraction) = ((level >> 8) as usize, level & 255);
        let [first, second] = [lower, lower + 1].map(|n| self.image.levels[n.min(last)]);
        if fraction == 0 {
            return self.sample(m, at, first);
        }
        let (mut texels, mut weights) = self.corners(m, at, first, Some(256 - fraction))?;
        let (more, more_weights) = self.corners(m, at, second, Some(fraction))?;
        texels.extend(more);
        weights.extend(more_weights);
        Ok(self.averaged(&texels, &weights))
    }

    /// The texel at coordinates of a level.
    fn sample(&self, m: &mut Machine<'_>, at: &[f32], level: Level) -> Result<Texel, Fault> {
        let size = level.size;
        let positions = self.positions(at, size);
        if !self.sampling.linear {
            let places: Vec<Option<i64>> =
                positions.iter().enumerate().map(|(n, p)| self.placed(nearest(*p), size[n], n)).collect();
            return self.at_places(m, level, &places);
        }
        let (texels, weights) = self.corners(m, at, level, None)?;
        Ok(self.averaged(&texels, &weights))
    }

    fn positions(&self, at: &[f32], size: [u32; 3]) -> Vec<f64> {
        let normalised = self.sampling.normalised || self.faces > 1;
        at.iter().enumerate().map(|(n, x)| position(*x, size[n], normalised)).collect()
    }

    /// The texels that an average uses, with their weights, which add up to `share` if the level is one of two.
    fn corners(
        &self,
        m: &mut Machine<'_>,
        at: &[f32],
        level: Level,
        share: Option<i64>,
    ) -> Result<(Vec<Texel>, Vec<i64>), Fault> {
        let size = level.size;
        let positions = self.positions(at, size);
        if !self.sampling.linear {
            let places: Vec<Option<i64>> =
                positions.iter().enumerate().map(|(n, p)| self.placed(nearest(*p), size[n], n)).collect();
            return Ok((vec![self.at_places(m, level, &places)?], vec![share.unwrap_or(256)]));
        }
        let mut corners: Vec<(i64, i64)> =
            positions.iter().enumerate().map(|(n, p)| self.clamped(between(*p), size[n], n)).collect();
        // A texture of one dimension has a row above it: with a border there, half of the texel is border, as on an H200.
        let is_line = self.image.arrangement == Arrangement::Dimensions(1);
        if is_line && self.sampling.addressing[1] == Addressing::Border {
            corners.push(between(0.0));
        }
        let fractions: Vec<i64> = corners.iter().map(|(_, fraction)| *fraction).collect();
        let weights = match (share, &fractions[..]) {
            (None, fractions) => weights(fractions),
            (Some(share), [square @ .., z]) if square.len() == 2 => {
                // A mipmap of three dimensions: first the slices, then the texels in each.
                let far = (share * z + 128) >> 8;
                [part_weights(share - far, square), part_weights(far, square)].concat()
            }
            (Some(share), fractions) => part_weights(share, fractions),
        };
        let mut texels = Vec::with_capacity(weights.len());
        for (corner, weight) in weights.iter().enumerate() {
            let places: Vec<Option<i64>> = corners
                .iter()
                .enumerate()
                .map(|(n, (low, _))| self.placed(low + (corner as i64 >> n & 1), size[n], n))
                .collect();
            texels.push(if *weight == 0 {
                self.outside([0.0; 4])
            } else {
                self.at_places(m, level, &places)?
            });
        }
        Ok((texels, weights))
    }

    /// A place that is clamped lies between the centres of the first and the last texel.
    fn clamped(&self, (low, fraction): (i64, i64), size: u32, dimension: usize) -> (i64, i64) {
        if self.addressing(dimension) != Addressing::Clamp {
            return (low, fraction);
        }
        let last = i64::from(size) - 1;
        if low < 0 {
            (0, 0)
        } else if low >= last {
            (last, 0)
        } else {
            (low, fraction)
        }
    }

    fn addressing(&self, dimension: usize) -> Addressing {
        let mode = self.sampling.addressing[dimension.min(2)];
        match mode {
            _ if self.faces > 1 => Addressing::Clamp,
            // Texels have no period.
            Addressing::Wrap | Addressing::Mirror if !self.sampling.normalised => Addressing::Clamp,
            mode => mode,
        }
    }

    /// The texel of a dimension that a place means; `None` for the border.
    fn placed(&self, at: i64, size: u32, dimension: usize) -> Option<i64> {
        let size = i64::from(size);
        match self.addressing(dimension) {
            Addressing::Wrap => Some(at.rem_euclid(size)),
            Addressing::Clamp => Some(at.clamp(0, size - 1)),
            Addressing::Mirror => {
                let at = at.rem_euclid(2 * size);
                Some(if at < size { at } else { 2 * size - 1 - at })
            }
            Addressing::Border => (0..size).contains(&at).then_some(at),
        }
    }

    /// The texel at places of a level.
    fn at_places(&self, m: &mut Machine<'_>, level: Level, places: &[Option<i64>]) -> Result<Texel, Fault> {
        let Some(mut at) = places.iter().copied().collect::<Option<Vec<i64>>>() else {
            return Ok(self.outside(self.sampling.border));
        };
        at.resize(3, 0);
        if self.image.arrangement.dimensions() < 3 {
            at[2] = self.layer;
        }
        self.texel(m, level, [at[0], at[1], at[2]])
    }

    /// The texel outside of the image.
    fn outside(&self, colour: [f32; 4]) -> Texel {
        let TexelFormat { channel, bits, .. } = self.image.format;
        if channel == Channel::Float || self.sampling.fractions && !self.filters_integers() {
            return Texel::Floats(colour);
        }
        let scale = if self.sampling.fractions { most(bits, channel == Channel::Signed) as f32 } else { 1.0 };
        Texel::Integers(colour.map(|c| (c * scale) as i64))
    }

    /// Whether integers are averaged before they become fractions.
    fn filters_integers(&self) -> bool {
        self.sampling.linear && self.sampling.fractions && !self.sampling.srgb
    }

    /// The average of texels. Integers are read as fractions, since no others are filtered.
    fn averaged(&self, texels: &[Texel], weights: &[i64]) -> Texel {
        let TexelFormat { channel, bits, .. } = self.image.format;
        let channels = std::array::from_fn(|c| {
            let mut integers = Vec::with_capacity(texels.len());
            let mut floats = Vec::with_capacity(texels.len());
            for texel in texels {
                match texel {
                    Texel::Floats(channels) => floats.push(channels[c]),
                    Texel::Integers(channels) => integers.push(channels[c]),
                }
            }
            if floats.is_empty() {
                return weighted_fraction(&integers, weights, bits, channel == Channel::Signed);
            }
            weighted(&floats, weights, channel == Channel::Float && bits == 16)
        });
        Texel::Floats(channels)
    }

    /// Reads a texel.
    fn texel(&self, m: &mut Machine<'_>, level: Level, at: [i64; 3]) -> Result<Texel, Fault> {
        let format = self.image.format;
        let bytes = read_texel(m, format, address(level, format, at), self.lane)?;
        let mut integers = [0i64; 4];
        for (n, integer) in integers.iter_mut().enumerate().take(format.channels as usize) {
            *integer = channel(&bytes, format, n);
        }
        if format.channel == Channel::Float {
            let float = |bits: i64| {
                if format.bits == 16 {
                    numerics::texture::half_to_single(bits as u16)
                } else {
                    f32::from_bits(bits as u32)
                }
            };
            return Ok(Texel::Floats(integers.map(float)));
        }
        if !self.sampling.fractions {
            return Ok(Texel::Integers(integers));
        }
        let signed = format.channel == Channel::Signed;
        if self.filters_integers() {
            return Ok(Texel::Integers(integers));
        }
        let mut floats = integers.map(|integer| fraction(integer, format.bits, signed));
        if self.sampling.srgb && format.bits == 8 && !signed {
            floats
                .iter_mut()
                .zip(integers)
                .take(3)
                .for_each(|(float, integer)| *float = linear(integer as u8));
        }
        Ok(Texel::Floats(floats))
    }

    /// The four texels that a filter would use, of one channel: (0, 1), (1, 1), (1, 0), (0, 0).
    fn gather(&self, m: &mut Machine<'_>, at: &[f32], channel: usize) -> Result<[Texel; 4], Fault> {
        let level = self.image.levels[0];
        let low: Vec<i64> = at
            .iter()
            .enumerate()
            .map(|(n, x)| between(position(*x, level.size[n], self.sampling.normalised)).0)
            .collect();
        let mut texels = [self.outside([0.0; 4]); 4];
        for (texel, (x, y)) in texels.iter_mut().zip([(0, 1), (1, 1), (1, 0), (0, 0)]) {
            let places: Vec<Option<i64>> = [low[0] + x, low[1] + y]
                .into_iter()
                .enumerate()
                .map(|(n, at)| self.placed(at, level.size[n], n))
                .collect();
            *texel = match self.at_places(m, level, &places)? {
                Texel::Floats(channels) => Texel::Floats([channels[channel]; 4]),
                Texel::Integers(channels) => Texel::Integers([channels[channel]; 4]),
            };
        }
        Ok(texels)
    }
}

/// The address of a texel.
pub(super) fn address(level: Level, format: TexelFormat, [x, y, z]: [i64; 3]) -> u64 {
    let rows = (z as u64) * u64::from(level.size[1]) + y as u64;
    level.address + rows * level.pitch + x as u64 * format.bytes()
}

/// Channel `n` of a texel, sign-extended if it is a signed integer.
fn channel(bytes: &[u8; 16], format: TexelFormat, n: usize) -> i64 {
    let len = format.bits as usize / 8;
    let mut word = [0u8; 8];
    word[..len].copy_from_slice(&bytes[n * len..(n + 1) * len]);
    let value = i64::from_le_bytes(word);
    let shift = 64 - format.bits;
    if format.channel == Channel::Signed { value << shift >> shift } else { value }
}

/// Reads the bytes of a texel through the cache of textures.
pub(super) fn read_texel(
    m: &mut Machine<'_>,
    format: TexelFormat,
    address: u64,
    lane: usize,
) -> Result<[u8; 16], Fault> {
    read_only_bytes(m, address, format.bytes() as usize, lane)
}

/// Reads 1 to 16 bytes that nothing in the grid may write.
pub(super) fn read_only_bytes(
    m: &mut Machine<'_>,
    address: u64,
    len: usize,
    lane: usize,
) -> Result<[u8; 16], Fault> {
    if let Some(read) = m.read_only_apart(|m| read_bytes(m, address, len, lane)) {
        return read;
    }
    if let Some(races) = &m.cta.races {
        races.read_only(address, len, &mut m.world.races)?;
    }
    read_bytes(m, address, len, lane)
}

/// Reads 1 to 16 bytes.
pub(super) fn read_bytes(
    m: &mut Machine<'_>,
    address: u64,
    len: usize,
    lane: usize,
) -> Result<[u8; 16], Fault> {
    fn read<const N: usize>(m: &mut Machine<'_>, address: u64, lane: usize) -> Result<[u8; 16], Fault> {
        let mut bytes = [0; 16];
        bytes[..N].copy_from_slice(&m.read::<N>(Space::Global, address, lane)?);
        Ok(bytes)
    }
    match len {
        1 => read::<1>(m, address, lane),
        2 => read::<2>(m, address, lane),
        4 => read::<4>(m, address, lane),
        8 => read::<8>(m, address, lane),
        _ => read::<16>(m, address, lane),
    }
}

/// A query of a texture or a surface.
#[derive(Debug, Clone, Copy)]
enum Query {
    Size(usize),
    Layers,
    Levels,
    Type,
    Order,
    Normalised,
    Linear,
    Addressing(usize),
}

/// The extra of a query.
struct Asked {
    handle: (u32, i64),
    query: Query,
    to: u32,
    /// The register of the level.
    level: Option<u32>,
}

pub(super) fn decode_query(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let query = i.modifiers.iter().find_map(|word| {
        Some(match word.as_str() {
            "width" => Query::Size(0),
            "height" => Query::Size(1),
            "depth" => Query::Size(2),
            "array_size" => Query::Layers,
            "num_mipmap_levels" => Query::Levels,
            "channel_data_type" => Query::Type,
            "channel_order" => Query::Order,
            "normalized_coords" => Query::Normalised,
            "filter_mode" => Query::Linear,
            "addr_mode_0" => Query::Addressing(0),
            "addr_mode_1" => Query::Addressing(1),
            "addr_mode_2" => Query::Addressing(2),
            _ => return None,
        })
    });
    let query = query.ok_or("this query is not emulated")?;
    let [to, handle, rest @ ..] = i.operands.as_slice() else {
        return Err("a query has a result and a handle".to_owned());
    };
    let handle = decode_handle(d, handle)?;
    let level = rest.first().map(|level| d.src(level, Type::B32)).transpose()?;
    let to = d.dst(to)?;
    d.push(Row { extra: Some(Box::new(Asked { handle, query, to, level })), ..Row::new(answer) });
    Ok(())
}

fn answer(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(asked) = row.extra::<Asked>() else { return Flow::Next };
    for lane in lanes(m.mask) {
        let object = match object(m, asked.handle, lane) {
            Ok(object) => object,
            Err(fault) => return m.fail(fault.at(lane)),
        };
        let (image, sampling) = match &*object {
            TextureObject::Texture(image, sampling) => (image, Some(sampling)),
            TextureObject::Surface(image) => (image, None),
        };
        let level = asked.level.map_or(0, |slot| m.r.w[slot as usize][lane] as usize);
        let size = image.levels[level.min(image.levels.len() - 1)].size;
        m.r.w[asked.to as usize][lane] = asked.query.answer(image, sampling, size);
    }
    Flow::Next
}

impl Query {
    fn answer(self, image: &Image, sampling: Option<&Sampling>, size: [u32; 3]) -> u32 {
        let has_depth = image.arrangement == Arrangement::Dimensions(3);
        match self {
            Self::Size(2) if !has_depth => 0,
            Self::Size(1) if image.arrangement.dimensions() < 2 => 0,
            Self::Size(n) => size[n],
            Self::Layers if has_depth => 0,
            Self::Layers => size[2],
            Self::Levels => image.levels.len() as u32,
            // The numbers of OpenCL, which PTX uses.
            Self::Type => {
                let row = match image.format.bits {
                    8 => 0,
                    16 => 1,
                    _ => 2,
                };
                match image.format.channel {
                    Channel::Signed => 0x10D7 + row,
                    Channel::Unsigned => 0x10DA + row,
                    Channel::Float => 0x10DC + row,
                }
            }
            Self::Order => match image.format.channels {
                1 => 0x10B0,
                2 => 0x10B2,
                _ => 0x10B5,
            },
            Self::Normalised => u32::from(sampling.is_some_and(|s| s.normalised)),
            Self::Linear => u32::from(sampling.is_some_and(|s| s.linear)),
            Self::Addressing(n) => sampling.map_or(0, |s| s.addressing[n] as u32),
        }
    }
}
