//! A word of global memory for each lane of a whole warp, evenly spaced in each half: what most kernels load most.
//!
//! Like [`shared_words`](super::shared_words), this is compiled for the vector instructions of the machine as a whole, and declines before
//! anything is loaded if anything is unusual; the access is then made by [`spans`](super::spans). It is for clusters that run apart, whose
//! conflicts in global memory are looked for in [`touched`](crate::run::touched), and for kernels of which nobody looks for races.

use pulp::NullaryFnOnce;

use crate::memory::spans::{HALF, Reach};
use crate::rules::shadow::{LINE, WORD, WordsOfLine};
use crate::run::machine::{LANES, Machine, World};

/// Loads the word at each lane's address plus an offset into a 32-bit register, and logs it; `None`, and nothing loaded, if anything is
/// unusual, or if the halves of the warp do not read a run, or one word, each. What has been recorded by then is recorded again, which
/// changes nothing.
pub(crate) struct LoadGlobalByPattern<'a, 'm> {
    pub(crate) m: &'a mut Machine<'m>,
    pub(crate) reach: Reach,
    pub(crate) offset: u64,
    pub(crate) to: u32,
}

impl NullaryFnOnce for LoadGlobalByPattern<'_, '_> {
    type Output = Option<()>;

    #[inline(always)]
    fn call(self) -> Option<()> {
        let Self { m, reach, offset, to } = self;
        m.load_global_by_pattern(reach, offset, to)
    }
}

/// Words by line: both halves of a warp may cross the end of one.
struct Few {
    all: [WordsOfLine; 4],
    count: usize,
}

impl Few {
    /// The words at two places, of which each has the lowest of `words` there.
    #[inline(always)]
    fn at(places: [usize; 2], words: u64) -> Self {
        let mut few = Self { all: [WordsOfLine::default(); 4], count: 0 };
        let mut add = |line: usize, words: u32| {
            // A buffer of 2^39 bytes does not fit into memory.
            let line = line as u32;
            match few.count.checked_sub(1).and_then(|last| few.all.get_mut(last)) {
                Some(last) if last.line == line => last.words |= words,
                _ => {
                    few.all[few.count % 4] = WordsOfLine { line, words };
                    few.count += 1;
                }
            }
        };
        for at in places {
            let words = words << (at % LINE / WORD);
            add(at / LINE, words as u32);
            if words >> 32 != 0 {
                add(at / LINE + 1, (words >> 32) as u32);
            }
        }
        few
    }

    #[inline(always)]
    fn lines(&self) -> &[WordsOfLine] {
        &self.all[..self.count]
    }
}

impl Machine<'_> {
    #[inline(always)]
    fn load_global_by_pattern(&mut self, reach: Reach, offset: u64, to: u32) -> Option<()> {
        if self.mask != !0 || self.strong.is_some() || self.unmarks.is_some() {
            return None;
        }
        let (first, step) = match reach {
            Reach::Run(first) => ([first, first.wrapping_add((HALF * WORD) as u64)], WORD as u64),
            Reach::Same(first) => ([first; 2], 0),
            Reach::Halves(first, step) if step == 0 || step == WORD as u64 => (first, step),
            _ => return None,
        };
        let (len, words) = if step == 0 { (WORD, 1) } else { (HALF * WORD, 0xFFFF) };
        let addresses = first.map(|at| at.wrapping_add(offset));
        let (low, high) = (addresses[0].min(addresses[1]), addresses[0].max(addresses[1]));
        if (low | high) % WORD as u64 != 0 {
            return None;
        }
        let who = self.in_epoch();
        let World { global, apart, check_init, watchpoints, .. } = &mut *self.world;
        let span = ((high - low) as usize).checked_add(len)?;
        let (index, at) = global.find(low, span)?;
        // Lines of the buffer are lines of the memory, but not of memory that the host lends.
        if at % LINE != low as usize % LINE || watchpoints.is_some() {
            return None;
        }
        let places = addresses.map(|address| at + (address - low) as usize);
        let few = Few::at(places, words);
        let region = global.region(index);
        let data = region.data.get(at..at + span)?;
        if *check_init && !region.lines_are_written(few.lines()) {
            return None;
        }
        let own = match apart.as_deref_mut() {
            Some(apart) => apart.touch_loads(index, few.lines(), who)?,
            // Nobody looks for conflicts, or the race detector does.
            None if self.cta.races.is_none() => false,
            None => return None,
        };
        let register: &mut [u32; LANES] = &mut self.r.w[to as usize];
        let (halves, _) = register.as_chunks_mut::<HALF>();
        for (to, from) in halves.iter_mut().zip(places) {
            let (from, _) = data.get(from - at..)?.as_chunks::<WORD>();
            match from.first_chunk::<HALF>().filter(|_| step != 0) {
                Some(run) => *to = run.map(u32::from_le_bytes),
                None => *to = [u32::from_le_bytes(*from.first()?); HALF],
            }
        }
        global.note_use_of(index, false);
        if let Some(races) = &mut self.cta.races {
            if own {
                races.meet_own_warp();
            }
            races.lane_log(self.warp).push_even_load(addresses, step, (WORD as u32, self.pc));
        }
        Some(())
    }
}
