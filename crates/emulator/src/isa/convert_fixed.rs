//! `cvt` to and from pairs of fixed-point numbers (PTX ISA 9.7.10): `s2f6x2`.

use numerics::{Format, Rounding, convert, fixed};
use ptx::{Instruction, Type};

use super::Words;
use super::lanewise::operands;
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine};

/// The flags in `row.imm`.
const RELU: u64 = 1;
const SATFINITE: u64 = 2;

/// The scale factors of the upper and the lower element, `ue8m0` codes.
const ONE: u32 = 0x7F7F;

fn scale(codes: u32, upper: bool) -> f64 {
    f64::from(Format::Ue8m0.decode(codes >> if upper { 8 } else { 0 } & 0xFF))
}

fn bf16(pair: u32, upper: bool) -> f64 {
    f64::from(Format::Bf16.decode(pair >> if upper { 16 } else { 0 } & 0xFFFF))
}

/// Two numbers divided by their scales; a quotient by a power of two is exact in a double, or far outside the range.
fn narrow(x: [f64; 2], scales: u32, imm: u64) -> u32 {
    let one = |n: usize| fixed::to_s2f6(x[n] / scale(scales, n == 0), imm & RELU != 0);
    one(0) << 8 | one(1)
}

fn widen(codes: u32, scales: u32, imm: u64) -> u32 {
    let one = |upper: bool| {
        let code = codes >> if upper { 8 } else { 0 };
        let x = f64::from(fixed::s2f6_to_f32(code)) * scale(scales, upper);
        convert::f64_to(Format::Bf16, x, Rounding::NearestEven, imm & SATFINITE != 0, imm & RELU != 0)
    };
    one(true) << 16 | one(false)
}

fn from_floats(m: &mut Machine<'_>, row: &Row) -> Flow {
    let float = |x: u32| f64::from(f32::from_bits(x));
    m.map3(row, |a, b, scales| narrow([float(a), float(b)], scales, row.imm))
}

fn from_pair(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.map3(row, |a, _, scales| narrow([bf16(a, true), bf16(a, false)], scales, row.imm))
}

fn to_pair(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.map3(row, |a, _, scales| widen(a, scales, row.imm))
}

pub(super) fn decode(d: &mut Decoder<'_>, i: &Instruction, to: &str, from: &str) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take(to);
    words.take(from);
    let (rn, relu, satfinite) = (words.take("rn"), words.take("relu"), words.take("satfinite"));
    let scaled = words.take("scaled::n2::ue8m0");
    words.done()?;
    let (exec, count): (Exec, usize) = match (to, from) {
        ("s2f6x2", "f32") if satfinite => (from_floats, 2),
        ("s2f6x2", "bf16x2") if satfinite => (from_pair, 1),
        ("bf16x2", "s2f6x2") => (to_pair, 1),
        _ => return Err(format!("a conversion from {from} to {to} with these modifiers")),
    };
    if !rn {
        return Err("s2f6x2 is rounded to nearest".to_owned());
    }
    let (out, sources) = operands(i, count + usize::from(scaled))?;
    let (source, result) = match from {
        "f32" => (Type::F32, Type::B16),
        "bf16x2" => (Type::B32, Type::B16),
        _ => (Type::B16, Type::B32),
    };
    let a = d.src(&sources[0], source)?;
    let b = if count == 2 { d.src(&sources[1], source)? } else { a };
    let c = if scaled { d.src(&sources[count], Type::B16)? } else { d.bits_w(ONE) };
    let target = super::convert::target(d, out, result)?;
    if target.wide {
        return Err("a packed result in a 64-bit register".to_owned());
    }
    let imm = if relu { RELU } else { 0 } | if satfinite { SATFINITE } else { 0 };
    d.push(Row { d: target.slot, a, b, c, imm, ..Row::new(exec) });
    Ok(())
}
