//! What strong reads of a CTA's shared memory have observed, like [`super::observed`] for global memory: a strong write is ordered before
//! everything after a read-modify-write, or an acquiring read, that returns its value or that of read-modify-writes following it.

use super::Epoch;
use super::clock::Clock;

/// The minimum number of remembered reads of a location.
const READS: usize = 64;

/// The strong writes of a location since the last one that was not a read-modify-write, and their readers. Both carry their position in
/// execution order.
#[derive(Debug, Default)]
struct Chain {
    next: u32,
    /// The last one of each warp.
    writes: Vec<(Epoch, u32)>,
    /// The last one by warp and clock, oldest first.
    reads: Vec<(Epoch, u32)>,
}

impl Chain {
    fn next(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn write(&mut self, by: Epoch, modifies: bool) {
        let at = self.next();
        if !modifies {
            self.writes.clear();
            self.reads.clear();
        }
        match self.writes.iter_mut().find(|(write, _)| write.warp() == by.warp()) {
            Some(known) => *known = (by, at),
            None => self.writes.push((by, at)),
        }
    }

    fn read(&mut self, by: Epoch) {
        let at = self.next();
        let same = |read: &Epoch| (read.warp(), read.clock()) == (by.warp(), by.clock());
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

    fn orders(&self, write: Epoch, warp: u32, clock: &Clock) -> bool {
        let told = |(read, _): &(Epoch, u32)| !read.unknown(warp, clock);
        let last = self.reads.iter().filter(|read| told(read)).map(|(_, at)| *at).max();
        let of_write =
            |(known, _): &&(Epoch, u32)| known.warp() == write.warp() && known.clock() >= write.clock();
        self.writes.iter().find(of_write).zip(last).is_some_and(|((_, write), read)| *write < read)
    }
}

/// By word of shared memory.
#[derive(Debug, Default)]
pub(super) struct Chains(Vec<Option<Box<Chain>>>);

impl Chains {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&mut self, at: usize) -> &mut Chain {
        let word = at / 4;
        if word >= self.0.len() {
            self.0.resize_with(word + 1, || None);
        }
        self.0[word].get_or_insert_default()
    }

    /// Records a strong write of a word.
    pub(super) fn write(&mut self, at: usize, by: Epoch, modifies: bool) {
        self.of(at).write(by, modifies);
    }

    /// Records a strong read of a word that orders what it reads.
    pub(super) fn read(&mut self, at: usize, by: Epoch) {
        self.of(at).read(by);
    }

    /// Whether a write of a byte is ordered before what a warp with this clock does now.
    pub(super) fn orders(&self, at: usize, write: Epoch, warp: u32, clock: &Clock) -> bool {
        write.strong()
            && self
                .0
                .get(at / 4)
                .and_then(Option::as_ref)
                .is_some_and(|chain| chain.orders(write, warp, clock))
    }
}
