//! What global memory held before clusters wrote it in place, so that it can be restored.

use crate::memory::global::GlobalMemory;
use crate::memory::region::Before;
use crate::run::spare::Spare;
use crate::run::touched::CHUNK;

type Kept = Before<CHUNK, { CHUNK / 64 }>;

/// Blocks that no journal uses.
static SPARE: Spare<Kept> = Spare::up_to(64 << 20);

/// Chunks that a journal keeps at most: 2 GiB.
const MOST: usize = (2 << 30) / CHUNK;

/// The contents of chunks before they were first written.
#[derive(Default)]
pub(crate) struct Journal(Vec<(usize, Box<Kept>)>);

impl Drop for Journal {
    fn drop(&mut self) {
        SPARE.give(self.0.drain(..).map(|(_, kept)| kept));
    }
}

impl Journal {
    /// Keeps a chunk of an allocation.
    #[cold]
    pub(crate) fn keep(&mut self, memory: &GlobalMemory, allocation: usize, chunk: usize) {
        let mut kept = SPARE.take(|| Box::new(Kept::default()));
        memory.region(allocation).keep(chunk * CHUNK, &mut kept);
        self.0.push((allocation, kept));
    }

    /// Whether it keeps more than it should.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() > MOST
    }

    /// Restores what was kept. No memory has been allocated or freed since.
    pub(crate) fn restore(self, memory: &mut GlobalMemory) {
        for (allocation, kept) in &self.0 {
            memory.region_mut(*allocation).restore(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_their_state_are_restored() {
        let mut memory = GlobalMemory::default();
        let (written, other) =
            (memory.allocate_with((0..=255).cycle().take(10_000).collect()), memory.allocate(9_000));
        assert!(memory.write_at(other + 4090, &[7; 12]));
        let before = memory.clone();
        let mut journal = Journal::default();
        for (allocation, chunk) in [(0, 2), (1, 0), (1, 1)] {
            journal.keep(&memory, allocation, chunk);
        }
        memory.unwrite(written + 9_990, 10);
        assert!(memory.write_at(other + 4000, &[1; 200]));
        memory.region_mut(1).undefine(5000, 8);
        assert!(memory.first_difference(&before).is_some());
        journal.restore(&mut memory);
        assert_eq!(memory.first_difference(&before), None);
        for (base, allocation) in [(written, 0), (other, 1)] {
            assert_eq!(memory.unwritten_runs(base), before.unwritten_runs(base));
            assert_eq!(memory.untouched_runs(base), before.untouched_runs(base));
            assert!(!memory.region(allocation).has_undefined(0, 9_000));
        }
    }
}
