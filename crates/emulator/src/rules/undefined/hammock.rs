//! Branches around rows that only compute: if undefined bits decide such a branch, what the rows write is undefined after the paths
//! meet again, and nothing else depends on the choice. Compilers generate them for `x ? f(y) : z`.
//!
//! A pair of numbers in one register is written as a whole also where the choice is about one of them: the half that every path takes
//! from the same register does not depend on it.

use std::collections::HashMap;

use super::effect::{Effect, Propagation};
use crate::front::flow::NEVER;
use crate::front::program::{Origin, Row, UNGUARDED};
use crate::front::registers::{Bank, Place};

/// The maximum number of rows between a branch and the place where its paths meet.
const MOST_ROWS: u32 = 64;

/// What a branch selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hammock {
    /// The row where its paths meet.
    pub(crate) join: u32,
    /// The registers that the rows before it write, and the bits of each that depend on the path.
    pub(crate) writes: Box<[(Place, u64)]>,
}

/// The branches of a kernel around nothing but arithmetic, by row; `branches` are its rows with a target.
pub(crate) fn hammocks(
    rows: &[Row],
    origins: &[Origin],
    effects: &[Effect],
    branches: &[u32],
) -> HashMap<u32, Hammock> {
    let region = Region { rows, origins, effects, branches };
    branches.iter().filter_map(|at| Some((*at, region.hammock(*at)?))).collect()
}

/// The rows of a kernel.
struct Region<'a> {
    rows: &'a [Row],
    origins: &'a [Origin],
    effects: &'a [Effect],
    branches: &'a [u32],
}

impl Region<'_> {
    fn is_branch(&self, row: u32) -> bool {
        self.branches.binary_search(&row).is_ok()
    }

    /// The effect of a row; `None` if it belongs to no instruction, as then it writes no register of the program.
    fn effect(&self, row: u32) -> Option<&Effect> {
        self.effects.get(self.origins[row as usize].step as usize)
    }

    /// The registers that a row writes; `None` if it does more than to compute, or leaves the rows before `join`.
    fn inside(&self, row: u32, join: u32) -> Option<&[Place]> {
        if self.is_branch(row) {
            let to = &self.rows[row as usize];
            return (to.imm == 0 && to.c > row && to.c <= join).then_some(&[]);
        }
        let Some(effect) = self.effect(row) else { return Some(&[]) };
        effect.pure.then_some(&effect.writes)
    }

    fn hammock(&self, at: u32) -> Option<Hammock> {
        let branch = &self.rows[at as usize];
        let join = branch.d;
        if branch.guard == UNGUARDED || branch.imm != 0 || join == NEVER {
            return None;
        }
        if branch.c <= at || branch.c > join || join - at > MOST_ROWS {
            return None;
        }
        let mut writes: Vec<Place> = Vec::new();
        for row in at + 1..join {
            for place in self.inside(row, join)? {
                if !writes.contains(place) {
                    writes.push(*place);
                }
            }
        }
        let bits = |place: Place| !self.same_half(at, place, &writes);
        let writes: Box<[(Place, u64)]> = writes.iter().map(|place| (*place, bits(*place))).collect();
        (!writes.is_empty()).then_some(Hammock { join, writes })
    }

    /// The bits of a half of a 64-bit register that every path between a branch and its join takes from one register, which none
    /// of `writes` is.
    fn same_half(&self, at: u32, place: Place, writes: &[Place]) -> u64 {
        let (first, join) = (self.rows[at as usize].c, self.rows[at as usize].d);
        // Whether each row is reached only by paths that have written the register.
        let mut written: HashMap<u32, bool> = HashMap::from([(at + 1, false)]);
        written.entry(first).and_modify(|all| *all = false).or_insert(false);
        let mut halves: Option<[Option<Place>; 2]> = None;
        for row in at + 1..join {
            let Some(before) = written.get(&row).copied() else { continue };
            let writes_it =
                !self.is_branch(row) && self.effect(row).is_some_and(|effect| effect.writes.contains(&place));
            if writes_it {
                let found = self.pair(row, place).map(|pair| pair.map(Some)).unwrap_or_default();
                let both = halves.unwrap_or(found);
                let same = |n: usize| both[n].filter(|source| found[n] == Some(*source));
                halves = Some([same(0), same(1)]);
            }
            let (to, guarded) = (&self.rows[row as usize], self.rows[row as usize].guard != UNGUARDED);
            let after = before || writes_it && !guarded;
            let mut reach = |next: u32| {
                written.entry(next).and_modify(|all| *all &= after).or_insert(after);
            };
            match self.is_branch(row) {
                true if guarded => [to.c, row + 1].into_iter().for_each(&mut reach),
                true => reach(to.c),
                false => reach(row + 1),
            }
        }
        let constant = |half: Option<Place>| half.is_some_and(|source| !writes.contains(&source));
        match (halves, written.get(&join)) {
            (Some([low, high]), Some(true)) => {
                let bits = |half: Option<Place>, mask: u64| if constant(half) { mask } else { 0 };
                bits(low, u64::from(u32::MAX)) | bits(high, u64::from(u32::MAX) << 32)
            }
            _ => 0,
        }
    }

    /// The registers that a row packs into a 64-bit one, the lower first.
    fn pair(&self, row: u32, place: Place) -> Option<[Place; 2]> {
        let effect = self.effect(row)?;
        let moves = matches!(&effect.rule, Propagation::Moves { by } if by.is_empty());
        match (&*effect.reads, &*effect.writes) {
            (&[low @ (Bank::W, _), high @ (Bank::W, _)], &[to @ (Bank::D, _)]) if moves && to == place => {
                Some([low, high])
            }
            _ => None,
        }
    }
}
