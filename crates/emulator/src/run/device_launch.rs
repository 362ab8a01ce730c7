//! Kernels that a kernel launches (CUDA C++ Programming Guide, "CUDA Dynamic Parallelism").
//!
//! A child may begin at any time after its launch, and a parent is complete only when all its children are. No parent can wait for a
//! child, since the device runtime has no synchronization of its own any more. So this order is one of those that CUDA allows, and the
//! one that runs here: the parent runs to its end, then its children one after the other, each with its own children, and those of the
//! stream for tail launches last. A child sees what its parent has written; that the parent writes to the same memory after the launch,
//! which is a race, is not noticed.
//!
//! Copies and fills that a kernel submits run in the same order, as children without threads.
//!
//! Children of different CTAs, and those in different streams, are not ordered. Under odd schedules they run in the reverse order.

use std::collections::HashMap;

use crate::api::observe::Observer;
use crate::api::trap::{Lack, Stop, Unsupported};
use crate::memory::global::GlobalMemory;
use crate::run::launch::{Counts, Launch, Options, run_grids};
use crate::run::stream::InStream;

/// `cudaStreamTailLaunch`: its launches begin when the parent and its other children are complete.
const TAIL: u64 = 3;
/// `cudaStreamFireAndForget`: its launches are not ordered among each other.
const FIRE_AND_FORGET: u64 = 4;

/// How deep kernels may launch kernels (CUDA C++ Programming Guide, "CUDA Dynamic Parallelism", "Nesting Depth").
const DEEPEST: usize = 24;

/// The bytes of a buffer for parameters: the most that a kernel takes which is launched by a kernel.
pub(crate) const PARAMETER_BYTES: usize = 4096;

/// A launch that a kernel has requested parameters for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requested {
    /// The address of the kernel.
    pub(crate) function: u64,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
}

/// Rows of bytes in memory, all of one width.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) at: u64,
    /// Bytes from the start of a row to that of the next.
    pub(crate) pitch: u64,
}

impl Rows {
    /// The address of a row.
    pub(crate) fn row(self, n: u64) -> u64 {
        self.at.wrapping_add(self.pitch.wrapping_mul(n))
    }
}

/// What a kernel submits to a stream.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    Kernel {
        requested: Requested,
        params: Vec<u8>,
    },
    /// A copy of rows.
    Copy {
        to: Rows,
        from: Rows,
        width: usize,
        height: u64,
    },
    /// Rows become this byte.
    Set {
        to: Rows,
        value: u8,
        width: usize,
        height: u64,
    },
}

/// A launch, a copy or a fill by a kernel.
#[derive(Debug, Clone)]
pub(crate) struct DeviceLaunch {
    pub(crate) work: Work,
    pub(crate) stream: u64,
    /// The CTA that submits it.
    pub(crate) cta: [u32; 3],
}

/// The launches of the grids that run.
#[derive(Debug, Default)]
pub(crate) struct DeviceLaunches {
    /// Launches whose parameters are being written, by the address of their buffer.
    pub(crate) requested: HashMap<u64, Requested>,
    /// Launches, in order.
    pub(crate) made: Vec<DeviceLaunch>,
    /// The number of streams and events that kernels have created.
    pub(crate) created: u64,
    /// Whether an event was recorded: streams may then wait for each other.
    pub(crate) has_events: bool,
}

/// A kernel that others may launch: its name, or why it cannot run.
pub(crate) type Launchable = Result<String, Unsupported>;

/// Runs the children of a launch, and theirs; adds what they execute to `counts`.
pub(crate) fn run_children<O: Observer>(
    parent: &InStream<'_>,
    launches: DeviceLaunches,
    memory: &mut GlobalMemory,
    options: &Options,
    observer: &mut O,
    counts: &mut Counts,
) -> Result<(), Stop> {
    let mut open = vec![in_order(launches, options.seed)];
    while let Some(last) = open.last_mut() {
        let Some(child) = last.pop() else {
            open.pop();
            continue;
        };
        if open.len() > DEEPEST {
            let what = format!("kernels launch kernels more than {DEEPEST} levels deep");
            return Err(Stop::Launch(what));
        }
        let options =
            Options { fuel: options.fuel.saturating_sub(counts.warp_instructions), ..options.clone() };
        let own = run_child(parent, child, memory, &options, observer, counts)?;
        open.push(in_order(own, options.seed));
    }
    Ok(())
}

fn run_child<O: Observer>(
    parent: &InStream<'_>,
    child: DeviceLaunch,
    memory: &mut GlobalMemory,
    options: &Options,
    observer: &mut O,
    counts: &mut Counts,
) -> Result<DeviceLaunches, Stop> {
    let wrong = |what: String| Stop::Launch(format!("`{}` launches {what}", parent.kernel.name));
    let (requested, mut params) = match child.work {
        Work::Kernel { requested, params } => (requested, params),
        Work::Copy { to, from, width, height } => {
            return match (0..height).find(|n| !memory.copy(to.row(*n), from.row(*n), width)) {
                None => Ok(DeviceLaunches::default()),
                Some(n) => Err(wrong(format!("a copy to {:#x} of memory that is gone", to.row(n)))),
            };
        }
        Work::Set { to, value, width, height } => {
            let bytes = vec![value; width];
            return match (0..height).find(|n| !memory.write_at(to.row(*n), &bytes)) {
                None => Ok(DeviceLaunches::default()),
                Some(n) => Err(wrong(format!("a fill of {:#x}, which is gone", to.row(n)))),
            };
        }
    };
    let Requested { function, grid, block, shared_bytes } = requested;
    let name = match parent.program.launchable.get(&function) {
        Some(Ok(name)) => name,
        Some(Err(unsupported)) => return Err(Stop::Unsupported(unsupported.clone())),
        None => return Err(wrong(format!("{function:#x}, which is no kernel of its module"))),
    };
    let kernel =
        parent.program.kernel(name).ok_or_else(|| wrong(format!("`{name}`, which is not loaded")))?;
    params.resize(kernel.param_bytes, 0);
    let launch = Launch { grid, block, shared_bytes, params };
    let step = InStream::new(parent.program, kernel, &launch);
    let mut own = DeviceLaunches::default();
    let ran = run_grids(&[step], memory, options, observer, &mut own).map_err(|failed| failed.stop)?;
    counts.warp_instructions += ran.warp_instructions;
    Ok(own)
}

/// The launches of a grid, the one that runs first at the end.
fn in_order(launches: DeviceLaunches, seed: u64) -> Vec<DeviceLaunch> {
    let DeviceLaunches { made, has_events, .. } = launches;
    let (tail, others): (Vec<_>, Vec<_>) = made.into_iter().partition(|launch| launch.stream == TAIL);
    // Launches of one CTA in one stream keep their order, and all do if an event may order them.
    let mut groups: Vec<Vec<DeviceLaunch>> = Vec::new();
    let mut known: HashMap<([u32; 3], u64), usize> = HashMap::new();
    for launch in others {
        let next = groups.len();
        let group = match launch.stream {
            _ if has_events => next,
            FIRE_AND_FORGET => next,
            stream => *known.entry((launch.cta, stream)).or_insert(next),
        };
        if group == next {
            groups.push(Vec::new());
        }
        groups[group].push(launch);
    }
    let reverse = seed % 2 == 1 && !has_events;
    if reverse {
        groups.reverse();
    }
    let mut order: Vec<DeviceLaunch> = groups.into_iter().flatten().collect();
    order.extend(tail);
    order.reverse();
    order
}

/// The refusal of launches by kernels of a stream of several launches.
pub(crate) fn refuse_stream(launches: &[InStream<'_>]) -> Stop {
    let form = launches.first().map(|launch| launch.kernel.name.clone()).unwrap_or_default();
    let why =
        "a kernel of a stream of several launches launches others, which runs only in a launch of its own";
    Stop::Unsupported(Unsupported { form, line: 1, why: why.to_owned(), lack: Lack::Emulator })
}
