//! Detects lanes of one store that write different values to the same bytes.
//!
//! Lanes within one instruction are unordered, so which value remains is undefined (CUDA C++ Programming Guide, "Global memory" and
//! "Shared memory" of compute capabilities; two weak conflicting writes are a data race, PTX ISA 8.7). Equal values are not a
//! fault, nor are strong stores (`.volatile`, `.relaxed`, …), by which a kernel accepts any of the values.

use crate::api::trap::{Fault, Rule};
use crate::memory::window::{Window, window_of};
use crate::run::machine::{LANES, Machine, Space, lanes};

impl Machine<'_> {
    /// The fault, with its lane, of a store that wrote `bytes` at `addresses` plus an offset, all multiples of `T`.
    #[inline]
    pub(crate) fn overlap<const T: usize>(
        &self,
        space: Space,
        addresses: &[u64; LANES],
        offset: u64,
        bytes: &[[u8; T]; LANES],
    ) -> Option<(Fault, usize)> {
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
        if ascending { None } else { self.search(space, addresses, offset, bytes) }
    }

    #[inline(never)]
    fn search<const T: usize>(
        &self,
        space: Space,
        addresses: &[u64; LANES],
        offset: u64,
        bytes: &[[u8; T]; LANES],
    ) -> Option<(Fault, usize)> {
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
                    let address = addresses[lane].wrapping_add(offset);
                    // Each lane has its own local memory.
                    let local = space == Space::Generic && window_of(address).0 == Window::Local;
                    return (!local).then(|| (clash(address, other, lane), lane));
                }
            }
            seen[word] |= bit;
            before |= 1 << lane;
        }
        None
    }
}

#[cold]
fn clash(address: u64, other: usize, lane: usize) -> Fault {
    let what = format!(
        "lanes {other} and {lane} of one store write different values to address {address:#x}; which one remains is undefined"
    );
    Fault::new(Rule::Race, what)
}
