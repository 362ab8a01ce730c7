//! State shared by all CTAs of a launch.

use numerics::tensor_core::Model;

use super::apart::Apart;
use super::cta::Cta;
use super::launch::Options;
use super::memory::{GlobalMemory, Region};
use super::races::GlobalRaces;
use super::random::Random;
use super::remarks::Remarks;
use super::stream::Stream;
use super::trap::{Fault, Judge, Rule};
use super::undefined::stores;

/// Violations by grid, row and rule: the first one, its CTA and warp, and the number of occurrences.
pub(super) type Tolerated = std::collections::BTreeMap<(usize, u32, Rule), (Fault, [u32; 3], u32, u64)>;

/// State shared by all CTAs of a launch.
pub(super) struct World {
    pub(super) global: GlobalMemory,
    pub(super) params: Vec<u8>,
    pub(super) constants: Region,
    /// Counts events that a waiting warp of any CTA may depend on.
    pub(super) events: u64,
    /// Counts exits of CTAs that a warp of another grid may wait for.
    pub(super) ends: u64,
    /// Number of events when waits last timed out.
    pub(super) hurried: Option<u64>,
    pub(super) races: GlobalRaces,
    /// Instructions executed so far, which is the value of clock registers.
    pub(super) clock: u64,
    pub(super) check_init: bool,
    pub(super) check_loads: bool,
    pub(super) check_fences: bool,
    pub(super) random: Random,
    /// Whether `mbarrier.try_wait` may time out before the phase is complete: only under random schedules.
    pub(super) gives_up: bool,
    /// The running grids and their dependencies.
    pub(super) stream: Stream,
    /// The accumulation model of tensor-core instructions.
    pub(super) model: Model,
    /// Tensor maps that pending copies use.
    pub(super) maps: super::maps_in_use::MapsInUse,
    /// Output of `vprintf` that has not been reported yet.
    pub(super) printed: Vec<String>,
    /// Remarks by grid and row.
    pub(super) remarks: Remarks,
    /// Live allocations of `malloc`: address and size in bytes.
    pub(super) heap: std::collections::BTreeMap<u64, u64>,
    /// Undefined bytes that were stored to global memory.
    pub(super) undefined: stores::Stores,
    pub(super) judge: Judge,
    /// Fill byte of unwritten registers.
    pub(super) poison: u8,
    /// Violations that did not end the launch.
    pub(super) tolerated: Tolerated,
    /// Scratch buffers of matrix instructions.
    pub(super) scratch: super::isa::matrix::Scratch,
    /// Accesses of the cluster, if it runs in parallel with others.
    pub(super) apart: Option<Box<Apart>>,
}

impl World {
    /// The initial state for a stream.
    pub(super) fn new(global: GlobalMemory, stream: Stream, options: &Options) -> Self {
        Self {
            global,
            params: Vec::new(),
            constants: Region::default(),
            events: 0,
            ends: 0,
            hurried: None,
            races: GlobalRaces::of(&stream),
            clock: 0,
            check_init: options.check_init,
            check_loads: options.check_loads,
            check_fences: options.check_fences,
            random: Random(options.seed),
            gives_up: options.seed != 0,
            stream,
            model: Model::Sm120,
            scratch: Default::default(),
            maps: Default::default(),
            printed: Vec::new(),
            remarks: Default::default(),
            heap: Default::default(),
            undefined: Default::default(),
            judge: options.judge,
            poison: options.poison,
            tolerated: Default::default(),
            apart: None,
        }
    }

    /// Records an access of a CTA to global memory.
    #[inline(always)]
    pub(super) fn touch(&mut self, address: u64, len: usize, write: bool) {
        if let Some(apart) = &mut self.apart {
            apart.touch(address, len, write);
        }
    }

    /// Records that a CTA did something whose result or time other CTAs can observe.
    pub(super) fn communicate(&mut self) {
        if let Some(apart) = &mut self.apart {
            apart.communicate();
        }
    }

    /// Whether a warp overlaps a preceding grid for which it has not waited.
    pub(super) fn in_front(&self, cta: &Cta, warp: u32) -> bool {
        !self.stream.alone(cta.grid) && cta.races.as_ref().is_some_and(|races| !races.has_waited(warp))
    }
}
