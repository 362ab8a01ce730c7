//! Reports undefined values at the end of a launch, and violations after which the launch continued.

use super::stores::Stores;
use crate::api::observe::{Observer, Violation};
use crate::api::trap::{Cause, Place, Rule, Source, Trap};
use crate::memory::global::GlobalMemory;
use crate::run::deadlock::place;
use crate::run::machine::Tolerated;
use crate::run::stream::InStream;

/// What happened, and the origin of the undefined bits involved.
pub(crate) fn with_cause(
    launches: &[InStream<'_>],
    launch: usize,
    what: String,
    cause: Option<Cause>,
) -> String {
    let Some(Cause { pc, source }) = cause else { return what };
    let Place { line, instruction, .. } = place(launches, launch, pc, [0; 3], 0, None);
    let how = match source {
        Source::Register => "which reads a register that was not written on this path",
        Source::Memory => "which reads memory that was never written",
        Source::Quotient => "an integer division by zero",
    };
    format!("{what}; they come from line {line} `{instruction}`, {how}")
}

/// Records in memory what stores have left undefined there.
pub(crate) fn keep_undefined(launches: &[InStream<'_>], stores: Stores, memory: &mut GlobalMemory) {
    for ((grid, pc), stored) in stores {
        let what = format!(
            "undefined bytes are stored at global address {:#x} and remain after the launch in a buffer whose contents count",
            stored.low
        );
        let what = with_cause(launches, grid, what, Some(stored.cause));
        let lane = u32::try_from(stored.lane).ok();
        let place = place(launches, grid, pc, stored.cta, stored.warp, lane);
        memory.keep_undefined(stored.low..stored.high, Trap { rule: Rule::Uninitialised, what, place });
    }
}

/// Reports the violations after which a launch continued.
pub(crate) fn told<O: Observer>(launches: &[InStream<'_>], tolerated: Tolerated, observer: &mut O) {
    for ((grid, pc, rule), (fault, cta, warp, times)) in tolerated {
        let what = with_cause(launches, grid, fault.what, fault.cause);
        let place = place(launches, grid, pc, cta, warp, fault.lane);
        observer.violation(&Violation { trap: Trap { rule, what, place }, times });
    }
}
