//! One turn of a warp: a fragment executes rows until it waits, ends, or has used up its turn.

use super::calls::{Returned, call, returned};
use super::divergence::{Arrival, Divergence};
use super::{Stopped, Turn, Wait, Warp};
use crate::api::observe::{Executed, Observer};
use crate::api::trap::{Fault, Rule};
use crate::front::flow::NEVER;
use crate::front::program::{Kernel, Row, UNGUARDED};
use crate::isa::operations::Block;
use crate::memory::spans::{KEPT, KeptReach};
use crate::rules::undefined;
use crate::run::cluster::Peers;
use crate::run::cta::Cta;
use crate::run::directed::{self, Before};
use crate::run::frames;
use crate::run::livelock;
use crate::run::machine::{Flow, Machine, World};
use crate::run::parties::divergent;
use crate::run::watched::Watch;

/// The end of a turn.
struct End {
    /// The row at which the fragment stands.
    pc: u32,
    wait: Wait,
    /// The next turn is that of the next fragment.
    yields: bool,
    /// The fragment could have executed more rows.
    spent: bool,
    /// Other fragments may reconverge.
    regroups: bool,
}

impl End {
    #[inline]
    fn at(pc: u32, wait: Wait) -> Self {
        Self { pc, wait, yields: false, spent: false, regroups: false }
    }
}

impl Warp {
    /// Runs one fragment for up to `quantum` rows and adds them to `steps`.
    ///
    /// A turn is careful if registers have undefined bits, or if memory is watched. Other turns do not pay for this: a row that makes bits
    /// undefined ends the turn.
    pub(crate) fn run<O: Observer>(
        &mut self,
        kernel: &Kernel,
        cta: (&mut Cta, Peers<'_>),
        world: &mut World,
        quantum: u32,
        steps: &mut u64,
        observer: &mut O,
    ) -> Result<Turn, Box<Stopped>> {
        let careful = self.registers.holds_undefined() || world.watching || world.watchpoints.is_some();
        let turn = if careful {
            self.turn::<O, true>(kernel, cta, world, quantum, steps, observer)
        } else {
            self.turn::<O, false>(kernel, cta, world, quantum, steps, observer)
        };
        turn.map_err(|stopped| self.with_calls(stopped))
    }

    /// Adds the calls that the fragment of this turn is in.
    #[cold]
    fn with_calls(&self, mut stopped: Box<Stopped>) -> Box<Stopped> {
        let fragment = self.lanes.fragments.get(self.current);
        stopped.calls = fragment.map_or_else(Vec::new, |fragment| {
            frames::calls(&fragment.stack, stopped.fault.lane.unwrap_or(fragment.mask.trailing_zeros()))
        });
        stopped
    }

    fn turn<O: Observer, const CAREFUL: bool>(
        &mut self,
        kernel: &Kernel,
        (cta, peers): (&mut Cta, Peers<'_>),
        world: &mut World,
        quantum: u32,
        steps: &mut u64,
        observer: &mut O,
    ) -> Result<Turn, Box<Stopped>> {
        let (n, live) = (self.lanes.fragments.len(), self.live);
        let lanes_take_turns = world.directed.as_ref().and_then(|directed| directed.turns_of_lanes());
        let Some(at) = self.choose(cta, world, lanes_take_turns) else { return Ok(Turn::Waiting) };
        self.current = at;
        self.spent = None;
        let this = &mut self.lanes.fragments[at];
        let before = std::mem::replace(&mut this.wait, Wait::Nothing);
        let (began, pc) = (this.mask, this.pc);
        let aligned = self.lanes_at_aligned();
        let mut m = Machine {
            mask: 0,
            fragment: began,
            live: self.live,
            warp: self.index,
            r: &mut self.registers,
            cta,
            peers,
            world,
            kernel,
            impatient: before == Wait::Impatient,
            strong_rows: 0,
            strong: None,
            fault: None,
            pc,
            lane_remarks: Vec::new(),
            loaded: None,
            unmarks: None,
            reaches: [KeptReach::NONE; KEPT],
        };
        m.world.read = None;
        let mut watch = if CAREFUL && m.world.watching { self.watch.take() } else { None };
        let (end, regrouped) = {
            let careful = CAREFUL && m.r.holds_undefined();
            let lanes = &mut self.lanes;
            let by_lane = lanes_take_turns.is_some();
            let stay_apart = m.world.directed.as_ref().is_some_and(|directed| directed.lanes_stay_apart());
            let released = before == Wait::Released;
            let mut rows = Rows {
                lanes,
                m: &mut m,
                at,
                end: End::at(pc, Wait::Nothing),
                regrouped: false,
                aligned,
                released,
                careful,
                by_lane,
                stay_apart,
            };
            let mut left = quantum;
            let ended = rows.execute::<O, CAREFUL>(&mut left, watch.as_deref_mut(), observer);
            rows.settle();
            *steps += u64::from(quantum - left) + rows.lanes.deferred.take_arrivals();
            let end = ended.map(|()| (rows.end, rows.regrouped));
            self.live = m.live;
            end?
        };
        let strong_rows = m.strong_rows;
        let read = m.world.read;
        if end.yields {
            self.current = at + 1;
        }
        if end.spent {
            self.spent = Some(at);
        }
        let this = &mut self.lanes.fragments[at];
        this.pc = end.pc;
        this.wait = end.wait;
        this.read = read.or(this.read.filter(|_| watch.is_some()));
        if this.mask == 0 {
            self.lanes.fragments.swap_remove(at);
        }
        if regrouped {
            self.alone = 0;
        }
        // New fragments may balance one that has ended, so the live lanes are compared, too.
        let changed = self.lanes.fragments.len() != n || self.live != live;
        if end.regroups || matches!(end.wait, Wait::Company(_)) || changed {
            self.alone = 0;
            self.meet();
        }
        if let Wait::Converge { wanted, .. } = end.wait {
            self.converge(end.pc, wanted);
        }
        if self.live != live {
            self.converge_without_exited();
        }
        if self.lanes.fragments.len() > 1 {
            self.progress(strong_rows)?;
        }
        if let Some(mut watch) = watch {
            watch.end(began, &self.lanes.fragments, &self.registers);
            self.watch = Some(watch);
        }
        Ok(if self.live == 0 { Turn::Ended } else { Turn::Ready })
    }
}

/// A fragment that executes rows.
///
/// `m.fragment` is its mask while it runs, and equals that of `lanes.fragments[at]` between rows, unless branches are deferred.
struct Rows<'t, 'm> {
    lanes: &'t mut Divergence,
    m: &'t mut Machine<'m>,
    /// Its place among the fragments.
    at: usize,
    /// How the turn has ended.
    end: End,
    /// Whether lanes have parted or met in deferred branches.
    regrouped: bool,
    /// Lanes that wait at an aligned instruction for the rest of the warp.
    aligned: u32,
    /// Whether a directed schedule has let it execute its next row.
    released: bool,
    /// Whether the turn goes on after a row that makes bits undefined.
    careful: bool,
    /// Whether a directed schedule gives lanes turns.
    by_lane: bool,
    /// Whether lanes that part in such a schedule do not wait to reconverge.
    stay_apart: bool,
}

impl Rows<'_, '_> {
    /// Executes rows, at most `left`.
    #[inline]
    fn execute<O: Observer, const CAREFUL: bool>(
        &mut self,
        left: &mut u32,
        mut watch: Option<&mut Watch>,
        observer: &mut O,
    ) -> Result<(), Box<Stopped>> {
        let kernel = self.m.kernel;
        let mut pc = self.m.pc;
        // The row at which the state may be one that the fragment was in before.
        let mut again = NEVER;
        if CAREFUL && let Some(watch) = &mut watch {
            again = watch.begin(self.m.fragment).unwrap_or(NEVER);
        }
        let mut first = true;
        // Whether nobody asks what happens between rows that only compute.
        let plain = self.aligned == 0 && self.m.world.directed.is_none() && !self.m.world.check_widths;
        // Whether both sides of a branch may run in this turn. Other schedules also try turns of other warps between them. A turn is divided in the
        // same way whether memory is recorded or not, so that a replay finds what the first run has found.
        let defers = !O::WATCHES && plain && watch.is_none() && self.m.world.seed == 0 && !self.m.impatient;
        // Lanes that do something while others of their warp are at an aligned instruction.
        let mut acted = 0;
        loop {
            if CAREFUL
                && pc == again
                && let Some(watch) = &mut watch
                && watch.compare(self.m.fragment, &self.lanes.fragments[self.at].stack, self.m.r, !first)
            {
                again = NEVER;
            }
            if !CAREFUL && !O::WATCHES && plain {
                let done = self.block(pc, *left);
                (pc, *left) = (pc + done, *left - done);
                if done > 0 {
                    continue;
                }
            }
            // Every path ends in `exit`, so the row exists.
            let Some(row) = kernel.rows.get(pc as usize).filter(|_| *left > 0) else {
                // A spinning fragment must not starve the others.
                self.end = End { yields: true, spent: true, ..End::at(pc, Wait::Nothing) };
                return Ok(());
            };
            *left -= 1;
            first = false;
            // A violation that the launch survives is recorded with its row.
            self.m.pc = pc;
            let mask = if row.guard == UNGUARDED {
                self.m.fragment
            } else {
                if CAREFUL && let Err(fault) = undefined::of_guard(self.m, row, self.m.fragment) {
                    return Err(Stopped::at(fault, pc));
                }
                self.m.fragment & (self.m.r.p[row.guard as usize] ^ row.negate)
            };
            if mask == 0 {
                pc += 1;
                continue;
            }
            self.m.mask = mask;
            if self.m.world.directed.is_some() && !std::mem::take(&mut self.released) {
                if let Some(held) = self.hold(pc) {
                    self.end = End::at(pc, held);
                    return Ok(());
                }
                if self.m.mask == 0 {
                    pc += 1;
                    continue;
                }
            }
            let mask = self.m.mask;
            let flow = self.run_row::<O, CAREFUL>(row, pc, observer);
            if self.aligned != 0 {
                match flow {
                    Flow::Next | Flow::Undefined if !kernel.is_pure(pc) => acted |= mask,
                    // Lanes that only leave are not waited for, as CUDA documents for `__syncthreads`; PTX says that all threads of
                    // the warp execute the instruction. Lanes that go on to do something else are no early return: which of the two
                    // comes first is open, and with it what the barrier orders.
                    Flow::Exit if acted & mask != 0 => {
                        let at = self.lanes.row_of(self.aligned);
                        return Err(Stopped::at(divergent(self.aligned, self.m.live), at));
                    }
                    _ => {}
                }
            }
            match flow {
                Flow::Next => pc += 1,
                Flow::Jump(target) => pc = target,
                Flow::Undefined => {
                    self.m.r.shadow().came_from(pc);
                    pc += 1;
                    // A turn that is careful only because it is watched ends like the others.
                    if !CAREFUL || !self.careful {
                        self.end = End::at(pc, Wait::Nothing);
                        return Ok(());
                    }
                }
                Flow::Join if self.goes_on(pc) => {
                    pc = self.lanes.deferred.arrive(&mut self.m.fragment);
                    self.regrouped = true;
                }
                // A place where other lanes meet: those of the deferred branches meet elsewhere.
                Flow::Join if !self.lanes.deferred.is_empty() && pc != self.lanes.deferred.meeting => pc += 1,
                Flow::Split { taken, target }
                    if defers
                        && self.m.strong_rows == 0
                        && let Some(next) =
                            self.lanes.deferred.part(&mut self.m.fragment, (pc, row.d), (taken, target)) =>
                {
                    pc = next;
                    self.regrouped = true;
                }
                flow => match self.after(flow, row, pc)? {
                    Some(to) => pc = to,
                    None => return Ok(()),
                },
            }
        }
    }

    /// Whether the lanes of a deferred branch meet at a row without an end of the turn. If they have made strong accesses, other warps may wait
    /// for what these did, a lock that was released for example, and have their turns first.
    #[inline]
    fn goes_on(&self, pc: u32) -> bool {
        pc == self.lanes.deferred.meeting && self.m.strong_rows == 0
    }

    /// Executes a row with the lanes of the machine's mask.
    #[inline(always)]
    fn run_row<O: Observer, const CAREFUL: bool>(&mut self, row: &Row, pc: u32, observer: &mut O) -> Flow {
        if O::WATCHES {
            observer.row(&Executed::new(self.m, pc));
        }
        let watched = if CAREFUL && self.m.world.watching { livelock::before(self.m, row, pc) } else { None };
        let flow = if CAREFUL { undefined::run_row(self.m, row) } else { (row.exec)(self.m, row) };
        if CAREFUL && let Some(before) = &watched {
            livelock::after(self.m, before);
        }
        if self.m.world.check_widths {
            crate::rules::widths::check(self.m, pc, flow);
        }
        flow
    }

    /// Executes rows from one on that only compute, at most `left`, if there are several; returns how many.
    #[inline(always)]
    fn block(&mut self, pc: u32, left: u32) -> u32 {
        let count = self.m.kernel.operations.run(pc).min(left);
        if count < 2 { 0 } else { self.run_block(pc as usize, count as usize) }
    }

    #[inline(never)]
    fn run_block(&mut self, first: usize, count: usize) -> u32 {
        let Kernel { operations, rows, .. } = self.m.kernel;
        let block = Block { r: self.m.r, operations, rows, first, count, fragment: self.m.fragment };
        self.m.world.path.run(block) as u32
    }

    /// Asks a directed schedule before a row: what the fragment waits for, if it holds all of it. If it holds some lanes, they become
    /// a fragment of their own at this row.
    fn hold(&mut self, pc: u32) -> Option<Wait> {
        match directed::before_row(self.m, pc) {
            Before::Run => None,
            Before::Hold(number) => Some(Wait::Held(number)),
            Before::Part(lanes) => {
                self.lanes.fragments[self.at].apart |= self.stay_apart;
                self.lanes.part(self.at, lanes, pc);
                self.m.fragment = lanes;
                self.m.mask &= lanes;
                None
            }
        }
    }

    /// Makes the fragments of deferred branches.
    #[inline]
    fn settle(&mut self) {
        if !self.lanes.deferred.is_empty() {
            self.lanes.settle(self.at, self.m.fragment);
        }
    }

    /// What follows a row that changes which lanes run together, or that waits.
    ///
    /// Returns the row that is next; `None` if the turn ends, as `end` says.
    fn after(&mut self, flow: Flow, row: &Row, pc: u32) -> Result<Option<u32>, Box<Stopped>> {
        self.settle();
        let Self { lanes, m, at, end, .. } = self;
        let (at, mask) = (*at, m.mask);
        let mut waits = |pc, wait| {
            *end = End::at(pc, wait);
            None
        };
        let next = match flow {
            Flow::Next | Flow::Undefined => Some(pc + 1),
            Flow::Jump(target) => Some(target),
            Flow::Split { taken, target } => {
                lanes.fragments[at].apart |= self.stay_apart;
                lanes.split(at, taken, target, row.d);
                if self.by_lane { waits(pc + 1, Wait::Nothing) } else { Some(pc + 1) }
            }
            Flow::Exit => {
                m.live &= !mask;
                m.world.changed();
                if m.cta.leave(mask.count_ones()) {
                    m.world.events += 1;
                }
                lanes.exit(at, mask);
                if lanes.fragments[at].mask == 0 { waits(pc + 1, Wait::Nothing) } else { Some(pc + 1) }
            }
            Flow::Retry => {
                let (cta, cluster) = (m.cta.events, m.cta.member.events());
                waits(pc, Wait::Event { cta, cluster, grids: m.world.ends })
            }
            Flow::Barrier(id) => {
                lanes.part(at, mask, pc + 1);
                // The generation of the arrival, which may have completed the barrier.
                waits(pc + 1, Wait::Barrier { id, generation: m.cta.arrived_in })
            }
            Flow::Yield => {
                *end = End { yields: true, ..End::at(pc + 1, Wait::Nothing) };
                None
            }
            Flow::Join => match lanes.arrive(at, pc) {
                Arrival::Waits(group) => waits(pc, Wait::Company(group)),
                Arrival::Elsewhere => Some(pc + 1),
                Arrival::Leaves => {
                    *end = End { regroups: true, ..End::at(pc + 1, Wait::Nothing) };
                    None
                }
            },
            Flow::Converge(wanted) => waits(pc, Wait::Converge { wanted, aligned: false }),
            Flow::Align => waits(pc, Wait::Converge { wanted: m.live, aligned: true }),
            Flow::Call => Some(call(lanes, m, row, at, pc)?),
            Flow::Return => match returned(lanes, m, at, pc) {
                Returned::Stays => Some(pc + 1),
                Returned::Leaves(to) => Some(to),
                Returned::Waits(to, group) => waits(to, Wait::Company(group)),
                Returned::Splits(to) => {
                    *end = End { regroups: true, ..End::at(to, Wait::Nothing) };
                    None
                }
            },
            Flow::Fault => {
                let fault = m
                    .fault
                    .take()
                    .unwrap_or_else(|| Fault::new(Rule::Explicit, "an instruction failed without a reason"));
                return Err(Stopped::at(fault, pc));
            }
        };
        self.m.fragment = self.lanes.fragments[at].mask;
        Ok(next)
    }
}
