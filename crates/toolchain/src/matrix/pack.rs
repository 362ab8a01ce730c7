//! Cached answers: one entry of the store per (ptxas, target, arch), holding one line per cell.
//!
//! A cell's key is the hash of the text that is assembled: a changed snippet is a new cell, and an added snippet
//! adds cells. Outcomes that the machine may have caused (crashed, timed out) are never cached.

use std::collections::{BTreeMap, HashMap};

use ptx::arch::{PtxIsa, Target};
use serde::{Deserialize, Serialize};

use crate::store::{self, Store, StoreError};
use crate::toolkit::Toolkit;
use record::Outcome;

/// Kind of the entries in the store; the number changes with the format or with the way ptxas is run.
const KIND: &str = "matrix-1";

/// Cells kept in addition to those of the run; beyond this, all cells of earlier texts are dropped.
const STALE_CELLS: usize = 20_000;

/// One cell's answer with its opcodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CellAnswer {
    pub(super) outcome: Outcome,
    /// Empty when accepted.
    pub(super) message: String,
    /// Opcodes and their counts, by opcode; `None` if not accepted or not disassembled.
    pub(super) opcodes: Option<Vec<(String, u32)>>,
}

impl CellAnswer {
    /// Whether the answer may be cached.
    fn lasts(&self) -> bool {
        !matches!(self.outcome, Outcome::Crashed | Outcome::TimedOut)
    }
}

/// A cell as stored: letter, index of the message, indices and counts of opcodes.
type StoredCell = (char, Option<usize>, Option<Vec<(usize, u32)>>);

#[derive(Default, Serialize, Deserialize)]
struct Stored {
    messages: Vec<String>,
    opcodes: Vec<String>,
    cells: BTreeMap<String, StoredCell>,
}

/// The answers of one pair.
#[derive(Debug, Clone, Default)]
pub(super) struct Pack {
    cells: BTreeMap<String, CellAnswer>,
}

/// The key of a cell within its pack.
pub(super) fn cell_key(identity: &str, isa: Option<PtxIsa>) -> String {
    let isa = isa.map_or_else(String::new, |isa| isa.to_string());
    store::sha256(format!("{isa}\n{identity}").as_bytes())[..32].to_owned()
}

fn pack_key(toolkit: &Toolkit, target: Target, arch: Target) -> String {
    store::sha256(format!("{} {target} {arch}", toolkit.sha256).as_bytes())[..40].to_owned()
}

impl Pack {
    /// Loads the cached answers of a pair; none if the pack is missing or damaged.
    pub(super) fn load(store: &Store, toolkit: &Toolkit, target: Target, arch: Target) -> Self {
        let Some(bytes) = store.get(KIND, &pack_key(toolkit, target, arch)) else { return Self::default() };
        let Ok(stored) = serde_json::from_slice::<Stored>(&bytes) else { return Self::default() };
        let cell = |(letter, message, opcodes): StoredCell| -> Option<CellAnswer> {
            let message = match message {
                Some(i) => stored.messages.get(i)?.clone(),
                None => String::new(),
            };
            let opcodes = match opcodes {
                Some(list) => Some(
                    list.into_iter()
                        .map(|(i, n)| Some((stored.opcodes.get(i)?.clone(), n)))
                        .collect::<Option<_>>()?,
                ),
                None => None,
            };
            Some(CellAnswer { outcome: Outcome::from_letter(letter)?, message, opcodes })
        };
        let cells = stored.cells.into_iter().filter_map(|(key, c)| Some((key, cell(c)?))).collect();
        Self { cells }
    }

    /// The cached answer of a cell.
    pub(super) fn get(&self, key: &str) -> Option<&CellAnswer> {
        self.cells.get(key)
    }

    /// Adds an answer, if it may be cached.
    pub(super) fn insert(&mut self, key: String, answer: &CellAnswer) {
        if answer.lasts() {
            self.cells.insert(key, answer.clone());
        }
    }

    /// Writes the pack. `asked` holds the keys of this run's cells, which are kept when the pack grows too large.
    ///
    /// # Errors
    /// [`StoreError`]; the old pack then remains.
    pub(super) fn save(
        &mut self,
        store: &Store,
        toolkit: &Toolkit,
        target: Target,
        arch: Target,
        asked: &[String],
    ) -> Result<(), StoreError> {
        if self.cells.len() > asked.len() + STALE_CELLS {
            self.cells.retain(|key, _| asked.contains(key));
        }
        let mut messages = Interner::default();
        let mut opcodes = Interner::default();
        let cells = self.cells.iter().map(|(key, c)| {
            let message = (!c.message.is_empty()).then(|| messages.index(&c.message));
            let list = c.opcodes.as_ref().map(|l| l.iter().map(|(o, n)| (opcodes.index(o), *n)).collect());
            (key.clone(), (c.outcome.letter(), message, list))
        });
        let cells = cells.collect();
        let stored = Stored { messages: messages.items, opcodes: opcodes.items, cells };
        // Strings, numbers and lists always serialise.
        let bytes = serde_json::to_vec(&stored).unwrap_or_default();
        store.put(KIND, &pack_key(toolkit, target, arch), &bytes)
    }
}

/// Numbers distinct strings.
#[derive(Default)]
pub(super) struct Interner {
    pub(super) items: Vec<String>,
    indices: HashMap<String, usize>,
}

impl Interner {
    pub(super) fn index(&mut self, text: &str) -> usize {
        if let Some(i) = self.indices.get(text) {
            return *i;
        }
        self.items.push(text.to_owned());
        self.indices.insert(text.to_owned(), self.items.len() - 1);
        self.items.len() - 1
    }
}
