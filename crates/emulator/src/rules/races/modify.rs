//! Relaxed read-modify-writes by the lanes of a warp, each word of memory once.
//!
//! The lanes execute one after another, each a strong read and a strong write of its word. To the detector, lanes of a warp are one
//! thread, and what it remembers of a word does not depend on how many of them access it: a second read takes the place of no other
//! one, and the second write leaves what the first has left ([`Accesses::step`](super::accesses::Accesses::step)). So do
//! [`Chains`](super::chain::Chains), in which only the order of accesses by different warps counts. Nothing is released or acquired if
//! nothing was released before and the warp has no fence.

use std::cell::Cell;

use super::accesses::{Accesses, Mark, Order};
use super::global::{GlobalOrder, MODIFIES, OBSERVES, STRONG, Who};
use super::{Epoch, GlobalRaces, Races, SharedOrder};
use crate::rules::shadow::{LINE, WORD, WordsOfLine};
use crate::run::machine::lanes;

impl Races {
    /// Whether relaxed read-modify-writes of a warp release and acquire nothing in shared memory, and with `world` in global memory.
    pub(crate) fn releases_nothing(&self, warp: u32, world: Option<&GlobalRaces>) -> bool {
        self.cluster.is_none()
            && self.places.is_empty()
            && world.is_none_or(|world| world.places.is_empty())
            && !self.beside[warp as usize].has_fenced()
    }

    /// Records read-modify-writes of words of shared memory, whose properties [`Races::set_strong`] has set. `None` if that is a race,
    /// or may be: then each lane's access tells. Else whether they conflict with accesses of their own warp.
    pub(crate) fn modify_shared(&mut self, lines: &[WordsOfLine], warp: u32) -> Option<bool> {
        debug_assert!(self.flags & (STRONG | MODIFIES) == STRONG | MODIFIES);
        let clock = &self.clocks[warp as usize];
        let by = Epoch::new(warp, clock[warp as usize], true);
        let own = Cell::new(false);
        let order = SharedOrder { by, clock, modifies: true, observed: |_| false, own_warp: &own };
        let step = twice(&order);
        for of in lines {
            self.shared.update_words(of.line as usize, of.words, &step).ok()?;
        }
        for of in lines {
            for word in lanes(of.words) {
                let at = of.line as usize * LINE + word * WORD;
                self.chains.modify(at as u64, by, self.flags & OBSERVES != 0);
            }
        }
        Some(own.get())
    }
}

/// Records a read and a write. Words mostly remember the same as the one before.
fn twice<M: Mark>(order: &impl Order<M>) -> impl Fn(&mut Accesses<M>) -> Result<(), (M, bool)> {
    let last = Cell::new((Accesses::default(), None));
    move |kept| {
        let (before, after) = last.get();
        let next = match after {
            Some(after) if before == *kept => after,
            _ => {
                let mut next = *kept;
                next.step(false, order)?;
                next.step(true, order)?;
                last.set((*kept, Some(next)));
                next
            }
        };
        *kept = next;
        Ok(())
    }
}

impl GlobalRaces {
    /// As [`Races::modify_shared`], for words of lines, which are counted from the `first` one of the memory.
    pub(crate) fn modify(
        &mut self,
        cta: &Races,
        (first, lines): (usize, &[WordsOfLine]),
        warp: u32,
    ) -> Option<bool> {
        let who = cta.who(warp);
        let own = Cell::new(false);
        let order = GlobalOrder {
            who,
            cta,
            waited: &self.waited,
            copies: &self.copies,
            asked: Cell::new((Who::default(), false)),
            observed: |_| false,
            own_warp: &own,
        };
        let step = twice(&order);
        for of in lines {
            super::global::words(&mut self.pages, first + of.line as usize, of.words, &step).ok()?;
        }
        for of in lines {
            for word in lanes(of.words) {
                let at = (first + of.line as usize) * LINE + word * WORD;
                let address = crate::memory::window::GLOBAL_BASE + at as u64;
                self.chains.modify(address, who, who.observes());
            }
        }
        Some(own.get())
    }
}
