//! Tiles between shared memory and the registers of a warp (PTX ISA 9.7.16.5): `ldmatrix`, `stmatrix`, `movmatrix`.
//!
//! Layouts that the manual shows only in pictures come from other sources: the 16×8 store from CUTLASS
//! (`cute/atom/copy_traits_sm100.hpp`); the transposed 16×16 load from the same and from a map that was measured on an
//! RTX 50 (comment at `fa_ldmatrix_x2_trans_b8` in the plow project), which agree.

use ptx::{Instruction, Operand, Type};

use super::super::memory::resolve;
use super::super::moves::space;
use super::super::{FormRow, Words};
use super::{aligned, whole_warp};
use crate::api::trap::{Fault, Rule};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::registers::Bank;
use crate::front::words::Refusal;
use crate::memory::shared_words::{LoadTile, ROW};
use crate::memory::window::{SHARED_WINDOW, Window, window_of};
use crate::rules::order::Touch;
use crate::run::machine::{Flow, LANES, Machine, Space};

const CHAPTER: &str = "Warp-level matrix: tiles";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "ldmatrix",
        "ldmatrix.sync.aligned.{m8n8.{x1,x2,x4}{.trans}.b16, m16n16.{x1,x2}.trans.{b8,b8x16.fmt}, \
         m8n16.{x1,x2,x4}.b8x16.{b4x16_p64,b6x16_p32}}",
        decode_ldmatrix,
    ),
    FormRow::new(
        CHAPTER,
        "stmatrix",
        "stmatrix.sync.aligned.{m8n8.{x1,x2,x4}{.trans}.b16, m16n8.{x1,x2,x4}.trans.b8}",
        decode_stmatrix,
    ),
    FormRow::new(CHAPTER, "movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16", decode_movmatrix),
];

/// The packing of a row's elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packing {
    Bytes,
    /// Sixteen nibbles in the first 8 bytes.
    Nibbles,
    /// Sixteen 6-bit elements in the first 12 bytes.
    Sixes,
}

/// The number of matrices.
fn count(words: &mut Words<'_>) -> Result<usize, Refusal> {
    match words.one_of(&["x1", "x2", "x4"]) {
        Some("x1") => Ok(1),
        Some("x2") => Ok(2),
        Some(_) => Ok(4),
        None => Err(".x1, .x2 or .x4 is required".to_owned()),
    }
}

/// The shared space, or a generic address that must be in it.
fn shared(words: &mut Words<'_>) -> Result<Space, Refusal> {
    if words.take("shared::cluster") {
        return Err("a tile lies in the CTA's own shared memory".to_owned());
    }
    match space(words) {
        None => Ok(Space::Generic),
        Some(Space::Shared) => Ok(Space::Shared),
        Some(_) => Err("a tile lies in shared memory".to_owned()),
    }
}

fn registers(
    d: &mut Decoder<'_>,
    operand: &Operand,
    wanted: usize,
    written: bool,
) -> Result<Vec<u32>, Refusal> {
    let elements = Decoder::elements(operand);
    if elements.len() != wanted {
        return Err(format!("{} registers, but {wanted} are required", elements.len()));
    }
    elements.iter().map(|e| if written { d.dst(e) } else { d.src(e, Type::B32) }).collect()
}

fn decode_ldmatrix(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    aligned(&mut words)?;
    let shape = words.one_of(&["m8n8", "m8n16", "m16n16"]).ok_or("ldmatrix requires a shape")?;
    let count = count(&mut words)?;
    let trans = words.take("trans");
    let named = shared(&mut words)?;
    let (b16, b8, expand) = (words.take("b16"), words.take("b8"), words.take("b8x16"));
    let packing = match words.one_of(&["b4x16_p64", "b6x16_p32"]) {
        Some("b4x16_p64") => Packing::Nibbles,
        Some(_) => Packing::Sixes,
        None => Packing::Bytes,
    };
    words.done()?;
    let exec: Exec = match (shape, trans, b16, b8, expand && packing != Packing::Bytes) {
        ("m8n8", false, true, false, false) => load_rows,
        ("m8n8", true, true, false, false) => load_columns,
        ("m8n16", false, false, false, true) => load_rows,
        ("m16n16", true, false, true, false) | ("m16n16", true, false, false, true) if count <= 2 => {
            load_squares
        }
        _ => return Err("ldmatrix has no such combination of shape, .trans and type".to_owned()),
    };
    let [to, from] = i.operands.as_slice() else {
        return Err("ldmatrix takes registers and an address".to_owned());
    };
    let space = resolve(d, from, named);
    let (a, offset) = d.address(from)?;
    let list = registers(d, to, if shape == "m16n16" { 2 * count } else { count }, true)?;
    let c = match packing {
        Packing::Bytes => 0,
        Packing::Nibbles => 1,
        Packing::Sixes => 2,
    };
    d.push(Row { a, b: space.number(), c, imm: offset as u64, list: list.into(), ..Row::new(exec) });
    Ok(())
}

/// The address of a row that a lane names, in the shared window.
fn row_address(m: &Machine<'_>, row: &Row, lane: usize) -> Result<u64, Fault> {
    let address = m.r.d[row.a as usize][lane].wrapping_add(row.imm);
    if Space::numbered(row.b) == Space::Generic && window_of(address).0 != Window::Shared {
        let what = format!("a tile row at {address:#x}, which is not in shared memory");
        return Err(Fault::new(Rule::WrongSpace, what));
    }
    Machine::aligned(address, ROW)?;
    Ok(address)
}

/// The lanes that give the addresses of this many rows.
fn suppliers(rows: usize) -> u32 {
    u32::MAX >> (LANES - rows.clamp(1, LANES))
}

type Rows = [[u8; ROW]; LANES];

/// The rows that the first `count` lanes name, with elements of less than 16 bits one per byte, and the masks of undefined bits, if
/// any.
fn read_rows(m: &mut Machine<'_>, row: &Row, count: usize) -> Result<(Rows, Option<Box<Rows>>), Flow> {
    whole_warp(m)?;
    let space = Space::numbered(row.b);
    let len = [ROW, 8, 12][row.c as usize % 3];
    m.log_lanes_at(row, space, (suppliers(count), row.imm, len), Touch::Load);
    let mut rows = [[0; ROW]; LANES];
    let window = match space {
        Space::Shared => Some(0),
        Space::Generic => Some(SHARED_WINDOW),
        _ => None,
    };
    if row.c == 0
        && let Some(window) = window
        && let (path, slot, offset) = (m.world.path, row.a, row.imm.wrapping_sub(window))
        && path.run(LoadTile { m, slot, offset, count, rows: &mut rows }).is_some()
    {
        m.compare_lanes();
        return Ok((rows, None));
    }
    for (lane, out) in rows.iter_mut().enumerate().take(count) {
        let read = row_address(m, row, lane).and_then(|at| match row.c {
            0 => m.load::<16>(space, at, lane),
            // Row padding is not read: a copy leaves it unchanged.
            1 => m.load::<8>(space, at, lane).map(nibbles),
            _ => {
                // Twelve bytes at a multiple of 16.
                let low = m.load::<8>(space, at, lane)?;
                let of_low = m.loaded.as_mut().map(|loaded| std::mem::take(&mut loaded[lane]));
                let high = m.load::<4>(space, at + 8, lane)?;
                if let Some(loaded) = &mut m.loaded {
                    let of_high = loaded[lane];
                    loaded[lane] = of_low.unwrap_or_default();
                    loaded[lane][8..12].copy_from_slice(&of_high[..4]);
                }
                Ok(sixes(low, high))
            }
        });
        match read {
            Ok(bytes) => *out = bytes,
            Err(fault) => return Err(m.fail(fault.at(lane))),
        }
    }
    m.compare_lanes();
    let undefined = m.loaded.take().map(|loaded| {
        Box::new(loaded.map(|bytes| {
            let (low, high) = (std::array::from_fn(|i| bytes[i]), std::array::from_fn(|i| bytes[8 + i]));
            match row.c {
                0 => std::array::from_fn(|i| bytes[i]),
                1 => nibbles(low),
                _ => sixes(low, high),
            }
        }))
    });
    Ok((rows, undefined))
}

fn nibbles(bytes: [u8; 8]) -> [u8; ROW] {
    std::array::from_fn(|i| bytes[i / 2] >> (4 * (i % 2)) & 0xF)
}

fn sixes(low: [u8; 8], high: [u8; 4]) -> [u8; ROW] {
    let bits = u128::from(u64::from_le_bytes(low)) | u128::from(u32::from_le_bytes(high)) << 64;
    std::array::from_fn(|i| (bits >> (6 * i)) as u8 & 0x3F)
}

/// Register q of a lane: four bytes of row lane/4 of matrix q.
fn load_rows(m: &mut Machine<'_>, row: &Row) -> Flow {
    let rows = match read_rows(m, row, 8 * row.list.len()) {
        Ok(rows) => rows,
        Err(flow) => return flow,
    };
    if let (rows, None) = &rows {
        // A register is a matrix: its lanes have the words in order.
        for (slot, matrix) in row.list.iter().zip(rows.as_chunks::<8>().0) {
            let words = matrix.as_flattened().as_chunks().0;
            for (to, word) in m.r.w[*slot as usize].iter_mut().zip(words) {
                *to = u32::from_le_bytes(*word);
            }
        }
        return Flow::Next;
    }
    scatter(m, row, &rows, |rows, q, lane| rows[8 * q + lane / 4].as_chunks().0[lane % 4])
}

/// Register q of a lane: two 16-bit elements of column lane/4 of matrix q.
fn load_columns(m: &mut Machine<'_>, row: &Row) -> Flow {
    let rows = match read_rows(m, row, 8 * row.list.len()) {
        Ok(rows) => rows,
        Err(flow) => return flow,
    };
    scatter(m, row, &rows, |rows, q, lane| {
        let (first, column) = (8 * q + 2 * (lane % 4), lane / 4);
        let [[a, b], [c, d]] = [0, 1].map(|r| rows[first + r].as_chunks().0[column]);
        [a, b, c, d]
    })
}

/// Registers 2q and 2q+1 of a lane: four bytes of columns lane/4 and lane/4 + 8 of matrix q.
fn load_squares(m: &mut Machine<'_>, row: &Row) -> Flow {
    let rows = match read_rows(m, row, 8 * row.list.len()) {
        Ok(rows) => rows,
        Err(flow) => return flow,
    };
    scatter(m, row, &rows, |rows, n, lane| {
        let (first, column) = (n / 2 * 16 + 4 * (lane % 4), lane / 4 + n % 2 * 8);
        [0, 1, 2, 3].map(|i| rows[first + i][column])
    })
}

fn scatter(
    m: &mut Machine<'_>,
    row: &Row,
    (rows, undefined): &(Rows, Option<Box<Rows>>),
    value: impl Fn(&Rows, usize, usize) -> [u8; 4],
) -> Flow {
    for (n, slot) in row.list.iter().enumerate() {
        let d = &mut m.r.w[*slot as usize];
        for (lane, word) in d.iter_mut().enumerate() {
            *word = u32::from_le_bytes(value(rows, n, lane));
        }
    }
    match undefined {
        None => Flow::Next,
        Some(rows) => m.loads_undefined(&row.list, Bank::W, |n, lane| {
            u64::from(u32::from_le_bytes(value(rows, n, lane)))
        }),
    }
}

fn decode_stmatrix(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    aligned(&mut words)?;
    let shape = words.one_of(&["m8n8", "m16n8"]).ok_or("stmatrix requires a shape")?;
    let count = count(&mut words)?;
    let trans = words.take("trans");
    let named = shared(&mut words)?;
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (shape, trans, ty) {
        ("m8n8", false, Type::B16) => |m, row| store(m, row, words_of),
        ("m8n8", true, Type::B16) => |m, row| store(m, row, halves_of),
        ("m16n8", true, Type::B8) => |m, row| store(m, row, bytes_of),
        _ => return Err("stmatrix has no such combination of shape, .trans and type".to_owned()),
    };
    let [to, from] = i.operands.as_slice() else {
        return Err("stmatrix takes an address and registers".to_owned());
    };
    let space = resolve(d, to, named);
    let (a, offset) = d.address(to)?;
    let list = registers(d, from, count, false)?;
    d.push(Row { a, b: space.number(), imm: offset as u64, list: list.into(), ..Row::new(exec) });
    Ok(())
}

/// Bytes of row `r` from the registers of one matrix.
fn words_of(register: &[u32; LANES], r: usize) -> [u8; ROW] {
    std::array::from_fn(|i| register[4 * r + i / 4].to_le_bytes()[i % 4])
}

/// The transpose of 16-bit elements: row `r` has the elements whose column is `r`.
fn halves_of(register: &[u32; LANES], r: usize) -> [u8; ROW] {
    std::array::from_fn(|i| register[4 * (i / 2) + r / 2].to_le_bytes()[2 * (r % 2) + i % 2])
}

/// The transpose of a 16×8 accumulator whose four values of a lane are packed into bytes.
fn bytes_of(register: &[u32; LANES], r: usize) -> [u8; ROW] {
    std::array::from_fn(|i| register[4 * (i % 8) + r / 2].to_le_bytes()[2 * (i / 8) + r % 2])
}

fn store(m: &mut Machine<'_>, row: &Row, bytes: impl Fn(&[u32; LANES], usize) -> [u8; ROW]) -> Flow {
    if let Err(flow) = whole_warp(m) {
        return flow;
    }
    let space = Space::numbered(row.b);
    m.log_lanes_at(row, space, (suppliers(8 * row.list.len()), row.imm, ROW), Touch::Store);
    for (q, slot) in row.list.iter().enumerate() {
        let register = m.r.w[*slot as usize];
        for r in 0..8 {
            let lane = 8 * q + r;
            let done = row_address(m, row, lane).and_then(|at| m.write(space, at, lane, bytes(&register, r)));
            if let Err(fault) = done {
                return m.fail(fault.at(lane));
            }
        }
    }
    m.compare_lanes();
    m.cta.events += 1;
    Flow::Next
}

fn decode_movmatrix(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    aligned(&mut words)?;
    let known = words.take("m8n8") && words.take("trans") && words.take("b16");
    words.done()?;
    let [to, from] = i.operands.as_slice() else { return Err("movmatrix takes two operands".to_owned()) };
    if !known {
        return Err("movmatrix is .m8n8.trans.b16".to_owned());
    }
    let row = Row { d: d.dst(to)?, a: d.src(from, Type::B32)?, ..Row::new(transpose) };
    d.push(row);
    Ok(())
}

fn transpose(m: &mut Machine<'_>, row: &Row) -> Flow {
    if let Err(flow) = whole_warp(m) {
        return flow;
    }
    let a = m.r.w[row.a as usize];
    let element = |r: usize, c: usize| a[4 * r + c / 2] >> (16 * (c % 2)) & 0xFFFF;
    m.r.w[row.d as usize] = std::array::from_fn(|lane| {
        let (r, c) = (lane / 4, 2 * (lane % 4));
        element(c, r) | element(c + 1, r) << 16
    });
    Flow::Next
}
