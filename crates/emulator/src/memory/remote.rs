//! Distributed shared memory (PTX ISA 5.1.7): the shared memory of the other CTAs of a cluster.
//!
//! A CTA must know that another one has begun before it accesses its memory, and must not access the memory of a CTA that has ended
//! (CUDA C++ Programming Guide, "Distributed Shared Memory").

use crate::api::trap::{Fault, Rule};
use crate::copies::pending::{Pending, shared_address};
use crate::memory::window::Window;
use crate::rules::races::At;
use crate::rules::remarks::Stored;
use crate::run::cluster::RANK_SHIFT;
use crate::run::cta::{Cta, Mbarrier, OBJECT_BYTES};
use crate::run::machine::{Machine, Space};

/// A location in the shared memory of a cluster: the rank of the CTA (`None` for this CTA) and the offset there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) rank: Option<u32>,
    pub(crate) at: usize,
}

impl Site {
    /// The same offset in another CTA, or in this one.
    pub(crate) fn with_rank(self, rank: Option<u32>) -> Self {
        Self { rank, ..self }
    }
}

impl Machine<'_> {
    /// The rank in a shared address of another CTA.
    fn rank_of(&self, at: u64) -> u32 {
        ((at ^ self.cta.member.base()) >> RANK_SHIFT) as u32
    }

    /// The fault of an instruction that cannot access the shared memory of another CTA.
    #[cold]
    pub(crate) fn elsewhere(&self, at: u64, len: usize) -> Fault {
        let (address, rank, size) = (at ^ self.cta.member.base(), self.rank_of(at), self.cta.member.size());
        let what = if rank < size {
            format!(
                "{len} bytes at shared address {address:#x} of CTA rank {rank}; the instruction reaches its own CTA only"
            )
        } else {
            format!("{len} bytes at shared address {address:#x} of CTA rank {rank}, in a cluster of {size}")
        };
        Fault::new(Rule::OutOfBounds, what)
    }

    /// The site of `len` bytes at a shared address of the cluster.
    pub(crate) fn site(&mut self, address: u64, len: usize) -> Result<Site, Fault> {
        if address >> RANK_SHIFT == 0 {
            return Ok(Site { rank: None, at: self.shared_at(address, len)? });
        }
        let rank = self.rank_of(address);
        if rank >= self.cta.member.size() {
            return Err(self.elsewhere(address, len));
        }
        // All CTAs of a grid have the same amount.
        let at = self.shared_at(address & ((1 << RANK_SHIFT) - 1), len)?;
        self.reach_peer(rank)?;
        Ok(Site { rank: Some(rank), at })
    }

    /// Checks that the CTA of another rank has begun and has not ended.
    pub(crate) fn reach_peer(&mut self, rank: u32) -> Result<(), Fault> {
        let Some(peer) = self.peers.get(rank) else {
            return Err(Fault::new(
                Rule::OutOfBounds,
                format!("CTA rank {rank} of the cluster does not exist"),
            ));
        };
        if peer.threads == 0 {
            let what = format!("an access to the shared memory of CTA rank {rank}, which has ended");
            return Err(Fault::new(Rule::UseAfterFree, what));
        }
        let began = self.cta.member.all_began()
            || self.cta.races.as_ref().is_none_or(|races| races.knows_begun(rank, self.warp));
        if !began {
            let what = format!(
                "an access to the shared memory of CTA rank {rank}, which may not have started: no `barrier.cluster` \
                 precedes it"
            );
            return Err(Fault::new(Rule::Race, what));
        }
        Ok(())
    }

    /// The CTA of another rank.
    pub(crate) fn at_site(&mut self, rank: u32) -> Result<&mut Cta, Fault> {
        let missing =
            || Fault::new(Rule::OutOfBounds, format!("CTA rank {rank} of the cluster does not exist"));
        self.peers.get(rank).ok_or_else(missing)
    }

    /// The site of an access to another CTA; a fault if the instruction's state space does not include it.
    fn peer_site(&mut self, space: Space, address: u64, len: usize) -> Result<(u32, usize), Fault> {
        if space == Space::Shared {
            return Err(self.elsewhere(address, len));
        }
        match self.site(address, len)? {
            Site { rank: Some(rank), at } => Ok((rank, at)),
            Site { rank: None, .. } => Err(self.elsewhere(address, len)),
        }
    }

    /// Records an access to the shared memory of another CTA.
    fn note_peer(&mut self, rank: u32, at: usize, len: usize, write: bool) -> Result<(), Fault> {
        let meets = self.cta.races.as_ref().is_none_or(|races| races.meets(true));
        let peer = self.at_site(rank)?;
        if peer.guarded.hit(at, len, write) {
            peer.touched_unless(at, len, write, |_| meets)?;
        }
        let Some(races) = &mut self.cta.races else { return Ok(()) };
        let (address, warp) = (shared_address(at), self.warp);
        if let Some(strong) = self.strong.filter(|_| !write) {
            races.observe(address, len, warp, strong, At::Peer(rank));
        }
        let noted = races.cluster_access(Some(rank), at, len, write, warp);
        noted.map_err(|fault| self.locate_other(fault))?;
        self.watch_shared(Some(rank), at, len, write, None);
        let Some(races) = &mut self.cta.races else { return Ok(()) };
        if let Some(strong) = self.strong.filter(|_| write) {
            races.publish(address, len, warp, strong, At::Peer(rank));
        }
        Ok(())
    }

    /// Reads `N` bytes for a lane before the instruction replaces them: unwritten bytes are undefined ([`Machine::loaded`]).
    pub(crate) fn load_replaced<const N: usize>(
        &mut self,
        space: Space,
        address: u64,
        lane: usize,
    ) -> Result<[u8; N], Fault> {
        Self::aligned(address, N)?;
        match self.split(space, address)? {
            (Window::Shared, at) if at >> RANK_SHIFT != 0 => {
                let (rank, at) = self.peer_site(space, at, N)?;
                self.note_peer(rank, at, N, false)?;
                let check = self.world.check_init;
                let shared = &self.at_site(rank)?.shared;
                let unwritten = (0..N).filter(|n| check && !shared.is_written(at + n, 1));
                let unwritten = unwritten.fold(0, |bits, n| bits | 1 << n);
                let bytes = shared.get::<N>(at);
                if unwritten != 0 {
                    self.reads_unwritten(lane, unwritten);
                }
                bytes.ok_or_else(|| Fault::new(Rule::OutOfBounds, "bytes beyond the end of shared memory"))
            }
            _ => self.load(space, address, lane),
        }
    }

    /// Reads `N` bytes of another CTA's shared memory.
    #[cold]
    pub(crate) fn read_peer<const N: usize>(&mut self, space: Space, address: u64) -> Result<[u8; N], Fault> {
        let (rank, at) = self.peer_site(space, address, N)?;
        self.note_peer(rank, at, N, false)?;
        let check = self.world.check_init;
        let peer = self.at_site(rank)?;
        if check && !peer.shared.is_written(at, N) {
            let what = format!(
                "{N} bytes at shared address {:#x} of CTA rank {rank} that were never written",
                shared_address(at)
            );
            return Err(Fault::new(Rule::Uninitialised, what));
        }
        peer.shared
            .get::<N>(at)
            .ok_or_else(|| Fault::new(Rule::OutOfBounds, "bytes beyond the end of shared memory"))
    }

    /// Writes bytes to another CTA's shared memory.
    #[cold]
    pub(crate) fn write_peer<const N: usize>(
        &mut self,
        space: Space,
        address: u64,
        bytes: [u8; N],
        lane: usize,
    ) -> Result<(), Fault> {
        let (rank, at) = self.peer_site(space, address, N)?;
        if let Err(fault) = self.note_peer(rank, at, N, true) {
            self.stores_same(Stored::Peer { rank, at, new: &bytes }, lane, fault)?;
        }
        self.world.events += 1;
        self.cta.member.tell();
        let peer = self.at_site(rank)?;
        if let Some(proxy) = &mut peer.proxy {
            // It tracks only threads of its own CTA.
            proxy.forget(at, N);
        }
        peer.shared.put(at, &bytes);
        Ok(())
    }

    /// Marks a byte of another CTA's shared memory as unwritten.
    pub(crate) fn unmark_peer(&mut self, space: Space, address: u64) -> Result<(), Fault> {
        let (rank, at) = self.peer_site(space, address, 1)?;
        self.at_site(rank)?.shared.unmark(at, 1);
        Ok(())
    }

    /// Runs `f` on the CTA and offset of a site's barrier object, after checking that its initialisation is ordered before.
    pub(crate) fn with_barrier<T>(
        &mut self,
        site: Site,
        f: impl FnOnce(&mut Cta, usize) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let Site { rank, at } = site;
        let Some(rank) = rank else {
            let lane = self.mask.trailing_zeros() as usize % 32;
            self.use_barrier(at, lane)?;
            return f(self.cta, at);
        };
        self.reach_peer(rank)?;
        let peer = self.at_site(rank)?;
        let (seen, maker) = (!peer.unseen.contains_key(&at), peer.maker(at));
        let unordered = match (&self.cta.races, maker) {
            (Some(races), Some((maker, clock))) => {
                let met = seen && races.has_met(races.peer_id(rank), maker, clock);
                (!met && !races.knows_peer(rank, maker, clock, self.warp)).then_some(maker)
            }
            _ => None,
        };
        if let Some(maker) = unordered {
            let what = format!(
                "warp {} uses the mbarrier at {:#x} of CTA rank {rank}, which warp {maker} there initialised with no \
                 ordering in between",
                self.warp,
                shared_address(at)
            );
            self.tolerate(Fault::new(Rule::Race, what))?;
        }
        self.world.events += 1;
        self.cta.member.tell();
        f(self.at_site(rank)?, at)
    }

    /// Reports a change of a site's barrier object to the race detector.
    pub(crate) fn publish_barrier(&mut self, site: Site, strong: crate::rules::order::Strong) {
        let Some(races) = &mut self.cta.races else { return };
        let at = site.rank.map_or(At::Shared, At::Peer);
        races.publish(shared_address(site.at), OBJECT_BYTES, self.warp, strong, at);
    }

    /// As [`Self::publish_barrier`], for a `complete_tx`. Returns whether earlier writes are ordered by a proxy fence only.
    pub(crate) fn publish_completion(&mut self, site: Site, strong: crate::rules::order::Strong) -> bool {
        let Some(races) = &mut self.cta.races else { return false };
        let (warp, at) = (self.warp, site.rank.map_or(At::Shared, At::Peer));
        races.completing(warp, |races| {
            races.publish(shared_address(site.at), OBJECT_BYTES, warp, strong, at);
        })
    }

    /// Issues a copy whose shared memory is that of this CTA or, for copies into shared memory, of another. Returns its number in
    /// the race detector, which the parts of a multicast share.
    pub(crate) fn issue_at(&mut self, rank: Option<u32>, mut pending: Pending) -> Result<u32, Fault> {
        if pending.number == 0 {
            pending.number = self.note_copy(&pending)?;
            self.check_proxies(&pending, rank)?;
        }
        let number = pending.number;
        let Some(rank) = rank else {
            return self.issue_here(pending).map(|()| number);
        };
        if let Some(races) = &mut self.cta.races {
            races.set_strong(pending.strength());
            let noted = pending.pieces.iter().try_for_each(|piece| {
                let noted = races.cluster_access(Some(rank), piece.at, piece.len, true, self.warp);
                noted.map_err(|f| f.at(piece.lane as usize))
            });
            races.set_strong(None);
            noted?;
        }
        pending.foreign = true;
        self.world.events += 1;
        self.cta.member.tell();
        let mut races_met = Vec::new();
        match self.peers.get(rank) {
            Some(peer) => peer.issue(pending, self.world, &mut self.lane_remarks, &mut races_met)?,
            None => self.reach_peer(rank)?,
        }
        races_met.into_iter().try_for_each(|fault| self.tolerate(fault))?;
        Ok(number)
    }

    /// Issues a copy whose shared memory is that of this CTA.
    pub(crate) fn issue_here(&mut self, pending: Pending) -> Result<(), Fault> {
        let mut races_met = Vec::new();
        self.cta.issue(pending, self.world, &mut self.lane_remarks, &mut races_met)?;
        races_met.into_iter().try_for_each(|fault| self.tolerate(fault))
    }
}

/// An arrival at a barrier object ([`Cta::arrive`]), with the other operations of the instruction.
pub(crate) struct Arrival {
    pub(crate) count: u32,
    pub(crate) expect: Option<u32>,
    pub(crate) drops: bool,
    pub(crate) no_complete: bool,
}

impl Arrival {
    /// Arrives; returns the phase before, and the arrivals that were missing then.
    pub(crate) fn make(&self, cta: &mut Cta, at: usize) -> Result<(u64, u32), Fault> {
        if let Some(bytes) = self.expect {
            cta.expect_tx(at, i64::from(bytes))?;
        }
        let (barrier, count): (&mut Mbarrier, u32) = (cta.mbarrier(at)?, self.count);
        if self.no_complete && count >= barrier.pending {
            let what = format!(
                "`.noComplete`, but these {count} arrivals complete phase {} of the mbarrier at {:#x}",
                barrier.phase,
                shared_address(at)
            );
            return Err(Fault::new(Rule::Barrier, what));
        }
        if self.drops {
            if barrier.dropped + count > barrier.expected {
                let what = format!(
                    "more `arrive_drop`s than arrivals that the mbarrier at {:#x} expects",
                    shared_address(at)
                );
                return Err(Fault::new(Rule::Barrier, what));
            }
            barrier.dropped += count;
        }
        cta.arrive(at, count)
    }
}
