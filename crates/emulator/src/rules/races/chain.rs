//! What strong reads have observed. A strong write is ordered before everything after a strong read that returns its value, or the
//! value of read-modify-writes that followed it (PTX ISA 8.9, "Observation order" and "Causality order"). Nothing else that the
//! writer did is ordered: clocks cannot express that.
//!
//! Only acquiring reads count, and read-modify-writes whose old value the program uses ([`Touch`](crate::rules::order::Touch)). For a
//! relaxed load, the emulator returns the newest value where a GPU may return an older one: code that stores after it relies on more
//! than the manual guarantees, and is reported. A thread that does not look at the value that its read-modify-write replaced cannot
//! know which writes came before it: in another execution they come after it.
//!
//! A warp that has counted the arrivals of others, even with `.relaxed`, may therefore reset the counter by a weak store.

use rustc_hash::FxHashMap;

use super::accesses::Mark;

/// The minimum number of remembered reads of a location.
const READS: usize = 64;

/// The strong writes of a location since the last one that was not a read-modify-write, and their readers. Both carry their position in
/// execution order.
#[derive(Debug)]
struct Chain<M> {
    next: u64,
    /// The last one of each warp.
    writes: FxHashMap<(u32, u32), (M, u64)>,
    /// The last one by warp and clock, oldest first.
    reads: Vec<(M, u64)>,
}

impl<M> Default for Chain<M> {
    fn default() -> Self {
        Self { next: 0, writes: FxHashMap::default(), reads: Vec::new() }
    }
}

impl<M: Mark> Chain<M> {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn write(&mut self, by: M, modifies: bool) {
        let at = self.next();
        if !modifies {
            self.writes.clear();
            self.reads.clear();
        }
        self.writes.insert(by.thread(), (by, at));
    }

    fn read(&mut self, by: M) {
        let at = self.next();
        let same = |read: &M| (read.thread(), read.clock()) == (by.thread(), by.clock());
        match self.reads.iter_mut().rev().find(|(read, _)| same(read)) {
            Some((_, known)) => *known = at,
            None => {
                if self.reads.len() == 2 * READS {
                    self.reads.drain(..READS);
                }
                self.reads.push((by, at));
            }
        }
    }

    fn orders(&self, write: M, knows: impl Fn(M) -> bool) -> bool {
        // A later write of the same warp stands for this one: whoever has observed that has observed both.
        let Some((_, written)) = self.writes.get(&write.thread()).filter(|(w, _)| w.clock() >= write.clock())
        else {
            return false;
        };
        let observed = |(read, at): &(M, u64)| at > written && read.morally_strong(write) && knows(*read);
        self.reads.iter().rev().any(observed)
    }
}

/// By location: locations are words, like those of release and acquire.
#[derive(Debug)]
pub(super) struct Chains<M>(FxHashMap<u64, Chain<M>>);

impl<M> Default for Chains<M> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<M: Mark> Chains<M> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records a strong write of a word.
    pub(super) fn write(&mut self, address: u64, by: M, modifies: bool) {
        self.0.entry(address / 4).or_default().write(by, modifies);
    }

    /// Records a strong read of a word that orders what it reads.
    pub(super) fn read(&mut self, address: u64, by: M) {
        self.0.entry(address / 4).or_default().read(by);
    }

    /// Whether a write of a byte is ordered before what a thread does now that `knows` some reads.
    pub(super) fn orders(&self, address: u64, write: M, knows: impl Fn(M) -> bool) -> bool {
        write.strength() != 0 && self.0.get(&(address / 4)).is_some_and(|chain| chain.orders(write, knows))
    }
}
