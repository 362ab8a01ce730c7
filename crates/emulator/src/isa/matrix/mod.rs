//! Warp-level matrix instructions (PTX ISA 9.7.16 and 9.7.17): tiles in shared memory, `mma`, `wmma`.

pub(super) mod decode;
mod form;
mod fragments;
mod run;
pub(super) mod tiles;
pub(super) mod wmma;

use super::{FormRow, Words};
use crate::api::trap::{Fault, Rule};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine};
pub(crate) use run::undefined;

const WGMMA: &str = "Asynchronous warpgroup matrix";
const TCGEN05: &str = "Tensor memory";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::out_of_scope(
        WGMMA,
        "wgmma",
        "wgmma.*: only sm_90a has it; no SM12x GPU does, and ptxas rejects it for sm_120 and sm_121",
    ),
    FormRow::out_of_scope(
        TCGEN05,
        "tcgen05",
        "tcgen05.*: only the sm_100 family has tensor memory; no SM12x GPU does, and ptxas rejects it for sm_120 and sm_121",
    ),
];

/// Takes the mandatory `.sync.aligned`.
fn aligned(words: &mut Words<'_>) -> Result<(), Refusal> {
    let both = [words.take("sync"), words.take("aligned")];
    if both == [true, true] { Ok(()) } else { Err("`.sync.aligned` is required".to_owned()) }
}

/// Matrix instructions require all 32 lanes: they are undefined if one has ended.
fn whole_warp(m: &mut Machine<'_>) -> Result<(), Flow> {
    m.all_together()?;
    if m.live == !0 {
        return Ok(());
    }
    let what = format!("a matrix instruction in a warp of which only lanes {:#010x} are active", m.live);
    Err(m.fail(Fault::new(Rule::Divergent, what)))
}
