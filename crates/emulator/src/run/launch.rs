//! Launches: their options, and a stream of them run on global memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numerics::tensor_core::Model;

use crate::api::observe::{Conflicts, Nobody, Observer, Remark};
use crate::api::trap::{Judge, OtherAccess, Rule, Stop, StreamStop};
use crate::front::launch_check::check;
use crate::front::program::{Kernel, Program};
use crate::memory::global::{GlobalMemory, POISON};
use crate::rules::lanes::LaneRaces;
use crate::rules::remarks::{EarlierLane, RowRemark};
use crate::rules::undefined::report::{keep_undefined, report_tolerated};
use crate::run::cluster;
use crate::run::deadlock::place;
use crate::run::device_launch::{DeviceLaunches, refuse_stream, run_children};
use crate::run::directed::{Directed, Direction};
use crate::run::grid_workspace;
use crate::run::machine::{Tolerated, World};
use crate::run::progress::Progress;
use crate::run::schedule::{Own, Stage, run};
use crate::run::stream::{InStream, Stream};
use crate::run::watchpoint::{Recorded, Watchpoints};

/// How a kernel is launched.
#[derive(Debug, Clone)]
pub struct Launch {
    /// CTAs in x, y, z.
    pub grid: [u32; 3],
    /// Threads per CTA in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// The parameter bytes.
    pub params: Vec<u8>,
}

/// The lane whose value remains where lanes of one store write different values to one address; PTX leaves it open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeptLane {
    /// The highest of them.
    #[default]
    Highest,
    /// The lowest of them.
    Lowest,
}

/// Options of the emulator for a launch.
#[derive(Debug, Clone)]
pub struct Options {
    /// The schedule: 0 runs warps in turn; any other seed chooses warps and their quanta at random.
    pub seed: u64,
    /// Limit on the instructions that all warps of the launch execute together.
    pub fuel: u64,
    /// Whether never-written values are traps where a decision depends on them.
    pub check_init: bool,
    /// Whether every load of never-written bytes is a trap, even if the value is never used. For kernels that must not make such
    /// loads.
    pub check_loads: bool,
    /// Whether unordered conflicting accesses (data races) are traps.
    pub check_races: bool,
    /// Whether the lack of two fences is a violation rather than a remark. NVIDIA's guides require them; Triton's kernels omit
    /// them. One is a proxy fence between `mbarrier.init` and a copy that signals the object in the same CTA; the other is
    /// `bar.warp.sync` between a lane's `tensormap.replace` and its warp's `tensormap.cp_fenceproxy`.
    pub check_fences: bool,
    /// Whether every instruction is checked to leave no bits above the width of a register: a test of the emulator itself.
    pub check_widths: bool,
    /// How violations are handled.
    pub judge: Judge,
    /// The fill byte of memory and registers that nothing has written.
    pub poison: u8,
    /// The stack of a thread in bytes, if it is known (`cudaLimitStackSize`). A call with more in use is a violation. A frame counts
    /// with what ptxas needs for it at least: the function's variables and the return address.
    pub stack_bytes: Option<u64>,
    /// The lane whose value remains where lanes of one store write different values to one address.
    pub kept_lane: KeptLane,
    /// Whether a seed other than 0 shifts dynamic shared memory by multiples of 16 bytes: a kernel is guaranteed only the alignment
    /// that it declares. Triton's kernels rely on more, which GPUs provide.
    pub shift_shared: bool,
    /// The accumulation model of tensor-core instructions; `None` selects the model of the module's target.
    pub model: Option<Model>,
    /// Number of threads that may run clusters of a grid concurrently. It affects speed only.
    pub threads: usize,
    /// Warp instructions of a grid that one thread runs before others join: starting them, and what their views of memory copy, costs as
    /// much as some of these. It affects speed only.
    pub alone: u64,
    /// Lets the sides of a conflict take turns in a certain order. The launch then runs on one thread.
    pub directed: Option<Arc<Directed>>,
    /// Makes the launch a replay that records who accesses certain bytes. It then runs on one thread, and slowly.
    pub watchpoints: Option<Arc<Watchpoints>>,
    /// Cancels the launch with [`Stop::Launch`] soon after it becomes true.
    pub cancel: Option<Arc<AtomicBool>>,
    /// The launch's time limit, and who is told how far it is. A launch over its limit ends with [`Stop::Trap`] and the rule
    /// [`crate::Rule::Fuel`], where it has come to.
    pub progress: Option<Arc<Progress>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            fuel: 20_000_000_000,
            check_init: true,
            check_loads: false,
            check_races: true,
            check_fences: false,
            check_widths: false,
            judge: Judge::Strict,
            poison: POISON,
            stack_bytes: None,
            kept_lane: KeptLane::default(),
            shift_shared: true,
            model: None,
            threads: 1,
            alone: 1 << 17,
            directed: None,
            watchpoints: None,
            cancel: None,
            progress: None,
        }
    }
}

/// Statistics of a launch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows executed by warps.
    pub warp_instructions: u64,
}

/// Runs a kernel on `memory`.
///
/// # Errors
/// [`Stop`]: the launch is invalid, the kernel violated a rule, or the emulator failed.
pub fn launch(
    program: &Program,
    kernel: &Kernel,
    launch: &Launch,
    memory: &mut GlobalMemory,
    options: &Options,
) -> Result<Counts, Stop> {
    launch_observed(program, kernel, launch, memory, options, &mut Nobody)
}

/// [`launch`] that reports every row to `observer`.
///
/// # Errors
/// As [`launch`].
pub fn launch_observed<O: Observer>(
    program: &Program,
    kernel: &Kernel,
    launch: &Launch,
    memory: &mut GlobalMemory,
    options: &Options,
    observer: &mut O,
) -> Result<Counts, Stop> {
    launch_with(&InStream::new(program, kernel, launch), memory, options, observer)
}

/// [`launch_observed`] with launch attributes.
///
/// # Errors
/// As [`launch`].
pub fn launch_with<O: Observer>(
    step: &InStream<'_>,
    memory: &mut GlobalMemory,
    options: &Options,
    observer: &mut O,
) -> Result<Counts, Stop> {
    Ok(run_stream(std::slice::from_ref(step), memory, options, observer)?)
}

/// Runs the launches of one stream on `memory`, overlapped where they are programmatic.
///
/// # Errors
/// As [`launch`], with the launch that failed.
pub fn launch_stream(
    launches: &[InStream<'_>],
    memory: &mut GlobalMemory,
    options: &Options,
) -> Result<Counts, StreamStop> {
    run_stream(launches, memory, options, &mut Nobody)
}

/// Runs the launches of one stream with an observer, and what their kernels launch.
pub(crate) fn run_stream<O: Observer>(
    launches: &[InStream<'_>],
    memory: &mut GlobalMemory,
    options: &Options,
    observer: &mut O,
) -> Result<Counts, StreamStop> {
    let mut made = DeviceLaunches::default();
    let mut counts = run_grids(launches, memory, options, observer, &mut made)?;
    if made.made.is_empty() {
        return Ok(counts);
    }
    let stopped = |stop| StreamStop { launch: 0, stop };
    let [parent] = launches else { return Err(stopped(refuse_stream(launches))) };
    run_children(parent, made, memory, options, observer, &mut counts).map_err(stopped)?;
    Ok(counts)
}

/// Runs the launches of one stream with an observer; those of their kernels are added to `made`.
pub(crate) fn run_grids<O: Observer>(
    launches: &[InStream<'_>],
    memory: &mut GlobalMemory,
    options: &Options,
    observer: &mut O,
    made: &mut DeviceLaunches,
) -> Result<Counts, StreamStop> {
    let mut own: Vec<Own> = Vec::new();
    let mut clusters = Vec::new();
    for (n, each) in launches.iter().enumerate() {
        let arch = each.program.arch;
        let shape = check(each.kernel, each.launch, arch)
            .and_then(|()| cluster::shape(each.kernel, each.cluster, each.launch.grid, arch));
        clusters.push(shape.map_err(|stop| StreamStop { launch: n, stop })?);
        own.push(Own::for_launch(each, memory, options));
    }
    let mut stream = Stream::new(launches, &clusters);
    if stream.grids.last().is_none_or(|g| g.ctas.end == u32::MAX) {
        let what = "a stream without launches, or with more CTAs than can be counted".to_owned();
        return Err(StreamStop { launch: launches.len().saturating_sub(1), stop: Stop::Launch(what) });
    }
    grid_workspace::provide(launches, &mut stream, memory);
    memory.fill_unwritten(options.poison);
    let mut world = World::new(std::mem::take(memory), stream, options);
    world.watchpoints = options.watchpoints.as_deref().map(|points| Box::new(Recorded::new(points)));
    world.directed = options.directed.as_ref().map(|directed| Box::new(Direction::new(directed, launches)));
    let mut stage = Stage::of_stream(own);
    // A panic in here is a bug of the emulator, not of the kernel.
    let result = catch_unwind(AssertUnwindSafe(|| run(launches, &mut stage, &mut world, options, observer)));
    *memory = std::mem::take(&mut world.global);
    *made = std::mem::take(&mut world.device_launches);
    grid_workspace::take_back(&world.stream, memory);
    keep_undefined(launches, std::mem::take(&mut world.undefined), memory);
    let tolerated = std::mem::take(&mut world.tolerated);
    let mut conflicts = racing(launches, &tolerated);
    report_tolerated(launches, tolerated, observer);
    let remark = |((grid, pc), r): ((usize, u32), RowRemark)| {
        let at = |row, lane| place(launches, grid, row, r.cta, r.warp, u32::try_from(lane).ok());
        let other = r.other.map(|EarlierLane { row, lane, wrote, byte }| {
            let place = Some(at(row, lane));
            Box::new(OtherAccess { byte, wrote, thread: (0, r.warp), owner: 0, at: None, place })
        });
        Remark { what: r.what, place: at(pc, r.lane), other, times: r.times }
    };
    world.remarks.into_iter().for_each(|each| observer.remark(&remark(each)));
    world.overlaps.into_iter().for_each(|each| observer.undetermined_store(&remark(each)));
    let LaneRaces { weak, strong, rows } = world.lane_races;
    conflicts.lanes = weak.into_iter().map(remark).collect();
    conflicts.strong_lanes = strong.into_iter().map(remark).collect();
    conflicts.lane_rows =
        rows.into_iter().map(|(grid, row)| (launches[grid].kernel.name.clone(), row)).collect();
    let written = world.watchpoints.take().map(|all| all.last_writes(launches)).unwrap_or_default();
    written.iter().for_each(|write| observer.written(write));
    if conflicts != Conflicts::default() {
        observer.conflicts(&conflicts);
    }
    let stop = match result {
        Ok(Ok(counts)) => return Ok(counts),
        Ok(Err(stop)) => stop,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Stop::Bug(text.unwrap_or_else(|| "a panic without a message".to_owned()))
        }
    };
    let launch = match &stop {
        Stop::Trap(trap) => trap.place.launch,
        // If no CTA ran, the first launch is blamed.
        _ => stage.inside.unwrap_or(0),
    };
    Err(StreamStop { launch, stop })
}

/// The races after which a launch went on, as conflicts of warps.
fn racing(launches: &[InStream<'_>], tolerated: &Tolerated) -> Conflicts {
    let mut conflicts = Conflicts::default();
    for ((grid, row, _), (fault, ..)) in tolerated {
        if let Some(other) = fault.other.as_ref().filter(|_| fault.rule == Rule::Race) {
            conflicts.bytes.insert(other.byte);
            conflicts.warp_rows.insert((launches[*grid].kernel.name.clone(), *row));
        }
    }
    conflicts
}

/// The hardware model of an architecture number such as 90.
#[must_use]
pub fn model_of(arch: u32) -> Model {
    match arch {
        ..89 => Model::Sm80,
        89 => Model::Sm89,
        90..100 => Model::Sm90,
        100..120 => Model::Sm100,
        _ => Model::Sm120,
    }
}

/// Allocates the module's variables and returns their addresses.
pub(crate) fn place_globals(program: &Program, memory: &mut GlobalMemory) -> Vec<u64> {
    let bases: Vec<u64> = program.globals.iter().map(|g| memory.allocate_with(g.bytes.clone())).collect();
    for (g, base) in program.globals.iter().zip(&bases) {
        for (at, target, addend) in &g.relocations {
            let address = bases[*target].wrapping_add_signed(*addend);
            if let Ok((index, place)) = memory.locate(base + *at as u64, 8) {
                memory.region_mut(index).put(place, &address.to_le_bytes());
            }
        }
    }
    memory.keep_variables(&program.text, &bases);
    bases
}
