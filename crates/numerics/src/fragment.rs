//! The fragment layouts of `mma`: which lane and register of a warp holds which element of an operand.
//!
//! Sources: PTX ISA "Matrix Fragments for mma.*" and "… with sparse matrix A"; "Block scaling for mma" with its
//! selectors. Layouts that the manual shows only in figures were taken from CUTLASS: `cute/atom/mma_traits_sm120.hpp`,
//! `mma_traits_sm120_sparse.hpp` (`ELayout`) and the reordering of metadata in `host_reorder.h`.
//!
//! A warp is eight groups of four lanes. A 32-bit register (64-bit for `f64`) holds elements adjacent along K, the first
//! in the low bits; successive registers advance by eight rows first, then along K. This rule covers every dense shape of
//! the `mma` family except Volta's `m8n8k4.f16`, for which see [`quad_pair`].

use super::format::Format;
use super::tensor_core::{MmaShape, Sparsity};

/// Lanes of a warp.
pub const LANES: usize = 32;

/// An operand of `mma`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Operand {
    /// The left factor, `[M][K]`.
    A,
    /// The right factor, `[N][K]`.
    B,
    /// Accumulator and result, `[M][N]`.
    C,
}

const fn group(lane: usize) -> (usize, usize) {
    (lane / 4 % 8, lane % 4)
}

/// Number of elements of `bits` bits in one register.
#[must_use]
pub const fn per_register(bits: u32) -> usize {
    if bits >= 32 { 1 } else { (32 / bits) as usize }
}

/// Returns row and K of element `sub` of register `reg` of A.
///
/// A sparse A has the same layout with half of its K.
#[must_use]
pub const fn a_index(shape: MmaShape, elem_bits: u32, lane: usize, reg: usize, sub: usize) -> (usize, usize) {
    let (group, thread) = group(lane);
    let width = per_register(elem_bits);
    // Shapes with eight rows have no upper half.
    let (upper, step) = if shape.m > 8 { (reg % 2, reg / 2) } else { (0, reg) };
    (group + 8 * upper, (thread + 4 * step) * width + sub)
}

/// Returns column and K of element `sub` of register `reg` of B.
#[must_use]
pub const fn b_index(
    _shape: MmaShape,
    elem_bits: u32,
    lane: usize,
    reg: usize,
    sub: usize,
) -> (usize, usize) {
    let (group, thread) = group(lane);
    (group, (thread + 4 * reg) * per_register(elem_bits) + sub)
}

/// Returns row and column of element `sub` of register `reg` of C and D; `elem_bits` is 16 for `f16`, else 32 or 64.
#[must_use]
pub const fn c_index(
    _shape: MmaShape,
    elem_bits: u32,
    lane: usize,
    reg: usize,
    sub: usize,
) -> (usize, usize) {
    let (group, thread) = group(lane);
    let element = reg * per_register(elem_bits) + sub;
    (group + 8 * (element / 2), 2 * thread + element % 2)
}

/// Number of registers per lane that hold `operand`.
#[must_use]
pub const fn registers(operand: Operand, shape: MmaShape, elem_bits: u32) -> usize {
    let elements = match operand {
        Operand::A => shape.m * shape.k,
        Operand::B => shape.n * shape.k,
        Operand::C => shape.m * shape.n,
    };
    elements / LANES / per_register(elem_bits)
}

/// Index into the row-major matrix of `operand`.
const fn flat(operand: Operand, shape: MmaShape, bits: u32, lane: usize, reg: usize, sub: usize) -> usize {
    let ((row, column), width) = match operand {
        Operand::A => (a_index(shape, bits, lane, reg, sub), shape.k),
        Operand::B => (b_index(shape, bits, lane, reg, sub), shape.k),
        Operand::C => (c_index(shape, bits, lane, reg, sub), shape.n),
    };
    row * width + column
}

/// Gathers the matrix of codes from the registers of a warp: `registers[reg][lane]` to row-major `[M][K]`, `[N][K]` or
/// `[M][N]`. Elements have at most 32 bits.
#[must_use]
pub fn gather(operand: Operand, shape: MmaShape, elem_bits: u32, registers: &[[u32; LANES]]) -> Vec<u32> {
    let width = per_register(elem_bits);
    let mask = u32::MAX >> (32 - elem_bits.clamp(1, 32));
    let mut out = vec![0; registers.len() * LANES * width];
    for (reg, lanes) in registers.iter().enumerate() {
        for (lane, word) in lanes.iter().enumerate() {
            for sub in 0..width {
                if let Some(slot) = out.get_mut(flat(operand, shape, elem_bits, lane, reg, sub)) {
                    *slot = (word >> (sub as u32 * elem_bits)) & mask;
                }
            }
        }
    }
    out
}

/// Scatters a matrix of codes to the registers of a warp: the inverse of [`gather`].
pub fn scatter(
    operand: Operand,
    shape: MmaShape,
    elem_bits: u32,
    codes: &[u32],
    registers: &mut [[u32; LANES]],
) {
    let width = per_register(elem_bits);
    let mask = u32::MAX >> (32 - elem_bits.clamp(1, 32));
    for (reg, lanes) in registers.iter_mut().enumerate() {
        for (lane, word) in lanes.iter_mut().enumerate() {
            *word = 0;
            for sub in 0..width {
                let code = codes.get(flat(operand, shape, elem_bits, lane, reg, sub)).copied().unwrap_or(0);
                *word |= (code & mask) << (sub as u32 * elem_bits);
            }
        }
    }
}

/// Extracts the code of an element from its 8-bit container of `kind::f8f6f4` and `kind::mxf8f6f4`.
///
/// `e2m1` occupies bits 5 to 2, and 6-bit formats bits 5 to 0; the other bits are ignored (MMA-Sim masks them; not
/// measured).
#[must_use]
pub const fn from_container(format: Format, byte: u32) -> u32 {
    match format {
        Format::E2m1 => (byte >> 2) & 0xF,
        Format::E2m3 | Format::E3m2 => byte & 0x3F,
        _ => byte & 0xFF,
    }
}

/// Places a code in its container byte: the inverse of [`from_container`].
#[must_use]
pub const fn to_container(format: Format, code: u32) -> u32 {
    match format {
        Format::E2m1 => (code & 0xF) << 2,
        Format::E2m3 | Format::E3m2 => code & 0x3F,
        _ => code & 0xFF,
    }
}

/// Returns lane and byte of the scale of row `row` and chunk `chunk` of A.
///
/// `thread_id` selects a pair of lanes in each group; the even lane holds rows 0 to 7, the odd one rows 8 to 15.
#[must_use]
pub const fn scale_a_source(byte_id: usize, thread_id: usize, row: usize, chunk: usize) -> (usize, usize) {
    (row % 8 * 4 + thread_id * 2 + row / 8, byte_id + chunk)
}

/// Returns lane and byte of the scale of column `column` and chunk `chunk` of B.
#[must_use]
pub const fn scale_b_source(byte_id: usize, thread_id: usize, column: usize, chunk: usize) -> (usize, usize) {
    (column * 4 + thread_id, byte_id + chunk)
}

/// Gathers the scale codes `[rows][chunks]` of A (`Operand::A`, 16 rows) or B (8 columns) from the scale registers of a
/// warp.
#[must_use]
pub fn gather_scales(
    operand: Operand,
    rows: usize,
    chunks: usize,
    byte_id: usize,
    thread_id: usize,
    lanes: &[u32; LANES],
) -> Vec<u32> {
    let mut out = Vec::with_capacity(rows * chunks);
    for row in 0..rows {
        for chunk in 0..chunks {
            let (lane, byte) = match operand {
                Operand::A => scale_a_source(byte_id, thread_id, row, chunk),
                Operand::B | Operand::C => scale_b_source(byte_id, thread_id, row, chunk),
            };
            let word = lanes.get(lane).copied().unwrap_or(0);
            out.push(if byte < 4 { (word >> (8 * byte)) & 0xFF } else { 0 });
        }
    }
    out
}

/// Number of valid values of the sparsity selector of `mma.sp`.
#[must_use]
pub const fn selectors(shape: MmaShape, elem_bits: u32) -> usize {
    let lanes = metadata_lanes(shape, elem_bits);
    if lanes >= 4 { 1 } else { 4 / lanes }
}

/// Number of lanes in each group of four that hold metadata.
const fn metadata_lanes(shape: MmaShape, elem_bits: u32) -> usize {
    // Sixteen rows of K bits (2K for `tf32`, K/2 for 4-bit elements, which share a field in pairs), over eight groups.
    let bits = match elem_bits {
        32 => shape.k * 2,
        4 => shape.k / 2,
        _ => shape.k,
    };
    let lanes = bits * 2 / 32;
    if lanes == 0 { 1 } else { lanes }
}

/// Returns lane and first bit of metadata field `field` of row `row`. A field has 2 bits for a kept element of 16 or
/// 8 bits or a kept pair of 4-bit elements, and 4 bits for a kept `tf32` element.
///
/// For elements of 16 bits and more, a word holds rows r and r+8 in its halves, and the next lane continues along K. For
/// narrower elements, adjacent lanes hold rows r and r+8, and the next pair of lanes continues along K.
#[must_use]
pub const fn metadata_source(
    shape: MmaShape,
    elem_bits: u32,
    selector: usize,
    row: usize,
    field: usize,
) -> (usize, u32) {
    let lanes = metadata_lanes(shape, elem_bits);
    let first = row % 8 * 4 + selector * lanes % 4;
    if elem_bits >= 16 {
        let width = if elem_bits == 32 { 4 } else { 2 };
        let fields = 16 / width;
        (first + field / fields, (row / 8 * 16 + field % fields * width) as u32)
    } else {
        (first + row / 8 + field / 16 * 2, (field % 16 * 2) as u32)
    }
}

/// Gathers the metadata fields of A, `[M][fields]`, for [`super::tensor_core::sparse_expand`].
#[must_use]
pub fn gather_metadata(
    sparsity: Sparsity,
    shape: MmaShape,
    elem_bits: u32,
    selector: usize,
    lanes: &[u32; LANES],
) -> Vec<u32> {
    let fields = shape.k / 2 / sparsity.elements_per_index();
    let mask = (1 << sparsity.index_bits()) - 1;
    let mut out = Vec::with_capacity(shape.m * fields);
    for row in 0..shape.m {
        for field in 0..fields {
            let (lane, bit) = metadata_source(shape, elem_bits, selector, row, field);
            out.push((lanes.get(lane).copied().unwrap_or(0) >> bit) & mask);
        }
    }
    out
}

/// Volta's `mma.m8n8k4` with `f16` operands: four independent products, each computed by two groups of four lanes.
pub mod quad_pair {
    /// Returns which of the four products a lane works on.
    #[must_use]
    pub const fn product(lane: usize) -> usize {
        lane / 4 % 4
    }

    const fn upper(lane: usize) -> usize {
        lane / 16 * 4
    }

    /// Returns row and K of element `i` (0 to 3) of A, stored by rows (`.row`) or by columns (`.col`).
    #[must_use]
    pub const fn a_index(by_rows: bool, lane: usize, i: usize) -> (usize, usize) {
        if by_rows { (lane % 4 + upper(lane), i) } else { (i + upper(lane), lane % 4) }
    }

    /// Returns column and K of element `i` (0 to 3) of B, stored by rows (`.row`) or by columns (`.col`).
    #[must_use]
    pub const fn b_index(by_rows: bool, lane: usize, i: usize) -> (usize, usize) {
        if by_rows { (i + upper(lane), lane % 4) } else { (lane % 4 + upper(lane), i) }
    }

    /// Returns row and column of element `i` (0 to 7) of C and D; `elem_bits` is 16 or 32.
    #[must_use]
    pub const fn c_index(elem_bits: u32, lane: usize, i: usize) -> (usize, usize) {
        if elem_bits == 16 {
            (lane % 4 + upper(lane), i)
        } else {
            ((lane & 1) + (i & 2) + upper(lane), (i & 4) + (lane & 2) + (i & 1))
        }
    }
}
