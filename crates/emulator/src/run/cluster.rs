//! Clusters (PTX ISA 2.2.2 and 11.4, "Cluster Dimension Directives"): CTAs that run together and share their shared memory.
//!
//! The shared window of a cluster has 2^24 bytes per CTA, in rank order: `%cluster_ctarank` is in the upper byte of every shared
//! address, as in hardware.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::api::trap::{Fault, Rule, Stop};
use crate::front::program::Kernel;
use crate::run::cta::Cta;
use crate::run::machine::lanes;
use crate::run::resident::Resident;

/// The lowest bit of the rank in a shared address.
pub(crate) const RANK_SHIFT: u32 = 24;

/// The directives of an entry about clusters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    /// `.reqnctapercluster`.
    pub(crate) required: Option<[u32; 3]>,
    /// `.explicitcluster`.
    pub(crate) explicit: bool,
    /// `.maxclusterrank`.
    pub(crate) most: Option<u64>,
}

/// Maximum CTAs of a cluster: portable, and with the attribute for non-portable sizes on GPUs that support it.
const PORTABLE: u32 = 8;
const LARGEST: u32 = 16;

/// The cluster shape of a launch in CTAs, as required by the kernel or requested by the launch.
///
/// # Errors
/// [`Stop::Launch`] if the kernel's directives, the grid or the target do not allow it.
pub(crate) fn shape(
    kernel: &Kernel,
    asked: Option<[u32; 3]>,
    grid: [u32; 3],
    arch: u32,
) -> Result<[u32; 3], Stop> {
    let name = &kernel.name;
    let refuse = |what: String| Err(Stop::Launch(what));
    let Directives { required, explicit, most } = kernel.cluster;
    if let (Some(required), Some(asked)) = (required, asked)
        && required != asked
    {
        return refuse(format!(
            "{name} requires .reqnctapercluster {required:?}, not a cluster of {asked:?}"
        ));
    }
    if explicit && required.or(asked).is_none() {
        return refuse(format!(
            "{name} is .explicitcluster: the launch must name the dimensions of its cluster"
        ));
    }
    let shape = required.or(asked).unwrap_or([1; 3]);
    let size = shape.iter().map(|n| u64::from(*n)).product::<u64>();
    if size == 0 {
        return refuse(format!("a cluster of {shape:?} must not contain zeros"));
    }
    if (required.or(asked).is_some() || most.is_some()) && arch < 90 {
        return refuse(format!("clusters require sm_90 or later, not sm_{arch}"));
    }
    let limit = if matches!(arch, 90 | 100..=103) { LARGEST } else { PORTABLE };
    if size > u64::from(limit) {
        return refuse(format!("a cluster of {shape:?} is {size} CTAs; the limit of sm_{arch} is {limit}"));
    }
    if let Some(most) = most.filter(|most| size > *most) {
        return refuse(format!("{name} allows .maxclusterrank {most}, not a cluster of {size} CTAs"));
    }
    if grid.iter().zip(&shape).any(|(grid, cluster)| !grid.is_multiple_of(*cluster)) {
        return refuse(format!("grid {grid:?} is not a multiple of its cluster of {shape:?}"));
    }
    Ok(shape)
}

/// The barrier of a cluster, shared by all its CTAs.
#[derive(Debug, Default)]
pub(crate) struct Barrier {
    arrived: u32,
    /// Completed phases.
    phase: u64,
    /// Threads that have not exited.
    threads: u32,
    /// Counts events that a waiting warp of any CTA of the cluster may depend on.
    events: u64,
}

impl Barrier {
    fn settle(&mut self) -> bool {
        let complete = self.arrived > 0 && self.arrived >= self.threads;
        if complete {
            self.arrived = 0;
            self.phase += 1;
            self.events += 1;
        }
        complete
    }
}

/// A CTA as a member of its cluster.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// CTAs of the cluster by dimension.
    pub(crate) shape: [u32; 3],
    /// Whether the kernel or the launch specifies the cluster.
    pub(crate) explicit: bool,
    pub(crate) rank: u32,
    barrier: Rc<RefCell<Barrier>>,
    /// The phase in which each thread arrived.
    arrived_in: BTreeMap<u32, u64>,
    /// Whether a thread of this CTA has completed a wait at the barrier.
    met: bool,
}

impl Member {
    /// The first CTA of a cluster whose CTAs have `threads` threads each.
    pub(crate) fn first(shape: [u32; 3], explicit: bool, threads: u32) -> Self {
        let all = threads * shape.iter().product::<u32>();
        let barrier = Rc::new(RefCell::new(Barrier { threads: all, ..Barrier::default() }));
        Self { shape, explicit, rank: 0, barrier, arrived_in: BTreeMap::new(), met: false }
    }

    /// The CTA with the next rank.
    pub(crate) fn next(&self) -> Self {
        Self { rank: self.rank + 1, ..self.clone() }
    }

    /// Number of CTAs in the cluster.
    pub(crate) fn size(&self) -> u32 {
        self.shape.iter().product()
    }

    /// The bits common to all shared addresses of this CTA.
    #[inline]
    pub(crate) fn base(&self) -> u64 {
        u64::from(self.rank) << RANK_SHIFT
    }

    /// `%cluster_ctaid`.
    pub(crate) fn place(&self) -> [u32; 3] {
        let [x, y, _] = self.shape;
        [self.rank % x, self.rank / x % y, self.rank / x / y]
    }

    /// Whether all CTAs of the cluster are known to have begun, because they met at the barrier.
    pub(crate) fn all_began(&self) -> bool {
        self.met
    }

    /// The number of events so far that a waiting warp of the cluster may depend on.
    pub(crate) fn events(&self) -> u64 {
        self.barrier.borrow().events
    }

    /// Counts an event that a warp of any CTA of the cluster may wait for.
    pub(crate) fn tell(&self) {
        self.barrier.borrow_mut().events += 1;
    }

    /// The current phase.
    pub(crate) fn phase(&self) -> u64 {
        self.barrier.borrow().phase
    }

    /// The phase in which a thread last arrived.
    pub(crate) fn arrived_in(&self, warp: u32, lane: u32) -> u64 {
        self.arrived_in.get(&(warp * 32 + lane)).copied().unwrap_or_default()
    }

    /// Threads of a warp arrive at the barrier; returns whether this completes a phase.
    pub(crate) fn arrive(&mut self, warp: u32, mask: u32) -> bool {
        let mut barrier = self.barrier.borrow_mut();
        for lane in lanes(mask) {
            self.arrived_in.insert(warp * 32 + lane as u32, barrier.phase);
        }
        barrier.arrived += mask.count_ones();
        barrier.settle()
    }

    /// Whether the phase in which these threads arrived is complete; a fault if one of them has not arrived.
    pub(crate) fn has_passed(&mut self, warp: u32, mask: u32) -> Result<bool, Fault> {
        let phase = self.barrier.borrow().phase;
        for lane in lanes(mask) {
            match self.arrived_in.get(&(warp * 32 + lane as u32)) {
                Some(arrived) if *arrived < phase => {}
                Some(_) => return Ok(false),
                None => return Err(Fault::new(Rule::Barrier, "a cluster wait without an arrive").at(lane)),
            }
        }
        self.met = true;
        Ok(true)
    }

    /// Removes exited threads from the barrier; returns whether this completes a phase.
    pub(crate) fn leave(&self, count: u32) -> bool {
        let mut barrier = self.barrier.borrow_mut();
        barrier.threads -= count;
        barrier.settle()
    }
}

/// The other CTAs of a cluster: those of lower and of higher rank.
pub(crate) struct Peers<'a> {
    pub(crate) before: &'a mut [Resident],
    pub(crate) after: &'a mut [Resident],
}

impl Peers<'_> {
    /// The CTA with a rank other than this CTA's own.
    pub(crate) fn get(&mut self, rank: u32) -> Option<&mut Cta> {
        let (rank, own) = (rank as usize, self.before.len());
        let resident = match rank.checked_sub(own + 1) {
            None => self.before.get_mut(rank),
            Some(behind) => self.after.get_mut(behind),
        };
        resident.map(|r| &mut r.cta)
    }

    /// Reborrows the peers for a shorter time.
    pub(crate) fn reborrow(&mut self) -> Peers<'_> {
        Peers { before: self.before, after: self.after }
    }
}

/// Splits a cluster into one CTA and its peers; its CTAs are adjacent, in rank order.
pub(crate) fn split(residents: &mut [Resident], at: usize) -> Option<(&mut Resident, Peers<'_>)> {
    let member = &residents.get(at)?.cta.member;
    let first = at - member.rank as usize;
    let end = first + member.size() as usize;
    let (before, rest) = residents.get_mut(first..end)?.split_at_mut(at - first);
    let (this, after) = rest.split_first_mut()?;
    Some((this, Peers { before, after }))
}
