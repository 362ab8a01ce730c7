//! `wmma` (PTX ISA 9.7.16.4): `wmma.load`, `wmma.mma`, `wmma.store`.
//!
//! The mapping from lanes to elements is left to the implementation, and programs must not rely on it. Here a lane holds
//! neighbours of the row-major matrix (of B's transpose); if a fragment is larger than its matrix, elements repeat.

use numerics::tensor_core::{self, Integer, MmaForm, MmaShape, mma_f64, mma_integer};
use numerics::{Format, Rounding};
use ptx::{Instruction, Operand, Type};

use super::super::elements::stored;
use super::super::float::rounding;
use super::super::lanewise::source;
use super::super::memory::resolve;
use super::super::moves::space;
use super::super::{FormRow, Words};
use super::form::parse_shape;
use super::{aligned, whole_warp};
use crate::api::trap::{Fault, Rule};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::words::Refusal;
use crate::run::machine::{Flow, LANES, Machine, Space};

const CHAPTER: &str = "Warp-level matrix: wmma";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "wmma.load",
        "wmma.load.{a,b,c}.sync.aligned.{row,col}.shape{.ss}.{f16,bf16,tf32,f32,f64,s8,u8,s32}",
        decode_load,
    ),
    FormRow::new(
        CHAPTER,
        "wmma.mma",
        "wmma.mma.sync.aligned.layout.layout.shape{.rnd}… of f16, bf16, tf32, f64, s8, u8",
        decode_mma,
    ),
    FormRow::new(
        CHAPTER,
        "wmma.store",
        "wmma.store.d.sync.aligned.{row,col}.shape{.ss}.{f16,f32,f64,s32}",
        decode_store,
    ),
];

/// The matrix of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    A,
    B,
    C,
}

/// A fragment of a matrix with elements of `bits` bits.
#[derive(Debug)]
struct Fragment {
    slots: Box<[u32]>,
    bits: usize,
    rows: usize,
    columns: usize,
}

impl Fragment {
    fn new(part: Part, shape: MmaShape, ty: &str, slots: Vec<u32>) -> Result<Self, Refusal> {
        let MmaShape { m, n, k } = shape;
        let bits = match ty {
            "f16" | "bf16" => 16,
            "s8" | "u8" => 8,
            "tf32" | "f32" | "s32" => 32,
            "f64" => 64,
            _ => return Err(format!("wmma on .{ty} is not emulated")),
        };
        let known = match (ty, [m, n, k]) {
            ("tf32", [16, 16, 8]) => part != Part::C,
            ("f32", [16, 16, 8]) => part == Part::C,
            ("f64", [8, 8, 4]) => true,
            ("tf32" | "f64", _) => false,
            (_, [16, 16, 16] | [8, 32, 16] | [32, 8, 16]) => {
                (part == Part::C) == matches!(ty, "f32" | "s32") || ty == "f16"
            }
            _ => false,
        };
        if !known {
            return Err(format!("no wmma fragment {part:?} of m{m}n{n}k{k} holds .{ty}"));
        }
        let (rows, columns) = match part {
            Part::A => (m, k),
            Part::B => (n, k),
            Part::C => (m, n),
        };
        // Factors of `f16` have sixteen elements in every lane, for every shape.
        let wanted = match (ty, part) {
            ("f16", Part::A | Part::B) => 8,
            _ => rows * columns * bits / bits.max(32) / LANES,
        };
        if slots.len() != wanted {
            return Err(format!("{} registers, but {wanted} are required", slots.len()));
        }
        Ok(Self { slots: slots.into(), bits, rows, columns })
    }

    fn is_wide(&self) -> bool {
        self.bits == 64
    }

    fn per_register(&self) -> usize {
        if self.is_wide() { 1 } else { 32 / self.bits }
    }

    /// The place in the matrix of element `i` of a lane.
    fn place(&self, lane: usize, i: usize) -> usize {
        let per_lane = self.slots.len() * self.per_register();
        (lane * per_lane + i) % (self.rows * self.columns)
    }

    /// The elements of the matrix.
    fn gather(&self, m: &Machine<'_>) -> Vec<u64> {
        let mut out = vec![0; self.rows * self.columns];
        let (width, mask) = (self.per_register(), u64::MAX >> (64 - self.bits));
        for (n, slot) in self.slots.iter().enumerate() {
            let slot = *slot as usize;
            for lane in 0..LANES {
                let word = if self.is_wide() { m.r.d[slot][lane] } else { u64::from(m.r.w[slot][lane]) };
                for i in 0..width {
                    out[self.place(lane, n * width + i)] = word >> (i * self.bits) & mask;
                }
            }
        }
        out
    }

    fn scatter(&self, m: &mut Machine<'_>, codes: &[u64]) {
        let width = self.per_register();
        for (n, slot) in self.slots.iter().enumerate() {
            let word = |lane| {
                (0..width).fold(0, |word, i| word | codes[self.place(lane, n * width + i)] << (i * self.bits))
            };
            match self.is_wide() {
                true => m.r.d[*slot as usize] = std::array::from_fn(word),
                false => m.r.w[*slot as usize] = std::array::from_fn(|lane| word(lane) as u32),
            }
        }
    }
}

/// The extra of a load or store.
struct Access {
    fragment: Fragment,
    space: Space,
    /// Whether a row of the fragment's matrix is contiguous; otherwise a column is.
    by_rows: bool,
    /// The stride's slot; the natural stride if `None`.
    stride: Result<u32, u32>,
}

fn decode_load(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("load");
    let part = match words.one_of(&["a", "b", "c"]) {
        Some("a") => Part::A,
        Some("b") => Part::B,
        Some(_) => Part::C,
        None => return Err("wmma.load requires .a, .b or .c".to_owned()),
    };
    match i.operands.as_slice() {
        [to, from] => access(d, words, part, true, [from, to], None),
        [to, from, stride] => access(d, words, part, true, [from, to], Some(stride)),
        _ => Err("wmma.load takes registers, an address and a stride".to_owned()),
    }
}

fn decode_store(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("store");
    if !words.take("d") {
        return Err("wmma.store requires .d".to_owned());
    }
    match i.operands.as_slice() {
        [to, from] => access(d, words, Part::C, false, [to, from], None),
        [to, from, stride] => access(d, words, Part::C, false, [to, from], Some(stride)),
        _ => Err("wmma.store takes an address, registers and a stride".to_owned()),
    }
}

fn shape(words: &mut Words<'_>) -> Result<MmaShape, Refusal> {
    let found = words.left().iter().find_map(|word| parse_shape(word).map(|shape| (*word, shape)));
    let (word, shape) = found.ok_or("wmma requires a shape")?;
    words.take(word);
    Ok(shape)
}

fn registers(d: &mut Decoder<'_>, operand: &Operand, ty: &str, written: bool) -> Result<Vec<u32>, Refusal> {
    let register = if ty == "f64" { Type::F64 } else { Type::B32 };
    let elements = Decoder::elements(operand).iter();
    elements.map(|e| if written { d.dst_as(e, register) } else { source(d, e, register) }).collect()
}

fn access(
    d: &mut Decoder<'_>,
    mut words: Words<'_>,
    part: Part,
    load: bool,
    [address, fragment]: [&Operand; 2],
    stride: Option<&Operand>,
) -> Result<(), Refusal> {
    aligned(&mut words)?;
    let row = words.one_of(&["row", "col"]).ok_or("wmma requires .row or .col")? == "row";
    let shape = shape(&mut words)?;
    let named = space(&mut words).unwrap_or(Space::Generic);
    let [ty] = words.left() else { return Err("wmma requires one type".to_owned()) };
    let space = resolve(d, address, named);
    let (a, offset) = d.address(address)?;
    let fragment = Fragment::new(part, shape, ty, registers(d, fragment, ty, load)?)?;
    // B is stored transposed: a row there is a column here.
    let by_rows = row != (part == Part::B);
    let natural = if by_rows { fragment.columns } else { fragment.rows };
    let stride = match stride {
        Some(operand) => Ok(d.src(operand, Type::U32)?),
        None => Err(natural as u32),
    };
    let extra = Access { fragment, space, by_rows, stride };
    let exec = if load { run_load } else { run_store };
    let b = space.number();
    d.push(Row { a, b, imm: offset as u64, extra: Some(Box::new(extra)), ..Row::new(exec) });
    Ok(())
}

impl Access {
    /// The address of the matrix and its stride in elements, the same in all lanes.
    fn base(&self, m: &mut Machine<'_>, row: &Row) -> Result<(u64, u64), Flow> {
        whole_warp(m)?;
        let addresses = &m.r.d[row.a as usize];
        let base = addresses[0];
        let stride = match self.stride {
            Ok(slot) => m.r.w[slot as usize],
            Err(natural) => [natural; LANES],
        };
        if addresses.iter().any(|a| *a != base) || stride.iter().any(|s| *s != stride[0]) {
            let what = "wmma with an address or a stride that is not the same in all lanes";
            return Err(m.fail(Fault::new(Rule::Operand, what)));
        }
        Ok((base.wrapping_add(row.imm), u64::from(stride[0])))
    }

    /// Bytes from the start of the matrix to element `place` of the fragment's matrix.
    fn offset(&self, place: usize, stride: u64) -> u64 {
        let (row, column) = ((place / self.fragment.columns) as u64, (place % self.fragment.columns) as u64);
        let element = if self.by_rows { row * stride + column } else { column * stride + row };
        element * (self.fragment.bits / 8) as u64
    }
}

fn run_load(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(access) = row.extra::<Access>() else { return Flow::Next };
    let (base, stride) = match access.base(m, row) {
        Ok(both) => both,
        Err(flow) => return flow,
    };
    let fragment = &access.fragment;
    let mut codes = vec![0; fragment.rows * fragment.columns];
    for lane in 0..LANES {
        for i in 0..fragment.slots.len() * fragment.per_register() {
            let place = fragment.place(lane, i);
            let at = base.wrapping_add(access.offset(place, stride));
            let code = match fragment.bits {
                8 => m.read::<1>(access.space, at, lane).map(|[byte]| u64::from(byte)),
                16 => m.read(access.space, at, lane).map(|b| u64::from(u16::from_le_bytes(b))),
                32 => m.read(access.space, at, lane).map(|b| u64::from(u32::from_le_bytes(b))),
                _ => m.read(access.space, at, lane).map(u64::from_le_bytes),
            };
            match code {
                Ok(code) => codes[place] = code,
                Err(fault) => return m.fail(fault.at(lane)),
            }
        }
    }
    fragment.scatter(m, &codes);
    Flow::Next
}

fn run_store(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(access) = row.extra::<Access>() else { return Flow::Next };
    let (base, stride) = match access.base(m, row) {
        Ok(both) => both,
        Err(flow) => return flow,
    };
    let fragment = &access.fragment;
    let codes = fragment.gather(m);
    for lane in 0..LANES {
        for i in 0..fragment.slots.len() * fragment.per_register() {
            let place = fragment.place(lane, i);
            let at = base.wrapping_add(access.offset(place, stride));
            let done = match fragment.bits {
                16 => m.write(access.space, at, lane, (codes[place] as u16).to_le_bytes()),
                32 => m.write(access.space, at, lane, (codes[place] as u32).to_le_bytes()),
                _ => m.write(access.space, at, lane, codes[place].to_le_bytes()),
            };
            if let Err(fault) = done {
                return m.fail(fault.at(lane));
            }
        }
    }
    stored(m, Space::numbered(row.b))
}

/// The extra of a `wmma.mma`.
struct Multiply {
    shape: MmaShape,
    numbers: Numbers,
    a: Fragment,
    b: Fragment,
    c: Fragment,
    d: Fragment,
}

#[derive(Clone, Copy)]
enum Numbers {
    Float(MmaForm),
    Integer { a: Integer, b: Integer, satfinite: bool },
    Double(Rounding),
}

fn decode_mma(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("mma");
    aligned(&mut words)?;
    for _ in 0..2 {
        words.one_of(&["row", "col"]).ok_or("wmma.mma requires two layouts")?;
    }
    let shape = shape(&mut words)?;
    let satfinite = words.take("satfinite");
    let rounded = rounding(&mut words);
    let [d_type, a_type, b_type, c_type] = match words.left() {
        [d, c] => [*d, "f16", "f16", *c],
        [d, a, b, c] => [*d, *a, *b, *c],
        other => return Err(format!("the types of a wmma cannot be `{}`", other.join("."))),
    };
    let [to, a, b, c] = i.operands.as_slice() else { return Err("wmma.mma takes four operands".to_owned()) };
    if d_type != c_type {
        return Err(format!("C is .{c_type} and D is .{d_type}"));
    }
    let format = |name: &str| Format::parse(name);
    let numbers = match (Integer::parse(a_type), Integer::parse(b_type), format(a_type), format(b_type)) {
        (Some(a), Some(b), ..) if a == b && c_type == "s32" => Numbers::Integer { a, b, satfinite },
        (None, None, Some(a), Some(b)) if a == b && !satfinite => match (a, format(c_type)) {
            (Format::F16, Some(accumulator @ (Format::F16 | Format::F32)))
            | (Format::Bf16 | Format::Tf32, Some(accumulator @ Format::F32)) => {
                Numbers::Float(MmaForm { shape, a, b, accumulator, scale: None })
            }
            _ => return Err(format!("no wmma of .{a_type} gives .{d_type}")),
        },
        _ if [d_type, a_type, b_type] == ["f64"; 3] && !satfinite => {
            Numbers::Double(rounded.unwrap_or(Rounding::NearestEven))
        }
        _ => return Err(format!("no wmma of .{a_type} and .{b_type} gives .{d_type}")),
    };
    if rounded.is_some() && !matches!(numbers, Numbers::Double(_)) {
        return Err(format!("a wmma of .{a_type} has no rounding modifier"));
    }
    let multiply = Multiply {
        shape,
        numbers,
        d: Fragment::new(Part::C, shape, d_type, registers(d, to, d_type, true)?)?,
        a: Fragment::new(Part::A, shape, a_type, registers(d, a, a_type, false)?)?,
        b: Fragment::new(Part::B, shape, b_type, registers(d, b, b_type, false)?)?,
        c: Fragment::new(Part::C, shape, c_type, registers(d, c, c_type, false)?)?,
    };
    d.push(Row { extra: Some(Box::new(multiply)), ..Row::new(run_mma) });
    Ok(())
}

/// Runs a product of elements of at most 32 bits.
fn narrow(matrices: [Vec<u64>; 3], product: impl FnOnce([&[u32]; 3], &mut [u32])) -> Vec<u64> {
    let [a, b, c] = matrices.map(|codes| codes.into_iter().map(|code| code as u32).collect::<Vec<_>>());
    let mut out = vec![0; c.len()];
    product([&a, &b, &c], &mut out);
    out.into_iter().map(u64::from).collect()
}

fn run_mma(m: &mut Machine<'_>, row: &Row) -> Flow {
    if let Err(flow) = whole_warp(m) {
        return flow;
    }
    let Some(w) = row.extra::<Multiply>() else { return Flow::Next };
    let [a, b, c] = [&w.a, &w.b, &w.c].map(|f| f.gather(m));
    let model = m.world.model;
    let out = match w.numbers {
        Numbers::Double(rounding) => {
            let mut out = vec![0; c.len()];
            mma_f64(w.shape, &a, &b, &c, &mut out, rounding);
            out
        }
        Numbers::Float(form) => narrow([a, b, c], |[a, b, c], out| {
            tensor_core::mma(model, &form, a, b, c, &[], &[], out);
        }),
        Numbers::Integer { a: x, b: y, satfinite } => narrow([a, b, c], |[a, b, c], out| {
            mma_integer(w.shape, x, y, a, b, c, satfinite, out);
        }),
    };
    w.d.scatter(m, &out);
    Flow::Next
}
