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

use std::ops::Range;

use crate::front::decode::{Bank, Place, Step};

/// The lifetime of a slot's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// From the first row to the last.
    Always,
    /// While the register is live.
    Register,
    /// During the step with this number.
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
}

/// Allocates slots in the order in which decoding requests them.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    wishes: Vec<Wish>,
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
        self.wishes.push(Wish { bank, width, life });
        if let Some(planned) = &self.planned {
            // Decoding the same text makes the same requests.
            return planned.get(n).copied().unwrap_or(u32::MAX);
        }
        let count = &mut self.counts[number(bank)];
        let slot = *count;
        *count += width;
        u32::try_from(slot).unwrap_or(u32::MAX)
    }

    /// Number of slots in the 32-bit, the 64-bit and the predicate bank.
    pub(crate) fn counts(&self) -> [usize; 3] {
        self.counts
    }

    /// Plans slots for another decoding of the same text, shared by registers that are never live together.
    pub(crate) fn shared(&self, successors: &[[usize; 2]], steps: &[Step]) -> Self {
        let spans = self.spans(successors, steps);
        let mut order: Vec<usize> = (0..self.wishes.len()).collect();
        order.sort_by_key(|n| (self.wishes[*n].life != Life::Always, spans[*n], *n));
        // Per bank, the first step from which each slot is free.
        let mut free_from: [Vec<usize>; 3] = Default::default();
        let mut planned = vec![None; self.wishes.len()];
        for n in order {
            let Some((from, to)) = spans[n] else { continue };
            let Wish { bank, width, .. } = self.wishes[n];
            let free = &mut free_from[number(bank)];
            let fits = |at: &usize| free[*at..free.len().min(*at + width)].iter().all(|f| *f <= from);
            let at = (0..free.len()).find(fits).unwrap_or(free.len());
            free.resize(free.len().max(at + width), 0);
            free[at..at + width].fill(to.saturating_add(1));
            planned[n] = Some(at);
        }
        // Requests that no instruction names share a spare slot, wide enough for all of them.
        let spare = free_from.map(|free| free.len());
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
        Self { wishes: Vec::new(), counts, planned: Some(planned) }
    }

    /// The first and the last step at which each request is live; `None` if no step names it.
    ///
    /// The span covers, in text order, all steps where a register is live or written. A register that is live in a loop is live
    /// throughout the loop, so the steps in between cost little.
    fn spans(&self, successors: &[[usize; 2]], steps: &[Step]) -> Vec<Option<(usize, usize)>> {
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
            for n in step.reads.iter().chain(&step.writes).map(wish) {
                widen(n, at);
                if numbers[n] == usize::MAX {
                    numbers[n] = named.len();
                    named.push(n);
                }
            }
        }
        for block in live(&blocks(successors, steps), steps, named.len(), |place| numbers[wish(place)]) {
            block.at_start.iter().for_each(|n| widen(named[n], block.steps.start));
            block.at_end.iter().for_each(|n| widen(named[n], block.steps.end - 1));
        }
        spans
    }
}

/// A basic block: consecutive steps, and the blocks that may follow.
struct Block {
    steps: Range<usize>,
    next: Vec<usize>,
}

/// The basic blocks of a kernel.
fn blocks(successors: &[[usize; 2]], steps: &[Step]) -> Vec<Block> {
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
    let mut starts = vec![0];
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
    };
    starts.iter().zip(ends).map(block).collect()
}

/// A set of requests.
#[derive(Clone, PartialEq)]
struct Set(Vec<u64>);

impl Set {
    fn put(&mut self, n: usize, value: bool) {
        let bit = 1 << (n % 64);
        self.0[n / 64] = if value { self.0[n / 64] | bit } else { self.0[n / 64] & !bit };
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let mut left = *bits;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(word * 64 + bit)
            })
        })
    }
}

/// Registers live at the start and at the end of a block.
struct Live {
    steps: Range<usize>,
    at_start: Set,
    at_end: Set,
}

/// Liveness of `count` registers: a register is live if some path reads it before an unguarded write.
fn live(blocks: &[Block], steps: &[Step], count: usize, wish: impl Fn(&Place) -> usize) -> Vec<Live> {
    let empty = Set(vec![0; count.div_ceil(64)]);
    let mut live: Vec<Live> = blocks
        .iter()
        .map(|b| Live { steps: b.steps.clone(), at_start: empty.clone(), at_end: empty.clone() })
        .collect();
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); blocks.len()];
    for (n, block) in blocks.iter().enumerate() {
        block.next.iter().for_each(|next| before[*next].push(n));
    }
    // Code mostly runs forward, so the last block is processed first.
    let mut work: Vec<usize> = (0..blocks.len()).collect();
    let mut waiting = vec![true; blocks.len()];
    while let Some(n) = work.pop() {
        waiting[n] = false;
        let mut state = empty.clone();
        for next in &blocks[n].next {
            state.0.iter_mut().zip(&live[*next].at_start.0).for_each(|(s, l)| *s |= l);
        }
        live[n].at_end.clone_from(&state);
        for step in steps[blocks[n].steps.clone()].iter().rev() {
            if step.guard.is_none() {
                step.writes.iter().for_each(|place| state.put(wish(place), false));
            }
            step.reads.iter().for_each(|place| state.put(wish(place), true));
        }
        if state != live[n].at_start {
            live[n].at_start = state;
            for b in &before[n] {
                if !std::mem::replace(&mut waiting[*b], true) {
                    work.push(*b);
                }
            }
        }
    }
    live
}
