//! Rows that the decoder makes itself: branches and the places where they meet, calls, frames, registers of another size.

use crate::api::trap::{Fault, Rule};
use crate::front::program::{Exec, Row};
use crate::isa::operations::Operation;
use crate::run::machine::{Flow, Machine, lanes};
use crate::run::vectors::by_lane;

/// Jumps with the lanes of the guard: row `c`; `d` is the meeting point.
pub(crate) fn branch(m: &mut Machine<'_>, row: &Row) -> Flow {
    if m.mask == m.fragment { Flow::Jump(row.c) } else { Flow::Split { taken: m.mask, target: row.c } }
}

/// Marks the rows that end lanes. The address of their function cannot: the compiler may duplicate a function.
pub(crate) struct Ends;

/// A row that ends lanes.
pub(crate) fn ending() -> Row {
    Row { extra: Some(Box::new(Ends)), ..Row::new(exit) }
}

/// Ends the masked lanes.
fn exit(_: &mut Machine<'_>, _: &Row) -> Flow {
    Flow::Exit
}

/// Marks the rows that return from a function.
pub(crate) struct Returns;

/// The masked lanes return to their callers.
pub(crate) fn returning() -> Row {
    Row { extra: Some(Box::new(Returns)), ..Row::new(|_, _| Flow::Return) }
}

/// The first row of a function.
pub(crate) fn entered(_: &mut Machine<'_>, _: &Row) -> Flow {
    Flow::Next
}

/// The masked lanes call a function: the extra is a [`CallSite`](crate::front::calls::CallSite).
pub(crate) fn call(_: &mut Machine<'_>, _: &Row) -> Flow {
    Flow::Call
}

/// `d = frame + offset`, the address of a variable in the frame of a function, in the 64-bit bank.
pub(crate) fn frame_address(m: &mut Machine<'_>, row: &Row) -> Flow {
    let frame = m.r.d[row.a as usize];
    let d = &mut m.r.d[row.d as usize];
    lanes(m.mask).for_each(|lane| d[lane] = frame[lane].wrapping_add(row.imm));
    Flow::Next
}

/// `d = frame + offset` in the 32-bit bank, for addresses of 32 bits.
pub(crate) fn frame_address_low(m: &mut Machine<'_>, row: &Row) -> Flow {
    let frame = m.r.d[row.a as usize];
    let d = &mut m.r.w[row.d as usize];
    lanes(m.mask).for_each(|lane| d[lane] = frame[lane].wrapping_add(row.imm) as u32);
    Flow::Next
}

/// The place where diverged lanes meet.
pub(crate) fn join(_: &mut Machine<'_>, _: &Row) -> Flow {
    Flow::Join
}

/// A function that is `.noreturn` has returned.
pub(crate) fn returned(m: &mut Machine<'_>, _: &Row) -> Flow {
    m.fail(Fault::new(Rule::Operand, "a function that is `.noreturn` returns"))
}

/// `d = a + imm` in 32 bits, widened to 64.
pub(crate) fn widen() -> Exec {
    Operation::Widen.exec()
}

/// A row for `width` bits of a register from bit `from`, without its slots.
pub(crate) fn part(from: u32, width: u32) -> Row {
    let part_of = by_lane!(imm; |a: u32| -> u32 {
        let (from, mask) = part_mask(imm);
        a >> from & mask as u32
    });
    Row { imm: u64::from(from | width << 8), ..Row::new(part_of) }
}

/// The first bit of a part, and the mask of its length, by the `imm` of its row.
#[inline(always)]
pub(crate) fn part_mask(imm: u64) -> (u64, u64) {
    (imm & 0x3F, u64::MAX >> ((64 - (imm >> 8)) & 63))
}
