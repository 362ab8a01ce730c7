//! Launches that run for ever: loops that only read memory which nobody changes.
//!
//! The proof. Suppose that during some time no bytes of memory that lanes share change, no lane ends, no CTA begins, no copy is pending,
//! and no instruction does anything but compute, load, call, wait at `bar.sync`, store to the lane's own memory, or store what is
//! already there. Then what lanes that only exchange values with each other do next depends on their own state alone: their
//! registers, their place and their calls, their local memory, and shared memory that is constant. If such lanes are twice in the same
//! state during this time ([`watched`](crate::run::watched)), they repeat the path in between for as long as memory stays the same. If
//! all lanes do so, or wait for what the others would have to do and did not do during a whole round of their paths, nobody ever
//! changes memory: by induction over the steps, all of them repeat for ever, and the report is no guess.
//!
//! What is no such loop:
//!
//! * A loop that counts its turns, and may give up, does not repeat its state: a register differs. One whose counter overflows
//!   repeats it only after as many turns as the counter has values.
//! * A clock is no part of the state, so reading one counts as a change. So does anything whose result depends on chance or on the
//!   schedule: `activemask`, a `try_wait` that may time out, `clusterlaunchcontrol`, output, `malloc`.
//! * The host may change managed, mapped and registered memory during a launch; a load or an atomic there counts as a change.
//! * Lanes that wait for others of their warp to reconverge may go on without them, since every lane makes progress. They are released
//!   before the report, like all waits that can end without the others ([`unblock`](crate::run::schedule)), and that is a change.
//! * CTAs that have not begun may be what the others wait for. They never begin, because these do not end: the report names them.
//!   So it is with work that a program submits later: launches run in the order of the calls.
//!
//! All of these end when the launch runs out of fuel or time, at the latest.
//!
//! Watching is costly, so it happens in windows: one each time the number of executed instructions has doubled, for a small part of
//! them or a few turns of each warp. The first change ends the watch. A watch changes no turn: the schedule is the same without it.
//! Where several threads run a grid ([`cores`](crate::run::cores)), a cluster that repeats for ever is left to the scheduler.

use ptx::{Instruction, Operand};

use crate::front::program::{NO_SLOT, NO_STEP, Row};
use crate::memory::window::Window as Space;
use crate::rules::undefined::effect::Outside;
use crate::run::cluster::RANK_SHIFT;
use crate::run::machine::{self, Machine, World, lanes};
use crate::run::resident::Resident;
use crate::run::warp::ready;
use crate::run::watched::Watch;

/// Instructions before the first window.
const FIRST: u64 = 1 << 16;
/// The length of a window: a part of the instructions so far, and at least so many.
const PART: u64 = 64;
const LEAST: u64 = 1 << 14;
/// Passes over all CTAs that a window lasts at most while some lanes are known to repeat and others are not: a random schedule may
/// leave a warp without a turn for long.
const MOST_PASSES: u32 = 32;
/// Bytes that a lane changes at most.
const MOST_BYTES: usize = 32;
/// Bytes of a thread's local memory that are part of the state at most. A store to a larger one counts as a change if it is one.
pub(crate) const MOST_LOCAL: usize = 4 << 10;

/// How an instruction affects what others can observe.
pub(crate) fn outside(i: &Instruction) -> Outside {
    let has = |word: &str| i.modifiers.iter().any(|m| m == word);
    // Clocks advance, and which lanes are active depends on the schedule.
    let varies = |operand: &Operand| match operand {
        Operand::Name(name) => name.starts_with("%clock") || name.starts_with("%globaltimer"),
        _ => false,
    };
    if i.operands.iter().any(varies) {
        return Outside::Acts;
    }
    match i.opcode.as_str() {
        "st" | "red" if has("async") || has("bulk") => Outside::Acts,
        "st" | "atom" | "red" => Outside::Stores,
        "bar" | "barrier" if has("cluster") || has("red") || has("arrive") => Outside::Acts,
        "mbarrier" if has("test_wait") || has("try_wait") => Outside::Polls,
        "ld" | "ldu" => Outside::Loads,
        "ldmatrix" | "prefetch" | "prefetchu" | "isspacep" | "cvta" | "mapa" | "getctarank" | "bra"
        | "brx" | "ret" | "bar" | "barrier" | "fence" | "membar" | "nanosleep" | "shfl" | "vote"
        | "match" | "redux" | "elect" => Outside::Nothing,
        "abs" | "add" | "addc" | "and" | "bfe" | "bfi" | "bfind" | "bmsk" | "brev" | "clz" | "cnot"
        | "copysign" | "cos" | "cvt" | "div" | "dp2a" | "dp4a" | "ex2" | "fma" | "fns" | "lg2" | "lop3"
        | "mad" | "mad24" | "madc" | "max" | "min" | "mma" | "mov" | "movmatrix" | "mul" | "mul24"
        | "neg" | "not" | "or" | "popc" | "prmt" | "rcp" | "rem" | "rsqrt" | "sad" | "selp" | "set"
        | "setp" | "shf" | "shl" | "shr" | "sin" | "slct" | "sqrt" | "sub" | "subc" | "szext" | "tanh"
        | "testp" | "xor" => Outside::Nothing,
        _ => Outside::Acts,
    }
}

/// The bytes at the addresses of a store, before it runs.
pub(crate) struct Before(Vec<(Place, [u8; MOST_BYTES])>);

/// Where a lane stores: the address in its space, and the lane if that is local memory.
#[derive(Clone, Copy)]
enum Place {
    Global(u64),
    Shared(usize),
    Local(usize),
}

/// Called before a row of a launch that is watched: records what it may change.
#[cold]
pub(crate) fn before(m: &mut Machine<'_>, row: &Row, pc: u32) -> Option<Before> {
    let kernel = m.kernel;
    let origin = kernel.origins.get(pc as usize)?;
    if origin.step == NO_STEP {
        return None;
    }
    let outside = kernel.effects.get(origin.step as usize)?.outside;
    if origin.last && matches!(outside, Outside::Loads | Outside::Stores | Outside::Polls) {
        m.world.read = Some(pc);
    }
    match outside {
        Outside::Nothing => None,
        Outside::Polls if !m.world.gives_up => None,
        Outside::Polls | Outside::Acts => {
            m.world.changed();
            None
        }
        // A row of the instruction that computes an operand names no address; the access is its last row.
        Outside::Loads | Outside::Stores if !origin.last => None,
        Outside::Loads => {
            let (slot, offset) = origin.addresses[0];
            let space = machine::Space::numbered(row.b);
            // Mostly the host changes nothing, wherever the lanes read.
            if slot == NO_SLOT || !m.world.global.host_may_change_any() {
                return None;
            }
            for lane in lanes(m.mask) {
                let address = m.r.d[slot as usize][lane].wrapping_add_signed(offset);
                if let Ok((Space::Global, at)) = m.split(space, address)
                    && host_may_change(m, at)
                {
                    m.world.changed();
                    return None;
                }
            }
            None
        }
        Outside::Stores => {
            let (slot, offset) = origin.addresses[0];
            if slot == NO_SLOT {
                m.world.changed();
                return None;
            }
            let space = machine::Space::numbered(row.b);
            let mut held = Vec::new();
            for lane in lanes(m.mask) {
                let address = m.r.d[slot as usize][lane].wrapping_add_signed(offset);
                let place = match m.split(space, address) {
                    Ok((Space::Global, at)) if !host_may_change(m, at) => Place::Global(at),
                    Ok((Space::Shared, at)) if at >> RANK_SHIFT == 0 => match m.shared_at(at, 1) {
                        Ok(at) => Place::Shared(at),
                        Err(_) => continue,
                    },
                    Ok((Space::Local, _)) if m.r.local_bytes <= MOST_LOCAL => continue,
                    Ok((Space::Local, at)) => Place::Local(lane * m.r.local_bytes + at as usize),
                    // Of another CTA or the host; errors stop the launch.
                    _ => {
                        m.world.changed();
                        return None;
                    }
                };
                held.push((place, bytes(m, place)));
            }
            Some(Before(held))
        }
    }
}

/// Whether the host may change the memory at an address during the launch.
fn host_may_change(m: &mut Machine<'_>, address: u64) -> bool {
    let found = m.world.global.locate(address, 1);
    found.is_ok_and(|(index, _)| m.world.global.region(index).may_change())
}

/// Called after the row.
#[cold]
pub(crate) fn after(m: &mut Machine<'_>, before: &Before) {
    if before.0.iter().any(|(place, held)| bytes(m, *place) != *held) {
        m.world.changed();
    }
}

/// The bytes from a place on, with zeros behind the end of its memory.
fn bytes(m: &mut Machine<'_>, place: Place) -> [u8; MOST_BYTES] {
    let (region, at) = match place {
        Place::Global(at) => match m.world.global.locate(at, 1) {
            Ok((index, place)) => (m.world.global.region(index), place),
            Err(_) => return [0; MOST_BYTES],
        },
        Place::Shared(at) => (&m.cta.shared, at),
        Place::Local(at) => (&m.r.local, at),
    };
    region.get(at).unwrap_or_else(|| {
        let mut out = [0; MOST_BYTES];
        for (n, byte) in out.iter_mut().enumerate() {
            let Some([found]) = region.get::<1>(at + n) else { break };
            *byte = found;
        }
        out
    })
}

/// A window.
struct Open {
    /// The number of instructions at which it closes.
    until: u64,
    changes: u64,
    passes: u32,
}

/// Watches a launch in windows.
pub(crate) struct Livelock {
    next: u64,
    open: Option<Open>,
}

impl Default for Livelock {
    fn default() -> Self {
        Self { next: FIRST, open: None }
    }
}

impl Livelock {
    /// Watches one of many clusters, whose counts begin anew: later, because most do not run that long.
    pub(crate) fn of_cluster() -> Self {
        Self { next: FIRST << 5, open: None }
    }

    /// Called after a pass over all CTAs; returns whether all lanes repeat their states for ever, or wait for those that do.
    #[inline]
    pub(crate) fn passed(
        &mut self,
        instructions: u64,
        residents: &mut [Resident],
        world: &mut World,
    ) -> bool {
        if self.open.is_none() && instructions < self.next {
            return false;
        }
        self.pass(instructions, residents, world)
    }

    #[cold]
    fn pass(&mut self, instructions: u64, residents: &mut [Resident], world: &mut World) -> bool {
        let quiet = residents.iter().all(|resident| resident.cta.pending.is_empty());
        let Some(open) = &mut self.open else {
            if !quiet {
                self.next = instructions + instructions / 4;
                return false;
            }
            let until = instructions + LEAST.max(instructions / PART);
            self.open = Some(Open { until, changes: world.changes, passes: 0 });
            world.watching = true;
            for warp in residents.iter_mut().flat_map(|resident| &mut resident.warps) {
                warp.watch = Some(Box::new(Watch::new(&warp.lanes.fragments, &warp.registers)));
            }
            return false;
        };
        open.passes += 1;
        let is_constant = quiet && open.changes == world.changes;
        let (mut all, mut any) = (true, false);
        if is_constant {
            for Resident { cta, warps, .. } in residents.iter() {
                for warp in warps.iter().filter(|warp| warp.live != 0) {
                    let Some(watch) = &warp.watch else { return self.close(instructions, residents, world) };
                    let waits = |lanes: u32| {
                        !warp.lanes.fragments.iter().any(|f| f.mask & lanes != 0 && ready(f, cta, world))
                    };
                    all &= watch.repeats_or(waits);
                    any |= watch.any_repeats();
                }
            }
            if all {
                self.close(instructions, residents, world);
                return true;
            }
        }
        if !is_constant || instructions >= open.until && !(any && open.passes < MOST_PASSES) {
            self.close(instructions, residents, world);
        }
        false
    }

    /// Ends the window; returns false.
    fn close(&mut self, instructions: u64, residents: &mut [Resident], world: &mut World) -> bool {
        world.watching = false;
        residents.iter_mut().flat_map(|resident| &mut resident.warps).for_each(|warp| warp.watch = None);
        self.open = None;
        self.next = 2 * instructions.max(FIRST / 2);
        false
    }
}
