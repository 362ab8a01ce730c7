//! Tensor maps that several lanes of a warp write: a lane may rely on another lane's stores only after a `bar.warp.sync`,
//! a barrier of the CTA, or an acquire.
//!
//! The race detector distinguishes warps, not lanes. This module distinguishes lanes, for kernels that modify tensor maps in
//! memory.

use rustc_hash::FxHashMap;

/// The stores that are tracked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watch {
    /// None: the kernel modifies no tensor map.
    #[default]
    Nothing,
    /// Stores to shared memory, which contains all maps that the kernel modifies.
    Shared,
    /// Stores to shared and global memory.
    Everywhere,
}

/// Stores of lanes since they last synchronised.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drafts {
    watch: Watch,
    /// Per warp and 4-byte word, the lanes that stored to it.
    stored: FxHashMap<u32, FxHashMap<u64, u32>>,
}

const WORD: u64 = 4;

fn words(address: u64, len: usize) -> impl Iterator<Item = u64> {
    address / WORD..(address + len as u64).div_ceil(WORD)
}

impl Drafts {
    /// The tracker for a kernel; `None` if nothing is to be tracked.
    pub(crate) fn watching(watch: Watch) -> Option<Box<Self>> {
        (watch != Watch::Nothing).then(|| Box::new(Self { watch, stored: FxHashMap::default() }))
    }

    pub(crate) fn watches_global(&self) -> bool {
        self.watch == Watch::Everywhere
    }

    /// Records a store by a lane.
    pub(crate) fn stored(&mut self, address: u64, len: usize, warp: u32, lane: usize) {
        let stored = self.stored.entry(warp).or_default();
        for word in words(address, len) {
            *stored.entry(word).or_default() |= 1 << lane;
        }
    }

    /// Lanes of a warp synchronise: what they stored is visible to all of them. It is treated as visible to the other lanes too,
    /// which misses faults but reports no false ones.
    pub(crate) fn meet(&mut self, warp: u32, lanes: u32) {
        if let Some(stored) = self.stored.get_mut(&warp) {
            stored.retain(|_, who| {
                *who &= !lanes;
                *who != 0
            });
        }
    }

    /// The first word stored by a lane that has not synchronised since: its address and the lane. Stores by `reader`, if given, are
    /// ignored.
    pub(crate) fn apart(
        &self,
        address: u64,
        len: usize,
        warp: u32,
        reader: Option<usize>,
    ) -> Option<(u64, usize)> {
        let stored = self.stored.get(&warp)?;
        let own = reader.map_or(0, |lane| 1u32 << lane);
        words(address, len).find_map(|word| {
            let others = stored.get(&word)? & !own;
            (others != 0).then(|| (word * WORD, others.trailing_zeros() as usize))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_sees_its_own_words_and_those_of_lanes_it_met() {
        let mut drafts = *Drafts::watching(Watch::Shared).unwrap_or_default();
        drafts.stored(1024, 4, 0, 3);
        drafts.stored(1028, 16, 0, 5);
        assert_eq!(drafts.apart(1024, 128, 0, Some(3)), Some((1028, 5)));
        assert_eq!(drafts.apart(1024, 4, 0, Some(3)), None);
        assert_eq!(drafts.apart(1024, 4, 0, None), Some((1024, 3)));
        assert_eq!(drafts.apart(1024, 128, 1, Some(3)), None);
        drafts.meet(0, 1 << 3);
        assert_eq!(drafts.apart(1024, 128, 0, None), Some((1028, 5)));
        drafts.meet(0, !0);
        assert_eq!(drafts.apart(1024, 128, 0, None), None);
    }
}
