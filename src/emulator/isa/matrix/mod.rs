//! Warp-level matrix instructions (PTX ISA 9.7.16 and 9.7.17): tiles in shared memory, `mma`, `wmma`.

pub(super) mod decode;
mod form;
mod fragments;
mod run;
pub(super) mod tiles;
pub(super) mod wmma;

use super::{FormRow, Words};
use crate::emulator::decode::Refusal;
use crate::emulator::machine::{Flow, Machine};
use crate::emulator::trap::{Fault, Law};
pub(in crate::emulator) use fragments::Scratch;

const WGMMA: &str = "Asynchronous warpgroup matrix (sm_90a only)";
const TCGEN05: &str = "Tensor memory (sm_100 and its family only)";

pub(in crate::emulator) const ROWS: &[FormRow] = &[
    FormRow::planned(WGMMA, "wgmma.mma_async", "wgmma.mma_async{.sp}… on shared-memory descriptors"),
    FormRow::planned(WGMMA, "wgmma.fence", "wgmma.fence.sync.aligned"),
    FormRow::planned(WGMMA, "wgmma.commit_group", "wgmma.commit_group.sync.aligned"),
    FormRow::planned(WGMMA, "wgmma.wait_group", "wgmma.wait_group.sync.aligned n"),
    FormRow::planned(TCGEN05, "tcgen05.alloc", "tcgen05.alloc, .dealloc, .relinquish_alloc_permit"),
    FormRow::planned(TCGEN05, "tcgen05.ld", "tcgen05.ld{.red}, tcgen05.st, tcgen05.wait"),
    FormRow::planned(TCGEN05, "tcgen05.cp", "tcgen05.cp, tcgen05.shift"),
    FormRow::planned(TCGEN05, "tcgen05.mma", "tcgen05.mma{.sp}{.ws}…"),
    FormRow::planned(TCGEN05, "tcgen05.commit", "tcgen05.commit, tcgen05.fence"),
    FormRow::planned(TCGEN05, "tcgen05", "every other tcgen05 instruction"),
];

/// Takes the mandatory `.sync.aligned`.
fn aligned(words: &mut Words<'_>) -> Result<(), Refusal> {
    let both = [words.take("sync"), words.take("aligned")];
    if both == [true, true] { Ok(()) } else { Err("`.sync.aligned` is wanted".to_owned()) }
}

/// Matrix instructions want all 32 lanes: with one that ended they are undefined.
fn whole_warp(m: &mut Machine<'_>) -> Result<(), Flow> {
    m.all_together()?;
    if m.live == !0 {
        return Ok(());
    }
    let what = format!("a matrix instruction in a warp of which only lanes {:#010x} are there", m.live);
    Err(m.fail(Fault::new(Law::Divergent, what)))
}
