//! Which rows of the emulator's instruction table kernels reach.

use std::collections::BTreeMap;

use emulator::{Coverage, coverage};
use ptx::{Instruction, Module};

/// The row of an opcode with its modifiers: the one with the longest name that its words begin with. Empty if there is none.
pub(super) fn row_of_words(opcode: &str, modifiers: &[&str]) -> &'static str {
    let mut name = opcode.to_owned();
    let row = |name: &str| coverage().find(|row| row.opcode == name).map(|row| row.opcode);
    let mut found = row(&name);
    for modifier in modifiers {
        name.push('.');
        name.push_str(modifier);
        found = row(&name).or(found);
    }
    found.unwrap_or_default()
}

/// The row of an instruction.
#[must_use]
pub fn row_of(i: &Instruction) -> &'static str {
    let modifiers: Vec<&str> = i.modifiers.iter().map(String::as_str).collect();
    row_of_words(&i.opcode, &modifiers)
}

/// How often kernels have instructions of each row that runs.
#[derive(Debug, Clone)]
pub struct Reached {
    counts: BTreeMap<&'static str, u64>,
}

impl Default for Reached {
    fn default() -> Self {
        let rows = coverage().filter(|row| row.coverage() == Coverage::Implemented);
        Self { counts: rows.map(|row| (row.opcode, 0)).collect() }
    }
}

impl Reached {
    /// Counts the instructions of a kernel.
    pub fn add(&mut self, module: &Module) {
        super::each_instruction(module, &mut |i| self.count(row_of(i)));
    }

    pub(super) fn count(&mut self, row: &'static str) {
        if let Some(count) = self.counts.get_mut(row) {
            *count += 1;
        }
    }

    /// How often a row was reached.
    #[must_use]
    pub fn of(&self, row: &str) -> u64 {
        self.counts.get(row).copied().unwrap_or_default()
    }

    /// The rows that were not reached.
    pub fn missing(&self) -> impl Iterator<Item = &'static str> {
        self.counts.iter().filter(|(_, count)| **count == 0).map(|(row, _)| *row)
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.counts.len()
    }
}
