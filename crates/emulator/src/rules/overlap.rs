//! Lanes of one store that write different values to the same bytes.
//!
//! Lanes within one instruction are unordered, so PTX does not determine which value remains ("one write is guaranteed, but which
//! is undefined": CUDA C++ Programming Guide, compute capabilities, "Global memory" and "Shared memory"). It is no race between
//! threads that run apart: the address holds one of these values, whatever else runs. Here it holds that of the highest lane, or
//! of the lowest ([`KeptLane`]); a trial of either shows what depends on it. Equal values depend on nothing, and by a strong store
//! (`.volatile`, `.relaxed`, …) a kernel accepts any of the values.

use crate::front::program::Row;
use crate::memory::window::{Window, window_of};
use crate::rules::remarks::RowRemark;
use crate::run::launch::KeptLane;
use crate::run::machine::{LANES, Machine, Space, lanes};

impl Machine<'_> {
    /// Records a store of `bytes` at `addresses` plus the row's offset, all multiples of `T`, whose lanes write different values to
    /// one address. Returns what its lanes must write instead so that the value of [`KeptLane`] remains if lanes write in ascending
    /// order; `None` if that is `bytes`.
    #[inline]
    pub(crate) fn keep_lanes<const T: usize>(
        &mut self,
        row: &Row,
        space: Space,
        addresses: &[u64; LANES],
        bytes: &[[u8; T]; LANES],
    ) -> Option<[[u8; T]; LANES]> {
        if self.cta.races.is_none()
            || self.strong.is_some()
            || self.unmarks.is_some()
            || space == Space::Local
        {
            return None;
        }
        // Addresses mostly ascend with the lane.
        let mut ascending = true;
        for i in 1..LANES {
            ascending &= addresses[i - 1] < addresses[i];
        }
        if ascending { None } else { self.keep(row, space, addresses, bytes) }
    }

    #[inline(never)]
    fn keep<const T: usize>(
        &mut self,
        row: &Row,
        space: Space,
        addresses: &[u64; LANES],
        bytes: &[[u8; T]; LANES],
    ) -> Option<[[u8; T]; LANES]> {
        // A small filter of addresses seen so far: it suffices to show that the lanes of most stores do not overlap.
        let mut seen = [0u64; 4];
        let mut before = 0u32;
        for lane in lanes(self.mask) {
            let place = addresses[lane] / T as u64;
            let (word, bit) = ((place >> 6) as usize % 4, 1u64 << (place % 64));
            if seen[word] & bit != 0 {
                let other =
                    lanes(before).find(|o| addresses[*o] == addresses[lane] && bytes[*o] != bytes[lane]);
                if let Some(other) = other {
                    let address = addresses[lane].wrapping_add(row.imm);
                    // Each lane has its own local memory.
                    if space == Space::Generic && window_of(address).0 == Window::Local {
                        return None;
                    }
                    self.record_overlap(address, other, lane);
                    return match self.world.kept_lane {
                        KeptLane::Highest => None,
                        KeptLane::Lowest => Some(self.lowest_values(addresses, bytes)),
                    };
                }
            }
            seen[word] |= bit;
            before |= 1 << lane;
        }
        None
    }

    /// The values to store, with those of the lowest lane at each address in all lanes that store there.
    fn lowest_values<const T: usize>(
        &self,
        addresses: &[u64; LANES],
        bytes: &[[u8; T]; LANES],
    ) -> [[u8; T]; LANES] {
        let lowest = |lane: usize| lanes(self.mask).find(|first| addresses[*first] == addresses[lane]);
        std::array::from_fn(|lane| bytes[lowest(lane).unwrap_or(lane)])
    }

    #[cold]
    fn record_overlap(&mut self, address: u64, other: usize, lane: usize) {
        let what = format!(
            "lanes {other} and {lane} of one store write different values to address {address:#x}; PTX does not determine which \
             one remains"
        );
        let remark = RowRemark { cta: self.cta.id, warp: self.warp, lane, what, other: None, times: 1 };
        let place = (self.cta.grid, self.pc);
        self.world.overlaps.add(place, remark);
    }
}
