//! `cvt` of packed and narrow formats (PTX ISA 9.7.10): pairs, quadruples with random bits, `tf32`, `ue8m0`, and `cvt.pack`.

use numerics::{Format, Rounding, convert as num, stochastic};
use ptx::{Instruction, Operand, Type};

use super::Words;
use super::convert::target;
use super::float::rounding;
use super::lanewise::{operands, w};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::front::words::scalar;
use crate::run::machine::{Flow, Machine, lanes};

/// The operation of a row.
struct Packed {
    from: Format,
    to: Format,
    rounding: Rounding,
    relu: bool,
    satfinite: bool,
    /// Two `ue8m0` factors multiply the results.
    scaled: bool,
    /// The results of all codes of a narrow source without factors, otherwise empty.
    table: Box<[u32]>,
}

impl Packed {
    /// Adds the table if it is worthwhile.
    fn tabulated(mut self) -> Self {
        if self.from.bits() <= 8 && !self.scaled {
            self.table = (0..1 << self.from.bits()).map(|code| self.one(code, 0)).collect();
        }
        self
    }

    fn one(&self, code: u32, scale: u32) -> u32 {
        // Decoding would make a NaN canonical, and `cvt.rna.tf32` keeps its payload.
        let value = if self.from == Format::F32 { f32::from_bits(code) } else { self.from.decode(code) };
        if !self.scaled {
            return num::f32_to(self.to, value, self.rounding, self.satfinite, self.relu);
        }
        // A narrow element times a power of two is exact in a double.
        let value = f64::from(value) * f64::from(Format::Ue8m0.decode(scale));
        num::f64_to(self.to, value, self.rounding, self.satfinite, self.relu)
    }
}

/// Bits of an element in a packed register: six-bit formats occupy bytes.
fn stride(format: Format) -> u32 {
    if format == Format::Tf32 { 32 } else { format.bits().next_power_of_two() }
}

/// A pair type: `e4m3x2`.
fn pair(word: &str) -> Option<Format> {
    match word.strip_suffix("x2")? {
        name @ ("f16" | "bf16" | "e4m3" | "e5m2" | "e2m3" | "e3m2" | "e2m1" | "ue8m0") => Format::parse(name),
        _ => None,
    }
}

fn container(bits: u32) -> Type {
    match bits {
        ..=8 => Type::B8,
        9..=16 => Type::B16,
        _ => Type::B32,
    }
}

/// The modifiers allowed between the source and destination formats.
fn allowed(to: Format, from: Format, r: Rounding, satfinite: bool, relu: bool) -> bool {
    use Format::{Bf16, E2m1, E2m3, E3m2, E4m3, E5m2, F16, F32, Ue8m0};
    let narrow = |f| matches!(f, E4m3 | E5m2 | E2m3 | E3m2 | E2m1);
    let near_or_zero = matches!(r, Rounding::NearestEven | Rounding::Zero);
    let near = r == Rounding::NearestEven;
    match (to, from) {
        (F16 | Bf16, F32) => near_or_zero,
        (Ue8m0, F32 | Bf16) => matches!(r, Rounding::Zero | Rounding::Up) && !relu,
        (to, F32 | F16 | Bf16) if narrow(to) => near_or_zero && satfinite,
        (F16, from) if narrow(from) => near && !satfinite,
        (Bf16, from) if narrow(from) => near,
        (Bf16, Ue8m0) => near && !relu && !satfinite,
        _ => false,
    }
}

pub(super) fn decode(d: &mut Decoder<'_>, i: &Instruction, to: &str, from: &str) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take(to);
    words.take(from);
    let (relu, satfinite) = (words.take("relu"), words.take("satfinite"));
    let unknown = || format!("a conversion from {from} to {to}");
    let is_f32 = scalar(from) == Some(Type::F32);
    if words.take("rs") {
        words.done()?;
        return if is_f32 { random(d, i, to, relu, satfinite) } else { Err(unknown()) };
    }
    if to == "tf32" && is_f32 {
        let r = if words.take("rna") { Some(Rounding::NearestAway) } else { rounding(&mut words) };
        words.done()?;
        let r = r.ok_or("no rounding")?;
        if r == Rounding::NearestAway && relu || matches!(r, Rounding::Up | Rounding::Down) {
            return Err("this rounding to tf32".to_owned());
        }
        let packed = Packed {
            from: Format::F32,
            to: Format::Tf32,
            rounding: r,
            relu,
            satfinite,
            scaled: false,
            table: Box::default(),
        };
        return push(d, i, packed, Type::B32, one);
    }
    let r = rounding(&mut words).ok_or("no rounding")?;
    let scaled = words.take("scaled::n2::ue8m0");
    words.done()?;
    let target_format = pair(to).ok_or_else(unknown)?;
    let source_format = if is_f32 { Some(Format::F32) } else { pair(from) }.ok_or_else(unknown)?;
    if !allowed(target_format, source_format, r, satfinite, relu)
        || scaled && (target_format != Format::Bf16 || source_format == Format::Ue8m0)
    {
        return Err(format!("{} with these modifiers", unknown()));
    }
    let packed = Packed {
        from: source_format,
        to: target_format,
        rounding: r,
        relu,
        satfinite,
        scaled,
        table: Box::default(),
    };
    let ty = container(2 * stride(target_format));
    let exec = if is_f32 { nearest(&packed).unwrap_or(two_floats) } else { a_pair };
    push(d, i, packed, ty, exec)
}

/// Pushes a conversion whose sources have at most 32 bits.
fn push(d: &mut Decoder<'_>, i: &Instruction, packed: Packed, to: Type, exec: Exec) -> Result<(), Refusal> {
    let floats = packed.from == Format::F32;
    let count = if floats && packed.to != Format::Tf32 { 2 } else { 1 } + usize::from(packed.scaled);
    let (out, sources) = operands(i, count)?;
    let a = d.src(&sources[0], if floats { Type::F32 } else { container(2 * stride(packed.from)) })?;
    let b = match sources.get(1) {
        Some(b) => d.src(b, if floats { Type::F32 } else { Type::B16 })?,
        None => a,
    };
    let target = target(d, out, to)?;
    if target.wide {
        return Err("a packed result in a 64-bit register".to_owned());
    }
    d.push(Row { d: target.slot, a, b, extra: Some(Box::new(packed.tabulated())), ..Row::new(exec) });
    Ok(())
}

fn one(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(x) = row.extra::<Packed>() else { return Flow::Next };
    m.map1(row, |a| x.one(a, 0))
}

/// The first source goes to the upper half.
fn two_floats(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(x) = row.extra::<Packed>() else { return Flow::Next };
    let bits = stride(x.to);
    m.map2(row, |a, b| x.one(a, 0) << bits | x.one(b, 0))
}

/// [`two_floats`] to a usual format, rounded to nearest even.
fn nearest(packed: &Packed) -> Option<Exec> {
    /// Both codes, the first `$bits` above the second.
    macro_rules! codes {
        ($code:path, $bits:literal) => {
            w!(|a, b| u32::from($code(a)) << $bits | u32::from($code(b)))
        };
    }
    if packed.rounding != Rounding::NearestEven || packed.relu || packed.scaled {
        return None;
    }
    Some(match (packed.to, packed.satfinite) {
        (Format::F16, false) => codes!(num::fast::f32_to_f16, 16),
        (Format::Bf16, false) => codes!(num::fast::f32_to_bf16, 16),
        (Format::E4m3, true) => codes!(num::fast::f32_to_e4m3, 8),
        (Format::E5m2, true) => codes!(num::fast::f32_to_e5m2, 8),
        (Format::E2m1, true) => codes!(num::fast::f32_to_e2m1, 4),
        _ => return None,
    })
}

fn a_pair(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(x) = row.extra::<Packed>() else { return Flow::Next };
    let (bits, from) = (stride(x.to), stride(x.from));
    // Six-bit codes occupy bytes whose upper bits do not belong to them.
    let code = (1u32 << x.from.bits()) - 1;
    if !x.table.is_empty() {
        let result = |code: u32| x.table.get(code as usize).copied().unwrap_or_default();
        return m.map1(row, |a| result(a >> from & code) << bits | result(a & code));
    }
    m.map2(row, |a, scale| x.one(a >> from & code, scale >> 8 & 0xFF) << bits | x.one(a & code, scale & 0xFF))
}

/// `.rs`: the random bits are the last source.
struct Random {
    to: Format,
    relu: bool,
    satfinite: bool,
}

fn random(
    d: &mut Decoder<'_>,
    i: &Instruction,
    to: &str,
    relu: bool,
    satfinite: bool,
) -> Result<(), Refusal> {
    let (format, count) = match to.split_at(to.len().saturating_sub(2)) {
        (name @ ("f16" | "bf16"), "x2") => (Format::parse(name), 2),
        (name @ ("e4m3" | "e5m2" | "e2m3" | "e3m2" | "e2m1"), "x4") if satfinite => (Format::parse(name), 4),
        _ => (None, 0),
    };
    let format = format.ok_or_else(|| format!("random rounding to {to} with these modifiers"))?;
    let (out, sources) = match count {
        2 => operands(i, 3)?,
        _ => operands(i, 2)?,
    };
    let (bits, values) = sources.split_last().ok_or("no random bits")?;
    let values = match values {
        [Operand::Vector(list)] => list.as_slice(),
        list => list,
    };
    if values.len() != count {
        return Err(format!("{count} values are required"));
    }
    let list: Vec<u32> = values.iter().map(|v| d.src(v, Type::F32)).collect::<Result<_, _>>()?;
    let a = d.src(bits, Type::B32)?;
    let target = target(d, out, container(count as u32 * stride(format)))?;
    let extra = Random { to: format, relu, satfinite };
    let row =
        Row { d: target.slot, a, list: list.into(), extra: Some(Box::new(extra)), ..Row::new(random_row) };
    d.push(row);
    Ok(())
}

fn random_row(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(x) = row.extra::<Random>() else { return Flow::Next };
    let bits = stride(x.to);
    for i in lanes(m.mask) {
        let random = stochastic::shares(m.r.w[row.a as usize][i], x.to);
        let mut out = 0;
        for (slot, random) in row.list.iter().zip(random) {
            let value = f32::from_bits(m.r.w[*slot as usize][i]);
            let code = num::f32_to(x.to, value, Rounding::Stochastic(random), x.satfinite, x.relu);
            out = out << bits | code;
        }
        m.r.w[row.d as usize][i] = out;
    }
    Flow::Next
}

/// `cvt.pack.sat`: `b` in the low bits, `a` above it, and the rest from the low end of `c`.
pub(super) fn pack(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let sat = words.take("pack") && words.take("sat");
    let ty =
        words.one_of(&["u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"]).ok_or("cvt.pack to this type")?;
    let from = words.ty()?;
    let third = words.maybe_ty();
    words.done()?;
    let bits = ty[1..].parse::<u32>().unwrap_or(16);
    if !sat || from != Type::S32 || third.is_some() != (bits < 16) {
        return Err("cvt.pack with these modifiers".to_owned());
    }
    let (out, sources) = operands(i, if bits < 16 { 3 } else { 2 })?;
    let (a, b) = (d.src(&sources[0], from)?, d.src(&sources[1], from)?);
    let c = match sources.get(2) {
        Some(c) => d.src(c, Type::B32)?,
        None => a,
    };
    let imm = u64::from(bits) | u64::from(ty.starts_with('s')) << 8;
    let row = Row { d: d.dst(out)?, a, b, c, imm, ..Row::new(pack_row) };
    d.push(row);
    Ok(())
}

fn pack_row(m: &mut Machine<'_>, row: &Row) -> Flow {
    let (bits, signed) = ((row.imm & 0xFF) as u32, row.imm >> 8 != 0);
    let (least, most) =
        if signed { (-(1i32 << (bits - 1)), (1i32 << (bits - 1)) - 1) } else { (0, (1i32 << bits) - 1) };
    let mask = (1u32 << bits) - 1;
    m.map3(row, |a, b, c| {
        let limit = |x: u32| (x as i32).clamp(least, most) as u32 & mask;
        let both = limit(a) << bits | limit(b);
        if bits == 16 { both } else { c << (2 * bits) | both }
    })
}
