//! The load that kernels execute most: a word of shared memory for each lane of a whole warp, by a pattern whose halves lie in one line
//! each.
//!
//! It does what [`Machine::log_reach`] and [`Machine::read_together`] do, in one function and without lists of lines. It declines before any
//! visible change if anything is unusual, and the load is made by these.

use pulp::NullaryFnOnce;

use crate::memory::spans::{HALF, Reach};
use crate::memory::window::{SHARED_START, SHARED_WINDOW};
use crate::rules::shadow::{LINE, WORD};
use crate::run::machine::{LANES, Machine};

/// Bytes of a word in the bitmap of written bytes.
const BYTES: u64 = (1 << WORD) - 1;

/// The bytes that half a warp reads if its lanes read neighbours.
const HALF_RUN: usize = HALF * WORD;

/// Loads the word at each lane's address, which has a pattern, plus an offset into a 32-bit register; `None`, and nothing done, if anything is
/// unusual.
///
/// It is compiled for the vector instructions of the machine as a whole: those that read the register next wait if it was written in smaller
/// parts than they read.
pub(crate) struct LoadSharedWord<'a, 'm> {
    pub(crate) m: &'a mut Machine<'m>,
    pub(crate) reach: Reach,
    pub(crate) offset: u64,
    pub(crate) to: u32,
}

impl NullaryFnOnce for LoadSharedWord<'_, '_> {
    type Output = Option<()>;

    #[inline(always)]
    fn call(self) -> Option<()> {
        let Self { m, reach, offset, to } = self;
        m.load_shared_word(reach, offset, to)
    }
}

impl Machine<'_> {
    #[inline(always)]
    fn load_shared_word(&mut self, reach: Reach, offset: u64, to: u32) -> Option<()> {
        if self.mask != !0
            || self.strong.is_some()
            || self.unmarks.is_some()
            || self.world.watchpoints.is_some()
            || self.cta.member.size() > 1
        {
            return None;
        }
        let (first, step) = match reach {
            Reach::Run(first) => ([first, first.wrapping_add(HALF_RUN as u64)], WORD as u64),
            Reach::Same(first) => ([first; 2], 0),
            Reach::Halves(first, step) if step == 0 || step == WORD as u64 => (first, step),
            _ => return None,
        };
        let (len, words, bytes) = if step == 0 { (WORD, 1, BYTES) } else { (HALF_RUN, 0xFFFF, !0) };
        let places = first.map(|at| at.wrapping_add(offset).wrapping_sub(u64::from(SHARED_START)));
        let both = (places[0] | places[1]) as usize;
        let end = self.cta.shared_end.checked_sub(len)?;
        // A word, or half a line, lies in one line if its address is a multiple of its size.
        if both % len != 0 || places[0] > end as u64 || places[1] > end as u64 {
            return None;
        }
        let places = places.map(|at| at as usize);
        let gap = &self.cta.gap;
        for at in places {
            if !gap.is_empty() && at < gap.end && gap.start < at + len || self.cta.guarded.hit(at, len, false)
            {
                return None;
            }
        }
        let shared = &self.cta.shared;
        let [one, two] = places;
        if self.world.check_init
            && !(shared.has_written(one / 64, bytes << (one % 64))
                && shared.has_written(two / 64, bytes << (two % 64)))
        {
            return None;
        }
        if let Some(races) = &mut self.cta.races {
            let path = self.world.path;
            let [first_words, second_words] = places.map(|at| words << (at % LINE / WORD));
            let ordered = if step == 0 {
                races.shared_word(path, places, self.warp)
            } else if one / LINE == two / LINE {
                races.shared_words(path, (one / LINE, first_words | second_words), false, self.warp)
            } else {
                races.shared_words(path, (one / LINE, first_words), false, self.warp)
                    && races.shared_words(path, (two / LINE, second_words), false, self.warp)
            };
            if !ordered {
                return None;
            }
            let logged = first.map(|at| at.wrapping_add(offset).wrapping_add(SHARED_WINDOW));
            races.lane_log(self.warp).push_even_load(logged, step, (WORD as u32, self.pc));
        }
        let halves = places.map(|at| self.cta.shared.data.get(at..at + len));
        let register: &mut [u32; LANES] = &mut self.r.w[to as usize];
        let (to, _) = register.as_chunks_mut::<HALF>();
        for (to, from) in to.iter_mut().zip(halves) {
            let (from, _) = from?.as_chunks::<WORD>();
            match from.first_chunk::<HALF>() {
                Some(run) => *to = run.map(u32::from_le_bytes),
                None => *to = [u32::from_le_bytes(*from.first()?); HALF],
            }
        }
        Some(())
    }
}
