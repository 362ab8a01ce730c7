//! Tensor maps that lanes of one warp write together: what a lane stored, another may rely on only behind a `bar.warp.sync`,
//! a barrier of the CTA, or an acquire.
//!
//! The race observer knows warps, not lanes. Lanes are told apart here, for kernels that change tensor maps in memory.

use std::collections::HashMap;

/// Which stores are watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watch {
    /// None: the kernel changes no tensor map.
    #[default]
    Nothing,
    /// Those to shared memory: all maps that the kernel changes are there.
    Shared,
    /// Those to global memory too.
    Everywhere,
}

/// What lanes stored since they last met.
#[derive(Debug, Clone, Default)]
pub(super) struct Drafts {
    watch: Watch,
    /// By warp: the lanes that stored to a word of four bytes.
    stored: HashMap<u32, HashMap<u64, u32>>,
}

const WORD: u64 = 4;

fn words(address: u64, len: usize) -> impl Iterator<Item = u64> {
    address / WORD..(address + len as u64).div_ceil(WORD)
}

impl Drafts {
    /// The observer of a kernel, where there is anything to watch.
    pub(super) fn of(watch: Watch) -> Option<Box<Self>> {
        (watch != Watch::Nothing).then(|| Box::new(Self { watch, stored: HashMap::new() }))
    }

    pub(super) fn watches_global(&self) -> bool {
        self.watch == Watch::Everywhere
    }

    /// A lane stores.
    pub(super) fn stored(&mut self, address: u64, len: usize, warp: u32, lane: usize) {
        let stored = self.stored.entry(warp).or_default();
        for word in words(address, len) {
            *stored.entry(word).or_default() |= 1 << lane;
        }
    }

    /// Lanes of a warp meet: what they stored is there for all of them. Lanes that are not among them are not asked who
    /// they are: for them it is there too early, and nothing is reported.
    pub(super) fn meet(&mut self, warp: u32, lanes: u32) {
        if let Some(stored) = self.stored.get_mut(&warp) {
            stored.retain(|_, who| {
                *who &= !lanes;
                *who != 0
            });
        }
    }

    /// The first word that a lane stored and has not met the others since: its address, and the lane. A lane that reads for
    /// itself, `reader`, knows its own.
    pub(super) fn apart(
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
        let mut drafts = *Drafts::of(Watch::Shared).unwrap_or_default();
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
