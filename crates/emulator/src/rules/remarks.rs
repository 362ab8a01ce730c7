//! Remarks: observations that violate no rule, and conflicting stores of the same value.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::api::trap::{Fault, Judge, Rule};
use crate::rules::races::Values;
use crate::run::cta::Mbarrier;
use crate::run::machine::Machine;

/// A remark: where, what, and how often.
#[derive(Debug, Clone)]
pub(crate) struct RowRemark {
    pub(crate) cta: [u32; 3],
    pub(crate) warp: u32,
    pub(crate) lane: usize,
    pub(crate) what: String,
    /// The access of another lane with which it conflicts.
    pub(crate) other: Option<EarlierLane>,
    pub(crate) times: u64,
}

/// An earlier access by a lane of the same warp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EarlierLane {
    pub(crate) row: u32,
    pub(crate) lane: usize,
    pub(crate) wrote: bool,
    /// The first byte of the later access, as a generic address.
    pub(crate) byte: u64,
}

/// Stored bytes and their destination.
pub(crate) enum Stored<'a> {
    Shared {
        at: usize,
        new: &'a [u8],
    },
    /// In the shared memory of another CTA of the cluster, by rank.
    Peer {
        rank: u32,
        at: usize,
        new: &'a [u8],
    },
    Global {
        address: u64,
        new: &'a [u8],
    },
}

/// Whether a CTA precedes another in the grid.
pub(crate) fn earlier([x, y, z]: [u32; 3], other: [u32; 3]) -> bool {
    let [i, j, k] = other;
    (z, y, x) < (k, j, i)
}

/// Remarks by grid and row. If several CTAs have a remark for a row, the first CTA in the grid is reported, independent of the
/// schedule.
#[derive(Debug, Default)]
pub(crate) struct Remarks(BTreeMap<(usize, u32), RowRemark>);

impl Remarks {
    pub(crate) fn add(&mut self, place: (usize, u32), remark: RowRemark) {
        match self.0.entry(place) {
            Entry::Vacant(entry) => {
                entry.insert(remark);
            }
            Entry::Occupied(mut entry) => {
                let times = entry.get().times + remark.times;
                if earlier(remark.cta, entry.get().cta) {
                    entry.insert(remark);
                }
                entry.get_mut().times = times;
            }
        }
    }
}

impl IntoIterator for Remarks {
    type Item = ((usize, u32), RowRemark);
    type IntoIter = std::collections::btree_map::IntoIter<(usize, u32), RowRemark>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Machine<'_> {
    /// Records the remarks that a row made.
    #[inline]
    pub(crate) fn record_remarks(&mut self) {
        if !self.lane_remarks.is_empty() {
            self.record_first_remark();
        }
    }

    #[cold]
    fn record_first_remark(&mut self) {
        let pc = self.pc;
        if let Some((lane, what)) = self.lane_remarks.drain(..).next() {
            let (cta, warp) = (self.cta.id, self.warp);
            self.world
                .remarks
                .add((self.cta.grid, pc), RowRemark { cta, warp, lane, what, other: None, times: 1 });
        }
    }

    /// Records a violation that need not end the launch; returns others as errors.
    #[cold]
    pub(crate) fn tolerate(&mut self, fault: Fault) -> Result<(), Fault> {
        let fault = self.locate_other(fault);
        if self.world.judge == Judge::Strict || !matches!(fault.rule, Rule::Race | Rule::Uninitialised) {
            return Err(fault);
        }
        let (cta, warp) = (self.cta.id, self.warp);
        let found = self.world.tolerated.entry((self.cta.grid, self.pc, fault.rule));
        let found = found.or_insert_with(|| (fault.clone(), cta, warp, 0));
        found.3 += 1;
        if earlier(cta, found.1) {
            (found.0, found.1, found.2) = (fault, cta, warp);
        }
        Ok(())
    }

    /// Returns the barrier object at an offset of this CTA for use by a warp. It must exist, and its `mbarrier.init` must happen
    /// before the use. A relaxed cluster barrier is accepted as ordering between threads of one CTA, with a remark.
    #[inline]
    pub(crate) fn use_barrier(&mut self, at: usize, lane: usize) -> Result<&mut Mbarrier, Fault> {
        if let Some((fault, met)) = self.cta.unordered(at, self.warp) {
            if met && !self.world.check_fences {
                self.lane_remarks
                    .push((lane, format!("{}; a relaxed cluster barrier orders nothing", fault.what)));
            } else {
                self.tolerate(fault)?;
            }
        }
        self.cta.mbarrier(at)
    }

    /// Handles a conflicting store: it is not a race if it does not change the value, which is remarked.
    #[cold]
    pub(crate) fn stores_same(&mut self, place: Stored<'_>, lane: usize, fault: Fault) -> Result<(), Fault> {
        let Some(races) =
            self.cta.races.as_mut().filter(|_| self.strong.is_none() && fault.rule == Rule::Race)
        else {
            return self.tolerate(fault);
        };
        let same = match place {
            Stored::Shared { at, new } => {
                let held = self.cta.guarded.hit(at, new.len(), true);
                let old = self.cta.shared.data.get(at..at + new.len());
                !held && old.is_some_and(|old| races.stores_same(at, Values { old, new }, self.warp))
            }
            Stored::Peer { rank, at, new } => {
                let peer = self.peers.get(rank);
                let held = peer.as_ref().is_none_or(|peer| peer.guarded.hit(at, new.len(), true));
                let old = peer.and_then(|peer| peer.shared.data.get(at..at + new.len()));
                !held
                    && old.is_some_and(|old| {
                        races.stores_same_at_peer(rank, at, Values { old, new }, self.warp)
                    })
            }
            Stored::Global { address, new } => {
                let old = self.world.global.range(address, new.len());
                let all = &mut self.world.races;
                old.is_some_and(|old| races.stores_same_global(address, Values { old, new }, self.warp, all))
            }
        };
        if !same {
            return self.tolerate(fault);
        }
        self.lane_remarks
            .push((lane, format!("{}; the value is the same, and no order changes it", fault.what)));
        Ok(())
    }

    /// Records a weak store to global memory by a row that has made a remark; returns false if that must be done with a report. The
    /// row's other lanes mostly conflict in the same way, and only its first remark is kept.
    #[cold]
    pub(crate) fn stores_same_again(&mut self, address: u64, new: &[u8]) -> bool {
        let (Some(races), None) = (&self.cta.races, self.strong) else { return false };
        let Some(old) = self.world.global.range(address, new.len()) else { return false };
        let same = races.stores_same_global(address, Values { old, new }, self.warp, &mut self.world.races);
        if same {
            self.world.touch(address, new.len(), true);
        }
        same
    }

    /// Handles a conflicting read: it is not a race after one of several stores of the same value.
    #[cold]
    pub(crate) fn reads_same(
        &mut self,
        global: bool,
        at: u64,
        len: usize,
        fault: Fault,
    ) -> Result<(), Fault> {
        let Some(races) =
            self.cta.races.as_mut().filter(|_| self.strong.is_none() && fault.rule == Rule::Race)
        else {
            return self.tolerate(fault);
        };
        let same = match global {
            true => races.reads_same_global(at, len, self.warp, &mut self.world.races),
            false => {
                !self.cta.guarded.hit(at as usize, len, false)
                    && races.reads_same(at as usize, len, self.warp)
            }
        };
        if same { Ok(()) } else { self.tolerate(fault) }
    }
}
