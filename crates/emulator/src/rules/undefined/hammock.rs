//! Branches around rows that only compute: if undefined bits decide such a branch, what the rows write is undefined after the paths
//! meet again, and nothing else depends on the choice. Compilers generate them for `x ? f(y) : z`.

use std::collections::HashMap;

use super::effect::Effect;
use crate::front::flow::NEVER;
use crate::front::program::{Origin, Row, UNGUARDED};
use crate::front::registers::Place;

/// The maximum number of rows between a branch and the place where its paths meet.
const MOST_ROWS: u32 = 64;

/// What a branch selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hammock {
    /// The row where its paths meet.
    pub(crate) join: u32,
    /// The registers that the rows before it write.
    pub(crate) writes: Box<[Place]>,
}

/// The branches of a kernel around nothing but arithmetic, by row; `branches` are its rows with a target.
pub(crate) fn hammocks(
    rows: &[Row],
    origins: &[Origin],
    effects: &[Effect],
    branches: &[u32],
) -> HashMap<u32, Hammock> {
    let inside = |row: u32, join: u32| -> Option<&[Place]> {
        if branches.binary_search(&row).is_ok() {
            let to = &rows[row as usize];
            return (to.imm == 0 && to.c > row && to.c <= join).then_some(&[]);
        }
        // Rows that belong to no instruction write no register of the program.
        let Some(effect) = effects.get(origins[row as usize].step as usize) else { return Some(&[]) };
        effect.pure.then_some(&effect.writes)
    };
    let of = |at: &u32| {
        let branch = &rows[*at as usize];
        let join = branch.d;
        if branch.guard == UNGUARDED || branch.imm != 0 || join == NEVER {
            return None;
        }
        if branch.c <= *at || branch.c > join || join - at > MOST_ROWS {
            return None;
        }
        let mut writes: Vec<Place> = Vec::new();
        for row in at + 1..join {
            for place in inside(row, join)? {
                if !writes.contains(place) {
                    writes.push(*place);
                }
            }
        }
        (!writes.is_empty()).then(|| (*at, Hammock { join, writes: writes.into() }))
    };
    branches.iter().filter_map(of).collect()
}
