//! Lanes that come back to a state: their registers, place, calls and local memory ([`livelock`](crate::run::livelock)).
//!
//! The fragments of a warp at some time are its parts. As long as no fragment has lanes of two parts, what the lanes of a part do
//! depends on that part alone: values pass between lanes only where they run together. So a part repeats for ever if all its lanes are
//! together again, at the same row, with the same values; when the other parts come to that does not matter. If lanes of two parts
//! meet, the parts are taken anew, and so they are if they have not come back for a number of turns, which then doubles: values may
//! take a while to settle.

use crate::run::frames::{self, Stack};
use crate::run::livelock::MOST_LOCAL;
use crate::run::machine::{LANES, Registers, lanes};
use crate::run::warp::Fragment;

/// Turns after which the parts are taken anew at first.
const TURNS: u32 = 4;

/// The parts of a warp.
pub(crate) struct Watch {
    state: State,
    parts: Vec<Part>,
    turns: u32,
    most_turns: u32,
    /// Whether lanes of several parts have met.
    mixed: bool,
}

/// Lanes that were together.
struct Part {
    pc: u32,
    mask: u32,
    stack: Stack,
    /// Whether it has run since.
    ran: bool,
    repeats: bool,
}

/// The values of a warp.
struct State {
    w: Vec<[u32; LANES]>,
    d: Vec<[u64; LANES]>,
    p: Vec<u32>,
    carry: u32,
    written: Vec<u32>,
    /// Local memory; empty if it is larger than [`MOST_LOCAL`].
    local: Vec<u8>,
}

impl State {
    fn take(registers: &Registers) -> Self {
        let Registers { w, d, p, carry, written, local, local_bytes, .. } = registers;
        Self {
            w: w.clone(),
            d: d.clone(),
            p: p.clone(),
            carry: *carry,
            written: written.clone(),
            local: if *local_bytes <= MOST_LOCAL { local.data.clone() } else { Vec::new() },
        }
    }

    /// Whether masked lanes have these values.
    fn is_that(&self, registers: &Registers, mask: u32) -> bool {
        fn are_equal<T: PartialEq>(one: &[[T; LANES]], other: &[[T; LANES]], mask: u32) -> bool {
            one.iter().zip(other).all(|(a, b)| a == b || lanes(mask).all(|lane| a[lane] == b[lane]))
        }
        let bits = |one: &[u32], other: &[u32]| one.iter().zip(other).all(|(a, b)| (a ^ b) & mask == 0);
        let Registers { w, d, p, carry, written, local, .. } = registers;
        let bytes = self.local.len() / LANES;
        let own = |all: &[u8], lane: usize| all.get(lane * bytes..(lane + 1) * bytes).map(<[u8]>::to_vec);
        (self.carry ^ carry) & mask == 0
            && bits(&self.p, p)
            && bits(&self.written, written)
            && are_equal(&self.w, w, mask)
            && are_equal(&self.d, d, mask)
            && (self.local.is_empty()
                || self.local.len() == local.data.len()
                    && lanes(mask).all(|lane| own(&self.local, lane) == own(&local.data, lane)))
    }
}

impl Watch {
    /// Takes the present fragments as parts.
    pub(crate) fn new(fragments: &[Fragment], registers: &Registers) -> Self {
        let part = |f: &Fragment| Part {
            pc: f.pc,
            mask: f.mask,
            stack: f.stack.clone(),
            ran: false,
            repeats: false,
        };
        Self {
            state: State::take(registers),
            parts: fragments.iter().map(part).collect(),
            turns: 0,
            most_turns: TURNS,
            mixed: false,
        }
    }

    /// The row at which these lanes, whose turn begins, may be a part again.
    pub(crate) fn begin(&mut self, mask: u32) -> Option<u32> {
        match self.parts.iter().find(|part| mask & part.mask != 0) {
            Some(part) if mask & !part.mask == 0 => Some(part.pc).filter(|_| !part.repeats),
            _ => {
                self.mixed = true;
                None
            }
        }
    }

    /// Called where lanes are at the row that [`Watch::begin`] returned. Returns whether they need not be compared again.
    #[cold]
    pub(crate) fn compare(&mut self, mask: u32, stack: &Stack, registers: &Registers, moved: bool) -> bool {
        let Some(part) = self.parts.iter_mut().find(|part| part.mask == mask) else { return false };
        part.repeats |= (moved || part.ran)
            && frames::are_equal(stack, &part.stack)
            && self.state.is_that(registers, mask);
        part.repeats
    }

    /// Called after a turn of these lanes.
    pub(crate) fn end(&mut self, mask: u32, fragments: &[Fragment], registers: &Registers) {
        self.turns += 1;
        self.parts.iter_mut().filter(|part| part.mask & mask != 0).for_each(|part| part.ran = true);
        let late = self.turns >= self.most_turns && self.parts.iter().any(|part| part.ran && !part.repeats);
        if self.mixed || late {
            let most_turns = if late { 2 * self.most_turns } else { self.most_turns };
            *self = Self { most_turns, ..Self::new(fragments, registers) };
        }
    }

    /// Whether each part repeats, or has not run and waits.
    pub(crate) fn repeats_or(&self, waits: impl Fn(u32) -> bool) -> bool {
        !self.mixed && self.parts.iter().all(|part| part.repeats || !part.ran && waits(part.mask))
    }

    pub(crate) fn any_repeats(&self) -> bool {
        self.parts.iter().any(|part| part.repeats)
    }
}
