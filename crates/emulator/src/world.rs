//! What all CTAs of a launch share.

use numerics::tensor_core::Model;

use super::apart::Apart;
use super::cta::Cta;
use super::memory::{GlobalMemory, Region};
use super::races::GlobalRaces;
use super::random::Random;
use super::remarks::Remarks;
use super::schedule::Options;
use super::stream::Stream;
use super::trap::{Fault, Judge, Rule};
use super::undefined::stores;

/// Violations by grid, row and rule: the first, its CTA and warp, and how many.
pub(super) type Tolerated = std::collections::BTreeMap<(usize, u32, Rule), (Fault, [u32; 3], u32, u64)>;

/// What all CTAs of a launch share.
pub(super) struct World {
    pub(super) global: GlobalMemory,
    pub(super) params: Vec<u8>,
    pub(super) constants: Region,
    /// Counts what may let a waiting warp of any CTA go on.
    pub(super) events: u64,
    /// Counts ends of CTAs that a warp of another grid may wait for.
    pub(super) ends: u64,
    /// What had happened when waits were last ended early.
    pub(super) hurried: Option<u64>,
    pub(super) races: GlobalRaces,
    /// Instructions so far: what clocks read.
    pub(super) clock: u64,
    pub(super) check_init: bool,
    pub(super) check_loads: bool,
    pub(super) check_fences: bool,
    pub(super) random: Random,
    /// Whether `mbarrier.try_wait` may give up before the phase is complete, as its time limit lets it: under random schedules.
    pub(super) gives_up: bool,
    /// The grids that run, and who waits for whom.
    pub(super) stream: Stream,
    /// The accumulation model of tensor-core instructions.
    pub(super) model: Model,
    /// Tensor maps that copies under way go by.
    pub(super) maps: super::maps_in_use::MapsInUse,
    /// What `vprintf` wrote and nobody has been told of.
    pub(super) printed: Vec<String>,
    /// What is remarked, by grid and row.
    pub(super) remarks: Remarks,
    /// What `malloc` gave and `free` has not taken back: address and bytes.
    pub(super) heap: std::collections::BTreeMap<u64, u64>,
    /// Undefined bytes that were stored to global memory.
    pub(super) undefined: stores::Stores,
    pub(super) judge: Judge,
    /// What registers hold that nobody has written, byte by byte.
    pub(super) poison: u8,
    /// Violations that the launch went on behind.
    pub(super) tolerated: Tolerated,
    /// Buffers of matrix instructions.
    pub(super) scratch: super::isa::matrix::Scratch,
    /// What the cluster touches, where it runs beside others.
    pub(super) apart: Option<Box<Apart>>,
}

impl World {
    /// Of a stream that begins.
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

    /// A CTA touches bytes of global memory.
    #[inline(always)]
    pub(super) fn touch(&mut self, address: u64, len: usize, write: bool) {
        if let Some(apart) = &mut self.apart {
            apart.touch(address, len, write);
        }
    }

    /// A CTA does what others may see, or see the time of.
    pub(super) fn communicate(&mut self) {
        if let Some(apart) = &mut self.apart {
            apart.communicate();
        }
    }

    /// Whether a warp runs beside a grid that it has to wait for and has not.
    pub(super) fn in_front(&self, cta: &Cta, warp: u32) -> bool {
        !self.stream.alone(cta.grid) && cta.races.as_ref().is_some_and(|races| !races.has_waited(warp))
    }
}
