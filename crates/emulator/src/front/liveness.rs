//! Assigns slots that registers share if they are never live together.
//!
//! PTX from a compiler uses a new register for every value: thousands of them, few of which are live at a time. A kernel is
//! therefore decoded twice. The first decoding gives each register its own slot and records what every instruction reads and
//! writes. Liveness follows from that, and the second decoding uses the slots assigned here.
//!
//! Diverged parts of a warp cannot disturb each other: a slot has one value per lane, and a row writes only the lanes that execute
//! it. A lane therefore reads from a slot what its own thread last wrote there, no matter what other lanes did in between; rows
//! that read other lanes (`shfl`, `mma`, `ldmatrix`) do so when those lanes have reached the same row. A thread's execution is a
//! path of the flow graph, so it suffices that no path of a single thread writes a slot between a write and a read of another
//! register in it. This is the usual liveness of compilers; it does not depend on which lanes run together. Three rules make it
//! safe with the way rows execute:
//!
//! - A slot written by an instruction is not shared with one that it reads or that its other rows need: a row may wait and run
//!   again, and an instruction of several rows may write before it has read all operands.
//! - A guarded write ends no live range: the other lanes keep their values.
//! - Constants, special registers and the like may be read at any time and share no slots.
//!
//! A register that was never written holds the last value of its slot. This cannot be observed: a read that some path reaches
//! without a write is tracked per lane (`assignment.rs`), by register rather than by slot.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

use crate::front::registers::{Bank, Place, Step};
use crate::work;

/// The lifetime of a slot's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// From the first row to the last.
    Always,
    /// While the register is live.
    Register,
    /// During the step with this number, and up to the last one that uses it again.
    Step(usize),
}

/// A request for a slot.
#[derive(Debug, Clone, Copy)]
struct Wish {
    /// The bank: W, D or P.
    bank: Bank,
    /// Number of consecutive slots.
    width: usize,
    life: Life,
    slot: u32,
    /// The function that it belongs to, from 1; 0 is the entry. Functions share no slots: a caller's registers keep their values.
    unit: u32,
}

/// Allocates slots in the order in which decoding requests them.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    wishes: Vec<Wish>,
    /// The function whose registers are requested, from 1; 0 is the entry.
    pub(crate) unit: u32,
    /// Slots in use per bank: W, D, P.
    counts: [usize; 3],
    /// The slot of each request, if planned by an earlier decoding.
    planned: Option<Vec<u32>>,
}

fn number(bank: Bank) -> usize {
    match bank {
        Bank::W => 0,
        Bank::D | Bank::Q => 1,
        Bank::P => 2,
    }
}

impl Slots {
    /// Allocates the next slot of a bank.
    pub(crate) fn take(&mut self, bank: Bank, life: Life) -> u32 {
        let (bank, width) = if bank == Bank::Q { (Bank::D, 2) } else { (bank, 1) };
        let n = self.wishes.len();
        let slot = match &self.planned {
            // Decoding the same text makes the same requests.
            Some(planned) => planned.get(n).copied().unwrap_or(u32::MAX),
            None => {
                let count = &mut self.counts[number(bank)];
                let slot = *count;
                *count += width;
                u32::try_from(slot).unwrap_or(u32::MAX)
            }
        };
        self.wishes.push(Wish { bank, width, life, slot, unit: self.unit });
        slot
    }

    /// Number of slots in the 32-bit, the 64-bit and the predicate bank.
    pub(crate) fn counts(&self) -> [usize; 3] {
        self.counts
    }

    /// Per function, from the entry on, the slots of its registers in the 32-bit, the 64-bit and the predicate bank.
    pub(crate) fn by_unit(&self, units: usize) -> Vec<[Vec<u32>; 3]> {
        let mut all: Vec<[Vec<u32>; 3]> = vec![Default::default(); units];
        for wish in self.wishes.iter().filter(|wish| wish.life != Life::Always) {
            if let Some(banks) = all.get_mut(wish.unit as usize) {
                banks[number(wish.bank)].extend((0..wish.width as u32).map(|n| wish.slot + n));
            }
        }
        for slots in all.iter_mut().flatten() {
            slots.sort_unstable();
            slots.dedup();
        }
        all
    }

    /// Plans slots for another decoding of the same text, shared by registers that are never live together.
    pub(crate) fn shared(&self, successors: &[[usize; 2]], steps: &[Step], entries: &[usize]) -> Self {
        let spans = self.spans(successors, steps, entries);
        let mut order: Vec<usize> = (0..self.wishes.len()).collect();
        order.sort_by_key(|n| {
            let Wish { life, unit, .. } = self.wishes[*n];
            (life != Life::Always, unit, spans[*n], *n)
        });
        let mut free: [FreeSlots; 3] = Default::default();
        let mut unit = 0;
        let mut planned = vec![None; self.wishes.len()];
        for n in order {
            let Some((from, to)) = spans[n] else { continue };
            let Wish { bank, width, .. } = self.wishes[n];
            if self.wishes[n].unit != unit && self.wishes[n].life != Life::Always {
                unit = self.wishes[n].unit;
                free.iter_mut().for_each(FreeSlots::close);
            }
            planned[n] = Some(free[number(bank)].take(width, from, to));
        }
        // Requests that no instruction names share a spare slot, wide enough for all of them.
        let spare = free.map(|free| free.count);
        let mut counts = spare;
        for (wish, _) in self.wishes.iter().zip(&planned).filter(|(_, slot)| slot.is_none()) {
            let n = number(wish.bank);
            counts[n] = counts[n].max(spare[n] + wish.width);
        }
        // Gaps too narrow for a 128-bit register can make a plan longer than no plan.
        let mut unshared = [0; 3];
        for (slot, wish) in planned.iter_mut().zip(&self.wishes) {
            let n = number(wish.bank);
            let own = unshared[n];
            unshared[n] += wish.width;
            let at = if counts[n] > self.counts[n] { own } else { slot.unwrap_or(spare[n]) };
            *slot = Some(at);
        }
        let counts = std::array::from_fn(|n| counts[n].min(self.counts[n]));
        let planned = planned.into_iter().flatten().map(|at| u32::try_from(at).unwrap_or(u32::MAX)).collect();
        Self { unit: 0, wishes: Vec::new(), counts, planned: Some(planned) }
    }

    /// The first and the last step at which each request is live; `None` if no step names it.
    ///
    /// The span covers, in text order, all steps where a register is live or written. A register that is live in a loop is live
    /// throughout the loop, so the steps in between cost little.
    fn spans(
        &self,
        successors: &[[usize; 2]],
        steps: &[Step],
        entries: &[usize],
    ) -> Vec<Option<(usize, usize)>> {
        // Requests by bank and unshared slot.
        let mut by_slot: [Vec<usize>; 3] = Default::default();
        for (n, wish) in self.wishes.iter().enumerate() {
            by_slot[number(wish.bank)].extend(std::iter::repeat_n(n, wish.width));
        }
        let wish = |(bank, slot): &Place| by_slot[number(*bank)][*slot as usize];
        let mut spans: Vec<Option<(usize, usize)>> = self
            .wishes
            .iter()
            .map(|wish| match wish.life {
                Life::Always => Some((0, usize::MAX)),
                Life::Step(at) => Some((at, at)),
                Life::Register => None,
            })
            .collect();
        let mut widen = |n: usize, at: usize| {
            let (from, to) = spans[n].unwrap_or((at, at));
            spans[n] = Some((from.min(at), to.max(at)));
        };
        // Requests that steps name, and their indices: many registers are declared but never used.
        let (mut named, mut numbers) = (Vec::new(), vec![usize::MAX; self.wishes.len()]);
        for (at, step) in steps.iter().enumerate() {
            step.reuses.iter().map(wish).for_each(|n| widen(n, at));
            for n in step.reads.iter().chain(&step.writes).map(wish) {
                widen(n, at);
                if numbers[n] == usize::MAX {
                    numbers[n] = named.len();
                    named.push(n);
                }
            }
        }
        let flow = Flow::new(successors, steps, entries);
        flow.live(
            steps,
            named.len(),
            |place| numbers[wish(place)],
            |n, block, end| {
                let steps = &flow.blocks[block].steps;
                widen(named[n], if end == End::Start { steps.start } else { steps.end - 1 });
            },
        );
        spans
    }
}

/// The slots of a bank during the allocation, in the order in which live ranges begin.
#[derive(Debug, Default)]
struct FreeSlots {
    /// Slots handed out so far.
    count: usize,
    free: BTreeSet<usize>,
    /// Slots in use, by the last step of their live range.
    taken: BinaryHeap<Reverse<(usize, usize)>>,
}

impl FreeSlots {
    /// Ends the use of all slots so far.
    fn close(&mut self) {
        *self = Self { count: self.count, ..Self::default() };
    }

    /// The lowest `width` consecutive slots that are free during these steps.
    fn take(&mut self, width: usize, from: usize, to: usize) -> usize {
        while let Some(Reverse((_, slot))) = self.taken.peek().filter(|Reverse((last, _))| *last < from) {
            work::count(1);
            self.free.insert(*slot);
            self.taken.pop();
        }
        let fits = |at: &usize| {
            work::count(1);
            (*at..(at + width).min(self.count)).all(|slot| self.free.contains(&slot))
        };
        let at = self.free.iter().copied().find(fits).unwrap_or(self.count);
        for slot in at..at + width {
            self.free.remove(&slot);
            self.taken.push(Reverse((to, slot)));
        }
        self.count = self.count.max(at + width);
        at
    }
}

/// A basic block: consecutive steps, and the blocks that may follow and precede it.
pub(super) struct Block {
    pub(super) steps: Range<usize>,
    pub(super) next: Vec<usize>,
    before: Vec<usize>,
}

/// The flow graph of a kernel.
pub(super) struct Flow {
    pub(super) blocks: Vec<Block>,
    /// The blocks in which execution begins.
    pub(super) entries: Vec<usize>,
}

/// The start or the end of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Start,
    Last,
}

impl Flow {
    /// The flow graph of steps whose execution begins at these rows.
    pub(super) fn new(successors: &[[usize; 2]], steps: &[Step], entries: &[usize]) -> Self {
        // The step that begins at each row; steps without rows fall through.
        let mut step_at = vec![steps.len(); successors.len() + 1];
        for (n, step) in steps.iter().enumerate().rev() {
            step_at[step.rows.start] = n;
        }
        let leaves = |n: usize| {
            let rows = steps[n].rows.clone();
            let mut next: Vec<usize> = rows.clone().flat_map(|row| successors[row]).collect();
            if rows.is_empty() {
                next.push(rows.start);
            }
            // Jumps within a step's own rows do not leave it; a row without a step ends the thread.
            next.retain(|row| *row >= rows.end || *row <= rows.start);
            let mut next: Vec<usize> =
                next.into_iter().map(|row| if rows.is_empty() { n + 1 } else { step_at[row] }).collect();
            next.sort_unstable();
            next.dedup();
            next.retain(|n| *n < steps.len());
            next
        };
        let entries = entries.iter().map(|row| step_at[*row]).filter(|step| *step < steps.len());
        let entries: Vec<usize> = entries.collect();
        let mut starts = vec![0];
        starts.extend(&entries);
        for n in 0..steps.len() {
            let next = leaves(n);
            if next != [n + 1] {
                starts.extend(next);
                starts.push(n + 1);
            }
        }
        starts.sort_unstable();
        starts.dedup();
        starts.retain(|n| *n < steps.len());
        let block_of = |step: usize| starts.partition_point(|s| *s <= step) - 1;
        let ends = starts.iter().skip(1).copied().chain([steps.len()]);
        let block = |(start, end): (&usize, usize)| Block {
            steps: *start..end,
            next: if *start < end { leaves(end - 1).into_iter().map(block_of).collect() } else { Vec::new() },
            before: Vec::new(),
        };
        let mut blocks: Vec<Block> = starts.iter().zip(ends).map(block).collect();
        for n in 0..blocks.len() {
            for next in blocks[n].next.clone() {
                blocks[next].before.push(n);
            }
        }
        let entries = entries.into_iter().map(block_of).collect();
        Self { blocks, entries }
    }

    /// Calls `found` with each register that is live at the start or at the end of a block, and returns those that are live where
    /// execution begins. A register is live if some path reads it before an unguarded write. There are `count` registers, numbered
    /// by `number`.
    ///
    /// Each register is followed backwards from the blocks that read it until blocks that write it, so the cost is the sum of the
    /// live ranges in blocks. Sets of registers per block would cost registers times blocks, of which a compiler's PTX has
    /// thousands each, although few registers are live at a time.
    pub(super) fn live(
        &self,
        steps: &[Step],
        count: usize,
        number: impl Fn(&Place) -> usize,
        mut found: impl FnMut(usize, usize, End),
    ) -> Vec<usize> {
        const NONE: usize = usize::MAX;
        // Per register, the blocks that read it before they write it, and those that write it.
        let (mut read_in, mut written_in) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        let (mut last_read, mut last_written) = (vec![NONE; count], vec![NONE; count]);
        for (n, block) in self.blocks.iter().enumerate() {
            for step in &steps[block.steps.clone()] {
                for register in step.reads.iter().map(&number) {
                    if last_written[register] != n && last_read[register] != n {
                        last_read[register] = n;
                        read_in[register].push(n);
                    }
                }
                for register in step.writes.iter().map(&number).filter(|_| step.guard.is_none()) {
                    if last_written[register] != n {
                        last_written[register] = n;
                        written_in[register].push(n);
                    }
                }
            }
        }
        let (mut seen, mut writes) = (vec![NONE; self.blocks.len()], vec![NONE; self.blocks.len()]);
        let mut at_entry = Vec::new();
        for register in 0..count {
            written_in[register].iter().for_each(|n| writes[*n] = register);
            let mut stack = std::mem::take(&mut read_in[register]);
            stack.iter().for_each(|n| seen[*n] = register);
            while let Some(n) = stack.pop() {
                found(register, n, End::Start);
                for before in &self.blocks[n].before {
                    work::count(1);
                    found(register, *before, End::Last);
                    if writes[*before] != register && seen[*before] != register {
                        seen[*before] = register;
                        stack.push(*before);
                    }
                }
            }
            if self.entries.iter().any(|entry| seen[*entry] == register) {
                at_entry.push(register);
            }
        }
        at_entry
    }
}
