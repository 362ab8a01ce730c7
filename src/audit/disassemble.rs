//! Opcodes of kernels: nvdisasm disassembles machine code in batches, and the counts are cached by content.

use std::path::Path;

use crate::event::Sink;
use crate::matrix::Dictionary;
use crate::store::{self, Store};
use crate::toolkit::Disassembler;

/// The kind of the store's entries, which have a line per opcode: `HMMA.16816.F32 16`.
const KIND: &str = "audit-opcodes-1";

/// Bytes of machine code in a batch. It bounds memory: every distinct instruction of a batch is held with its
/// name.
const BATCH: usize = 32 << 20;

/// Opcodes with their counts.
pub(super) type Counts = Vec<(String, u32)>;

/// A kernel waiting to be disassembled.
struct Waiting<T> {
    of: T,
    arch: u16,
    key: String,
    code: Vec<u8>,
}

/// Disassembles kernels in batches; `T` identifies a kernel.
pub(super) struct Namer<'a, T> {
    disassembler: &'a Disassembler,
    store: Option<&'a Store>,
    scratch: &'a Path,
    sink: &'a dyn Sink,
    waiting: Vec<Waiting<T>>,
    bytes: usize,
    done: Vec<(T, Option<Counts>)>,
}

impl<'a, T> Namer<'a, T> {
    pub(super) fn new(
        disassembler: &'a Disassembler,
        store: Option<&'a Store>,
        scratch: &'a Path,
        sink: &'a dyn Sink,
    ) -> Self {
        Self { disassembler, store, scratch, sink, waiting: Vec::new(), bytes: 0, done: Vec::new() }
    }

    /// Adds the machine code of a kernel for the architecture `arch`.
    pub(super) fn add(&mut self, of: T, arch: u16, code: &[u8]) {
        let mut text = format!("{} {arch}\n", self.disassembler.sha256).into_bytes();
        text.extend_from_slice(code);
        let key = store::sha256(&text)[..40].to_owned();
        if let Some(known) = self.store.and_then(|s| s.get(KIND, &key)).and_then(|bytes| read(&bytes)) {
            self.done.push((of, Some(known)));
            return;
        }
        self.bytes += code.len();
        self.waiting.push(Waiting { of, arch, key, code: code.to_vec() });
        if self.bytes >= BATCH {
            self.name();
        }
    }

    /// Returns the opcode counts of every kernel added; `None` for a kernel that nvdisasm could not
    /// disassemble completely.
    pub(super) fn finish(mut self) -> Vec<(T, Option<Counts>)> {
        self.name();
        self.done
    }

    fn name(&mut self) {
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return;
        }
        // No store: other people's code has many distinct instructions, which rarely recur.
        let mut dictionary = Dictionary::new(self.disassembler, None);
        let codes: Vec<(u16, &[u8])> = waiting.iter().map(|w| (w.arch, w.code.as_slice())).collect();
        dictionary.learn(&codes, self.scratch, self.sink);
        for w in waiting {
            let counts = dictionary.opcodes(w.arch, &w.code);
            if let (Some(store), Some(counts)) = (self.store, &counts) {
                let lines: String = counts.iter().map(|(o, n)| format!("{o} {n}\n")).collect();
                // A failed write to the cache only costs time.
                let _ = store.put(KIND, &w.key, lines.as_bytes());
            }
            self.done.push((w.of, counts));
        }
    }
}

fn read(bytes: &[u8]) -> Option<Counts> {
    let line = |line: &str| {
        let (opcode, count) = line.rsplit_once(' ')?;
        Some((opcode.to_owned(), count.parse().ok()?))
    };
    std::str::from_utf8(bytes).ok()?.lines().map(line).collect()
}
