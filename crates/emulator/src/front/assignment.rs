//! Detects registers that may be read before they are written.
//!
//! Data-flow analysis at decode time finds the reads that some path reaches without a write. Only those registers are tracked at
//! run time, per lane, by extra rows; all others cost nothing. In lanes that have not written the register, a read yields undefined
//! bits (`undefined.rs`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::front::liveness;
use crate::front::program::Row;
use crate::front::registers::{Bank, Place, Step};
use crate::rules::undefined::{bank_number, note_unwritten};
use crate::run::machine::{Flow, Machine};
use crate::work;

/// A set of registers, one bit each.
type Bits = Vec<u64>;

fn has(bits: &Bits, i: usize) -> bool {
    bits[i / 64] >> (i % 64) & 1 == 1
}

fn set(bits: &mut Bits, i: usize, value: bool) {
    if value {
        bits[i / 64] |= 1 << (i % 64);
    } else {
        bits[i / 64] &= !(1 << (i % 64));
    }
}

/// Finds the registers to track and adds their rows; returns for each a row that names it. `steps` identify registers by unshared slots, `shared`
/// by the slots that the rows use. Execution begins at the rows of `entries`.
pub(crate) fn watch(
    rows: &[Row],
    (successors, entries): (&[[usize; 2]], &[usize]),
    steps: &[Step],
    shared: &[Step],
    before: &mut Vec<(usize, Row)>,
    behind: &mut Vec<(usize, Row)>,
) -> Vec<usize> {
    let incoming = Incoming::new(successors, entries, steps);
    // Reads that need tracking, and then the sources of copies into tracked registers.
    let mut watched: HashSet<Place> = HashSet::new();
    let mut sources: HashMap<Place, Vec<Place>> = HashMap::new();
    for (n, step) in steps.iter().enumerate() {
        for read in incoming.missing(n).iter().map(|read| step.reads[*read as usize]) {
            if step.copies {
                sources.entry(step.writes[0]).or_default().push(read);
            } else {
                watched.insert(read);
            }
        }
    }
    let mut work: Vec<Place> = watched.iter().copied().collect();
    while let Some(place) = work.pop() {
        work.extend(sources.remove(&place).into_iter().flatten().filter(|source| watched.insert(*source)));
    }
    if watched.is_empty() {
        return Vec::new();
    }
    let mut order: Vec<Place> = watched.into_iter().collect();
    order.sort_by_key(|(bank, slot)| (*bank as u8, *slot));
    let number: HashMap<Place, u32> = order.iter().zip(0..).map(|(p, n)| (*p, n)).collect();
    for (n, (step, shared)) in steps.iter().zip(shared).enumerate() {
        // Unreachable steps never run.
        let Some(first) = rows.get(step.rows.start).filter(|_| incoming.reached[n]) else { continue };
        let guard = (first.guard, first.negate);
        let row = |exec| Row { guard: guard.0, negate: guard.1, ..Row::new(exec) };
        let mut reads: Vec<usize> = incoming.missing(n).iter().map(|read| *read as usize).collect();
        reads.sort_by_key(|n| (step.reads[*n].0 as u8, step.reads[*n].1));
        reads.dedup_by_key(|n| step.reads[*n]);
        for n in reads {
            let place = step.reads[n];
            if let (Some(watched), Some((bank, slot))) = (number.get(&place), shared.reads.get(n)) {
                // Every lane reads the guard itself.
                let is_guard = place.0 == Bank::P && Some(place.1) == step.guard;
                let note = if is_guard { Row::new(note_unwritten) } else { row(note_unwritten) };
                // The bits of the register.
                let narrow = shared.narrow_sources.iter().find(|(s, _)| *bank == Bank::W && s == slot);
                let imm = narrow.map_or(u64::MAX, |(_, bits)| u64::MAX >> (64 - bits));
                before.push((
                    step.rows.start,
                    Row { a: *watched, b: bank_number(*bank), d: *slot, imm, ..note },
                ));
            }
        }
        for n in step.writes.iter().filter_map(|place| number.get(place)) {
            behind.push((step.rows.end, Row { d: *n, ..row(mark_written) }));
        }
    }
    let mut named = vec![0; order.len()];
    for step in steps {
        for n in step.reads.iter().chain(&step.writes).filter_map(|place| number.get(place)) {
            named[*n as usize] = step.rows.start;
        }
    }
    named
}

/// The reads that some path reaches without a write.
struct Incoming {
    /// By step: which of its reads, by index.
    missing: HashMap<usize, Vec<u32>>,
    /// Whether some path reaches the step.
    reached: Vec<bool>,
}

impl Incoming {
    /// Follows the registers that may be unwritten along all paths.
    ///
    /// A read without a write before it on some path belongs to a register that is live where execution begins, or it reads a copy
    /// of such a register. Few registers are; for all others nothing needs to be followed.
    fn new(successors: &[[usize; 2]], entries: &[usize], steps: &[Step]) -> Self {
        let flow = liveness::Flow::new(successors, steps, entries);
        let index = live_at_entry(&flow, steps);
        let count = index.len();
        // Per block, the registers that every path to it has written; `None` if no path leads there.
        let mut at_start: Vec<Option<Bits>> = vec![None; flow.blocks.len()];
        // In text order, since code mostly runs forward.
        let mut queue: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
        for entry in &flow.entries {
            at_start[*entry] = Some(vec![0; count.div_ceil(64)]);
            queue.push(Reverse(*entry));
        }
        while let Some(Reverse(n)) = queue.pop() {
            let Some(mut state) = at_start[n].clone() else { continue };
            for step in &steps[flow.blocks[n].steps.clone()] {
                work::count(1);
                pass(step, &index, &mut state);
            }
            for next in &flow.blocks[n].next {
                work::count(1 + state.len() as u64);
                if merge(&mut at_start[*next], &state) {
                    queue.push(Reverse(*next));
                }
            }
        }
        let mut reached = vec![false; steps.len()];
        let mut missing = HashMap::new();
        for (block, state) in flow.blocks.iter().zip(at_start) {
            let Some(mut state) = state else { continue };
            for n in block.steps.clone() {
                let unwritten = |place: &Place| index.get(place).is_some_and(|i| !has(&state, *i));
                let reads = (0u32..).zip(&steps[n].reads).filter(|(_, place)| unwritten(place));
                let reads: Vec<u32> = reads.map(|(read, _)| read).collect();
                if !reads.is_empty() {
                    missing.insert(n, reads);
                }
                reached[n] = true;
                pass(&steps[n], &index, &mut state);
            }
        }
        Self { missing, reached }
    }

    fn missing(&self, step: usize) -> &[u32] {
        self.missing.get(&step).map_or(&[], Vec::as_slice)
    }
}

/// Numbers the registers that are live where execution begins, and those that copies give their values to.
fn live_at_entry(flow: &liveness::Flow, steps: &[Step]) -> HashMap<Place, usize> {
    let mut numbers: HashMap<Place, usize> = HashMap::new();
    let mut named = Vec::new();
    let mut copies: HashMap<Place, Vec<Place>> = HashMap::new();
    for step in steps {
        for place in step.reads.iter().chain(&step.writes) {
            numbers.entry(*place).or_insert_with(|| {
                named.push(*place);
                named.len() - 1
            });
        }
        if step.copies {
            copies.entry(step.reads[0]).or_default().push(step.writes[0]);
        }
    }
    let live = flow.live(steps, named.len(), |place| numbers[place], |_, _, _| ());
    let mut index = HashMap::new();
    let mut work: Vec<Place> = live.into_iter().map(|register| named[register]).collect();
    while let Some(place) = work.pop() {
        let next = index.len();
        index.entry(place).or_insert(next);
        work.extend(copies.remove(&place).into_iter().flatten());
    }
    index
}

/// Passes a step: what it writes is written in all lanes, or as its source is.
fn pass(step: &Step, index: &HashMap<Place, usize>, state: &mut Bits) {
    let written = |state: &Bits, place| index.get(place).is_none_or(|i| has(state, *i));
    let copied = step.copies.then(|| written(state, &step.reads[0]));
    for place in &step.writes {
        let Some(i) = index.get(place) else { continue };
        let value = copied.unwrap_or(true);
        // Under a guard, some lanes keep their old value.
        let value = if step.guard.is_some() { has(state, *i) && value } else { value };
        set(state, *i, value);
    }
}

/// Where paths meet, the state is their intersection; returns whether it changed.
fn merge(known: &mut Option<Bits>, state: &Bits) -> bool {
    match known {
        Some(known) => {
            let changed = known.iter().zip(state).any(|(k, s)| k & !s != 0);
            known.iter_mut().zip(state).for_each(|(k, s)| *k &= s);
            changed
        }
        None => {
            *known = Some(state.clone());
            true
        }
    }
}

fn mark_written(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.r.written[row.d as usize] |= m.mask;
    Flow::Next
}
