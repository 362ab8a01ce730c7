//! Lanes that execute an instruction together, by member mask or as a whole warp.

use crate::api::trap::{Fault, Rule};
use crate::run::machine::{Flow, LANES, Machine, lanes};

/// The sets of lanes that specify the same member mask.
#[derive(Clone)]
pub(crate) struct Parties {
    masks: [u32; LANES],
    left: u32,
}

impl Parties {
    /// Whether all lanes of the warp form one set.
    #[inline]
    pub(crate) fn are_whole_warp(&self) -> bool {
        self.left == !0 && self.masks.iter().fold(!0, |all, mask| all & mask) == !0
    }
}

impl Iterator for Parties {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.left == 0 {
            return None;
        }
        let mask = self.masks[self.left.trailing_zeros() as usize % LANES];
        let same = self.masks.iter().enumerate().fold(0u32, |set, (i, m)| set | u32::from(*m == mask) << i);
        let party = same & self.left;
        self.left &= !party;
        Some(party)
    }
}

/// The fault of lanes that run an aligned instruction without the rest of their warp.
pub(crate) fn divergent(lanes: u32, live: u32) -> Fault {
    let what = format!("lanes {lanes:#010x} of {live:#010x} run an aligned instruction");
    Fault::new(Rule::Divergent, what)
}

impl Machine<'_> {
    /// The sets of lanes that execute together an instruction whose member masks are in a slot, or the flow to return instead.
    /// Lanes that specify the same mask form one set, which runs completely or not at all; exited lanes are not waited for.
    pub(crate) fn parties(&mut self, slot: u32) -> Result<Parties, Flow> {
        let masks = self.r.w[slot as usize];
        let all = Parties { masks, left: self.mask };
        if all.are_whole_warp() {
            return Ok(all);
        }
        for party in all.clone() {
            let lane = party.trailing_zeros() as usize % LANES;
            let wanted = masks[lane];
            if let Some(lane) = lanes(party & !wanted).next() {
                let what = format!("a lane that is not in its own member mask {wanted:#010x}");
                return Err(self.fail(Fault::new(Rule::Divergent, what).at(lane)));
            }
            let missing = wanted & self.live & !party;
            if missing == 0 {
                continue;
            }
            if missing & self.mask != 0 {
                let what =
                    format!("lanes {party:#010x} and {:#010x} name different masks", missing & self.mask);
                return Err(self.fail(Fault::new(Rule::Divergent, what).at(lane)));
            }
            if missing & self.fragment != 0 {
                let what =
                    format!("the member mask names lanes {missing:#010x}, which are disabled by their guard");
                return Err(self.fail(Fault::new(Rule::Divergent, what).at(lane)));
            }
            return Err(Flow::Converge(wanted & self.live));
        }
        Ok(all)
    }

    /// Checks that all live lanes of the warp run this row, as `.aligned` requires; otherwise returns the flow to follow. Diverged
    /// lanes may still arrive or exit.
    pub(crate) fn all_together(&mut self) -> Result<(), Flow> {
        if self.mask == self.live {
            return Ok(());
        }
        if self.mask == self.fragment {
            return Err(Flow::Align);
        }
        let fault = divergent(self.mask, self.live);
        Err(self.fail(fault))
    }
}
