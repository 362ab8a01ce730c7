//! Vector clocks: what a warp knows of the other warps of its CTA, and of the warps of other CTAs.

use std::collections::HashMap;
use std::rc::Rc;

/// Warps of a CTA.
pub(super) const WARPS: usize = 32;

/// A vector clock over the warps of a CTA.
pub(super) type Clock = [u32; WARPS];

pub(super) fn join(to: &mut Clock, from: &Clock) {
    for (t, f) in to.iter_mut().zip(from) {
        *t = (*t).max(*f);
    }
}

/// The clocks of other CTAs, by number. Clones share their memory until one of them changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Others(Option<Rc<HashMap<u32, Rc<Clock>>>>);

impl Others {
    /// The clock of a warp of a CTA; 0 if nothing is known.
    pub(super) fn clock(&self, cta: u32, warp: u32) -> u32 {
        let known = self.0.as_ref().and_then(|all| all.get(&cta));
        known.map_or(0, |clock| clock[warp as usize % WARPS])
    }

    fn of(&self, cta: u32) -> Option<&Clock> {
        self.0.as_ref()?.get(&cta).map(|clock| &**clock)
    }

    fn add(&mut self, cta: u32, clock: &Clock) {
        let all = Rc::make_mut(self.0.get_or_insert_default());
        join(Rc::make_mut(all.entry(cta).or_default()), clock);
    }

    pub(super) fn join(&mut self, from: &Self) {
        let Some(source) = &from.0 else { return };
        let Some(all) = &mut self.0 else {
            self.0 = Some(source.clone());
            return;
        };
        if Rc::ptr_eq(all, source) {
            return;
        }
        let all = Rc::make_mut(all);
        for (cta, clock) in source.iter() {
            match all.get_mut(cta) {
                None => {
                    all.insert(*cta, clock.clone());
                }
                Some(own) if Rc::ptr_eq(own, clock) || own.iter().zip(&**clock).all(|(o, c)| o >= c) => {}
                Some(own) if own.iter().zip(&**clock).all(|(o, c)| o <= c) => *own = clock.clone(),
                Some(own) => join(Rc::make_mut(own), clock),
            }
        }
    }
}

/// What a warp knows: the warps of its own CTA, and those of others.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) own: Clock,
    pub(super) others: Others,
}

impl Known {
    pub(super) fn join(&mut self, from: &Self) {
        join(&mut self.own, &from.own);
        self.others.join(&from.others);
    }

    /// The same from outside every CTA: its own CTA is one of the others.
    pub(super) fn outside(&self, cta: u32) -> Others {
        let mut all = self.others.clone();
        all.add(cta, &self.own);
        all
    }

    /// Learns what another CTA has told.
    pub(super) fn learn(&mut self, told: &Others, cta: u32) {
        if let Some(clock) = told.of(cta) {
            join(&mut self.own, clock);
        }
        self.others.join(told);
    }
}

/// Joins an optional clock.
pub(super) fn join_some(to: &mut Option<Box<Known>>, from: Option<&Known>) {
    match (to, from) {
        (_, None) => {}
        (Some(to), Some(from)) => to.join(from),
        (to, Some(from)) => *to = Some(Box::new(from.clone())),
    }
}
