//! Memory accesses of a cluster that runs apart from all others: in place, before any other begins, or in parallel, on a view of memory.
//!
//! If no cluster touches bytes that another one writes, they compute the same in any order. Clusters that touch such bytes
//! communicate or race; so may clusters that read memory strongly, read a clock, print or allocate. The scheduler must then run
//! them, in its order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::memory::global::GlobalMemory;
use crate::rules::shadow::{LINE, OfLine, WordsOfLine};
use crate::run::journal::Journal;
use crate::run::touched::{By, CHUNK, Kind, Met, Touched};

/// Instructions that a cluster may execute before any has ended: more may mean a loop that waits for another cluster.
const PATIENCE: u64 = 1 << 26;

/// State shared by the threads of one attempt.
#[derive(Default)]
pub(crate) struct Together {
    /// The next cluster.
    next: AtomicU32,
    /// Whether the attempt has failed.
    over: AtomicBool,
    /// Instructions of the longest cluster so far.
    longest: AtomicU64,
}

impl Together {
    /// Takes the next of `count` clusters.
    pub(crate) fn take(&self, count: u32) -> Option<u32> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        (next < count && !self.over.load(Ordering::Relaxed)).then_some(next)
    }

    /// Whether all of `count` clusters have been taken.
    pub(crate) fn all_taken(&self, count: u32) -> bool {
        self.next.load(Ordering::Relaxed) >= count
    }

    /// Marks the attempt as failed.
    pub(crate) fn give_up(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// How the accesses of clusters that run apart are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// Between clusters and between the warps of one: the race detector of global memory has no part.
    All,
    /// Between clusters alone; the race detector checks those of one.
    Clusters,
}

/// Accesses by the clusters of one thread.
pub(crate) struct Apart {
    together: Arc<Together>,
    touched: Touched,
    check: Check,
    /// The number of the current cluster, from 1.
    cluster: u64,
    /// What memory held, if the clusters write it in place.
    journal: Option<Journal>,
    /// The cluster does something whose result or time other clusters can observe, or may conflict with one, or within itself.
    gives_up: bool,
    /// Whether what is read now must never be written.
    read_only: bool,
    /// Whether an atomic has run whose result, or whose effect, depends on the order of threads.
    ordered: bool,
    /// Whether a CTA has had more than one turn: the scheduler would have run others between its turns.
    long: bool,
}

impl Apart {
    /// For clusters that write a view of memory or, with a journal, memory itself.
    pub(crate) fn new(together: &Arc<Together>, check: Check, journal: Option<Journal>) -> Self {
        Self {
            together: Arc::clone(together),
            touched: Touched::default(),
            check,
            cluster: 1,
            journal,
            gives_up: false,
            read_only: false,
            ordered: false,
            long: false,
        }
    }

    /// The cluster does something whose result or time other clusters can observe.
    pub(crate) fn communicate(&mut self) {
        self.gives_up = true;
    }

    /// Whether all conflicts are looked for here.
    #[inline]
    pub(crate) fn checks_all(&self) -> bool {
        self.check == Check::All
    }

    /// An atomic runs whose result, or whose effect, depends on the order of threads.
    pub(crate) fn order_matters(&mut self) {
        self.ordered = true;
        self.gives_up |= self.long;
    }

    /// A CTA has more than one turn.
    pub(crate) fn takes_turns(&mut self) {
        self.long = true;
        self.gives_up |= self.ordered;
    }

    /// Sets whether what is read from now on must never be written by this grid.
    pub(crate) fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
    }

    /// A warp in an epoch of its CTA; none are told apart where the race detector does that.
    #[inline]
    fn by(&self, (epoch, warp): (u32, u32)) -> By {
        match self.check {
            Check::All => By::new(self.cluster, epoch, warp),
            Check::Clusters => By::new(self.cluster, 0, 0),
        }
    }

    /// Records an access to a run of an allocation; returns whether its own warp may have accessed some of it before.
    #[inline]
    pub(crate) fn touch(
        &mut self,
        memory: &GlobalMemory,
        allocation: usize,
        (at, len): (usize, usize),
        kind: Kind,
        who: (u32, u32),
    ) -> bool {
        if len == 0 {
            return false;
        }
        let place = (allocation, memory.region(allocation).len());
        if kind.changes()
            && let Some(journal) = &mut self.journal
        {
            for chunk in at / CHUNK..=(at + len - 1) / CHUNK {
                if self.touched.must_keep(place, chunk) {
                    journal.keep(memory, allocation, chunk);
                    self.gives_up |= journal.is_full();
                }
            }
        }
        if self.read_only {
            self.gives_up |= self.touched.is_written(allocation, at, len);
        }
        self.gives_up |= !By::counts(who.0);
        let met = self.touched.run(place, (at, len), kind, self.by(who));
        self.met(met)
    }

    /// [`Apart::touch`] of words of lines, counted from the start of the allocation.
    #[inline]
    pub(crate) fn touch_lines(
        &mut self,
        memory: &GlobalMemory,
        allocation: usize,
        lines: &[impl OfLine],
        kind: Kind,
        who: (u32, u32),
    ) -> bool {
        let place = (allocation, memory.region(allocation).len());
        self.gives_up |= !By::counts(who.0);
        if kind.changes()
            && let Some(journal) = &mut self.journal
        {
            for chunk in lines.iter().map(|of| of.line() * LINE / CHUNK) {
                if self.touched.must_keep(place, chunk) {
                    journal.keep(memory, allocation, chunk);
                    self.gives_up |= journal.is_full();
                }
            }
        }
        if self.read_only {
            let written = |line: usize| self.touched.is_written(allocation, line * LINE, LINE);
            self.gives_up |= lines.iter().any(|of| written(of.line()));
        }
        let met = self.touched.lines(place, lines, kind, self.by(who));
        self.met(met)
    }

    /// [`Apart::touch_lines`] of weak loads of words by a warp; `None` if those must be recorded there, though some may be by then.
    #[inline(always)]
    pub(crate) fn touch_loads(
        &mut self,
        allocation: usize,
        lines: &[WordsOfLine],
        who: (u32, u32),
    ) -> Option<bool> {
        if self.check != Check::All || self.read_only || !By::counts(who.0) {
            return None;
        }
        let met = self.touched.loads(allocation, lines, By::new(self.cluster, who.0, who.1))?;
        Some(self.met(met))
    }

    #[inline]
    fn met(&mut self, met: Met) -> bool {
        self.gives_up |= met.others;
        met.own
    }

    /// Whether the cluster must stop after this many instructions.
    pub(crate) fn stops(&self, instructions: u64) -> bool {
        let longest = self.together.longest.load(Ordering::Relaxed);
        self.gives_up || self.together.failed() || instructions > PATIENCE.max(longest.saturating_mul(4))
    }

    /// Ends a cluster after so many instructions; returns whether it neither communicated nor conflicted with others.
    pub(crate) fn end(&mut self, instructions: u64) -> bool {
        self.together.longest.fetch_max(instructions, Ordering::Relaxed);
        self.cluster += 1;
        !self.gives_up
    }

    /// What has been accessed, and what memory held.
    pub(crate) fn into_parts(self) -> (Touched, Option<Journal>) {
        (self.touched, self.journal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> GlobalMemory {
        let mut memory = GlobalMemory::default();
        memory.allocate_with(vec![1; 10_000]);
        memory
    }

    #[test]
    fn a_cluster_that_communicates_or_conflicts_gives_up() {
        let (memory, together) = (memory(), Arc::new(Together::default()));
        let mut one = Apart::new(&together, Check::All, None);
        assert!(
            !one.touch(&memory, 0, (0, 128), Kind::Write, (0, 1)) && !one.stops(PATIENCE) && one.end(100)
        );
        // The same warp of another cluster.
        one.touch(&memory, 0, (100, 4), Kind::Read, (0, 1));
        assert!(one.stops(0) && !one.end(1));
        let mut other = Apart::new(&together, Check::Clusters, None);
        // The warps of a cluster are not told apart, but each may have met itself.
        other.touch(&memory, 0, (0, 128), Kind::Write, (0, 1));
        assert!(other.touch(&memory, 0, (0, 4), Kind::Read, (0, 2)) && !other.stops(PATIENCE));
        assert!(other.stops(PATIENCE + 1));
        other.communicate();
        assert!(other.stops(0) && !other.end(0));
        together.give_up();
        assert!(Apart::new(&together, Check::All, None).stops(0) && together.take(8).is_none());
    }

    #[test]
    fn what_is_read_only_was_not_written() {
        let memory = memory();
        let mut apart = Apart::new(&Arc::default(), Check::All, None);
        apart.touch(&memory, 0, (0, 4), Kind::Write, (0, 1));
        apart.set_read_only(true);
        apart.touch(&memory, 0, (4, 4), Kind::Read, (0, 1));
        assert!(!apart.stops(0));
        apart.touch(&memory, 0, (0, 4), Kind::Read, (0, 1));
        assert!(apart.stops(0));
    }

    #[test]
    fn what_is_written_in_place_can_be_restored() {
        let mut memory = memory();
        let before = memory.clone();
        let mut apart = Apart::new(&Arc::default(), Check::All, Some(Journal::default()));
        apart.touch(&memory, 0, (4000, 200), Kind::Write, (0, 0));
        memory.region_mut(0).put(4000, &[9; 200]);
        let lines = [WordsOfLine { line: 77, words: 1 }, WordsOfLine { line: 78, words: 2 }];
        apart.touch_lines(&memory, 0, &lines, Kind::Write, (0, 1));
        memory.region_mut(0).put(9856, &[8; 4]);
        assert!(memory.first_difference(&before).is_some());
        let (touched, journal) = apart.into_parts();
        let mut written = Vec::new();
        touched.each_written(|_, at, len| written.push((at, len)));
        assert_eq!(written, [(4000, 200), (9856, 4), (9988, 4)]);
        journal.unwrap().restore(&mut memory);
        assert_eq!(memory.first_difference(&before), None);
    }
}
