//! Watching a launch row by row; a launch that nobody watches pays nothing for it.

use super::machine::{LANES, Machine, Registers};
use super::memory::{Window, window_of};
use super::program::{Kernel, NO_SLOT, Program};
use super::trap::{Place, Trap};

/// Is told of every row that is about to run.
pub trait Observer {
    /// Whether it wants to be told.
    const WATCHES: bool = true;

    /// A row is about to run. A waiting instruction comes again with each attempt.
    fn row(&mut self, executed: &Executed<'_>);

    /// A thread has printed (`vprintf`). It is told of whether the observer watches rows or not, and so is the next.
    fn printed(&mut self, _text: &str) {}

    /// The launch has ended, and an instruction of it violates a rule that it need not end for ([`crate::Judge::Values`]).
    fn violation(&mut self, _violation: &Violation) {}

    /// The launch has ended, and something in it is worth a remark.
    fn remark(&mut self, _remark: &Remark) {}
}

/// Something that breaks no rule and is worth a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// What it is, the first time.
    pub what: String,
    /// Where.
    pub place: Place,
    /// How often it came about at this instruction.
    pub times: u64,
}

/// A violation that a launch went on behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What it is, the first time.
    pub trap: Trap,
    /// How often it came about at this instruction.
    pub times: u64,
}

/// Watches nothing.
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
    /// The lanes that run it.
    pub mask: u32,
    /// Its number, an index of [`Program::listing`].
    pub row: usize,
    kernel: &'a Kernel,
    registers: &'a Registers,
}

/// Where an address points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pointed {
    Global,
    Shared,
    Other,
}

impl<'a> Executed<'a> {
    #[inline]
    pub(super) fn new(m: &'a Machine<'_>, pc: u32) -> Self {
        Self { cta: m.cta.id, warp: m.warp, mask: m.mask, row: pc as usize, kernel: m.kernel, registers: m.r }
    }

    /// The addresses of address operand `n` by lane, with the place they point to; `named` is the instruction's own word
    /// for the place, if it has one.
    pub(super) fn addresses(&self, n: usize, named: Option<Pointed>) -> Option<(Pointed, [u64; LANES])> {
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

/// A row as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Line of the PTX text, from 1.
    pub line: usize,
    /// The instruction, spaces made single.
    pub text: String,
    /// Whether it is the first row of its instruction; the others are the emulator's own affair.
    pub first: bool,
}

impl Program {
    /// The rows of a kernel, in the order of their numbers.
    #[must_use]
    pub fn listing(&self, kernel: &Kernel) -> Vec<Listed> {
        // Lines by counting on from the last row, for a kernel has thousands.
        let (mut line, mut at) = (1, 0);
        let bytes = self.text.as_bytes();
        let row = |origin: &super::program::Origin| {
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
