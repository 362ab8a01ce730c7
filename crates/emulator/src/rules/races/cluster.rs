//! The race detector of the shared memory of a cluster: its CTAs are distinguished as they are for global memory.
//!
//! A release or an acquire at cluster scope counts as one at GPU scope here: between clusters, that misses reports and
//! never adds one.

use std::cell::RefCell;
use std::rc::Rc;

use super::clock::{Known, Others};
use super::global::{GlobalAccess, GlobalRaces, Who};
use super::sync::At;
use super::{Epoch, Races, Values};
use crate::api::trap::{Fault, Rule};
use crate::copies::pending::shared_address;
use crate::memory::window::{GLOBAL_BASE, SHARED_WINDOW};
use crate::rules::order::Scope;
use crate::run::cluster::RANK_SHIFT;

/// State shared by the CTAs of a cluster.
#[derive(Default)]
struct Inner {
    /// Accesses to their shared memory, and what was released there.
    memory: GlobalRaces,
    /// What arrivals brought to the cluster barrier in this phase and in the last.
    phases: [Brought; 2],
}

/// What arrivals brought to a phase of the cluster barrier.
#[derive(Default)]
struct Brought {
    phase: u64,
    /// What was released.
    released: Others,
    /// What came before an arrival, `.relaxed` or not: it has been executed.
    executed: Others,
}

/// The detector of a cluster.
#[derive(Clone, Default)]
pub(crate) struct ClusterRaces(Rc<RefCell<Inner>>);

/// The detector of a cluster as used by one of its CTAs.
pub(super) struct Within {
    rank: u32,
    all: ClusterRaces,
    /// What this CTA has learned at the cluster barrier.
    met: Others,
}

/// Locations in shared memory for the release sequences of a cluster: no global address is that high.
const LOCATIONS: u64 = 1 << 56;

/// A place in the shared memory of a rank, as an address of [`GlobalRaces`].
fn address(rank: u32, at: usize) -> u64 {
    GLOBAL_BASE + (u64::from(rank) << RANK_SHIFT) + at as u64
}

impl Races {
    /// The detector of a CTA in a cluster of several.
    pub(crate) fn enter_cluster(&mut self, rank: u32, all: &Option<ClusterRaces>) {
        self.cluster = all.clone().map(|all| Box::new(Within { rank, all, met: Others::default() }));
    }

    /// Whether a scope includes threads of other CTAs.
    pub(super) fn leaves_the_cta(&self, scope: Scope) -> bool {
        scope.leaves_the_cta() || self.cluster.is_some() && scope == Scope::Cluster
    }

    /// Records an access of a warp to the shared memory of a CTA of its cluster; its own if `rank` is `None`.
    #[cold]
    pub(crate) fn cluster_access(
        &self,
        rank: Option<u32>,
        at: usize,
        len: usize,
        write: bool,
        warp: u32,
    ) -> Result<(), Fault> {
        let Some(within) = &self.cluster else { return Ok(()) };
        let rank = rank.unwrap_or(within.rank);
        let access = GlobalAccess { address: address(rank, at), len, write };
        let found = within.all.0.borrow_mut().memory.find(self, self.who(warp), access);
        found.map_err(|(n, other, wrote)| {
            let (mine, theirs) = (if write { "writes" } else { "reads" }, if wrote { "wrote" } else { "read" });
            let them = format!("warp {} of CTA rank {}", other.warp(), within.rank_of(self.id, other.cta()));
            let shared = shared_address(at + n);
            let what = format!(
                "warp {warp} {mine} shared address {shared:#x} of CTA rank {rank}, which {them} {theirs} with no \
                 ordering in between"
            );
            Fault::new(Rule::Race, what).against(
                (within.id_of(self.id, rank), SHARED_WINDOW + shared),
                wrote,
                (other.cta(), other.warp()),
            )
        })
    }

    /// Runs `f` on the detector of the cluster's shared memory, with the addresses of this CTA's bytes there; does nothing if the
    /// cluster is one CTA.
    pub(super) fn in_memory_of_cluster<T>(
        &self,
        f: impl FnOnce(&Self, &mut GlobalRaces, &dyn Fn(usize) -> u64, Who) -> T,
        warp: u32,
    ) -> Option<T> {
        let within = self.cluster.as_ref()?;
        let all = &mut within.all.0.borrow_mut().memory;
        Some(f(self, all, &|at| address(within.rank, at), self.who(warp)))
    }

    /// Whether a weak store to the shared memory of a peer that is in conflict changes nothing; it is then remembered.
    #[cold]
    pub(crate) fn stores_same_at_peer(&self, rank: u32, at: usize, values: Values<'_>, warp: u32) -> bool {
        self.cluster.as_ref().is_some_and(|within| {
            let all = &mut within.all.0.borrow_mut().memory;
            all.stores_same(self, self.who(warp), address(rank, at), values)
        })
    }

    /// Resets bytes to untouched, or to the state after a write at this time; returns whether this CTA is one of several.
    pub(super) fn cluster_set(&self, at: usize, len: usize, by: Option<Epoch>) -> bool {
        let Some(within) = &self.cluster else { return false };
        let who = by.map(|epoch| Who([self.id, epoch.clock(), epoch.warp() as u32]));
        within.all.0.borrow_mut().memory.set(address(within.rank, at), len, who.unwrap_or_default());
        true
    }

    /// The location of a shared address of this CTA, or of a peer, if the cluster has several.
    pub(super) fn location(&self, at: &At<'_>, address: u64) -> Option<(ClusterRaces, u64)> {
        let within = self.cluster.as_ref()?;
        let rank = match at {
            At::Global(_) => return None,
            At::Shared => within.rank,
            At::Peer(rank) => *rank,
        };
        Some((within.all.clone(), LOCATIONS | u64::from(rank) << RANK_SHIFT | address))
    }

    /// A warp arrives at the barrier of a cluster with several CTAs.
    pub(super) fn arrive_outside(&self, warp: u32, released: Option<&Known>, phase: u64) {
        let Some(within) = &self.cluster else { return };
        let mut all = within.all.0.borrow_mut();
        let brought = &mut all.phases[(phase % 2) as usize];
        if brought.phase != phase {
            *brought = Brought { phase, ..Brought::default() };
        }
        brought.executed.join(&self.known(warp).outside(self.id));
        if let Some(known) = released {
            brought.released.join(&known.outside(self.id));
        }
    }

    /// A warp has waited at the barrier of a cluster with several CTAs.
    pub(super) fn wait_outside(&mut self, warp: u32, phase: u64) {
        let Some(within) = &mut self.cluster else { return };
        let mut learned = Known::default();
        {
            let all = within.all.0.borrow();
            let brought = &all.phases[(phase % 2) as usize];
            within.met.join(&brought.executed);
            learned.learn(&brought.released, self.id);
        }
        self.learn(warp, &learned);
    }

    /// Whether this CTA is ordered by the cluster barrier after what a warp did at a clock.
    pub(crate) fn has_met(&self, cta: u32, warp: u32, clock: u32) -> bool {
        self.cluster.as_ref().is_some_and(|within| within.met.clock(cta, warp) >= clock)
    }

    /// Whether warps of this CTA have met at the cluster barrier since one of them was at a clock.
    pub(crate) fn has_met_here(&self, warp: u32, clock: u32) -> bool {
        self.met[warp as usize] >= clock
    }

    /// Whether a warp knows what a warp of the peer of a rank did at a clock.
    pub(crate) fn knows_peer(&self, rank: u32, other: u32, clock: u32, warp: u32) -> bool {
        let Some(within) = &self.cluster else { return true };
        let cta = within.id_of(self.id, rank);
        self.knows(Who([cta, clock, other & 31]), warp)
    }

    /// Whether a warp knows that the peer of a rank has begun.
    pub(crate) fn knows_begun(&self, rank: u32, warp: u32) -> bool {
        let Some(within) = &self.cluster else { return true };
        let cta = within.id_of(self.id, rank);
        (0..32).any(|other| self.beside[warp as usize].others.clock(cta, other) > 0)
    }

    /// The number of the CTA of a rank.
    pub(crate) fn peer_id(&self, rank: u32) -> u32 {
        self.cluster.as_ref().map_or(self.id, |within| within.id_of(self.id, rank))
    }

    /// The error if a CTA ends while another may still use its shared memory.
    pub(crate) fn used_after_end(&self) -> Option<Fault> {
        let within = self.cluster.as_ref()?;
        let first = address(within.rank, 0);
        let users = within.all.0.borrow_mut().memory.users(first, 1 << RANK_SHIFT);
        let known = |who: &Who| {
            who.cta() == self.id
                || who.is_copy()
                || self.has_met(who.cta(), who.warp(), who.clock())
                || (0..self.clocks.len()).any(|warp| self.knows(*who, warp as u32))
        };
        let who = users.into_iter().find(|who| !known(who))?;
        let what = format!(
            "the CTA ends, and nothing orders its end after the access of warp {} of CTA rank {} to its shared memory",
            who.warp(),
            within.rank_of(self.id, who.cta())
        );
        Some(Fault::new(Rule::UseAfterFree, what))
    }
}

impl Within {
    fn rank_of(&self, own: u32, cta: u32) -> u32 {
        (self.rank + cta).wrapping_sub(own)
    }

    fn id_of(&self, own: u32, rank: u32) -> u32 {
        (own + rank).wrapping_sub(self.rank)
    }
}

impl ClusterRaces {
    /// Runs `f` with what was released in the shared memory of the cluster.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut GlobalRaces) -> T) -> T {
        f(&mut self.0.borrow_mut().memory)
    }
}
