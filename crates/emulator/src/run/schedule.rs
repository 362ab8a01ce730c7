//! The seeded scheduler: picks warps until every CTA has ended or no warp can run.

use std::ops::Range;
use std::sync::atomic::Ordering;

use numerics::tensor_core::Model;

use crate::api::observe::Observer;
use crate::api::trap::{Fault, Rule, Stop, Trap};
use crate::memory::global::{GlobalMemory, Region};
use crate::rules::races::Races;
use crate::rules::undefined::report::with_cause;
use crate::run::cluster;
use crate::run::cores;
use crate::run::cta::Cta;
use crate::run::deadlock::{called_from, deadlock, out_of_fuel, out_of_time, place};
use crate::run::directed;
use crate::run::launch::{Counts, Options, model_of, place_globals};
use crate::run::livelock::Livelock;
use crate::run::machine::World;
use crate::run::random::Random;
use crate::run::resident::{Resident, Spares, Together, remove_ended, resident};
use crate::run::stream::InStream;
use crate::run::warp::{Stopped, Turn, Wait, Warp};
use crate::work;

/// Maximum number of resident CTAs.
pub(crate) const RESIDENT: usize = 64;

/// The number of CTAs that are resident together if a kernel requests the others' work: fewer than usual, so that some is left.
const FEW_RESIDENT: usize = 4;

/// Rows that a warp runs before another warp has its turn.
const QUANTUM: u32 = 256;

/// Maximum turns of a CTA's warps before other CTAs have theirs.
const ROUNDS: usize = 16;

/// Turns for which a CTA's copies may be delayed while its warps run.
const PATIENCE: u32 = 64;

/// The state of one grid that is swapped into the world while one of its CTAs runs.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    params: Vec<u8>,
    constants: Region,
    model: Model,
    /// Addresses of the module's variables.
    globals: Vec<u64>,
}

impl Own {
    /// The state of a launch that is about to run on this memory.
    pub(crate) fn for_launch(step: &InStream<'_>, memory: &mut GlobalMemory, options: &Options) -> Self {
        let InStream { program, launch, .. } = step;
        // A module's variables are allocated once; later launches see the values that earlier ones left.
        let globals = match memory.variables(&program.text) {
            Some(addresses) => addresses.to_vec(),
            None => place_globals(program, memory),
        };
        Self {
            params: launch.params.clone(),
            constants: Region::written(program.constants.clone()),
            model: options.model.unwrap_or_else(|| model_of(program.arch)),
            globals,
        }
    }
}

/// The scheduler's input, and the state that it keeps across grids.
pub(crate) struct Stage {
    /// Indexed by grid, relative to `grids.start`.
    own: Vec<Own>,
    /// The grid whose state the world holds: that of the running CTA.
    pub(crate) inside: Option<usize>,
    /// The grids to run.
    grids: Range<usize>,
    spares: Spares,
}

impl Stage {
    /// A stage for a single grid.
    pub(crate) fn of_grid(grid: usize, own: Own) -> Self {
        Self { own: vec![own], inside: None, grids: grid..grid + 1, spares: Spares::default() }
    }

    /// A stage for all grids of a stream.
    pub(crate) fn of_stream(own: Vec<Own>) -> Self {
        Self { grids: 0..own.len(), own, inside: None, spares: Spares::default() }
    }

    fn own(&self, grid: usize) -> &Own {
        &self.own[grid - self.grids.start]
    }

    /// Swaps the state of another grid into the world.
    fn enter(&mut self, world: &mut World, grid: usize) {
        if self.inside == Some(grid) {
            return;
        }
        for grid in self.inside.into_iter().chain([grid]) {
            let own = &mut self.own[grid - self.grids.start];
            std::mem::swap(&mut own.params, &mut world.params);
            std::mem::swap(&mut own.constants, &mut world.constants);
            std::mem::swap(&mut own.model, &mut world.model);
        }
        self.inside = Some(grid);
    }
}

/// The random numbers that choose the turns of one cluster, or the order of turns within one grid. A cluster's sequence does not
/// depend on when other clusters run.
pub(crate) fn chance(seed: u64, number: u64) -> Random {
    let mut mixed = Random(seed ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
    Random(mixed.next())
}

pub(crate) fn run<O: Observer>(
    launches: &[InStream<'_>],
    stage: &mut Stage,
    world: &mut World,
    options: &Options,
    observer: &mut O,
) -> Result<Counts, Stop> {
    // Kernels that steal the work of CTAs that have not begun (`clusterlaunchcontrol`).
    let few: Vec<bool> = launches.iter().map(|l| !l.cooperative && l.kernel.takes_work).collect();
    let mut residents: Vec<Resident> = Vec::new();
    let mut counts = Counts::default();
    // The instructions that the launch's progress contains.
    let mut counted = 0;
    let (mut next, end) = (stage.grids.start, stage.grids.end);
    // Chooses the next CTA.
    let mut order = chance(options.seed, 0);
    // A read of unwritten bytes by a grid that should have waited for the grid that writes them.
    let mut held: Option<Held> = None;
    let trap = |stopped: Stopped, cta: &Cta, warp: u32| {
        let place = place(launches, cta.grid, stopped.pc, cta.id, warp, stopped.fault.lane);
        if let Some(why) = stopped.refused {
            return Stop::Unsupported(*why);
        }
        let what = with_cause(launches, cta.grid, stopped.fault.what, stopped.fault.cause);
        let what = what + &called_from(launches, cta.grid, &stopped.calls);
        Stop::Trap(Box::new(Trap { rule: stopped.fault.rule, what, place }))
    };
    let mut livelock = Livelock::default();
    loop {
        if world.apart.as_ref().is_some_and(|apart| apart.stops(counts.warp_instructions)) {
            return Err(Stop::Launch("the cluster cannot run apart from the others".to_owned()));
        }
        while next < end && held.is_none() {
            if residents.len() >= RESIDENT && !launches[next].cooperative {
                break;
            }
            if world.stream.grids[next].begun == world.stream.grids[next].until {
                next += 1;
                continue;
            }
            if few[next] && residents.iter().filter(|r| r.cta.grid == next).count() >= FEW_RESIDENT {
                break;
            }
            if world.stream.grids[next].begun == 0 {
                // Under a random schedule a grid may begin later than it could.
                let late = options.seed != 0 && next > 0 && !residents.is_empty();
                if !world.stream.may_begin(next) || late && order.below(2) == 0 {
                    break;
                }
                if world.stream.begin(next) {
                    world.races.forget();
                }
                if residents.is_empty() {
                    order = chance(options.seed, next as u64);
                    if !O::WATCHES
                        && let Some(all) = cores::run_grid(launches, next, stage.own(next), world, options)
                    {
                        counts.warp_instructions += all;
                        continue;
                    }
                }
            }
            let shape = world.stream.grids[next].cluster;
            let mut together = Together::for_cluster(&launches[next], shape, options);
            for _ in 0..together.member.size() {
                let Stage { own, grids, spares, .. } = &mut *stage;
                let globals = &own[next - grids.start].globals;
                let both = (&together, spares);
                residents.push(resident(&launches[next], globals, next, world, options, both));
                world.changed();
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
            let mut at = if options.seed == 0 { turn } else { order.below(count) };
            if held.as_ref().is_some_and(|h| residents[at].cta.grid >= h.grid) {
                continue;
            }
            let first = at - residents[at].cta.member.rank as usize;
            if options.seed != 0 {
                // A cluster that cannot make progress has no turn, so its random sequence does not depend on how long others take.
                let end = first + residents[at].cta.member.size() as usize;
                let acts = |r: &Resident| {
                    !r.cta.pending.is_empty() || r.warps.iter().any(|w| w.can_run(&r.cta, world))
                };
                if !residents[first..end].iter().any(acts) {
                    continue;
                }
                std::mem::swap(&mut world.random, &mut residents[first].random);
                at = first + if end - first > 1 { world.random.below(end - first) } else { 0 };
            }
            let Some((Resident { cta, warps, copies_wait, .. }, mut peers)) =
                cluster::split(&mut residents, at)
            else {
                continue;
            };
            stage.enter(world, cta.grid);
            let kernel = launches[cta.grid].kernel;
            // A CTA runs for several rounds while its memory is in the cache.
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
                    work::count(1);
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
                                stopped.fault.rule == Rule::Uninitialised && world.in_front(cta, warp.index);
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
                    if let Some(fault) = cta.races.as_ref().and_then(Races::exhausted) {
                        return Err(trap(Stopped::at(fault, warp.next_row()), cta, warp.index));
                    }
                }
                ran |= went_on;
                stuck &= !went_on;
                if !went_on || held.as_ref().is_some_and(|h| cta.grid >= h.grid) {
                    break;
                }
            }
            // Under a random schedule copies complete at any time; otherwise as late as possible, but they do not wait forever for
            // a polling thread.
            let chosen = match (cta.pending.len(), options.seed) {
                (0, _) => {
                    *copies_wait = 0;
                    None
                }
                (_, 0) => {
                    *copies_wait += 1;
                    (stuck || *copies_wait >= PATIENCE).then_some(0)
                }
                (n, _) => {
                    let ends = stuck && !warps.iter().any(|w| w.can_run(cta, world));
                    (ends || world.random.below(4) == 0).then(|| world.random.below(n))
                }
            };
            if let Some(chosen) = chosen {
                *copies_wait = 0;
                ran = true;
                world.changed();
                cta.complete_nth(world, chosen).map_err(|f| trap(Stopped::outside(f), cta, 0))?;
            }
            if options.seed != 0 {
                std::mem::swap(&mut world.random, &mut residents[first].random);
            }
        }
        if options.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(Stop::Launch("the launch was cancelled".to_owned()));
        }
        if counts.warp_instructions > options.fuel {
            return Err(out_of_fuel(launches, &residents, &world.stream, options.fuel));
        }
        if let Some(progress) = &options.progress {
            let more = counts.warp_instructions - counted;
            counted = counts.warp_instructions;
            if progress.advance(more) {
                return Err(out_of_time(launches, &residents, &world.stream, progress));
            }
        }
        for resident in residents.iter_mut().filter(|r| !r.ended && r.warps.iter().all(|w| w.live == 0)) {
            // Effects of a CTA that are still pending end with it.
            resident.ended = true;
            world.changed();
            let cta = &mut resident.cta;
            let left = cta.pending.iter().find(|p| p.outlives());
            if let Some(left) = left {
                let what =
                    format!("the CTA ends while the copy of line {} still uses its shared memory", left.line);
                let stopped = Stopped::outside(Fault::new(Rule::Race, what));
                return Err(trap(stopped, cta, left.warp));
            }
            cta.complete(world, |p| p.lanes).map_err(|f| trap(Stopped::outside(f), cta, 0))?;
            if let Some(fault) = cta.races.as_ref().and_then(Races::used_after_end) {
                return Err(trap(Stopped::outside(fault), cta, 0));
            }
            world.stream.end(cta.grid, cta.released);
            world.events += 1;
            world.ends += u64::from(world.stream.overlaps());
        }
        let before = residents.len();
        remove_ended(&mut residents, &mut stage.spares);
        if let Some(h) = held.take_if(|h| world.stream.alone(h.grid)) {
            return Err(h.stop);
        }
        let repeats = livelock.passed(counts.warp_instructions, &mut residents, world);
        // Under a random schedule a round may have skipped the warps that can run.
        let can_run = |r: &Resident, world: &World| {
            held.as_ref().is_none_or(|h| r.cta.grid < h.grid)
                && (r.warps.iter().any(|w| w.can_run(&r.cta, world))
                    || options.seed != 0 && !r.cta.pending.is_empty())
        };
        let goes_on =
            !repeats && (ran || residents.len() != before || residents.iter().any(|r| can_run(r, world)));
        let so_far = (!goes_on, counts.warp_instructions);
        if directed::release(world.directed.as_mut(), &mut residents, so_far) || goes_on {
            continue;
        }
        if world.apart.is_some() && !residents.iter().any(waits_for_company) {
            return Err(Stop::Launch("no warp can proceed unless another cluster does".to_owned()));
        }
        let unblocked = unblock(&mut residents, world).map_err(|(f, n)| {
            let cta = &residents[n].cta;
            trap(Stopped::outside(f), cta, 0)
        })?;
        world.changed();
        if !unblocked {
            // The others may be waiting for a grid that could have begun but has not.
            if held.is_none()
                && residents.len() < RESIDENT
                && next < end
                && world.stream.grids[next].begun == 0
                && world.stream.may_begin(next)
            {
                continue;
            }
            return Err(held.map_or_else(|| deadlock(launches, &residents, &world.stream), |h| h.stop));
        }
    }
}

/// Whether some lanes of a CTA wait only for others of their warp, or for a copy.
fn waits_for_company(resident: &Resident) -> bool {
    let company = |warp: &Warp| warp.fragments.iter().any(|f| matches!(f.wait, Wait::Company(_)));
    !resident.cta.pending.is_empty() || resident.warps.iter().any(company)
}

/// A stop that is held until the preceding grids have ended: what they do next may explain it.
struct Held {
    grid: usize,
    stop: Stop,
}

impl Held {
    /// A dependency violation that follows the read of unwritten bytes is the cause of that read.
    fn join(held: Option<Self>, stop: Stop) -> Stop {
        match (held, stop) {
            (Some(Self { stop: Stop::Trap(first), .. }), Stop::Trap(then))
                if then.rule == Rule::Dependency =>
            {
                let what = format!("{}; the other access: {}", then.what, then.place);
                Stop::Trap(Box::new(Trap { place: first.place, what, ..*then }))
            }
            (_, stop) => stop,
        }
    }
}

/// Makes progress possible when every warp waits: completes a copy first, then releases lanes that wait only for convergence.
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
    // `mbarrier.try_wait` may time out. That helps once: if nothing new has happened, the same waits would only repeat.
    let happened = world.events + residents.iter().map(|r| r.cta.events).sum::<u64>();
    if world.hurried.replace(happened) != Some(happened) {
        for warp in residents.iter_mut().flat_map(|r| &mut r.warps) {
            any |= warp.hurry();
        }
    }
    Ok(any)
}
