//! A warp: its fragments of diverged lanes, and where they reconverge.
//!
//! Lanes that diverge at a branch wait for each other at its reconvergence point, but make independent progress: if all other
//! fragments of the warp wait for something, those that wait only to reconverge continue.

mod calls;
mod reconverge;

use calls::{Returned, call, open, returned};

use crate::api::observe::{Executed, Observer};
use crate::api::trap::{Fault, Judge, Unsupported};
use crate::front::flow::NEVER;
use crate::front::program::{Kernel, UNGUARDED};
use crate::rules::undefined;
use crate::run::cluster::Peers;
use crate::run::cta::Cta;
use crate::run::directed::{self, Before};
use crate::run::frames::{self, Stack};
use crate::run::livelock;
use crate::run::machine::{Flow, Machine, Registers, World};
use crate::run::parties::divergent;
use crate::run::watched::Watch;

/// Strong accesses by fragments of a warp, without divergence or reconvergence, after which fragments that wait to reconverge
/// continue alone.
const PATIENCE: u32 = 64;

/// The reason why a fragment waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Nothing,
    /// A barrier of the CTA: its number, and the generation that must complete.
    Barrier {
        id: u32,
        generation: u32,
    },
    /// An event: the event counts of CTA, cluster and grids at the last attempt.
    Event {
        cta: u64,
        cluster: u64,
        grids: u64,
    },
    /// Nothing; a wait that may time out does so now.
    Impatient,
    /// A directed schedule to let it go; the number orders those that are held.
    Held(u64),
    /// Nothing: a directed schedule has let it make its next access.
    Released,
    /// The other lanes of this group, at the reconvergence point.
    Company(u32),
    /// These lanes to reach its row: all live lanes of the warp if it is `.aligned`.
    Converge {
        wanted: u32,
        aligned: bool,
    },
}

/// Lanes that execute together.
#[derive(Clone)]
pub(crate) struct Fragment {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) wait: Wait,
    /// Groups of its function with which it must reconverge, innermost last.
    groups: Vec<u32>,
    /// The calls that it is in.
    pub(crate) stack: Stack,
    /// The last row that read memory in its last turn, if that was watched.
    pub(crate) read: Option<u32>,
}

/// Lanes that diverged at one branch; unused if `expected` is 0.
#[derive(Debug, Clone, Copy)]
struct Group {
    /// Row of the reconvergence point.
    pc: u32,
    /// Lanes still expected or arrived; lanes that exit are removed.
    expected: u32,
    arrived: u32,
    /// Whether its lanes return from a call, rather than from a branch of their function.
    returns: bool,
}

/// The state of a warp.
pub(crate) struct Warp {
    pub(crate) index: u32,
    pub(crate) registers: Registers,
    pub(crate) live: u32,
    pub(crate) fragments: Vec<Fragment>,
    groups: Vec<Group>,
    free_groups: Vec<u32>,
    current: usize,
    /// The fragment whose last turn ended because it had used all of it.
    spent: Option<usize>,
    /// Strong accesses made while lanes waited to reconverge, since the last divergence or reconvergence.
    alone: u32,
    /// The state to which it may come back, if that is watched.
    pub(crate) watch: Option<Box<Watch>>,
}

/// The outcome of a turn.
pub(crate) enum Turn {
    /// The warp can continue.
    Ready,
    /// Every fragment waits.
    Waiting,
    /// All lanes have exited.
    Ended,
}

/// A fault and the row at which a warp stopped.
pub(crate) struct Stopped {
    pub(crate) fault: Fault,
    pub(crate) pc: u32,
    /// The rows of the calls that it was in, the innermost first.
    pub(crate) calls: Vec<u32>,
    /// It calls a function that is not emulated.
    pub(crate) refused: Option<Box<Unsupported>>,
}

impl Stopped {
    /// A fault at a row.
    pub(crate) fn at(fault: Fault, pc: u32) -> Self {
        Self { fault, pc, calls: Vec::new(), refused: None }
    }

    /// A fault that no row caused.
    pub(crate) fn outside(fault: Fault) -> Self {
        Self::at(fault, u32::MAX)
    }
}

impl Warp {
    pub(crate) fn new(index: u32, live: u32, registers: Registers) -> Self {
        let first =
            Fragment { pc: 0, mask: live, wait: Wait::Nothing, groups: Vec::new(), stack: None, read: None };
        Self {
            index,
            registers,
            live,
            fragments: vec![first],
            groups: Vec::new(),
            free_groups: Vec::new(),
            current: 0,
            spent: None,
            alone: 0,
            watch: None,
        }
    }

    /// A row at which it stands.
    pub(crate) fn next_row(&self) -> u32 {
        self.fragments.first().map_or(u32::MAX, |fragment| fragment.pc)
    }

    /// Whether a fragment can run.
    pub(crate) fn can_run(&self, cta: &Cta, world: &World) -> bool {
        self.fragments.iter().any(|f| ready(f, cta, world))
    }

    /// Ends waits that may time out; returns whether there were any.
    pub(crate) fn hurry(&mut self) -> bool {
        let mut any = false;
        for fragment in self.fragments.iter_mut().filter(|f| matches!(f.wait, Wait::Event { .. })) {
            fragment.wait = Wait::Impatient;
            any = true;
        }
        any
    }

    /// Runs one fragment for up to `quantum` rows and adds them to `steps`.
    ///
    /// A turn is careful if registers have undefined bits, or if the launch continues after violations. Other turns do not pay for
    /// this: a row that makes bits undefined ends the turn.
    pub(crate) fn run<O: Observer>(
        &mut self,
        kernel: &Kernel,
        cta: (&mut Cta, Peers<'_>),
        world: &mut World,
        quantum: u32,
        steps: &mut u64,
        observer: &mut O,
    ) -> Result<Turn, Stopped> {
        let turn = if self.registers.holds_undefined() || world.judge == Judge::Values || world.watching {
            self.turn::<O, true>(kernel, cta, world, quantum, steps, observer)
        } else {
            self.turn::<O, false>(kernel, cta, world, quantum, steps, observer)
        };
        turn.map_err(|stopped| self.with_calls(stopped))
    }

    /// Adds the calls that the fragment of this turn is in.
    #[cold]
    fn with_calls(&self, stopped: Stopped) -> Stopped {
        let fragment = self.fragments.get(self.current);
        let calls = fragment.map_or_else(Vec::new, |fragment| {
            frames::calls(&fragment.stack, stopped.fault.lane.unwrap_or(fragment.mask.trailing_zeros()))
        });
        Stopped { calls, ..stopped }
    }

    fn turn<O: Observer, const CAREFUL: bool>(
        &mut self,
        kernel: &Kernel,
        (cta, peers): (&mut Cta, Peers<'_>),
        world: &mut World,
        quantum: u32,
        steps: &mut u64,
        observer: &mut O,
    ) -> Result<Turn, Stopped> {
        let (n, live) = (self.fragments.len(), self.live);
        let lanes_take_turns = world.directed.as_ref().and_then(|directed| directed.turns_of_lanes());
        let mut in_order =
            (0..n).map(|i| (self.current + i) % n).filter(|i| ready(&self.fragments[*i], cta, world));
        let chosen = match lanes_take_turns {
            None => in_order.next(),
            // A fragment that has just used up its turn may wait for another one.
            Some(turns) => {
                let place = |i: &usize| (Some(*i) == self.spent, turns.place(self.fragments[*i].mask));
                in_order.min_by_key(place)
            }
        };
        let Some(at) = chosen else { return Ok(Turn::Waiting) };
        self.current = at;
        self.spent = None;
        let impatient = self.fragments[at].wait == Wait::Impatient;
        let mut released = self.fragments[at].wait == Wait::Released;
        self.fragments[at].wait = Wait::Nothing;
        let (mut pc, mut fragment) = (self.fragments[at].pc, self.fragments[at].mask);
        let mut left = quantum;
        let careful = CAREFUL && (self.registers.holds_undefined() || world.judge == Judge::Values);
        let aligned = self.lanes_at_aligned();
        // Lanes that do something while others of their warp are at an aligned instruction.
        let mut acted = 0;
        let mut regroups = false;
        let mut m = Machine {
            mask: 0,
            fragment,
            live: self.live,
            warp: self.index,
            r: &mut self.registers,
            cta,
            peers,
            world,
            kernel,
            impatient,
            strong_rows: 0,
            strong: None,
            fault: None,
            pc,
            said: Vec::new(),
            loaded: None,
            unmarks: None,
        };
        let began = fragment;
        m.world.read = None;
        let mut again = NEVER;
        let mut watch = if CAREFUL && m.world.watching { self.watch.take() } else { None };
        if let Some(watch) = &mut watch {
            again = watch.begin(fragment).unwrap_or(NEVER);
        }
        let wait = loop {
            // Every path ends in `exit`, so the row exists.
            if CAREFUL
                && pc == again
                && let Some(watch) = &mut watch
                && watch.compare(fragment, &self.fragments[at].stack, m.r, left != quantum)
            {
                again = NEVER;
            }
            let Some(row) = kernel.rows.get(pc as usize).filter(|_| left > 0) else {
                // A spinning fragment must not starve the others.
                self.current = at + 1;
                self.spent = Some(at);
                break Wait::Nothing;
            };
            left -= 1;
            if CAREFUL {
                m.pc = pc;
            }
            let mask = if row.guard == UNGUARDED {
                fragment
            } else {
                if CAREFUL && let Err(fault) = undefined::of_guard(&mut m, row, fragment) {
                    *steps += u64::from(quantum - left);
                    return Err(Stopped::at(fault, pc));
                }
                fragment & (m.r.p[row.guard as usize] ^ row.negate)
            };
            if mask == 0 {
                pc += 1;
                continue;
            }
            m.mask = mask;
            if m.world.directed.is_some() && !std::mem::take(&mut released) {
                match directed::before_row(&mut m, pc) {
                    Before::Run => {}
                    Before::Hold(number) => break Wait::Held(number),
                    Before::Part(lanes) => {
                        let this = &mut self.fragments[at];
                        this.mask = lanes;
                        let rest = fragment & !lanes;
                        let other = Fragment { pc, mask: rest, wait: Wait::Nothing, ..this.clone() };
                        self.fragments.push(other);
                        fragment = lanes;
                        m.fragment = lanes;
                        m.mask &= lanes;
                        if m.mask == 0 {
                            pc += 1;
                            continue;
                        }
                    }
                }
            }
            let mask = m.mask;
            if O::WATCHES {
                observer.row(&Executed::new(&m, pc));
            }
            let watched = if CAREFUL && m.world.watching { livelock::before(&mut m, row, pc) } else { None };
            let flow = if CAREFUL { undefined::run_row(&mut m, row) } else { (row.exec)(&mut m, row) };
            if CAREFUL && let Some(before) = &watched {
                livelock::after(&mut m, before);
            }
            if cfg!(debug_assertions) {
                crate::rules::widths::check(&m, pc, flow);
            }
            if aligned != 0 {
                match flow {
                    Flow::Next | Flow::Undefined if !kernel.is_pure(pc) => acted |= mask,
                    // Lanes that only leave are not waited for, as CUDA documents for `__syncthreads`; PTX says that all threads of
                    // the warp execute the instruction. Lanes that go on to do something else are no early return: which of the two
                    // comes first is open, and with it what the barrier orders.
                    Flow::Exit if acted & mask != 0 => {
                        *steps += u64::from(quantum - left);
                        return Err(Stopped::at(divergent(aligned, m.live), self.row_of(aligned)));
                    }
                    _ => {}
                }
            }
            match flow {
                Flow::Next => pc += 1,
                Flow::Undefined => {
                    m.r.shadow().came_from(pc);
                    pc += 1;
                    // A turn that is careful only because it is watched ends like the others.
                    if !CAREFUL || !careful {
                        break Wait::Nothing;
                    }
                }
                Flow::Jump(target) => pc = target,
                Flow::Split { taken, target } => {
                    let rest = fragment & !taken;
                    let this = &mut self.fragments[at];
                    if row.d != NEVER {
                        let group = Group { pc: row.d, expected: fragment, arrived: 0, returns: false };
                        this.groups.push(open(&mut self.groups, &mut self.free_groups, group));
                    }
                    this.mask = rest;
                    let other = Fragment { pc: target, mask: taken, wait: Wait::Nothing, ..this.clone() };
                    self.fragments.push(other);
                    fragment = rest;
                    m.fragment = rest;
                    pc += 1;
                    if lanes_take_turns.is_some() {
                        break Wait::Nothing;
                    }
                }
                Flow::Exit => {
                    m.live &= !mask;
                    self.live = m.live;
                    m.world.changed();
                    if m.cta.leave(mask.count_ones()) {
                        m.world.events += 1;
                    }
                    for group in &mut self.groups {
                        group.expected &= !mask;
                        group.arrived &= !mask;
                    }
                    fragment &= !mask;
                    m.fragment = fragment;
                    self.fragments[at].mask = fragment;
                    pc += 1;
                    if fragment == 0 {
                        break Wait::Nothing;
                    }
                }
                Flow::Retry => {
                    let (cta, cluster) = (m.cta.events, m.cta.member.events());
                    break Wait::Event { cta, cluster, grids: m.world.ends };
                }
                Flow::Barrier(id) => {
                    pc += 1;
                    let rest = fragment & !mask;
                    let this = &mut self.fragments[at];
                    this.mask = mask;
                    if rest != 0 {
                        let other = Fragment { pc, mask: rest, wait: Wait::Nothing, ..this.clone() };
                        self.fragments.push(other);
                    }
                    // The generation of the arrival, which may have completed the barrier.
                    break Wait::Barrier { id, generation: m.cta.arrived_in };
                }
                Flow::Yield => {
                    pc += 1;
                    self.current = at + 1;
                    break Wait::Nothing;
                }
                Flow::Join => match self.fragments[at].groups.last() {
                    Some(g) if self.groups[*g as usize].pc == pc => {
                        self.groups[*g as usize].arrived |= fragment;
                        break Wait::Company(*g);
                    }
                    _ => pc += 1,
                },
                Flow::Converge(wanted) => break Wait::Converge { wanted, aligned: false },
                Flow::Align => break Wait::Converge { wanted: m.live, aligned: true },
                Flow::Call => {
                    let fault = match call(
                        (&mut self.fragments, &mut self.groups, &mut self.free_groups),
                        &mut m,
                        row,
                        at,
                        pc,
                    ) {
                        Ok(entry) => {
                            fragment = self.fragments[at].mask;
                            (m.fragment, pc) = (fragment, entry);
                            continue;
                        }
                        Err(stopped) => stopped,
                    };
                    *steps += u64::from(quantum - left);
                    return Err(fault);
                }
                Flow::Return => match returned(
                    (&mut self.fragments, &mut self.groups, &mut self.free_groups),
                    &mut m,
                    at,
                    pc,
                ) {
                    Returned::Stays => {
                        fragment = self.fragments[at].mask;
                        m.fragment = fragment;
                        pc += 1;
                    }
                    Returned::Leaves(to) => pc = to,
                    Returned::Waits(to, group) => {
                        pc = to;
                        break Wait::Company(group);
                    }
                    Returned::Splits(to) => {
                        pc = to;
                        regroups = true;
                        break Wait::Nothing;
                    }
                },
                Flow::Fault => {
                    let fault = m.fault.take().unwrap_or_else(|| {
                        Fault::new(crate::api::trap::Rule::Explicit, "an instruction failed without a reason")
                    });
                    *steps += u64::from(quantum - left);
                    return Err(Stopped::at(fault, pc));
                }
            }
        };
        *steps += u64::from(quantum - left);
        let strong_rows = m.strong_rows;
        let this = &mut self.fragments[at];
        this.pc = pc;
        this.wait = wait;
        this.read = world.read.or(this.read.filter(|_| watch.is_some()));
        if this.mask == 0 {
            self.fragments.swap_remove(at);
        }
        if regroups || matches!(wait, Wait::Company(_)) || self.fragments.len() != n {
            self.alone = 0;
            self.meet();
        }
        if let Wait::Converge { wanted, .. } = wait {
            self.converge(pc, wanted);
        }
        if self.live != live {
            // Exited lanes are no longer waited for.
            let waiting: Vec<(u32, u32)> = self
                .fragments
                .iter()
                .filter_map(|f| match f.wait {
                    Wait::Converge { wanted, .. } => Some((f.pc, wanted)),
                    _ => None,
                })
                .collect();
            for (pc, wanted) in waiting {
                self.converge(pc, wanted);
            }
        }
        if self.fragments.len() > 1 {
            self.progress(strong_rows)?;
        }
        if let Some(mut watch) = watch {
            watch.end(began, &self.fragments, &self.registers);
            self.watch = Some(watch);
        }
        Ok(if self.live == 0 { Turn::Ended } else { Turn::Ready })
    }
}

pub(crate) fn ready(fragment: &Fragment, cta: &Cta, world: &World) -> bool {
    match fragment.wait {
        Wait::Nothing | Wait::Impatient | Wait::Released => true,
        Wait::Barrier { id, generation } => cta.barriers[id as usize & 15].generation != generation,
        Wait::Event { cta: seen, cluster, grids } => {
            cta.events != seen || cta.member.events() != cluster || world.ends != grids
        }
        Wait::Company(_) | Wait::Converge { .. } | Wait::Held(_) => false,
    }
}
