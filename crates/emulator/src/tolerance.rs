//! Violations that are none, or that a launch goes on behind: conflicts of equal values, and what [`Judge::Values`] lists.

use super::machine::Machine;
use super::races::Values;
use super::trap::{Fault, Judge, Law};

/// Bytes that are stored, and where.
pub(super) enum Stored<'a> {
    Shared { at: usize, new: &'a [u8] },
    Global { address: u64, new: &'a [u8] },
}

impl Machine<'_> {
    /// Goes on behind a violation that the launch need not end for.
    #[cold]
    pub(super) fn tolerate(&mut self, fault: Fault) -> Result<(), Fault> {
        if self.world.judge == Judge::Strict || !matches!(fault.law, Law::Race | Law::Uninitialised) {
            return Err(fault);
        }
        let (cta, warp) = (self.cta.id, self.warp);
        let found = self.world.tolerated.entry((self.cta.grid, self.pc, fault.law));
        found.or_insert((fault, cta, warp, 0)).3 += 1;
        Ok(())
    }

    /// A store that is in conflict: it is none where it changes nothing, which is remarked.
    #[cold]
    pub(super) fn stores_same(&mut self, place: Stored<'_>, lane: usize, fault: Fault) -> Result<(), Fault> {
        let Some(races) = self.cta.races.as_mut().filter(|_| self.strong.is_none() && fault.law == Law::Race)
        else {
            return self.tolerate(fault);
        };
        let same = match place {
            Stored::Shared { at, new } => {
                let held = self.cta.guarded.hit(at, new.len(), true);
                let old = self.cta.shared.data.get(at..at + new.len());
                !held && old.is_some_and(|old| races.stores_same(at, Values { old, new }, self.warp))
            }
            Stored::Global { address, new } => {
                let old = self.world.global.range(address, new.len());
                let all = &mut self.world.races;
                old.is_some_and(|old| races.stores_same_global(address, Values { old, new }, self.warp, all))
            }
        };
        if !same {
            return self.tolerate(fault);
        }
        self.said.push((lane, format!("{}; the value is the same, and no order changes it", fault.what)));
        Ok(())
    }

    /// A read that is in conflict: it is none behind one of several stores of the same value.
    #[cold]
    pub(super) fn reads_same(
        &mut self,
        global: bool,
        at: u64,
        len: usize,
        fault: Fault,
    ) -> Result<(), Fault> {
        let Some(races) = self.cta.races.as_mut().filter(|_| self.strong.is_none() && fault.law == Law::Race)
        else {
            return self.tolerate(fault);
        };
        let same = match global {
            true => races.reads_same_global(at, len, self.warp, &mut self.world.races),
            false => {
                !self.cta.guarded.hit(at as usize, len, false)
                    && races.reads_same(at as usize, len, self.warp)
            }
        };
        if same { Ok(()) } else { self.tolerate(fault) }
    }
}
