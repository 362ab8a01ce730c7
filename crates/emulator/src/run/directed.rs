//! Directed schedules: the two sides of a conflict that one run recorded, in orders that another schedule need not show.
//!
//! The accesses of a conflict are known by row and by byte ([`Directed`]). What runs up to them as always:
//!
//! * Warps: each one is held at such an access until nothing else can run. Then one access is made, by the warp that was held
//!   first, or by the one that was held last, and its warp goes on to its next. So all warps read a counter before one stores it,
//!   and a reader passes a writer that it should have waited for.
//! * Lanes of one warp: those that are together at such a row part there. One lane, the lowest or the highest, runs on alone until
//!   it must wait, then the next one. At a branch, the side with that lane goes first. Lanes that have parted do not wait for each
//!   other where their branches or calls meet, only at instructions that synchronise lanes, because the other side of the conflict
//!   may lie behind that. As this may take as many times the instructions as a warp has lanes, a trial has a limit, after which
//!   another one lets them meet ([`Directed::lanes_meet`]).
//!
//! Both are schedules that PTX allows: threads make progress independently of each other, and no access is moved over another one
//! of its thread. A held warp is let go after [`PATIENCE`] instructions of others at the latest, because these may poll for what
//! it would store; and after [`MOST`] holds or partings the schedule is an ordinary one, so that a loop around a conflict costs no
//! more than that.

use std::collections::BTreeSet;

use crate::api::observe::Conflicts;
use crate::memory::window::SHARED_WINDOW;
use crate::run::machine::Machine;
use crate::run::resident::Resident;
use crate::run::stream::InStream;
use crate::run::turns::Turns;
use crate::run::warp::Wait;

/// Warp instructions of others after which a held warp continues.
const PATIENCE: u64 = 8192;

/// Warp instructions that lanes which do not meet may add: a fraction of a second.
pub(crate) const MOST_APART: u64 = 1 << 20;

/// The number of times that warps are held, or lanes part.
const MOST: u64 = 4096;

/// A directed schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directed {
    /// Who goes first.
    pub turns: Turns,
    /// The conflicts.
    pub conflicts: Conflicts,
    /// Whether lanes that have parted wait for each other where their branches and calls meet.
    pub lanes_meet: bool,
}

/// A directed schedule of one stream.
pub(crate) struct Direction {
    turns: Turns,
    lanes_meet: bool,
    /// By grid, the rows of its kernel at which warps are held or lanes part.
    rows: Vec<BTreeSet<u32>>,
    /// Generic addresses of bytes.
    bytes: Vec<u64>,
    /// The number of times that a warp was held, or that lanes have parted.
    count: u64,
    /// The instructions of the stream when a warp was last let go.
    released: u64,
}

/// What happens before a row.
pub(crate) enum Before {
    Run,
    /// The fragment is held, with its number.
    Hold(u64),
    /// These lanes run on, and the others of the fragment wait for their turn.
    Part(u32),
}

impl Direction {
    /// In which order the lanes of a warp take turns, if they do.
    pub(crate) fn turns_of_lanes(&self) -> Option<Turns> {
        Some(self.turns).filter(|turns| turns.are_of_lanes())
    }

    /// Whether lanes that part, at a conflict or at a branch, do not wait to reconverge.
    pub(crate) fn lanes_stay_apart(&self) -> bool {
        self.turns.are_of_lanes() && !self.lanes_meet
    }

    pub(crate) fn new(directed: &Directed, launches: &[InStream<'_>]) -> Self {
        let Directed { turns, conflicts, lanes_meet } = directed;
        let rows = if turns.are_of_lanes() { &conflicts.lane_rows } else { &conflicts.warp_rows };
        let of_kernel = |launch: &InStream<'_>| {
            let own = rows.iter().filter(|(kernel, _)| *kernel == launch.kernel.name);
            own.map(|(_, row)| *row).collect()
        };
        let bytes = if turns.are_of_lanes() { Vec::new() } else { conflicts.bytes.iter().copied().collect() };
        Self {
            turns: *turns,
            lanes_meet: *lanes_meet,
            rows: launches.iter().map(of_kernel).collect(),
            bytes,
            count: 0,
            released: 0,
        }
    }
}

/// The generic address of an address in any state space: those of shared memory are below 4 GiB, and no global one is.
fn generic(address: u64) -> u64 {
    if address < 1 << 32 { SHARED_WINDOW + address } else { address }
}

/// What a directed schedule does before a fragment runs a row.
pub(crate) fn before_row(m: &mut Machine<'_>, pc: u32) -> Before {
    let Some(direction) = &m.world.directed else { return Before::Run };
    if direction.count >= MOST {
        return Before::Run;
    }
    let at_row = direction.rows.get(m.cta.grid).is_some_and(|rows| rows.contains(&pc));
    let before = if direction.turns.are_of_lanes() {
        if !at_row || m.fragment.count_ones() < 2 {
            return Before::Run;
        }
        Before::Part(match direction.turns {
            Turns::HighestLaneFirst => 1 << (31 - m.fragment.leading_zeros()),
            _ => m.fragment & m.fragment.wrapping_neg(),
        })
    } else {
        if !at_row && !touches(m, pc, &direction.bytes) {
            return Before::Run;
        }
        Before::Hold(direction.count)
    };
    if let Some(direction) = &mut m.world.directed {
        direction.count += 1;
    }
    before
}

/// Whether a row uses an address within a few bytes of one of these.
fn touches(m: &Machine<'_>, pc: u32, bytes: &[u64]) -> bool {
    /// The widest access of a lane.
    const WIDEST: u64 = 32;
    let Some(origin) = m.kernel.origins.get(pc as usize) else { return false };
    origin.addresses.iter().any(|(slot, offset)| {
        let Some(addresses) = m.r.d.get(*slot as usize) else { return false };
        crate::run::machine::lanes(m.mask).any(|lane| {
            let at = generic(addresses[lane].wrapping_add_signed(*offset));
            bytes.iter().any(|byte| byte.wrapping_sub(at) < WIDEST)
        })
    })
}

/// Lets a held fragment go if nothing else can run, or if others have run for long. Returns whether there was one.
pub(crate) fn release(
    direction: Option<&mut Box<Direction>>,
    residents: &mut [Resident],
    (stalled, instructions): (bool, u64),
) -> bool {
    let Some(direction) = direction.filter(|direction| direction.count > 0) else { return false };
    if !stalled && instructions - direction.released < PATIENCE {
        return false;
    }
    direction.released = instructions;
    let fragments = residents
        .iter_mut()
        .flat_map(|resident| &mut resident.warps)
        .flat_map(|warp| &mut warp.lanes.fragments);
    let held = fragments.filter_map(|fragment| match fragment.wait {
        Wait::Held(number) => Some((number, &mut fragment.wait)),
        _ => None,
    });
    let chosen = match direction.turns {
        Turns::LatestWarpFirst => held.max_by_key(|(number, _)| *number),
        _ => held.min_by_key(|(number, _)| *number),
    };
    let Some((_, wait)) = chosen else { return false };
    *wait = Wait::Released;
    true
}
