//! Observers of a launch, row by row. A launch without one pays nothing for it.

use std::collections::BTreeSet;

use crate::api::trap::{OtherAccess, Place, Trap};
use crate::front::program::{Kernel, NO_SLOT, Program};
use crate::memory::window::{Window, window_of};
use crate::run::machine::{LANES, Machine, Registers};
use crate::run::watchpoint::LastWrite;

/// Receives every row that is about to run, and other events of a launch.
pub trait Observer {
    /// Whether the observer receives rows.
    const WATCHES: bool = true;

    /// Called before a row runs, once per attempt of a waiting instruction.
    fn row(&mut self, executed: &Executed<'_>);

    /// Called when a thread prints (`vprintf`). This method and the two below are called even if [`Observer::WATCHES`] is false.
    fn printed(&mut self, _text: &str) {}

    /// Called after the launch for each instruction that violated a rule without ending the launch ([`crate::Judge::Values`]).
    fn violation(&mut self, _violation: &Violation) {}

    /// Called after the launch for each remark.
    fn remark(&mut self, _remark: &Remark) {}

    /// Called after the launch for each store whose lanes wrote different values to one address: PTX does not determine which one
    /// remains ([`crate::KeptLane`]). Only if races are checked.
    fn undetermined_store(&mut self, _store: &Remark) {}

    /// Called after the launch for each watched range of global memory ([`crate::Watchpoints::of_results`]).
    fn written(&mut self, _write: &LastWrite) {}

    /// Called after the launch if accesses conflict without an order, as far as that does not end the launch. Only if races are
    /// checked.
    fn conflicts(&mut self, _conflicts: &Conflicts) {}
}

/// Accesses that conflict without an order: what a directed schedule ([`crate::Directed`]) tries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// Conflicts of lanes of one warp, of which at least one access is weak: races.
    pub lanes: Vec<Remark>,
    /// Conflicts of lanes of one warp whose accesses are all strong (`.volatile`, `.relaxed`).
    pub strong_lanes: Vec<Remark>,
    /// The rows of both sides of these, by kernel.
    pub lane_rows: BTreeSet<(String, u32)>,
    /// The rows of the later sides of races between warps, by kernel. The races themselves are violations.
    pub warp_rows: BTreeSet<(String, u32)>,
    /// The first byte of each of these, as a generic address.
    pub bytes: BTreeSet<u64>,
}

/// An observation that violates no rule but deserves attention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The first occurrence.
    pub what: String,
    /// Where it happened.
    pub place: Place,
    /// Of lanes in conflict: the access of the other lane.
    pub other: Option<Box<OtherAccess>>,
    /// Number of occurrences at this instruction.
    pub times: u64,
}

/// A violation that did not end the launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The first occurrence.
    pub trap: Trap,
    /// Number of occurrences at this instruction.
    pub times: u64,
}

/// The observer that ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Observer for Nobody {
    const WATCHES: bool = false;

    fn row(&mut self, _: &Executed<'_>) {}
}

/// A row that is about to run.
pub struct Executed<'a> {
    /// The CTA.
    pub cta: [u32; 3],
    /// The warp within the CTA.
    pub warp: u32,
    /// The lanes that execute it.
    pub mask: u32,
    /// Index of the row in [`Program::listing`].
    pub row: usize,
    kernel: &'a Kernel,
    registers: &'a Registers,
}

/// Where an address points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pointed {
    Global,
    Shared,
    Other,
}

impl<'a> Executed<'a> {
    #[inline]
    pub(crate) fn new(m: &'a Machine<'_>, pc: u32) -> Self {
        Self { cta: m.cta.id, warp: m.warp, mask: m.mask, row: pc as usize, kernel: m.kernel, registers: m.r }
    }

    /// The registers of the warp.
    pub(crate) fn registers(&self) -> &Registers {
        self.registers
    }

    /// The addresses of address operand `n`, by lane, with the space that they point to: `named` if the instruction names one,
    /// otherwise that of the first active lane's address.
    pub(crate) fn addresses(&self, n: usize, named: Option<Pointed>) -> Option<(Pointed, [u64; LANES])> {
        let (slot, offset) = *self.kernel.origins.get(self.row)?.addresses.get(n)?;
        if slot == NO_SLOT {
            return None;
        }
        let addresses = self.registers.d.get(slot as usize)?.map(|a| a.wrapping_add_signed(offset));
        let first = addresses[self.mask.trailing_zeros() as usize % LANES];
        let place = named.unwrap_or(match window_of(first).0 {
            Window::Global => Pointed::Global,
            Window::Shared => Pointed::Shared,
            _ => Pointed::Other,
        });
        Some((place, addresses))
    }
}

/// A row of the listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Line of the PTX text, from 1.
    pub line: usize,
    /// The instruction, with runs of white space reduced to one space.
    pub text: String,
    /// Whether it is the first row of its instruction; the others are internal.
    pub first: bool,
}

impl Program {
    /// The rows of a kernel, in order.
    #[must_use]
    pub fn listing(&self, kernel: &Kernel) -> Vec<Listed> {
        // Line numbers are counted from the previous row on: a kernel has thousands of rows.
        let (mut line, mut at) = (1, 0);
        let bytes = self.text.as_bytes();
        let row = |origin: &crate::front::program::Origin| {
            let (start, end) = (origin.start as usize, origin.end as usize);
            if start < at {
                (line, at) = (1, 0);
            }
            line += bytes.get(at..start).unwrap_or_default().iter().filter(|b| **b == b'\n').count();
            at = start;
            let text = self.text.get(start..end).unwrap_or_default();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            Listed { line, text, first: origin.first }
        };
        kernel.origins.iter().map(row).collect()
    }
}
