//! Message passing by relaxed accesses alone.
//!
//! A thread that observes a relaxed write is not ordered after what its writer wrote before (PTX ISA 8.9, "Causality order": that
//! takes a release and an acquire, or fences). If it then reads such a location, by a strong access again, nothing races, and a GPU
//! may return the older value. Here it never does: memory changes in one order for all. What can be said is that two observations
//! of one writer have no order; it is a remark, because they may be independent.

use std::cell::Cell;

use super::Races;
use super::accesses::Mark;
use super::global::{GlobalRaces, Who};

/// The number of observations that a warp remembers.
const MOST: usize = 16;

/// What a warp has observed without an order: the writer and the word.
#[derive(Debug, Clone, Default)]
pub(super) struct Observations(Vec<((u32, u32), u64)>);

impl Observations {
    /// Adds one; returns another word of the same writer that was observed before.
    fn add(&mut self, writer: (u32, u32), word: u64) -> Option<u64> {
        let earlier = self.0.iter().find(|(by, at)| *by == writer && *at != word).map(|(_, at)| *at);
        if !self.0.contains(&(writer, word)) {
            if self.0.len() == MOST {
                self.0.remove(0);
            }
            self.0.push((writer, word));
        }
        earlier
    }
}

impl Races {
    /// What deserves a remark, if anything, after a strong read of global memory by a warp.
    #[cold]
    pub(crate) fn observes_unordered(
        &mut self,
        address: u64,
        warp: u32,
        world: &mut GlobalRaces,
    ) -> Option<String> {
        let last = Cell::new(Who::default());
        world.look(address, |accesses| last.set(accesses.write));
        let write = last.get();
        let of_other = write.exists() && !write.is_copy() && (write.cta() != self.id || !write.is_of(warp));
        if !of_other || !write.strong() || !self.grid.contains(&write.cta()) || self.knows(write, warp) {
            return None;
        }
        let earlier = self.observations[warp as usize].add(write.thread(), address / 4)?;
        Some(format!(
            "a relaxed read of global address {address:#x}, which warp {} of CTA number {} wrote, after one of {:#x}, which it wrote, \
             too: without release and acquire a GPU may return the value from before",
            write.warp(),
            write.cta() - self.grid.start,
            earlier * 4
        ))
    }
}
