//! What a `cp.async` of a warp copies: its operands, and the bytes that each lane takes.

use crate::front::registers::{Bank, Place};
use crate::run::machine::{Machine, lanes};

/// The operands of a `cp.async` in addition to its two addresses.
pub(crate) struct Copy {
    pub(crate) to: i64,
    pub(crate) from: i64,
    pub(crate) size: usize,
    /// Slot of the source size.
    pub(crate) taken: Option<u32>,
    /// Slot of the predicate that ignores the source, and whether it is negated.
    pub(crate) ignore: Option<(u32, bool)>,
    pub(crate) line: u32,
}

/// The bytes that a lane's copy takes from its source.
pub(crate) fn taken(m: &Machine<'_>, copy: &Copy, lane: usize) -> usize {
    let ignored =
        copy.ignore.is_some_and(|(slot, negated)| (m.r.p[slot as usize] >> lane & 1 == 1) != negated);
    let size = copy.taken.map_or(copy.size, |slot| m.r.w[slot as usize][lane] as usize);
    if ignored { 0 } else { size }
}

/// The lanes of a copy that take nothing from the source whose address is in a register: that address may be anything. Pipelined
/// loops predicate their loads this way.
pub(crate) fn lanes_without_source(m: &Machine<'_>, place: Place) -> u32 {
    // The row of the copy may follow rows that widen its addresses.
    let step = |pc: usize| m.kernel.origins.get(pc).map(|origin| origin.step);
    let first = m.pc as usize;
    let rows = (first..).take_while(|pc| step(*pc).is_some() && step(*pc) == step(first));
    let mut copies =
        rows.filter_map(|pc| m.kernel.rows.get(pc)).filter_map(|row| Some((row, row.extra::<Copy>()?)));
    match copies.next() {
        Some((row, copy)) if place == (Bank::D, row.b) && row.a != row.b => {
            lanes(m.mask).filter(|lane| taken(m, copy, *lane) == 0).fold(0, |mask, lane| mask | 1 << lane)
        }
        _ => 0,
    }
}
