//! What a load or store finds of its address in an earlier one: the widened base, and the pattern of the lanes' addresses.
//!
//! A compiler addresses the words of an unrolled loop by one register and many offsets. A base of 32 bits is widened by a row of its own,
//! and each access looks for the pattern of its addresses; both need to be done once while the register keeps its value.
//!
//! What holds here holds for every lane that executes the later instruction. The statements kept are those since the last label, the last
//! call and the last end of a block of the text: a lane reaches a later one only through the earlier ones, so that it has executed those
//! without a guard, whatever became of the other lanes of its warp meanwhile. Those with a guard are found, but leave nothing behind.

use std::collections::{HashMap, HashSet};

use ptx::Instruction;

use crate::front::registers::{Bank, Place};

/// Instructions that access memory at their addresses whenever they are executed: addresses out of bounds end the launch there.
const ACCESSES: [&str; 6] = ["ld", "st", "atom", "red", "ldmatrix", "stmatrix"];

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
    /// Slots of the 64-bit bank in which a load or store has looked for the pattern of the addresses.
    looked: HashSet<u32>,
    accesses: bool,
    guarded: bool,
}

impl Bases {
    /// Forgets everything: lanes may come here that have not executed what is above.
    pub(super) fn forget(&mut self) {
        self.widened.clear();
        self.looked.clear();
    }

    /// Begins an instruction.
    pub(super) fn begin(&mut self, i: &Instruction) {
        self.accesses = ACCESSES.contains(&i.opcode.as_str());
        self.guarded = i.guard.is_some();
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
        let Widened { sum, offset: before, .. } = self.widened.get(name).filter(|_| self.accesses)?;
        let behind = offset.checked_sub(*before)?;
        (0..=FARTHEST).contains(&behind).then_some((*sum, behind))
    }

    /// Notes the slot that holds the sum of a base and an offset from this instruction on.
    pub(super) fn widens(&mut self, name: &str, widened: (u32, i64), base: u32) {
        if self.accesses && !self.guarded {
            let (sum, offset) = widened;
            self.widened.insert(name.to_owned(), Widened { base, sum, offset });
        }
    }

    /// Notes that an instruction looks for the pattern of the addresses in a slot; returns whether an earlier one has.
    pub(super) fn looks(&mut self, slot: u32) -> bool {
        let before = self.looked.contains(&slot);
        if !self.guarded {
            self.looked.insert(slot);
        }
        before
    }
}

/// The largest distance between two offsets from one widened base.
const FARTHEST: i64 = 1 << 20;
