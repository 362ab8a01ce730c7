//! State shared by all CTAs of a launch.

use numerics::tensor_core::Model;

use crate::api::trap::{Fault, Judge, Rule};
use crate::memory::global::{GlobalMemory, Region};
use crate::rules::lanes::LaneRaces;
use crate::rules::races::GlobalRaces;
use crate::rules::remarks::Remarks;
use crate::rules::shadow::OfLine;
use crate::rules::undefined::stores;
use crate::run::apart::Apart;
use crate::run::cta::Cta;
use crate::run::device_launch::DeviceLaunches;
use crate::run::directed::Direction;
use crate::run::launch::{KeptLane, Options};
use crate::run::random::Random;
use crate::run::stream::Stream;
use crate::run::touched::Kind;
use crate::run::watchpoint::Recorded;

/// Violations by grid, row and rule: the first one, its CTA and warp, and the number of occurrences.
pub(crate) type Tolerated = std::collections::BTreeMap<(usize, u32, Rule), (Fault, [u32; 3], u32, u64)>;

/// State shared by all CTAs of a launch.
pub(crate) struct World {
    pub(crate) global: GlobalMemory,
    pub(crate) params: Vec<u8>,
    /// The vector instructions of rows.
    pub(crate) path: numerics::Path,
    pub(crate) constants: Region,
    /// Counts events that a waiting warp of any CTA may depend on.
    pub(crate) events: u64,
    /// Counts exits of CTAs that a warp of another grid may wait for.
    pub(crate) ends: u64,
    /// Number of events when waits last timed out.
    pub(crate) hurried: Option<u64>,
    pub(crate) races: GlobalRaces,
    /// Instructions executed so far, which is the value of clock registers.
    pub(crate) clock: u64,
    pub(crate) check_init: bool,
    pub(crate) check_loads: bool,
    pub(crate) check_fences: bool,
    pub(crate) check_widths: bool,
    pub(crate) random: Random,
    /// The seed of the schedule.
    pub(crate) seed: u64,
    /// Whether `mbarrier.try_wait` may time out before the phase is complete: only under random schedules.
    pub(crate) gives_up: bool,
    /// The running grids and their dependencies.
    pub(crate) stream: Stream,
    /// The accumulation model of tensor-core instructions.
    pub(crate) model: Model,
    /// Tensor maps that pending copies use.
    pub(crate) maps: crate::rules::maps_in_use::MapsInUse,
    /// Output of `vprintf` that has not been reported yet.
    pub(crate) printed: Vec<String>,
    /// Remarks by grid and row.
    pub(crate) remarks: Remarks,
    /// Stores whose lanes wrote different values to one address, by grid and row.
    pub(crate) overlaps: Remarks,
    /// Accesses of lanes of one warp that nothing orders.
    pub(crate) lane_races: LaneRaces,
    /// The lane whose value remains in those stores.
    pub(crate) kept_lane: KeptLane,
    /// What kernels launch.
    pub(crate) device_launches: DeviceLaunches,
    /// Undefined bytes that were stored to global memory.
    pub(crate) undefined: stores::Stores,
    pub(crate) judge: Judge,
    /// Fill byte of unwritten registers.
    pub(crate) poison: u8,
    /// The stack of a thread, if it is known.
    pub(crate) stack_bytes: Option<u64>,
    /// Violations that did not end the launch.
    pub(crate) tolerated: Tolerated,
    /// Scratch buffers of matrix instructions.
    pub(crate) scratch: crate::run::scratch::Scratch,
    /// What a replay has recorded ([`watchpoint`](crate::run::watchpoint)).
    pub(crate) watchpoints: Option<Box<Recorded>>,
    /// The directed schedule, if it is one.
    pub(crate) directed: Option<Box<Direction>>,
    /// Whether changes are counted, and their number ([`livelock`](crate::run::livelock)).
    pub(crate) watching: bool,
    pub(crate) changes: u64,
    /// The last row that read memory in a turn that is watched.
    pub(crate) read: Option<u32>,
    /// Accesses of the cluster, if it runs in parallel with others.
    pub(crate) apart: Option<Box<Apart>>,
}

impl World {
    /// The initial state for a stream.
    pub(crate) fn new(global: GlobalMemory, stream: Stream, options: &Options) -> Self {
        Self {
            path: numerics::Path::current(),
            global,
            params: Vec::new(),
            constants: Region::default(),
            events: 0,
            ends: 0,
            hurried: None,
            races: GlobalRaces::default(),
            clock: 0,
            check_init: options.check_init,
            check_loads: options.check_loads,
            check_fences: options.check_fences,
            check_widths: options.check_widths,
            random: Random(options.seed),
            seed: options.seed,
            gives_up: options.seed != 0,
            stream,
            model: Model::Sm120,
            scratch: Default::default(),
            maps: Default::default(),
            printed: Vec::new(),
            remarks: Default::default(),
            overlaps: Default::default(),
            lane_races: LaneRaces::default(),
            kept_lane: options.kept_lane,
            device_launches: DeviceLaunches::default(),
            undefined: Default::default(),
            judge: options.judge,
            poison: options.poison,
            stack_bytes: options.stack_bytes,
            tolerated: Default::default(),
            watchpoints: None,
            directed: None,
            watching: false,
            changes: 0,
            read: None,
            apart: None,
        }
    }

    /// Records a change that ends the watch for endless loops.
    #[inline]
    pub(crate) fn changed(&mut self) {
        self.changes += 1;
        self.watching = false;
    }

    /// Records an access to a run of an allocation. With `who`, an epoch of a CTA and a warp, the result is `Some` if nobody else looks for
    /// its conflicts: whether its own warp may have accessed some of it before.
    #[inline(always)]
    pub(crate) fn touch_at(
        &mut self,
        (allocation, at): (usize, usize),
        len: usize,
        write: bool,
        who: (u32, u32),
    ) -> Option<bool> {
        self.global.note_use_of(allocation, write);
        let apart = self.apart.as_deref_mut()?;
        let own = apart.touch(&self.global, allocation, (at, len), Kind::weak(write), who);
        apart.checks_all().then_some(own)
    }

    /// [`World::touch_at`] by address, of an access whose conflicts the race detector looks for.
    pub(crate) fn touch(&mut self, address: u64, len: usize, write: bool) {
        match self.global.find(address, len) {
            Some(place) => {
                if self.touch_at(place, len, write, (0, 0)).is_some() {
                    self.communicate();
                }
            }
            None => self.communicate(),
        }
    }

    /// [`World::touch_at`] of words of lines, which are counted from the start of the allocation.
    #[inline(always)]
    pub(crate) fn touch_lines(
        &mut self,
        allocation: usize,
        lines: &[impl OfLine],
        kind: Kind,
        who: (u32, u32),
    ) -> Option<bool> {
        if kind != Kind::Write {
            self.global.note_use_of(allocation, false);
        }
        if kind.changes() {
            self.global.note_use_of(allocation, true);
        }
        let apart = self.apart.as_deref_mut()?;
        let own = apart.touch_lines(&self.global, allocation, lines, kind, who);
        apart.checks_all().then_some(own)
    }

    /// Records that a CTA did something whose result or time other CTAs can observe.
    pub(crate) fn communicate(&mut self) {
        if let Some(apart) = &mut self.apart {
            apart.communicate();
        }
    }

    /// An atomic runs whose result, or whose effect, depends on the order of threads.
    pub(crate) fn order_matters(&mut self) {
        let seed = self.seed;
        if let Some(apart) = &mut self.apart {
            apart.order_matters();
            if seed != 0 {
                // Other schedules are asked for.
                apart.communicate();
            }
        }
    }

    /// Whether conflicts in global memory are looked for apart from the race detector.
    #[inline]
    pub(crate) fn checks_apart(&self) -> bool {
        self.apart.as_ref().is_some_and(|apart| apart.checks_all())
    }

    /// Whether a warp overlaps a preceding grid for which it has not waited.
    pub(crate) fn in_front(&self, cta: &Cta, warp: u32) -> bool {
        !self.stream.alone(cta.grid) && cta.races.as_ref().is_some_and(|races| !races.has_waited(warp))
    }
}
