//! A warp: its fragments of diverged lanes, and where they reconverge.
//!
//! Lanes that diverge at a branch wait for each other at its reconvergence point, but make independent progress: if all other
//! fragments of the warp wait for something, those that wait only to reconverge continue.

mod calls;
mod deferred;
mod divergence;
mod reconverge;
mod turn;

use divergence::Divergence;

use crate::api::trap::{Fault, Unsupported};
use crate::run::cta::Cta;
use crate::run::frames::Stack;
use crate::run::machine::{Registers, World};
use crate::run::turns::Turns;
use crate::run::watched::Watch;

/// Strong accesses by fragments of a warp, without divergence or reconvergence, after which fragments that wait to reconverge
/// continue alone.
const PATIENCE: u32 = 64;

/// The reason why a fragment waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Wait {
    #[default]
    Nothing,
    /// A barrier of the CTA: its number, and the generation that must complete.
    Barrier { id: u32, generation: u32 },
    /// An event: the event counts of CTA, cluster and grids at the last attempt.
    Event { cta: u64, cluster: u64, grids: u64 },
    /// Nothing; a wait that may time out does so now.
    Impatient,
    /// A directed schedule to let it go; the number orders those that are held.
    Held(u64),
    /// Nothing: a directed schedule has let it make its next access.
    Released,
    /// The other lanes of this group, at the reconvergence point.
    Company(u32),
    /// These lanes to reach its row: all live lanes of the warp if it is `.aligned`.
    Converge { wanted: u32, aligned: bool },
}

/// Lanes that execute together.
#[derive(Clone, Default)]
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
    /// Whether a directed schedule has parted its lanes from others: it does not wait to reconverge with them.
    apart: bool,
}

/// The state of a warp.
pub(crate) struct Warp {
    pub(crate) index: u32,
    pub(crate) registers: Registers,
    pub(crate) live: u32,
    pub(crate) lanes: Divergence,
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
    pub(crate) fn at(fault: Fault, pc: u32) -> Box<Self> {
        Box::new(Self { fault, pc, calls: Vec::new(), refused: None })
    }

    /// A fault that no row caused.
    pub(crate) fn outside(fault: Fault) -> Box<Self> {
        Self::at(fault, u32::MAX)
    }
}

impl Warp {
    pub(crate) fn new(index: u32, live: u32, registers: Registers) -> Self {
        let first = Fragment { mask: live, ..Fragment::default() };
        Self {
            index,
            registers,
            live,
            lanes: Divergence::new(first),
            current: 0,
            spent: None,
            alone: 0,
            watch: None,
        }
    }

    /// Makes a warp that has ended one of another CTA, with these registers.
    pub(crate) fn again(&mut self, live: u32) {
        self.lanes.again(Fragment { mask: live, ..Fragment::default() });
        (self.live, self.current, self.spent, self.alone, self.watch) = (live, 0, None, 0, None);
    }

    /// A row at which it stands.
    pub(crate) fn next_row(&self) -> u32 {
        self.lanes.fragments.first().map_or(u32::MAX, |fragment| fragment.pc)
    }

    /// Whether a fragment can run.
    pub(crate) fn can_run(&self, cta: &Cta, world: &World) -> bool {
        self.lanes.fragments.iter().any(|f| ready(f, cta, world))
    }

    /// Ends waits that may time out; returns whether there were any.
    pub(crate) fn hurry(&mut self) -> bool {
        let mut any = false;
        for fragment in self.lanes.fragments.iter_mut().filter(|f| matches!(f.wait, Wait::Event { .. })) {
            fragment.wait = Wait::Impatient;
            any = true;
        }
        any
    }

    /// The fragment that has the next turn: the first from the current one that can run, or the first in the order of a directed
    /// schedule.
    fn choose(&self, cta: &Cta, world: &World, turns: Option<Turns>) -> Option<usize> {
        let fragments = &self.lanes.fragments;
        let n = fragments.len();
        if let [only] = fragments.as_slice() {
            return ready(only, cta, world).then_some(0);
        }
        let mut in_order =
            (0..n).map(|i| (self.current + i) % n).filter(|i| ready(&fragments[*i], cta, world));
        match turns {
            None => in_order.next(),
            // A fragment that has just used up its turn may wait for another one.
            Some(turns) => in_order.min_by_key(|i| (Some(*i) == self.spent, turns.place(fragments[*i].mask))),
        }
    }
}

/// Whether what a fragment waits for has come.
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
