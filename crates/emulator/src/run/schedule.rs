//! The seeded scheduler: picks warps until every CTA has ended or no warp can run.

use std::ops::Range;
use std::sync::atomic::Ordering;

use numerics::tensor_core::Model;

use crate::api::observe::Observer;
use crate::api::trap::{Fault, OtherAccess, Rule, Stop, Trap};
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

/// Runs the grids of a stage; returns what they executed.
pub(crate) fn run<O: Observer>(
    launches: &[InStream<'_>],
    stage: &mut Stage,
    world: &mut World,
    options: &Options,
    observer: &mut O,
) -> Result<Counts, Stop> {
    let grids = stage.grids.clone();
    let livelock = if world.apart.is_some() { Livelock::of_cluster() } else { Livelock::default() };
    let mut run = Run {
        launches,
        few: launches.iter().map(|l| !l.cooperative && l.kernel.takes_work).collect(),
        next: grids.start,
        end: grids.end,
        stage,
        world,
        options,
        observer,
        residents: Vec::new(),
        counts: Counts::default(),
        in_progress: 0,
        order: chance(options.seed, 0),
        held: None,
        livelock,
    };
    loop {
        if run.world.apart.as_ref().is_some_and(|apart| apart.stops(run.counts.warp_instructions)) {
            return Err(Stop::Launch("the cluster cannot run apart from the others".to_owned()));
        }
        run.admit();
        if run.residents.is_empty() {
            return run.held.map_or(Ok(run.counts), |h| Err(h.stop));
        }
        let mut ran = false;
        let count = run.residents.len();
        for turn in 0..count {
            ran |= run.give_turn(turn, count)?;
        }
        run.check_limits()?;
        ran |= run.retire()?;
        if !run.residents.is_empty()
            && let Some(apart) = &mut run.world.apart
        {
            apart.takes_turns();
        }
        run.resolve(ran)?;
    }
}

/// A run of the grids of a stage.
///
/// One pass of its loop admits CTAs, gives each resident CTA a turn, retires the CTAs that have ended, and, if nothing ran, finds out
/// what may still change. A pass that does none of these is the last: every path out of [`Run::resolve`] has released a warp,
/// completed a copy, ended waits that may time out (once for each state of the events), or returns the stop.
struct Run<'r, 'i, O> {
    /// Indexed by grid.
    launches: &'r [InStream<'i>],
    /// Kernels that request the work of CTAs that have not begun (`clusterlaunchcontrol`); indexed by grid.
    few: Vec<bool>,
    stage: &'r mut Stage,
    world: &'r mut World,
    options: &'r Options,
    observer: &'r mut O,
    /// CTAs of a cluster stand side by side, in the order of their ranks.
    residents: Vec<Resident>,
    /// The grid of the next CTA to begin, up to `end`.
    next: usize,
    end: usize,
    counts: Counts,
    /// The warp instructions that the launch's progress contains.
    in_progress: u64,
    /// Chooses the next CTA.
    order: Random,
    /// A read of unwritten bytes by a grid that should have waited for the grid that writes them.
    held: Option<Held>,
    livelock: Livelock,
}

impl<O: Observer> Run<'_, '_, O> {
    /// Makes CTAs resident, cluster by cluster in the order of the grids, while there is room.
    fn admit(&mut self) {
        while self.next < self.end && self.held.is_none() {
            let next = self.next;
            if self.residents.len() >= RESIDENT && !self.launches[next].cooperative {
                break;
            }
            if self.world.stream.grids[next].begun == self.world.stream.grids[next].until {
                self.next += 1;
                continue;
            }
            let beside = || self.residents.iter().filter(|r| r.cta.grid == next).count();
            if self.few[next] && beside() >= FEW_RESIDENT {
                break;
            }
            if self.world.stream.grids[next].begun == 0 {
                match self.begin(next) {
                    Begins::Now => {}
                    Begins::Later => break,
                    Begins::OnAllCores => continue,
                }
            }
            self.add_cluster(next);
        }
    }

    /// Begins a grid, if it may begin.
    fn begin(&mut self, grid: usize) -> Begins {
        // Under a random schedule a grid may begin later than it could.
        let late = self.options.seed != 0 && grid > 0 && !self.residents.is_empty();
        if !self.world.stream.may_begin(grid) || late && self.order.below(2) == 0 {
            return Begins::Later;
        }
        if self.world.stream.begin(grid) {
            self.world.races.forget();
        }
        if self.residents.is_empty() {
            self.order = chance(self.options.seed, grid as u64);
            let own = self.stage.own(grid);
            if !O::WATCHES
                && let Some(all) = cores::run_grid(self.launches, grid, own, self.world, self.options)
            {
                self.counts.warp_instructions += all;
                return Begins::OnAllCores;
            }
        }
        Begins::Now
    }

    /// Makes the next cluster of a grid resident.
    fn add_cluster(&mut self, grid: usize) {
        let launch = &self.launches[grid];
        let shape = self.world.stream.grids[grid].cluster;
        let mut together = Together::for_cluster(launch, shape, self.options);
        for _ in 0..together.member.size() {
            let Stage { own, grids, spares, .. } = &mut *self.stage;
            let globals = &own[grid - grids.start].globals;
            let both = (&together, spares);
            self.residents.push(resident(launch, globals, grid, self.world, self.options, both));
            self.world.changed();
            self.world.stream.grids[grid].begun += 1;
            together.advance();
        }
    }

    /// The index of the CTA that has a turn of a pass over `count` CTAs and that of its cluster's first; `None` if it has none.
    fn choose(&mut self, turn: usize, count: usize) -> Option<(usize, usize)> {
        let at = if self.options.seed == 0 { turn } else { self.order.below(count) };
        let member = &self.residents[at].cta.member;
        let (first, size) = (at - member.rank as usize, member.size() as usize);
        if self.held.as_ref().is_some_and(|h| self.residents[at].cta.grid >= h.grid) {
            return None;
        }
        if self.options.seed == 0 {
            return Some((at, first));
        }
        // A cluster that cannot make progress has no turn, so its random sequence does not depend on how long others take.
        let acts =
            |r: &Resident| !r.cta.pending.is_empty() || r.warps.iter().any(|w| w.can_run(&r.cta, self.world));
        if !self.residents[first..first + size].iter().any(acts) {
            return None;
        }
        std::mem::swap(&mut self.world.random, &mut self.residents[first].random);
        let at = first + if size > 1 { self.world.random.below(size) } else { 0 };
        Some((at, first))
    }

    /// Gives one CTA its turn; returns whether anything happened.
    fn give_turn(&mut self, turn: usize, count: usize) -> Result<bool, Stop> {
        let Some((at, first)) = self.choose(turn, count) else { return Ok(false) };
        let ran = self.run_cta(at)?;
        if self.options.seed != 0 {
            std::mem::swap(&mut self.world.random, &mut self.residents[first].random);
        }
        Ok(ran)
    }

    /// Runs the warps of a CTA for some rounds, then completes one of its copies if it is time; returns whether anything happened.
    fn run_cta(&mut self, at: usize) -> Result<bool, Stop> {
        let (launches, options) = (self.launches, self.options);
        let Some((Resident { cta, warps, copies_wait, .. }, mut peers)) =
            cluster::split(&mut self.residents, at)
        else {
            return Ok(false);
        };
        let world = &mut *self.world;
        self.stage.enter(world, cta.grid);
        let kernel = launches[cta.grid].kernel;
        let mut ran = false;
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
                let before = self.counts.warp_instructions;
                let steps = &mut self.counts.warp_instructions;
                let of_cta = (&mut *cta, peers.reborrow());
                let turn = warp.run(kernel, of_cta, world, quantum, steps, self.observer);
                if !world.printed.is_empty() {
                    world.printed.drain(..).for_each(|text| self.observer.printed(&text));
                }
                match turn {
                    Ok(Turn::Waiting) => {}
                    Ok(Turn::Ready | Turn::Ended) => went_on = true,
                    Err(stopped) => {
                        let early =
                            stopped.fault.rule == Rule::Uninitialised && world.in_front(cta, warp.index);
                        let stop = Held::join(self.held.take(), trap(launches, *stopped, cta, warp.index));
                        if !early {
                            return Err(stop);
                        }
                        self.held = Some(Held { grid: cta.grid, stop });
                        ran = true;
                        break;
                    }
                }
                world.clock += self.counts.warp_instructions - before;
                if let Some(fault) = cta.races.as_deref().and_then(Races::exhausted) {
                    return Err(trap(launches, *Stopped::at(fault, warp.next_row()), cta, warp.index));
                }
            }
            ran |= went_on;
            stuck &= !went_on;
            if !went_on || self.held.as_ref().is_some_and(|h| cta.grid >= h.grid) {
                break;
            }
        }
        // Under a random schedule copies complete at any time; otherwise as late as possible, but they do not wait forever for a
        // polling thread.
        let copy = match (cta.pending.len(), options.seed) {
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
        if let Some(copy) = copy {
            *copies_wait = 0;
            ran = true;
            world.changed();
            cta.complete_nth(world, copy).map_err(|f| trap(launches, *Stopped::outside(f), cta, 0))?;
        }
        Ok(ran)
    }

    /// Stops a run that was cancelled or has used up what it may use.
    fn check_limits(&mut self) -> Result<(), Stop> {
        let (options, executed) = (self.options, self.counts.warp_instructions);
        if options.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(Stop::Launch("the launch was cancelled".to_owned()));
        }
        if executed > options.fuel {
            return Err(out_of_fuel(self.launches, &self.residents, &self.world.stream, options.fuel));
        }
        if let Some(progress) = &options.progress {
            let more = executed - self.in_progress;
            self.in_progress = executed;
            if progress.advance(more) {
                return Err(out_of_time(self.launches, &self.residents, &self.world.stream, progress));
            }
        }
        Ok(())
    }

    /// Ends CTAs whose warps have all exited, and removes clusters that have ended; returns whether there were any.
    fn retire(&mut self) -> Result<bool, Stop> {
        let (launches, world) = (self.launches, &mut *self.world);
        let has_exited = |r: &&mut Resident| !r.ended && r.warps.iter().all(|w| w.live == 0);
        for resident in self.residents.iter_mut().filter(has_exited) {
            // Effects of a CTA that are still pending end with it.
            resident.ended = true;
            world.changed();
            let cta = &mut resident.cta;
            let left = cta.pending.iter().find(|p| p.outlives());
            if let Some(left) = left {
                let what =
                    format!("the CTA ends while the copy of line {} still uses its shared memory", left.line);
                let stopped = Stopped::outside(Fault::new(Rule::Race, what));
                return Err(trap(launches, *stopped, cta, left.warp));
            }
            cta.complete(world, |p| p.lanes).map_err(|f| trap(launches, *Stopped::outside(f), cta, 0))?;
            if let Some(fault) = cta.races.as_deref().and_then(Races::used_after_end) {
                return Err(trap(launches, *Stopped::outside(fault), cta, 0));
            }
            world.stream.end(cta.grid, cta.released);
            world.events += 1;
            world.ends += u64::from(world.stream.overlaps());
        }
        let before = self.residents.len();
        remove_ended(&mut self.residents, &mut self.stage.spares);
        if let Some(h) = self.held.take_if(|h| self.world.stream.alone(h.grid)) {
            return Err(h.stop);
        }
        Ok(self.residents.len() != before)
    }

    /// Whether a CTA can still do something by itself. Under a random schedule a pass may have skipped the warps that can run.
    fn can_run(&self, r: &Resident) -> bool {
        self.held.as_ref().is_none_or(|h| r.cta.grid < h.grid)
            && (r.warps.iter().any(|w| w.can_run(&r.cta, self.world))
                || self.options.seed != 0 && !r.cta.pending.is_empty())
    }

    /// Makes progress possible after a pass in which nothing ran, or that only repeated an earlier state; stops the run if nothing
    /// may still change.
    fn resolve(&mut self, ran: bool) -> Result<(), Stop> {
        let executed = self.counts.warp_instructions;
        let repeats = self.livelock.passed(executed, &mut self.residents, self.world);
        let goes_on = !repeats && (ran || self.residents.iter().any(|r| self.can_run(r)));
        let so_far = (!goes_on, executed);
        if directed::release(self.world.directed.as_mut(), &mut self.residents, so_far) || goes_on {
            return Ok(());
        }
        if self.world.apart.is_some() && !self.residents.iter().any(waits_for_company) {
            return Err(Stop::Launch("no warp can proceed unless another cluster does".to_owned()));
        }
        let unblocked = unblock(&mut self.residents, self.world)
            .map_err(|(f, n)| trap(self.launches, *Stopped::outside(f), &self.residents[n].cta, 0))?;
        self.world.changed();
        // The others may be waiting for a grid that could have begun but has not.
        if unblocked || self.held.is_none() && self.next_may_begin() {
            return Ok(());
        }
        let held = self.held.take();
        Err(held.map_or_else(|| deadlock(self.launches, &self.residents, &self.world.stream), |h| h.stop))
    }

    /// Whether the next grid could begin but has not.
    fn next_may_begin(&self) -> bool {
        self.residents.len() < RESIDENT
            && self.next < self.end
            && self.world.stream.grids[self.next].begun == 0
            && self.world.stream.may_begin(self.next)
    }
}

/// Whether a grid begins.
enum Begins {
    Now,
    /// Not before others have ended, or have had more turns.
    Later,
    /// It has begun, and several cores have run some of its clusters.
    OnAllCores,
}

/// The stop of a launch whose warp has stopped.
fn trap(launches: &[InStream<'_>], stopped: Stopped, cta: &Cta, warp: u32) -> Stop {
    let place = place(launches, cta.grid, stopped.pc, cta.id, warp, stopped.fault.lane);
    if let Some(why) = stopped.refused {
        return Stop::Unsupported(*why);
    }
    let what = with_cause(launches, cta.grid, stopped.fault.what.clone(), stopped.fault.cause);
    let what = what + &called_from(launches, cta.grid, &stopped.calls);
    Stop::Trap(Box::new(stopped.fault.into_trap(launches, what, place)))
}

/// Whether some lanes of a CTA wait only for others of their warp, or for a copy.
fn waits_for_company(resident: &Resident) -> bool {
    let company = |warp: &Warp| warp.lanes.fragments.iter().any(|f| matches!(f.wait, Wait::Company(_)));
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
                // The place is that of the read, and the other access is the one that was found.
                let Trap { rule, what, place, other } = *then;
                let other = other
                    .map(|other| Box::new(OtherAccess { wrote: !other.wrote, place: Some(place), ..*other }));
                Stop::Trap(Box::new(Trap { rule, what, place: first.place, other }))
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
