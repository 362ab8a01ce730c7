//! Slots shared by registers that are never live together.
//!
//! A compiler's PTX gives every value a register of its own: thousands of them, few of which hold anything at one time. A
//! kernel is therefore decoded twice. The first decoding gives each register a slot of its own and tells what every
//! instruction reads and writes; from that follows where each register is live, and the second decoding puts the registers
//! where this file says.
//!
//! Why the parts of a warp that run apart cannot disturb each other: a slot has one value per lane, and a row writes only
//! the lanes that run it. What a lane finds in a slot is thus what its own thread last put there, whatever other lanes did
//! in between; rows that read other lanes (`shfl`, `mma`, `ldmatrix`) do so where those lanes have come to the same row.
//! A thread's way through the kernel is a path of the flow graph, so it is enough that no path of a single thread writes a
//! slot between a write and a read of another register in it. That is liveness as compilers know it, and it needs to know
//! nothing of which lanes run together. Three rules keep it safe with how rows run:
//!
//! - What an instruction writes shares no slot with what it reads, nor with what its other rows need: a row may wait and
//!   run again, and an instruction of several rows may write before it has read all.
//! - A write under a guard ends nothing: the other lanes keep what they had.
//! - Constants, special registers and the like are read at any time and share nothing.
//!
//! A register that nothing wrote holds what its slot last held. Nobody can see it: a read that some path reaches without a
//! write is watched by lane (`assignment.rs`), by the register and not by its slot.

use std::ops::Range;

use super::decode::{Bank, Place, Step};

/// How long a slot is somebody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// From the first row to the last.
    Always,
    /// While the register is live.
    Register,
    /// In the step of this number.
    Step(usize),
}

/// What asked for a slot.
#[derive(Debug, Clone, Copy)]
struct Wish {
    /// The bank it lies in: W, D or P.
    bank: Bank,
    /// Slots in a row.
    width: usize,
    life: Life,
}

/// Gives out slots, in the order in which decoding asks.
#[derive(Debug, Default)]
pub(super) struct Slots {
    wishes: Vec<Wish>,
    /// Slots in use: W, D, P.
    counts: [usize; 3],
    /// The slot of each wish, where that was found out before.
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
    /// The next slot of a bank.
    pub(super) fn take(&mut self, bank: Bank, life: Life) -> u32 {
        let (bank, width) = if bank == Bank::Q { (Bank::D, 2) } else { (bank, 1) };
        let n = self.wishes.len();
        self.wishes.push(Wish { bank, width, life });
        if let Some(planned) = &self.planned {
            // The same text is decoded in the same way.
            return planned.get(n).copied().unwrap_or(u32::MAX);
        }
        let count = &mut self.counts[number(bank)];
        let slot = *count;
        *count += width;
        u32::try_from(slot).unwrap_or(u32::MAX)
    }

    /// Slots of the 32-bit, the 64-bit and the predicate bank.
    pub(super) fn counts(&self) -> [usize; 3] {
        self.counts
    }

    /// Slots for another decoding of the same text, shared by registers that are never live together.
    pub(super) fn shared(&self, successors: &[[usize; 2]], steps: &[Step]) -> Self {
        let spans = self.spans(successors, steps);
        let mut order: Vec<usize> = (0..self.wishes.len()).collect();
        order.sort_by_key(|n| (self.wishes[*n].life != Life::Always, spans[*n], *n));
        // By bank: the first step from which each slot is free.
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
            planned[n] = u32::try_from(at).ok();
        }
        // What no instruction names gets a slot that nobody has, wide enough for all.
        let spare = free_from.map(|free| free.len());
        let slot = |(slot, wish): (Option<u32>, &Wish)| {
            slot.unwrap_or_else(|| u32::try_from(spare[number(wish.bank)]).unwrap_or(u32::MAX))
        };
        let planned = planned.into_iter().zip(&self.wishes).map(slot).collect();
        Self { wishes: Vec::new(), counts: spare.map(|n| n + 2), planned: Some(planned) }
    }

    /// The first and the last step at which a slot is somebody's, by wish; nothing for what no step names.
    ///
    /// From the first step to the last where a register is live or written, in the order of the text: a register that is
    /// live in the steps of a loop is live in all between, and what lies between costs little.
    fn spans(&self, successors: &[[usize; 2]], steps: &[Step]) -> Vec<Option<(usize, usize)>> {
        // Wishes by bank and slot of their own.
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
        // Wishes that steps name, and the number of each among them: many registers are declared and never used.
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

/// Steps that run one after the other, and the blocks that may follow.
struct Block {
    steps: Range<usize>,
    next: Vec<usize>,
}

/// The basic blocks of a kernel.
fn blocks(successors: &[[usize; 2]], steps: &[Step]) -> Vec<Block> {
    // The step that begins at a row; steps without rows are passed through.
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
        // Between its own rows a step is not left; a row without a step ends the thread.
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

/// A set of wishes.
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

/// What is live where a block begins and behind its end.
struct Live {
    steps: Range<usize>,
    at_start: Set,
    at_end: Set,
}

/// Liveness of `count` registers: a register is live where some path goes on to read it before an unguarded write.
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
    // Text mostly runs forward: the last block is looked at first.
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
