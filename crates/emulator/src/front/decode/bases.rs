//! What a load or store finds of its address in an earlier one: the widened base, and the pattern of the lanes' addresses.
//!
//! A compiler addresses the words of an unrolled loop by one register and many offsets. A base of 32 bits is widened by a row of its own,
//! and each access looks for the pattern of its addresses; both need to be done once while the register keeps its value.
//!
//! What is kept holds for every lane that executes the later instruction. It is of the statements since the last label, the last
//! declaration, the last call and the last end of a block of the text: a lane reaches a later one only through these, so that it has
//! executed those without a guard, whatever became of the other lanes of its warp meanwhile. An instruction with a guard uses what is
//! kept, and leaves nothing.

use std::collections::HashMap;

use ptx::Instruction;

use crate::front::registers::{Bank, Place};

/// Instructions whose every lane accesses memory at its address: those out of bounds end the launch there. They leave what later ones find.
const ACCESSES: [&str; 4] = ["ld", "st", "atom", "red"];

/// Instructions of which some lanes name no address: they find what others have left.
const ROWS: [&str; 2] = ["ldmatrix", "stmatrix"];

/// The base of an access, widened.
struct Widened {
    /// The slot of the base.
    base: u32,
    /// The slot in the 64-bit bank of the sum of the base and the offset.
    sum: u32,
    offset: i64,
}

/// Bases of addresses that have not changed since an instruction used them.
#[derive(Default)]
pub(super) struct Bases {
    /// By the name of the base: decoding again with shared slots finds the same.
    widened: HashMap<String, Widened>,
    /// By slot of the 64-bit bank, the row of the load or store that has last looked there for the pattern of the addresses.
    looked: HashMap<u32, usize>,
    /// Whether the instruction may use what is there.
    finds: bool,
    /// Whether others may use what it leaves.
    leaves: bool,
}

impl Bases {
    /// Forgets everything: lanes may come here that have not executed what is above, or names have other meanings from here on.
    pub(super) fn forget(&mut self) {
        self.widened.clear();
        self.looked.clear();
    }

    /// Begins an instruction; `in_part` if it reads some of its bytes alone, or none.
    pub(super) fn begin(&mut self, i: &Instruction, in_part: bool) {
        let accesses = ACCESSES.contains(&i.opcode.as_str());
        self.finds = accesses || ROWS.contains(&i.opcode.as_str());
        self.leaves = accesses && i.guard.is_none() && !in_part;
    }

    /// Ends an instruction that writes these registers.
    pub(super) fn end(&mut self, i: &Instruction, writes: &[Place]) {
        if i.opcode == "call" {
            self.forget();
        }
        for (bank, slot) in writes {
            match bank {
                Bank::W => self.widened.retain(|_, widened| widened.base != *slot),
                Bank::D => self.overwrite(*slot),
                Bank::Q => (*slot..slot + 2).for_each(|slot| self.overwrite(slot)),
                Bank::P => {}
            }
        }
    }

    /// A slot of the 64-bit bank gets another value.
    pub(super) fn overwrite(&mut self, slot: u32) {
        self.looked.remove(&slot);
    }

    /// The slot of the 64-bit bank that holds the sum of a base and an offset, and how far behind it `offset` is, if an earlier
    /// instruction has widened such a sum.
    ///
    /// The sum of a base and an offset has 32 bits, and this one has more if it is beyond them. Then the earlier address is, too, within
    /// [`FARTHEST`] of the end of what 32 bits address: no memory is there, and the earlier access has failed.
    pub(super) fn widened(&self, name: &str, offset: i64) -> Option<(u32, i64)> {
        let Widened { sum, offset: before, .. } = self.widened.get(name).filter(|_| self.finds)?;
        let behind = offset.checked_sub(*before)?;
        (0..=FARTHEST).contains(&behind).then_some((*sum, behind))
    }

    /// Notes the slot that holds the sum of a base and an offset from this instruction on.
    pub(super) fn widens(&mut self, name: &str, widened: (u32, i64), base: u32) {
        if self.leaves {
            let (sum, offset) = widened;
            self.widened.insert(name.to_owned(), Widened { base, sum, offset });
        }
    }

    /// Notes that a row looks for the pattern of the addresses in a slot; returns the earlier one that has, if it left it.
    pub(super) fn looks(&mut self, slot: u32, row: usize) -> Option<usize> {
        if self.leaves { self.looked.insert(slot, row) } else { self.looked.get(&slot).copied() }
    }
}

/// The largest distance between two offsets from one widened base.
const FARTHEST: i64 = 1 << 20;
