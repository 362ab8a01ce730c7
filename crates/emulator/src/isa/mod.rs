//! The meaning of instructions: one table row per opcode, one file per chapter of the PTX manual.
//!
//! A row's decoder reads the modifiers and operands once and pushes rows that execute.

mod arithmetic;
pub(crate) mod async_copy;
mod async_store;
pub(crate) mod atomics;
pub(super) mod availability;
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
mod packed;
mod quotient;
mod select;
pub(super) mod syntax;
pub(super) mod system_call;
mod tensor;
mod tensormap;
pub(super) mod used_bytes;
mod video;
mod video_mad;
mod warp;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::LazyLock;

use ptx::Instruction;

use crate::front::decode::{Decoder, Refusal};
use crate::front::program::Special;
pub(super) use crate::front::words::Words;
use crate::memory::window::SHARED_START;
pub(super) use syntax::passes_as;
pub use syntax::{Modifiers, modifiers};

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
    misc::ROWS,
];

/// Every row of the instruction table.
pub fn coverage() -> impl Iterator<Item = &'static FormRow> {
    CHAPTERS.iter().flat_map(|rows| rows.iter())
}

static BY_OPCODE: LazyLock<HashMap<&'static str, &'static FormRow>> =
    LazyLock::new(|| coverage().map(|row| (row.opcode, row)).collect());

/// Why an instruction cannot be decoded.
#[derive(Debug)]
pub(super) enum Refused {
    /// ptxas refuses it, too: PTX has no such form, or the module's version or target lacks it.
    ByPtx(Refusal),
    /// The emulator does not support it.
    ByEmulator(Refusal),
}

impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Self {
        Self::ByEmulator(why)
    }
}

/// Checks that an instruction is a form of PTX, and that the version and the target of the module have it.
pub(super) fn check(decoder: &Decoder<'_>, i: &Instruction) -> Result<(), Refused> {
    let since = syntax::check(decoder, i).map_err(Refused::ByPtx)?;
    availability::check_version(decoder.version(), i, since).map_err(Refused::ByPtx)?;
    availability::check(decoder, i).map_err(Refused::ByPtx)
}

/// Decodes an instruction by the row with the longest matching opcode.
pub(super) fn decode(decoder: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refused> {
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
            check(decoder, i)?;
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

/// The special register with a name; `mov` reads clocks and the like itself.
pub(super) fn special(name: &str) -> Option<Special> {
    let axis = |rest: &str| match rest {
        ".x" => Some(0u8),
        ".y" => Some(1),
        ".z" => Some(2),
        _ => None,
    };
    for (prefix, make) in [
        ("%tid", Special::Tid as fn(u8) -> Special),
        ("%ntid", Special::Ntid),
        ("%ctaid", Special::Ctaid),
        ("%nctaid", Special::Nctaid),
        ("%clusterid", Special::ClusterId),
        ("%nclusterid", Special::NclusterId),
        ("%cluster_ctaid", Special::ClusterCtaid),
        ("%cluster_nctaid", Special::ClusterNctaid),
    ] {
        if let Some(axis) = name.strip_prefix(prefix).and_then(axis) {
            return Some(make(axis));
        }
    }
    Some(match name {
        "%laneid" => Special::Laneid,
        "%warpid" => Special::Warpid,
        "%nwarpid" => Special::Nwarpid,
        "%smid" => Special::Smid,
        "%nsmid" => Special::Nsmid,
        "%gridid" => Special::Gridid,
        "%lanemask_eq" => Special::LanemaskEq,
        "%lanemask_le" => Special::LanemaskLe,
        "%lanemask_lt" => Special::LanemaskLt,
        "%lanemask_ge" => Special::LanemaskGe,
        "%lanemask_gt" => Special::LanemaskGt,
        "%dynamic_smem_size" => Special::DynamicSmemSize,
        "%total_smem_size" => Special::TotalSmemSize,
        "%aggr_smem_size" => Special::AggrSmemSize,
        "%cluster_ctarank" => Special::ClusterCtarank,
        "%cluster_nctarank" => Special::ClusterNctarank,
        "%envreg1" => Special::GridWorkspace { high: true },
        "%envreg2" => Special::GridWorkspace { high: false },
        // As ptxas 13.5 defines them for sm_121; the driver knows the position of `_1`, which is in between here.
        "%reserved_smem_offset_begin" => Special::Reserved(0),
        "%reserved_smem_offset_end" | "%reserved_smem_offset_cap" => Special::Reserved(SHARED_START),
        "%reserved_smem_offset_0" => Special::ReservedAddress(0x40),
        "%reserved_smem_offset_1" => Special::ReservedAddress(0x80),
        // Set by the driver: their values without one are unspecified.
        _ if name.strip_prefix("%envreg").and_then(|n| n.parse::<u8>().ok()).is_some_and(|n| n < 32) => {
            Special::Zero
        }
        _ => return None,
    })
}
