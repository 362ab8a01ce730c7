//! A launch: resident CTAs, the seeded scheduler, and what is said when nothing can go on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use numerics::tensor_core::Model;

use super::cluster;
use super::cta::Cta;
use super::isa::launch_control;
use super::launch_check::check;
use super::machine::World;
use super::memory::{GlobalMemory, POISON, Region};
use super::observe::{Nobody, Observer, Remark};
use super::program::{Kernel, Program};
use super::races::{GlobalRaces, Races};
use super::random::Random;
use super::resident::{Resident, Spares, Together, remove_ended, resident};
use super::stream::{InStream, Stream};
use super::trap::{Fault, Judge, Law, Place, Stop, StreamStop, Trap};
use super::undefined::report::{keep_undefined, told, with_cause};
use super::warp::{Stopped, Turn, Wait};

/// How a kernel is launched.
#[derive(Debug, Clone)]
pub struct Launch {
    /// CTAs in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a CTA in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// The parameter bytes.
    pub params: Vec<u8>,
}

/// How a launch is emulated.
#[derive(Debug, Clone)]
pub struct Options {
    /// The schedule: 0 runs warps in turn, any other number picks them, and their quanta, by chance.
    pub seed: u64,
    /// Instructions the launch may execute, over all warps.
    pub fuel: u64,
    /// Whether values that nobody wrote are traps where they decide something.
    pub check_init: bool,
    /// Whether a load of bytes that nobody wrote is a trap, whatever comes of them: a check for kernels that are to make none.
    pub check_loads: bool,
    /// Whether accesses that nothing orders are traps.
    pub check_races: bool,
    /// What a violation does.
    pub judge: Judge,
    /// What memory and registers hold that nobody has written, byte by byte.
    pub poison: u8,
    /// Whether a seed other than 0 shifts dynamic shared memory by multiples of 16 bytes: no kernel is promised more than the alignment
    /// that it declares. Those of Triton rely on more, which GPUs give.
    pub shift_shared: bool,
    /// The accumulation model of tensor-core instructions; `None` is that of the module's target.
    pub model: Option<Model>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            fuel: 20_000_000_000,
            check_init: true,
            check_loads: false,
            check_races: true,
            judge: Judge::Strict,
            poison: POISON,
            shift_shared: true,
            model: None,
        }
    }
}

/// What a launch did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows executed by warps.
    pub warp_instructions: u64,
}

/// CTAs that are resident together.
const RESIDENT: usize = 64;

/// Rows a warp runs before others have their turn.
const QUANTUM: u32 = 256;

/// Turns that the warps of a CTA have, at most, before other CTAs have theirs.
const ROUNDS: usize = 16;

/// Turns of a CTA that its copies wait while its warps run.
const PATIENCE: u32 = 64;

/// Runs a kernel on `memory`.
///
/// # Errors
/// [`Stop`]: the launch is impossible, the kernel broke a law, or the emulator failed.
pub fn launch(
    program: &Program,
    kernel: &Kernel,
    launch: &Launch,
    memory: &mut GlobalMemory,
    options: &Options,
) -> Result<Counts, Stop> {
    launch_observed(program, kernel, launch, memory, options, &mut Nobody)
}

/// [`launch`], with every row told to `observer`.
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

/// [`launch_observed`], with the attributes of the launch.
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

/// What a grid has to itself; the world holds that of the grid whose CTA runs.
struct Own {
    params: Vec<u8>,
    constants: Region,
    model: Model,
    /// Addresses of the module's variables.
    globals: Vec<u64>,
}

fn run_stream<O: Observer>(
    launches: &[InStream<'_>],
    memory: &mut GlobalMemory,
    options: &Options,
    observer: &mut O,
) -> Result<Counts, StreamStop> {
    let mut own: Vec<Own> = Vec::new();
    let mut clusters = Vec::new();
    for (n, each) in launches.iter().enumerate() {
        let arch = each.program.arch;
        let shape = check(each.kernel, each.launch, arch)
            .and_then(|()| cluster::shape(each.kernel, each.cluster, each.launch.grid, arch));
        clusters.push(shape.map_err(|stop| StreamStop { launch: n, stop })?);
        // A module has its variables once, and launches find what those before them left there.
        let globals = match memory.variables(&each.program.text) {
            Some(addresses) => addresses.to_vec(),
            None => place_globals(each.program, memory),
        };
        own.push(Own {
            params: each.launch.params.clone(),
            constants: Region::written(each.program.constants.clone()),
            model: options.model.unwrap_or_else(|| model_of(each.program.arch)),
            globals,
        });
    }
    let stream = Stream::new(launches, &clusters);
    if stream.grids.last().is_none_or(|g| g.ctas.end == u32::MAX) {
        let what = "a stream without launches, or with more CTAs than can be counted".to_owned();
        return Err(StreamStop { launch: launches.len().saturating_sub(1), stop: Stop::Launch(what) });
    }
    memory.fill_unwritten(options.poison);
    let mut world = World {
        global: std::mem::take(memory),
        params: Vec::new(),
        constants: Region::default(),
        events: 0,
        hurried: None,
        races: GlobalRaces::of(&stream),
        clock: 0,
        check_init: options.check_init,
        check_loads: options.check_loads,
        random: Random(options.seed),
        gives_up: options.seed != 0,
        stream,
        model: own[0].model,
        scratch: Default::default(),
        maps: Default::default(),
        printed: Vec::new(),
        remarks: Default::default(),
        heap: Default::default(),
        undefined: Default::default(),
        judge: options.judge,
        poison: options.poison,
        tolerated: Default::default(),
    };
    // The grid whose CTA runs.
    let mut inside = usize::MAX;
    // A panic in here is ours, not the kernel's.
    let result = catch_unwind(AssertUnwindSafe(|| {
        run(launches, &mut own, &mut world, &mut inside, options, observer)
    }));
    *memory = std::mem::take(&mut world.global);
    keep_undefined(launches, std::mem::take(&mut world.undefined), memory);
    told(launches, std::mem::take(&mut world.tolerated), observer);
    for ((grid, pc), said) in world.remarks {
        let place = place(launches, grid, pc, said.cta, said.warp, u32::try_from(said.lane).ok());
        observer.remark(&Remark { what: said.what, place, times: said.times });
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
        // Before any CTA ran, it is the first.
        _ if inside == usize::MAX => 0,
        _ => inside,
    };
    Err(StreamStop { launch, stop })
}

/// The accumulation model of a target.
fn model_of(arch: u32) -> Model {
    match arch {
        ..89 => Model::Sm80,
        89 => Model::Sm89,
        90..100 => Model::Sm90,
        100..120 => Model::Sm100,
        _ => Model::Sm120,
    }
}

/// Gives module variables their addresses.
pub(super) fn place_globals(program: &Program, memory: &mut GlobalMemory) -> Vec<u64> {
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

/// Lets the world be that of another grid.
fn enter(world: &mut World, own: &mut [Own], current: &mut usize, grid: usize) {
    let mut swap = |own: &mut Own| {
        std::mem::swap(&mut own.params, &mut world.params);
        std::mem::swap(&mut own.constants, &mut world.constants);
        std::mem::swap(&mut own.model, &mut world.model);
    };
    if *current != grid {
        if let Some(own) = own.get_mut(*current) {
            swap(own);
        }
        swap(&mut own[grid]);
        *current = grid;
    }
}

fn run<O: Observer>(
    launches: &[InStream<'_>],
    own: &mut [Own],
    world: &mut World,
    inside: &mut usize,
    options: &Options,
    observer: &mut O,
) -> Result<Counts, Stop> {
    // Kernels that take the work of CTAs that have not begun.
    let few: Vec<bool> = launches.iter().map(|l| launch_control::used_by(l.kernel)).collect();
    let mut residents: Vec<Resident> = Vec::new();
    let mut spares = Spares::default();
    let mut counts = Counts::default();
    let mut next = 0usize;
    // A read of what nobody wrote yet, by a grid that should have waited for who writes it.
    let mut held: Option<Held> = None;
    let trap = |stopped: Stopped, cta: &Cta, warp: u32| {
        let place = place(launches, cta.grid, stopped.pc, cta.id, warp, stopped.fault.lane);
        let what = with_cause(launches, cta.grid, stopped.fault.what, stopped.fault.cause);
        Stop::Trap(Box::new(Trap { law: stopped.fault.law, what, place }))
    };
    loop {
        while next < launches.len() && held.is_none() {
            if residents.len() >= RESIDENT && !launches[next].cooperative {
                break;
            }
            if world.stream.grids[next].begun == world.stream.grids[next].total() {
                next += 1;
                continue;
            }
            if few[next]
                && residents.iter().filter(|r| r.cta.grid == next).count() >= launch_control::RESIDENT
            {
                break;
            }
            if world.stream.grids[next].begun == 0 {
                // Under a random schedule a grid may begin later than it could.
                let late = options.seed != 0 && next > 0 && !residents.is_empty();
                if !world.stream.may_begin(next) || late && world.random.below(2) == 0 {
                    break;
                }
                if world.stream.begin(next) {
                    world.races.forget();
                }
            }
            let globals = &own[next].globals;
            let shape = world.stream.grids[next].cluster;
            let mut together = Together::of(&launches[next], shape, options);
            for _ in 0..together.member.size() {
                let both = (&together, &mut spares);
                residents.push(resident(&launches[next], globals, next, world, options, both));
                world.stream.grids[next].begun += 1;
                together.advance();
            }
        }
        if residents.is_empty() {
            return held.map_or(Ok(counts), |h| Err(h.stop));
        }
        let mut ran = false;
        let count = residents.len();
        for turn in 0..count {
            let at = if options.seed == 0 { turn } else { world.random.below(count) };
            let Some((Resident { cta, warps, copies_wait, .. }, mut peers)) =
                cluster::split(&mut residents, at)
            else {
                continue;
            };
            if held.as_ref().is_some_and(|h| cta.grid >= h.grid) {
                continue;
            }
            enter(world, own, inside, cta.grid);
            let kernel = launches[cta.grid].kernel;
            // A CTA goes on for some rounds while its memory is in the cache.
            let rounds = if options.seed == 0 { ROUNDS } else { 1 + world.random.below(ROUNDS) };
            let mut stuck = true;
            for _ in 0..rounds {
                let mut went_on = false;
                for w in 0..warps.len() {
                    let w = if options.seed == 0 { w } else { world.random.below(warps.len()) };
                    let quantum = match options.seed {
                        0 => QUANTUM,
                        _ => 1 + world.random.below(QUANTUM as usize) as u32,
                    };
                    let warp = &mut warps[w];
                    if warp.live == 0 {
                        continue;
                    }
                    let before = counts.warp_instructions;
                    let steps = &mut counts.warp_instructions;
                    let turn =
                        warp.run(kernel, (&mut *cta, peers.reborrow()), world, quantum, steps, observer);
                    if !world.printed.is_empty() {
                        world.printed.drain(..).for_each(|text| observer.printed(&text));
                    }
                    match turn {
                        Ok(Turn::Waiting) => {}
                        Ok(Turn::Ready | Turn::Ended) => went_on = true,
                        Err(stopped) => {
                            let early =
                                stopped.fault.law == Law::Uninitialised && world.in_front(cta, warp.index);
                            let stop = Held::join(held.take(), trap(stopped, cta, warp.index));
                            if !early {
                                return Err(stop);
                            }
                            held = Some(Held { grid: cta.grid, stop });
                            ran = true;
                            break;
                        }
                    }
                    world.clock += counts.warp_instructions - before;
                }
                ran |= went_on;
                stuck &= !went_on;
                if !went_on || held.as_ref().is_some_and(|h| cta.grid >= h.grid) {
                    break;
                }
            }
            // Under a random schedule copies end at any time; otherwise as late as they may, but not behind a thread that polls.
            let chosen = match (cta.pending.len(), options.seed) {
                (0, _) => {
                    *copies_wait = 0;
                    None
                }
                (_, 0) => {
                    *copies_wait += 1;
                    (stuck || *copies_wait >= PATIENCE).then_some(0)
                }
                (n, _) => (world.random.below(4) == 0).then(|| world.random.below(n)),
            };
            if let Some(chosen) = chosen {
                *copies_wait = 0;
                ran = true;
                cta.complete_nth(world, chosen)
                    .map_err(|f| trap(Stopped { fault: f, pc: u32::MAX }, cta, 0))?;
            }
        }
        if counts.warp_instructions > options.fuel {
            let Resident { cta, warps, .. } = &residents[0];
            let warp = warps.iter().find(|w| w.live != 0).unwrap_or(&warps[0]);
            let pc = warp.fragments.first().map_or(u32::MAX, |f| f.pc);
            let what = format!("more than {} instructions", options.fuel);
            return Err(trap(Stopped { fault: Fault::new(Law::Fuel, what), pc }, cta, warp.index));
        }
        for resident in residents.iter_mut().filter(|r| !r.ended && r.warps.iter().all(|w| w.live == 0)) {
            // What a CTA leaves behind ends with it.
            resident.ended = true;
            let cta = &mut resident.cta;
            let left = cta.pending.iter().find(|p| p.outlives());
            if let Some(left) = left {
                let what =
                    format!("the CTA ends while the copy of line {} still uses its shared memory", left.line);
                let stopped = Stopped { fault: Fault::new(Law::Race, what), pc: u32::MAX };
                return Err(trap(stopped, cta, left.warp));
            }
            cta.complete(world, |p| p.lanes).map_err(|f| trap(Stopped { fault: f, pc: u32::MAX }, cta, 0))?;
            if let Some(fault) = cta.races.as_ref().and_then(Races::used_after_end) {
                return Err(trap(Stopped { fault, pc: u32::MAX }, cta, 0));
            }
            world.stream.end(cta.grid, cta.released);
            world.events += 1;
        }
        let before = residents.len();
        remove_ended(&mut residents, &mut spares);
        if let Some(h) = held.take_if(|h| world.stream.alone(h.grid)) {
            return Err(h.stop);
        }
        // With a random schedule a round may have missed the warps that can run.
        let can_run = |r: &Resident| {
            held.as_ref().is_none_or(|h| r.cta.grid < h.grid)
                && r.warps.iter().any(|w| w.can_run(&r.cta, world))
        };
        if ran || residents.len() != before || residents.iter().any(can_run) {
            continue;
        }
        let unblocked = unblock(&mut residents, world).map_err(|(f, n)| {
            let cta = &residents[n].cta;
            trap(Stopped { fault: f, pc: u32::MAX }, cta, 0)
        })?;
        if !unblocked {
            // A grid that could have begun later may be what the others wait for.
            if held.is_none()
                && residents.len() < RESIDENT
                && next < launches.len()
                && world.stream.grids[next].begun == 0
                && world.stream.may_begin(next)
            {
                continue;
            }
            return Err(held.map_or_else(|| deadlock(launches, &residents), |h| h.stop));
        }
    }
}

/// A stop that waits for the grids in front to end: what they do then may explain it.
struct Held {
    grid: usize,
    stop: Stop,
}

impl Held {
    /// A broken dependency that comes behind the read of what nobody wrote is the reason for it.
    fn join(held: Option<Self>, stop: Stop) -> Stop {
        match (held, stop) {
            (Some(Self { stop: Stop::Trap(first), .. }), Stop::Trap(then)) if then.law == Law::Dependency => {
                let what = format!("{}; the other access: {}", then.what, then.place);
                Stop::Trap(Box::new(Trap { place: first.place, what, ..*then }))
            }
            (_, stop) => stop,
        }
    }
}

/// Lets something go on when every warp waits: copies first, then lanes that wait only for company.
fn unblock(residents: &mut [Resident], world: &mut World) -> Result<bool, (Fault, usize)> {
    for (n, resident) in residents.iter_mut().enumerate() {
        if !resident.cta.pending.is_empty() {
            resident.cta.complete_nth(world, 0).map_err(|f| (f, n))?;
            return Ok(true);
        }
    }
    let mut any = false;
    for warp in residents.iter_mut().flat_map(|r| &mut r.warps) {
        any |= warp.release_company();
    }
    if any {
        return Ok(true);
    }
    // `mbarrier.try_wait` may give up. That helps once: without anything new, the same waits would only go round.
    let happened = world.events + residents.iter().map(|r| r.cta.events).sum::<u64>();
    if world.hurried.replace(happened) != Some(happened) {
        for warp in residents.iter_mut().flat_map(|r| &mut r.warps) {
            any |= warp.hurry();
        }
    }
    Ok(any)
}

/// Where in the text a row is.
pub(super) fn place(
    launches: &[InStream<'_>],
    launch: usize,
    pc: u32,
    cta: [u32; 3],
    warp: u32,
    lane: Option<u32>,
) -> Place {
    let InStream { program, kernel, .. } = launches[launch];
    let origin = kernel.origins.get(pc as usize).copied();
    let text = origin.and_then(|o| program.text.get(o.start as usize..o.end as usize)).unwrap_or_default();
    let line = origin.map_or(0, |o| ptx::line_column(&program.text, o.start as usize).line);
    let source = origin
        .filter(|o| o.line > 0)
        .map(|o| (program.files.get(&o.file).cloned().unwrap_or_else(|| format!("file {}", o.file)), o.line));
    let instruction = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Place { launch, kernel: kernel.name.clone(), line, instruction, source, cta, warp, lane }
}

/// Who waits for what.
fn deadlock(launches: &[InStream<'_>], residents: &[Resident]) -> Stop {
    let mut who = Vec::new();
    let mut first = None;
    for resident in residents {
        for warp in &resident.warps {
            for fragment in &warp.fragments {
                let at = place(launches, resident.cta.grid, fragment.pc, resident.cta.id, warp.index, None);
                let what = match fragment.wait {
                    Wait::Barrier { id, .. } => {
                        let barrier = &resident.cta.barriers[id as usize & 15];
                        let wanted = if barrier.expected == u32::MAX {
                            resident.cta.threads
                        } else {
                            barrier.expected
                        };
                        format!("barrier {id} ({} of {wanted} threads)", barrier.arrived)
                    }
                    Wait::Event { .. } => {
                        let thread = warp.index * 32 + fragment.mask.trailing_zeros() % 32;
                        let object =
                            resident.cta.waits_for(thread).map_or_else(String::new, |o| format!("{o}, "));
                        format!("{object}line {} `{}`", at.line, at.instruction)
                    }
                    Wait::Company(_) => "the other lanes of its warp".to_owned(),
                    Wait::Converge(wanted) => {
                        format!("lanes {wanted:#010x} to reach line {} `{}`", at.line, at.instruction)
                    }
                    Wait::Nothing | Wait::Impatient => "its turn".to_owned(),
                };
                if who.len() < 8 {
                    who.push(format!(
                        "CTA {:?} warp {} lanes {:#010x} wait for {what}",
                        resident.cta.id, warp.index, fragment.mask
                    ));
                }
                first.get_or_insert(at);
            }
        }
    }
    let what = format!("no warp can make progress: {}", who.join("; "));
    Stop::Trap(Box::new(Trap { law: Law::Deadlock, what, place: first.unwrap_or_default() }))
}
