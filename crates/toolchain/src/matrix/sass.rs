//! Evaluates machine code: the opcodes of each entry, and whether the hardware instruction is among them.
//!
//! Disassembly is the expensive part, and entries share most instructions. Every distinct 16-byte instruction of an
//! architecture is therefore named once, the names are cached in the store, and the opcodes of an entry are looked up.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use rayon::prelude::*;

use crate::event::{Event, Sink};
use crate::store::{self, Store};
use crate::toolkit::Disassembler;
use record::Native;

/// One machine instruction (Volta and later).
type Instruction = [u8; 16];

/// An instruction without its scheduling bits.
type Key = [u8; 16];

/// Bits 105 to 125 of an instruction control when it issues: stalls, barriers, reuse (Jia et al., "Dissecting the NVIDIA Volta
/// GPU Architecture via Microbenchmarking", section 2.1). They do not affect the opcode, but nvdisasm requires them to be
/// valid, so it reads a real instruction of each key.
const SCHEDULING: u128 = ((1 << 21) - 1) << 105;

/// Kind of the entries in the store.
const KIND: &str = "sass-2";

/// Instructions per run of nvdisasm: starting it costs as much as naming 5,000.
const CHUNK: usize = 16384;

/// Time limit of one run of nvdisasm.
const LIMIT: Duration = Duration::from_secs(120);

/// Padding after the code; not counted.
const PADDING: &str = "NOP";

/// Names of machine instructions, by architecture number.
pub struct Dictionary<'a> {
    disassembler: &'a Disassembler,
    store: Option<&'a Store>,
    names: BTreeMap<u16, HashMap<Key, String>>,
}

impl<'a> Dictionary<'a> {
    /// Creates an empty dictionary. Names are cached in `store`, if any.
    #[must_use]
    pub fn new(disassembler: &'a Disassembler, store: Option<&'a Store>) -> Self {
        Self { disassembler, store, names: BTreeMap::new() }
    }

    /// Names every instruction of `codes`, given by architecture number, and returns how many were new.
    pub fn learn(&mut self, codes: &[(u16, &[u8])], scratch: &Path, sink: &dyn Sink) -> usize {
        let mut new: BTreeMap<u16, BTreeMap<Key, Instruction>> = BTreeMap::new();
        for (arch, code) in codes {
            let (disassembler, store) = (self.disassembler, self.store);
            let known = self.names.entry(*arch).or_insert_with(|| recall(store, disassembler, *arch));
            for instruction in instructions(code).filter(|i| !known.contains_key(&key_of(*i))) {
                // The smallest instruction of each key, so that the order of the cells does not matter.
                let shown = new.entry(*arch).or_default().entry(key_of(instruction)).or_insert(instruction);
                *shown = instruction.min(*shown);
            }
        }
        let total: usize = new.values().map(BTreeMap::len).sum();
        if total == 0 {
            return 0;
        }
        sink.emit(Event::SassStarted { instructions: total });
        let chunks: Vec<(u16, Vec<Instruction>)> = new
            .into_iter()
            .flat_map(|(arch, set)| {
                let list: Vec<Instruction> = set.into_values().collect();
                list.chunks(CHUNK).map(|c| (arch, c.to_vec())).collect::<Vec<_>>()
            })
            .collect();
        let named: Vec<_> = chunks
            .par_iter()
            .map(|(arch, chunk)| {
                self.disassembler.opcodes_of_raw(*arch, chunk.as_flattened(), scratch, LIMIT)
            })
            .collect();
        let mut touched = HashSet::new();
        for ((arch, chunk), result) in chunks.into_iter().zip(named) {
            match result {
                Ok(opcodes) => {
                    touched.insert(arch);
                    self.names.entry(arch).or_default().extend(chunk.into_iter().map(key_of).zip(opcodes));
                }
                // The cells stay accepted; their opcodes stay unknown, and the user is told why.
                Err(error) => sink.emit(Event::Warning { text: error.to_string() }),
            }
        }
        for arch in touched {
            self.keep(arch, sink);
        }
        total
    }

    /// Returns the opcodes of a piece of code with their counts; `None` if an instruction has no name.
    pub fn opcodes(&self, arch: u16, code: &[u8]) -> Option<Vec<(String, u32)>> {
        let names = self.names.get(&arch)?;
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for instruction in instructions(code) {
            let name = names.get(&key_of(instruction))?.as_str();
            if name != PADDING {
                *counts.entry(name).or_default() += 1;
            }
        }
        (!code.is_empty()).then(|| counts.into_iter().map(|(name, n)| (name.to_owned(), n)).collect())
    }

    fn keep(&self, arch: u16, sink: &dyn Sink) {
        let (Some(store), Some(names)) = (self.store, self.names.get(&arch)) else { return };
        let mut lines: Vec<String> = names
            .iter()
            .map(|(instruction, name)| format!("{:032x} {name}\n", u128::from_be_bytes(*instruction)))
            .collect();
        lines.sort_unstable();
        if let Err(error) = store.put(KIND, &key(self.disassembler, arch), lines.concat().as_bytes()) {
            sink.emit(Event::Warning { text: error.to_string() });
        }
    }
}

fn key(disassembler: &Disassembler, arch: u16) -> String {
    store::sha256(format!("{} {arch}", disassembler.sha256).as_bytes())[..40].to_owned()
}

fn recall(store: Option<&Store>, disassembler: &Disassembler, arch: u16) -> HashMap<Key, String> {
    let bytes = store.and_then(|s| s.get(KIND, &key(disassembler, arch))).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let line = |line: &str| {
        let (instruction, name) = line.split_once(' ')?;
        Some((u128::from_str_radix(instruction, 16).ok()?.to_be_bytes(), name.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

fn instructions(code: &[u8]) -> impl Iterator<Item = Instruction> {
    let (chunks, _) = code.as_chunks::<16>();
    chunks.iter().copied()
}

fn key_of(instruction: Instruction) -> Key {
    (u128::from_le_bytes(instruction) & !SCHEDULING).to_le_bytes()
}

/// Whether `opcode` begins with `prefix` in whole components: `QMMA.SF.16832` begins with `QMMA.SF`, `QMMA.SFX` does not.
pub(super) fn matches(opcode: &str, prefix: &str) -> bool {
    opcode.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Judges the opcodes of an accepted cell, given the opcodes that prove the hardware instruction and how many of them
/// the text should yield.
pub(super) fn judge(opcodes: Option<&[(String, u32)]>, expects: &[String], count: u32) -> Native {
    let (Some(opcodes), false) = (opcodes, expects.is_empty()) else { return Native::Unknown };
    let hits: u32 = opcodes
        .iter()
        .filter(|(opcode, _)| expects.iter().any(|prefix| matches(opcode, prefix)))
        .map(|(_, n)| n)
        .sum();
    match hits {
        0 => Native::Emulated,
        n if n == count => Native::Native,
        n if n > count => Native::Split,
        // Some forms in the text yield the opcode and some do not, so no single verdict is true.
        _ => Native::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_match_part_by_part() {
        assert!(matches("QMMA.SF.16832", "QMMA.SF") && matches("QMMA", "QMMA"));
        assert!(!matches("QMMA.SFX", "QMMA.SF") && !matches("HMMA", "QMMA") && !matches("QMMA", "QMMA.SF"));
    }

    #[test]
    fn native_split_emulated_unknown() {
        let ops = |list: &[(&str, u32)]| list.iter().map(|(o, n)| ((*o).to_owned(), *n)).collect::<Vec<_>>();
        let expects = ["QMMA".to_owned(), "OMMA".to_owned()];
        assert_eq!(judge(Some(&ops(&[("QMMA.SF", 1), ("LDG", 2)])), &expects, 1), Native::Native);
        assert_eq!(judge(Some(&ops(&[("QMMA.SF", 1), ("OMMA", 1)])), &expects, 1), Native::Split);
        assert_eq!(judge(Some(&ops(&[("QMMA.SF", 4)])), &expects, 4), Native::Native);
        assert_eq!(judge(Some(&ops(&[("QMMA.SF", 3)])), &expects, 4), Native::Unknown);
        assert_eq!(judge(Some(&ops(&[("HMMA", 2), ("F2FP", 8)])), &expects, 1), Native::Emulated);
        assert_eq!(judge(None, &expects, 1), Native::Unknown);
        assert_eq!(judge(Some(&ops(&[("QMMA", 1)])), &[], 1), Native::Unknown);
    }
}
