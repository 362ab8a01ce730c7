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

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::accesses::Mark;

/// The minimum number of remembered reads of a location.
const READS: usize = 64;

/// The number of writes that wait to be sorted at least.
const FEW: usize = 16;

/// The last write of each warp, with its position.
///
/// Most are never asked for. They are therefore sorted into the table only if one is, or if more of them wait than it has: that takes
/// the time of sorting them at once, and no more memory than twice that of the table.
#[derive(Debug)]
struct Writes<M>(RefCell<Sorted<M>>);

#[derive(Debug)]
struct Sorted<M> {
    /// The newest last.
    waiting: Vec<(M, u64)>,
    by_thread: FxHashMap<(u32, u32), (M, u64)>,
}

impl<M: Mark> Sorted<M> {
    fn sort(&mut self) {
        self.by_thread.extend(self.waiting.drain(..).map(|(write, at)| (write.thread(), (write, at))));
    }
}

impl<M: Mark> Writes<M> {
    fn clear(&mut self) {
        let Sorted { waiting, by_thread } = self.0.get_mut();
        waiting.clear();
        by_thread.clear();
    }

    #[inline]
    fn insert(&mut self, by: M, at: u64) {
        let all = self.0.get_mut();
        if let Some(last) = all.waiting.last_mut()
            && last.0.thread() == by.thread()
        {
            *last = (by, at);
            return;
        }
        if all.waiting.len() >= FEW.max(all.by_thread.len()) {
            all.sort();
        }
        all.waiting.push((by, at));
    }

    fn get(&self, thread: (u32, u32)) -> Option<(M, u64)> {
        let mut all = self.0.borrow_mut();
        if all.waiting.len() > FEW {
            all.sort();
        }
        let waits = all.waiting.iter().rev().find(|(write, _)| write.thread() == thread);
        waits.or_else(|| all.by_thread.get(&thread)).copied()
    }
}

/// The strong writes of a location since the last one that was not a read-modify-write, and their readers. Both carry their position in
/// execution order.
#[derive(Debug)]
struct Chain<M> {
    next: u64,
    writes: Writes<M>,
    /// The last one by warp and clock, oldest first.
    reads: Vec<(M, u64)>,
}

impl<M> Default for Chain<M> {
    fn default() -> Self {
        let writes = Writes(RefCell::new(Sorted { waiting: Vec::new(), by_thread: FxHashMap::default() }));
        Self { next: 0, writes, reads: Vec::new() }
    }
}

impl<M: Mark> Chain<M> {
    /// Forgets everything, but keeps the memory.
    fn clear(&mut self) {
        self.next = 0;
        self.writes.clear();
        self.reads.clear();
    }

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
        self.writes.insert(by, at);
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
        let Some((_, written)) = self.writes.get(write.thread()).filter(|(w, _)| w.clock() >= write.clock())
        else {
            return false;
        };
        let observed = |(read, at): &(M, u64)| *at > written && read.morally_strong(write) && knows(*read);
        self.reads.iter().rev().any(observed)
    }
}

/// By location: locations are words, like those of release and acquire.
#[derive(Debug)]
pub(super) struct Chains<M> {
    /// By word, the index of its chain.
    numbers: FxHashMap<u64, u32>,
    /// The chains, as many as there are numbers; behind them, some that are empty.
    all: Vec<Chain<M>>,
}

impl<M> Default for Chains<M> {
    fn default() -> Self {
        Self { numbers: FxHashMap::default(), all: Vec::new() }
    }
}

impl<M: Mark> Chains<M> {
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Forgets everything, but keeps the memory.
    pub(super) fn clear(&mut self) {
        let used = self.numbers.len();
        self.all.iter_mut().take(used).for_each(Chain::clear);
        self.numbers.clear();
    }

    #[inline]
    fn of_word(&mut self, word: u64) -> &mut Chain<M> {
        let next = self.numbers.len();
        let number = *self.numbers.entry(word).or_insert(next as u32) as usize;
        if number == self.all.len() {
            self.all.push(Chain::default());
        }
        &mut self.all[number]
    }

    /// Records a strong write of a word.
    pub(super) fn write(&mut self, address: u64, by: M, modifies: bool) {
        self.of_word(address / 4).write(by, modifies);
    }

    /// Records a strong read of a word that orders what it reads.
    pub(super) fn read(&mut self, address: u64, by: M) {
        self.of_word(address / 4).read(by);
    }

    /// Records a read-modify-write of a word; its read orders what it reads if `observes`.
    pub(super) fn modify(&mut self, address: u64, by: M, observes: bool) {
        let chain = self.of_word(address / 4);
        if observes {
            chain.read(by);
        }
        chain.write(by, true);
    }

    /// Whether a write of a byte is ordered before what a thread does now that `knows` some reads.
    pub(super) fn orders(&self, address: u64, write: M, knows: impl Fn(M) -> bool) -> bool {
        let chain = || self.all.get(*self.numbers.get(&(address / 4))? as usize);
        write.strength() != 0 && chain().is_some_and(|chain| chain.orders(write, knows))
    }
}
