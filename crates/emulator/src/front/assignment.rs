//! Detects registers that may be read before they are written.
//!
//! Data-flow analysis at decode time finds the reads that some path reaches without a write. Only those registers are tracked at
//! run time, per lane, by extra rows; all others cost nothing. In lanes that have not written the register, a read yields undefined
//! bits (`undefined.rs`).

use std::collections::{HashMap, HashSet};

use crate::front::decode::{Bank, Place, Step};
use crate::front::program::Row;
use crate::rules::undefined::{bank_number, note_unwritten};
use crate::run::machine::{Flow, Machine};

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

/// Finds the registers to track and adds their rows; returns their number. `steps` identify registers by unshared slots, `shared`
/// by the slots that the rows use.
pub(crate) fn watch(
    rows: &[Row],
    successors: &[[usize; 2]],
    steps: &[Step],
    shared: &[Step],
    before: &mut Vec<(usize, Row)>,
    behind: &mut Vec<(usize, Row)>,
) -> usize {
    let mut index: HashMap<Place, usize> = HashMap::new();
    for place in steps.iter().flat_map(|s| s.reads.iter().chain(&s.writes)) {
        let next = index.len();
        index.entry(*place).or_insert(next);
    }
    let incoming = assigned(successors, steps, &index);
    // Reads that need tracking, and then the sources of copies into tracked registers.
    let mut watched: HashSet<Place> = HashSet::new();
    for (step, set) in steps.iter().zip(&incoming) {
        if let Some(set) = set.as_ref().filter(|_| !step.copies) {
            watched.extend(step.reads.iter().filter(|p| !has(set, index[*p])));
        }
    }
    loop {
        let before = watched.len();
        for (step, set) in steps.iter().zip(&incoming) {
            if let (true, Some(set)) = (step.copies, set)
                && watched.contains(&step.writes[0])
                && !has(set, index[&step.reads[0]])
            {
                watched.insert(step.reads[0]);
            }
        }
        if watched.len() == before {
            break;
        }
    }
    if watched.is_empty() {
        return 0;
    }
    let mut order: Vec<Place> = watched.into_iter().collect();
    order.sort_by_key(|(bank, slot)| (*bank as u8, *slot));
    let number: HashMap<Place, u32> = order.iter().zip(0..).map(|(p, n)| (*p, n)).collect();
    for ((step, shared), set) in steps.iter().zip(shared).zip(&incoming) {
        // Unreachable steps never run.
        let (Some(set), Some(first)) = (set, rows.get(step.rows.start)) else { continue };
        let guard = (first.guard, first.negate);
        let row = |exec| Row { guard: guard.0, negate: guard.1, ..Row::new(exec) };
        let mut reads: Vec<usize> = (0..step.reads.len()).collect();
        reads.sort_by_key(|n| (step.reads[*n].0 as u8, step.reads[*n].1));
        reads.dedup_by_key(|n| step.reads[*n]);
        for n in reads.into_iter().filter(|n| !has(set, index[&step.reads[*n]])) {
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
    order.len()
}

/// Per step, the registers that every path to it has written; `None` if it is unreachable.
fn assigned(successors: &[[usize; 2]], steps: &[Step], index: &HashMap<Place, usize>) -> Vec<Option<Bits>> {
    let words = index.len().div_ceil(64);
    let mut step_at = vec![usize::MAX; successors.len() + 1];
    for (n, step) in steps.iter().enumerate() {
        if !step.rows.is_empty() {
            step_at[step.rows.start] = n;
        }
    }
    // State at the entry of each row that is reached by a jump, and of each step.
    let mut incoming: Vec<Option<Bits>> = vec![None; steps.len()];
    let mut at_row: HashMap<usize, Bits> = HashMap::new();
    let mut work = vec![0usize];
    at_row.insert(0, vec![0; words]);
    while let Some(start) = work.pop() {
        let Some(mut state) = at_row.get(&start).cloned() else { continue };
        let mut row = start;
        while row < successors.len() {
            if let Some(step) = steps.get(step_at[row]) {
                let known = &mut incoming[step_at[row]];
                match known {
                    Some(old) => old.iter_mut().zip(&state).for_each(|(o, s)| *o &= s),
                    None => *known = Some(state.clone()),
                }
                let copied = step.copies.then(|| has(&state, index[&step.reads[0]]));
                for place in &step.writes {
                    let i = index[place];
                    let value = copied.unwrap_or(true);
                    // Under a guard, some lanes keep their old value.
                    let value = if step.guard.is_some() { has(&state, i) && value } else { value };
                    set(&mut state, i, value);
                }
            }
            let [next, other] = successors[row];
            for jump in [next, other] {
                if jump == row + 1 {
                    continue;
                }
                if merge(&mut at_row, jump, &state) {
                    work.push(jump);
                }
            }
            if next != row + 1 && other != row + 1 {
                break;
            }
            row += 1;
            // Where paths meet, the state is their intersection.
            if let Some(known) = at_row.get_mut(&row) {
                let changed = known.iter().zip(&state).any(|(k, s)| k & !s != 0);
                if !changed {
                    break;
                }
                known.iter_mut().zip(&state).for_each(|(k, s)| *k &= s);
                state.clone_from(known);
            }
        }
    }
    incoming
}

/// Intersects the state at a row with `state`; returns whether it changed.
fn merge(at_row: &mut HashMap<usize, Bits>, row: usize, state: &Bits) -> bool {
    match at_row.get_mut(&row) {
        Some(known) => {
            let changed = known.iter().zip(state).any(|(k, s)| k & !s != 0);
            known.iter_mut().zip(state).for_each(|(k, s)| *k &= s);
            changed
        }
        None => {
            at_row.insert(row, state.clone());
            true
        }
    }
}

fn mark_written(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.r.written[row.d as usize] |= m.mask;
    Flow::Next
}
