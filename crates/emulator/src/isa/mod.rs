//! The meaning of instructions: one table row per opcode, one file per chapter of the PTX manual.
//!
//! A row's decoder reads the modifiers and operands once and pushes rows that execute.

mod arithmetic;
pub(crate) mod async_copy;
mod async_store;
pub(crate) mod atomics;
pub(super) mod barrier;
mod bits;
mod bulk;
mod carry;
mod compare;
pub(super) mod control;
mod convert;
mod convert_fixed;
mod convert_float;
mod convert_packed;
mod device_runtime;
mod elements;
mod float;
mod half;
mod integer;
mod lanewise;
pub(super) mod launch_control;
mod logic;
pub(super) mod matrix;
mod mbarrier;
mod memory;
mod minmax;
mod misc;
pub(super) mod moves;
pub(crate) mod operations;
mod packed;
mod quotient;
mod select;
mod srgb;
mod surface;
pub(super) mod system_call;
mod tensor;
mod tensormap;
mod texture;
pub(super) mod used_bytes;
mod video;
mod video_mad;
mod warp;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ptx::Instruction;

use crate::front::decode::{Decoder, Refused, Table};
use crate::front::program::Row;
use crate::front::registers::{Place, Step};
use crate::front::words::Refusal;
pub(super) use crate::front::words::Words;

/// Whether a form is emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coverage {
    /// Runs.
    Implemented,
    /// Does not run yet.
    Planned,
    /// Will not run; the row states the reason.
    OutOfScope,
}

/// Decodes an instruction into rows.
pub(super) type DecodeFn = fn(&mut Decoder<'_>, &Instruction) -> Result<(), Refusal>;

/// One row of the instruction table.
pub struct FormRow {
    /// The opcode, with the modifiers that select among rows: `cp.async.bulk.tensor`.
    pub opcode: &'static str,
    /// The accepted forms, in the manual's notation.
    pub forms: &'static str,
    /// The chapter of the manual.
    pub chapter: &'static str,
    decode: Option<DecodeFn>,
    out_of_scope: bool,
}

impl FormRow {
    /// A row that runs.
    pub(super) const fn new(
        chapter: &'static str,
        opcode: &'static str,
        forms: &'static str,
        decode: DecodeFn,
    ) -> Self {
        Self { opcode, forms, chapter, decode: Some(decode), out_of_scope: false }
    }

    /// A row that does not run yet.
    pub(super) const fn planned(chapter: &'static str, opcode: &'static str, forms: &'static str) -> Self {
        Self { opcode, forms, chapter, decode: None, out_of_scope: false }
    }

    /// A row that will never run.
    pub(super) const fn out_of_scope(
        chapter: &'static str,
        opcode: &'static str,
        forms: &'static str,
    ) -> Self {
        Self { opcode, forms, chapter, decode: None, out_of_scope: true }
    }

    /// Whether it is emulated.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        match (self.decode, self.out_of_scope) {
            (Some(_), _) => Coverage::Implemented,
            (None, false) => Coverage::Planned,
            (None, true) => Coverage::OutOfScope,
        }
    }
}

/// The chapters, in the manual's order.
const CHAPTERS: &[&[FormRow]] = &[
    arithmetic::ROWS,
    integer::ROWS,
    video::ROWS,
    convert::ROWS,
    quotient::ROWS,
    minmax::ROWS,
    bits::ROWS,
    carry::ROWS,
    compare::ROWS,
    select::ROWS,
    logic::ROWS,
    moves::ROWS,
    memory::ROWS,
    control::ROWS,
    barrier::ROWS,
    async_copy::ROWS,
    mbarrier::ROWS,
    bulk::ROWS,
    tensor::ROWS,
    tensormap::ROWS,
    warp::ROWS,
    atomics::ROWS,
    async_store::ROWS,
    launch_control::ROWS,
    matrix::tiles::ROWS,
    matrix::decode::ROWS,
    matrix::wmma::ROWS,
    matrix::ROWS,
    texture::ROWS,
    surface::ROWS,
    misc::ROWS,
];

/// Every row of the instruction table.
pub fn coverage() -> impl Iterator<Item = &'static FormRow> {
    CHAPTERS.iter().flat_map(|rows| rows.iter())
}

static BY_OPCODE: LazyLock<HashMap<&'static str, &'static FormRow>> =
    LazyLock::new(|| coverage().map(|row| (row.opcode, row)).collect());

/// Decodes an instruction by the row with the longest matching opcode.
fn decode(decoder: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refused> {
    let mut name = i.opcode.clone();
    let mut found = BY_OPCODE.get(name.as_str());
    for modifier in &i.modifiers {
        name.push('.');
        name.push_str(modifier);
        if let Some(row) = BY_OPCODE.get(name.as_str()) {
            found = Some(row);
        }
    }
    match found {
        Some(FormRow { decode: Some(decode), .. }) => {
            decoder.check(i)?;
            Ok(decode(decoder, i)?)
        }
        Some(row) => Err(format!("`{}` ({}) is known but not emulated", row.opcode, row.forms).into()),
        // The table has a row for every instruction of PTX, emulated or not.
        None => Err(Refused::ByPtx(nearest(&i.opcode))),
    }
}

/// The refusal of an instruction that does not exist, with the most similar one: it shares the longest start and is the nearest in
/// length, the shorter of two.
fn nearest(opcode: &str) -> Refusal {
    let likeness = |known: &str| known.bytes().zip(opcode.bytes()).take_while(|(a, b)| a == b).count();
    let similar = |row: &&FormRow| {
        (likeness(row.opcode), Reverse(row.opcode.len().abs_diff(opcode.len())), Reverse(row.opcode.len()))
    };
    let best = coverage().max_by_key(similar).map_or("", |row| row.opcode);
    format!("there is no such instruction; the nearest is `{best}`")
}

/// The instruction table for the decoder.
pub(super) const TABLE: &Table = &Table {
    decode,
    decode_system_call: system_call::decode,
    is_system_call: system_call::is_known,
    mark_unused_results,
};

/// Marks the atomics and the waits of a kernel whose results no instruction uses. `steps` names each register by a slot of its own.
fn mark_unused_results(rows: &mut [Row], steps: &[Step]) {
    let used = used_registers(steps);
    for step in steps.iter().filter(|step| !step.writes.iter().any(|place| used.contains(place))) {
        for row in rows.get_mut(step.rows.clone()).into_iter().flatten() {
            atomics::mark_unused(row);
            mbarrier::mark_unused(row);
        }
    }
}

/// The registers whose values reach something other than a register that nobody reads: CUDA C++ that ignores a result still moves it, to a
/// variable of the program.
fn used_registers(steps: &[Step]) -> HashSet<Place> {
    let mut used = HashSet::new();
    // From the end, so that a chain of moves takes one pass.
    let mut left: Vec<&Step> = steps.iter().rev().collect();
    loop {
        let before = used.len();
        left.retain(|step| {
            let reaches = !step.forwards || step.writes.iter().any(|place| used.contains(place));
            if reaches {
                used.extend(step.reads.iter().copied());
            }
            !reaches
        });
        if used.len() == before {
            return used;
        }
    }
}
